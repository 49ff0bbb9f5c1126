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

mod merged;
mod reader;
#[cfg(test)]
mod tests;

pub(crate) use merged::most_entries;
pub use merged::{merge, merged};
pub(crate) use reader::entry;
pub use reader::{Reader, put_bytes};

/// In place of a value's length: the key is deleted.
const DELETED: u32 = u32::MAX;

/// Bytes of a length in a run.
const LENGTH_BYTES: usize = size_of::<u32>();

/// Longest key of a row, in bytes.
const ROW_BYTES: usize = size_of::<u32>();

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

/// Where an entry is among the bytes of a delta.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    key_end: usize,
    end: usize,
    /// Which prefix stands before its key.
    prefix: u32,
    is_deleted: bool,
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
struct Prefix {
    bytes: Vec<u8>,
    head: u128,
    bits: u32,
}

impl Prefix {
    fn new(bytes: Vec<u8>) -> Self {
        let bits = u32::try_from(8 * bytes.len()).unwrap_or(u32::MAX);
        Self { head: head_of(&bytes), bytes, bits }
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
    /// Keys without their prefixes, each with its value behind it.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    prefixes: Vec<Prefix>,
    cleared: Vec<Vec<u8>>,
    /// Stands before all keys that are written now.
    prefix: Vec<u8>,
    /// Its number, if it has one yet.
    prefix_number: Option<u32>,
}

impl Delta {
    /// Bytes of memory.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.bytes.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.prefixes.capacity() * size_of::<Prefix>()
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
        self.entries.push(Entry { start, key_end, end, prefix, is_deleted });
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

    /// Moves about `most` of another's changes here, under this one's prefix; whether those were all.
    /// The other keeps its memory.
    pub fn take_from(&mut self, other: &mut Self, most: usize) -> bool {
        other.cleared.drain(..).for_each(|prefix| self.clear(&prefix));
        let first = other.entries.len().saturating_sub(most);
        let prefix = |it: &Prefix| Prefix::new([&self.prefix[..], &it.bytes].concat());
        let is_first = self.entries.is_empty() && !other.entries.is_empty();
        if is_first && first == 0 && is_like(&self.bytes, &other.bytes) {
            // Nothing is copied; the other gets memory that it will need again.
            self.prefixes = other.prefixes.drain(..).map(|it| prefix(&it)).collect();
            self.prefix_number = None;
            std::mem::swap(&mut self.bytes, &mut other.bytes);
            std::mem::swap(&mut self.entries, &mut other.entries);
        } else if let Some(entry) = other.entries.get(first) {
            let (from, to) = (entry.start, self.bytes.len());
            self.bytes.extend_from_slice(&other.bytes[from..]);
            other.bytes.truncate(from);
            // Those of entries that stay, which are before them, are not written again each time.
            let first_prefix = other.entries[first..].iter().map(|it| it.prefix).min().unwrap_or(0);
            let prefixes = self.prefixes.len() as u32;
            self.prefixes.extend(other.prefixes[first_prefix as usize..].iter().map(prefix));
            let moved = |it: Entry| Entry {
                start: it.start - from + to,
                key_end: it.key_end - from + to,
                end: it.end - from + to,
                prefix: it.prefix - first_prefix + prefixes,
                is_deleted: it.is_deleted,
            };
            self.entries.extend(other.entries.drain(first..).map(moved));
        }
        if first == 0 {
            other.reset();
        }
        first == 0
    }

    /// Forgets everything; memory is kept.
    fn reset(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.prefixes.clear();
        self.cleared.clear();
        self.prefix_number = None;
    }

    /// A key is not there any more.
    pub fn delete(&mut self, key: &[u8]) {
        self.put_or_delete(key, |_| false);
    }

    /// No key that begins with `prefix` is there any more but those of this delta.
    pub fn clear(&mut self, prefix: &[u8]) {
        self.cleared.push([&self.prefix, prefix].concat());
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of keys, without their prefixes, and values.
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
        let bytes = self.run_bytes()?;
        run.clear();
        run.reserve(bytes);
        self.write_run(|bytes| run.extend_from_slice(bytes));
        Ok(())
    }

