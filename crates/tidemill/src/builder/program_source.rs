//! A source whose records the program makes, batch by batch.
//!
//! Invariant: where a read ends depends on the records and the request alone, so repeated runs
//! have the same cycles as long as the program makes the same records.

use super::source::{SourceOf, say_time};
use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray,
    cast::AsArray,
    types::{Int64Type, TimestampMicrosecondType},
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::{fmt, sync::Arc};
use tidemill_flow::{
    DeadLetter, ErrorKind, Payload, Position, Read, ReadRequest, Source, SourceError,
    SourceFactory, TIME_COLUMN,
};
use tidemill_node::Problem;
use tidemill_types::{
    Micros, SliceId, Span,
    job::{SourceSpec, TimeSpec},
    signs,
};

type Batches = Box<dyn Iterator<Item = RecordBatch> + Send>;

/// Records that the program makes. They are read as fast as the job takes them.
#[must_use]
pub struct Generated {
    schema: SchemaRef,
    make: Arc<dyn Fn() -> Batches + Send + Sync>,
    time: Option<TimeSpec>,
    problems: Vec<Problem>,
}

impl fmt::Debug for Generated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Generated").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl Generated {
    /// Batches of this schema. `make` is called once for each run and must give the same records
    /// every time: a job that resumes reads them again from the start.
    pub fn new<I>(schema: SchemaRef, make: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        I: Iterator<Item = RecordBatch> + Send + 'static,
    {
        let make = Arc::new(move || Box::new(make()) as Batches);
        Self { schema, make, time: None, problems: Vec::new() }
    }

    /// Event time: the column that holds it, a timestamp in microseconds or a whole number of
    /// milliseconds since 1970 UTC; and how far the watermark trails the largest time seen, such
    /// as `1h` or `0s`. A source has one.
    pub fn event_time(mut self, field: impl Into<String>, lateness: &str) -> Self {
        let field = field.into();
        let mut problem =
            |message: String| self.problems.push(Problem::new(["time", "field"], message));
        match self.schema.field_with_name(&field).map(Field::data_type) {
            Ok(DataType::Int64 | DataType::Timestamp(TimeUnit::Microsecond, _)) => {}
            Ok(other) => problem(format!(
                "`{field}` is of type {other}, which is not a time: make it a timestamp in \
                 microseconds, or whole milliseconds"
            )),
            Err(_) => {
                let columns: Vec<&str> =
                    self.schema.fields().iter().map(|it| it.name().as_str()).collect();
                let note = signs::note(&field, None);
                problem(format!("there is no column `{field}`{note}, only {}", columns.join(", ")));
            }
        }
        say_time(&mut self.time, field, lateness, &mut self.problems);
        self
    }
}

impl From<Generated> for SourceOf {
    fn from(source: Generated) -> Self {
        let Generated { schema, make, time, problems } = source;
        let time_index = time.as_ref().and_then(|time| schema.index_of(&time.field).ok());
        let mut fields = schema.fields().to_vec();
        if time_index.is_some() {
            let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            fields.push(Arc::new(Field::new(TIME_COLUMN, utc, false)));
        }
        let lateness = time.as_ref().map_or(Span(0), |time| time.lateness);
        let factory = GeneratedFactory {
            given: schema,
            schema: Arc::new(Schema::new(fields)),
            make,
            time: time_index.map(|index| (index, lateness)),
            reads: time.as_ref().map(TimeSpec::to_string).unwrap_or_default(),
        };
        Self {
            spec: SourceSpec { time, ..SourceSpec::default() },
            factory: Some(Arc::new(factory)),
            problems,
        }
    }
}

#[derive(Clone)]
struct GeneratedFactory {
    /// The schema of the program's batches.
    given: SchemaRef,
    /// The same with the hidden time.
    schema: SchemaRef,
    make: Arc<dyn Fn() -> Batches + Send + Sync>,
    /// The column of event time, and how far the watermark trails.
    time: Option<(usize, Span)>,
    reads: String,
}

impl SourceFactory for GeneratedFactory {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn reads(&self) -> String {
        self.reads.clone()
    }

    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let batches = (self.make)();
        let factory = self.clone();
        Ok(Box::new(GeneratedSlice {
            factory,
            batches,
            left: None,
            position: 0,
            time_max: Micros::MIN,
        }))
    }
}

