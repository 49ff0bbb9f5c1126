//! The columns of records of a stream or topic: found in the first of them, then as the job says.

use super::meta;
use super::schema_note::SchemaNote;
use super::{LogName, RecordSourceSpec};
use crate::columns::Shape;
use crate::error::ConnectorError;
use crate::influx::InfluxGuesses;
use crate::schema_inference::{InferredSchema, SAMPLE_BYTES_MAX, SAMPLE_RECORDS, Sample};
use crate::type_inference::{Guess, Guesses};
use arrow_schema::{Field, Schema, SchemaRef};
use std::sync::Arc;
use tidemill_flow::{GuessedColumn, TIME_COLUMN};
use tidemill_types::job::{Format, TimeSpec};

/// The rows that records of a source become.
#[derive(Clone)]
pub(crate) struct RecordSchema {
    /// Columns of the value.
    pub(crate) shape: Shape,
    /// Columns of the value, meta columns, and the hidden one.
    pub(crate) schema: SchemaRef,
    pub(crate) time_is_timestamp: bool,
    /// The columns found in the records alone, for the note.
    pub(crate) kept: Option<SchemaNote>,
    /// The columns that were guessed from them.
    pub(crate) guessed: Vec<GuessedColumn>,
}

/// Looks at the first records.
pub(crate) struct RecordSampler {
    sample: Sample,
    /// The number of records that may still be sampled.
    pub(crate) left: usize,
    /// The number of bytes that may still be sampled.
    pub(crate) bytes_left: usize,
    empty: bool,
    failed: Option<String>,
    /// The columns found when the job began, if it resumes: then no record is sampled.
    known: Option<SchemaNote>,
}

impl RecordSampler {
    /// A sampler of the records of a log.
    ///
    /// # Errors
    /// The format is none of single records, or names too little.
    pub(crate) fn new(name: &LogName, spec: &RecordSourceSpec) -> Result<Self, ConnectorError> {
        let sample = match spec.format {
            Format::Json => Sample::Json(Guesses::default()),
            Format::Influx => Sample::Influx(InfluxGuesses::default()),
            Format::Csv => {
                if spec.schema.is_empty() {
                    let message = "CSV values have no header: name their columns under `schema`";
                    return Err(name.refusal(message));
                }
                let names: Vec<String> = spec.schema.keys().cloned().collect();
                let mut guesses = Guesses::default();
                names.iter().for_each(|name| guesses.add(name, Guess::Nothing));
                Sample::Csv(names, crate::csv::COMMA, guesses)
            }
            Format::Text => Sample::Text,
            Format::Arrow | Format::Parquet => {
                let message =
                    "values are read as json, csv, text or influx; its format must be one";
                return Err(name.refusal(message));
            }
        };
        let left = spec.sample.unwrap_or(SAMPLE_RECORDS).max(1);
        let bytes_left = SAMPLE_BYTES_MAX as usize;
        Ok(Self { sample, left, bytes_left, empty: true, failed: None, known: None })
    }

    /// Takes the columns found when the job began, if the records decided them.
    pub(crate) fn know(&mut self, known: Option<SchemaNote>) {
        self.known = known.filter(|_| matches!(self.sample, Sample::Json(_) | Sample::Influx(_)));
    }

    /// Returns true if more records should be sampled.
    pub(crate) fn goes_on(&self) -> bool {
        let text = matches!(self.sample, Sample::Text);
        let may = self.left > 0 && self.bytes_left > 0 && self.failed.is_none();
        !text && self.known.is_none() && may
    }

    /// Looks at the value of a record.
    pub(crate) fn add(&mut self, value: Option<&[u8]>) {
        self.left = self.left.saturating_sub(1);
        if let (Some(value), None) = (value, &self.failed) {
            self.bytes_left = self.bytes_left.saturating_sub(value.len());
            if std::str::from_utf8(value).is_ok() {
                self.empty = false;
                self.failed = self.sample.add(value).err();
            }
        }
    }

    /// The sampled columns, fitted to the job's schema.
    ///
    /// # Errors
    /// Nothing defines the columns, or they contradict the job.
    pub(crate) fn finish(
        self,
        name: &LogName,
        spec: &RecordSourceSpec,
    ) -> Result<RecordSchema, ConnectorError> {
        if let Some(failed) = self.failed {
            return Err(name.refusal(failed));
        }
        let open = matches!(spec.format, Format::Json | Format::Influx);
        let kept_as_text = self.sample.kept_as_text();
        let (shape, empty) = match &self.known {
            Some(kept) => (kept.shape(), kept.empty),
            None => (self.sample.shape(), self.empty),
        };
        let kept = SchemaNote::of(&shape, empty);
        let mut found =
            InferredSchema { shape, data: (0, 0), total: None, open, empty, kept_as_text };
        let timestamp = spec.meta.timestamp.as_deref();
        let of_value = |time: &&TimeSpec| timestamp != Some(time.field.as_str());
        let value_time = spec.time.as_ref().filter(of_value);
        let subject = format!("{} {}", name.kind, name.name);
        found.apply(&subject, spec.format, &spec.schema, value_time)?;
        if found.shape.fields.is_empty() {
            let message = "it is empty, so its columns are not known: name them and their types \
                           under `schema`";
            return Err(name.refusal(message));
        }
        let time_is_timestamp = spec.time.is_some() && value_time.is_none();
        let schema = whole_schema(name, &found.shape, spec, time_is_timestamp)?;
        let guessed = found.guessed(spec.format, &spec.schema);
        Ok(RecordSchema { shape: found.shape, schema, time_is_timestamp, kept, guessed })
    }
}

/// Columns of the value, meta columns, and the hidden one.
fn whole_schema(
    name: &LogName,
    shape: &Shape,
    spec: &RecordSourceSpec,
    time_is_timestamp: bool,
) -> Result<SchemaRef, ConnectorError> {
    let mut fields = shape.fields.clone();
    for field in meta::fields(&spec.meta) {
        if fields.iter().any(|it| it.name() == field.name()) {
            let message = format!(
                "its values have a column `{}` too: give the one under `meta` another name",
                field.name()
            );
            return Err(name.refusal(message));
        }
        fields.push(field);
    }
    if shape.time.is_some() || time_is_timestamp {
        fields.push(Field::new(TIME_COLUMN, crate::column_type::moment_type(), false));
    }
    Ok(Arc::new(Schema::new(fields)))
}
