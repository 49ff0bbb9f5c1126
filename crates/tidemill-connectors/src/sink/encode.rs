//! Rows as bytes: JSON, CSV, text.
//!
//! - JSON: one object a line; times as RFC 3339 in UTC, missing values and floats that are not
//!   finite as `null`.
//! - Bytes as the text that they are, else as `\x` and hexadecimal digits, so that every file is UTF-8;
//!   in text, bytes that are the only column as they are.
//! - CSV: a header; a missing value is an empty field, or `NULL` if there is one column only; an
//!   empty text is `""`.
//! - Text: values parted by tabs; a line break or a tab within a value is written `\n`, `\r`, `\t`
//!   (a tab in the only column stays).
//! - In CSV and text, lists and objects are as in JSON.

use super::cell::{Cell, Dates, Moments, bytes_as_text};
use super::{has_within, shown, try_columns};
use crate::csv::LONE_NULL;
use crate::error::{ConnectorError, arrow_reason, of_column};
use crate::layout::{plain_batch, plain_type};
use arrow_array::{Array, RecordBatch, cast::AsArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_json::{
    Encoder, EncoderFactory, EncoderOptions, WriterBuilder,
    writer::{LineDelimited, NullableEncoder},
};
use arrow_schema::{ArrowError, DataType, FieldRef, SchemaRef};
use std::{path::Path, sync::Arc};
use tidemill_flow::{Block, Payload};
use tidemill_types::job::Format;

/// Writes rows in one of the formats that a file can grow in.
#[derive(Debug)]
pub(crate) struct RowEncoder {
    format: RowFormat,
    schema: SchemaRef,
}

#[derive(Clone, Copy, Debug)]
enum RowFormat {
    Json,
    Csv,
    Text,
}

impl RowEncoder {
    /// An encoder of a format; `place` is where it writes, for messages.
    pub(crate) fn new(
        place: &Path,
        format: Format,
        schema: SchemaRef,
    ) -> Result<Self, ConnectorError> {
        let format = match format {
            Format::Json => RowFormat::Json,
            Format::Csv => RowFormat::Csv,
            Format::Text => RowFormat::Text,
            Format::Influx | Format::Arrow | Format::Parquet => {
                let message =
                    "its format must be json, csv or text, or, of a file, arrow or parquet";
                return Err(ConnectorError::unwritable(place, message));
            }
        };
        let encoder = Self { format, schema };
        // Tried now, so that a column that the format cannot hold is refused before the job runs.
        let has_other_keys: fn(&DataType) -> bool = |it| match it {
            DataType::Map(entries, _) => match entries.data_type() {
                DataType::Struct(parts) => {
                    parts.first().is_none_or(|it| plain_type(it.data_type()) != DataType::Utf8)
                }
                _ => true,
            },
            _ => false,
        };
        let write = |row: &RecordBatch| {
            let mut types = row.schema_ref().fields().iter().map(|it| it.data_type());
            match types.any(|it| has_within(it, has_other_keys)) {
                true => Err(ArrowError::SchemaError(
                    "it is a map whose keys are not text, which JSON has no form for".to_owned(),
                )),
                false => encoder.batch(row, &mut Vec::new()),
            }
        };
        try_columns(&encoder.schema, write)
            .map_err(|error| ConnectorError::unwritable(place, arrow_reason(error)))?;
        Ok(encoder)
    }

    /// A description of the rows: a file takes no others behind them. Objects may be of any kind.
    pub(crate) fn rows(&self) -> String {
        let columns = shown(&self.schema);
        match self.format {
            RowFormat::Json => "rows in `json`".to_owned(),
            RowFormat::Text => format!("rows in `text` of {} columns", columns.len()),
            RowFormat::Csv => {
                let name = |index: usize| format!("`{}`", self.schema.field(index).name());
                let names: Vec<String> = columns.into_iter().map(name).collect();
                format!("rows in `csv` with the columns {}", names.join(", "))
            }
        }
    }

    /// Appends the bytes before the first row.
    pub(crate) fn header(&self, out: &mut Vec<u8>) {
        let RowFormat::Csv = self.format else { return };
        for (nth, index) in shown(&self.schema).into_iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            csv_field(self.schema.field(index).name().as_bytes(), out);
        }
        out.push(b'\n');
    }

    /// Appends the rows of blocks.
    pub(crate) fn blocks(
        &self,
        blocks: &[Arc<Block>],
        out: &mut Vec<u8>,
    ) -> Result<(), ArrowError> {
        for block in blocks.iter().filter(|block| !block.is_empty()) {
            if let (RowFormat::Text, Payload::Rows(rows)) = (self.format, &block.payload) {
                rows.iter().for_each(|record| {
                    text_value(record, false, out);
                    out.push(b'\n');
                });
                continue;
            }
            self.batch(&block.batch(), out)?;
        }
        Ok(())
    }

    fn batch(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
        let batch = plain_batch(&batch.project(&shown(batch.schema_ref()))?)?;
        match self.format {
            RowFormat::Json => json(&batch, out),
            RowFormat::Csv => csv(&batch, out),
            RowFormat::Text => text(&batch, out),
        }
    }
}

