//! A request's body as a JSON document, read into settings.
//!
//! A body that is wrong is refused in the words of job files: the field, the expectation and the
//! nearest name; a body that is no JSON object with the byte, and with a form to send.

use super::problem::Problem;
use crate::{
    descriptor::{Item, ItemValue, Name, read_item},
    record_key::not_json,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tidemill_connectors::{ForeignEncoding, check_json_object};

#[cfg(test)]
mod tests;

/// A kind of document.
pub(super) struct DocumentKind {
    /// Its name in messages, such as `a query`.
    pub(super) name: &'static str,
    /// A way to make one.
    pub(super) form: &'static str,
}

/// Reads a body.
///
/// # Errors
/// It is no JSON, or not of this kind.
pub(super) fn read_document<T: DeserializeOwned>(
    bytes: &[u8],
    kind: &DocumentKind,
) -> Result<T, Problem> {
    let DocumentKind { name, form } = kind;
    if let Some(encoding) = ForeignEncoding::of(bytes) {
        return Err(Problem::bad(encoding.refusal("the body")));
    }
    if bytes.trim_ascii().is_empty() {
        return Err(Problem::bad(format!("the body is empty, and should be {name}: send {form}")));
    }
    let refused = |why: &str| {
        let why = why.replace("the record ends", "the body ends");
        Problem::bad(format!("the body is {why}; {name} is {form}"))
    };
    check_json_object(bytes).map_err(|why| refused(&why))?;
    // What is left is a number beyond a float.
    let value = serde_json::from_slice(bytes).map_err(|error| refused(&not_json(&error)))?;
    read_item(&item_of(value)).map_err(|problem| {
        let path = problem.path.join(".");
        let place = if path.is_empty() { String::new() } else { format!("`{path}`: ") };
        Problem::bad(format!("the body is not {name}: {place}{problem}")).with("path", path)
    })
}

/// A JSON value as a job file has it: numbers keep their text.
fn item_of(value: Value) -> Item {
    let raw = match &value {
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => String::new(),
    };
    let value = match value {
        Value::Null => ItemValue::Null,
        Value::Bool(value) => ItemValue::Bool(value),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(value), _) => ItemValue::Unsigned(value),
            (None, Some(value)) => ItemValue::Signed(value),
            (None, None) => ItemValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => ItemValue::Text(text),
        Value::Array(entries) => ItemValue::List(entries.into_iter().map(item_of).collect()),
        Value::Object(entries) => ItemValue::Table(
            entries
                .into_iter()
                .map(|(text, value)| (Name { text, place: None }, item_of(value)))
                .collect(),
        ),
    };
    Item { place: None, value, raw }
}
