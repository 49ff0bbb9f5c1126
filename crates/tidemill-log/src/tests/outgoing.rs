//! Chunks that are sent out of their files, on a real disk.

use super::*;
use bytes::Bytes;
use tempfile::TempDir;

/// A log that keeps nothing in memory, and small and long chunks in it.
fn filled() -> (TempDir, Log, Arc<Streamlet>, Vec<Vec<u8>>) {
    filled_with(&World::real(), LogOptions { memory_bytes: ByteSize(0), ..LogOptions::default() })
}

fn filled_with(world: &World, options: LogOptions) -> (TempDir, Log, Arc<Streamlet>, Vec<Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let log = Log::open(world, folder.path(), options).unwrap();
    let spec = StreamSpec { segment_bytes: ByteSize(512 << 10), ..spec() };
    let streamlet = log.create("s", spec).unwrap().streamlet(0).unwrap();
    let values: Vec<Vec<u8>> = (0..40u8)
        .map(|index| vec![index; if index % 5 == 4 { 100 } else { 40_000 + usize::from(index) }])
        .collect();
    values.iter().for_each(|value| put(&streamlet, value).unwrap().wait().unwrap());
    (folder, log, streamlet, values)
}

fn bytes_of(served: &OutgoingChunk) -> Vec<u8> {
    match served {
        OutgoingChunk::Memory(bytes) => bytes.to_vec(),
        OutgoingChunk::File(chunk) => {
            assert!(chunk.bytes() > 40_000);
            chunk.read().unwrap().to_vec()
        }
    }
}

/// All chunks, by reads to send of at most `max_bytes`.
fn all_served(streamlet: &Streamlet, max_bytes: usize) -> Vec<OutgoingChunk> {
    let (mut cursor, mut all) = (ReadCursor::default(), Vec::new());
    let mut offset = streamlet.start_offset();
    loop {
        let limit = ReadLimit { max_bytes, ..ReadLimit::default() };
        let found = streamlet.read_to_send(&mut cursor, offset, limit).unwrap();
        if found.chunks.is_empty() {
            return all;
        }
        offset = found.next_offset;
        all.extend(found.chunks);
    }
}

#[test]
fn what_is_sent_from_files_is_what_was_written() {
    let (_folder, _log, streamlet, values) = filled();
    for max_bytes in [1, 60_000, 200_000, 1 << 20] {
        let served = all_served(&streamlet, max_bytes);
        let found: Vec<Vec<u8>> = served.iter().map(|it| value(&bytes_of(it)).to_vec()).collect();
        assert_eq!(found, values, "{max_bytes} bytes at once");
        let files = served.iter().filter(|it| matches!(it, OutgoingChunk::File(_))).count();
        assert_eq!(files, 32, "long chunks, and no others");
    }
}

#[test]
fn what_is_in_memory_is_not_read_out_of_files() {
    let (_folder, _log, streamlet, _) = filled_with(&World::real(), LogOptions::default());
    let long = |it: &OutgoingChunk| match it {
        OutgoingChunk::Memory(_) => None,
        OutgoingChunk::File(chunk) => Some(chunk.in_memory()),
    };
    let found: Vec<Option<Bytes>> =
        all_served(&streamlet, 1 << 20).iter().filter_map(long).collect();
    assert_eq!(found.len(), 32);
    assert!(found.iter().all(Option::is_some));
    let (_folder, _log, streamlet, _) = filled();
    assert!(all_served(&streamlet, 1 << 20).iter().filter_map(long).all(|it| it.is_none()));
}

