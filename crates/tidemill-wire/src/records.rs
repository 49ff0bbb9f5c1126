//! The records inside a chunk: reading, checking and making them.
//!
//! ```text
//!          ┌──────────────────────── length bytes ────────────────────────┐
//! │ length │ attributes │ timestamp │ offset │ key │ value │ headers: n, then n of        │
//! │ varint │ u8, 0      │  delta    │ delta  │     │       │ key length, key, value       │
//!                         varlong     varint   each: length varint, -1 for none, bytes
//! ```
//!
//! A varint is the number in zigzag (0, -1, 1, -2 … become 0, 1, 2, 3 …), then seven bits a byte,
//! lowest first, the top bit set in all but the last: at most five bytes, a varlong ten. The first
//! delta is to the base timestamp of the head, the second to its base offset. If the head names a
//! codec, all records together are one compressed stream.
//!
//! Read in this order: [`Record`] and how it is parsed (`record`), [`Records`] (`reader`),
//! [`inflate()`] with the four codecs (`inflate`, `codec`), [`check_records`] (`check`),
//! [`search_times`] (`time_search`), [`ChunkBuilder`] (`builder`), [`control_marker`] (`marker`).
//!
//! Invariants: no bytes panic; nothing is allocated because a length claims it, and inflating never
//! holds more than its limit; chunks that [`check_records`] accepts are read by [`Records`] without
//! error.

mod builder;
mod check;
mod codec;
mod inflater;
mod marker;
mod reader;
mod record;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod time_search;
mod varint;

pub use builder::{ChunkBuilder, Compression, Origin, RecordRefused};
pub use check::{RecordsLimit, RecordsSeen, check_records, check_records_and_keys};
pub use inflater::inflate;
pub use marker::{Marker, control_marker, read_control};
pub use reader::Records;
pub use record::{Header, Headers, Record, RecordFault};
pub use time_search::{RecordTime, TimeMatches, search_times};

use crate::chunk::Codec;

/// Why the records of a chunk are not taken. In brackets the error that Kafka has for it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordsError {
    /// A record does not read (2, `CORRUPT_MESSAGE`; 87, `INVALID_RECORD`, of a header without a
    /// key).
    #[error("record {record} is damaged: {fault}")]
    Damaged {
        /// Which record, counted from 0.
        record: u32,
        /// The fault of the record.
        fault: RecordFault,
    },
    /// The compressed stream does not inflate (2, `CORRUPT_MESSAGE`).
    #[error("the {codec:?} stream of records is damaged: {why}")]
    Packed {
        /// The codec of the stream.
        codec: Codec,
        /// The codec's message.
        why: String,
    },
    /// The records inflate to more than the limit (10, `MESSAGE_TOO_LARGE`).
    #[error("the records inflate to more than {limit_bytes} bytes")]
    TooLarge {
        /// The limit that they exceed.
        limit_bytes: usize,
    },
    /// A record is longer than the limit (10, `MESSAGE_TOO_LARGE`).
    #[error("record {record} has {bytes} bytes, over the limit of {limit_bytes}")]
    RecordTooLarge {
        /// Which record, counted from 0.
        record: u32,
        /// The length that it claims, in bytes.
        bytes: usize,
        /// The limit that it exceeds.
        limit_bytes: usize,
    },
    /// There are fewer records than the head says (87, `INVALID_RECORD`).
    #[error("the head says {said} records, and there are {found}")]
    Miscounted {
        /// The number in the chunk's head.
        said: i32,
        /// The number found.
        found: u32,
    },
    /// There are bytes after the last record that the head counts (87, `INVALID_RECORD`).
    #[error("bytes follow the last of {said} records")]
    Trailing {
        /// Records, as the head says.
        said: i32,
    },
    /// The offset deltas are not 0, 1, 2 and so on (87, `INVALID_RECORD`).
    #[error("record {record} has offset delta {delta}")]
    OutOfOrder {
        /// Which record, counted from 0.
        record: u32,
        /// The delta that it has.
        delta: i32,
    },
    /// The head has flags that a producer may not set, or unknown ones (87, `INVALID_RECORD`).
    #[error("attributes {0:#06x} are not those of a producer's chunk")]
    Attributes(i16),
    /// An LZ4 stream has blocks that need those before them, which Java's clients do not read (87,
    /// `INVALID_RECORD`).
    #[error("the blocks of the Lz4 stream of records are linked: let each stand alone")]
    Linked,
    /// The compression is not known (76, `UNSUPPORTED_COMPRESSION_TYPE`).
    #[error("compression {0} is not known: none, gzip, snappy, lz4 and zstd are")]
    Codec(i16),
}
