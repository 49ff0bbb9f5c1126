//! Checkpoints of a running job, made while it runs (ChronoStream, section III-B).
//!
//! ```text
//! thread         cycle c, that nobody has begun ──▶ at
//! source lanes   position and watermark at the end of c ─────────────┐
//! stage lanes    freeze at the end of c, then write out in pieces ───┼─▶ arrived ─▶ thread ─▶ backend
//! commit thread  sinks have c, durably ──────────────────────────────┘              └─ manifest
//! ```
//!
//! - No lane waits for another, or for the disk: a lane freezes its slices after `c`, and goes on
//!   with `c + 1`.
//! - The manifest is written when every slice is in the backend and every sink has `c` for good:
//!   a job that goes on from there makes no cycle that a sink still lacks.
//! - A failed write is repeated later; the checkpoint before stays in force.
//! - Under `at-most-once` each slice is saved by itself ([`uncoordinated`]); a checkpoint that is kept is
//!   made as above.

mod interval;
mod thread;
pub(crate) mod uncoordinated;

pub(crate) use thread::run;

use super::job::Job;
use super::plan::Work;
use crate::error::AskError;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tidemill_checkpoints::{
    CheckpointError, CheckpointInfo, CheckpointReader, Checkpoints, Manifest, PinnedCheckpoint,
    SavedSource,
};
use tidemill_env::sync::{
    Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    mpsc::{self, Sender},
};
use tidemill_state::Delta;
use tidemill_types::{CheckpointNumber, Cycle, Micros, SliceKey, StageIx};
use uncoordinated::{Gate, Uncoordinated};

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
    /// All slices are frozen there.
    is_whole: AtomicBool,
    /// The thread waits until all sinks have committed this cycle; [`u64::MAX`] if it does not.
    awaited: AtomicU64,
    /// Slices are saved by themselves.
    pub(crate) uncoordinated: Option<Uncoordinated>,
    /// Bytes of the pieces that wait for the thread.
    waiting: AtomicUsize,
    /// Slices whose state is still to be read back.
    pub(crate) slices_left: Arc<AtomicUsize>,
    /// The job goes on from no cycle before this one.
    floor: AtomicU64,
    /// False if some sink may need all cycles again, so that the floor stays 0.
    has_floor: bool,
    /// All complete checkpoints, the oldest first.
    pub(crate) complete: Mutex<Vec<(CheckpointInfo, Arc<Manifest>)>>,
    /// The damaged checkpoints, by number, with the fault of each.
    pub(crate) damaged: Mutex<Vec<(CheckpointNumber, String)>>,
    /// Opens checkpoints for readers; none before the thread runs, and after the end.
    looker: Mutex<Option<CheckpointReader>>,
    arrived: Mutex<PendingCheckpoint>,
    wakeup: Condvar,
}

/// Source slices that have ended, with the cycle in which each did.
pub(crate) type EndedSources = BTreeMap<SliceKey, (Cycle, SavedSource)>;

/// The contributions of the lanes to the checkpoint under way.
#[derive(Default)]
struct PendingCheckpoint {
    /// The recorded time of its cycle.
    time: Micros,
    /// The positions of source slices as of its cycle.
    sources: BTreeMap<SliceKey, SavedSource>,
    /// As of the cycle with which they ended, whenever that was.
    ended: EndedSources,
    /// The watermarks of operators.
    watermarks: BTreeMap<StageIx, Micros>,
    /// The last cycle with rows of each sink.
    sinks: BTreeMap<StageIx, Cycle>,
    /// Slices that are written out whole.
    slices: usize,
    /// The gate for slices that are saved by themselves.
    gate: Gate,
    pieces: VecDeque<SlicePiece>,
    /// Deltas whose memory is used again.
    spare: Vec<Delta>,
    requests: VecDeque<CheckpointRequest>,
    /// Requests for a kept checkpoint: the name, and the channel for the reply.
    keeps: VecDeque<(String, KeepReply)>,
    /// The thread has ended, and takes no requests.
    is_closed: bool,
}

/// A piece of the changes of a slice.
struct SlicePiece {
    slice: SliceKey,
    delta: Delta,
}

/// Waits for a checkpoint that is kept.
type KeepReply = Sender<Result<CheckpointInfo, AskError>>;

