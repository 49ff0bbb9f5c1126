//! Of which slices the rows are that an operator writes in one batch.
//!
//! ```text
//! rows   0 1 2 3 4 5 6      runs   (slice 3, from row 0)  (slice 7, from row 4)
//!        ╰─ s3 ─╯ ╰ s7 ╯
//! ```
//!
//! Invariant: the first run begins at row 0, rows ascend from run to run, and no two runs begin at one
//! row.

use std::ops::Range;
use tidemill_types::SliceId;

/// The slices of the rows of a batch, each with the number of its first row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SliceRuns(Vec<(SliceId, u32)>);

impl SliceRuns {
    /// Rows from number `row` on are of `slice`.
    ///
    /// # Panics
    /// Panics if the batch has more rows than a block can, or if the first rows are of no slice.
    pub fn begin(&mut self, slice: SliceId, row: usize) {
        assert!(row == 0 || !self.0.is_empty(), "the first rows are of some slice");
        let row = u32::try_from(row).expect("rows of a batch are numbered in 32 bits");
        match self.0.last_mut() {
            Some((last, _)) if *last == slice => {}
            Some((last, first)) if *first == row => *last = slice,
            _ => self.0.push((slice, row)),
        }
    }

    /// Takes those of the rows so far. The rows that follow are the first of another batch, and go
    /// on with the slice of the last ones.
    #[must_use]
    pub fn take(&mut self) -> Self {
        let last = self.0.last().map(|(slice, _)| (*slice, 0));
        Self(std::mem::replace(&mut self.0, last.into_iter().collect()))
    }

    /// The slice of the first rows, and whether all rows are of it.
    pub(crate) fn first(&self) -> Option<(SliceId, bool)> {
        self.0.first().map(|(slice, _)| (*slice, self.0.len() == 1))
    }

    /// Slices with their rows, in order, of `rows` rows.
    pub(crate) fn each(&self, rows: usize) -> impl Iterator<Item = (SliceId, Range<usize>)> {
        let ends = self.0.iter().skip(1).map(|(_, first)| *first as usize);
        let runs = self.0.iter().zip(ends.chain([rows]));
        runs.map(|((slice, first), end)| (*slice, *first as usize..end))
    }
}

#[cfg(test)]
mod tests;
