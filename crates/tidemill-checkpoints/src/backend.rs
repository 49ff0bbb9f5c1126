//! The interface of backends.

use crate::{BackendError, ValueBuffer, WriteBatch};
use bytes::Bytes;

/// A store of values by their keys.
pub trait Backend: Send + Sync {
    /// Applies the changes of a batch, durably, and empties it. If it fails, any part of the batch
    /// may be applied ([`crate::IndexedBackend`]: all of it or nothing), but nothing is deleted
    /// before all puts are durable. Of several changes of a key the last one counts.
    ///
    /// # Errors
    /// An error of the disk or the server, or a key or value that is too long. The batch stays as
    /// it is. After [`BackendError::Failed`] or [`BackendError::Lost`] the backend must be opened
    /// again.
    fn commit(&self, batch: &mut WriteBatch) -> Result<(), BackendError>;
    /// The value of a key.
    ///
    /// # Errors
    /// An error of the disk or the server, or a damaged value.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError>;
    /// Adds the value of a key to a buffer. Returns false if there is no such key.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn read(&self, key: &[u8], values: &mut ValueBuffer) -> Result<bool, BackendError> {
        let value = self.get(key)?;
        value.iter().for_each(|value| values.add(value));
        Ok(value.is_some())
    }
    /// As [`Self::read`], for several keys in order. Returns false at the first missing key.
    ///
    /// # Errors
    /// As [`Self::get`].
    fn read_all(&self, keys: &[Vec<u8>], values: &mut ValueBuffer) -> Result<bool, BackendError> {
        for key in keys {
            if !self.read(key, values)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
    /// Returns true if many values of a few kilobytes cost about as much as few large ones. Then
    /// the rows of a state can be read one by one. Default: false, as each value is a request, a
    /// file or an object.
    fn has_small_values(&self) -> bool {
        false
    }
    /// All keys that begin with `prefix`, in ascending order.
    ///
    /// # Errors
    /// The disk's or the server's.
    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError>;
    /// Deletes everything, and gives a place on a server up. The backend must not be used
    /// afterwards. If this fails, a part may be left, and it may be called again.
    ///
    /// # Errors
    /// As [`Self::commit`].
    fn clear(&self) -> Result<(), BackendError> {
        let mut batch = WriteBatch::default();
        self.keys(b"")?.iter().for_each(|key| batch.delete(key));
        self.commit(&mut batch)
    }
}
