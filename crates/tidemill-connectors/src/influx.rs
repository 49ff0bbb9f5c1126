//! InfluxDB line protocol: `measurement,tag=a field=1.5,other=2i 1700000000000000000`.
//!
//! - Columns: `measurement`, the tags, the fields, `time` (the timestamp, nanoseconds in the file).
//! - In a file one point a line; in the record of a stream a text field may hold line breaks.

use crate::column_type::moment_type;
use crate::columns::{Columns, Shape, Value};
use crate::guess::{Guess, Guesses};
use crate::line_source::{BadRecords, Decode};
use crate::number;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field};
use std::collections::BTreeMap;

mod point;
#[cfg(test)]
mod tests;

pub use point::point_end;

const MEASUREMENT: &str = "measurement";
const TIME: &str = "time";

/// One part of a point.
enum Part<'a> {
    Measurement(&'a [u8]),
    Tag(&'a [u8], &'a [u8]),
    Field(&'a [u8], Value<'a>, Guess),
    Micros(i64),
}

/// A tag or a field may not be called as a column that every point has: one value would replace
/// the other.
fn check_name(what: &str, name: &[u8]) -> Result<(), String> {
    match [MEASUREMENT, TIME].iter().find(|it| it.as_bytes() == name) {
        Some(name) => {
            Err(format!("it has a {what} `{name}`, and a column of every point is called so"))
        }
        None => Ok(()),
    }
}

struct Reader<'a> {
    line: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    #[cold]
    fn fault(&self, expected: &str) -> String {
        match self.peek() {
            Some(byte) => {
                let byte = byte.escape_ascii();
                format!(
                    "not line protocol: expected {expected}, found `{byte}` at byte {} of it",
                    self.at
                )
            }
            None => format!("not line protocol: expected {expected}, but the record ends"),
        }
    }

    /// Text up to one of `ends`, without escapes.
    fn name(&mut self, ends: &[u8], what: &str, out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        while let Some(byte) = self.peek() {
            if ends.contains(&byte) {
                break;
            }
            self.at += 1;
            match (byte, self.peek()) {
                (b'\\', Some(next @ (b',' | b'=' | b' '))) => {
                    out.push(next);
                    self.at += 1;
                }
                _ => out.push(byte),
            }
        }
        if out.is_empty() { Err(self.fault(what)) } else { Ok(()) }
    }

    fn expect(&mut self, byte: u8, what: &str) -> Result<(), String> {
        if self.peek() != Some(byte) {
            return Err(self.fault(what));
        }
        self.at += 1;
        Ok(())
    }

    fn skip_space(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    fn quoted(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        out.clear();
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match (byte, self.peek()) {
                (b'"', _) => return Ok(()),
                (b'\\', Some(next @ (b'"' | b'\\'))) => {
                    out.push(next);
                    self.at += 1;
                }
                _ => out.push(byte),
            }
        }
        Err(self.fault("`\"` at the end of a text"))
    }
}

