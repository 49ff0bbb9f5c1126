//! The opening of a log: it reads the streams, and recovers or sets aside the remains of a crash.

use super::{
    Log,
    delete::{remove, remove_folder},
};
use crate::{
    disk_reserve::DiskReserve,
    epoch_journal::{
        EpochChange, EpochRecord, EpochTable, StreamletEpochs, StreamletKey, Truncation,
    },
    error::LogError,
    ids::{SegmentName, first_group, incarnation_of, is_stream_name},
    log_core::{LogCore, at},
    meta::{self, LogMeta, StreamMeta},
    options::{Fsync, StreamLimits},
    recover::{self, PendingSyncs, RecoveredStreamlet, SegmentFile, StreamletRemains},
    report::Finding,
    role::{StartRole, StreamletRole},
    segment::Segment,
    stream::Stream,
    streamlet::{StreamCore, Streamlet},
};
use std::{
    collections::{BTreeMap, btree_map::Entry},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{
    World,
    lock::{Mutex, RwLock},
    sync::atomic::AtomicBool,
};
use tidemill_types::{GroupIx, Incarnation, LeaderEpoch, Offset, StreamletIx};

#[cfg(test)]
mod tests;

/// The state of a folder at an opening, by the log's metadata, which record the opening too.
pub(super) struct FolderState {
    pub(super) incarnation: Incarnation,
    /// The log was closed with all of it durable: nothing that anybody saw is lost.
    pub(super) was_closed: bool,
}

impl FolderState {
    /// Takes the incarnation that is given, or the folder's next one. Damaged metadata are kept as
    /// `meta.old`; the clock stands in for them.
    pub(super) fn open(
        world: &World,
        (folder, reserve): (&Path, &DiskReserve),
        given: Option<Incarnation>,
        findings: &mut Vec<Finding>,
    ) -> Result<Self, LogError> {
        let disk = &*world.disk;
        let before = match meta::read::<LogMeta>(disk, folder) {
            Ok(meta) => meta.unwrap_or(LogMeta { incarnation: Incarnation(0), closed: true }),
            Err(LogError::Damaged { path, why }) => {
                findings.push(Finding::SetAside { path, why });
                let now_s = u32::try_from(world.clock.wall_micros() / 1_000_000).unwrap_or(0);
                // The segments tell whether one that is given was used before.
                let incarnation = Incarnation(if given.is_some() { 0 } else { now_s });
                LogMeta { incarnation, closed: false }
            }
            Err(error) => return Err(error),
        };
        let newest = before.incarnation;
        let incarnation = given.unwrap_or(Incarnation(newest.0.saturating_add(1)));
        if incarnation <= newest {
            return Err(used(folder, incarnation, newest));
        }
        reserve.write(disk, folder, &LogMeta { incarnation, closed: false })?;
        Ok(Self { incarnation, was_closed: before.closed })
    }
}

fn used(folder: &Path, given: Incarnation, newest: Incarnation) -> LogError {
    LogError::Incarnation { path: folder.to_owned(), given, newest }
}

/// True if anything was ever appended to the stream.
fn had_data(stream: &Stream) -> bool {
    stream.streamlets().iter().any(|it| it.end_offset() > 0)
}

/// The records that make the epochs of these streams.
pub(super) fn epoch_records(streams: &BTreeMap<String, Arc<Stream>>) -> Vec<EpochRecord> {
    let streamlets = streams.values().flat_map(|it| it.streamlets());
    streamlets.flat_map(|it| it.epochs.lock().records((it.stream.id, it.index))).collect()
}

/// All segments of these streams.
pub(super) fn segments(streams: &BTreeMap<String, Arc<Stream>>) -> Vec<Arc<Segment>> {
    let streamlets = streams.values().flat_map(|it| it.streamlets());
    streamlets.flat_map(|it| it.segments().values().cloned().collect::<Vec<_>>()).collect()
}

/// The state of an opening.
pub(super) struct Startup<'a> {
    pub(super) shared: &'a Arc<LogCore>,
    pub(super) aside: PathBuf,
    pub(super) finish: PendingSyncs,
    /// The names in all folders survive a power cut as they are.
    pub(super) settled: bool,
    /// Records whose offsets somebody saw may be lost: no offset is given out under an epoch of
    /// before.
    pub(super) begins_epochs: bool,
    pub(super) epochs: EpochTable,
    /// Changes of epochs that are not on the disk yet.
    pub(super) new_epochs: Vec<EpochRecord>,
}

