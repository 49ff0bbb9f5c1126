//! A stream as a source: one source slice a streamlet, at an offset each.
//!
//! A cycle ends between two records, so a position is an offset. What is not a record of the
//! stream's users (markers of transactions) is passed over.

use super::meta::{self, Meta, MetaColumns};
use super::note::{Began, Notes};
use super::reader::{Kept, Reader};
use crate::columns::{Shape, largest_time};
use crate::error::{ConnectorError, ConnectorErrorKind};
use crate::found::{Found, SAMPLE_BYTES_MAX, SAMPLE_RECORDS, Sample, decoder};
use crate::guess::{Guess, Guesses};
use crate::influx::InfluxGuesses;
use crate::line_source::{BadRecords, Decode, add_late, letter};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use std::{
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};
use tidemill_env::World;
use tidemill_flow::{
    DeadLetter, Payload, Position, Read, ReadRequest, Source, SourceError, SourceFactory,
    SourceWaker, TIME_COLUMN,
};
use tidemill_log::{Interest, Log, Stream, Streamlet};
use tidemill_types::{
    Micros, Span,
    job::{Format, MetaSpec, Named, StartSpec, TimeSpec, UntilSpec},
};
use tidemill_wire::records::Record;

#[cfg(test)]
mod tests;

/// How a job reads a stream.
#[derive(Clone, Debug)]
pub struct StreamSourceSpec {
    /// How values are read: not Arrow or Parquet.
    pub format: Format,
    /// Column types by name; for CSV all columns in order.
    pub schema: Named<String>,
    /// Records that decide the types of other columns; none: 10,000.
    pub sample: Option<usize>,
    /// Where reading begins.
    pub start: StartSpec,
    /// Where it ends.
    pub until: UntilSpec,
    /// Columns beside those of the value.
    pub meta: MetaSpec,
    /// Event time: a column of the value, or the timestamp's.
    pub time: Option<TimeSpec>,
    /// A file of the job's folder that keeps where reading began, for a job that can resume.
    pub note: Option<PathBuf>,
    /// The job goes on where an earlier run stopped: what the note says counts.
    pub resume: bool,
}

/// A stream of a log as a source.
pub struct StreamSource {
    stream: Arc<Stream>,
    spec: StreamSourceSpec,
    /// Columns of the value.
    shape: Shape,
    schema: SchemaRef,
    /// By streamlet: where it begins and, if it does, ends.
    bounds: Vec<(i64, Option<i64>)>,
    time_is_timestamp: bool,
    /// Written before the first slice is read.
    note: Mutex<Option<Notes<Began>>>,
}

fn refused(name: &str, message: impl std::fmt::Display) -> ConnectorError {
    let message = format!("stream `{name}`: {message}");
    ConnectorError { kind: ConnectorErrorKind::Unreadable, message }
}

impl StreamSource {
    /// Looks at a stream's first records and finds its columns, as a file's are found.
    ///
    /// # Errors
    /// There is no such stream, it is empty and the job names no columns, its records cannot be
    /// read, or it has not the columns that the job names.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any source factory")]
    pub fn new(
        world: &World,
        log: &Log,
        name: &str,
        spec: StreamSourceSpec,
    ) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
        let Some(stream) = log.get(name) else {
            let message = format!("there is no stream `{name}`: create it, or write to it first");
            return Err(ConnectorError { kind: ConnectorErrorKind::NotFound, message });
        };
        if matches!(spec.format, Format::Arrow | Format::Parquet) {
            let message = "values are read as json, csv, text or influx; its format must be one";
            return Err(refused(name, message));
        }
        let mut found = look(&stream, &spec).map_err(|message| refused(name, message))?;
        let timestamp = spec.meta.timestamp.as_deref();
        let of_value = |time: &&TimeSpec| timestamp != Some(time.field.as_str());
        let value_time = spec.time.as_ref().filter(of_value);
        found.apply(&format!("stream {name}"), spec.format, &spec.schema, value_time)?;
        if found.shape.fields.is_empty() {
            let message = "it is empty, so its columns are not known: name them and their types \
                           under `schema`";
            return Err(refused(name, message));
        }
        let time_is_timestamp = spec.time.is_some() && value_time.is_none();
        let schema = whole_schema(name, &found.shape, &spec, time_is_timestamp)?;
        let note = spec.note.as_ref().map(|path| Notes::<Began>::new(world, path));
        let began = match &note {
            Some(note) if spec.resume => note.read().map_err(|it| refused(name, it))?,
            _ => None,
        };
        let bounds = match began {
            Some(began) if began.stream != stream.id().to_string() => {
                let message = "it is not the stream that the job began with, but a later one of \
                               that name; start the job anew";
                return Err(refused(name, message));
            }
            Some(began) => began.bounds,
            None => {
                let streamlets = stream.streamlets();
                let bounds = streamlets.iter().map(|it| bounds(it, &spec));
                bounds.collect::<Result<_, _>>().map_err(|it| refused(name, it))?
            }
        };
        let (shape, note) = (found.shape, Mutex::new(note));
        Ok(Arc::new(Self { stream, spec, shape, schema, bounds, time_is_timestamp, note }))
    }

    /// Keeps where reading begins, once.
    fn write_note(&self) -> Result<(), SourceError> {
        let mut note = self.note.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(notes) = &*note {
            let (stream, bounds) = (self.stream.id().to_string(), self.bounds.clone());
            notes.write(&Began { stream, bounds }).map_err(|error| {
                SourceError::new(format!("stream `{}`: {error}", self.stream.name()))
            })?;
        }
        *note = None;
        Ok(())
    }
}

