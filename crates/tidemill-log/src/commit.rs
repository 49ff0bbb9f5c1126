//! Group commit: threads that sync files on behalf of all appends that wait for them.
//!
//! ```text
//! append ─▶ written ─▶ queue ─▶ a thread syncs the file ─▶ chunks land ─▶ notifications
//!                        ▲            │ meanwhile more was written
//!                        └────────────┘
//! ```
//!
//! A segment is in the queue once and with one thread at a time; chunks that are appended during a
//! sync share the next one. When many segments wait, one sync of the file system serves them all
//! (`file_system_sync`). A mark in the segment's head says how far it is durable. It is written now
//! and then, not after each sync: the next sync would have to write the head's page too, far from
//! the chunks. Invariant: a file whose sync failed is not synced again.

use crate::{
    log_core::LogCore,
    segment::{Segment, SyncJob},
    streamlet::Streamlet,
};
use std::{collections::VecDeque, io, sync::Arc, time::Duration};
use tidemill_env::lock::{Condvar, Mutex, MutexGuard};

mod file_system_sync;

pub(crate) use file_system_sync::FileSystemSync;

/// A segment with something to sync, and whose it is.
pub(crate) type SyncWork = (Arc<Streamlet>, Arc<Segment>);

#[derive(Default)]
struct SyncQueue {
    now: VecDeque<SyncWork>,
    /// With the moment when each is due, by the monotonic clock in microseconds.
    later: VecDeque<(u64, SyncWork)>,
    /// As `later`, with the bytes of each: no append waits for these.
    postponed: VecDeque<(u64, u64, SyncWork)>,
    postponed_bytes: u64,
    /// Segments whose mark is behind, with the moment when it is written.
    marks: VecDeque<(u64, SyncWork)>,
    closed: bool,
}

/// The next task of a sync thread.
enum SyncTask {
    /// One segment, or many that are better synced together.
    Sync(Vec<SyncWork>),
    /// Says in a segment's head how far it is durable.
    Mark(SyncWork),
}

/// The queue that sync threads share.
#[derive(Default)]
pub(crate) struct SyncScheduler {
    queue: Mutex<SyncQueue>,
    wake: Condvar,
}

/// The longest sleep of a thread while something is due later.
const TICK: Duration = Duration::from_millis(2);
/// As [`TICK`], while only postponed segments are left.
const POSTPONED_TICK: Duration = Duration::from_millis(100);
/// Bytes that are put off at most: a recovery after a crash reads them.
const POSTPONED_BYTES_MAX: u64 = 512 << 20;
/// Segments that are put off at most: their files are open.
const POSTPONED_SEGMENTS_MAX: usize = 512;
/// Segments that are synced together at most: their files are open.
const TOGETHER_MAX: usize = 500;
/// The delay of a mark after the sync that wants one, in microseconds. A thread without other work
/// writes it earlier.
const MARK_US: u64 = 20_000;

