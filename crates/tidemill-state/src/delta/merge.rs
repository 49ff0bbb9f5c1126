//! Merging the runs of one slice.

use super::entries::{FORM, ROW_BYTES, RunEntries, has_form, lengths, row_word};
use super::{LENGTH_BYTES, SavedError, byte_reader::ByteReader, head_of, run_writer};
use std::{
    cmp::{Ordering, Reverse},
    collections::BinaryHeap,
};

/// A run, and its current entry.
struct RunCursor<'a> {
    rest: RunEntries<'a>,
    left: u32,
    head: u128,
    key: Vec<u8>,
    /// True if the key is a row of the last form.
    has_form: bool,
    /// None if the key is deleted.
    value: Option<&'a [u8]>,
    /// The position of its run among all, the oldest first.
    nth: usize,
}

impl<'a> RunCursor<'a> {
    /// Starts at the first of `left` entries; none if there are none.
    fn new(rest: ByteReader<'a>, left: u32, nth: usize) -> Result<Option<Self>, SavedError> {
        let rest = RunEntries::new(rest, None);
        let (head, key, has_form, value) = (0, Vec::new(), false, None);
        let mut cursor = Self { rest, left, head, key, has_form, value, nth };
        Ok(cursor.step()?.then_some(cursor))
    }

    /// Steps to the next entry; returns false at the end.
    fn step(&mut self) -> Result<bool, SavedError> {
        if self.left == 0 {
            return self.rest.end().map(|()| false);
        }
        let (key, value) = self.rest.next_entry()?;
        match key.row {
            Some(row) if self.has_form => self.go_on(row)?,
            // No key is empty: each says of which structure it is.
            Some(_) if !key.iter().gt(self.key.iter().copied()) => return Err(out_of_order()),
            None if (head_of(key.bytes), key.bytes) <= (self.head, &self.key[..]) => {
                return Err(out_of_order());
            }
            row => {
                self.key.clear();
                key.put(&mut self.key);
                (self.head, self.has_form) = (head_of(&self.key), row.is_some());
            }
        }
        self.left -= 1;
        self.value = value;
        Ok(true)
    }

    /// Moves the key to a later row of the same form.
    #[inline]
    fn go_on(&mut self, row: u32) -> Result<(), SavedError> {
        let unused = size_of::<u128>().checked_sub(self.key.len());
        let last = self.key.last_chunk_mut().expect("the number of a row");
        if row <= u32::from_be_bytes(*last) {
            return Err(out_of_order());
        }
        *last = row.to_be_bytes();
        self.head = match unused {
            // All of the key is in its head.
            Some(unused) => {
                let number = 8 * unused as u32;
                self.head & !(u128::from(u32::MAX) << number) | u128::from(row) << number
            }
            None => head_of(&self.key),
        };
        Ok(())
    }

    /// The order of cursors: by key, and for one key the newest run first.
    fn order(&self) -> (u128, &[u8], Reverse<usize>) {
        (self.head, &self.key, Reverse(self.nth))
    }
}

impl PartialEq for RunCursor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for RunCursor<'_> {}

impl PartialOrd for RunCursor<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RunCursor<'_> {
    /// The reverse order, as a heap yields its largest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.order().cmp(&self.order())
    }
}

#[cold]
fn out_of_order() -> SavedError {
    SavedError::new("saved state is out of order")
}

/// Takes an entry: its key and its value.
pub type EachEntry<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), SavedError> + 'a;

