//! Moments and days within lists and objects, read as those of a column that is none.
//!
//! ```text
//! [1000, "1970-01-01T00:00:01Z"] ─▶ [1000000,1000000] ─▶ Arrow's reader ─▶ moments
//! ```
//!
//! Arrow's reader takes a number for microseconds or days, and knows fewer texts: it is given the
//! numbers that it counts in. All else is copied as it is written; fields that no column has are left
//! out.

use super::column::{Value, time_of};
use crate::column_type;
use crate::json::scan::{Scanner, Token};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use std::sync::Arc;

/// Whether some of a value may be moments or days.
pub(super) fn has_times(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(element) => has_times(element.data_type()),
        DataType::Struct(fields) => fields.iter().any(|it| has_times(it.data_type())),
        data_type => is_time(data_type),
    }
}

fn is_time(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(_, _) | DataType::Date32)
}

/// A type with the numbers that moments and days are counted in.
pub(super) fn counted(data_type: &DataType) -> DataType {
    let of = |field: &FieldRef| -> FieldRef {
        let data_type = counted(field.data_type());
        Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
    };
    match data_type {
        DataType::List(element) => DataType::List(of(element)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of).collect()),
        DataType::Timestamp(_, _) => DataType::Int64,
        DataType::Date32 => DataType::Int32,
        other => other.clone(),
    }
}

/// Appends a value with its moments and days as numbers.
///
/// # Errors
/// One of them is none.
pub(super) fn numbered(data_type: &DataType, json: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    value(data_type, &mut Scanner::new(json), out, &mut Vec::new())
}

fn value(
    data_type: &DataType,
    scanner: &mut Scanner<'_>,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Result<(), String> {
    match (data_type, scanner.begins()) {
        (DataType::List(element), Some(b'[')) if has_times(data_type) => {
            out.push(b'[');
            let mut more = scanner.open_list()?;
            while more {
                value(element.data_type(), scanner, out, scratch)?;
                more = scanner.next_in_list()?;
                if more {
                    out.push(b',');
                }
            }
            out.push(b']');
            Ok(())
        }
        (DataType::Struct(fields), Some(b'{')) if has_times(data_type) => {
            object(fields, scanner, out, scratch)
        }
        (data_type, _) if is_time(data_type) => time(data_type, scanner, out, scratch),
        // What does not fit is refused by whoever reads it next.
        _ => {
            out.extend_from_slice(scanner.raw(scratch)?);
            Ok(())
        }
    }
}

fn object(
    fields: &Fields,
    scanner: &mut Scanner<'_>,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Result<(), String> {
    out.push(b'{');
    let mut first = true;
    let mut more = scanner.open_object()?;
    while more {
        let name = scanner.key(scratch)?;
        let field = fields.iter().find(|it| it.name().as_bytes() == name);
        match field {
            None => drop(scanner.raw(scratch)?),
            Some(field) => {
                if !std::mem::take(&mut first) {
                    out.push(b',');
                }
                serde_json::to_writer(&mut *out, field.name()).expect("memory takes all");
                out.push(b':');
                value(field.data_type(), scanner, out, scratch)?;
            }
        }
        more = scanner.next_in_object()?;
    }
    out.push(b'}');
    Ok(())
}

fn time(
    data_type: &DataType,
    scanner: &mut Scanner<'_>,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Result<(), String> {
    let found = match scanner.value(scratch)? {
        Token::Null => {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        Token::Bool(it) => Value::Bool(it),
        Token::Number(it) => Value::Number(it),
        Token::Text(it) => Value::Text(it),
        Token::Nested(it) => Value::Nested(it),
    };
    match time_of(data_type, found) {
        Some(number) => out.extend_from_slice(number.to_string().as_bytes()),
        None => {
            let shown = super::shown(found);
            return Err(format!("{shown} is not a {}", column_type::name(data_type)));
        }
    }
    Ok(())
}
