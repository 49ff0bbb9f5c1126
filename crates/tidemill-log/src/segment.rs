//! A segment: one file of chunks, appended to until it is sealed.
//!
//! ```text
//! head │ durable ……………… │ written, not yet synced … │ reserved, never written
//!      └ mark says so      └ kept in memory while there is room
//! ```
//!
//! Invariants: bytes below `written` never change; a sealed segment never grows; after a failed
//! sync the file is never synced again as if nothing had happened.

use crate::{
    format::{ChunkRef, DATA_START, SegmentMark},
    ids::SegmentKey,
    log_core::LogCore,
};
use bytes::Bytes;
use std::{collections::VecDeque, io, path::PathBuf, sync::Arc};
use tidemill_env::{
    Disk, DiskRead, RandomAccessFile,
    lock::{Mutex, MutexGuard},
    sync::atomic::{AtomicBool, Ordering},
};

/// The state of a segment in the sync threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncState {
    /// It waits for no sync.
    Idle,
    /// In the queue.
    Queued,
    /// A thread syncs it; chunks that came since are not covered.
    Syncing,
    /// As `Syncing`, and it must go into the queue again.
    Again,
}

/// A chunk kept in memory.
pub(crate) struct CachedChunk {
    pub(crate) position: u64,
    pub(crate) reference: ChunkRef,
    pub(crate) chunk: Bytes,
}

/// A chunk that waits for a sync.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingChunk {
    /// The position in the file at which the chunk ends.
    pub(crate) end: u64,
    pub(crate) base_offset: i64,
}

/// Chunks that follow each other, each with its position in the file.
pub(crate) struct ChunkRun {
    pub(crate) chunks: Vec<(u64, ChunkRef, Bytes)>,
    pub(crate) bytes: usize,
    /// The offset after them, and the position of the next chunk.
    pub(crate) next: i64,
    pub(crate) position: u64,
}

/// The part of a segment that changes with appends and syncs.
pub(crate) struct SegmentState {
    pub(crate) file: Option<Arc<dyn RandomAccessFile>>,
    /// Chunks stand below this place.
    pub(crate) written: u64,
    /// All below this place is durable.
    pub(crate) durable: u64,
    /// Space is reserved below this place.
    pub(crate) reserved: u64,
    /// Base offset of the first chunk; equal to `end` if there is none.
    pub(crate) first: i64,
    /// The offset after the last chunk.
    pub(crate) end: i64,
    /// `end` of the durable part.
    pub(crate) durable_end: i64,
    /// The number of offsets from `first` to `end` that are here; and of the durable part.
    pub(crate) offsets: i64,
    pub(crate) durable_offsets: i64,
    pub(crate) max_timestamp_ms: i64,
    pub(crate) appended_s: u32,
    /// When the first chunk came, of a segment that is appended to; 0 else.
    pub(crate) first_s: u32,
    /// The moment at which `appended_s` was first seen to be in the future, if it was.
    pub(crate) seen_s: Option<u32>,
    /// The latest append time of the chunks that were there before this segment.
    pub(crate) before_s: u32,
    pub(crate) sealed: bool,
    /// The mark on the disk says that it is sealed.
    pub(crate) seal_marked: bool,
    /// A mark is due, and a thread will write it.
    mark_due: bool,
    pub(crate) marks: u64,
    /// The file's name survives a power cut.
    pub(crate) name_durable: bool,
    /// A sync that failed in an earlier life may have left pages that read as written and are not
    /// on the disk, and would not be by another sync: they must be written again first.
    pub(crate) doubtful: bool,
    /// The file is longer than `written`: an earlier life reserved the rest.
    pub(crate) spare: bool,
    pub(crate) commit: SyncState,
    /// Chunks that wait for a sync, in the order of the file.
    pub(crate) waiting: VecDeque<WaitingChunk>,
    /// The first offset that no sync has covered; none if all is durable.
    pub(crate) unsynced: Option<i64>,
    recent: VecDeque<CachedChunk>,
}

