//! The parts that all streams of a log share: the world, the settings, the chunk cache, the queue
//! of syncs, the pool of emptied files, and the counter of epochs.
//!
//! Invariant: a file is used again only after its old name is durably gone.

use crate::{
    block_pool::BlockPool,
    chunk_cache::ChunkCache,
    commit::{FileSystemSync, SyncScheduler, SyncWork},
    disk_reserve::DiskReserve,
    epoch_journal::{EpochJournal, EpochRecord},
    error::LogError,
    format::SegmentHead,
    ids::{SegmentKey, first_epoch, incarnation_of},
    options::{Journal, LogOptions},
    retention::is_ahead,
    segment::Segment,
    sync_figures::SyncCounter,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{
    DiskLock, RandomAccessFile, World, has_no_room,
    lock::Mutex,
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
};
use tidemill_types::{Incarnation, SegmentEpoch, Span};

/// Emptied segment files: path and length.
#[derive(Default)]
struct FilePool {
    files: Vec<(PathBuf, u64)>,
    bytes: u64,
}

/// A file of the pool that was a segment: its old name may not be durably gone yet.
#[derive(Debug)]
pub(crate) struct EmptiedFile {
    path: PathBuf,
    length: u64,
}

pub(crate) struct LogCore {
    pub(crate) world: World,
    pub(crate) options: LogOptions,
    pub(crate) memory: ChunkCache,
    pub(crate) blocks: Arc<BlockPool>,
    pub(crate) committer: SyncScheduler,
    pub(crate) file_system_sync: FileSystemSync,
    pub(crate) syncs: SyncCounter,
    pub(crate) reserve: DiskReserve,
    pool_folder: PathBuf,
    pool: Mutex<FilePool>,
    /// The incarnation of the node.
    pub(crate) incarnation: Incarnation,
    /// The leader epochs of all streamlets on the disk; none until the log is recovered.
    epochs: Mutex<Option<EpochJournal>>,
    /// The next segment's epoch. Its upper half is the incarnation, so it never repeats.
    epoch: AtomicU64,
    /// The latest moment at which a chunk came, as the log has it, in seconds since 1970.
    newest_s: AtomicU32,
    /// The latest that it ever was.
    highest_s: AtomicU32,
    /// A count of the moves of streamlets' starts.
    pub(crate) moves: AtomicU64,
    closed: AtomicBool,
    /// Held as long as anything of this log can write: threads and streamlets hold this.
    lock: Mutex<Option<Box<dyn DiskLock>>>,
}

/// An error with the path where it happened.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> LogError {
    let path = path.to_owned();
    move |error| LogError::Disk { path: path.clone(), error }
}

impl LogCore {
    /// The pool's folder is there.
    pub(crate) fn new(
        world: World,
        options: LogOptions,
        (pool_folder, reserve): (PathBuf, DiskReserve),
        incarnation: Incarnation,
    ) -> Result<Self, LogError> {
        let memory = ChunkCache::new(options.memory_bytes.0);
        // Opened before anything is written, so that it tells of every error since.
        let file_system = match world.disk.file_system(&pool_folder) {
            Ok(file_system) => Some(file_system),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => None,
            Err(error) => return Err(at(&pool_folder)(error)),
        };
        let (min, threads) = (options.sync_together_min, options.sync_threads);
        let file_system_sync = FileSystemSync::new(file_system, min, threads);
        let block_bytes = usize::try_from(options.read_ahead_bytes.0).unwrap_or(usize::MAX >> 1);
        let shared = Self {
            world,
            options,
            memory,
            blocks: BlockPool::new(block_bytes),
            committer: SyncScheduler::default(),
            file_system_sync,
            syncs: SyncCounter::default(),
            reserve,
            pool_folder,
            pool: Mutex::default(),
            incarnation,
            epochs: Mutex::new(None),
            epoch: AtomicU64::new(first_epoch(incarnation).0),
            newest_s: AtomicU32::new(0),
            highest_s: AtomicU32::new(0),
            moves: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            lock: Mutex::default(),
        };
        shared.empty_pool()?;
        Ok(shared)
    }

