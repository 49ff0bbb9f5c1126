//! Columns that are filled record by record, so that a bad record can be taken back.
//!
//! ```text
//! record ── value for column 3, column 0, … ──▶ end_row: the rest is null
//!        └─ a value does not fit            ──▶ undo_row: as if the record had not been there
//! ```
//!
//! - A value either fits its column or the record is bad: nothing is rounded or cut to fit.
//! - The event-time column must have a value; a record without is bad.
//! - Text given to a column is UTF-8 only as far as its source says; [`Columns::finish`] checks.

mod column;
mod elements;
mod nested;

pub(crate) use column::{FieldValue, micros_of_millis, parse_bool};

use crate::column_type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use column::ColumnBuilder;
use std::sync::Arc;
use tidemill_flow::TIME_COLUMN;

/// Most columns that a file may have.
pub(crate) const COLUMNS_MAX: usize = 4_096;
/// Most values of a batch, nulls with them: each takes memory, however short its records are.
const CELLS_MAX: usize = 2 << 20;
/// Of an event time that [`tidemill_types::Micros::is_event_time`] is not true of.
pub(crate) const OUT_OF_RANGE: &str = "is not within the years 0000 to 9999";
/// Most bytes of a value that a reason quotes.
const QUOTED_BYTES_MAX: usize = 80;

/// Names and types of a source's columns, and which of them is event time.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    /// Columns in order, without the hidden one.
    pub(crate) fields: Vec<Field>,
    /// The column of event time.
    pub(crate) time: Option<usize>,
}

impl Shape {
    /// The schema of batches: the columns, then the hidden column if there is event time.
    pub(crate) fn schema(&self) -> SchemaRef {
        let mut fields = self.fields.clone();
        if self.time.is_some() {
            fields.push(Field::new(TIME_COLUMN, column_type::moment_type(), false));
        }
        Arc::new(Schema::new(fields))
    }

    /// Most rows of a batch: fewer if there are very many columns, of which most may be null.
    pub(crate) fn rows_max(&self) -> usize {
        let cells = self.fields.iter().map(|it| cells_of(it.data_type())).sum::<usize>();
        (CELLS_MAX / cells.max(1)).max(1)
    }
}

/// Values that a row has in a column.
fn cells_of(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|it| cells_of(it.data_type())).sum(),
        DataType::List(element) => cells_of(element.data_type()),
        _ => 1,
    }
}

/// Columns under way.
pub(crate) struct Columns {
    schema: SchemaRef,
    columns: Vec<ColumnBuilder>,
    time: Option<usize>,
    rows: usize,
    /// Columns of the current row whose newest value does not fit, and why.
    misfits: Vec<(usize, String)>,
}

impl Columns {
    pub(crate) fn new(shape: &Shape) -> Self {
        let columns =
            shape.fields.iter().map(|field| ColumnBuilder::new(field.data_type())).collect();
        let (schema, misfits) = (shape.schema(), Vec::new());
        Self { schema, columns, time: shape.time, rows: 0, misfits }
    }

    pub(crate) fn is_text(&self, column: usize) -> bool {
        self.columns[column].is_text()
    }

    /// Puts a value into a column of the current row. A second value replaces the first.
    ///
    /// # Errors
    /// The value does not fit; the reason says why.
    #[inline]
    pub(crate) fn put(&mut self, column: usize, value: FieldValue<'_>) -> Result<(), String> {
        let target = &mut self.columns[column];
        if target.len() > self.rows {
            target.truncate(self.rows);
        }
        if target.put(value) {
            return Ok(());
        }
        let field = self.schema.field(column);
        Err(misfit(field, value))
    }

    /// Puts a value into a column of the current row, in place of an earlier one, which need not have
    /// fit. [`end_row`](Self::end_row) says whether the last one does.
    #[inline]
    pub(crate) fn put_newest(&mut self, column: usize, value: FieldValue<'_>) {
        let outcome = self.put(column, value);
        if !self.misfits.is_empty() {
            self.misfits.retain(|(it, _)| *it != column);
        }
        if let Err(reason) = outcome {
            self.misfits.push((column, reason));
        }
    }

