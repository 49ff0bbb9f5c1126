//! Refusals of operands that have no common type, each with the cast that would do.

use super::operands::constant_text;
use arrow_schema::DataType;
use datafusion_common::{DFSchema, Result, plan_err};
use datafusion_expr::{Expr as Logical, ExprSchemable};

/// The use of a common type.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Comparison,
    Choice,
}

/// Refuses operands that have no common type, with a cast that would do.
pub(super) fn refuse_unlike(all: &[Logical], types: &[DataType], of: Use) -> Result<()> {
    for (nth, one) in types.iter().enumerate() {
        for (other, it) in types.iter().enumerate().skip(nth + 1) {
            let is_read = [&all[nth], &all[other]].iter().any(|it| constant_text(it).is_some());
            let (verb, refusal) = match of {
                // A constant text beside a time is read as one.
                Use::Comparison if is_read && (one.is_temporal() || it.is_temporal()) => continue,
                Use::Comparison => ("compare", refusal(one, it)),
                Use::Choice if is_read => continue,
                Use::Choice => ("choose between", choice_refusal(one, it)),
            };
            let Some(way_out) = refusal else { continue };
            return plan_err!(
                "cannot {verb} `{}`, which is {}, {} `{}`, which is {}: {way_out}",
                all[nth].human_display(),
                in_words(one),
                if of == Use::Comparison { "with" } else { "and" },
                all[other].human_display(),
                in_words(it)
            );
        }
    }
    Ok(())
}

/// The error for a text and a number of which one is chosen.
fn choice_refusal(one: &DataType, other: &DataType) -> Option<&'static str> {
    match (one, other) {
        (
            DataType::List(one) | DataType::LargeList(one),
            DataType::List(other) | DataType::LargeList(other),
        ) => choice_refusal(one.data_type(), other.data_type()),
        (one, other)
            if one.is_string() && other.is_numeric() || one.is_numeric() && other.is_string() =>
        {
            Some("cast one of them, as in `cast(x as text)` or `cast(x as double)`")
        }
        _ => None,
    }
}

/// The error for two types that cannot be compared, with a cast that helps.
fn refusal(one: &DataType, other: &DataType) -> Option<&'static str> {
    let both = |is_one: fn(&DataType) -> bool, is_other: fn(&DataType) -> bool| {
        (is_one(one) && is_other(other)) || (is_one(other) && is_other(one))
    };
    let is_date = |it: &DataType| matches!(it, DataType::Date32 | DataType::Date64);
    let is_clock = |it: &DataType| matches!(it, DataType::Time32(_) | DataType::Time64(_));
    let is_time = |it: &DataType| matches!(it, DataType::Timestamp(..));
    if both(DataType::is_string, DataType::is_numeric) {
        return Some(
            "cast the text, as in `cast(x as double)` or `cast(x as decimal(18, 2))`, declare the \
             column in `schema`, or compare with a text, as in `'10'`",
        );
    }
    if both(DataType::is_string, |it| *it == DataType::Boolean) {
        return Some("cast the text, as in `cast(x as boolean)`");
    }
    if both(DataType::is_string, is_date) {
        return Some("cast the text, as in `cast(x as date)`");
    }
    if both(DataType::is_string, is_clock) {
        return Some("cast the text, as in `cast(x as time)`");
    }
    if both(DataType::is_string, is_time) {
        return Some("cast the text, as in `cast(x as timestamp)`");
    }
    if both(DataType::is_numeric, is_date) {
        return Some("compare dates, as in `date '1970-01-01' + n`");
    }
    if both(DataType::is_numeric, is_time) {
        return Some("make a time of the number, as in `to_timestamp_seconds(n)`");
    }
    if both(DataType::is_numeric, |it| *it == DataType::Boolean) {
        return Some("cast the truth value, as in `cast(x as int)`");
    }
    if both(is_date, is_clock) {
        return Some("cast one of them, as in `cast(x as timestamp)`");
    }
    match (one, other) {
        (
            DataType::List(one) | DataType::LargeList(one),
            DataType::List(other) | DataType::LargeList(other),
        ) => refusal(one.data_type(), other.data_type()),
        (DataType::Struct(one), DataType::Struct(other)) => one
            .iter()
            .zip(other)
            .find_map(|(one, other)| refusal(one.data_type(), other.data_type())),
        _ => None,
    }
}

/// Refuses numbers as bytes: Arrow takes those of the machine's memory.
pub(super) fn refuse_bytes_of_number(
    expr: &Logical,
    to: &DataType,
    schema: &DFSchema,
) -> Result<()> {
    let is_bytes = matches!(
        to,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    );
    let held = expr.get_type(schema)?;
    if is_bytes && held.is_numeric() {
        return plan_err!(
            "`{}`, which is {}, is no text of bytes: cast it to text first, as in `cast(cast(x as \
             text) as bytea)`",
            expr.human_display(),
            in_words(&held)
        );
    }
    Ok(())
}

/// The name of a type in a job's `schema` or in a cast.
pub(super) fn in_words(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 => "tinyint".to_owned(),
        DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float32 => "real".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(..) => "timestamp".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "time".to_owned(),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => format!("decimal({p}, {s})"),
        it if it.is_string() => "text".to_owned(),
        other => other.to_string(),
    }
}