/// Memory for names and texts.
#[derive(Default)]
struct Scratch {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// Where the parts of a point are in its line.
struct Ends {
    /// Where the measurement begins.
    start: usize,
    /// Where measurement and tags end.
    series: usize,
    /// Where the fields end.
    fields: usize,
}

/// Calls `each` with the parts of a point.
fn parts(
    line: &[u8],
    scratch: &mut Scratch,
    mut each: impl FnMut(Part<'_>) -> Result<(), String>,
) -> Result<Ends, String> {
    let mut reader = Reader { line, at: 0 };
    let Scratch { key, value } = scratch;
    reader.skip_space();
    let start = reader.at;
    reader.name(b", ", "a measurement", key)?;
    each(Part::Measurement(key))?;
    while reader.peek() == Some(b',') {
        reader.at += 1;
        reader.name(b"=, ", "a tag's name", key)?;
        reader.expect(b'=', "`=` after a tag's name")?;
        reader.name(b", ", "a tag's value", value)?;
        each(Part::Tag(key, value))?;
    }
    let series = reader.at;
    reader.expect(b' ', "a space before the fields")?;
    reader.skip_space();
    loop {
        reader.name(b"=, ", "a field's name", key)?;
        reader.expect(b'=', "`=` after a field's name")?;
        if reader.peek() == Some(b'"') {
            reader.quoted(value)?;
            each(Part::Field(key, Value::Text(value), Guess::Text))?;
        } else {
            reader.name(b", ", "a field's value", value)?;
            let (read, guess) = plain(value)
                .ok_or_else(|| format!("field `{}`: `{}` is no value", lossy(key), lossy(value)))?;
            each(Part::Field(key, read, guess))?;
        }
        if reader.peek() != Some(b',') {
            break;
        }
        reader.at += 1;
    }
    let ends = Ends { start, series, fields: reader.at };
    let rest = line[reader.at..].trim_ascii();
    if rest.is_empty() {
        return Ok(ends);
    }
    if reader.peek() != Some(b' ') {
        return Err(reader.fault("`,` or a space after a field"));
    }
    let nanos =
        number::parse_int(rest).and_then(|nanos| i64::try_from(nanos.div_euclid(1_000)).ok());
    match nanos {
        Some(micros) => each(Part::Micros(micros)).map(|()| ends),
        None => Err(format!("`{}` is not a timestamp in nanoseconds", lossy(rest))),
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned()
}

/// A field's value that is not a text, and its type: a number without `i` or `u` is a float, also
/// if it is whole.
fn plain(text: &[u8]) -> Option<(Value<'_>, Guess)> {
    match text {
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => Some((Value::Bool(true), Guess::Bool)),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => Some((Value::Bool(false), Guess::Bool)),
        [digits @ .., b'i' | b'u'] => {
            let int = number::parse_int(digits)?;
            Some((Value::Number(digits), Guess::Int(int, int)))
        }
        _ => {
            let plain = |it: &u8| matches!(it, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
            let number = text.iter().all(plain) && number::parse_float(text).is_some();
            number.then_some((Value::Number(text), Guess::Float))
        }
    }
}

/// A point's line, as far as storing it needs to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfluxPoint<'a> {
    /// Measurement and tags, as they are written.
    pub series: &'a [u8],
    /// The line without spaces before it, up to the end of the fields.
    pub untimed: &'a [u8],
    /// The timestamp, in the unit that the writer chose, if there is one.
    pub timestamp: Option<i64>,
}

/// Checks lines of points one by one.
#[derive(Default)]
pub struct InfluxLines(Scratch);

impl InfluxLines {
    /// Takes a line apart.
    ///
    /// # Errors
    /// What was expected where.
    pub fn point<'a>(&mut self, line: &'a [u8]) -> Result<InfluxPoint<'a>, String> {
        std::str::from_utf8(line).map_err(|error| {
            format!("not line protocol: not UTF-8 at byte {} of it", error.valid_up_to())
        })?;
        let ends = parts(line, &mut self.0, |_| Ok(()))?;
        let rest = line[ends.fields..].trim_ascii();
        let whole = number::parse_int(rest).map(i64::try_from);
        let timestamp = match whole {
            _ if rest.is_empty() => None,
            Some(Ok(timestamp)) => Some(timestamp),
            _ => return Err(format!("`{}` is not a timestamp", lossy(rest))),
        };
        Ok(InfluxPoint {
            series: &line[ends.start..ends.series],
            untimed: &line[ends.start..ends.fields],
            timestamp,
        })
    }
}

/// Columns as far as lines have shown them.
#[derive(Default)]
pub(crate) struct InfluxGuesses {
    tags: Guesses,
    fields: Guesses,
}

impl InfluxGuesses {
    /// Adds what one line shows. A bad line shows nothing.
    pub(crate) fn add_line(&mut self, line: &[u8]) {
        let mut seen: Vec<(bool, String, Guess)> = Vec::new();
        let outcome = parts(line, &mut Scratch::default(), |part| {
            match part {
                Part::Tag(name, _) => {
                    check_name("tag", name)?;
                    seen.push((true, lossy_name(name), Guess::Text));
                }
                Part::Field(name, _, guess) => {
                    check_name("field", name)?;
                    seen.push((false, lossy_name(name), guess));
                }
                Part::Measurement(_) | Part::Micros(_) => {}
            }
            Ok(())
        });
        if outcome.is_ok() && std::str::from_utf8(line).is_ok() {
            for (tag, name, guess) in seen {
                if tag { self.tags.add(&name, guess) } else { self.fields.add(&name, guess) }
            }
        }
    }

    /// Whether there are more columns than a source may have.
    pub(crate) fn overflowed(&self) -> bool {
        self.tags.overflowed() || self.fields.overflowed()
    }

    /// The columns: `measurement`, tags, fields, `time`. A field with a tag's name is its column.
    pub(crate) fn shape(self) -> Shape {
        let mut fields = vec![Field::new(MEASUREMENT, DataType::Utf8, true)];
        for field in self.tags.shape().fields.into_iter().chain(self.fields.shape().fields) {
            if fields.iter().all(|it| it.name() != field.name()) {
                fields.push(field);
            }
        }
        fields.push(Field::new(TIME, moment_type(), true));
        Shape { fields, time: None }
    }
}

fn lossy_name(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Reads points into columns.
pub(crate) struct InfluxDecoder {
    columns: Columns,
    by_name: BTreeMap<Vec<u8>, usize>,
    scratch: Scratch,
}

impl InfluxDecoder {
    pub(crate) fn new(shape: &Shape) -> Self {
        let names = shape.fields.iter().enumerate();
        let by_name = names.map(|(index, it)| (it.name().clone().into_bytes(), index)).collect();
        Self { columns: Columns::new(shape), by_name, scratch: Scratch::default() }
    }

    fn point(&mut self, line: &[u8]) -> Result<(), String> {
        let Self { columns, by_name, scratch } = self;
        let mut put = |name: &[u8], value: Value<'_>| match by_name.get(name) {
            Some(column) => columns.put(*column, value),
            None => Ok(()),
        };
        parts(line, scratch, |part| match part {
            Part::Measurement(text) => put(MEASUREMENT.as_bytes(), Value::Text(text)),
            Part::Tag(name, text) => {
                check_name("tag", name)?;
                put(name, Value::Text(text))
            }
            Part::Field(name, value, _) => {
                check_name("field", name)?;
                put(name, value)
            }
            Part::Micros(micros) => put(TIME.as_bytes(), Value::Micros(micros)),
        })?;
        columns.end_row()
    }
}

impl Decode for InfluxDecoder {
    fn record(&mut self, record: &[u8]) -> Result<(), String> {
        let outcome = self.point(record);
        if outcome.is_err() {
            self.columns.undo_row();
        }
        outcome
    }

    fn finish(&mut self) -> Result<(RecordBatch, BadRecords), ArrowError> {
        self.columns.finish()
    }
}
