//! A disk in memory that can lose power and can fail.
//!
//! ```text
//! name ──▶ file ┬ data     the bytes that readers get
//!               └ durable  the bytes after a power cut: data as of the last sync
//! names, durable names: a new, renamed or removed name is durable after `sync_dir`
//! ```
//!
//! - A power cut keeps of unsynced bytes nothing, a part, or their length but not their content: as
//!   a real file system may. The seed decides which.
//! - A failed sync loses data, as a real one does: its bytes never become durable, even if a later
//!   sync succeeds, unless they are written again. One of the whole file system that fails does
//!   that to some of the files, and each of them fails its own next sync, once.
//! - After a power cut, handles from before are dead: their process is.

use crate::{
    Disk, DiskFile, DiskLock, DiskRead, FileIdentity, FileSystem, Random, RandomAccessFile, Space,
};

mod kill_action;
mod random_access;

use kill_action::KillAction;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

#[derive(Debug, Default)]
struct FileData {
    data: Vec<u8>,
    durable: Vec<u8>,
    /// Written at any place: a power cut may keep any of its unsynced sectors.
    placed: bool,
    /// Sectors that a failed sync gave up.
    dropped: BTreeSet<usize>,
    /// A sync of the whole file system failed because of this file: its own next one fails too.
    untold: bool,
}

/// Counts of the injected faults that came to pass, since the disk was new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Changes and syncs that failed.
    pub changes: u64,
    /// Reads that failed.
    pub reads: u64,
    /// Changes and syncs that found no room.
    pub full: u64,
}

type NameTable = BTreeMap<PathBuf, u64>;

#[derive(Debug)]
struct SimDiskState {
    files: BTreeMap<u64, FileData>,
    names: NameTable,
    names_durable: NameTable,
    folders: BTreeSet<PathBuf>,
    next_file: u64,
    /// The number of power cuts: handles of an earlier life are refused.
    life: u64,
    /// Operations that still succeed before one fails.
    fail_in: Option<u64>,
    /// Operations that still happen before the processes that use the disk are killed.
    kill_in: Option<u64>,
    /// Kills the rest of the process then.
    on_kill: KillAction,
    operations: u64,
    /// Syncs of files that still succeed before one fails.
    fail_sync_in: Option<u64>,
    /// Reads that still succeed, and then how many fail.
    fail_reads: Option<(u64, u64)>,
    /// Bytes that all files together may have.
    capacity: u64,
    /// A full disk is reported by the sync, not by the write.
    tells_late: bool,
    /// Files that are locked, and by which life.
    locks: BTreeMap<PathBuf, u64>,
    refused: FaultCounts,
    /// The content of removed files, if a test asked for it.
    removed: Option<BTreeMap<PathBuf, Vec<u8>>>,
    random: Random,
}

/// A disk in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<SimDiskState>>,
    /// The only life in which this handle works; none: it works in all.
    life: Option<u64>,
}

struct SimFile {
    disk: SimDisk,
    file: u64,
    life: u64,
}

fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{} is not there", path.display()))
}

fn dead() -> io::Error {
    io::Error::other("the process that opened this is dead")
}

