//! InfluxDB line protocol: `measurement,tag=a field=1.5,other=2i 1700000000000000000`.
//!
//! - Columns: `measurement`, the tags, the fields, `time` (the timestamp, nanoseconds in the file).
//! - A job and HTTP read a line alike: [`InfluxLines::point`] takes the lines that a source reads.
//! - In a file one point a line; in the record of a stream a text field may hold line breaks.

use crate::column_type::moment_type;
use crate::columns::{Columns, FieldValue, Shape};
use crate::line_source::{BadRecords, Decode};
use crate::number;
use crate::type_inference::{Guess, Guesses};
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field};
use std::{borrow::Cow, collections::BTreeMap, ops::Range};

mod point;
#[cfg(test)]
mod tests;

pub use point::point_end;

const MEASUREMENT: &str = "measurement";
const TIME: &str = "time";
/// Signs of names and tags that a backslash stands before.
const SIGNS: &[u8] = b",= ";

/// One part of a point.
enum PointPart<'a> {
    Measurement(&'a [u8]),
    Tag(&'a [u8], &'a [u8]),
    Field(&'a [u8], FieldValue<'a>, Guess),
}

/// A tag or a field may not be called as a column that every point has: one value would replace
/// the other.
fn check_name(kind: &str, name: &[u8]) -> Result<(), String> {
    match [MEASUREMENT, TIME].iter().find(|it| it.as_bytes() == name) {
        Some(name) => {
            Err(format!("it has a {kind} `{name}`, and a column of every point is called so"))
        }
        None => Ok(()),
    }
}

struct LineReader<'a> {
    line: &'a [u8],
    at: usize,
}

impl LineReader<'_> {
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

    /// Text up to one of `ends`, in which a backslash stands before each of `escapes`.
    fn name(
        &mut self,
        (ends, escapes): (&[u8], &[u8]),
        expected: &str,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        out.clear();
        while let Some(byte) = self.peek() {
            if ends.contains(&byte) {
                break;
            }
            self.at += 1;
            match (byte, self.peek()) {
                (b'\\', Some(next)) if escapes.contains(&next) => {
                    out.push(next);
                    self.at += 1;
                }
                _ => out.push(byte),
            }
        }
        if out.is_empty() { Err(self.fault(expected)) } else { Ok(()) }
    }

    fn expect(&mut self, byte: u8, expected: &str) -> Result<(), String> {
        if self.peek() != Some(byte) {
            return Err(self.fault(expected));
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
    tags: Vec<TagSpan>,
}

/// Where a tag is in its line.
struct TagSpan {
    name: Range<usize>,
    /// Name and value.
    whole: Range<usize>,
}

/// Where the parts of a point are in its line, and its timestamp.
struct Layout {
    /// Where the measurement begins.
    start: usize,
    /// Where the measurement ends.
    measurement: usize,
    /// Where measurement and tags end.
    series: usize,
    /// Where the fields end.
    fields: usize,
    timestamp: Option<i64>,
}

/// Sorts tags by name. Different names are written differently.
///
/// # Errors
/// Two tags have one name.
fn sort_tags(line: &[u8], tags: &mut [TagSpan]) -> Result<bool, String> {
    let name = |it: &TagSpan| &line[it.name.clone()];
    if tags.windows(2).all(|pair| name(&pair[0]) < name(&pair[1])) {
        return Ok(true);
    }
    tags.sort_by(|a, b| name(a).cmp(name(b)));
    match tags.windows(2).find(|pair| name(&pair[0]) == name(&pair[1])) {
        Some(pair) => Err(format!("it has the tag `{}` twice", lossy(name(&pair[0])))),
        None => Ok(false),
    }
}

/// Calls `each` with the parts of a point.
fn parts(
    line: &[u8],
    scratch: &mut Scratch,
    mut each: impl FnMut(PointPart<'_>) -> Result<(), String>,
) -> Result<(Layout, bool), String> {
    let mut reader = LineReader { line, at: 0 };
    let Scratch { key, value, tags } = scratch;
    tags.clear();
    reader.skip_space();
    let start = reader.at;
    reader.name((b", ", b", "), "a measurement", key)?;
    let measurement = reader.at;
    each(PointPart::Measurement(key))?;
    while reader.peek() == Some(b',') {
        reader.at += 1;
        let from = reader.at;
        reader.name((b"=, ", SIGNS), "a tag's name", key)?;
        let name = from..reader.at;
        reader.expect(b'=', "`=` after a tag's name")?;
        reader.name((b"=, ", SIGNS), "a tag's value", value)?;
        if reader.peek() == Some(b'=') {
            return Err(reader.fault("no `=` without `\\` before it in a tag's value"));
        }
        check_name("tag", key)?;
        tags.push(TagSpan { name, whole: from..reader.at });
        each(PointPart::Tag(key, value))?;
    }
    let is_sorted = sort_tags(line, tags)?;
    let series = reader.at;
    reader.expect(b' ', "a space before the fields")?;
    reader.skip_space();
    loop {
        let from = reader.at;
        reader.name((b"=, ", SIGNS), "a field's name", key)?;
        let written = &line[from..reader.at];
        if tags.binary_search_by(|it| line[it.name.clone()].cmp(written)).is_ok() {
            return Err(format!("it has a tag and a field `{}`, which are one column", lossy(key)));
        }
        check_name("field", key)?;
        reader.expect(b'=', "`=` after a field's name")?;
        if reader.peek() == Some(b'"') {
            reader.quoted(value)?;
            each(PointPart::Field(key, FieldValue::Text(value), Guess::Text))?;
        } else {
            reader.name((b", ", SIGNS), "a field's value", value)?;
            let (read, guess) = plain(value)
                .ok_or_else(|| format!("field `{}`: `{}` is no value", lossy(key), lossy(value)))?;
            each(PointPart::Field(key, read, guess))?;
        }
        if reader.peek() != Some(b',') {
            break;
        }
        reader.at += 1;
    }
    let fields = reader.at;
    let rest = line[fields..].trim_ascii();
    if !rest.is_empty() && reader.peek() != Some(b' ') {
        return Err(reader.fault("`,` or a space after a field"));
    }
    let timestamp = match rest {
        [] => None,
        [b'+', ..] => return Err(no_timestamp(rest)),
        _ => Some(
            number::parse_int(rest)
                .and_then(|it| i64::try_from(it).ok())
                .ok_or_else(|| no_timestamp(rest))?,
        ),
    };
    Ok((Layout { start, measurement, series, fields, timestamp }, is_sorted))
}

#[cold]
fn no_timestamp(text: &[u8]) -> String {
    format!("`{}` is not a timestamp, a whole number of 64 bits", lossy(text))
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned()
}

/// A field's value that is not a text, and its type: a number without `i` or `u` is a float, also
/// if it is whole.
fn plain(text: &[u8]) -> Option<(FieldValue<'_>, Guess)> {
    match text {
        b"t" | b"T" | b"true" | b"True" | b"TRUE" => Some((FieldValue::Bool(true), Guess::Bool)),
        b"f" | b"F" | b"false" | b"False" | b"FALSE" => {
            Some((FieldValue::Bool(false), Guess::Bool))
        }
        [b'+', ..] => None,
        [digits @ .., b'i'] => {
            let int = number::parse_int(digits).filter(|it| i64::try_from(*it).is_ok())?;
            Some((FieldValue::Number(digits), Guess::int(int)))
        }
        [digits @ .., b'u'] => {
            let is_signed = digits.starts_with(b"-");
            let int = number::parse_int(digits).filter(|it| u64::try_from(*it).is_ok())?;
            (!is_signed).then_some((FieldValue::Number(digits), Guess::int(int)))
        }
        _ => {
            let plain = |it: &u8| matches!(it, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
            let is_float = number::parse_float(text).is_some_and(f64::is_finite);
            (text.iter().all(plain) && is_float).then_some((FieldValue::Number(text), Guess::Float))
        }
    }
}

/// A point's line, as far as storing it needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfluxPoint<'a> {
    /// Measurement and tags, as they are written but in the order of the tags' names: the same for
    /// all points of a series.
    pub series: Cow<'a, [u8]>,
    /// The line without spaces before it, up to the end of the fields.
    pub untimed: &'a [u8],
    /// The timestamp, in the unit that the writer chose, if there is one.
    pub timestamp: Option<i64>,
}

/// Checks lines of points one by one.
#[derive(Default)]
pub struct InfluxLines(Scratch);

impl InfluxLines {
    /// Splits a line that a job can read.
    ///
    /// # Errors
    /// The expectation, and its place.
    pub fn point<'a>(&mut self, line: &'a [u8]) -> Result<InfluxPoint<'a>, String> {
        std::str::from_utf8(line).map_err(|error| {
            format!("not line protocol: not UTF-8 at byte {} of it", error.valid_up_to())
        })?;
        let (layout, is_sorted) = parts(line, &mut self.0, |_| Ok(()))?;
        let series = match is_sorted {
            true => Cow::Borrowed(&line[layout.start..layout.series]),
            false => {
                let mut series = line[layout.start..layout.measurement].to_vec();
                for tag in &self.0.tags {
                    series.push(b',');
                    series.extend_from_slice(&line[tag.whole.clone()]);
                }
                Cow::Owned(series)
            }
        };
        let (untimed, timestamp) = (&line[layout.start..layout.fields], layout.timestamp);
        Ok(InfluxPoint { series, untimed, timestamp })
    }
}

