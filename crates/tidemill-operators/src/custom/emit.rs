//! The output of a program's function: rows into column builders, or whole batches.
//!
//! Invariant: batches and rows leave in the order in which they were written.

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, SchemaRef};
use std::sync::Arc;
use tidemill_flow::{ErrorKind, OperatorError, Output, SliceRuns, TIME_COLUMN};
use tidemill_types::{Micros, SliceId};

mod column;

use column::Builder;

/// Rows in one batch at most.
const ROWS_MAX: usize = 16_384;

/// Takes the output of a function.
pub struct Emit {
    schema: SchemaRef,
    columns: Vec<Builder>,
    /// The columns that a row writer fills, in order: all but the hidden time.
    visible: Vec<usize>,
    time_column: Option<usize>,
    rows: usize,
    /// The slices of those rows.
    runs: SliceRuns,
    done: Vec<(RecordBatch, SliceRuns)>,
    /// The time of the record being processed.
    pub(super) now: Option<Micros>,
    pub(super) letters: Vec<(String, Vec<u8>)>,
}

impl std::fmt::Debug for Emit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Emit").field("schema", &self.schema).field("rows", &self.rows).finish()
    }
}

/// A value of one column. It is written to columns whose type can tell it, however wide they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EmitValue<'a> {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number.
    I64(i64),
    /// A whole number that is not negative.
    U64(u64),
    /// A number.
    F64(f64),
    /// Text.
    Str(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A moment; of a column of dates, the beginning of a day in UTC.
    Time(Micros),
}

macro_rules! value_from {
    ($($from:ty => $make:expr),* $(,)?) => {$(
        impl<'a> From<$from> for EmitValue<'a> {
            fn from(value: $from) -> Self {
                $make(value)
            }
        }
    )*};
}

value_from! {
    bool => EmitValue::Bool,
    i8 => |it| EmitValue::I64(i64::from(it)),
    i16 => |it| EmitValue::I64(i64::from(it)),
    i32 => |it| EmitValue::I64(i64::from(it)),
    i64 => EmitValue::I64,
    u8 => |it| EmitValue::I64(i64::from(it)),
    u16 => |it| EmitValue::I64(i64::from(it)),
    u32 => |it| EmitValue::I64(i64::from(it)),
    u64 => EmitValue::U64,
    f32 => |it| EmitValue::F64(f64::from(it)),
    f64 => EmitValue::F64,
    &'a str => EmitValue::Str,
    &'a String => |it: &'a String| EmitValue::Str(it),
    &'a [u8] => EmitValue::Bytes,
    Micros => EmitValue::Time,
}

impl<'a, T: Into<EmitValue<'a>>> From<Option<T>> for EmitValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(EmitValue::Null, Into::into)
    }
}

impl EmitValue<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::I64(_) | Self::U64(_) => "a whole number",
            Self::F64(_) => "a float",
            Self::Str(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::Time(_) => "a moment",
        }
    }
}

/// Writes the values of one row, column by column in the order of the schema.
#[derive(Debug)]
pub struct RowWriter<'e> {
    emit: &'e mut Emit,
    next: usize,
    time: Option<Micros>,
    error: Option<OperatorError>,
}

impl RowWriter<'_> {
    /// Writes the next column. `None` is null.
    pub fn put<'v>(&mut self, value: impl Into<EmitValue<'v>>) -> &mut Self {
        if self.error.is_none() {
            self.error = self.try_put(value.into()).err();
        }
        self
    }

    /// Writes a whole number.
    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.put(value)
    }

    /// Writes a float.
    pub fn f64(&mut self, value: f64) -> &mut Self {
        self.put(value)
    }

    /// Writes text.
    pub fn str(&mut self, value: &str) -> &mut Self {
        self.put(value)
    }

    /// Writes bytes.
    pub fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.put(value)
    }

    /// Writes true or false.
    pub fn bool(&mut self, value: bool) -> &mut Self {
        self.put(value)
    }

    /// Writes a moment into a column of timestamps or dates.
    pub fn timestamp(&mut self, value: Micros) -> &mut Self {
        self.put(value)
    }

    /// Writes null.
    pub fn null(&mut self) -> &mut Self {
        self.put(EmitValue::Null)
    }

    /// Says the event time of the row, if it is not that of the record being processed. Where no single
    /// record is, it must be said.
    pub fn time(&mut self, time: Micros) -> &mut Self {
        self.time = Some(time);
        self
    }

    fn try_put(&mut self, value: EmitValue<'_>) -> Result<(), OperatorError> {
        let Some(index) = self.emit.visible.get(self.next) else {
            let count = self.emit.visible.len();
            let message = format!("a row has more values than the {count} columns of the output");
            return Err(OperatorError::of_kind(ErrorKind::Invalid, message));
        };
        self.next += 1;
        self.emit.columns[*index].append(value, self.emit.schema.field(*index))
    }
}

impl Emit {
    pub(super) fn new(schema: &SchemaRef) -> Self {
        let time_column = schema.index_of(TIME_COLUMN).ok();
        Self {
            schema: Arc::clone(schema),
            columns: schema.fields().iter().map(|field| Builder::new(field.data_type())).collect(),
            visible: (0..schema.fields().len()).filter(|it| Some(*it) != time_column).collect(),
            time_column,
            rows: 0,
            runs: SliceRuns::default(),
            done: Vec::new(),
            now: None,
            letters: Vec::new(),
        }
    }

