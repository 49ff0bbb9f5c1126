//! States that go on while most of them is still where a checkpoint has it, and read single rows of
//! that by their keys (`s4-checkpointing.txt` 3.4: lazy recovery).
//!
//! ```text
//! a row is asked for ── in memory ──────────────────────────────▶ used
//!                    └─ not: in the checkpoint? ── read ────────▶ into memory, under its number
//!                                              └─ not there ────▶ new, under the next number
//!
//! the rest is read ── complete: all else comes into memory ──▶ a state as any other
//! ```
//!
//! Invariant: a row that is not in memory is in the newest complete checkpoint as it is: it did not
//! change since.

use super::NotRead;
use crate::{CheckpointError, SavedError};
use std::panic::resume_unwind;

/// Takes the number of a row, as bytes, and its value; whether it is the one.
pub type TakeKey<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, SavedError> + 'a;

/// Reads single rows of a slice by the hashes of their keys.
pub trait ReadKeys: Send {
    /// The prefixes of its keys, and how many rows have numbers behind each: one more than the last.
    fn parts(&self) -> Vec<(Vec<u8>, u32)>;
    /// So many rows are about to be looked for; gives back whether they are too many to be read one
    /// by one. Default: they never are.
    fn are_too_many(&mut self, _rows: usize) -> bool {
        false
    }
    /// Rows behind a prefix whose keys have these hashes are about to be looked for. Default: nothing
    /// is done ahead.
    fn ask(&mut self, _prefix: &[u8], _hashes: Vec<u64>) {}
    /// Hands over the rows behind a prefix whose keys have this hash, and some others: each with its
    /// number, as bytes, and its value; until one is taken. Gives back whether one was.
    ///
    /// # Errors
    /// That of `take`, or the backend's.
    fn find(
        &mut self,
        prefix: &[u8],
        hash: u64,
        take: &mut TakeKey<'_>,
    ) -> Result<bool, CheckpointError>;
}

/// The rows of the first structure of a state, where a checkpoint has them.
pub struct SavedKeys(Box<dyn ReadKeys>);

/// What the keys of the first structure begin with.
const FIRST: u8 = 0;

impl SavedKeys {
    /// Those that `keys` reads.
    #[must_use]
    pub fn new(keys: Box<dyn ReadKeys>) -> Self {
        Self(keys)
    }

    /// What its keys begin with, and how many rows each has: see [`ReadKeys::parts`].
    #[must_use]
    pub fn parts(&self) -> Vec<(Vec<u8>, u32)> {
        let of_first = |(prefix, rows): (Vec<u8>, u32)| {
            let (first, prefix) = prefix.split_first()?;
            (*first == FIRST).then(|| (prefix.to_vec(), rows))
        };
        self.0.parts().into_iter().filter_map(of_first).collect()
    }

    /// As [`ReadKeys::are_too_many`].
    pub fn are_too_many(&mut self, rows: usize) -> bool {
        self.0.are_too_many(rows)
    }

    /// As [`ReadKeys::ask`].
    pub fn ask(&mut self, prefix: &[u8], hashes: Vec<u64>) {
        self.0.ask(&[&[FIRST], prefix].concat(), hashes);
    }

    /// As [`ReadKeys::find`].
    ///
    /// # Panics
    /// Unwinds with [`NotRead`] if it cannot be read: then its job fails, and says why.
    pub fn find(&mut self, prefix: &[u8], hash: u64, take: &mut TakeKey<'_>) -> bool {
        let prefix = [&[FIRST], prefix].concat();
        self.0.find(&prefix, hash, take).unwrap_or_else(|error| {
            let message = format!("a key of the state cannot be read back: {error}");
            resume_unwind(Box::new(NotRead(message)))
        })
    }
}
