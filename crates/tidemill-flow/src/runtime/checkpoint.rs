//! Checkpoints of a running job, made while it runs (DESIGN 6; ChronoStream III-B).
//!
//! ```text
//! thread         cycle c, that nobody has begun ──▶ at
//! source lanes   position and watermark at the end of c ─────────────┐
//! stage lanes    freeze at the end of c, then write out in pieces ───┼─▶ arrived ─▶ thread ─▶ backend
//! commit thread  sinks have c, durably ──────────────────────────────┘              └─ manifest
//! ```
//!
//! - No lane waits for another, or for the disk: a lane freezes its slices when it has processed
//!   `c`, and goes on with `c + 1`.
//! - The manifest is written when every slice is in the backend and every sink has `c` for good:
//!   a job that goes on from there makes no cycle that a sink still lacks.
//! - What cannot be written is kept, and written later; the checkpoint before stays in force.

use super::job::Job;
use super::plan::Work;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tidemill_state::{
    CheckpointError, Checkpoints, Delta, Manifest, SavedSink, SavedSource, SavedStage,
};
use tidemill_types::{Cycle, Micros, Span};

/// Longest sleep of the thread without work.
const SLEEP_MAX: Duration = Duration::from_millis(200);
/// A checkpoint that failed is tried again after so long.
const AGAIN_AFTER_US: u64 = 1_000_000;

/// Shared by the lanes and the thread that writes.
pub(crate) struct Checkpointer {
    /// The cycle at whose end the checkpoint under way is made; [`u64::MAX`] if there is none.
    at: AtomicU64,
    arrived: Mutex<Arrived>,
    bell: Condvar,
}

/// Source slices that have ended, by node and slice, and the cycle with which they did.
pub(crate) type Ended = BTreeMap<(usize, u32), (Cycle, SavedSource)>;

/// What the lanes brought for the checkpoint under way.
#[derive(Default)]
struct Arrived {
    /// The recorded time of its cycle.
    time: Micros,
    /// By node and slice: as of its cycle.
    sources: BTreeMap<(usize, u32), SavedSource>,
    /// As of the cycle with which they ended, whenever that was.
    ended: Ended,
    /// By node of the stage.
    watermarks: BTreeMap<usize, Micros>,
    /// By node of the sink: the last cycle with rows.
    sinks: BTreeMap<usize, Cycle>,
    slices: usize,
    deltas: VecDeque<((usize, u32), Delta)>,
}

impl Checkpointer {
    /// With source slices that ended in an earlier life.
    pub(crate) fn new(ended: Ended) -> Self {
        let arrived = Arrived { ended, ..Arrived::default() };
        Self { at: AtomicU64::new(u64::MAX), arrived: Mutex::new(arrived), bell: Condvar::new() }
    }

    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a checkpoint is made at the end of this cycle.
    #[inline]
    pub(crate) fn is_at(&self, cycle: Cycle) -> bool {
        self.at.load(Ordering::Acquire) == cycle.0
    }

    /// A source slice has cut the checkpoint's cycle, or has ended.
    pub(crate) fn source(&self, node: usize, (cycle, time): (Cycle, Micros), saved: SavedSource) {
        let mut arrived = self.arrived();
        if saved.ended {
            arrived.ended.insert((node, saved.slice), (cycle, saved.clone()));
        }
        if self.is_at(cycle) {
            arrived.time = time;
            arrived.sources.insert((node, saved.slice), saved);
        }
        drop(arrived);
        self.bell.notify_one();
    }

    /// A lane of a stage has frozen its slices.
    pub(crate) fn stage(&self, node: usize, watermark: Micros) {
        self.arrived().watermarks.insert(node, watermark);
    }

    /// A sink has come to the checkpoint's cycle; the last one of which it had rows.
    pub(crate) fn sink(&self, node: usize, last: Cycle) {
        self.arrived().sinks.insert(node, last);
    }

    /// All that changed in a slice of a stage.
    pub(crate) fn slice(&self, node: usize, slice: u32, delta: Delta) {
        let mut arrived = self.arrived();
        arrived.slices += 1;
        arrived.deltas.push_back(((node, slice), delta));
        drop(arrived);
        self.bell.notify_one();
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        drop(self.arrived());
        self.bell.notify_all();
    }

    fn wait(&self, arrived: MutexGuard<'_, Arrived>) {
        drop(self.bell.wait_timeout(arrived, SLEEP_MAX).unwrap_or_else(PoisonError::into_inner));
    }
}

impl Arrived {
    /// By node: the last cycle that it processes, if all that feeds it has come to its end; the end
    /// of time if not. None while a source slice has not come to the checkpoint's cycle.
    fn last_cycles(&self, job: &Job, at: Cycle) -> Option<Vec<Cycle>> {
        let before = self.ended.iter().filter(|(_, (cycle, _))| *cycle < at);
        let before = before.map(|((node, _), (cycle, _))| (*node, *cycle));
        let now = self
            .sources
            .iter()
            .map(|((node, _), saved)| (*node, if saved.ended { at } else { Cycle(u64::MAX) }));
        let all: Vec<(usize, Cycle)> = before.chain(now).collect();
        if all.len() < job.sources {
            return None;
        }
        let mut last = vec![Cycle::NONE; job.plan.nodes.len()];
        all.into_iter().for_each(|(node, cycle)| last[node] = last[node].max(cycle));
        Some(job.plan.downstream(last))
    }

