//! A column of Arrow or Parquet in the type that the job names for it.
//!
//! ```text
//! column ─▶ plain layout ─┬─ the type holds every value ─▶ Arrow's cast
//!                         ├─ both are lists ─────────────▶ their elements, by the same ways
//!                         └─ else, value by value ───────▶ fitting values, and misfits
//! ```
//!
//! - A value fits as it would from JSON or CSV, or its record is bad: nothing is rounded, cut or
//!   counted in another unit.
//! - [`can_cast`] says before the first value if a type can become another at all.

use crate::batch_source::micros;
use crate::columns::{Columns, FieldValue, Shape, misfit};
use crate::layout::{exact, plain_array, plain_type};
use crate::number;
use crate::sink::{
    cell::{Dates, Moments},
    encode::json_options,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, ListArray, StringArray, cast::AsArray, new_empty_array,
    types::Int64Type,
};
use arrow_buffer::OffsetBuffer;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_json::{
    EncoderOptions,
    writer::{NullableEncoder, make_encoder},
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, TimeUnit};
use std::sync::Arc;

/// A value that does not fit its column.
pub(crate) struct Misfit {
    pub(crate) row: usize,
    pub(crate) reason: String,
    pub(crate) value: Vec<u8>,
}

/// Returns true if at least some values of a type can become values of another.
pub(crate) fn can_cast(from: &DataType, to: &DataType) -> bool {
    let from = plain_type(from);
    if holds(&from, to) {
        return true;
    }
    if let (Some(element), DataType::List(to)) = (element(&from), to) {
        let plain = DataType::List(Arc::clone(element));
        return arrow_cast::can_cast_types(&from, &plain)
            && can_cast(element.data_type(), to.data_type());
    }
    let is_time = matches!(from, DataType::Timestamp(_, _) | DataType::Date32 | DataType::Date64);
    let is_text = from == DataType::Utf8;
    match to {
        DataType::Boolean => is_text,
        DataType::Date32 => is_text || is_time,
        DataType::Timestamp(_, _) => is_text || is_time || from.is_numeric(),
        DataType::Utf8 => {
            is_time
                || matches!(from, DataType::Time32(_) | DataType::Time64(_) | DataType::Binary)
                || (from.is_nested() && has_json(&from))
        }
        to => to.is_numeric() && (is_text || from.is_numeric()),
    }
}

/// The column in the type of the field, with nulls for values that do not fit.
///
/// # Errors
/// [`can_cast`] is not true of the types, or it is more than fits a batch.
pub(crate) fn cast_column(
    column: &ArrayRef,
    field: &Field,
) -> Result<(ArrayRef, Vec<Misfit>), ArrowError> {
    let column = &plain_array(column)?;
    let (plain, to) = (column.data_type().clone(), field.data_type());
    if plain == *to {
        return Ok((Arc::clone(column), beyond_day(column, field)?));
    }
    if holds(&plain, to) {
        return Ok((exact(column, to)?, Vec::new()));
    }
    match (element(&plain), to) {
        (Some(from), DataType::List(to)) => {
            let lists = exact(column, &DataType::List(Arc::clone(from)))?;
            elements(lists.as_list(), field, to)
        }
        _ => values(column, field),
    }
}

/// Times of day beyond a day: no text format could hold them, so no sink could write them.
fn beyond_day(column: &ArrayRef, field: &Field) -> Result<Vec<Misfit>, ArrowError> {
    let per_day = match column.data_type() {
        DataType::Time32(TimeUnit::Second) => 86_400,
        DataType::Time32(_) => 86_400_000,
        DataType::Time64(TimeUnit::Microsecond) => 86_400_000_000,
        DataType::Time64(_) => 86_400_000_000_000,
        _ => return Ok(Vec::new()),
    };
    let numbers = match column.data_type() {
        DataType::Time32(_) => arrow_cast::cast(column, &DataType::Int32)?,
        _ => Arc::clone(column),
    };
    let numbers = arrow_cast::cast(&numbers, &DataType::Int64)?;
    let beyond = |(row, number): (usize, Option<i64>)| {
        let number = number.filter(|it| !(0..per_day).contains(it))?;
        let reason = format!("field `{}`: a time of day beyond the day", field.name());
        Some(Misfit { row, reason, value: number.to_string().into_bytes() })
    };
    Ok(numbers.as_primitive::<Int64Type>().iter().enumerate().filter_map(beyond).collect())
}

