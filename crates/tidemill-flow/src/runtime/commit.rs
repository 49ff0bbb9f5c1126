//! The commit thread: ledger first, then sinks.
//!
//! ```text
//! source lanes ── cuts ──▶ ledger ── durable up to c ──▶ sinks commit up to c ──▶ sources go on
//! sink lanes ── written up to w ─────────────────────────▶┘
//! ```
//!
//! - A sink commits a cycle only after the ledger holds it.
//! - Several cycles are committed at once when they are there: one sync, one commit.
//! - A job without a ledger has no such wait: the lane of the sink commits by itself.
//! - A full disk is waited for ([`crate::retry`]), so no row of a job is lost by it.

use super::commit_followers::CommitFollowers;
use super::cuts::Cuts;
use super::job::Job;
use super::ledger::Ledger;
use super::panic_guard::catch_panic;
use super::restore::ResumePoint;
use super::sink_lane::SharedSink;
use crate::block::{Block, Payload};
use crate::error::JobError;
use crate::sink::{Sink, SinkError};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tidemill_env::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tidemill_types::job::DEAD_LETTER;
use tidemill_types::{Cycle, Micros, SliceId, SliceKey, StageIx};
use tidemill_wire::ledger::{Cut, LedgerEntry};

/// The ledger, as a part of a job.
const LEDGER: &str = "ledger";

/// Longest sleep of the thread without work.
const SLEEP_MAX: Duration = Duration::from_millis(200);

/// Shared by the lanes and the commit thread.
pub(crate) struct Committer {
    inner: Mutex<CommitState>,
    wakeup: Condvar,
    has_ledger: bool,
    followed: CommitFollowers,
    /// The last cycle that every source has cut and, if there is a ledger, that it holds.
    pub(crate) cut: AtomicU64,
    rung: AtomicBool,
    /// Everything up to this cycle is to be durable in all sinks, and is.
    durable_wanted: AtomicU64,
    durable: AtomicU64,
}

struct CommitState {
    cuts: Cuts,
    /// By stage.
    sinks: BTreeMap<StageIx, SinkState>,
}

struct SinkState {
    sink: SharedSink,
    /// The last cycle that it held when it was opened: no replayed cycle up to there is committed
    /// to it again.
    held: Cycle,
    written: Cycle,
    committed: Cycle,
    /// Rows of the cycles that are written and not committed yet, where there are any.
    uncommitted: VecDeque<(Cycle, u64)>,
    /// Nothing is written after [`Self::written`].
    ended: bool,
}

impl SinkState {
    /// Notes that all cycles up to this one are committed; returns the number of newly committed
    /// rows.
    fn commit(&mut self, cycle: Cycle) -> u64 {
        debug_assert!(cycle >= self.committed, "commits never go back: {cycle}");
        debug_assert!(cycle <= self.written, "only a written cycle is committed: {cycle}");
        self.committed = cycle;
        let upto = self.uncommitted.partition_point(|(it, _)| *it <= cycle);
        self.uncommitted.drain(..upto).map(|(_, rows)| rows).sum()
    }
}

/// The parts that only the commit thread holds.
pub(crate) struct CommitThread {
    pub(crate) ledger: Option<Ledger>,
    pub(crate) dead_letter: Option<Box<dyn Sink>>,
    /// The last cycle that the dead-letter sink held when it was opened.
    pub(crate) dead_letter_held: Cycle,
}

impl Committer {
    pub(crate) fn new(
        slices: Vec<SliceKey>,
        sinks: Vec<(StageIx, SharedSink, Cycle)>,
        (has_ledger, is_marked): (bool, bool),
        followed: CommitFollowers,
        before: &ResumePoint,
    ) -> Self {
        let (written, committed) = (before.cycle, before.cycle);
        let state = |(stage, sink, held)| {
            let ended = before.has_ended(stage);
            let uncommitted = VecDeque::new();
            (stage, SinkState { sink, held, written, committed, uncommitted, ended })
        };
        let sinks = sinks.into_iter().map(state).collect();
        let cuts = Cuts::new(slices, before.cycle, |slice| before.source_has_ended(slice));
        let cuts = cuts.marked(is_marked);
        Self {
            inner: Mutex::new(CommitState { cuts, sinks }),
            wakeup: Condvar::new(),
            has_ledger,
            followed,
            cut: AtomicU64::new(before.cycle.0),
            rung: AtomicBool::new(false),
            durable_wanted: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        }
    }

