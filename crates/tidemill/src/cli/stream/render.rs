//! A record as a line of text.

use serde_json::{Map, Value};
use std::fmt::Write;
use tidemill_client::consumer::Received;

/// How records are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// The value as it is.
    Lines,
    /// An object with streamlet, offset, timestamp, key, value and headers.
    Json,
    /// Streamlet, offset, key and value in hexadecimal digits; `-` where there is none.
    Hex,
}

/// Appends a record as a line.
pub(super) fn render(into: &mut Vec<u8>, format: Format, streamlet: i32, record: &Received<'_>) {
    match format {
        Format::Lines => {
            into.extend_from_slice(record.value.unwrap_or_default());
            into.push(b'\n');
        }
        Format::Json => {
            let object = Value::Object(object(streamlet, record));
            into.extend_from_slice(object.to_string().as_bytes());
            into.push(b'\n');
        }
        Format::Hex => {
            let (key, value) = (hex(record.key), hex(record.value));
            let line = format!("{streamlet}\t{}\t{key}\t{value}\n", record.offset);
            into.extend_from_slice(line.as_bytes());
        }
    }
}

fn object(streamlet: i32, record: &Received<'_>) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("streamlet".to_owned(), streamlet.into());
    object.insert("offset".to_owned(), record.offset.into());
    object.insert("timestamp_ms".to_owned(), record.timestamp_ms.into());
    put(&mut object, "key", record.key, false);
    put(&mut object, "value", record.value, true);
    if !record.headers.is_empty() {
        let headers = record.headers.map(|header| {
            let mut pair = Map::new();
            put(&mut pair, "key", Some(header.key), false);
            put(&mut pair, "value", header.value, false);
            Value::Object(pair)
        });
        object.insert("headers".to_owned(), headers.collect());
    }
    object
}

/// Bytes as JSON: a JSON object or array as itself, other text as a string, what is no text in
/// hexadecimal digits under `NAME_hex`.
fn put(object: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>, may_be_json: bool) {
    let Some(bytes) = bytes else {
        object.insert(name.to_owned(), Value::Null);
        return;
    };
    if may_be_json
        && matches!(bytes.first(), Some(b'{' | b'['))
        && let Ok(value) = serde_json::from_slice::<Value>(bytes)
    {
        object.insert(name.to_owned(), value);
        return;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), text.into()),
        Err(_) => object.insert(format!("{name}_hex"), hex(Some(bytes)).into()),
    };
}

fn hex(bytes: Option<&[u8]>) -> String {
    let Some(bytes) = bytes else { return "-".to_owned() };
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests;