    /// Files of an earlier life are not used again: after a power cut in the middle of a renaming
    /// one of them may be a segment as well, under its other name.
    fn empty_pool(&self) -> Result<(), LogError> {
        let disk = &*self.world.disk;
        for path in disk.list(&self.pool_folder).map_err(at(&self.pool_folder))? {
            disk.remove(&path).map_err(at(&path))?;
        }
        Ok(())
    }

    /// Keeps the folder's lock until [`Self::unlock`], or until nothing of the log is left.
    pub(crate) fn hold(&self, lock: Box<dyn DiskLock>) {
        *self.lock.lock() = Some(lock);
    }

    /// True until [`Self::unlock`].
    pub(crate) fn is_locked(&self) -> bool {
        self.lock.lock().is_some()
    }

    /// Lets go of the folder's lock: nothing is written any more.
    pub(crate) fn unlock(&self) {
        *self.lock.lock() = None;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.committer.close();
    }

    pub(crate) fn next_epoch(&self) -> SegmentEpoch {
        SegmentEpoch(self.epoch.fetch_add(1, Ordering::SeqCst))
    }

    pub(crate) fn is_of_this_incarnation(&self, key: &SegmentKey) -> bool {
        incarnation_of(key.epoch) == self.incarnation
    }

    /// Changes of epochs go to this journal from now on.
    pub(crate) fn set_epoch_journal(&self, journal: EpochJournal) {
        *self.epochs.lock() = Some(journal);
    }

    /// Makes changes of epochs durable.
    pub(crate) fn note_epochs(&self, records: &[EpochRecord]) -> Result<(), LogError> {
        match &mut *self.epochs.lock() {
            Some(journal) => journal.append(&*self.world.disk, records),
            None => Err(LogError::Closed),
        }
    }

    /// When a chunk comes that comes now, in seconds since 1970: never before another that is
    /// there, but for [`Self::lower_newest_time`]. A clock that is behind for a while would make it
    /// old once it is right again.
    pub(crate) fn append_time_s(&self) -> u32 {
        let now = u32::try_from(self.world.clock.wall_micros() / 1_000_000).unwrap_or(0);
        let newest = self.newest_s.load(Ordering::Relaxed);
        if now > newest { self.record_append_time(now) } else { newest }
    }

    /// A chunk came then: when the newest one did.
    pub(crate) fn record_append_time(&self, appended_s: u32) -> u32 {
        self.highest_s.fetch_max(appended_s, Ordering::Relaxed);
        self.newest_s.fetch_max(appended_s, Ordering::Relaxed).max(appended_s)
    }

    /// The clock is sure to say this, in seconds since 1970: if it was ahead when chunks came,
    /// those that come from now on are not said to have come then.
    pub(crate) fn lower_newest_time(&self, clock_s: u32) {
        if is_ahead(self.newest_s.load(Ordering::Relaxed), clock_s) {
            self.newest_s.store(clock_s, Ordering::Relaxed);
        }
    }

    fn put_into_pool(&self, path: PathBuf, length: u64) {
        let mut pool = self.pool.lock();
        if length > 0 && pool.bytes + length <= self.options.recycled_bytes.0 {
            pool.bytes += length;
            pool.files.push((path, length));
            return;
        }
        drop(pool);
        // What cannot be removed is found again when the log is opened.
        let _left = self.world.disk.remove(&path);
    }

    /// Gives up an emptied file of the pool to make room on the disk. False if there is none.
    pub(crate) fn shrink_pool(&self) -> bool {
        let mut pool = self.pool.lock();
        let Some((path, length)) = pool.files.pop() else { return false };
        pool.bytes -= length;
        drop(pool);
        self.world.disk.remove(&path).is_ok()
    }

    /// Bytes of the pool's files.
    pub(crate) fn pool_bytes(&self) -> u64 {
        self.pool.lock().bytes
    }

