//! The memory of all transactional ids.
//!
//! Additions are counted at once. Removals are counted when all is counted anew, within a second,
//! so the count may be too high for that long.

use super::{Coordinator, Failure};
use crate::transaction::{entry::TransactionEntry, state::Transaction};
use std::sync::{Arc, atomic::Ordering};
use tidemill_wire::transactions::TransactionPartition;

/// An id without a transaction, its name aside, which is there twice.
const ID_BYTES: usize = 1_024;
/// A partition of a transaction: in it, and in the list of its markers.
const PARTITION_BYTES: usize = 128;
/// A group of a transaction, its name aside, which is there twice.
const GROUP_BYTES: usize = 128;

pub(super) fn id_bytes(id: &str) -> usize {
    ID_BYTES + 2 * id.len()
}

/// Memory of the additions to a transaction.
pub(super) fn added_bytes(partitions: &[TransactionPartition], group: Option<&str>) -> usize {
    partitions.len() * PARTITION_BYTES + group.map_or(0, group_bytes)
}

fn group_bytes(id: &str) -> usize {
    GROUP_BYTES + 2 * id.len()
}

fn transaction_bytes(transaction: &Transaction) -> usize {
    let groups = transaction.groups.iter().map(|it| group_bytes(it));
    transaction.partitions.len() * PARTITION_BYTES + groups.sum::<usize>()
}

impl Coordinator {
    /// Counts `more` bytes, if they are allowed.
    pub(super) fn grow(&self, bytes: usize) -> Result<(), Failure> {
        let max = usize::try_from(self.limits.bytes.0).unwrap_or(usize::MAX);
        if self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= max {
            return Ok(());
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Err(Failure::TooMany("bytes of transactions"))
    }

    /// Counts all entries anew, as removals are not counted.
    pub(super) fn recount(&self, entries: &[Arc<TransactionEntry>]) {
        let bytes = |entry: &Arc<TransactionEntry>| {
            let held = entry.held();
            id_bytes(&entry.id) + held.transaction.as_ref().map_or(0, transaction_bytes)
        };
        self.bytes.store(entries.iter().map(bytes).sum(), Ordering::Relaxed);
    }
}
