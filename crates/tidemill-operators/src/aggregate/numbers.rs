//! Values of arguments in the four forms that accumulators take: integers, wide ones, floats, text.

use super::{NumberKind, words::WIDEST};
use crate::transform::arrow_error;
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int64Array, StringArray,
    cast::AsArray,
    types::{Decimal32Type, Decimal64Type, Decimal128Type, Float64Type, Int64Type, UInt64Type},
};
use arrow_buffer::NullBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, TimeUnit};
use std::sync::Arc;
use tidemill_flow::OperatorError;

macro_rules! relabel {
    ($array:expr, $kind:ident, $zone:expr) => {{
        let array = $array.as_primitive::<arrow_array::types::$kind>().clone();
        Arc::new(array.with_timezone(Arc::clone($zone))) as ArrayRef
    }};
}

/// The values of one argument in one block.
#[derive(Clone, Debug)]
pub(crate) enum ArgColumn {
    Int(Int64Array),
    Wide(Decimal128Array),
    Float(Float64Array),
    Text(StringArray),
}

/// The representation of a type's values. None if aggregates do not take the type.
pub(crate) fn held(data_type: &DataType) -> Option<NumberKind> {
    match data_type {
        DataType::Boolean
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(_, _)
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Null => Some(NumberKind::Int),
        DataType::UInt64 => Some(NumberKind::Wide),
        it if it.is_integer() => Some(NumberKind::Int),
        it if scale(it).is_some() => Some(NumberKind::Wide),
        it if it.is_floating() || it.is_decimal() => Some(NumberKind::Float),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(NumberKind::Text),
        _ => None,
    }
}

/// The scale of decimals that are held without their point, exactly.
pub(crate) fn scale(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(_, scale)
        | DataType::Decimal64(_, scale)
        | DataType::Decimal128(_, scale) => Some(*scale),
        _ => None,
    }
}

fn safe_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, OperatorError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options).map_err(arrow_error)
}

/// Decimals without their point, and unsigned numbers. The number under a null is arbitrary.
fn wide(array: &ArrayRef) -> Result<Decimal128Array, OperatorError> {
    match array.data_type() {
        DataType::UInt64 => Ok(array.as_primitive::<UInt64Type>().unary(i128::from)),
        DataType::Decimal32(_, _) => Ok(array.as_primitive::<Decimal32Type>().unary(i128::from)),
        DataType::Decimal64(_, _) => Ok(array.as_primitive::<Decimal64Type>().unary(i128::from)),
        _ => {
            // A file may say that there are fewer digits than there are.
            let array = array.as_primitive::<Decimal128Type>();
            let bound = 10_u128.pow(u32::from(array.precision()));
            if let Some(it) = array.iter().flatten().find(|it| it.unsigned_abs() >= bound) {
                let message = format!("the decimal {it} has more digits than its type");
                return Err(OperatorError::new(message));
            }
            Ok(array.clone())
        }
    }
}

impl ArgColumn {
    /// The values of an argument in the form of its accumulators.
    ///
    /// # Errors
    /// A number does not fit, such as a decimal of more digits than its type has.
    pub(crate) fn values(array: &ArrayRef, held: NumberKind) -> Result<ArrayRef, OperatorError> {
        match held {
            NumberKind::Int => {
                // Some types of time reach 64 bits only by way of 32.
                let array = match array.data_type() {
                    DataType::Date32 | DataType::Time32(_) => safe_cast(array, &DataType::Int32)?,
                    _ => array.clone(),
                };
                safe_cast(&array, &DataType::Int64)
            }
            NumberKind::Wide => Ok(Arc::new(wide(array)?)),
            NumberKind::Float => safe_cast(array, &DataType::Float64),
            NumberKind::Text => safe_cast(array, &DataType::Utf8),
        }
    }

    /// Takes the values of an argument.
    ///
    /// # Errors
    /// A number does not fit.
    pub(crate) fn new(array: &ArrayRef, held: NumberKind) -> Result<Self, OperatorError> {
        Ok(Self::of(&Self::values(array, held)?, held))
    }

