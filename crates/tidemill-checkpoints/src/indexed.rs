//! Append-only files and an index in memory (Vallés, "An Analysis of a Checkpointing Mechanism for
//! a Distributed Stream Processing System", 3.4, figures 3.2 to 3.4).
//!
//! ```text
//! FOLDER ┬ lock                    held while it is open
//!        ├ index                   where every key's value stands, as of some batch
//!        └ 0000000000000001.data   batches, one after the other; then the next file
//!
//! commit ─▶ one append, one sync ─▶ index in memory ─ now and then ─▶ index on disk ─▶ files
//!              ▲                                      without a live entry are removed
//!              └─ live entries of sparse files are written again ◀─────┘
//! ```
//!
//! Opening reads the batches behind the index: of a long batch only its directory, unless it is the
//! last. An incomplete batch at the very end was never acknowledged and is cut off. All other
//! damage is reported and left as it is; damage in a value shows when that is read.
//!
//! Invariants: a batch begins when the one before it is durable; a new index is durable before a
//! file is removed that the old one needs.

mod compaction;
mod flush;
mod format;
mod index;
mod read_window;
mod recovery;

#[cfg(test)]
mod tests;

use crate::{
    Backend, BackendError, ValueBuffer, WriteBatch,
    error::at,
    write_batch::{self, BATCH_HEAD_BYTES, DELETED},
};
use bytes::Bytes;
use flush::Flusher;
use format::{ALIGN, BatchHead, EntryPlace, FILE_HEAD_BYTES, LONG_BYTES, PAGE_BYTES};
use index::Index;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::sync::{Mutex, MutexGuard, PoisonError, RwLock};
use tidemill_env::{DiskFile, DiskLock, DiskRead, Thread, World, has_no_room};
use tidemill_types::ByteSize;
use tidemill_wire::chunk::crc32c;

/// The most bytes of one read.
const READ_TOGETHER_BYTES: usize = 2 << 20;
/// The most files open for reading.
const OPEN_FILES_MAX: usize = 256;

/// The options of the indexed backend.
#[derive(Clone, Copy, Debug)]
pub struct IndexedOptions {
    /// The length in bytes at which a data file ends (default 64 MiB; an eighth of the free disk
    /// space if that is less, but at least 1 MiB).
    pub file_bytes: ByteSize,
    /// The bytes written between two flushes of the index (default 256 MiB); recovery reads at most
    /// as many. The index is flushed earlier when a file's worth of bytes was deleted, so that
    /// their space is freed, and after four files' worth where a full disk makes files shorter.
    pub flush_bytes: ByteSize,
    /// True if a thread flushes in the background (default). Otherwise only
    /// [`IndexedBackend::flush`] does.
    pub flush_in_background: bool,
}

impl Default for IndexedOptions {
    fn default() -> Self {
        Self {
            file_bytes: ByteSize(64 << 20),
            flush_bytes: ByteSize(256 << 20),
            flush_in_background: true,
        }
    }
}

/// The result of opening a backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The batches behind the index.
    pub batches: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of them that were read: the values of long batches are not.
    pub read_bytes: u64,
    /// The incomplete last batch, if there was one: its file, and the position in bytes at which
    /// that was cut.
    pub cut: Option<(PathBuf, u64)>,
}

/// A backend of append-only files and an index in memory.
pub struct IndexedBackend {
    store: Arc<IndexedStore>,
    thread: Mutex<Option<Box<dyn Thread>>>,
}

struct IndexedStore {
    world: World,
    folder: PathBuf,
    options: IndexedOptions,
    /// The random number of this store, in all its files.
    id: u64,
    writer: Mutex<TailWriter>,
    index: RwLock<Index>,
    /// The files open for reading.
    files: Mutex<BTreeMap<u64, Arc<dyn DiskRead>>>,
    flusher: Flusher,
    _lock: Box<dyn DiskLock>,
}

/// The end of the last data file.
struct TailWriter {
    file: Box<dyn DiskFile>,
    number: u64,
    length: u64,
    /// The number of the last batch.
    sequence: u64,
    /// True once the name of the file is durable.
    is_named: bool,
    /// The bytes since the last flush.
    unflushed: u64,
    failed: bool,
}

/// The path of a data file.
fn data_path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:016x}.data"))
}