    pub(crate) fn wake(&self) {
        self.rung.store(true, Ordering::Release);
        let _held = self.inner.lock().expect("no panic while held");
        self.wakeup.notify_all();
    }

    /// Adds a source slice, whose first cut is of the cycle after `before`.
    pub(crate) fn add_slice(&self, slice: SliceKey, before: Cycle) {
        self.inner.lock().expect("no panic while held").cuts.add_slice(slice, before);
    }

    /// A source slice has cut a cycle.
    pub(crate) fn cut(&self, (cycle, time): (Cycle, Micros), cut: Cut, watermark: Micros) {
        self.followed.cut(cycle, &cut);
        let mut inner = self.inner.lock().expect("no panic while held");
        if self.has_ledger {
            inner.cuts.add((cycle, time), cut, watermark);
            self.ring(inner);
        } else {
            inner.cuts.note(cycle, cut);
            self.cut.fetch_max(inner.cuts.complete().0, Ordering::AcqRel);
            // A sink that has ended says no more how far it is: it has every cycle that is cut.
            if !inner.sinks.is_empty() && inner.sinks.values().all(|it| it.ended) {
                self.ring(inner);
            }
        }
    }

    /// Notes that a sink has written a cycle of `rows` rows. Without a ledger it is committed here
    /// and now.
    pub(crate) fn written(
        &self,
        job: &Arc<Job>,
        stage: StageIx,
        (cycle, rows): (Cycle, u64),
        ended: bool,
    ) -> Result<(), JobError> {
        let mut inner = self.inner.lock().expect("no panic while held");
        let state = inner.sinks.get_mut(&stage).expect("a sink of this job");
        debug_assert_eq!(state.written.next(), cycle, "a sink gets its cycles in order");
        (state.written, state.ended) = (cycle, ended);
        if rows > 0 {
            state.uncommitted.push_back((cycle, rows));
        }
        if self.has_ledger {
            self.ring(inner);
            return Ok(());
        }
        let sink = Arc::clone(&state.sink);
        drop(inner);
        commit_sink(job, stage, &sink, cycle)?;
        let mut inner = self.inner.lock().expect("no panic while held");
        inner.commit(job, stage, cycle);
        let all = inner.committed();
        drop(inner);
        job.commit_reached(all);
        // This may have been the last cycle of a job that stops: the thread ends such a job.
        let stops = || job.pacer.lock().expect("no panic while held").stop_after().is_some();
        let letters = job.dead_letters.load(Ordering::Relaxed) > 0;
        if ended || letters || !self.followed.is_empty() || stops() {
            self.wake();
        }
        Ok(())
    }

    /// Wakes the thread, or makes it check once more before it sleeps.
    fn ring(&self, inner: MutexGuard<'_, CommitState>) {
        self.rung.store(true, Ordering::Release);
        drop(inner);
        self.wakeup.notify_one();
    }

    /// Returns true if all sinks hold every cycle up to this one durably; else asks the thread for
    /// it.
    pub(crate) fn is_durable(&self, cycle: Cycle) -> bool {
        if self.durable.load(Ordering::Acquire) >= cycle.0 {
            return true;
        }
        if self.durable_wanted.fetch_max(cycle.0, Ordering::AcqRel) < cycle.0 {
            self.wake();
        }
        false
    }

    fn wait(&self) {
        let inner = self.inner.lock().expect("no panic while held");
        if !self.rung.swap(false, Ordering::AcqRel) {
            let waited = self.wakeup.wait_timeout(inner, SLEEP_MAX).expect("no panic while held");
            drop(waited);
        }
    }
}

impl CommitState {
    /// A sink has committed everything up to a cycle.
    fn commit(&mut self, job: &Job, stage: StageIx, cycle: Cycle) {
        let rows = self.sinks.get_mut(&stage).expect("a sink of this job").commit(cycle);
        job.plan[stage].count.rows_out.fetch_add(rows, Ordering::Relaxed);
    }

    /// The last cycle that every sink has committed. One that has ended has all that come after.
    fn committed(&self) -> Cycle {
        let complete = self.cuts.complete();
        let committed = |state: &SinkState| match state.ended && state.committed == state.written {
            true => complete.max(state.committed),
            false => state.committed,
        };
        self.sinks.values().map(committed).min().unwrap_or(Cycle::NONE)
    }
}

