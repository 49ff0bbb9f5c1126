//! Lists and objects: a column of JSON, one value a line, as Arrow has it.
//!
//! Arrow's reader cuts a number with a fraction to a whole one where the type is whole; such a value
//! is none of the column here, as it is none of a column that is no list and no object. Moments and
//! days are read here and not by it (`times.rs`).

use super::column::Misfits;
use super::times::{counted, has_times, numbered};
use arrow_array::{ArrayRef, new_empty_array};
use arrow_cast::cast;
use arrow_json::ReaderBuilder;
use arrow_schema::{ArrowError, DataType, Field};
use serde_json::{Number, Value};
use std::sync::Arc;

/// Whole numbers below this are the same as floats.
const EXACT_BELOW: f64 = 9_007_199_254_740_992.0;

/// Lists and objects. If some do not fit, each row is tried on its own: the bad ones become null.
pub(super) fn decode_nested(
    field: &Field,
    json: &[u8],
    ends: &[usize],
) -> Result<(ArrayRef, Misfits), ArrowError> {
    if ends.is_empty() {
        return Ok((new_empty_array(field.data_type()), Vec::new()));
    }
    if has_times(field.data_type()) {
        let (json, ends, mut misfits) = with_numbers(field, json, ends);
        let numbers = Field::new(field.name(), counted(field.data_type()), true);
        let (array, more) = decode_timeless(&numbers, &json, &ends)?;
        misfits.extend(more);
        misfits.sort();
        return Ok((cast(&array, field.data_type())?, misfits));
    }
    decode_timeless(field, json, ends)
}

/// Lines whose moments and days are numbers; those of which some are none become null.
fn with_numbers(field: &Field, json: &[u8], ends: &[usize]) -> (Vec<u8>, Vec<usize>, Misfits) {
    let mut out = Vec::with_capacity(json.len());
    let (mut out_ends, mut misfits) = (Vec::with_capacity(ends.len()), Misfits::new());
    let mut start = 0;
    for (row, end) in ends.iter().enumerate() {
        let begun = out.len();
        if let Err(reason) = numbered(field.data_type(), &json[start..*end], &mut out) {
            misfits.push((row, reason));
            out.truncate(begun);
            out.extend_from_slice(b"null");
        }
        out.push(b'\n');
        out_ends.push(out.len());
        start = *end;
    }
    (out, out_ends, misfits)
}

fn decode_timeless(
    field: &Field,
    json: &[u8],
    ends: &[usize],
) -> Result<(ArrayRef, Misfits), ArrowError> {
    let has_whole = has_whole(field.data_type());
    if !(has_whole && may_have_fractions(json))
        && let Ok(array) = decode_lines(field, json, ends.len())
    {
        return Ok((array, Vec::new()));
    }
    let mut fitting = Vec::with_capacity(json.len());
    let mut misfits = Vec::new();
    let mut start = 0;
    for (row, end) in ends.iter().enumerate() {
        let line = &json[start..*end];
        let cut = if has_whole { cut_number(field.data_type(), line) } else { None };
        let wrong = match cut {
            Some(number) => Some(format!("{number} is not a whole number")),
            None => decode_lines(field, line, 1).err().map(|error| error.to_string()),
        };
        match wrong {
            None => fitting.extend_from_slice(line),
            Some(reason) => {
                misfits.push((row, reason));
                fitting.extend_from_slice(b"null\n");
            }
        }
        start = *end;
    }
    Ok((decode_lines(field, &fitting, ends.len())?, misfits))
}

fn decode_lines(field: &Field, json: &[u8], rows: usize) -> Result<ArrayRef, ArrowError> {
    let mut decoder =
        ReaderBuilder::new_with_field(Field::new("", field.data_type().clone(), true))
            .with_batch_size(rows)
            .with_coerce_primitive(true)
            .build_decoder()?;
    let read = decoder.decode(json)?;
    match decoder.flush()? {
        Some(batch) if read == json.len() && batch.num_rows() == rows => {
            Ok(Arc::clone(batch.column(0)))
        }
        _ => Err(ArrowError::JsonError("the values are not one a line".to_owned())),
    }
}

/// Whether some of a value may be whole numbers only.
fn has_whole(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(element) => has_whole(element.data_type()),
        DataType::Struct(fields) => fields.iter().any(|it| has_whole(it.data_type())),
        data_type => data_type.is_integer(),
    }
}

/// Whether there is what a fraction or an exponent begins with. It may stand in a text.
fn may_have_fractions(json: &[u8]) -> bool {
    let mut found = memchr::memchr3_iter(b'.', b'e', b'E', json);
    found.any(|at| at > 0 && json[at - 1].is_ascii_digit())
}

/// A number of the value that would be cut to be a whole one.
fn cut_number(data_type: &DataType, line: &[u8]) -> Option<Number> {
    if !may_have_fractions(line) {
        return None;
    }
    // What is no JSON is refused by whoever reads it next.
    cut_within(data_type, &serde_json::from_slice(line).ok()?)
}

fn cut_within(data_type: &DataType, value: &Value) -> Option<Number> {
    match (data_type, value) {
        (DataType::List(element), Value::Array(items)) => {
            items.iter().find_map(|it| cut_within(element.data_type(), it))
        }
        (DataType::Struct(fields), Value::Object(object)) => fields.iter().find_map(|field| {
            object.get(field.name()).and_then(|it| cut_within(field.data_type(), it))
        }),
        (data_type, Value::Number(number)) if data_type.is_integer() => {
            let is_whole = number.is_i64()
                || number.is_u64()
                || number.as_f64().is_some_and(|it| it.fract() == 0.0 && it.abs() < EXACT_BELOW);
            (!is_whole).then(|| number.clone())
        }
        _ => None,
    }
}
