//! What a lane writes out for a checkpoint: some of it after each cycle.
//!
//! ```text
//! slices ─▶ the first writes a piece ─▶ thread ─┬─▶ it has more: last in the row again
//!                                               └─▶ it is done
//! ```
//!
//! A row that changes before it is written out is put aside as it was. Slices take turns, so that
//! what all of them have put aside stays small: were one written out after the other, the last would
//! hold nearly all of theirs, twice.

use super::held::Held;
use super::job::Job;
use super::lane::Lane;
use crate::operator::SliceState;
use std::collections::VecDeque;
use tidemill_state::{Delta, structure};

/// Entries that are written out at once: well under a millisecond.
const WRITTEN_AT_ONCE: usize = 4_096;

/// The same if a cycle waits, which comes first: an idle lane goes on writing.
const WRITTEN_WHILE_BEHIND: usize = 1_024;

/// The same in a simulation, whose states are small: they must change while they are written out.
const WRITTEN_AT_ONCE_SIMULATED: usize = 3;

/// How many entries are written out after a cycle.
pub(super) fn written_at_once(is_behind: bool) -> usize {
    match (tidemill_env::is_simulated(), is_behind) {
        (true, _) => WRITTEN_AT_ONCE_SIMULATED,
        (false, true) => WRITTEN_WHILE_BEHIND,
        (false, false) => WRITTEN_AT_ONCE,
    }
}

/// A checkpoint that is being written out.
pub(super) struct Writing {
    /// Those that are not written out, counted from the first of the lane.
    slices: VecDeque<usize>,
    /// Of the first of them.
    delta: Delta,
}

impl Writing {
    /// These slices were frozen.
    pub(super) fn new(slices: Vec<usize>) -> Self {
        Self { slices: slices.into(), delta: Delta::default() }
    }

    /// Writes out about `most` entries, if there is room for them; whether those were all.
    pub(super) fn write_out(
        &mut self,
        states: &mut [Held],
        (job, lane): (&Job, &Lane),
        most: usize,
    ) -> bool {
        let checkpointer = &job.checkpointer;
        let mut left = most;
        while let Some(nth) = self.slices.front().copied().filter(|_| left > 0) {
            if most < usize::MAX && !checkpointer.has_room() {
                break;
            }
            let before = self.delta.len();
            let at_once = left.min(WRITTEN_AT_ONCE);
            let drain =
                |state: &mut SliceState| structure::drain(&mut **state, &mut self.delta, at_once);
            let is_done = states[nth].here().is_none_or(drain);
            left = left.saturating_sub(self.delta.len() - before);
            if is_done || self.delta.bytes() >= structure::piece_bytes() {
                let slice = lane.slices.start + nth as u32;
                let piece = std::mem::take(&mut self.delta);
                self.delta = checkpointer.piece(lane.node, slice, piece, is_done);
                self.slices.pop_front();
                self.slices.extend((!is_done).then_some(nth));
            }
        }
        self.slices.is_empty()
    }
}