impl Startup<'_> {
    pub(super) fn streams(
        &mut self,
        folder: &Path,
        findings: &mut Vec<Finding>,
    ) -> Result<BTreeMap<String, Arc<Stream>>, LogError> {
        let mut streams = BTreeMap::new();
        let folders = self.shared.world.disk.list(folder).map_err(at(folder))?;
        // Before anything is read; else each folder is synced by itself.
        let file_system_sync = &self.shared.file_system_sync;
        self.settled = file_system_sync.is_better_for(folders.len())
            && matches!(file_system_sync.sync(), Some(Ok(())));
        for path in folders {
            let stream = match self.stream(&path, findings) {
                Ok(stream) => stream,
                Err(LogError::Damaged { path, why }) => {
                    findings.push(Finding::SetAside { path, why });
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(stream) = stream else { continue };
            // One that could not be made, and not be taken back, may have the name of one that was
            // made after it. It never had data.
            let twin = match streams.entry(stream.name().to_owned()) {
                Entry::Vacant(place) => {
                    place.insert(Arc::new(stream));
                    continue;
                }
                Entry::Occupied(place) if had_data(place.get()) => Arc::new(stream),
                Entry::Occupied(mut place) => place.insert(Arc::new(stream)),
            };
            let why = format!("another stream is called {} too", twin.name());
            findings.push(Finding::SetAside { path: twin.core.folder.clone(), why });
        }
        Ok(streams)
    }

    /// One stream; none if there is nothing of it.
    fn stream(
        &mut self,
        folder: &Path,
        findings: &mut Vec<Finding>,
    ) -> Result<Option<Stream>, LogError> {
        let disk = &*self.shared.world.disk;
        let damaged = |why: &str| LogError::Damaged { path: folder.to_owned(), why: why.into() };
        let files = disk.list(folder).map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory | io::ErrorKind::NotFound => {
                damaged("it is not the folder of a stream")
            }
            _ => at(folder)(error),
        })?;
        let Some(meta) = meta::read::<StreamMeta>(disk, folder)? else {
            if files.is_empty() {
                // Making it was cut short.
                remove_folder(disk, folder).map_err(at(folder))?;
                return Ok(None);
            }
            return Err(damaged("it has files and no metadata"));
        };
        let id = meta.id().filter(|it| folder.file_name().is_some_and(|n| *n == *it.to_string()));
        let id = id.ok_or_else(|| damaged("its metadata are those of another stream"))?;
        if !is_stream_name(&meta.name) || meta.spec.problem().is_some() {
            return Err(damaged("its metadata have impossible values"));
        }
        if meta.deleted {
            self.finish_deletion(folder, &files)?;
            return Ok(None);
        }
        // What was read may have been renamed and not synced when the process ended: from here on
        // it must not change any more.
        if !self.settled {
            disk.sync_dir(folder).map_err(at(folder))?;
        }
        let core = Arc::new(StreamCore {
            id,
            name: Arc::from(meta.name.as_str()),
            folder: folder.to_owned(),
            limits: StreamLimits::of(&meta.spec),
            spec: RwLock::new(meta.spec.clone()),
            starts: Mutex::new(meta.starts.clone()),
            deleted: AtomicBool::new(false),
        });
        let streamlets = self.streamlets(&core, &files, &meta, findings)?;
        let shared = Arc::clone(self.shared);
        Ok(Some(Stream { core, shared, streamlets: RwLock::new(streamlets) }))
    }

    fn finish_deletion(&self, folder: &Path, files: &[PathBuf]) -> Result<(), LogError> {
        let disk = &*self.shared.world.disk;
        let named = |it: &&PathBuf| it.extension().is_some_and(|it| it == "seg");
        // Of an earlier life: nobody reads them.
        let segments: Vec<_> = files.iter().filter(named).cloned().collect();
        self.shared.recycle(folder, &segments).map_err(at(folder))?;
        remove(disk, folder)
    }

    fn streamlets(
        &mut self,
        core: &Arc<StreamCore>,
        files: &[PathBuf],
        meta: &StreamMeta,
        findings: &mut Vec<Finding>,
    ) -> Result<Vec<Arc<Streamlet>>, LogError> {
        let mut found: BTreeMap<StreamletIx, (GroupIx, Vec<SegmentFile>)> = BTreeMap::new();
        for path in files {
            let name = path.file_name().map(|it| it.to_string_lossy().into_owned());
            let Some(name) = name.filter(|it| !it.starts_with(meta::META)) else { continue };
            let Some(name) = SegmentName::parse(&name) else {
                let why = "its name is not that of a segment".to_owned();
                findings.push(Finding::SetAside { path: path.clone(), why });
                continue;
            };
            let (next_group, files) = found.entry(name.streamlet).or_default();
            *next_group = (*next_group).max(GroupIx(name.group.0 + 1));
            match recover::inspect(self.shared, core, path, name)? {
                Ok(file) => files.push(self.checked(file)?),
                Err(why) => findings.push(Finding::SetAside { path: path.clone(), why }),
            }
        }
        // A name alone makes no streamlet.
        let good = found.iter().rev().find(|(_, (_, files))| !files.is_empty());
        let count = meta.spec.streamlets.max(good.map_or(0, |(index, _)| index.0 + 1));
        core.spec.write().streamlets = count;
        let fsync = meta.spec.fsync.unwrap_or(self.shared.options.fsync);
        let always = fsync == Fsync::Always;
        let open = |index: u32| {
            let index = StreamletIx(index);
            let (next_group, files) = found.remove(&index).unwrap_or_default();
            let next_group = next_group.max(first_group(self.shared.incarnation));
            let start = meta.starts.get(&index).copied().unwrap_or(0);
            let mut epochs = self.epochs.take((core.id, index));
            epochs.forget_below(Offset(start), files.iter().map(|it| it.key.epoch).min());
            let (shared, aside) = (self.shared, &self.aside);
            let remains = StreamletRemains { files, next_group, start };
            let (recovered, left) =
                recover::streamlet(shared, aside, remains, &epochs.truncations, always, findings)?;
            self.finish.add(shared, left)?;
            let role = self.begin_epochs((core.id, index), &recovered, &mut epochs);
            Ok(Streamlet::new(shared, core, index, recovered, epochs, role))
        };
        (0..count).map(open).collect()
    }

    /// A segment of an earlier incarnation, as all are.
    fn checked(&self, file: SegmentFile) -> Result<SegmentFile, LogError> {
        let (made, now) = (incarnation_of(file.key.epoch), self.shared.incarnation);
        if self.shared.options.incarnation.is_some() && made >= now {
            return Err(used(&file.path, now, made));
        }
        Ok(file)
    }

    /// The role of a streamlet to begin with, and its epochs up to then.
    fn begin_epochs(
        &mut self,
        (stream, streamlet): StreamletKey,
        recovered: &RecoveredStreamlet,
        epochs: &mut StreamletEpochs,
    ) -> StreamletRole {
        let mut note = |epochs: &mut StreamletEpochs, change| {
            epochs.apply(change);
            self.new_epochs.push(EpochRecord { stream, streamlet, change });
        };
        // Records of an epoch may be lost, and it with them.
        let behind = Offset(recovered.next.saturating_add(1));
        if epochs.history.begins_from(behind) {
            note(epochs, EpochChange::Truncated(Truncation::of_epochs(behind)));
        }
        // Chunks take precedence over the journal, which may be damaged.
        for it in &recovered.tail_epochs {
            if epochs.history.newest() < Some(it.epoch) {
                note(epochs, EpochChange::Begins(it.epoch, it.start));
            }
        }
        let highest = epochs.history.highest();
        match self.shared.options.role {
            StartRole::Copy => StreamletRole::Copy(highest),
            StartRole::Alone if !self.begins_epochs && epochs.history.newest() == Some(highest) => {
                StreamletRole::Leader(highest)
            }
            StartRole::Alone => {
                let mut epoch = LeaderEpoch(highest.0.saturating_add(1));
                if self.epochs.is_damaged {
                    // A node that is alone begins one at most in each of its incarnations.
                    let incarnation = i32::try_from(self.shared.incarnation.0).unwrap_or(0);
                    epoch = epoch.max(LeaderEpoch(incarnation));
                }
                note(epochs, EpochChange::Begins(epoch, Offset(recovered.next)));
                StreamletRole::Leader(epoch)
            }
        }
    }
}

