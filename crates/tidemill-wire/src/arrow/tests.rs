//! Streams that pyarrow made: 100 numbers by ZSTD, and 100 texts of a dictionary by LZ4.

use super::*;

const ZSTD: &[u8] = include_bytes!("compressed-zstd.arrows");
const LZ4: &[u8] = include_bytes!("compressed-lz4.arrows");

#[test]
fn compressed_batches_and_dictionaries_are_refused_by_their_heads() {
    for (bytes, codec) in [(ZSTD, "ZSTD"), (LZ4, "LZ4")] {
        let why = Err(format!("it is compressed by {codec}"));
        assert_eq!(refuse_compressed_stream(bytes), why);
    }
}

#[test]
fn a_stream_that_is_cut_off_is_an_error_or_refused() {
    let schema = 8 + u32::from_le_bytes([ZSTD[4], ZSTD[5], ZSTD[6], ZSTD[7]]) as usize;
    assert_eq!(refuse_compressed_stream(&ZSTD[..schema]), Ok(()), "a schema alone is one");
    for end in (1..schema).chain(schema + 1..ZSTD.len()) {
        assert!(refuse_compressed_stream(&ZSTD[..end]).is_err(), "of {end} bytes");
    }
}

/// A file with these messages, and a footer that nobody reads.
fn file_of(messages: &[u8]) -> Vec<u8> {
    let footer = [7; 12];
    let length = (footer.len() as u32).to_le_bytes();
    [&MAGIC[..], &[0; 24], messages, &footer, &length, &MAGIC[..6]].concat()
}

#[test]
fn a_file_is_refused_as_its_messages_are() {
    let schema = 8 + u32::from_le_bytes([ZSTD[4], ZSTD[5], ZSTD[6], ZSTD[7]]) as usize;
    assert_eq!(refuse_compressed_file(&file_of(&ZSTD[..schema])), Ok(&ZSTD[..schema]));
    for (bytes, codec) in [(ZSTD, "ZSTD"), (LZ4, "LZ4")] {
        let why = Err(format!("it is compressed by {codec}"));
        assert_eq!(refuse_compressed_file(&file_of(bytes)), why);
    }
    let whole = file_of(&ZSTD[..schema]);
    for end in 0..whole.len() {
        assert!(refuse_compressed_file(&whole[..end]).is_err(), "of {end} bytes");
    }
}