/// In a simulation every operation takes some time, in which others go on.
#[track_caller]
fn pass() {
    #[cfg(debug_assertions)]
    if let Some(here) = super::schedule::here() {
        here.disk("disk");
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

impl SimDisk {
    /// An empty disk. The seed decides the effect of power cuts.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let state = Mutex::new(SimDiskState {
            files: BTreeMap::new(),
            names: BTreeMap::new(),
            names_durable: BTreeMap::new(),
            folders: BTreeSet::from([PathBuf::new(), PathBuf::from("/")]),
            next_file: 0,
            life: 0,
            fail_in: None,
            kill_in: None,
            on_kill: KillAction::default(),
            operations: 0,
            fail_sync_in: None,
            fail_reads: None,
            capacity: u64::MAX,
            tells_late: false,
            locks: BTreeMap::new(),
            refused: FaultCounts::default(),
            removed: None,
            random: Random::new(seed),
        });
        Self { state: Arc::new(state), life: None }
    }

    /// The disk as one process has it: from the next kill or power cut on, it refuses everything,
    /// as a dead process does nothing.
    #[must_use]
    pub fn process(&self) -> Self {
        let life = self.state().life;
        Self { state: Arc::clone(&self.state), life: Some(life) }
    }

    /// Cuts the power: unsynced bytes are lost, wholly or in part.
    pub fn power_cut(&self) {
        let state = &mut *self.state();
        state.end_life();
        state.names = state.names_durable.clone();
        let random = &mut state.random;
        state.files.values_mut().for_each(|file| lose(file, random));
    }

    /// Kills the processes that use the disk: their handles are dead, their writes are there.
    pub fn kill(&self) {
        let mut state = self.state();
        state.end_life();
    }

    /// After `operations` more that change the disk, one fails; the one after it works again.
    /// A failed append has written half of its bytes.
    pub fn fail_after(&self, operations: u64) {
        self.state().fail_in = Some(operations);
    }

    /// Keeps the content of files that are removed from now on, for [`Self::removed`].
    pub fn keep_removed(&self) {
        self.state().removed.get_or_insert_default();
    }

    /// The content of each removed file, by path; of files with the same path, the last one.
    #[must_use]
    pub fn removed(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.state().removed.clone().unwrap_or_default()
    }

    /// The number of operations so far that change the disk.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Puts a durable file there, with these bytes.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        let mut state = self.state();
        let file = state.next_file;
        state.next_file += 1;
        let (data, durable) = (bytes.to_vec(), bytes.to_vec());
        state.files.insert(file, FileData { data, durable, ..FileData::default() });
        state.names.insert(path.as_ref().to_owned(), file);
        state.names_durable.insert(path.as_ref().to_owned(), file);
    }

    fn state(&self) -> MutexGuard<'_, SimDiskState> {
        self.state.lock().expect("no panic while held")
    }

    /// The state, for the process that this handle is of.
    #[track_caller]
    fn alive(&self) -> io::Result<MutexGuard<'_, SimDiskState>> {
        pass();
        let state = self.state();
        if self.life.is_none_or(|it| it == state.life) { Ok(state) } else { Err(dead()) }
    }

    fn handle(&self, state: &SimDiskState, file: u64) -> SimFile {
        SimFile { disk: self.clone(), file, life: state.life }
    }
}

/// Applies a power cut to a file.
fn lose(file: &mut FileData, random: &mut Random) {
    if file.placed {
        random_access::lose(file, random);
        return;
    }
    let synced = file.durable.len();
    let grew = file.data.len() > synced && file.data.starts_with(&file.durable);
    if grew {
        let kept = synced + random.below((file.data.len() - synced) as u64 + 1) as usize;
        match random.below(3) {
            0 => {}
            1 => file.durable.extend_from_slice(&file.data[synced..kept]),
            _ => file.durable.resize(kept, 0),
        }
    }
    file.data.clone_from(&file.durable);
}

/// Counts down to the operation that must fail. True if this is the one.
fn is_the_one(left: &mut Option<u64>) -> bool {
    let is_it = *left == Some(0);
    *left = left.and_then(|left| left.checked_sub(1));
    is_it
}

impl SimDiskState {
    /// The processes that use the disk end.
    fn end_life(&mut self) {
        self.life += 1;
        self.fail_in = None;
        self.kill_in = None;
        self.on_kill = KillAction::default();
        self.fail_sync_in = None;
        self.fail_reads = None;
        self.locks.clear();
    }

    /// Counts an operation that changes the disk; an error if it is the one that must fail.
    fn operate(&mut self) -> io::Result<()> {
        self.operations += 1;
        if is_the_one(&mut self.kill_in) {
            let action = std::mem::take(&mut self.on_kill);
            self.end_life();
            action.perform();
            return Err(dead());
        }
        if is_the_one(&mut self.fail_in) {
            self.refused.changes += 1;
            return Err(io::Error::other("the disk failed, as the test asked"));
        }
        Ok(())
    }

    /// Counts a read; an error if it is one that must fail.
    fn read(&mut self) -> io::Result<()> {
        match &mut self.fail_reads {
            Some((0, failing @ 1..)) => *failing -= 1,
            Some((good @ 1.., _)) => {
                *good -= 1;
                return Ok(());
            }
            _ => return Ok(()),
        }
        self.refused.reads += 1;
        Err(io::Error::other("a read failed, as the test asked"))
    }

    fn find(&self, path: &Path) -> io::Result<u64> {
        if self.folders.contains(path) {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "is a folder"));
        }
        self.names.get(path).copied().ok_or_else(|| not_found(path))
    }
}

