//! The interface of backends.

use crate::{Batch, StateError, Values};
use bytes::Bytes;

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