/// Columns as far as lines have shown them.
#[derive(Default)]
pub(crate) struct InfluxGuesses {
    tags: Guesses,
    fields: Guesses,
}

impl InfluxGuesses {
    /// Adds the types that one line shows. A bad line shows none.
    pub(crate) fn add_line(&mut self, line: &[u8]) {
        let (mut tags, mut fields) = (Vec::new(), Vec::new());
        let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
        let outcome = parts(line, &mut Scratch::default(), |part| {
            match part {
                PointPart::Measurement(_) => {}
                PointPart::Tag(name, _) => tags.push(lossy_name(name)),
                PointPart::Field(name, _, guess) => {
                    let name = lossy_name(name);
                    let next = fields.len();
                    match *by_name.entry(name.clone()).or_insert(next) {
                        index if index < next => fields[index] = (name, guess),
                        _ => fields.push((name, guess)),
                    }
                }
            }
            Ok(())
        });
        if outcome.is_ok() && std::str::from_utf8(line).is_ok() {
            tags.iter().for_each(|name| self.tags.add(name, Guess::Text));
            fields.into_iter().for_each(|(name, guess)| self.fields.add(&name, guess));
        }
    }

    /// Returns true if there are more columns than a source may have.
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
        let mut put = |name: &[u8], value: FieldValue<'_>| {
            if let Some(column) = by_name.get(name) {
                columns.put_newest(*column, value);
            }
        };
        let (layout, _) = parts(line, scratch, |part| {
            match part {
                PointPart::Measurement(text) => put(MEASUREMENT.as_bytes(), FieldValue::Text(text)),
                PointPart::Tag(name, text) => put(name, FieldValue::Text(text)),
                PointPart::Field(name, value, _) => put(name, value),
            }
            Ok(())
        })?;
        if let Some(timestamp_ns) = layout.timestamp {
            put(TIME.as_bytes(), FieldValue::Micros(timestamp_ns.div_euclid(1_000)));
        }
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
