//! The trait that every home of the table implements.
//!
//! All calls block. A caller that must not wait makes them on a thread of its own.

use crate::{
    error::CoordinatorError,
    key::{Key, LeaseId, Revision},
    transaction::{Change, CommitOutcome, KeyValue, Listing, Transaction},
};
use std::time::Duration;

/// Compare-and-put, leases and watches over one small table of keys.
pub trait Coordinator: Send + Sync {
    /// All keys that begin with `prefix`, at one revision. An empty prefix lists every key.
    ///
    /// # Errors
    /// [`CoordinatorError::Unavailable`], [`CoordinatorError::Replaced`] or
    /// [`CoordinatorError::Failed`].
    fn list(&self, prefix: &str) -> Result<Listing, CoordinatorError>;

    /// One key, or none if it is absent.
    ///
    /// # Errors
    /// As [`Self::list`].
    fn get(&self, key: &Key) -> Result<Option<KeyValue>, CoordinatorError> {
        let listing = self.list(key.as_str())?;
        Ok(listing.entries.into_iter().find(|entry| entry.key == *key))
    }

    /// Applies the writes if all comparisons hold. An applied transaction is durable.
    ///
    /// # Errors
    /// As [`Self::list`]; [`CoordinatorError::Invalid`] if the transaction breaks a limit,
    /// [`CoordinatorError::LeaseExpired`] if a put names a lease that is gone. After
    /// [`CoordinatorError::Unavailable`] the transaction may or may not be applied.
    fn commit(&self, transaction: &Transaction) -> Result<CommitOutcome, CoordinatorError>;

    /// Follows all changes after a revision to keys that begin with `prefix`.
    ///
    /// # Errors
    /// As [`Self::list`]; [`CoordinatorError::Compacted`] may also come from the watch.
    fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, CoordinatorError>;

    /// Grants a lease that lives for `ttl` after it was granted or last kept alive.
    ///
    /// # Errors
    /// As [`Self::list`]; [`CoordinatorError::Invalid`] below one second, which is etcd's
    /// resolution.
    fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, CoordinatorError>;

    /// Prolongs a lease by its time to live.
    ///
    /// # Errors
    /// As [`Self::list`]; [`CoordinatorError::LeaseExpired`] if it is gone.
    fn keep_alive(&self, lease: LeaseId) -> Result<(), CoordinatorError>;

    /// Ends a lease now and removes its keys. Revoking one that is gone changes nothing.
    ///
    /// # Errors
    /// As [`Self::list`].
    fn revoke_lease(&self, lease: LeaseId) -> Result<(), CoordinatorError>;
}

/// Shortest time to live of a lease. etcd counts leases in seconds.
pub const LEASE_TTL_MIN: Duration = Duration::from_secs(1);

/// Refuses a time to live that a home cannot keep.
///
/// # Errors
/// [`CoordinatorError::Invalid`] below [`LEASE_TTL_MIN`].
pub(crate) fn check_ttl(ttl: Duration) -> Result<(), CoordinatorError> {
    if ttl < LEASE_TTL_MIN {
        let why = format!("a lease of {ttl:?}, {LEASE_TTL_MIN:?} at least");
        return Err(CoordinatorError::Invalid(why));
    }
    Ok(())
}

/// The changes under a prefix, in order.
pub trait Watch: Send {
    /// Waits up to `timeout` for changes. An empty list means that none came. The changes of one
    /// commit come together.
    ///
    /// # Errors
    /// [`CoordinatorError::Compacted`] if changes were missed: the watch has ended.
    /// [`CoordinatorError::Unavailable`] while the home does not answer: the watch goes on by itself
    /// and misses nothing.
    fn changes(&mut self, timeout: Duration) -> Result<Vec<Change>, CoordinatorError>;
}
