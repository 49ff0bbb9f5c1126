//! A streamlet: an ordered run of groups, several of them appended to at once, with one counter
//! of offsets. To a Kafka client it is one partition.
//!
//! ```text
//! append ─ order key mod Q ─▶ 0 ▶ group 4: ▣ ▣ ▢        ▣ a sealed segment, ▢ the open one
//!                             1 ▶ group 5: ▣ ▢
//! ```
//!
//! Lock order: active group, then segment or offsets; no lock is held while a notification is sent.
//! The offset is taken under the active group's lock, so offsets grow along each segment.

use crate::{
    append::ActiveGroup,
    epoch_journal::StreamletEpochs,
    error::AppendError,
    groups::Applications,
    ids::SegmentKey,
    log_core::LogCore,
    meta::StreamMeta,
    offset_tracker::{
        Notifications, OffsetTracker, OnData, OnDurable, Registration, WaitKey, failure,
    },
    options::{Fsync, StreamLimits, StreamSpec},
    role::{Landing, StreamletRole},
    segment::Segment,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};
use tidemill_env::{
    lock::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard},
    sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};
use tidemill_types::{GroupIx, SegmentEpoch, SegmentIx, StreamletIx};

/// The parts that the streamlets of a stream share.
pub(crate) struct StreamCore {
    pub(crate) id: crate::ids::StreamId,
    pub(crate) name: Arc<str>,
    pub(crate) folder: PathBuf,
    pub(crate) spec: RwLock<StreamSpec>,
    /// The settings of `spec` that each append reads.
    pub(crate) limits: StreamLimits,
    /// First offsets of streamlets, as in the metadata. The holder of the lock may write the
    /// metadata, unless the stream was deleted.
    pub(crate) starts: Mutex<BTreeMap<StreamletIx, i64>>,
    pub(crate) deleted: AtomicBool,
}

impl StreamCore {
    /// The metadata with these first offsets.
    pub(crate) fn meta(&self, starts: &BTreeMap<StreamletIx, i64>, deleted: bool) -> StreamMeta {
        let (id, name) = (self.id.to_string(), self.name.to_string());
        StreamMeta { id, name, spec: self.spec(), starts: starts.clone(), deleted }
    }

    pub(crate) fn spec(&self) -> StreamSpec {
        self.spec.read().clone()
    }

    /// The number of streamlets in the settings.
    pub(crate) fn streamlet_count(&self) -> u32 {
        self.spec.read().streamlets
    }

    pub(crate) fn set_spec(&self, spec: StreamSpec) {
        self.limits.set(&spec);
        *self.spec.write() = spec;
    }
}

/// The place of a segment among those of its streamlet: by first offset, then by epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentPlace {
    pub(crate) first_offset: i64,
    pub(crate) epoch: SegmentEpoch,
}

impl SegmentPlace {
    /// The place of a segment that has a chunk.
    pub(crate) fn of(segment: &Segment) -> Self {
        Self { first_offset: segment.range().0, epoch: segment.key.epoch }
    }

    /// A place behind all segments that begin at `offset`.
    pub(crate) fn behind(offset: i64) -> Self {
        Self { first_offset: offset, epoch: SegmentEpoch(u64::MAX) }
    }
}

pub(crate) type Segments = BTreeMap<SegmentPlace, Arc<Segment>>;

/// An ordered run of groups with one counter of offsets.
pub struct Streamlet {
    pub(crate) shared: Arc<LogCore>,
    pub(crate) stream: Arc<StreamCore>,
    pub(crate) index: StreamletIx,
    pub(crate) active_groups: RwLock<Vec<Arc<Mutex<ActiveGroup>>>>,
    next_group: AtomicU64,
    /// All segments that have a chunk.
    segments: RwLock<Segments>,
    /// Segments that are not durable to their end.
    unsynced: Mutex<Vec<Arc<Segment>>>,
    /// Wakes threads that wait for segments to become durable, or to fail.
    synced: Condvar,
    offsets: Mutex<OffsetTracker>,
    /// The epochs of its records. A change of role holds this lock, and takes that of `offsets`.
    pub(crate) epochs: Mutex<StreamletEpochs>,
    /// This node leads it; a hint for appends, which ask again when they take their offsets.
    pub(crate) leads: AtomicBool,
    /// Everything below is durable. Chunk references carry it to a recovery.
    floor: AtomicI64,
    failed: AtomicBool,
    /// All consumers have read everything below.
    progress_floor: AtomicI64,
    /// The applications that read it by groups, and their progress.
    pub(crate) applications: Mutex<Applications>,
}

impl std::fmt::Debug for Streamlet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Streamlet({} {})", self.stream.name, self.index)
    }
}

/// The subscription of a reader that waits for data. Dropping it cancels the notification.
#[must_use = "the notice is forgotten when this is dropped"]
pub struct DataSubscription {
    streamlet: Weak<Streamlet>,
    reader: Option<WaitKey>,
}

