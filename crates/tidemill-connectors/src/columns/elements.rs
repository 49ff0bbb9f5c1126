//! Values within lists and objects, read by the rules of columns that are none.
//!
//! ```text
//! [1000, "1970-01-01T00:00:01Z"] ─▶ [1000000,1000000] ─▶ Arrow's reader ─▶ moments
//! ["TRUE", false]                ─▶ [true,false]      ─▶       …        ─▶ booleans
//! [{"a": 1}, 2]                  ─▶ ["{\"a\": 1}","2"] ─▶      …        ─▶ texts
//! ```
//!
//! Arrow's reader has rules of its own: values are rewritten so that it reads them by ours, moments and days
//! as the numbers that it counts in. Fields that no column has are left out, and of two fields with one
//! name the last counts.

use super::column::{FieldValue, write_json};
use crate::json::scan::{Scanner, Token};
use crate::{column_type, number};
use arrow_schema::{DataType, Field, FieldRef, Fields};
use std::sync::Arc;

/// Returns true if a value may contain moments or days.
pub(super) fn has_times(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(element) => has_times(element.data_type()),
        DataType::Struct(fields) => fields.iter().any(|it| has_times(it.data_type())),
        data_type => matches!(data_type, DataType::Timestamp(_, _) | DataType::Date32),
    }
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

/// A part of a value that does not fit its type.
struct PartFault {
    /// The way to the part, such as `[2].name`; nothing for the whole value.
    path: String,
    reason: String,
}

impl From<String> for PartFault {
    fn from(reason: String) -> Self {
        Self { path: String::new(), reason }
    }
}

impl PartFault {
    /// The same fault, of a value that has the part.
    fn within(self, part: &str) -> Self {
        Self { path: format!("{part}{}", self.path), ..self }
    }
}

/// Appends a value as Arrow's reader takes it for the [`counted`] type.
///
/// # Errors
/// A part of it does not fit its type; the error names the part.
pub(super) fn rewrite(data_type: &DataType, json: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let written = value(data_type, &mut Scanner::new(json), out, &mut Vec::new());
    written.map_err(|PartFault { path, reason }| match path.as_str() {
        "" => reason,
        path => format!("`{}`: {reason}", path.trim_start_matches('.')),
    })
}

fn value(
    data_type: &DataType,
    scanner: &mut Scanner<'_>,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Result<(), PartFault> {
    match (data_type, scanner.begins()) {
        (DataType::List(element), Some(b'[')) => {
            out.push(b'[');
            let mut more = scanner.open_list()?;
            for nth in 0_usize.. {
                if !more {
                    break;
                }
                value(element.data_type(), scanner, out, scratch)
                    .map_err(|fault| fault.within(&format!("[{nth}]")))?;
                more = scanner.next_in_list()?;
                if more {
                    out.push(b',');
                }
            }
            out.push(b']');
            Ok(())
        }
        (DataType::Struct(fields), Some(b'{')) => object(fields, scanner, out, scratch),
        // Its escapes stay as they are.
        (DataType::Utf8, Some(b'"')) => {
            out.extend_from_slice(scanner.raw(scratch)?);
            Ok(())
        }
        _ => plain(data_type, scanner, out, scratch),
    }
}

fn object(
    fields: &Fields,
    scanner: &mut Scanner<'_>,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Result<(), PartFault> {
    let mut found: Vec<Option<&[u8]>> = vec![None; fields.len()];
    let mut more = scanner.open_object()?;
    while more {
        let name = scanner.key(scratch)?;
        let index = fields.iter().position(|it| it.name().as_bytes() == name);
        let raw = scanner.raw(scratch)?;
        if let Some(index) = index {
            found[index] = Some(raw);
        }
        more = scanner.next_in_object()?;
    }
    out.push(b'{');
    let mut first = true;
    for (field, raw) in fields.iter().zip(found) {
        let Some(raw) = raw else { continue };
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        serde_json::to_writer(&mut *out, field.name()).expect("memory takes all");
        out.push(b':');
        value(field.data_type(), &mut Scanner::new(raw), out, scratch)
            .map_err(|fault| fault.within(&format!(".{}", field.name())))?;
    }
    out.push(b'}');
    Ok(())
}

fn plain(
    data_type: &DataType,
    scanner: &mut Scanner<'_>,
    out: &mut Vec<u8>,
    scratch: &mut Vec<u8>,
) -> Result<(), PartFault> {
    let found = match scanner.value(scratch)? {
        Token::Null => {
            out.extend_from_slice(b"null");
            return Ok(());
        }
        Token::Bool(it) => FieldValue::Bool(it),
        Token::Number(it) => FieldValue::Number(it),
        Token::Text(it) => FieldValue::Text(it),
        Token::Nested(it) => FieldValue::Nested(it),
    };
    write_json(data_type, found, out).ok_or_else(|| {
        let type_name = match found {
            FieldValue::Number(text)
                if data_type.is_integer() && number::parse_int_or_whole(text).is_none() =>
            {
                "whole number"
            }
            _ => column_type::name(data_type),
        };
        format!("{} is not a {type_name}", super::shown(found)).into()
    })
}