impl IndexedBackend {
    /// Opens a folder, or creates it.
    ///
    /// # Errors
    /// An error of the disk, the folder is in use, or its files are damaged. Nothing is changed
    /// then.
    pub fn open(
        world: &World,
        folder: &Path,
        options: IndexedOptions,
    ) -> Result<(Self, RecoveryReport), BackendError> {
        let (store, opened) = recovery::open(world, folder, options)?;
        let index = store.index.read().unwrap_or_else(PoisonError::into_inner);
        store.flush_if_due((opened.bytes, store.file_bytes_max()), &index);
        drop(index);
        let store = Arc::new(store);
        let thread = options.flush_in_background.then(|| {
            let store = Arc::clone(&store);
            world.spawn.spawn("state-flush", Box::new(move || store.flush_until_closed()))
        });
        Ok((Self { store, thread: Mutex::new(thread) }, opened))
    }

    /// Writes the index, and removes files without live entries. Commits go on meanwhile.
    ///
    /// # Errors
    /// An error of the disk. The old index stays in force.
    pub fn flush(&self) -> Result<(), BackendError> {
        self.store.flush()
    }

    /// The error of the last background flush, if it failed. The flush is tried again.
    #[must_use]
    pub fn flush_failure(&self) -> Option<BackendError> {
        self.store.flusher.failure()
    }
}

impl Drop for IndexedBackend {
    fn drop(&mut self) {
        self.store.flusher.close();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        thread.into_iter().for_each(|thread| thread.join());
    }
}

impl Backend for IndexedBackend {
    fn commit(&self, batch: &mut WriteBatch) -> Result<(), BackendError> {
        self.store.commit(batch)
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.store.get(key)
    }

    fn read(&self, key: &[u8], values: &mut ValueBuffer) -> Result<bool, BackendError> {
        self.store.read(key, values)
    }

    fn read_all(&self, keys: &[Vec<u8>], values: &mut ValueBuffer) -> Result<bool, BackendError> {
        self.store.read_all(keys, values)
    }

    fn has_small_values(&self) -> bool {
        true
    }

    fn keys(&self, prefix: &[u8]) -> Result<Vec<Vec<u8>>, BackendError> {
        let index = self.store.index.read().unwrap_or_else(PoisonError::into_inner);
        Ok(index.with_prefix(prefix).into_iter().map(|(key, _)| key).collect())
    }
}

fn is_absent(error: &BackendError) -> bool {
    matches!(error, BackendError::Disk { error, .. } if error.kind() == io::ErrorKind::NotFound)
}

