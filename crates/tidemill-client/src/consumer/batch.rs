//! The result of `poll`: the records of one chunk, as slices of the memory they came in.

use super::ConsumeError;
use crate::buffers::Buffers;
use bytes::Bytes;
use std::sync::Arc;
use tidemill_wire::{
    chunk::{CHUNK_HEAD_BYTES, ChunkHead, Codec},
    records::{Headers, Records, inflate},
};

/// The memory that an answer came in; it is used again when the last of its chunks is gone.
pub(super) struct AnswerFrame {
    content: Bytes,
    buffers: Arc<Buffers>,
}

impl AnswerFrame {
    pub(super) fn new(content: Bytes, buffers: &Arc<Buffers>) -> Arc<Self> {
        Arc::new(Self { content, buffers: Arc::clone(buffers) })
    }
}

impl Drop for AnswerFrame {
    fn drop(&mut self) {
        self.buffers.give_back(std::mem::take(&mut self.content));
    }
}

/// The records of one chunk, from the position on.
pub struct Batch {
    stream: Arc<str>,
    streamlet: i32,
    from: i64,
    head: ChunkHead,
    /// The number of records that [`Batch::each`] has passed, and their bytes.
    passed: (i32, usize),
    // Before `frame`: its memory is used again only if nobody else has a part of it.
    chunk: Bytes,
    plain: Option<Vec<u8>>,
    _frame: Arc<AnswerFrame>,
}

/// A record that was fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Its offset in the streamlet.
    pub offset: i64,
    /// Its timestamp in milliseconds since 1970: the producer's, or that of the append.
    pub timestamp_ms: i64,
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The value, or none: then it is a tombstone.
    pub value: Option<&'a [u8]>,
    /// The headers, in order.
    pub headers: Headers<'a>,
}

/// The result of taking from a streamlet.
pub enum Taken {
    /// The records of a chunk.
    Batch(Batch),
    /// Nothing yet.
    Nothing {
        /// The offset from which records are awaited: all before it are taken, or hidden. None
        /// while it is being looked up, and when the streamlet has stopped.
        next: Option<i64>,
    },
}

/// A batch before its records are inflated.
pub(super) struct PackedBatch {
    pub(super) stream: Arc<str>,
    pub(super) streamlet: i32,
    /// Records before this offset were not asked for.
    pub(super) from: i64,
    pub(super) head: ChunkHead,
    pub(super) chunk: Bytes,
    pub(super) frame: Arc<AnswerFrame>,
}

impl PackedBatch {
    /// Inflates the records; `scratch` is memory for that.
    pub(super) fn unpack(
        self,
        inflated_bytes_max: usize,
        mut scratch: Vec<u8>,
    ) -> Result<Batch, ConsumeError> {
        let Self { stream, streamlet, from, head, chunk, frame } = self;
        let body = &chunk[CHUNK_HEAD_BYTES..];
        let plain = match head.codec() {
            Ok(Codec::None) => None,
            _ => {
                let length = inflate(&head, body, inflated_bytes_max, &mut scratch)
                    .map(<[u8]>::len)
                    .map_err(|error| ConsumeError::Damaged {
                        stream: stream.to_string(),
                        streamlet,
                        offset: head.base_offset.max(from),
                        reason: error.to_string(),
                    })?;
                scratch.truncate(length);
                Some(scratch)
            }
        };
        let passed = (0, 0);
        Ok(Batch { stream, streamlet, from, head, passed, chunk, plain, _frame: frame })
    }
}

impl Batch {
    /// The stream.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// The streamlet.
    #[must_use]
    pub fn streamlet(&self) -> i32 {
        self.streamlet
    }

    /// The offset behind the last record.
    #[must_use]
    pub fn next_offset(&self) -> i64 {
        self.head.last_offset().saturating_add(1)
    }

    /// Bytes of the chunk, as it was sent.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.chunk.len()
    }

    /// The number of records in the chunk; the first may be from before the start.
    #[must_use]
    pub fn chunk_records(&self) -> u32 {
        self.head.record_count.unsigned_abs()
    }

    /// The records, in order.
    ///
    /// # Errors
    /// An item is an error if the chunk is faulty behind its checksum: its producer made it so.
    pub fn records(&self) -> impl Iterator<Item = Result<Received<'_>, ConsumeError>> {
        let plain = self.plain.as_deref().unwrap_or(&self.chunk[CHUNK_HEAD_BYTES..]);
        let base = self.head.base_offset;
        let mut next = base.max(self.from);
        Records::new(&self.head, plain).filter_map(move |record| match record {
            Ok(record) => {
                let offset = base.saturating_add(i64::from(record.offset_delta));
                if offset < self.from {
                    return None;
                }
                next = offset.saturating_add(1);
                Some(Ok(Received {
                    offset,
                    timestamp_ms: record.timestamp_ms,
                    key: record.key,
                    value: record.value,
                    headers: record.headers,
                }))
            }
            Err(error) => Some(Err(ConsumeError::Damaged {
                stream: self.stream.to_string(),
                streamlet: self.streamlet,
                offset: next,
                reason: error.to_string(),
            })),
        })
    }

    /// Hands out records that were not handed out before, in order: at most `max`, and none at the
    /// offset `below` or behind it. Gives back whether the batch has more.
    ///
    /// # Errors
    /// The chunk is damaged behind its checksum.
    pub fn each(
        &mut self,
        max: usize,
        below: i64,
        mut take: impl FnMut(Received<'_>),
    ) -> Result<bool, ConsumeError> {
        let plain = self.plain.as_deref().unwrap_or(&self.chunk[CHUNK_HEAD_BYTES..]);
        let (mut passed, mut at) = self.passed;
        let head = ChunkHead { record_count: self.head.record_count - passed, ..self.head };
        let mut records = Records::new(&head, &plain[at..]);
        let (mut given, mut next) = (0, self.head.base_offset.max(self.from));
        while given < max {
            let Some(record) = records.next() else { break };
            let record = record.map_err(|error| ConsumeError::Damaged {
                stream: self.stream.to_string(),
                streamlet: self.streamlet,
                offset: next,
                reason: error.to_string(),
            })?;
            let offset = self.head.base_offset.saturating_add(i64::from(record.offset_delta));
            if offset >= below {
                break;
            }
            (passed, at) = (passed + 1, plain.len() - records.rest().len());
            if offset >= self.from {
                (given, next) = (given + 1, offset.saturating_add(1));
                take(Received {
                    offset,
                    timestamp_ms: record.timestamp_ms,
                    key: record.key,
                    value: record.value,
                    headers: record.headers,
                });
            }
        }
        self.passed = (passed, at);
        Ok(passed < self.head.record_count)
    }

    /// Gives the memory back that the records were inflated in, for the next batch.
    #[must_use]
    pub fn into_memory(self) -> Vec<u8> {
        self.into_scratch().unwrap_or_default()
    }

    /// Memory for the next batch, in place of this one.
    pub(super) fn into_scratch(mut self) -> Option<Vec<u8>> {
        self.plain.take()
    }
}
