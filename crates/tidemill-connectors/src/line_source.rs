//! A source slice over a file of records one after another: cut, decode, set bad ones aside.

use crate::columns::largest_time;
use crate::input::{Input, SkippedRange};
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use tidemill_flow::{DeadLetter, Payload, Position, Read, ReadRequest, Source, SourceError};
use tidemill_types::{Cycle, Micros, SliceId, Span, limits::DEAD_LETTER_BYTES_MAX};

/// Records that are bad, and why.
pub(crate) type BadRecords = Vec<(usize, String)>;

/// Reads one record after another into columns.
pub(crate) trait Decode: Send {
    /// Takes a record.
    ///
    /// # Errors
    /// Why it is bad; then it leaves no trace.
    fn record(&mut self, record: &[u8]) -> Result<(), String>;

    /// The records taken as a batch; and those of them, counted from 0, that turned out bad and
    /// are not in it.
    ///
    /// # Errors
    /// They do not fit a batch.
    fn finish(&mut self) -> Result<(RecordBatch, BadRecords), ArrowError>;
}

/// A file read record by record.
pub(crate) struct LineSource {
    path: String,
    input: Input,
    decoder: Box<dyn Decode>,
    /// The part that a seek left out, whose lines the input has not counted.
    passed: Option<SkippedRange>,
    records_max: usize,
    lateness: Span,
    watermark: Micros,
}

impl LineSource {
    pub(crate) fn new(
        path: String,
        input: Input,
        (decoder, records_max): (Box<dyn Decode>, usize),
        lateness: Span,
    ) -> Self {
        let watermark = Micros::MIN;
        Self { path, input, decoder, passed: None, records_max, lateness, watermark }
    }

    fn failed(path: &str, error: impl std::fmt::Display) -> SourceError {
        SourceError::new(format!("`{path}`: {error}"))
    }
}

impl Source for LineSource {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let path = &self.path;
        let records = request.records.min(self.records_max);
        let request = &ReadRequest { records, ..*request };
        let chunk = self.input.read(request).map_err(|error| Self::failed(path, error))?;
        let Some(chunk) = chunk else {
            // Only a replay stops before the end, and then the engine knows.
            let reached = request.until.is_some_and(|until| until <= self.position());
            return Ok(if reached { Read::Idle { until: None } } else { Read::End });
        };
        let checked = std::str::from_utf8(chunk.bytes).is_ok();
        let mut bad: BadRecords = Vec::new();
        for (index, record) in chunk.records.iter().enumerate() {
            let bytes = &chunk.bytes[record.start..record.end];
            if let Some(reason) = record.bad {
                bad.push((index, reason.to_owned()));
            } else if !checked && std::str::from_utf8(bytes).is_err() {
                bad.push((index, "it is not UTF-8".to_owned()));
            } else if let Err(reason) = self.decoder.record(bytes) {
                bad.push((index, reason));
            }
        }
        let (batch, late) = self.decoder.finish().map_err(|error| Self::failed(path, error))?;
        if !late.is_empty() {
            add_late(&mut bad, late, chunk.records.len());
        }
        let lines_before = match &mut self.passed {
            Some(passed) if !bad.is_empty() => {
                passed.lines().map_err(|error| Self::failed(path, error))?
            }
            _ => 0,
        };
        for (index, reason) in bad {
            let record = chunk.records[index];
            let bytes = &chunk.bytes[record.start..record.end];
            let offset = chunk.offset + record.start as u64;
            let line = lines_before + chunk.line + u64::from(record.line);
            let position = format!("{path}:byte {offset}, line {line}");
            letters.push(letter(request.cycle, position, reason, bytes));
        }
        let taken = chunk.taken;
        let time_max = largest_time(&batch).map_or(Micros::MIN, Micros);
        self.watermark = self.watermark.max(time_max.minus(self.lateness));
        Ok(Read::Rows { payload: Payload::Arrow(batch), bytes: taken })
    }

    fn position(&self) -> Position {
        Position(self.input.offset())
    }

    /// Records do not depend on earlier ones, so the source resumes there and reads nothing before it.
    fn seek(&mut self, to: Position, watermark: Micros) -> Result<(), SourceError> {
        let passed = self.input.pass_to(to.0).map_err(|error| Self::failed(&self.path, error))?;
        (self.passed, self.watermark) = (Some(passed), watermark);
        Ok(())
    }

    fn watermark(&self) -> Micros {
        self.watermark
    }
}

/// Adds bad records that are counted among those that were taken, `bad` being the others.
pub(crate) fn add_late(bad: &mut BadRecords, late: BadRecords, records: usize) {
    let refused = |index: &usize| bad.binary_search_by_key(index, |(it, _)| *it).is_err();
    let taken: Vec<usize> = (0..records).filter(refused).collect();
    bad.extend(late.into_iter().map(|(row, reason)| (taken[row], reason)));
    bad.sort();
}

/// A dead letter; the engine adds the name of the source and the slice.
pub(crate) fn letter(cycle: Cycle, position: String, reason: String, record: &[u8]) -> DeadLetter {
    let record = record[..record.len().min(DEAD_LETTER_BYTES_MAX)].to_vec();
    DeadLetter { stage: String::new(), cycle, slice: SliceId(0), position, reason, record }
}
