//! The search of a chunk for the record with a given time.
//!
//! The records are walked as those that a producer sends are, so a compressed chunk is not whole in
//! memory here either. Unlike there, offsets may have gaps, which compaction leaves.

use super::{
    RecordsError,
    check::Walk,
    inflater::{codec, walk},
};
use crate::chunk::{CHUNK_HEAD_BYTES, ChunkHead, Codec};

#[cfg(test)]
mod tests;

/// The time of a record in a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordTime {
    /// The record's offset, from the chunk's base offset on.
    pub offset_delta: i32,
    /// The record's timestamp, in milliseconds since 1970.
    pub timestamp_ms: i64,
}

/// Records of a chunk by their time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeMatches {
    /// The first record with the wanted time or a later one.
    pub first: Option<RecordTime>,
    /// The first record with the largest time.
    pub latest: Option<RecordTime>,
}

/// A search, and its matches so far.
#[derive(Debug)]
pub(super) struct TimeSearch {
    from_delta: i32,
    timestamp_ms: i64,
    /// All records have this time, whatever they say.
    append_time_ms: Option<i64>,
    seen: TimeMatches,
}

impl TimeSearch {
    #[inline]
    pub(super) fn see(&mut self, delta: i32, timestamp_ms: i64) {
        if delta < self.from_delta {
            return;
        }
        let timestamp_ms = self.append_time_ms.unwrap_or(timestamp_ms);
        let timed = RecordTime { offset_delta: delta, timestamp_ms };
        if self.seen.first.is_none() && timestamp_ms >= self.timestamp_ms {
            self.seen.first = Some(timed);
        }
        if self.seen.latest.is_none_or(|it| timestamp_ms > it.timestamp_ms) {
            self.seen.latest = Some(timed);
        }
    }
}

/// Searches a chunk's records from an offset delta on for `timestamp_ms` and for the largest time.
/// At most `inflated_bytes_max` bytes are inflated; a match within them counts.
///
/// # Errors
/// The records cannot be read, or inflate to more, and no earlier record matches.
pub fn search_times(
    chunk: &[u8],
    head: &ChunkHead,
    from_delta: i32,
    timestamp_ms: i64,
    inflated_bytes_max: usize,
) -> Result<TimeMatches, RecordsError> {
    let codec = codec(head)?;
    let body = chunk.get(CHUNK_HEAD_BYTES..head.bytes).unwrap_or_default();
    let append_time_ms = head.is_log_append_time().then_some(head.max_timestamp_ms);
    let mut records = Walk::new(head, usize::MAX);
    let seen = TimeMatches::default();
    records.times = Some(TimeSearch { from_delta, timestamp_ms, append_time_ms, seen });
    let walked = match codec {
        Codec::None => records.feed(body).map(|bytes| body.len() - bytes),
        packed => walk(packed, body, inflated_bytes_max, &mut records).map(|(_, rest)| rest),
    };
    let read = walked.and_then(|rest_bytes| records.finish(rest_bytes));
    let seen = records.times.map(|it| it.seen).unwrap_or_default();
    match read {
        Err(error) if seen.first.is_none() => Err(error),
        _ => Ok(seen),
    }
}