    /// How many slices come, once that is known.
    fn expected(&self, job: &Job, at: Cycle) -> Option<usize> {
        let last = self.last_cycles(job, at)?;
        let stages = job.plan.nodes.iter().zip(last);
        let stages =
            stages.filter(|(node, last)| matches!(node.work, Work::Stage { .. }) && *last >= at);
        Some(stages.map(|(node, _)| node.slices as usize).sum())
    }
}

/// The thread: makes a checkpoint every so often, until the job is over.
pub(crate) fn run(job: &Job, mut checkpoints: Checkpoints, every: Span) {
    let every_us = every.0.max(1).unsigned_abs();
    let mut due_us = job.now_us() + every_us;
    loop {
        while job.now_us() < due_us {
            let left = Duration::from_micros(due_us.saturating_sub(job.now_us()));
            if is_over(job) {
                return;
            }
            let checkpointer = &job.checkpointer;
            let arrived = checkpointer.arrived();
            let waited = checkpointer.bell.wait_timeout(arrived, left.min(SLEEP_MAX));
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
        let start_us = job.now_us();
        due_us = start_us + every_us;
        let at = begin(job);
        let Some(bytes) = make(job, &mut checkpoints, at) else { return };
        let mut progress = job.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        progress.completed += 1;
        progress.cycle = at;
        progress.bytes = bytes;
        progress.took_us = job.now_us() - start_us;
        progress.failure = None;
    }
}

fn is_over(job: &Job) -> bool {
    job.over.load(Ordering::Acquire)
}

/// Picks the cycle: one that no source has begun, so that no lane has processed it.
fn begin(job: &Job) -> Cycle {
    let checkpointer = &job.checkpointer;
    let mut arrived = checkpointer.arrived();
    arrived.watermarks.clear();
    arrived.sinks.clear();
    arrived.slices = 0;
    arrived.sources.clear();
    drop(arrived);
    // Beginning a cycle takes the pacer's lock.
    let pacer = job.pacer.lock().expect("no panic while held");
    let at = pacer.begun().next();
    checkpointer.at.store(at.0, Ordering::Release);
    at
}

/// Makes the checkpoint of a cycle; gives back its bytes. None: the job was over before.
fn make(job: &Job, checkpoints: &mut Checkpoints, at: Cycle) -> Option<u64> {
    let mut bytes = 0;
    until_written(job, || checkpoints.begin(at))?;
    loop {
        let checkpointer = &job.checkpointer;
        let mut arrived = checkpointer.arrived();
        if is_over(job) {
            return None;
        }
        if let Some(((node, slice), delta)) = arrived.deltas.pop_front() {
            drop(arrived);
            if delta.is_empty() {
                continue;
            }
            let run = match delta.finish() {
                Ok(run) => run,
                Err(error) => {
                    job.fail(job.error_at(node, at, format!("it cannot be saved: {error}")));
                    return None;
                }
            };
            bytes += run.len() as u64;
            // What could not be written is kept, and completing the checkpoint writes it.
            note(job, checkpoints.put((node as u32, slice), run.into()));
        } else if arrived.expected(job, at).is_some_and(|it| arrived.slices >= it)
            && job.committer.is_durable(at)
        {
            drop(arrived);
            let manifest = manifest(job, checkpoints, at);
            until_written(job, || checkpoints.complete(&manifest))?;
            checkpointer.at.store(u64::MAX, Ordering::Release);
            return Some(bytes);
        } else {
            checkpointer.wait(arrived);
        }
    }
}

/// Tries until it can be written, or the job is over.
fn until_written(job: &Job, mut write: impl FnMut() -> Result<(), CheckpointError>) -> Option<()> {
    while !note(job, write()) {
        let until_us = job.now_us() + AGAIN_AFTER_US;
        while job.now_us() < until_us {
            if is_over(job) {
                return None;
            }
            job.checkpointer.wait(job.checkpointer.arrived());
        }
    }
    Some(())
}

/// Says that a checkpoint could not be written, if so.
fn note(job: &Job, outcome: Result<(), CheckpointError>) -> bool {
    let Err(error) = outcome else { return true };
    let mut progress = job.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
    if progress.failure.is_none() {
        tracing::warn!(job = job.plan.name, %error, "a checkpoint cannot be written; trying again");
    }
    progress.failure = Some(error.to_string());
    false
}

fn manifest(job: &Job, checkpoints: &Checkpoints, at: Cycle) -> Manifest {
    let arrived = job.checkpointer.arrived();
    let stage = |(node, plan): (usize, &super::plan::NodePlan)| {
        let Work::Stage { factory } = &plan.work else { return None };
        Some(SavedStage {
            name: plan.name.clone(),
            does: factory.does(),
            watermark: arrived.watermarks.get(&node).copied().unwrap_or(Micros::MAX),
            slices: checkpoints.chains(node as u32, plan.slices),
        })
    };
    let sink = |(node, plan): (usize, &super::plan::NodePlan)| {
        // One that does not come to this cycle has ended before.
        let ended_with = || Cycle(plan.count.last_rows.load(Ordering::Acquire));
        let last = arrived.sinks.get(&node).copied().unwrap_or_else(ended_with);
        let is_sink = matches!(plan.work, Work::Sink);
        is_sink.then(|| SavedSink { name: plan.name.clone(), last })
    };
    let ended = arrived.ended.values().filter(|(cycle, _)| *cycle < at).map(|(_, saved)| saved);
    Manifest {
        cycle: at,
        time: arrived.time,
        sources: ended.chain(arrived.sources.values()).cloned().collect(),
        stages: job.plan.nodes.iter().enumerate().filter_map(stage).collect(),
        sinks: job.plan.nodes.iter().enumerate().filter_map(sink).collect(),
        letters: Cycle(job.letters_last.load(Ordering::Acquire)).min(at),
    }
}
