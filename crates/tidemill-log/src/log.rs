//! The log of one node: streams in a folder.
//!
//! ```text
//! FOLDER ┬ lock           held while the log is open
//!        ├ meta           the node's incarnation, and whether the log was closed
//!        ├ epochs         leader epochs of all streamlets
//!        ├ streams/ID ┬ meta                name, settings, first offsets
//!        │            └ STREAMLET-GROUP-SEGMENT.seg
//!        ├ pool           emptied files, for reuse
//!        └ aside          copies of chunks that recovery cut off
//! ```
//!
//! Invariant: a folder or file that metadata do not explain is left alone and reported.

use crate::{
    commit,
    disk_reserve::DiskReserve,
    epoch_journal::{EpochJournal, EpochTable},
    error::LogError,
    ids::{StreamId, is_stream_name},
    log_core::{LogCore, at},
    meta::{self, LogMeta},
    options::{LogOptions, StreamLimits, StreamSpec},
    recover::PendingSyncs,
    report::Finding,
    retention::{self, TrustedClock},
    segment::Segment,
    stream::Stream,
    streamlet::{StreamCore, Streamlet},
    sync_figures::SyncFigures,
};
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{
    Thread, World,
    lock::{Mutex, MutexGuard, RwLock, RwLockReadGuard},
    sync::atomic::{AtomicBool, Ordering},
};
use tidemill_types::{Incarnation, Micros};

mod bulk_sync;
mod create;
mod delete;
mod startup;
mod stream_table;

use startup::{FolderState, Startup};
use stream_table::StreamTable;

struct OpenLog {
    shared: Arc<LogCore>,
    folder: PathBuf,
    streams_folder: PathBuf,
    streams: RwLock<StreamTable>,
    /// One change of streams at a time.
    change: Mutex<()>,
    findings: Vec<Finding>,
    trusted: Mutex<TrustedClock>,
    threads: Mutex<Vec<Box<dyn Thread>>>,
}

impl Drop for OpenLog {
    fn drop(&mut self) {
        self.shared.close();
        let threads = self.threads.lock();
        if threads.is_empty() {
            // Nobody syncs what waits. It holds what it belongs to, and that holds the lock.
            drop(self.shared.committer.take_all());
        }
    }
}

/// The log of one node. Clones share it.
#[derive(Clone)]
pub struct Log(Arc<OpenLog>);

