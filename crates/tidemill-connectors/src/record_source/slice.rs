//! One part of a log as a source, wherever its records come from.
//!
//! ```text
//! RecordFeed: records at offsets ─▶ json │ csv │ text │ influx ─▶ batch, meta columns
//!                                   bad records ─▶ dead letters
//! ```
//!
//! A cycle ends between two records, so a position is an offset.

use super::meta::{Meta, MetaColumns};
use super::sampler::RecordSchema;
use super::{LogName, RecordFeed, RecordSourceSpec};
use crate::columns::{OUT_OF_RANGE, largest_time};
use crate::csv::COMMA;
use crate::frame::Framing;
use crate::line_source::{BadRecords, Decode, add_late, letter};
use crate::schema_inference::decoder;
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use tidemill_flow::{
    DeadLetter, ErrorKind, Payload, Position, Read, ReadRequest, Source, SourceError, SourceWaker,
    TIME_COLUMN,
};
use tidemill_types::{
    Micros, SliceId, Span,
    job::{Format, MetaSpec},
};
use tidemill_wire::records::Record;

/// One part of a log, read by a job.
pub(super) struct RecordSlice {
    /// The kind of its log: `stream` or `topic`.
    kind: &'static str,
    /// Its name and number, as dead letters say where they are from.
    subject: String,
    slice: SliceId,
    feed: Box<dyn RecordFeed>,
    /// The framing of several records in one value, in formats of lines.
    framing: Option<Framing>,
    decoder: Box<dyn Decode>,
    /// Most rows of a batch.
    records_max: usize,
    meta: MetaColumns,
    meta_spec: MetaSpec,
    schema: SchemaRef,
    /// Values under way, if columns may turn out bad at the end of a batch: lists and objects.
    kept: Option<RecordBuffer>,
    time_is_timestamp: bool,
    until: Option<i64>,
    lateness: Span,
    watermark: Micros,
}

impl RecordSlice {
    /// Reads `feed` up to, not including, the offset `until`.
    pub(super) fn new(
        log: &LogName,
        (slice, until): (SliceId, Option<i64>),
        feed: Box<dyn RecordFeed>,
        values: &RecordSchema,
        spec: &RecordSourceSpec,
    ) -> Self {
        let nested = values.shape.fields.iter().any(|it| it.data_type().is_nested());
        Self {
            kind: log.kind,
            subject: format!("{} {} {slice}", log.name, log.part),
            slice,
            feed,
            framing: match spec.format {
                Format::Csv => Some({
                    let fields = values.shape.fields.len();
                    Framing::Csv { fields, delimiter: COMMA }
                }),
                Format::Influx => Some(Framing::Influx),
                _ => None,
            },
            decoder: decoder(spec.format, &values.shape, COMMA),
            records_max: values.shape.rows_max(),
            meta: MetaColumns::default(),
            meta_spec: spec.meta.clone(),
            schema: Arc::clone(&values.schema),
            kept: nested.then(RecordBuffer::default),
            time_is_timestamp: values.time_is_timestamp,
            until,
            lateness: spec.time.as_ref().map_or(Span::default(), |it| it.lateness),
            watermark: Micros::MIN,
        }
    }

    /// The error with the part as its place.
    fn failure(&self, error: SourceError) -> SourceError {
        error.within(format_args!("{} {}", self.kind, self.subject))
    }

    fn failed(&self, error: impl std::fmt::Display) -> SourceError {
        self.failure(SourceError::new(error.to_string()))
    }

    /// The records taken as a batch with all columns.
    fn batch(&mut self, bad: &mut BadRecords, records: usize) -> Result<RecordBatch, SourceError> {
        let (batch, late) = self.decoder.finish().map_err(|error| self.failed(error))?;
        if !late.is_empty() {
            self.meta.drop_rows(&late.iter().map(|(row, _)| *row).collect::<Vec<_>>());
            add_late(bad, late, records);
        }
        let rows = batch.num_rows();
        let mut columns = batch.columns().to_vec();
        let hidden = match (self.time_is_timestamp, batch.schema_ref().index_of(TIME_COLUMN)) {
            (true, _) => Some(self.meta.times()),
            (false, Ok(index)) => Some(columns.remove(index)),
            (false, Err(_)) => None,
        };
        columns.extend(self.meta.finish(&self.meta_spec, self.slice));
        columns.extend(hidden);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| self.failed(error))
    }
}

