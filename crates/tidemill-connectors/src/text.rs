//! Text: every line is a record, in the column `text`.

use crate::columns::{Columns, FieldValue, Shape};
use crate::line_source::{BadRecords, Decode};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field};

/// The one column.
pub(crate) const TEXT_COLUMN: &str = "text";

/// The columns of a text file.
pub(crate) fn shape() -> Shape {
    Shape { fields: vec![Field::new(TEXT_COLUMN, DataType::Utf8, true)], time: None }
}

/// Takes lines as they are.
pub(crate) struct TextDecoder(pub(crate) Columns);

impl Decode for TextDecoder {
    fn record(&mut self, record: &[u8]) -> Result<(), String> {
        let outcome = self.0.put(0, FieldValue::Text(record)).and_then(|()| self.0.end_row());
        if outcome.is_err() {
            self.0.undo_row();
        }
        outcome
    }

    fn finish(&mut self) -> Result<(RecordBatch, BadRecords), ArrowError> {
        self.0.finish()
    }
}
