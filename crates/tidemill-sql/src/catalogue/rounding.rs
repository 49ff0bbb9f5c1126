//! `floor`, `ceil` and `trunc` of whole numbers and decimals.
//!
//! DataFusion returns decimals in the argument's type, in which the next whole number may not fit, and
//! converts whole numbers to floats of 53 bits. Here the result of a decimal has no fraction and one more
//! digit before the point, and whole numbers keep their type.

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray,
    cast::AsArray,
    types::{
        Decimal128Type, Decimal256Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
        UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_buffer::i256;
use arrow_cast::cast;
use arrow_schema::{DECIMAL256_MAX_PRECISION, DataType};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs};
use std::sync::Arc;

/// The whole number that a decimal becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    /// The next one below.
    Floor,
    /// The next one above.
    Ceil,
}

/// The type of the result, if the argument has a type that is rounded here.
pub(super) fn whole_type(argument: &DataType) -> Option<DataType> {
    let more = |precision: u8, scale: i8| {
        let digits = i16::from(precision) - i16::from(scale) + 1;
        u8::try_from(digits.max(1)).unwrap_or(DECIMAL256_MAX_PRECISION)
    };
    match *argument {
        DataType::Decimal128(precision, scale) if scale > 0 => {
            Some(DataType::Decimal128(more(precision, scale), 0))
        }
        DataType::Decimal256(precision, scale) if scale > 0 => {
            Some(DataType::Decimal256(more(precision, scale), 0))
        }
        DataType::Decimal128(..) | DataType::Decimal256(..) => Some(argument.clone()),
        ref it if it.is_integer() => Some(argument.clone()),
        _ => None,
    }
}

/// `floor` or `ceil` of an argument that [`whole_type`] knows.
pub(super) fn whole(direction: Direction, argument: &ColumnarValue) -> Result<ColumnarValue> {
    mapped(argument, |array| {
        Ok(match *array.data_type() {
            DataType::Decimal128(_, scale) if scale > 0 => {
                let unit = 10_i128.pow(scale.unsigned_abs().into());
                let whole = |it: i128| match direction {
                    Direction::Floor => it.div_euclid(unit),
                    Direction::Ceil => -((-it).div_euclid(unit)),
                };
                let made = array.as_primitive::<Decimal128Type>().unary::<_, Decimal128Type>(whole);
                Arc::new(made.with_data_type(of(array)))
            }
            DataType::Decimal256(_, scale) if scale > 0 => {
                let unit = i256::from_i128(10).wrapping_pow(scale.unsigned_abs().into());
                let whole = |it: i256| {
                    let (whole, rest) = (it.wrapping_div(unit), it.wrapping_rem(unit));
                    match direction {
                        Direction::Floor if rest.is_negative() => whole.wrapping_sub(i256::ONE),
                        Direction::Ceil if rest.is_positive() => whole.wrapping_add(i256::ONE),
                        _ => whole,
                    }
                };
                let made = array.as_primitive::<Decimal256Type>().unary::<_, Decimal256Type>(whole);
                Arc::new(made.with_data_type(of(array)))
            }
            _ => Arc::clone(array),
        })
    })
}

fn of(array: &ArrayRef) -> DataType {
    whole_type(array.data_type()).unwrap_or_else(|| array.data_type().clone())
}

/// `trunc` of a whole number: digits before the point become 0 if the second argument is negative.
pub(super) fn truncated(arguments: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let [value, digits @ ..] = &arguments.args[..] else {
        return exec_err!("`trunc` takes one argument or two");
    };
    let Some(digits) = digits.first() else { return Ok(value.clone()) };
    let is_constant =
        matches!((value, digits), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { arguments.number_rows };
    let digits = cast(&digits.to_array(rows)?, &DataType::Int64)?;
    let digits = digits.as_primitive::<Int64Type>();
    let values = value.to_array(rows)?;
    let made: ArrayRef = match values.data_type() {
        DataType::Int8 => cut::<Int8Type>(&values, digits)?,
        DataType::Int16 => cut::<Int16Type>(&values, digits)?,
        DataType::Int32 => cut::<Int32Type>(&values, digits)?,
        DataType::Int64 => cut::<Int64Type>(&values, digits)?,
        DataType::UInt8 => cut::<UInt8Type>(&values, digits)?,
        DataType::UInt16 => cut::<UInt16Type>(&values, digits)?,
        DataType::UInt32 => cut::<UInt32Type>(&values, digits)?,
        DataType::UInt64 => cut::<UInt64Type>(&values, digits)?,
        other => return exec_err!("{other} is no whole number"),
    };
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
        false => ColumnarValue::Array(made),
    })
}

fn cut<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    digits: &PrimitiveArray<Int64Type>,
) -> Result<ArrayRef>
where
    T::Native: Into<i128> + TryFrom<i128>,
{
    let values = values.as_primitive::<T>();
    let row = |(value, digits): (Option<T::Native>, Option<i64>)| {
        let (value, digits) = (value?, digits?);
        if digits >= 0 {
            return Some(value);
        }
        let power = u32::try_from(digits.unsigned_abs()).ok();
        let unit = power.and_then(|it| 10_i128.checked_pow(it));
        let whole: i128 = value.into();
        T::Native::try_from(unit.map_or(0, |unit| whole - whole % unit)).ok()
    };
    let made: PrimitiveArray<T> = values.iter().zip(digits).map(row).collect();
    Ok(Arc::new(made))
}

/// A value for each row, or one for all.
fn mapped(
    argument: &ColumnarValue,
    map: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    Ok(match argument {
        ColumnarValue::Array(array) => ColumnarValue::Array(map(array)?),
        ColumnarValue::Scalar(value) => {
            let made = map(&value.to_array()?)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?)
        }
    })
}
