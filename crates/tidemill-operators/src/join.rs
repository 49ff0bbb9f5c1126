//! Rows of two inputs that belong together: stream with stream, or stream with table.
//!
//! ```text
//! port 0, left  ─▶ ┌ slice ────────────────┐
//!                  │ left rows | right rows │ ─▶ left's columns, right's columns but its keys
//! port 1, right ─▶ └───────────────────────┘
//! ```
//!
//! - Both ports are partitioned by their key columns, in the same order, so equal keys meet in one
//!   slice. Key columns are compared as their common type. A null key equals nothing.
//! - In a cycle, a slice takes the left rows, then the right rows (`stream.rs`); or the table's
//!   rows, then the stream's (`table.rs`). Its output follows from that order alone.

mod pairs;
mod stream;
mod table;

#[cfg(test)]
mod tests;

use crate::keys::{KeyCodec, UnknownColumn, column};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use pairs::Shape;
use std::{fmt, sync::Arc};
use tidemill_flow::{OperatorFactory, TIME_COLUMN, partition::check_key_type};
use tidemill_types::Span;
use tidemill_types::job::{JoinKind, JoinSpec};

/// A join, ready to run.
#[derive(Clone)]
pub struct Join {
    /// The operator: port 0 is the left side, port 1 the right side or the table.
    pub factory: Arc<dyn OperatorFactory>,
    /// Columns by whose hash port 0 must be partitioned.
    pub left_keys: Vec<usize>,
    /// Columns by whose hash port 1 must be partitioned.
    pub right_keys: Vec<usize>,
}

impl fmt::Debug for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Join")
            .field("left_keys", &self.left_keys)
            .field("right_keys", &self.right_keys)
            .finish_non_exhaustive()
    }
}

/// A side of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Port 0.
    Left,
    /// Port 1.
    Right,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Left => "left",
            Self::Right => "right",
        })
    }
}

/// Why two inputs cannot be joined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JoinError {
    /// `right` and `table`, or neither.
    #[error("a join takes either `right` (a stream) or `table`, and one of them")]
    Sides,
    /// `on` names no column.
    #[error("`on` is empty: name the columns that must be equal")]
    NoColumns,
    /// `on` names something that a side does not have.
    #[error("in `on`, {side} side: {error}")]
    Unknown {
        /// Which side.
        side: Side,
        /// The unknown column.
        error: UnknownColumn,
    },
    /// Two columns can never be equal.
    #[error(
        "in `on`: the left `{left}` is {left_type}, but the right `{right}` is {right_type}; make \
         them the same with `cast` in a `select` before the join"
    )]
    Types {
        /// The left column.
        left: String,
        /// Its type.
        left_type: DataType,
        /// The right column.
        right: String,
        /// Its type.
        right_type: DataType,
    },
    /// A column cannot be a key.
    #[error("in `on`: the column `{name}` of type {data_type} cannot be a key")]
    KeyType {
        /// The column.
        name: String,
        /// Its type.
        data_type: DataType,
    },
    /// Two streams without `within`.
    #[error("a join of two streams needs `within`, the largest distance in time of a pair")]
    NoWithin,
    /// A table with `within`.
    #[error("`within` is for two streams; a row of a table holds until the next of its key")]
    WithinTable,
    /// `within` is negative.
    #[error("`within` is {0}, but must not be negative")]
    Within(Span),
    /// A stream without event time.
    #[error(
        "`within` needs event time, which the {0} side does not have: give its source a `time`"
    )]
    NoTime(Side),
}

/// The join that a job describes.
///
/// # Errors
/// The inputs cannot be joined so.
pub fn join(left: &SchemaRef, right: &SchemaRef, spec: &JoinSpec) -> Result<Join, JoinError> {
    if spec.right.is_some() == spec.table.is_some() {
        return Err(JoinError::Sides);
    }
    if spec.on.is_empty() {
        return Err(JoinError::NoColumns);
    }
    let mut keys = Keys::default();
    for on in &spec.on {
        keys.add(left, right, on)?;
    }
    let shape = shape(left, right, &keys.right, spec.kind);
    let sides = Codecs {
        left: (keys.left.clone(), keys.types.clone()),
        right: (keys.right.clone(), keys.types),
    };
    let factory: Arc<dyn OperatorFactory> = match (&spec.table, spec.within) {
        (Some(_), Some(_)) => return Err(JoinError::WithinTable),
        (Some(_), None) => Arc::new(table::TableJoin { shape, sides }),
        (None, None) => return Err(JoinError::NoWithin),
        (None, Some(within)) if within.0 < 0 => return Err(JoinError::Within(within)),
        (None, Some(within)) => {
            for (side, schema) in [(Side::Left, left), (Side::Right, right)] {
                schema.index_of(TIME_COLUMN).map_err(|_| JoinError::NoTime(side))?;
            }
            Arc::new(stream::StreamJoin { shape, sides, within })
        }
    };
    Ok(Join { factory, left_keys: keys.left, right_keys: keys.right })
}

/// Key columns of both sides, and the types as which they are compared.
#[derive(Default)]
struct Keys {
    left: Vec<usize>,
    right: Vec<usize>,
    types: Vec<DataType>,
}