impl Drop for DataSubscription {
    fn drop(&mut self) {
        if let (Some(streamlet), Some(reader)) = (self.streamlet.upgrade(), self.reader) {
            streamlet.offsets().forget(reader);
        }
    }
}

impl Streamlet {
    /// A streamlet with these segments and epochs; offsets go on at `next`.
    pub(crate) fn new(
        shared: &Arc<LogCore>,
        stream: &Arc<StreamCore>,
        index: StreamletIx,
        recovered: crate::recover::RecoveredStreamlet,
        epochs: StreamletEpochs,
        role: StreamletRole,
    ) -> Arc<Self> {
        let place = |segment: Arc<Segment>| (SegmentPlace::of(&segment), segment);
        for segment in &recovered.segments {
            shared.record_append_time(segment.state().appended_s);
        }
        let unsynced = recovered.unsynced;
        let durable = unsynced.iter().map(|it| it.range().0).fold(recovered.next, i64::min);
        let landing = if role.leads() { Landing::Local } else { Landing::Replicated };
        let offsets = OffsetTracker::new(recovered.start, recovered.next, role, landing);
        let streamlet = Self {
            shared: Arc::clone(shared),
            stream: Arc::clone(stream),
            index,
            active_groups: RwLock::default(),
            next_group: AtomicU64::new(recovered.next_group.0),
            segments: RwLock::new(recovered.segments.into_iter().map(place).collect()),
            unsynced: Mutex::new(unsynced.clone()),
            synced: Condvar::new(),
            offsets: Mutex::new(offsets),
            epochs: Mutex::new(epochs),
            leads: AtomicBool::new(role.leads()),
            floor: AtomicI64::new(durable),
            failed: AtomicBool::new(false),
            progress_floor: AtomicI64::new(0),
            applications: Mutex::default(),
        };
        let streamlet = Arc::new(streamlet);
        streamlet.set_active_groups(stream.spec().active_groups);
        unsynced.iter().for_each(|segment| streamlet.seal(segment));
        streamlet
    }

