//! Checks and corrections of a client's chunk before it is appended.
//!
//! ```text
//! length ─▶ head, checksum ─▶ flags ─▶ records, inflated if need be ─▶ timestamps stamped
//!                                        │ little: here
//!                                        └ much: on a thread of its own, few at once
//! ```
//!
//! Cheap checks come first: a chunk over its topic's limit is refused before it is inflated. A
//! chunk that inflates to much is begun anew with more room, so that decompression bombs delay only
//! each other. Searches for a timestamp in chunks of the log share this room.
//!
//! Invariant: all chunks that are being inflated have at most [`crate::Limits::inflated_bytes`]
//! in memory together, and 2 MiB for each thread that serves or looks for a time.

use crate::{Broker, handler::thread_pool, refusal::RequestRefusal, topic::Live};
use bytes::Bytes;
use std::sync::{Arc, atomic::Ordering};
use tidemill_log::AppendError;
use tidemill_wire::{
    chunk::{ChunkHead, Codec, stamp_append_time, stamp_max_time},
    kafka::ErrorCode,
    records::{RecordsError, RecordsLimit, RecordsSeen, check_records_and_keys},
};
use tokio::sync::Semaphore;

/// The first version of produce requests that may have Zstandard. (KIP-110.)
const ZSTD_FROM_VERSION: i16 = 7;
/// A chunk that inflates to no more is looked at where it came in.
const LITTLE_BYTES: usize = 2 << 20;
/// So many look at chunks of the log at once, each with room for little.
const LOOKS_MAX: usize = 32;
/// The room that a chunk gets which needs more, before it gets all there is.
const MUCH_BYTES: usize = 32 << 20;

/// Records at fault that the answer to one produce request names, at most.
pub(crate) const RECORD_ERRORS_MAX: usize = 10_000;

/// A chunk that may be appended.
#[derive(Debug)]
pub(crate) struct CheckedChunk {
    /// Of `chunk`, as it is now.
    pub(crate) head: ChunkHead,
    pub(crate) chunk: Bytes,
    /// It is most of the memory that it is in, which may stay as it is.
    pub(crate) is_whole: bool,
}

/// Room for chunks that inflate to much, in MiB.
#[derive(Debug)]
pub(crate) struct InflateLimiter {
    room: Arc<Semaphore>,
    /// Permits for searches in chunks of the log with little room, one each.
    looks: Arc<Semaphore>,
    limit_bytes: usize,
}

/// So many bytes of room were not enough, and there are more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TooLittle;

impl InflateLimiter {
    pub(crate) fn new(limit_bytes: u64) -> Self {
        let limit_bytes = usize::try_from(limit_bytes).unwrap_or(usize::MAX);
        let room = Arc::new(Semaphore::new(mib(limit_bytes) as usize));
        Self { room, looks: Arc::new(Semaphore::new(LOOKS_MAX)), limit_bytes }
    }

    /// Takes all room.
    #[cfg(test)]
    pub(crate) async fn take_all(&self) -> tokio::sync::OwnedSemaphorePermit {
        let count = mib(self.limit_bytes);
        Arc::clone(&self.room).acquire_many_owned(count).await.unwrap()
    }

    /// Looks at records that do not fit into [`LITTLE_BYTES`].
    async fn check(
        &self,
        chunk: &Bytes,
        head: &ChunkHead,
        keyless_max: usize,
    ) -> Result<(RecordsSeen, Vec<u32>), RecordsError> {
        let mut room_bytes = MUCH_BYTES.min(self.limit_bytes);
        loop {
            let (chunk, head) = (chunk.clone(), head.clone());
            let seen = run_with(&self.room, mib(room_bytes), move || {
                look(&chunk, &head, room_bytes, keyless_max)
            })
            .await;
            match seen {
                Err(RecordsError::TooLarge { .. }) if room_bytes < self.limit_bytes => {
                    room_bytes = self.limit_bytes;
                }
                seen => return seen,
            }
        }
    }

    /// Looks at chunks of the log, each for itself, with the room that a [`InflateRoom`] says: first at
    /// all of them with little, then at each that it was too little for with more. The answers
    /// are in the order of `asked`.
    pub(crate) async fn each<A: Send + 'static, T: Send + 'static>(
        &self,
        asked: Vec<A>,
        look: impl Fn(&A, InflateRoom) -> Result<T, TooLittle> + Clone + Send + 'static,
    ) -> Vec<T> {
        let count = asked.len();
        let mut left: Vec<(usize, A)> = asked.into_iter().enumerate().collect();
        let mut done: Vec<(usize, T)> = Vec::with_capacity(count);
        for bytes in [LITTLE_BYTES, MUCH_BYTES, usize::MAX] {
            let room = InflateRoom {
                bytes: bytes.min(self.limit_bytes),
                is_all: bytes >= self.limit_bytes,
            };
            // With more, others have their turn after each.
            let together = if bytes == LITTLE_BYTES { count } else { 1 };
            let mut rest = std::mem::take(&mut left).into_iter();
            loop {
                let some: Vec<(usize, A)> = rest.by_ref().take(together).collect();
                if some.is_empty() {
                    break;
                }
                let look = look.clone();
                let work = move || {
                    let (mut found, mut over) = (Vec::new(), Vec::new());
                    for (at, it) in some {
                        match look(&it, room) {
                            Ok(outcome) => found.push((at, outcome)),
                            Err(TooLittle) => over.push((at, it)),
                        }
                    }
                    (found, over)
                };
                let (found, over) = if bytes == LITTLE_BYTES {
                    run_with(&self.looks, 1, work).await
                } else {
                    run_with(&self.room, mib(room.bytes), work).await
                };
                done.extend(found);
                left.extend(over);
            }
        }
        done.sort_unstable_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, found)| found).collect()
    }
}

