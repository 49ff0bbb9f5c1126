//! A source slice over batches of columns that a file holds: Arrow IPC and Parquet.
//!
//! - A position is a record number. Where a read ends depends on the file and the request alone.
//! - A damaged file is an error that names the file and the batch or row group; single records
//!   are bad if their event time is missing, no time, or one that no record can have, or a value
//!   does not fit the type that the job names.

use crate::column_cast::cast_column;
use crate::column_type::moment_type;
use crate::columns::{OUT_OF_RANGE, Shape, largest_time, micros_of_millis};
use crate::error::{FETCH_AGAIN, arrow_reason, of_column};
use crate::layout::{plain_array, plain_type};
use crate::line_source::letter;
use crate::timestamp_text;
use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, TimestampMicrosecondArray,
    cast::AsArray,
    types::{
        Date32Type, Float64Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{ArrowError, DataType, Field, SchemaRef, TimeUnit};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use tidemill_flow::{DeadLetter, Payload, Position, Read, ReadRequest, Source, SourceError};
use tidemill_types::{Cycle, Micros, Span};

/// Hands out a file's batches in order.
pub(crate) trait Batches: Send {
    /// The next batch; none at the end.
    ///
    /// # Errors
    /// The damage, and its place in the file.
    fn next(&mut self) -> Result<Option<RecordBatch>, String>;

    /// Passes over this many records, or fewer, but always over whole batches: the batches that
    /// follow are those that would have followed. Called before the first batch. Gives back over
    /// how many it passed.
    ///
    /// # Errors
    /// As [`Self::next`].
    fn skip(&mut self, records: u64) -> Result<u64, String>;
}

/// A file read batch by batch.
pub(crate) struct BatchSource {
    path: String,
    batches: Box<dyn Batches>,
    shape: Shape,
    schema: SchemaRef,
    /// The batch being handed out: its remaining rows, and bytes of one of its rows.
    pending: Option<(RecordBatch, usize)>,
    position: u64,
    lateness: Span,
    watermark: Micros,
}

impl BatchSource {
    pub(crate) fn new(
        path: String,
        batches: Box<dyn Batches>,
        shape: Shape,
        lateness: Span,
    ) -> Self {
        let schema = shape.schema();
        Self {
            path,
            batches,
            shape,
            schema,
            pending: None,
            position: 0,
            lateness,
            watermark: Micros::MIN,
        }
    }

    /// Calls the reader. Readers of columns trust their input in places; a panic of theirs is an error of
    /// the file, not the end of the process.
    fn ask<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Batches) -> Result<T, String>,
    ) -> Result<T, String> {
        let batches = &mut *self.batches;
        catch_unwind(AssertUnwindSafe(|| call(batches)))
            .map_err(|_| format!("its parts contradict each other; {FETCH_AGAIN}"))?
    }

    fn next_batch(&mut self) -> Result<Option<(RecordBatch, usize)>, String> {
        let Some(batch) = self.ask(|batches| batches.next())? else { return Ok(None) };
        if batch.num_columns() != self.shape.fields.len() {
            return Err(format!("its batches differ in their columns; {FETCH_AGAIN}"));
        }
        let rows = batch.num_rows().max(1);
        let size = |column: &ArrayRef| column.to_data().get_slice_memory_size();
        let sizes = batch.columns().iter().map(size).collect::<Result<Vec<_>, _>>();
        let sizes = sizes.map_err(|error| format!("{}; {FETCH_AGAIN}", arrow_reason(error)))?;
        let bytes = sizes.iter().sum::<usize>();
        Ok(Some((batch, bytes.div_ceil(rows).max(1))))
    }

    /// Passes over the first `records`; the last of them may be in the middle of a batch.
    fn pass(&mut self, records: u64) -> Result<(), String> {
        let mut at = self.ask(|batches| batches.skip(records))?;
        while at < records {
            let Some((batch, row_bytes)) = self.next_batch()? else {
                return Err(format!(
                    "the file has changed: it has {at} records, and the job had read it up to \
                     record {records}"
                ));
            };
            let rest = usize::try_from(records - at).unwrap_or(usize::MAX);
            let rows = rest.min(batch.num_rows());
            at += rows as u64;
            self.pending = Some((batch.slice(rows, batch.num_rows() - rows), row_bytes));
        }
        Ok(())
    }

    fn columns(
        &self,
        batch: &RecordBatch,
        cycle: Cycle,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<RecordBatch, ArrowError> {
        let mut bad: BTreeMap<usize, (String, Vec<u8>)> = BTreeMap::new();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns() + 1);
        for (index, (column, field)) in batch.columns().iter().zip(&self.shape.fields).enumerate() {
            if self.shape.time == Some(index) {
                let times = event_time(column, field, &mut bad);
                columns.push(times.map_err(|error| of_column(field, error))?);
                continue;
            }
            let cast = cast_column(column, field);
            let (column, misfits) = cast.map_err(|error| of_column(field, error))?;
            for misfit in misfits {
                bad.entry(misfit.row).or_insert((misfit.reason, misfit.value));
            }
            columns.push(column);
        }
        let keep = |row| Some(!bad.contains_key(&row));
        let rows = batch.num_rows() - bad.len();
        if !bad.is_empty() {
            let keep: BooleanArray = (0..batch.num_rows()).map(keep).collect();
            for column in &mut columns {
                *column = arrow_select::filter::filter(column, &keep)?;
            }
        }
        for (row, (reason, value)) in bad {
            let position = format!("{}:record {}", self.path, self.position + row as u64);
            letters.push(letter(cycle, position, reason, &value));
        }
        columns.extend(self.shape.time.map(|time| Arc::clone(&columns[time])));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
    }
}

