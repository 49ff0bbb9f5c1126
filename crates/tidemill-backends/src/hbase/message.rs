//! The messages of HBase's REST gateway: cells as its protobuf messages, so that values travel as
//! bytes.
//!
//! ```text
//! CellSet { Row rows = 1 }   Row { bytes key = 1; Cell values = 2 }
//! Cell { bytes column = 2; bytes data = 4 }
//! ```

use base64::{Engine, engine::general_purpose::STANDARD};

/// The column of all values: `t:v`.
pub(super) const COLUMN: &str = "t:v";

/// Rows to be put, as bytes.
#[derive(Debug, Default)]
pub(super) struct CellSet(Vec<u8>);

impl CellSet {
    /// Adds a row with these values of the column.
    pub(super) fn put(&mut self, row: &str, values: &[&[u8]]) {
        let mut message = Vec::new();
        field(&mut message, 1, &[row.as_bytes()]);
        for value in values {
            // The head of a cell, and its value: which is copied once.
            let mut head = Vec::with_capacity(16);
            field(&mut head, 2, &[COLUMN.as_bytes()]);
            head.push(tag(4));
            varint(&mut head, value.len());
            field(&mut message, 2, &[&head, value]);
        }
        field(&mut self.0, 1, &[&message]);
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

/// A scan of the rows from one to before another, without their values.
pub(super) fn scanner(from: &str, to: &str, page_keys: u32) -> String {
    let (from, to) = (STANDARD.encode(from), STANDARD.encode(to));
    format!(
        "<Scanner batch=\"{page_keys}\" caching=\"{page_keys}\" startRow=\"{from}\" \
         endRow=\"{to}\"><filter>{{\"type\":\"KeyOnlyFilter\"}}</filter></Scanner>"
    )
}

/// The rows of an answer in JSON.
pub(super) fn rows(answer: &[u8]) -> Option<Vec<String>> {
    #[derive(serde::Deserialize)]
    struct Scan {
        #[serde(rename = "Row")]
        rows: Vec<ScanRow>,
    }
    #[derive(serde::Deserialize)]
    struct ScanRow {
        key: String,
    }
    let Scan { rows } = serde_json::from_slice(answer).ok()?;
    let row = |row: ScanRow| String::from_utf8(STANDARD.decode(row.key).ok()?).ok();
    rows.into_iter().map(row).collect()
}

/// A field of bytes, which are the parts one after the other.
fn field(out: &mut Vec<u8>, number: u8, parts: &[&[u8]]) {
    let length = parts.iter().map(|part| part.len()).sum();
    out.reserve(length + 11);
    out.push(tag(number));
    varint(out, length);
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// Of a field with a length.
fn tag(number: u8) -> u8 {
    number << 3 | 2
}

fn varint(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_as_the_protocol_has_them() {
        let mut cells = CellSet::default();
        cells.put("r", &[b"ab", b""]);
        let one = b"\x12\x03t:v\x22\x02ab";
        let two = b"\x12\x03t:v\x22\x00";
        let row =
            [&b"\x0a\x01r\x12"[..], &[one.len() as u8], one, b"\x12", &[two.len() as u8], two];
        let row = row.concat();
        assert_eq!(cells.into_bytes(), [&[0x0a, row.len() as u8], &row[..]].concat());
        let mut long = Vec::new();
        varint(&mut long, 300);
        assert_eq!(long, [0xac, 0x02]);
    }

    #[test]
    fn rows_of_an_answer() {
        let answer =
            br#"{"Row":[{"key":"YS5i","Cell":[{"column":"dDp2","$":""}]},{"key":"Yw=="}]}"#;
        assert_eq!(rows(answer).unwrap(), ["a.b", "c"]);
        assert_eq!(rows(b"not found"), None);
    }
}
