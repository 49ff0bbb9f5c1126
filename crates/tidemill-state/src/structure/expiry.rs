//! Rows that leave memory when nobody has used them for a time, and come back when somebody does.
//!
//! ```text
//! in memory ── not used for a time to live, and saved as it is ──▶ expired: only in the checkpoint
//!     ▲                                                               │
//!     └────────────── revived: read back when it is asked for ────────┘
//! ```
//!
//! As in S4, where a processing element that expired begins again with what was saved of it
//! (`s4-checkpointing.txt` 2.3, 3.1). Here a row that expired is part of the state as before, of its
//! checkpoints too: it costs time to use it again, and changes no result.
//!
//! Invariant: a row that expired is in the newest complete checkpoint as it is. So it does not leave
//! before that, and is not written again while it is away.

use super::{Noted, State};
use crate::{CheckpointError, SavedError};
use std::{cell::Cell, panic::resume_unwind, sync::Arc};
use tidemill_env::sync::atomic::{AtomicU64, Ordering};

/// Reads single rows of a slice back.
pub trait ReadRows: Send + Sync {
    /// The value under a key of the slice's newest complete checkpoint.
    ///
    /// # Errors
    /// The backend's, or it is not there.
    fn read(&self, key: &[u8]) -> Result<Vec<u8>, CheckpointError>;
    /// As [`Self::read`], for somebody who cannot go on without it: it may wait for a server.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn read_needed(&self, key: &[u8]) -> Result<Vec<u8>, CheckpointError> {
        self.read(key)
    }
}

/// What the slices of a stage count.
#[derive(Debug, Default)]
pub struct ExpiryCounts {
    /// Rows that are away now.
    pub expired: AtomicU64,
    /// How often a row was read back.
    pub revived: AtomicU64,
}

/// The panic of who needs a saved row, or a saved state, that cannot be read.
#[derive(Debug)]
pub struct NotRead(pub String);

/// Where the rows of a structure are that expired.
#[derive(Clone)]
pub struct SavedRows {
    rows: Arc<dyn ReadRows>,
    counts: Arc<ExpiryCounts>,
    restored_bytes_max: usize,
    /// Which of its state's structures it is.
    nth: u8,
}

impl SavedRows {
    /// Rows that `rows` reads, of the first structure of a state. When it is restored, rows of
    /// `restored_bytes_max` bytes at most stay in memory, and the others begin expired.
    #[must_use]
    pub fn new(
        rows: Arc<dyn ReadRows>,
        counts: Arc<ExpiryCounts>,
        restored_bytes_max: usize,
    ) -> Self {
        Self { rows, counts, restored_bytes_max, nth: 0 }
    }
}

/// Which rows of a structure are to leave. Whoever holds the rows says which are used, and lets them
/// go.
pub struct Expiry {
    saved: SavedRows,
    /// Used since it was last found out which are to go; 64 rows a word.
    used: Vec<Cell<u64>>,
    /// To leave, unless they are used before.
    going: Vec<u64>,
    /// Words before this one have left.
    from: usize,
    /// Rows that are away.
    away: u64,
    /// Bytes that were restored into memory.
    restored_bytes: usize,
}

fn place_of(row: usize) -> (usize, u64) {
    (row / 64, 1 << (row % 64))
}

impl Expiry {
    /// None is away.
    #[must_use]
    pub fn new(saved: SavedRows) -> Self {
        let (used, going) = (Vec::new(), Vec::new());
        Self { saved, used, going, from: 0, away: 0, restored_bytes: 0 }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        (self.used.capacity() + self.going.capacity()) * size_of::<u64>()
    }

    /// A row is used.
    #[inline]
    pub fn uses(&self, row: usize) {
        let (word, bit) = place_of(row);
        if let Some(used) = self.used.get(word) {
            used.set(used.get() | bit);
        }
    }

    /// A row is made, or about to change.
    #[inline]
    pub fn changes(&mut self, row: usize) {
        if row / 64 >= self.used.len() {
            self.used.resize(row / 64 + 1, Cell::new(0));
        }
        self.uses(row);
    }

