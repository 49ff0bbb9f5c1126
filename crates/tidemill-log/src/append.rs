//! Appending: a checked chunk gets its offset and goes to the end of an active group's segment.
//!
//! Nothing changes unless space for the chunk is reserved first: so a full disk is an error that
//! leaves everything as it was, and the next append may succeed.

use crate::{
    error::AppendError,
    format::{ChunkRef, DATA_START, REF_BYTES, entry_bytes},
    log_core::with_room,
    offset_tracker::{Notifications, OnDurable, TakenOffsets},
    options::Fsync,
    segment::Segment,
    streamlet::Streamlet,
};
use bytes::{Bytes, BytesMut};
use std::{io, sync::Arc};
use tidemill_env::{
    RandomAccessFile,
    lock::{Condvar, Mutex},
    sync::atomic::Ordering,
};
use tidemill_types::{GroupIx, LeaderEpoch, SegmentIx};
use tidemill_wire::chunk::{CHUNK_HEAD_BYTES, ChunkError, ChunkHead, stamp};

/// The first reservation of a segment; it doubles until the segment is as long as it may be.
const RESERVE_FIRST: u64 = 256 << 10;
/// The delay before a full segment is synced that no append waits for, in microseconds.
const POSTPONED_US: u64 = 30_000_000;

/// The open end of one of a streamlet's active groups.
#[derive(Default)]
pub(crate) struct ActiveGroup {
    pub(crate) open: Option<Arc<Segment>>,
    /// Maintenance rounds since the last append.
    pub(crate) idle_rounds: u32,
    /// The number of active groups has shrunk, and this is no longer one of them.
    retired: bool,
}

/// The options of one append.
#[derive(Clone, Copy, Debug, Default)]
pub struct AppendOptions {
    /// Picks the active group, so chunks with one key keep their order. Use the producer id, or a
    /// number of the connection if there is none.
    pub order_key: u64,
}

impl AppendOptions {
    fn origin(self) -> ChunkOrigin {
        ChunkOrigin::Own { order_key: self.order_key }
    }
}

/// An append that has its offsets. It counts (is acknowledged, is visible) when
/// [`Self::on_durable`] or [`Self::wait`] says so.
#[must_use = "an append counts when `on_durable` or `wait` says so"]
#[derive(Debug)]
pub struct Append {
    streamlet: Arc<Streamlet>,
    /// Offset of the chunk's first record.
    pub base_offset: i64,
    /// Offset of the chunk's last record.
    pub last_offset: i64,
    /// The leader epoch under which it was appended.
    pub leader_epoch: LeaderEpoch,
    /// The group it went to.
    pub group: GroupIx,
    /// The segment in the group.
    pub segment: SegmentIx,
    /// The position of its reference in the segment's file: with group and segment, its native
    /// offset.
    pub position: u64,
}

impl Append {
    /// Calls back once: when the chunk counts within the stream's durability, or when it is known
    /// that it will not. May call at once, on this thread; else a sync thread or another append's
    /// thread calls. The callback must be quick and must not block.
    pub fn on_durable(self, notice: OnDurable) {
        self.streamlet.on_visible(self.base_offset, notice);
    }

    /// Waits until the chunk counts. Blocks for ever if [`crate::LogOptions::sync_threads`] is 0
    /// and no thread calls [`crate::Log::sync`].
    ///
    /// # Errors
    /// It will not count: the streamlet failed, or the log was closed.
    pub fn wait(self) -> Result<(), AppendError> {
        let cell = Arc::new((Mutex::new(None), Condvar::new()));
        let tell = Arc::clone(&cell);
        self.on_durable(Box::new(move |outcome| {
            *tell.0.lock() = Some(outcome);
            tell.1.notify_one();
        }));
        let mut outcome = cell.0.lock();
        loop {
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            outcome = cell.1.wait(outcome);
        }
    }
}

/// An append's error for an error of the disk.
fn disk_error(error: io::Error) -> AppendError {
    if tidemill_env::has_no_room(&error) {
        AppendError::Full(Arc::new(error))
    } else {
        AppendError::Disk(Arc::new(error))
    }
}

/// A chunk to append.
pub(crate) enum ChunkInput<'a> {
    /// A slice of the caller's.
    Lent(&'a [u8]),
    Given(Bytes),
}

