//! What changed in a slice's state: entries put and deleted, as bytes.
//!
//! ```text
//! structures ── put, delete, clear ──▶ Delta ── finish ──▶ run: sorted, each key once
//!
//! run    count of prefixes, prefixes │ count of entries, entries
//! ```
//!
//! A run says first which prefixes it empties, then what its keys are from then on. Runs of a slice
//! are read together ([`merged`]): of each key the newest counts. Numbers are little endian.

use bytes::Bytes;
use std::{cmp::Ordering, collections::BinaryHeap, ops::Range};

/// In place of a value's length: the key is deleted.
const DELETED: u32 = u32::MAX;

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

/// Where a key begins and ends, and where its value ends; none if the key is deleted.
type Place = (usize, usize, Option<usize>);

/// Changes of one slice, on their way to a run.
#[derive(Debug, Default)]
pub struct Delta {
    bytes: Vec<u8>,
    entries: Vec<Place>,
    cleared: Vec<Vec<u8>>,
    /// Stands before all keys.
    prefix: Vec<u8>,
}

impl Delta {
    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<Place>()
    }

    /// Writes the changes of a part, whose keys all begin with `prefix`.
    pub fn within<T>(&mut self, prefix: &[u8], write: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.prefix.len();
        self.prefix.extend_from_slice(prefix);
        let written = write(self);
        self.prefix.truncate(length);
        written
    }

    /// A key has the value that `write` appends. A key is written once in a checkpoint.
    pub fn put_with(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.key(key);
        let middle = self.bytes.len();
        write(&mut self.bytes);
        self.entries.push((start, middle, Some(self.bytes.len())));
    }

    /// As [`Self::put_with`]; or the key is deleted, if `write` says that there is no value.
    pub fn put_or_delete(&mut self, key: &[u8], write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let start = self.key(key);
        let middle = self.bytes.len();
        let is_there = write(&mut self.bytes);
        if !is_there {
            self.bytes.truncate(middle);
        }
        self.entries.push((start, middle, is_there.then_some(self.bytes.len())));
    }

    /// Moves all of another's changes here, under this one's prefix.
    pub fn append(&mut self, other: &mut Self) {
        for (start, middle, end) in other.entries.drain(..) {
            let key = &other.bytes[start..middle];
            match end {
                Some(end) => {
                    self.put_with(key, |out| out.extend_from_slice(&other.bytes[middle..end]));
                }
                None => self.delete(key),
            }
        }
        other.cleared.drain(..).for_each(|prefix| self.clear(&prefix));
        // Its memory goes too: little of what changes, changes just then.
        *other = Self::default();
    }

    /// A key is not there any more.
    pub fn delete(&mut self, key: &[u8]) {
        let start = self.key(key);
        self.entries.push((start, self.bytes.len(), None));
    }

    /// No key that begins with `prefix` is there any more but those of this delta.
    pub fn clear(&mut self, prefix: &[u8]) {
        self.cleared.push([&self.prefix, prefix].concat());
    }

    fn key(&mut self, key: &[u8]) -> usize {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&self.prefix);
        self.bytes.extend_from_slice(key);
        start
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Whether nothing changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.cleared.is_empty()
    }

    /// Writes the run in place of what `run` held, and is empty then. Memory of both is used again.
    ///
    /// # Errors
    /// A key or value is longer than 4 GiB.
    pub fn finish(&mut self, run: &mut Vec<u8>) -> Result<(), SavedError> {
        let bytes = &self.bytes;
        self.entries.sort_unstable_by(|a, b| bytes[a.0..a.1].cmp(&bytes[b.0..b.1]));
        let is_less = |a: &Place, b: &Place| bytes[a.0..a.1] < bytes[b.0..b.1];
        debug_assert!(self.entries.is_sorted_by(is_less), "a key is written once");
        self.cleared.sort();
        self.cleared.dedup();
        let heads = 8 * (self.entries.len() + self.cleared.len());
        run.clear();
        run.reserve(bytes.len() + heads + 16);
        length(run, self.cleared.len())?;
        for prefix in &self.cleared {
            length(run, prefix.len())?;
            run.extend_from_slice(prefix);
        }
        length(run, self.entries.len())?;
        for (start, middle, end) in &self.entries {
            length(run, middle - start)?;
            match end {
                Some(end) => length(run, end - middle)?,
                None => run.extend_from_slice(&DELETED.to_le_bytes()),
            }
            run.extend_from_slice(&bytes[*start..end.unwrap_or(*middle)]);
        }
        self.bytes.clear();
        self.entries.clear();
        self.cleared.clear();
        Ok(())
    }
}

