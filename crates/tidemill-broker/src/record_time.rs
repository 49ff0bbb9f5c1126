//! The record of a timestamp. The log knows which chunk it is; here its records are looked at.
//!
//! A chunk whose records do not read, or do not have the time that its head says, is answered with
//! what the log knows: the chunk's first offset and largest time. (Only chunks that were taken
//! without a look at their records can be so.)

use tidemill_log::{ReadCursor, ReadError, ReadLimit, Streamlet};
use tidemill_wire::{
    chunk::{CHUNK_HEAD_BYTES, ChunkHead},
    records::{Records, inflate},
};

/// Bytes of one chunk's records that are inflated to look for a time.
const INFLATED_BYTES_MAX: usize = 1 << 30;

/// The first record from the streamlet's start up to, not including, `end` with a time of at least
/// `timestamp_ms`: its offset and its time in milliseconds.
pub(crate) fn first_from(
    streamlet: &Streamlet,
    timestamp_ms: i64,
    end: i64,
) -> Result<Option<(i64, i64)>, ReadError> {
    let Some(chunk) = streamlet.offset_for_time(timestamp_ms)? else { return Ok(None) };
    if chunk.0 >= end {
        return Ok(None);
    }
    let found = record(streamlet, chunk, timestamp_ms)?;
    Ok(Some(found).filter(|it| it.0 < end))
}

/// The first record below `end` with the largest time: its offset and its time in milliseconds.
pub(crate) fn latest(streamlet: &Streamlet, end: i64) -> Result<Option<(i64, i64)>, ReadError> {
    let Some(chunk) = streamlet.latest_time(end)? else { return Ok(None) };
    record(streamlet, chunk, chunk.1).map(Some)
}

/// The first record with a time of at least `timestamp_ms` in the chunk that has the offset
/// `chunk.0`, from there on.
fn record(
    streamlet: &Streamlet,
    chunk: (i64, i64),
    timestamp_ms: i64,
) -> Result<(i64, i64), ReadError> {
    let limit = ReadLimit { max_bytes: 0, at_least_one: true, below: i64::MAX };
    let read = streamlet.read(&mut ReadCursor::default(), chunk.0, limit)?;
    let found = read.chunks.first().and_then(|bytes| {
        let head = ChunkHead::read(bytes).ok()?;
        let mut scratch = Vec::new();
        let body = bytes.get(CHUNK_HEAD_BYTES..head.bytes)?;
        let plain = inflate(&head, body, INFLATED_BYTES_MAX, &mut scratch).ok()?;
        let place = |offset_delta: i32| head.base_offset.saturating_add(i64::from(offset_delta));
        Records::new(&head, plain)
            .map_while(Result::ok)
            .map(|it| (place(it.offset_delta), it.timestamp_ms))
            .find(|(offset, time_ms)| *offset >= chunk.0 && *time_ms >= timestamp_ms)
    });
    Ok(found.unwrap_or(chunk))
}
