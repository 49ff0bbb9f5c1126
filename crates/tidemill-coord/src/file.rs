//! The table in a local file: the home of one node, which needs nothing else to run.
//!
//! ```text
//! coordinator-0000000007.journal      record 0: head (version, generation, snapshot of the table)
//!                                     record 1 …: commands, each synced before it is answered
//! coordinator-0000000006.journal      the generation before, kept until the next one
//! ```
//!
//! Records are those of [`tidemill_wire::journal`]. A new generation begins once the commands of a
//! file outweigh its snapshot; it is written beside the others, synced, renamed and made durable
//! by name before the one before the last goes.
//!
//! Invariants:
//! - An answered commit is on the disk.
//! - A torn tail is cut: it was never answered. Any other damage is an error, and nothing is deleted.
//! - After a failed write or sync the home answers nothing more: what the disk holds is unknown.

use crate::{
    coordinator::{Coordinator, Watch, check_ttl},
    error::CoordinatorError,
    key::{LeaseId, Revision},
    table::{Command, Deadlines, Reply, Table},
    transaction::{Change, CommitOutcome, Listing, Transaction},
};
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tidemill_env::{
    DiskFile, DiskLock, World,
    lock::{Condvar, Mutex, MutexGuard},
};
use tidemill_wire::journal;

#[cfg(test)]
mod tests;

/// The version in the head of each file.
pub const COORDINATOR_VERSION: u8 = 1;
/// Commands in a file before a new generation may begin, in bytes.
const ROTATE_BYTES_MIN: u64 = 256 * 1024;
/// Files that are kept: the newest, and the one before it.
const GENERATIONS_KEPT: usize = 2;
/// The lock of the folder.
const LOCK_FILE: &str = "coordinator.lock";
/// Around the number of a generation in the name of its file.
const FILE_NAME: (&str, &str) = ("coordinator-", ".journal");

/// The first record of a file.
#[derive(Serialize, Deserialize)]
struct Head {
    version: u8,
    generation: u64,
    snapshot: Vec<u8>,
}

/// The table in a folder of this node.
pub struct FileCoordinator {
    home: Arc<Home>,
}

struct Home {
    world: World,
    folder: PathBuf,
    open: Mutex<OpenTable>,
    /// Signalled after every commit.
    changed: Condvar,
    _lock: Box<dyn DiskLock>,
}

/// The table and the file that its commands go to.
struct OpenTable {
    table: Table,
    deadlines: Deadlines,
    generation: u64,
    file: Box<dyn DiskFile>,
    snapshot_bytes: u64,
    command_bytes: u64,
    /// Why nothing more is answered.
    failure: Option<CoordinatorError>,
}

impl FileCoordinator {
    /// Opens the table of a folder, or begins one.
    ///
    /// # Errors
    /// [`CoordinatorError::Failed`] if the disk fails, if the files are damaged or of a newer
    /// version, or if another process has the folder.
    pub fn open(world: &World, folder: &Path) -> Result<Self, CoordinatorError> {
        let disk = &world.disk;
        disk.create_dir_all(folder).map_err(|error| failed(folder, &error))?;
        let lock_path = folder.join(LOCK_FILE);
        let lock = disk.lock(&lock_path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => CoordinatorError::Failed(format!(
                "{}: another process has this folder",
                folder.display()
            )),
            _ => failed(&lock_path, &error),
        })?;
        let generations = generations(world, folder)?;
        let open = match generations.last() {
            Some(newest) => recover(world, folder, *newest)?,
            None => {
                let table = Table::default();
                begin(world, folder, 1, table)?
            }
        };
        let open = Mutex::new(open);
        let home = Home {
            world: world.clone(),
            folder: folder.to_owned(),
            open,
            changed: Condvar::new(),
            _lock: lock,
        };
        Ok(Self { home: Arc::new(home) })
    }

    /// Forgets the changes up to a revision, as etcd's compaction does.
    ///
    /// # Errors
    /// As any call: the home has failed.
    pub fn compact(&self, up_to: Revision) -> Result<(), CoordinatorError> {
        self.home.lock()?.table.compact(up_to);
        self.home.changed.notify_all();
        Ok(())
    }
}

