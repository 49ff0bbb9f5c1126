//! Load shedding of `at-most-once` jobs: what does not fit is dropped, oldest first, and counted.

use super::plan::rows_of;
use crate::block::Payload;
use crate::source::Read;
use std::collections::VecDeque;

#[cfg(test)]
mod tests;

/// Records that wait for room, newest last.
#[derive(Default)]
pub(crate) struct Shed {
    kept: VecDeque<(Payload, usize)>,
    bytes: u64,
    /// The source has ended: when nothing is kept any more, so has the lane.
    pub(crate) ended: bool,
}

impl Shed {
    /// Keeps records, and drops the oldest while more than `bytes_max` are kept. Gives back how
    /// many records were dropped.
    pub(crate) fn keep(&mut self, payload: Payload, bytes: usize, bytes_max: u64) -> u64 {
        self.bytes += bytes as u64;
        self.kept.push_back((payload, bytes));
        let mut dropped = 0;
        while self.bytes > bytes_max {
            let Some((payload, bytes)) = self.kept.pop_front() else { break };
            self.bytes -= bytes as u64;
            dropped += rows_of(&payload);
        }
        dropped
    }

    /// Whether nothing is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// What was kept, oldest first, as if it were read now.
    pub(crate) fn next(&mut self) -> Option<Read> {
        match self.kept.pop_front() {
            Some((payload, bytes)) => {
                self.bytes -= bytes as u64;
                Some(Read::Rows { payload, bytes })
            }
            None => self.ended.then_some(Read::End),
        }
    }
}