impl ChunkInput<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Given(bytes) => bytes,
        }
    }

    /// The bytes in memory of their own, copied if they are shared.
    fn owned(self) -> BytesMut {
        match self {
            Self::Lent(bytes) => BytesMut::from(bytes),
            Self::Given(bytes) => {
                bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]))
            }
        }
    }
}

/// The origin of a chunk.
pub(crate) enum ChunkOrigin {
    /// A client or a job of this node, which leads. The chunk goes to the group of this order key.
    Own { order_key: u64 },
    /// The leader, which has given it these offsets.
    Leader(TakenOffsets),
}

/// The place of the next chunk of a group.
struct AppendPosition {
    segment: Arc<Segment>,
    file: Arc<dyn RandomAccessFile>,
    position: u64,
    /// All below this place of the segment is durable.
    durable: u64,
}

impl Streamlet {
    /// Appends one chunk, which is checked first, if this node leads the streamlet. The log stores a
    /// copy with base offset and leader epoch stamped in; the other bytes are as they are. Returns when the chunk is written, not
    /// synced.
    ///
    /// Appends with one order key are stored in the order of the calls; calls with different keys
    /// run in parallel when the stream has several active groups.
    ///
    /// # Errors
    /// The chunk is refused, there is no room, or the disk failed; [`AppendError`] says which of
    /// these concern earlier appends.
    pub fn append(
        self: &Arc<Self>,
        chunk: &[u8],
        options: AppendOptions,
    ) -> Result<Append, AppendError> {
        let head = ChunkHead::check(chunk)?;
        self.append_entry(&head, ChunkInput::Lent(chunk), options.origin())
    }