/// The column of event time as moments, with nulls for the rows that it makes bad.
fn event_time(
    column: &ArrayRef,
    field: &Field,
    bad: &mut BTreeMap<usize, (String, Vec<u8>)>,
) -> Result<ArrayRef, ArrowError> {
    let column = &plain_array(column)?;
    let mut times = micros(column)?;
    let (name, is_time) = (field.name(), is_time(column.data_type()));
    for (row, time) in times.iter_mut().enumerate() {
        let is_none = time.is_none();
        *time = time.filter(|it| Micros(*it).is_event_time());
        if time.is_some() {
            continue;
        }
        let value = match column.is_null(row) {
            true => String::new(),
            false => array_value_to_string(column, row).unwrap_or_else(|_| "a value".to_owned()),
        };
        let reason = match value.as_str() {
            "" => format!("field `{name}`: event time is missing"),
            value if is_none && !is_time => format!("field `{name}`: `{value}` is not a time"),
            _ => format!("field `{name}`: event time {OUT_OF_RANGE}"),
        };
        bad.entry(row).or_insert((reason, value.into_bytes()));
    }
    let times: TimestampMicrosecondArray = times.into_iter().collect();
    Ok(Arc::new(times.with_timezone("UTC")))
}

/// Returns true if values of a type are times by themselves.
fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64)
}

/// Microseconds of each value; none where there is no value, or it is no time.
pub(crate) fn micros(column: &ArrayRef) -> Result<Vec<Option<i64>>, ArrowError> {
    macro_rules! scaled {
        ($kind:ty, $scale:expr) => {
            column.as_primitive::<$kind>().iter().map(|it| it.and_then($scale)).collect()
        };
    }
    Ok(match column.data_type() {
        DataType::Timestamp(TimeUnit::Second, _) => {
            scaled!(TimestampSecondType, |it: i64| it.checked_mul(1_000_000))
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            scaled!(TimestampMillisecondType, |it: i64| it.checked_mul(1_000))
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => scaled!(TimestampMicrosecondType, Some),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            scaled!(TimestampNanosecondType, |it: i64| Some(it.div_euclid(1_000)))
        }
        DataType::Date32 => {
            scaled!(Date32Type, |it: i32| i64::from(it).checked_mul(86_400_000_000))
        }
        DataType::Float32 | DataType::Float64 => {
            let floats = arrow_cast::cast(column, &DataType::Float64)?;
            let floats = floats.as_primitive::<Float64Type>();
            floats.iter().map(|it| it.and_then(micros_of_millis)).collect()
        }
        other if other.is_integer() || *other == DataType::Date64 => {
            let millis = arrow_cast::cast(column, &DataType::Int64)?;
            let millis = millis.as_primitive::<Int64Type>();
            millis.iter().map(|it| it.and_then(|it| it.checked_mul(1_000))).collect()
        }
        _ => {
            let text = arrow_cast::cast(column, &DataType::Utf8)?;
            let text = text.as_string::<i32>();
            text.iter().map(|it| it.and_then(|it| timestamp_text::parse(it.as_bytes()))).collect()
        }
    })
}

/// Returns true if a column of this type can be event time.
pub(crate) fn can_be_time(data_type: &DataType) -> bool {
    let data_type = plain_type(data_type);
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Timestamp(_, _)
                | DataType::Date32
                | DataType::Date64
                | DataType::Float32
                | DataType::Float64
                | DataType::Utf8
        )
}

/// The column of event time, as it is handed on.
pub(crate) fn time_field(field: &Field) -> Field {
    Field::new(field.name(), moment_type(), true)
}

fn at(path: &str, message: impl std::fmt::Display) -> SourceError {
    SourceError::new(format!("`{path}`: {message}"))
}

impl Source for BatchSource {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let rest = request.until.map(|until| until.0.saturating_sub(self.position));
        if rest == Some(0) {
            return Ok(Read::Idle { until: None });
        }
        while self.pending.as_ref().is_none_or(|(batch, _)| batch.num_rows() == 0) {
            let next = self.next_batch().map_err(|message| at(&self.path, message))?;
            if next.is_none() && rest.is_some() {
                let message = "the file has changed: it has fewer records than the ledger says";
                return Err(at(&self.path, message));
            }
            if next.is_none() {
                return Ok(Read::End);
            }
            self.pending = next;
        }
        let Some((batch, row_bytes)) = self.pending.take() else { return Ok(Read::End) };
        let rest = rest.map_or(usize::MAX, |rest| usize::try_from(rest).unwrap_or(usize::MAX));
        let wanted = request.bytes.div_ceil(row_bytes).min(request.records).max(1);
        let rows = wanted.min(rest).min(batch.num_rows());
        let read = self.columns(&batch.slice(0, rows), request.cycle, letters);
        let read = read.map_err(|error| at(&self.path, arrow_reason(error)))?;
        self.pending = Some((batch.slice(rows, batch.num_rows() - rows), row_bytes));
        self.position += rows as u64;
        let time_max = largest_time(&read).map_or(Micros::MIN, Micros);
        self.watermark = self.watermark.max(time_max.minus(self.lateness));
        Ok(Read::Rows { payload: Payload::Arrow(read), bytes: rows.saturating_mul(row_bytes) })
    }

    fn position(&self) -> Position {
        Position(self.position)
    }

    fn seek(&mut self, to: Position, watermark: Micros) -> Result<(), SourceError> {
        self.pass(to.0).map_err(|message| at(&self.path, message))?;
        (self.position, self.watermark) = (to.0, watermark);
        Ok(())
    }

    fn watermark(&self) -> Micros {
        self.watermark
    }
}
