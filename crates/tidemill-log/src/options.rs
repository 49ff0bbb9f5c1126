//! Settings as plain values: of a log, and of a stream in it.

use crate::role::StartRole;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tidemill_env::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use tidemill_types::{ByteSize, Incarnation, Span};

/// Streamlets of a stream, at the most.
pub(crate) const STREAMLETS_MAX: u32 = 100_000;

/// When an append counts: is acknowledged and is visible to readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fsync {
    /// When it is on the disk. Appends that wait share one sync (group commit). A power failure
    /// loses nothing that was acknowledged.
    #[default]
    Always,
    /// When it is written; files are synced this often. A power failure loses at most the chunks
    /// acknowledged in the last such span; the end of the process loses nothing.
    Every(Span),
    /// When it is written; a segment is synced once, when it is full. A power failure may lose
    /// chunks acknowledged since then; the end of the process loses nothing.
    Os,
}

/// The way bytes get into segment files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Journal {
    /// By positioned writes: a call of the system for each chunk; each error comes back.
    #[default]
    Write,
    /// Through memory maps of reserved files: a copy, and no system call. Pages are faulted in
    /// ahead of the writes, which reports errors of the disk, as syncs do. But an error at a later
    /// write to a page that was synced ends the process (`SIGBUS`). Acknowledged chunks are as safe
    /// as ever. Not for file systems that copy on write (Btrfs).
    Map,
}

/// Settings of a log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// The incarnation of the node in its cluster: above all that the folder has seen, and used by
    /// no other node. Default none: the node is alone, and its incarnations are counted in the
    /// folder.
    pub incarnation: Option<Incarnation>,
    /// The roles of all streamlets to begin with. Default: alone.
    pub role: StartRole,
    /// For streams that do not say otherwise. Default: always.
    pub fsync: Fsync,
    /// The way segments are written. Default: positioned writes. It can change between two
    /// openings; the files are the same.
    pub journal: Journal,
    /// Threads that sync files. Default 2. With 0 the log has no threads, and its owner calls
    /// [`crate::Log::sync`]: for tests and simulations.
    pub sync_threads: usize,
    /// The number of waiting segments from which one sync of the whole file system may replace one
    /// sync each, if it is faster. That sync writes the unsynced data of other programs too.
    /// Default 4; 0: never.
    pub sync_together_min: usize,
    /// Appended bytes kept in memory for readers, over all streams. Default 256 MiB. With 0
    /// appends are not copied, and readers read files.
    pub memory_bytes: ByteSize,
    /// The length of one read of older data. Default 256 KiB.
    pub read_ahead_bytes: ByteSize,
    /// Emptied segment files kept for reuse. Default 256 MiB.
    pub recycled_bytes: ByteSize,
    /// Segments in a group. Default 4.
    pub group_segments: u32,
    /// Streamlets over all streams; more are refused. Default 100,000.
    pub streamlets_max: u32,
    /// Disk space reserved for deletions on a full disk. Default 0: none.
    pub reserve_bytes: ByteSize,
    /// Settings of new streams, for callers that create them. Its `settings` by name are ignored.
    pub defaults: StreamSpec,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            incarnation: None,
            role: StartRole::Alone,
            fsync: Fsync::Always,
            journal: Journal::Write,
            sync_threads: 2,
            sync_together_min: 4,
            memory_bytes: ByteSize(256 << 20),
            read_ahead_bytes: ByteSize(256 << 10),
            recycled_bytes: ByteSize(256 << 20),
            group_segments: 4,
            streamlets_max: 100_000,
            reserve_bytes: ByteSize(0),
            defaults: StreamSpec::default(),
        }
    }
}

/// The limits of a stream's age and size. The start of a streamlet moves by whole segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retention {
    /// Data go this long after they were appended (by this machine's clock, whatever timestamps
    /// producers claim). None: never. Default 7 days.
    pub time: Option<Span>,
    /// The oldest segment of a streamlet goes when the others have this many bytes or more: that
    /// much is always kept. None: no limit; the default.
    pub bytes: Option<ByteSize>,
}

impl Default for Retention {
    fn default() -> Self {
        Self { time: Some(Span(7 * 86_400_000_000)), bytes: None }
    }
}