struct GeneratedSlice {
    factory: GeneratedFactory,
    batches: Batches,
    /// The rest of a batch, and the bytes of one of its rows.
    left: Option<(RecordBatch, usize)>,
    position: u64,
    time_max: Micros,
}

impl GeneratedSlice {
    /// The next rows: the rest of the last batch, or the next one that has any.
    fn next(&mut self) -> Result<Option<(RecordBatch, usize)>, SourceError> {
        if let Some(left) = self.left.take() {
            return Ok(Some(left));
        }
        let Some(batch) = self.batches.find(|batch| batch.num_rows() > 0) else { return Ok(None) };
        if batch.schema_ref().fields() != self.factory.given.fields() {
            let position = self.position;
            let message = format!("the batch at record {position} has other columns than said");
            return Err(SourceError::of_kind(ErrorKind::Invalid, message));
        }
        let size = |column: &ArrayRef| column.to_data().get_slice_memory_size().unwrap_or(0);
        let bytes: usize = batch.columns().iter().map(size).sum();
        let row_bytes = bytes.div_ceil(batch.num_rows()).max(1);
        Ok(Some((batch, row_bytes)))
    }

    /// Adds the hidden time.
    fn timed(&mut self, batch: RecordBatch) -> Result<RecordBatch, SourceError> {
        let Some((index, _)) = self.factory.time else { return Ok(batch) };
        let column = batch.column(index);
        if let Some(row) = (0..column.len()).find(|row| column.is_null(*row)) {
            let record = self.position + row as u64;
            return Err(SourceError::new(format!("record {record} has no event time")));
        }
        let times: Vec<i64> = match column.data_type() {
            DataType::Int64 => {
                let millis: &Int64Array = column.as_primitive::<Int64Type>();
                millis.values().iter().map(|it| it.saturating_mul(1_000)).collect()
            }
            _ => column.as_primitive::<TimestampMicrosecondType>().values().to_vec(),
        };
        if let Some(row) = times.iter().position(|it| !Micros(*it).is_event_time()) {
            let record = self.position + row as u64;
            let message =
                format!("the event time of record {record} is not within the years 0000 to 9999");
            return Err(SourceError::new(message));
        }
        let largest = times.iter().copied().max().unwrap_or(i64::MIN);
        self.time_max = self.time_max.max(Micros(largest));
        let mut columns = batch.columns().to_vec();
        columns.push(Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")));
        RecordBatch::try_new(Arc::clone(&self.factory.schema), columns)
            .map_err(|error| SourceError::new(error.to_string()))
    }
}

/// It seeks by reading up to the place: only the program knows its records, and it makes them one
/// after another.
impl Source for GeneratedSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        _: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let rest = request.until.map_or(u64::MAX, |until| until.0.saturating_sub(self.position));
        if rest == 0 {
            return Ok(Read::Idle { until: None });
        }
        let Some((batch, row_bytes)) = self.next()? else {
            if request.until.is_some() {
                let position = self.position;
                let message = format!("it makes {position} records, fewer than the ledger says");
                return Err(SourceError::of_kind(ErrorKind::Invalid, message));
            }
            return Ok(Read::End);
        };
        let wanted = request.bytes.div_ceil(row_bytes).min(request.records).max(1);
        let wanted = wanted.min(usize::try_from(rest).unwrap_or(usize::MAX));
        let rows = wanted.min(batch.num_rows());
        if rows < batch.num_rows() {
            self.left = Some((batch.slice(rows, batch.num_rows() - rows), row_bytes));
        }
        let batch = self.timed(batch.slice(0, rows))?;
        self.position += rows as u64;
        Ok(Read::Rows { payload: Payload::Arrow(batch), bytes: rows.saturating_mul(row_bytes) })
    }

    fn position(&self) -> Position {
        Position(self.position)
    }

    fn watermark(&self) -> Micros {
        match self.factory.time {
            Some((_, lateness)) => self.time_max.minus(lateness),
            None => Micros::MIN,
        }
    }
}
