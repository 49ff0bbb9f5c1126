//! Files of the simulated disk that are written at any place; its capacity, locks and damage.
//!
//! Invariant: a power cut keeps a synced sector as it was synced, and of an unsynced one either
//! the old bytes or the new ones; sectors are independent of each other.

use super::{FaultCounts, FileData, SimDisk, SimDiskState, SimFile, is_the_one};
use crate::{DiskLock, FileSystem, Random, RandomAccessFile};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The unit that a power cut keeps whole, in bytes.
const SECTOR: usize = 512;

fn sectors(length: usize) -> usize {
    length.div_ceil(SECTOR)
}

/// The bytes of one sector, short or empty at the end of the file.
fn sector(bytes: &[u8], index: usize) -> &[u8] {
    let start = (index * SECTOR).min(bytes.len());
    &bytes[start..(start + SECTOR).min(bytes.len())]
}

/// Copies one sector from the written to the durable bytes.
fn keep(file: &mut FileData, index: usize) {
    let bytes = sector(&file.data, index);
    let start = index * SECTOR;
    if file.durable.len() < start + bytes.len() {
        file.durable.resize(start + bytes.len(), 0);
    }
    file.durable[start..start + bytes.len()].copy_from_slice(bytes);
}

/// The sectors whose durable bytes differ from the written ones.
fn unsynced(file: &FileData) -> Vec<usize> {
    (0..sectors(file.data.len()))
        .filter(|it| sector(&file.data, *it) != sector(&file.durable, *it))
        .collect()
}

/// A power cut: any of the unsynced sectors may have reached the disk.
pub(super) fn lose(file: &mut FileData, random: &mut Random) {
    let candidates = unsynced(file);
    let some = random.below(candidates.len() as u64 + 1) as usize;
    let how = random.below(4);
    for (order, index) in candidates.into_iter().enumerate() {
        let kept = match how {
            0 => false,
            1 => order < some,
            _ => random.below(2) == 0,
        };
        if kept && !file.dropped.contains(&index) {
            keep(file, index);
        }
    }
    if random.below(2) == 0 && file.durable.len() < file.data.len() {
        file.durable.resize(file.data.len(), 0);
    }
    file.dropped.clear();
    file.untold = false;
    file.data.clone_from(&file.durable);
}

/// Bytes were written: their sectors are as good as new.
pub(super) fn written(file: &mut FileData, start: usize, count: usize) {
    (start / SECTOR..sectors(start + count)).for_each(|it| {
        file.dropped.remove(&it);
    });
}

struct SimLock {
    disk: SimDisk,
    path: PathBuf,
    life: u64,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        if state.locks.get(&self.path) == Some(&self.life) {
            state.locks.remove(&self.path);
        }
    }
}

impl SimDisk {
    /// Bounds the bytes of all files together from now on; existing files stay.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    /// With `late`, a write to a full disk succeeds, and the sync fails and drops its bytes, as on
    /// file systems that allocate late, or on remote ones.
    pub fn report_full_late(&self, late: bool) {
        self.state().tells_late = late;
    }

    /// Bytes of all files together.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Counts of the injected faults so far.
    #[must_use]
    pub fn refused(&self) -> FaultCounts {
        self.state().refused
    }

    /// After `syncs` more of files, one fails; the one after it works again.
    pub fn fail_sync_after(&self, syncs: u64) {
        self.state().fail_sync_in = Some(syncs);
    }

    /// After `reads` more, of open files or whole ones, `failing` fail; those after them work
    /// again.
    pub fn fail_reads_after(&self, reads: u64, failing: u64) {
        self.state().fail_reads = Some((reads, failing));
    }

    /// Flips bits of a byte, as a disk that forgets does. Does nothing past the end of the file.
    ///
    /// # Errors
    /// The file is not there.
    pub fn flip(&self, path: impl AsRef<Path>, offset: u64, bits: u8) -> io::Result<()> {
        let mut state = self.state();
        let file = state.find(path.as_ref())?;
        let place = usize::try_from(offset).unwrap_or(usize::MAX);
        let file = state.files.entry(file).or_default();
        for bytes in [&mut file.data, &mut file.durable] {
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= bits;
            }
        }
        Ok(())
    }

    pub(super) fn place(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        let mut state = self.alive()?;
        let file = match state.find(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                drop(state);
                drop(crate::Disk::create(self, path)?);
                state = self.alive()?;
                state.find(path)?
            }
            Err(error) => return Err(error),
        };
        state.files.entry(file).or_default().placed = true;
        Ok(Arc::new(self.handle(&state, file)))
    }

    pub(super) fn take_lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut state = self.alive()?;
        let life = state.life;
        if state.locks.contains_key(path) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locks.insert(path.to_owned(), life);
        Ok(Box::new(SimLock { disk: self.clone(), path: path.to_owned(), life }))
    }
}