/// Commits a cycle, and waits while its disk is full. Its lane may write meanwhile.
fn commit_sink(
    job: &Arc<Job>,
    stage: StageIx,
    sink: &SharedSink,
    cycle: Cycle,
) -> Result<(), JobError> {
    let committing_us = &job.plan[stage].count.committing_us;
    let committed = job.persist(&job.plan[stage].name, || {
        committing_us.store(job.now_us().max(1), Ordering::Relaxed);
        let committed = try_commit(sink, cycle);
        committing_us.store(0, Ordering::Relaxed);
        committed
    });
    committed.map_err(|error| job.error_at(stage, cycle, error))
}

fn try_commit(sink: &SharedSink, cycle: Cycle) -> Result<(), SinkError> {
    let mut sink = locked(sink)?;
    call_sink(|| sink.commit(cycle))
}

/// Calls a sink, and turns its panic into an error of the sink.
pub(crate) fn call_sink<T>(call: impl FnOnce() -> Result<T, SinkError>) -> Result<T, SinkError> {
    catch_panic(call).unwrap_or_else(|message| Err(SinkError::new(message)))
}

/// The thread: goes on until the job is over.
pub(crate) fn run(job: &Arc<Job>, mut thread: CommitThread) {
    while !job.over.load(Ordering::Acquire) {
        let outcome = round(job, &mut thread);
        match outcome {
            Ok(true) => {}
            Ok(false) => job.committer.wait(),
            Err(error) => return job.fail(error),
        }
        job.stop_in_time();
        if job.is_drained() {
            match finish(job, &mut thread) {
                Ok(()) => job.finished.store(true, Ordering::Release),
                Err(error) => job.fail(error),
            }
            job.end();
        }
    }
}

/// Does one round; returns true if there was anything to do.
fn round(job: &Arc<Job>, thread: &mut CommitThread) -> Result<bool, JobError> {
    let committer = &job.committer;
    let Some(ledger) = &mut thread.ledger else {
        let all = committer.inner.lock().expect("no panic while held").committed();
        job.commit_reached(all);
        return settle(job, thread);
    };
    let (entries, complete) = {
        let mut inner = committer.inner.lock().expect("no panic while held");
        (inner.cuts.take(), inner.cuts.complete())
    };
    let mut did = !entries.is_empty();
    record(job, ledger, &entries, complete)?;
    committer.cut.fetch_max(complete.0, Ordering::AcqRel);
    let due: Vec<(StageIx, SharedSink, Cycle, Cycle)> = {
        let inner = committer.inner.lock().expect("no panic while held");
        let due = inner.sinks.iter().filter_map(|(stage, state)| {
            let cycle = state.written.min(complete);
            let sink = || Arc::clone(&state.sink);
            (cycle > state.committed).then(|| (*stage, sink(), cycle, state.held))
        });
        due.collect()
    };
    for (stage, sink, cycle, held) in due {
        did = true;
        if cycle > held {
            commit_sink(job, stage, &sink, cycle)?;
        }
        committer.inner.lock().expect("no panic while held").commit(job, stage, cycle);
    }
    let all = committer.inner.lock().expect("no panic while held").committed();
    job.commit_reached(all);
    Ok(settle(job, thread)? || did)
}

/// Appends the ends of cycles to the ledger; waits while its disk is full.
fn record(
    job: &Arc<Job>,
    ledger: &mut Ledger,
    mut entries: &[LedgerEntry],
    upto: Cycle,
) -> Result<(), JobError> {
    let written = job.persist(LEDGER, || {
        let written = ledger.append(std::mem::take(&mut entries));
        // Also of one that waits: what goes makes room.
        ledger.forget(job.checkpointer.floor());
        written
    });
    written.map_err(|error| job.error_of(LEDGER, upto, error))
}

/// Writes dead letters and tells followers, once all sinks have committed.
fn settle(job: &Arc<Job>, thread: &mut CommitThread) -> Result<bool, JobError> {
    let committed = Cycle(job.committed.load(Ordering::Acquire));
    let did = write_letters(job, thread)?;
    job.committer.followed.committed(committed);
    let wanted = job.committer.durable_wanted.load(Ordering::Acquire);
    if wanted > job.committer.durable.load(Ordering::Acquire) && committed.0 >= wanted {
        make_durable(job, thread, committed)?;
    }
    Ok(did)
}