fn length(run: &mut Vec<u8>, length: usize) -> Result<(), SavedError> {
    let number = u32::try_from(length).ok().filter(|it| *it != DELETED);
    let number = number.ok_or_else(|| SavedError::new("a slice has changed too much at once"))?;
    run.extend_from_slice(&number.to_le_bytes());
    Ok(())
}

/// Takes numbers and bytes off the front of some bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads these.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// What is left.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next bytes.
    ///
    /// # Errors
    /// There are not so many.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], SavedError> {
        let taken = self.0.split_at_checked(count);
        let (taken, rest) = taken.ok_or_else(|| SavedError::new("saved state ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// The next four bytes.
    ///
    /// # Errors
    /// There are not so many.
    pub fn u32(&mut self) -> Result<u32, SavedError> {
        Ok(u32::from_le_bytes(self.bytes(4)?.try_into().expect("four bytes")))
    }

    /// The next eight bytes.
    ///
    /// # Errors
    /// There are not so many.
    pub fn u64(&mut self) -> Result<u64, SavedError> {
        Ok(u64::from_le_bytes(self.bytes(8)?.try_into().expect("eight bytes")))
    }

    /// The next eight bytes.
    ///
    /// # Errors
    /// There are not so many.
    pub fn i64(&mut self) -> Result<i64, SavedError> {
        self.u64().map(|it| it as i64)
    }

    /// Bytes with their length before them, as [`put_bytes`] writes them.
    ///
    /// # Errors
    /// There are not so many.
    pub fn sized(&mut self) -> Result<&'a [u8], SavedError> {
        let count = self.u32()? as usize;
        self.bytes(count)
    }

    /// Nothing is left.
    ///
    /// # Errors
    /// Something is.
    pub fn end(&self) -> Result<(), SavedError> {
        match self.0 {
            [] => Ok(()),
            more => Err(SavedError::new(format!("saved state has {} bytes too many", more.len()))),
        }
    }
}

/// The next entry of a run: its key, and its value unless the key is deleted.
///
/// # Errors
/// The bytes end before it does.
pub(crate) fn entry<'a>(from: &mut Reader<'a>) -> Result<(&'a [u8], Option<&'a [u8]>), SavedError> {
    let (key_bytes, value_bytes) = (from.u32()? as usize, from.u32()?);
    let key = from.bytes(key_bytes)?;
    let value = match value_bytes {
        DELETED => None,
        count => Some(from.bytes(count as usize)?),
    };
    Ok((key, value))
}

/// Appends bytes with their length before them.
///
/// # Panics
/// Panics if they are 4 GiB or more: nothing that is held is.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let count = u32::try_from(bytes.len()).expect("nothing that is held is so long");
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// A run, and where reading it stands.
struct Cursor {
    run: Bytes,
    cleared: Vec<Range<usize>>,
    at: usize,
    left: u32,
    /// The entry it stands at, as places in the run: key, and value unless it is deleted.
    entry: Option<(Range<usize>, Option<Range<usize>>)>,
}

impl Cursor {
    fn new(run: Bytes) -> Result<Self, SavedError> {
        let mut reader = Reader::new(&run);
        let mut cleared = Vec::new();
        for _ in 0..reader.u32()? {
            let length = reader.sized()?.len();
            let end = run.len() - reader.rest().len();
            cleared.push(end - length..end);
        }
        let left = reader.u32()?;
        let at = run.len() - reader.rest().len();
        let mut cursor = Self { run, cleared, at, left, entry: None };
        cursor.step()?;
        Ok(cursor)
    }

