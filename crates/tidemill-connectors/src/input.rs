//! The bytes of a file as runs of whole records.
//!
//! ```text
//! file  …│ record │ record │ record │ rec…          buffer: read ahead, used again
//!        ├──────── chunk ───────────┤
//! ```
//!
//! - Where a chunk ends depends on the file and the request alone, never on how much was read
//!   ahead: the same requests give the same chunks on every run.
//! - Memory: the longest record, the request and the read-ahead. A longer line is passed over
//!   without being held.

use crate::frame::{Framed, Framing};
use std::{io, sync::Arc};
use tidemill_env::DiskRead;
use tidemill_flow::{ErrorKind, ReadRequest, SourceError};
use tidemill_types::limits::{DEAD_LETTER_BYTES_MAX, RECORD_BYTES_MAX};

mod skipped_range;

pub(crate) use skipped_range::SkippedRange;

/// Bytes read from the file at once.
pub(crate) const READ_AHEAD_BYTES: usize = 1 << 20;

/// Most bytes of a chunk, but for its last record: a column of text holds less than 2 GiB.
const CHUNK_BYTES_MAX: usize = 64 << 20;

/// One record within a chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordRange {
    /// Where it starts and ends in the chunk, without the end of its line.
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Lines of the chunk before it.
    pub(crate) line: u32,
    /// Why it is bad, if that is known already.
    pub(crate) bad: Option<&'static str>,
}

/// A file from which records are taken in order.
pub(crate) struct Input {
    file: Arc<dyn DiskRead>,
    framing: Framing,
    /// Length of the file when it was first read; bytes appended later are not read.
    size: u64,
    buffer: Vec<u8>,
    /// `buffer[start..end]` was read and not taken.
    start: usize,
    end: usize,
    /// Where `buffer[start]` stands in the file.
    offset: u64,
    /// The number of its line, from 1.
    line: u64,
    read_ahead: usize,
    records: Vec<RecordRange>,
    /// The head of a line that was passed over.
    head: Vec<u8>,
}

/// A run of whole records.
pub(crate) struct Chunk<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) records: &'a mut Vec<RecordRange>,
    /// Input bytes that it took.
    pub(crate) taken: usize,
    /// Where it starts in the file.
    pub(crate) offset: u64,
    /// The number of its first line.
    pub(crate) line: u64,
}

