//! Before images: copies of rows of the current checkpoint, made before the rows change.
//!
//! ```text
//! put aside ─▶ last │ full │ full ─▶ a piece each time ─▶ the delta that is written out
//! ```
//!
//! Nearly all rows of a checkpoint may change while it is written. So copies are collected in
//! pieces of the size that the writing thread takes at once. No buffer grows beyond a piece, and a
//! full piece moves on without being copied.
//!
//! Invariant: every copy is written out once, before a drain reports that all are written.

use super::dirty_rows::number_of;
use crate::Delta;
use std::collections::VecDeque;

/// The bytes of a slice that go to the writing thread at once, about. A buffer that doubles as it
/// grows has 1 MiB of memory then.
pub(super) const PIECE_BYTES: usize = 960 << 10;
/// The memory of a new piece: its last row may exceed [`PIECE_BYTES`].
const PIECE_BYTES_MAX: usize = 1 << 20;
/// The piece size of simulations and tests, which have few rows.
const PIECE_BYTES_SIMULATED: usize = 64;

/// The bytes of a slice that go to the writing thread at once, about.
#[must_use]
pub fn piece_bytes() -> usize {
    if cfg!(test) || tidemill_env::is_simulated() { PIECE_BYTES_SIMULATED } else { PIECE_BYTES }
}

/// The before images that wait to be written out.
#[derive(Debug, Default)]
pub struct BeforeImages {
    /// The prefixes that were emptied. They come out first.
    cleared: Vec<Vec<u8>>,
    full: VecDeque<Delta>,
    last: Delta,
    /// The memory of the piece after the last.
    spare: Delta,
}

impl BeforeImages {
    /// The memory in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        let pieces = self.full.iter().chain([&self.last, &self.spare]);
        pieces.map(Delta::memory).sum()
    }

    /// Returns true if nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cleared.is_empty() && self.full.is_empty() && self.last.is_empty()
    }

    /// The piece that takes the next row.
    #[inline]
    fn last(&mut self) -> &mut Delta {
        if self.last.bytes() >= piece_bytes() {
            self.begin_piece();
        }
        &mut self.last
    }

    #[cold]
    fn begin_piece(&mut self) {
        let mut next = std::mem::take(&mut self.spare);
        // Most rows that follow are as long as those before; a few more must not move them all.
        let with_more = |count: usize| count + count / 15;
        let bytes = PIECE_BYTES_MAX.min(with_more(self.last.bytes()));
        next.reserve(bytes, with_more(self.last.len()));
        self.full.push_back(std::mem::replace(&mut self.last, next));
    }

    /// Copies a row before it changes: its value, or its absence.
    #[inline]
    pub(super) fn put_row(&mut self, row: usize, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        self.last().put_or_delete(&number_of(row).to_be_bytes(), write);
    }

    /// Writes changes whose keys all begin with `prefix`: at most about one piece a call, as a
    /// piece is not split.
    pub fn within<T>(&mut self, prefix: &[u8], write: impl FnOnce(&mut Delta) -> T) -> T {
        self.last().within(prefix, write)
    }

    /// Notes that no key with this prefix existed when the checkpoint began.
    pub fn clear(&mut self, prefix: &[u8]) {
        self.cleared.push(prefix.to_vec());
    }

    /// Moves a piece into `delta`, unless `most` is 0. Returns true once nothing waits.
    pub fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        self.cleared.drain(..).for_each(|prefix| delta.clear(&prefix));
        if most > 0 {
            match self.full.pop_front() {
                Some(mut piece) => {
                    delta.take_from(&mut piece);
                    self.spare = piece;
                }
                None => delta.take_from(&mut self.last),
            }
        }
        self.is_empty()
    }
}

#[cfg(test)]
mod tests;
