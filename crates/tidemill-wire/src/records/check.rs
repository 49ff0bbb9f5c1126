//! What a broker looks at before it appends a chunk that a producer sent.
//!
//! Kafka looks at the same when it takes a produce request: it reads each record's fields but not
//! its bytes, and it inflates compressed chunks to do so.
//!
//! Invariant: a compressed chunk is never whole in memory here, but for one of Snappy in one block,
//! which is at most 22 times as long as the chunk, and for one of Zstandard with a window over 8 MiB.

use super::{
    Fault, Record, RecordsError,
    inflate::{codec, walk},
    record::{take_length, take_record},
};
use crate::chunk::{CHUNK_HEAD_BYTES, ChunkHead, Codec};

#[cfg(test)]
mod tests;

/// The attributes that a chunk may have: codec, timestamp type, transactional, control.
const ATTRIBUTES: i16 = 0x3f;

/// How much the records of a chunk may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsLimit {
    /// Most bytes that the compressed records of a chunk become, inflated. It does not bind chunks
    /// that are not compressed.
    pub inflated_bytes_max: usize,
    /// Most bytes of one record, with its key, value and headers.
    pub record_bytes_max: usize,
}

/// What the records of a good chunk are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordsSeen {
    /// All records together, inflated, in bytes.
    pub plain_bytes: usize,
    /// The largest timestamp that the producer gave a record, in milliseconds since 1970. That the
    /// head says the same is not checked.
    pub max_timestamp_ms: i64,
    /// Whether a record has no key, which a compacted stream cannot take.
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
    record_bytes_max: usize,
}

/// Checks the records of a chunk that [`ChunkHead::check`] accepted: every record and every field
/// fits, offset deltas count up from 0, there are as many records as the head says, nothing follows
/// them, the compressed stream is whole and within the limit, and the attributes are known ones.
/// Whether a producer may send control chunks, or say that timestamps are those of the append, is
/// for the caller to decide by the head.
///
/// # Errors
/// What is wrong.
pub fn check_records(
    chunk: &[u8],
    head: &ChunkHead,
    limit: RecordsLimit,
) -> Result<RecordsSeen, RecordsError> {
    let codec = codec(head)?;
    if head.attributes & !ATTRIBUTES != 0 {
        return Err(RecordsError::Attributes(head.attributes));
    }
    let body = chunk.get(CHUNK_HEAD_BYTES..head.bytes).unwrap_or_default();
    let mut seen = Walk::new(head, limit.record_bytes_max);
    let (plain_bytes, rest_bytes) = match codec {
        Codec::None => (body.len(), body.len() - seen.feed(body)?),
        packed => walk(packed, body, limit.inflated_bytes_max, &mut seen)?,
    };
    seen.finish(rest_bytes)?;
    let (max_timestamp_ms, has_keyless) = (seen.max_timestamp_ms, seen.has_keyless);
    Ok(RecordsSeen { plain_bytes, max_timestamp_ms, has_keyless })
}

impl Walk {
    pub(super) fn new(head: &ChunkHead, record_bytes_max: usize) -> Self {
        Self {
            said: head.record_count,
            found: 0,
            base_timestamp_ms: head.base_timestamp_ms,
            max_timestamp_ms: i64::MIN,
            has_keyless: false,
            record_bytes_max,
        }
    }

    /// Walks the whole records that `bytes` begin with, and returns how long they are. The rest is
    /// to be at the front of the next piece.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<usize, RecordsError> {
        let mut rest = bytes;
        while !rest.is_empty() {
            if i64::from(self.found) >= i64::from(self.said) {
                return Err(RecordsError::Trailing { said: self.said });
            }
            let before = rest.len();
            match take_record(&mut rest, self.base_timestamp_ms) {
                Ok(record) => self.see(&record, before - rest.len())?,
                Err(Fault::Cut) => {
                    // A record that is too long is refused before the rest of it is inflated.
                    let mut begun = rest;
                    if let Ok(length) = take_length(&mut begun) {
                        self.check_length(length)?;
                    }
                    break;
                }
                Err(fault) => return Err(RecordsError::Damaged { record: self.found, fault }),
            }
        }
        Ok(bytes.len() - rest.len())
    }

    #[inline(always)]
    fn see(&mut self, record: &Record<'_>, bytes: usize) -> Result<(), RecordsError> {
        if u32::try_from(record.offset_delta) != Ok(self.found) {
            let delta = record.offset_delta;
            return Err(RecordsError::OutOfOrder { record: self.found, delta });
        }
        self.check_length(bytes)?;
        self.found += 1;
        self.max_timestamp_ms = self.max_timestamp_ms.max(record.timestamp_ms);
        self.has_keyless |= record.key.is_none();
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

    /// The end of the pieces, with so many bytes that were no whole record.
    fn finish(&self, rest_bytes: usize) -> Result<(), RecordsError> {
        let (said, found) = (self.said, self.found);
        if rest_bytes > 0 {
            return Err(RecordsError::Damaged { record: found, fault: Fault::Cut });
        }
        if i64::from(found) < i64::from(said) {
            return Err(RecordsError::Miscounted { said, found });
        }
        Ok(())
    }
}
