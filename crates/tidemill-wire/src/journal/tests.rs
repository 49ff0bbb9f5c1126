//! Records read back; a torn tail is told from damage in the middle.

use super::*;
use proptest::prelude::*;

fn file(records: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    records.iter().for_each(|record| append(&mut bytes, record));
    bytes
}

#[test]
fn the_bytes_of_a_record_are_pinned() {
    assert_eq!(file(&[b"tide"])[..4], [4, 0, 0, 0]);
    assert_eq!(&file(&[b"tide"])[8..], b"tide");
    assert_eq!(file(&[b"tide"])[4..8], crc(4, b"tide").to_le_bytes());
}

#[test]
fn a_tail_torn_at_any_byte_keeps_all_before() {
    let whole = file(&[b"one", b"two", b"three"]);
    let two = file(&[b"one", b"two"]).len();
    for length in two + 1..whole.len() {
        let (records, valid, error) = read(&whole[..length]);
        assert_eq!((records.len(), valid), (2, two));
        assert_eq!(error, Some(JournalError::TornTail(two)));
    }
}

proptest! {
    #[test]
    fn records_read_back(records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..20)) {
        let slices: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        let bytes = file(&slices);
        prop_assert_eq!(read(&bytes), (slices, bytes.len(), None));
    }

    #[test]
    fn a_flipped_bit_before_the_last_record_is_corruption(
        count in 2_usize..6,
        bit in any::<prop::sample::Index>(),
    ) {
        let slices = vec![&b"some record"[..]; count];
        let mut bytes = file(&slices);
        let record = bytes.len() / count;
        // Lengths are left alone: a damaged length can hide what follows.
        let place = bit.index((count - 1) * (record - 4) * 8);
        let (byte, bit) = (place / 8, place % 8);
        let byte = byte / (record - 4) * record + 4 + byte % (record - 4);
        bytes[byte] ^= 1 << bit;
        let (records, valid, error) = read(&bytes);
        prop_assert_eq!(records.len(), byte / record);
        prop_assert_eq!(error, Some(JournalError::Corrupt(valid)));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let (_, valid, error) = read(&bytes);
        prop_assert!(valid <= bytes.len());
        prop_assert_eq!(error.is_none(), valid == bytes.len());
    }
}
