//! One layout for each kind of values, whichever of Arrow's layouts they come in.
//!
//! ```text
//! LargeBinary, BinaryView, FixedSizeBinary      ─▶ Binary     LargeUtf8, Utf8View   ─▶ Utf8
//! LargeList, ListView, FixedSizeList            ─▶ List       Float16               ─▶ Float32
//! Decimal32, Decimal64, Decimal256 of 38 digits ─▶ Decimal128
//! Dictionary, RunEndEncoded                     ─▶ the values, one a row
//! ```
//!
//! Within lists, structures and maps too. Sources hand on plain columns, and sinks make those plain
//! that a stage or a program made: so a value is read, cast, keyed and written alike in any layout.

use arrow_array::{
    Array, ArrayRef, ListArray, MapArray, RecordBatch, RecordBatchOptions, StructArray,
    cast::AsArray,
    types::{Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type},
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema};
use std::sync::Arc;

/// Most digits of a decimal of 128 bits.
const DECIMAL128_DIGITS: u8 = 38;

/// The type of the plain layout.
pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    use DataType as D;
    match data_type {
        D::LargeUtf8 | D::Utf8View => D::Utf8,
        D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_) => D::Binary,
        D::Float16 => D::Float32,
        D::Decimal32(digits, scale) | D::Decimal64(digits, scale) => D::Decimal128(*digits, *scale),
        D::Decimal256(digits, scale) if *digits <= DECIMAL128_DIGITS => {
            D::Decimal128(*digits, *scale)
        }
        D::Dictionary(_, values) => plain_type(values),
        D::RunEndEncoded(_, values) => plain_type(values.data_type()),
        D::List(element)
        | D::LargeList(element)
        | D::ListView(element)
        | D::LargeListView(element)
        | D::FixedSizeList(element, _) => D::List(plain_field(element)),
        D::Struct(fields) => D::Struct(fields.iter().map(plain_field).collect()),
        D::Map(entries, sorted) => D::Map(plain_field(entries), *sorted),
        other => other.clone(),
    }
}

fn plain_field(field: &FieldRef) -> FieldRef {
    let data_type = plain_type(field.data_type());
    match data_type == *field.data_type() {
        true => Arc::clone(field),
        false => Arc::new(Field::clone(field).with_data_type(data_type)),
    }
}

/// The column in the plain layout.
///
/// # Errors
/// It has more values than fit the plain layout, or it is damaged.
pub(crate) fn plain_array(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    use DataType as D;
    let to = plain_type(column.data_type());
    if to == *column.data_type() {
        return Ok(Arc::clone(column));
    }
    Ok(match (column.data_type(), &to) {
        (D::Dictionary(_, _), _) => {
            let dictionary = column.as_any_dictionary();
            let values = arrow_select::take::take(dictionary.values(), dictionary.keys(), None)?;
            plain_array(&values)?
        }
        (D::RunEndEncoded(_, values), _) => plain_array(&exact(column, values.data_type())?)?,
        (D::List(_), D::List(element)) => {
            let lists: &ListArray = column.as_list();
            let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
            let values = plain_array(lists.values())?;
            Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, nulls)?)
        }
        (
            D::LargeList(element)
            | D::ListView(element)
            | D::LargeListView(element)
            | D::FixedSizeList(element, _),
            _,
        ) => plain_array(&exact(column, &D::List(Arc::clone(element)))?)?,
        (D::Struct(_), D::Struct(fields)) => {
            let objects = column.as_struct();
            let columns = objects.columns().iter().map(plain_array).collect::<Result<_, _>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, objects.nulls().cloned())?)
        }
        (D::Map(_, _), D::Map(entries, sorted)) => {
            let maps = column.as_map();
            let (offsets, nulls) = (maps.offsets().clone(), maps.nulls().cloned());
            let of_maps: ArrayRef = Arc::new(maps.entries().clone());
            let plain = plain_array(&of_maps)?.as_struct().clone();
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, plain, nulls, *sorted)?)
        }
        (_, D::Decimal128(digits, scale)) => decimal128(column, *digits, *scale)?,
        _ => exact(column, &to)?,
    })
}

/// A decimal of 128 bits. Arrow's cast trusts the bits under a null to be a number.
fn decimal128(column: &ArrayRef, digits: u8, scale: i8) -> Result<ArrayRef, ArrowError> {
    let plain = match column.data_type() {
        DataType::Decimal32(_, _) => {
            column.as_primitive::<Decimal32Type>().unary::<_, Decimal128Type>(i128::from)
        }
        DataType::Decimal64(_, _) => {
            column.as_primitive::<Decimal64Type>().unary::<_, Decimal128Type>(i128::from)
        }
        _ => column.as_primitive::<Decimal256Type>().try_unary::<_, Decimal128Type, _>(|it| {
            let beyond = || ArrowError::CastError(format!("{it} has more than {digits} digits"));
            it.to_i128().ok_or_else(beyond)
        })?,
    };
    Ok(Arc::new(plain.with_precision_and_scale(digits, scale)?))
}

/// A cast that must not make a null of a value.
///
/// # Errors
/// A value does not fit the type, or there is no such cast.
pub(crate) fn exact(column: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
    arrow_cast::cast_with_options(column, to, &options)
}

/// The rows with all columns in the plain layout.
///
/// # Errors
/// As for [`plain_array`].
pub(crate) fn plain_batch(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema_ref();
    let fields: Vec<FieldRef> = schema.fields().iter().map(plain_field).collect();
    if fields.iter().zip(schema.fields()).all(|(plain, field)| Arc::ptr_eq(plain, field)) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(plain_array).collect::<Result<_, _>>()?;
    let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(schema, columns, &options)
}

#[cfg(test)]
mod tests;
