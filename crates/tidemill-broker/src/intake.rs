//! What is looked at, and set right, in a chunk that a client sent, before it is appended.
//!
//! ```text
//! length ─▶ head, checksum ─▶ flags ─▶ records, inflated if need be ─▶ timestamps stamped
//! ```
//!
//! Cheap checks come first: a chunk over its topic's limit is refused before it is inflated.

use crate::{Broker, refusal::Refusal, topic::Live};
use bytes::Bytes;
use std::sync::atomic::Ordering;
use tidemill_log::AppendError;
use tidemill_wire::{
    chunk::{ChunkHead, Codec, stamp_append_time, stamp_max_time},
    kafka::ErrorCode,
    records::{RecordsLimit, check_records},
};

/// The first version of produce requests that may have Zstandard. (KIP-110.)
const ZSTD_FROM_VERSION: i16 = 7;

/// A chunk that may be appended.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Of `chunk`, as it is now.
    pub(crate) head: ChunkHead,
    pub(crate) chunk: Bytes,
    /// The timestamp that its records got, in milliseconds; none if they keep their own.
    pub(crate) append_time_ms: Option<i64>,
}

/// Checks a chunk that came in a produce request of this version.
pub(crate) fn take(
    broker: &Broker,
    live: &Live,
    chunk: &Bytes,
    version: i16,
) -> Result<Taken, Refusal> {
    if chunk.is_empty() {
        return Err(Refusal::with(ErrorCode::InvalidRecord, &"there are no records"));
    }
    let max = live.max_chunk_bytes.load(Ordering::Relaxed);
    if chunk.len() as u64 > max {
        return Err(AppendError::TooLarge { bytes: chunk.len(), max }.into());
    }
    let mut head = ChunkHead::check(chunk).map_err(|error| Refusal::from(&error))?;
    if head.is_control() {
        let why = "clients cannot write control batches";
        return Err(Refusal::with(ErrorCode::InvalidRecord, &why));
    }
    if head.is_log_append_time() {
        let why = "timestamps of the append are the broker's to set";
        return Err(Refusal::with(ErrorCode::InvalidTimestamp, &why));
    }
    if version < ZSTD_FROM_VERSION && head.codec() == Ok(Codec::Zstd) {
        let why = "this version of the request cannot have zstd";
        return Err(Refusal::with(ErrorCode::UnsupportedCompressionType, &why));
    }
    let mut chunk = chunk.clone();
    if broker.settings.check_records {
        let inflated = broker.settings.limits.inflated_bytes.0;
        let limit = RecordsLimit {
            inflated_bytes_max: usize::try_from(inflated).unwrap_or(usize::MAX),
            record_bytes_max: usize::MAX,
        };
        let seen = check_records(&chunk, &head, limit).map_err(|error| Refusal::from(&error))?;
        if seen.max_timestamp_ms != head.max_timestamp_ms {
            head.max_timestamp_ms = seen.max_timestamp_ms;
            chunk =
                stamped(&chunk, &mut head, |bytes| stamp_max_time(bytes, seen.max_timestamp_ms));
        }
    }
    let append_time_ms = live.append_time.load(Ordering::Relaxed).then(|| {
        let now_ms = broker.world.clock.wall_micros() / 1_000;
        chunk = stamped(&chunk, &mut head, |bytes| stamp_append_time(bytes, now_ms));
        now_ms
    });
    Ok(Taken { head, chunk, append_time_ms })
}

/// A copy of a chunk, changed; its head follows.
fn stamped(chunk: &Bytes, head: &mut ChunkHead, stamp: impl FnOnce(&mut [u8])) -> Bytes {
    let mut bytes = chunk.to_vec();
    stamp(&mut bytes);
    if let Ok(now) = ChunkHead::read(&bytes) {
        *head = now;
    }
    Bytes::from(bytes)
}
