//! A record as a line of text.

use serde::de::IgnoredAny;
use serde_json::Value;
use std::fmt::Write;
use tidemill_client::consumer::Received;

/// The form of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum RecordForm {
    /// The value as it is.
    Lines,
    /// An object with streamlet, offset, timestamp, key, value and headers.
    Json,
    /// Streamlet, offset, key and value in hexadecimal digits; `-` where there is none.
    Hex,
}

/// Appends a record as a line.
pub(super) fn render(
    into: &mut Vec<u8>,
    format: RecordForm,
    streamlet: i32,
    record: &Received<'_>,
) {
    match format {
        RecordForm::Lines => {
            into.extend_from_slice(record.value.unwrap_or_default());
            into.push(b'\n');
        }
        RecordForm::Json => {
            json(into, streamlet, record);
            into.push(b'\n');
        }
        RecordForm::Hex => {
            let (key, value) = (hex(record.key), hex(record.value));
            let line = format!("{streamlet}\t{}\t{key}\t{value}\n", record.offset);
            into.extend_from_slice(line.as_bytes());
        }
    }
}

fn json(into: &mut Vec<u8>, streamlet: i32, record: &Received<'_>) {
    let Received { offset, timestamp_ms, .. } = record;
    let timestamp = match timestamp_ms {
        // In place of a timestamp, in Kafka's record format: there is none.
        -1 => "null".to_owned(),
        timestamp_ms => timestamp_ms.to_string(),
    };
    let head =
        format!(r#"{{"streamlet":{streamlet},"offset":{offset},"timestamp_ms":{timestamp},"#);
    into.extend_from_slice(head.as_bytes());
    field(into, "key", record.key, false);
    into.push(b',');
    field(into, "value", record.value, true);
    if !record.headers.is_empty() {
        into.extend_from_slice(b",\"headers\":");
        let mut before = b'[';
        for header in record.headers {
            into.extend_from_slice(&[before, b'{']);
            field(into, "key", Some(header.key), false);
            into.push(b',');
            field(into, "value", header.value, false);
            into.push(b'}');
            before = b',';
        }
        into.push(b']');
    }
    into.push(b'}');
}

/// Bytes as a field: a JSON object or array as itself, other text as a string, other bytes in
/// hexadecimal digits under `NAME_hex`.
fn field(into: &mut Vec<u8>, name: &str, bytes: Option<&[u8]>, may_be_json: bool) {
    let text = bytes.map(std::str::from_utf8);
    let tail = if let Some(Err(_)) = text { "_hex" } else { "" };
    into.extend_from_slice(format!("\"{name}{tail}\":").as_bytes());
    match text {
        None => into.extend_from_slice(b"null"),
        Some(Ok(text)) if may_be_json && is_object_or_array(text) => compact(into, text),
        Some(Ok(text)) => into.extend_from_slice(Value::from(text).to_string().as_bytes()),
        Some(Err(_)) => into.extend_from_slice(format!("\"{}\"", hex(bytes)).as_bytes()),
    }
}

fn is_object_or_array(text: &str) -> bool {
    text.starts_with(['{', '[']) && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// JSON without the blanks between its values, and else as it is: a number keeps its digits.
fn compact(into: &mut Vec<u8>, json: &str) {
    let (mut in_string, mut escaped) = (false, false);
    into.extend(json.bytes().filter(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            _ => {}
        }
        in_string || !byte.is_ascii_whitespace()
    }));
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
