//! What all transactional ids take of memory.
//!
//! What comes is counted at once; what goes is noticed when all is counted anew, which is within a
//! second. So for as long there may be less room than there is.

use super::{Coordinator, Failure};
use crate::transaction::{entry::Entry, state::Transaction};
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

/// What is added to a transaction.
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
    /// Counts so many bytes more, if there may be so many.
    pub(super) fn grow(&self, bytes: usize) -> Result<(), Failure> {
        let max = usize::try_from(self.limits.bytes.0).unwrap_or(usize::MAX);
        if self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= max {
            return Ok(());
        }
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        Err(Failure::TooMany("bytes of transactions"))
    }

    /// Counts anew what there is: nobody says what has gone.
    pub(super) fn recount(&self, entries: &[Arc<Entry>]) {
        let bytes = |entry: &Arc<Entry>| {
            let held = entry.held();
            id_bytes(&entry.id) + held.transaction.as_ref().map_or(0, transaction_bytes)
        };
        self.bytes.store(entries.iter().map(bytes).sum(), Ordering::Relaxed);
    }
}
