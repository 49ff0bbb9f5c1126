//! The log of one node: streams of streamlets, in segments on disk, served by offset.
//!
//! ```text
//! Log ─▶ Stream (a topic) ─▶ Streamlet (a partition) ─▶ groups, Q of them active ─▶ segments
//!                               ▲ append(chunk) ─▶ Append ─▶ on_durable / wait
//!                               └ read(cursor, offset) ─▶ chunks, as they were appended
//! ```
//!
//! # Use
//!
//! ```text
//! let log = Log::open(&world, folder, LogOptions::default())?;
//! let stream = log.create("orders", StreamSpec { streamlets: 4, ..Default::default() })?;
//! let streamlet = stream.streamlet(0).expect("it has four");
//! let options = AppendOptions { order_key: producer_id, ..Default::default() };
//! let append = streamlet.append(&chunk, options)?;
//! append.on_durable(Box::new(|outcome| answer(outcome)));      // or append.wait()?
//!
//! let mut cursor = ReadCursor::default();                       // one a consumer session
//! let chunks = streamlet.read(&mut cursor, offset, ReadLimit::default())?;
//! if chunks.chunks.is_empty() {
//!     let waiting = streamlet.on_data(offset, Box::new(wake)); // a long poll; drop it to forget
//! }
//! log.maintain(now)?;                                           // every few seconds
//! log.close();
//! ```
//!
//! A chunk is byte for byte a Kafka `RecordBatch` v2 ([`ChunkHead`]); the log stamps base offset
//! and leader epoch into its head and never looks at its records. Everything here is synchronous:
//! callbacks come from sync threads, or from the thread of the call that made them due, with no
//! lock held that an append or a read takes; they must be quick and not block.
//!
//! # Acknowledgement
//!
//! An append is *acknowledged* and *visible* in the same moment: when the high watermark passes it,
//! that is, when it and all appends before it in its streamlet are as durable as the stream's
//! [`Fsync`] asks. So readers always see a prefix of the appended chunks, and offsets have no gaps.
//!
//! # Invariants
//!
//! - Acknowledged chunks are never lost within the durability chosen, never changed or reordered.
//! - After a crash a streamlet has a prefix of the appended chunks, with all acknowledged ones.
//! - A chunk with a wrong checksum, position or identity is never served. Damage is an error that
//!   names stream, segment and byte; chunks behind it can still be read.
//! - Files without metadata are never deleted; they are left alone and reported.
//! - Every append comes through a streamlet that this node leads, and has its leader epoch, which is
//!   durable before and never taken again. A copy shows nothing that its leader has not published.
//! - Memory: [`LogOptions::memory_bytes`], a block of [`LogOptions::read_ahead_bytes`] (or a chunk,
//!   if that is longer) for each segment that a cursor is reading from the disk, and about a
//!   kilobyte for each streamlet and segment.
//!
//! A segment's journal is a [`tidemill_env::RandomAccessFile`]: positioned writes, whose errors come back
//! as values, or a memory map ([`Journal`]).
//!
//! Nothing here reads a clock, opens a file or starts a thread but through [`tidemill_env`].
//!
//! Read the modules in this order: `format`, `segment`, `offset_tracker`, `streamlet`, `append`,
//! `commit`, `read`, `recover`, `epochs`, `epoch_journal`, `role`, `replica`, `retention`, `log`. (The model is that of KerA, chapters 5 and 6,
//! within one node.)

mod append;
mod block_pool;
mod chunk_cache;
mod commit;
mod disk_reserve;
mod epoch_journal;
mod epochs;
mod error;
mod format;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod groups;
mod ids;
mod log;
mod log_core;
mod max_timestamp;
mod meta;
mod offset_tracker;
mod options;
mod read;
mod recover;
mod replica;
mod report;
mod retention;
mod role;
mod segment;
mod stream;
mod streamlet;
mod sync_figures;
mod walk;

pub use append::{Append, AppendOptions};
pub use epochs::{EpochEnd, EpochOver, EpochStart};
pub use error::{AppendError, GroupError, LogError, ReadError, ReplicaRefusal};
pub use groups::{GroupChunks, GroupCursor, GroupProgress};
pub use ids::{SegmentKey, StreamId, is_stream_name};
pub use log::Log;
pub use offset_tracker::{OnData, OnDurable};
pub use options::{Fsync, Journal, LogOptions, Retention, StreamSpec};
pub use read::{ChunkTime, Chunks, FileChunk, OutgoingChunk, ReadCursor, ReadLimit};
pub use report::Finding;
pub use role::{Landing, StartRole, StreamletRole};
pub use stream::Stream;
pub use streamlet::{DataSubscription, Streamlet};
pub use sync_figures::SyncFigures;
pub use tidemill_types::{
    GroupIx, Incarnation, LeaderEpoch, Offset, SegmentEpoch, SegmentIx, StreamletIx,
};
pub use tidemill_wire::chunk::{
    CHUNK_HEAD_BYTES, ChunkError, ChunkHead, Codec, crc32c, stamp, stamp_append_time,
};

/// The records in chunks, for programs that write and read them here.
pub mod records {
    pub use tidemill_wire::records::{
        ChunkBuilder, Compression, Header, Headers, Record, RecordRefused, Records, RecordsError,
        inflate,
    };
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
