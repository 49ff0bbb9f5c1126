//! Rows that leave memory after a time without use, and come back when they are used.
//!
//! ```text
//! in memory ── not used for a time to live, and saved as it is ──▶ expired: only in the checkpoint
//!     ▲                                                               │
//!     └────────────── revived: read back when it is asked for ────────┘
//! ```
//!
//! In S4 a processing element that expired begins again with its saved state (Vallés, "An Analysis
//! of a Checkpointing Mechanism for a Distributed Stream Processing System", 2.3 and 3.1). Here an
//! expired row stays part of the state and of its checkpoints: using it again costs time and
//! changes no result.
//!
//! Invariant: the newest complete checkpoint has every expired row as it is. So a row leaves only
//! after that, and is not written again while it is evicted.

use super::{DirtyRows, ReadError, State, UnreadableState};
use crate::SavedError;
use std::{cell::Cell, panic::resume_unwind, sync::Arc};
use tidemill_env::sync::atomic::{AtomicU64, Ordering};

/// Reads single rows of a slice back.
pub trait ReadRows: Send + Sync {
    /// Reads the value of a key from the slice's newest complete checkpoint.
    ///
    /// # Errors
    /// The backend's, or it is not there.
    fn read(&self, key: &[u8]) -> Result<Vec<u8>, ReadError>;
    /// As [`Self::read`], but may wait for a server: for callers that cannot go on without the row.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn read_needed(&self, key: &[u8]) -> Result<Vec<u8>, ReadError> {
        self.read(key)
    }
}

/// The counters of a stage's slices.
#[derive(Debug, Default)]
pub struct ExpiryCounts {
    /// The rows that are evicted now.
    pub expired: AtomicU64,
    /// The number of times that a row was read back.
    pub revived: AtomicU64,
}

/// The source of a structure's expired rows.
#[derive(Clone)]
pub struct SavedRows {
    rows: Arc<dyn ReadRows>,
    counts: Arc<ExpiryCounts>,
    restored_bytes_max: usize,
    /// The number of the structure within its state.
    nth: u8,
}

impl SavedRows {
    /// Rows of the first structure of a state, read by `rows`. A restore keeps at most
    /// `restored_bytes_max` bytes of rows in memory; the others begin expired.
    #[must_use]
    pub fn new(
        rows: Arc<dyn ReadRows>,
        counts: Arc<ExpiryCounts>,
        restored_bytes_max: usize,
    ) -> Self {
        Self { rows, counts, restored_bytes_max, nth: 0 }
    }
}

/// Selects the rows of a structure that leave. The structure holds the rows, reports their use and
/// evicts them.
pub struct Expiry {
    saved: SavedRows,
    /// The rows used since the last selection; 64 rows a word.
    used: Vec<Cell<u64>>,
    /// The rows that leave unless they are used before.
    going: Vec<u64>,
    /// The first word with rows that have not left yet.
    from: usize,
    /// The count of evicted rows.
    away: u64,
    /// The bytes restored into memory.
    restored_bytes: usize,
}

fn place_of(row: usize) -> (usize, u64) {
    (row / 64, 1 << (row % 64))
}

impl Expiry {
    /// No row is evicted at first.
    #[must_use]
    pub fn new(saved: SavedRows) -> Self {
        let (used, going) = (Vec::new(), Vec::new());
        Self { saved, used, going, from: 0, away: 0, restored_bytes: 0 }
    }

