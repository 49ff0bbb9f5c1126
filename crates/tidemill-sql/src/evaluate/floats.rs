//! Corrections for floats: DataFusion's functions compare all of their bits, and some overflow.

use super::canonical;
use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericListArray, OffsetSizeTrait, StructArray,
    cast::AsArray,
    types::{Float32Type, Float64Type, Int64Type},
};
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef};
use arrow_select::nullif::nullif;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use std::sync::Arc;

/// Returns true for floats, and for lists and objects that contain floats.
pub(crate) fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(element) | DataType::LargeList(element) => has_floats(element.data_type()),
        DataType::Struct(fields) => fields.iter().any(|it| has_floats(it.data_type())),
        other => matches!(other, DataType::Float32 | DataType::Float64),
    }
}

/// An argument with one zero and one NaN, for a function that asks which values are the same.
pub(crate) fn with_one_zero(argument: &ColumnarValue) -> Result<ColumnarValue> {
    if !has_floats(&argument.data_type()) {
        return Ok(argument.clone());
    }
    Ok(match argument {
        ColumnarValue::Array(array) => ColumnarValue::Array(one_zero(array)?),
        ColumnarValue::Scalar(value) => {
            let one = one_zero(&value.to_array()?)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?)
        }
    })
}

/// The same values with one zero and one NaN, in lists and objects too.
fn one_zero(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::List(element) => in_lists::<i32>(array, element)?,
        DataType::LargeList(element) => in_lists::<i64>(array, element)?,
        DataType::Struct(fields) if !fields.is_empty() => {
            let object = array.as_struct();
            let columns = object.columns().iter().map(one_zero).collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, object.nulls().cloned())?)
        }
        _ => canonical::with_one_zero(Arc::clone(array)),
    })
}

fn in_lists<O: OffsetSizeTrait>(array: &ArrayRef, element: &FieldRef) -> Result<ArrayRef> {
    let lists = array.as_list::<O>();
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    let values = one_zero(lists.values())?;
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(element), offsets, values, nulls)?))
}

/// The values, with null in each row in which `made` is null.
pub(crate) fn with_nulls_of(
    values: &ColumnarValue,
    made: ColumnarValue,
    rows: usize,
) -> Result<ColumnarValue> {
    match (values, made) {
        (values, ColumnarValue::Scalar(made)) if !made.is_null() => Ok(values.clone()),
        (_, ColumnarValue::Scalar(made)) => Ok(ColumnarValue::Scalar(made)),
        (values, ColumnarValue::Array(made)) => {
            let is_null: BooleanArray =
                (0..made.len()).map(|row| Some(made.is_null(row))).collect();
            Ok(ColumnarValue::Array(nullif(&values.to_array(rows)?, &is_null)?))
        }
    }
}

/// The result of `round` to a number of digits. The factor of very large and very small numbers of digits
/// overflows a float; those results are corrected here.
pub(crate) fn rounded(
    arguments: &[ColumnarValue],
    made: ColumnarValue,
    rows: usize,
) -> Result<ColumnarValue> {
    let ([values, digits], true) = (arguments, has_floats(&made.data_type())) else {
        return Ok(made);
    };
    let is_fine = match &made {
        ColumnarValue::Scalar(ScalarValue::Float64(it)) => it.is_none_or(f64::is_finite),
        ColumnarValue::Scalar(ScalarValue::Float32(it)) => it.is_none_or(f32::is_finite),
        ColumnarValue::Scalar(_) => true,
        ColumnarValue::Array(array) => match array.data_type() {
            DataType::Float64 => {
                array.as_primitive::<Float64Type>().iter().flatten().all(f64::is_finite)
            }
            _ => array.as_primitive::<Float32Type>().iter().flatten().all(f32::is_finite),
        },
    };
    if is_fine {
        return Ok(made);
    }
    let is_constant = matches!(made, ColumnarValue::Scalar(_));
    let rows = if is_constant { 1 } else { rows };
    let data_type = made.data_type();
    let floats = |it: &ColumnarValue| cast(&it.to_array(rows)?, &DataType::Float64);
    let (made, values) = (floats(&made)?, floats(values)?);
    let digits = cast(&digits.to_array(rows)?, &DataType::Int64)?;
    let (made, values) = (made.as_primitive::<Float64Type>(), values.as_primitive::<Float64Type>());
    let digits = digits.as_primitive::<Int64Type>();
    let row = |row: usize| {
        let (made, value) = (made.is_valid(row).then(|| made.value(row))?, values.value(row));
        Some(match digits.value(row) {
            _ if made.is_finite() => made,
            // Infinite ones and NaN are their own.
            _ if !value.is_finite() => value,
            // It has no digits behind these; and, of so many before the point, none.
            0.. => value,
            _ => 0.0,
        })
    };
    let all: ArrayRef = Arc::new((0..rows).map(row).collect::<arrow_array::Float64Array>());
    let all = cast(&all, &data_type)?;
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&all, 0)?),
        false => ColumnarValue::Array(all),
    })
}
