//! Values of arguments in the three forms that accumulators take: integers, floats, text.

use super::Held;
use crate::transform::arrow_error;
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, StringArray,
    cast::AsArray,
    types::{Decimal32Type, Decimal64Type, Decimal128Type, Float64Type, Int64Type},
};
use arrow_buffer::NullBuffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DECIMAL64_MAX_PRECISION, DataType, TimeUnit};
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
    Float(Float64Array),
    Text(StringArray),
}

/// How values of a type are held; none if they cannot be.
pub(crate) fn held(data_type: &DataType) -> Option<Held> {
    match data_type {
        DataType::Boolean
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(_, _)
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Null => Some(Held::Int),
        it if it.is_integer() || unscaled(it).is_some() => Some(Held::Int),
        it if it.is_floating() || it.is_decimal() => Some(Held::Float),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Held::Text),
        _ => None,
    }
}

/// The scale of decimals that fit an integer without their point: these are held exactly.
pub(crate) fn unscaled(data_type: &DataType) -> Option<i8> {
    match data_type {
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
            if *digits <= DECIMAL64_MAX_PRECISION =>
        {
            Some(*scale)
        }
        _ => None,
    }
}

fn safe_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, OperatorError> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options).map_err(arrow_error)
}

/// Decimals without their point. What stands under a null may be any number: arrow's cast panics at
/// one that does not fit.
fn digits(array: &ArrayRef) -> Result<Int64Array, OperatorError> {
    match array.data_type() {
        DataType::Decimal32(_, _) => Ok(array.as_primitive::<Decimal32Type>().unary(i64::from)),
        DataType::Decimal64(_, _) => Ok(array.as_primitive::<Decimal64Type>().reinterpret_cast()),
        _ => array
            .as_primitive::<Decimal128Type>()
            .try_unary(|it| i64::try_from(it).map_err(|_| too_long(it)))
            .map_err(arrow_error),
    }
}

fn too_long(digits: i128) -> ArrowError {
    ArrowError::ComputeError(format!("the decimal {digits} has more digits than its type"))
}

impl ArgColumn {
    /// The values of an argument in the form in which they are held.
    ///
    /// # Errors
    /// A number does not fit, such as an unsigned one beyond 2^63.
    pub(crate) fn values(array: &ArrayRef, held: Held) -> Result<ArrayRef, OperatorError> {
        match held {
            Held::Int if unscaled(array.data_type()).is_some() => Ok(Arc::new(digits(array)?)),
            Held::Int => {
                // Some types of time reach 64 bits only by way of 32.
                let array = match array.data_type() {
                    DataType::Date32 | DataType::Time32(_) => safe_cast(array, &DataType::Int32)?,
                    _ => array.clone(),
                };
                safe_cast(&array, &DataType::Int64)
            }
            Held::Float => safe_cast(array, &DataType::Float64),
            Held::Text => safe_cast(array, &DataType::Utf8),
        }
    }

    /// Takes the values of an argument.
    ///
    /// # Errors
    /// A number does not fit.
    pub(crate) fn new(array: &ArrayRef, held: Held) -> Result<Self, OperatorError> {
        Ok(Self::of(&Self::values(array, held)?, held))
    }

    /// Takes what [`values`](Self::values) gave.
    pub(crate) fn of(values: &ArrayRef, held: Held) -> Self {
        match held {
            Held::Int => Self::Int(values.as_primitive::<Int64Type>().clone()),
            Held::Float => Self::Float(values.as_primitive::<Float64Type>().clone()),
            Held::Text => Self::Text(values.as_string::<i32>().clone()),
        }
    }

    /// The bits of a number; text has none.
    #[inline]
    pub(crate) fn bits(&self, row: usize) -> u64 {
        match self {
            Self::Int(array) => array.value(row) as u64,
            Self::Float(array) => array.value(row).to_bits(),
            Self::Text(_) => 0,
        }
    }

    /// Which values are null, if any is.
    pub(crate) fn nulls(&self) -> Option<&NullBuffer> {
        let nulls = match self {
            Self::Int(array) => array.nulls(),
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
        to if let Some(scale) = unscaled(to) => {
            let it = array.as_primitive::<Int64Type>().reinterpret_cast::<Decimal64Type>();
            let it = it.with_precision_and_scale(DECIMAL64_MAX_PRECISION, scale);
            safe_cast(&(Arc::new(it.map_err(arrow_error)?) as ArrayRef), to)
        }
        // A sum of such.
        DataType::Decimal128(_, _) => {
            let ints = array.as_primitive::<Int64Type>();
            let it = ints.unary::<_, Decimal128Type>(i128::from).with_data_type(to.clone());
            Ok(Arc::new(it))
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

#[cfg(test)]
mod tests;
