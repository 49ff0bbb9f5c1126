//! The values of a column, by the few layouts that are written.

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, Float32Array,
    Float64Array, Int64Array, StringArray, UInt64Array,
    cast::AsArray,
    types::{Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int64Type, UInt64Type},
};
use arrow_json::{EncoderOptions, writer::NullableEncoder};
use arrow_schema::{ArrowError, DataType, FieldRef, TimeUnit};
use std::sync::Arc;

/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// The values of a column whose layout is plain.
pub(super) enum ColumnValues<'a> {
    Null,
    Bool(&'a BooleanArray),
    Int(&'a Int64Array),
    Unsigned(&'a UInt64Array),
    Single(&'a Float32Array),
    Double(&'a Float64Array),
    /// With the digits after the point; below zero: with so many zeros behind.
    Decimal(&'a Decimal128Array, i8),
    LongDecimal(&'a Decimal256Array, i8),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    Days(&'a Int64Array),
    /// With the number of units in a second.
    Times(&'a [i64], i64),
    Moments(&'a [i64], i64),
    Json(NullableEncoder<'a>),
}

impl<'a> ColumnValues<'a> {
    /// A column of a plain layout in one of those that are written.
    pub(super) fn plain(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        use DataType as D;
        let as_numbers = |to: D| -> Result<ArrayRef, ArrowError> {
            // The same bits, without the unit, which the caller has from the column's type.
            let data = column.to_data().into_builder().data_type(to).build()?;
            Ok(arrow_array::make_array(data))
        };
        let to = match column.data_type() {
            D::Int8 | D::Int16 | D::Int32 | D::UInt8 | D::UInt16 | D::UInt32 => D::Int64,
            D::Date32 => return arrow_cast::cast(&as_numbers(D::Int32)?, &D::Int64),
            D::Date64 => {
                let millis = as_numbers(D::Int64)?;
                let millis = millis.as_primitive::<Int64Type>();
                return Ok(Arc::new(millis.unary::<_, Int64Type>(|it| it.div_euclid(DAY_MS))));
            }
            D::Time32(unit) => {
                let numbers = as_numbers(D::Int32)?;
                let numbers = arrow_cast::cast(&numbers, &D::Int64)?;
                let per_us = 1_000_000 / per_second(*unit);
                let times = numbers.as_primitive::<Int64Type>();
                return Ok(Arc::new(times.unary::<_, Int64Type>(|it| it * per_us)));
            }
            _ => return Ok(Arc::clone(column)),
        };
        arrow_cast::cast(column, &to)
    }

    /// The values of a column that [`Self::plain`] gave, which was this field.
    pub(super) fn of(
        field: Option<&'a FieldRef>,
        column: &'a ArrayRef,
        options: &'a EncoderOptions,
    ) -> Result<Self, ArrowError> {
        use DataType as D;
        let field = field.expect("a column of the schema that was planned");
        let is_day = |it: &D| matches!(it, D::Date32 | D::Date64);
        let source = field.data_type();
        Ok(match (column.data_type(), source) {
            (D::Null, _) => Self::Null,
            (D::Boolean, _) => Self::Bool(column.as_boolean()),
            (D::Int64, it) if is_day(it) => Self::Days(column.as_primitive()),
            (D::Int64, D::Time32(_)) => {
                Self::Times(column.as_primitive::<Int64Type>().values(), 1_000_000)
            }
            (D::Int64, _) => Self::Int(column.as_primitive()),
            (D::UInt64, _) => Self::Unsigned(column.as_primitive::<UInt64Type>()),
            (D::Float32, _) => Self::Single(column.as_primitive::<Float32Type>()),
            (D::Float64, _) => Self::Double(column.as_primitive::<Float64Type>()),
            (D::Decimal128(_, scale), _) => {
                Self::Decimal(column.as_primitive::<Decimal128Type>(), *scale)
            }
            (D::Decimal256(_, scale), _) => {
                Self::LongDecimal(column.as_primitive::<Decimal256Type>(), *scale)
            }
            (D::Utf8, _) => Self::Text(column.as_string()),
            (D::Binary, _) => Self::Bytes(column.as_binary()),
            (D::Time64(unit), _) => Self::Times(numbers(column), per_second(*unit)),
            (D::Timestamp(unit, _), _) => Self::Moments(numbers(column), per_second(*unit)),
            _ => Self::Json(arrow_json::writer::make_encoder(field, column, options)?),
        })
    }
}

/// The numbers of a column of moments or of times of 64 bits.
fn numbers(column: &ArrayRef) -> &[i64] {
    use TimeUnit as U;
    use arrow_array::types as t;
    match column.data_type() {
        DataType::Time64(U::Nanosecond) => {
            column.as_primitive::<t::Time64NanosecondType>().values()
        }
        DataType::Time64(_) => column.as_primitive::<t::Time64MicrosecondType>().values(),
        DataType::Timestamp(U::Second, _) => {
            column.as_primitive::<t::TimestampSecondType>().values()
        }
        DataType::Timestamp(U::Millisecond, _) => {
            column.as_primitive::<t::TimestampMillisecondType>().values()
        }
        DataType::Timestamp(U::Microsecond, _) => {
            column.as_primitive::<t::TimestampMicrosecondType>().values()
        }
        _ => column.as_primitive::<t::TimestampNanosecondType>().values(),
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}
