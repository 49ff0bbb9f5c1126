//! CSV (RFC 4180), with a header line or without, and with a comma or another byte between fields.
//!
//! - An empty field is null; `""` is an empty text. In columns that are not text, `NA`, `null` and
//!   `NULL` without quotes are null too; `NULL` is so in text as well if there is one column only.
//! - A record has as many fields as there are columns, or it is bad.

use crate::columns::{COLUMNS_MAX, Columns, FieldValue, Shape, parse_bool};
use crate::line_source::{BadRecords, Decode};
use crate::number;
use crate::type_inference::{Guess, Guesses};
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;
use memchr::{memchr, memchr_iter};

/// A missing value in a file of one column, without quotes: an empty line is no record.
pub(crate) const LONE_NULL: &[u8] = b"NULL";

/// The byte between two fields, if nobody says another.
pub(crate) const COMMA: u8 = b',';

/// Reads records into columns.
pub(crate) struct CsvDecoder {
    columns: Columns,
    fields: usize,
    delimiter: u8,
    scratch: Vec<u8>,
}

/// One field.
#[derive(Clone, Copy)]
struct CsvField<'a> {
    text: &'a [u8],
    quoted: bool,
}

impl CsvField<'_> {
    fn is_missing(self) -> bool {
        !self.quoted && matches!(self.text, b"" | b"NA" | b"null" | b"NULL")
    }
}

/// Calls `each` with every field of a record; its number comes with it.
///
/// # Errors
/// The error of `each`.
fn split(
    (record, delimiter): (&[u8], u8),
    scratch: &mut Vec<u8>,
    mut each: impl FnMut(usize, CsvField<'_>) -> Result<(), String>,
) -> Result<usize, String> {
    let mut count = 0;
    if memchr(b'"', record).is_none() {
        let mut start = 0;
        for comma in memchr_iter(delimiter, record) {
            each(count, CsvField { text: &record[start..comma], quoted: false })?;
            (count, start) = (count + 1, comma + 1);
        }
        each(count, CsvField { text: &record[start..], quoted: false })?;
        return Ok(count + 1);
    }
    let mut at = 0;
    loop {
        let quoted = record.get(at) == Some(&b'"');
        scratch.clear();
        if quoted {
            at = unquote(record, at + 1, scratch);
        }
        let end = memchr(delimiter, &record[at..]).map(|comma| at + comma);
        let text = &record[at..end.unwrap_or(record.len())];
        if quoted {
            // Framing has seen to it that nothing follows a closing quote.
            scratch.extend_from_slice(text);
            each(count, CsvField { text: scratch, quoted })?;
        } else {
            each(count, CsvField { text, quoted })?;
        }
        count += 1;
        match end {
            Some(comma) => at = comma + 1,
            None => return Ok(count),
        }
    }
}

/// Reads quoted text up to its closing quote; returns the position after it.
fn unquote(record: &[u8], from: usize, out: &mut Vec<u8>) -> usize {
    let mut at = from;
    while let Some(quote) = memchr(b'"', &record[at..]) {
        out.extend_from_slice(&record[at..at + quote]);
        at += quote + 1;
        if record.get(at) != Some(&b'"') {
            return at;
        }
        out.push(b'"');
        at += 1;
    }
    out.extend_from_slice(&record[at..]);
    record.len()
}

/// The columns' names. A column without a name is called by its number, `column_3`.
///
/// # Errors
/// A name stands there twice, or is not UTF-8, or there are more than a file may have.
pub(crate) fn header(record: &[u8], delimiter: u8) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::new();
    split((record, delimiter), &mut Vec::new(), |index, field| {
        // Here and not at the end: each name is compared with all before it.
        if names.len() == COLUMNS_MAX {
            return Err(format!("it has more than {COLUMNS_MAX} columns"));
        }
        let text = std::str::from_utf8(field.text)
            .map_err(|_| "its header is not UTF-8".to_owned())?
            .trim();
        let name = if text.is_empty() { format!("column_{}", index + 1) } else { text.to_owned() };
        if names.contains(&name) {
            return Err(format!("its header names the column `{name}` twice"));
        }
        names.push(name);
        Ok(())
    })?;
    Ok(names)
}