/// One file of chunks.
pub(crate) struct Segment {
    pub(crate) key: SegmentKey,
    pub(crate) path: PathBuf,
    /// The file was recycled: its bytes may be another segment's.
    retired: AtomicBool,
    /// Damage was found in the file.
    suspect: AtomicBool,
    state: Mutex<SegmentState>,
}

/// The extent that a sync is about to cover.
pub(crate) struct SyncJob {
    pub(crate) file: Arc<dyn RandomAccessFile>,
    written: u64,
    end: i64,
    offsets: i64,
    pub(crate) name_durable: bool,
}

/// The result of a sync.
pub(crate) struct SyncOutcome {
    /// Base offsets of the chunks that are durable now.
    pub(crate) landed: Vec<i64>,
    /// More was written meanwhile: sync again.
    pub(crate) again: bool,
    /// All of the segment is durable, and nothing will be appended to it.
    pub(crate) is_complete: bool,
}

impl SegmentState {
    fn enqueue(&mut self) -> bool {
        let (next, queue) = match self.commit {
            SyncState::Idle => (SyncState::Queued, true),
            SyncState::Queued => (SyncState::Queued, false),
            SyncState::Syncing | SyncState::Again => (SyncState::Again, false),
        };
        self.commit = next;
        queue
    }
}

impl Segment {
    /// A segment whose file was just made, empty but for its head.
    pub(crate) fn fresh(key: SegmentKey, path: PathBuf, file: Arc<dyn RandomAccessFile>) -> Self {
        let segment = Self::recovered(key, path, &SegmentMark::none());
        {
            let mut state = segment.state();
            state.file = Some(file);
            state.name_durable = false;
        }
        segment
    }

