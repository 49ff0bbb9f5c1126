//! Uncoordinated checkpoints: each slice is saved by itself.
//!
//! ```text
//! lane      slices that are due ── rings ─▶ thread: opens the gate
//!           freezes them at the end of its next cycle, writes out ─▶ pieces ─▶ backend
//! thread    all who came are written out: closes the gate; then the sources' positions at some
//!           later cycle ─▶ manifest
//! ```
//!
//! - A manifest names each slice as of a cycle of its own, not after the manifest's. So the records
//!   in the slices of a resuming job came before the positions where its sources resume.
//! - While the backend writes, slices that become due wait for the next gate and go on changing:
//!   nothing queues up, and no queued save has to be dropped. Slices are saved less often.

use super::interval::CheckpointInterval;
use super::thread::{
    CompletedCheckpoint, Urgency, begin, complete, make, put_until, until_written,
};
use super::{Checkpointer, PendingCheckpoint};
use crate::operator::CycleInput;
use crate::runtime::job::Job;
use std::ops::Range;
use tidemill_checkpoints::Checkpoints;
use tidemill_env::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use tidemill_types::{Cycle, SliceId, job::Every};

/// The longest wait of a stopping job for its last checkpoint, in microseconds.
const LAST_US: u64 = 3_000_000;

/// When the slices of a job are saved by themselves.
pub(crate) struct Uncoordinated {
    /// Time from one save of a slice to the next, in microseconds; [`u64::MAX`] if only records
    /// count.
    every_us: AtomicU64,
    /// Records of a slice from one save to the next.
    records: Option<u64>,
    /// Lanes with records since they were saved.
    unsaved: AtomicUsize,
    /// Slices may be saved now.
    is_open: AtomicBool,
    /// The number of openings of the gate.
    openings: AtomicU64,
    /// The job is to stop, and does so at this time at the latest; [`u64::MAX`] if it goes on.
    stop_by_us: AtomicU64,
    /// All of it is saved, or the wait for that is over.
    is_left: AtomicBool,
}

impl Uncoordinated {
    pub(crate) fn new(every: &Every) -> Self {
        let records = match every {
            Every::Auto => None,
            Every::Bounds { records, .. } => *records,
        };
        let every_us = AtomicU64::new(CheckpointInterval::new(every).every_us());
        Self {
            every_us,
            records,
            unsaved: AtomicUsize::new(0),
            is_open: AtomicBool::new(false),
            openings: AtomicU64::new(0),
            stop_by_us: AtomicU64::new(u64::MAX),
            is_left: AtomicBool::new(false),
        }
    }

    pub(super) fn set_every(&self, every_us: u64) {
        self.every_us.store(every_us, Ordering::Relaxed);
    }

    /// The job is to stop when all of it is saved.
    pub(crate) fn stop(&self, now_us: u64) {
        if !self.is_to_stop() {
            self.stop_by_us.store(now_us.saturating_add(LAST_US), Ordering::Release);
        }
    }

    /// Returns true if the job is to stop.
    pub(crate) fn is_to_stop(&self) -> bool {
        self.stop_by_us.load(Ordering::Acquire) < u64::MAX
    }

    /// Returns true if a job that stops may end: all of it is saved, or saving took too long.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Acquire)
    }

    /// Returns true if there is anything to save.
    pub(super) fn has_unsaved(&self) -> bool {
        self.unsaved.load(Ordering::Acquire) > 0
    }
}

/// Slices go through it to be saved.
#[derive(Default)]
pub(super) struct Gate {
    is_open: bool,
    /// A lane came to it while it was closed.
    is_rung: bool,
    /// Slices that went through it since it was opened.
    entered: usize,
}

impl Gate {
    pub(super) fn is_rung(&self) -> bool {
        self.is_rung
    }
}

impl Checkpointer {
    /// Lets a lane with slices to save through the gate; returns false if it must wait for the next
    /// opening.
    pub(crate) fn enter(&self, slices: usize) -> bool {
        let mut arrived = self.arrived();
        if arrived.gate.is_open {
            arrived.gate.entered += slices;
            return true;
        }
        let is_first = !std::mem::replace(&mut arrived.gate.is_rung, true);
        drop(arrived);
        if is_first {
            self.wakeup.notify_one();
        }
        false
    }
}

/// Saves the slices that are due. None: the job was over before.
pub(super) fn save(
    job: &Job,
    checkpoints: &mut Checkpoints,
    alone: &Uncoordinated,
) -> Option<CompletedCheckpoint> {
    let checkpointer = &job.checkpointer;
    let number = until_written(job, checkpoints, Checkpoints::begin)?;
    {
        let mut arrived = checkpointer.arrived();
        arrived.slices = 0;
        arrived.gate = Gate { is_open: true, ..Gate::default() };
        alone.openings.fetch_add(1, Ordering::AcqRel);
        alone.is_open.store(true, Ordering::Release);
    }
    // Every lane comes to it once.
    let first = job.want_cycle();
    let all_came = |arrived: &mut PendingCheckpoint| {
        if arrived.gate.is_open && job.has_committed(first) {
            arrived.gate.is_open = false;
            alone.is_open.store(false, Ordering::Release);
        }
        !arrived.gate.is_open && arrived.slices >= arrived.gate.entered
    };
    let bytes = put_until(job, checkpoints, first, all_came)?;
    let at = begin(job, false, Urgency::Now);
    let is_there = |arrived: &mut PendingCheckpoint| {
        arrived.last_cycles(job, at).is_some() && job.has_committed(at)
    };
    put_until(job, checkpoints, at, is_there)?;
    complete(job, checkpoints, (number, at))?;
    Some(CompletedCheckpoint { at, bytes })
}