impl IndexedStore {
    fn writer(&self) -> MutexGuard<'_, TailWriter> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn commit(&self, batch: &mut WriteBatch) -> Result<(), BackendError> {
        batch.check()?;
        if batch.is_empty() {
            return Ok(());
        }
        let done = self.commit_as(&mut self.writer(), batch);
        if matches!(&done, Err(BackendError::Disk { error, .. }) if has_no_room(error)) {
            // There may be room in files of which nothing is live.
            self.flusher.want();
        }
        done
    }

    /// As [`Self::commit`], for a valid batch that is not empty.
    fn commit_as(
        &self,
        writer: &mut TailWriter,
        batch: &mut WriteBatch,
    ) -> Result<(), BackendError> {
        if writer.failed {
            return Err(BackendError::Failed { path: self.folder.clone() });
        }
        let file_bytes = self.file_bytes_max();
        debug_assert!(writer.length.is_multiple_of(ALIGN as u64), "batches begin aligned");
        if writer.length > FILE_HEAD_BYTES as u64
            && writer.length + batch.bytes() as u64 > file_bytes
        {
            self.begin_file(writer)?;
        }
        let open_bytes = batch.bytes();
        let directory = format::directory(batch.entries());
        let end = writer.length + (open_bytes + directory.len()) as u64;
        let align = if open_bytes < LONG_BYTES { ALIGN } else { PAGE_BYTES };
        let zeros = (end.next_multiple_of(align as u64) - end) as u32;
        let head = BatchHead {
            count: batch.len() as u32,
            sequence: writer.sequence + 1,
            bytes: (open_bytes - BATCH_HEAD_BYTES) as u64,
            directory_bytes: directory.len() as u32,
            directory_checksum: crc32c(&directory),
            zeros,
        };
        batch.close(&directory, zeros as usize);
        self.seal(batch, &head, writer);
        if let Err(error) = self.write(writer, batch) {
            batch.open(open_bytes);
            return Err(error);
        }
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        for entry in batch.entries() {
            let place = |value: &[u8]| EntryPlace {
                file: writer.number,
                position: writer.length + entry.at as u64,
                key_bytes: entry.key.len() as u32,
                value_bytes: value.len() as u32,
            };
            index.set(entry.key, entry.value.map(place));
        }
        let bytes = batch.bytes() as u64;
        writer.length += bytes;
        writer.sequence += 1;
        writer.unflushed += bytes;
        self.flush_if_due((writer.unflushed, file_bytes), &index);
        drop(index);
        batch.clear();
        Ok(())
    }

    /// Fills in the head and all checksums of a batch.
    fn seal(&self, batch: &mut WriteBatch, head: &BatchHead, writer: &TailWriter) {
        let (bytes, entries) = batch.parts_mut();
        for at in entries {
            let length = write_batch::entry(bytes, *at).expect("as it was added").bytes();
            let entry = &mut bytes[*at..*at + length];
            let position = writer.length + *at as u64;
            let checksum = format::entry_checksum(entry, self.id, writer.number, position);
            entry[..4].copy_from_slice(&checksum.to_le_bytes());
        }
        let head = head.encode(self.id, writer.number, writer.length);
        bytes[..BATCH_HEAD_BYTES].copy_from_slice(&head);
    }

    /// Appends a sealed batch, durably, or restores the old end of the file.
    fn write(&self, writer: &mut TailWriter, batch: &mut WriteBatch) -> Result<(), BackendError> {
        let path = data_path(&self.folder, writer.number);
        if let Err(error) = writer.file.append_direct(batch.parts_mut().0) {
            // What is there of it must not stand before the next one, not after a power cut either.
            let cut = writer.file.truncate(writer.length).and_then(|()| writer.file.sync());
            writer.failed = cut.is_err();
            return Err(at(&path)(error));
        }
        let synced = writer.file.sync().and_then(|()| match writer.is_named {
            true => Ok(()),
            false => self.world.disk.sync_dir(&self.folder),
        });
        // Nothing is known of the file after that: whoever opens it again looks.
        writer.failed = synced.is_err();
        synced.map_err(at(&path))?;
        writer.is_named = true;
        Ok(())
    }

    /// Begins a new data file.
    fn begin_file(&self, writer: &mut TailWriter) -> Result<(), BackendError> {
        let number = writer.number + 1;
        writer.file = make_file(&self.world, &self.folder, self.id, number)?;
        writer.number = number;
        writer.length = FILE_HEAD_BYTES as u64;
        writer.is_named = false;
        Ok(())
    }

    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, BackendError> {
        self.find(key, |place| self.value_at(key, place))
    }

    fn read(&self, key: &[u8], values: &mut ValueBuffer) -> Result<bool, BackendError> {
        let found = self.find(key, |place| {
            let value_bytes = place.value_bytes as usize;
            let head_bytes = place.bytes() - value_bytes;
            values.add_entry((head_bytes, value_bytes), |entry| self.read_at(key, place, entry))
        })?;
        Ok(found.is_some())
    }

    /// Reads neighbouring values with one read where possible.
    fn read_all(
        &self,
        mut keys: &[Vec<u8>],
        values: &mut ValueBuffer,
    ) -> Result<bool, BackendError> {
        while let Some((first, rest)) = keys.split_first() {
            let places = self.together(keys);
            // Whatever is wrong with one of several is found, and told, when it is read alone.
            if places.len() > 1 && self.read_together(keys, &places, values).is_ok() {
                keys = &keys[places.len()..];
            } else if self.read(first, values)? {
                keys = rest;
            } else {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The positions of the first of these keys that are neighbours in a file, up to some
    /// megabytes.
    fn together(&self, keys: &[Vec<u8>]) -> Vec<EntryPlace> {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        let (mut places, mut bytes): (Vec<EntryPlace>, usize) = (Vec::new(), 0);
        for place in keys.iter().map_while(|key| index.get(key)) {
            let is_next = places.last().is_none_or(|last| {
                let end = last.position + last.bytes() as u64;
                (last.file, end) == (place.file, place.position)
            });
            bytes += place.bytes();
            if !is_next || bytes > READ_TOGETHER_BYTES {
                break;
            }
            places.push(place);
        }
        places
    }

    fn read_together(
        &self,
        keys: &[Vec<u8>],
        places: &[EntryPlace],
        values: &mut ValueBuffer,
    ) -> Result<(), BackendError> {
        let size = |place: &EntryPlace| {
            let value_bytes = place.value_bytes as usize;
            (place.bytes() - value_bytes, value_bytes)
        };
        let sizes: Vec<(usize, usize)> = places.iter().map(size).collect();
        let path = data_path(&self.folder, places[0].file);
        values.add_entries(&sizes, |all| {
            let file = self.file(places[0].file).map_err(at(&path))?;
            let count = file.read_direct(places[0].position, all).map_err(at(&path))?;
            let mut read = &all[..count];
            for (key, place) in keys.iter().zip(places) {
                let (entry, rest) = read.split_at(place.bytes().min(read.len()));
                self.check(key, *place, entry)?;
                read = rest;
            }
            Ok(())
        })
    }

    /// Applies `read` to the position of a key; none if there is no such key.
    fn find<T>(
        &self,
        key: &[u8],
        mut read: impl FnMut(EntryPlace) -> Result<T, BackendError>,
    ) -> Result<Option<T>, BackendError> {
        let look = || self.index.read().unwrap_or_else(PoisonError::into_inner).get(key);
        let mut place = look();
        while let Some(there) = place {
            match read(there) {
                Ok(found) => return Ok(Some(found)),
                Err(error) if is_absent(&error) => {
                    // It was put or deleted since, and its file removed.
                    place = look();
                    if place == Some(there) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Reads the value of an entry.
    fn value_at(&self, key: &[u8], place: EntryPlace) -> Result<Bytes, BackendError> {
        let mut entry = vec![0; place.bytes()];
        self.read_at(key, place, &mut entry)?;
        Ok(Bytes::from(entry).slice(place.bytes() - place.value_bytes as usize..))
    }

    /// Reads and checks a whole entry.
    fn read_at(&self, key: &[u8], place: EntryPlace, entry: &mut [u8]) -> Result<(), BackendError> {
        let path = data_path(&self.folder, place.file);
        let file = self.file(place.file).map_err(at(&path))?;
        let count = file.read_direct(place.position, entry).map_err(at(&path))?;
        self.check(key, place, &entry[..count])
    }

    /// Checks that the bytes are the entry of this key.
    fn check(&self, key: &[u8], place: EntryPlace, entry: &[u8]) -> Result<(), BackendError> {
        let found = write_batch::entry(entry, 0).filter(|it| it.key == key);
        if found.is_none_or(|it| it.bytes() != place.bytes())
            || !format::is_good_entry(entry, self.id, place.file, place.position)
        {
            let path = data_path(&self.folder, place.file);
            let why = "this is not the value that was written".to_owned();
            return Err(BackendError::Damaged { path, position: place.position, why });
        }
        Ok(())
    }

    fn file(&self, number: u64) -> io::Result<Arc<dyn DiskRead>> {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = files.get(&number) {
            return Ok(Arc::clone(file));
        }
        let file = self.world.disk.open_read(&data_path(&self.folder, number))?;
        if files.len() >= OPEN_FILES_MAX {
            files.pop_first();
        }
        files.insert(number, Arc::clone(&file));
        Ok(file)
    }
}

/// Creates a data file with a head only; not durable yet.
fn make_file(
    world: &World,
    folder: &Path,
    id: u64,
    number: u64,
) -> Result<Box<dyn DiskFile>, BackendError> {
    let path = data_path(folder, number);
    let mut file = world.disk.create(&path).map_err(at(&path))?;
    file.append(&format::file_head(id, number)).map_err(at(&path))?;
    Ok(file)
}

const _: () = assert!(BATCH_HEAD_BYTES.is_multiple_of(ALIGN), "entries follow the head");
const _: () = assert!(write_batch::VALUE_BYTES_MAX < DELETED as usize, "a length is no deletion");
