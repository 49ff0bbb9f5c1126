//! One column under way: values, and which of them are null.

use super::nested::decode_nested;
use crate::json::scan::Scanner;
use crate::{number, timestamp_text};
use arrow_array::{
    ArrayRef, BooleanArray, Date32Array, Float32Array, Float64Array, Int8Array, Int16Array,
    Int32Array, Int64Array, StringArray, TimestampMicrosecondArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array,
};
use arrow_buffer::{
    BooleanBufferBuilder, Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer,
};
use arrow_schema::{ArrowError, DataType, Field};
use std::io::Write;
use std::sync::Arc;
use tidemill_types::Micros;

/// A value as a format writes it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldValue<'a> {
    Null,
    Bool(bool),
    /// A number's text, as JSON writes numbers.
    Number(&'a [u8]),
    Text(&'a [u8]),
    /// A list or an object, as JSON.
    Nested(&'a [u8]),
    /// A moment.
    Micros(i64),
}

/// Rows that turned out bad, and why.
pub(super) type Misfits = Vec<(usize, String)>;

pub(super) struct ColumnBuilder {
    values: ValueBuilder,
    nulls: NullBufferBuilder,
}

enum ValueBuilder {
    /// All signed integers, dates and moments.
    Int {
        kind: IntKind,
        values: Vec<i64>,
    },
    Unsigned {
        max: u64,
        values: Vec<u64>,
    },
    Float {
        kind: FloatKind,
        values: Vec<f64>,
    },
    Bool(BooleanBufferBuilder),
    Text {
        bytes: Vec<u8>,
        ends: Vec<i32>,
    },
    /// JSON text, one value a line.
    Nested {
        json: Vec<u8>,
        ends: Vec<usize>,
    },
}

#[derive(Clone, Copy)]
enum FloatKind {
    Single,
    Double,
}

#[derive(Clone, Copy)]
enum IntKind {
    Number { min: i64, max: i64 },
    Date,
    Moment,
}

fn int(min: i64, max: i64) -> ValueBuilder {
    ValueBuilder::Int { kind: IntKind::Number { min, max }, values: Vec::new() }
}

impl ColumnBuilder {
    pub(super) fn new(data_type: &DataType) -> Self {
        let unsigned = |max| ValueBuilder::Unsigned { max, values: Vec::new() };
        let values = match data_type {
            DataType::Int8 => int(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => int(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => int(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => int(i64::MIN, i64::MAX),
            DataType::UInt8 => unsigned(u8::MAX.into()),
            DataType::UInt16 => unsigned(u16::MAX.into()),
            DataType::UInt32 => unsigned(u32::MAX.into()),
            DataType::UInt64 => unsigned(u64::MAX),
            DataType::Float32 => {
                ValueBuilder::Float { kind: FloatKind::Single, values: Vec::new() }
            }
            DataType::Float64 => {
                ValueBuilder::Float { kind: FloatKind::Double, values: Vec::new() }
            }
            DataType::Boolean => ValueBuilder::Bool(BooleanBufferBuilder::new(0)),
            DataType::Date32 => ValueBuilder::Int { kind: IntKind::Date, values: Vec::new() },
            DataType::Timestamp(_, _) => {
                ValueBuilder::Int { kind: IntKind::Moment, values: Vec::new() }
            }
            DataType::Utf8 => ValueBuilder::Text { bytes: Vec::new(), ends: vec![0] },
            _ => ValueBuilder::Nested { json: Vec::new(), ends: Vec::new() },
        };
        Self { values, nulls: NullBufferBuilder::new(0) }
    }

    pub(super) fn len(&self) -> usize {
        self.nulls.len()
    }

    pub(super) fn is_text(&self) -> bool {
        matches!(self.values, ValueBuilder::Text { .. })
    }

    /// The last value of a column of moments; none if it is null.
    #[inline]
    pub(super) fn last_moment(&self) -> Option<Micros> {
        let last = self.nulls.len().checked_sub(1).filter(|last| self.nulls.is_valid(*last));
        match &self.values {
            ValueBuilder::Int { kind: IntKind::Moment, values } => {
                last.and_then(|last| values.get(last).copied().map(Micros))
            }
            _ => None,
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        if self.len() <= len {
            return;
        }
        self.nulls.truncate(len);
        match &mut self.values {
            ValueBuilder::Int { values, .. } => values.truncate(len),
            ValueBuilder::Unsigned { values, .. } => values.truncate(len),
            ValueBuilder::Float { values, .. } => values.truncate(len),
            ValueBuilder::Bool(values) => values.truncate(len),
            ValueBuilder::Text { bytes, ends } => {
                ends.truncate(len + 1);
                bytes.truncate(ends[len] as usize);
            }
            ValueBuilder::Nested { json, ends } => {
                ends.truncate(len);
                json.truncate(ends.last().copied().unwrap_or(0));
            }
        }
    }

    pub(super) fn put_null(&mut self) {
        match &mut self.values {
            ValueBuilder::Int { values, .. } => values.push(0),
            ValueBuilder::Unsigned { values, .. } => values.push(0),
            ValueBuilder::Float { values, .. } => values.push(0.0),
            ValueBuilder::Bool(values) => values.append(false),
            ValueBuilder::Text { bytes, ends } => ends.push(bytes.len() as i32),
            ValueBuilder::Nested { json, ends } => {
                json.extend_from_slice(b"null\n");
                ends.push(json.len());
            }
        }
        self.nulls.append_null();
    }

    /// Appends the value to the column and returns true if it fits.
    #[inline]
    pub(super) fn put(&mut self, value: FieldValue<'_>) -> bool {
        if let FieldValue::Null = value {
            self.put_null();
            return true;
        }
        let fits = match &mut self.values {
            ValueBuilder::Int { kind, values } => kind.read(value).map(|it| values.push(it)),
            ValueBuilder::Unsigned { max, values } => {
                unsigned(value, *max).map(|it| values.push(it))
            }
            ValueBuilder::Float { kind, values } => kind.read(value).map(|it| values.push(it)),
            ValueBuilder::Bool(values) => boolean(value).map(|it| values.append(it)),
            ValueBuilder::Text { bytes, ends } => text(value).and_then(|text| {
                let end = i32::try_from(bytes.len() + text.len()).ok()?;
                bytes.extend_from_slice(text);
                ends.push(end);
                Some(())
            }),
            ValueBuilder::Nested { json, ends } => nested(value).map(|text| {
                json.extend_from_slice(text);
                json.push(b'\n');
                ends.push(json.len());
            }),
        };
        if fits.is_some() {
            self.nulls.append_non_null();
        }
        fits.is_some()
    }

    /// The column as an array, and the rows that do not fit. It is empty afterwards, with room for
    /// as much again.
    pub(super) fn finish(&mut self, field: &Field) -> Result<(ArrayRef, Misfits), ArrowError> {
        let nulls = self.nulls.finish();
        let rows: ArrayRef = match &mut self.values {
            ValueBuilder::Nested { json, ends } => {
                let (json, ends) = (std::mem::take(json), std::mem::take(ends));
                return decode_nested(field, &json, &ends);
            }
            ValueBuilder::Text { bytes, ends } => {
                let taken = renew(ends);
                ends.push(0);
                let offsets = OffsetBuffer::new(ScalarBuffer::from(taken));
                let bytes = Buffer::from_vec(renew(bytes));
                Arc::new(StringArray::try_new(offsets, bytes, nulls)?)
            }
            ValueBuilder::Bool(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            ValueBuilder::Float { values, .. } => floats(field.data_type(), renew(values), nulls),
            ValueBuilder::Unsigned { values, .. } => {
                unsigned_array(field.data_type(), renew(values), nulls)
            }
            ValueBuilder::Int { values, .. } => {
                signed_array(field.data_type(), renew(values), nulls)
            }
        };
        Ok((rows, Vec::new()))
    }
}

/// Takes the values and leaves an empty vector of the same capacity.
fn renew<T>(values: &mut Vec<T>) -> Vec<T> {
    let room = Vec::with_capacity(values.len() + values.len() / 16);
    std::mem::replace(values, room)
}

/// Appends a value as JSON that Arrow's reader reads as a column of this type reads the value;
/// moments and days as the numbers that the column counts in. None if it does not fit.
pub(super) fn write_json(
    data_type: &DataType,
    value: FieldValue<'_>,
    out: &mut Vec<u8>,
) -> Option<()> {
    match (ColumnBuilder::new(data_type).values, value) {
        (ValueBuilder::Int { kind, .. }, _) => write!(out, "{}", kind.read(value)?).ok(),
        (ValueBuilder::Unsigned { max, .. }, _) => write!(out, "{}", unsigned(value, max)?).ok(),
        (ValueBuilder::Float { kind, .. }, FieldValue::Text(text)) => {
            // In quotes it is read too, also if JSON has no such number.
            kind.read(value)?;
            serde_json::to_writer(out, std::str::from_utf8(text.trim_ascii()).ok()?).ok()
        }
        (ValueBuilder::Float { kind, .. }, FieldValue::Number(text)) => {
            kind.read(value)?;
            out.extend_from_slice(text);
            Some(())
        }
        (ValueBuilder::Bool(_), _) => write!(out, "{}", boolean(value)?).ok(),
        (ValueBuilder::Text { .. }, _) => {
            serde_json::to_writer(out, std::str::from_utf8(text(value)?).ok()?).ok()
        }
        (ValueBuilder::Float { .. } | ValueBuilder::Nested { .. }, _) => None,
    }
}

impl IntKind {
    #[inline]
    fn read(self, value: FieldValue<'_>) -> Option<i64> {
        match self {
            Self::Number { min, max } => {
                let number = match value {
                    FieldValue::Number(text) => number::parse_int_or_whole(text)?,
                    FieldValue::Text(text) => number::parse_int_or_whole(text.trim_ascii())?,
                    _ => return None,
                };
                i64::try_from(number).ok().filter(|it| (min..=max).contains(it))
            }
            Self::Date => match value {
                FieldValue::Text(text) => {
                    timestamp_text::parse_date(text.trim_ascii()).map(i64::from)
                }
                FieldValue::Micros(micros) => Some(micros.div_euclid(86_400_000_000)),
                _ => None,
            },
            Self::Moment => match value {
                // Eight digits are a date, any other run of digits is milliseconds.
                FieldValue::Text(text) if text.len() != 8 => {
                    epoch_millis(text).or_else(|| timestamp_text::parse(text))
                }
                FieldValue::Text(text) => timestamp_text::parse(text),
                FieldValue::Number(text) => epoch_millis(text),
                FieldValue::Micros(micros) => Some(micros),
                _ => None,
            },
        }
    }
}

/// Microseconds of epoch milliseconds.
fn epoch_millis(text: &[u8]) -> Option<i64> {
    let text = text.trim_ascii();
    match number::parse_int(text) {
        Some(millis) => i64::try_from(millis * 1_000).ok(),
        None => micros_of_millis(number::parse_float(text)?),
    }
}

/// Microseconds of epoch milliseconds with a fraction, rounded.
pub(crate) fn micros_of_millis(millis: f64) -> Option<i64> {
    let micros = (millis * 1_000.0).round();
    (micros.abs() < 9.2e18).then_some(micros as i64)
}

fn unsigned(value: FieldValue<'_>, max: u64) -> Option<u64> {
    let number = match value {
        FieldValue::Number(text) => number::parse_int_or_whole(text)?,
        FieldValue::Text(text) => number::parse_int_or_whole(text.trim_ascii())?,
        _ => return None,
    };
    u64::try_from(number).ok().filter(|it| *it <= max)
}

impl FloatKind {
    #[inline]
    fn read(self, value: FieldValue<'_>) -> Option<f64> {
        let text = match value {
            FieldValue::Number(text) => text,
            FieldValue::Text(text) => text.trim_ascii(),
            _ => return None,
        };
        let float = number::parse_float(text)?;
        let is_infinite = match self {
            Self::Single => (float as f32).is_infinite(),
            Self::Double => float.is_infinite(),
        };
        // The word is infinite; digits are a number that is beyond the type.
        let is_beyond = is_infinite && text.iter().any(u8::is_ascii_digit);
        (!is_beyond).then_some(float)
    }
}

fn boolean(value: FieldValue<'_>) -> Option<bool> {
    match value {
        FieldValue::Bool(value) => Some(value),
        FieldValue::Text(text) => parse_bool(text.trim_ascii()),
        _ => None,
    }
}

/// `true` or `false`, in any case.
pub(crate) fn parse_bool(text: &[u8]) -> Option<bool> {
    if text.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if text.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}

/// Every value has a text; that of a list or an object is its JSON.
fn text(value: FieldValue<'_>) -> Option<&[u8]> {
    match value {
        FieldValue::Text(text) | FieldValue::Number(text) | FieldValue::Nested(text) => Some(text),
        FieldValue::Bool(true) => Some(b"true"),
        FieldValue::Bool(false) => Some(b"false"),
        FieldValue::Null | FieldValue::Micros(_) => None,
    }
}

fn nested(value: FieldValue<'_>) -> Option<&[u8]> {
    match value {
        FieldValue::Nested(text) => Some(text),
        // Of a format that has nothing else, such as CSV. Nobody has looked at it yet.
        FieldValue::Text(text) => {
            let mut scanner = Scanner::new(text);
            let is_nested = matches!(scanner.begins(), Some(b'[' | b'{'));
            let is_whole = is_nested
                && scanner.raw(&mut Vec::new()).is_ok()
                && scanner.end().is_ok()
                && std::str::from_utf8(text).is_ok();
            is_whole.then_some(text)
        }
        _ => None,
    }
}

fn signed_array(data_type: &DataType, values: Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
    // `put` has checked the bounds, so that no conversion here cuts anything.
    macro_rules! narrow {
        ($array:ty, $native:ty) => {
            Arc::new(<$array>::new(values.iter().map(|it| *it as $native).collect(), nulls))
        };
    }
    match data_type {
        DataType::Int8 => narrow!(Int8Array, i8),
        DataType::Int16 => narrow!(Int16Array, i16),
        DataType::Int32 => narrow!(Int32Array, i32),
        DataType::Date32 => narrow!(Date32Array, i32),
        DataType::Timestamp(_, _) => {
            Arc::new(TimestampMicrosecondArray::new(values.into(), nulls).with_timezone("UTC"))
        }
        _ => Arc::new(Int64Array::new(values.into(), nulls)),
    }
}

fn unsigned_array(data_type: &DataType, values: Vec<u64>, nulls: Option<NullBuffer>) -> ArrayRef {
    macro_rules! narrow {
        ($array:ty, $native:ty) => {
            Arc::new(<$array>::new(values.iter().map(|it| *it as $native).collect(), nulls))
        };
    }
    match data_type {
        DataType::UInt8 => narrow!(UInt8Array, u8),
        DataType::UInt16 => narrow!(UInt16Array, u16),
        DataType::UInt32 => narrow!(UInt32Array, u32),
        _ => Arc::new(UInt64Array::new(values.into(), nulls)),
    }
}

/// Infinite values come from words, because `put` has checked the numbers.
fn floats(data_type: &DataType, values: Vec<f64>, nulls: Option<NullBuffer>) -> ArrayRef {
    match data_type {
        DataType::Float32 => {
            Arc::new(Float32Array::new(values.iter().map(|it| *it as f32).collect(), nulls))
        }
        _ => Arc::new(Float64Array::new(values.into(), nulls)),
    }
}
