//! The record of a timestamp. The log finds the chunk, and the search in the chunk's records is
//! here.
//!
//! A chunk with unreadable records, or without the time in its head, is answered with its first
//! offset and largest time. (Only chunks that were taken unchecked can be so, and those that
//! inflate to more than the limit of now.)

use crate::chunk_check::{InflateRoom, TooLittle};
use tidemill_log::{ChunkTime, ReadCursor, ReadError, ReadLimit, Streamlet};
use tidemill_wire::{
    chunk::ChunkHead,
    records::{RecordTime, RecordsError, search_times},
};

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum TimeError {
    /// A chunk inflates to more than the room that was given.
    TooLittle(TooLittle),
    /// The log.
    Read(ReadError),
}

impl From<ReadError> for TimeError {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

/// Offset and time of a chunk.
fn pair(chunk: ChunkTime) -> (i64, i64) {
    (chunk.offset, chunk.max_timestamp_ms)
}

/// The first record from the streamlet's start up to, not including, `end` with a time of at least
/// `timestamp_ms`: its offset and its time in milliseconds.
pub(crate) fn first_from(
    streamlet: &Streamlet,
    timestamp_ms: i64,
    end: i64,
    room: InflateRoom,
) -> Result<Option<(i64, i64)>, TimeError> {
    let mut chunk = streamlet.offset_for_time(timestamp_ms)?.map(pair);
    if let Some(place) = chunk.filter(|it| it.0 < end) {
        match record(streamlet, place, timestamp_ms, room)? {
            TimeMatch::There(record) => return Ok(Some(record).filter(|it| it.0 < end)),
            TimeMatch::Deleted { after, .. } => {
                chunk = streamlet.offset_for_time_from(timestamp_ms, after)?.map(pair);
            }
        }
    }
    let Some(place) = chunk.filter(|it| it.0 < end) else { return Ok(None) };
    let found = match record(streamlet, place, timestamp_ms, room)? {
        TimeMatch::There(record) => record,
        // The start has moved meanwhile.
        TimeMatch::Deleted { .. } => place,
    };
    Ok(Some(found).filter(|it| it.0 < end))
}

/// The first record below `end` with the largest time: its offset and its time in milliseconds.
pub(crate) fn latest(
    streamlet: &Streamlet,
    end: i64,
    room: InflateRoom,
) -> Result<Option<(i64, i64)>, TimeError> {
    let Some(chunk) = streamlet.max_timestamp(end)?.map(pair) else { return Ok(None) };
    let (left, after) = match record(streamlet, chunk, chunk.1, room)? {
        TimeMatch::There(record) => return Ok(Some(record)),
        TimeMatch::Deleted { latest, after } => (latest, after),
    };
    let later = streamlet.max_timestamp_within(after, end)?.map(pair);
    let Some(later) = later.filter(|it| it.1 > left.1) else { return Ok(Some(left)) };
    Ok(Some(match record(streamlet, later, later.1, room)? {
        TimeMatch::There(record) => record,
        // The start has moved meanwhile.
        TimeMatch::Deleted { latest, .. } => latest,
    }))
}

/// The outcome of a search for a time in a chunk.
enum TimeMatch {
    /// A record, by offset and time.
    There((i64, i64)),
    /// The start of the log is in the middle of the chunk, and no record from there on has the
    /// time.
    Deleted {
        /// The first record that is left with the largest time, by offset and time.
        latest: (i64, i64),
        /// The offset after the chunk.
        after: i64,
    },
}

/// The first record with a time of at least `timestamp_ms` in the chunk that has the offset
/// `chunk.0`, from there on.
fn record(
    streamlet: &Streamlet,
    chunk: (i64, i64),
    timestamp_ms: i64,
    room: InflateRoom,
) -> Result<TimeMatch, TimeError> {
    let limit = ReadLimit { max_bytes: 0, at_least_one: true, below: i64::MAX };
    let read = streamlet.read(&mut ReadCursor::default(), chunk.0, limit)?;
    let Some(bytes) = read.chunks.first() else { return Ok(TimeMatch::There(chunk)) };
    let Ok(head) = ChunkHead::read(bytes) else { return Ok(TimeMatch::There(chunk)) };
    let from = i32::try_from(chunk.0 - head.base_offset).unwrap_or(i32::MAX);
    let seen = match search_times(bytes, &head, from, timestamp_ms, room.bytes) {
        Err(RecordsError::TooLarge { .. }) if !room.is_all => {
            return Err(TimeError::TooLittle(TooLittle));
        }
        seen => seen.unwrap_or_default(),
    };
    let place = |it: RecordTime| (head.base_offset + i64::from(it.offset_delta), it.timestamp_ms);
    Ok(match (seen.first, seen.latest) {
        (Some(first), _) => TimeMatch::There(place(first)),
        (None, Some(latest)) if from > 0 => {
            TimeMatch::Deleted { latest: place(latest), after: head.last_offset() + 1 }
        }
        _ => TimeMatch::There(chunk),
    })
}
