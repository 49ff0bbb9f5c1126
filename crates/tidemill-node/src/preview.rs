//! The first rows of a sink, kept as text for a person to look at.
//!
//! ```text
//! rows ─▶ Previewed ┬─▶ the sink itself (if there is one)
//!                   └─▶ first rows, formatted ─▶ Preview
//! ```
//!
//! Invariant: the sink itself sees the same with a preview and without one.

use arrow_array::{Array, RecordBatch, cast::AsArray, types::Float64Type};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, SchemaRef};
use std::sync::{Arc, Mutex, PoisonError};
use tidemill_flow::{Block, RetryPolicy, Sink, SinkError, TIME_COLUMN};
use tidemill_types::Cycle;

#[cfg(test)]
mod tests;

/// Longest text of a cell, in characters.
const CELL_CHARS_MAX: usize = 200;

/// The first rows that a sink took.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The sink's name.
    pub sink: String,
    /// Where it writes, for a person.
    pub place: String,
    /// Names of the columns.
    pub columns: Vec<String>,
    /// True for a column of numbers.
    pub numeric: Vec<bool>,
    rows_max: usize,
    rows: Arc<Mutex<Vec<Vec<Option<String>>>>>,
}

impl Preview {
    /// An empty preview of up to `rows_max` rows.
    #[must_use]
    pub fn new(
        sink: impl Into<String>,
        place: impl Into<String>,
        schema: &SchemaRef,
        rows_max: usize,
    ) -> Self {
        let shown = || schema.fields().iter().filter(|field| field.name() != TIME_COLUMN);
        Self {
            sink: sink.into(),
            place: place.into(),
            columns: shown().map(|field| field.name().clone()).collect(),
            numeric: shown().map(|field| field.data_type().is_numeric()).collect(),
            rows_max,
            rows: Arc::default(),
        }
    }

    /// The rows so far, each a text or nothing a column.
    #[must_use]
    pub fn rows(&self) -> Vec<Vec<Option<String>>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A sink that keeps the first rows here and passes everything on to `inner`.
    #[must_use]
    pub fn sink(&self, inner: Option<Box<dyn Sink>>) -> Box<dyn Sink> {
        Box::new(Previewed { preview: self.clone(), inner })
    }

    fn keep(&self, block: &Block) {
        let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        let room = self.rows_max.saturating_sub(rows.len());
        if room > 0 {
            let batch = block.batch();
            rows.extend(text_of(&batch.slice(0, room.min(batch.num_rows()))));
        }
    }
}

/// The cells of a batch as text, for a person.
#[must_use]
pub fn text_of(batch: &RecordBatch) -> Vec<Vec<Option<String>>> {
    let schema = batch.schema();
    let columns = schema.fields().iter().zip(batch.columns());
    let columns: Vec<Vec<Option<String>>> = columns
        .filter(|(field, _)| field.name() != TIME_COLUMN)
        .map(|(_, column)| (0..column.len()).map(|row| cell(column.as_ref(), row)).collect())
        .collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column[row].clone()).collect())
        .collect()
}

fn cell(column: &dyn Array, row: usize) -> Option<String> {
    if column.is_null(row) {
        return None;
    }
    let text = if *column.data_type() == DataType::Float64 {
        // A table is to be read: three digits after the point are enough.
        format!("{:.3}", column.as_primitive::<Float64Type>().value(row))
    } else {
        let options = FormatOptions::default().with_display_error(true);
        match ArrayFormatter::try_new(column, &options) {
            Ok(formatter) => formatter.value(row).to_string(),
            Err(error) => error.to_string(),
        }
    };
    Some(text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(CELL_CHARS_MAX).collect())
}

struct Previewed {
    preview: Preview,
    inner: Option<Box<dyn Sink>>,
}

impl Sink for Previewed {
    fn check(&mut self) -> Result<(), SinkError> {
        self.inner.as_mut().map_or(Ok(()), |inner| inner.check())
    }

    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        self.inner.as_mut().map_or(Ok(Cycle::NONE), |inner| inner.open(resume))
    }

    fn has_begun(&self) -> Cycle {
        self.inner.as_ref().map_or(Cycle::NONE, |inner| inner.has_begun())
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        blocks.iter().for_each(|block| self.preview.keep(block));
        self.inner.as_mut().map_or(Ok(()), |inner| inner.write(cycle, blocks))
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        self.inner.as_mut().map_or(Ok(()), |inner| inner.commit(cycle))
    }

    fn sync(&mut self) -> Result<bool, SinkError> {
        self.inner.as_mut().map_or(Ok(true), |inner| inner.sync())
    }

    fn forgets(&self) -> bool {
        self.inner.as_ref().is_none_or(|inner| inner.forgets())
    }

    fn begins_anew(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.begins_anew())
    }

    fn retry_with(&mut self, patience: RetryPolicy) {
        if let Some(inner) = &mut self.inner {
            inner.retry_with(patience);
        }
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.inner.as_mut().map_or(Ok(()), |inner| inner.close())
    }
}
