//! What a head must say, and that nothing else gets in.

use super::*;
use crate::records::{
    ChunkBuilder, Compression, Headers, Origin,
    testing::{Owned, build},
};
use proptest::prelude::*;

/// A chunk with so many empty records of no producer.
fn batch(records: usize) -> Vec<u8> {
    build(Compression::NONE, &vec![Owned::value(b""); records])
}

#[test]
fn a_good_chunk_reads_as_it_was_made() {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    builder.set_origin(Origin {
        producer_id: 7,
        producer_epoch: 3,
        base_sequence: 40,
        is_transactional: false,
    });
    for index in 0..5 {
        assert_eq!(builder.append(1234, None, None, Headers::NONE), Ok(index));
    }
    let mut bytes = builder.finish().unwrap();
    let head = ChunkHead::check(&bytes).unwrap();
    assert_eq!((head.record_count, head.last_offset_delta), (5, 4));
    assert_eq!((head.producer_id, head.producer_epoch, head.base_sequence), (7, 3, 40));
    assert_eq!(head.max_timestamp_ms, 1234);
    assert_eq!(head.codec(), Ok(Codec::None));
    assert!(!head.is_control() && !head.is_transactional() && !head.is_log_append_time());
    stamp(&mut bytes, 1 << 40, LeaderEpoch(9));
    let head = ChunkHead::check(&bytes).expect("the checksum does not cover the stamp");
    assert_eq!((head.base_offset, head.leader_epoch), (1 << 40, 9));
    assert_eq!(head.last_offset(), (1 << 40) + 4);
    stamp_append_time(&mut bytes, 99);
    let head = ChunkHead::check(&bytes).expect("the checksum was mended");
    assert!(head.is_log_append_time());
    assert_eq!(head.max_timestamp_ms, 99);
}

/// A chunk with one field changed, its checksum mended.
fn changed(at: usize, with: &[u8]) -> Vec<u8> {
    let mut bytes = batch(3);
    bytes[at..at + with.len()].copy_from_slice(with);
    let crc = crc32c(&bytes[CRC_FROM..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    bytes
}

#[test]
fn lies_are_refused_by_name() {
    let whole = batch(3);
    let length = whole.len();
    assert_eq!(
        ChunkHead::check(&whole[..length - 1]),
        Err(ChunkError::Short { have: length - 1, want: length })
    );
    assert_eq!(ChunkHead::check(&[0; 5]), Err(ChunkError::Short { have: 5, want: 61 }));
    let mut longer = whole.clone();
    longer.push(0);
    assert_eq!(ChunkHead::check(&longer), Err(ChunkError::Trailing(1)));
    assert_eq!(ChunkHead::check(&changed(16, &[1])), Err(ChunkError::Magic(1)));
    assert_eq!(ChunkHead::check(&changed(8, &(-12i32).to_be_bytes())), Err(ChunkError::Length(0)));
    assert_eq!(
        ChunkHead::check(&changed(8, &i32::MAX.to_be_bytes())),
        Err(ChunkError::Short { have: length, want: i32::MAX as usize + 12 })
    );
    let mut flipped = whole;
    flipped[70] ^= 1;
    assert!(matches!(ChunkHead::check(&flipped), Err(ChunkError::Crc { .. })));
    for count in [0, -1, 2, 4, i32::MAX] {
        let lie = changed(57, &count.to_be_bytes());
        assert!(matches!(ChunkHead::check(&lie), Err(ChunkError::Count { .. })), "{count}");
    }
    let mut many = changed(57, &i32::MAX.to_be_bytes());
    many[23..27].copy_from_slice(&(i32::MAX - 1).to_be_bytes());
    let crc = crc32c(&many[CRC_FROM..]);
    many[17..21].copy_from_slice(&crc.to_be_bytes());
    assert!(matches!(ChunkHead::check(&many), Err(ChunkError::Count { .. })), "no room for them");
    assert_eq!(ChunkHead::check(&changed(22, &[5])), Err(ChunkError::Codec(5)));
    let lone = changed(43, &7i64.to_be_bytes());
    assert!(matches!(ChunkHead::check(&lone), Err(ChunkError::Producer { id: 7, .. })));
    // Clients without a producer id that leave zeros in epoch and sequence.
    assert!(ChunkHead::check(&changed(51, &[0; 6])).is_ok());
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(head) = ChunkHead::check(&bytes) {
            prop_assert_eq!(head.bytes, bytes.len());
        }
    }

    #[test]
    fn one_flipped_bit_behind_the_stamp_is_seen(place in 16usize..200, bit in 0u8..8) {
        let mut bytes = build(Compression::NONE, &[Owned::value(&[7; 150])]);
        let place = place.min(bytes.len() - 1);
        bytes[place] ^= 1 << bit;
        prop_assert!(ChunkHead::check(&bytes).is_err());
    }
}