impl Input {
    pub(crate) fn new(file: Arc<dyn DiskRead>, framing: Framing, size: u64) -> Self {
        Self {
            file,
            framing,
            size,
            buffer: Vec::new(),
            start: 0,
            end: 0,
            offset: 0,
            line: 1,
            read_ahead: READ_AHEAD_BYTES,
            records: Vec::new(),
            head: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(crate) fn with_read_ahead(mut self, bytes: usize) -> Self {
        self.read_ahead = bytes;
        self
    }

    /// Seeks to a place that was reached before, and drops bytes read ahead.
    pub(crate) fn seek(&mut self, offset: u64, line: u64) {
        (self.start, self.end, self.offset, self.line) = (0, 0, offset, line);
    }

    /// Seeks to a place where a chunk ended once, without reading the bytes before it. The line number
    /// stays, and the result counts the lines between.
    ///
    /// # Errors
    /// No record can end there: it is not the file that it was.
    pub(crate) fn pass_to(&mut self, offset: u64) -> Result<SkippedRange, SourceError> {
        let (from, line) = (self.offset, self.line);
        if offset > self.size {
            let size = self.size;
            return Err(changed(&format!(
                "it has {size} bytes, and the job had read it up to byte {offset}"
            )));
        }
        if offset != from && !self.ends_record(offset).map_err(failed)? {
            return Err(changed(&format!(
                "the job had read it up to byte {offset}, where no record ends"
            )));
        }
        self.seek(offset, line);
        Ok(SkippedRange::new(&self.file, from..offset))
    }

    /// Returns true if the byte before allows a record to end here.
    fn ends_record(&self, offset: u64) -> io::Result<bool> {
        let Some(before) = offset.checked_sub(1).filter(|it| *it >= self.offset) else {
            return Ok(false);
        };
        let mut byte = [0];
        if self.file.read_full_at(before, &mut byte)? == 0 {
            return Err(became_shorter());
        }
        Ok(byte == *b"\n" || offset == self.size)
    }

    /// Sets the framing of the following records.
    pub(crate) fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Where the next record starts.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The number of its line.
    pub(crate) fn line(&self) -> u64 {
        self.line
    }

    /// Passes over a byte order mark.
    pub(crate) fn skip_mark(&mut self) -> io::Result<()> {
        while self.end - self.start < 3 && self.fill()? {}
        if self.buffer[self.start..self.end].starts_with(b"\xef\xbb\xbf") {
            self.take(3, 0);
        }
        Ok(())
    }

    fn at_end(&self) -> bool {
        self.offset + (self.end - self.start) as u64 >= self.size
    }

    /// Reads more; false at the end of the file.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at_end() {
            return Ok(false);
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let rest = self.size - self.offset - self.end as u64;
        let wanted = usize::try_from(rest).unwrap_or(usize::MAX).min(self.read_ahead);
        if self.buffer.len() < self.end + wanted {
            self.buffer.resize(self.end + wanted, 0);
        }
        let room = &mut self.buffer[self.end..self.end + wanted];
        let count = self.file.read_at(self.offset + self.end as u64, room)?;
        if count == 0 {
            return Err(became_shorter());
        }
        self.end += count;
        Ok(true)
    }

    fn take(&mut self, bytes: usize, lines: u64) {
        self.start += bytes;
        self.offset += bytes as u64;
        self.line += lines;
    }

    /// The next run of records, as the request bounds it; none at the end of the file.
    pub(crate) fn next(
        &mut self,
        bytes: usize,
        records: usize,
        until: Option<u64>,
    ) -> Result<Option<Chunk<'_>>, SourceError> {
        let limit = self.limit(until)?;
        let (bytes, records) = (bytes.clamp(1, CHUNK_BYTES_MAX), records.max(1));
        self.records.clear();
        let (offset, line) = (self.offset, self.line);
        let (mut at, mut lines) = (0, 0_u32);
        while at < bytes && self.records.len() < records && limit.is_none_or(|it| (at as u64) < it)
        {
            let available = self.start + at..self.end;
            let last = self.at_end();
            let full = available.len() > RECORD_BYTES_MAX;
            let longest = available.start + available.len().min(RECORD_BYTES_MAX + 1);
            let view = &self.buffer[available.start..longest];
            if last && view.is_empty() {
                break;
            }
            let framed = self.framing.frame(view, last && !full);
            match framed.filter(|frame| frame.body <= RECORD_BYTES_MAX) {
                Some(frame) => {
                    let bad = match frame.is {
                        Framed::Bad(reason) => Some(reason),
                        Framed::Record | Framed::Skip => None,
                    };
                    if frame.is != Framed::Skip {
                        let end = at + frame.body;
                        self.records.push(RecordRange { start: at, end, line: lines, bad });
                    }
                    at += frame.len;
                    lines += frame.lines;
                }
                None if framed.is_none() && !full => {
                    self.fill().map_err(failed)?;
                }
                // A line that is too long makes a chunk of its own.
                None if at > 0 => break,
                None => return self.pass_over().map(Some),
            }
        }
        if limit.is_some_and(|it| at as u64 > it) {
            return Err(changed("no record ends where the ledger says"));
        }
        if at == 0 {
            return Ok(None);
        }
        let begin = self.start;
        self.take(at, u64::from(lines));
        let bytes = &self.buffer[begin..begin + at];
        Ok(Some(Chunk { bytes, records: &mut self.records, taken: at, offset, line }))
    }

    /// The number of bytes to read up to `until`.
    fn limit(&self, until: Option<u64>) -> Result<Option<u64>, SourceError> {
        let Some(until) = until else { return Ok(None) };
        if until > self.size {
            return Err(changed("it is shorter than the ledger says"));
        }
        Ok(Some(until.saturating_sub(self.offset)))
    }

    /// Passes over a line that is too long to hold; its head is kept for the dead letter.
    fn pass_over(&mut self) -> Result<Chunk<'_>, SourceError> {
        let (offset, line) = (self.offset, self.line);
        self.head = self.buffer[self.start..self.start + DEAD_LETTER_BYTES_MAX].to_vec();
        loop {
            match memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
                Some(end) => {
                    self.take(end + 1, 1);
                    break;
                }
                None => self.take(self.end - self.start, 0),
            }
            if !self.fill().map_err(failed)? {
                break;
            }
        }
        let taken = usize::try_from(self.offset - offset).unwrap_or(usize::MAX);
        let bad = Some("the line is longer than 16 MiB");
        self.records.push(RecordRange { start: 0, end: self.head.len(), line: 0, bad });
        Ok(Chunk { bytes: &self.head, records: &mut self.records, taken, offset, line })
    }

    /// The next run of records, as the engine asks.
    pub(crate) fn read(&mut self, request: &ReadRequest) -> Result<Option<Chunk<'_>>, SourceError> {
        self.next(request.bytes, request.records, request.until.map(|position| position.0))
    }
}

fn became_shorter() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter while it was read")
}

fn failed(error: io::Error) -> SourceError {
    let kind = match error.kind() {
        io::ErrorKind::UnexpectedEof => ErrorKind::Invalid,
        _ => ErrorKind::Failed,
    };
    SourceError::of_kind(kind, error.to_string())
}

fn changed(how: &str) -> SourceError {
    let message = format!(
        "the file has changed since the job read it: {how}. Put the earlier file back, or start the \
         job anew"
    );
    SourceError::of_kind(ErrorKind::Invalid, message)
}

#[cfg(test)]
mod tests;
