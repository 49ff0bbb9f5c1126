//! Lists and objects: a column of JSON, one value a line, as Arrow has it.
//!
//! ```text
//! lines ─ values that Arrow's reader reads by our rules ─────▶ Arrow's reader ─▶ array
//!      └─ all else ─▶ rewritten (`elements.rs`) ─▶ Arrow's reader ─▶ array, and rows that do not fit
//! ```
//!
//! Arrow's reader cuts a number with a fraction to a whole one where the type is whole, and makes one
//! that is beyond a float infinite; such a value is none of the column here, as it is none of a
//! column that is no list and no object.

use super::column::Misfits;
use super::elements::{counted, has_times, rewrite};
use crate::error::arrow_reason;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, new_empty_array};
use arrow_cast::cast;
use arrow_json::ReaderBuilder;
use arrow_schema::{ArrowError, DataType, Field};
use std::sync::Arc;

/// Lists and objects, and the rows that do not fit, which are null.
pub(super) fn decode_nested(
    field: &Field,
    json: &[u8],
    ends: &[usize],
) -> Result<(ArrayRef, Misfits), ArrowError> {
    let data_type = field.data_type();
    if ends.is_empty() {
        return Ok((new_empty_array(data_type), Vec::new()));
    }
    if let Some(array) = decode_as_written(data_type, json, ends.len()) {
        return Ok((array, Vec::new()));
    }
    let (json, ends, mut misfits) = rewritten(data_type, json, ends);
    let numbers = counted(data_type);
    let array = match decode_lines(&numbers, &json, ends.len()) {
        Ok(array) => array,
        Err(_) => {
            let (array, more) = decode_each(&numbers, &json, &ends)?;
            misfits.extend(more);
            misfits.sort();
            array
        }
    };
    Ok((cast(&array, data_type)?, misfits))
}

/// The lines as they are, if Arrow's reader reads them all, and as our rules say.
fn decode_as_written(data_type: &DataType, json: &[u8], rows: usize) -> Option<ArrayRef> {
    if has_times(data_type) || has_whole(data_type) && may_have_fractions(json) {
        return None;
    }
    let array = decode_lines(data_type, json, rows).ok()?;
    // It may have been a word, which is infinite, or a number, which does not fit.
    (!has_infinite(&array)).then_some(array)
}

/// Lines for Arrow's reader; those that do not fit become null.
fn rewritten(data_type: &DataType, json: &[u8], ends: &[usize]) -> (Vec<u8>, Vec<usize>, Misfits) {
    let mut out = Vec::with_capacity(json.len());
    let (mut out_ends, mut misfits) = (Vec::with_capacity(ends.len()), Misfits::new());
    let mut start = 0;
    for (row, end) in ends.iter().enumerate() {
        let begun = out.len();
        if let Err(reason) = rewrite(data_type, &json[start..*end], &mut out) {
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

/// Lines of which Arrow's reader does not take all, such as text that is not UTF-8: each is tried on
/// its own, and the bad ones become null.
fn decode_each(
    data_type: &DataType,
    json: &[u8],
    ends: &[usize],
) -> Result<(ArrayRef, Misfits), ArrowError> {
    let mut fitting = Vec::with_capacity(json.len());
    let mut misfits = Vec::new();
    let mut start = 0;
    for (row, end) in ends.iter().enumerate() {
        let line = &json[start..*end];
        match decode_lines(data_type, line, 1) {
            Ok(_) => fitting.extend_from_slice(line),
            Err(error) => {
                misfits.push((row, arrow_reason(error)));
                fitting.extend_from_slice(b"null\n");
            }
        }
        start = *end;
    }
    Ok((decode_lines(data_type, &fitting, ends.len())?, misfits))
}

fn decode_lines(data_type: &DataType, json: &[u8], rows: usize) -> Result<ArrayRef, ArrowError> {
    let mut decoder = ReaderBuilder::new_with_field(Field::new("", data_type.clone(), true))
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

/// Returns true if a value may contain whole numbers only.
fn has_whole(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(element) => has_whole(element.data_type()),
        DataType::Struct(fields) => fields.iter().any(|it| has_whole(it.data_type())),
        data_type => data_type.is_integer(),
    }
}

/// Returns true if there is a sign that begins a fraction or an exponent. It may stand in a text.
fn may_have_fractions(json: &[u8]) -> bool {
    let mut found = memchr::memchr3_iter(b'.', b'e', b'E', json);
    found.any(|at| at > 0 && json[at - 1].is_ascii_digit())
}

/// Returns true if a float within is infinite.
fn has_infinite(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::List(_) => has_infinite(array.as_list::<i32>().values()),
        DataType::Struct(_) => array.as_struct().columns().iter().any(has_infinite),
        DataType::Float32 => {
            array.as_primitive::<Float32Type>().values().iter().any(|it| it.is_infinite())
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().values().iter().any(|it| it.is_infinite())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
