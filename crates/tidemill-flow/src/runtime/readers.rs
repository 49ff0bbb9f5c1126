//! Threads that read states ahead of the lanes.
//!
//! ```text
//! lane ── what a cycle needs ──▶ asked for ──▶ readers ──▶ read
//!   └──── takes the first, the second, … : waits for one that is being read, reads one that nobody has begun
//! ```
//!
//! A disk is slowest at one read after the other, and a server even more so.

use super::panic_guard::catch_panic;
use std::collections::VecDeque;
use tidemill_checkpoints::LoadedRuns;
use tidemill_env::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Readers of a job for each of its workers.
const PER_WORKER: usize = 4;

/// A read, into memory that is reused. The lane that needs the result takes it, or reads it itself.
type ReadTask = Box<dyn FnOnce(&mut LoadedRuns) + Send>;

/// The reads to do.
#[derive(Default)]
pub(crate) struct Readers {
    queue: Mutex<ReadQueue>,
    wakeup: Condvar,
}

#[derive(Default)]
struct ReadQueue {
    waiting: VecDeque<ReadTask>,
    /// The readers have ended.
    is_over: bool,
}

/// The number of readers of a job with `workers` workers.
pub(crate) fn count(workers: usize) -> usize {
    if tidemill_env::is_simulated() { 1 } else { PER_WORKER * workers }
}

impl Readers {
    fn queue(&self) -> MutexGuard<'_, ReadQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something read, as soon as a reader is there for it.
    pub(super) fn enqueue(&self, read: ReadTask) {
        let mut asked = self.queue();
        if !asked.is_over {
            asked.waiting.push_back(read);
            drop(asked);
            self.wakeup.notify_one();
        }
    }

    /// The job is over, or all is read.
    pub(crate) fn close(&self) {
        let mut asked = self.queue();
        asked.is_over = true;
        let waiting = std::mem::take(&mut asked.waiting);
        drop(asked);
        self.wakeup.notify_all();
        // What they hold is let go of without the lock.
        drop(waiting);
    }

    /// A reader: reads until nothing is to be read any more.
    pub(crate) fn run(&self) {
        let mut memory = LoadedRuns::default();
        loop {
            let mut asked_for = self.queue();
            let read = loop {
                if asked_for.is_over {
                    return;
                }
                match asked_for.waiting.pop_front() {
                    Some(read) => break read,
                    None => {
                        let waited = self.wakeup.wait(asked_for);
                        asked_for = waited.unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(asked_for);
            // Who needs it finds out what is wrong, and says so.
            let _read = catch_panic(|| read(&mut memory));
        }
    }
}
