//! The chunks of one read that a reader of committed records skips: aborted ones and markers.
//!
//! ```text
//! chunks      a1 │ b1 │ plain │ a2 │ A✗ │ b2 │ B✓ │ a3        A✗ B✓ markers of producers a, b
//! aborted     (a, offset of a1)
//! left out    a1   .    .       a2   A✗   .    B✓   .
//! ```
//!
//! The node is not asked while no chunk belongs to a transaction.

use super::node::Transactions;
use std::collections::VecDeque;
use tidemill_wire::{chunk::ChunkHead, records::read_control};

/// The aborted transactions of one group of chunks.
#[derive(Default)]
pub(super) struct AbortedChunks {
    /// Offsets of the group, until its aborted transactions are known.
    unknown: Option<(i64, i64)>,
    /// Aborted transactions that begin further on: first offset, and producer.
    ahead: VecDeque<(i64, i64)>,
    /// Producers in an aborted transaction, here.
    producers: Vec<i64>,
}

impl AbortedChunks {
    /// Of the chunks with offsets from `from` up to, not including, `to`.
    pub(super) fn of(from: i64, to: i64) -> Self {
        Self { unknown: Some((from, to)), ..Self::default() }
    }

    /// Returns true if the next chunk of the group is aborted.
    pub(super) fn leaves_out(
        &mut self,
        transactions: &dyn Transactions,
        head: &ChunkHead,
        chunk: &[u8],
    ) -> bool {
        if !head.is_transactional() {
            return head.is_control();
        }
        if let Some((from, to)) = self.unknown.take() {
            let aborted = transactions.aborted(from, to);
            let mut aborted: Vec<_> =
                aborted.iter().map(|it| (it.first.0, it.producer.0)).collect();
            aborted.sort_unstable();
            self.ahead = aborted.into();
        }
        while let Some((_, producer)) = self.ahead.pop_front_if(|it| it.0 <= head.base_offset) {
            self.producers.push(producer);
        }
        if head.is_control() {
            let is_abort = read_control(chunk).is_some_and(|it| !it.is_commit);
            self.producers.retain(|it| !is_abort || *it != head.producer_id);
            return true;
        }
        self.producers.contains(&head.producer_id)
    }
}
