//! Records read back; their bytes are pinned; garbage is refused.

use super::*;
use proptest::prelude::*;

fn record() -> TransactionRecord {
    TransactionRecord {
        version: TRANSACTION_VERSION,
        phase: TransactionPhase::PrepareCommit,
        producer_id: 7,
        epoch: 3,
        last_epoch: 2,
        previous_id: -1,
        next_id: 9,
        timeout_ms: 300,
        protocol: 2,
        began_ms: 1,
        changed_ms: 2,
        partitions: vec![TransactionPartition { stream: [5; 16], index: 4 }],
        groups: vec!["g".into()],
    }
}

#[test]
fn the_bytes_of_version_1_are_pinned() {
    let head = [1, 2, 14, 6, 4, 1, 18, 0xd8, 4, 2, 2, 4];
    let partition = [&[1][..], &[5; 16], &[4]].concat();
    assert_eq!(record().encode(), [&head[..], &partition, &[1, 1, b'g']].concat());
}

#[test]
fn other_versions_and_bytes_after_the_end_are_refused() {
    let other = TransactionRecord { version: 2, ..record() };
    assert!(TransactionRecord::decode(&other.encode()).is_err());
    let long = [&record().encode()[..], &[0]].concat();
    assert!(TransactionRecord::decode(&long).is_err());
}

proptest! {
    #[test]
    fn what_is_written_reads_back(producer_id: i64, epoch: i16, began_ms: i64, groups: Vec<String>) {
        let record = TransactionRecord { producer_id, epoch, began_ms, groups, ..record() };
        prop_assert_eq!(TransactionRecord::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _outcome = TransactionRecord::decode(&bytes);
    }
}
