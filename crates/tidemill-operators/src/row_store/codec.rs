//! The codec of stored rows for checkpoints.

use crate::lane::failed;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_cast::cast;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, SchemaRef};
use std::sync::Arc;
use tidemill_state::SavedError;

/// Writes and reads rows of one schema.
#[derive(Debug)]
pub(crate) struct RowCodec {
    schema: SchemaRef,
    /// None if there are no columns, or one of a type that has no bytes.
    converter: Option<RowConverter>,
}

impl RowCodec {
    /// For rows with these columns. Those that [`Self::cannot_save`] names must not be saved.
    pub(crate) fn new(schema: SchemaRef) -> Self {
        let fields = schema.fields().iter().map(|it| SortField::new(it.data_type().clone()));
        let fields: Vec<SortField> = fields.collect();
        let converter = if fields.is_empty() { None } else { RowConverter::new(fields).ok() };
        Self { schema, converter }
    }

    /// Why rows cannot be saved, if they cannot.
    pub(crate) fn cannot_save(&self) -> Option<String> {
        let is_strange = |it: &&arrow_schema::FieldRef| {
            !RowConverter::supports_fields(&[SortField::new(it.data_type().clone())])
        };
        self.schema.fields().iter().find(is_strange).map(|field| {
            format!(
                "column `{}` is of type {}, which cannot be saved",
                field.name(),
                field.data_type()
            )
        })
    }

    /// Appends a row.
    pub(crate) fn save(&self, batch: &RecordBatch, row: usize, out: &mut Vec<u8>) {
        let Some(converter) = &self.converter else { return };
        let columns: Vec<ArrayRef> = batch.columns().iter().map(|it| it.slice(row, 1)).collect();
        let rows = converter.convert_columns(&columns).expect("columns of the schema");
        out.extend_from_slice(rows.row(0).data());
    }

    /// The rows together.
    ///
    /// # Errors
    /// They are not of this schema.
    pub(crate) fn read(&self, rows: &[Vec<u8>]) -> Result<RecordBatch, SavedError> {
        let wrong = |error: ArrowError| {
            SavedError::new(format!("a saved row cannot be read: {}", failed(error).message))
        };
        let columns = match &self.converter {
            Some(converter) => {
                let parser = converter.parser();
                converter.convert_rows(rows.iter().map(|it| parser.parse(it))).map_err(wrong)?
            }
            None => Vec::new(),
        };
        let of_schema = |(column, field): (ArrayRef, &arrow_schema::FieldRef)| {
            match column.data_type() == field.data_type() {
                true => Ok(column),
                // The values of a dictionary come back as they are.
                false => cast(&column, field.data_type()),
            }
        };
        let columns = columns.into_iter().zip(self.schema.fields()).map(of_schema);
        let columns = columns.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(wrong)
    }
}
