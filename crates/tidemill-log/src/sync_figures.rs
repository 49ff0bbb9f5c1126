//! The number of syncs and their durations.

use tidemill_env::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[cfg(test)]
mod tests;

/// Upper bounds of the classes of durations, in microseconds; the last class has no bound.
const BOUNDS_US: [u64; 14] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000,
];

/// Syncs since the log was opened, by how long they took. One that served many files is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SyncFigures {
    /// Upper bounds in microseconds, growing, and how many took at most that long and longer than
    /// the bound before.
    pub classes: Vec<(u64, u64)>,
    /// Those that took longer than the last bound.
    pub longer: u64,
    /// The duration of all syncs together, in microseconds.
    pub total_us: u64,
}

impl SyncFigures {
    /// The number of syncs.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.longer + self.classes.iter().map(|(_, count)| count).sum::<u64>()
    }
}

/// Counts syncs.
#[derive(Debug, Default)]
pub(crate) struct SyncCounter {
    classes: [AtomicU64; BOUNDS_US.len() + 1],
    total_us: AtomicU64,
}

impl SyncCounter {
    pub(crate) fn took(&self, took_us: u64) {
        let class = BOUNDS_US.partition_point(|bound| *bound < took_us);
        self.classes[class].fetch_add(1, Relaxed);
        self.total_us.fetch_add(took_us, Relaxed);
    }

    pub(crate) fn figures(&self) -> SyncFigures {
        let count = |class: usize| self.classes[class].load(Relaxed);
        let classes = BOUNDS_US.iter().enumerate().map(|(class, bound)| (*bound, count(class)));
        SyncFigures {
            classes: classes.collect(),
            longer: count(BOUNDS_US.len()),
            total_us: self.total_us.load(Relaxed),
        }
    }
}
