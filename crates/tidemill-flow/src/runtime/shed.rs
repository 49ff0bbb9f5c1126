//! Load shedding of `at-most-once` jobs: what does not fit is dropped, oldest first, and counted.

use super::plan::rows_of;
use crate::block::Payload;
use crate::operator::DeadLetter;
use crate::source::Position;
use std::collections::VecDeque;
use tidemill_types::Micros;

#[cfg(test)]
mod tests;

/// Where a source stands, and how far its event time is there.
pub(crate) type Stand = (Position, Micros);

/// What was read at once.
pub(crate) struct Kept {
    /// Where the source stood before.
    pub(crate) before: Stand,
    pub(crate) payload: Payload,
    /// Input bytes that it took.
    pub(crate) bytes: usize,
    /// The bad records that came with it.
    pub(crate) letters: Vec<DeadLetter>,
}

/// Records that wait for room, newest last. The source is ahead of its cycles by what is kept here:
/// a cycle that ends meanwhile ends before it.
#[derive(Default)]
pub(crate) struct Shed {
    kept: VecDeque<Kept>,
    bytes: u64,
    /// The source has ended: when nothing is kept any more, so has the lane.
    pub(crate) ended: bool,
}

impl Shed {
    /// Keeps records, and drops the oldest while more than `bytes_max` are kept. Gives back how
    /// many records were dropped, good ones and bad ones.
    pub(crate) fn keep(&mut self, kept: Kept, bytes_max: u64) -> u64 {
        self.bytes += kept.bytes as u64;
        self.kept.push_back(kept);
        let mut dropped = 0;
        while self.bytes > bytes_max {
            let Some(kept) = self.next() else { break };
            dropped += rows_of(&kept.payload) + kept.letters.len() as u64;
        }
        dropped
    }

    /// Keeps what was taken last, and must wait after all.
    pub(crate) fn put_back(&mut self, kept: Kept) {
        self.bytes += kept.bytes as u64;
        self.kept.push_front(kept);
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Where the source stood before all that is kept, if anything is.
    pub(crate) fn stand(&self) -> Option<Stand> {
        self.kept.front().map(|kept| kept.before)
    }

    /// What was kept, oldest first.
    pub(crate) fn next(&mut self) -> Option<Kept> {
        let kept = self.kept.pop_front()?;
        self.bytes -= kept.bytes as u64;
        Some(kept)
    }
}