    /// As [`Self::append`], for a chunk that was checked: `head` is the result of
    /// [`ChunkHead::check`] for the same bytes. The checksum is not computed again; if the bytes
    /// differ, readers get an error of damage.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_checked(
        self: &Arc<Self>,
        head: &ChunkHead,
        chunk: &[u8],
        options: AppendOptions,
    ) -> Result<Append, AppendError> {
        self.append_entry(head, ChunkInput::Lent(chunk), options.origin())
    }

    /// As [`Self::append_checked`], for a chunk that the caller gives away. If the buffer is not
    /// shared, the log stamps it in place and keeps it for readers. The whole allocation stays with
    /// it, so give away only buffers that the chunk fills.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn append_owned(
        self: &Arc<Self>,
        head: &ChunkHead,
        chunk: Bytes,
        options: AppendOptions,
    ) -> Result<Append, AppendError> {
        self.append_entry(head, ChunkInput::Given(chunk), options.origin())
    }

    pub(crate) fn append_entry(
        self: &Arc<Self>,
        head: &ChunkHead,
        chunk: ChunkInput<'_>,
        origin: ChunkOrigin,
    ) -> Result<Append, AppendError> {
        let bytes = chunk.bytes().len();
        if bytes != head.bytes {
            return Err(ChunkError::Short { have: bytes, want: head.bytes }.into());
        }
        let order_key = match origin {
            ChunkOrigin::Own { order_key } => {
                let max = self.stream.limits.max_chunk_bytes();
                if bytes as u64 > max {
                    return Err(AppendError::TooLarge { bytes, max });
                }
                if !self.leads.load(Ordering::Relaxed) {
                    return Err(AppendError::NotLeader { epoch: self.leader_epoch() });
                }
                order_key
            }
            // One group: they come in the order of their offsets.
            ChunkOrigin::Leader(_) => 0,
        };
        let (mut active_of_key, mut alone) = self.pick_group(order_key);
        let mut active = loop {
            let active = active_of_key.lock();
            if !active.retired {
                break active;
            }
            drop(active);
            (active_of_key, alone) = self.pick_group(order_key);
        };
        if self.is_failed()
            && let Some(error) = self.failure()
        {
            return Err(error);
        }
        if self.shared.is_closed() {
            return Err(AppendError::Closed);
        }
        let room = self.room(&mut active, entry_bytes(bytes)).map_err(disk_error)?;
        active.idle_rounds = 0;
        let count = i64::from(head.record_count);
        // The role is looked at in the same step: no offset is given out under two epochs.
        let taken = match origin {
            ChunkOrigin::Own { .. } => self.offsets().take(count)?,
            ChunkOrigin::Leader(sent) => self.offsets().take_replica(sent, count)?,
        };
        let base = taken.base;
        let outcome = match self.write(&room, head, taken, chunk) {
            Ok(counts) => Ok(counts),
            Err(error) => Err(self.undo(&room, base, alone, error)),
        };
        // Callbacks come after the group's lock is released: they may append to it.
        drop(active);
        match outcome {
            Ok(counts) => {
                if counts {
                    self.land([base]);
                }
                Ok(Append {
                    streamlet: Arc::clone(self),
                    base_offset: base,
                    last_offset: base + count - 1,
                    leader_epoch: taken.epoch,
                    group: room.segment.key.group,
                    segment: room.segment.key.index,
                    position: room.position,
                })
            }
            Err((error, notices)) => {
                notices.into_iter().for_each(Notifications::send);
                Err(error)
            }
        }
    }

    /// The active group of an order key, and true if it is the only one.
    fn pick_group(&self, order_key: u64) -> (Arc<Mutex<ActiveGroup>>, bool) {
        let active_groups = self.active_groups.read();
        let index = (order_key % active_groups.len() as u64) as usize;
        (Arc::clone(&active_groups[index]), active_groups.len() == 1)
    }

    /// The end of an active group's open segment, with reserved space for `need` more bytes.
    fn room(self: &Arc<Self>, active: &mut ActiveGroup, need: u64) -> io::Result<AppendPosition> {
        let segment_bytes = self.stream.limits.segment_bytes();
        if let Some(segment) = &active.open {
            let (position, durable, reserved, file) = {
                let state = segment.state();
                (state.written, state.durable, state.reserved, state.file.clone())
            };
            let end = position + need;
            if position == DATA_START || end <= segment_bytes {
                let segment = Arc::clone(segment);
                if let Some(file) = file.filter(|_| end <= reserved) {
                    return Ok(AppendPosition { segment, file, position, durable });
                }
                let file = segment.file(&self.shared)?;
                let doubled = (reserved * 2).min(segment_bytes).max(end);
                with_room(&self.shared, || file.reserve(doubled))?;
                segment.state().reserved = doubled.max(reserved);
                return Ok(AppendPosition { segment, file, position, durable });
            }
        }
        let (group, index) = match active.open.as_ref().map(|it| it.key) {
            Some(key) if key.index.0 + 1 < self.shared.options.group_segments => {
                (key.group, SegmentIx(key.index.0 + 1))
            }
            _ => (self.new_group(), SegmentIx(0)),
        };
        let key = self.next_key(group, index);
        let reserve = RESERVE_FIRST.min(segment_bytes).max(DATA_START + need);
        let made = with_room(&self.shared, || {
            self.shared.make_segment(key, self.folder(), &self.stream.name, reserve)
        })?;
        let made = Arc::new(made);
        if let Some(full) = active.open.replace(Arc::clone(&made)) {
            self.seal(&full);
        }
        let file = made.file(&self.shared)?;
        Ok(AppendPosition { segment: made, file, position: DATA_START, durable: DATA_START })
    }

    /// Seals a segment: it gets no more chunks, and its mark says so once all of it is durable.
    pub(crate) fn seal(self: &Arc<Self>, segment: &Arc<Segment>) {
        segment.seal();
        if self.fsync() == Fsync::Os {
            self.postpone_sync(segment);
        } else {
            self.sync_soon(segment);
        }
    }

    /// Queues a sync for later: by then the system has written most of it, and the sync is cheap.
    fn postpone_sync(self: &Arc<Self>, segment: &Arc<Segment>) {
        if segment.enqueue() {
            let bytes = segment.state().written;
            let due_us = self.shared.world.clock.monotonic_micros() + POSTPONED_US;
            let work = (Arc::clone(self), Arc::clone(segment));
            self.shared.committer.postpone(due_us, bytes, work);
            self.queued_as(Fsync::Os);
        }
    }

    pub(crate) fn sync_soon(self: &Arc<Self>, segment: &Arc<Segment>) {
        if segment.enqueue() {
            self.shared.committer.push((Arc::clone(self), Arc::clone(segment)));
        }
    }

    /// Queues a segment for a sync, at the moment that `fsync` asks for.
    pub(crate) fn queue(self: &Arc<Self>, segment: &Arc<Segment>, fsync: Fsync) {
        let work = (Arc::clone(self), Arc::clone(segment));
        match fsync {
            Fsync::Every(span) => self.shared.sync_after(span, work),
            Fsync::Always | Fsync::Os => self.shared.committer.push(work),
        }
        self.queued_as(fsync);
    }

    /// A concurrent change of the setting may have missed the entry that was just queued.
    fn queued_as(self: &Arc<Self>, fsync: Fsync) {
        if self.fsync() != fsync {
            self.shared.committer.expedite(self);
        }
    }

    /// Writes a chunk, stamped, at the end of a segment: whether it counts as soon as that is
    /// done.
    fn write(
        self: &Arc<Self>,
        room: &AppendPosition,
        head: &ChunkHead,
        taken: TakenOffsets,
        chunk: ChunkInput<'_>,
    ) -> io::Result<bool> {
        let AppendPosition { segment, position, .. } = room;
        let append_time_s = self.shared.append_time_s();
        let reference =
            ChunkRef::of(head, taken.base, taken.epoch, append_time_s, room.durable, self.floor());
        let bytes = reference.entry_bytes();
        let kept = self.write_entry(room, &reference, chunk)?;
        let fsync = self.fsync();
        let waits = fsync == Fsync::Always;
        let keeps = kept.is_some();
        let queue = segment.record_chunk(reference, kept, waits, fsync != Fsync::Os);
        if *position == DATA_START {
            self.add_segment(segment);
        }
        if keeps {
            self.shared.memory.keep(segment, bytes);
        }
        if queue {
            self.queue(segment, fsync);
        }
        Ok(!waits)
    }

    /// Writes reference, stamped chunk and padding. Returns the chunk if it is to be cached.
    fn write_entry(
        &self,
        room: &AppendPosition,
        reference: &ChunkRef,
        chunk: ChunkInput<'_>,
    ) -> io::Result<Option<Bytes>> {
        let bytes = reference.entry_bytes() as usize;
        let encoded = reference.encode(&room.segment.key, room.position);
        let padding = &[0; 8][..bytes - REF_BYTES - chunk.bytes().len()];
        if !self.shared.memory.is_on() {
            // No copy but the one into the file.
            let chunk = chunk.bytes();
            let (head, records) = chunk.split_at(CHUNK_HEAD_BYTES.min(chunk.len()));
            let mut stamped = [0; CHUNK_HEAD_BYTES];
            let stamped = &mut stamped[..head.len()];
            stamped.copy_from_slice(head);
            stamp(stamped, reference.base, reference.leader_epoch);
            let parts = [&encoded[..], stamped, records, padding];
            room.file.write_parts_at(room.position, &parts)?;
            return Ok(None);
        }
        // The same stamped bytes are written and cached.
        let mut chunk = chunk.owned();
        stamp(&mut chunk, reference.base, reference.leader_epoch);
        room.file.write_parts_at(room.position, &[&encoded[..], &chunk, padding])?;
        Ok(Some(chunk.freeze()))
    }

    /// Undoes a failed write, part of which may be in the file. If this chunk's offsets are the
    /// last taken and no other group could use them, nothing has happened once its reference is
    /// wiped out; else the streamlet fails.
    fn undo(
        &self,
        room: &AppendPosition,
        base: i64,
        alone: bool,
        error: io::Error,
    ) -> (AppendError, Option<Notifications>) {
        let wiped = || room.file.write_at(room.position, &[0; REF_BYTES]);
        if alone && wiped().is_ok() && self.offsets().give_back(base) {
            return (disk_error(error), None);
        }
        let why = format!("write to {} failed: {error}", room.segment.path.display());
        let notices = self.mark_failed(&why);
        let error = self.offsets().failed().cloned().unwrap_or_else(|| disk_error(error));
        (error, Some(notices))
    }

    /// Sets the number of active groups. Groups beyond it end here.
    pub(crate) fn set_active_groups(self: &Arc<Self>, count: u32) {
        let mut active_groups = self.active_groups.write();
        let count = count.max(1) as usize;
        let gone =
            if count < active_groups.len() { active_groups.split_off(count) } else { Vec::new() };
        active_groups.resize_with(count, Arc::default);
        drop(active_groups);
        for active in gone {
            let mut active = active.lock();
            // An append that has picked this group must pick again.
            active.retired = true;
            let open = active.open.take();
            drop(active);
            open.iter().for_each(|segment| self.seal(segment));
        }
    }
}