/// The number of fields of a record.
pub(crate) fn fields(record: &[u8], delimiter: u8) -> usize {
    split((record, delimiter), &mut Vec::new(), |_, _| Ok(())).unwrap_or_default()
}

/// Adds the types that one record shows. A bad record shows none.
pub(crate) fn guess_line(record: &[u8], delimiter: u8, names: &[String], guesses: &mut Guesses) {
    let mut seen: Vec<Guess> = Vec::with_capacity(names.len());
    let split = split((record, delimiter), &mut Vec::new(), |_, field| {
        seen.push(guess(field));
        Ok(())
    });
    if split == Ok(names.len()) {
        names.iter().zip(seen).for_each(|(name, it)| guesses.add(name, it));
    }
}

fn guess(field: CsvField<'_>) -> Guess {
    let text = field.text.trim_ascii();
    let digits = || Guess::Digits(String::from_utf8_lossy(field.text).into_owned());
    if field.is_missing() {
        Guess::Nothing
    } else if text.iter().any(u8::is_ascii_digit) && number::parse_float(text).is_some() {
        match number::parse_int(text) {
            // Programs that write numbers leave them without quotes.
            _ if field.quoted => digits(),
            Some(int) if int.to_string().as_bytes() == text => Guess::int(int),
            _ if is_float(text) => Guess::Float,
            _ => digits(),
        }
    } else if field.quoted {
        Guess::Text
    } else if matches!(text, b"NaN" | b"inf" | b"-inf") {
        // As the sink writes them; other words that can be read as floats are text.
        Guess::Float
    } else if parse_bool(text).is_some() {
        Guess::Bool
    } else {
        Guess::Text
    }
}

/// True of a number that a program writes of a float, and that the float gives back: with a point or
/// an exponent, without a plus sign or zeros in front. An exponent has a sign or a point before it,
/// as in `1e-07` and `1.5E3`: `1E5` is more often a code than a number.
fn is_float(text: &[u8]) -> bool {
    let unsigned = text.strip_prefix(b"-").unwrap_or(text);
    let mantissa = unsigned.iter().position(|it| matches!(it, b'e' | b'E'));
    let (mantissa, exponent) = unsigned.split_at(mantissa.unwrap_or(unsigned.len()));
    let has_point = mantissa.contains(&b'.');
    let whole = mantissa.split(|it| *it == b'.').next().unwrap_or_default();
    let is_plain = !matches!(whole, [b'0', _, ..]) && !unsigned.starts_with(b"+");
    let is_form = match exponent {
        [] => has_point || text == b"-0",
        [_, b'+' | b'-', ..] => true,
        // Our own sink writes `1e16`, and no smaller one so.
        _ => {
            has_point
                || matches!(exponent, [b'e', power @ ..] if number::parse_int(power) >= Some(16))
        }
    };
    is_plain && is_form && number::float_keeps(text)
}

impl CsvDecoder {
    pub(crate) fn new(shape: &Shape, delimiter: u8) -> Self {
        let fields = shape.fields.len();
        Self { columns: Columns::new(shape), fields, delimiter, scratch: Vec::new() }
    }

    fn fields(&mut self, record: &[u8]) -> Result<(), String> {
        let Self { columns, fields, delimiter, scratch } = self;
        let count = split((record, *delimiter), scratch, |index, field| {
            if index >= *fields {
                return Ok(());
            }
            let missing = if columns.is_text(index) {
                !field.quoted && (field.text.is_empty() || *fields == 1 && field.text == LONE_NULL)
            } else {
                field.text.is_empty() || field.is_missing()
            };
            columns
                .put(index, if missing { FieldValue::Null } else { FieldValue::Text(field.text) })
        })?;
        if count == *fields {
            columns.end_row()
        } else {
            Err(format!("it has {count} fields, there are {fields} columns"))
        }
    }
}

impl Decode for CsvDecoder {
    fn record(&mut self, record: &[u8]) -> Result<(), String> {
        let outcome = self.fields(record);
        if outcome.is_err() {
            self.columns.undo_row();
        }
        outcome
    }

    fn finish(&mut self) -> Result<(RecordBatch, BadRecords), ArrowError> {
        self.columns.finish()
    }
}
