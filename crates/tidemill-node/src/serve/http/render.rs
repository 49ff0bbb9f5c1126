//! Records as lines of JSON.
//!
//! ```text
//! {"streamlet":0,"offset":17,"timestamp":1700000000000,"key":"a","value":{"n":1},"headers":[["h","v"]]}
//! ```
//!
//! Invariant: a record is one line, whatever its bytes are.

use super::position::ReadPosition;
use serde_json::Value;
use std::fmt::Write as _;
use tidemill_wire::records::Record;

#[cfg(test)]
mod tests;

/// Deepest nesting of a value that is written as it is.
const DEPTH_MAX: usize = 64;

/// In place of a timestamp, in Kafka's record format: there is none.
const NO_TIMESTAMP: i64 = -1;

/// The form of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ValueForm {
    /// JSON as it is; other text as a string; other bytes as `value_base64`.
    #[default]
    Json,
    /// Text as a string; other bytes as `value_base64`.
    Text,
    /// All as `value_base64`.
    Base64,
}

impl ValueForm {
    /// The names that requests have for the forms.
    pub(super) const NAMES: &[&str] = &["json", "text", "base64"];

    /// The form of one of [`Self::NAMES`].
    pub(super) fn of_name(name: &str) -> Self {
        match name {
            "text" => Self::Text,
            "base64" => Self::Base64,
            _ => Self::Json,
        }
    }
}

/// Appends a record's line.
pub(super) fn line(into: &mut String, at: ReadPosition, record: &Record<'_>, values: ValueForm) {
    let ReadPosition { streamlet, offset } = at;
    // Writing to a string cannot fail.
    let _ = write!(into, "{{\"streamlet\":{streamlet},\"offset\":{offset},\"timestamp\":");
    match record.timestamp_ms {
        NO_TIMESTAMP => into.push_str("null"),
        timestamp_ms => drop(write!(into, "{timestamp_ms}")),
    }
    let keys = if values == ValueForm::Base64 { ValueForm::Base64 } else { ValueForm::Text };
    field(into, "key", record.key, keys);
    field(into, "value", record.value, values);
    if !record.headers.is_empty() {
        into.push_str(",\"headers\":[");
        for (index, header) in record.headers.enumerate() {
            into.push_str(if index > 0 { ",[" } else { "[" });
            string(into, &String::from_utf8_lossy(header.key));
            into.push(',');
            match header.value.map(std::str::from_utf8) {
                None => into.push_str("null"),
                Some(Ok(text)) => string(into, text),
                Some(Err(_)) => {
                    into.push_str("{\"base64\":\"");
                    base64(into, header.value.unwrap_or_default());
                    into.push_str("\"}");
                }
            }
            into.push(']');
        }
        into.push(']');
    }
    into.push_str("}\n");
}

fn field(into: &mut String, name: &str, bytes: Option<&[u8]>, values: ValueForm) {
    let text = match (bytes, values) {
        (None, _) => {
            let _ = write!(into, ",\"{name}\":null");
            return;
        }
        (Some(_), ValueForm::Base64) => None,
        (Some(bytes), _) => std::str::from_utf8(bytes).ok(),
    };
    match text {
        Some(text) if values == ValueForm::Json && is_json(text) => {
            let _ = write!(into, ",\"{name}\":");
            // In JSON a line break stands between values only.
            into.extend(
                text.trim().chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }),
            );
        }
        Some(text) => {
            let _ = write!(into, ",\"{name}\":");
            string(into, text);
        }
        None => {
            let _ = write!(into, ",\"{name}_base64\":\"");
            base64(into, bytes.unwrap_or_default());
            into.push('"');
        }
    }
}

/// True if a text is JSON that any reader can read: many refuse deep nesting.
fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() && depth(text) <= DEPTH_MAX
}

/// The depth of nesting of JSON.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

fn string(into: &mut String, text: &str) {
    let _ = write!(into, "{}", Value::from(text));
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Base 64 with padding (RFC 4648).
fn base64(into: &mut String, bytes: &[u8]) {
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * index) & 63) as usize];
            into.push(if index <= three.len() { char::from(digit) } else { '=' });
        }
    }
}
