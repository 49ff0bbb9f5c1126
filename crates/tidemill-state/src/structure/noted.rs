//! Rows by number whose changes are noted, whoever holds them.

use super::aside::{Aside, PIECE_BYTES};
use super::marks::Marks;
use crate::delta::Delta;

/// Notes of the rows of one holder. A row is named by its number, and written by who holds it:
/// its value, or nothing if it is not there.
#[derive(Debug, Default)]
pub struct Noted {
    is_on: bool,
    marks: Marks,
    /// Rows of the checkpoint under way that have changed since, as they were.
    before: Aside,
    /// All rows went since the last checkpoint: before its marks count.
    cleared: bool,
    cleared_frozen: bool,
}

/// Appends the value of a row; false if there is no such row.
pub type WriteRow<'a> = dyn FnMut(usize, &mut Vec<u8>) -> bool + 'a;

impl Noted {
    /// From now on changes are noted. Without this call nothing is, and nothing is paid.
    pub fn track(&mut self) {
        self.is_on = true;
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.marks.memory() + self.before.memory()
    }

    /// Whether changes are noted.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Which of 64 rows changed since the last checkpoint began; the first is number `64 * word`.
    #[must_use]
    pub(super) fn changed(&self, word: usize) -> u64 {
        self.marks.changed(word)
    }

    /// A row is about to change, to be made or to go; `write` writes it as it is now.
    #[inline]
    pub fn change(&mut self, row: usize, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        if self.is_on && self.marks.mark(row) {
            self.before.put_row(row, write);
        }
    }

    /// All rows are about to go.
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

    /// A checkpoint begins.
    pub fn freeze(&mut self) {
        self.marks.freeze();
        self.cleared_frozen = std::mem::take(&mut self.cleared);
    }

    /// Writes up to `most` rows of the checkpoint under way, as they were when it began, or as many as
    /// make a piece; behind the last of them those that were put aside, a piece at a time. Whether that
    /// were all.
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
            self.before = Aside::default();
        }
        is_all
    }
}

/// The number of a row as keys have it.
#[inline]
pub(super) fn number_of(row: usize) -> u32 {
    u32::try_from(row).expect("a slice has fewer than 4 billion rows")
}

/// The row that a key is of.
///
/// # Errors
/// It is not the key of a row.
#[inline]
pub fn row_of(key: &[u8]) -> Result<usize, crate::SavedError> {
    let row = <[u8; 4]>::try_from(key).map(u32::from_be_bytes);
    row.map(|row| row as usize).map_err(|_| crate::SavedError::new("a saved key is not of a row"))
}
