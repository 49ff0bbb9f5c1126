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
use crate::error::AskError;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock},
    time::Duration,
};
use tidemill_env::sync::{
    Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicU64, AtomicUsize, Ordering},
    mpsc::{self, Sender},
};
use tidemill_state::{
    CheckpointError, CheckpointInfo, Checkpoints, Delta, Looker, Manifest, Pinned, SavedSink,
    SavedSource, SavedStage,
};
use tidemill_types::{Cycle, Micros, Span};

/// Longest sleep of the thread without work.
const SLEEP_MAX: Duration = Duration::from_millis(200);
/// A checkpoint that failed is tried again after so long.
const AGAIN_AFTER_US: u64 = 1_000_000;
/// Bytes that may wait for the thread before lanes pause writing out.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Deltas whose memory is kept for the next pieces.
const SPARE_MAX: usize = 32;

/// Shared by the lanes and the thread that writes.
pub(crate) struct Checkpointer {
    /// The job makes checkpoints.
    is_on: bool,
    /// The cycle at whose end the checkpoint under way is made; [`u64::MAX`] if there is none.
    at: AtomicU64,
    /// Bytes of the pieces that wait for the thread.
    waiting: AtomicUsize,
    /// Slices whose state is still to be read back.
    pub(crate) slices_left: Arc<AtomicUsize>,
    /// The job goes on from no cycle before this one.
    floor: AtomicU64,
    /// Whether that is so: some sink may need all cycles again.
    has_floor: bool,
    /// All complete checkpoints, the oldest first.
    pub(crate) complete: Mutex<Vec<(CheckpointInfo, Arc<Manifest>)>>,
    /// Those that are damaged, by number, with what is wrong.
    pub(crate) damaged: Mutex<Vec<(u64, String)>>,
    /// Finds them for those who read from them; none before the thread runs.
    looker: OnceLock<Looker>,
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
    /// Slices that are written out whole.
    slices: usize,
    pieces: VecDeque<Piece>,
    /// Deltas whose memory is used again.
    spare: Vec<Delta>,
    asked: VecDeque<Asked>,
    /// Nobody answers any more.
    is_closed: bool,
}

/// Some of what changed in a slice.
struct Piece {
    node: usize,
    slice: u32,
    delta: Delta,
}

/// Waits for a checkpoint that is kept.
type KeptTo = Sender<Result<CheckpointInfo, CheckpointError>>;

/// What is asked of the thread, and who waits for the answer.
enum Asked {
    /// A checkpoint now, that is kept under a name.
    Keep(String, KeptTo),
    /// A checkpoint that is deleted.
    Delete(u64, Sender<Result<(), CheckpointError>>),
}

impl Checkpointer {
    /// With source slices that ended in an earlier life. Without a floor cycles are never over,
    /// whatever checkpoint is behind them.
    pub(crate) fn new(
        ended: Ended,
        (is_on, has_floor): (bool, bool),
        slices_left: &Arc<AtomicUsize>,
    ) -> Self {
        Self {
            is_on,
            floor: AtomicU64::new(0),
            has_floor,
            at: AtomicU64::new(u64::MAX),
            waiting: AtomicUsize::new(0),
            slices_left: Arc::clone(slices_left),
            complete: Mutex::default(),
            damaged: Mutex::default(),
            looker: OnceLock::new(),
            arrived: Mutex::new(Arrived { ended, ..Arrived::default() }),
            bell: Condvar::new(),
        }
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

    /// Whether more may be written out now: what waits for the disk is bounded.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < WAITING_BYTES_MAX
    }

    /// Some of what changed in a slice of a stage, or the last of it. Gives back an empty delta.
    pub(crate) fn piece(&self, node: usize, slice: u32, delta: Delta, is_last: bool) -> Delta {
        let mut arrived = self.arrived();
        arrived.slices += usize::from(is_last);
        let empty = if delta.is_empty() {
            delta
        } else {
            self.waiting.fetch_add(delta.bytes(), Ordering::Relaxed);
            arrived.pieces.push_back(Piece { node, slice, delta });
            arrived.spare.pop().unwrap_or_default()
        };
        drop(arrived);
        self.bell.notify_one();
        empty
    }