impl Log {
    /// Opens the log in a folder, which is made if it is not there. Closed segments are not read;
    /// segments that were open when the log stopped are scanned from their last mark.
    ///
    /// # Errors
    /// Another process has it open, the folder has seen the incarnation or a later one, or the disk
    /// failed. Damage is not an error here: damaged files
    /// are set aside ([`Self::findings`]) or reported when they are read.
    pub fn open(world: &World, folder: &Path, options: LogOptions) -> Result<Self, LogError> {
        let disk = &*world.disk;
        let streams_folder = folder.join("streams");
        let pool = folder.join("pool");
        for path in [&streams_folder, &pool] {
            disk.create_dir_all(path).map_err(at(path))?;
        }
        let lock_path = folder.join("lock");
        let lock = disk.lock(&lock_path).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => LogError::InUse(folder.to_owned()),
            _ => LogError::Disk { path: lock_path, error },
        })?;
        disk.sync_dir(folder).map_err(at(folder))?;
        let mut findings = Vec::new();
        let reserve = DiskReserve::new(folder, options.reserve_bytes.0);
        let given = options.incarnation;
        let state = FolderState::open(world, (folder, &reserve), given, &mut findings)?;
        let table = EpochTable::read(disk, folder, &mut findings)?;
        let threads = options.sync_threads;
        let trusted = TrustedClock::new(world.clock.wall_micros(), world.clock.monotonic_micros());
        let shared =
            Arc::new(LogCore::new(world.clone(), options, (pool, reserve), state.incarnation)?);
        let aside = folder.join("aside");
        let mut opening = Startup {
            shared: &shared,
            aside,
            finish: PendingSyncs::default(),
            settled: false,
            begins_epochs: !state.was_closed || table.is_damaged,
            epochs: table,
            new_epochs: Vec::new(),
        };
        let streams = opening.streams(&streams_folder, &mut findings)?;
        opening.finish.all(&shared)?;
        let (table, new) = (&opening.epochs, &opening.new_epochs);
        let all = || startup::epoch_records(&streams);
        let journal = EpochJournal::open((disk, &shared.reserve), folder, table, new, all)?;
        shared.set_epoch_journal(journal);
        retention::set_before_times(startup::segments(&streams));
        shared.hold(lock);
        let spawn = |index: usize| {
            let shared = Arc::clone(&shared);
            let body = Box::new(move || commit::run(&shared));
            world.spawn.spawn(&format!("log-sync-{index}"), body)
        };
        let threads = (0..threads).map(spawn).collect();
        Ok(Self(Arc::new(OpenLog {
            shared: Arc::clone(&shared),
            folder: folder.to_owned(),
            streams_folder,
            streams: RwLock::new(StreamTable::new(streams)),
            change: Mutex::new(()),
            findings,
            trusted: Mutex::new(trusted),
            threads: Mutex::new(threads),
        })))
    }

    /// The settings it was opened with.
    #[must_use]
    pub fn options(&self) -> &LogOptions {
        &self.0.shared.options
    }

    /// The newest incarnation that a folder has seen, without opening it; 0 for a new folder, and for
    /// one whose metadata are damaged, where opening looks at the segments.
    ///
    /// # Errors
    /// The disk failed.
    pub fn newest_incarnation(world: &World, folder: &Path) -> Result<Incarnation, LogError> {
        match meta::read::<LogMeta>(&*world.disk, folder) {
            Ok(found) => Ok(found.map_or(Incarnation::NONE, |it| it.incarnation)),
            Err(LogError::Damaged { .. }) => Ok(Incarnation::NONE),
            Err(error) => Err(error),
        }
    }

    /// The node's incarnation, which is in the identity of every segment that it makes.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.0.shared.incarnation
    }

    /// The folder it is in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// The findings of the opening that an operator should look at.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.0.findings
    }

    /// A stream by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Arc<Stream>> {
        self.streams().get(name).cloned()
    }

    /// A stream by id.
    #[must_use]
    pub fn get_by_id(&self, id: StreamId) -> Option<Arc<Stream>> {
        self.streams().get_by_id(id).cloned()
    }

    /// All streams, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Stream>> {
        self.streams().all().cloned().collect()
    }

    /// One change of streams at a time.
    pub(crate) fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.0.change.lock()
    }

    fn streams(&self) -> RwLockReadGuard<'_, StreamTable> {
        self.0.streams.read()
    }

    /// Makes a stream; it survives a power cut when this returns.
    ///
    /// # Errors
    /// The name or a setting is impossible, the stream exists, or the disk failed.
    pub fn create(&self, name: &str, spec: StreamSpec) -> Result<Arc<Stream>, LogError> {
        let _one = self.0.change.lock();
        self.create_one(name, spec)
    }

    /// Checks that a stream can be made, without asking the disk.
    ///
    /// # Errors
    /// As those of [`Self::create`], but for the disk's.
    pub fn can_create(&self, name: &str, spec: &StreamSpec) -> Result<(), LogError> {
        self.check_new(name, spec, self.streamlet_count())
    }

    /// As [`Self::create`], for a caller that has the lock of changes.
    fn create_one(&self, name: &str, spec: StreamSpec) -> Result<Arc<Stream>, LogError> {
        self.check_new(name, &spec, self.streamlet_count())?;
        let disk = &*self.0.shared.world.disk;
        let stream = self.new_stream(name, &spec);
        let folder = &stream.core.folder;
        let made = disk.create_dir_all(folder);
        let made = made.and_then(|()| disk.sync_dir(&self.0.streams_folder)).map_err(at(folder));
        if let Err(error) = made.and_then(|()| stream.apply(spec, true)) {
            self.discard(&stream);
            return Err(error);
        }
        Ok(self.add(stream))
    }

    /// A stream that is nowhere yet.
    fn new_stream(&self, name: &str, spec: &StreamSpec) -> Stream {
        let shared = &self.0.shared;
        // An epoch is never used twice, so these numbers are not either.
        let mut random = shared.world.random(shared.next_epoch().0);
        let mut id = [0; 16];
        id[..8].copy_from_slice(&random.next().to_be_bytes());
        id[8..].copy_from_slice(&random.next().to_be_bytes());
        let id = StreamId(id);
        let folder = self.0.streams_folder.join(id.to_string());
        let core = Arc::new(StreamCore {
            id,
            name: Arc::from(name),
            folder,
            limits: StreamLimits::of(spec),
            spec: RwLock::new(spec.clone()),
            starts: Mutex::default(),
            deleted: AtomicBool::new(false),
        });
        Stream { core, shared: Arc::clone(shared), streamlets: RwLock::default() }
    }

    /// A stream that is on the disk is one of the log's.
    fn add(&self, stream: Stream) -> Arc<Stream> {
        let stream = Arc::new(stream);
        let mut streams = self.0.streams.write();
        streams.add(&stream);
        stream
    }

    /// Streamlets of all streams.
    fn streamlet_count(&self) -> u32 {
        self.streams().all().map(|it| it.core.streamlet_count()).sum()
    }

    fn check_new(&self, name: &str, spec: &StreamSpec, others: u32) -> Result<(), LogError> {
        self.check(name, spec, 0, others)?;
        if self.get(name).is_some() {
            return Err(LogError::Exists(name.to_owned()));
        }
        Ok(())
    }

    /// `others` are the streamlets that there are, those of the stream itself with them.
    fn check(&self, name: &str, spec: &StreamSpec, has: u32, others: u32) -> Result<(), LogError> {
        if self.0.shared.is_closed() {
            return Err(LogError::Closed);
        }
        if !is_stream_name(name) {
            return Err(LogError::Name(name.to_owned()));
        }
        let bad = |why| LogError::Spec { name: name.to_owned(), why };
        if let Some(why) = spec.problem() {
            return Err(bad(why));
        }
        if spec.streamlets < has {
            return Err(bad(format!(
                "it has {has} streamlets and cannot have {}: streamlets can only be added",
                spec.streamlets
            )));
        }
        let max = self.0.shared.options.streamlets_max;
        if others - has + spec.streamlets > max {
            return Err(bad(format!(
                "{} streamlets more than {others}: this log has at most {max}",
                spec.streamlets - has
            )));
        }
        Ok(())
    }

    /// Changes a stream's settings, and adds streamlets if there are more. Appends do not wait for
    /// it. When it returns, the new [`crate::Fsync`] holds for earlier chunks too: with `Always`
    /// all acknowledged chunks are on the disk, unless a sync failed or there are no sync threads.
    ///
    /// # Errors
    /// There is no such stream, a setting is impossible, or the disk failed: then nothing changed.
    pub fn alter(&self, name: &str, spec: StreamSpec) -> Result<Arc<Stream>, LogError> {
        let _one = self.0.change.lock();
        let stream = self.get(name).ok_or_else(|| LogError::Unknown(name.to_owned()))?;
        self.check(name, &spec, stream.core.streamlet_count(), self.streamlet_count())?;
        stream.apply(spec, false)?;
        Ok(stream)
    }

    /// One round of retention by the machine's clock, `now`; call it every few seconds to minutes.
    /// Says how many segments went. A clock that jumps forward is followed slowly, and how old data
    /// of earlier lives are is known when it has kept the pace of the monotonic one for ten
    /// minutes.
    ///
    /// # Errors
    /// The first that a stream met; the others had their turn.
    pub fn maintain(&self, now: Micros) -> Result<usize, LogError> {
        let monotonic_us = self.0.shared.world.clock.monotonic_micros();
        let now = {
            let mut trusted = self.0.trusted.lock();
            trusted.now(now.0, monotonic_us)
        };
        if now.is_sure {
            self.0.shared.lower_newest_time(now.clock_s);
        }
        self.0.shared.blocks.trim();
        let _one = self.0.change.lock();
        let outcomes: Vec<_> = self.list().iter().map(|it| it.maintain(now)).collect();
        self.0.shared.reserve.take(&*self.0.shared.world.disk);
        outcomes.into_iter().sum()
    }

    /// Syncs everything in the queue on this thread, in place of the sync threads.
    pub fn sync(&self) {
        loop {
            let work = self.0.shared.committer.take_all();
            if work.is_empty() {
                return;
            }
            commit::sync(&self.0.shared, work);
        }
    }

    /// Bytes of appended chunks in memory, and of emptied files kept for reuse.
    #[must_use]
    pub fn kept_bytes(&self) -> (u64, u64) {
        (self.0.shared.memory.bytes(), self.0.shared.pool_bytes())
    }

    /// A count of the moves of streamlets' starts since the log was opened. While it stays the
    /// same, no start has moved.
    #[must_use]
    pub fn start_moves(&self) -> u64 {
        self.0.shared.moves.load(Ordering::SeqCst)
    }

    /// Syncs since the log was opened.
    #[must_use]
    pub fn sync_figures(&self) -> SyncFigures {
        self.0.shared.syncs.figures()
    }

    /// Ends the log: takes no more appends, syncs and seals open segments, ends the threads. The
    /// next opening then scans nothing; without a close it scans the ends of open segments.
    pub fn close(&self) {
        let _one = self.0.change.lock();
        self.0.shared.close();
        let streamlets: Vec<_> = self.list().iter().flat_map(|it| it.streamlets()).collect();
        streamlets.iter().for_each(|streamlet| streamlet.seal_all());
        let threads = {
            let mut threads = self.0.threads.lock();
            std::mem::take(&mut *threads)
        };
        threads.into_iter().for_each(Thread::join);
        self.sync();
        let is_whole = streamlets.iter().all(|streamlet| streamlet.is_durable());
        streamlets.iter().for_each(|streamlet| streamlet.close());
        let shared = &self.0.shared;
        if is_whole && shared.is_locked() {
            let meta = LogMeta { incarnation: shared.incarnation, closed: true };
            // Without it the next opening begins new epochs, which costs little.
            let _not_said = meta::write(&*shared.world.disk, &self.0.folder, &meta);
        }
        shared.unlock();
    }
}

impl Streamlet {
    /// Seals all open segments.
    fn seal_all(self: &Arc<Self>) {
        let active_groups = self.active_groups.read().clone();
        for active in active_groups {
            let open = active.lock().open.take();
            if let Some(segment) = open {
                // Space that was reserved and not used; without this it is merely taken.
                let written = segment.state().written;
                let file = segment.file(&self.shared);
                let _kept = file.and_then(|file| file.set_length(written));
                self.seal(&segment);
            }
        }
    }

    /// Takes out all segments, the open ones too, of a streamlet that takes no more appends.
    fn take_all(&self) -> Vec<Arc<Segment>> {
        let active_groups = self.active_groups.read().clone();
        let open = active_groups.iter().filter_map(|active| active.lock().open.take());
        let open: Vec<_> = open.collect();
        let (places, mut all): (Vec<_>, Vec<_>) =
            self.segments().iter().map(|(place, it)| (*place, Arc::clone(it))).unzip();
        self.remove_segments(&places);
        let empty = |it: &Arc<Segment>| it.range().0 == it.range().1;
        all.extend(open.into_iter().filter(empty));
        all
    }
}
