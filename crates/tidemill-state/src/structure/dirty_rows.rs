//! Change tracking for rows that have numbers.

use super::before_images::{BeforeImages, PIECE_BYTES};
use super::dirty_bits::DirtyBits;
use crate::delta::Delta;

/// Tracks the changed rows of one structure. The structure owns the rows and writes them: the value
/// of a row, or nothing if there is no such row.
#[derive(Debug, Default)]
pub struct DirtyRows {
    is_on: bool,
    marks: DirtyBits,
    /// The before images of rows of the current checkpoint that changed since it began.
    before: BeforeImages,
    /// True if all rows were removed since the last checkpoint, before the marked changes.
    cleared: bool,
    cleared_frozen: bool,
}

/// Appends the value of a row; false if there is no such row.
pub type WriteRow<'a> = dyn FnMut(usize, &mut Vec<u8>) -> bool + 'a;

impl DirtyRows {
    /// Starts tracking. An untracked structure pays nothing.
    pub fn track(&mut self) {
        self.is_on = true;
    }

    /// The memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.marks.memory() + self.before.memory()
    }

    /// Returns true if changes are tracked.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// The rows among 64 that changed since the last checkpoint began. The first is number `64 *
    /// word`.
    #[must_use]
    pub(super) fn changed(&self, word: usize) -> u64 {
        self.marks.changed(word)
    }

    /// Announces that a row is about to change, to be made or to be removed. `write` writes its
    /// present value.
    #[inline]
    pub fn change(&mut self, row: usize, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        if self.is_on && self.marks.mark(row) {
            self.before.put_row(row, write);
        }
    }

    /// Announces that all rows are about to be removed.
    pub fn clear(&mut self, write: &mut WriteRow<'_>) {
        if !self.is_on {
            return;
        }
        while let Some(row) = self.marks.next_frozen() {
            self.before.put_row(row, |out| write(row, out));
        }
        self.marks.forget();
        self.cleared = true;
    }

    /// Begins a checkpoint.
    pub fn freeze(&mut self) {
        self.marks.freeze();
        self.cleared_frozen = std::mem::take(&mut self.cleared);
    }

    /// Writes up to `most` rows of the current checkpoint as of its begin, or one piece of them,
    /// and after the last of them the before images, one piece a call. Returns true once all are
    /// written.
    pub fn drain(&mut self, delta: &mut Delta, most: usize, write: &mut WriteRow<'_>) -> bool {
        if std::mem::take(&mut self.cleared_frozen) {
            delta.clear(&[]);
        }
        let mut left = most;
        while left > 0
            && let Some(row) = self.marks.next_frozen()
        {
            delta.put_row(number_of(row), |out| write(row, out));
            left = if delta.bytes() >= PIECE_BYTES { 0 } else { left - 1 };
        }
        let is_all = self.marks.left() == 0 && self.before.drain(delta, left);
        if is_all {
            // Its memory goes: nothing is put aside before the next checkpoint.
            self.before = BeforeImages::default();
        }
        is_all
    }
}

/// The row number in a key.
#[inline]
pub(super) fn number_of(row: usize) -> u32 {
    u32::try_from(row).expect("a slice has fewer than 4 billion rows")
}

/// The row of a key.
///
/// # Errors
/// It is not the key of a row.
#[inline]
pub fn row_of(key: &[u8]) -> Result<usize, crate::SavedError> {
    let row = <[u8; 4]>::try_from(key).map(u32::from_be_bytes);
    row.map(|row| row as usize).map_err(|_| crate::SavedError::new("a saved key is not of a row"))
}
