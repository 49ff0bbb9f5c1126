//! The interface of backends, and the batch that is committed to one.

use crate::{StateError, Values};
use bytes::Bytes;

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

/// Where values are kept by their keys.
pub trait Backend: Send + Sync {
    /// Puts and deletes what the batch says, and empties it. Durable when it returns.
    /// If it does not return, any part of the batch may be there ([`crate::IndexedBackend`]: all of
    /// it or nothing), but nothing is deleted before all that the batch puts is durable. Of several
    /// changes of a key the last one counts.
    ///
    /// # Errors
    /// The disk's or the server's, or a key or value that is too long; the batch stays as it is.
    /// After [`StateError::Failed`] or [`StateError::Lost`] the backend must be opened again.
    fn commit(&self, batch: &mut Batch) -> Result<(), StateError>;
    /// The value of a key.
    ///
    /// # Errors
    /// The disk's or the server's, or the value is damaged.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StateError>;
    /// Adds the value of a key to others; whether it is there.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn read(&self, key: &[u8], values: &mut Values) -> Result<bool, StateError> {
        let value = self.get(key)?;
        value.iter().for_each(|value| values.add(value));
        Ok(value.is_some())
    }
    /// As [`Self::read`] of several keys, in their order; whether all are there.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn read_all(&self, keys: &[Vec<u8>], values: &mut Values) -> Result<bool, StateError> {
        for key in keys {
            if !self.read(key, values)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
    /// Whether many values of some kilobytes cost about as much as few large ones: then rows of a state
    /// are read one by one. Default: they do not, as each is a request, a file, or an object.
    fn has_small_values(&self) -> bool {
        false
    }
    /// Every key that begins with `prefix`, in ascending order.
    ///
    /// # Errors
    /// The disk's or the server's.
    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, StateError>;
    /// Deletes all that there is; a place on a server is nobody's then. Nothing is to be asked of
    /// the backend afterwards. If it does not return, some may be left, and it may be called again.
    ///
    /// # Errors
    /// As [`Self::commit`].
    fn clear(&self) -> Result<(), StateError> {
        let mut batch = Batch::default();
        self.keys(b"")?.iter().for_each(|key| batch.delete(key));
        self.commit(&mut batch)
    }
}

/// Changes that are committed together. Its memory is used again.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Room for the head of a batch, then the entries, but for their checksums.
    bytes: Vec<u8>,
    /// Where each entry begins in `bytes`.
    entries: Vec<usize>,
    /// What cannot be written.
    refused: Option<StateError>,
}

/// One change of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'a> {
    /// Where it begins in the batch, in bytes.
    pub(crate) at: usize,
    pub(crate) key: &'a [u8],
    /// None: the key is deleted.
    pub(crate) value: Option<&'a [u8]>,
}

impl Default for Batch {
    fn default() -> Self {
        Self { bytes: vec![0; BATCH_HEAD_BYTES], entries: Vec::new(), refused: None }
    }
}

impl Batch {
    /// Puts a value under a key.
    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        if value.len() > VALUE_BYTES_MAX {
            let (bytes, max) = (value.len(), VALUE_BYTES_MAX);
            self.refused = Some(StateError::ValueTooLong { bytes, max });
            return;
        }
        self.add(key, value.len() as u32, value);
    }

    /// Deletes a key. One that is not there stays so.
    pub fn delete(&mut self, key: &[u8]) {
        self.add(key, DELETED, &[]);
    }

    fn add(&mut self, key: &[u8], value_bytes: u32, value: &[u8]) {
        if key.len() > KEY_BYTES_MAX {
            let (bytes, max) = (key.len(), KEY_BYTES_MAX);
            self.refused = Some(StateError::KeyTooLong { bytes, max });
            return;
        }
        self.entries.push(self.bytes.len());
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&value_bytes.to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
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
    pub fn check(&self) -> Result<(), StateError> {
        self.refused.clone().map_or(Ok(()), Err)
    }

    /// The changes, in their order: each key, and its value; none: the key is deleted.
    pub fn changes(&self) -> impl ExactSizeIterator<Item = (&[u8], Option<&[u8]>)> {
        self.entries().map(|entry| (entry.key, entry.value))
    }

    /// The changes, in their order.
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = Entry<'_>> + Clone {
        self.entries.iter().map(|at| entry(&self.bytes, *at).expect("as it was added"))
    }

    /// Adds bytes behind the entries, and zeros behind them.
    pub(crate) fn close(&mut self, more: &[u8], zeros: usize) {
        self.bytes.extend_from_slice(more);
        self.bytes.resize(self.bytes.len() + zeros, 0);
    }

    /// As it was before [`Self::close`], of so many bytes.
    pub(crate) fn open(&mut self, bytes: usize) {
        self.bytes.truncate(bytes);
    }

    /// All bytes, and where the entries begin in them.
    pub(crate) fn parts_mut(&mut self) -> (&mut [u8], &[usize]) {
        (&mut self.bytes, &self.entries)
    }
}

/// The entry that stands there, unchecked; none if it goes beyond the end.
pub(crate) fn entry(bytes: &[u8], at: usize) -> Option<Entry<'_>> {
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
    Some(Entry { at, key, value })
}

impl Entry<'_> {
    /// How long it is, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        ENTRY_HEAD_BYTES + self.key.len() + self.value.map_or(0, <[u8]>::len)
    }
}
