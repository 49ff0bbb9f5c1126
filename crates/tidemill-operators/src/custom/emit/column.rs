//! Builds one column, value by value.
//!
//! A column is built as the widest type of its kind, and cast to its own type when it is whole.
//!
//! Invariant: a column holds the very values that were written; one that its type cannot tell is
//! refused when it comes.

use super::{EmitValue, ROWS_MAX};
use arrow_array::{ArrayRef, builder};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{DataType, Field, TimeUnit};
use std::{ops::RangeInclusive, sync::Arc};
use tidemill_flow::{ErrorKind, OperatorError};

const DAY_US: i64 = 86_400_000_000;

pub(super) enum Builder {
    Bool(builder::BooleanBuilder),
    /// Whole numbers, within the bounds of their type.
    Whole(builder::Int64Builder, RangeInclusive<i64>),
    U64(builder::UInt64Builder),
    F32(builder::Float32Builder),
    F64(builder::Float64Builder),
    Str(builder::StringBuilder),
    /// Bytes; with a length, every value has exactly that many.
    Bytes(builder::BinaryBuilder, Option<i32>),
    Time(builder::TimestampMicrosecondBuilder, Scale),
    /// A number of nulls, of a type whose values only batches can have.
    Other(usize),
}

/// The moments that a type can tell.
#[derive(Clone, Copy)]
pub(super) enum Scale {
    /// Multiples of this many microseconds.
    Coarse(i64),
    Nanos,
}

impl Scale {
    fn tells(self, micros: i64) -> bool {
        match self {
            Self::Coarse(unit_us) => micros % unit_us == 0,
            Self::Nanos => micros.checked_mul(1_000).is_some(),
        }
    }
}

fn whole<T: Into<i64>>(least: T, most: T) -> Builder {
    Builder::Whole(builder::Int64Builder::new(), least.into()..=most.into())
}

/// Returns true if the keys of a dictionary can number every value of one batch.
fn is_wide(keys: &DataType) -> bool {
    !matches!(keys, DataType::Int8 | DataType::UInt8)
}

const _: () = assert!(ROWS_MAX <= i16::MAX as usize);

