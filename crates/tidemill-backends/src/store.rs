//! What each kind of server does for a [`crate::RemoteBackend`].

use bytes::Bytes;
use std::collections::BTreeMap;
use tidemill_checkpoints::{BackendError, WriteBatch};

/// Values by keys on a server, in a place of one job. Values are sealed by who writes them
/// ([`crate::sealed`]) and given as they are.
pub(crate) trait Store: Send + Sync {
    /// The server, and where on it, for people: without passwords.
    fn place(&self) -> &str;
    /// How a person removes the record of the owner.
    fn how_to_free(&self) -> String;
    /// Longest value, in bytes.
    fn value_bytes_max(&self) -> usize;
    /// The record of the owner.
    fn owner(&self) -> Result<Option<Bytes>, BackendError>;
    /// Writes the record of the owner, unless there is one.
    fn claim(&self, record: &[u8]) -> Result<(), BackendError>;
    /// Deletes the record of the owner, if it is this one, and whatever else is no value.
    fn free(&self, owner: &Owner<'_>) -> Result<(), BackendError>;
    /// Puts and deletes, if the owner is this one; durable when it returns. If it does not, any
    /// part may be done, but nothing is deleted before all is put, durably.
    fn apply(&self, owner: &Owner<'_>, changes: &Changes<'_>) -> Result<(), BackendError>;
    /// The value of a key, with its seal.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError>;
    /// Keys that begin with `prefix`, in any order.
    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError>;
}

/// Looks at the record that is found before something is changed.
pub(crate) type Owner<'a> = dyn Fn(Option<&[u8]>) -> Result<(), BackendError> + 'a;

/// What a batch comes to: each key once.
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
