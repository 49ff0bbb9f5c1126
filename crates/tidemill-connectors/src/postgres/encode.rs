//! Rows as binary `COPY` has them.
//!
//! ```text
//! row ─▶ │ count i16 │ length i32, value │ … │      length −1: null; big endian
//! ```
//!
//! A value that its column cannot hold is refused here, by row and column, and not by the server in
//! the middle of a transaction.

use super::column_mapping::TargetColumn;
use super::target::{MICRO_DIGITS, PostgresType};
use super::values::ColumnValues;
use crate::layout::plain_batch;
use arrow_array::RecordBatch;
use arrow_schema::ArrowError;

/// The bytes before the first row: a signature, no flags, no extension.
pub(super) const HEAD: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The bytes after the last row.
pub(super) const END: [u8; 2] = (-1i16).to_be_bytes();

/// 2000-01-01, from which the server counts, in microseconds and in days since 1970-01-01.
const EPOCH_US: i64 = 946_684_800_000_000;
const EPOCH_DAYS: i32 = 10_957;
/// The first and the last moment and day that the server can hold, as it counts.
const MOMENTS_US: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;
const DAYS: std::ops::Range<i64> = -2_451_545..2_145_031_949;
const DAY_US: i64 = 86_400_000_000;

/// Writes rows for the columns of a table.
#[derive(Debug)]
pub(super) struct Encoder {
    columns: Vec<TargetColumn>,
    /// Rows so far, if each is to carry its number behind its columns.
    numbered: Option<i64>,
}

/// A value that cannot be written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unfit {
    /// Of the batch, from 0.
    pub(super) row: usize,
    pub(super) column: String,
    pub(super) why: String,
}

/// Why rows cannot be written.
#[derive(Debug)]
pub(super) enum EncodeError {
    Value(Unfit),
    Arrow(ArrowError),
}

impl From<ArrowError> for EncodeError {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

impl Encoder {
    pub(super) fn new(columns: Vec<TargetColumn>, numbered: bool) -> Self {
        Self { columns, numbered: numbered.then_some(0) }
    }