    /// The streamlet's number in its stream, from 0.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index.0
    }

    /// The stream's name.
    #[must_use]
    pub fn stream_name(&self) -> &str {
        &self.stream.name
    }

    /// The first offset that can be read.
    #[must_use]
    pub fn start_offset(&self) -> i64 {
        self.offsets().start()
    }

    /// The offset after the last that can be read: all below is acknowledged, within the
    /// durability chosen.
    #[must_use]
    pub fn high_watermark(&self) -> i64 {
        self.offsets().watermark()
    }

    /// The offset that the next record will have.
    #[must_use]
    pub fn end_offset(&self) -> i64 {
        self.offsets().next()
    }

    /// Bytes of its segments on the disk: heads, references, chunks and padding.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.segments().values().map(|it| it.state().written).sum()
    }

    /// The number of segments that have data.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.segments().len()
    }

    /// Lets retention delete whole segments below `offset`, whatever their age: all consumers have
    /// read them. The caller has to know that; for readers of groups, see [`Self::groups_floor`].
    /// Not kept over a restart. Default 0: no segment goes so.
    pub fn set_progress_floor(&self, offset: i64) {
        self.progress_floor.store(offset, Ordering::SeqCst);
    }

    pub(crate) fn progress_floor(&self) -> i64 {
        self.progress_floor.load(Ordering::SeqCst)
    }

    /// The reason that it takes no appends, if it takes none.
    #[must_use]
    pub fn failure(&self) -> Option<AppendError> {
        self.offsets().failed().cloned()
    }

    /// Calls back once when the record at `offset` can be read, when the streamlet fails, or when
    /// its stream is deleted: read again then. Calls at once if it can be read now. Dropping the
    /// subscription cancels the call. The callback must be quick and must not block.
    pub fn on_data(self: &Arc<Self>, offset: i64, notice: OnData) -> DataSubscription {
        let registered = self.offsets().on_data(offset, notice);
        let reader = match registered {
            Ok(reader) => Some(reader),
            Err(notice) => {
                notice();
                None
            }
        };
        DataSubscription { streamlet: Arc::downgrade(self), reader }
    }

    /// Calls back once the record at `offset` counts and is visible, or will never count. Any
    /// number of callers may wait for one offset, beside the append's own
    /// [`crate::Append::on_durable`]: a repeated append waits for the first one in this way. An
    /// offset that no append has taken yet is awaited too.
    ///
    /// Called at once, on this thread, if the outcome is known. The callback must be quick and must
    /// not block.
    pub fn on_visible(&self, offset: i64, notice: OnDurable) {
        let registered = self.offsets().on_visible(offset, notice);
        if let Registration::Now(notice, outcome) = registered {
            notice(outcome);
        }
    }

    pub(crate) fn offsets(&self) -> MutexGuard<'_, OffsetTracker> {
        self.offsets.lock()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.stream.folder
    }

    pub(crate) fn is_failed(&self) -> bool {
        self.failed.load(Ordering::SeqCst)
    }

    pub(crate) fn fsync(&self) -> Fsync {
        self.stream.limits.fsync().unwrap_or(self.shared.options.fsync)
    }

    pub(crate) fn segments(&self) -> RwLockReadGuard<'_, Segments> {
        self.segments.read()
    }

    /// Makes chunks count, and sends the notifications.
    pub(crate) fn land(&self, bases: impl IntoIterator<Item = i64>) {
        let notices: Notifications = self.offsets().land(bases);
        notices.send();
    }

    /// Ends the appends; all waiting callers get the error.
    pub(crate) fn fail(&self, why: &str) {
        self.mark_failed(why).send();
    }

    /// As [`Self::fail`]; the caller sends the notifications.
    pub(crate) fn mark_failed(&self, why: &str) -> Notifications {
        self.end(failure(why))
    }

    /// As [`Self::fail`], because the log is closed or the stream deleted.
    pub(crate) fn close(&self) {
        self.end(AppendError::Closed).send();
    }

    /// Ends the appends with this error; the caller sends the notifications.
    pub(crate) fn end(&self, error: AppendError) -> Notifications {
        self.failed.store(true, Ordering::SeqCst);
        let notices = self.offsets().fail(error);
        // A waiting thread has read `failed` before this, or is woken now.
        drop(self.unsynced());
        self.synced.notify_all();
        notices
    }

    /// True if all that was ever appended is on the disk.
    pub(crate) fn is_durable(&self) -> bool {
        let durable = |it: &Arc<Segment>| {
            let state = it.state();
            state.unsynced.is_none() && state.durable == state.written
        };
        !self.is_failed() && self.segments().values().all(durable)
    }

    /// The floor that chunk references carry: all offsets of the streamlet below it are durable.
    pub(crate) fn floor(&self) -> i64 {
        self.floor.load(Ordering::SeqCst)
    }

    /// Computes the floor: the first offset that is not durable, or may not be. The floor of a
    /// failed streamlet stays: its chunks in flight were never written.
    pub(crate) fn update_floor(&self) {
        let mut unsynced = self.unsynced();
        self.synced.notify_all();
        // Offsets in flight are more than the written ones: one that is taken after this is
        // not below `next`.
        let mut floor = {
            let offsets = self.offsets();
            if offsets.failed().is_some() {
                return;
            }
            offsets.first_in_flight()
        };
        unsynced.retain(|segment| {
            let state = segment.state();
            floor = floor.min(state.unsynced.unwrap_or(i64::MAX));
            !state.sealed || state.unsynced.is_some()
        });
        self.floor.fetch_max(floor, Ordering::SeqCst);
    }

    /// Adds a segment that got its first chunk.
    pub(crate) fn add_segment(&self, segment: &Arc<Segment>) {
        let place = SegmentPlace::of(segment);
        let mut segments = self.segments.write();
        segments.insert(place, Arc::clone(segment));
        drop(segments);
        self.unsynced().push(Arc::clone(segment));
    }

    fn unsynced(&self) -> MutexGuard<'_, Vec<Arc<Segment>>> {
        self.unsynced.lock()
    }

    /// Queues an immediate sync of all that was written under earlier settings. Returns
    /// the segments that are not durable to their end, each with its end.
    pub(crate) fn expedite(self: &Arc<Self>) -> Vec<(Arc<Segment>, u64)> {
        // An append may have read the settings before they changed. It holds the lock of its active
        // group to its end.
        let active_groups = self.active_groups.read().clone();
        active_groups.iter().for_each(|active| drop(active.lock()));
        self.shared.committer.expedite(self);
        let segments = self.unsynced().clone();
        let mut behind = Vec::new();
        for segment in segments {
            let written = {
                let state = segment.state();
                state.unsynced.map(|_| state.written)
            };
            if let Some(written) = written {
                self.sync_soon(&segment);
                behind.push((segment, written));
            }
        }
        behind
    }

    /// Waits until these segments are durable up to these places, or the streamlet has failed.
    pub(crate) fn wait_synced(&self, to: &[(Arc<Segment>, u64)]) {
        let mut unsynced = self.unsynced();
        let behind = |(segment, written): &(Arc<Segment>, u64)| segment.state().durable < *written;
        while !self.is_failed() && to.iter().any(behind) {
            unsynced = self.synced.wait(unsynced);
        }
    }

    pub(crate) fn remove_segments(&self, places: &[SegmentPlace]) {
        let mut segments = self.segments.write();
        places.iter().for_each(|place| {
            segments.remove(place);
        });
    }

    /// Takes the number of a new group.
    pub(crate) fn new_group(&self) -> GroupIx {
        GroupIx(self.next_group.fetch_add(1, Ordering::SeqCst))
    }

    /// The number after all groups so far.
    pub(crate) fn next_group(&self) -> GroupIx {
        GroupIx(self.next_group.load(Ordering::SeqCst))
    }

    pub(crate) fn next_key(&self, group: GroupIx, index: SegmentIx) -> SegmentKey {
        let (stream, streamlet) = (self.stream.id, self.index);
        SegmentKey { stream, streamlet, group, index, epoch: self.shared.next_epoch() }
    }
}
