//! The table itself: a pure state machine over commands.
//!
//! ```text
//! Command ──▶ Table::apply ──▶ Reply      state: keys with revisions, leases, recent changes
//! ```
//!
//! The file home applies commands from its journal, and a consensus home would apply them from its
//! log; both reach the same table. Nothing here reads a clock: a lease has no deadline in the table,
//! and its expiry is a command. [`Deadlines`] keeps the deadlines beside it.

mod deadlines;
#[cfg(test)]
mod tests;

pub use deadlines::Deadlines;

use crate::{
    error::CoordinatorError,
    key::{Key, LeaseId, Revision},
    transaction::{Change, CommitOutcome, KeyValue, Listing, Transaction, Write},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

/// Commits whose changes are kept for watchers that come back.
pub const HISTORY_COMMITS_MAX: usize = 10_000;
/// Bytes of changes that are kept for watchers that come back.
pub const HISTORY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Most leases at a time.
pub const LEASES_MAX: usize = 65_536;

/// One change of the table. A command is applied as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Applies a transaction.
    Commit(Transaction),
    /// Grants a lease of this time to live, in milliseconds.
    Grant {
        /// The time to live, in milliseconds.
        ttl_ms: u64,
    },
    /// Ends a lease: it expired or was revoked.
    End {
        /// The lease.
        lease: LeaseId,
    },
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The answer to [`Command::Commit`].
    Commit(CommitOutcome),
    /// The answer to [`Command::Grant`].
    Lease(LeaseId),
    /// The answer to [`Command::End`].
    Ended,
}

/// A key's value and what is known about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Cell {
    value: Vec<u8>,
    modified: Revision,
    lease: Option<LeaseId>,
}

/// A lease and the keys bound to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Lease {
    ttl_ms: u64,
    keys: BTreeSet<Key>,
}

/// The state that a snapshot holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Contents {
    revision: Revision,
    cells: BTreeMap<Key, Cell>,
    leases: BTreeMap<LeaseId, Lease>,
    leases_granted: i64,
}

/// Keys, leases and recent changes.
#[derive(Clone, Debug, Default)]
pub struct Table {
    contents: Contents,
    /// Changes of the newest commits, in order; all after `compacted` are here.
    history: VecDeque<Vec<Change>>,
    history_bytes: usize,
    /// Changes up to this revision are no longer kept.
    compacted: Revision,
}

impl Table {
    /// The revision of the newest commit that changed something.
    #[must_use]
    pub fn revision(&self) -> Revision {
        self.contents.revision
    }

    /// Applies a command.
    ///
    /// # Errors
    /// [`CoordinatorError::Invalid`] if it breaks a limit and [`CoordinatorError::LeaseExpired`] if
    /// a put names a lease that is gone; the table is as before.
    pub fn apply(&mut self, command: &Command) -> Result<Reply, CoordinatorError> {
        match command {
            Command::Commit(transaction) => self.commit(transaction).map(Reply::Commit),
            Command::Grant { ttl_ms } => self.grant(*ttl_ms).map(Reply::Lease),
            Command::End { lease } => {
                self.end(*lease);
                Ok(Reply::Ended)
            }
        }
    }

    fn commit(&mut self, transaction: &Transaction) -> Result<CommitOutcome, CoordinatorError> {
        transaction.check()?;
        for write in &transaction.writes {
            if let Write::Put { lease: Some(lease), .. } = write
                && !self.contents.leases.contains_key(lease)
            {
                return Err(CoordinatorError::LeaseExpired(*lease));
            }
        }
        let holds = transaction.comparisons.iter().all(|it| self.modified(&it.key) == it.modified);
        if !holds {
            return Ok(CommitOutcome::Refused(self.revision()));
        }
        Ok(CommitOutcome::Applied(self.write(&transaction.writes)))
    }

    fn modified(&self, key: &Key) -> Revision {
        self.contents.cells.get(key).map_or(Revision::NONE, |cell| cell.modified)
    }

    /// Applies writes as one commit. Writes that change nothing make no revision.
    fn write(&mut self, writes: &[Write]) -> Revision {
        let revision = self.revision().next();
        let mut changes = Vec::new();
        for write in writes {
            match write {
                Write::Put { key, value, lease } => {
                    let cell = Cell { value: value.clone(), modified: revision, lease: *lease };
                    let before = self.contents.cells.insert(key.clone(), cell);
                    self.unbind(key, before.and_then(|it| it.lease));
                    if let Some(lease) = lease.and_then(|it| self.contents.leases.get_mut(&it)) {
                        lease.keys.insert(key.clone());
                    }
                    changes.push(Change { revision, key: key.clone(), value: Some(value.clone()) });
                }
                Write::Delete { key } => {
                    if let Some(before) = self.contents.cells.remove(key) {
                        self.unbind(key, before.lease);
                        changes.push(Change { revision, key: key.clone(), value: None });
                    }
                }
            }
        }
        if changes.is_empty() {
            return self.revision();
        }
        self.contents.revision = revision;
        self.remember(changes);
        revision
    }

