//! States of a program's functions as tables: one for each structure.

use super::utc_type;
use crate::lane::failed;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::{ops::ControlFlow, sync::Arc};
use tidemill_flow::{OperatorError, StateTable, TakeRows, snapshot::STATE_TABLE};
use tidemill_state::{
    State,
    structure::columns::{ColumnKind, ColumnValue},
};

/// Rows of a batch, at most.
const ROWS_MAX: usize = 8_192;
/// Text of a batch is no longer, about.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// The tables of a state, and for each the structure that it shows. A state of one structure is
/// `state`; others have the names that the state gives them, or `structure_0` and so on.
fn all(state: &mut dyn State) -> Vec<(usize, StateTable)> {
    let names = state.names();
    let structures = state.structures();
    let is_one = structures.len() == 1 && names.is_empty();
    let table = |(nth, columns): (usize, Vec<(&'static str, ColumnKind)>)| {
        let name = match names.get(nth) {
            Some(name) => (*name).to_owned(),
            None if is_one => STATE_TABLE.to_owned(),
            None => format!("structure_{nth}"),
        };
        (nth, StateTable { name, schema: schema_of(&columns) })
    };
    let columns = structures.iter().map(|it| it.columns()).enumerate();
    columns.filter(|(_, columns)| !columns.is_empty()).map(table).collect()
}

fn schema_of(columns: &[(&'static str, ColumnKind)]) -> SchemaRef {
    let field = |(name, kind): &(&str, ColumnKind)| {
        let data_type = match kind {
            ColumnKind::Text | ColumnKind::Json => DataType::Utf8,
            ColumnKind::Int => DataType::Int64,
            ColumnKind::UInt => DataType::UInt64,
            ColumnKind::Float => DataType::Float64,
            ColumnKind::Bool => DataType::Boolean,
            ColumnKind::Time => utc_type(),
        };
        Field::new(*name, data_type, true)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

/// The tables of a state.
pub(super) fn tables(state: &mut dyn State) -> Vec<StateTable> {
    all(state).into_iter().map(|(_, table)| table).collect()
}

/// Gives the rows of one of them.
pub(super) fn rows(
    state: &mut dyn State,
    table: usize,
    take: &mut TakeRows<'_>,
) -> Result<(), OperatorError> {
    let Some((nth, StateTable { schema, .. })) = all(state).into_iter().nth(table) else {
        return Ok(());
    };
    let structure = state.structures().swap_remove(nth);
    let kinds: Vec<ColumnKind> = structure.columns().into_iter().map(|(_, kind)| kind).collect();
    let (mut held, mut bytes, mut outcome) = (Vec::new(), 0, Ok(()));
    structure.show(&mut |row| {
        bytes += row.iter().map(text_bytes).sum::<usize>();
        held.push(row);
        if held.len() < ROWS_MAX && bytes < TEXT_BYTES_MAX {
            return ControlFlow::Continue(());
        }
        bytes = 0;
        match batch(&schema, &kinds, &std::mem::take(&mut held)) {
            Ok(batch) => take(batch),
            Err(error) => {
                outcome = Err(error);
                ControlFlow::Break(())
            }
        }
    });
    outcome?;
    if !held.is_empty() {
        // Nothing comes after it. Nothing is held once no more was wanted.
        let _last = take(batch(&schema, &kinds, &held)?);
    }
    Ok(())
}

fn text_bytes(value: &ColumnValue) -> usize {
    match value {
        ColumnValue::Text(text) => text.len(),
        _ => 0,
    }
}

fn batch(
    schema: &SchemaRef,
    kinds: &[ColumnKind],
    rows: &[Vec<ColumnValue>],
) -> Result<RecordBatch, OperatorError> {
    let columns = kinds.iter().enumerate().map(|(column, kind)| array(*kind, column, rows));
    RecordBatch::try_new(Arc::clone(schema), columns.collect()).map_err(failed)
}

/// The values of one column; one that is not of its kind is null.
fn array(kind: ColumnKind, column: usize, rows: &[Vec<ColumnValue>]) -> ArrayRef {
    let values = || rows.iter().map(|row| &row[column]);
    macro_rules! of {
        ($array:ty, $variant:ident, $value:ident => $it:expr) => {
            Arc::new(
                values()
                    .map(|value| match value {
                        ColumnValue::$variant($value) => Some($it),
                        _ => None,
                    })
                    .collect::<$array>(),
            )
        };
    }
    match kind {
        ColumnKind::Text | ColumnKind::Json => of!(StringArray, Text, it => it.as_str()),
        ColumnKind::Int => of!(Int64Array, Int, it => *it),
        ColumnKind::UInt => of!(UInt64Array, UInt, it => *it),
        ColumnKind::Float => of!(Float64Array, Float, it => *it),
        ColumnKind::Bool => of!(BooleanArray, Bool, it => *it),
        ColumnKind::Time => {
            let times: TimestampMicrosecondArray = values()
                .map(|value| match value {
                    ColumnValue::Time(it) => Some(it.0),
                    _ => None,
                })
                .collect();
            Arc::new(times.with_timezone("UTC"))
        }
    }
}
