//! The columns of records: guessed from a sample, then fitted to the job's schema.
//!
//! ```text
//! records ─▶ Sample ─▶ InferredSchema: names, types ─▶ schema of the job ─▶ event time ─▶ Shape
//! ```

use crate::batch_source;
use crate::column_cast::can_cast;
use crate::column_type::{self, moment_type};
use crate::columns::{COLUMNS_MAX, Columns, Shape};
use crate::csv::{self, CsvDecoder};
use crate::error::{ConnectorError, ConnectorErrorKind, SchemaPlace};
use crate::influx::{InfluxDecoder, InfluxGuesses};
use crate::json::{self, JsonDecoder};
use crate::line_source::Decode;
use crate::text::{self, TextDecoder};
use crate::type_inference::Guesses;
use arrow_schema::{DataType, Field};
use std::collections::BTreeMap;
use tidemill_flow::{GuessedColumn, TIME_COLUMN};
use tidemill_types::{
    job::{Format, Named, TimeSpec},
    signs,
};

/// Records that decide the types of columns, if the job does not say how many.
pub(crate) const SAMPLE_RECORDS: usize = 10_000;
/// Most bytes that are looked at for that.
pub(crate) const SAMPLE_BYTES_MAX: u64 = 64 << 20;

/// The columns found in the first records.
pub(crate) struct InferredSchema {
    /// Columns and their types.
    pub(crate) shape: Shape,
    /// A file: where its records begin, and the number of that line.
    pub(crate) data: (u64, u64),
    /// The number of bytes or records to read, if it is known.
    pub(crate) total: Option<u64>,
    /// True if records may have columns that the head did not show.
    pub(crate) open: bool,
    /// True if there was no record to sample.
    pub(crate) empty: bool,
    /// Columns that keep numbers as text, as guessed, with one of these numbers.
    pub(crate) kept_as_text: BTreeMap<String, String>,
}

impl InferredSchema {
    /// Gives columns the types that the job names, and finds event time. `subject` names the owner
    /// of the columns, for messages.
    ///
    /// # Errors
    /// There is no such column or type, or it cannot be event time.
    pub(crate) fn apply(
        &mut self,
        subject: &str,
        format: Format,
        schema: &Named<String>,
        time: Option<&TimeSpec>,
    ) -> Result<(), ConnectorError> {
        let unreadable = |why: String| {
            let message = format!("`{subject}` cannot be read: {why}");
            ConnectorError { kind: ConnectorErrorKind::Unreadable, message }
        };
        if let Some(name) = name_of_two(&self.shape.fields) {
            return Err(unreadable(format!("it has two columns `{name}`")));
        }
        apply_schema(subject, format, schema, self)?;
        if let Some(time) = time {
            apply_time(subject, format, time, self)?;
        }
        if self.shape.fields.iter().any(|field| field.name() == TIME_COLUMN) {
            let why = format!("it has a column `{TIME_COLUMN}`, a name that is reserved");
            return Err(unreadable(why));
        }
        Ok(())
    }

    /// The columns whose types follow from the first records alone. Call it after
    /// [`apply`](Self::apply).
    pub(crate) fn guessed(&self, format: Format, schema: &Named<String>) -> Vec<GuessedColumn> {
        // Text has one column, and all other formats say the types of their values.
        if !matches!(format, Format::Json | Format::Csv) {
            return Vec::new();
        }
        let fields = self.shape.fields.iter().enumerate();
        let guessed = fields.filter(|(index, field)| {
            self.shape.time != Some(*index) && !schema.contains_key(field.name())
        });
        let column = |(_, field): (usize, &Field)| GuessedColumn {
            name: field.name().clone(),
            kept_as_text: self.kept_as_text.get(field.name()).cloned(),
        };
        guessed.map(column).collect()
    }
}

/// A decoder of single records in a format, but for those that come in batches.
/// `delimiter` is that of CSV.
pub(crate) fn decoder(format: Format, shape: &Shape, delimiter: u8) -> Box<dyn Decode> {
    match format {
        Format::Csv => Box::new(CsvDecoder::new(shape, delimiter)),
        Format::Json => Box::new(JsonDecoder::new(shape)),
        Format::Influx => Box::new(InfluxDecoder::new(shape)),
        _ => Box::new(TextDecoder(Columns::new(shape))),
    }
}

/// The sample, by format.
pub(crate) enum Sample {
    Text,
    Json(Guesses),
    /// The names of the columns, and the byte between fields.
    Csv(Vec<String>, u8, Guesses),
    Influx(InfluxGuesses),
}

impl Sample {
    /// Takes a record of the sample.
    pub(crate) fn add(&mut self, record: &[u8]) -> Result<(), String> {
        let overflowed = match self {
            Self::Text => false,
            Self::Json(guesses) => {
                json::guess_line(record, guesses);
                guesses.overflowed()
            }
            Self::Csv(names, delimiter, guesses) => {
                csv::guess_line(record, *delimiter, names, guesses);
                guesses.overflowed()
            }
            Self::Influx(guesses) => {
                guesses.add_line(record);
                guesses.overflowed()
            }
        };
        if overflowed { Err(format!("it has more than {COLUMNS_MAX} columns")) } else { Ok(()) }
    }

