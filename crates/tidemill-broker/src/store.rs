//! The broker's durable metadata beside the log: group offsets, groups, producers, transactions.
//!
//! ```text
//! commit(batch) ─▶ queue ─▶ one thread: all batches that wait ─▶ one redb transaction
//!      ▲                                                              │
//!      └───────────────────── durable, or why not ◀───────────────────┘
//! get, scan ─▶ committed entries
//! ```
//!
//! Tables are a closed list, keys and values are bytes, whose forms are in `tidemill-wire`. The file
//! is a redb database over [`tidemill_env::Disk`] ([`backend`]); beside each value stands a
//! checksum over table, key and value.
//!
//! Invariants:
//!
//! - A batch is applied wholly or not at all, and batches in the order in which they were handed in.
//! - A committed batch is there after a power cut. A refused one is not, unless the store has
//!   failed: then only the next start knows.
//! - After a failed sync nothing is committed any more until the process starts again, as the state
//!   of the disk is unknown. Any other error of the disk, a full one say, costs the batches that
//!   met it and no others.
//! - A damaged file is refused as it is, and nothing is deleted.
//!
//! The whole file is read and checked when it is opened, so keep small things in it.

mod backend;
mod database;
#[cfg(test)]
mod tests;
mod writer;

use database::Database;
use std::{
    future::Future,
    io,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError, RwLock, mpsc},
    thread::ThreadId,
};
use tidemill_env::{FOLDER_ADVICE, Thread, World};
use tokio::sync::oneshot;
use writer::{CommitRequest, StoreWriter};

/// Bytes that one batch may have.
const BATCH_BYTES_MAX: usize = 64 << 20;
/// Bytes that a key may have: names of clients are shorter than 32 KiB each.
const KEY_BYTES_MAX: usize = 128 << 10;

/// A table. Its name is in the file and never changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoreTable {
    /// The broker's own entries.
    Settings,
    /// Producers of partitions. ([`tidemill_wire::producers`].)
    Producers,
    /// Transactions by their transactional ids. ([`tidemill_wire::transactions`].)
    Transactions,
    /// Consumer groups.
    Groups,
    /// Offsets that groups committed.
    Offsets,
    /// Offsets that open transactions hold for groups.
    PendingOffsets,
}

impl StoreTable {
    pub(crate) const ALL: [Self; 6] = [
        Self::Settings,
        Self::Producers,
        Self::Transactions,
        Self::Groups,
        Self::Offsets,
        Self::PendingOffsets,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::Producers => "producers",
            Self::Transactions => "transactions",
            Self::Groups => "groups",
            Self::Offsets => "offsets",
            Self::PendingOffsets => "pending-offsets",
        }
    }
}

/// Why the store does not do something.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file is damaged.
    #[error(
        "{} is damaged: {why}. Nothing was changed in it. Put back a copy of it, or move it away: \
         the broker then starts without committed group offsets, producer ids and open \
         transactions; the streams themselves are not in this file", file.display()
    )]
    Damaged {
        /// Which file.
        file: PathBuf,
        /// The damage.
        why: String,
    },
    /// Another process has the file.
    #[error("{} is in use by another process", file.display())]
    InUse {
        /// Which file.
        file: PathBuf,
    },
    /// The disk refused the operation. Nothing changed, and it may be tried again.
    #[error("{}: {why}", file.display())]
    Disk {
        /// Which file.
        file: PathBuf,
        /// The disk's error.
        why: String,
        /// There is no room.
        full: bool,
    },
    /// The store takes no more commits until the process starts again.
    #[error("{} takes no more changes until the node is started again: {why}", file.display())]
    Failed {
        /// Which file.
        file: PathBuf,
        /// The error.
        why: String,
    },
    /// The batch is larger than a batch may be.
    #[error("a batch of {bytes} bytes is too large")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}

/// Changes that happen together.
#[derive(Clone, Debug, Default)]
pub(crate) struct StoreBatch {
    changes: Vec<TableChange>,
    bytes: usize,
    too_long: bool,
}

#[derive(Clone, Debug)]
struct TableChange {
    table: StoreTable,
    key: Vec<u8>,
    /// None: it is removed.
    value: Option<Vec<u8>>,
}

impl StoreBatch {
    /// Sets a value.
    pub(crate) fn put(
        &mut self,
        table: StoreTable,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
    ) {
        self.add(TableChange { table, key: key.into(), value: Some(value.into()) });
    }

    /// Removes a value, if it is there.
    pub(crate) fn delete(&mut self, table: StoreTable, key: impl Into<Vec<u8>>) {
        self.add(TableChange { table, key: key.into(), value: None });
    }

    /// Adds the changes of another, after those that are here.
    pub(crate) fn append(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.too_long |= other.too_long;
        self.changes.extend(other.changes);
    }

    /// True if it has no changes.
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    fn add(&mut self, change: TableChange) {
        self.bytes += change.key.len() + change.value.as_ref().map_or(0, Vec::len);
        self.too_long |= change.key.len() > KEY_BYTES_MAX;
        self.changes.push(change);
    }
}

/// Called once, when a batch is durable, or with the reason why it is not there. It runs on the
/// store's thread: it must be quick.
pub(crate) type OnCommitted = Box<dyn FnOnce(Result<(), StoreError>) + Send>;

