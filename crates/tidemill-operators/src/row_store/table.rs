//! The table of stored rows, for queries of a state.

use super::RowStore;
use crate::lane::failed;
use crate::row_picker::RowPicker;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;
use tidemill_flow::{OperatorError, TIME_COLUMN, TakeRows};

/// The event time of a held row, where people see it.
const EVENT_TIME_COLUMN: &str = "__event_time";

/// Rows that are copied together.
const ROWS_MAX: usize = 8_192;

/// The event times of rows as a column that people see.
pub(crate) fn event_time() -> FieldRef {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Field::new(EVENT_TIME_COLUMN, utc, true))
}

/// Columns as people see them: those before, the held ones without the hidden time, those behind.
pub(crate) fn shown_schema(
    before: Vec<FieldRef>,
    held: &[FieldRef],
    behind: Vec<FieldRef>,
) -> SchemaRef {
    let held = held.iter().filter(|it| it.name() != TIME_COLUMN).cloned();
    let all = before.into_iter().chain(held).chain(behind);
    Arc::new(Schema::new(all.collect::<Vec<_>>()))
}

/// Columns before and behind the stored ones.
pub(crate) type ExtraColumns = (Vec<ArrayRef>, Vec<ArrayRef>);

/// Gives held rows, in this order; `beside` makes the other columns, of which it is told the first
/// row, the slots and the held columns.
pub(crate) fn rows<T>(
    held: &RowStore<T>,
    slots: &[u32],
    schema: &SchemaRef,
    beside: impl Fn(usize, &[u32], &RecordBatch) -> Result<ExtraColumns, OperatorError>,
    take: &mut TakeRows<'_>,
) -> Result<(), OperatorError> {
    let mut gather = RowPicker::default();
    for (nth, slots) in slots.chunks(ROWS_MAX).enumerate() {
        slots.iter().for_each(|slot| gather.pick_held(held, *slot));
        let Some(batch) = gather.finish()? else { continue };
        let (mut columns, behind) = beside(nth * ROWS_MAX, slots, &batch)?;
        let fields = batch.schema();
        let of_held = fields.fields().iter().zip(batch.columns());
        let of_held = of_held.filter(|(field, _)| field.name() != TIME_COLUMN);
        columns.extend(of_held.map(|(_, column)| Arc::clone(column)));
        columns.extend(behind);
        let options = RecordBatchOptions::new().with_row_count(Some(slots.len()));
        let schema = Arc::clone(schema);
        let shown = RecordBatch::try_new_with_options(schema, columns, &options);
        if take(shown.map_err(failed)?).is_break() {
            break;
        }
    }
    Ok(())
}
