//! Streams are deleted: one, or many at once, which three syncs of the whole file system make durable,
//! however many there are.
//!
//! ```text
//! metadata that say so, as `meta.new` ─▶ sync ─▶ renamed to `meta` ─▶ sync ─▶ they are no streams
//! their segments are moved to the pool ─▶ sync ─▶ and may be used again
//! ```

use super::Log;
use crate::{
    error::LogError,
    log_core::{EmptiedFile, LogCore, at},
    meta::{self, StreamMeta},
    retention::retired,
    segment::Segment,
    stream::Stream,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    sync::Arc,
};
use tidemill_env::{Disk, FileSystem, lock::MutexGuard, sync::atomic::Ordering};
use tidemill_types::StreamletIx;

impl Log {
    /// Removes a stream and its data. Appends that wait get [`crate::AppendError::Closed`]. A
    /// crash in the middle is taken up when the log is opened.
    ///
    /// # Errors
    /// There is no such stream, or the disk failed. If its metadata could not be written, nothing
    /// changed; but if that cannot be made sure of either, the stream takes no more appends, and
    /// is there or not when the log is opened. Later failures: the rest is removed then.
    pub fn delete(&self, name: &str) -> Result<(), LogError> {
        let _one = self.0.change.lock();
        self.delete_one(&*self.found(name)?)
    }

    /// Removes streams, each as [`Self::delete`] does, in much less time than one by one. One that
    /// is named twice is not there the second time.
    pub fn delete_all(&self, names: &[&str]) -> Vec<Result<(), LogError>> {
        let _one = self.0.change.lock();
        let mut once = BTreeSet::new();
        let found = names.iter().copied().map(|name| match once.insert(name) {
            true => self.found(name),
            false => Err(LogError::Unknown(name.to_owned())),
        });
        let found: Vec<_> = found.collect();
        let streams: Vec<&Stream> = found.iter().flatten().map(|it| &**it).collect();
        let in_bulk = match self.bulk_sync(streams.len()) {
            Some(file_system) => self.delete_in_bulk(&streams, &*file_system),
            None => streams.iter().map(|_| None).collect(),
        };
        let outcomes = in_bulk.into_iter().zip(streams);
        let outcomes = outcomes.map(|(it, stream)| it.unwrap_or_else(|| self.delete_one(stream)));
        let mut outcomes = outcomes.collect::<Vec<_>>().into_iter();
        let mut next = || outcomes.next().expect("one for each that was found");
        found.into_iter().map(|it| it.and_then(|_| next())).collect()
    }

    fn found(&self, name: &str) -> Result<Arc<Stream>, LogError> {
        if self.0.shared.is_closed() {
            return Err(LogError::Closed);
        }
        self.get(name).ok_or_else(|| LogError::Unknown(name.to_owned()))
    }

    fn delete_one(&self, stream: &Stream) -> Result<(), LogError> {
        let marked = Deletion::of(stream).mark(&self.0.shared);
        let segments = self.detach(stream, marked)?;
        stream.recycle_segments(&segments)?;
        remove(&*self.0.shared.world.disk, &stream.core.folder)
    }

    /// None stands for a stream whose metadata found no room. One by one such streams can use the
    /// disk reserve, and the room the others leave.
    fn delete_in_bulk(
        &self,
        streams: &[&Stream],
        file_system: &dyn FileSystem,
    ) -> Vec<Option<Result<(), LogError>>> {
        let shared = &self.0.shared;
        let empty = |(stream, marked): (&&Stream, Option<Result<(), MarkError>>)| {
            let segments = self.detach(stream, marked?);
            let move_away = |it: Vec<Arc<Segment>>| shared.move_away(&retired(&it));
            Some(segments.and_then(|it| move_away(it).map_err(at(&stream.core.folder))))
        };
        let marked = self.mark_in_bulk(streams, file_system);
        let emptied: Vec<_> = streams.iter().zip(marked).map(empty).collect();
        let has_files = emptied.iter().flatten().flatten().any(|it| !it.is_empty());
        let synced = if has_files { file_system.sync() } else { Ok(()) };
        let finish = |(stream, emptied): (&&Stream, Option<Result<Vec<EmptiedFile>, LogError>>)| {
            Some(emptied?.and_then(|emptied| {
                synced.as_ref().map_err(|error| self.not_synced(error))?;
                shared.take_emptied(emptied);
                remove(&*shared.world.disk, &stream.core.folder)
            }))
        };
        streams.iter().zip(emptied).map(finish).collect()
    }

