//! A file as a source: finds its columns, then opens readers of it.

use crate::arrow_file::ArrowBatches;
use crate::batch_source::{BatchSource, Batches};
use crate::columns::{COLUMNS_MAX, Shape};
use crate::csv;
use crate::encoding::{ENCODING_BYTES, ForeignEncoding};
use crate::error::ConnectorError;
use crate::frame::Framing;
use crate::influx::InfluxGuesses;
use crate::input::{Input, READ_AHEAD_BYTES};
use crate::layout::plain_type;
use crate::line_source::LineSource;
use crate::parquet_file::ParquetBatches;
use crate::schema_inference::{InferredSchema, SAMPLE_BYTES_MAX, SAMPLE_RECORDS, Sample, decoder};
use crate::type_inference::Guesses;
use arrow_schema::{Field, SchemaRef};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{Disk, DiskRead, World};
use tidemill_flow::{GuessedColumn, Source, SourceError, SourceFactory};
use tidemill_types::{
    SliceId, Span,
    job::{FileSourceSpec, Format, TimeSpec},
};

/// A file, read once from its start to its end, as one slice.
///
/// Its length is taken when it is first read; bytes appended later are not read.
pub struct FileSource {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    format: Format,
    /// Of CSV.
    delimiter: u8,
    size: u64,
    /// Where the records of a line format begin, and the number of that line.
    data: (u64, u64),
    total: Option<u64>,
    shape: Shape,
    lateness: Span,
    reads: String,
    guessed: Vec<GuessedColumn>,
}

impl FileSource {
    /// Looks at the head of a file and finds its columns: their types are those of the first
    /// records (10,000, or `spec.sample`), or those of `spec.schema`. Integers that meet floats
    /// are `double`; values of different kinds are `text`. With `time`, the column it names is read
    /// as a moment, and the hidden time column is added.
    ///
    /// # Errors
    /// The file is not there, cannot be read, or has not the columns that the job names.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any source factory")]
    pub fn new(
        world: &World,
        path: impl AsRef<Path>,
        spec: &FileSourceSpec,
        time: Option<&TimeSpec>,
    ) -> Result<Arc<dyn SourceFactory>, ConnectorError> {
        let path = path.as_ref();
        let io = |error| ConnectorError::io(path, &error);
        let file = world.disk.open_read(path).map_err(io)?;
        let size = file.length().map_err(io)?;
        let unreadable = |error| ConnectorError::unreadable(path, error);
        if let Some(encoding) = foreign(&*file, spec.format).map_err(io)? {
            return Err(ConnectorError::foreign(path, encoding));
        }
        let sample = spec.sample.unwrap_or(SAMPLE_RECORDS).max(1);
        let mut found = match spec.format {
            Format::Arrow => find_arrow(file, size).map_err(unreadable)?,
            Format::Parquet => find_parquet(file, size).map_err(unreadable)?,
            _ => find_lines(file, size, spec, sample).map_err(unreadable)?,
        };
        found.apply(&path.display().to_string(), spec.format, &spec.schema, time)?;
        Ok(Arc::new(Self {
            disk: Arc::clone(&world.disk),
            path: path.to_owned(),
            format: spec.format,
            delimiter: delimiter(spec),
            size,
            data: found.data,
            total: found.total,
            guessed: found.guessed(spec.format, &spec.schema),
            shape: found.shape,
            lateness: time.map_or(Span::default(), |time| time.lateness),
            reads: reads(spec, time),
        }))
    }

    fn framing(&self) -> Framing {
        match self.format {
            Format::Csv => {
                Framing::Csv { fields: self.shape.fields.len(), delimiter: self.delimiter }
            }
            Format::Json => Framing::Json,
            Format::Influx => Framing::Influx,
            _ => Framing::Text,
        }
    }

    fn open_batches(
        &self,
        batches: Result<Box<dyn Batches>, String>,
    ) -> Result<Box<dyn Source>, String> {
        let path = self.path.display().to_string();
        Ok(Box::new(BatchSource::new(path, batches?, self.shape.clone(), self.lateness)))
    }
}