/// Returns true if a type has every value of another and Arrow's cast gives it.
fn holds(from: &DataType, to: &DataType) -> bool {
    if let (Some((bits, signed)), Some((more_bits, more_signed))) = (integer(from), integer(to)) {
        return bits < more_bits && (more_signed || !signed);
    }
    let bits = integer(from).map(|(bits, _)| bits);
    match (from, to) {
        (from, to) if from == to => true,
        (DataType::Null, _) => true,
        (DataType::Boolean, DataType::Utf8) | (DataType::Float16, DataType::Float32) => true,
        (DataType::Float16 | DataType::Float32, DataType::Float64) => true,
        (from, DataType::Utf8) => from.is_numeric(),
        (_, DataType::Float64) => bits.is_some_and(|bits| bits <= 32),
        (_, DataType::Float32) => bits.is_some_and(|bits| bits <= 16),
        _ => false,
    }
}

/// Bits of an integer, and whether it has a sign.
fn integer(data_type: &DataType) -> Option<(usize, bool)> {
    let bytes = data_type.primitive_width().filter(|_| data_type.is_integer())?;
    Some((bytes * 8, data_type.is_signed_integer()))
}

/// The element type of lists.
fn element(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => Some(element),
        _ => None,
    }
}

/// Returns true if values of a nested type can be written as JSON.
pub(crate) fn has_json(data_type: &DataType) -> bool {
    let field = Arc::new(Field::new("", data_type.clone(), true));
    make_encoder(&field, &*new_empty_array(data_type), &json_options()).is_ok()
}

/// Lists of other elements; a list is bad if one of them is.
fn elements(
    lists: &ListArray,
    field: &Field,
    element: &FieldRef,
) -> Result<(ArrayRef, Vec<Misfit>), ArrowError> {
    let offsets = lists.offsets();
    let (start, end) = (offsets[0] as usize, offsets[lists.len()] as usize);
    let named = Field::new(field.name(), element.data_type().clone(), true);
    let (values, misfits) = cast_column(&lists.values().slice(start, end - start), &named)?;
    let mut of_lists: Vec<Misfit> = Vec::new();
    for misfit in misfits {
        let at = (start + misfit.row) as i32;
        // The last list that begins at or before it: those before are shorter or empty.
        let row = offsets.partition_point(|offset| *offset <= at) - 1;
        if lists.is_valid(row) && of_lists.last().is_none_or(|last| last.row != row) {
            of_lists.push(Misfit { row, ..misfit });
        }
    }
    let lengths = offsets.windows(2).map(|pair| (pair[1] - pair[0]) as usize);
    let offsets = OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(Arc::clone(element), offsets, values, lists.nulls().cloned())?;
    Ok((Arc::new(lists), of_lists))
}

/// Value by value.
fn values(column: &ArrayRef, field: &Field) -> Result<(ArrayRef, Vec<Misfit>), ArrowError> {
    let source = Arc::new(Field::new(field.name(), column.data_type().clone(), true));
    let options = json_options();
    let mut texts = TextColumn::of(column, &source, field.data_type(), &options)?;
    let mut fitting = Columns::new(&Shape { fields: vec![field.clone()], time: None });
    let (mut misfits, mut text) = (Vec::new(), Vec::new());
    for row in 0..column.len() {
        text.clear();
        let fits = match column.is_null(row) {
            true => Ok(()),
            false => texts.write(row, &mut text).and_then(|()| match texts.value(row, &text) {
                value if is_rounded(value, column, field) => Err(misfit(field, value)),
                value => fitting.put(0, value),
            }),
        };
        if let Err(reason) = fits {
            fitting.undo_row();
            misfits.push(Misfit { row, reason, value: text.clone() });
        }
        fitting.end_row().map_err(ArrowError::CastError)?;
    }
    let (batch, _) = fitting.finish()?;
    Ok((Arc::clone(batch.column(0)), misfits))
}