/// The state shared by the store and its thread.
struct StoreState {
    world: World,
    file: PathBuf,
    /// Why nothing is committed any more.
    failed: RwLock<Option<StoreError>>,
    /// None while it cannot be opened again after an error, and after the end.
    database: RwLock<Option<Database>>,
    /// The store's own thread, once it runs.
    writer: OnceLock<ThreadId>,
}

/// The metadata file of a broker. Dropping it commits pending batches and closes the file.
pub(crate) struct MetadataStore {
    shared: Arc<StoreState>,
    /// None once it is closed.
    queue: Mutex<Option<mpsc::Sender<CommitRequest>>>,
    thread: Mutex<Option<Box<dyn Thread>>>,
}

impl std::fmt::Debug for MetadataStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store({})", self.shared.file.display())
    }
}

impl MetadataStore {
    /// Opens the file, which is made if it is not there; its folder must be there. All of it is
    /// read and checked.
    ///
    /// # Errors
    /// It is damaged, in use, or the disk refuses.
    pub(crate) fn open(world: &World, file: &Path) -> Result<Self, StoreError> {
        let database = Database::open(world, file)?;
        let shared = Arc::new(StoreState {
            world: world.clone(),
            file: file.to_owned(),
            failed: RwLock::new(None),
            database: RwLock::new(Some(database)),
            writer: OnceLock::new(),
        });
        let (queue, requests) = mpsc::channel();
        let writer = StoreWriter::new(Arc::clone(&shared), requests);
        let thread = world.spawn.spawn("broker-store", Box::new(move || writer.run()));
        Ok(Self { shared, queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)) })
    }

    /// A value.
    ///
    /// # Errors
    /// It cannot be read.
    pub(crate) fn get(&self, table: StoreTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.shared.read(|database| database.get(table, key))
    }

    /// Visits all keys that begin with `prefix`, in their order, as of one moment, until the
    /// visitor breaks.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn scan(
        &self,
        table: StoreTable,
        prefix: &[u8],
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        self.shared.read(|database| database.scan(table, prefix, &mut visit))
    }

    /// Commits a batch. It is handed in when this is called, not when the future is polled first;
    /// dropping the future does not take it back.
    ///
    /// The future's errors: the batch is not there; or, with [`StoreError::Failed`], nobody knows.
    pub(crate) fn commit(
        &self,
        batch: StoreBatch,
    ) -> impl Future<Output = Result<(), StoreError>> + Send + use<> {
        let (done, waits) = oneshot::channel();
        let notice = move |outcome| {
            let _nobody_waits = done.send(outcome);
        };
        let refused = self.commit_then(batch, Box::new(notice));
        async move {
            refused?;
            waits.await.unwrap_or(Err(StoreError::Closed))
        }
    }

    /// Commits a batch and waits for it. Not for async code.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub(crate) fn commit_blocking(&self, batch: StoreBatch) -> Result<(), StoreError> {
        let (done, waits) = mpsc::sync_channel(1);
        let notice = move |outcome| {
            let _nobody_waits = done.send(outcome);
        };
        self.commit_then(batch, Box::new(notice))?;
        waits.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Commits a batch and calls back, never on this thread: the caller may hold a lock that the
    /// notice takes.
    ///
    /// # Errors
    /// The batch is refused at once; then the notice is dropped.
    pub(crate) fn commit_then(
        &self,
        batch: StoreBatch,
        notice: OnCommitted,
    ) -> Result<(), StoreError> {
        if batch.bytes > BATCH_BYTES_MAX || batch.too_long {
            return Err(StoreError::TooLarge { bytes: batch.bytes });
        }
        if let Some(error) = self.shared.failure() {
            return Err(error);
        }
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queue.as_ref().ok_or(StoreError::Closed)?;
        queue.send(CommitRequest { batch, notice }).map_err(|_| StoreError::Closed)
    }

    /// The error that a table has forms in it which this node does not know.
    pub(crate) fn unreadable(&self, table: StoreTable) -> StoreError {
        StoreError::Damaged {
            file: self.shared.file.clone(),
            why: format!("table {} has entries that a newer node wrote", table.name()),
        }
    }

    /// Why nothing is committed any more; none while all is well.
    pub(crate) fn failure(&self) -> Option<StoreError> {
        self.shared.failure()
    }

    /// Commits pending batches and closes the file. Later commits are refused.
    pub(crate) fn close(&self) {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(queue);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A notice may hold the last reference to a store: then its own thread closes it.
        let is_writer = self.shared.writer.get() == Some(&std::thread::current().id());
        if let Some(thread) = thread.filter(|_| !is_writer) {
            thread.join();
        }
        self.shared.database.write().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for MetadataStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl StoreState {
    fn failure(&self) -> Option<StoreError> {
        self.failed.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Database) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        match &*database {
            Some(database) => read(database),
            None => Err(self.failure().unwrap_or(StoreError::Closed)),
        }
    }
}

/// A disk's error as one of the store.
fn disk_error(file: &Path, error: &io::Error) -> StoreError {
    let full = tidemill_env::has_no_room(error);
    let why = match error.kind() {
        io::ErrorKind::IsADirectory => format!("{error}. {FOLDER_ADVICE}"),
        _ => error.to_string(),
    };
    StoreError::Disk { file: file.to_owned(), why, full }
}
