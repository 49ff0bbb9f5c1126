//! Names of column types: SQL's, and Arrow's.

use crate::error::nearest;
use arrow_schema::{DataType, Field, TimeUnit};
use std::sync::Arc;

/// The type of event time, and of every moment that a source reads from text.
pub(crate) fn moment_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// The type names of job files.
pub(crate) const TYPE_NAMES: &str = "boolean, tinyint, smallint, int, bigint, real, double, text, \
    date, timestamp, or one of them followed by [] for a list";

const NAMES: [(&str, DataType); 36] = [
    ("boolean", DataType::Boolean),
    ("bool", DataType::Boolean),
    ("tinyint", DataType::Int8),
    ("int8", DataType::Int8),
    ("smallint", DataType::Int16),
    ("int16", DataType::Int16),
    ("int", DataType::Int32),
    ("integer", DataType::Int32),
    ("int32", DataType::Int32),
    ("bigint", DataType::Int64),
    ("int64", DataType::Int64),
    ("long", DataType::Int64),
    ("uint8", DataType::UInt8),
    ("uint16", DataType::UInt16),
    ("uint32", DataType::UInt32),
    ("uint64", DataType::UInt64),
    ("real", DataType::Float32),
    ("float4", DataType::Float32),
    ("float32", DataType::Float32),
    ("float", DataType::Float64),
    ("float8", DataType::Float64),
    ("float64", DataType::Float64),
    ("double", DataType::Float64),
    ("double precision", DataType::Float64),
    ("text", DataType::Utf8),
    ("string", DataType::Utf8),
    ("utf8", DataType::Utf8),
    ("varchar", DataType::Utf8),
    ("char", DataType::Utf8),
    ("date", DataType::Date32),
    ("date32", DataType::Date32),
    ("timestamp", DataType::Null),
    ("timestamptz", DataType::Null),
    ("timestamp with time zone", DataType::Null),
    ("datetime", DataType::Null),
    ("time", DataType::Null),
];

/// The type of a name; lengths such as `varchar(20)` are read and not kept.
///
/// # Errors
/// The nearest valid name, if one is near.
pub(crate) fn parse(name: &str) -> Result<DataType, Option<String>> {
    let lower = name.trim().to_ascii_lowercase();
    if let Some(element) = lower.strip_suffix("[]") {
        let element = parse(element)?;
        return Ok(DataType::List(Arc::new(Field::new("item", element, true))));
    }
    let bare = lower.split('(').next().unwrap_or_default().trim();
    let found = NAMES.iter().find(|(it, _)| *it == bare).map(|(_, data_type)| data_type.clone());
    match found {
        Some(DataType::Null) => Ok(moment_type()),
        Some(data_type) => Ok(data_type),
        None => Err(nearest(bare, NAMES.iter().map(|(it, _)| *it))),
    }
}

/// The SQL name of a type, for messages.
pub(crate) fn name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 => "tinyint",
        DataType::Int16 => "smallint",
        DataType::Int32 => "int",
        DataType::Int64 => "bigint",
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            "number without sign"
        }
        DataType::Float32 => "real",
        DataType::Float64 => "double",
        DataType::Utf8 => "text",
        DataType::Date32 => "date",
        DataType::Timestamp(_, _) => "time (ISO 8601, or epoch milliseconds)",
        DataType::List(_) => "list of the column's type",
        DataType::Struct(_) => "object of the column's type",
        _ => "value of the column's type",
    }
}

#[cfg(test)]
mod tests {
    //! Names that people write, and names that nobody means.

    use super::*;

    #[test]
    fn sql_and_arrow_names_are_types() {
        assert_eq!(parse("BIGINT"), Ok(DataType::Int64));
        assert_eq!(parse(" varchar(20) "), Ok(DataType::Utf8));
        assert_eq!(parse("Timestamp"), Ok(moment_type()));
        assert_eq!(parse("double precision"), Ok(DataType::Float64));
        let list = DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)));
        assert_eq!(parse("text[]"), Ok(list));
    }

    #[test]
    fn an_unknown_name_brings_the_nearest() {
        assert_eq!(parse("bigit"), Err(Some("bigint".to_owned())));
        assert_eq!(parse("quaternion"), Err(None));
        assert_eq!(parse(""), Err(None));
    }
}
