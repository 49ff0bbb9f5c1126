//! Entries read back; their bytes are pinned; garbage is refused.

use super::*;
use proptest::prelude::*;

fn cut() -> Cut {
    Cut { source: 1, slice: 0, position: 300, ended: false, idle: true }
}

#[test]
fn the_bytes_of_version_1_are_pinned() {
    let entry = LedgerEntry::Cycle { cycle: Cycle(5), time: Micros(-1), cuts: vec![cut()] };
    assert_eq!(entry.encode(), [1, 5, 1, 1, 1, 0, 0xac, 2, 0, 1]);
    let sources = vec![("s".into(), 1)];
    let head = LedgerHead { version: LEDGER_VERSION, job: "j".into(), seed: 7, sources };
    let first = LedgerEntry::Head(head.clone());
    assert_eq!(first.encode(), [0, 1, 1, b'j', 7, 1, 1, b's', 1]);
    let later = LedgerEntry::Later { head, began: Cycle(2), after: Cycle(300), time: Micros(-1) };
    assert_eq!(later.encode(), [2, 1, 1, b'j', 7, 1, 1, b's', 1, 2, 0xac, 2, 1]);
    assert_eq!(LedgerEntry::Life(300).encode(), [4, 0xac, 2]);
    let stages = vec![StageNote { name: "w".into(), slices: 300, does: "d".into() }];
    let note = StagesNote { version: LEDGER_VERSION, stages };
    assert_eq!(note.encode(), [1, 1, 1, b'w', 0xac, 2, 1, b'd']);
    assert_eq!(StagesNote::decode(&note.encode()), Ok(note));
}

#[test]
fn bytes_after_an_entry_are_refused() {
    let mut bytes = LedgerEntry::Cycle { cycle: Cycle(1), time: Micros(0), cuts: vec![] }.encode();
    bytes.push(0);
    assert!(LedgerEntry::decode(&bytes).is_err());
}

proptest! {
    #[test]
    fn what_is_written_reads_back(cycle: u64, time: i64, positions in prop::collection::vec(any::<u64>(), 0..20)) {
        let cuts = positions.iter().map(|position| Cut { position: *position, ..cut() }).collect();
        let entry = LedgerEntry::Cycle { cycle: Cycle(cycle), time: Micros(time), cuts };
        prop_assert_eq!(LedgerEntry::decode(&entry.encode()), Ok(entry));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _outcome = (LedgerEntry::decode(&bytes), StagesNote::decode(&bytes));
    }
}