impl Disk for SimDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.operate()?;
        state.folders.extend(path.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        let state = self.alive()?;
        Ok(state.names.contains_key(path) || state.folders.contains(path))
    }

    fn identity(&self, path: &Path) -> io::Result<FileIdentity> {
        let state = self.alive()?;
        let (number, below) = match state.names.get(path) {
            Some(number) => (number + 1, PathBuf::new()),
            None => (0, path.to_owned()),
        };
        Ok(FileIdentity { device: 0, number, below })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut state = self.alive()?;
        state.read()?;
        Ok(state.files[&state.find(path)?].data.clone())
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskRead>> {
        let state = self.alive()?;
        Ok(Arc::new(self.handle(&state, state.find(path)?)))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let mut state = self.alive()?;
        state.operate()?;
        if !state.folders.contains(parent(path)) {
            return Err(not_found(parent(path)));
        }
        let file = match state.find(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let file = state.next_file;
                state.next_file += 1;
                state.names.insert(path.to_owned(), file);
                file
            }
            Err(error) => return Err(error),
        };
        let emptied = state.files.entry(file).or_default();
        emptied.data.clear();
        emptied.dropped.clear();
        Ok(Box::new(self.handle(&state, file)))
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let state = self.alive()?;
        Ok(Box::new(self.handle(&state, state.find(path)?)))
    }

    fn open_random_access(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        self.place(path)
    }

    fn file_system(&self, folder: &Path) -> io::Result<Arc<dyn FileSystem>> {
        let state = self.alive()?;
        if !state.folders.contains(folder) {
            return Err(not_found(folder));
        }
        Ok(Arc::new(self.handle(&state, u64::MAX)))
    }

    fn space(&self, _folder: &Path) -> io::Result<Space> {
        let total_bytes = self.alive()?.capacity;
        Ok(Space { total_bytes, free_bytes: total_bytes.saturating_sub(self.used()) })
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        self.take_lock(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.operate()?;
        let inside = |it: &&PathBuf| it.parent() == Some(path);
        if state.names.keys().any(|it| inside(&it)) || state.folders.iter().any(|it| inside(&it)) {
            return Err(io::Error::new(io::ErrorKind::DirectoryNotEmpty, "is not empty"));
        }
        if state.folders.remove(path) { Ok(()) } else { Err(not_found(path)) }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.operate()?;
        let file = state.find(from)?;
        state.names.remove(from);
        state.names.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.alive()?;
        state.operate()?;
        let file = state.find(path)?;
        state.names.remove(path);
        let SimDiskState { removed, files, .. } = &mut *state;
        if let Some(removed) = removed {
            removed.insert(path.to_owned(), files[&file].data.clone());
        }
        Ok(())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let state = self.alive()?;
        if !state.folders.contains(path) {
            return Err(not_found(path));
        }
        let inside = |it: &&PathBuf| it.parent() == Some(path);
        let mut paths: Vec<PathBuf> = state.names.keys().filter(inside).cloned().collect();
        paths.extend(state.folders.iter().filter(inside).cloned());
        paths.sort();
        Ok(paths)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let state = &mut *self.alive()?;
        state.operate()?;
        if !state.folders.contains(path) {
            return Err(not_found(path));
        }
        state.names_durable.retain(|name, _| parent(name) != path);
        let inside = state.names.iter().filter(|(name, _)| parent(name) == path);
        let inside: Vec<_> = inside.map(|(name, file)| (name.clone(), *file)).collect();
        state.names_durable.extend(inside);
        Ok(())
    }
}

impl SimFile {
    #[track_caller]
    fn live(&self) -> io::Result<MutexGuard<'_, SimDiskState>> {
        pass();
        let state = self.disk.state();
        if state.life == self.life { Ok(state) } else { Err(dead()) }
    }
}

impl DiskFile for SimFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.live()?;
        let mut outcome = state.operate();
        let mut written = if outcome.is_ok() { bytes.len() } else { bytes.len() / 2 };
        if let Err(full) = state.room(written as u64) {
            // As a real one, it takes what it has room for.
            written = written.min(state.left());
            outcome = Err(full);
        }
        let file = state.files.entry(self.file).or_default();
        let start = file.data.len();
        file.data.extend_from_slice(&bytes[..written]);
        random_access::written(file, start, written);
        outcome
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_file()
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut state = self.live()?;
        state.operate()?;
        let length = usize::try_from(length).map_err(io::Error::other)?;
        state.files.entry(self.file).or_default().data.resize(length, 0);
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.live()?.files[&self.file].data.len() as u64)
    }
}

impl DiskRead for SimFile {
    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.live()?;
        state.read()?;
        let data = &state.files[&self.file].data;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
        let count = into.len().min(data.len() - start);
        into[..count].copy_from_slice(&data[start..start + count]);
        Ok(count)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.live()?.files[&self.file].data.len() as u64)
    }
}
