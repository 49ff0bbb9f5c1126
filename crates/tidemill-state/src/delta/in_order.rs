//! Entries that come in the order of their keys: they have the form of a run from the start.
//!
//! ```text
//! written out row by row  ─▶ in order, each as it stands in the run ─┬─▶ run
//! put aside as they change ─▶ in any order, sorted when all are there ┘
//! ```
//!
//! Rows that are written out one after the other are most of what a checkpoint has. As they are the run
//! already, the thread that writes neither looks for their order nor takes them one by one.

use super::{BYTES_MAX, DELETED, LENGTH_BYTES, LINE_BYTES, Prefix, Reader, entry};
use std::ops::Range;

/// Room that is made for an entry at once, in bytes: most are no longer.
const ROOM_BYTES: usize = 4 * LINE_BYTES;

/// Entries in the order of their keys, as they stand in a run.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    entries: Vec<u8>,
    count: usize,
    /// Which prefix stands before the last key, the row that it ends in, and where it is.
    prefix: u32,
    row: u32,
    key: Range<usize>,
}

impl InOrder {
    pub(super) fn memory(&self) -> usize {
        self.entries.capacity()
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.entries
    }

    /// Forgets everything; memory is kept.
    pub(super) fn reset(&mut self) {
        self.entries.clear();
        self.count = 0;
    }

    /// Whether a row is behind all that are there.
    #[inline]
    pub(super) fn is_next(&self, (nth, prefix): (u32, &Prefix), row: u32) -> bool {
        self.count == 0
            || if nth == self.prefix { row > self.row } else { self.is_key_next(prefix, row) }
    }

    #[cold]
    fn is_key_next(&self, prefix: &Prefix, row: u32) -> bool {
        let row = row.to_be_bytes();
        self.entries[self.key.clone()].iter().lt(prefix.bytes.iter().chain(&row))
    }

    /// Appends the row, which is next: its value, or that it is deleted. If that is too long, nothing is
    /// appended; whether it is.
    #[inline]
    pub(super) fn put(
        &mut self,
        (nth, prefix): (u32, &Prefix),
        row: u32,
        write: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> bool {
        let to = &mut self.entries;
        let start = to.len();
        to.reserve(ROOM_BYTES);
        to.extend_from_slice(&[0; 2 * LENGTH_BYTES]);
        let key_start = to.len();
        // Constant lengths: nothing is called for them.
        if prefix.bytes.len() <= size_of::<u128>() {
            to.extend_from_slice(&prefix.head_bytes());
            to.truncate(key_start + prefix.bytes.len());
        } else {
            to.extend_from_slice(&prefix.bytes);
        }
        to.extend_from_slice(&row.to_be_bytes());
        let key = key_start..to.len();
        let is_there = write(to);
        if !is_there {
            to.truncate(key.end);
        }
        if to.len() - start > BYTES_MAX {
            to.truncate(start);
            return false;
        }
        let value_bytes = if is_there { (to.len() - key.end) as u32 } else { DELETED };
        let lengths = u64::from(value_bytes) << 32 | key.len() as u64;
        to[start..key_start].copy_from_slice(&lengths.to_le_bytes());
        (self.prefix, self.row, self.key) = (nth, row, key);
        self.count += 1;
        true
    }

    /// Its entries, from the first.
    pub(super) fn rest(&self) -> Rest<'_> {
        Rest(&self.entries)
    }
}

/// Entries that were not taken yet.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    /// Takes those whose keys are before this one: a prefix, and what is behind it.
    #[inline]
    pub(super) fn take_before(&mut self, (prefix, key): (&[u8], &[u8])) -> &'a [u8] {
        let (mut ahead, mut end) = (Rest(self.0), 0);
        while ahead.next().is_some_and(|(next, _)| next.iter().lt(prefix.iter().chain(key))) {
            end = self.0.len() - ahead.0.len();
        }
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }
}

impl<'a> Iterator for Rest<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        let mut from = Reader::new(self.0);
        let entry = (!self.0.is_empty()).then(|| entry(&mut from).expect("as it was put"))?;
        self.0 = from.rest();
        Some(entry)
    }
}
