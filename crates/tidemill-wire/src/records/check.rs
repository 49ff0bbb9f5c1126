//! The broker's checks of a producer's chunk before it appends it.
//!
//! Kafka makes the same checks of a produce request: it reads each record's fields but not its
//! bytes, and inflates compressed chunks to do so.
//!
//! Invariant: a compressed chunk is never whole in memory here, and neither is a long record of it.
//! Exceptions are a single block of Snappy, which is at most 22 times as long as the chunk, and
//! Zstandard with a window over 8 MiB.

use super::{
    RecordFault, RecordsError,
    codec::lz4,
    inflater::{codec, walk},
    record::{take_length, take_record},
    time_search::TimeSearch,
};
use crate::chunk::{CHUNK_HEAD_BYTES, ChunkHead, Codec};

mod long_record;
#[cfg(test)]
mod tests;

use long_record::LongRecord;

/// A record with this many bytes here, and more to come, is walked without keeping them.
const LONG_BYTES: usize = 64 * 1024;
/// The attributes that a chunk may have: codec, timestamp type, transactional, control.
const ATTRIBUTES: i16 = 0x3f;

/// The limits of a chunk's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsLimit {
    /// Most bytes that the compressed records of a chunk become, inflated. It does not bind chunks
    /// that are not compressed.
    pub inflated_bytes_max: usize,
    /// Most bytes of one record, with its key, value and headers.
    pub record_bytes_max: usize,
}

/// The properties of a good chunk's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsSeen {
    /// All records together, inflated, in bytes.
    pub plain_bytes: usize,
    /// The largest timestamp that the producer gave a record, in milliseconds since 1970. That the
    /// head says the same is not checked.
    pub max_timestamp_ms: i64,
    /// True if a record has no key, which a compacted stream cannot take.
    pub has_keyless: bool,
}

/// A walk over records that come in pieces.
#[derive(Debug)]
pub(super) struct Walk {
    said: i32,
    found: u32,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
    has_keyless: bool,
    /// The first records without a key, counted from 0, at most `keyless_max`.
    keyless: Vec<u32>,
    keyless_max: usize,
    record_bytes_max: usize,
    long_bytes: usize,
    /// The long record that is under way.
    long: Option<LongRecord>,
    /// Times are looked for: offsets may have gaps then.
    pub(super) times: Option<TimeSearch>,
}

/// Checks the records of a chunk that [`ChunkHead::check`] accepted: every record and every field
/// fits, offset deltas count up from 0, there are as many records as the head says, nothing follows
/// them, the compressed stream is whole, within the limit and one that all clients read, and the
/// attributes are known ones. The caller decides by the head if a producer may send control chunks
/// or append timestamps.
///
/// # Errors
/// The first check that fails.
pub fn check_records(
    chunk: &[u8],
    head: &ChunkHead,
    limit: RecordsLimit,
) -> Result<RecordsSeen, RecordsError> {
    check_records_and_keys(chunk, head, limit, 0).map(|(seen, _)| seen)
}

/// As [`check_records`]. Also returns the first records without a key, counted from 0, at most
/// `keyless_max` of them.
///
/// # Errors
/// What is wrong.
pub fn check_records_and_keys(
    chunk: &[u8],
    head: &ChunkHead,
    limit: RecordsLimit,
    keyless_max: usize,
) -> Result<(RecordsSeen, Vec<u32>), RecordsError> {
    let codec = codec(head)?;
    if head.attributes & !ATTRIBUTES != 0 {
        return Err(RecordsError::Attributes(head.attributes));
    }
    let body = chunk.get(CHUNK_HEAD_BYTES..head.bytes).unwrap_or_default();
    let mut seen = Walk::new(head, limit.record_bytes_max);
    seen.keyless_max = keyless_max;
    let (plain_bytes, rest_bytes) = match codec {
        Codec::None => (body.len(), body.len() - seen.feed(body)?),
        Codec::Lz4 if lz4::is_linked(body) => return Err(RecordsError::Linked),
        packed => walk(packed, body, limit.inflated_bytes_max, &mut seen)?,
    };
    seen.finish(rest_bytes)?;
    let (max_timestamp_ms, has_keyless) = (seen.max_timestamp_ms, seen.has_keyless);
    Ok((RecordsSeen { plain_bytes, max_timestamp_ms, has_keyless }, seen.keyless))
}