/// Columns of the value, meta columns, and the hidden one.
fn whole_schema(
    name: &str,
    shape: &Shape,
    spec: &StreamSourceSpec,
    time_is_timestamp: bool,
) -> Result<SchemaRef, ConnectorError> {
    let mut fields = shape.fields.clone();
    for field in meta::fields(&spec.meta) {
        if fields.iter().any(|it| it.name() == field.name()) {
            let message = format!(
                "its values have a column `{}` too: give the one under `meta` another name",
                field.name()
            );
            return Err(refused(name, message));
        }
        fields.push(field);
    }
    if shape.time.is_some() || time_is_timestamp {
        fields.push(Field::new(TIME_COLUMN, crate::column_type::moment_type(), false));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn bounds(
    streamlet: &Streamlet,
    spec: &StreamSourceSpec,
) -> Result<(i64, Option<i64>), tidemill_log::ReadError> {
    let end = streamlet.high_watermark();
    let start = match spec.start {
        StartSpec::Earliest => streamlet.start_offset(),
        StartSpec::Latest => end,
        // The chunk that has the first such record; records before it are read too.
        StartSpec::Time(time) => {
            let found = streamlet.offset_for_time(time.0.div_euclid(1000))?;
            found.map_or(end, |(offset, _)| offset)
        }
    };
    let until = match spec.until {
        UntilSpec::Never => None,
        UntilSpec::Latest => Some(end.max(start)),
    };
    Ok((start, until))
}

/// The columns of a stream's first records.
fn look(stream: &Stream, spec: &StreamSourceSpec) -> Result<Found, String> {
    let mut sample = match spec.format {
        Format::Json => Sample::Json(Guesses::default()),
        Format::Influx => Sample::Influx(InfluxGuesses::default()),
        Format::Csv => {
            if spec.schema.is_empty() {
                return Err("CSV values have no header: name their columns under `schema`".into());
            }
            let names: Vec<String> = spec.schema.keys().cloned().collect();
            let mut guesses = Guesses::default();
            names.iter().for_each(|name| guesses.add(name, Guess::Nothing));
            Sample::Csv(names, guesses)
        }
        _ => Sample::Text,
    };
    let mut left = spec.sample.unwrap_or(SAMPLE_RECORDS).max(1);
    let (mut empty, mut bytes_left) = (true, SAMPLE_BYTES_MAX as usize);
    for streamlet in stream.streamlets() {
        let mut reader = Reader::new(&streamlet, streamlet.start_offset());
        while left > 0 && bytes_left > 0 && !matches!(sample, Sample::Text) {
            if !reader.fill(bytes_left.min(1 << 20), streamlet.high_watermark())? {
                break;
            }
            let mut failed = None;
            reader.each(left, |_, record| {
                left = left.saturating_sub(1);
                if let (Some(value), None) = (record.value, &failed) {
                    bytes_left = bytes_left.saturating_sub(value.len());
                    if std::str::from_utf8(value).is_ok() {
                        empty = false;
                        failed = sample.add(value).err();
                    }
                }
            })?;
            if let Some(failed) = failed {
                return Err(failed);
            }
        }
    }
    let open = matches!(spec.format, Format::Json | Format::Influx);
    Ok(Found { shape: sample.shape(), data: (0, 0), total: None, open, empty })
}

impl SourceFactory for StreamSource {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn slices(&self) -> u32 {
        u32::try_from(self.bounds.len()).unwrap_or(u32::MAX)
    }

    fn open(&self, slice: u32) -> Result<Box<dyn Source>, SourceError> {
        self.write_note()?;
        let streamlet = self.stream.streamlet(slice).ok_or_else(|| {
            SourceError::new(format!("stream `{}` has no streamlet {slice}", self.stream.name()))
        })?;
        let (start, until) = self.bounds[slice as usize];
        let nested = self.shape.fields.iter().any(|it| it.data_type().is_nested());
        Ok(Box::new(Slice {
            subject: format!("{} streamlet {slice}", self.stream.name()),
            reader: Reader::new(&streamlet, start),
            decoder: decoder(self.spec.format, &self.shape),
            meta: MetaColumns::default(),
            meta_spec: self.spec.meta.clone(),
            schema: Arc::clone(&self.schema),
            kept: nested.then(Kept::default),
            time_is_timestamp: self.time_is_timestamp,
            until,
            lateness: self.spec.time.as_ref().map_or(Span::default(), |it| it.lateness),
            time_max: Micros::MIN,
            waker: None,
            interest: None,
        }))
    }

    fn live(&self) -> bool {
        self.spec.until == UntilSpec::Never
    }

    fn total(&self) -> Option<u64> {
        let lengths = self.bounds.iter().map(|(start, until)| until.map(|it| it - start));
        let total: Option<i64> = lengths.sum();
        total.and_then(|it| u64::try_from(it).ok())
    }
}

/// One streamlet, read by a job.
struct Slice {
    subject: String,
    reader: Reader,
    decoder: Box<dyn Decode>,
    meta: MetaColumns,
    meta_spec: MetaSpec,
    schema: SchemaRef,
    /// Values under way, if columns may turn out bad at the end of a batch: lists and objects.
    kept: Option<Kept>,
    time_is_timestamp: bool,
    until: Option<i64>,
    lateness: Span,
    time_max: Micros,
    waker: Option<SourceWaker>,
    /// A wish to be woken, with the offset that it is for.
    interest: Option<(i64, Interest)>,
}

impl Slice {
    fn failed(&self, error: impl std::fmt::Display) -> SourceError {
        SourceError::new(format!("stream {}: {error}", self.subject))
    }

    /// Nothing to read: the waker tells when there is.
    fn wait(&mut self) -> Read {
        let Some(waker) = &self.waker else { return Read::Idle { until: None } };
        let offset = self.reader.offset;
        if self.interest.as_ref().is_none_or(|(it, _)| *it != offset) {
            let waker = Arc::clone(waker);
            let notice = Box::new(move || waker());
            self.interest = Some((offset, self.reader.streamlet.on_data(offset, notice)));
        }
        Read::Idle { until: Some(u64::MAX) }
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
        columns.extend(self.meta.finish(&self.meta_spec, self.reader.streamlet.index()));
        columns.extend(hidden);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| self.failed(error))
    }
}

impl Source for Slice {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let replayed = request.until.map(|it| i64::try_from(it.0).unwrap_or(i64::MAX));
        let below = replayed.or(self.until).unwrap_or(i64::MAX);
        let filled = self.reader.fill(request.bytes, below);
        if !filled.map_err(|error| self.failed(error))? {
            let ended = self.until.is_some_and(|until| self.reader.offset >= until);
            return Ok(if ended && replayed.is_none() { Read::End } else { self.wait() });
        }
        let (mut bytes, mut records) = (0, 0);
        let mut bad: BadRecords = Vec::new();
        while bytes < request.bytes && records < request.records {
            let filled = self.reader.fill(request.bytes - bytes, below);
            if !filled.map_err(|error| self.failed(error))? {
                break;
            }
            let room = i64::try_from(request.records - records).unwrap_or(i64::MAX);
            // Offsets of a chunk may have gaps, so this many records never go past `below`.
            let max = usize::try_from(room.min(below - self.reader.offset)).unwrap_or(1);
            let (decoder, columns, subject) = (&mut self.decoder, &mut self.meta, &self.subject);
            let (meta_spec, kept) = (&self.meta_spec, &mut self.kept);
            let outcome = self.reader.each(max, |offset, record| {
                let value = record.value.unwrap_or_default();
                bytes += value.len() + record.key.map_or(0, <[u8]>::len);
                if let Some(kept) = kept {
                    kept.push(offset, value);
                }
                match take(&mut **decoder, meta_spec, offset, &record) {
                    Ok(meta) => columns.push(meta),
                    Err(reason) => {
                        let position = format!("{subject}, offset {offset}");
                        letters.push(letter(request.cycle, position, reason, value));
                        bad.push((records, String::new()));
                    }
                }
                records += 1;
            });
            outcome.map_err(|error| self.failed(error))?;
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
        self.time_max = self.time_max.max(largest_time(&batch).map_or(Micros::MIN, Micros));
        Ok(Read::Rows { payload: Payload::Arrow(batch), bytes: bytes.max(1) })
    }

    fn position(&self) -> Position {
        Position(self.reader.offset.unsigned_abs())
    }

    fn wake_by(&mut self, waker: SourceWaker) {
        self.waker = Some(waker);
        self.interest = None;
    }

    fn watermark(&self) -> Micros {
        self.time_max.minus(self.lateness)
    }
}

/// Takes a record's value, and says what it has beside it.
fn take(
    decoder: &mut dyn Decode,
    spec: &MetaSpec,
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
    let timestamp_us = record.timestamp_ms.saturating_mul(1000);
    decoder.record(value)?;
    Ok(Meta { key, timestamp_us, offset })
}