/// Returns true if a float would differ from the number in the file. Fractions have no exact
/// float: only whole numbers are held to it, and all to the range.
fn is_rounded(value: FieldValue<'_>, column: &ArrayRef, field: &Field) -> bool {
    let (FieldValue::Number(text), to) = (value, field.data_type()) else { return false };
    let Some(float) = number::parse_float(text).filter(|_| to.is_floating()) else { return false };
    let kept = if *to == DataType::Float32 { f64::from(float as f32) } else { float };
    let whole = number::parse_int(text).filter(|_| column.data_type().is_integer());
    whole.is_some_and(|whole| kept as i128 != whole) || (float.is_finite() && kept.is_infinite())
}

/// The values of a column as a text format would have them.
struct TextColumn<'a> {
    field: &'a Field,
    kind: TextValues<'a>,
}

enum TextValues<'a> {
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    Micros(Vec<Option<i64>>),
    Moments(Moments<'a>),
    Dates(Dates<'a>),
    /// Integers, floats and decimals.
    Numbers(ArrayFormatter<'a>),
    /// Times of day.
    Times(ArrayFormatter<'a>),
    Json(NullableEncoder<'a>),
}

impl<'a> TextColumn<'a> {
    fn of(
        column: &'a ArrayRef,
        field: &'a FieldRef,
        to: &DataType,
        options: &'a EncoderOptions,
    ) -> Result<Self, ArrowError> {
        let formatter = || ArrayFormatter::try_new(column, &FormatOptions::default());
        let kind = match column.data_type() {
            DataType::Utf8 => TextValues::Text(column.as_string()),
            DataType::Binary => TextValues::Bytes(column.as_binary()),
            from if from.is_nested() => TextValues::Json(make_encoder(field, column, options)?),
            from if from.is_numeric() => TextValues::Numbers(formatter()?),
            _ => match (Moments::of(column), Dates::of(column)) {
                (Some(moments), _) if *to == DataType::Utf8 => TextValues::Moments(moments),
                (_, Some(dates)) if *to == DataType::Utf8 => TextValues::Dates(dates),
                (None, None) => TextValues::Times(formatter()?),
                _ => TextValues::Micros(micros(column)?),
            },
        };
        Ok(Self { field, kind })
    }

    /// Appends the text of a value that is not null.
    fn write(&mut self, row: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let bad = |why: &str| Err(format!("field `{}`: {why}", self.field.name()));
        match &mut self.kind {
            TextValues::Text(texts) => out.extend_from_slice(texts.value(row).as_bytes()),
            TextValues::Bytes(bytes) => {
                out.extend_from_slice(bytes.value(row));
                if std::str::from_utf8(out).is_err() {
                    return bad("bytes that are not UTF-8 are no text");
                }
            }
            TextValues::Micros(micros) => {
                if micros[row].is_none() {
                    return bad("a time so far away is none of the column's type");
                }
            }
            TextValues::Moments(moments) => moments.write(row, out),
            TextValues::Dates(dates) => dates.write(row, out),
            TextValues::Numbers(numbers) => {
                out.extend_from_slice(numbers.value(row).to_string().as_bytes());
            }
            TextValues::Times(times) => match times.value(row).try_to_string() {
                Ok(text) => out.extend_from_slice(text.as_bytes()),
                Err(_) => return bad("a time of day beyond the day has no text"),
            },
            TextValues::Json(json) => json.encode(row, out),
        }
        Ok(())
    }

    /// The value with the text that was written.
    fn value<'b>(&self, row: usize, text: &'b [u8]) -> FieldValue<'b> {
        match &self.kind {
            TextValues::Micros(micros) => micros[row].map_or(FieldValue::Null, FieldValue::Micros),
            TextValues::Numbers(_) if self.field.data_type().is_decimal() => {
                FieldValue::Number(without_zeros(text))
            }
            TextValues::Numbers(_) => FieldValue::Number(text),
            TextValues::Json(_) => FieldValue::Nested(text),
            _ => FieldValue::Text(text),
        }
    }
}

/// A decimal without zeros at its end: a whole one is an integer's text.
fn without_zeros(text: &[u8]) -> &[u8] {
    if !text.contains(&b'.') {
        return text;
    }
    let digits = text.iter().rposition(|it| *it != b'0').map_or(0, |last| last + 1);
    text[..digits].strip_suffix(b".").unwrap_or(&text[..digits])
}

#[cfg(test)]
mod tests;