    /// A segment's file, to be written to.
    pub(crate) fn open_segment(&self, path: &Path) -> io::Result<Arc<dyn RandomAccessFile>> {
        match self.options.journal {
            Journal::Write => self.world.disk.open_random_access(path),
            Journal::Map => self.world.disk.open_mapped(path),
        }
    }

    /// Makes a segment's file, from the pool if it can, with its head in it.
    pub(crate) fn make_segment(
        &self,
        key: SegmentKey,
        folder: &Path,
        name: &str,
        reserve: u64,
    ) -> io::Result<Segment> {
        let disk = &*self.world.disk;
        let path = folder.join(key.file_name());
        let recycled = {
            let mut pool = self.pool.lock();
            let taken = pool.files.pop();
            pool.bytes -= taken.as_ref().map_or(0, |(_, length)| *length);
            taken
        };
        // It has its name once it has a head: what a kill leaves before is removed when the log is opened.
        let was_used = recycled.is_some();
        let from = match recycled {
            Some((from, _)) => from,
            None => self.pool_folder.join(format!("{:016x}", self.next_epoch().0)),
        };
        let made = self.open_segment(&from).and_then(|file| {
            let created_us = self.world.clock.wall_micros();
            file.reserve(reserve)?;
            let head = SegmentHead { key, created_us, was_used, name: name.to_owned() };
            file.write_at(0, &head.block())?;
            disk.rename(&from, &path)?;
            Ok(file)
        });
        if made.is_err() {
            // The pool does not count it.
            let _left = disk.remove(&from);
        }
        let file = made?;
        let length = file.length()?;
        let segment = Segment::fresh(key, path, file);
        {
            let mut state = segment.state();
            state.reserved = length;
            state.before_s = self.highest_s.load(Ordering::Relaxed);
        }
        Ok(segment)
    }

    /// Has a segment synced after `span`.
    pub(crate) fn sync_after(&self, span: Span, work: SyncWork) {
        let now = self.world.clock.monotonic_micros();
        let due = now.saturating_add(u64::try_from(span.0).unwrap_or(0));
        self.committer.push_later(due, work);
    }

    /// Makes names in a stream's folder, and those that left the pool, survive a power cut.
    pub(crate) fn sync_names(&self, folder: &Path) -> io::Result<()> {
        self.world.disk.sync_dir(folder)?;
        self.world.disk.sync_dir(&self.pool_folder)
    }

    /// Takes the files of retired segments of one folder into the pool, or removes them. Their old
    /// names are durably gone when this returns.
    pub(crate) fn recycle(&self, folder: &Path, files: &[PathBuf]) -> io::Result<()> {
        let emptied = self.move_away(files)?;
        self.world.disk.sync_dir(&self.pool_folder)?;
        self.world.disk.sync_dir(folder)?;
        self.take_emptied(emptied);
        Ok(())
    }

    /// As [`Self::recycle`], not durably yet: once that is synced, [`Self::take_emptied`].
    pub(crate) fn move_away(&self, files: &[PathBuf]) -> io::Result<Vec<EmptiedFile>> {
        let disk = &*self.world.disk;
        let mut emptied = Vec::new();
        for path in files {
            let to = self.pool_folder.join(format!("{:016x}", self.next_epoch().0));
            let length = match disk.open_read(path).and_then(|it| it.length()) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            disk.rename(path, &to)?;
            emptied.push(EmptiedFile { path: to, length });
        }
        Ok(emptied)
    }

    /// Files whose old names are durably gone are in the pool, or removed.
    pub(crate) fn take_emptied(&self, emptied: Vec<EmptiedFile>) {
        emptied.into_iter().for_each(|it| self.put_into_pool(it.path, it.length));
    }
}

/// Runs an operation that needs room; while there is none, emptied files are given up for it.
pub(crate) fn with_room<T>(
    shared: &Arc<LogCore>,
    mut operation: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    loop {
        match operation() {
            Err(error) if has_no_room(&error) && shared.shrink_pool() => {}
            other => return other,
        }
    }
}
