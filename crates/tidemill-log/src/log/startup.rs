//! The opening of a log: it reads the streams, and recovers or sets aside the remains of a crash.

use super::delete::{remove, remove_folder};
use crate::{
    disk_reserve::DiskReserve,
    error::LogError,
    ids::{SegmentName, first_group, is_stream_name},
    log_core::{LogCore, at},
    meta::{self, LogMeta, StreamMeta},
    options::{Fsync, StreamLimits},
    recover::{self, PendingSyncs, SegmentFile},
    report::Finding,
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
use tidemill_types::{GroupIx, Life, StreamletIx};

#[cfg(test)]
mod tests;

/// Counts this opening. Damaged metadata are kept as `meta.old`; the clock stands in for them.
pub(super) fn next_life(
    world: &World,
    (folder, reserve): (&Path, &DiskReserve),
    findings: &mut Vec<Finding>,
) -> Result<Life, LogError> {
    let disk = &*world.disk;
    let before = match meta::read::<LogMeta>(disk, folder) {
        Ok(meta) => meta.map_or(0, |it| it.life.0),
        Err(LogError::Damaged { path, why }) => {
            findings.push(Finding::SetAside { path, why });
            u32::try_from(world.clock.wall_micros() / 1_000_000).unwrap_or(0)
        }
        Err(error) => return Err(error),
    };
    let life = Life(before.saturating_add(1));
    reserve.write(disk, folder, &LogMeta { life })?;
    Ok(life)
}

/// True if anything was ever appended to the stream.
fn had_data(stream: &Stream) -> bool {
    stream.streamlets().iter().any(|it| it.end_offset() > 0)
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
                Ok(file) => files.push(file),
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
            let next_group = next_group.max(first_group(self.shared.life));
            let start = meta.starts.get(&index).copied().unwrap_or(0);
            let (shared, aside) = (self.shared, &self.aside);
            let (recovered, left) =
                recover::streamlet(shared, aside, files, next_group, start, always, findings)?;
            self.finish.add(shared, left)?;
            Ok(Streamlet::new(shared, core, index, recovered))
        };
        (0..count).map(open).collect()
    }
}
