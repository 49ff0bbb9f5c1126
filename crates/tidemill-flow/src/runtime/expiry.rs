//! Eviction of idle keys from a lane's slices ([`tidemill_state::structure::expiry`]).
//!
//! ```text
//! freeze, a time to live after the last ─▶ which keys were not used since ─▶ they leave, some each cycle
//! ```
//!
//! Idle keys are selected when a checkpoint of the slice begins: the checkpoint before is complete
//! then, and has every key that did not change since. A slice that is saved by itself has no
//! checkpoint while no record comes; there the save of a later slice is enough.

use super::slice_slot::SliceSlot;
use std::collections::VecDeque;
use tidemill_state::structure;
use tidemill_types::Span;

/// Keys that leave at once, before the next cycle: well under a millisecond.
const LEAVE_AT_ONCE: usize = 2_048;

/// The same in a simulation, whose states are small.
const LEAVE_AT_ONCE_SIMULATED: usize = 3;

/// The evictions of a lane: the last selection of each slice, and those under way.
pub(crate) struct Eviction {
    ttl_us: u64,
    /// By slice of the lane: the time of the last selection.
    since_us: Vec<u64>,
    /// Slices of which keys are still to leave. The one that has waited longest comes first, so that
    /// none waits for ever where others keep coming.
    slices: VecDeque<usize>,
}

impl Eviction {
    pub(crate) fn new(ttl: Span, slices: usize, now_us: u64) -> Self {
        let ttl_us = u64::try_from(ttl.0).unwrap_or(0);
        Self { ttl_us, since_us: vec![now_us; slices], slices: VecDeque::new() }
    }

    /// A checkpoint of a slice is about to begin, or nothing came for it since the last.
    pub(crate) fn begin(&mut self, slice: usize, held: &mut SliceSlot, now_us: u64) {
        let is_due = now_us.saturating_sub(self.since_us[slice]) >= self.ttl_us;
        // What is to leave of a slice is not found out anew before it has: it would never end.
        if !is_due || self.slices.contains(&slice) {
            return;
        }
        let Some(state) = held.in_memory() else { return };
        self.since_us[slice] = now_us;
        structure::begin_expiry(&mut **state);
        self.slices.push_back(slice);
    }

    /// Returns true if keys are still to leave.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.slices.is_empty()
    }

    /// Lets some of them go.
    pub(crate) fn evict(&mut self, states: &mut [SliceSlot]) {
        let mut most =
            if tidemill_env::is_simulated() { LEAVE_AT_ONCE_SIMULATED } else { LEAVE_AT_ONCE };
        while let Some(slice) = self.slices.front() {
            let state = states[*slice].here();
            if !state.is_none_or(|state| structure::expire(&mut **state, &mut most)) {
                return;
            }
            self.slices.pop_front();
        }
    }
}

#[cfg(test)]
mod tests;
