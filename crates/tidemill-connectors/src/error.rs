//! Refusals of connectors, each with the change that a job's author has to make.

use crate::encoding::ForeignEncoding;
use arrow_schema::{ArrowError, Field};
use parquet::errors::ParquetError;
use std::{io, path::Path};
use tidemill_types::signs;

/// Why a source or sink cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConnectorError {
    /// The kind of error, with the data a caller needs to point at its place in the job file.
    pub kind: ConnectorErrorKind,
    /// The fault, its place and the remedy: one line for a person.
    pub message: String,
}

/// Kinds of [`ConnectorError`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectorErrorKind {
    /// There is no such file.
    NotFound,
    /// Where it is said to be it cannot be.
    Unreachable,
    /// Nobody answers where it is, or not as it will: it may be there later.
    Away,
    /// The file cannot be read, or is not of its format or encoding.
    Unreadable,
    /// The file cannot be written, or not in that format.
    Unwritable,
    /// A column is not as the job says.
    Schema {
        /// Which part of the job file names the column.
        place: SchemaPlace,
        /// The column, as the job names it.
        field: String,
        /// The values that are possible there.
        expected: String,
        /// The valid name that is most like the one given.
        nearest: Option<String>,
    },
}

/// The part of a source in the job file that names a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaPlace {
    /// A column's name under `file.schema`.
    Column,
    /// A column's type under `file.schema`.
    Type,
    /// `time.field`.
    Time,
}

impl ConnectorError {
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        let (kind, message) = match error.kind() {
            io::ErrorKind::NotFound => {
                (ConnectorErrorKind::NotFound, format!("there is no file `{}`", path.display()))
            }
            _ => (
                ConnectorErrorKind::Unreadable,
                format!("`{}` cannot be read: {error}", path.display()),
            ),
        };
        Self { kind, message }
    }

    pub(crate) fn unreadable(path: &Path, message: impl std::fmt::Display) -> Self {
        let message = format!("`{}` cannot be read: {message}", path.display());
        Self { kind: ConnectorErrorKind::Unreadable, message }
    }

    pub(crate) fn foreign(path: &Path, encoding: ForeignEncoding) -> Self {
        let message = encoding.refusal(&format!("`{}`", path.display()));
        Self { kind: ConnectorErrorKind::Unreadable, message }
    }

    pub(crate) fn unwritable(path: &Path, message: impl std::fmt::Display) -> Self {
        let message = format!("`{}` cannot be written: {message}", path.display());
        Self { kind: ConnectorErrorKind::Unwritable, message }
    }

    /// A column that the source does not have.
    pub(crate) fn no_column<'a>(
        subject: &str,
        place: SchemaPlace,
        field: &str,
        columns: impl Iterator<Item = &'a str> + Clone,
    ) -> Self {
        let nearest = nearest(field, columns.clone());
        let shown: Vec<&str> = columns.take(40).collect();
        let expected = match shown.as_slice() {
            [] => "a record with columns: none was found".to_owned(),
            shown => format!("one of the columns {}", shown.join(", ")),
        };
        let refusal = format!("`{subject}` has no column `{field}`");
        let message = with_hint(refusal, field, nearest.as_deref());
        let message = match shown.as_slice() {
            [] => format!("{message} It has none"),
            shown => format!("{message} It has: {}", shown.join(", ")),
        };
        let field = field.to_owned();
        Self { kind: ConnectorErrorKind::Schema { place, field, expected, nearest }, message }
    }
}

/// A sentence about a wrong name, with its unseen characters and the name that was probably meant.
pub(crate) fn with_hint(refusal: String, name: &str, nearest: Option<&str>) -> String {
    let sentence = refusal + &signs::hint(name, nearest);
    if sentence.ends_with('?') { sentence } else { sentence + "." }
}

/// The way out of a file that is not as its format has it.
pub(crate) const FETCH_AGAIN: &str =
    "the file is damaged or not all there: fetch or write it again";

/// An error of Arrow without the name of its kind, which says nothing to a job's author.
pub(crate) fn arrow_reason(error: ArrowError) -> String {
    match error {
        ArrowError::NotYetImplemented(why)
        | ArrowError::CastError(why)
        | ArrowError::MemoryError(why)
        | ArrowError::ParseError(why)
        | ArrowError::SchemaError(why)
        | ArrowError::ComputeError(why)
        | ArrowError::ArithmeticOverflow(why)
        | ArrowError::CsvError(why)
        | ArrowError::JsonError(why)
        | ArrowError::AvroError(why)
        | ArrowError::IpcError(why)
        | ArrowError::InvalidArgumentError(why)
        | ArrowError::IoError(why, _) => why,
        // It has the name of the kind of the error in Parquet.
        ArrowError::ParquetError(why) => {
            let kinds = ["Parquet error: ", "NYI: ", "EOF: ", "Arrow: "];
            let why = kinds.iter().find_map(|kind| why.strip_prefix(kind)).unwrap_or(&why);
            why.to_owned()
        }
        other => other.to_string(),
    }
}

/// An error of Parquet without the name of its kind.
pub(crate) fn parquet_reason(error: ParquetError) -> String {
    match error {
        ParquetError::General(why)
        | ParquetError::NYI(why)
        | ParquetError::EOF(why)
        | ParquetError::ArrowError(why) => why,
        ParquetError::External(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// An error of Arrow about the values of a column.
pub(crate) fn of_column(field: &Field, error: ArrowError) -> ArrowError {
    ArrowError::CastError(format!("column `{}`: {}", field.name(), arrow_reason(error)))
}

/// The candidate most like `name`, if one is like it at all.
pub(crate) fn nearest<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<String> {
    let among: Vec<&str> = among.collect();
    if let Some(twin) = among.iter().find(|it| signs::look_alike(name, it)) {
        return Some((*twin).to_owned());
    }
    let wanted = name.to_lowercase();
    among
        .into_iter()
        .map(|it| (strsim::damerau_levenshtein(&wanted, &it.to_lowercase()), it))
        .filter(|(distance, it)| *distance <= (it.chars().count().max(wanted.len()) / 3).max(1))
        .min()
        .map(|(_, it)| it.to_owned())
}

#[cfg(test)]
mod tests;
