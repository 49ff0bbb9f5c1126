//! Records of a streamlet one after another, wherever their chunks end.
//!
//! Markers of transactions are passed over. With a view of the transactions, aborted records are too, and
//! nothing is read beyond the last stable offset, as by a Kafka consumer with `read_committed`.

use super::aborted_chunks::AbortedChunks;
use super::node::Transactions;
use crate::record_source::no_longer_stored;
use bytes::Bytes;
use std::{collections::VecDeque, sync::Arc};
use tidemill_flow::{ErrorKind, SourceError};
use tidemill_log::{AppendError, OnData, ReadCursor, ReadError, ReadLimit, Streamlet};
use tidemill_wire::{
    chunk::{CHUNK_HEAD_BYTES, ChunkHead},
    records::{Record, Records, inflate},
};

/// Most bytes that a chunk's records may have when they are inflated.
const INFLATED_BYTES_MAX: usize = 256 << 20;

/// A streamlet, and the view of its transactions.
#[derive(Clone)]
pub(super) struct View {
    pub(super) streamlet: Arc<Streamlet>,
    /// None: everything that is acknowledged is read.
    pub(super) transactions: Option<Arc<dyn Transactions>>,
}

impl View {
    /// The offset after the last that may be read.
    pub(super) fn end_offset(&self) -> Result<i64, SourceError> {
        match &self.transactions {
            Some(transactions) => transactions.end_offset().map_err(SourceError::new),
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
    pub(super) fn seek(&mut self, offset: i64, is_end: bool) -> Result<(), SourceError> {
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
    pub(super) fn fill(&mut self, bytes: usize, below: i64) -> Result<bool, SourceError> {
        if self.offset >= below {
            return Ok(false);
        }
        if self.chunks.is_empty() {
            let streamlet = &self.view.streamlet;
            let mut limit = ReadLimit { max_bytes: bytes, at_least_one: true, below: i64::MAX };
            if self.view.transactions.is_some() {
                limit.below = self.view.end_offset()?;
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

    /// The error of a failed read. Deleting a stream removes its files from under its readers.
    fn unread(&self, error: ReadError) -> SourceError {
        let kind = match error {
            _ if matches!(self.view.streamlet.failure(), Some(AppendError::Closed)) => {
                return deleted();
            }
            ReadError::OutOfRange { offset, start, .. } if offset < start => {
                return no_longer_stored(offset, start);
            }
            ReadError::OutOfRange { .. } => ErrorKind::Invalid,
            ReadError::Corrupt { .. } | ReadError::Missing { .. } => ErrorKind::Corrupt,
            _ => ErrorKind::Failed,
        };
        SourceError::of_kind(kind, error.to_string()).with_source(error)
    }

    /// A reader with an end knows that the offset existed; one without may wait, but not for a streamlet
    /// that is deleted.
    fn nothing(&self, below: i64) -> Result<bool, SourceError> {
        if below == i64::MAX {
            return match self.view.streamlet.failure() {
                Some(AppendError::Closed) => Err(deleted()),
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
    ) -> Result<usize, SourceError> {
        let Some(chunk) = self.chunks.front() else { return Ok(0) };
        let damaged = |error: &dyn std::fmt::Display| {
            SourceError::of_kind(ErrorKind::Corrupt, format!("damaged records: {error}"))
        };
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

/// The error of a streamlet from which nothing more can come.
fn deleted() -> SourceError {
    let message = "it was deleted, or its log was closed; if there is a stream of its name again, \
                   start the job anew";
    SourceError::of_kind(ErrorKind::Invalid, message)
}

fn end_lost(offset: i64, end: i64) -> SourceError {
    let message = format!(
        "it was read up to offset {offset} once, and ends at {end} now: its end was lost; start the \
         job anew"
    );
    SourceError::of_kind(ErrorKind::Invalid, message)
}
