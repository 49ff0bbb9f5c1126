//! The choice between one sync for each file and one sync of the whole file system.
//!
//! Each file's sync costs a commit of the file system's journal; a sync of the whole costs one for
//! all. But it also writes data of other programs, so both are measured, and the faster one is
//! chosen.
//!
//! Invariant: after a sync of the whole has failed there is no other. The system reports an error
//! once, and it may concern any file, so from then on each file is synced by itself.

use std::{io, sync::Arc};
use tidemill_env::{
    FileSystem,
    lock::{Mutex, MutexGuard},
    sync::atomic::{AtomicBool, Ordering},
};

#[cfg(test)]
mod tests;

/// Moving averages of the time of a sync, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
struct SyncCosts {
    one_us: u64,
    together_us: u64,
}

impl SyncCosts {
    fn learn(average_us: &mut u64, took_us: u64) {
        *average_us = if *average_us == 0 { took_us } else { (*average_us * 7 + took_us) / 8 };
    }

    /// True if one sync of the whole is cheaper for `files` files than syncs by `threads` threads.
    /// A cost that was high once decays, so that it is measured again.
    fn choose(&mut self, files: usize, threads: usize) -> bool {
        let apart_us = self.one_us.saturating_mul(files as u64) / threads.max(1) as u64;
        let is_cheaper = self.together_us <= apart_us || self.one_us == 0;
        if !is_cheaper {
            self.together_us -= self.together_us / 32;
        }
        is_cheaper
    }
}

/// The file system of a log, and the measured costs of its syncs.
pub(crate) struct FileSystemSync {
    /// None: it cannot be synced as a whole, or must not be.
    file_system: Mutex<Option<Arc<dyn FileSystem>>>,
    /// True while `file_system` is some. Reading it never waits for a sync.
    is_possible: AtomicBool,
    costs: Mutex<SyncCosts>,
    /// The least number of files.
    min: usize,
    threads: usize,
}

impl FileSystemSync {
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

    fn costs(&self) -> MutexGuard<'_, SyncCosts> {
        self.costs.lock()
    }

    /// True if a sync of the whole is cheaper for `files` files now. [`Self::sync`] may still
    /// refuse.
    pub(crate) fn is_better_for(&self, files: usize) -> bool {
        let possible = self.is_possible.load(Ordering::Relaxed);
        possible && files >= self.min && self.costs().choose(files, self.threads)
    }

    /// A file was synced by itself.
    pub(crate) fn record_file_sync(&self, took_us: u64) {
        SyncCosts::learn(&mut self.costs().one_us, took_us);
    }

    pub(crate) fn record_file_system_sync(&self, took_us: u64) {
        SyncCosts::learn(&mut self.costs().together_us, took_us);
    }

    /// Syncs the file system; none if that is not possible: then nothing has happened.
    pub(crate) fn sync(&self) -> Option<io::Result<()>> {
        // One at a time: an error is told to one of several that ask at once.
        let mut file_system = self.file_system.lock();
        let outcome = file_system.as_ref()?.sync();
        if outcome.is_err() {
            *file_system = None;
            self.is_possible.store(false, Ordering::Relaxed);
        }
        Some(outcome)
    }
}