/// Makes the committed rows of every sink durable, for a checkpoint.
fn make_durable(job: &Arc<Job>, thread: &mut CommitThread, upto: Cycle) -> Result<(), JobError> {
    for (stage, sink) in sinks_of(job) {
        let sync = || {
            let mut sink = locked(&sink)?;
            call_sink(|| sink.sync())
        };
        let synced = job.persist(&job.plan[stage].name, sync);
        if !synced.map_err(|error| job.error_at(stage, upto, error))? {
            return Ok(());
        }
    }
    if let Some(sink) = &mut thread.dead_letter {
        let synced = job.persist(DEAD_LETTER, || sink.sync());
        if !synced.map_err(|error| job.error_of(DEAD_LETTER, upto, error))? {
            return Ok(());
        }
    }
    // Letters are written by this thread alone: these are those that were just synced.
    let letters = job.letters_last.load(Ordering::Acquire);
    job.letters_durable.store(letters, Ordering::Release);
    job.committer.durable.store(upto.0, Ordering::Release);
    job.checkpointer.wake();
    Ok(())
}

fn locked(sink: &SharedSink) -> Result<MutexGuard<'_, Box<dyn Sink>>, SinkError> {
    // A poisoned sink is one that panicked; the job has failed already.
    sink.lock().map_err(|_| SinkError::new("the sink panicked before"))
}

fn sinks_of(job: &Job) -> Vec<(StageIx, SharedSink)> {
    let inner = job.committer.inner.lock().expect("no panic while held");
    inner.sinks.iter().map(|(stage, it)| (*stage, Arc::clone(&it.sink))).collect()
}

/// Hands dead letters of committed cycles to their sink, in an order that every run has.
fn write_letters(job: &Arc<Job>, thread: &mut CommitThread) -> Result<bool, JobError> {
    let committed = Cycle(job.committed.load(Ordering::Acquire));
    let mut due = Vec::new();
    {
        let mut letters = job.letters.lock().expect("no panic while held");
        if letters.is_empty() {
            return Ok(false);
        }
        letters.retain(|(stage, letter)| {
            let is_due = letter.cycle <= committed;
            if is_due {
                due.push((*stage, letter.clone()));
            }
            !is_due
        });
    }
    if !due.is_empty() {
        // There is room for more of them.
        job.wake_waiters();
    }
    due.sort_by_key(|(stage, letter)| (letter.cycle, *stage, letter.slice));
    let Some(sink) = &mut thread.dead_letter else { return Ok(false) };
    let did = !due.is_empty();
    while let Some(cycle) = due.first().map(|(_, letter)| letter.cycle) {
        let rest = due.partition_point(|(_, letter)| letter.cycle == cycle);
        let now: Vec<_> = due.drain(..rest).map(|(_, letter)| letter).collect();
        if cycle > thread.dead_letter_held {
            let payload = Payload::Arrow(crate::dead_letter::batch(&now));
            let block = Arc::new(Block::whole(payload, SliceId(0)));
            let written = sink.write(cycle, &[block]);
            written.map_err(|error| job.error_of(DEAD_LETTER, cycle, error))?;
            let committed = job.persist(DEAD_LETTER, || sink.commit(cycle));
            committed.map_err(|error| job.error_of(DEAD_LETTER, cycle, error))?;
            job.letters_last.fetch_max(cycle.0, Ordering::AcqRel);
        }
    }
    Ok(did)
}

/// Closes all sinks, with all committed rows in their final place.
fn finish(job: &Arc<Job>, thread: &mut CommitThread) -> Result<(), JobError> {
    while round(job, thread)? {}
    let last = Cycle(job.committed.load(Ordering::Acquire));
    for (stage, sink) in sinks_of(job) {
        let close = || {
            let mut sink = locked(&sink)?;
            call_sink(|| sink.close())
        };
        let closed = job.persist(&job.plan[stage].name, close);
        closed.map_err(|error| job.error_at(stage, last, error))?;
    }
    if let Some(sink) = &mut thread.dead_letter {
        let closed = job.persist(DEAD_LETTER, || sink.close());
        closed.map_err(|error| job.error_of(DEAD_LETTER, last, error))?;
    }
    Ok(())
}