    fn step(&mut self) -> Result<(), SavedError> {
        let before = self.entry.take();
        let mut reader = Reader::new(&self.run[self.at..]);
        if self.left == 0 {
            return reader.end();
        }
        let (key, value) = entry(&mut reader)?;
        let start = self.at + 8;
        let key = start..start + key.len();
        let value = value.map(|value| key.end..key.end + value.len());
        if before.is_some_and(|(before, _)| self.run[before] >= self.run[key.clone()]) {
            return Err(SavedError::new("saved state is out of order"));
        }
        self.at = value.as_ref().map_or(key.end, |value| value.end);
        self.left -= 1;
        self.entry = Some((key, value));
        Ok(())
    }

    /// The key it stands at; none at its end.
    fn key(&self) -> Option<&[u8]> {
        self.entry.as_ref().map(|(key, _)| &self.run[key.clone()])
    }
}

/// A cursor that stands at an entry; the least is that of the least key, and of these the oldest.
struct Standing {
    cursor: Cursor,
    /// Its run's place among all, the oldest first.
    nth: usize,
}

impl Standing {
    fn order(&self) -> (Option<&[u8]>, usize) {
        (self.cursor.key(), self.nth)
    }
}

impl PartialEq for Standing {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Standing {}

impl PartialOrd for Standing {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Standing {
    /// In reverse: a heap gives its largest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.order().cmp(&self.order())
    }
}

/// Takes an entry: its key and its value.
pub(crate) type EachEntry<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), SavedError> + 'a;

/// Gives every entry of these runs, the oldest run first, in ascending order of keys.
///
/// # Errors
/// Bytes that are not a run, or an error of `each`.
pub fn merged(runs: Vec<Bytes>, each: &mut EachEntry<'_>) -> Result<(), SavedError> {
    let cursors = runs.into_iter().map(Cursor::new).collect::<Result<Vec<_>, _>>()?;
    let clearing = |(nth, cursor): (usize, &Cursor)| {
        let prefixes = cursor.cleared.iter().map(move |it| (nth, cursor.run.slice(it.clone())));
        prefixes.collect::<Vec<_>>()
    };
    let cleared: Vec<(usize, Bytes)> = cursors.iter().enumerate().flat_map(clearing).collect();
    let standing = cursors.into_iter().enumerate().map(|(nth, cursor)| Standing { cursor, nth });
    let mut heap: BinaryHeap<Standing> = standing.filter(|it| it.cursor.key().is_some()).collect();
    let mut newest = Vec::new();
    while let Some(first) = heap.pop() {
        // Those of the same key follow, the newest last: it counts.
        newest.push(first);
        while heap.peek().is_some_and(|next| next.cursor.key() == newest[0].cursor.key()) {
            newest.extend(heap.pop());
        }
        let last = &newest[newest.len() - 1];
        if let Some((key, Some(value))) = &last.cursor.entry {
            let (key, value) = (&last.cursor.run[key.clone()], &last.cursor.run[value.clone()]);
            let is_cleared = cleared.iter().any(|(nth, it)| *nth > last.nth && key.starts_with(it));
            if !is_cleared {
                each(key, value)?;
            }
        }
        for mut standing in newest.drain(..) {
            standing.cursor.step()?;
            if standing.cursor.key().is_some() {
                heap.push(standing);
            }
        }
    }
    Ok(())
}

/// One run of all runs of a slice, the oldest first, that says the same.
///
/// # Errors
/// Bytes that are not a run, or more than one can hold.
pub fn merge(runs: Vec<Bytes>) -> Result<Vec<u8>, SavedError> {
    let most = runs.iter().map(Bytes::len).max().unwrap_or(0);
    let mut all = Vec::with_capacity(most + 8);
    // No prefixes; the number of entries is written at the end.
    all.extend_from_slice(&[0; 8]);
    let mut count = 0_u32;
    merged(runs, &mut |key, value| {
        length(&mut all, key.len())?;
        length(&mut all, value.len())?;
        all.extend_from_slice(key);
        all.extend_from_slice(value);
        count = count.checked_add(1).ok_or_else(|| SavedError::new("too many entries"))?;
        Ok(())
    })?;
    all[4..8].copy_from_slice(&count.to_le_bytes());
    Ok(all)
}
