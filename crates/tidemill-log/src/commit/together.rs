//! Whether many files are synced one by one or all at once, by one sync of their file system.
//!
//! One by one, each file costs a commit of the file system's journal; together they share one. But
//! a sync of the whole also writes what others have not synced, so what it takes is measured, and
//! it is chosen only while it is the faster one.
//!
//! Invariant: after one sync of the whole has failed there is no other. It tells of an error once,
//! and that may concern a file of which nobody has asked yet: from then on each is asked by itself.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};
use tidemill_env::FileSystem;

#[cfg(test)]
mod tests;

/// What syncs took of late, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    one_us: u64,
    together_us: u64,
}

impl Costs {
    fn learn(average_us: &mut u64, took_us: u64) {
        *average_us = if *average_us == 0 { took_us } else { (*average_us * 7 + took_us) / 8 };
    }

    /// Whether so many files are synced together, by `threads` threads otherwise. What was slow
    /// once is tried again in time.
    fn choose(&mut self, files: usize, threads: usize) -> bool {
        let apart_us = self.one_us.saturating_mul(files as u64) / threads.max(1) as u64;
        let together = self.together_us <= apart_us || self.one_us == 0;
        if !together {
            self.together_us -= self.together_us / 32;
        }
        together
    }
}

/// The file system of a log, and what is known about it.
pub(crate) struct Together {
    /// None: it cannot be synced as a whole, or must not be.
    file_system: Mutex<Option<Arc<dyn FileSystem>>>,
    /// It is not none, as far as is known. Whoever asks must not wait for a sync.
    is_possible: AtomicBool,
    costs: Mutex<Costs>,
    /// From so many files on.
    min: usize,
    threads: usize,
}

impl Together {
    pub(crate) fn new(
        file_system: Option<Arc<dyn FileSystem>>,
        min: usize,
        threads: usize,
    ) -> Self {
        let file_system = file_system.filter(|_| min > 0);
        Self {
            is_possible: AtomicBool::new(file_system.is_some()),
            file_system: Mutex::new(file_system),
            costs: Mutex::default(),
            min: min.max(1),
            threads,
        }
    }

    fn costs(&self) -> MutexGuard<'_, Costs> {
        self.costs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether so many files, which wait now, are synced together. An answer, not a promise.
    pub(crate) fn is_better_for(&self, files: usize) -> bool {
        let possible = self.is_possible.load(Ordering::Relaxed);
        possible && files >= self.min && self.costs().choose(files, self.threads)
    }

    /// A file was synced by itself.
    pub(crate) fn one_took(&self, took_us: u64) {
        Costs::learn(&mut self.costs().one_us, took_us);
    }

    pub(crate) fn all_took(&self, took_us: u64) {
        Costs::learn(&mut self.costs().together_us, took_us);
    }

    /// Syncs the file system; none if that is not possible: then nothing has happened.
    pub(crate) fn sync(&self) -> Option<io::Result<()>> {
        // One at a time: an error is told to one of several that ask at once.
        let mut file_system = self.file_system.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = file_system.as_ref()?.sync();
        if outcome.is_err() {
            *file_system = None;
            self.is_possible.store(false, Ordering::Relaxed);
        }
        Some(outcome)
    }
}
