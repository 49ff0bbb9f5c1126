//! Columns as they follow from their values alone.
//!
//! The value under a null is arbitrary and depends on the batches in which rows were computed. An Arrow
//! file shows it.

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::ArrowError;
use std::sync::Arc;

/// The same rows, with nothing under nulls. Columns of kinds that cannot be written as rows stay as they
/// are.
///
/// # Errors
/// A column is not of its type.
pub(super) fn rows(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().map(column).collect::<Result<_, _>>()?;
    RecordBatch::try_new(batch.schema(), columns)
}

fn column(it: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if it.nulls().is_none() && !it.data_type().is_nested() {
        return Ok(Arc::clone(it));
    }
    let field = SortField::new(it.data_type().clone());
    if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
        return Ok(Arc::clone(it));
    }
    let converter = RowConverter::new(vec![field])?;
    let rows = converter.convert_columns(&[Arc::clone(it)])?;
    let plain = converter.convert_rows(&rows)?.remove(0);
    // Values of a dictionary come back without it.
    Ok(if plain.data_type() == it.data_type() { plain } else { Arc::clone(it) })
}
