//! Rows that are written in the order of their keys, directly in the encoding of a run.
//!
//! ```text
//! written out row by row  ─▶ in order, each as it stands in the run ─┬─▶ run
//! put aside as they change ─▶ in any order, sorted when all are there ┘
//! ```
//!
//! A checkpoint consists mostly of such rows. As they are a run already, the writing thread neither
//! sorts nor copies them one by one. A row has the form of the row before if their values have the
//! same length ([`super::entries`]).

use super::entries::{
    FORM, KEY_BYTES_END, ROW_BYTES, RunEntries, RunKey, has_form, lengths, row_word,
};
use super::{BYTES_MAX, ByteReader, DELETED, LENGTH_BYTES, LINE_BYTES, Prefix};
use std::ops::Range;

/// The room reserved for an entry, in bytes: most are shorter.
const ROOM_BYTES: usize = 4 * LINE_BYTES;

/// Entries in the order of their keys, encoded as in a run.
#[derive(Debug, Default)]
pub(super) struct SortedRows {
    entries: Vec<u8>,
    count: usize,
    /// The bytes that forms save.
    saved_bytes: usize,
    /// The prefix of the last key, its row number, and the range of the last key that is written in
    /// full.
    prefix: u32,
    row: u32,
    key: Range<usize>,
    /// The value length of the last form if it is of this prefix, else 0.
    form_bytes: u32,
    /// True if the last two values had the same length, so that the next is likely to have it too.
    are_alike: bool,
}

impl SortedRows {
    pub(super) fn memory(&self) -> usize {
        self.entries.capacity()
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    pub(super) fn bytes(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn saved_bytes(&self) -> usize {
        self.saved_bytes
    }

    /// Removes all entries and keeps the memory.
    pub(super) fn reset(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        *self = Self { entries, ..Self::default() };
    }

    /// Returns true if a row sorts behind all entries.
    #[inline]
    pub(super) fn is_next(&self, (nth, prefix): (u32, &Prefix), row: u32) -> bool {
        self.count == 0
            || if nth == self.prefix { row > self.row } else { self.is_key_next(prefix, row) }
    }

    #[cold]
    fn is_key_next(&self, prefix: &Prefix, row: u32) -> bool {
        let before = &self.entries[self.key.start..self.key.end - ROW_BYTES];
        let last = RunKey { bytes: before, row: Some(self.row) };
        last.iter().lt(RunKey { bytes: &prefix.bytes, row: Some(row) }.iter())
    }

    /// Appends the next row: its value, or a deletion if `write` returns false. Returns false, and
    /// appends nothing, if the entry is too long.
    #[inline]
    pub(super) fn put(
        &mut self,
        (nth, prefix): (u32, &Prefix),
        row: u32,
        write: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> bool {
        let start = self.entries.len();
        self.entries.reserve(ROOM_BYTES);
        let has_form =
            nth == self.prefix && self.are_alike && has_form(row, self.form_bytes as usize);
        if has_form {
            self.entries.extend_from_slice(&row_word(row));
        } else {
            self.entries.extend_from_slice(&[0; 2 * LENGTH_BYTES]);
            // Constant lengths: nothing is called for them.
            if prefix.bytes.len() <= size_of::<u128>() {
                let end = self.entries.len() + prefix.bytes.len();
                self.entries.extend_from_slice(&prefix.head_bytes());
                self.entries.truncate(end);
            } else {
                self.entries.extend_from_slice(&prefix.bytes);
            }
            self.entries.extend_from_slice(&row.to_be_bytes());
        }
        let value_start = self.entries.len();
        let is_there = write(&mut self.entries);
        if !is_there {
            self.entries.truncate(value_start);
        }
        let value_bytes = self.entries.len() - value_start;
        if has_form && is_there && value_bytes == self.form_bytes as usize {
            self.saved_bytes += 2 * LENGTH_BYTES + prefix.bytes.len();
            (self.row, self.count) = (row, self.count + 1);
            return true;
        }
        if has_form {
            self.put_more(start, prefix, row);
        }
        self.put_lengths(start, (nth, prefix), row, is_there)
    }

    /// Moves the value of an entry that was written with the wrong form, to make room for lengths
    /// and prefix.
    #[cold]
    fn put_more(&mut self, start: usize, prefix: &Prefix, row: u32) {
        let value = start + ROW_BYTES..self.entries.len();
        let to = start + 2 * LENGTH_BYTES + prefix.bytes.len() + ROW_BYTES;
        self.entries.resize(to + value.len(), 0);
        self.entries.copy_within(value, to);
        let key = &mut self.entries[start + 2 * LENGTH_BYTES..to];
        let (before, number) = key.split_at_mut(prefix.bytes.len());
        before.copy_from_slice(&prefix.bytes);
        number.copy_from_slice(&row.to_be_bytes());
    }

    /// Fills in the lengths of the entry that begins at `start`; returns false if it is too long.
    #[inline]
    fn put_lengths(
        &mut self,
        start: usize,
        (nth, prefix): (u32, &Prefix),
        row: u32,
        is_there: bool,
    ) -> bool {
        let key_start = start + 2 * LENGTH_BYTES;
        let key = key_start..key_start + prefix.bytes.len() + ROW_BYTES;
        if self.entries.len() - start > BYTES_MAX || key.len() >= KEY_BYTES_END {
            self.entries.truncate(start);
            return false;
        }
        let value_bytes = (self.entries.len() - key.end) as u32;
        let tells_form = is_there && has_form(row, value_bytes as usize);
        let form = if tells_form { FORM } else { 0 };
        let told = if is_there { value_bytes } else { DELETED };
        self.entries[start..key_start].copy_from_slice(&lengths(key.len(), told, form));
        let (before, of) = (self.form_bytes, self.prefix);
        // The first of a prefix is taken to be like those that follow.
        self.are_alike = tells_form && (nth != of || before == 0 || before == value_bytes);
        if tells_form {
            self.form_bytes = value_bytes;
        } else if nth != of {
            self.form_bytes = 0;
        }
        (self.prefix, self.row, self.key, self.count) = (nth, row, key, self.count + 1);
        true
    }

    /// All entries, from the first.
    pub(super) fn rest(&self) -> SortedRest<'_> {
        SortedRest(RunEntries::new(ByteReader::new(&self.entries), None))
    }
}

/// The entries not taken yet.
pub(super) struct SortedRest<'a>(RunEntries<'a>);

impl<'a> SortedRest<'a> {
    /// Takes the entries that sort before a key, which is given as a prefix and the rest.
    #[inline]
    pub(super) fn take_before(&mut self, key: (&[u8], &[u8])) -> &'a [u8] {
        let from = self.rest();
        self.each_before(Some(key), |_, _| ());
        &from[..from.len() - self.rest().len()]
    }

    /// Takes the entries that sort before a key, or all, one by one.
    #[inline]
    pub(super) fn each_before(
        &mut self,
        end: Option<(&[u8], &[u8])>,
        mut each: impl FnMut(RunKey<'a>, Option<&'a [u8]>),
    ) {
        let mut ahead = Self(self.0.clone());
        while let Some((key, value)) = ahead.next()
            && end.is_none_or(|end| key.is_before(end))
        {
            each(key, value);
            self.0 = ahead.0.clone();
        }
    }

    /// The bytes of the entries not taken yet.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0.rest()
    }
}

impl<'a> Iterator for SortedRest<'a> {
    type Item = (RunKey<'a>, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest().is_empty()).then(|| self.0.next_entry().expect("as it was put"))
    }
}
