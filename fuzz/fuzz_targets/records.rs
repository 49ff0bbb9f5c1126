//! Any bytes as the records of a chunk, in any codec. Accepted records are readable, have their declared
//! length, and pass through a builder unchanged. Memory stays below the limit.
//!
//! The first byte is the attributes, the second the number of records, the rest the chunk's body.

#![no_main]

use tidemill_wire::{
    chunk::{CHUNK_HEAD_BYTES, ChunkHead, seal},
    records::{
        ChunkBuilder, Compression, Record, Records, RecordsLimit, check_records, inflate,
        read_control,
    },
};

const LIMIT: RecordsLimit = RecordsLimit { inflated_bytes_max: 1 << 20, record_bytes_max: 1 << 16 };

fn read<'a>(head: &ChunkHead, plain: &'a [u8]) -> Vec<Record<'a>> {
    Records::new(head, plain).collect::<Result<_, _>>().expect("what was accepted is read")
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let [attributes, count, body @ ..] = bytes else { return };
    let mut chunk = [&[0; CHUNK_HEAD_BYTES], body].concat();
    chunk[16] = 2;
    let length = (chunk.len() - 12) as i32;
    chunk[8..12].copy_from_slice(&length.to_be_bytes());
    let head = ChunkHead::read(&chunk).expect("the length is right");
    let record_count = i32::from(*count);
    let head = ChunkHead { attributes: i16::from(*attributes), record_count, ..head };
    seal(&mut chunk, &head);

    let _marker = read_control(&chunk);
    let mut scratch = Vec::new();
    let plain = inflate(&head, body, LIMIT.inflated_bytes_max, &mut scratch);
    let seen = check_records(&chunk, &head, LIMIT);
    if let Ok(plain) = &plain {
        let _any = Records::new(&head, plain).flatten().map(|it| it.headers.count()).sum::<usize>();
    }
    if let Ok(seen) = seen {
        let plain = plain.expect("what was accepted inflates");
        assert_eq!(plain.len(), seen.plain_bytes);
        let records = read(&head, plain);
        assert!(records.iter().map(|it| it.offset_delta).eq(0..record_count));
        let mut builder = ChunkBuilder::new(Compression::NONE);
        for record in &records {
            let Record { timestamp_ms, key, value, headers, .. } = *record;
            if builder.append(timestamp_ms, key, value, headers).is_err() {
                return; // Timestamps that are too far from the first one.
            }
        }
        if let Some(built) = builder.finish() {
            let built_head = ChunkHead::check(&built).expect("it was just built");
            assert_eq!(read(&built_head, &built[CHUNK_HEAD_BYTES..]), records);
        }
    }
    assert!(scratch.capacity() <= LIMIT.inflated_bytes_max + 1);
});