#[test]
fn row_38_what_waits_to_be_sent_is_never_anothers() {
    let (folder, log, streamlet, values) = filled();
    let served = all_served(&streamlet, 1 << 20);
    let stream = log.get("s").unwrap();
    stream.delete_records(&streamlet, 20).unwrap();
    let pooled = || std::fs::read_dir(folder.path().join("pool")).map_or(0, Iterator::count);
    assert!(pooled() > 0, "files are used again");
    // By another stream, with chunks that are as long and stand where the old ones stood.
    let other = log.create("other", StreamSpec { segment_bytes: ByteSize(512 << 10), ..spec() });
    let other = other.unwrap().streamlet(0).unwrap();
    for value in &values {
        put(&other, &vec![0xee; value.len()]).unwrap().wait().unwrap();
    }
    let (mut there, mut gone) = (0, 0);
    for (served, expected) in served.iter().zip(&values) {
        let OutgoingChunk::File(chunk) = served else { continue };
        match chunk.read() {
            Ok(bytes) => {
                assert_eq!(value(&bytes), expected);
                there += 1;
            }
            Err(ReadError::Missing { from, next, .. }) => {
                assert_eq!(next, from + 1);
                gone += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(there > 0 && gone > 0, "{there} are there, {gone} gone");
}

/// Flips a bit in the middle of the third chunk.
fn damage_the_third(folder: &TempDir) {
    let mut segments: Vec<PathBuf> = std::fs::read_dir(folder.path().join("streams"))
        .unwrap()
        .flat_map(|it| std::fs::read_dir(it.unwrap().path()).unwrap())
        .map(|it| it.unwrap().path())
        .filter(|it| it.extension().is_some_and(|it| it == "seg"))
        .collect();
    segments.sort();
    let bytes = std::fs::read(&segments[0]).unwrap();
    let place = bytes.windows(64).position(|it| it == [2; 64]).unwrap() + 9_000;
    let file = std::fs::OpenOptions::new().write(true).open(&segments[0]).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[bytes[place] ^ 1], place as u64).unwrap();
}

#[test]
fn row_20_damage_is_found_when_a_chunk_is_sent_and_then_told() {
    let (folder, _log, streamlet, values) = filled();
    let served = all_served(&streamlet, 1 << 20);
    damage_the_third(&folder);
    let found = |served: &OutgoingChunk| match served {
        OutgoingChunk::Memory(bytes) => Ok(bytes.clone()),
        OutgoingChunk::File(chunk) => chunk.read(),
    };
    for (index, (served, expected)) in served.iter().zip(&values).enumerate() {
        match (index, found(served)) {
            (2, Err(ReadError::Corrupt { offset: 2, .. })) => {}
            (2, other) => panic!("{other:?}"),
            (_, bytes) => assert_eq!(value(&bytes.unwrap()), expected),
        }
    }
    // Who reads there now is told before anything is sent.
    let mut cursor = ReadCursor::default();
    let good = streamlet.read_to_send(&mut cursor, 0, ReadLimit::default()).unwrap();
    assert_eq!((good.chunks.len(), good.next_offset), (2, 2), "what stands before it");
    let refused = streamlet.read_to_send(&mut cursor, 2, ReadLimit::default());
    assert!(matches!(refused, Err(ReadError::Corrupt { offset: 2, .. })), "{refused:?}");
    let behind = streamlet.read_to_send(&mut cursor, 3, ReadLimit::default()).unwrap();
    assert_eq!(value(&bytes_of(&behind.chunks[0])), values[3]);
}

#[test]
fn one_cursor_reads_and_sends_in_turn() {
    let (_folder, _log, streamlet, values) = filled();
    let mut cursor = ReadCursor::default();
    let one = ReadLimit { max_bytes: 1, ..ReadLimit::default() };
    for (offset, expected) in values.iter().enumerate() {
        let offset = offset as i64;
        let sent = streamlet.read_to_send(&mut cursor, offset, one).unwrap();
        assert_eq!(value(&bytes_of(&sent.chunks[0])), expected);
        // The next one is looked at, and left; then somebody wants its bytes.
        let none = ReadLimit { max_bytes: 0, at_least_one: false, ..one };
        assert!(streamlet.read_to_send(&mut cursor, offset + 1, none).unwrap().chunks.is_empty());
        let read = streamlet.read(&mut cursor, offset + 1, none).unwrap();
        assert!(read.chunks.is_empty());
        if offset % 2 == 0 && offset + 1 < values.len() as i64 {
            let read = streamlet.read(&mut cursor, offset + 1, one).unwrap();
            assert_eq!(value(&read.chunks[0]), &values[offset as usize + 1]);
        }
    }
}
