//! Snapshots of the states of a running job: all slices of a stage as of the end of one cycle.
//!
//! ```text
//! reader      the last cycle that was begun ─▶ at, wakes the lanes ──── waits ────▶ rows of slices
//! lanes       the last cycle that I processed is `at`: copy my slices ───────┘
//! ```
//!
//! The cycle is picked under the pacer's lock, as that of a checkpoint is. No lane can have
//! processed more than it then. A lane that has processed it copies its slices before its next
//! cycle, the others after it. So an idle job answers too, and no lane waits for a reader.
//!
//! - The bytes that lanes copy are bounded: a larger state is read from a checkpoint.
//! - A slice that only a checkpoint has is read by the reader of the snapshot.

use super::job::Job;
use super::lane::Lane;
use super::panic_message;
use super::plan::Work;
use super::slice_slot::SliceSlot;
use crate::operator::OperatorFactory;
use crate::snapshot::{SliceSnapshot, SnapshotError, StateAt, rows_of};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use tidemill_env::sync::{
    Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};
use tidemill_state::UnreadableState;
use tidemill_types::{Cycle, Micros, SliceId, StageIx};

/// The most bytes that all lanes together copy for a snapshot.
const COPIED_BYTES_MAX: usize = 64 << 20;
/// The longest wait of a reader for the lanes.
const WAIT_US: u64 = 10_000_000;
/// The longest sleep of a reader.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Shared by the lanes and the readers. One snapshot is under way at a time.
pub(crate) struct Snapshots {
    /// The cycle of the snapshot under way; [`u64::MAX`] if there is none.
    at: AtomicU64,
    look: Mutex<PendingSnapshot>,
    wakeup: Condvar,
    turn: Mutex<()>,
}

#[derive(Default)]
struct PendingSnapshot {
    /// Tells it from those before.
    number: u64,
    stage: StageIx,
    table: usize,
    /// The end of which cycle is wanted; none before it is known.
    at: Option<Cycle>,
    /// Bytes that all lanes together may still copy.
    left: Arc<AtomicUsize>,
    slices: BTreeMap<u32, SliceSnapshot>,
    failed: Option<SnapshotError>,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            at: AtomicU64::new(u64::MAX),
            look: Mutex::default(),
            wakeup: Condvar::new(),
            turn: Mutex::default(),
        }
    }
}

/// Ends a snapshot when it is dropped.
struct SnapshotEnd<'a>(&'a Snapshots);

impl Drop for SnapshotEnd<'_> {
    fn drop(&mut self) {
        self.0.at.store(u64::MAX, Ordering::Release);
        let number = self.0.look().number;
        *self.0.look() = PendingSnapshot { number, ..PendingSnapshot::default() };
    }
}

impl Snapshots {
    fn look(&self) -> MutexGuard<'_, PendingSnapshot> {
        self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a reader waits for the lanes.
    #[cfg(test)]
    pub(crate) fn is_under_way(&self) -> bool {
        self.at.load(Ordering::Acquire) != u64::MAX
    }

    /// Copies the slices of a lane that stands at the end of a cycle, if a snapshot wants them as
    /// of then.
    #[inline]
    pub(crate) fn answer(
        &self,
        job: &Job,
        lane: &Lane,
        (cycle, watermark): (Cycle, Micros),
        states: &mut [SliceSlot],
    ) {
        if self.at.load(Ordering::Acquire) == cycle.0 {
            self.copy(job, lane, (cycle, watermark), states);
        }
    }