/// A request to the thread, with the channel for the reply.
enum CheckpointRequest {
    /// A checkpoint now, that is kept under a name.
    Keep(String, KeepReply),
    /// A checkpoint that is deleted.
    Delete(CheckpointNumber, Sender<Result<(), CheckpointError>>),
}

impl Checkpointer {
    /// A checkpointer with the source slices that ended in an earlier life. Without a floor every
    /// cycle of the ledger is kept.
    pub(crate) fn new(
        ended: EndedSources,
        (is_on, has_floor): (bool, bool),
        uncoordinated: Option<Uncoordinated>,
        slices_left: &Arc<AtomicUsize>,
    ) -> Self {
        Self {
            is_on,
            is_whole: AtomicBool::new(true),
            awaited: AtomicU64::new(u64::MAX),
            uncoordinated,
            floor: AtomicU64::new(0),
            has_floor,
            at: AtomicU64::new(u64::MAX),
            waiting: AtomicUsize::new(0),
            slices_left: Arc::clone(slices_left),
            complete: Mutex::default(),
            damaged: Mutex::default(),
            looker: Mutex::new(None),
            arrived: Mutex::new(PendingCheckpoint { ended, ..PendingCheckpoint::default() }),
            wakeup: Condvar::new(),
        }
    }

    fn arrived(&self) -> MutexGuard<'_, PendingCheckpoint> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a checkpoint is made at the end of this cycle.
    #[inline]
    pub(crate) fn is_at(&self, cycle: Cycle) -> bool {
        self.at.load(Ordering::Acquire) == cycle.0
    }

    /// Returns true if all slices are frozen at the end of this cycle.
    ///
    /// Looked at in this order: a lane may come here when a checkpoint of its cycle that does not
    /// wait for it is complete, and one of a later cycle that does was begun.
    #[inline]
    pub(crate) fn is_whole_at(&self, cycle: Cycle) -> bool {
        self.is_whole.load(Ordering::Acquire) && self.is_at(cycle)
    }

    /// A source slice has cut the checkpoint's cycle, or has ended.
    pub(crate) fn source(
        &self,
        stage: StageIx,
        (cycle, time): (Cycle, Micros),
        saved: SavedSource,
    ) {
        let slice = SliceKey::new(stage, saved.slice);
        let mut arrived = self.arrived();
        if saved.ended {
            arrived.ended.insert(slice, (cycle, saved.clone()));
        }
        if self.is_at(cycle) {
            arrived.time = time;
            arrived.sources.insert(slice, saved);
        }
        drop(arrived);
        self.wakeup.notify_one();
    }

    /// A lane of a stage has come to the checkpoint's cycle.
    pub(crate) fn stage(&self, stage: StageIx, watermark: Micros) {
        let mut arrived = self.arrived();
        let others = arrived.watermarks.insert(stage, watermark);
        debug_assert!(
            others.is_none_or(|it| it == watermark),
            "the lanes of a stage have one watermark at the end of a cycle"
        );
    }

    /// A sink has come to the checkpoint's cycle; the last one of which it had rows.
    pub(crate) fn sink(&self, stage: StageIx, last: Cycle) {
        self.arrived().sinks.insert(stage, last);
    }

