//! Records of a streamlet one after another, wherever their chunks end.

use bytes::Bytes;
use std::{collections::VecDeque, sync::Arc};
use tidemill_log::{ReadCursor, ReadLimit, Streamlet};
use tidemill_wire::{
    chunk::{CHUNK_HEAD_BYTES, ChunkHead},
    records::{Record, Records, inflate},
};

/// Most bytes that a chunk's records may have when they are inflated.
const INFLATED_BYTES_MAX: usize = 256 << 20;

/// Reads a streamlet record by record.
pub(super) struct Reader {
    pub(super) streamlet: Arc<Streamlet>,
    cursor: ReadCursor,
    /// The next record's offset.
    pub(super) offset: i64,
    /// Chunks that were read; the first holds `offset`.
    chunks: VecDeque<Bytes>,
    /// The head of the first chunk, less the records that were taken, and where the rest stands.
    first: Option<(ChunkHead, usize)>,
    scratch: Vec<u8>,
    /// Whether the records of the first chunk are in `scratch`.
    inflated: bool,
}

impl Reader {
    pub(super) fn new(streamlet: &Arc<Streamlet>, offset: i64) -> Self {
        Self {
            streamlet: Arc::clone(streamlet),
            cursor: ReadCursor::default(),
            offset,
            chunks: VecDeque::new(),
            first: None,
            scratch: Vec::new(),
            inflated: false,
        }
    }

    /// Sees to it that there is a chunk. False: there is nothing below `below`.
    pub(super) fn fill(&mut self, bytes: usize, below: i64) -> Result<bool, String> {
        if self.offset >= below {
            return Ok(false);
        }
        if self.chunks.is_empty() {
            let limit = ReadLimit { max_bytes: bytes, at_least_one: true, below: i64::MAX };
            let read = self.streamlet.read(&mut self.cursor, self.offset, limit);
            self.chunks.extend(read.map_err(|error| error.to_string())?.chunks);
        }
        Ok(!self.chunks.is_empty())
    }

    /// Hands out records of the first chunk, at most `max`, and moves past them.
    pub(super) fn each(
        &mut self,
        max: usize,
        mut take: impl FnMut(i64, Record<'_>),
    ) -> Result<(), String> {
        let Some(chunk) = self.chunks.front() else { return Ok(()) };
        let damaged = |error: &dyn std::fmt::Display| format!("damaged records: {error}");
        if self.first.is_none() {
            let head = ChunkHead::read(chunk).map_err(|error| damaged(&error))?;
            let body = &chunk[CHUNK_HEAD_BYTES..head.bytes];
            self.scratch.clear();
            let plain = inflate(&head, body, INFLATED_BYTES_MAX, &mut self.scratch)
                .map_err(|error| damaged(&error))?;
            self.inflated = !std::ptr::eq(plain.as_ptr(), body.as_ptr());
            let length = plain.len();
            if self.inflated {
                self.scratch.truncate(length);
            }
            self.first = Some((head, 0));
        }
        let Some((head, at)) = &mut self.first else { return Ok(()) };
        let whole = if self.inflated { &self.scratch[..] } else { &chunk[CHUNK_HEAD_BYTES..] };
        if !head.is_control() {
            let mut records = Records::new(head, &whole[*at..]);
            let (mut taken, mut given) = (0, 0);
            while given < max {
                let Some(record) = records.next() else { break };
                let record = record.map_err(|error| damaged(&error))?;
                taken += 1;
                let offset = head.base_offset + i64::from(record.offset_delta);
                if offset >= self.offset {
                    given += 1;
                    self.offset = offset + 1;
                    take(offset, record);
                }
            }
            head.record_count -= taken;
            *at = whole.len() - records.rest().len();
        } else {
            head.record_count = 0;
        }
        if head.record_count <= 0 {
            self.offset = self.offset.max(head.last_offset() + 1);
            self.chunks.pop_front();
            self.first = None;
        }
        Ok(())
    }
}

/// Copies of values, with their offsets.
#[derive(Default)]
pub(super) struct Kept {
    bytes: Vec<u8>,
    records: Vec<(i64, usize)>,
}

impl Kept {
    pub(super) fn push(&mut self, offset: i64, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.records.push((offset, self.bytes.len()));
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    pub(super) fn get(&self, index: usize) -> (i64, &[u8]) {
        let start = index.checked_sub(1).map_or(0, |before| self.records[before].1);
        let (offset, end) = self.records[index];
        (offset, &self.bytes[start..end])
    }
}
