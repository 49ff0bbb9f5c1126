//! The operations that a [`crate::RemoteBackend`] needs from a server.

use bytes::Bytes;
use std::collections::BTreeMap;
use tidemill_checkpoints::{BackendError, WriteBatch};

/// A store of values by keys, in the place of one job on a server. The backend seals the values
/// ([`crate::seal`]); the store keeps them unchanged.
pub(crate) trait Store: Send + Sync {
    /// The server and the place on it, for people, without passwords.
    fn place(&self) -> &str;
    /// The command with which a person removes the record of the owner.
    fn how_to_free(&self) -> String;
    /// The longest value, in bytes.
    fn value_bytes_max(&self) -> usize;
    /// Reads the record of the owner.
    fn owner(&self) -> Result<Option<Bytes>, BackendError>;
    /// Writes the record of the owner, unless there is one.
    fn claim(&self, record: &[u8]) -> Result<(), BackendError>;
    /// Deletes the record of this owner, and everything else that is no value.
    fn free(&self, owner: &OwnerCheck<'_>) -> Result<(), BackendError>;
    /// Applies changes durably, if the owner is this one. If it fails, any part may be applied, but
    /// nothing is deleted before all puts are durable.
    fn apply(&self, owner: &OwnerCheck<'_>, changes: &Changes<'_>) -> Result<(), BackendError>;
    /// Reads the sealed value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError>;
    /// Lists the keys that begin with `prefix`, in any order.
    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError>;
}

/// Checks the record of the owner before a change.
pub(crate) type OwnerCheck<'a> = dyn Fn(Option<&[u8]>) -> Result<(), BackendError> + 'a;

/// The changes of a batch, each key once.
#[derive(Debug, Default)]
pub(crate) struct Changes<'a> {
    pub(crate) puts: Vec<(&'a [u8], &'a [u8])>,
    pub(crate) deletes: Vec<&'a [u8]>,
}

impl<'a> Changes<'a> {
    /// Of several changes of a key the last one counts.
    pub(crate) fn of(batch: &'a WriteBatch) -> Self {
        let last: BTreeMap<_, _> = batch.changes().collect();
        let mut changes = Self::default();
        for (key, value) in last {
            match value {
                Some(value) => changes.puts.push((key, value)),
                None => changes.deletes.push(key),
            }
        }
        changes
    }
}