/// Calls `each` with every live entry of the runs, which are given oldest first, in ascending order
/// of keys.
///
/// # Errors
/// Bytes that are not a run, or an error of `each`.
pub fn visit_entries<R: AsRef<[u8]>>(
    runs: &[R],
    each: &mut EachEntry<'_>,
) -> Result<(), SavedError> {
    let (mut cleared, mut heap) = (Vec::new(), BinaryHeap::new());
    for (nth, run) in runs.iter().enumerate() {
        let mut reader = ByteReader::new(run.as_ref());
        for _ in 0..reader.u32()? {
            cleared.push((nth, reader.sized()?));
        }
        let left = reader.u32()?;
        heap.extend(RunCursor::new(reader, left, nth)?);
    }
    // The last key that more than one run has.
    let mut last: Vec<u8> = Vec::new();
    while let Some(mut cursor) = heap.pop() {
        let mut is_told = cursor.key == last;
        // Most runs lie one behind the other: an entry is compared with that of one other run.
        loop {
            let is_cleared = |(nth, prefix): &(usize, &[u8])| {
                *nth > cursor.nth && cursor.key.starts_with(prefix)
            };
            if let Some(value) = cursor.value
                && !is_told
                && !cleared.iter().any(is_cleared)
            {
                each(&cursor.key, value)?;
            }
            let next = heap.peek();
            if next.is_some_and(|next| (next.head, &next.key) == (cursor.head, &cursor.key)) {
                last.clone_from(&cursor.key);
            }
            if !cursor.step()? {
                break;
            }
            is_told = false;
            if next.is_some_and(|next| next.order() < cursor.order()) {
                heap.push(cursor);
                break;
            }
        }
    }
    Ok(())
}

/// The number of entries of the longest run: an estimate of the rows of the state.
///
/// # Errors
/// Bytes that are not a run.
pub(crate) fn most_entries<R: AsRef<[u8]>>(runs: &[R]) -> Result<usize, SavedError> {
    let mut most = 0;
    for run in runs {
        let mut reader = ByteReader::new(run.as_ref());
        for _ in 0..reader.u32()? {
            reader.sized()?;
        }
        let entries = reader.u32()? as usize;
        // Each takes eight bytes and more, whatever the number says.
        most = most.max(entries.min(reader.rest().len() / 8));
    }
    Ok(most)
}

/// Merges all runs of a slice, oldest first, into one with the same content.
///
/// # Errors
/// Bytes that are not a run, or more than one can hold.
pub fn merge<R: AsRef<[u8]>>(runs: &[R]) -> Result<Vec<u8>, SavedError> {
    merge_with(runs, true)
}

/// As [`merge`], but writes no forms.
///
/// # Errors
/// As there.
pub fn merge_plain<R: AsRef<[u8]>>(runs: &[R]) -> Result<Vec<u8>, SavedError> {
    merge_with(runs, false)
}

fn merge_with<R: AsRef<[u8]>>(runs: &[R], may_have_forms: bool) -> Result<Vec<u8>, SavedError> {
    let most = runs.iter().map(|run| run.as_ref().len()).max().unwrap_or(0);
    let mut all = Vec::with_capacity(most + 2 * LENGTH_BYTES);
    // No prefixes; the number of entries is written at the end.
    all.extend_from_slice(&[0; 2 * LENGTH_BYTES]);
    let mut count = 0_u32;
    // What stands before the rows of the form that was told last, and the length of their values.
    let (mut form, mut form_bytes) = (Vec::new(), None);
    visit_entries(runs, &mut |key, value| {
        run_writer::check_key(key.len())?;
        let value_bytes = run_writer::length_of(value.len())?;
        count = count.checked_add(1).ok_or_else(|| SavedError::new("too many entries"))?;
        let row = key.split_last_chunk::<ROW_BYTES>();
        let row = row.map(|(before, row)| (before, u32::from_be_bytes(*row)));
        let row = row.filter(|(_, row)| may_have_forms && has_form(*row, value.len()));
        match row {
            Some((before, row)) if form_bytes == Some(value.len()) && before == form => {
                all.extend_from_slice(&row_word(row));
            }
            _ => {
                let tells = row.map_or(0, |_| FORM);
                all.extend_from_slice(&lengths(key.len(), value_bytes, tells));
                all.extend_from_slice(key);
                if let Some((before, _)) = row {
                    form_bytes = Some(value.len());
                    form.clear();
                    form.extend_from_slice(before);
                }
            }
        }
        all.extend_from_slice(value);
        Ok(())
    })?;
    all[LENGTH_BYTES..2 * LENGTH_BYTES].copy_from_slice(&count.to_le_bytes());
    Ok(all)
}