    /// Columns that keep numbers as text, with one of these numbers.
    pub(crate) fn kept_as_text(&self) -> BTreeMap<String, String> {
        match self {
            Self::Json(guesses) | Self::Csv(.., guesses) => guesses.kept_as_text(),
            Self::Text | Self::Influx(_) => BTreeMap::new(),
        }
    }

    /// The columns that were seen.
    pub(crate) fn shape(self) -> Shape {
        match self {
            Self::Text => text::shape(),
            Self::Json(guesses) | Self::Csv(.., guesses) => guesses.shape(),
            Self::Influx(guesses) => guesses.shape(),
        }
    }
}

/// Gives columns the types that the job names.
fn apply_schema(
    subject: &str,
    format: Format,
    schema: &Named<String>,
    found: &mut InferredSchema,
) -> Result<(), ConnectorError> {
    for (name, type_name) in schema {
        let data_type = column_type::parse(type_name).map_err(|nearest| {
            let expected = column_type::TYPE_NAMES.to_owned();
            let note = signs::note(type_name, nearest.as_deref());
            let message = format!("`{type_name}`, the type of column `{name}`, is no type{note}");
            let (field, place) = (name.clone(), SchemaPlace::Type);
            let kind = ConnectorErrorKind::Schema { place, field, expected, nearest };
            ConnectorError { kind, message }
        })?;
        let fields = &mut found.shape.fields;
        match fields.iter().position(|field| field.name() == name) {
            Some(index)
                if is_columnar(format) && !can_cast(fields[index].data_type(), &data_type) =>
            {
                let found = fields[index].data_type();
                return Err(no_way(subject, (name, type_name), found));
            }
            Some(index) => fields[index] = Field::new(name, data_type, true),
            None if found.open => fields.push(Field::new(name, data_type, true)),
            None => {
                let columns = fields.iter().map(|field| field.name().as_str());
                return Err(ConnectorError::no_column(subject, SchemaPlace::Column, name, columns));
            }
        }
    }
    Ok(())
}

/// Returns true if the format has column types of its own.
fn is_columnar(format: Format) -> bool {
    matches!(format, Format::Arrow | Format::Parquet)
}

/// A column that no value of could become one of the type that the job names.
fn no_way(subject: &str, (name, type_name): (&String, &str), found: &DataType) -> ConnectorError {
    let message =
        format!("column `{name}` of `{subject}` is {found}, which cannot be read as `{type_name}`");
    let names = ["boolean", "bigint", "double", "text", "date", "timestamp"];
    let fits = |name: &&str| column_type::parse(name).is_ok_and(|it| can_cast(found, &it));
    let fitting: Vec<&str> = names.into_iter().filter(fits).collect();
    let expected = match fitting.as_slice() {
        [] => "the type that it has".to_owned(),
        fitting => format!("a type such as {}", fitting.join(", ")),
    };
    let (field, place) = (name.clone(), SchemaPlace::Type);
    let kind = ConnectorErrorKind::Schema { place, field, expected, nearest: None };
    ConnectorError { kind, message }
}

/// A name that two columns have.
fn name_of_two(fields: &[Field]) -> Option<&str> {
    let mut names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// Makes the column that the job names event time.
fn apply_time(
    subject: &str,
    format: Format,
    time: &TimeSpec,
    found: &mut InferredSchema,
) -> Result<(), ConnectorError> {
    let fields = &mut found.shape.fields;
    if found.open && found.empty && fields.iter().all(|field| *field.name() != time.field) {
        fields.push(Field::new(&time.field, moment_type(), true));
    }
    let Some(index) = fields.iter().position(|field| *field.name() == time.field) else {
        let columns = fields.iter().map(|field| field.name().as_str());
        return Err(ConnectorError::no_column(subject, SchemaPlace::Time, &time.field, columns));
    };
    let data_type = fields[index].data_type();
    let fits = match format {
        format if is_columnar(format) => batch_source::can_be_time(data_type),
        _ => !matches!(data_type, DataType::Boolean | DataType::List(_) | DataType::Struct(_)),
    };
    if !fits {
        let expected = "a column of times: ISO 8601 text, or epoch milliseconds".to_owned();
        let name = &time.field;
        let message =
            format!("column `{name}` of `{subject}` cannot be event time; it takes {expected}");
        let (field, place) = (name.clone(), SchemaPlace::Time);
        let kind = ConnectorErrorKind::Schema { place, field, expected, nearest: None };
        return Err(ConnectorError { kind, message });
    }
    fields[index] = batch_source::time_field(&fields[index]);
    found.shape.time = Some(index);
    Ok(())
}
