//! Any bytes as values of the broker's store and as messages of group members. A decoded value encodes to
//! the same bytes.

#![no_main]

use tidemill_wire::{
    groups::{GroupRecord, OffsetKey, OffsetRecord, subscribed_topics},
    producers::{AbortedRecord, ProducersSnapshot, decode_ids_end, encode_ids_end},
    transactions::TransactionRecord,
};

macro_rules! round {
    ($bytes:ident: $($record:ident)*) => {$(
        if let Ok(record) = $record::decode($bytes) {
            assert_eq!($record::decode(&record.encode()), Ok(record));
        }
    )*};
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    round!(bytes: GroupRecord OffsetRecord ProducersSnapshot AbortedRecord TransactionRecord);
    if let Some(key) = OffsetKey::decode(bytes) {
        assert_eq!(key.encode(), bytes);
    }
    if let Some((producer, key)) = OffsetKey::decode_pending(bytes) {
        assert_eq!(key.encode_pending(producer), bytes);
    }
    if let Some(end) = decode_ids_end(bytes) {
        assert_eq!(encode_ids_end(end), bytes);
    }
    if let Some(topics) = subscribed_topics(bytes) {
        assert!(topics.iter().map(|it| it.len() + 2).sum::<usize>() + 6 <= bytes.len());
    }
});