impl Home {
    /// The table with all leases ended whose deadline has passed.
    fn lock(&self) -> Result<MutexGuard<'_, OpenTable>, CoordinatorError> {
        let mut open = self.open.lock();
        self.end_expired(&mut open)?;
        Ok(open)
    }

    fn end_expired(&self, open: &mut OpenTable) -> Result<(), CoordinatorError> {
        open.check()?;
        for lease in open.deadlines.expired(self.world.clock.monotonic_micros()) {
            self.apply(open, &Command::End { lease })?;
            open.deadlines.remove(lease);
        }
        Ok(())
    }

    /// Applies a command, makes it durable, and wakes watchers.
    fn apply(&self, open: &mut OpenTable, command: &Command) -> Result<Reply, CoordinatorError> {
        open.check()?;
        // The command is tried on the table first: a refused one is not written.
        let before = open.table.revision();
        let reply = open.table.apply(command)?;
        let has_changed = open.table.revision() != before || !matches!(command, Command::Commit(_));
        if !has_changed {
            return Ok(reply);
        }
        let record = postcard::to_stdvec(command).expect("every field has an encoding");
        let mut framed = Vec::new();
        journal::append(&mut framed, &record);
        let written = open.file.append(&framed).and_then(|()| open.file.sync());
        self.changed.notify_all();
        if let Err(error) = written {
            let failure = failed(&path(&self.folder, open.generation), &error);
            open.failure = Some(failure.clone());
            return Err(failure);
        }
        open.command_bytes += framed.len() as u64;
        if open.command_bytes > open.snapshot_bytes.max(ROTATE_BYTES_MIN) {
            self.rotate(open);
        }
        Ok(reply)
    }

    /// Begins a new generation. A failure leaves the old file in use: everything is in it.
    fn rotate(&self, open: &mut OpenTable) {
        let generation = open.generation + 1;
        let table = std::mem::take(&mut open.table);
        match write_generation(&self.world, &self.folder, generation, &table) {
            Ok((file, snapshot_bytes)) => {
                open.generation = generation;
                open.file = file;
                open.snapshot_bytes = snapshot_bytes;
                open.command_bytes = 0;
                if let Err(error) = remove_old(&self.world, &self.folder) {
                    tracing::warn!(%error, "an old file of the coordinator stays");
                }
            }
            Err(error) => {
                open.command_bytes = 0;
                tracing::warn!(%error, "the coordinator's journal goes on in its old file");
            }
        }
        open.table = table;
    }
}

impl OpenTable {
    fn check(&self) -> Result<(), CoordinatorError> {
        self.failure.clone().map_or(Ok(()), Err)
    }
}

impl Coordinator for FileCoordinator {
    fn list(&self, prefix: &str) -> Result<Listing, CoordinatorError> {
        Ok(self.home.lock()?.table.list(prefix))
    }