    /// A segment as its last mark describes it.
    pub(crate) fn recovered(key: SegmentKey, path: PathBuf, mark: &SegmentMark) -> Self {
        let state = SegmentState {
            file: None,
            written: mark.position,
            durable: mark.position,
            reserved: 0,
            first: mark.first,
            end: mark.end,
            durable_end: mark.end,
            offsets: mark.offsets,
            durable_offsets: mark.offsets,
            max_timestamp_ms: mark.max_timestamp_ms,
            appended_s: mark.appended_s,
            first_s: 0,
            seen_s: None,
            before_s: 0,
            sealed: mark.sealed,
            seal_marked: mark.sealed,
            mark_due: false,
            marks: mark.sequence,
            name_durable: true,
            doubtful: false,
            spare: false,
            commit: SyncState::Idle,
            waiting: VecDeque::new(),
            unsynced: None,
            recent: VecDeque::new(),
        };
        Self {
            key,
            path,
            retired: AtomicBool::new(false),
            suspect: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, SegmentState> {
        // A panic elsewhere leaves plain numbers behind; each is set in one step.
        self.state.lock()
    }

    /// The file, opened if it is not.
    pub(crate) fn file(&self, shared: &LogCore) -> io::Result<Arc<dyn RandomAccessFile>> {
        let mut state = self.state();
        if let Some(file) = &state.file {
            return Ok(Arc::clone(file));
        }
        self.check_not_retired()?;
        if !shared.world.disk.exists(&self.path)? {
            return Err(io::ErrorKind::NotFound.into());
        }
        let file = shared.open_segment(&self.path)?;
        state.file = Some(Arc::clone(&file));
        Ok(file)
    }

    /// The file, for reading: as it is open, or opened.
    pub(crate) fn reader_to_send(&self, disk: &dyn Disk) -> io::Result<Arc<dyn DiskRead>> {
        let open = self.state().file.clone();
        open.map_or_else(|| self.reader(disk), |file| Ok(file))
    }

    /// The file, opened for reading.
    pub(crate) fn reader(&self, disk: &dyn Disk) -> io::Result<Arc<dyn DiskRead>> {
        disk.open_read(&self.path)
    }

    /// Records a chunk that was written to the file, and caches `chunk` if it is given. With `sync`
    /// the segment is put on its way to one, as by [`Self::enqueue`]: true if it must go into the
    /// queue.
    pub(crate) fn record_chunk(
        &self,
        reference: ChunkRef,
        chunk: Option<Bytes>,
        waits: bool,
        sync: bool,
    ) -> bool {
        let mut state = self.state();
        let position = state.written;
        if state.first == state.end {
            (state.first, state.first_s) = (reference.base, reference.appended_s);
        }
        state.written += reference.entry_bytes();
        state.end = reference.last + 1;
        state.offsets += reference.last + 1 - reference.base;
        state.max_timestamp_ms = state.max_timestamp_ms.max(reference.max_timestamp_ms);
        state.appended_s = state.appended_s.max(reference.appended_s);
        state.unsynced.get_or_insert(reference.base);
        if waits {
            let written = state.written;
            state.waiting.push_back(WaitingChunk { end: written, base_offset: reference.base });
        }
        if let Some(chunk) = chunk {
            state.recent.push_back(CachedChunk { position, reference, chunk });
        }
        sync && state.enqueue()
    }

    /// Drops the oldest cached chunk.
    pub(crate) fn forget_oldest(&self) {
        self.state().recent.pop_front();
    }

    /// As [`Self::forget_oldest`]; false if no chunk was cached.
    #[cfg(test)]
    pub(crate) fn forget_one(&self) -> bool {
        self.state().recent.pop_front().is_some()
    }

    /// The chunk at this position, if it is cached.
    pub(crate) fn recent(&self, position: u64) -> Option<(ChunkRef, Bytes)> {
        let state = self.state();
        let index = state.recent.binary_search_by_key(&position, |it| it.position).ok()?;
        let recent = &state.recent[index];
        Some((recent.reference.clone(), recent.chunk.clone()))
    }

    /// The chunks from `position` on that follow each other without a gap, from offset `next` up
    /// to `below`, as far as they are in memory and not longer than `max_bytes` together.
    pub(crate) fn recent_run(
        &self,
        position: u64,
        next: i64,
        below: i64,
        max_bytes: usize,
    ) -> Option<ChunkRun> {
        let state = self.state();
        let first = state.recent.binary_search_by_key(&position, |it| it.position).ok()?;
        let mut run = ChunkRun { chunks: Vec::new(), bytes: 0, next, position };
        for recent in state.recent.range(first..) {
            let (reference, bytes) = (&recent.reference, run.bytes + recent.chunk.len());
            if reference.base != run.next || reference.last >= below || bytes > max_bytes {
                break;
            }
            run.chunks.push((recent.position, reference.clone(), recent.chunk.clone()));
            run.bytes = bytes;
            run.next = reference.last + 1;
            run.position = recent.position + reference.entry_bytes();
        }
        (!run.chunks.is_empty()).then_some(run)
    }

    /// The position of the chunk with this offset, or of the first after it, if it is cached.
    pub(crate) fn recent_place(&self, offset: i64) -> Option<u64> {
        let state = self.state();
        let index = state.recent.partition_point(|it| it.reference.last < offset);
        // The first one kept may not be the first one that qualifies.
        let sure = index > 0 || state.recent.front().is_some_and(|it| it.reference.base <= offset);
        sure.then(|| state.recent.get(index).map_or(state.written, |it| it.position))
    }

    /// Puts the segment on its way to a sync. True if it must go into the queue.
    pub(crate) fn enqueue(&self) -> bool {
        self.state().enqueue()
    }

    /// Begins a sync: the job has the extent that it will cover.
    pub(crate) fn begin_sync(&self, shared: &LogCore) -> io::Result<SyncJob> {
        let file = self.file(shared)?;
        if self.state().doubtful {
            // It may still have to tell of that failure. What is in doubt is written after this.
            let _of_an_earlier_life = file.sync();
        }
        let job = self.begin_sync_of_all(shared)?;
        self.state().doubtful = false;
        Ok(job)
    }

    /// As [`Self::begin_sync`], for a sync of the whole file system.
    pub(crate) fn begin_sync_of_all(&self, shared: &LogCore) -> io::Result<SyncJob> {
        let file = self.file(shared)?;
        let mut state = self.state();
        // Recycling takes this lock first.
        self.check_not_retired()?;
        state.commit = SyncState::Syncing;
        if state.doubtful {
            file.rewrite(0, DATA_START)?;
            file.rewrite(state.durable, state.written)?;
        }
        let name_durable = state.name_durable;
        let (written, end, offsets) = (state.written, state.end, state.offsets);
        Ok(SyncJob { file, written, end, offsets, name_durable })
    }

    /// Ends a sync that succeeded.
    pub(crate) fn end_sync(&self, job: &SyncJob) -> SyncOutcome {
        let mut state = self.state();
        state.durable = state.durable.max(job.written);
        state.durable_end = state.durable_end.max(job.end);
        state.durable_offsets = state.durable_offsets.max(job.offsets);
        state.name_durable = true;
        if state.written == job.written {
            state.unsynced = None;
        } else if state.unsynced.is_some_and(|it| it < job.end) {
            state.unsynced = Some(job.end);
        }
        let covered = state.waiting.partition_point(|it| it.end <= job.written);
        let landed = state.waiting.drain(..covered).map(|it| it.base_offset).collect();
        let again = state.commit == SyncState::Again;
        state.commit = if again { SyncState::Queued } else { SyncState::Idle };
        let is_complete = state.sealed && state.durable == state.written;
        SyncOutcome { landed, again, is_complete }
    }

    /// True if no mark is due yet. The caller must call [`Self::mark`] then.
    pub(crate) fn wants_mark(&self) -> bool {
        !std::mem::replace(&mut self.state().mark_due, true)
    }

    /// Writes the segment's mark, if it has changed. It costs no sync: it is covered by
    /// the next one, and survives the end of the process alone in any case.
    pub(crate) fn mark(&self, floor: i64) -> io::Result<()> {
        let mut state = self.state();
        state.mark_due = false;
        let complete = state.sealed && state.durable == state.written;
        if state.seal_marked || state.file.is_none() {
            return Ok(());
        }
        state.marks += 1;
        let mark = SegmentMark {
            sequence: state.marks,
            position: state.durable,
            first: state.first,
            end: state.durable_end,
            offsets: state.durable_offsets,
            max_timestamp_ms: state.max_timestamp_ms,
            appended_s: state.appended_s,
            floor,
            sealed: complete,
            cut: false,
        };
        let (at, bytes) = mark.encode(&self.key);
        state.seal_marked = complete;
        match &state.file {
            Some(file) => file.write_at(at, &bytes),
            None => Ok(()),
        }
    }

    /// Gives space back that an earlier life reserved.
    pub(crate) fn trim(&self, disk: &dyn Disk) -> io::Result<()> {
        // Held to the end: recycling waits for it.
        let mut state = self.state();
        if state.spare && !self.is_retired() {
            disk.open_append(&self.path)?.truncate(state.written)?;
            state.spare = false;
        }
        Ok(())
    }

    /// Closes the file if nothing is written to it any more.
    pub(crate) fn close_if_done(&self) {
        let mut state = self.state();
        if state.seal_marked && state.commit == SyncState::Idle {
            state.file = None;
        }
    }

    /// Ends the appends to this segment.
    pub(crate) fn seal(&self) {
        self.state().sealed = true;
    }

    /// Gives the file up for recycling.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
        let mut state = self.state();
        state.recent.clear();
        state.file = None;
    }

    /// Notes that the file is damaged: from now on its chunks are checked before they are handed
    /// out.
    pub(crate) fn suspect(&self) {
        self.suspect.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::SeqCst)
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// An error if the file was recycled. For callers that hold the lock of the state.
    fn check_not_retired(&self) -> io::Result<()> {
        if self.is_retired() { Err(io::ErrorKind::NotFound.into()) } else { Ok(()) }
    }

    /// The first offset, and the one after the last.
    pub(crate) fn range(&self) -> (i64, i64) {
        let state = self.state();
        (state.first, state.end)
    }
}

#[cfg(test)]
mod tests;