    /// Takes the result of [`values`](Self::values).
    pub(crate) fn of(values: &ArrayRef, held: NumberKind) -> Self {
        match held {
            NumberKind::Int => Self::Int(values.as_primitive::<Int64Type>().clone()),
            NumberKind::Wide => Self::Wide(values.as_primitive::<Decimal128Type>().clone()),
            NumberKind::Float => Self::Float(values.as_primitive::<Float64Type>().clone()),
            NumberKind::Text => Self::Text(values.as_string::<i32>().clone()),
        }
    }

    /// The bits of a number of one word; others have none.
    #[inline]
    pub(crate) fn bits(&self, row: usize) -> u64 {
        match self {
            Self::Int(array) => array.value(row) as u64,
            Self::Float(array) => array.value(row).to_bits(),
            Self::Wide(_) | Self::Text(_) => 0,
        }
    }

    /// Which values are null, if any is.
    pub(crate) fn nulls(&self) -> Option<&NullBuffer> {
        let nulls = match self {
            Self::Int(array) => array.nulls(),
            Self::Wide(array) => array.nulls(),
            Self::Float(array) => array.nulls(),
            Self::Text(array) => array.nulls(),
        };
        nulls.filter(|nulls| nulls.null_count() > 0)
    }
}

/// Turns integers back into the type that they were held for.
pub(crate) fn from_ints(ints: Int64Array, to: &DataType) -> Result<ArrayRef, OperatorError> {
    let array: ArrayRef = Arc::new(ints);
    match to {
        DataType::Date32 | DataType::Time32(_) => {
            safe_cast(&safe_cast(&array, &DataType::Int32)?, to)
        }
        DataType::Null => Ok(arrow_array::new_null_array(&DataType::Null, array.len())),
        DataType::Timestamp(unit, zone) => {
            let plain = safe_cast(&array, &DataType::Timestamp(*unit, None))?;
            // The number is an instant already: the zone is a label, and must not shift it.
            Ok(match (unit, zone) {
                (_, None) => plain,
                (TimeUnit::Second, Some(zone)) => relabel!(plain, TimestampSecondType, zone),
                (TimeUnit::Millisecond, Some(zone)) => {
                    relabel!(plain, TimestampMillisecondType, zone)
                }
                (TimeUnit::Microsecond, Some(zone)) => {
                    relabel!(plain, TimestampMicrosecondType, zone)
                }
                (TimeUnit::Nanosecond, Some(zone)) => {
                    relabel!(plain, TimestampNanosecondType, zone)
                }
            })
        }
        other => safe_cast(&array, other),
    }
}

/// Turns wide numbers back into the type that they were held for, or that of their sum.
///
/// # Errors
/// A sum has no room in its type.
pub(crate) fn from_wide(
    numbers: &Decimal128Array,
    to: &DataType,
) -> Result<ArrayRef, OperatorError> {
    let numbers_there = || numbers.iter().flatten();
    Ok(match to {
        DataType::Int64 => {
            if numbers_there().any(|it| i64::try_from(it).is_err()) {
                return Err(OperatorError::new("a sum of integers is beyond 64 bits"));
            }
            Arc::new(numbers.unary::<_, Int64Type>(|it| it as i64))
        }
        DataType::UInt64 => Arc::new(numbers.unary::<_, UInt64Type>(|it| it as u64)),
        DataType::Decimal32(_, _) => {
            let it = numbers.unary::<_, Decimal32Type>(|it| it as i32);
            Arc::new(it.with_data_type(to.clone()))
        }
        DataType::Decimal64(_, _) => {
            let it = numbers.unary::<_, Decimal64Type>(|it| it as i64);
            Arc::new(it.with_data_type(to.clone()))
        }
        _ => {
            if numbers_there().any(|it| it.unsigned_abs() > WIDEST) {
                return Err(OperatorError::new("a sum of decimals is beyond 38 digits"));
            }
            Arc::new(numbers.clone().with_data_type(to.clone()))
        }
    })
}

#[cfg(test)]
mod tests;