    /// Says of each that it is deleted, unless there is no room for that.
    fn mark_in_bulk(
        &self,
        streams: &[&Stream],
        file_system: &dyn FileSystem,
    ) -> Vec<Option<Result<(), MarkError>>> {
        let disk = &*self.0.shared.world.disk;
        let going: Vec<_> = streams.iter().map(|it| Deletion::of(it)).collect();
        let prepared: Vec<_> = going.iter().map(|it| it.prepare(disk)).collect();
        let first = file_system.sync();
        let settle = |(going, prepared): (&Deletion<'_>, &MetaOutcome)| match prepared {
            Ok(()) if first.is_ok() => meta::settle(disk, going.folder()),
            _ => Ok(()),
        };
        let settled: Vec<_> = going.iter().zip(&prepared).map(settle).collect();
        let second = first.and_then(|()| file_system.sync());
        let mark = |((going, prepared), settled): ((Deletion<'_>, MetaOutcome), MetaOutcome)| {
            prepared.ok()?;
            let written = match &second {
                Ok(()) => settled,
                Err(error) => Err(self.not_synced(error)),
            };
            Some(going.settled(disk, written))
        };
        going.into_iter().zip(prepared).zip(settled).map(mark).collect()
    }

    /// One that is marked is taken out of the log: its segments.
    fn detach(
        &self,
        stream: &Stream,
        marked: Result<(), MarkError>,
    ) -> Result<Vec<Arc<Segment>>, LogError> {
        if let Err(MarkError { error, is_sure }) = marked {
            if !is_sure {
                let why = format!("it may be deleted, as was asked: {error}");
                stream.streamlets().iter().for_each(|it| it.fail(&why));
            }
            return Err(error);
        }
        let mut streams = self.0.streams.write();
        streams.remove(stream.name());
        drop(streams);
        let mut segments = Vec::new();
        for streamlet in stream.streamlets() {
            streamlet.close();
            segments.extend(streamlet.take_all());
        }
        Ok(segments)
    }
}

/// Removes the rest of a deleted stream that has no segments left.
pub(super) fn remove(disk: &dyn Disk, folder: &Path) -> Result<(), LogError> {
    meta::remove(disk, folder).and_then(|()| remove_folder(disk, folder)).map_err(at(folder))
}

pub(super) fn remove_folder(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    match disk.remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        other => other,
    }
}

/// The outcome of a write of metadata.
type MetaOutcome = Result<(), LogError>;

/// A stream that is being deleted. It holds the lock of the stream's metadata.
struct Deletion<'a> {
    stream: &'a Stream,
    starts: MutexGuard<'a, BTreeMap<StreamletIx, i64>>,
}

/// It could not be said, durably, that a stream is deleted.
struct MarkError {
    error: LogError,
    /// That it is not is sure.
    is_sure: bool,
}

impl<'a> Deletion<'a> {
    fn of(stream: &'a Stream) -> Self {
        let starts = stream.core.starts.lock();
        Self { stream, starts }
    }

    fn folder(&self) -> &'a Path {
        &self.stream.core.folder
    }

    fn meta(&self, deleted: bool) -> StreamMeta {
        self.stream.core.meta(&self.starts, deleted)
    }

    /// Alone, with the room that is kept for it.
    fn mark(self, shared: &LogCore) -> Result<(), MarkError> {
        let disk = &*shared.world.disk;
        let written = shared.reserve.write(disk, self.folder(), &self.meta(true));
        self.settled(disk, written)
    }

    fn prepare(&self, disk: &dyn Disk) -> MetaOutcome {
        meta::prepare(disk, self.folder(), &self.meta(true))
    }

    /// It is said, or that failed: then it is taken back.
    fn settled(self, disk: &dyn Disk, written: MetaOutcome) -> Result<(), MarkError> {
        match written {
            Ok(()) => {
                self.stream.core.deleted.store(true, Ordering::SeqCst);
                Ok(())
            }
            Err(error) => {
                let back = meta::undelete(disk, self.folder(), &self.meta(false));
                Err(MarkError { error, is_sure: back.is_ok() })
            }
        }
    }
}

#[cfg(test)]
mod tests;