impl Walk {
    pub(super) fn new(head: &ChunkHead, record_bytes_max: usize) -> Self {
        Self {
            said: head.record_count,
            found: 0,
            base_timestamp_ms: head.base_timestamp_ms,
            max_timestamp_ms: i64::MIN,
            has_keyless: false,
            keyless: Vec::new(),
            keyless_max: 0,
            record_bytes_max,
            long_bytes: LONG_BYTES,
            long: None,
            times: None,
        }
    }

    /// Walks the whole records that `bytes` begin with, and returns how long they are. The rest is
    /// to be at the front of the next piece.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<usize, RecordsError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if let Some(long) = &mut self.long {
                match long.walk(&mut rest) {
                    Ok(true) => self.see_long()?,
                    Ok(false) => break,
                    Err(fault) => return Err(self.damaged(fault)),
                }
                continue;
            }
            if i64::from(self.found) >= i64::from(self.said) {
                return Err(RecordsError::Trailing { said: self.said });
            }
            let before = rest.len();
            match take_record(&mut rest, self.base_timestamp_ms) {
                Ok(record) => {
                    let (delta, time_ms) = (record.offset_delta, record.timestamp_ms);
                    self.see(delta, time_ms, record.key.is_none(), before - rest.len())?;
                }
                Err(RecordFault::Cut) => {
                    // A record that is too long is refused before the rest of it is inflated.
                    let mut begun = rest;
                    if let Ok(length) = take_length(&mut begun) {
                        self.check_length(length)?;
                        if rest.len() >= self.long_bytes {
                            let long = LongRecord::begin(&mut rest, self.base_timestamp_ms);
                            self.long = Some(long.map_err(|fault| self.damaged(fault))?);
                            continue;
                        }
                    }
                    break;
                }
                Err(fault) => return Err(self.damaged(fault)),
            }
        }
        Ok(bytes.len() - rest.len())
    }

    fn damaged(&self, fault: RecordFault) -> RecordsError {
        RecordsError::Damaged { record: self.found, fault }
    }

    fn see_long(&mut self) -> Result<(), RecordsError> {
        let Some(long) = self.long.take() else { return Ok(()) };
        self.see(long.offset_delta, long.timestamp_ms, long.is_keyless, long.bytes)
    }

    #[inline(always)]
    fn see(
        &mut self,
        delta: i32,
        timestamp_ms: i64,
        is_keyless: bool,
        bytes: usize,
    ) -> Result<(), RecordsError> {
        if let Some(times) = &mut self.times {
            times.see(delta, timestamp_ms);
        } else if u32::try_from(delta) != Ok(self.found) {
            return Err(RecordsError::OutOfOrder { record: self.found, delta });
        }
        self.check_length(bytes)?;
        if is_keyless && self.keyless.len() < self.keyless_max {
            self.keyless.push(self.found);
        }
        self.found += 1;
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
        self.has_keyless |= is_keyless;
        Ok(())
    }

    #[inline(always)]
    fn check_length(&self, bytes: usize) -> Result<(), RecordsError> {
        if bytes > self.record_bytes_max {
            let (record, limit_bytes) = (self.found, self.record_bytes_max);
            return Err(RecordsError::RecordTooLarge { record, bytes, limit_bytes });
        }
        Ok(())
    }

    /// Ends the walk, with `rest_bytes` that were no whole record.
    pub(super) fn finish(&self, rest_bytes: usize) -> Result<(), RecordsError> {
        let (said, found) = (self.said, self.found);
        if rest_bytes > 0 || self.long.is_some() {
            return Err(RecordsError::Damaged { record: found, fault: RecordFault::Cut });
        }
        if i64::from(found) < i64::from(said) {
            return Err(RecordsError::Miscounted { said, found });
        }
        Ok(())
    }
}