impl Source for RecordSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let replayed = request.until.map(|it| i64::try_from(it.0).unwrap_or(i64::MAX));
        let below = replayed.or(self.until).unwrap_or(i64::MAX);
        let filled = self.feed.fill(request.bytes, below);
        if !filled.map_err(|error| self.failure(error))? {
            let ended = self.until.is_some_and(|until| self.feed.offset() >= until);
            return Ok(if ended && replayed.is_none() { Read::End } else { self.feed.wait() });
        }
        let records_max = request.records.min(self.records_max);
        let (mut bytes, mut records) = (0, 0);
        let mut bad: BadRecords = Vec::new();
        while bytes < request.bytes && records < records_max {
            let filled = self.feed.fill(request.bytes - bytes, below);
            if !filled.map_err(|error| self.failure(error))? {
                break;
            }
            let room = records_max - records;
            let (decoder, columns, subject) = (&mut self.decoder, &mut self.meta, &self.subject);
            let (meta_spec, kept, framing) = (&self.meta_spec, &mut self.kept, self.framing);
            let is_time = self.time_is_timestamp;
            let outcome = self.feed.each(room, below, &mut |offset, record| {
                let value = record.value.unwrap_or_default();
                bytes += value.len() + record.key.map_or(0, <[u8]>::len);
                if let Some(kept) = kept {
                    kept.push(offset, value);
                }
                match take((&mut **decoder, framing), (meta_spec, is_time), offset, record) {
                    Ok(meta) => columns.push(meta),
                    Err(reason) => {
                        let position = format!("{subject}, offset {offset}");
                        letters.push(letter(request.cycle, position, reason, value));
                        bad.push((records, String::new()));
                    }
                }
                records += 1;
            });
            bytes += outcome.map_err(|error| self.failure(error))?;
        }
        let batch = self.batch(&mut bad, records)?;
        if let Some(kept) = &mut self.kept {
            for (index, reason) in bad.into_iter().filter(|(_, reason)| !reason.is_empty()) {
                let (offset, value) = kept.get(index);
                let position = format!("{}, offset {offset}", self.subject);
                letters.push(letter(request.cycle, position, reason, value));
            }
            kept.clear();
        }
        let time_max = largest_time(&batch).map_or(Micros::MIN, Micros);
        self.watermark = self.watermark.max(time_max.minus(self.lateness));
        Ok(Read::Rows { payload: Payload::Arrow(batch), bytes: bytes.max(1) })
    }

    fn position(&self) -> Position {
        Position(self.feed.offset().unsigned_abs())
    }

    fn seek(&mut self, to: Position, watermark: Micros) -> Result<(), SourceError> {
        let (offset, first) = (i64::try_from(to.0).unwrap_or(i64::MAX), self.feed.offset());
        if offset < first {
            let message = format!("it cannot go on at offset {offset}: it begins at {first}");
            return Err(self.failure(SourceError::of_kind(ErrorKind::Invalid, message)));
        }
        let is_end = self.until.is_some_and(|until| offset >= until);
        self.feed.seek(offset, is_end).map_err(|error| self.failure(error))?;
        self.watermark = watermark;
        Ok(())
    }

    fn wake_by(&mut self, waker: SourceWaker) {
        self.feed.wake_by(waker);
    }

    fn watermark(&self) -> Micros {
        self.watermark
    }
}

/// In place of a timestamp, in Kafka's record format: there is none.
const NO_TIMESTAMP: i64 = -1;

/// The microseconds of a timestamp that there is; none if nobody asks for them.
fn timestamp_us(timestamp_ms: i64, is_time: bool, is_column: bool) -> Result<Option<i64>, String> {
    let timestamp_us = timestamp_ms.checked_mul(1000);
    if is_time && !timestamp_us.is_some_and(|it| Micros(it).is_event_time()) {
        return Err(format!("event time, which is its timestamp, {OUT_OF_RANGE}"));
    }
    if is_column && timestamp_us.is_none() {
        return Err(format!("its timestamp, {timestamp_ms} ms, is too far away for a column"));
    }
    Ok(timestamp_us)
}

/// Takes a record's value and its metadata. Its timestamp may be its event time.
fn take(
    (decoder, framing): (&mut dyn Decode, Option<Framing>),
    (spec, is_time): (&MetaSpec, bool),
    offset: i64,
    record: &Record<'_>,
) -> Result<Meta, String> {
    let value = record.value.ok_or("it has no value")?;
    if std::str::from_utf8(value).is_err() {
        return Err("it is not UTF-8".to_owned());
    }
    let key = match (&spec.key, record.key) {
        (Some(_), Some(key)) => {
            Some(std::str::from_utf8(key).map_err(|_| "its key is not UTF-8")?.to_owned())
        }
        _ => None,
    };
    let timestamp_us = match record.timestamp_ms {
        NO_TIMESTAMP if is_time => {
            return Err("event time is missing: it has no timestamp".to_owned());
        }
        NO_TIMESTAMP => None,
        timestamp_ms => timestamp_us(timestamp_ms, is_time, spec.timestamp.is_some())?,
    };
    decoder.record(framing.map_or(Ok(value), |it| it.only(value))?)?;
    Ok(Meta { key, timestamp_us, offset })
}

/// Copies of values, with their offsets.
#[derive(Default)]
struct RecordBuffer {
    bytes: Vec<u8>,
    records: Vec<(i64, usize)>,
}

impl RecordBuffer {
    fn push(&mut self, offset: i64, value: &[u8]) {
        self.bytes.extend_from_slice(value);
        self.records.push((offset, self.bytes.len()));
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
    }

    fn get(&self, index: usize) -> (i64, &[u8]) {
        let start = index.checked_sub(1).map_or(0, |before| self.records[before].1);
        let (offset, end) = self.records[index];
        (offset, &self.bytes[start..end])
    }
}
