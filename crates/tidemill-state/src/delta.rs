//! The changes of a slice's state: entries put and deleted, as bytes.
//!
//! ```text
//! structures ── put, delete, clear ──▶ Delta ── finish ──▶ run: sorted, each key once
//!               put_row, in order                           as it is
//!
//! run    count of prefixes, prefixes │ count of entries, entries
//! ```
//!
//! A run lists the prefixes it empties, then its entries (`entries`). A reader merges the runs of
//! a slice ([`visit_entries`]): of each key the newest entry counts. Numbers are little endian.

mod byte_reader;
mod entries;
mod key_order;
mod merge;
mod run_writer;
mod sorted_rows;
#[cfg(test)]
mod tests;

pub use byte_reader::{ByteReader, put_bytes};
pub use entries::{RowForm, RunEntries, RunKey, entry};
pub use key_order::KeyOrder;
pub(crate) use merge::most_entries;
pub use merge::{EachEntry, merge, merge_plain, visit_entries};
pub use run_writer::RunSink;

use sorted_rows::SortedRows;
use std::ops::Range;

/// The value length of a deleted key.
const DELETED: u32 = u32::MAX;

/// Bytes of a length in a run.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Bytes that are no run, or no entry of the structure that restores them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SavedError(pub String);

impl SavedError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// Bytes of a line of the caches.
const LINE_BYTES: usize = 64;

/// The most bytes of a delta: positions in it are 32 bits wide, and no length is [`DELETED`].
const BYTES_MAX: usize = if cfg!(test) { 64 << 20 } else { DELETED as usize - 1 };

/// The position of an entry among the bytes of a delta.
#[derive(Clone, Copy, Debug)]
struct DeltaEntry {
    start: u32,
    key_bytes: u32,
    /// Or [`DELETED`].
    value_bytes: u32,
    /// The number of the prefix before its key.
    prefix: u32,
}

impl DeltaEntry {
    /// The range of its key, without the prefix.
    #[inline]
    fn key(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.key_bytes as usize
    }

    /// The range of its key and its value.
    #[inline]
    fn key_and_value(&self) -> Range<usize> {
        let key = self.key();
        let value_bytes = if self.value_bytes == DELETED { 0 } else { self.value_bytes };
        key.start..key.end + value_bytes as usize
    }
}

