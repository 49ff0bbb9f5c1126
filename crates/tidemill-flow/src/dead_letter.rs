//! Dead letters as rows, for the sink that takes them.

use crate::operator::DeadLetter;
use arrow_array::{ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::{Arc, LazyLock};

/// Columns of a dead letter: `stage`, `cycle`, `position`, `reason`, `record` (text; bytes that are
/// not UTF-8 are replaced).
pub fn schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        let text = |name| Field::new(name, DataType::Utf8, false);
        Arc::new(Schema::new(vec![
            text("stage"),
            Field::new("cycle", DataType::UInt64, false),
            text("position"),
            text("reason"),
            text("record"),
        ]))
    });
    Arc::clone(&SCHEMA)
}

/// Dead letters as rows.
///
/// # Panics
/// Never: the columns are as the schema says.
#[must_use]
pub fn batch(letters: &[DeadLetter]) -> RecordBatch {
    let text = |pick: fn(&DeadLetter) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(letters.iter().map(pick)))
    };
    let records = letters.iter().map(|letter| String::from_utf8_lossy(&letter.record));
    let columns: Vec<ArrayRef> = vec![
        text(|letter| &letter.stage),
        Arc::new(UInt64Array::from_iter_values(letters.iter().map(|letter| letter.cycle.0))),
        text(|letter| &letter.position),
        text(|letter| &letter.reason),
        Arc::new(StringArray::from_iter_values(records)),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns as the schema says")
}