    fn commit(&self, transaction: &Transaction) -> Result<CommitOutcome, CoordinatorError> {
        let mut open = self.home.lock()?;
        match self.home.apply(&mut open, &Command::Commit(transaction.clone()))? {
            Reply::Commit(committed) => Ok(committed),
            Reply::Lease(_) | Reply::Ended => unreachable!("a commit is answered by a commit"),
        }
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, CoordinatorError> {
        // A watch that can never begin fails here, not at its first reading.
        self.home.lock()?.table.changes(prefix, after)?;
        let home = Arc::clone(&self.home);
        Ok(Box::new(FileWatch { home, prefix: prefix.to_owned(), after }))
    }

    fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, CoordinatorError> {
        check_ttl(ttl)?;
        let mut open = self.home.lock()?;
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        match self.home.apply(&mut open, &Command::Grant { ttl_ms })? {
            Reply::Lease(lease) => {
                open.deadlines.prolong(lease, ttl, self.home.world.clock.monotonic_micros());
                Ok(lease)
            }
            Reply::Commit(_) | Reply::Ended => unreachable!("a grant is answered by a lease"),
        }
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        let mut open = self.home.lock()?;
        let ttl = open.table.ttl(lease)?;
        open.deadlines.prolong(lease, ttl, self.home.world.clock.monotonic_micros());
        Ok(())
    }

    fn revoke_lease(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        let mut open = self.home.lock()?;
        if open.table.ttl(lease).is_ok() {
            self.home.apply(&mut open, &Command::End { lease })?;
            open.deadlines.remove(lease);
        }
        Ok(())
    }
}

/// A watch of the table in this process.
struct FileWatch {
    home: Arc<Home>,
    prefix: String,
    after: Revision,
}

impl Watch for FileWatch {
    fn changes(&mut self, timeout: Duration) -> Result<Vec<Change>, CoordinatorError> {
        let clock = &self.home.world.clock;
        let timeout_us = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        let deadline_us = clock.monotonic_micros().saturating_add(timeout_us);
        let mut open = self.home.lock()?;
        loop {
            let changes = open.table.changes(&self.prefix, self.after)?;
            self.after = open.table.revision();
            let now_us = clock.monotonic_micros();
            if !changes.is_empty() || now_us >= deadline_us {
                return Ok(changes);
            }
            let expires_us = open.deadlines.next_us().unwrap_or(u64::MAX);
            let wait = Duration::from_micros(deadline_us.min(expires_us).saturating_sub(now_us));
            open = self.home.changed.wait_timeout(open, wait).0;
            self.home.end_expired(&mut open)?;
        }
    }
}

fn failed(path: &Path, error: &io::Error) -> CoordinatorError {
    CoordinatorError::Failed(format!("{}: {error}", path.display()))
}

fn path(folder: &Path, generation: u64) -> PathBuf {
    let (before, behind) = FILE_NAME;
    folder.join(format!("{before}{generation:010}{behind}"))
}

/// The generations whose files are in a folder, sorted.
fn generations(world: &World, folder: &Path) -> Result<Vec<u64>, CoordinatorError> {
    let (before, behind) = FILE_NAME;
    let files = world.disk.list(folder).map_err(|error| failed(folder, &error))?;
    let number = |file: &PathBuf| {
        let name = file.file_name()?.to_str()?;
        name.strip_prefix(before)?.strip_suffix(behind)?.parse().ok()
    };
    let mut found: Vec<u64> = files.iter().filter_map(number).collect();
    found.sort_unstable();
    Ok(found)
}

fn remove_old(world: &World, folder: &Path) -> Result<(), CoordinatorError> {
    let all = generations(world, folder)?;
    for old in &all[..all.len().saturating_sub(GENERATIONS_KEPT)] {
        let path = path(folder, *old);
        world.disk.remove(&path).map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

/// Writes the file of a generation; gives the file to append to, and the length of its head.
fn write_generation(
    world: &World,
    folder: &Path,
    generation: u64,
    table: &Table,
) -> Result<(Box<dyn DiskFile>, u64), CoordinatorError> {
    let head = Head { version: COORDINATOR_VERSION, generation, snapshot: table.snapshot() };
    let mut bytes = Vec::new();
    journal::append(&mut bytes, &postcard::to_stdvec(&head).expect("every field has an encoding"));
    let target = path(folder, generation);
    let draft = target.with_extension("new");
    let write = || -> io::Result<Box<dyn DiskFile>> {
        let mut file = world.disk.create(&draft)?;
        file.append(&bytes)?;
        file.sync()?;
        drop(file);
        world.disk.rename(&draft, &target)?;
        world.disk.sync_dir(folder)?;
        world.disk.open_append(&target)
    };
    let file = write().map_err(|error| failed(&target, &error))?;
    Ok((file, bytes.len() as u64))
}

fn begin(
    world: &World,
    folder: &Path,
    generation: u64,
    table: Table,
) -> Result<OpenTable, CoordinatorError> {
    let (file, snapshot_bytes) = write_generation(world, folder, generation, &table)?;
    let deadlines = Deadlines::anew(&table, world.clock.monotonic_micros());
    Ok(OpenTable {
        table,
        deadlines,
        generation,
        file,
        snapshot_bytes,
        command_bytes: 0,
        failure: None,
    })
}

/// Reads the newest file and goes on in a new generation, which a sync of this life has covered:
/// a process that died may not have synced what can be read.
fn recover(world: &World, folder: &Path, newest: u64) -> Result<OpenTable, CoordinatorError> {
    let file = path(folder, newest);
    let bytes = world.disk.read(&file).map_err(|error| failed(&file, &error))?;
    let damaged = |why: String| CoordinatorError::Failed(format!("{}: {why}", file.display()));
    let (records, _, stopped) = journal::read(&bytes);
    if let Some(error) = stopped.filter(|error| !error.is_torn_tail()) {
        return Err(damaged(format!("{error}; restore the file from a backup")));
    }
    let Some((head, commands)) = records.split_first() else {
        return Err(damaged("its head is not whole; restore the file from a backup".into()));
    };
    let unreadable =
        |error: postcard::Error| damaged(format!("a record that cannot be read: {error}"));
    // The version is read first: a later one may have other fields behind it.
    let version = head.first().copied();
    if version != Some(COORDINATOR_VERSION) {
        let found = version.map_or_else(|| "none".to_owned(), |it| it.to_string());
        return Err(damaged(format!("version {found}, this program reads {COORDINATOR_VERSION}")));
    }
    let head: Head = postcard::from_bytes(head).map_err(unreadable)?;
    if head.generation != newest {
        return Err(damaged(format!("it is generation {} under another name", head.generation)));
    }
    let mut table = Table::restore(&head.snapshot)?;
    for record in commands {
        let command: Command = postcard::from_bytes(record).map_err(unreadable)?;
        table
            .apply(&command)
            .map_err(|error| damaged(format!("a command that does not apply: {error}")))?;
    }
    let open = begin(world, folder, newest + 1, table)?;
    remove_old(world, folder)?;
    Ok(open)
}