    #[cold]
    fn copy(
        &self,
        job: &Job,
        lane: &Lane,
        (cycle, watermark): (Cycle, Micros),
        states: &mut [SliceSlot],
    ) {
        let Work::Operator { factory } = &job.plan[lane.stage].work else { return };
        let (number, table, left, wanted) = {
            let look = self.look();
            // It may be another look by now than the one that wanted this cycle.
            if look.stage != lane.stage || look.at != Some(cycle) || look.failed.is_some() {
                return;
            }
            // A lane of a new layout may have some that a lane of the old one has copied, and some
            // of another that was done with the cycle before anybody looked.
            let wanted = lane.slices.clone().zip(states);
            let wanted = wanted.filter(|(slice, _)| !look.slices.contains_key(slice));
            (look.number, look.table, Arc::clone(&look.left), wanted.collect::<Vec<_>>())
        };
        if wanted.is_empty() {
            return;
        }
        let mut copied = Vec::with_capacity(wanted.len());
        let mut failed = None;
        for (slice, state) in wanted {
            match copy_slice(&**factory, table, (SliceId(slice), watermark), state, &left) {
                Ok(rows) => copied.push((slice, rows)),
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        let mut look = self.look();
        if look.number != number {
            // Who looked has gone.
            return;
        }
        look.slices.extend(copied);
        look.failed = look.failed.take().or(failed);
        drop(look);
        self.wakeup.notify_all();
    }
}

/// The rows of one slice; `left` is how many bytes may be copied.
fn copy_slice(
    factory: &dyn OperatorFactory,
    table: usize,
    (slice, watermark): (SliceId, Micros),
    state: &mut SliceSlot,
    left: &AtomicUsize,
) -> Result<SliceSnapshot, SnapshotError> {
    if let SliceSlot::Saved(saved) = state {
        return Ok(SliceSnapshot::Saved(saved.runs(), watermark));
    }
    let looked_at = state.for_snapshot().map_err(|error| error.to_string());
    let state = looked_at.and_then(|state| state.ok_or_else(|| "it is not in memory".to_owned()));
    let state = state.map_err(|message| SnapshotError::Slice { slice, message })?;
    let at = StateAt { state: &mut **state, watermark };
    let (mut batches, mut is_too_large) = (Vec::new(), false);
    // What the program's own types do when they are shown is no reason to end its job.
    let rows = catch_unwind(AssertUnwindSafe(|| {
        rows_of(factory, table, (slice, at), &mut |batch| {
            let bytes = batch.get_array_memory_size();
            let taken =
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(bytes));
            is_too_large = taken.is_err();
            if is_too_large {
                return ControlFlow::Break(());
            }
            batches.push(batch);
            ControlFlow::Continue(())
        })
    }));
    match rows {
        Ok(Ok(_)) if is_too_large => Err(SnapshotError::Large(COPIED_BYTES_MAX >> 20)),
        Ok(Ok(_)) => Ok(SliceSnapshot::Rows(batches)),
        Ok(Err(error)) => Err(error),
        Err(panic) => {
            let not_read = panic.downcast_ref::<UnreadableState>().map(|it| it.0.clone());
            let message = not_read.unwrap_or_else(|| panic_message(&*panic));
            Err(SnapshotError::Slice { slice, message })
        }
    }
}

/// The rows of a table of a stage, by slice, and the cycle as of which they are.
pub(crate) fn take(
    job: &Job,
    stage: StageIx,
    table: usize,
) -> Result<(Cycle, Vec<SliceSnapshot>), SnapshotError> {
    let looks = &job.snapshots;
    let _turn = looks.turn.lock().unwrap_or_else(PoisonError::into_inner);
    let name = || job.plan[stage].name.clone();
    let number = looks.look().number + 1;
    let left = Arc::new(AtomicUsize::new(COPIED_BYTES_MAX));
    *looks.look() = PendingSnapshot { number, stage, table, left, ..PendingSnapshot::default() };
    let _ends = SnapshotEnd(looks);
    let at = {
        // Beginning a cycle takes the pacer's lock: what is processed from now on is `at` or later.
        let mut pacer = job.pacer.lock().expect("no panic while held");
        let at = pacer.begun();
        looks.look().at = Some(at);
        looks.at.store(at.0, Ordering::Release);
        pacer.want(at);
        at
    };
    job.wake_sources();
    let layouts = job.layouts.read().expect("no panic while held").clone();
    for lane in layouts.iter().flat_map(|it| it.lanes_of(stage)) {
        lane.state.lock().expect("no panic while held").snapshot_wanted = true;
        job.wake_lane(lane);
    }
    let all = job.plan[stage].slices as usize;
    let until_us = job.now_us() + WAIT_US;
    loop {
        let mut look = looks.look();
        if let Some(error) = look.failed.take() {
            return Err(error);
        }
        if look.slices.len() == all {
            return Ok((at, std::mem::take(&mut look.slices).into_values().collect()));
        }
        if job.over.load(Ordering::Acquire)
            || job.slices_done[stage.index()].load(Ordering::Acquire) >= all as u64
        {
            return Err(SnapshotError::Ended(name()));
        }
        if job.now_us() >= until_us {
            return Err(SnapshotError::Late(name(), at));
        }
        drop(looks.wakeup.wait_timeout(look, SLEEP_MAX).unwrap_or_else(PoisonError::into_inner));
    }
}