    /// The memory of a delta may be used again.
    fn give_back(&self, delta: Delta) {
        let mut arrived = self.arrived();
        if arrived.spare.len() < SPARE_MAX {
            arrived.spare.push(delta);
        }
    }

    /// Asks the thread for a checkpoint that is kept under a name; waits for it.
    pub(crate) fn keep(&self, name: &str) -> Result<CheckpointInfo, AskError> {
        let (sender, receiver) = mpsc::channel();
        self.ask(Asked::Keep(name.to_owned(), sender))?;
        Ok(receiver.recv().map_err(|_| AskError::Over)??)
    }

    /// Asks the thread to delete a checkpoint that is kept.
    pub(crate) fn delete(&self, number: u64) -> Result<(), AskError> {
        let (sender, receiver) = mpsc::channel();
        self.ask(Asked::Delete(number, sender))?;
        Ok(receiver.recv().map_err(|_| AskError::Over)??)
    }

    fn ask(&self, asked: Asked) -> Result<(), AskError> {
        if !self.is_on {
            return Err(AskError::None);
        }
        let mut arrived = self.arrived();
        if arrived.is_closed {
            return Err(AskError::Over);
        }
        arrived.asked.push_back(asked);
        drop(arrived);
        self.bell.notify_all();
        Ok(())
    }

    /// Cycles up to this one are over: the job goes on from none of them.
    pub(crate) fn floor(&self) -> Cycle {
        Cycle(self.floor.load(Ordering::Acquire))
    }

    /// A complete checkpoint, that of a number or the newest, which stays until the result is dropped.
    pub(crate) fn pin(&self, number: Option<u64>) -> Result<Pinned, AskError> {
        match self.looker.get() {
            Some(looker) => Ok(looker.pin(number)?),
            None if self.is_on => Err(CheckpointError::None.into()),
            None => Err(AskError::None),
        }
    }

    /// What is there before the thread runs can be listed and looked at.
    pub(crate) fn found(&self, checkpoints: &Checkpoints) {
        self.show(checkpoints);
        self.looker.get_or_init(|| checkpoints.looker());
    }

    fn show(&self, checkpoints: &Checkpoints) {
        if self.has_floor {
            self.floor.store(checkpoints.floor().0, Ordering::Release);
        }
        *self.complete.lock().unwrap_or_else(PoisonError::into_inner) = checkpoints.list();
        let damaged = checkpoints.damaged().map(|(number, error)| (number, error.to_string()));
        *self.damaged.lock().unwrap_or_else(PoisonError::into_inner) = damaged.collect();
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

/// The thread: makes a checkpoint every so often, and when it is asked to, until the job is over.
pub(crate) fn run(job: &Job, mut checkpoints: Checkpoints, every: Span) {
    let _closes = Closes(&job.checkpointer);
    make_until_over(job, &mut checkpoints, every);
}

/// However the thread ends, nobody waits for it then.
struct Closes<'a>(&'a Checkpointer);

impl Drop for Closes<'_> {
    fn drop(&mut self) {
        let mut arrived = self.0.arrived();
        arrived.is_closed = true;
        arrived.asked.clear();
    }
}

fn make_until_over(job: &Job, checkpoints: &mut Checkpoints, every: Span) {
    let checkpointer = &job.checkpointer;
    let every_us = every.0.max(1).unsigned_abs();
    let mut due_us = job.now_us() + every_us;
    loop {
        let mut keeps = wanted(checkpointer, checkpoints);
        while keeps.is_empty() && job.now_us() < due_us {
            if is_over(job) {
                return;
            }
            let left = Duration::from_micros(due_us.saturating_sub(job.now_us()));
            let arrived = checkpointer.arrived();
            if arrived.asked.is_empty() {
                let waited = checkpointer.bell.wait_timeout(arrived, left.min(SLEEP_MAX));
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            } else {
                drop(arrived);
            }
            keeps = wanted(checkpointer, checkpoints);
        }
        let start_us = job.now_us();
        due_us = start_us + every_us;
        let at = begin(job);
        let Some(bytes) = make(job, checkpoints, at) else { return };
        keep(checkpointer, checkpoints, keeps);
        let mut progress = job.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
        progress.completed += 1;
        progress.cycle = at;
        progress.bytes = bytes;
        progress.took_us = job.now_us() - start_us;
        progress.failure = None;
    }
}

