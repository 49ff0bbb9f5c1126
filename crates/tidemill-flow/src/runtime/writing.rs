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

/// Entries that are written out at once: well under a millisecond. As many if the next cycle waits
/// already: the longer a checkpoint takes, the more rows change before they are written out, and are
/// put aside one by one.
const WRITTEN_AT_ONCE: usize = 4_096;

/// The same in a simulation, whose states are small: they must change while they are written out.
const WRITTEN_AT_ONCE_SIMULATED: usize = 3;

/// How many entries are written out after a cycle.
pub(super) fn written_at_once() -> usize {
    if tidemill_env::is_simulated() { WRITTEN_AT_ONCE_SIMULATED } else { WRITTEN_AT_ONCE }
}

/// A slice that is not written out.
pub(super) struct Frozen {
    /// Counted from the first of the lane.
    pub(super) nth: usize,
    /// All of it belongs to the checkpoint, and nothing was written yet.
    pub(super) is_all: bool,
}

/// A checkpoint that is being written out.
pub(super) struct Writing {
    slices: VecDeque<Frozen>,
    /// Of the first of them.
    delta: Delta,
}

impl Writing {
    /// These slices were frozen.
    pub(super) fn new(slices: VecDeque<Frozen>) -> Self {
        Self { slices, delta: Delta::default() }
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
        while let Some(Frozen { nth, is_all }) = self.slices.front_mut().filter(|_| left > 0) {
            if most < usize::MAX && !checkpointer.has_room() {
                break;
            }
            let nth = *nth;
            if std::mem::take(is_all) {
                self.delta.clear(&[]);
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
                self.slices.extend((!is_done).then_some(Frozen { nth, is_all: false }));
            }
        }
        self.slices.is_empty()
    }
}