    fn unbind(&mut self, key: &Key, lease: Option<LeaseId>) {
        if let Some(lease) = lease.and_then(|it| self.contents.leases.get_mut(&it)) {
            lease.keys.remove(key);
        }
    }

    fn remember(&mut self, changes: Vec<Change>) {
        self.history_bytes += bytes(&changes);
        self.history.push_back(changes);
        while self.history.len() > HISTORY_COMMITS_MAX || self.history_bytes > HISTORY_BYTES_MAX {
            self.compact_oldest();
        }
    }

    fn compact_oldest(&mut self) {
        if let Some(oldest) = self.history.pop_front() {
            self.history_bytes -= bytes(&oldest);
            self.compacted = oldest.first().map_or(self.compacted, |it| it.revision);
        }
    }

    /// Forgets the changes up to a revision. Watchers from before it have to read anew.
    pub fn compact(&mut self, up_to: Revision) {
        while self.history.front().and_then(|it| it.first()).is_some_and(|it| it.revision <= up_to)
        {
            self.compact_oldest();
        }
    }

    fn grant(&mut self, ttl_ms: u64) -> Result<LeaseId, CoordinatorError> {
        crate::coordinator::check_ttl(Duration::from_millis(ttl_ms))?;
        if self.contents.leases.len() >= LEASES_MAX {
            return Err(CoordinatorError::Invalid(format!(
                "{LEASES_MAX} leases are there already"
            )));
        }
        self.contents.leases_granted += 1;
        let lease = LeaseId(self.contents.leases_granted);
        self.contents.leases.insert(lease, Lease { ttl_ms, keys: BTreeSet::new() });
        Ok(lease)
    }

    fn end(&mut self, lease: LeaseId) {
        let Some(ended) = self.contents.leases.remove(&lease) else { return };
        let deletes: Vec<Write> = ended.keys.into_iter().map(|key| Write::Delete { key }).collect();
        self.write(&deletes);
    }

    /// The time to live of a lease.
    ///
    /// # Errors
    /// [`CoordinatorError::LeaseExpired`] if it is gone.
    pub fn ttl(&self, lease: LeaseId) -> Result<Duration, CoordinatorError> {
        let found = self.contents.leases.get(&lease);
        found
            .map(|it| Duration::from_millis(it.ttl_ms))
            .ok_or(CoordinatorError::LeaseExpired(lease))
    }

    /// All leases with their times to live.
    pub fn leases(&self) -> impl Iterator<Item = (LeaseId, Duration)> {
        self.contents.leases.iter().map(|(id, it)| (*id, Duration::from_millis(it.ttl_ms)))
    }

    /// All keys that begin with `prefix`.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Listing {
        let entries = self
            .contents
            .cells
            .iter()
            .filter(|(key, _)| key.as_str().starts_with(prefix))
            .map(|(key, cell)| KeyValue {
                key: key.clone(),
                value: cell.value.clone(),
                modified: cell.modified,
                lease: cell.lease,
            })
            .collect();
        Listing { revision: self.revision(), entries }
    }

    /// The changes after a revision to keys that begin with `prefix`.
    ///
    /// # Errors
    /// [`CoordinatorError::Compacted`] if some of them are no longer kept;
    /// [`CoordinatorError::Replaced`] if the table has never been at that revision.
    pub fn changes(&self, prefix: &str, after: Revision) -> Result<Vec<Change>, CoordinatorError> {
        if after > self.revision() {
            let found = self.revision();
            return Err(CoordinatorError::Replaced { known: after, found });
        }
        if after < self.compacted {
            return Err(CoordinatorError::Compacted { after, oldest: self.compacted });
        }
        let is_later = |it: &&Change| it.revision > after && it.key.as_str().starts_with(prefix);
        Ok(self.history.iter().flatten().filter(is_later).cloned().collect())
    }

    /// The table as bytes, without its history.
    ///
    /// # Panics
    /// Never: all fields have an encoding.
    #[must_use]
    pub fn snapshot(&self) -> Vec<u8> {
        postcard::to_stdvec(&self.contents).expect("every field has an encoding")
    }

    /// The table of a snapshot. Its history begins there.
    ///
    /// # Errors
    /// [`CoordinatorError::Failed`] if the bytes are none.
    pub fn restore(bytes: &[u8]) -> Result<Self, CoordinatorError> {
        let (contents, rest): (Contents, &[u8]) =
            postcard::take_from_bytes(bytes).map_err(|error| {
                CoordinatorError::Failed(format!("a snapshot that cannot be read: {error}"))
            })?;
        if !rest.is_empty() {
            let why = format!("a snapshot with {} bytes behind it", rest.len());
            return Err(CoordinatorError::Failed(why));
        }
        let compacted = contents.revision;
        Ok(Self { contents, compacted, ..Self::default() })
    }
}

fn bytes(changes: &[Change]) -> usize {
    changes.iter().map(|it| it.key.as_str().len() + it.value.as_ref().map_or(0, Vec::len)).sum()
}
