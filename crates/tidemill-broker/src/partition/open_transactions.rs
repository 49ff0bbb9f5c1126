//! The transactions in a partition: which are open, which were aborted, and so how far a reader
//! of committed records may see (KIP-98).
//!
//! ```text
//! offsets     ┈┈ a a ┈ b ┈ a ┈ A✗ ┈ b ┈┈┈┈ high watermark      A✗ the marker that aborts a
//! open                 b ──────────────▶                        stable: up to the first b
//! aborted        a ────────── ✗                                 readers drop a's records
//! ```
//!
//! A transaction holds readers back until its marker is visible, not only appended: after a crash
//! nobody has read beyond an end that was lost.
//!
//! Invariants: the first unstable offset never goes back while markers become visible in order of
//! their offsets; an aborted transaction is found by every reader of an offset in it.

use crate::fetch_answer::Aborted;
use std::collections::BTreeMap;
use tidemill_types::{Offset, ProducerId};

#[cfg(test)]
mod tests;

/// A transaction that was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AbortedRange {
    pub(crate) producer_id: i64,
    /// Offset of its first record.
    pub(crate) first: i64,
    /// Offset of its marker.
    pub(crate) marker: i64,
    /// When the marker was appended, no other transaction with records below this was open:
    /// transactions that end later begin at or after it.
    pub(crate) stable: i64,
}

/// The transactions of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenTransactions {
    /// Producers with an open transaction, by its first offset.
    open: BTreeMap<i64, i64>,
    /// Offsets of invisible markers, with the first offset of the transaction that each ends.
    ending: BTreeMap<i64, i64>,
    /// By the offset of their marker.
    aborted: Vec<AbortedRange>,
}

impl OpenTransactions {
    /// A producer's transaction has its first record here.
    pub(crate) fn begin(&mut self, producer: ProducerId, first: Offset) {
        self.open.insert(first.0, producer.0);
    }

    /// The transaction that began at `first` has its marker at `marker`, which is not visible yet.
    pub(crate) fn end(&mut self, first: i64, marker: i64, commit: bool) {
        let Some(producer_id) = self.open.remove(&first) else { return };
        self.ending.insert(marker, first);
        if !commit {
            let stable = self.open.keys().next().map_or(marker + 1, |it| *it);
            self.aborted.push(AbortedRange { producer_id, first, marker, stable });
        }
    }

    /// Takes over that all below `watermark` is visible: the markers there end their transactions.
    pub(crate) fn pass(&mut self, watermark: i64) {
        while let Some(first) = self.ending.first_entry().filter(|it| *it.key() < watermark) {
            first.remove();
        }
    }

    /// The first offset of a transaction whose end is not visible; none if there is none.
    pub(crate) fn first_unstable(&self) -> Option<i64> {
        let open = self.open.keys().next().copied();
        self.ending.values().copied().chain(open).min()
    }

    /// True if no transaction is open and every marker is visible.
    #[cfg(test)]
    pub(crate) fn is_busy(&self) -> bool {
        !self.open.is_empty() || !self.ending.is_empty()
    }

    /// Producers with an open transaction, with its first offset.
    pub(crate) fn open(&self) -> impl Iterator<Item = (ProducerId, Offset)> {
        self.open.iter().map(|(first, producer)| (ProducerId(*producer), Offset(*first)))
    }

    /// Aborted transactions with an offset from `from` up to, not including, `to`.
    pub(crate) fn aborted(&self, from: i64, to: i64) -> Vec<Aborted> {
        let begin = self.aborted.partition_point(|it| it.marker < from);
        let mut found = Vec::new();
        for range in &self.aborted[begin..] {
            if range.first < to {
                let AbortedRange { producer_id, first, .. } = *range;
                found.push(Aborted { producer_id, first_offset: first });
            }
            if range.stable >= to {
                break;
            }
        }
        found
    }

    /// All that were aborted with a marker at or after `from`, by marker.
    pub(crate) fn aborted_since(&self, from: i64) -> &[AbortedRange] {
        &self.aborted[self.aborted.partition_point(|it| it.marker < from)..]
    }

    /// Puts aborted transactions back, as they were; by marker, before all others.
    pub(crate) fn restore(&mut self, aborted: Vec<AbortedRange>) {
        debug_assert!(self.aborted.is_empty());
        self.aborted = aborted;
    }

    /// Forgets transactions that were aborted below the given start. Returns the offsets of their
    /// markers.
    pub(crate) fn prune(&mut self, start: i64) -> Vec<i64> {
        let gone = self.aborted.partition_point(|it| it.marker < start);
        self.aborted.drain(..gone).map(|it| it.marker).collect()
    }
}
