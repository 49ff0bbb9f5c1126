//! Transactions: comparisons, and writes that happen together if all of them hold.

use crate::{
    error::CoordinatorError,
    key::{Key, LeaseId, Revision, VALUE_BYTES_MAX},
};
use serde::{Deserialize, Serialize};

/// Most comparisons and writes of one transaction. etcd refuses more than 128 operations.
pub const OPERATIONS_MAX: usize = 128;

/// The key was last changed at this revision; [`Revision::NONE`] if it is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Comparison {
    /// The key that is compared.
    pub key: Key,
    /// The revision that last changed it.
    pub modified: Revision,
}

/// One change to a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Write {
    /// Sets the value, and binds the key to a lease or to none.
    Put {
        /// The key.
        key: Key,
        /// The new value, [`VALUE_BYTES_MAX`] at most.
        value: Vec<u8>,
        /// The lease that the key disappears with.
        lease: Option<LeaseId>,
    },
    /// Removes the key. Removing an absent key changes nothing.
    Delete {
        /// The key.
        key: Key,
    },
}

impl Write {
    /// The key that is written.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

/// Comparisons and the writes that depend on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Transaction {
    /// All must hold.
    pub comparisons: Vec<Comparison>,
    /// Applied together. No key is written twice.
    pub writes: Vec<Write>,
}

impl Transaction {
    /// A transaction without comparisons and writes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Requires that the key was last changed at this revision.
    #[must_use]
    pub fn require(mut self, key: &Key, modified: Revision) -> Self {
        self.comparisons.push(Comparison { key: key.clone(), modified });
        self
    }

    /// Requires that the key is absent.
    #[must_use]
    pub fn require_absent(self, key: &Key) -> Self {
        self.require(key, Revision::NONE)
    }

    /// Sets the value of a key that outlives every lease.
    #[must_use]
    pub fn put(mut self, key: &Key, value: impl Into<Vec<u8>>) -> Self {
        self.writes.push(Write::Put { key: key.clone(), value: value.into(), lease: None });
        self
    }

    /// Sets the value of a key that disappears with the lease.
    #[must_use]
    pub fn put_leased(mut self, key: &Key, value: impl Into<Vec<u8>>, lease: LeaseId) -> Self {
        self.writes.push(Write::Put { key: key.clone(), value: value.into(), lease: Some(lease) });
        self
    }

    /// Removes a key.
    #[must_use]
    pub fn delete(mut self, key: &Key) -> Self {
        self.writes.push(Write::Delete { key: key.clone() });
        self
    }

    /// Checks the limits and that no key is written twice.
    ///
    /// # Errors
    /// [`CoordinatorError::Invalid`] names the offence.
    pub fn check(&self) -> Result<(), CoordinatorError> {
        let refuse = |why: String| Err(CoordinatorError::Invalid(why));
        let operations = self.comparisons.len().max(self.writes.len());
        if operations > OPERATIONS_MAX {
            return refuse(format!(
                "{operations} operations in a transaction, {OPERATIONS_MAX} at most"
            ));
        }
        let mut keys: Vec<&Key> = self.writes.iter().map(Write::key).collect();
        keys.sort_unstable();
        if let Some(pair) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return refuse(format!("the transaction writes {} twice", pair[0]));
        }
        for write in &self.writes {
            if let Write::Put { key, value, .. } = write
                && value.len() > VALUE_BYTES_MAX
            {
                let length = value.len();
                return refuse(format!(
                    "{key}: a value of {length} bytes, {VALUE_BYTES_MAX} at most"
                ));
            }
        }
        Ok(())
    }
}

/// What a transaction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommitOutcome {
    /// All comparisons held and the writes are applied, at this revision.
    Applied(Revision),
    /// A comparison did not hold. Nothing changed; the table is at this revision.
    Refused(Revision),
}

impl CommitOutcome {
    /// True if the writes are applied.
    #[must_use]
    pub fn is_applied(self) -> bool {
        matches!(self, Self::Applied(_))
    }
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision that last changed it.
    pub modified: Revision,
    /// The lease that it disappears with.
    pub lease: Option<LeaseId>,
}

/// All keys under a prefix at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The revision of the reading: a watch after it misses nothing.
    pub revision: Revision,
    /// Sorted by key.
    pub entries: Vec<KeyValue>,
}

/// One change of one key, as a watcher sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// The revision that made the change. Changes of one commit share it.
    pub revision: Revision,
    /// The key.
    pub key: Key,
    /// The new value; none if the key was removed.
    pub value: Option<Vec<u8>>,
}
