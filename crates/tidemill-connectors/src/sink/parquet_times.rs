//! Times in units that Parquet has a name for. It has none for seconds: a file would hold plain
//! numbers, and only readers of Arrow's own schema in it would take them for times.

use crate::layout::{exact, plain_type};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// The schema of a file with rows of this one.
pub(super) fn schema(schema: &SchemaRef) -> SchemaRef {
    let fields: Vec<FieldRef> = schema.fields().iter().map(field).collect();
    if fields.iter().eq(schema.fields().iter()) {
        return Arc::clone(schema);
    }
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Rows as a file has them.
///
/// # Errors
/// A time has no milliseconds: it is too far out.
pub(super) fn rows(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = schema(batch.schema_ref());
    if schema == *batch.schema_ref() {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(it, field)| exact(it, field.data_type()));
    let columns = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new(schema, columns)
}

fn field(field: &FieldRef) -> FieldRef {
    let data_type = named(field.data_type());
    if data_type == *field.data_type() {
        return Arc::clone(field);
    }
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// The type with milliseconds for seconds, and for dates that have them; also within lists and
/// objects.
fn named(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Date64 => DataType::Timestamp(TimeUnit::Millisecond, None),
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::List(it) => DataType::List(field(it)),
        DataType::LargeList(it) => DataType::LargeList(field(it)),
        DataType::FixedSizeList(it, length) => DataType::FixedSizeList(field(it), *length),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        // Of dictionaries with other values some cannot be written, and some not be read again.
        DataType::Dictionary(_, values)
            if !matches!(
                **values,
                DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary
            ) =>
        {
            named(&plain_type(data_type))
        }
        // Parquet has no such layouts, or few readers know them.
        DataType::RunEndEncoded(_, _) | DataType::ListView(_) | DataType::LargeListView(_) => {
            named(&plain_type(data_type))
        }
        other => other.clone(),
    }
}
