//! The batch that is committed to a backend.
//!
//! ```text
//! bytes   │ room for a head │ head, key, value │ head, key, value │ … │
//!         └ begins at a page, as a file takes it past the system's cache
//! ```
//!
//! Its bytes are those of an append-only file ([`crate::IndexedBackend`]), in one piece: a long
//! value is written once, where the disk reads it.

use crate::BackendError;
use std::ops::Range;
use tidemill_env::AlignedBuffer;

/// The longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 1 << 20;
/// The longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: usize = 1 << 30;
/// The bytes before the entries of a batch, filled in by the backend.
pub(crate) const BATCH_HEAD_BYTES: usize = 40;
/// The bytes before the key of an entry: checksum, length of the key, length of the value.
pub(crate) const ENTRY_HEAD_BYTES: usize = 12;
/// The value length of a deletion.
pub(crate) const DELETED: u32 = u32::MAX;

/// Changes that are committed together. The memory is reused.
#[derive(Clone, Debug)]
pub struct WriteBatch {
    /// Room for the head of the batch, then the entries without their checksums.
    bytes: AlignedBuffer,
    /// The start of each entry in `bytes`.
    entries: Vec<usize>,
    /// The error of a change that no backend takes.
    refused: Option<BackendError>,
}

/// One change of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchEntry<'a> {
    /// Its position in the batch, in bytes.
    pub(crate) at: usize,
    pub(crate) key: &'a [u8],
    /// The value; none for a deletion.
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

    /// Puts a value of `value_bytes` under a key, and returns its range in [`Self::bytes_mut`],
    /// which the caller fills; none if it is refused.
    pub(crate) fn put_room(&mut self, key: &[u8], value_bytes: usize) -> Option<Range<usize>> {
        if value_bytes > VALUE_BYTES_MAX {
            let (bytes, max) = (value_bytes, VALUE_BYTES_MAX);
            self.refused = Some(BackendError::ValueTooLong { bytes, max });
            return None;
        }
        self.add(key, value_bytes as u32).then(|| self.bytes.grow(value_bytes))
    }

    /// Deletes a key. A missing key is no error.
    pub fn delete(&mut self, key: &[u8]) {
        self.add(key, DELETED);
    }

    /// Adds an entry without its value. Returns false if it is refused.
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

    /// The count of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Its length in a file, in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all changes.
    pub fn clear(&mut self) {
        self.bytes.truncate(BATCH_HEAD_BYTES);
        self.entries.clear();
        self.refused = None;
    }

    /// Checks that it can be written.
    ///
    /// # Errors
    /// A key or a value is longer than any backend takes.
    pub fn check(&self) -> Result<(), BackendError> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// The changes in order: each key, and its value or none for a deletion.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        self.entries().map(|entry| (entry.key, entry.value))
    }

    /// The changes, in their order.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = BatchEntry<'_>> + Clone {
        self.entries.iter().map(|at| entry(&self.bytes, *at).expect("as it was added"))
    }

    /// Appends a directory and zeros.
    pub(crate) fn close(&mut self, more: &[u8], zeros: usize) {
        self.bytes.extend_from_slice(more);
        self.bytes.extend_zeros(zeros);
    }

    /// Undoes [`Self::close`], back to this length.
    pub(crate) fn open(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
    }

    /// All bytes.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// All bytes, and the start of each entry.
    pub(crate) fn parts_mut(&mut self) -> (&mut [u8], &[usize]) {
        (&mut self.bytes, &self.entries)
    }
}

/// The entry at `at`, with an unchecked checksum; none if it exceeds the end.
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
    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        ENTRY_HEAD_BYTES + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }
}
