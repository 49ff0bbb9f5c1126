//! Iterating the records of a chunk.

use super::{Record, RecordFault, RecordsError, record::take_record};
use crate::chunk::ChunkHead;

#[cfg(test)]
mod tests;

/// The records of a chunk, in order, as slices of its bytes.
///
/// It does not mind gaps between offsets, which compaction leaves. After an error it ends.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    said: i32,
    found: u32,
    base_timestamp_ms: i64,
    append_time_ms: Option<i64>,
}

impl<'a> Records<'a> {
    /// The records in `plain`: the bytes after the chunk's head, inflated by
    /// [`inflate`](super::inflate()) if need be.
    #[must_use]
    pub fn new(head: &ChunkHead, plain: &'a [u8]) -> Self {
        Self {
            rest: plain,
            said: head.record_count,
            found: 0,
            base_timestamp_ms: head.base_timestamp_ms,
            append_time_ms: head.is_log_append_time().then_some(head.max_timestamp_ms),
        }
    }

    /// The bytes of the records that were not asked for yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn is_at_end(&self) -> bool {
        i64::from(self.found) >= i64::from(self.said)
    }

    #[cold]
    fn fail(&mut self, fault: RecordFault) -> RecordsError {
        let (said, found) = (self.said, self.found);
        let nothing_left = self.rest.is_empty();
        (self.rest, self.said) = (&[], 0);
        match fault {
            RecordFault::Cut if nothing_left => RecordsError::Miscounted { said, found },
            fault => RecordsError::Damaged { record: found, fault },
        }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordsError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_end() {
            if self.rest.is_empty() {
                return None;
            }
            self.rest = &[];
            return Some(Err(RecordsError::Trailing { said: self.said }));
        }
        match take_record(&mut self.rest, self.base_timestamp_ms) {
            Ok(mut record) => {
                self.found += 1;
                if let Some(append_time_ms) = self.append_time_ms {
                    record.timestamp_ms = append_time_ms;
                }
                Some(Ok(record))
            }
            Err(fault) => Some(Err(self.fail(fault))),
        }
    }
}