impl SourceFactory for FileSource {
    fn schema(&self) -> SchemaRef {
        self.shape.schema()
    }

    fn open(&self, _slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let path = self.path.display().to_string();
        let failed = |error: String| SourceError::new(format!("`{path}`: {error}"));
        let file = self.disk.open_read(&self.path).map_err(|error| failed(error.to_string()))?;
        match self.format {
            Format::Arrow => {
                let batches = ArrowBatches::open(file, self.size);
                self.open_batches(batches.map(|it| Box::new(it) as Box<dyn Batches>))
                    .map_err(failed)
            }
            Format::Parquet => {
                let batches = ParquetBatches::open(file, self.size);
                self.open_batches(batches.map(|it| Box::new(it) as Box<dyn Batches>))
                    .map_err(failed)
            }
            _ => {
                let mut input = Input::new(file, self.framing(), self.size);
                input.seek(self.data.0, self.data.1);
                Ok(Box::new(LineSource::new(
                    path,
                    input,
                    (decoder(self.format, &self.shape, self.delimiter), self.shape.rows_max()),
                    self.lateness,
                )))
            }
        }
    }

    fn guessed(&self) -> Vec<GuessedColumn> {
        self.guessed.clone()
    }

    fn reads(&self) -> String {
        self.reads.clone()
    }

    fn total(&self) -> Option<u64> {
        self.total
    }
}

/// The encoding of a file, if it is none that is read.
fn foreign(file: &dyn DiskRead, format: Format) -> std::io::Result<Option<ForeignEncoding>> {
    let mut head = [0; ENCODING_BYTES];
    let length = file.read_full_at(0, &mut head)?;
    let head = &head[..length];
    Ok(match format {
        // Files of columns may have any zeros.
        Format::Arrow | Format::Parquet => ForeignEncoding::of_mark(head),
        _ => ForeignEncoding::of(head),
    })
}