    /// Returns true if lanes may write out more now: the bytes that wait for the disk are bounded.
    pub(crate) fn has_room(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) < WAITING_BYTES_MAX
    }

    /// Takes a piece of the changes of a slice, or the last one. Gives back an empty delta.
    pub(crate) fn piece(&self, slice: SliceKey, delta: Delta, is_last: bool) -> Delta {
        let mut arrived = self.arrived();
        arrived.slices += usize::from(is_last);
        let empty = if delta.is_empty() {
            delta
        } else {
            self.waiting.fetch_add(delta.bytes(), Ordering::Relaxed);
            arrived.pieces.push_back(SlicePiece { slice, delta });
            arrived.spare.pop().unwrap_or_default()
        };
        drop(arrived);
        self.wakeup.notify_one();
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
        self.ask(CheckpointRequest::Keep(name.to_owned(), sender))?;
        receiver.recv().map_err(|_| AskError::Over)?
    }

    /// Asks the thread to delete a checkpoint that is kept.
    pub(crate) fn delete(&self, number: CheckpointNumber) -> Result<(), AskError> {
        let (sender, receiver) = mpsc::channel();
        self.ask(CheckpointRequest::Delete(number, sender))?;
        Ok(receiver.recv().map_err(|_| AskError::Over)??)
    }

    fn ask(&self, asked: CheckpointRequest) -> Result<(), AskError> {
        if !self.is_on {
            return Err(AskError::None);
        }
        let mut arrived = self.arrived();
        if arrived.is_closed {
            return Err(AskError::Over);
        }
        arrived.requests.push_back(asked);
        drop(arrived);
        self.wakeup.notify_all();
        Ok(())
    }

    /// Cycles up to this one are over: the job goes on from none of them.
    pub(crate) fn floor(&self) -> Cycle {
        Cycle(self.floor.load(Ordering::Acquire))
    }

    /// A complete checkpoint, by number or the newest. It stays until the result is dropped.
    pub(crate) fn pin(
        &self,
        number: Option<CheckpointNumber>,
    ) -> Result<PinnedCheckpoint, AskError> {
        match &*self.looker() {
            Some(looker) => Ok(looker.pin(number)?),
            None if self.arrived().is_closed => Err(AskError::Over),
            None if self.is_on => Err(CheckpointError::None.into()),
            None => Err(AskError::None),
        }
    }

    /// Shows the checkpoints that are there before the thread runs.
    pub(crate) fn found(&self, checkpoints: &Checkpoints) {
        self.show(checkpoints);
        self.looker().get_or_insert_with(|| checkpoints.looker());
    }

    /// Closes the store once no thread of the job is left, so that another job may open it. PinnedCheckpoint
    /// checkpoints keep it open until they are dropped.
    pub(crate) fn let_go(&self) {
        drop(self.looker().take());
    }

    /// Returns true once the store is closed.
    pub(crate) fn has_let_go(&self) -> bool {
        self.arrived().is_closed && self.looker().is_none()
    }

    fn looker(&self) -> MutexGuard<'_, Option<CheckpointReader>> {
        self.looker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time of the newest complete checkpoint, in microseconds since 1970.
    pub(crate) fn newest_us(&self) -> Option<i64> {
        let complete = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        complete.last().map(|(info, _)| info.made_us)
    }

    fn show(&self, checkpoints: &Checkpoints) {
        if self.has_floor {
            self.floor.store(checkpoints.floor().0, Ordering::Release);
        }
        *self.complete.lock().unwrap_or_else(PoisonError::into_inner) = checkpoints.list();
        let damaged = checkpoints.damaged().map(|(number, error)| (number, error.to_string()));
        *self.damaged.lock().unwrap_or_else(PoisonError::into_inner) = damaged.collect();
    }

    /// All sinks have committed a cycle.
    #[inline]
    pub(crate) fn committed(&self, cycle: Cycle) {
        if self.awaited.load(Ordering::SeqCst) <= cycle.0 {
            self.wake();
        }
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        drop(self.arrived());
        self.wakeup.notify_all();
    }
}

impl PendingCheckpoint {
    /// Returns true if a request waits for the checkpoint under way.
    fn is_awaited(&self) -> bool {
        !self.requests.is_empty() || !self.keeps.is_empty()
    }

    /// The last cycle that each stage processes, if all that feeds it has ended; else [`u64::MAX`]. None
    /// while a source slice has not come to the checkpoint's cycle.
    fn last_cycles(&self, job: &Job, at: Cycle) -> Option<Vec<Cycle>> {
        let before = self.ended.iter().filter(|(_, (cycle, _))| *cycle < at);
        let before = before.map(|(slice, (cycle, _))| (slice.stage, *cycle));
        let now = self
            .sources
            .iter()
            .map(|(slice, saved)| (slice.stage, if saved.ended { at } else { Cycle(u64::MAX) }));
        let all: Vec<(StageIx, Cycle)> = before.chain(now).collect();
        if all.len() < job.sources.count_in(at) {
            return None;
        }
        let mut last = vec![Cycle::NONE; job.plan.stages.len()];
        for (stage, cycle) in all {
            last[stage.index()] = last[stage.index()].max(cycle);
        }
        Some(job.plan.downstream(last))
    }

    /// The number of slices to expect, once it is known.
    fn expected(&self, job: &Job, at: Cycle) -> Option<usize> {
        let last = self.last_cycles(job, at)?;
        let stages = job.plan.stages.iter().zip(last);
        let stages = stages
            .filter(|(stage, last)| matches!(stage.work, Work::Operator { .. }) && *last >= at);
        Some(stages.map(|(stage, _)| stage.slices as usize).sum())
    }
}
