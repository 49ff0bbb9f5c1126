//! One column's values as text, for CSV and text files and for times in JSON.
//!
//! A value that cannot be written is an error and never a text about it.

use crate::timestamp_text;
use arrow_array::{
    Array, ArrayRef, PrimitiveArray, StringArray,
    cast::AsArray,
    types::{
        Date32Type, Date64Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampNanosecondType, TimestampSecondType,
    },
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_json::{
    EncoderOptions,
    writer::{NullableEncoder, make_encoder},
};
use arrow_schema::{ArrowError, DataType, FieldRef, TimeUnit};
use std::{cell::RefCell, fmt, io::Write};

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
        timestamp_text::write(self.values[row], self.per_second, out);
    }
}

/// A column of dates: any day that it can hold has a text.
pub(crate) enum Dates<'a> {
    Days(&'a [i32]),
    /// With the time of the day.
    Millis(&'a [i64]),
}

impl<'a> Dates<'a> {
    /// The dates of a column, if it holds any.
    pub(crate) fn of(column: &'a dyn Array) -> Option<Self> {
        match column.data_type() {
            DataType::Date32 => Some(Self::Days(column.as_primitive::<Date32Type>().values())),
            DataType::Date64 => Some(Self::Millis(column.as_primitive::<Date64Type>().values())),
            _ => None,
        }
    }

    /// Appends a date in ISO 8601, or, with the time of the day, as other moments are.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Days(days) => timestamp_text::write_date(i64::from(days[row]), out),
            Self::Millis(millis) => timestamp_text::write(millis[row], 1_000, out),
        }
    }
}

/// A column whose values can be written as text.
pub(crate) struct Cell<'a> {
    column: &'a ArrayRef,
    kind: CellValues<'a>,
}

enum CellValues<'a> {
    Text(&'a StringArray),
    Bytes(&'a arrow_array::BinaryArray),
    Int(&'a PrimitiveArray<Int64Type>),
    Moments(Moments<'a>),
    Dates(Dates<'a>),
    /// Lists and objects.
    Json(RefCell<NullableEncoder<'a>>),
    Other(ArrayFormatter<'a>),
}

/// Appends bytes as the text that they are, else as `\x` and hexadecimal digits: whatever else were
/// written could not be read, or be other bytes.
pub(crate) fn bytes_as_text(bytes: &[u8], out: &mut Vec<u8>) {
    if std::str::from_utf8(bytes).is_ok() {
        out.extend_from_slice(bytes);
        return;
    }
    out.extend_from_slice(b"\\x");
    for byte in bytes {
        write!(out, "{byte:02x}").expect("memory takes all");
    }
}

/// Memory as the formatter of other values wants it.
struct Memory<'a>(&'a mut Vec<u8>);

impl fmt::Write for Memory<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

impl<'a> Cell<'a> {
    /// Lists and objects as JSON, as these options have it; any other column as [`new`](Self::new).
    ///
    /// # Errors
    /// Values of the type have no text.
    pub(crate) fn or_json(
        column: &'a ArrayRef,
        field: &'a FieldRef,
        options: &'a EncoderOptions,
    ) -> Result<Self, ArrowError> {
        if !column.data_type().is_nested() {
            return Self::new(column);
        }
        let encoder = make_encoder(field, column, options)?;
        Ok(Self { column, kind: CellValues::Json(RefCell::new(encoder)) })
    }

    pub(crate) fn new(column: &'a ArrayRef) -> Result<Self, ArrowError> {
        let kind = match column.data_type() {
            DataType::Utf8 => CellValues::Text(column.as_string()),
            DataType::Binary => CellValues::Bytes(column.as_binary()),
            DataType::Int64 => CellValues::Int(column.as_primitive()),
            _ => match (Moments::of(column), Dates::of(column)) {
                (Some(moments), _) => CellValues::Moments(moments),
                (_, Some(dates)) => CellValues::Dates(dates),
                _ => CellValues::Other(ArrayFormatter::try_new(column, &FormatOptions::default())?),
            },
        };
        Ok(Self { column, kind })
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        // A column without a type of values has no bits that say so.
        self.column.is_null(row) || *self.column.data_type() == DataType::Null
    }

    /// The bytes of a value that is not null, if it is made of any.
    pub(crate) fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        match &self.kind {
            CellValues::Bytes(values) => Some(values.value(row)),
            _ => None,
        }
    }

    /// Appends the text of a value that is not null.
    ///
    /// # Errors
    /// It has no text, such as a time of day beyond the day.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        match &self.kind {
            CellValues::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            CellValues::Bytes(values) => bytes_as_text(values.value(row), out),
            CellValues::Moments(moments) => moments.write(row, out),
            CellValues::Dates(dates) => dates.write(row, out),
            CellValues::Int(values) => {
                write!(out, "{}", values.value(row)).expect("memory takes all")
            }
            CellValues::Json(values) => values.borrow_mut().encode(row, out),
            CellValues::Other(values) => return values.value(row).write(&mut Memory(out)),
        }
        Ok(())
    }
}