impl Log {
    /// Opens one streamlet anew, from what its files and these epochs say.
    pub(crate) fn recover_one(
        &self,
        stream: &Stream,
        old: &Streamlet,
        epochs: &StreamletEpochs,
    ) -> Result<Arc<Streamlet>, LogError> {
        let (shared, core) = (&self.0.shared, &stream.core);
        let mut files = Vec::new();
        for path in shared.world.disk.list(&core.folder).map_err(at(&core.folder))? {
            let name = path.file_name().map(|it| it.to_string_lossy().into_owned());
            let name = name.and_then(|it| SegmentName::parse(&it));
            let Some(name) = name.filter(|it| it.streamlet == old.index) else { continue };
            files.extend(recover::inspect(shared, core, &path, name)?.ok());
        }
        let (next_group, start) = (old.next_group(), old.start_offset());
        let remains = StreamletRemains { files, next_group, start };
        let always = old.fsync() == Fsync::Always;
        let (mut findings, mut finish) = (Vec::new(), PendingSyncs::default());
        let aside = self.0.folder.join("aside");
        let truncations = &epochs.truncations;
        let (recovered, left) =
            recover::streamlet(shared, &aside, remains, truncations, always, &mut findings)?;
        finish.add(shared, left)?;
        finish.all(shared)?;
        let role = StreamletRole::Copy(epochs.history.highest());
        Ok(Streamlet::new(shared, core, old.index, recovered, epochs.clone(), role))
    }
}
