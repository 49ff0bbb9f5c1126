//! The redb database in a store's file: opening, reading, one transaction.
//!
//! A new file is made under another name and renamed when it is whole. redb may panic on a file
//! whose pages lie, so each call into it is guarded: a panic is damage.

use super::{
    StoreBatch, StoreError, StoreTable,
    backend::{Backend, DiskFailure},
    disk_error,
};
use redb::{ReadableDatabase, TableDefinition, TableError};
use std::{
    any::Any,
    io,
    ops::ControlFlow,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{DiskLock, World};
use tidemill_wire::chunk::crc32c;

/// Pages that redb keeps in memory, in bytes.
const CACHE_BYTES: usize = 16 << 20;
/// The table of the count of committed transactions.
const COUNT: TableDefinition<'static, &str, u64> = TableDefinition::new("transaction-count");
const COUNT_KEY: &str = "count";

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;
type Visit<'a> = dyn FnMut(&[u8], &[u8]) -> ControlFlow<()> + 'a;
type TableReading = redb::ReadOnlyTable<&'static [u8], &'static [u8]>;

const fn definition(table: StoreTable) -> Definition {
    TableDefinition::new(table.name())
}

/// An open file.
pub(super) struct Database {
    redb: redb::Database,
    file: PathBuf,
    trouble: Arc<DiskFailure>,
    /// Let go of after the file.
    _lock: Box<dyn DiskLock>,
}

/// The file under another name, with something after it.
fn beside(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn damaged(file: &Path, why: impl ToString) -> StoreError {
    StoreError::Damaged { file: file.to_owned(), why: why.to_string() }
}

/// A call into redb whose panic means damage.
fn guarded<T>(file: &Path, call: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let why = panic_text(&*panic);
        Err(damaged(file, format!("its pages make no sense ({why})")))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason")
}

/// redb's error: the disk's, if the disk had one, else damage.
fn told(file: &Path, trouble: &DiskFailure, error: impl ToString) -> StoreError {
    refused(file, trouble).unwrap_or_else(|| damaged(file, error))
}

/// The disk's refusal, if there was one.
fn refused(file: &Path, trouble: &DiskFailure) -> Option<StoreError> {
    let (error, sync) = trouble.first()?;
    Some(if sync {
        StoreError::Failed { file: file.to_owned(), why: format!("a sync failed: {error}") }
    } else {
        disk_error(file, &error)
    })
}

fn redb_at(
    world: &World,
    file: &Path,
    trouble: &Arc<DiskFailure>,
) -> Result<redb::Database, StoreError> {
    let placed = world.disk.open_random_access(file).map_err(|error| disk_error(file, &error))?;
    let backend = Backend { file: placed, trouble: Arc::clone(trouble) };
    let opened = guarded(file, || {
        let mut builder = redb::Database::builder();
        builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(true);
        builder.create_with_backend(backend).map_err(|error| told(file, trouble, error))
    });
    // A panic after the disk refused something is the disk's doing too.
    opened.map_err(|error| refused(file, trouble).unwrap_or(error))
}

impl Database {
    /// Opens the file, or makes it.
    pub(super) fn open(world: &World, file: &Path) -> Result<Self, StoreError> {
        let said = |error: io::Error| disk_error(file, &error);
        let disk = &*world.disk;
        let locked = beside(file, ".lock");
        let lock = disk.lock(&locked).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => StoreError::InUse { file: file.to_owned() },
            _ => disk_error(&locked, &error),
        })?;
        if !disk.exists(file).map_err(said)? {
            let new = beside(file, ".new");
            match disk.remove(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(said(error)),
                _ => {}
            }
            let trouble = Arc::new(DiskFailure::default());
            drop(redb_at(world, &new, &trouble)?);
            if let Some(error) = refused(file, &trouble) {
                return Err(error);
            }
            disk.rename(&new, file).map_err(said)?;
        } else if disk.open_read(file).and_then(|it| it.length()).map_err(said)? == 0 {
            return Err(damaged(file, "it is empty"));
        }
        disk.sync_dir(file.parent().unwrap_or(Path::new(""))).map_err(said)?;
        let trouble = Arc::new(DiskFailure::default());
        let redb = redb_at(world, file, &trouble)?;
        let database = Self { redb, file: file.to_owned(), trouble, _lock: lock };
        for table in StoreTable::ALL {
            database.scan(table, &[], &mut |_, _| ControlFlow::Continue(()))?;
        }
        Ok(database)
    }

    /// True if the disk refused an operation other than a sync: the file may be opened again.
    pub(super) fn can_reopen(&self) -> bool {
        self.trouble.first().is_some_and(|(_, sync)| !sync)
    }

    /// True if the file may have taken a decision about a transaction since the last call.
    pub(super) fn take_decided(&self) -> bool {
        self.trouble.take_decided()
    }

    fn told(&self, error: impl ToString) -> StoreError {
        told(&self.file, &self.trouble, error)
    }

    fn reading(&self, table: StoreTable) -> Result<Option<TableReading>, StoreError> {
        let read = self.redb.begin_read().map_err(|error| self.told(error))?;
        match read.open_table(definition(table)) {
            Ok(table) => Ok(Some(table)),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(self.told(error)),
        }
    }

    pub(super) fn get(&self, table: StoreTable, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        guarded(&self.file, || {
            let Some(reading) = self.reading(table)? else { return Ok(None) };
            let Some(sealed) = reading.get(key).map_err(|error| self.told(error))? else {
                return Ok(None);
            };
            self.unsealed(table, key, sealed.value()).map(|it| Some(it.to_vec()))
        })
    }

    pub(super) fn scan(
        &self,
        table: StoreTable,
        prefix: &[u8],
        visit: &mut Visit<'_>,
    ) -> Result<(), StoreError> {
        guarded(&self.file, || {
            let Some(reading) = self.reading(table)? else { return Ok(()) };
            for entry in reading.range(prefix..).map_err(|error| self.told(error))? {
                let (key, sealed) = entry.map_err(|error| self.told(error))?;
                let key = key.value();
                if !key.starts_with(prefix) {
                    break;
                }
                if visit(key, self.unsealed(table, key, sealed.value())?).is_break() {
                    break;
                }
            }
            Ok(())
        })
    }

    /// The count of committed transactions.
    pub(super) fn count(&self) -> Result<u64, StoreError> {
        guarded(&self.file, || {
            let read = self.redb.begin_read().map_err(|error| self.told(error))?;
            let table = match read.open_table(COUNT) {
                Ok(table) => table,
                Err(TableError::TableDoesNotExist(_)) => return Ok(0),
                Err(error) => return Err(self.told(error)),
            };
            let count = table.get(COUNT_KEY).map_err(|error| self.told(error))?;
            Ok(count.map_or(0, |it| it.value()))
        })
    }

    /// Commits batches together, as transaction `count`, with one sync.
    pub(super) fn apply<'a>(
        &self,
        count: u64,
        batches: impl Iterator<Item = &'a StoreBatch>,
    ) -> Result<(), StoreError> {
        guarded(&self.file, || {
            let mut write = self.redb.begin_write().map_err(|error| self.told(error))?;
            // In two steps, so that damage to the newest transaction cannot be taken for one that
            // never ended. (A second sync, of one page.)
            write.set_two_phase_commit(true);
            // By table: a table is opened once in a transaction.
            let mut changes: Vec<_> = batches.flat_map(|it| &it.changes).collect();
            changes.sort_by_key(|it| it.table);
            for of_table in changes.chunk_by(|a, b| a.table == b.table) {
                let name = of_table[0].table;
                let mut table =
                    write.open_table(definition(name)).map_err(|error| self.told(error))?;
                for change in of_table {
                    let key = change.key.as_slice();
                    let done = match &change.value {
                        Some(value) => {
                            let sealed = sealed(name, key, value);
                            table.insert(key, sealed.as_slice()).map(|_before| ())
                        }
                        None => table.remove(key).map(|_before| ()),
                    };
                    done.map_err(|error| self.told(error))?;
                }
            }
            {
                let mut table = write.open_table(COUNT).map_err(|error| self.told(error))?;
                table.insert(COUNT_KEY, count).map_err(|error| self.told(error))?;
            }
            write.commit().map_err(|error| self.told(error))
        })
    }

    /// A value without its checksum.
    fn unsealed<'v>(
        &self,
        table: StoreTable,
        key: &[u8],
        sealed: &'v [u8],
    ) -> Result<&'v [u8], StoreError> {
        let wrong =
            || damaged(&self.file, format!("a checksum in table {} is wrong", table.name()));
        let (value, crc) = sealed.split_last_chunk::<4>().ok_or_else(wrong)?;
        if checksum(table, key, value) != u32::from_be_bytes(*crc) {
            return Err(wrong());
        }
        Ok(value)
    }
}

/// A value with its checksum behind it.
fn sealed(table: StoreTable, key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(value.len() + 4);
    sealed.extend_from_slice(value);
    sealed.extend_from_slice(&checksum(table, key, value).to_be_bytes());
    sealed
}

/// Over table, key and value, each after its length.
fn checksum(table: StoreTable, key: &[u8], value: &[u8]) -> u32 {
    let mut bytes = Vec::with_capacity(key.len() + value.len() + 40);
    for part in [table.name().as_bytes(), key, value] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    crc32c(&bytes)
}
