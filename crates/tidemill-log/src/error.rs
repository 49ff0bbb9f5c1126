//! Errors: one enum per operation, with the data its caller needs for an answer.

use crate::{epochs::EpochOver, ids::SegmentKey};
use std::{io, path::PathBuf, sync::Arc};
use tidemill_types::{Incarnation, LeaderEpoch, Offset, StreamletIx};
use tidemill_wire::chunk::ChunkError;

/// Why a log or a stream could not be opened, made, changed or removed.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The disk failed.
    #[error("{path}: {error}")]
    Disk {
        /// Where.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another process has this folder open.
    #[error("{0} is in use by another process: stop it, or choose another data folder")]
    InUse(PathBuf),
    /// A node of a later incarnation had this folder open, or one of the same.
    #[error(
        "{path} was opened under incarnation {newest}, so it cannot be opened under {given}: a \
             node never uses an incarnation twice, and its data folder goes with it"
    )]
    Incarnation {
        /// The log's folder.
        path: PathBuf,
        /// The node's incarnation.
        given: Incarnation,
        /// The newest that the folder has seen.
        newest: Incarnation,
    },
    /// A leader epoch is not taken.
    #[error(transparent)]
    Epoch(#[from] EpochOver),
    /// Only a copy is truncated, and nothing of it that was visible.
    #[error("records from offset {end} on stay: {why}")]
    Kept {
        /// The first offset that was to go.
        end: Offset,
        /// The reason.
        why: &'static str,
    },
    /// The folder's own metadata are damaged.
    #[error("{path} is damaged: {why}. Nothing was changed; restore it from {path}.old or a copy")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// The fault.
        why: String,
    },
    /// The name is not one a stream may have.
    #[error(
        "`{0}` cannot be the name of a stream: use 1 to 249 of a-z A-Z 0-9 . _ -, \
             but not `.` or `..`"
    )]
    Name(String),
    /// There is such a stream.
    #[error("a stream `{0}` exists")]
    Exists(String),
    /// There is no such stream.
    #[error("there is no stream `{0}`")]
    Unknown(String),
    /// A setting is out of bounds.
    #[error("stream `{name}`: {why}")]
    Spec {
        /// The stream's name.
        name: String,
        /// The fault, and the values that are possible.
        why: String,
    },
    /// An offset that the streamlet does not have.
    #[error("offset {offset} is not in {start} to {end}")]
    Offset {
        /// The requested offset.
        offset: i64,
        /// The first offset there is.
        start: i64,
        /// The high watermark.
        end: i64,
    },
    /// The log was closed or the stream deleted.
    #[error("the log is closed or the stream deleted")]
    Closed,
}

/// Why a chunk was not appended, or will not become durable.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    /// The bytes are no chunk.
    #[error(transparent)]
    Chunk(#[from] ChunkError),
    /// The chunk is larger than the stream takes.
    #[error("a chunk of {bytes} bytes: this stream takes at most {max}")]
    TooLarge {
        /// The chunk's length.
        bytes: usize,
        /// The stream's limit.
        max: u64,
    },
    /// There is no room. Nothing changed; try again when there is.
    #[error("no room on the disk: {0}")]
    Full(Arc<io::Error>),
    /// The disk failed before anything was written. Nothing changed.
    #[error("the disk failed: {0}")]
    Disk(Arc<io::Error>),
    /// The disk failed while chunks of this streamlet were being written. Chunks that were not
    /// acknowledged may be there or not. The streamlet takes no appends until the log is opened
    /// again, and goes on serving durable chunks.
    #[error("this streamlet's disk failed and it takes no appends until a restart: {0}")]
    Failed(Arc<str>),
    /// This node does not lead the streamlet. Nothing changed; ask its leader.
    #[error("this node does not lead the streamlet: the newest leader epoch is {epoch}")]
    NotLeader {
        /// The newest epoch that is known.
        epoch: LeaderEpoch,
    },
    /// A leader's chunk does not belong at the end of this copy. Nothing changed.
    #[error(transparent)]
    Replica(#[from] ReplicaRefusal),
    /// The log was closed or the stream deleted.
    #[error("the log is closed or the stream deleted")]
    Closed,
}

/// Why a copy does not take its leader's chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicaRefusal {
    /// This node leads the streamlet itself.
    #[error("this node leads the streamlet, under epoch {epoch}")]
    Leads {
        /// Its epoch.
        epoch: LeaderEpoch,
    },
    /// The chunk is of a leader that is not followed, or of an epoch below the last record's.
    #[error("a chunk of epoch {sent}: the streamlet is at {known}")]
    Epoch {
        /// The chunk's epoch.
        sent: LeaderEpoch,
        /// The copy's.
        known: LeaderEpoch,
    },
    /// The chunk is not the next one.
    #[error("a chunk at offset {sent}: the next one is {expected}")]
    Offset {
        /// The chunk's base offset.
        sent: Offset,
        /// The offset after the copy's last record.
        expected: Offset,
    },
}

/// Why groups could not be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupError {
    /// The streamlet has the most applications that it can have.
    #[error("{0} applications read this streamlet by groups: no more can")]
    TooMany(usize),
    /// Consumers of the application hold groups.
    #[error("consumers of this application hold {0} groups: let them go first")]
    Held(usize),
}

/// Why data could not be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The offset is before the start or after the end.
    #[error("offset {offset} is not in {start} to {end}")]
    OutOfRange {
        /// The requested offset.
        offset: i64,
        /// The first offset there is.
        start: i64,
        /// The high watermark.
        end: i64,
    },
    /// The bytes on the disk differ from those that were written. They are not served; nothing is
    /// deleted.
    #[error("{stream}: {key}: damaged at byte {position} of {path}; offset {offset} is not served")]
    Corrupt {
        /// The stream's name.
        stream: Arc<str>,
        /// Which segment.
        key: SegmentKey,
        /// Its file.
        path: PathBuf,
        /// Where in the file.
        position: u64,
        /// The first offset that cannot be served.
        offset: i64,
        /// From here on there are good data again, if it is known.
        next: Option<i64>,
    },
    /// Data that were there are gone: a segment's file is missing or set aside.
    #[error("{stream}: streamlet {streamlet}: offsets {from} to {next} are missing")]
    Missing {
        /// The stream's name.
        stream: Arc<str>,
        /// Which streamlet.
        streamlet: StreamletIx,
        /// The first missing offset.
        from: i64,
        /// The first offset after the gap.
        next: i64,
    },
    /// The disk failed.
    #[error("{path}: {error}")]
    Disk {
        /// Where.
        path: PathBuf,
        /// The system's error.
        error: Arc<io::Error>,
    },
}
