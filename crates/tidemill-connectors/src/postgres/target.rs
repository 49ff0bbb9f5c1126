//! The types of PostgreSQL that rows can be written to, and the values that each of them holds.

use crate::column_cast::has_json;
use crate::layout::plain_type;
use arrow_schema::DataType;

/// Most digits that a `numeric` with a precision can have.
const PRECISION_MAX: u16 = 1000;
/// Digits of a second that microseconds have.
pub(super) const MICRO_DIGITS: u8 = 6;

/// A type of PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PostgresType {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    /// With the digits that it has, and those of them after the point, if it is bounded.
    Numeric(Option<(u16, i16)>),
    /// With the characters that it may have, if it is bounded.
    Text(Option<u32>),
    Bytes,
    Uuid,
    Json,
    Jsonb,
    Date,
    /// With the digits of a second that it has, if they are fewer than those of microseconds.
    Time(Option<u8>),
    /// With time zone or without: the moment in UTC. With its digits of a second, as above.
    Timestamp(Option<u8>),
}

impl PostgresType {
    /// The type with this name in the catalog, if it can be written.
    pub(super) fn of(name: &str, is_enum: bool, modifier: i32) -> Option<Self> {
        if is_enum {
            return Some(Self::Text(None));
        }
        let of_second = u8::try_from(modifier).ok().filter(|it| *it < MICRO_DIGITS);
        // Four bytes of every other modifier are those of a header.
        let modifier = (modifier >= 4).then(|| modifier - 4);
        Some(match name {
            "bool" => Self::Bool,
            "int2" => Self::Int2,
            "int4" => Self::Int4,
            "int8" => Self::Int8,
            "float4" => Self::Float4,
            "float8" => Self::Float8,
            "numeric" => Self::Numeric(modifier.map(digits)),
            "text" | "citext" => Self::Text(None),
            "varchar" | "bpchar" => Self::Text(modifier.map(i32::unsigned_abs)),
            "bytea" => Self::Bytes,
            "uuid" => Self::Uuid,
            "json" => Self::Json,
            "jsonb" => Self::Jsonb,
            "date" => Self::Date,
            "time" => Self::Time(of_second),
            "timestamp" | "timestamptz" => Self::Timestamp(of_second),
            _ => return None,
        })
    }

    /// The type that a column of ours gets in a table that is made, and its name; none if there is
    /// no such type.
    pub(super) fn made_for(source: &DataType) -> Option<(Self, String)> {
        use DataType as D;
        let source = &plain_type(source);
        let (target, name) = match source {
            D::Boolean => (Self::Bool, "boolean"),
            D::Int8 | D::Int16 | D::UInt8 => (Self::Int2, "smallint"),
            D::Int32 | D::UInt16 => (Self::Int4, "integer"),
            D::Int64 | D::UInt32 => (Self::Int8, "bigint"),
            D::UInt64 => (Self::Numeric(Some((20, 0))), "numeric(20,0)"),
            D::Float32 => (Self::Float4, "real"),
            D::Float64 => (Self::Float8, "double precision"),
            D::Utf8 | D::Null => (Self::Text(None), "text"),
            D::Binary => (Self::Bytes, "bytea"),
            D::Date32 | D::Date64 => (Self::Date, "date"),
            D::Time32(_) | D::Time64(_) => (Self::Time(None), "time"),
            D::Timestamp(_, _) => (Self::Timestamp(None), "timestamp with time zone"),
            D::Decimal128(p, s) | D::Decimal256(p, s) => return Some(numeric(*p, *s)),
            nested if is_nested(nested) => (Self::Jsonb, "jsonb"),
            _ => return None,
        };
        Some((target, name.to_owned()))
    }

