//! A file for each key, as S4's file system backend does it (Vallés, "An Analysis of a
//! Checkpointing Mechanism for a Distributed Stream Processing System", 3.1): the baseline.
//!
//! A value is written to a new file, synced and renamed; the folder is synced once for a batch. The
//! name is the key in hexadecimal digits. The checksum follows the value.

use crate::{
    Backend, BackendError, WriteBatch,
    error::{at, lock},
    write_batch::BatchEntry,
};
use bytes::Bytes;
use std::{
    io,
    path::{Path, PathBuf},
};
use tidemill_env::sync::{Mutex, PoisonError};
use tidemill_env::{DiskLock, World};
use tidemill_wire::chunk::crc32c;

/// The longest key, in bytes: file names have at most 255.
const KEY_BYTES_MAX: usize = 120;

/// A backend with a file for each key.
pub struct FileBackend {
    world: World,
    folder: PathBuf,
    /// Allows one commit at a time: commits share the file that is renamed.
    commits: Mutex<()>,
    _lock: Box<dyn DiskLock>,
}

impl FileBackend {
    /// Opens a folder, or creates it.
    ///
    /// # Errors
    /// An error of the disk, or the folder is in use.
    pub fn open(world: &World, folder: &Path) -> Result<Self, BackendError> {
        let disk = &*world.disk;
        disk.create_dir_all(&folder.join("keys")).map_err(at(folder))?;
        let lock = lock(world, folder)?;
        disk.sync_dir(folder).map_err(at(folder))?;
        let (world, folder) = (world.clone(), folder.join("keys"));
        Ok(Self { world, folder, commits: Mutex::new(()), _lock: lock })
    }

    fn path(&self, key: &[u8]) -> PathBuf {
        // An empty key has a name too.
        let name: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        self.folder.join(format!("k{name}"))
    }

    fn apply(&self, entry: &BatchEntry<'_>) -> Result<(), BackendError> {
        let (disk, path) = (&*self.world.disk, self.path(entry.key));
        let Some(value) = entry.value else {
            return match disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&path)(error)),
                _ => Ok(()),
            };
        };
        let new = self.folder.join("new");
        let put = || {
            let mut file = disk.create(&new)?;
            file.append(value)?;
            file.append(&checksum(entry.key, value).to_le_bytes())?;
            file.sync()?;
            disk.rename(&new, &path)
        };
        put().map_err(at(&path))
    }

    fn read(&self, path: &Path, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        let mut value = match self.world.disk.read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(at(path))?,
        };
        let said = value.last_chunk().copied().map(u32::from_le_bytes);
        value.truncate(value.len().saturating_sub(4));
        if said != Some(checksum(key, &value)) {
            let why = "this is not the value that was written".to_owned();
            return Err(BackendError::Damaged { path: path.to_owned(), position: 0, why });
        }
        Ok(Some(value.into()))
    }
}

/// The checksum of a value, valid only under its key.
fn checksum(key: &[u8], value: &[u8]) -> u32 {
    crc32c(value).rotate_left(1) ^ crc32c(key)
}

/// The key in the name of a file.
fn key_of(path: &Path) -> Option<Vec<u8>> {
    let digits = path.file_name()?.to_str()?.strip_prefix('k')?;
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}

impl Backend for FileBackend {
    fn commit(&self, batch: &mut WriteBatch) -> Result<(), BackendError> {
        batch.check()?;
        let too_long = batch.entries().map(|it| it.key.len()).find(|it| *it > KEY_BYTES_MAX);
        if let Some(bytes) = too_long {
            return Err(BackendError::KeyTooLong { bytes, max: KEY_BYTES_MAX });
        }
        let _commit = self.commits.lock().unwrap_or_else(PoisonError::into_inner);
        batch.entries().try_for_each(|entry| self.apply(&entry))?;
        self.world.disk.sync_dir(&self.folder).map_err(at(&self.folder))?;
        batch.clear();
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.read(&self.path(key), key)
    }

    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError> {
        let paths = self.world.disk.list(&self.folder).map_err(at(&self.folder))?;
        let mut found: Vec<_> = paths.iter().filter_map(|path| key_of(path)).collect();
        found.retain(|key| key.starts_with(prefix));
        found.sort();
        Ok(found)
    }
}