    /// Appends the rows of a batch.
    pub(super) fn rows(
        &mut self,
        batch: &RecordBatch,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let batch = &plain_batch(batch)?;
        let arrays = self.columns.iter().map(|it| ColumnValues::plain(batch.column(it.index)));
        let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
        let options = crate::sink::encode::json_options();
        let values = self.columns.iter().zip(&arrays).map(|(column, array)| {
            ColumnValues::of(batch.schema_ref().fields().get(column.index), array, &options)
        });
        let mut values = values.collect::<Result<Vec<_>, _>>()?;
        let count = self.columns.len() + usize::from(self.numbered.is_some());
        let count = i16::try_from(count).expect("a table has at most 1,600 columns").to_be_bytes();
        for row in 0..batch.num_rows() {
            out.extend_from_slice(&count);
            for ((column, array), values) in self.columns.iter().zip(&arrays).zip(&mut values) {
                let outcome = match array.is_null(row) || matches!(values, ColumnValues::Null) {
                    true => null(column, out),
                    false => field(column.target, values, row, out),
                };
                outcome.map_err(|why| {
                    EncodeError::Value(Unfit { row, column: column.name.clone(), why })
                })?;
            }
            if let Some(number) = &mut self.numbered {
                fixed(&number.to_be_bytes(), out);
                *number += 1;
            }
        }
        Ok(())
    }
}

fn null(column: &TargetColumn, out: &mut Vec<u8>) -> Result<(), String> {
    if column.required {
        return Err("it is null, and the table takes none there".to_owned());
    }
    out.extend_from_slice(&(-1i32).to_be_bytes());
    Ok(())
}

/// A value with its length.
fn field(
    target: PostgresType,
    values: &mut ColumnValues<'_>,
    row: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    value(target, values, row, out)?;
    let length = i32::try_from(out.len() - at - 4);
    let length = length.map_err(|_| "it is longer than 2 GiB".to_owned())?;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn fixed(bytes: &[u8], out: &mut Vec<u8>) {
    let length = i32::try_from(bytes.len()).expect("a number has a few bytes");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(bytes);
}

fn value(
    target: PostgresType,
    values: &mut ColumnValues<'_>,
    row: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    match values {
        ColumnValues::Null => {}
        ColumnValues::Bool(it) => out.push(u8::from(it.value(row))),
        ColumnValues::Int(it) => int(target, i128::from(it.value(row)), out)?,
        ColumnValues::Unsigned(it) => int(target, i128::from(it.value(row)), out)?,
        ColumnValues::Single(it) => match target {
            PostgresType::Float4 => out.extend_from_slice(&it.value(row).to_be_bytes()),
            _ => out.extend_from_slice(&f64::from(it.value(row)).to_be_bytes()),
        },
        ColumnValues::Double(it) => out.extend_from_slice(&it.value(row).to_be_bytes()),
        ColumnValues::Decimal(it, scale) => {
            let value = it.value(row);
            numeric(target, value < 0, &value.unsigned_abs().to_string(), *scale, out)?;
        }
        ColumnValues::LongDecimal(it, scale) => {
            let text = it.value(row).to_string();
            let digits = text.trim_start_matches('-');
            numeric(target, digits.len() < text.len(), digits, *scale, out)?;
        }
        ColumnValues::Text(it) => text(target, it.value(row), out)?,
        ColumnValues::Bytes(it) => bytes(target, it.value(row), out)?,
        ColumnValues::Days(it) => day(it.value(row), out)?,
        ColumnValues::Times(it, units) => {
            let time_us = scaled(it[row], *units).filter(|it| (0..=DAY_US).contains(it));
            let time_us = time_us.ok_or("it is no time of a day")?;
            digits_of_second(target, time_us)?;
            out.extend_from_slice(&time_us.to_be_bytes());
        }
        ColumnValues::Moments(it, units) => {
            let moment_us = scaled(it[row], *units).and_then(|it| it.checked_sub(EPOCH_US));
            let moment_us = moment_us.filter(|it| MOMENTS_US.contains(it));
            let moment_us = moment_us.ok_or("the moment is not between 4713 BC and 294276")?;
            digits_of_second(target, moment_us)?;
            out.extend_from_slice(&moment_us.to_be_bytes());
        }
        ColumnValues::Json(it) => {
            if target == PostgresType::Jsonb {
                out.push(1);
            }
            let at = out.len();
            it.encode(row, out);
            no_nul_escape(&out[at..])?;
        }
    }
    Ok(())
}

/// Microseconds, of a number of units of which there are so many in a second; finer ones are cut.
fn scaled(value: i64, per_second: i64) -> Option<i64> {
    match per_second {
        ..=1_000_000 => value.checked_mul(1_000_000 / per_second),
        _ => Some(value.div_euclid(per_second / 1_000_000)),
    }
}

/// The server would round without a word.
fn digits_of_second(target: PostgresType, value_us: i64) -> Result<(), String> {
    match target {
        PostgresType::Time(Some(digits)) | PostgresType::Timestamp(Some(digits))
            if value_us % 10_i64.pow(u32::from(MICRO_DIGITS.saturating_sub(digits))) != 0 =>
        {
            Err(format!("it has more digits of a second than the {digits} of the column"))
        }
        _ => Ok(()),
    }
}

fn int(target: PostgresType, value: i128, out: &mut Vec<u8>) -> Result<(), String> {
    let outside = || format!("{value} is outside of what the column can hold");
    match target {
        PostgresType::Int2 => {
            let value = i16::try_from(value).map_err(|_| outside())?;
            out.extend_from_slice(&value.to_be_bytes());
        }
        PostgresType::Int4 => {
            let value = i32::try_from(value).map_err(|_| outside())?;
            out.extend_from_slice(&value.to_be_bytes());
        }
        PostgresType::Float4 => {
            let float = value as f32;
            if float as i128 != value {
                return Err(format!("{value} cannot be held exactly by a float"));
            }
            out.extend_from_slice(&float.to_be_bytes());
        }
        PostgresType::Float8 => {
            let float = value as f64;
            if float as i128 != value {
                return Err(format!("{value} cannot be held exactly by a float"));
            }
            out.extend_from_slice(&float.to_be_bytes());
        }
        PostgresType::Numeric(_) => {
            numeric(target, value < 0, &value.unsigned_abs().to_string(), 0, out)?;
        }
        _ => {
            let value = i64::try_from(value).map_err(|_| outside())?;
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
    Ok(())
}

fn numeric(
    target: PostgresType,
    negative: bool,
    digits: &str,
    scale: i8,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let zeros = "0".repeat(usize::from(scale.min(0).unsigned_abs()));
    let digits = format!("{}{zeros}", digits.trim_start_matches('0'));
    let scale = usize::from(scale.max(0).unsigned_abs());
    if let PostgresType::Numeric(Some((precision, kept))) = target {
        let room = i32::from(precision) - i32::from(kept);
        let whole =
            i32::try_from(digits.len()).unwrap_or(i32::MAX).saturating_sub_unsigned(scale as u32);
        let is_rounded = kept < 0
            && digits.bytes().rev().take_while(|it| *it == b'0').count()
                < usize::from(kept.unsigned_abs())
            && !digits.is_empty();
        if whole > room || is_rounded {
            let sign = if negative { "-" } else { "" };
            let (whole, fraction) = digits.split_at(digits.len().saturating_sub(scale));
            let point = if fraction.is_empty() { "" } else { "." };
            return Err(format!(
                "{sign}{whole}{point}{fraction} has more digits than the column's \
                 `numeric({precision},{kept})`"
            ));
        }
    }
    super::numeric::write(negative, &digits, scale, out);
    Ok(())
}

fn day(day: i64, out: &mut Vec<u8>) -> Result<(), String> {
    let day = day - i64::from(EPOCH_DAYS);
    let day = Some(day).filter(|it| DAYS.contains(it)).and_then(|it| i32::try_from(it).ok());
    let day = day.ok_or("the day is not between 4713 BC and 5874897")?;
    out.extend_from_slice(&day.to_be_bytes());
    Ok(())
}

fn text(target: PostgresType, value: &str, out: &mut Vec<u8>) -> Result<(), String> {
    match target {
        PostgresType::Uuid => return uuid(value, out),
        PostgresType::Json | PostgresType::Jsonb => {
            let read: Result<serde::de::IgnoredAny, _> = serde_json::from_str(value);
            read.map_err(|error| {
                format!(
                    "it is no JSON ({error}): make it JSON, or give the table a column of type `text`"
                )
            })?;
            if target == PostgresType::Jsonb {
                no_nul_escape(value.as_bytes())?;
                out.push(1);
            }
        }
        PostgresType::Text(Some(max)) if value.chars().count() > max as usize => {
            return Err(format!("it has more than the column's {max} characters"));
        }
        _ => {}
    }
    if memchr::memchr(0, value.as_bytes()).is_some() {
        return Err(
            "it has a NUL character, which no text in PostgreSQL can have: replace it, as \
                    in `replace(x, chr(0), '')`"
                .to_owned(),
        );
    }
    out.extend_from_slice(value.as_bytes());
    Ok(())
}

fn bytes(target: PostgresType, value: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    if target == PostgresType::Uuid && value.len() != 16 {
        return Err(format!("a UUID has 16 bytes, and it has {}", value.len()));
    }
    out.extend_from_slice(value);
    Ok(())
}

/// A UUID as people write it: hyphens and braces do not count.
fn uuid(value: &str, out: &mut Vec<u8>) -> Result<(), String> {
    let inner = value.strip_prefix('{').and_then(|it| it.strip_suffix('}')).unwrap_or(value);
    let mut digits = inner.chars().filter(|it| *it != '-').map(|it| it.to_digit(16));
    let mut number: u128 = 0;
    for _ in 0..32 {
        let digit = digits.next().flatten().ok_or("it is no UUID")?;
        number = number << 4 | u128::from(digit);
    }
    if digits.next().is_some() {
        return Err("it is no UUID".to_owned());
    }
    out.extend_from_slice(&number.to_be_bytes());
    Ok(())
}

/// `jsonb` keeps text, and so no NUL.
fn no_nul_escape(json: &[u8]) -> Result<(), String> {
    const ESCAPE: &[u8] = b"\\u0000";
    for at in memchr::memmem::find_iter(json, ESCAPE) {
        let slashes = json[..at].iter().rev().take_while(|it| **it == b'\\').count();
        if slashes % 2 == 0 {
            return Err("it has a NUL character, which no text in PostgreSQL can have".to_owned());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