    /// How long the run is, in bytes.
    ///
    /// # Errors
    /// A key or value is longer than 4 GiB.
    pub(crate) fn run_bytes(&mut self) -> Result<usize, SavedError> {
        self.cleared.sort();
        self.cleared.dedup();
        let mut bytes = 2 * LENGTH_BYTES + self.bytes.len();
        for prefix in &self.cleared {
            bytes += LENGTH_BYTES + length_of(prefix.len())? as usize;
        }
        length_of(self.cleared.len())?;
        length_of(self.entries.len())?;
        for it in &self.entries {
            let prefix = self.prefixes[it.prefix as usize].bytes.len();
            length_of(prefix + it.key_end - it.start)?;
            length_of(it.end - it.key_end)?;
            bytes += 2 * LENGTH_BYTES + prefix;
        }
        Ok(bytes)
    }

    /// Hands over the bytes of the run, piece by piece, and is empty then. Its memory is used again.
    /// [`Self::run_bytes`] said that it can be one.
    pub(crate) fn write_run(&mut self, mut put: impl FnMut(&[u8])) {
        let sorted = self.sorted();
        let Self { bytes, entries, prefixes, cleared, .. } = self;
        put(&(cleared.len() as u32).to_le_bytes());
        for prefix in &*cleared {
            put(&(prefix.len() as u32).to_le_bytes());
            put(prefix);
        }
        put(&(entries.len() as u32).to_le_bytes());
        for nth in sorted {
            let it = &entries[nth as usize];
            let prefix = &prefixes[it.prefix as usize].bytes;
            let key_bytes = prefix.len() + it.key_end - it.start;
            let value_bytes = if it.is_deleted { DELETED } else { (it.end - it.key_end) as u32 };
            let lengths = u64::from(value_bytes) << 32 | key_bytes as u64;
            put(&lengths.to_le_bytes());
            put(prefix);
            put(&bytes[it.start..it.end]);
        }
        self.reset();
    }

    /// The numbers of the entries, in the order of their keys.
    fn sorted(&self) -> Vec<u32> {
        let Self { bytes, entries, prefixes, .. } = self;
        let prefix = |it: &Entry| &prefixes[it.prefix as usize];
        let own_key = |it: &Entry| &bytes[it.start..it.key_end];
        let key = |it: &Entry| prefix(it).bytes.iter().chain(own_key(it));
        let entry = |nth: u32| &entries[nth as usize];
        let numbers = 0_u32..entries.len() as u32;
        let is_alike = prefixes.windows(2).all(|pair| pair[0].bytes == pair[1].bytes);
        let short = entries.first().map_or(0, |it| it.key_end - it.start);
        let is_short = |it: &Entry| it.key_end - it.start == short;
        let sorted: Vec<u32> = if is_alike && short <= ROW_BYTES && entries.iter().all(is_short) {
            // Rows of one structure: numbers say everything.
            let row = |it: &Entry| match own_key(it).try_into() {
                Ok(row) => u64::from(u32::from_be_bytes(row)),
                Err(_) => own_key(it).iter().fold(0, |row, byte| row << 8 | u64::from(*byte)),
            };
            let rows = entries.iter().map(row).zip(numbers);
            let mut rows: Vec<u64> = rows.map(|(row, nth)| row << 32 | u64::from(nth)).collect();
            rows.sort_unstable();
            rows.into_iter().map(|it| it as u32).collect()
        } else {
            // Most keys are told apart by their heads, which lie together.
            let head = |it: &Entry| prefix(it).head_of(it.key_end - it.start, &bytes[it.start..]);
            let mut heads: Vec<(u128, u32)> = entries.iter().map(head).zip(numbers).collect();
            // A stable sort uses the order that structures have written most of it in.
            heads.sort_by(|(a_head, a), (b_head, b)| {
                a_head.cmp(b_head).then_with(|| key(entry(*a)).cmp(key(entry(*b))))
            });
            heads.into_iter().map(|(_, nth)| nth).collect()
        };
        debug_assert!(
            sorted.is_sorted_by(|a, b| key(entry(*a)).lt(key(entry(*b)))),
            "a key is written once"
        );
        sorted
    }
}

/// Whether the memory of an empty buffer is not much more than that of another with bytes in it.
fn is_like(empty: &Vec<u8>, other: &Vec<u8>) -> bool {
    empty.capacity() / 4 <= other.capacity()
}

/// Appends a length to a run.
fn length(run: &mut Vec<u8>, length: usize) -> Result<(), SavedError> {
    run.extend_from_slice(&length_of(length)?.to_le_bytes());
    Ok(())
}

/// A length as it stands in a run.
fn length_of(length: usize) -> Result<u32, SavedError> {
    let number = u32::try_from(length).ok().filter(|it| *it != DELETED);
    number.ok_or_else(|| SavedError::new("a slice has changed too much at once"))
}