impl Builder {
    pub(super) fn new(data_type: &DataType) -> Self {
        let time = |zone: &Option<Arc<str>>, scale| {
            let builder = builder::TimestampMicrosecondBuilder::new();
            Self::Time(builder.with_timezone_opt(zone.clone()), scale)
        };
        match data_type {
            DataType::Boolean => Self::Bool(builder::BooleanBuilder::new()),
            DataType::Int8 => whole(i8::MIN, i8::MAX),
            DataType::Int16 => whole(i16::MIN, i16::MAX),
            DataType::Int32 => whole(i32::MIN, i32::MAX),
            DataType::Int64 => whole(i64::MIN, i64::MAX),
            DataType::UInt8 => whole(u8::MIN, u8::MAX),
            DataType::UInt16 => whole(u16::MIN, u16::MAX),
            DataType::UInt32 => whole(u32::MIN, u32::MAX),
            DataType::UInt64 => Self::U64(builder::UInt64Builder::new()),
            DataType::Float16 | DataType::Float32 => Self::F32(builder::Float32Builder::new()),
            DataType::Float64 => Self::F64(builder::Float64Builder::new()),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Self::Str(builder::StringBuilder::new())
            }
            DataType::Dictionary(keys, values) if is_wide(keys) && values.is_string() => {
                Self::Str(builder::StringBuilder::new())
            }
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                Self::Bytes(builder::BinaryBuilder::new(), None)
            }
            DataType::FixedSizeBinary(length) => {
                Self::Bytes(builder::BinaryBuilder::new(), Some(*length))
            }
            DataType::Timestamp(unit, zone) => time(
                zone,
                match unit {
                    TimeUnit::Second => Scale::Coarse(1_000_000),
                    TimeUnit::Millisecond => Scale::Coarse(1_000),
                    TimeUnit::Microsecond => Scale::Coarse(1),
                    TimeUnit::Nanosecond => Scale::Nanos,
                },
            ),
            DataType::Date32 | DataType::Date64 => time(&None, Scale::Coarse(DAY_US)),
            _ => Self::Other(0),
        }
    }

    pub(super) fn append(
        &mut self,
        value: EmitValue<'_>,
        field: &Field,
    ) -> Result<(), OperatorError> {
        let is_long = |length: &Option<i32>, value: &[u8]| {
            length.is_none_or(|length| usize::try_from(length).is_ok_and(|it| it == value.len()))
        };
        match (&mut *self, value) {
            (_, EmitValue::Null) if field.is_nullable() => self.append_null(),
            (Self::Bool(to), EmitValue::Bool(value)) => to.append_value(value),
            (Self::Whole(to, bounds), EmitValue::I64(value)) if bounds.contains(&value) => {
                to.append_value(value);
            }
            (Self::Whole(to, bounds), EmitValue::U64(value)) => match i64::try_from(value) {
                Ok(value) if bounds.contains(&value) => to.append_value(value),
                _ => return Err(misfit(EmitValue::U64(value), field)),
            },
            (Self::U64(to), EmitValue::U64(value)) => to.append_value(value),
            (Self::U64(to), EmitValue::I64(value)) if value >= 0 => to.append_value(value as u64),
            (Self::F32(to), EmitValue::F64(value)) => to.append_value(value as f32),
            (Self::F64(to), EmitValue::F64(value)) => to.append_value(value),
            (Self::Str(to), EmitValue::Str(value)) => to.append_value(value),
            (Self::Bytes(to, length), EmitValue::Bytes(value)) if is_long(length, value) => {
                to.append_value(value);
            }
            (Self::Bytes(to, length), EmitValue::Str(value))
                if is_long(length, value.as_bytes()) =>
            {
                to.append_value(value);
            }
            (Self::Time(to, scale), EmitValue::Time(value)) if scale.tells(value.0) => {
                to.append_value(value.0);
            }
            _ => return Err(misfit(value, field)),
        }
        Ok(())
    }

    fn append_null(&mut self) {
        match self {
            Self::Bool(to) => to.append_null(),
            Self::Whole(to, _) => to.append_null(),
            Self::U64(to) => to.append_null(),
            Self::F32(to) => to.append_null(),
            Self::F64(to) => to.append_null(),
            Self::Str(to) => to.append_null(),
            Self::Bytes(to, _) => to.append_null(),
            Self::Time(to, _) => to.append_null(),
            Self::Other(nulls) => *nulls += 1,
        }
    }

    /// The column, of its type.
    ///
    /// # Errors
    /// A value is none that was let in: an error of the engine.
    pub(super) fn finish(&mut self, data_type: &DataType) -> Result<ArrayRef, OperatorError> {
        let column: ArrayRef = match self {
            Self::Bool(to) => Arc::new(to.finish()),
            Self::Whole(to, _) => Arc::new(to.finish()),
            Self::U64(to) => Arc::new(to.finish()),
            Self::F32(to) => Arc::new(to.finish()),
            Self::F64(to) => Arc::new(to.finish()),
            Self::Str(to) => Arc::new(to.finish()),
            Self::Bytes(to, _) => Arc::new(to.finish()),
            Self::Time(to, _) => Arc::new(to.finish()),
            Self::Other(nulls) => arrow_array::new_null_array(data_type, std::mem::take(nulls)),
        };
        if column.data_type() == data_type {
            return Ok(column);
        }
        let options = CastOptions { safe: false, ..CastOptions::default() };
        cast_with_options(&column, data_type, &options).map_err(crate::lane::failed)
    }
}

fn misfit(value: EmitValue<'_>, field: &Field) -> OperatorError {
    let (name, data_type) = (field.name(), field.data_type());
    OperatorError::of_kind(
        ErrorKind::Invalid,
        match (Builder::new(data_type), value) {
            (Builder::Other(_), _) => format!(
                "the column `{name}` of type {data_type} cannot be written row by row: write it with \
             `emit.batch`"
            ),
            (_, EmitValue::Null) => {
                format!("null was written to the column `{name}`, which has no nulls")
            }
            (_, EmitValue::I64(value)) => {
                format!("{value} was written to the column `{name}` of type {data_type}")
            }
            (Builder::Whole(..), EmitValue::U64(value)) => {
                format!("{value} was written to the column `{name}` of type {data_type}")
            }
            (Builder::Bytes(_, Some(_)), EmitValue::Bytes(value)) => {
                let count = value.len();
                format!("{count} bytes were written to the column `{name}` of type {data_type}")
            }
            (Builder::Time(..), EmitValue::Time(_)) => format!(
                "a moment that its type cannot tell was written to the column `{name}` of type \
             {data_type}"
            ),
            (_, value) => {
                format!("{} was written to the column `{name}` of type {data_type}", value.kind())
            }
        },
    )
}