/// The job's settings for reading records, except columns, which the stages name.
fn reads(spec: &FileSourceSpec, time: Option<&TimeSpec>) -> String {
    let header = (spec.header == Some(false)).then(|| "no header".to_owned());
    let delimiter = spec.delimiter.map(|it| format!("delimiter `{it}`"));
    let time = time.map(TimeSpec::to_string);
    let said = [Some(spec.format.to_string()), header, delimiter, time];
    said.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn plain_fields(schema: &SchemaRef) -> Vec<Field> {
    let plain = |data_type| plain_type(data_type);
    let fields = schema.fields().iter();
    fields.map(|field| Field::new(field.name(), plain(field.data_type()), true)).collect()
}

fn find_arrow(file: Arc<dyn DiskRead>, size: u64) -> Result<InferredSchema, String> {
    let open = || ArrowBatches::open(file, size)?.schema();
    let schema = std::panic::catch_unwind(std::panic::AssertUnwindSafe(open))
        .map_err(|_| "its schema is damaged".to_owned())??;
    let shape = Shape { fields: plain_fields(&schema), time: None };
    let (data, kept_as_text) = ((0, 0), BTreeMap::new());
    Ok(InferredSchema { shape, data, total: None, open: false, empty: false, kept_as_text })
}

fn find_parquet(file: Arc<dyn DiskRead>, size: u64) -> Result<InferredSchema, String> {
    let batches = ParquetBatches::open(file, size)?;
    let shape = Shape { fields: plain_fields(&batches.schema()), time: None };
    let total = Some(batches.records());
    let (data, kept_as_text) = ((0, 0), BTreeMap::new());
    Ok(InferredSchema { shape, data, total, open: false, empty: false, kept_as_text })
}

fn find_lines(
    file: Arc<dyn DiskRead>,
    size: u64,
    spec: &FileSourceSpec,
    sample: usize,
) -> Result<InferredSchema, String> {
    let delimiter = delimiter(spec);
    let (framing, mut seen) = match spec.format {
        Format::Json => (Framing::Json, Sample::Json(Guesses::default())),
        Format::Influx => (Framing::Influx, Sample::Influx(InfluxGuesses::default())),
        Format::Csv => (
            Framing::Csv { fields: 0, delimiter },
            Sample::Csv(Vec::new(), delimiter, Guesses::default()),
        ),
        _ => (Framing::Text, Sample::Text),
    };
    let mut input = Input::new(file, framing, size);
    input.skip_mark().map_err(|error| error.to_string())?;
    if let Sample::Csv(names, _, guesses) = &mut seen {
        *names = csv_columns(&mut input, spec)?;
        // Columns stand as in the header, whatever the sample shows.
        names.iter().for_each(|name| guesses.add(name, crate::type_inference::Guess::Nothing));
        input.set_framing(Framing::Csv { fields: names.len(), delimiter });
    }
    let data = (input.offset(), input.line());
    let (mut left, mut empty) = (sample, true);
    while left > 0 && input.offset() < SAMPLE_BYTES_MAX && !matches!(seen, Sample::Text) {
        let chunk = input.next(READ_AHEAD_BYTES, left, None).map_err(|error| error.message)?;
        let Some(chunk) = chunk else { break };
        left -= chunk.records.len();
        for record in chunk.records.iter().filter(|record| record.bad.is_none()) {
            empty = false;
            seen.add(&chunk.bytes[record.start..record.end])?;
        }
    }
    let open = matches!(spec.format, Format::Json | Format::Influx);
    let kept_as_text = seen.kept_as_text();
    Ok(InferredSchema { shape: seen.shape(), data, total: Some(size), open, empty, kept_as_text })
}

/// Returns true if a name holds a carriage return, with which old programs end lines: then the whole file
/// is one line.
fn has_bare_return(name: &str) -> bool {
    name.match_indices('\r').any(|(at, _)| !name[at + 1..].starts_with('\n'))
}

/// The byte between two fields of CSV.
fn delimiter(spec: &FileSourceSpec) -> u8 {
    spec.delimiter.and_then(|it| u8::try_from(it).ok()).unwrap_or(csv::COMMA)
}

/// The names of the columns; the input then stands at the first record.
fn csv_columns(input: &mut Input, spec: &FileSourceSpec) -> Result<Vec<String>, String> {
    let (begin, delimiter) = ((input.offset(), input.line()), delimiter(spec));
    if spec.header != Some(false) {
        let read = first_record(input, |record| csv::header(record, delimiter))?;
        let names = read.ok_or("it is empty: CSV begins with a header line")??;
        if names.iter().any(|name| has_bare_return(name)) {
            let why = "its header has a carriage return without a line feed: lines end with `\\n` \
                       or `\\r\\n`";
            return Err(why.to_owned());
        }
        return Ok(names);
    }
    let fields = first_record(input, |record| csv::fields(record, delimiter))?;
    input.seek(begin.0, begin.1);
    let named: Vec<String> = spec.schema.keys().cloned().collect();
    match fields {
        None if named.is_empty() => {
            Err("it is empty, so that its columns are not known: name them in `schema`".to_owned())
        }
        Some(fields) if fields > COLUMNS_MAX => {
            Err(format!("it has more than {COLUMNS_MAX} columns"))
        }
        Some(fields) if named.is_empty() => {
            Ok((1..=fields).map(|it| format!("column_{it}")).collect())
        }
        Some(fields) if fields != named.len() => Err(format!(
            "its first record has {fields} fields, and `schema` names {} columns: without a header \
             it names all of them, in order",
            named.len()
        )),
        _ => Ok(named),
    }
}

/// The result of `make` for the first record of CSV; none without one.
fn first_record<T>(input: &mut Input, make: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, String> {
    loop {
        let chunk = input.next(1, 1, None).map_err(|error| error.message)?;
        let Some(chunk) = chunk else { return Ok(None) };
        if let Some(record) = chunk.records.first() {
            if let Some(reason) = record.bad {
                return Err(format!("its first record is bad: {reason}"));
            }
            return Ok(Some(make(&chunk.bytes[record.start..record.end])));
        }
    }
}

#[cfg(test)]
mod tests;
