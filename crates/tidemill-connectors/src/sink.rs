//! Where rows go: files, standard output, nothing.
//!
//! Rows of a cycle are held as they will be written until the cycle is committed. How many cycles
//! can wait is the engine's bound. The hidden time column is left out everywhere.

mod append_file;
mod blackhole;
mod canonical_rows;
pub(crate) mod cell;
mod columnar;
pub(crate) mod encode;
mod file;
mod marks;
mod parquet_times;
mod write_probe;
mod writer;

pub use blackhole::BlackholeSink;
pub use file::FileSink;
pub use writer::{StdoutSink, WriterSink};

use crate::error::{ConnectorError, arrow_reason};
use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use std::{io, path::Path, sync::Arc};
use tidemill_env::has_no_room;
use tidemill_flow::{Block, Payload, SinkError, TIME_COLUMN};
use tidemill_types::{Cycle, SliceId, job::Format};

/// Columns of a schema that are written.
fn shown(schema: &Schema) -> Vec<usize> {
    let fields = schema.fields().iter().enumerate();
    fields.filter(|(_, field)| field.name() != TIME_COLUMN).map(|(index, _)| index).collect()
}

/// The schema of written rows.
fn shown_schema(schema: &Schema) -> SchemaRef {
    let fields: Vec<_> =
        shown(schema).into_iter().map(|index| Arc::clone(&schema.fields()[index])).collect();
    Arc::new(Schema::new(fields))
}

/// Most bytes of a value whose type says how many it has.
const FIXED_BYTES_MAX: u64 = 16 << 20;

/// Bytes of a value that has them whatever is in it, and some for any other; none of a type that has
/// no values at all.
fn fixed_bytes(data_type: &DataType) -> Option<u64> {
    match data_type {
        DataType::FixedSizeBinary(bytes) => Some(u64::try_from(*bytes).unwrap_or(0)),
        DataType::FixedSizeList(field, length) => {
            let each = fixed_bytes(field.data_type())?;
            Some(u64::try_from(*length).unwrap_or(0).saturating_mul(each))
        }
        DataType::Struct(fields) => all_bytes(fields.iter()),
        DataType::Union(fields, _) if fields.is_empty() => None,
        DataType::Union(fields, _) => all_bytes(fields.iter().map(|(_, it)| it)),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => fixed_bytes(field.data_type()),
        DataType::Dictionary(_, values) => fixed_bytes(values),
        _ => Some(16),
    }
}

fn all_bytes<'a>(mut fields: impl Iterator<Item = &'a FieldRef>) -> Option<u64> {
    fields.try_fold(0, |sum: u64, it| Some(sum.saturating_add(fixed_bytes(it.data_type())?)))
}

/// A row without values: writing it tells, before a job runs, whether a format can hold its columns.
///
/// # Errors
/// A type has no values, or so large ones that none should be made.
fn row_without_values(schema: &Schema) -> Result<RecordBatch, ArrowError> {
    for field in schema.fields() {
        let problem = match fixed_bytes(field.data_type()) {
            None => "has a type without values",
            Some(bytes) if bytes > FIXED_BYTES_MAX => "has values of too many bytes",
            Some(_) => continue,
        };
        let message = format!("column `{}` {problem}; leave it out with `select`", field.name());
        return Err(ArrowError::SchemaError(message));
    }
    let fields: Vec<Field> =
        schema.fields().iter().map(|it| it.as_ref().clone().with_nullable(true)).collect();
    let columns = fields.iter().map(|it| new_null_array(it.data_type(), 1)).collect();
    let row = RecordBatchOptions::new().with_row_count(Some(1));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &row)
}

/// The parts of a value that have a type of their own, each with its path behind the column's name.
fn parts(field: &Field) -> Vec<(String, FieldRef)> {
    match field.data_type() {
        DataType::Struct(fields) => {
            fields.iter().map(|it| (format!(".{}", it.name()), Arc::clone(it))).collect()
        }
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => vec![("[]".to_owned(), Arc::clone(element))],
        DataType::Map(entries, _) => parts(entries),
        _ => Vec::new(),
    }
}

/// True if a type, or one within it, is of this kind.
fn has_within(data_type: &DataType, is_kind: fn(&DataType) -> bool) -> bool {
    let within = |it: &FieldRef| has_within(it.data_type(), is_kind);
    is_kind(data_type)
        || match data_type {
            DataType::Dictionary(_, values) => has_within(values, is_kind),
            DataType::RunEndEncoded(_, values) => within(values),
            _ => parts(&Field::new("", data_type.clone(), true)).iter().any(|(_, it)| within(it)),
        }
}