impl SyncScheduler {
    fn queue(&self) -> MutexGuard<'_, SyncQueue> {
        self.queue.lock()
    }

    /// Syncs this segment soon.
    pub(crate) fn push(&self, work: SyncWork) {
        self.queue().now.push_back(work);
        self.wake.notify_one();
    }

    /// Syncs this segment when the clock says `due_us`.
    pub(crate) fn push_later(&self, due_us: u64, work: SyncWork) {
        let mut queue = self.queue();
        queue.later.push_back((due_us, work));
        if queue.later.len() == 1 {
            self.wake.notify_one();
        }
    }

    /// Syncs this segment when the clock says `due_us`, or now if too much is put off already.
    pub(crate) fn postpone(&self, due_us: u64, bytes: u64, work: SyncWork) {
        let mut queue = self.queue();
        let much = queue.postponed_bytes + bytes > POSTPONED_BYTES_MAX;
        if much || queue.postponed.len() >= POSTPONED_SEGMENTS_MAX {
            queue.now.push_back(work);
            drop(queue);
            self.wake.notify_one();
            return;
        }
        queue.postponed_bytes += bytes;
        queue.postponed.push_back((due_us, bytes, work));
        if queue.postponed.len() == 1 {
            self.wake.notify_one();
        }
    }

    /// Queues all delayed and postponed segments of a streamlet for an immediate sync.
    pub(crate) fn expedite(&self, streamlet: &Arc<Streamlet>) {
        let mut queue = self.queue();
        let mine = |work: &SyncWork| Arc::ptr_eq(&work.0, streamlet);
        let (ready, later): (VecDeque<_>, _) =
            std::mem::take(&mut queue.later).into_iter().partition(|(_, work)| mine(work));
        queue.later = later;
        queue.now.extend(ready.into_iter().map(|(_, work)| work));
        let (ready, postponed): (VecDeque<_>, _) =
            std::mem::take(&mut queue.postponed).into_iter().partition(|(.., work)| mine(work));
        queue.postponed = postponed;
        queue.postponed_bytes -= ready.iter().map(|(_, bytes, _)| bytes).sum::<u64>();
        queue.now.extend(ready.into_iter().map(|(.., work)| work));
        drop(queue);
        self.wake.notify_all();
    }

    /// Marks this segment when the clock says `due_us`.
    fn mark_later(&self, due_us: u64, work: SyncWork) {
        let mut queue = self.queue();
        queue.marks.push_back((due_us, work));
        if queue.marks.len() == 1 {
            self.wake.notify_one();
        }
    }

    /// Tells the threads to end once the queue is empty.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.wake.notify_all();
    }

    /// All that waits, due or not.
    pub(crate) fn take_all(&self) -> Vec<SyncWork> {
        let mut queue = self.queue();
        let mut all: Vec<SyncWork> = queue.now.drain(..).collect();
        all.extend(queue.later.drain(..).map(|(_, work)| work));
        queue.postponed_bytes = 0;
        all.extend(queue.postponed.drain(..).map(|(_, _, work)| work));
        all
    }

    /// Waits for the next task. None when the log is closed and the queue is empty.
    fn next(&self, shared: &LogCore) -> Option<SyncTask> {
        let mut queue = self.queue();
        loop {
            let count = queue.now.len().min(TOGETHER_MAX);
            if count > 1 && shared.file_system_sync.is_better_for(count) {
                let round = queue.now.drain(..count).collect();
                if !queue.now.is_empty() {
                    self.wake.notify_one();
                }
                return Some(SyncTask::Sync(round));
            }
            if let Some(work) = queue.now.pop_front() {
                return Some(SyncTask::Sync(vec![work]));
            }
            let now = shared.world.clock.monotonic_micros();
            let closed = queue.closed;
            let due = |it: &(u64, SyncWork)| it.0 <= now || closed;
            if queue.later.iter().any(due) {
                let (ready, later) = std::mem::take(&mut queue.later).into_iter().partition(due);
                queue.later = later;
                let ready: VecDeque<_> = ready;
                queue.now = ready.into_iter().map(|(_, work)| work).collect();
                continue;
            }
            if queue.marks.front().is_some_and(due)
                && let Some((_, work)) = queue.marks.pop_front()
            {
                return Some(SyncTask::Mark(work));
            }
            if queue.postponed.front().is_some_and(|(due_us, ..)| *due_us <= now || closed)
                && let Some((_, bytes, work)) = queue.postponed.pop_front()
            {
                queue.postponed_bytes -= bytes;
                return Some(SyncTask::Sync(vec![work]));
            }
            if queue.closed {
                return None;
            }
            let tick = if !queue.later.is_empty() {
                Some(TICK)
            } else if !queue.marks.is_empty() {
                Some(Duration::from_micros(MARK_US))
            } else if !queue.postponed.is_empty() {
                Some(POSTPONED_TICK)
            } else {
                None
            };
            queue = match tick {
                None => self.wake.wait(queue),
                Some(tick) => self.wake.wait_timeout(queue, tick).0,
            };
        }
    }
}

/// The loop of a sync thread. It ends when the log is closed.
pub(crate) fn run(shared: &LogCore) {
    while let Some(task) = shared.committer.next(shared) {
        match task {
            SyncTask::Sync(round) => sync(shared, round),
            SyncTask::Mark((streamlet, segment)) => mark(&streamlet, &segment),
        }
    }
}