fn csv(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let (schema, options) = (batch.schema(), json_options());
    let cells = cells_of(batch, &schema, &options)?;
    let is_only = cells.len() == 1;
    let mut value = Vec::new();
    for row in 0..batch.num_rows() {
        for (nth, cell) in cells.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            if !cell.is_null(row) {
                value.clear();
                cell.write(row, &mut value).map_err(|error| of_column(schema.field(nth), error))?;
                if is_only && value == LONE_NULL {
                    csv_quoted(&value, out);
                } else {
                    csv_field(&value, out);
                }
            } else if is_only {
                out.extend_from_slice(LONE_NULL);
            }
        }
        out.push(b'\n');
    }
    Ok(())
}

fn cells_of<'a>(
    batch: &'a RecordBatch,
    schema: &'a SchemaRef,
    options: &'a EncoderOptions,
) -> Result<Vec<Cell<'a>>, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    columns.map(|(column, field)| Cell::or_json(column, field, options)).collect()
}

fn csv_field(value: &[u8], out: &mut Vec<u8>) {
    let special = |byte: &u8| matches!(byte, b',' | b'"' | b'\n' | b'\r');
    if !value.is_empty() && !value.iter().any(special) {
        out.extend_from_slice(value);
        return;
    }
    csv_quoted(value, out);
}

fn csv_quoted(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in value {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

fn text(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let (schema, options) = (batch.schema(), json_options());
    let cells = cells_of(batch, &schema, &options)?;
    let is_only = cells.len() == 1;
    let mut value = Vec::new();
    for row in 0..batch.num_rows() {
        for (nth, cell) in cells.iter().enumerate() {
            if nth > 0 {
                out.push(b'\t');
            }
            // Bytes alone are a record as it came, and go on as one.
            if let Some(record) = cell.bytes(row).filter(|_| is_only && !cell.is_null(row)) {
                text_value(record, false, out);
            } else if !cell.is_null(row) {
                value.clear();
                cell.write(row, &mut value).map_err(|error| of_column(schema.field(nth), error))?;
                text_value(&value, !is_only, out);
            }
        }
        out.push(b'\n');
    }
    Ok(())
}

fn text_value(value: &[u8], tabs: bool, out: &mut Vec<u8>) {
    if memchr::memchr3(b'\n', b'\r', b'\t', value).is_none() {
        out.extend_from_slice(value);
        return;
    }
    for byte in value {
        match byte {
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' if tabs => out.extend_from_slice(b"\\t"),
            other => out.push(*other),
        }
    }
}

fn json(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<(), ArrowError> {
    let mut writer = WriterBuilder::new()
        .with_explicit_nulls(true)
        .with_encoder_factory(Arc::new(JsonValues))
        .build::<_, LineDelimited>(out);
    writer.write(batch)?;
    writer.finish()
}

/// The options for writing a nested value as JSON.
pub(crate) fn json_options() -> EncoderOptions {
    EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(JsonValues))
}

/// Encoders for values that the library's writer would write otherwise.
#[derive(Debug)]
struct JsonValues;

struct JsonMoments<'a>(Moments<'a>);

struct JsonDates<'a>(Dates<'a>);

struct JsonBytes<'a>(&'a arrow_array::BinaryArray);

impl Encoder for JsonMoments<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        self.0.write(row, out);
        out.push(b'"');
    }
}

impl Encoder for JsonDates<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'"');
        self.0.write(row, out);
        out.push(b'"');
    }
}

impl Encoder for JsonBytes<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let mut text = Vec::new();
        bytes_as_text(self.0.value(row), &mut text);
        serde_json::to_writer(out, &String::from_utf8_lossy(&text)).expect("memory takes all");
    }
}

/// Refuses times of day that have no text: the library's writer would write its error as a value.
fn refuse_beyond_day(field: &FieldRef, times: &dyn Array) -> Result<(), ArrowError> {
    let options = FormatOptions::default();
    let texts = ArrayFormatter::try_new(times, &options)?;
    let mut text = String::new();
    for row in (0..times.len()).filter(|row| times.is_valid(*row)) {
        text.clear();
        texts.value(row).write(&mut text).map_err(|error| of_column(field, error))?;
    }
    Ok(())
}

impl EncoderFactory for JsonValues {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        _options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Timestamp(_, _) => match Moments::of(array) {
                Some(moments) => Box::new(JsonMoments(moments)),
                None => return Ok(None),
            },
            DataType::Date32 | DataType::Date64 => match Dates::of(array) {
                Some(dates) => Box::new(JsonDates(dates)),
                None => return Ok(None),
            },
            DataType::Time32(_) | DataType::Time64(_) => {
                refuse_beyond_day(field, array)?;
                return Ok(None);
            }
            DataType::Binary => Box::new(JsonBytes(array.as_binary())),
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, array.nulls().cloned())))
    }
}