/// Runs it on a thread of its own as soon as it gets `count` permits. It keeps them to its end,
/// also if nobody waits for it any more.
async fn run_with<T: Send + 'static>(
    permits: &Arc<Semaphore>,
    count: u32,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    // It is never closed.
    let taken = Arc::clone(permits).acquire_many_owned(count).await;
    thread_pool::run(move || {
        let _taken = taken;
        work()
    })
    .await
}

/// The memory that a chunk may inflate to while it is checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InflateRoom {
    pub(crate) bytes: usize,
    /// There is no more.
    pub(crate) is_all: bool,
}

/// So many MiB, or a little more.
fn mib(bytes: usize) -> u32 {
    u32::try_from(bytes.div_ceil(1 << 20)).unwrap_or(u32::MAX).clamp(1, 1 << 20)
}

fn look(
    chunk: &[u8],
    head: &ChunkHead,
    inflated: usize,
    keyless_max: usize,
) -> Result<(RecordsSeen, Vec<u32>), RecordsError> {
    let limit = RecordsLimit { inflated_bytes_max: inflated, record_bytes_max: usize::MAX };
    check_records_and_keys(chunk, head, limit, keyless_max)
}

/// Checks a chunk that came in a produce request of this version. `is_whole`: it is most of the
/// memory that it is in.
pub(crate) async fn check(
    broker: &Arc<Broker>,
    live: &Live,
    chunk: Bytes,
    is_whole: bool,
    version: i16,
) -> Result<CheckedChunk, RequestRefusal> {
    let mut head = check_head(live, &chunk, version)?;
    if !broker.settings.check_records {
        return Ok(CheckedChunk { head, chunk, is_whole });
    }
    let limit_bytes = broker.inflating.limit_bytes;
    let wants_keys = live.keyed.load(Ordering::Relaxed);
    let keyless_max = if wants_keys { RECORD_ERRORS_MAX } else { 0 };
    let seen = match look(&chunk, &head, LITTLE_BYTES.min(limit_bytes), keyless_max) {
        Err(RecordsError::TooLarge { .. }) if LITTLE_BYTES < limit_bytes => {
            broker.inflating.check(&chunk, &head, keyless_max).await
        }
        seen => seen,
    };
    let (seen, keyless) = seen.map_err(|error| RequestRefusal::from(&error))?;
    if seen.has_keyless && wants_keys {
        let why = "a record has no key, and the topic's cleanup.policy has compact";
        return Err(RequestRefusal::with(ErrorCode::InvalidRecord, &why).of_records(keyless));
    }
    let latest_ms = seen.max_timestamp_ms;
    if latest_ms == head.max_timestamp_ms {
        return Ok(CheckedChunk { head, chunk, is_whole });
    }
    let chunk = stamped(&chunk, &mut head, |bytes| stamp_max_time(bytes, latest_ms));
    Ok(CheckedChunk { head, chunk, is_whole })
}

/// All that is said without a look at the records.
fn check_head(live: &Live, chunk: &[u8], version: i16) -> Result<ChunkHead, RequestRefusal> {
    if chunk.is_empty() {
        return Err(RequestRefusal::with(ErrorCode::InvalidRecord, &"there are no records"));
    }
    let max = live.max_chunk_bytes.load(Ordering::Relaxed);
    if chunk.len() as u64 > max {
        return Err(AppendError::TooLarge { bytes: chunk.len(), max }.into());
    }
    let head = ChunkHead::check(chunk).map_err(|error| RequestRefusal::from(&error))?;
    if head.is_control() {
        let why = "clients cannot write control batches";
        return Err(RequestRefusal::with(ErrorCode::InvalidRecord, &why));
    }
    if head.is_log_append_time() {
        let why = "timestamps of the append are the broker's to set";
        return Err(RequestRefusal::with(ErrorCode::InvalidTimestamp, &why));
    }
    if version < ZSTD_FROM_VERSION && head.codec() == Ok(Codec::Zstd) {
        let why = "this version of the request cannot have zstd";
        return Err(RequestRefusal::with(ErrorCode::UnsupportedCompressionType, &why));
    }
    Ok(head)
}

impl CheckedChunk {
    /// Stamps the records with the time of the append, if their topic wants it. Returns that time
    /// in milliseconds.
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
