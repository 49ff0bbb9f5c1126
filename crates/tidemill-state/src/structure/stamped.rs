//! Rows that carry the notes of their own changes.
//!
//! ```text
//! row      a word: the interval between two checkpoints in which it changed last
//! block    a bit: some of its rows changed in this interval; and in the one before, for the
//!          checkpoint under way
//! ```
//!
//! A change looks at the row anyway; marks of millions of rows that lie elsewhere
//! ([`super::Noted`]) would be one more place in memory for each. Bits of blocks are few, and stay
//! in the cache: they say where to look when the rows are written out. Once most rows have changed
//! in an interval, all of them will be written out, and nobody looks any more.

use super::aside::{Aside, PIECE_BYTES};
use super::{Changed, noted::number_of};
use crate::delta::Delta;
use std::ops::{Range, RangeInclusive};

#[cfg(test)]
mod tests;

/// Rows whose stamps are looked at before any of them is put aside.
const LOOKED_AT_TOGETHER: usize = 128;
/// Rows of a block.
const BLOCK: usize = 32;
/// The intervals of no row: a row that never changed is of interval 0.
const NEVER: RangeInclusive<u64> = u64::MAX..=u64::MAX;

/// The rows of one holder.
pub trait StampedRows {
    /// How many there are.
    fn rows(&self) -> usize;
    /// Whether all of them can be written out where most changed: all are here, and about as long as
    /// each other. Few that are long and did not change may be most of the bytes.
    fn are_alike(&self) -> bool;
    /// The word of a row that says when it changed last; 0 at first. It is no part of its value.
    fn stamp(&mut self, row: usize) -> &mut u64;
    /// Asks for what belongs to the value of a row and lies elsewhere than its stamp. Default: that
    /// is nothing.
    fn prefetch_rest(&self, _row: usize) {}
    /// Asks for a row, which may not be there, that is about to be written out. Default: it does not.
    fn prefetch(&self, _row: usize) {}
    /// Appends the value of a row.
    fn write(&self, row: usize, out: &mut Vec<u8>);
    /// The number that a row is saved under. Default: its own.
    fn number(&self, row: usize) -> usize {
        row
    }
}

/// Notes of the rows of one holder. None of them is removed but with all others.
#[derive(Debug)]
pub struct Stamped {
    is_on: bool,
    /// The interval between two checkpoints, from 1.
    now: u64,
    /// Rows of these intervals are to be written out for the checkpoint under way: of the last one, or
    /// of all so far.
    frozen: RangeInclusive<u64>,
    /// Of those, these rows: the ones before are, and the ones behind were not there.
    left: Range<usize>,
    /// How many rows changed in this interval: those that carry it.
    changed: usize,
    /// Most did, so all belong to the next checkpoint; which ones change is not noted any more.
    are_all: bool,
    /// Blocks with a row that changed in this interval.
    blocks: Vec<u64>,
    /// Blocks with a row of the checkpoint under way.
    frozen_blocks: Vec<u64>,
    /// Rows of the checkpoint under way that have changed since, as they were.
    before: Aside,
}

impl Default for Stamped {
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
            before: Aside::default(),
        }
    }
}

impl Stamped {
    /// From now on changes are noted. Without this call nothing is, and no row is stamped.
    pub fn track(&mut self) {
        self.is_on = true;
    }

    /// Bytes of memory, those of the stamps aside.
    #[must_use]
    pub fn memory(&self) -> usize {
        (self.blocks.capacity() + self.frozen_blocks.capacity()) * size_of::<u64>()
            + self.before.memory()
    }

    /// These rows are about to change. Whoever knows which they are before has asked for their stamps
    /// ([`crate::prefetch`]).
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
        let changed = Changed { changed: self.changed, rows: of.rows() };
        self.are_all = self.frozen == NEVER && of.are_alike() && changed.is_most();
    }

    /// Goes on with the notes of another, whose rows have become rows here: by the number that each
    /// had there, its number here and its stamp there. What is noted here so far is forgotten.
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

    /// How many of so many rows changed since the last checkpoint began; all, once most have.
    #[must_use]
    pub fn changed(&self, rows: usize) -> Changed {
        Changed { changed: if self.are_all { rows } else { self.changed }, rows }
    }

    /// A checkpoint begins: of so many rows those that changed belong to it, or all, once most have.
    ///
    /// # Panics
    /// Panics if rows of the last one are left: an error of the engine.
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

    /// As [`Self::freeze`], and all of so many rows belong to it, whether they changed or not.
    ///
    /// # Panics
    /// As there.
    pub fn freeze_all(&mut self, rows: usize) {
        self.freeze_changed();
        (self.frozen, self.left) = (0..=*self.frozen.end(), 0..rows);
        self.frozen_blocks.clear();
        self.frozen_blocks.resize(rows.div_ceil(BLOCK).div_ceil(64), u64::MAX);
    }

    /// Writes up to `most` rows of the checkpoint under way, as they were when it began, or as many as
    /// make a piece; behind the last of them those that were put aside, a piece at a time. Whether that
    /// were all.
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
        self.before = Aside::default();
        true
    }
}

/// Without a branch: rows come in no order, and so do their stamps.
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
