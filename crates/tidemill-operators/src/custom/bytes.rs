//! A function for each byte record, without copies and, in a steady state, without allocation.

use crate::lane::PortParts;
use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::{DataType, SchemaRef};
use std::sync::Arc;
use tidemill_flow::{
    Block, Context, CycleInput, ErrorKind, Operator, OperatorError, OperatorFactory, Output,
    Payload, Rows, Selection, SliceState, TIME_COLUMN, rows_schema,
};
use tidemill_types::SliceId;

/// Made by [`per_record_bytes`].
#[derive(Debug)]
pub struct PerRecordBytes<F>(Arc<F>);

/// Calls `function` with each byte record. Its output is byte records too.
/// A column of text or binary counts as byte records too; a null is an empty record.
pub fn per_record_bytes<F>(function: F) -> PerRecordBytes<F>
where
    F: Fn(&[u8], &mut Output) -> Result<(), OperatorError> + Send + Sync + 'static,
{
    PerRecordBytes(Arc::new(function))
}

/// Made by [`filter_bytes`].
#[derive(Debug)]
pub struct FilterBytes<F>(Arc<F>);

/// Keeps the byte records for which `function` is true. Where it keeps all of a block, nothing is
/// copied: the block itself goes on.
/// A column of text or binary counts as byte records too; a null is an empty record.
pub fn filter_bytes<F>(function: F) -> FilterBytes<F>
where
    F: Fn(&[u8]) -> Result<bool, OperatorError> + Send + Sync + 'static,
{
    FilterBytes(Arc::new(function))
}

impl<F> OperatorFactory for PerRecordBytes<F>
where
    F: Fn(&[u8], &mut Output) -> Result<(), OperatorError> + Send + Sync + 'static,
{
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![rows_schema()]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(BytesOperator { function: Arc::clone(&self.0), lane: PortParts::default() })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
}

struct BytesOperator<F> {
    function: Arc<F>,
    lane: PortParts,
}

impl<F> Operator for BytesOperator<F>
where
    F: Fn(&[u8], &mut Output) -> Result<(), OperatorError> + Send + Sync + 'static,
{
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let blocks = input.port(0);
        self.lane.read(blocks, &context.slices);
        for (slice, parts) in self.lane.slices() {
            output.set_slice(slice);
            let mut number = 0;
            for part in parts {
                let block = &blocks[part.block];
                let mut each = |record: &[u8]| {
                    context.at(slice, number);
                    number += 1;
                    (self.function)(record, output)
                };
                match &block.payload {
                    Payload::Rows(rows) => for_rows(block, slice, |row| each(rows.get(row)))?,
                    Payload::Arrow(batch) => {
                        let column = byte_column(batch)?;
                        for_rows(block, slice, |row| each(bytes_at(column, row)))?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl<F> OperatorFactory for FilterBytes<F>
where
    F: Fn(&[u8]) -> Result<bool, OperatorError> + Send + Sync + 'static,
{
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![rows_schema()]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(FilterOperator { function: Arc::clone(&self.0), lane: PortParts::default() })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
}

struct FilterOperator<F> {
    function: Arc<F>,
    lane: PortParts,
}

impl<F> Operator for FilterOperator<F>
where
    F: Fn(&[u8]) -> Result<bool, OperatorError> + Send + Sync + 'static,
{
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let blocks = input.port(0);
        self.lane.read(blocks, &context.slices);
        for (slice, parts) in self.lane.slices() {
            output.set_slice(slice);
            let mut number = 0;
            for part in parts {
                let block = &blocks[part.block];
                let mut keeps = |record: &[u8]| {
                    context.at(slice, number);
                    number += 1;
                    (self.function)(record)
                };
                if let (Payload::Rows(rows), Selection::All(count)) =
                    (&block.payload, block.rows_of(slice))
                {
                    filter_block(block, count, rows, keeps, output)?;
                    continue;
                }
                let mut each = |record: &[u8]| {
                    if keeps(record)? {
                        output.push(record);
                    }
                    Ok(())
                };
                match &block.payload {
                    Payload::Rows(rows) => for_rows(block, slice, |row| each(rows.get(row)))?,
                    Payload::Arrow(batch) => {
                        let column = byte_column(batch)?;
                        for_rows(block, slice, |row| each(bytes_at(column, row)))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Passes a whole block on until a record of it is dropped; then the kept records are copied.
#[inline]
fn filter_block(
    block: &Arc<Block>,
    count: usize,
    rows: &Rows,
    mut keeps: impl FnMut(&[u8]) -> Result<bool, OperatorError>,
    output: &mut Output,
) -> Result<(), OperatorError> {
    let mut kept = 0;
    while kept < count && keeps(rows.get(kept))? {
        kept += 1;
    }
    if kept == count {
        output.pass(block);
        return Ok(());
    }
    (0..kept).for_each(|row| output.push(rows.get(row)));
    for row in kept + 1..count {
        let record = rows.get(row);
        if keeps(record)? {
            output.push(record);
        }
    }
    Ok(())
}

/// Calls `each` with every row of a slice.
#[inline]
fn for_rows(
    block: &Block,
    slice: SliceId,
    mut each: impl FnMut(usize) -> Result<(), OperatorError>,
) -> Result<(), OperatorError> {
    match block.rows_of(slice) {
        Selection::All(count) => (0..count).try_for_each(each),
        Selection::Rows(rows) => rows.iter().try_for_each(|row| each(*row as usize)),
    }
}

/// The one column of text or binary.
fn byte_column(batch: &arrow_array::RecordBatch) -> Result<&ArrayRef, OperatorError> {
    let schema = batch.schema_ref();
    let mut columns = schema.fields().iter().zip(batch.columns());
    let mut visible = columns.by_ref().filter(|(field, _)| field.name() != TIME_COLUMN);
    match (visible.next(), visible.next()) {
        (Some((_, column)), None) if is_bytes(column.data_type()) => Ok(column),
        _ => {
            let names: Vec<String> = schema
                .fields()
                .iter()
                .filter(|field| field.name() != TIME_COLUMN)
                .map(|field| format!("{} {}", field.name(), field.data_type()))
                .collect();
            Err(OperatorError::of_kind(
                ErrorKind::Invalid,
                format!(
                    "this operator takes byte records, or one column of text or binary; its input has \
                 ({}): select one column before it",
                    names.join(", ")
                ),
            ))
        }
    }
}

fn is_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
    )
}

fn bytes_at(column: &ArrayRef, row: usize) -> &[u8] {
    if column.is_null(row) {
        return &[];
    }
    match column.data_type() {
        DataType::Binary => column.as_binary::<i32>().value(row),
        DataType::LargeBinary => column.as_binary::<i64>().value(row),
        DataType::BinaryView => column.as_binary_view().value(row),
        DataType::Utf8 => column.as_string::<i32>().value(row).as_bytes(),
        DataType::LargeUtf8 => column.as_string::<i64>().value(row).as_bytes(),
        _ => column.as_string_view().value(row).as_bytes(),
    }
}