/// Saves all slices at one cycle, the last of the job. None: the job was over before.
pub(super) fn save_last(
    job: &Job,
    checkpoints: &mut Checkpoints,
    alone: &Uncoordinated,
) -> Option<CompletedCheckpoint> {
    let made = make(job, checkpoints, Urgency::Last);
    alone.is_left.store(true, Ordering::Release);
    job.committer.wake();
    made
}

impl Job {
    /// Stops, if the last checkpoint takes too long.
    pub(crate) fn stop_in_time(&self) {
        let Some(alone) = &self.checkpointer.uncoordinated else { return };
        if alone.is_left() || self.now_us() < alone.stop_by_us.load(Ordering::Acquire) {
            return;
        }
        let job = &self.plan.name;
        tracing::warn!(
            job,
            "its last checkpoint takes too long: what came since the one before is lost"
        );
        self.pacer.lock().expect("no panic while held").stop();
        alone.is_left.store(true, Ordering::Release);
        self.wake_sources();
    }

    /// Has the next cycle begin, though there may be nothing to read.
    fn want_cycle(&self) -> Cycle {
        let mut pacer = self.pacer.lock().expect("no panic while held");
        let next = pacer.begun().next();
        pacer.want(next);
        drop(pacer);
        self.wake_sources();
        next
    }

    /// Returns true if all sinks have committed a cycle; else the thread is woken once they have.
    fn has_committed(&self, cycle: Cycle) -> bool {
        self.checkpointer.awaited.store(cycle.0, Ordering::SeqCst);
        let has = self.committed.load(Ordering::SeqCst) >= cycle.0;
        if has {
            self.checkpointer.awaited.store(u64::MAX, Ordering::SeqCst);
        }
        has
    }
}

/// The slices of a lane that are due for a save.
pub(crate) struct DueSlices {
    saved_us: u64,
    /// The opening of the gate at which it went through: a slice is saved once in a checkpoint.
    came_at: u64,
    /// Records came since.
    is_changed: bool,
    /// By slice, since it was saved; empty if records are not counted.
    records: Vec<u64>,
}

impl DueSlices {
    /// Of a lane that may have changed. Its slices may have come to the gate with another.
    pub(crate) fn new(alone: &Uncoordinated, slices: usize, now_us: u64) -> Self {
        alone.unsaved.fetch_add(1, Ordering::AcqRel);
        let records = if alone.records.is_some() { vec![0; slices] } else { Vec::new() };
        let came_at = alone.openings.load(Ordering::Acquire);
        Self { saved_us: now_us, came_at, is_changed: true, records }
    }

    /// Records came.
    pub(crate) fn count(&mut self, alone: &Uncoordinated, slices: &Range<u32>, input: &CycleInput) {
        if !self.is_changed && !input.is_empty() {
            self.is_changed = true;
            alone.unsaved.fetch_add(1, Ordering::AcqRel);
        }
        for (slice, records) in slices.clone().zip(&mut self.records) {
            let of_slice = |block: &std::sync::Arc<crate::block::Block>| {
                block.rows_of(SliceId(slice)).len() as u64
            };
            *records += input.ports.iter().flatten().map(of_slice).sum::<u64>();
        }
    }

    /// The slices that are due, counted from the first of the lane.
    pub(crate) fn which(&self, alone: &Uncoordinated, slices: usize, now_us: u64) -> Vec<usize> {
        let every_us = alone.every_us.load(Ordering::Relaxed);
        let is_open = alone.is_open.load(Ordering::Acquire);
        if is_open && self.came_at == alone.openings.load(Ordering::Acquire) {
            return Vec::new();
        }
        // Who is halfway there joins those that are saved now, and need not be alone then.
        let every_us = every_us / (1 + u64::from(is_open));
        if self.is_changed && now_us.saturating_sub(self.saved_us) >= every_us {
            return (0..slices).collect();
        }
        let Some(most) = alone.records else { return Vec::new() };
        let is_due = |(_, records): &(usize, &u64)| **records >= most;
        self.records.iter().enumerate().filter(is_due).map(|(slice, _)| slice).collect()
    }

    /// Returns true if no record came for a slice since its last save, which is complete.
    pub(crate) fn is_quiet(&self, alone: &Uncoordinated, slice: usize) -> bool {
        self.came_at != alone.openings.load(Ordering::Acquire)
            && (!self.is_changed || self.records.get(slice) == Some(&0))
    }

    /// These slices are being saved.
    pub(crate) fn saved(
        &mut self,
        alone: &Uncoordinated,
        slices: &[usize],
        of: usize,
        now_us: u64,
    ) {
        self.came_at = alone.openings.load(Ordering::Acquire);
        for slice in slices {
            if let Some(records) = self.records.get_mut(*slice) {
                *records = 0;
            }
        }
        if slices.len() == of {
            self.saved_us = now_us;
            self.leave(alone);
        }
    }

    /// The lane has nothing to save any more.
    pub(crate) fn leave(&mut self, alone: &Uncoordinated) {
        if std::mem::take(&mut self.is_changed) {
            alone.unsaved.fetch_sub(1, Ordering::AcqRel);
        }
    }
}