/// Tries to write a row without values, and names the innermost part of a column that `write` cannot
/// write.
///
/// # Errors
/// Why the columns cannot be written, where, and a way out.
fn try_columns(
    schema: &Schema,
    write: impl Fn(&RecordBatch) -> Result<(), ArrowError>,
) -> Result<(), ArrowError> {
    let is_union: fn(&DataType) -> bool = |it| matches!(it, DataType::Union(_, _));
    let write = |row: &RecordBatch| {
        let mut types = row.schema_ref().fields().iter().map(|it| it.data_type());
        match types.any(|it| has_within(it, is_union)) {
            // The writer of Parquet panics at these.
            true => Err(ArrowError::SchemaError("it holds values of several types".to_owned())),
            false => write(row),
        }
    };
    let outcome = write(&row_without_values(schema)?);
    let Err(error) = outcome else { return Ok(()) };
    let alone = |field: &FieldRef| {
        let field = Field::new("c", field.data_type().clone(), true);
        row_without_values(&Schema::new(vec![field])).and_then(|row| write(&row))
    };
    let of_schema = schema.fields().iter().map(|it| (it.name().clone(), Arc::clone(it)));
    let mut parts_left: Vec<(String, FieldRef)> = of_schema.collect();
    let mut worst: Option<(String, ArrowError)> = None;
    loop {
        let try_part = |(path, it): (String, FieldRef)| Some((path, alone(&it).err()?, it));
        let found = parts_left.drain(..).find_map(try_part);
        let Some((path, error, field)) = found else { break };
        let inner = parts(&field).into_iter().map(|(part, it)| (format!("{path}{part}"), it));
        parts_left = inner.collect();
        worst = Some((path, error));
    }
    let Some((path, error)) = worst else { return Err(error) };
    let why = arrow_reason(error);
    Err(ArrowError::SchemaError(format!(
        "column `{path}`: {why}; leave it out or make it text with `select`, or write another format"
    )))
}

/// Encoded rows that wait for their cycle's commit.
#[derive(Debug, Default)]
struct PendingRows {
    bytes: Vec<u8>,
    /// Where the rows of a cycle end in `bytes`.
    ends: Vec<(Cycle, usize)>,
}

impl PendingRows {
    /// Says that the rows of a cycle are all there.
    fn end(&mut self, cycle: Cycle) {
        self.ends.push((cycle, self.bytes.len()));
    }

    /// The number of bytes of cycles up to this one.
    fn ready(&self, cycle: Cycle) -> usize {
        let count = self.ends.partition_point(|(it, _)| *it <= cycle);
        if count == 0 { 0 } else { self.ends[count - 1].1 }
    }

    /// Forgets the first `count` bytes, which are those of the cycles up to this one.
    fn release(&mut self, cycle: Cycle, count: usize) {
        self.bytes.drain(..count);
        self.ends.retain(|(it, _)| *it > cycle);
        self.ends.iter_mut().for_each(|(_, end)| *end -= count);
    }
}

/// Rows as a file of JSON, CSV or text has them.
///
/// # Errors
/// The format is another, or cannot hold a type.
pub fn rows_as(
    format: Format,
    schema: &SchemaRef,
    batches: &[RecordBatch],
) -> Result<Vec<u8>, ConnectorError> {
    let place = Path::new("rows");
    let encoder = encode::RowEncoder::new(place, format, Arc::clone(schema))?;
    let mut out = Vec::new();
    encoder.header(&mut out);
    let block = |it: &RecordBatch| Arc::new(Block::whole(Payload::Arrow(it.clone()), SliceId(0)));
    let blocks: Vec<Arc<Block>> = batches.iter().map(block).collect();
    let written = encoder.blocks(&blocks, &mut out);
    written.map_err(|error| ConnectorError::unwritable(place, arrow_reason(error)))?;
    Ok(out)
}

fn sink_error(path: &Path, error: impl std::fmt::Display) -> SinkError {
    SinkError::new(format!("`{}` cannot be written: {error}", path.display()))
}

/// Of a disk: without room it passes.
fn disk_error(path: &Path, error: io::Error) -> SinkError {
    let is_full = has_no_room(&error);
    sink_error(path, error).retry_if(is_full)
}

#[cfg(test)]
mod tests;