    /// Ends the current row: columns without a value get null.
    ///
    /// # Errors
    /// The newest value of a column does not fit; or event time is missing, or no record can have it.
    #[inline]
    pub(crate) fn end_row(&mut self) -> Result<(), String> {
        if let Some((_, reason)) = self.misfits.drain(..).next() {
            return Err(reason);
        }
        for column in &mut self.columns {
            if column.len() == self.rows {
                column.put_null();
            }
        }
        if let Some(time) = self.time
            && !self.columns[time].last_moment().is_some_and(|it| it.is_event_time())
        {
            let is_missing = self.columns[time].last_moment().is_none();
            return Err(no_event_time(self.schema.field(time).name(), is_missing));
        }
        self.rows += 1;
        Ok(())
    }

    /// Forgets the current row.
    pub(crate) fn undo_row(&mut self) {
        self.misfits.clear();
        self.columns.iter_mut().for_each(|column| column.truncate(self.rows));
    }

    /// The rows so far as a batch, and the numbers of rows that turned out bad, with reasons: a
    /// list or an object that does not fit its column. The columns are empty afterwards.
    ///
    /// # Errors
    /// More than fits a batch.
    pub(crate) fn finish(&mut self) -> Result<(RecordBatch, Vec<(usize, String)>), ArrowError> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len() + 1);
        let mut bad: Vec<(usize, String)> = Vec::new();
        for (index, column) in self.columns.iter_mut().enumerate() {
            let field = self.schema.field(index);
            let (array, misfits) = column.finish(field)?;
            let reason = |error| format!("field `{}`: {error}", field.name());
            bad.extend(misfits.into_iter().map(|(row, error)| (row, reason(error))));
            arrays.push(array);
        }
        if let Some(time) = self.time {
            arrays.push(Arc::clone(&arrays[time]));
        }
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        let mut batch =
            RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)?;
        bad.sort();
        bad.dedup_by_key(|(row, _)| *row);
        if !bad.is_empty() {
            let good = |row: usize| bad.binary_search_by_key(&row, |(row, _)| *row).is_err();
            let keep: BooleanArray = (0..self.rows).map(|row| Some(good(row))).collect();
            batch = arrow_select::filter::filter_record_batch(&batch, &keep)?;
        }
        self.rows = 0;
        Ok((batch, bad))
    }
}

/// Why a record has no event time.
#[cold]
fn no_event_time(field: &str, is_missing: bool) -> String {
    let fault = if is_missing { "is missing" } else { OUT_OF_RANGE };
    format!("field `{field}`: event time {fault}")
}

/// The largest moment of a time column; none if there is no row.
pub(crate) fn largest_time(batch: &RecordBatch) -> Option<i64> {
    let column = batch.column_by_name(TIME_COLUMN)?;
    let times = column.as_any().downcast_ref::<arrow_array::TimestampMicrosecondArray>()?;
    times.values().iter().copied().max()
}

/// Why a value is bad that does not fit its column.
#[cold]
pub(crate) fn misfit(field: &Field, value: FieldValue<'_>) -> String {
    let type_name = column_type::name(field.data_type());
    format!("field `{}`: {} is not a {type_name}", field.name(), shown(value))
}

/// A value for a message, not more of it than fits there.
fn shown(value: FieldValue<'_>) -> String {
    let (open, text, close): (_, &[u8], _) = match value {
        FieldValue::Null => ("", b"null", ""),
        FieldValue::Bool(true) => ("", b"true", ""),
        FieldValue::Bool(false) => ("", b"false", ""),
        FieldValue::Number(text) | FieldValue::Nested(text) => ("", text, ""),
        FieldValue::Text(text) => ("\"", text, "\""),
        FieldValue::Micros(_) => ("", b"a time", ""),
    };
    let shown = String::from_utf8_lossy(&text[..text.len().min(QUOTED_BYTES_MAX)]);
    let more = if text.len() > QUOTED_BYTES_MAX { "…" } else { "" };
    format!("{open}{shown}{more}{close}")
}

#[cfg(test)]
mod tests;