impl SimDiskState {
    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[file].data.len() as u64).sum()
    }

    /// Checks that the disk has room for `more` bytes.
    pub(super) fn room(&mut self, more: u64) -> io::Result<()> {
        if self.tells_late || more == 0 || !self.is_over(more) {
            return Ok(());
        }
        self.refused.full += 1;
        Err(full())
    }

    /// The free bytes.
    pub(super) fn left(&self) -> usize {
        usize::try_from(self.capacity.saturating_sub(self.used())).unwrap_or(usize::MAX)
    }

    fn is_over(&self, more: u64) -> bool {
        self.capacity < u64::MAX && self.used().saturating_add(more) > self.capacity
    }

    /// Counts a sync of a file; an error if it is the one that must fail.
    fn sync_fails(&mut self) -> io::Result<()> {
        if is_the_one(&mut self.fail_sync_in) {
            self.refused.changes += 1;
            return Err(io::Error::other("the sync failed, as the test asked"));
        }
        if !self.tells_late || !self.is_over(0) {
            return Ok(());
        }
        self.refused.full += 1;
        Err(full())
    }
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, "the simulated disk is full")
}

/// A sync of one file succeeded.
fn synced(file: &mut FileData) {
    if file.dropped.is_empty() {
        file.durable.clone_from(&file.data);
        return;
    }
    file.durable.resize(file.data.len(), 0);
    let written = unsynced(file).into_iter().filter(|it| !file.dropped.contains(it));
    written.collect::<Vec<_>>().into_iter().for_each(|it| keep(file, it));
}

/// Applies a failed sync to a file: its unsynced bytes never become durable.
fn gave_up(file: &mut FileData) {
    let lost = unsynced(file);
    file.dropped.extend(lost);
}

impl SimFile {
    pub(super) fn sync_file(&self) -> io::Result<()> {
        let mut state = self.live()?;
        let mut outcome = state.operate().and_then(|()| state.sync_fails());
        let state = &mut *state;
        let file = state.files.entry(self.file).or_default();
        if std::mem::take(&mut file.untold) {
            state.refused.changes += 1;
            outcome = Err(io::Error::other("a sync of the whole file system failed before"));
        }
        match outcome {
            Ok(()) => synced(file),
            Err(_) => gave_up(file),
        }
        outcome
    }
}

impl FileSystem for SimFile {
    fn sync(&self) -> io::Result<()> {
        let state = &mut *self.live()?;
        let outcome = state.operate().and_then(|()| state.sync_fails());
        for file in state.files.values_mut() {
            if outcome.is_err() && state.random.below(2) == 0 {
                file.untold |= !unsynced(file).is_empty();
                gave_up(file);
            } else {
                synced(file);
            }
        }
        if outcome.is_ok() {
            state.names_durable.clone_from(&state.names);
        }
        outcome
    }
}

impl RandomAccessFile for SimFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.live()?;
        let outcome = state.operate();
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let length = state.files[&self.file].data.len();
        state.room((start + bytes.len()).saturating_sub(length) as u64)?;
        let written = if outcome.is_ok() { bytes.len() } else { bytes.len() / 2 };
        let file = state.files.entry(self.file).or_default();
        if file.data.len() < start + written {
            file.data.resize(start + written, 0);
        }
        file.data[start..start + written].copy_from_slice(&bytes[..written]);
        self::written(file, start, written);
        outcome
    }

    fn reserve(&self, length: u64) -> io::Result<()> {
        let now = crate::DiskRead::length(self)?;
        if length <= now {
            return Ok(());
        }
        self.live()?.room(length - now)?;
        self.set_length(length)
    }

    fn set_length(&self, length: u64) -> io::Result<()> {
        let mut state = self.live()?;
        state.operate()?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        state.files.entry(self.file).or_default().data.resize(length, 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_file()
    }
}