/// The first 16 bytes of a key as a number. Keys sort as these numbers do, except keys that share
/// them.
#[inline]
fn head_of(key: &[u8]) -> u128 {
    match key.first_chunk() {
        Some(head) => u128::from_be_bytes(*head),
        None => {
            let mut head = [0; size_of::<u128>()];
            head[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(head)
        }
    }
}

/// A prefix of keys, and its part of their heads.
#[derive(Debug)]
pub struct Prefix {
    /// All of its bytes.
    pub bytes: Vec<u8>,
    head: u128,
    bits: u32,
}

impl Prefix {
    fn new(bytes: Vec<u8>) -> Self {
        let bits = u32::try_from(8 * bytes.len()).unwrap_or(u32::MAX);
        Self { head: head_of(&bytes), bytes, bits }
    }

    /// Its first bytes, and zeros.
    #[inline]
    #[must_use]
    pub fn head_bytes(&self) -> [u8; size_of::<u128>()] {
        self.head.to_be_bytes()
    }

    /// The head of a key that follows this prefix. Bytes behind the key may be read, and do not
    /// count.
    #[inline]
    fn head_of(&self, key_bytes: usize, key_and_more: &[u8]) -> u128 {
        let unused = u32::try_from(8 * (size_of::<u128>().saturating_sub(key_bytes))).unwrap_or(0);
        let key = head_of(key_and_more) & u128::MAX.checked_shl(unused).unwrap_or(0);
        self.head | key.checked_shr(self.bits).unwrap_or(0)
    }
}

/// The changes of one slice, before they become a run.
#[derive(Debug, Default)]
pub struct Delta {
    /// The rows that came in the order of their keys.
    in_order: SortedRows,
    /// All other entries: keys without their prefixes, each followed by its value.
    bytes: Vec<u8>,
    entries: Vec<DeltaEntry>,
    prefixes: Vec<Prefix>,
    cleared: Vec<Vec<u8>>,
    /// The prefix of all keys that are written now.
    prefix: Vec<u8>,
    /// The number of that prefix, if it has one yet.
    prefix_number: Option<u32>,
    /// True once a change did not fit. Then there is no run, as one without that change would be
    /// wrong.
    is_too_long: bool,
}

impl Delta {
    /// A delta that lost a change because it grew beyond 4 GiB: for tests of crates that write runs.
    #[doc(hidden)]
    #[must_use]
    pub fn oversized() -> Self {
        Self { is_too_long: true, ..Self::default() }
    }

    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.in_order.memory()
            + self.bytes.capacity()
            + self.entries.capacity() * size_of::<DeltaEntry>()
            + self.prefixes.capacity() * size_of::<Prefix>()
    }

    /// Reserves memory for more bytes and entries.
    pub(crate) fn reserve(&mut self, bytes: usize, entries: usize) {
        self.bytes.reserve_exact(bytes);
        self.entries.reserve_exact(entries);
    }

    /// Writes changes whose keys all begin with `prefix`.
    pub fn within<T>(&mut self, prefix: &[u8], write: impl FnOnce(&mut Self) -> T) -> T {
        let (length, number) = (self.prefix.len(), self.prefix_number.take());
        self.prefix.extend_from_slice(prefix);
        let written = write(self);
        self.prefix.truncate(length);
        self.prefix_number = number;
        written
    }

    /// Puts a key with the value that `write` appends. A key is written once in a checkpoint.
    pub fn put_with(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.put_or_delete(key, |out| {
            write(out);
            true
        });
    }

    /// As [`Self::put_with`], but deletes the key if `write` returns false.
    #[inline]
    pub fn put_or_delete(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let prefix = self.prefix_now();
        let start = self.bytes.len();
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        let is_deleted = !write(&mut self.bytes);
        if is_deleted {
            self.bytes.truncate(key_end);
        }
        let end = self.bytes.len();
        if end > BYTES_MAX {
            self.refuse(start);
            return;
        }
        let value_bytes = if is_deleted { DELETED } else { (end - key_end) as u32 };
        let (start, key_bytes) = (start as u32, (key_end - start) as u32);
        self.entries.push(DeltaEntry { start, key_bytes, value_bytes, prefix });
    }

    /// Puts a row with the value that `write` appends, or deletes it if `write` returns false. Rows
    /// that come in ascending order are cheaper than with [`Self::put_or_delete`].
    #[inline]
    pub fn put_row(&mut self, row: u32, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let nth = self.prefix_now();
        let prefix = (nth, &self.prefixes[nth as usize]);
        if self.in_order.is_next(prefix, row) {
            self.is_too_long |= !self.in_order.put(prefix, row, write);
        } else {
            self.put_or_delete(&row.to_be_bytes(), write);
        }
    }

    /// Drops the bytes behind `bytes`, which do not fit, and with them the whole run.
    #[cold]
    fn refuse(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
        self.is_too_long = true;
    }

    /// The number of the current prefix.
    #[inline]
    fn prefix_now(&mut self) -> u32 {
        let Self { prefixes, prefix, prefix_number, .. } = self;
        *prefix_number.get_or_insert_with(|| {
            prefixes.push(Prefix::new(prefix.clone()));
            prefixes.len() as u32 - 1
        })
    }

    /// Moves the changes of another delta here, behind the current prefix. Of the two buffers the
    /// smaller is copied, so the other delta may end up with the memory of this one.
    pub fn take_from(&mut self, other: &mut Self) {
        other.cleared.drain(..).for_each(|prefix| self.clear(&prefix));
        let mut bytes = Vec::new();
        for (key, value) in other.in_order.rest() {
            bytes.clear();
            key.put(&mut bytes);
            self.put_or_delete(&bytes, |out| {
                value.inspect(|it| out.extend_from_slice(it)).is_some()
            });
        }
        self.is_too_long |= other.is_too_long || self.bytes.len() + other.bytes.len() > BYTES_MAX;
        if self.is_too_long {
            other.reset();
            return;
        }
        // Numbers of this one's prefixes stay: somebody is about to write more behind them.
        let prefixes = self.prefixes.len() as u32;
        let under = |it: Prefix| Prefix::new([&self.prefix[..], &it.bytes].concat());
        self.prefixes.extend(other.prefixes.drain(..).map(under));
        if prefixes > 0 {
            other.entries.iter_mut().for_each(|it| it.prefix += prefixes);
        }
        if self.bytes.len() < other.bytes.len() && is_like(&self.bytes, &other.bytes) {
            std::mem::swap(&mut self.bytes, &mut other.bytes);
            std::mem::swap(&mut self.entries, &mut other.entries);
        }
        let to = self.bytes.len() as u32;
        self.bytes.extend_from_slice(&other.bytes);
        let moved = other.entries.iter().map(|it| DeltaEntry { start: it.start + to, ..*it });
        self.entries.extend(moved);
        other.reset();
    }

    /// Removes all changes and keeps the memory.
    fn reset(&mut self) {
        self.in_order.reset();
        self.bytes.clear();
        self.entries.clear();
        self.prefixes.clear();
        self.cleared.clear();
        self.prefix_number = None;
        self.is_too_long = false;
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: &[u8]) {
        self.put_or_delete(key, |_| false);
    }

    /// Deletes all keys that begin with `prefix`, except those that this delta puts.
    pub fn clear(&mut self, prefix: &[u8]) {
        self.cleared.push([&self.prefix, prefix].concat());
    }

    /// Returns true if this delta replaces all earlier runs of the slice.
    #[must_use]
    pub fn clears_all(&self) -> bool {
        self.cleared.iter().any(Vec::is_empty)
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_order.len() + self.entries.len()
    }

    /// The bytes of keys and values. Rows that came in order count with all their bytes in the run.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.in_order.bytes() + self.bytes.len()
    }

    /// Returns true if there is no change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.cleared.is_empty() && !self.is_too_long
    }
}

/// Returns true if a buffer has at most four times the memory of the one that would take it over.
fn is_like(one: &Vec<u8>, other: &Vec<u8>) -> bool {
    one.capacity() / 4 <= other.capacity()
}

#[cold]
fn too_much() -> SavedError {
    SavedError::new("a slice has changed too much at once")
}
