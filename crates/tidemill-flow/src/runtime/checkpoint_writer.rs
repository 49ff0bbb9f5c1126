//! A lane's part of a checkpoint, written out piece by piece after each cycle.
//!
//! ```text
//! slices ─▶ the first writes a piece ─▶ thread ─┬─▶ it has more: last in the row again
//!                                               └─▶ it is done
//! ```
//!
//! A row that changes before it is written out is copied first, and the copy is written after all
//! other rows of its slice. Slices take turns, so that the copies of all of them stay few: if each
//! were written out at once, the last slice would hold nearly all of its rows twice.

use super::job::Job;
use super::lane::Lane;
use super::slice_slot::SliceSlot;
use crate::operator::SliceState;
use std::collections::VecDeque;
use tidemill_state::{Delta, structure};
use tidemill_types::{SliceId, SliceKey};

/// Entries that are written out at once, at least: well under a millisecond.
const WRITTEN_AT_ONCE: usize = 4_096;

/// The same in a simulation, whose states are small: they must change while they are written out.
const WRITTEN_AT_ONCE_SIMULATED: usize = 3;

/// Entries that are written out after a cycle for each row that it had. The longer a checkpoint takes,
/// the more rows change before they are written out, and are put aside one by one; while more are
/// written out than can change, most never are.
const WRITTEN_PER_ROW: usize = 2;

/// The number of entries to write out after a cycle of `rows` rows.
pub(super) fn write_quota(rows: usize) -> usize {
    if tidemill_env::is_simulated() {
        return WRITTEN_AT_ONCE_SIMULATED;
    }
    WRITTEN_AT_ONCE.max(rows.saturating_mul(WRITTEN_PER_ROW))
}

/// A slice that is not written out.
pub(super) struct FrozenSlice {
    /// Counted from the first of the lane.
    pub(super) nth: usize,
    /// All of it belongs to the checkpoint, and nothing was written yet.
    pub(super) is_all: bool,
}

/// A checkpoint that is being written out.
pub(super) struct CheckpointWriter {
    slices: VecDeque<FrozenSlice>,
    /// Of the first of them.
    delta: Delta,
}

impl CheckpointWriter {
    /// These slices were frozen.
    pub(super) fn new(slices: VecDeque<FrozenSlice>) -> Self {
        Self { slices, delta: Delta::default() }
    }

    /// Writes out about `most` entries, if there is room for them; returns true once all are out.
    pub(super) fn write_out(
        &mut self,
        states: &mut [SliceSlot],
        (job, lane): (&Job, &Lane),
        most: usize,
    ) -> bool {
        let checkpointer = &job.checkpointer;
        let mut left = most;
        while let Some(FrozenSlice { nth, is_all }) = self.slices.front_mut().filter(|_| left > 0) {
            if most < usize::MAX && !checkpointer.has_room() {
                break;
            }
            let nth = *nth;
            if std::mem::take(is_all) {
                self.delta.clear(&[]);
            }
            let before = self.delta.len();
            let drain =
                |state: &mut SliceState| structure::drain(&mut **state, &mut self.delta, left);
            let is_done = states[nth].here().is_none_or(drain);
            left = left.saturating_sub(self.delta.len() - before);
            if is_done || self.delta.bytes() >= structure::piece_bytes() {
                let slice = SliceId(lane.slices.start + nth as u32);
                let piece = std::mem::take(&mut self.delta);
                self.delta = checkpointer.piece(SliceKey::new(lane.stage, slice), piece, is_done);
                self.slices.pop_front();
                self.slices.extend((!is_done).then_some(FrozenSlice { nth, is_all: false }));
            }
        }
        self.slices.is_empty()
    }
}
