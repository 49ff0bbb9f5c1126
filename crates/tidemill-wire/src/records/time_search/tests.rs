//! Times are those that a reader of the records sees.

use super::*;
use crate::{
    chunk::stamp_append_time,
    records::{ChunkBuilder, Compression, Headers, Records, testing::*},
};
use proptest::prelude::*;

fn head(chunk: &[u8]) -> ChunkHead {
    ChunkHead::check(chunk).unwrap()
}

fn look(chunk: &[u8], from_delta: i32, timestamp_ms: i64, most: usize) -> TimeMatches {
    search_times(chunk, &head(chunk), from_delta, timestamp_ms, most).unwrap()
}

fn by_reading(chunk: &[u8], from_delta: i32, timestamp_ms: i64) -> TimeMatches {
    let records = read(chunk).unwrap();
    let times = records
        .iter()
        .zip(0..)
        .map(|(it, delta)| RecordTime { offset_delta: delta, timestamp_ms: it.timestamp_ms });
    let times: Vec<_> = times.filter(|it| it.offset_delta >= from_delta).collect();
    let first = times.iter().copied().find(|it| it.timestamp_ms >= timestamp_ms);
    // The first of several that are the largest.
    let latest = times.iter().copied().rev().max_by_key(|it| it.timestamp_ms);
    TimeMatches { first, latest }
}

proptest! {
    #[test]
    fn what_is_seen_is_what_a_reader_sees(
        records in any_records(),
        codec in any_codec(),
        from_delta in 0..45i32,
        timestamp_ms in -5i64..70_000,
        stamped in any::<bool>(),
    ) {
        let mut chunk = build(Compression::of(codec), &records);
        if stamped {
            stamp_append_time(&mut chunk, 30_000);
        }
        let seen = look(&chunk, from_delta, timestamp_ms, ROOMY.inflated_bytes_max);
        prop_assert_eq!(seen, by_reading(&chunk, from_delta, timestamp_ms));
    }
}

#[test]
fn gaps_between_offsets_are_walked() {
    // Length, attributes, timestamp delta, offset delta, no key, no value, no headers.
    let record = |delta: u8| [12, 0, 2 * delta, 2 * delta, 1, 1, 0];
    let mut chunk = build(Compression::NONE, &lines(3));
    let head = ChunkHead { bytes: CHUNK_HEAD_BYTES + 21, ..head(&chunk) };
    chunk.truncate(CHUNK_HEAD_BYTES);
    chunk.extend([record(0), record(4), record(9)].concat());
    let seen = search_times(&chunk, &head, 1, 5, 0).unwrap();
    let last = RecordTime { offset_delta: 9, timestamp_ms: 9 };
    assert_eq!(seen, TimeMatches { first: Some(last), latest: Some(last) });
    let plain = &chunk[CHUNK_HEAD_BYTES..];
    assert!(Records::new(&head, plain).all(|it| it.is_ok()));
}

#[test]
fn records_are_inflated_up_to_the_limit_alone() {
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        let mut builder = ChunkBuilder::new(Compression::of(codec));
        for time_ms in 1..=8 {
            builder.append(time_ms, None, Some(&[0; 1 << 20]), Headers::NONE).unwrap();
        }
        let chunk = builder.finish().unwrap();
        let within = |time_ms: i64, most| search_times(&chunk, &head(&chunk), 0, time_ms, most);
        let limit_bytes = 4 << 20;
        assert_eq!(
            within(8, limit_bytes),
            Err(RecordsError::TooLarge { limit_bytes }),
            "{codec:?}: it comes after that"
        );
        let last = RecordTime { offset_delta: 7, timestamp_ms: 8 };
        assert_eq!(within(8, 9 << 20).unwrap().first, Some(last), "{codec:?}");
    }
}
