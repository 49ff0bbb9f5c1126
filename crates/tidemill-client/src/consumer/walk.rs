//! From the bytes of an answer to the chunks that a reader sees.
//!
//! ```text
//! bytes ─▶ chunk │ chunk │ control │ chunk │ part of a chunk
//!            ✓       ✓       ·         ✗ aborted    · asked for again
//! ```
//!
//! Invariants: no bytes panic; every chunk that is given out has the checksum it says; chunks come
//! in the order of their offsets, none before the offset that was asked for.

use bytes::Bytes;
use std::collections::BTreeSet;
use tidemill_types::ProducerId;
use tidemill_wire::{
    chunk::{ChunkError, ChunkHead, verify},
    records::read_control,
};

#[cfg(test)]
mod tests;

/// A transaction whose records a reader does not see (KIP-98). They are ordered by offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AbortedTransaction {
    pub(super) first_offset: i64,
    pub(super) producer_id: ProducerId,
}

/// A chunk that a reader sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VisibleChunk {
    pub(super) head: ChunkHead,
    pub(super) bytes: Bytes,
}

/// The content of an answer's bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Walked {
    pub(super) chunks: Vec<VisibleChunk>,
    /// Where to go on: behind everything that was walked.
    pub(super) next: i64,
    pub(super) end: WalkEnd,
}

/// The end of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// At the end of the bytes, or before a chunk that is not whole.
    #[default]
    Done,
    /// The first chunk is not whole: fetch at least its length, in bytes.
    Longer(usize),
    /// The chunk at `next` cannot be read.
    Damaged(String),
}

/// Walks the chunks at and after the offset `from`. `aborted` are producer id and first offset of
/// the transactions whose records are not to be seen; none: everything is (KIP-98).
pub(super) fn walk(bytes: &Bytes, from: i64, aborted: Option<&[AbortedTransaction]>) -> Walked {
    let mut walked = Walked { next: from, ..Walked::default() };
    let mut rest = bytes.clone();
    let mut filter = aborted.map(AbortFilter::new);
    let mut any = false;
    while !rest.is_empty() {
        let head = match ChunkHead::read(&rest) {
            Ok(head) => head,
            Err(ChunkError::Short { want, .. }) => {
                if !any {
                    walked.end = WalkEnd::Longer(want);
                }
                return walked;
            }
            Err(error) => {
                walked.end = WalkEnd::Damaged(error.to_string());
                return walked;
            }
        };
        let chunk = rest.split_to(head.bytes);
        any = true;
        if let Err(error) = verify(&chunk) {
            walked.end = WalkEnd::Damaged(error.to_string());
            return walked;
        }
        let last = head.last_offset();
        if head.base_offset < 0 || last < head.base_offset || last == i64::MAX {
            walked.end =
                WalkEnd::Damaged(format!("a chunk from offset {} to {last}", head.base_offset));
            return walked;
        }
        // Also of chunks before the offset: a marker there ends a transaction.
        let seen = filter.as_mut().is_none_or(|it| it.sees(&head, &chunk)) && !head.is_control();
        if last < walked.next {
            continue;
        }
        walked.next = last + 1;
        if seen {
            walked.chunks.push(VisibleChunk { head, bytes: chunk });
        }
    }
    if any && walked.next == from {
        walked.end =
            WalkEnd::Damaged("the node served what is before it, and nothing else".to_owned());
    }
    walked
}

/// Which transactions are aborted at a place of the walk.
struct AbortFilter {
    /// Transactions that begin later, the last one first.
    coming: Vec<AbortedTransaction>,
    /// Producers in an aborted transaction.
    inside: BTreeSet<ProducerId>,
}

impl AbortFilter {
    fn new(aborted: &[AbortedTransaction]) -> Self {
        let mut coming = aborted.to_vec();
        coming.sort_unstable_by(|a, b| b.cmp(a));
        Self { coming, inside: BTreeSet::new() }
    }

    /// True if the reader sees the records of the next chunk.
    fn sees(&mut self, head: &ChunkHead, chunk: &[u8]) -> bool {
        while let Some(aborted) = self.coming.pop_if(|it| it.first_offset <= head.last_offset()) {
            self.inside.insert(aborted.producer_id);
        }
        if head.is_control() {
            if read_control(chunk).is_some_and(|marker| !marker.is_commit) {
                self.inside.remove(&ProducerId(head.producer_id));
            }
            return false;
        }
        !(head.is_transactional() && self.inside.contains(&ProducerId(head.producer_id)))
    }
}
