//! The batch that is committed to a backend.
//!
//! ```text
//! bytes   │ room for a head │ head, key, value │ head, key, value │ … │
//!         └ begins at a page, as a file takes it past the system's cache
//! ```
//!
//! Its bytes are those that an append-only file gets ([`crate::IndexedBackend`]), in one piece: what
//! is long is written where it is put, and goes to the disk from there.

use crate::BackendError;
use std::ops::Range;
use tidemill_env::AlignedBuffer;

/// Longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 1 << 20;
/// Longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 30;
/// What stands before the entries of a batch; filled in by who writes it.
pub(crate) const BATCH_HEAD_BYTES: usize = 40;
/// What stands before the key of an entry: checksum, length of the key, length of the value.
pub(crate) const ENTRY_HEAD_BYTES: usize = 12;
/// In place of the value's length: the key is deleted.
pub(crate) const DELETED: u32 = u32::MAX;

/// Changes that are committed together. Its memory is used again.
#[derive(Clone, Debug)]
pub struct WriteBatch {
    /// Room for the head of a batch, then the entries, but for their checksums.
    bytes: AlignedBuffer,
    /// Where each entry begins in `bytes`.
    entries: Vec<usize>,
    /// What cannot be written.
    refused: Option<BackendError>,
}

/// One change of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchEntry<'a> {
    /// Where it begins in the batch, in bytes.
    pub(crate) at: usize,
    pub(crate) key: &'a [u8],
    /// None: the key is deleted.
    pub(crate) value: Option<&'a [u8]>,
}

impl Default for WriteBatch {
    fn default() -> Self {
        let mut bytes = AlignedBuffer::default();
        bytes.extend_zeros(BATCH_HEAD_BYTES);
        Self { bytes, entries: Vec::new(), refused: None }
    }
}

impl WriteBatch {
    /// Puts a value under a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        if let Some(room) = self.put_room(key, value.len()) {
            self.bytes[room].copy_from_slice(value);
        }
    }

    /// Puts a value of so many bytes under a key; gives back where it is to be written, among
    /// [`Self::bytes_mut`], if it can be.
    pub(crate) fn put_room(&mut self, key: &[u8], value_bytes: usize) -> Option<Range<usize>> {
        if value_bytes > VALUE_BYTES_MAX {
            let (bytes, max) = (value_bytes, VALUE_BYTES_MAX);
            self.refused = Some(BackendError::ValueTooLong { bytes, max });
            return None;
        }
        self.add(key, value_bytes as u32).then(|| self.bytes.grow(value_bytes))
    }

    /// Deletes a key. One that is not there stays so.
    pub fn delete(&mut self, key: &[u8]) {
        self.add(key, DELETED);
    }

    /// Adds an entry, but for its value; whether it can be.
    fn add(&mut self, key: &[u8], value_bytes: u32) -> bool {
        if key.len() > KEY_BYTES_MAX {
            let (bytes, max) = (key.len(), KEY_BYTES_MAX);
            self.refused = Some(BackendError::KeyTooLong { bytes, max });
            return false;
        }
        self.entries.push(self.bytes.len());
        self.bytes.extend_zeros(4);
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&value_bytes.to_le_bytes());
        self.bytes.extend_from_slice(key);
        true
    }

    /// Number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing would be changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What it would take in a file, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Takes all changes out.
    pub fn clear(&mut self) {
        self.bytes.truncate(BATCH_HEAD_BYTES);
        self.entries.clear();
        self.refused = None;
    }

    /// Whether it can be written.
    ///
    /// # Errors
    /// A key or a value was longer than any backend takes.
    pub fn check(&self) -> Result<(), BackendError> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// The changes, in their order: each key, and its value; none: the key is deleted.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        self.entries().map(|entry| (entry.key, entry.value))
    }

    /// The changes, in their order.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = BatchEntry<'_>> + Clone {
        self.entries.iter().map(|at| entry(&self.bytes, *at).expect("as it was added"))
    }

    /// Adds bytes behind the entries, and zeros behind them.
    pub(crate) fn close(&mut self, more: &[u8], zeros: usize) {
        self.bytes.extend_from_slice(more);
        self.bytes.extend_zeros(zeros);
    }

    /// As it was before [`Self::close`], of so many bytes.
    pub(crate) fn open(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
    }

    /// All bytes.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// All bytes, and where the entries begin in them.
    pub(crate) fn parts_mut(&mut self) -> (&mut [u8], &[usize]) {
        (&mut self.bytes, &self.entries)
    }
}

/// The entry that stands there, unchecked; none if it goes beyond the end.
pub(crate) fn entry(bytes: &[u8], at: usize) -> Option<BatchEntry<'_>> {
    let head = bytes.get(at..at + ENTRY_HEAD_BYTES)?;
    let number = |at: usize| u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes"));
    let (key_bytes, value_bytes) = (number(4) as usize, number(8));
    let key_at = at + ENTRY_HEAD_BYTES;
    let key = bytes.get(key_at..key_at.checked_add(key_bytes)?)?;
    let value = match value_bytes {
        DELETED => None,
        count => {
            let value_at = key_at + key_bytes;
            Some(bytes.get(value_at..value_at.checked_add(count as usize)?)?)
        }
    };
    Some(BatchEntry { at, key, value })
}

impl BatchEntry<'_> {
    /// How long it is, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        ENTRY_HEAD_BYTES + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }
}
