//! Entries that come in the order of their keys: they have the form of a run from the start.
//!
//! ```text
//! written out row by row  ─▶ in order, each as it stands in the run ─┬─▶ run
//! put aside as they change ─▶ in any order, sorted when all are there ┘
//! ```
//!
//! Rows that are written out one after the other are most of what a checkpoint has. As they are the run
//! already, the thread that writes neither looks for their order nor takes them one by one. A row whose
//! value is as long as that of the one before has its form ([`super::entries`]).

use super::entries::{Entries, FORM, KEY_BYTES_END, Key, ROW_BYTES, has_form, lengths, row_word};
use super::{BYTES_MAX, DELETED, LENGTH_BYTES, LINE_BYTES, Prefix, Reader};
use std::ops::Range;

/// Room that is made for an entry at once, in bytes: most are no longer.
const ROOM_BYTES: usize = 4 * LINE_BYTES;

/// Entries in the order of their keys, as they stand in a run.
#[derive(Debug, Default)]
pub(super) struct InOrder {
    entries: Vec<u8>,
    count: usize,
    /// So many bytes more they would be if none had the form of another.
    saved_bytes: usize,
    /// Which prefix stands before the last key, the row that it ends in, and where it is, or that of
    /// the last one that has all of its own.
    prefix: u32,
    row: u32,
    key: Range<usize>,
    /// How long values of the form are that was told last, which is of this prefix; 0: none was.
    form_bytes: u32,
    /// The last two values were as long as each other, so that the next may be, too.
    are_alike: bool,
}

impl InOrder {
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

    /// Forgets everything; memory is kept.
    pub(super) fn reset(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.clear();
        *self = Self { entries, ..Self::default() };
    }

    /// Whether a row is behind all that are there.
    #[inline]
    pub(super) fn is_next(&self, (nth, prefix): (u32, &Prefix), row: u32) -> bool {
        self.count == 0
            || if nth == self.prefix { row > self.row } else { self.is_key_next(prefix, row) }
    }

    #[cold]
    fn is_key_next(&self, prefix: &Prefix, row: u32) -> bool {
        let before = &self.entries[self.key.start..self.key.end - ROW_BYTES];
        let last = Key { bytes: before, row: Some(self.row) };
        last.iter().lt(Key { bytes: &prefix.bytes, row: Some(row) }.iter())
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

    /// An entry that was put as if it had the form before gets room for lengths, and its own prefix.
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

    /// The entry that begins there gets its lengths, if it is not too long; whether it is.
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

    /// Its entries, from the first.
    pub(super) fn rest(&self) -> Rest<'_> {
        Rest(Entries::new(Reader::new(&self.entries), None))
    }
}

/// Entries that were not taken yet.
pub(super) struct Rest<'a>(Entries<'a>);

impl<'a> Rest<'a> {
    /// Takes those whose keys are before this one: a prefix, and what is behind it.
    #[inline]
    pub(super) fn take_before(&mut self, key: (&[u8], &[u8])) -> &'a [u8] {
        let from = self.rest();
        self.each_before(Some(key), |_, _| ());
        &from[..from.len() - self.rest().len()]
    }

    /// Takes those whose keys are before this one, or all, one by one.
    #[inline]
    pub(super) fn each_before(
        &mut self,
        end: Option<(&[u8], &[u8])>,
        mut each: impl FnMut(Key<'a>, Option<&'a [u8]>),
    ) {
        let mut ahead = Self(self.0.clone());
        while let Some((key, value)) = ahead.next()
            && end.is_none_or(|end| key.is_before(end))
        {
            each(key, value);
            self.0 = ahead.0.clone();
        }
    }

    /// The bytes of those that are left.
    pub(super) fn rest(&self) -> &'a [u8] {
        self.0.rest()
    }
}

impl<'a> Iterator for Rest<'a> {
    type Item = (Key<'a>, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        (!self.rest().is_empty()).then(|| self.0.next().expect("as it was put"))
    }
}
