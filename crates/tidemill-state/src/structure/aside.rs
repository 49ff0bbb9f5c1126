//! Rows of the checkpoint under way that are put aside before they change, as they were.
//!
//! ```text
//! put aside ─▶ last │ full │ full ─▶ a piece each time ─▶ what is written out
//! ```
//!
//! While a checkpoint is made, nearly all rows that it has may change. So they are kept in pieces of
//! the size that goes to the thread that writes: none grows beyond that by being moved again and
//! again, and one that is full goes there as it is.
//!
//! Invariant: what was put aside comes out once, before it is said that this was all.

use super::noted::number_of;
use crate::Delta;
use std::collections::VecDeque;

/// Bytes of a slice that go to the thread that writes at once, about. So much that memory which was
/// doubled again and again is of one MiB when they are there.
pub(super) const PIECE_BYTES: usize = 960 << 10;
/// Memory of a new piece: the last row that it takes may not have room in [`PIECE_BYTES`].
const PIECE_BYTES_MAX: usize = 1 << 20;
/// The same in a simulation, and in tests: they have few rows.
const PIECE_BYTES_SIMULATED: usize = 64;

/// Bytes of a slice that go to the thread that writes at once, about.
#[must_use]
pub fn piece_bytes() -> usize {
    if cfg!(test) || tidemill_env::is_simulated() { PIECE_BYTES_SIMULATED } else { PIECE_BYTES }
}

/// Changes that wait to be written out.
#[derive(Debug, Default)]
pub struct Aside {
    /// Prefixes that were emptied: they come first.
    cleared: Vec<Vec<u8>>,
    full: VecDeque<Delta>,
    last: Delta,
    /// Memory for the piece after the last.
    spare: Delta,
}

impl Aside {
    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        let pieces = self.full.iter().chain([&self.last, &self.spare]);
        pieces.map(Delta::memory).sum()
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.cleared.is_empty() && self.full.is_empty() && self.last.is_empty()
    }

    /// The piece that takes more.
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

    /// A row, as it is before it changes: its value, or that it is not there.
    #[inline]
    pub(super) fn put_row(&mut self, row: usize, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        self.last().put_or_delete(&number_of(row).to_be_bytes(), write);
    }

    /// Some changes of a part, whose keys all begin with `prefix`: about as many as a piece has, or
    /// pieces are not what they are to be.
    pub fn within<T>(&mut self, prefix: &[u8], write: impl FnOnce(&mut Delta) -> T) -> T {
        self.last().within(prefix, write)
    }

    /// No key that begins with `prefix` was there when the checkpoint began.
    pub fn clear(&mut self, prefix: &[u8]) {
        self.cleared.push(prefix.to_vec());
    }

    /// Moves a piece to what is written out, if any entries are wanted; whether that was all.
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
