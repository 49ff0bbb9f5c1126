//! The memory that the state of a job takes, and its budget.
//!
//! ```text
//! lane ── now and then: the memory of my slices ──▶ by stage ── sum ──▶ more than the budget? the job ends
//! ```
//!
//! A state that would not fit into the machine ends its job with a clear error and a checkpoint to
//! resume from; it does not end the process. The count is an estimate ([`structure::sampled`]), and
//! takes at most a fiftieth of a lane's time.

use super::slice_slot::SliceSlot;
use std::sync::Arc;
use tidemill_env::sync::atomic::{AtomicU64, Ordering};
use tidemill_state::structure;
use tidemill_types::{ByteSize, StageIx};

/// A lane counts no more often than this, in microseconds.
const EVERY_US: u64 = 50_000;
/// The part of the budget that is filled when a job goes on.
const RESTORED_SHARE: u64 = 4;
/// And waits this many times the time that counting took.
const REST_PER_COUNT: u64 = 50;

/// The memory of all states of a job.
#[derive(Debug)]
pub(crate) struct StateBudget {
    most: Option<ByteSize>,
    /// By stage: the memory of its states in bytes, and its name.
    stages: Vec<(AtomicU64, String)>,
}

impl StateBudget {
    pub(crate) fn new(names: impl Iterator<Item = String>, most: Option<ByteSize>) -> Self {
        Self { most, stages: names.map(|it| (AtomicU64::new(0), it)).collect() }
    }

    fn ids(&self) -> impl Iterator<Item = StageIx> + use<> {
        (0..self.stages.len()).map(StageIx::at)
    }

    /// The memory of the states of a stage, in bytes.
    pub(crate) fn of(&self, stage: StageIx) -> u64 {
        self.stages[stage.index()].0.load(Ordering::Relaxed)
    }

    /// The memory that a slice may take when it is restored, in bytes, if the rest of it can be
    /// read on demand. A state over the budget then still resumes.
    pub(crate) fn restored_bytes_max(&self, slices: u64) -> usize {
        let share = |most: ByteSize| most.0 / RESTORED_SHARE / slices.max(1);
        self.most.map_or(usize::MAX, |most| usize::try_from(share(most)).unwrap_or(usize::MAX))
    }

    /// The reason to end the job, if its states exceed the budget.
    fn exceeded(&self) -> Option<String> {
        let most = self.most?;
        let all: u64 = self.ids().map(|stage| self.of(stage)).sum();
        (all > most.0).then(|| {
            let largest = self.ids().max_by_key(|stage| self.of(*stage)).unwrap_or_default();
            // An estimate: nobody wants to see its last digits.
            let [all, here] = [all, self.of(largest)].map(|it| ByteSize(it.next_multiple_of(1024)));
            let name = &self.stages[largest.index()].1;
            format!(
                "the state of the job takes {all}, {here} of it in stage `{name}`, and its budget \
                 is {most}: give `state.budget` more, or keep less, in shorter windows or of fewer \
                 keys; a job that resumes goes on from its newest checkpoint"
            )
        })
    }
}

/// The memory of the slices of one lane.
pub(crate) struct LaneMemory {
    of: Arc<StateBudget>,
    stage: StageIx,
    bytes: u64,
    /// When they are counted again.
    due_us: u64,
}

impl LaneMemory {
    /// Counts a lane's initial states: its first record may come much later.
    pub(crate) fn new(of: &Arc<StateBudget>, stage: StageIx, states: &mut [SliceSlot]) -> Self {
        let mut counted = Self { of: Arc::clone(of), stage, bytes: 0, due_us: 0 };
        let here = states.iter_mut().filter_map(SliceSlot::in_memory);
        counted.set(here.map(|state| structure::memory(&mut **state) as u64).sum());
        counted
    }

    /// Counts, if it is time to.
    ///
    /// # Errors
    /// The job has reached its budget.
    pub(crate) fn count(
        &mut self,
        states: &mut [SliceSlot],
        now_us: impl Fn() -> u64,
    ) -> Result<(), String> {
        let start_us = now_us();
        if start_us < self.due_us {
            return Ok(());
        }
        let here = states.iter_mut().filter_map(SliceSlot::here);
        let bytes: usize = here.map(|state| structure::memory(&mut **state)).sum();
        self.set(bytes as u64);
        let took_us = now_us() - start_us;
        self.due_us = start_us + EVERY_US.max(took_us * REST_PER_COUNT);
        self.of.exceeded().map_or(Ok(()), Err)
    }

    fn set(&mut self, bytes: u64) {
        // Adding what wraps takes away.
        let change = bytes.wrapping_sub(self.bytes);
        self.of.stages[self.stage.index()].0.fetch_add(change, Ordering::Relaxed);
        self.bytes = bytes;
    }
}

impl Drop for LaneMemory {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_states_of_all_stages_count_together() {
        let budget = Arc::new(StateBudget::new(
            ["a", "b", "c"].map(str::to_owned).into_iter(),
            Some(ByteSize(100)),
        ));
        let mut lanes = [0, 0, 2].map(|stage| LaneMemory::new(&budget, StageIx(stage), &mut []));
        lanes[0].set(40);
        lanes[2].set(60);
        assert_eq!(budget.exceeded(), None);
        lanes[1].set(1);
        let said = budget.exceeded().expect("more than its budget");
        assert!(said.contains("1KiB of it in stage `c`"), "{said}");
        // A lane whose slices go to another one takes nothing any more.
        let [first, ..] = lanes;
        drop(first);
        assert_eq!(budget.exceeded(), None);
    }
}
