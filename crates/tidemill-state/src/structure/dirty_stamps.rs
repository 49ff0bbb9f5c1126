//! Change tracking for rows that carry a stamp of their last change.
//!
//! ```text
//! row      a word: the interval between two checkpoints in which it changed last
//! block    a bit: some of its rows changed in this interval; and in the one before, for the
//!          checkpoint under way
//! ```
//!
//! A change reads its row anyway. Bits of millions of rows that lie elsewhere
//! ([`super::DirtyRows`]) would cost one more cache miss each. The bits of blocks are few and stay
//! in the cache; they lead to the changed rows when those are written out. Once most rows have
//! changed in an interval, all are written out, and tracking stops for the rest of the interval.

use super::before_images::{BeforeImages, PIECE_BYTES};
use super::{ChangeCount, dirty_rows::number_of};
use crate::delta::Delta;
use std::ops::{Range, RangeInclusive};

#[cfg(test)]
mod tests;

/// The rows whose stamps are read before any of them is copied.
const LOOKED_AT_TOGETHER: usize = 128;
/// The rows of a block.
const BLOCK: usize = 32;
/// An interval without rows: a row that never changed has stamp 0.
const NEVER: RangeInclusive<u64> = u64::MAX..=u64::MAX;

/// The rows of one structure.
pub trait StampedRows {
    /// The count of rows.
    fn rows(&self) -> usize;
    /// Returns true if all rows may be written out once most have changed: all are in memory and
    /// have similar lengths. Otherwise a few long, unchanged rows could be most of the bytes.
    fn are_alike(&self) -> bool;
    /// The stamp of a row: the interval in which it changed last, 0 at first. It is no part of the
    /// row's value.
    fn stamp(&mut self, row: usize) -> &mut u64;
    /// Prefetches the parts of a row's value that lie apart from its stamp. Default: there are
    /// none.
    fn prefetch_rest(&self, _row: usize) {}
    /// Prefetches a row that is about to be written out, and that may not exist. Default: does
    /// nothing.
    fn prefetch(&self, _row: usize) {}
    /// Appends the value of a row.
    fn write(&self, row: usize, out: &mut Vec<u8>);
    /// The saved number of a row. Default: its own number.
    fn number(&self, row: usize) -> usize {
        row
    }
}

/// Tracks the changed rows of one structure by their stamps. Rows are never removed one by one.
#[derive(Debug)]
pub struct DirtyStamps {
    is_on: bool,
    /// The current interval between two checkpoints, from 1.
    now: u64,
    /// The stamps of the rows of the current checkpoint: the last interval, or all so far.
    frozen: RangeInclusive<u64>,
    /// The rows among them that are left. Earlier rows are written out, later ones did not exist.
    left: Range<usize>,
    /// The count of rows that changed in this interval.
    changed: usize,
    /// True once most rows have changed: the next checkpoint is of all rows, and changes are not
    /// tracked any more.
    are_all: bool,
    /// The blocks with a row that changed in this interval.
    blocks: Vec<u64>,
    /// The blocks with a row of the current checkpoint.
    frozen_blocks: Vec<u64>,
    /// The before images of rows of the current checkpoint that changed since it began.
    before: BeforeImages,
}

impl Default for DirtyStamps {
    fn default() -> Self {
        Self {
            is_on: false,
            now: 1,
            frozen: NEVER,
            left: 0..0,
            changed: 0,
            are_all: false,
            blocks: Vec::new(),
            frozen_blocks: Vec::new(),
            before: BeforeImages::default(),
        }
    }
}

impl DirtyStamps {
    /// Starts tracking. Without this call no row is stamped.
    pub fn track(&mut self) {
        self.is_on = true;
    }

    /// The memory in bytes, without the stamps.
    #[must_use]
    pub fn memory(&self) -> usize {
        (self.blocks.capacity() + self.frozen_blocks.capacity()) * size_of::<u64>()
            + self.before.memory()
    }

    /// Announces that these rows are about to change. A caller that knows them ahead has prefetched
    /// their stamps ([`crate::prefetch`]).
    #[inline]
    pub fn change_all(&mut self, rows: &[u32], of: &mut impl StampedRows) {
        // Where few rows change often, all have soon done so in this interval.
        if !self.is_on || self.are_all || self.changed == of.rows() {
            return;
        }
        let blocks = of.rows().div_ceil(BLOCK).div_ceil(64);
        if self.blocks.len() < blocks {
            self.blocks.resize(blocks, 0);
        }
        let mut frozen = [0; LOOKED_AT_TOGETHER];
        for rows in rows.chunks(LOOKED_AT_TOGETHER) {
            let mut count = 0;
            for row in rows {
                let row = *row as usize;
                let stamp = of.stamp(row);
                // Most rows that change often have done so in this interval already.
                if *stamp == self.now {
                    continue;
                }
                frozen[count] = row;
                count += usize::from(is_in(&self.frozen, *stamp) & is_left(&self.left, row));
                self.changed += 1;
                *stamp = self.now;
                self.blocks[row / BLOCK / 64] |= 1 << (row / BLOCK % 64);
            }
            let frozen = &frozen[..count];
            frozen.iter().for_each(|row| of.prefetch_rest(*row));
            frozen.iter().for_each(|row| self.before.put_row(of.number(*row), value_of(*row, of)));
        }
        // While some may have to be put aside, each is looked at.
        let changed = ChangeCount { changed: self.changed, rows: of.rows() };
        self.are_all = self.frozen == NEVER && of.are_alike() && changed.is_most();
    }

