//! What is looked at, and set right, in a chunk that a client sent, before it is appended.
//!
//! ```text
//! length ─▶ head, checksum ─▶ flags ─▶ records, inflated if need be ─▶ timestamps stamped
//!                                        │ little: here
//!                                        └ much: on a thread of its own, few at once
//! ```
//!
//! Cheap checks come first: a chunk over its topic's limit is refused before it is inflated. A
//! chunk that inflates to much is begun anew with more room, so that bombs make only each other
//! wait.
//!
//! Invariant: all chunks that are being inflated have at most [`crate::Limits::inflated_bytes`]
//! in memory together, and 2 MiB for each thread that serves.

use crate::{Broker, handler::blocking, refusal::Refusal, topic::Live};
use bytes::Bytes;
use std::sync::{Arc, atomic::Ordering};
use tidemill_log::AppendError;
use tidemill_wire::{
    chunk::{ChunkHead, Codec, stamp_append_time, stamp_max_time},
    kafka::ErrorCode,
    records::{RecordsError, RecordsLimit, RecordsSeen, check_records},
};
use tokio::sync::Semaphore;

/// The first version of produce requests that may have Zstandard. (KIP-110.)
const ZSTD_FROM_VERSION: i16 = 7;
/// A chunk that inflates to no more is looked at where it came in.
const LITTLE_BYTES: usize = 2 << 20;
/// The room that a chunk gets which needs more, before it gets all there is.
const MUCH_BYTES: usize = 32 << 20;

/// A chunk that may be appended.
#[derive(Debug)]
pub(crate) struct Checked {
    /// Of `chunk`, as it is now.
    pub(crate) head: ChunkHead,
    pub(crate) chunk: Bytes,
    /// It is most of the memory that it is in, which may stay as it is.
    pub(crate) is_whole: bool,
}

/// Room for chunks that inflate to much, in MiB.
#[derive(Debug)]
pub(crate) struct Inflating {
    room: Semaphore,
    limit_bytes: usize,
}

impl Inflating {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        let limit_bytes = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        let room = Semaphore::new(mib(limit_bytes) as usize);
        Self { room, limit_bytes }
    }

    /// Looks at records that do not fit into [`LITTLE_BYTES`].
    async fn check(&self, chunk: &Bytes, head: &ChunkHead) -> Result<RecordsSeen, RecordsError> {
        let mut room_bytes = MUCH_BYTES.min(self.limit_bytes);
        loop {
            // It is never closed.
            let _room = self.room.acquire_many(mib(room_bytes)).await;
            let (chunk, head) = (chunk.clone(), head.clone());
            let seen = blocking::run(move || look(&chunk, &head, room_bytes)).await;
            match seen {
                Err(RecordsError::TooLarge { .. }) if room_bytes < self.limit_bytes => {
                    room_bytes = self.limit_bytes;
                }
                seen => return seen,
            }
        }
    }
}

/// So many MiB, or a little more.
fn mib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX).clamp(1, 1 << 20)
}

fn look(chunk: &[u8], head: &ChunkHead, inflated: usize) -> Result<RecordsSeen, RecordsError> {
    let limit = RecordsLimit { inflated_bytes_max: inflated, record_bytes_max: usize::MAX };
    check_records(chunk, head, limit)
}

/// Checks a chunk that came in a produce request of this version. `is_whole`: it is most of the
/// memory that it is in.
pub(crate) async fn check(
    broker: &Arc<Broker>,
    live: &Live,
    chunk: Bytes,
    is_whole: bool,
    version: i16,
) -> Result<Checked, Refusal> {
    let mut head = check_head(live, &chunk, version)?;
    if !broker.settings.check_records {
        return Ok(Checked { head, chunk, is_whole });
    }
    let limit_bytes = broker.inflating.limit_bytes;
    let seen = match look(&chunk, &head, LITTLE_BYTES.min(limit_bytes)) {
        Err(RecordsError::TooLarge { .. }) if LITTLE_BYTES < limit_bytes => {
            broker.inflating.check(&chunk, &head).await
        }
        seen => seen,
    };
    let seen = seen.map_err(|error| Refusal::from(&error))?;
    if seen.has_keyless && live.keyed.load(Ordering::Relaxed) {
        let why = "a record has no key, and the topic's cleanup.policy has compact";
        return Err(Refusal::with(ErrorCode::InvalidRecord, &why));
    }
    let latest_ms = seen.max_timestamp_ms;
    if latest_ms == head.max_timestamp_ms {
        return Ok(Checked { head, chunk, is_whole });
    }
    let chunk = stamped(&chunk, &mut head, |bytes| stamp_max_time(bytes, latest_ms));
    Ok(Checked { head, chunk, is_whole })
}

/// All that is said without a look at the records.
fn check_head(live: &Live, chunk: &[u8], version: i16) -> Result<ChunkHead, Refusal> {
    if chunk.is_empty() {
        return Err(Refusal::with(ErrorCode::InvalidRecord, &"there are no records"));
    }
    let max = live.max_chunk_bytes.load(Ordering::Relaxed);
    if chunk.len() as u64 > max {
        return Err(AppendError::TooLarge { bytes: chunk.len(), max }.into());
    }
    let head = ChunkHead::check(chunk).map_err(|error| Refusal::from(&error))?;
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
    Ok(head)
}

impl Checked {
    /// Gives the records the time of the append, if that is what their topic wants: it, in
    /// milliseconds.
    pub(crate) fn stamp(&mut self, broker: &Broker, live: &Live) -> Option<i64> {
        live.append_time.load(Ordering::Relaxed).then(|| {
            let now_ms = broker.world.clock.wall_micros() / 1_000;
            self.chunk =
                stamped(&self.chunk, &mut self.head, |bytes| stamp_append_time(bytes, now_ms));
            now_ms
        })
    }
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
