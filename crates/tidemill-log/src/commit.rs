//! Group commit: threads that sync files on behalf of all appends that wait for them.
//!
//! ```text
//! append ─▶ written ─▶ queue ─▶ a thread syncs the file ─▶ chunks land ─▶ notices
//!                        ▲            │ meanwhile more was written
//!                        └────────────┘
//! ```
//!
//! A segment is in the queue once and with one thread at a time; what is appended during a sync
//! shares the next one. Invariant: a file whose sync failed is not synced again.

use crate::{options::Fsync, segment::Segment, shared::Shared, streamlet::Streamlet};
use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A segment with something to sync, and whose it is.
pub(crate) type Work = (Arc<Streamlet>, Arc<Segment>);

#[derive(Default)]
struct Queue {
    now: VecDeque<Work>,
    /// With the moment when each is due, by the monotonic clock in microseconds.
    later: VecDeque<(u64, Work)>,
    closed: bool,
}

/// The queue that sync threads share.
#[derive(Default)]
pub(crate) struct Committer {
    queue: Mutex<Queue>,
    wake: Condvar,
}

/// How long a thread sleeps at most while something is due later.
const TICK: Duration = Duration::from_millis(2);

impl Committer {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Syncs this segment soon.
    pub(crate) fn push(&self, work: Work) {
        self.queue().now.push_back(work);
        self.wake.notify_one();
    }

    /// Syncs this segment when the clock says `due_us`.
    pub(crate) fn push_later(&self, due_us: u64, work: Work) {
        let mut queue = self.queue();
        queue.later.push_back((due_us, work));
        if queue.later.len() == 1 {
            self.wake.notify_one();
        }
    }

    /// Threads end once what is there is done.
    pub(crate) fn close(&self) {
        self.queue().closed = true;
        self.wake.notify_all();
    }

    /// All that waits, due or not.
    pub(crate) fn take_all(&self) -> Vec<Work> {
        let mut queue = self.queue();
        let mut all: Vec<Work> = queue.now.drain(..).collect();
        all.extend(queue.later.drain(..).map(|(_, work)| work));
        all
    }

    /// The next segment to sync; none when the log is closed and nothing is left.
    fn next(&self, shared: &Shared) -> Option<Work> {
        let mut queue = self.queue();
        loop {
            if let Some(work) = queue.now.pop_front() {
                return Some(work);
            }
            let now = shared.world.clock.monotonic_micros();
            let due = queue.later.iter().position(|(due, _)| *due <= now || queue.closed);
            if let Some((_, work)) = due.and_then(|at| queue.later.remove(at)) {
                return Some(work);
            }
            if queue.closed {
                return None;
            }
            queue = if queue.later.is_empty() {
                self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner)
            } else {
                let outcome = self.wake.wait_timeout(queue, TICK);
                outcome.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

/// What a sync thread does until the log is closed.
pub(crate) fn run(shared: &Shared) {
    while let Some((streamlet, segment)) = shared.committer.next(shared) {
        sync(shared, &streamlet, &segment);
    }
}

/// Syncs one segment, lets its chunks land, and says so in its mark.
pub(crate) fn sync(shared: &Shared, streamlet: &Arc<Streamlet>, segment: &Arc<Segment>) {
    if streamlet.is_failed() || segment.is_retired() {
        return;
    }
    let disk = &*shared.world.disk;
    let outcome = segment.begin_sync(disk).and_then(|job| {
        job.file.sync()?;
        if !job.name_durable {
            shared.sync_names(streamlet.folder())?;
        }
        Ok(job)
    });
    let job = match outcome {
        Ok(job) => job,
        // Its stream was deleted meanwhile.
        Err(error) if error.kind() == io::ErrorKind::NotFound && segment.is_retired() => return,
        Err(error) => {
            let path = segment.path.display();
            streamlet.fail(&format!("sync of {path} failed: {error}"));
            return;
        }
    };
    let synced = segment.end_sync(&job);
    streamlet.land(synced.landed);
    streamlet.update_floor();
    if synced.again {
        let work = (Arc::clone(streamlet), Arc::clone(segment));
        match streamlet.fsync() {
            Fsync::Every(span) => shared.sync_after(span, work),
            Fsync::Always | Fsync::Os => shared.committer.push(work),
        }
        return;
    }
    // Nothing depends on this write: without the mark a recovery reads a little more.
    let _unmarked = segment.mark(streamlet.floor());
}