/// Syncs all these segments, together if that is better.
pub(crate) fn sync(shared: &LogCore, round: Vec<SyncWork>) {
    let mut left: VecDeque<SyncWork> = round
        .into_iter()
        .filter(|(streamlet, segment)| !streamlet.is_failed() && !segment.is_retired())
        .collect();
    while !left.is_empty() {
        let count = left.len().min(TOGETHER_MAX);
        let some: Vec<SyncWork> = left.drain(..count).collect();
        if count > 1 && shared.file_system_sync.is_better_for(count) {
            sync_together(shared, some);
        } else {
            some.into_iter().for_each(|work| sync_one(shared, work));
        }
    }
}

fn sync_one(shared: &LogCore, work: SyncWork) {
    match work.1.begin_sync(shared) {
        Ok(job) => sync_file(shared, work, &job),
        Err(error) => refused(&work.0, &work.1, &error),
    }
}

fn sync_file(shared: &LogCore, (streamlet, segment): SyncWork, job: &SyncJob) {
    let began_us = shared.world.clock.monotonic_micros();
    let names = |()| {
        if job.name_durable { Ok(()) } else { shared.sync_names(streamlet.folder()) }
    };
    match job.file.sync().and_then(names) {
        Ok(()) => {
            let took_us = shared.world.clock.monotonic_micros() - began_us;
            shared.file_system_sync.record_file_sync(took_us);
            shared.syncs.took(took_us);
            land(shared, streamlet, segment, job);
        }
        Err(error) => refused(&streamlet, &segment, &error),
    }
}

/// One sync of the file system for all. If it fails, all of them have failed: which file it was
/// about is not said.
fn sync_together(shared: &LogCore, round: Vec<SyncWork>) {
    let began_us = shared.world.clock.monotonic_micros();
    let mut jobs: Vec<(SyncWork, SyncJob)> = Vec::with_capacity(round.len());
    for work in round {
        match work.1.begin_sync(shared) {
            Ok(job) => jobs.push((work, job)),
            Err(error) => refused(&work.0, &work.1, &error),
        }
    }
    // The sync of the last file by itself is for file systems that write all and leave what is in
    // the drive's own cache there; that of a file never does.
    let last = jobs.last().map(|(_, job)| Arc::clone(&job.file));
    let Some(outcome) = shared.file_system_sync.sync() else {
        jobs.into_iter().for_each(|(work, job)| sync_file(shared, work, &job));
        return;
    };
    match outcome.and_then(|()| last.map_or(Ok(()), |file| file.sync())) {
        Ok(()) => {
            let took_us = shared.world.clock.monotonic_micros() - began_us;
            shared.file_system_sync.record_file_system_sync(took_us);
            shared.syncs.took(took_us);
            for ((streamlet, segment), job) in jobs {
                land(shared, streamlet, segment, &job);
            }
        }
        Err(error) => {
            for ((streamlet, segment), _) in jobs {
                refused(&streamlet, &segment, &error);
            }
        }
    }
}

/// A sync failed: so has the streamlet, unless it is no longer there.
fn refused(streamlet: &Streamlet, segment: &Segment, error: &io::Error) {
    let deleted = error.kind() == io::ErrorKind::NotFound && segment.is_retired();
    if !deleted {
        streamlet.fail(&format!("sync of {} failed: {error}", segment.path.display()));
    }
}

/// A sync has covered a segment: lets its chunks land, and says so in its mark.
fn land(shared: &LogCore, streamlet: Arc<Streamlet>, segment: Arc<Segment>, job: &SyncJob) {
    let synced = segment.end_sync(job);
    streamlet.land(synced.landed);
    streamlet.update_floor();
    if synced.again {
        streamlet.queue(&segment, streamlet.fsync());
        return;
    }
    if synced.is_complete || shared.options.sync_threads == 0 {
        mark(&streamlet, &segment);
    } else if segment.wants_mark() {
        let due_us = shared.world.clock.monotonic_micros() + MARK_US;
        shared.committer.mark_later(due_us, (streamlet, segment));
    }
}

/// Says how far a segment is durable, and closes its file if that is all of it.
fn mark(streamlet: &Streamlet, segment: &Segment) {
    // Nothing depends on this write: without the mark a recovery reads a little more.
    let _unmarked = segment.mark(streamlet.floor());
    segment.close_if_done();
}

#[cfg(test)]
mod tests;