    /// Writes one row: `emit.row(|row| { row.str(word).i64(count); })`.
    ///
    /// # Errors
    /// A value does not fit its column, or there are too few or too many; the error names it. Or the
    /// output has event time, and the row has none, or none that a record can have
    /// ([`Micros::is_event_time`]). Nothing is left of the
    /// row then, and a function that does not give the error back goes on without it.
    pub fn row(&mut self, write: impl FnOnce(&mut RowWriter<'_>)) -> Result<(), OperatorError> {
        let mut writer = RowWriter { emit: self, next: 0, time: None, error: None };
        write(&mut writer);
        let RowWriter { next, time, mut error, .. } = writer;
        if error.is_none() && next < self.visible.len() {
            let field = self.schema.field(self.visible[next]);
            let message = format!("a row has no value for the column `{}`", field.name());
            error = Some(OperatorError::of_kind(ErrorKind::Invalid, message));
        }
        if error.is_none()
            && let Some(index) = self.time_column
        {
            error = match time.or(self.now) {
                None => Some(no_time()),
                Some(time) if !time.is_event_time() => Some(out_of_range()),
                Some(time) => self.columns[index]
                    .append(EmitValue::Time(time), self.schema.field(index))
                    .err(),
            };
        }
        if let Some(error) = error {
            // A function may go on without this row, but not without those before it.
            self.take_back()?;
            return Err(error);
        }
        self.rows += 1;
        if self.rows >= ROWS_MAX {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes a batch of the output's columns.
    ///
    /// # Errors
    /// A column is missing or of another type; the error names it. Or a row of an output with event
    /// time has none, or none that a record can have ([`Micros::is_event_time`]).
    pub fn batch(&mut self, batch: RecordBatch) -> Result<(), OperatorError> {
        self.flush()?;
        let (wanted, given) = (self.schema.fields(), batch.schema_ref().fields());
        let fits = |(want, have): &(&Arc<Field>, &Arc<Field>)| {
            want.name() == have.name() && want.data_type() == have.data_type()
        };
        if let Some((want, have)) = wanted.iter().zip(given.iter()).find(|pair| !fits(pair)) {
            return Err(OperatorError::new(format!(
                "a batch has the column `{}` of type {} where the output has `{}` of type {}",
                have.name(),
                have.data_type(),
                want.name(),
                want.data_type()
            )));
        }
        if wanted.len() != given.len() {
            return Err(OperatorError::new(format!(
                "a batch has {} columns, but the output has {}",
                given.len(),
                wanted.len()
            )));
        }
        let times = self.time_column.map(|index| batch.column(index));
        let times = times.and_then(|it| it.as_primitive_opt::<TimestampMicrosecondType>());
        if times.is_some_and(|it| it.null_count() > 0) {
            return Err(no_time());
        }
        if times.is_some_and(|it| it.iter().flatten().any(|it| !Micros(it).is_event_time())) {
            return Err(out_of_range());
        }
        let count = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let (schema, columns) = (Arc::clone(&self.schema), batch.columns().to_vec());
        let batch = RecordBatch::try_new_with_options(schema, columns, &count);
        self.done.push((batch.map_err(crate::lane::failed)?, self.runs.take()));
        Ok(())
    }

    /// Sends a record that could not be processed to the dead-letter sink, and goes on. The letter names
    /// the record in functions that see one record, and the slice in those that see one; in those that
    /// see batches it names neither.
    pub fn dead_letter(&mut self, reason: impl Into<String>, record: &[u8]) {
        let kept = record.len().min(tidemill_types::limits::DEAD_LETTER_BYTES_MAX);
        self.letters.push((reason.into(), record[..kept].to_vec()));
    }

    /// Leaves nothing of a row of which some columns have a value.
    fn take_back(&mut self) -> Result<(), OperatorError> {
        if self.rows > 0 {
            return self.flush();
        }
        let fields = self.schema.fields().iter();
        self.columns = fields.map(|field| Builder::new(field.data_type())).collect();
        Ok(())
    }

    /// Makes a batch of the rows that are whole.
    fn flush(&mut self) -> Result<(), OperatorError> {
        if self.rows == 0 {
            return Ok(());
        }
        let rows = std::mem::take(&mut self.rows);
        let columns: Vec<ArrayRef> = self
            .columns
            .iter_mut()
            .zip(self.schema.fields())
            .map(|(builder, field)| Ok(builder.finish(field.data_type())?.slice(0, rows)))
            .collect::<Result<_, OperatorError>>()?;
        // Of rows without columns nothing else says how many they are.
        let count = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &count);
        self.done.push((batch.map_err(crate::lane::failed)?, self.runs.take()));
        Ok(())
    }

    /// Attributes the following output to a slice.
    pub(super) fn begin(&mut self, slice: SliceId) {
        self.runs.begin(slice, self.rows);
    }

    /// Hands over the output of the cycle.
    pub(super) fn finish(&mut self, output: &mut Output) -> Result<(), OperatorError> {
        debug_assert!(self.letters.is_empty(), "who calls the function sends its letters");
        self.flush()?;
        self.now = None;
        self.done.drain(..).for_each(|(batch, runs)| output.emit_runs(0, batch, runs));
        Ok(())
    }
}

/// Windows would take a row without a time for one of 1970.
fn no_time() -> OperatorError {
    OperatorError::new(
        "a row has no event time, as no single record is being processed that has one: say it with \
         `row.time(…)`, or in the column `__time` of a batch",
    )
}

fn out_of_range() -> OperatorError {
    OperatorError::new("the event time of a row is not within the years 0000 to 9999")
}

#[cfg(test)]
mod tests;