/// The checkpoints that are asked for. What is to be deleted is.
fn wanted(checkpointer: &Checkpointer, checkpoints: &mut Checkpoints) -> Vec<(String, KeptTo)> {
    let asked = std::mem::take(&mut checkpointer.arrived().asked);
    let mut keeps = Vec::new();
    for asked in asked {
        match asked {
            Asked::Keep(name, sender) => keeps.push((name, sender)),
            Asked::Delete(number, sender) => {
                let deleted = checkpoints.delete(number);
                checkpointer.show(checkpoints);
                // Who asked may have gone.
                let _gone = sender.send(deleted);
            }
        }
    }
    keeps
}

/// Keeps a checkpoint that is complete, for those who asked for it.
fn keep(checkpointer: &Checkpointer, checkpoints: &mut Checkpoints, asked: Vec<(String, KeptTo)>) {
    let keep = |(name, sender): (String, KeptTo)| (checkpoints.keep_newest(&name), sender);
    let kept: Vec<_> = asked.into_iter().map(keep).collect();
    // Who is answered finds it among all.
    checkpointer.show(checkpoints);
    for (kept, sender) in kept {
        // Who asked may have gone.
        let _gone = sender.send(kept);
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

/// Makes the checkpoint of a cycle; gives back the bytes of what changed. None: the job was over
/// before.
fn make(job: &Job, checkpoints: &mut Checkpoints, at: Cycle) -> Option<u64> {
    let (mut bytes, mut run) = (0, Vec::new());
    let number = until_written(job, || checkpoints.begin())?;
    loop {
        let checkpointer = &job.checkpointer;
        let mut arrived = checkpointer.arrived();
        if is_over(job) {
            return None;
        }
        if let Some(Piece { node, slice, mut delta }) = arrived.pieces.pop_front() {
            drop(arrived);
            checkpointer.waiting.fetch_sub(delta.bytes(), Ordering::Relaxed);
            if let Err(error) = delta.finish(&mut run) {
                job.fail(job.error_at(node, at, format!("it cannot be saved: {error}")));
                return None;
            }
            checkpointer.give_back(delta);
            bytes += run.len() as u64;
            // What could not be written is kept, and completing the checkpoint writes it.
            note(job, checkpoints.put((node as u32, slice), &run));
        } else if arrived.expected(job, at).is_some_and(|it| arrived.slices >= it)
            && job.committer.is_durable(at)
        {
            drop(arrived);
            let manifest = manifest(job, checkpoints, (number, at));
            until_written(job, || checkpoints.complete(manifest.clone()))?;
            checkpointer.at.store(u64::MAX, Ordering::Release);
            return Some(bytes);
        } else {
            checkpointer.wait(arrived);
        }
    }
}

/// Tries until it can be written, or the job is over.
fn until_written<T>(job: &Job, mut write: impl FnMut() -> Result<T, CheckpointError>) -> Option<T> {
    loop {
        if let Some(written) = note(job, write()) {
            return Some(written);
        }
        let until_us = job.now_us() + AGAIN_AFTER_US;
        while job.now_us() < until_us {
            if is_over(job) {
                return None;
            }
            job.checkpointer.wait(job.checkpointer.arrived());
        }
    }
}

/// Says that a checkpoint could not be written, if so.
fn note<T>(job: &Job, outcome: Result<T, CheckpointError>) -> Option<T> {
    let error = match outcome {
        Ok(written) => return Some(written),
        Err(error) => error,
    };
    let mut progress = job.checkpoints.lock().unwrap_or_else(PoisonError::into_inner);
    if progress.failure.is_none() {
        tracing::warn!(job = job.plan.name, %error, "a checkpoint cannot be written; trying again");
    }
    progress.failure = Some(error.to_string());
    None
}

fn manifest(job: &Job, checkpoints: &Checkpoints, (number, at): (u64, Cycle)) -> Manifest {
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
        number,
        made: job.wall(),
        cycle: at,
        time: arrived.time,
        sources: ended.chain(arrived.sources.values()).cloned().collect(),
        stages: job.plan.nodes.iter().enumerate().filter_map(stage).collect(),
        sinks: job.plan.nodes.iter().enumerate().filter_map(sink).collect(),
        letters: Cycle(job.letters_last.load(Ordering::Acquire)).min(at),
    }
}
