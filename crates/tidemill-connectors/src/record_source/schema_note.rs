//! The columns that a job found in the first records of its source when it began, as its note keeps
//! them: a job that goes on has these, whatever the first records have become.
//!
//! Only types that are found in records are kept; those that the job names are taken from it.

use crate::columns::Shape;
use arrow_schema::{DataType, Field, Fields};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The columns that were found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SchemaNote {
    columns: Vec<(String, NotedType)>,
    /// There was no record to look at.
    pub(super) empty: bool,
}

/// A type that records can show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NotedType {
    Boolean,
    Bigint,
    /// 64 bits without sign.
    Unsigned,
    Double,
    Text,
    Timestamp,
    List(Box<NotedType>),
    Struct(Vec<(String, NotedType)>),
}

impl NotedType {
    /// None: no record shows it.
    fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Boolean => Self::Boolean,
            DataType::Int64 => Self::Bigint,
            DataType::UInt64 => Self::Unsigned,
            DataType::Float64 => Self::Double,
            DataType::Utf8 => Self::Text,
            DataType::Timestamp(..) => Self::Timestamp,
            DataType::List(element) => Self::List(Box::new(Self::of(element.data_type())?)),
            DataType::Struct(fields) => Self::Struct(named(fields.iter().map(|it| &**it))?),
            _ => return None,
        })
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Boolean => DataType::Boolean,
            Self::Bigint => DataType::Int64,
            Self::Unsigned => DataType::UInt64,
            Self::Double => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Timestamp => crate::column_type::moment_type(),
            Self::List(element) => {
                DataType::List(Arc::new(Field::new("item", element.data_type(), true)))
            }
            Self::Struct(fields) => DataType::Struct(Fields::from(fields_of(fields))),
        }
    }
}

fn named<'a>(fields: impl Iterator<Item = &'a Field>) -> Option<Vec<(String, NotedType)>> {
    fields.map(|it| Some((it.name().clone(), NotedType::of(it.data_type())?))).collect()
}

fn fields_of(columns: &[(String, NotedType)]) -> Vec<Field> {
    columns.iter().map(|(name, kind)| Field::new(name, kind.data_type(), true)).collect()
}

impl SchemaNote {
    /// The columns that records have shown, before the job's own types; none if they cannot be kept.
    pub(super) fn of(shape: &Shape, empty: bool) -> Option<Self> {
        Some(Self { columns: named(shape.fields.iter())?, empty })
    }

    pub(super) fn shape(&self) -> Shape {
        Shape { fields: fields_of(&self.columns), time: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema_inference::Sample;
    use crate::type_inference::Guesses;

    #[test]
    fn what_records_show_is_kept_in_its_order() {
        let mut sample = Sample::Json(Guesses::default());
        let record = r#"{"z":1,"big":18446744073709551615,"a":[{"x":[1.5],"":null}],"on":true,"at":"2026-01-01T00:00:00Z"}"#;
        sample.add(record.as_bytes()).expect("a record");
        let shape = sample.shape();
        let kept = SchemaNote::of(&shape, false).expect("it can be kept");
        let bytes = serde_json::to_vec(&kept).expect("it is written");
        let read: SchemaNote = serde_json::from_slice(&bytes).expect("it is read");
        assert_eq!((read.shape().fields, read.empty), (shape.fields, false));
    }

    #[test]
    fn the_deepest_type_can_be_read_back() {
        let mut sample = Sample::Json(Guesses::default());
        let record = format!("{}1{}", "{\"a\":".repeat(60), "}".repeat(60));
        sample.add(record.as_bytes()).expect("a record");
        let kept = SchemaNote::of(&sample.shape(), false).expect("it can be kept");
        let bytes = serde_json::to_vec(&kept).expect("it is written");
        assert_eq!(serde_json::from_slice::<SchemaNote>(&bytes).expect("it is read"), kept);
    }
}
