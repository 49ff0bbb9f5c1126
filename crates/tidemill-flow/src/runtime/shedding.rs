//! Load shedding of `at-most-once` jobs: records beyond the buffer are dropped, oldest first, and
//! counted.

use super::plan::rows_of;
use crate::block::Payload;
use crate::operator::DeadLetter;
use crate::source::Position;
use std::collections::VecDeque;
use tidemill_types::Micros;

#[cfg(test)]
mod tests;

/// Where a source stands, and how far its event time is there.
pub(crate) type SourceCursor = (Position, Micros);

/// The records of one read.
pub(crate) struct ShedRead {
    /// Where the source stood before.
    pub(crate) before: SourceCursor,
    pub(crate) payload: Payload,
    /// Input bytes that it took.
    pub(crate) bytes: usize,
    /// The bad records that came with it.
    pub(crate) letters: Vec<DeadLetter>,
}

/// Records that wait for room, newest last. The source is ahead of its cycles by these records: a
/// cycle that ends meanwhile ends before them.
#[derive(Default)]
pub(crate) struct ShedBuffer {
    kept: VecDeque<ShedRead>,
    bytes: u64,
    /// The source has ended: when nothing is kept any more, so has the lane.
    pub(crate) ended: bool,
}

impl ShedBuffer {
    /// Keeps records, and drops the oldest while more than `bytes_max` are kept. Gives back how
    /// many records were dropped, good ones and bad ones.
    pub(crate) fn keep(&mut self, kept: ShedRead, bytes_max: u64) -> u64 {
        self.bytes += kept.bytes as u64;
        self.kept.push_back(kept);
        let mut dropped = 0;
        while self.bytes > bytes_max {
            let Some(kept) = self.next() else { break };
            dropped += rows_of(&kept.payload) + kept.letters.len() as u64;
        }
        dropped
    }

    /// Puts the last taken records back, as they must wait after all.
    pub(crate) fn put_back(&mut self, kept: ShedRead) {
        self.bytes += kept.bytes as u64;
        self.kept.push_front(kept);
    }

    /// Returns true if no records wait.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Where the source stood before all that is kept, if anything is.
    pub(crate) fn cursor(&self) -> Option<SourceCursor> {
        self.kept.front().map(|kept| kept.before)
    }

    /// Takes the oldest records.
    pub(crate) fn next(&mut self) -> Option<ShedRead> {
        let kept = self.kept.pop_front()?;
        self.bytes -= kept.bytes as u64;
        Some(kept)
    }
}
