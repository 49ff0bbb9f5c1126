//! What changed in a slice's state: entries put and deleted, as bytes.
//!
//! ```text
//! structures ── put, delete, clear ──▶ Delta ── finish ──▶ run: sorted, each key once
//!               put_row, in order                           as it is
//!
//! run    count of prefixes, prefixes │ count of entries, entries
//! ```
//!
//! A run says first which prefixes it empties, then what its keys are from then on ([`entries`]). Runs
//! of a slice are read together ([`merged`]): of each key the newest counts. Numbers are little endian.

mod entries;
mod in_order;
mod merged;
mod order;
mod reader;
#[cfg(test)]
mod tests;
mod written;

pub(crate) use entries::{Entries, Form, entry};
pub use merged::{merge, merged};
pub(crate) use merged::{merge_plain, most_entries};
pub(crate) use order::Order;
pub use reader::{Reader, put_bytes};
pub(crate) use written::TakeRun;

use in_order::InOrder;
use std::ops::Range;

/// In place of a value's length: the key is deleted.
const DELETED: u32 = u32::MAX;

/// Bytes of a length in a run.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Why bytes are not a run, or not an entry of the structure that is to take them.
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

/// Bytes of a delta, at most: places in it are 32 bits, and no length is [`DELETED`].
const BYTES_MAX: usize = if cfg!(test) { 64 << 20 } else { DELETED as usize - 1 };

/// Where an entry is among the bytes of a delta.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    key_bytes: u32,
    /// Or [`DELETED`].
    value_bytes: u32,
    /// Which prefix stands before its key.
    prefix: u32,
}

impl Entry {
    /// Where its key is, without the prefix.
    #[inline]
    fn key(&self) -> Range<usize> {
        let start = self.start as usize;
        start..start + self.key_bytes as usize
    }

    /// Where its key and its value are.
    #[inline]
    fn key_and_value(&self) -> Range<usize> {
        let key = self.key();
        let value_bytes = if self.value_bytes == DELETED { 0 } else { self.value_bytes };
        key.start..key.end + value_bytes as usize
    }
}

/// The first bytes of a key as a number: keys are in its order, but for those that begin alike.
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

/// A prefix of keys, and what it is in the head of each.
#[derive(Debug)]
pub(crate) struct Prefix {
    pub(crate) bytes: Vec<u8>,
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
    pub(crate) fn head_bytes(&self) -> [u8; size_of::<u128>()] {
        self.head.to_be_bytes()
    }

    /// The head of a key behind it. What follows the key is there to be read, but does not count.
    #[inline]
    fn head_of(&self, key_bytes: usize, key_and_more: &[u8]) -> u128 {
        let unused = u32::try_from(8 * (size_of::<u128>().saturating_sub(key_bytes))).unwrap_or(0);
        let key = head_of(key_and_more) & u128::MAX.checked_shl(unused).unwrap_or(0);
        self.head | key.checked_shr(self.bits).unwrap_or(0)
    }
}

/// Changes of one slice, on their way to a run.
#[derive(Debug, Default)]
pub struct Delta {
    /// Rows that came in order.
    in_order: InOrder,
    /// All others: keys without their prefixes, each with its value behind it.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    prefixes: Vec<Prefix>,
    cleared: Vec<Vec<u8>>,
    /// Stands before all keys that are written now.
    prefix: Vec<u8>,
    /// Its number, if it has one yet.
    prefix_number: Option<u32>,
    /// Something did not fit into it.
    is_too_long: bool,
}

impl Delta {
    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.in_order.memory()
            + self.bytes.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.prefixes.capacity() * size_of::<Prefix>()
    }

    /// Room for so many more bytes, and entries.
    pub(crate) fn reserve(&mut self, bytes: usize, entries: usize) {
        self.bytes.reserve_exact(bytes);
        self.entries.reserve_exact(entries);
    }

    /// Writes the changes of a part, whose keys all begin with `prefix`.
    pub fn within<T>(&mut self, prefix: &[u8], write: impl FnOnce(&mut Self) -> T) -> T {
        let (length, number) = (self.prefix.len(), self.prefix_number.take());
        self.prefix.extend_from_slice(prefix);
        let written = write(self);
        self.prefix.truncate(length);
        self.prefix_number = number;
        written
    }

    /// A key has the value that `write` appends. A key is written once in a checkpoint.
    pub fn put_with(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.put_or_delete(key, |out| {
            write(out);
            true
        });
    }

    /// As [`Self::put_with`]; or the key is deleted, if `write` says that there is no value.
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
        self.entries.push(Entry { start, key_bytes, value_bytes, prefix });
    }

    /// The key of a row has the value that `write` appends, or is deleted, if it says that there is
    /// none. As [`Self::put_or_delete`], but rows that come in order are cheaper.
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

    /// What is behind so many bytes does not fit; there is no run of the others without it.
    #[cold]
    fn refuse(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
        self.is_too_long = true;
    }

    /// The number of the prefix that stands before what is written now.
    #[inline]
    fn prefix_now(&mut self) -> u32 {
        let Self { prefixes, prefix, prefix_number, .. } = self;
        *prefix_number.get_or_insert_with(|| {
            prefixes.push(Prefix::new(prefix.clone()));
            prefixes.len() as u32 - 1
        })
    }

    /// Moves another's changes here, under this one's prefix. Of what both have, the less is copied;
    /// the other has memory of one of both then.
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
        let moved = other.entries.iter().map(|it| Entry { start: it.start + to, ..*it });
        self.entries.extend(moved);
        other.reset();
    }

    /// Forgets everything; memory is kept.
    fn reset(&mut self) {
        self.in_order.reset();
        self.bytes.clear();
        self.entries.clear();
        self.prefixes.clear();
        self.cleared.clear();
        self.prefix_number = None;
        self.is_too_long = false;
    }

    /// A key is not there any more.
    pub fn delete(&mut self, key: &[u8]) {
        self.put_or_delete(key, |_| false);
    }

    /// No key that begins with `prefix` is there any more but those of this delta.
    pub fn clear(&mut self, prefix: &[u8]) {
        self.cleared.push([&self.prefix, prefix].concat());
    }

    /// Whether nothing counts that was written before.
    #[must_use]
    pub(crate) fn clears_all(&self) -> bool {
        self.cleared.iter().any(Vec::is_empty)
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.in_order.len() + self.entries.len()
    }

    /// Bytes of keys and values; of rows that came in order, of all that a run has of them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.in_order.bytes() + self.bytes.len()
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0 && self.cleared.is_empty() && !self.is_too_long
    }
}

/// Whether the memory of a buffer is not much more than that of another, which is to get it.
fn is_like(one: &Vec<u8>, other: &Vec<u8>) -> bool {
    one.capacity() / 4 <= other.capacity()
}

#[cold]
fn too_much() -> SavedError {
    SavedError::new("a slice has changed too much at once")
}
