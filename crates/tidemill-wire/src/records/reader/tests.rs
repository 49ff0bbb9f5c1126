//! Reading: timestamps, gaps, and that every lie of a head or a record is an error, once.

use super::*;
use crate::{
    chunk::{CHUNK_HEAD_BYTES, stamp_append_time},
    records::{Compression, testing::*},
};
use proptest::prelude::*;

fn chunk_of(records: &[Owned]) -> (ChunkHead, Vec<u8>) {
    let chunk = build(Compression::NONE, records);
    (ChunkHead::check(&chunk).unwrap(), chunk[CHUNK_HEAD_BYTES..].to_vec())
}

/// The only error of the iteration, and how many records came before it. Nothing may come after.
fn failure(head: &ChunkHead, plain: &[u8]) -> Option<(usize, RecordsError)> {
    let items: Vec<_> = Records::new(head, plain).collect();
    let at = items.iter().position(Result::is_err)?;
    assert_eq!(at + 1, items.len(), "nothing follows an error");
    Some((at, items[at].clone().unwrap_err()))
}

#[test]
fn the_time_of_the_append_replaces_the_producers() {
    let mut records = lines(3);
    records[1].timestamp_ms = 77;
    let mut chunk = build(Compression::NONE, &records);
    stamp_append_time(&mut chunk, 1234);
    let times: Vec<i64> = read(&chunk).unwrap().iter().map(|it| it.timestamp_ms).collect();
    assert_eq!(times, [1234; 3]);
}

#[test]
fn gaps_between_offsets_are_read() {
    // Length, attributes, timestamp delta, offset delta, no key, no value, no headers.
    let record = |delta: u8| [12, 0, 0, 2 * delta, 1, 1, 0];
    let (head, _) = chunk_of(&lines(3));
    let plain = [record(0), record(4), record(9)].concat();
    let deltas: Vec<i32> = Records::new(&head, &plain).map(|it| it.unwrap().offset_delta).collect();
    assert_eq!(deltas, [0, 4, 9]);
}

#[test]
fn counts_that_lie_are_told() {
    let (head, plain) = chunk_of(&lines(5));
    let said = |record_count| ChunkHead { record_count, ..head.clone() };
    assert_eq!(failure(&head, &plain), None);
    for more in [6, 7, i32::MAX] {
        let wanted = RecordsError::Miscounted { said: more, found: 5 };
        assert_eq!(failure(&said(more), &plain), Some((5, wanted)));
    }
    for fewer in [4, 1, 0, -1, i32::MIN] {
        let read = usize::try_from(fewer).unwrap_or(0);
        let wanted = RecordsError::Trailing { said: fewer };
        assert_eq!(failure(&said(fewer), &plain), Some((read, wanted)));
    }
    let longer = [&plain[..], &[0]].concat();
    assert_eq!(failure(&head, &longer), Some((5, RecordsError::Trailing { said: 5 })));
}

#[test]
fn each_fault_has_its_name() {
    let (head, _) = chunk_of(&lines(1));
    let cases: [(&[u8], RecordFault); 19] = [
        (&[0x80], RecordFault::Cut),
        (&[14, 0, 0, 0, 1, 1, 0], RecordFault::Cut),
        (&[0xff, 0xff, 0xff, 0xff, 0x7f], RecordFault::Number),
        (&[1], RecordFault::Length),
        (&[0], RecordFault::Length),
        (&[12, 1, 0, 0, 1, 1, 0], RecordFault::Attributes),
        (&[2, 0], RecordFault::Number),
        (&[4, 0, 0], RecordFault::Number),
        (&[6, 0, 0, 0], RecordFault::Number),
        (&[12, 0, 0, 0, 3, 1, 0], RecordFault::Key),
        (&[12, 0, 0, 0, 8, 1, 0], RecordFault::Key),
        (&[12, 0, 0, 0, 1, 3, 0], RecordFault::Value),
        (&[12, 0, 0, 0, 1, 8, 0], RecordFault::Value),
        (&[10, 0, 0, 0, 1, 1], RecordFault::Number),
        (&[12, 0, 0, 0, 1, 1, 1], RecordFault::Headers),
        (&[12, 0, 0, 0, 1, 1, 2], RecordFault::Headers),
        (&[16, 0, 0, 0, 1, 1, 2, 1, 1], RecordFault::HeaderKey),
        (&[16, 0, 0, 0, 1, 1, 2, 3, 1], RecordFault::Headers),
        (&[14, 0, 0, 0, 1, 1, 0, 0], RecordFault::Rest),
    ];
    for (bytes, fault) in cases {
        let wanted = RecordsError::Damaged { record: 0, fault };
        assert_eq!(failure(&head, bytes), Some((0, wanted)), "{bytes:?}");
    }
    let far = ChunkHead { base_timestamp_ms: i64::MAX, ..head };
    let wanted = RecordsError::Damaged { record: 0, fault: RecordFault::Timestamp };
    assert_eq!(failure(&far, &[12, 0, 2, 0, 1, 1, 0]), Some((0, wanted)));
}

proptest! {
    #[test]
    fn any_bytes_are_no_panic(
        bytes in proptest::collection::vec(prop_oneof![0u8..20, any::<u8>()], 0..200),
        count in -1i32..20,
    ) {
        let head = ChunkHead { record_count: count, ..chunk_of(&lines(1)).0 };
        let mut long = 0;
        for record in Records::new(&head, &bytes).flatten() {
            long += record.headers.count() + record.value.map_or(0, <[u8]>::len);
        }
        prop_assert!(long <= bytes.len());
    }

    #[test]
    fn records_cut_short_are_an_error(records in any_records(), cut in any::<prop::sample::Index>()) {
        let (head, plain) = chunk_of(&records);
        let cut = cut.index(plain.len());
        let (read, _) = failure(&head, &plain[..cut]).expect("it is cut short");
        prop_assert!(read < records.len());
    }

    #[test]
    fn one_changed_byte_changes_what_is_read(
        records in any_records(),
        place in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let (head, mut plain) = chunk_of(&records);
        let place = place.index(plain.len());
        plain[place] ^= 1 << bit;
        let items: Result<Vec<_>, _> = Records::new(&head, &plain).collect();
        if items.is_ok() {
            // Only what stands in the records can have changed: they are as long as before.
            let deltas = Records::new(&head, &plain).flatten().map(|it| it.offset_delta);
            let same = deltas.eq(0..head.record_count) && owned(&head, &plain).unwrap() == records;
            prop_assert!(!same);
        }
    }
}
