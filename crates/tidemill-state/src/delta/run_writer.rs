//! Writing a delta as a run.

use super::entries::{FORM, KEY_BYTES_END, ROW_BYTES, RunKey, has_form, lengths, row_word};
use super::key_order::{KeyOrder, nth_of};
use super::{DELETED, Delta, DeltaEntry, LENGTH_BYTES, LINE_BYTES, Prefix, SavedError, too_much};
use crate::prefetch::{KEYS_AHEAD, prefetch};

impl Delta {
    /// Replaces the content of `run` with the run, and empties the delta. Both keep their memory.
    ///
    /// # Errors
    /// There are 4 GiB of changes.
    pub fn finish(&mut self, run: &mut Vec<u8>) -> Result<(), SavedError> {
        let bytes = self.run_bytes(true)?;
        run.clear();
        run.reserve(bytes);
        self.write_run(true, &mut KeyOrder::default(), run);
        Ok(())
    }

    /// The length of the run in bytes, with or without forms.
    ///
    /// # Errors
    /// There are 4 GiB of changes.
    pub fn run_bytes(&mut self, may_have_forms: bool) -> Result<usize, SavedError> {
        if self.is_too_long {
            return Err(too_much());
        }
        self.cleared.sort();
        self.cleared.dedup();
        let mut bytes = 2 * LENGTH_BYTES + self.bytes();
        for prefix in &self.cleared {
            bytes += LENGTH_BYTES + length_of(prefix.len())? as usize;
        }
        length_of(self.cleared.len())?;
        length_of(self.len())?;
        for it in &self.entries {
            let prefix = self.prefixes[it.prefix as usize].bytes.len();
            check_key(prefix + it.key_bytes as usize)?;
            bytes += 2 * LENGTH_BYTES + prefix;
        }
        if !may_have_forms {
            bytes += self.in_order.saved_bytes();
        } else if let Some(prefix) = self.form_of_all() {
            bytes -= (self.entries.len() - 1) * (2 * LENGTH_BYTES + prefix.bytes.len());
        }
        Ok(bytes)
    }

    /// The prefix of all entries, if all are rows of one form and none came in order.
    fn form_of_all(&self) -> Option<&Prefix> {
        let [first, _, ..] = &self.entries[..] else { return None };
        if self.in_order.len() > 0 {
            return None;
        }
        let is_like = |it: &DeltaEntry| {
            let row = self.bytes[it.key()].try_into().map(u32::from_be_bytes);
            (it.prefix, it.value_bytes) == (first.prefix, first.value_bytes)
                && it.value_bytes != DELETED
                && row.is_ok_and(|row| has_form(row, it.value_bytes as usize))
        };
        self.entries.iter().all(is_like).then(|| &self.prefixes[first.prefix as usize])
    }

    /// Hands the bytes of the run to `to`, and empties the delta, which keeps its memory.
    /// [`Self::run_bytes`] must have succeeded before.
    pub fn write_run(&mut self, may_have_forms: bool, order: &mut KeyOrder, to: &mut impl RunSink) {
        let sorted = order.sort(self);
        let length = |length: usize| (length as u32).to_le_bytes();
        to.put(&length(self.cleared.len()));
        for prefix in &self.cleared {
            to.put_pieces(&[&length(prefix.len()), prefix]);
        }
        to.put(&length(self.len()));
        let are_of_one_form = may_have_forms && self.form_of_all().is_some();
        let mut in_order = self.in_order.rest();
        for (at, nth) in sorted.iter().enumerate() {
            if let Some(ahead) = sorted.get(at + KEYS_AHEAD) {
                let start = self.entries[nth_of(*ahead)].start as usize;
                prefetch(&self.bytes, start);
                prefetch(&self.bytes, start + LINE_BYTES);
            }
            let it = &self.entries[nth_of(*nth)];
            let key_and_value = it.key_and_value();
            let with_more = &self.bytes[key_and_value.start..];
            if are_of_one_form && at > 0 {
                let (row, value) = with_more.split_first_chunk().expect("the number of a row");
                let word = row_word(u32::from_be_bytes(*row));
                to.put_row(word, value, key_and_value.len() - ROW_BYTES);
                continue;
            }
            let prefix = &self.prefixes[it.prefix as usize];
            let key = (&prefix.bytes[..], &self.bytes[it.key()]);
            if may_have_forms {
                to.put(in_order.take_before(key));
            } else {
                in_order.each_before(Some(key), |key, value| put_plain(to, key, value));
            }
            let form = if are_of_one_form { FORM } else { 0 };
            let key_bytes = prefix.bytes.len() + it.key_bytes as usize;
            let lengths = lengths(key_bytes, it.value_bytes, form);
            to.put_entry(lengths, prefix, with_more, key_and_value.len());
        }
        if may_have_forms {
            to.put(in_order.rest());
        } else {
            in_order.each_before(None, |key, value| put_plain(to, key, value));
        }
        self.reset();
    }
}

/// Writes an entry without a form.
fn put_plain(to: &mut impl RunSink, key: RunKey<'_>, value: Option<&[u8]>) {
    let value_bytes = value.map_or(DELETED, |it| it.len() as u32);
    to.put_pieces(&[&lengths(key.len(), value_bytes, 0), key.bytes]);
    key.row.into_iter().for_each(|row| to.put(&row.to_be_bytes()));
    value.into_iter().for_each(|value| to.put(value));
}

/// Takes the bytes of a run, in order.
pub trait RunSink {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);

    /// Appends an entry: its lengths, its prefix, and the first `count` bytes of `with_more`, which
    /// are key and value. Default: [`Self::put_pieces`].
    #[inline]
    fn put_entry(&mut self, lengths: [u8; 8], prefix: &Prefix, with_more: &[u8], count: usize) {
        self.put_pieces(&[&lengths, &prefix.bytes, &with_more[..count]]);
    }

    /// Appends a row of the last form: its head, and the first `count` bytes of `with_more`, its
    /// value. Default: [`Self::put_pieces`].
    #[inline]
    fn put_row(&mut self, word: [u8; 4], with_more: &[u8], count: usize) {
        self.put_pieces(&[&word, &with_more[..count]]);
    }

    /// Appends several pieces, in their order.
    fn put_pieces(&mut self, pieces: &[&[u8]]) {
        pieces.iter().for_each(|piece| self.put(piece));
    }
}

impl RunSink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A length in the encoding of runs.
pub(super) fn length_of(length: usize) -> Result<u32, SavedError> {
    let number = u32::try_from(length).ok().filter(|it| *it != DELETED);
    number.ok_or_else(too_much)
}

/// Checks that a run can hold a key of this length.
pub(super) fn check_key(bytes: usize) -> Result<(), SavedError> {
    if bytes < KEY_BYTES_END { Ok(()) } else { Err(too_much()) }
}
