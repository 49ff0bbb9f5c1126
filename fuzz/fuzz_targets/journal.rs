//! Any bytes as a journal: the records that are read encode to the same bytes.

#![no_main]

use tidemill_wire::{journal, ledger::LedgerEntry, mark::SinkMark};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (records, whole, error) = journal::read(bytes);
    assert_eq!(whole == bytes.len(), error.is_none());
    let mut again = Vec::new();
    records.iter().for_each(|record| journal::append(&mut again, record));
    assert_eq!(again, bytes[..whole]);
    for record in records {
        if let Ok(entry) = LedgerEntry::decode(record) {
            assert_eq!(LedgerEntry::decode(&entry.encode()), Ok(entry));
        }
        if let Ok(mark) = SinkMark::decode(record) {
            assert_eq!(SinkMark::decode(&mark.encode()), Ok(mark));
        }
    }
});
