//! What is built is read back, by us and by another implementation, and is as long as it was said.

use super::*;
use crate::{
    chunk::CHUNK_HEAD_BYTES,
    records::{Headers, check_records, testing::*},
};
use bytes::{Bytes, BytesMut};
use kacrab_protocol::record::{Record as TheirRecord, RecordBatch, RecordHeader};
use proptest::prelude::*;

/// Records as the other implementation has them.
fn theirs(records: &[Owned], origin: Origin) -> RecordBatch {
    let base = records[0].timestamp_ms;
    let own = |bytes: &Vec<u8>| Bytes::copy_from_slice(bytes);
    let record = |(index, record): (usize, &Owned)| TheirRecord {
        attributes: 0,
        timestamp_delta: record.timestamp_ms - base,
        offset_delta: index as i32,
        key: record.key.as_ref().map(own),
        value: record.value.as_ref().map(own),
        headers: record
            .headers
            .iter()
            .map(|(key, value)| RecordHeader { key: own(key), value: value.as_ref().map(own) })
            .collect(),
    };
    RecordBatch {
        base_offset: 0,
        partition_leader_epoch: -1,
        magic: 2,
        attributes: if origin.is_transactional { 0x10 } else { 0 },
        last_offset_delta: records.len() as i32 - 1,
        first_timestamp: base,
        max_timestamp: records.iter().map(|it| it.timestamp_ms).max().unwrap(),
        producer_id: origin.producer_id,
        producer_epoch: origin.producer_epoch,
        base_sequence: origin.base_sequence,
        records: records.iter().enumerate().map(record).collect(),
    }
}

proptest! {
    #[test]
    fn every_codec_gives_back_what_went_in(
        records in any_records(),
        codec in any_codec(),
        level in proptest::option::of(-2i32..30),
    ) {
        let mut builder = ChunkBuilder::new(Compression { codec, level });
        let mut most = builder.len_bytes();
        for record in &records {
            record.append_to(&mut builder);
            let headers = record.headers.iter();
            let headers = headers.map(|(key, value)| Header { key, value: value.as_deref() });
            let (key, value) = (record.key.as_deref(), record.value.as_deref());
            most += ChunkBuilder::record_bytes_most(key, value, headers);
            prop_assert!(builder.len_bytes() <= most);
            most = builder.len_bytes();
        }
        let (plain, count) = (builder.len_bytes(), builder.record_count());
        let chunk = builder.finish().unwrap();
        prop_assert!(chunk.len() <= plain);
        prop_assert_eq!(count as usize, records.len());
        let head = ChunkHead::check(&chunk).unwrap();
        let is_plain = head.codec() == Ok(Codec::None);
        prop_assert!(is_plain && chunk.len() == plain || head.codec() == Ok(codec));
        let seen = check_records(&chunk, &head, ROOMY).unwrap();
        prop_assert_eq!(seen.plain_bytes + CHUNK_HEAD_BYTES, plain);
        prop_assert_eq!(seen.max_timestamp_ms, head.max_timestamp_ms);
        prop_assert_eq!(seen.has_keyless, records.iter().any(|it| it.key.is_none()));
        prop_assert_eq!(read(&chunk).unwrap(), records);
    }

    #[test]
    fn another_implementation_writes_the_same_bytes_and_reads_ours(
        records in any_records(),
        transactional in any::<bool>(),
    ) {
        let origin = Origin {
            producer_id: 9_000_000_001,
            producer_epoch: 7,
            base_sequence: 1 << 30,
            is_transactional: transactional,
        };
        let mut builder = ChunkBuilder::new(Compression::NONE);
        builder.set_origin(origin);
        records.iter().for_each(|record| { record.append_to(&mut builder); });
        let ours = builder.finish().unwrap();
        let their_batch = theirs(&records, origin);
        let mut their_bytes = BytesMut::new();
        their_batch.encode(&mut their_bytes).unwrap();
        prop_assert_eq!(&their_bytes[..], &ours[..]);
        prop_assert_eq!(RecordBatch::decode(&mut Bytes::from(ours)).unwrap(), their_batch);
    }
}

#[test]
fn a_builder_makes_chunk_after_chunk() {
    for codec in CODECS {
        let mut builder = ChunkBuilder::new(Compression::of(codec));
        assert_eq!(builder.finish(), None, "nothing was appended");
        let (first, second) = (lines(300), lines(20));
        let mut sizes = Vec::new();
        for _ in 0..3 {
            for records in [&first, &second] {
                assert!(builder.is_empty());
                assert_eq!(builder.len_bytes(), CHUNK_HEAD_BYTES);
                records.iter().for_each(|it| assert!(it.append_to(&mut builder) < 300));
                let chunk = builder.finish().unwrap();
                assert_eq!(&read(&chunk).unwrap(), records, "{codec:?}");
                sizes.push(chunk.len());
                builder.give_back(chunk);
            }
        }
        assert_eq!(sizes[..2], sizes[4..], "{codec:?}: what was made before does not show");
        assert!(codec == Codec::None || sizes[0] < 300 * 100, "{codec:?}: {sizes:?}");
    }
}

#[test]
fn what_does_not_compress_goes_out_as_it_is() {
    let mut state = 1_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    let value: Vec<u8> = std::iter::repeat_with(&mut noise).take(100_000).collect();
    for codec in CODECS {
        let records = [Owned::value(&value)];
        let chunk = build(Compression::of(codec), &records);
        assert_eq!(ChunkHead::check(&chunk).unwrap().codec(), Ok(Codec::None));
        assert_eq!(read(&chunk).unwrap(), records);
    }
}

#[test]
fn timestamps_too_far_apart_are_refused_and_leave_the_chunk_as_it_was() {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    assert_eq!(builder.append(-2, None, Some(b"a"), Headers::NONE), Ok(0));
    let before = builder.len_bytes();
    let refused = builder.append(i64::MAX, None, Some(b"b"), Headers::NONE);
    assert_eq!(refused, Err(RecordRefused::Timestamp(i64::MAX)));
    assert_eq!((builder.len_bytes(), builder.record_count()), (before, 1));
    assert_eq!(builder.append(i64::MAX - 2, None, Some(b"c"), Headers::NONE), Ok(1));
    let chunk = builder.finish().unwrap();
    let head = ChunkHead::check(&chunk).unwrap();
    assert_eq!((head.base_timestamp_ms, head.max_timestamp_ms), (-2, i64::MAX - 2));
    let times: Vec<i64> = read(&chunk).unwrap().iter().map(|it| it.timestamp_ms).collect();
    assert_eq!(times, [-2, i64::MAX - 2]);
}

#[test]
fn the_origin_stays_until_it_is_set_again() {
    let mut builder = ChunkBuilder::new(Compression::of(Codec::Lz4));
    let origin =
        Origin { producer_id: 5, producer_epoch: 0, base_sequence: 0, is_transactional: true };
    builder.set_origin(origin);
    for (origin, transactional) in [(origin, true), (origin, true), (Origin::NONE, false)] {
        builder.set_origin(origin);
        lines(9).iter().for_each(|it| assert!(it.append_to(&mut builder) < 9));
        let head = ChunkHead::check(&builder.finish().unwrap()).unwrap();
        assert_eq!(head.producer_id, origin.producer_id);
        assert_eq!(head.base_sequence, origin.base_sequence);
        assert_eq!(head.is_transactional(), transactional);
        assert!(!head.is_control());
    }
}
