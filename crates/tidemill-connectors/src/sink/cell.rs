//! One column's values as text, for CSV and text files and for times in JSON.

use crate::moment;
use arrow_array::{
    Array, ArrayRef, PrimitiveArray, StringArray,
    cast::AsArray,
    types::{
        Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    },
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use std::io::Write;

/// A column of moments, with the number of its units in a second.
pub(crate) struct Moments<'a> {
    values: &'a [i64],
    per_second: i64,
}

impl<'a> Moments<'a> {
    /// The moments of a column, if it holds any.
    pub(crate) fn of(column: &'a dyn Array) -> Option<Self> {
        let DataType::Timestamp(unit, _) = column.data_type() else { return None };
        let (values, per_second): (&[i64], i64) = match unit {
            TimeUnit::Second => (column.as_primitive::<TimestampSecondType>().values(), 1),
            TimeUnit::Millisecond => {
                (column.as_primitive::<TimestampMillisecondType>().values(), 1_000)
            }
            TimeUnit::Microsecond => {
                (column.as_primitive::<TimestampMicrosecondType>().values(), 1_000_000)
            }
            TimeUnit::Nanosecond => {
                (column.as_primitive::<TimestampNanosecondType>().values(), 1_000_000_000)
            }
        };
        Some(Self { values, per_second })
    }

    /// Appends a moment as RFC 3339.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) {
        moment::write(self.values[row], self.per_second, out);
    }
}

/// A column whose values can be written as text.
pub(crate) struct Cell<'a> {
    column: &'a ArrayRef,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Text(&'a StringArray),
    Bytes(&'a arrow_array::BinaryArray),
    Int(&'a PrimitiveArray<Int64Type>),
    Moments(Moments<'a>),
    Other(ArrayFormatter<'a>),
}

impl<'a> Cell<'a> {
    pub(crate) fn new(
        column: &'a ArrayRef,
        options: &FormatOptions<'a>,
    ) -> Result<Self, ArrowError> {
        let kind = match column.data_type() {
            DataType::Utf8 => Kind::Text(column.as_string()),
            DataType::Binary => Kind::Bytes(column.as_binary()),
            DataType::Int64 => Kind::Int(column.as_primitive()),
            _ => match Moments::of(column) {
                Some(moments) => Kind::Moments(moments),
                None => Kind::Other(ArrayFormatter::try_new(column, options)?),
            },
        };
        Ok(Self { column, kind })
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.column.is_null(row)
    }

    /// Appends the text of a value that is not null.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) {
        match &self.kind {
            Kind::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Kind::Bytes(values) => out.extend_from_slice(values.value(row)),
            Kind::Moments(moments) => moments.write(row, out),
            Kind::Int(values) => write!(out, "{}", values.value(row)).expect("memory takes all"),
            Kind::Other(values) => write!(out, "{}", values.value(row)).expect("memory takes all"),
        }
    }
}
