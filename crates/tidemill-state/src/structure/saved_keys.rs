//! States that run while most of their rows are still only in a checkpoint, and read single rows by
//! their keys: lazy recovery (Vallés, "An Analysis of a Checkpointing Mechanism for a Distributed
//! Stream Processing System", 3.1).
//!
//! ```text
//! a row is asked for ── in memory ──────────────────────────────▶ used
//!                    └─ not: in the checkpoint? ── read ────────▶ into memory, under its number
//!                                              └─ not there ────▶ new, under the next number
//!
//! the rest is read ── complete: all else comes into memory ──▶ a state as any other
//! ```
//!
//! Invariant: a row that is not in memory did not change since the newest complete checkpoint,
//! which has it.

use super::{ReadError, UnreadableState};
use crate::SavedError;
use std::{panic::resume_unwind, sync::Arc};

/// Gives the hash of the key in an entry's value; none if the value holds no key.
pub type HashOfEntry = Arc<dyn Fn(&[u8]) -> Option<u64> + Send + Sync>;

/// Takes the number of a row, as bytes, and its value. Returns true if this is the wanted row.
pub type TakeKey<'a> = dyn FnMut(&[u8], &[u8]) -> Result<bool, SavedError> + 'a;

/// Reads single rows of a slice by the hashes of their keys.
pub trait ReadKeys: Send {
    /// The prefixes of the keys, each with the count of its row numbers: one more than the largest.
    fn parts(&self) -> Vec<(Vec<u8>, u32)>;
    /// Announces that this many rows will be looked up. Returns true if they are too many to be
    /// read one by one. Default: false.
    fn are_too_many(&mut self, _rows: usize) -> bool {
        false
    }
    /// Announces that keys with these hashes, behind this prefix, will be looked up, so that their
    /// rows can be read ahead. Default: does nothing.
    fn ask(&mut self, _prefix: &[u8], _hashes: Vec<u64>) {}
    /// Hands over the rows behind a prefix whose keys have this hash, and maybe others, until
    /// `take` accepts one. Returns true if it did.
    ///
    /// # Errors
    /// An error of `take` or of the backend.
    fn find(&mut self, prefix: &[u8], hash: u64, take: &mut TakeKey<'_>)
    -> Result<bool, ReadError>;
}

/// The rows of the first structure of a state, in a checkpoint.
pub struct SavedKeys(Box<dyn ReadKeys>);

/// The first byte of the keys of the first structure.
const FIRST: u8 = 0;

impl SavedKeys {
    /// The rows that `keys` reads.
    #[must_use]
    pub fn new(keys: Box<dyn ReadKeys>) -> Self {
        Self(keys)
    }

    /// The prefixes of its keys: see [`ReadKeys::parts`].
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
    /// Unwinds with [`UnreadableState`] if the row cannot be read. The job fails with that message.
    pub fn find(&mut self, prefix: &[u8], hash: u64, take: &mut TakeKey<'_>) -> bool {
        let prefix = [&[FIRST], prefix].concat();
        self.0.find(&prefix, hash, take).unwrap_or_else(|error| {
            let message = format!("a key of the state cannot be read back: {error}");
            resume_unwind(Box::new(UnreadableState(message)))
        })
    }
}