    /// Of `rows` rows those are to leave that were not used since this was called last, and that
    /// are saved as they are: so it is called when the last checkpoint is complete, and none is
    /// under way.
    pub fn begin(&mut self, rows: usize, noted: &Noted) {
        self.used.resize(rows.div_ceil(64), Cell::new(0));
        let words = self.used.iter().enumerate();
        let stays = words.map(|(word, used)| used.replace(0) | noted.changed(word));
        self.going = stays.map(|stays| !stays).collect();
        if let (Some(last), true) = (self.going.last_mut(), !rows.is_multiple_of(64)) {
            *last &= (1 << (rows % 64)) - 1;
        }
        self.from = 0;
    }

    /// A row that is to leave now, if there is one.
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

    /// A row was taken back when the slice was restored; whether it stays in memory.
    pub fn restores(&mut self, bytes: usize) -> bool {
        self.restored_bytes = self.restored_bytes.saturating_add(bytes);
        self.restored_bytes <= self.saved.restored_bytes_max
    }

    /// A row has left.
    pub fn left(&mut self) {
        self.away += 1;
        self.saved.counts.expired.fetch_add(1, Ordering::Relaxed);
    }

    /// A row is not away any more.
    pub fn came_back(&mut self) {
        self.away -= 1;
        self.saved.counts.expired.fetch_sub(1, Ordering::Relaxed);
    }

    /// No row is there any more.
    pub fn clear(&mut self) {
        self.saved.counts.expired.fetch_sub(self.away, Ordering::Relaxed);
        self.away = 0;
        self.used.clear();
        self.going.clear();
    }

    /// A row that is away, for somebody who uses it.
    ///
    /// # Panics
    /// As [`Self::look_at`].
    pub fn revive<T>(&self, row: usize, of: impl FnOnce(&[u8]) -> Result<T, SavedError>) -> T {
        self.saved.counts.revived.fetch_add(1, Ordering::Relaxed);
        self.value(row, |key| self.saved.rows.read_needed(key), of)
    }

    /// A row that is away, for somebody who only looks.
    ///
    /// # Panics
    /// Unwinds with [`NotRead`] if it cannot be read: then its job fails, and says why.
    pub fn look_at<T>(&self, row: usize, of: impl FnOnce(&[u8]) -> Result<T, SavedError>) -> T {
        self.value(row, |key| self.saved.rows.read(key), of)
    }

    fn value<T>(
        &self,
        row: usize,
        read: impl FnOnce(&[u8]) -> Result<Vec<u8>, CheckpointError>,
        of: impl FnOnce(&[u8]) -> Result<T, SavedError>,
    ) -> T {
        let mut key = [self.saved.nth; 5];
        key[1..].copy_from_slice(&(row as u32).to_be_bytes());
        let read = read(&key).map_err(|error| error.to_string());
        let value = read.and_then(|bytes| of(&bytes).map_err(|error| error.0));
        value.unwrap_or_else(|error| {
            let message = format!("what had expired cannot be read back: {error}");
            resume_unwind(Box::new(NotRead(message)))
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

/// Whether anything in a state can expire.
pub fn can_expire(state: &mut dyn State) -> bool {
    state.structures().iter().any(|it| it.can_expire())
}

/// Rows of a state may leave memory from now on. Called once, after [`super::track`].
pub fn expires(state: &mut dyn State, saved: &SavedRows) {
    let structures = state.structures().into_iter().enumerate();
    for (nth, structure) in structures.filter(|(_, it)| it.can_expire()) {
        let nth = u8::try_from(nth).expect("one with more is not saved");
        structure.expires(SavedRows { nth, ..saved.clone() });
    }
}

/// Finds out which rows of a state are to leave: those not used since this was called last. Called
/// just before [`super::freeze`], when all that was frozen before is in a complete checkpoint.
pub fn begin_expiry(state: &mut dyn State) {
    state.structures().into_iter().for_each(super::Structure::begin_expiry);
}

/// Lets `most` of them go at most, and takes from it as many as it lets go; whether those were all.
pub fn expire(state: &mut dyn State, most: &mut usize) -> bool {
    state.structures().into_iter().all(|structure| structure.expire(most))
}

#[cfg(test)]
mod tests;