    /// Returns true if it takes values of such a column, or those of them that it can hold.
    pub(super) fn takes(self, source: &DataType) -> bool {
        use DataType as D;
        let is = |among: &[Self]| among.contains(&self);
        let is_numeric = matches!(self, Self::Numeric(_));
        match &plain_type(source) {
            D::Null => true,
            D::Boolean => is(&[Self::Bool]),
            it if it.is_integer() => {
                is_numeric || is(&[Self::Int2, Self::Int4, Self::Int8, Self::Float4, Self::Float8])
            }
            D::Float32 => is(&[Self::Float4, Self::Float8]),
            D::Float64 => is(&[Self::Float8]),
            D::Utf8 => matches!(self, Self::Text(_)) || is(&[Self::Uuid, Self::Json, Self::Jsonb]),
            // Only values of 16 bytes are a UUID; the others are refused one by one.
            D::Binary => is(&[Self::Bytes, Self::Uuid]),
            D::Date32 | D::Date64 => is(&[Self::Date]),
            D::Time32(_) | D::Time64(_) => matches!(self, Self::Time(_)),
            D::Timestamp(_, _) => matches!(self, Self::Timestamp(_)),
            D::Decimal128(_, scale) | D::Decimal256(_, scale) => match self {
                // The server would round without a word.
                Self::Numeric(Some((_, kept))) => kept >= i16::from(*scale),
                _ => is_numeric,
            },
            nested => is_nested(nested) && is(&[Self::Json, Self::Jsonb]),
        }
    }
}

/// True of lists and objects that JSON has a form for.
fn is_nested(source: &DataType) -> bool {
    use DataType as D;
    matches!(source, D::List(_) | D::Struct(_) | D::Map(_, _)) && has_json(source)
}

/// Digits, and those after the point, as a modifier without its header has them.
fn digits(modifier: i32) -> (u16, i16) {
    let bits = modifier & 0x7ff;
    let scale = (bits ^ 0x400) - 0x400;
    let precision = (modifier >> 16) & 0xffff;
    (u16::try_from(precision).unwrap_or(PRECISION_MAX), i16::try_from(scale).unwrap_or(0))
}

fn numeric(precision: u8, scale: i8) -> (PostgresType, String) {
    // A scale below zero says that the last digits are zeros; a table has room for them.
    let digits = match scale {
        ..0 => (u16::from(precision) + u16::from(scale.unsigned_abs()), 0),
        _ => (u16::from(precision.max(scale.unsigned_abs())), i16::from(scale)),
    };
    (PostgresType::Numeric(Some(digits)), format!("numeric({},{})", digits.0, digits.1))
}

#[cfg(test)]
mod tests {
    //! Modifiers as the catalog has them, and types that are made.

    use super::*;

    #[test]
    fn modifiers_say_what_a_column_can_hold() {
        let numeric = |precision: i32, scale: i32| ((precision << 16) | (scale & 0x7ff)) + 4;
        let of = |modifier| PostgresType::of("numeric", false, modifier);
        assert_eq!(of(-1), Some(PostgresType::Numeric(None)));
        assert_eq!(of(numeric(10, 2)), Some(PostgresType::Numeric(Some((10, 2)))));
        assert_eq!(of(numeric(3, -2)), Some(PostgresType::Numeric(Some((3, -2)))));
        assert_eq!(PostgresType::of("varchar", false, 9), Some(PostgresType::Text(Some(5))));
        assert_eq!(PostgresType::of("timestamptz", false, -1), Some(PostgresType::Timestamp(None)));
        assert_eq!(PostgresType::of("timestamptz", false, 6), Some(PostgresType::Timestamp(None)));
        assert_eq!(PostgresType::of("timestamp", false, 3), Some(PostgresType::Timestamp(Some(3))));
        assert_eq!(PostgresType::of("time", false, 0), Some(PostgresType::Time(Some(0))));
        assert_eq!(PostgresType::of("text", false, -1), Some(PostgresType::Text(None)));
        assert_eq!(PostgresType::of("mood", true, -1), Some(PostgresType::Text(None)));
        assert_eq!(PostgresType::of("point", false, -1), None);
    }

    #[test]
    fn a_table_that_is_made_takes_what_it_was_made_for() {
        let utc = Some("UTC".into());
        let moment = DataType::Timestamp(arrow_schema::TimeUnit::Second, utc);
        for source in [
            DataType::UInt64,
            DataType::Decimal128(38, 10),
            DataType::Decimal128(5, -3),
            DataType::Decimal32(2, 4),
            DataType::new_list(DataType::Int8, true),
            moment,
        ] {
            let (target, _) = PostgresType::made_for(&source).expect("it has a type");
            assert!(target.takes(&source), "{source}");
        }
        assert_eq!(
            PostgresType::made_for(&DataType::Duration(arrow_schema::TimeUnit::Second)),
            None
        );
        assert!(!PostgresType::Numeric(Some((10, 1))).takes(&DataType::Decimal128(10, 2)));
        assert!(!PostgresType::Float4.takes(&DataType::Float64));
    }
}
