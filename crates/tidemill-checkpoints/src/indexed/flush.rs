//! Writing the index from time to time, so that recovery reads less, and removing files without
//! live entries.

use super::{
    IndexedStore, data_path,
    format::Covered,
    index::{self, Index, IndexBase},
};
use crate::{BackendError, error::at};
use std::path::Path;
use tidemill_env::World;
use tidemill_env::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(super) const INDEX: &str = "index";
const INDEX_NEW: &str = "index.new";
/// The freed bytes per byte of index at which a flush is worth its cost.
const FREED_PER_INDEX: u64 = 8;
/// The divisor of the free disk space that limits a file.
const FREE_SHARE: u64 = 8;
/// The least limit of a file.
const FILE_BYTES_MIN: u64 = 1 << 20;

/// The requests to the flush thread, and its result.
#[derive(Default)]
pub(super) struct Flusher {
    /// Allows one flush at a time.
    one: Mutex<()>,
    state: Mutex<FlushState>,
    wake: Condvar,
}

#[derive(Default)]
struct FlushState {
    wanted: bool,
    closed: bool,
    failure: Option<BackendError>,
}

impl Flusher {
    fn state(&self) -> MutexGuard<'_, FlushState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a flush.
    pub(super) fn want(&self) {
        let mut state = self.state();
        if !state.wanted {
            state.wanted = true;
            self.wake.notify_one();
        }
    }

    /// Takes the request of a flush, which the caller then makes.
    #[cfg(test)]
    pub(super) fn take_wanted(&self) -> bool {
        std::mem::take(&mut self.state().wanted)
    }

    pub(super) fn close(&self) {
        self.state().closed = true;
        self.wake.notify_one();
    }

    pub(super) fn failure(&self) -> Option<BackendError> {
        self.state().failure.clone()
    }
}

impl IndexedStore {
    /// Requests a flush if enough bytes were written, or are free in files. Files have at most
    /// `file_bytes` now.
    pub(super) fn flush_if_due(&self, (unflushed, file_bytes): (u64, u64), index: &Index) {
        let freed_bytes = index.freed_bytes();
        let is_much_free =
            freed_bytes >= file_bytes && freed_bytes / FREED_PER_INDEX >= index.base_bytes();
        let flush_bytes = self.options.flush_bytes.0;
        let is_scarce = file_bytes < self.options.file_bytes.0;
        let soon = (4 * file_bytes).max(index.base_bytes());
        let flush_bytes = if is_scarce { flush_bytes.min(soon) } else { flush_bytes };
        if unflushed >= flush_bytes || is_much_free {
            self.flusher.want();
        }
    }

    /// The length at which a data file ends. On a nearly full disk it is short, so that dead
    /// entries do not fill the disk.
    pub(super) fn file_bytes_max(&self) -> u64 {
        let free = self.world.disk.space(&self.folder).map_or(u64::MAX, |it| it.free_bytes);
        self.options.file_bytes.0.min((free / FREE_SHARE).max(FILE_BYTES_MIN))
    }

    /// The loop of the flush thread.
    pub(super) fn flush_until_closed(&self) {
        loop {
            let mut state = self.flusher.state();
            while !state.wanted && !state.closed {
                state = self.flusher.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.closed {
                return;
            }
            state.wanted = false;
            drop(state);
            let failure = self.flush().err();
            self.flusher.state().failure = failure;
        }
    }

    pub(super) fn flush(&self) -> Result<(), BackendError> {
        let _one = self.flusher.one.lock().unwrap_or_else(PoisonError::into_inner);
        let (base, frozen, covered, unflushed, freed_bytes) = {
            let writer = self.writer();
            let covered =
                Covered { file: writer.number, position: writer.length, sequence: writer.sequence };
            let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
            let (base, frozen, covered) = index.freeze(covered);
            (base, frozen, covered, writer.unflushed, index.freed_bytes())
        };
        let base = index::flushed(&base, &frozen, self.id, covered);
        put_index(&self.world, &self.folder, &base)?;
        let live = base.files();
        self.index.write().unwrap_or_else(PoisonError::into_inner).thaw(base, freed_bytes);
        let mut writer = self.writer();
        writer.unflushed = writer.unflushed.saturating_sub(unflushed);
        drop(writer);
        let is_dead = |number: &u64| *number < covered.file && !live.contains_key(number);
        for number in numbers(&self.world, &self.folder)?.into_iter().filter(is_dead) {
            self.files.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            let path = data_path(&self.folder, number);
            self.world.disk.remove(&path).map_err(at(&path))?;
        }
        self.compact(&live, covered.file)
    }
}

/// Replaces the index file, durably.
pub(super) fn put_index(
    world: &World,
    folder: &Path,
    base: &IndexBase,
) -> Result<(), BackendError> {
    let (path, new) = (folder.join(INDEX), folder.join(INDEX_NEW));
    let mut file = world.disk.create(&new).map_err(at(&new))?;
    if let Err(error) = file.append_direct(base.bytes()).and_then(|()| file.sync()) {
        drop(file);
        // It would keep the room that others need.
        let _left = world.disk.remove(&new);
        return Err(at(&new)(error));
    }
    world.disk.rename(&new, &path).map_err(at(&path))?;
    world.disk.sync_dir(folder).map_err(at(folder))
}

/// The numbers of the data files, ascending.
pub(super) fn numbers(world: &World, folder: &Path) -> Result<Vec<u64>, BackendError> {
    let names = world.disk.list(folder).map_err(at(folder))?;
    let number = |path: &std::path::PathBuf| {
        let name = path.file_name()?.to_str()?.strip_suffix(".data")?;
        u64::from_str_radix(name, 16).ok().filter(|it| data_path(folder, *it) == *path)
    };
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}