/// Settings of a stream. All can be changed while it is used, but streamlets can only be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamSpec {
    /// The number of streamlets; 1 to 100,000. Default 1.
    pub streamlets: u32,
    /// Groups of a streamlet that are appended to at once; 1 to 64. Default 1.
    pub active_groups: u32,
    /// Length of a segment file; 64 KiB to 1 GiB. Default 16 MiB. A chunk that is larger than a
    /// segment gets a segment of its own.
    pub segment_bytes: ByteSize,
    /// The largest chunk that is taken, to 1 GiB. Default 1 MiB and 12 bytes, as in Kafka.
    pub max_chunk_bytes: ByteSize,
    /// The limits of age and size.
    pub retention: Retention,
    /// The last record of each key must stay: retention is off, and all records stay until
    /// compaction is there. Default false.
    pub compacted: bool,
    /// When an append counts; none: as the log's options say.
    pub fsync: Option<Fsync>,
    /// Settings of the log's users, by name; the log keeps them and does not look at them.
    pub settings: BTreeMap<String, String>,
}

impl Default for StreamSpec {
    fn default() -> Self {
        Self {
            streamlets: 1,
            active_groups: 1,
            segment_bytes: ByteSize(16 << 20),
            max_chunk_bytes: ByteSize((1 << 20) + 12),
            retention: Retention::default(),
            compacted: false,
            fsync: None,
            settings: BTreeMap::new(),
        }
    }
}

impl StreamSpec {
    /// The first setting that is out of bounds, as a message.
    pub(crate) fn problem(&self) -> Option<String> {
        let within = |what: &str, value: u64, low: u64, high: u64| {
            let outside = value < low || value > high;
            outside.then(|| format!("{what} is {value}: from {low} to {high} is possible"))
        };
        within("streamlets", u64::from(self.streamlets), 1, u64::from(STREAMLETS_MAX))
            .or_else(|| within("active_groups", u64::from(self.active_groups), 1, 64))
            .or_else(|| within("segment_bytes", self.segment_bytes.0, 64 << 10, 1 << 30))
            .or_else(|| within("max_chunk_bytes", self.max_chunk_bytes.0, 1 << 10, 1 << 30))
            .or_else(|| match (self.retention.time, self.fsync) {
                (Some(Span(..0)), _) => Some("retention.time is negative".into()),
                (_, Some(Fsync::Every(Span(..=0)))) => Some("fsync.every is not positive".into()),
                _ => None,
            })
    }
}

/// The settings that each append reads, without a lock. A change is seen field by field.
pub(crate) struct StreamLimits {
    max_chunk_bytes: AtomicU64,
    segment_bytes: AtomicU64,
    /// Microseconds between syncs; or one of the three below.
    fsync: AtomicI64,
}

const ALWAYS: i64 = 0;
const OS: i64 = -1;
const AS_THE_LOG: i64 = -2;

impl StreamLimits {
    pub(crate) fn of(spec: &StreamSpec) -> Self {
        let limits = Self {
            max_chunk_bytes: AtomicU64::new(0),
            segment_bytes: AtomicU64::new(0),
            fsync: AtomicI64::new(0),
        };
        limits.set(spec);
        limits
    }

    pub(crate) fn set(&self, spec: &StreamSpec) {
        self.max_chunk_bytes.store(spec.max_chunk_bytes.0, Relaxed);
        self.segment_bytes.store(spec.segment_bytes.0, Relaxed);
        let fsync = match spec.fsync {
            None => AS_THE_LOG,
            Some(Fsync::Os) => OS,
            Some(Fsync::Always) => ALWAYS,
            Some(Fsync::Every(span)) => span.0.max(1),
        };
        self.fsync.store(fsync, Relaxed);
    }

    pub(crate) fn max_chunk_bytes(&self) -> u64 {
        self.max_chunk_bytes.load(Relaxed)
    }

    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes.load(Relaxed)
    }

    /// None: as the log's options say.
    pub(crate) fn fsync(&self) -> Option<Fsync> {
        match self.fsync.load(Relaxed) {
            AS_THE_LOG => None,
            OS => Some(Fsync::Os),
            ALWAYS => Some(Fsync::Always),
            span_us => Some(Fsync::Every(Span(span_us))),
        }
    }
}