impl Keys {
    fn add(&mut self, left: &SchemaRef, right: &SchemaRef, on: &str) -> Result<(), JoinError> {
        let (left_name, right_name) = match on.split_once('=') {
            // A column may have any name, even one with `=` in it.
            Some((l, r)) if left.index_of(on).is_err() => {
                (l.trim(), r.trim_start_matches('=').trim())
            }
            _ => (on.trim(), on.trim()),
        };
        let unknown = |side| move |error| JoinError::Unknown { side, error };
        let left_key = column(left, left_name).map_err(unknown(Side::Left))?;
        let right_key = column(right, right_name).map_err(unknown(Side::Right))?;
        let types = (left.field(left_key).data_type(), right.field(right_key).data_type());
        for (name, data_type) in [(left_name, types.0), (right_name, types.1)] {
            if check_key_type(data_type).is_err() {
                let (name, data_type) = (name.to_owned(), data_type.clone());
                return Err(JoinError::KeyType { name, data_type });
            }
        }
        let common = common_type(types.0, types.1).ok_or_else(|| JoinError::Types {
            left: left_name.to_owned(),
            left_type: types.0.clone(),
            right: right_name.to_owned(),
            right_type: types.1.clone(),
        })?;
        self.left.push(left_key);
        self.right.push(right_key);
        self.types.push(common);
        Ok(())
    }
}

/// The type as which two key columns are compared. Only types whose equal values have equal
/// hashes are let together: integers, floats, text and bytes of any width.
fn common_type(left: &DataType, right: &DataType) -> Option<DataType> {
    if let DataType::Dictionary(_, left) = left {
        return common_type(left, right);
    }
    if let DataType::Dictionary(_, right) = right {
        return common_type(left, right);
    }
    let text =
        |it: &DataType| matches!(it, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let bytes = |it: &DataType| {
        let is_sized = matches!(it, DataType::FixedSizeBinary(_));
        is_sized || matches!(it, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
    };
    match (left, right) {
        (left, right) if left == right => Some(left.clone()),
        (l, r) if l.is_unsigned_integer() && r.is_unsigned_integer() => Some(DataType::UInt64),
        // An unsigned number beyond the signed ones becomes null, which equals nothing: rightly.
        (l, r) if l.is_integer() && r.is_integer() => Some(DataType::Int64),
        (l, r) if l.is_floating() && r.is_floating() => Some(DataType::Float64),
        (l, r) if text(l) && text(r) => Some(DataType::Utf8),
        (l, r) if bytes(l) && bytes(r) => Some(DataType::Binary),
        (DataType::Decimal128(digits, scale), DataType::Decimal128(others, other))
            if scale == other =>
        {
            Some(DataType::Decimal128(*digits.max(others), *scale))
        }
        (DataType::Timestamp(unit, zone), DataType::Timestamp(other, other_zone))
            if unit == other && zone.is_some() == other_zone.is_some() =>
        {
            Some(left.clone())
        }
        _ => None,
    }
}

/// The columns of the output.
fn shape(left: &SchemaRef, right: &SchemaRef, right_keys: &[usize], kind: JoinKind) -> Shape {
    let mut fields: Vec<Arc<Field>> = left.fields().to_vec();
    let mut right_columns = Vec::new();
    for (index, field) in right.fields().iter().enumerate() {
        if right_keys.contains(&index) || field.name() == TIME_COLUMN {
            continue;
        }
        let mut name = field.name().clone();
        let taken = |name: &str| {
            let own = right.fields().iter().any(|it| it.name() == name && it != field);
            // Those of the left, and those that columns of the right were given.
            fields.iter().any(|it| it.name() == name) || (name != field.name() && own)
        };
        while taken(&name) {
            name.insert_str(0, "right_");
        }
        let nullable = field.is_nullable() || kind == JoinKind::Left;
        fields.push(Arc::new(field.as_ref().clone().with_name(name).with_nullable(nullable)));
        right_columns.push(index);
    }
    Shape {
        schema: Arc::new(Schema::new(fields)),
        left_columns: left.fields().len(),
        left_time: left.index_of(TIME_COLUMN).ok(),
        right_columns,
        kind,
    }
}

/// The key columns of both sides, and their common types.
#[derive(Clone, Debug)]
struct Codecs {
    left: (Vec<usize>, Vec<DataType>),
    right: (Vec<usize>, Vec<DataType>),
}

impl Codecs {
    /// The key columns as people see them: named as on the left, of the type that is compared.
    fn key_fields(&self, left: &Schema) -> Vec<FieldRef> {
        let (columns, types) = &self.left;
        let field = |(column, data_type): (&usize, &DataType)| {
            Arc::new(Field::new(left.field(*column).name(), data_type.clone(), true))
        };
        columns.iter().zip(types).map(field).collect()
    }

    fn make(&self) -> [KeyCodec; 2] {
        [&self.left, &self.right].map(|(columns, types)| {
            KeyCodec::new(columns.clone(), types.clone())
                .expect("every type that can be a key can be compared")
        })
    }
}
