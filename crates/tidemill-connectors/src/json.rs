//! NDJSON: one object a line, read strictly into columns.
//!
//! - A field that no column has is checked and left out; a column without its field is null.
//! - Of two fields with one name the last counts: a value before it need not fit its column.
//! - Anything that is not exactly one JSON object a line is a bad record, with the place in it.

mod infer;
pub(crate) mod scan;

use crate::columns::{Columns, FieldValue, Shape};
use crate::line_source::{BadRecords, Decode};
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use scan::{Scanner, Token};

pub(crate) use infer::guess_line;

/// Reads objects into columns.
pub(crate) struct JsonDecoder {
    columns: Columns,
    names: Vec<String>,
    /// Columns sorted by name.
    by_name: Vec<usize>,
    scratch: Vec<u8>,
}

impl JsonDecoder {
    pub(crate) fn new(shape: &Shape) -> Self {
        let names: Vec<String> = shape.fields.iter().map(|it| it.name().clone()).collect();
        let mut by_name: Vec<usize> = (0..names.len()).collect();
        by_name.sort_by(|a, b| names[*a].cmp(&names[*b]));
        Self { columns: Columns::new(shape), names, by_name, scratch: Vec::new() }
    }

    /// The column of a name; `expected` is where it stood in the record before.
    fn column(&self, name: &[u8], expected: usize) -> Option<usize> {
        if self.names.get(expected).is_some_and(|it| it.as_bytes() == name) {
            return Some(expected);
        }
        let found = self.by_name.binary_search_by(|it| self.names[*it].as_bytes().cmp(name));
        found.ok().map(|index| self.by_name[index])
    }

    fn object(&mut self, line: &[u8]) -> Result<(), String> {
        let mut scanner = Scanner::new(line);
        let mut scratch = std::mem::take(&mut self.scratch);
        let outcome = self.fields(&mut scanner, &mut scratch);
        self.scratch = scratch;
        outcome
    }

    fn fields(&mut self, scanner: &mut Scanner<'_>, scratch: &mut Vec<u8>) -> Result<(), String> {
        let mut expected = 0;
        let mut more = scanner.open_object()?;
        while more {
            let name = scanner.key(scratch)?;
            let column = self.column(name, expected);
            let value = match (scanner.value(scratch)?, column) {
                (_, None) => {
                    more = scanner.next_in_object()?;
                    continue;
                }
                (Token::Null, _) => FieldValue::Null,
                (Token::Bool(value), _) => FieldValue::Bool(value),
                (Token::Number(text), _) => FieldValue::Number(text),
                (Token::Text(text), _) => FieldValue::Text(text),
                (Token::Nested(text), _) => FieldValue::Nested(text),
            };
            if let Some(column) = column {
                self.columns.put_newest(column, value);
                expected = column + 1;
            }
            more = scanner.next_in_object()?;
        }
        scanner.end()
    }
}

/// Checks that a line is one object of JSON as a source reads it.
///
/// # Errors
/// The expectation, and its place.
pub fn check_json_object(line: &[u8]) -> Result<(), String> {
    std::str::from_utf8(line)
        .map_err(|error| format!("not JSON: not UTF-8 at byte {} of it", error.valid_up_to()))?;
    let mut scanner = Scanner::new(line);
    let (mut name, mut value) = (Vec::new(), Vec::new());
    let mut more = scanner.open_object()?;
    while more {
        scanner.key(&mut name)?;
        scanner.value(&mut value)?;
        more = scanner.next_in_object()?;
    }
    scanner.end()
}

impl Decode for JsonDecoder {
    fn record(&mut self, record: &[u8]) -> Result<(), String> {
        let outcome = self.object(record).and_then(|()| self.columns.end_row());
        if outcome.is_err() {
            self.columns.undo_row();
        }
        outcome
    }

    fn finish(&mut self) -> Result<(RecordBatch, BadRecords), ArrowError> {
        self.columns.finish()
    }
}

#[cfg(test)]
mod tests;
