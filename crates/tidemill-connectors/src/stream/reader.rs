//! Records of a streamlet one after another, wherever their chunks end.
//!
//! Markers of transactions are passed over. With a view of the transactions, aborted records are too, and
//! nothing is read beyond the last stable offset, as by a Kafka consumer with `read_committed`.

use super::aborted_chunks::AbortedChunks;
use super::node::Transactions;
use super::slice::no_longer_stored;
use bytes::Bytes;
use std::{collections::VecDeque, sync::Arc};
use tidemill_log::{AppendError, OnData, ReadCursor, ReadError, ReadLimit, Streamlet};
use tidemill_wire::{
    chunk::{CHUNK_HEAD_BYTES, ChunkHead},
    records::{Record, Records, inflate},
};

/// Most bytes that a chunk's records may have when they are inflated.
const INFLATED_BYTES_MAX: usize = 256 << 20;

/// Why nothing more can come.
const GONE: &str = "it was deleted, or its log was closed; if there is a stream of its name again, \
                    start the job anew";

/// A streamlet, and the view of its transactions.
#[derive(Clone)]
pub(super) struct View {
    pub(super) streamlet: Arc<Streamlet>,
    /// None: everything that is acknowledged is read.
    pub(super) transactions: Option<Arc<dyn Transactions>>,
}

impl View {
    /// The offset after the last that may be read.
    pub(super) fn end_offset(&self) -> Result<i64, String> {
        match &self.transactions {
            Some(transactions) => transactions.end_offset(),
            None => Ok(self.streamlet.high_watermark()),
        }
    }

    /// Calls back once when there may be something to read at `offset`, perhaps at once. Dropping
    /// the result cancels it.
    pub(super) fn on_readable(&self, offset: i64, notice: OnData) -> Box<dyn Send> {
        match &self.transactions {
            Some(transactions) => transactions.on_readable(offset, notice),
            None => Box::new(self.streamlet.on_data(offset, notice)),
        }
    }
}

/// Reads a streamlet record by record.
pub(super) struct StreamletReader {
    pub(super) view: View,
    cursor: ReadCursor,
    /// The next record's offset.
    pub(super) offset: i64,
    /// Chunks that were read; the first holds `offset`.
    chunks: VecDeque<Bytes>,
    aborted: AbortedChunks,
    /// The head of the first chunk, less the records that were taken, and where the rest stands.
    first: Option<(ChunkHead, usize)>,
    scratch: Vec<u8>,
    /// True while the records of the first chunk are in `scratch`.
    inflated: bool,
}

impl StreamletReader {
    pub(super) fn new(view: View, offset: i64) -> Self {
        Self {
            view,
            cursor: ReadCursor::default(),
            offset,
            chunks: VecDeque::new(),
            aborted: AbortedChunks::default(),
            first: None,
            scratch: Vec::new(),
            inflated: false,
        }
    }

    /// Goes to an offset up to which it read once; nothing was read yet. If it `is_end`, nothing has
    /// to be there.
    pub(super) fn seek(&mut self, offset: i64, is_end: bool) -> Result<(), String> {
        let (first, end) = (self.view.streamlet.start_offset(), self.view.streamlet.end_offset());
        if !is_end && offset < first {
            return Err(no_longer_stored(offset, first));
        }
        if !is_end && offset > end {
            return Err(end_lost(offset, end));
        }
        self.offset = offset;
        Ok(())
    }

    /// Sees to it that there is a chunk. False: `below` is reached, or, if it is [`i64::MAX`], there
    /// is nothing yet. Any other offset must be one that could be read before.
    pub(super) fn fill(&mut self, bytes: usize, below: i64) -> Result<bool, String> {
        if self.offset >= below {
            return Ok(false);
        }
        if self.chunks.is_empty() {
            let streamlet = &self.view.streamlet;
            let mut limit = ReadLimit { max_bytes: bytes, at_least_one: true, below: i64::MAX };
            if let Some(transactions) = &self.view.transactions {
                limit.below = transactions.end_offset()?;
                // Beyond the end of the log is an error, which the read tells.
                if self.offset >= limit.below && self.offset <= streamlet.high_watermark() {
                    return self.nothing(below);
                }
            }
            let read = streamlet.read(&mut self.cursor, self.offset, limit);
            let read = read.map_err(|error| self.unread(error))?;
            self.aborted = AbortedChunks::of(self.offset, read.next_offset);
            self.chunks.extend(read.chunks);
            if self.chunks.is_empty() {
                return self.nothing(below);
            }
        }
        Ok(true)
    }

    /// The text of a failed read. Deleting a stream removes its files from under its readers.
    fn unread(&self, error: ReadError) -> String {
        match error {
            _ if matches!(self.view.streamlet.failure(), Some(AppendError::Closed)) => {
                GONE.to_owned()
            }
            ReadError::OutOfRange { offset, start, .. } if offset < start => {
                no_longer_stored(offset, start)
            }
            error => error.to_string(),
        }
    }

    /// A reader with an end knows that the offset existed; one without may wait, but not for a streamlet
    /// that is deleted.
    fn nothing(&self, below: i64) -> Result<bool, String> {
        if below == i64::MAX {
            return match self.view.streamlet.failure() {
                Some(AppendError::Closed) => Err(GONE.to_owned()),
                _ => Ok(false),
            };
        }
        Err(end_lost(below, self.offset))
    }

    /// Hands out records of the first chunk, at most `max`, and moves past them. Gives back the
    /// bytes of the chunk if it was passed over.
    pub(super) fn each(
        &mut self,
        max: usize,
        mut take: impl FnMut(i64, Record<'_>),
    ) -> Result<usize, String> {
        let Some(chunk) = self.chunks.front() else { return Ok(0) };
        let damaged = |error: &dyn std::fmt::Display| format!("damaged records: {error}");
        if self.first.is_none() {
            let head = ChunkHead::read(chunk).map_err(|error| damaged(&error))?;
            let passes_over = match &self.view.transactions {
                Some(transactions) => self.aborted.leaves_out(&**transactions, &head, chunk),
                None => head.is_control(),
            };
            if passes_over {
                let bytes = chunk.len();
                self.next_chunk(head.last_offset());
                return Ok(bytes);
            }
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
        let Some((head, at)) = &mut self.first else { return Ok(0) };
        let whole = if self.inflated { &self.scratch[..] } else { &chunk[CHUNK_HEAD_BYTES..] };
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
        if head.record_count <= 0 {
            let last_offset = head.last_offset();
            self.next_chunk(last_offset);
        }
        Ok(0)
    }

    /// The first chunk is done.
    fn next_chunk(&mut self, last_offset: i64) {
        self.offset = self.offset.max(last_offset + 1);
        self.chunks.pop_front();
        self.first = None;
    }
}

fn end_lost(offset: i64, end: i64) -> String {
    format!(
        "it was read up to offset {offset} once, and ends at {end} now: its end was lost; start the \
         job anew"
    )
}

/// Copies of values, with their offsets.
#[derive(Default)]
pub(super) struct RecordBuffer {
    bytes: Vec<u8>,
    records: Vec<(i64, usize)>,
}

impl RecordBuffer {
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