    /// Takes over the tracking of another structure, whose rows have become rows here. `moved`
    /// gives, by the row's number there, its number here and its stamp there. Earlier tracking of
    /// this structure is dropped.
    pub fn take_over(
        &mut self,
        other: Self,
        moved: impl Iterator<Item = (usize, u64)>,
        of: &mut impl StampedRows,
    ) {
        // Not all of it is in memory, so no checkpoint under way is of more than what changed.
        let (written_before, frozen) = (other.left.start, *other.frozen.end());
        debug_assert_eq!(*other.frozen.start(), frozen, "what changed");
        let left = 0..usize::MAX;
        *self = Self { left, blocks: Vec::new(), frozen_blocks: Vec::new(), ..other };
        let words = of.rows().div_ceil(BLOCK).div_ceil(64);
        self.blocks.resize(words, 0);
        self.frozen_blocks.resize(words, 0);
        for (there, (row, stamp)) in moved.enumerate() {
            let block = row / BLOCK;
            let bit = 1 << (block % 64);
            // What the checkpoint under way has of it is written out already.
            let is_written = stamp == frozen && there < written_before;
            *of.stamp(row) = if is_written { 0 } else { stamp };
            match stamp {
                stamp if stamp == self.now => self.blocks[block / 64] |= bit,
                stamp if stamp == frozen && !is_written => {
                    self.frozen_blocks[block / 64] |= bit;
                }
                _ => {}
            }
        }
    }

    /// The change count of a structure with this many rows. Once most rows have changed, all count
    /// as changed.
    #[must_use]
    pub fn changed(&self, rows: usize) -> ChangeCount {
        ChangeCount { changed: if self.are_all { rows } else { self.changed }, rows }
    }

    /// Begins a checkpoint of the changed rows, or of all rows once most have changed.
    ///
    /// # Panics
    /// Panics if rows of the last checkpoint are left, which is an error of the engine.
    pub fn freeze(&mut self, rows: usize) {
        if self.are_all { self.freeze_all(rows) } else { self.freeze_changed() }
    }

    fn freeze_changed(&mut self) {
        let is_left = self.frozen != NEVER && self.frozen_blocks.iter().any(|it| *it != 0);
        assert!(!is_left, "a checkpoint begins when the one before is written out");
        // Bits of blocks that were written out are gone.
        std::mem::swap(&mut self.blocks, &mut self.frozen_blocks);
        (self.frozen, self.left) = (self.now..=self.now, 0..usize::MAX);
        (self.now, self.changed, self.are_all) = (self.now + 1, 0, false);
    }

    /// As [`Self::freeze`], but of all rows, changed or not.
    ///
    /// # Panics
    /// As [`Self::freeze`].
    pub fn freeze_all(&mut self, rows: usize) {
        self.freeze_changed();
        (self.frozen, self.left) = (0..=*self.frozen.end(), 0..rows);
        self.frozen_blocks.clear();
        self.frozen_blocks.resize(rows.div_ceil(BLOCK).div_ceil(64), u64::MAX);
    }

    /// Writes up to `most` rows of the current checkpoint as of its begin, or one piece of them,
    /// and after the last of them the before images, one piece a call. Returns true once all are
    /// written.
    pub fn drain(&mut self, delta: &mut Delta, most: usize, of: &mut impl StampedRows) -> bool {
        if self.frozen == NEVER {
            return true;
        }
        let mut left = most;
        for word in self.left.start / BLOCK / 64..self.frozen_blocks.len() {
            while self.frozen_blocks[word] != 0 {
                let block = word * 64 + self.frozen_blocks[word].trailing_zeros() as usize;
                let end = ((block + 1) * BLOCK).min(of.rows()).min(self.left.end);
                for row in self.left.start.max(block * BLOCK)..end {
                    of.prefetch(row + BLOCK);
                    if is_in(&self.frozen, *of.stamp(row)) {
                        if left == 0 {
                            self.left.start = row;
                            return false;
                        }
                        delta.put_row(number_of(of.number(row)), value_of(row, of));
                        left = if delta.bytes() >= PIECE_BYTES { 0 } else { left - 1 };
                    }
                }
                self.left.start = end;
                self.frozen_blocks[word] &= self.frozen_blocks[word] - 1;
            }
        }
        if !self.before.drain(delta, left) {
            return false;
        }
        self.frozen = NEVER;
        // Its memory goes: nothing is put aside before the next checkpoint.
        self.before = BeforeImages::default();
        true
    }
}

/// Does not branch: neither rows nor their stamps come in order.
#[inline]
fn is_in(intervals: &RangeInclusive<u64>, stamp: u64) -> bool {
    (stamp >= *intervals.start()) & (stamp <= *intervals.end())
}

#[inline]
fn is_left(rows: &Range<usize>, row: usize) -> bool {
    (row >= rows.start) & (row < rows.end)
}

/// Writes the value of a row.
#[inline]
fn value_of(row: usize, of: &impl StampedRows) -> impl FnOnce(&mut Vec<u8>) -> bool {
    move |out| {
        of.write(row, out);
        true
    }
}
