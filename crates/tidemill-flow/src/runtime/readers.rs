//! Threads that read what lanes are about to ask for, where a checkpoint has it.
//!
//! ```text
//! lane ── what a cycle needs ──▶ asked for ──▶ readers ──▶ read
//!   └──── takes the first, the second, … : waits for one that is being read, reads one that nobody has begun
//! ```
//!
//! One read after the other is what a disk is slowest at, and a server even more so.

use super::guarded::asked;
use std::collections::VecDeque;
use tidemill_checkpoints::LoadedRuns;
use tidemill_env::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Readers of a job for each of its workers.
const PER_WORKER: usize = 4;

/// Something to read, into memory that is used again. Whoever needs it finds it, or does it again.
type Read = Box<dyn FnOnce(&mut LoadedRuns) + Send>;

/// What is to be read.
#[derive(Default)]
pub(crate) struct Readers {
    asked: Mutex<Asked>,
    bell: Condvar,
}

#[derive(Default)]
struct Asked {
    waiting: VecDeque<Read>,
    /// Nobody reads any more.
    is_over: bool,
}

/// How many readers a job with so many workers has.
pub(crate) fn count(workers: usize) -> usize {
    if tidemill_env::is_simulated() { 1 } else { PER_WORKER * workers }
}

impl Readers {
    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something read, as soon as a reader is there for it.
    pub(super) fn ask(&self, read: Read) {
        let mut asked = self.asked();
        if !asked.is_over {
            asked.waiting.push_back(read);
            drop(asked);
            self.bell.notify_one();
        }
    }

    /// The job is over, or all is read.
    pub(crate) fn close(&self) {
        let mut asked = self.asked();
        asked.is_over = true;
        let waiting = std::mem::take(&mut asked.waiting);
        drop(asked);
        self.bell.notify_all();
        // What they hold is let go of without the lock.
        drop(waiting);
    }

    /// A reader: reads until nothing is to be read any more.
    pub(crate) fn run(&self) {
        let mut memory = LoadedRuns::default();
        loop {
            let mut asked_for = self.asked();
            let read = loop {
                if asked_for.is_over {
                    return;
                }
                match asked_for.waiting.pop_front() {
                    Some(read) => break read,
                    None => {
                        let waited = self.bell.wait(asked_for);
                        asked_for = waited.unwrap_or_else(PoisonError::into_inner);
                    }
                }
            };
            drop(asked_for);
            // Who needs it finds out what is wrong, and says so.
            let _read = asked(|| read(&mut memory));
        }
    }
}
