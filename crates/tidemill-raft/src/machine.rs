//! The state machine: the table of a voter, as of the last entry that most voters have.
//!
//! The table is in memory. A restart takes the newest snapshot, and the library applies the entries
//! after it again, so the revision of a voter's table may be behind for a moment: reads go to the
//! leader, and a watch that is ahead of the table waits for it.

use crate::{
    snapshot,
    voter::{CommandOutcome, TableRaft, Voter},
};
use openraft::{
    Entry, EntryPayload, LogId, OptionalSend, RaftSnapshotBuilder, Snapshot, SnapshotMeta,
    StorageError, StorageIOError, StoredMembership, storage::RaftStateMachine,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tidemill_coord::{Change, CoordinatorError, Listing, Revision, table::Table};
use tidemill_env::{
    World,
    lock::{Condvar, Mutex},
};

/// The table of a voter, shared by the library and by readers.
pub struct Machine {
    world: World,
    folder: PathBuf,
    state: Mutex<MachineState>,
    /// Signalled when entries were applied.
    applied: Condvar,
}

#[derive(Default)]
struct MachineState {
    table: Table,
    last_applied: Option<LogId<u64>>,
    membership: StoredMembership<u64, Voter>,
}

impl Machine {
    /// The table of the newest snapshot in a folder; an empty one if there is none.
    ///
    /// # Errors
    /// The disk's; [`io::ErrorKind::InvalidData`] for a damaged snapshot.
    pub fn open(world: &World, folder: &Path) -> io::Result<Self> {
        let state = match snapshot::read(world, folder)? {
            None => MachineState::default(),
            Some(Snapshot { meta, snapshot }) => MachineState::restore(&meta, &snapshot)?,
        };
        Ok(Self {
            world: world.clone(),
            folder: folder.to_owned(),
            state: Mutex::new(state),
            applied: Condvar::new(),
        })
    }

    /// All keys under a prefix, in the table of this voter.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Listing {
        self.state.lock().table.list(prefix)
    }

    /// Runs `body` with the table.
    pub fn with_table<T>(&self, body: impl FnOnce(&Table) -> T) -> T {
        body(&self.state.lock().table)
    }

    /// The changes after a revision, and the table's revision. It waits until there is one, or until
    /// the timeout has passed; a revision that this voter has not reached yet is waited for, too.
    ///
    /// # Errors
    /// [`CoordinatorError::Compacted`] if some of the changes are no longer kept.
    pub fn changes(
        &self,
        prefix: &str,
        after: Revision,
        timeout: Duration,
    ) -> Result<(Vec<Change>, Revision), CoordinatorError> {
        let clock = &self.world.clock;
        let timeout_us = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        let deadline_us = clock.monotonic_micros().saturating_add(timeout_us);
        let mut state = self.state.lock();
        loop {
            let revision = state.table.revision();
            let is_ahead = after > revision;
            let changes = if is_ahead { Vec::new() } else { state.table.changes(prefix, after)? };
            let left_us = deadline_us.saturating_sub(clock.monotonic_micros());
            if !changes.is_empty() || left_us == 0 {
                return Ok((changes, revision.max(after)));
            }
            state = self.applied.wait_timeout(state, Duration::from_micros(left_us)).0;
        }
    }

    #[cfg(test)]
    pub(crate) fn compact(&self, up_to: Revision) {
        self.state.lock().table.compact(up_to);
        self.applied.notify_all();
    }

    fn snapshot(&self) -> Snapshot<TableRaft> {
        let state = self.state.lock();
        let revision = state.table.revision();
        let index = state.last_applied.map_or(0, |it| it.index);
        let meta = SnapshotMeta {
            last_log_id: state.last_applied,
            last_membership: state.membership.clone(),
            snapshot_id: format!("{index}-{revision}"),
        };
        Snapshot { meta, snapshot: Box::new(state.table.snapshot()) }
    }

    fn apply(&self, entries: impl IntoIterator<Item = Entry<TableRaft>>) -> Vec<CommandOutcome> {
        let mut state = self.state.lock();
        let outcomes = entries.into_iter().map(|entry| state.apply(entry)).collect();
        drop(state);
        self.applied.notify_all();
        outcomes
    }
}

impl MachineState {
    fn restore(meta: &SnapshotMeta<u64, Voter>, table: &[u8]) -> io::Result<Self> {
        let damaged = |error: CoordinatorError| io::Error::new(io::ErrorKind::InvalidData, error);
        Ok(Self {
            table: Table::restore(table).map_err(damaged)?,
            last_applied: meta.last_log_id,
            membership: meta.last_membership.clone(),
        })
    }

    fn apply(&mut self, entry: Entry<TableRaft>) -> CommandOutcome {
        self.last_applied = Some(entry.log_id);
        match entry.payload {
            EntryPayload::Blank => CommandOutcome::None,
            EntryPayload::Normal(command) => match self.table.apply(&command) {
                Ok(reply) => CommandOutcome::Replied(reply),
                Err(error) => CommandOutcome::Refused(error),
            },
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(entry.log_id), membership);
                CommandOutcome::None
            }
        }
    }
}

/// A handle of the machine for the library.
#[derive(Clone)]
pub(crate) struct MachineHandle(pub(crate) Arc<Machine>);

fn snapshot_error(error: &io::Error) -> StorageError<u64> {
    StorageIOError::write_snapshot(None, error).into()
}

impl RaftSnapshotBuilder<TableRaft> for MachineHandle {
    async fn build_snapshot(&mut self) -> Result<Snapshot<TableRaft>, StorageError<u64>> {
        let Machine { world, folder, .. } = &*self.0;
        let built = self.0.snapshot();
        let written = snapshot::write(world, folder, &built.meta, &built.snapshot);
        written.map_err(|error| snapshot_error(&error))?;
        Ok(built)
    }
}

impl RaftStateMachine<TableRaft> for MachineHandle {
    type SnapshotBuilder = Self;

    async fn applied_state(
        &mut self,
    ) -> Result<(Option<LogId<u64>>, StoredMembership<u64, Voter>), StorageError<u64>> {
        let state = self.0.state.lock();
        Ok((state.last_applied, state.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<CommandOutcome>, StorageError<u64>>
    where
        I: IntoIterator<Item = Entry<TableRaft>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        Ok(self.0.apply(entries))
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Vec<u8>>, StorageError<u64>> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta<u64, Voter>,
        snapshot: Box<Vec<u8>>,
    ) -> Result<(), StorageError<u64>> {
        let Machine { world, folder, .. } = &*self.0;
        let restored = MachineState::restore(meta, &snapshot)
            .and_then(|state| snapshot::write(world, folder, meta, &snapshot).map(|()| state));
        *self.0.state.lock() = restored.map_err(|error| snapshot_error(&error))?;
        self.0.applied.notify_all();
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> Result<Option<Snapshot<TableRaft>>, StorageError<u64>> {
        let Machine { world, folder, .. } = &*self.0;
        snapshot::read(world, folder).map_err(|error| snapshot_error(&error))
    }
}