    /// The memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        (self.used.capacity() + self.going.capacity()) * size_of::<u64>()
    }

    /// Marks a row as used.
    #[inline]
    pub fn uses(&self, row: usize) {
        let (word, bit) = place_of(row);
        if let Some(used) = self.used.get(word) {
            used.set(used.get() | bit);
        }
    }

    /// Marks a row that is made or about to change.
    #[inline]
    pub fn changes(&mut self, row: usize) {
        if row / 64 >= self.used.len() {
            self.used.resize(row / 64 + 1, Cell::new(0));
        }
        self.uses(row);
    }

    /// Selects the rows that leave: those of `rows` rows that were not used since the last call and
    /// did not change since the last checkpoint. So the last checkpoint must be complete, and none
    /// may be under way.
    pub fn begin(&mut self, rows: usize, noted: &DirtyRows) {
        self.used.resize(rows.div_ceil(64), Cell::new(0));
        let words = self.used.iter().enumerate();
        let stays = words.map(|(word, used)| used.replace(0) | noted.changed(word));
        self.going = stays.map(|stays| !stays).collect();
        if let (Some(last), true) = (self.going.last_mut(), !rows.is_multiple_of(64)) {
            *last &= (1 << (rows % 64)) - 1;
        }
        self.from = 0;
    }

    /// Takes the next row that leaves, if there is one.
    pub fn next_to_leave(&mut self) -> Option<usize> {
        while let Some(word) = self.going.get_mut(self.from) {
            *word &= !self.used.get(self.from).map_or(0, Cell::get);
            if *word != 0 {
                let bit = word.trailing_zeros() as usize;
                *word &= *word - 1;
                return Some(self.from * 64 + bit);
            }
            self.from += 1;
        }
        self.going = Vec::new();
        None
    }

    /// Counts a restored row. Returns true if it stays in memory.
    pub fn restores(&mut self, bytes: usize) -> bool {
        self.restored_bytes = self.restored_bytes.saturating_add(bytes);
        self.restored_bytes <= self.saved.restored_bytes_max
    }

    /// Counts a row that was evicted.
    pub fn left(&mut self) {
        self.away += 1;
        self.saved.counts.expired.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a row that is not evicted any more.
    pub fn came_back(&mut self) {
        self.away -= 1;
        self.saved.counts.expired.fetch_sub(1, Ordering::Relaxed);
    }

    /// Removes all rows.
    pub fn clear(&mut self) {
        self.saved.counts.expired.fetch_sub(self.away, Ordering::Relaxed);
        self.away = 0;
        self.used.clear();
        self.going.clear();
    }

    /// Reads an evicted row for a use.
    ///
    /// # Panics
    /// As [`Self::look_at`].
    pub fn revive<T>(&self, row: usize, of: impl FnOnce(&[u8]) -> Result<T, SavedError>) -> T {
        self.saved.counts.revived.fetch_add(1, Ordering::Relaxed);
        self.value(row, |key| self.saved.rows.read_needed(key), of)
    }

    /// Reads an evicted row for a snapshot, which counts as no use.
    ///
    /// # Panics
    /// Unwinds with [`UnreadableState`] if the row cannot be read. The job fails with that message.
    pub fn look_at<T>(&self, row: usize, of: impl FnOnce(&[u8]) -> Result<T, SavedError>) -> T {
        self.value(row, |key| self.saved.rows.read(key), of)
    }

    fn value<T>(
        &self,
        row: usize,
        read: impl FnOnce(&[u8]) -> Result<Vec<u8>, ReadError>,
        of: impl FnOnce(&[u8]) -> Result<T, SavedError>,
    ) -> T {
        let mut key = [self.saved.nth; 5];
        key[1..].copy_from_slice(&(row as u32).to_be_bytes());
        let read = read(&key).map_err(|error| error.to_string());
        let value = read.and_then(|bytes| of(&bytes).map_err(|error| error.0));
        value.unwrap_or_else(|error| {
            let message = format!("what had expired cannot be read back: {error}");
            resume_unwind(Box::new(UnreadableState(message)))
        })
    }
}

impl std::fmt::Debug for Expiry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Expiry").field("away", &self.away).finish_non_exhaustive()
    }
}

impl Drop for Expiry {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Returns true if a structure of the state can evict rows.
pub fn can_expire(state: &mut dyn State) -> bool {
    state.structures().iter().any(|it| it.can_expire())
}

/// Lets rows of a state leave memory from now on. Called once, after [`super::track`].
pub fn expires(state: &mut dyn State, saved: &SavedRows) {
    let structures = state.structures().into_iter().enumerate();
    for (nth, structure) in structures.filter(|(_, it)| it.can_expire()) {
        let nth = u8::try_from(nth).expect("one with more is not saved");
        structure.expires(SavedRows { nth, ..saved.clone() });
    }
}

/// Selects the rows of a state that leave: those not used since the last call. Called just before
/// [`super::freeze`], when the last checkpoint is complete.
pub fn begin_expiry(state: &mut dyn State) {
    state.structures().into_iter().for_each(super::Structure::begin_expiry);
}

/// Evicts at most `most` of the selected rows, and subtracts their number from `most`. Returns true
/// once all have left.
pub fn expire(state: &mut dyn State, most: &mut usize) -> bool {
    state.structures().into_iter().all(|structure| structure.expire(most))
}

#[cfg(test)]
mod tests;
