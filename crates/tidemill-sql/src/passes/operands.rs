//! Operands of unlike types: both take one type that holds every value of either, or the expression is
//! refused with the cast that would do.
//!
//! DataFusion compares text with numbers in the type of the number, so that `qty > 10` has no value for
//! `10.5`; it compares decimals with floats as `decimal(30, 15)`, which holds neither `1e20` nor `inf`;
//! and decimals of unlike scales in 38 digits, which may be too few.
//!
//! | operands | common type |
//! | --- | --- |
//! | decimals, whole numbers | a decimal with room for both, up to 76 digits |
//! | float and another number | `double`; `real` beside `real`, `tinyint` and `smallint` |
//! | constant float beside decimals or `bigint` | the decimal that is written, if it has at most 76 digits |
//! | times of day of unlike units | the finer unit |
//! | constant text beside another type | that type |
//! | text and numbers or truth values, dates and numbers, dates and times of day | refused |
//!
//! Choices (`case`, `coalesce`, `greatest`, …) among numbers take the same type. Those among texts and numbers
//! are refused: DataFusion makes numbers of the texts, and `10.5` beside a `bigint` would have no value.

use super::{
    arithmetic::{arithmetic, is_arithmetic},
    refusals::{Use, in_words, refuse_bytes_of_number, refuse_unlike},
};
use crate::{
    catalogue::{self, TypeRule, registry},
    evaluate::casts::time_of_day,
};
use arrow_schema::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType,
    TimeUnit::{self, Microsecond, Millisecond, Nanosecond, Second},
};
use datafusion_common::{
    DFSchema, DataFusionError, Result, ScalarValue, plan_err,
    tree_node::{Transformed, TreeNodeRewriter},
};
use datafusion_expr::{
    Between, BinaryExpr, Case, Cast, Expr as Logical, ExprSchemable,
    expr::{InList, ScalarFunction},
    planner::ContextProvider,
};
use datafusion_optimizer::analyzer::type_coercion::TypeCoercionRewriter;

/// Floats below this hold every whole number, so a comparison with a smaller constant is exact.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

/// Gives operands one type, bottom up, and leaves all else to DataFusion's own coercion.
pub(super) struct OperandRewriter<'a> {
    schema: &'a DFSchema,
    coercion: TypeCoercionRewriter<'a>,
}

impl<'a> OperandRewriter<'a> {
    pub(super) fn new(schema: &'a DFSchema) -> Self {
        Self { schema, coercion: TypeCoercionRewriter::new(schema) }
    }
}

impl TreeNodeRewriter for OperandRewriter<'_> {
    type Node = Logical;

    fn f_up(&mut self, node: Logical) -> Result<Transformed<Logical>> {
        let node = with_common_types(node, self.schema)?;
        self.coercion.f_up(node)
    }
}

fn with_common_types(node: Logical, schema: &DFSchema) -> Result<Logical> {
    Ok(match node {
        Logical::BinaryExpr(BinaryExpr { left, op, right }) if op.supports_propagation() => {
            let [left, right] = compared([*left, *right], schema)?.map(Box::new);
            Logical::BinaryExpr(BinaryExpr { left, op, right })
        }
        Logical::BinaryExpr(it) if is_arithmetic(it.op) => arithmetic(it, schema)?,
        Logical::Between(Between { expr, negated, low, high }) => {
            let [expr, low, high] = compared([*expr, *low, *high], schema)?.map(Box::new);
            Logical::Between(Between { expr, negated, low, high })
        }
        Logical::InList(InList { expr, list, negated }) => {
            let mut all = vec![*expr];
            all.extend(list);
            let mut all = several(all, schema, Use::Comparison)?;
            let expr = Box::new(all.remove(0));
            Logical::InList(InList { expr, list: all, negated })
        }
        Logical::Case(it) => case(it, schema)?,
        Logical::Cast(it) => {
            refuse_bytes_of_number(&it.expr, it.field.data_type(), schema)?;
            Logical::Cast(it)
        }
        Logical::TryCast(it) => {
            refuse_bytes_of_number(&it.expr, it.field.data_type(), schema)?;
            Logical::TryCast(it)
        }
        Logical::ScalarFunction(ScalarFunction { func, args }) => {
            let types = args.iter().map(|it| it.get_type(schema)).collect::<Result<Vec<_>>>()?;
            // DataFusion's `nvl` takes decimals for floats and times for texts.
            let is_own = |it: &DataType| {
                it.is_null()
                    || it.is_integer()
                    || it.is_floating()
                    || it.is_string()
                    || *it == DataType::Boolean
            };
            let func = match func.name() == "nvl" && !types.iter().all(is_own) {
                true => registry::shared().get_function_meta("coalesce").unwrap_or(func),
                false => func,
            };
            let args = match catalogue::type_rule(func.name()) {
                TypeRule::Own => args,
                TypeRule::Compared => several(args, schema, Use::Comparison)?,
                TypeRule::Chosen => several(args, schema, Use::Choice)?,
            };
            Logical::ScalarFunction(ScalarFunction { func, args })
        }
        other => other,
    })
}

fn compared<const N: usize>(all: [Logical; N], schema: &DFSchema) -> Result<[Logical; N]> {
    let all = several(all.into(), schema, Use::Comparison)?;
    all.try_into().map_err(|_| DataFusionError::Internal("operands are lost".to_owned()))
}

fn case(case: Case, schema: &DFSchema) -> Result<Logical> {
    let Case { expr, when_then_expr, else_expr } = case;
    let (mut whens, mut values): (Vec<Logical>, Vec<Logical>) =
        when_then_expr.into_iter().map(|(when, then)| (*when, *then)).unzip();
    let branches = values.len();
    let expr = match expr {
        Some(expr) => {
            whens.insert(0, *expr);
            whens = several(whens, schema, Use::Comparison)?;
            Some(Box::new(whens.remove(0)))
        }
        None => None,
    };
    values.extend(else_expr.map(|it| *it));
    let mut values = several(values, schema, Use::Choice)?;
    let else_expr = values.split_off(branches).pop().map(Box::new);
    let branches = whens.into_iter().zip(values);
    let when_then_expr = branches.map(|(when, then)| (Box::new(when), Box::new(then))).collect();
    Ok(Logical::Case(Case { expr, when_then_expr, else_expr }))
}

/// The operands, cast to their common type.
fn several(all: Vec<Logical>, schema: &DFSchema, of: Use) -> Result<Vec<Logical>> {
    let mut types = all.iter().map(|it| it.get_type(schema)).collect::<Result<Vec<_>>>()?;
    if types.windows(2).all(|pair| pair[0] == pair[1]) {
        return Ok(all);
    }
    let mut all = all;
    if of == Use::Comparison {
        for nth in 0..all.len() {
            if let Some(value) = constant_text(&all[nth])
                && let Some(other) = types.iter().find(|it| !it.is_string() && !it.is_null())
                && let Some(value) = value_of_text(&value, other)?
            {
                types[nth] = value.data_type();
                all[nth] = Logical::Literal(value, None);
            }
        }
    }
    refuse_unlike(&all, &types, of)?;
    let cast_to = |it: Logical, common: &DataType| match it.get_type(schema) {
        Ok(held) if held == *common => it,
        _ => Logical::Cast(Cast::new(Box::new(it), common.clone())),
    };
    if let Some(common) = common_clock(&types) {
        return Ok(all.into_iter().map(|it| cast_to(it, &common)).collect());
    }
    let is_number = |it: &DataType| it.is_numeric() || it.is_null();
    if !types.iter().all(is_number) {
        return Ok(all);
    }
    let is_exact = match of {
        Use::Comparison => needs_digits(&all, &types),
        Use::Choice => types.iter().any(DataType::is_decimal),
    };
    if is_exact {
        for nth in 0..all.len() {
            if let Some(value) = written_decimal(&all[nth]) {
                types[nth] = value.data_type();
                all[nth] = Logical::Literal(value, None);
            }
        }
    }
    let mut numbers = types.iter().filter(|it| !it.is_null());
    let Some(first) = numbers.next().cloned() else { return Ok(all) };
    let mut common = first;
    for other in numbers {
        let Some(wider) = common_number(&common, other) else {
            return plan_err!(
                "{} and {} have more than {DECIMAL256_MAX_PRECISION} digits together: cast one of \
                 them, as in `cast(x as decimal(38, 10))`",
                in_words(&common),
                in_words(other)
            );
        };
        common = wider;
    }
    Ok(all.into_iter().map(|it| cast_to(it, &common)).collect())
}

/// The text of a constant.
pub(super) fn constant_text(expr: &Logical) -> Option<String> {
    let Logical::Literal(value, _) = expr else { return None };
    value.try_as_str().flatten().map(str::to_owned)
}

/// A constant text as a number or a truth value. None if DataFusion's own rule is right.
fn value_of_text(text: &str, beside: &DataType) -> Result<Option<ScalarValue>> {
    let text = text.trim();
    let made = match beside {
        DataType::Boolean => ScalarValue::from(text).cast_to(&DataType::Boolean).ok(),
        DataType::Float32 | DataType::Float64 => text.parse::<f64>().ok().map(ScalarValue::from),
        DataType::Time32(_) | DataType::Time64(_) => clock_of_text(text),
        it if it.is_numeric() => {
            decimal_of_digits(text).or_else(|| text.parse::<f64>().ok().map(ScalarValue::from))
        }
        _ => return Ok(None),
    };
    match made {
        Some(made) => Ok(Some(made)),
        None => {
            plan_err!("`'{text}'` is not of the type {} that it is compared with", in_words(beside))
        }
    }
}

/// A time of day as it is written: in microseconds, or in nanoseconds if it has some.
fn clock_of_text(text: &str) -> Option<ScalarValue> {
    let nanos = time_of_day(text)?;
    Some(match nanos % 1_000 {
        0 => ScalarValue::Time64Microsecond(Some(nanos / 1_000)),
        _ => ScalarValue::Time64Nanosecond(Some(nanos)),
    })
}

/// The finest of the units of times of day. None if there are other types among them.
fn common_clock(types: &[DataType]) -> Option<DataType> {
    let unit = |it: &DataType| match it {
        DataType::Time32(unit) | DataType::Time64(unit) => Some(*unit),
        _ => None,
    };
    let is_clock = |it: &DataType| it.is_null() || unit(it).is_some();
    let finest: TimeUnit = types.iter().filter_map(unit).max()?;
    types.iter().all(is_clock).then_some(match finest {
        Second | Millisecond => DataType::Time32(finest),
        Microsecond | Nanosecond => DataType::Time64(finest),
    })
}

/// True if floats would not do for an exact comparison of decimals or whole numbers with constant floats.
fn needs_digits(all: &[Logical], types: &[DataType]) -> bool {
    let mut others = 0;
    for (one, data_type) in all.iter().zip(types) {
        let value = match one {
            Logical::Literal(ScalarValue::Float64(Some(it)), _) => Some(*it),
            Logical::Literal(value, _) => match value.cast_to(&DataType::Float64) {
                Ok(ScalarValue::Float64(Some(it))) => Some(it),
                _ => None,
            },
            _ => None,
        };
        match value {
            Some(value) if value.abs() >= EXACT_FLOAT_MAX => return true,
            Some(_) => {}
            None if data_type.is_floating() || data_type.is_null() => {}
            None if data_type.is_decimal() => return true,
            None => others += 1,
        }
    }
    others > 1
}

/// The decimal that a constant float was written as.
fn written_decimal(expr: &Logical) -> Option<ScalarValue> {
    match expr {
        Logical::Literal(ScalarValue::Float64(Some(value)), _) if value.is_finite() => {
            decimal_of_digits(&value.to_string())
        }
        _ => None,
    }
}

/// The number of a text of digits: a whole number if it is one of 64 bits, else a decimal.
fn decimal_of_digits(text: &str) -> Option<ScalarValue> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(ScalarValue::from(whole));
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |it: &str| it.bytes().all(|it| it.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) || whole.len() + fraction.len() == 0 {
        return None;
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    let scale = i8::try_from(fraction.len()).ok()?;
    let precision = u8::try_from((whole.len() + fraction.len()).max(1)).ok()?;
    let sign = if text.starts_with('-') { "-" } else { "" };
    let unscaled = format!("{sign}{whole}{fraction}");
    let unscaled = if whole.len() + fraction.len() == 0 { "0" } else { unscaled.as_str() };
    if precision <= DECIMAL128_MAX_PRECISION {
        Some(ScalarValue::Decimal128(Some(unscaled.parse().ok()?), precision, scale))
    } else if precision <= DECIMAL256_MAX_PRECISION {
        let unscaled = arrow_buffer::i256::from_string(unscaled)?;
        Some(ScalarValue::Decimal256(Some(unscaled), precision, scale))
    } else {
        None
    }
}

/// The digits of a whole number or a decimal, and its digits behind the point.
pub(super) fn digits(data_type: &DataType) -> Option<(i16, i16)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => (i16::from(*p), i16::from(*s)),
        _ => return None,
    })
}

/// A type that holds every value of two types of numbers. None if there is no such type.
pub(super) fn common_number(one: &DataType, other: &DataType) -> Option<DataType> {
    if one == other {
        return Some(one.clone());
    }
    if one.is_floating() || other.is_floating() {
        let is_small = |it: &DataType| {
            use DataType::{Float16, Float32, Int8, Int16, UInt8, UInt16};
            matches!(it, Float16 | Float32 | Int8 | Int16 | UInt8 | UInt16)
        };
        let is_small = is_small(one) && is_small(other);
        return Some(if is_small { DataType::Float32 } else { DataType::Float64 });
    }
    if !one.is_decimal() && !other.is_decimal() {
        return common_integer(one, other);
    }
    let ((p1, s1), (p2, s2)) = (digits(one)?, digits(other)?);
    let scale = s1.max(s2);
    let precision = (p1 - s1).max(p2 - s2) + scale;
    let (precision, scale) = (u8::try_from(precision.max(1)).ok()?, i8::try_from(scale).ok()?);
    let is_wide = |it: &DataType| matches!(it, DataType::Decimal256(..));
    if precision <= DECIMAL128_MAX_PRECISION && !is_wide(one) && !is_wide(other) {
        Some(DataType::Decimal128(precision, scale))
    } else if precision <= DECIMAL256_MAX_PRECISION {
        Some(DataType::Decimal256(precision, scale))
    } else {
        None
    }
}

fn common_integer(one: &DataType, other: &DataType) -> Option<DataType> {
    let width = |it: &DataType| it.primitive_width();
    let (wider, narrower) = if width(one) >= width(other) { (one, other) } else { (other, one) };
    if wider.is_signed_integer() && narrower.is_signed_integer()
        || wider.is_unsigned_integer() && narrower.is_unsigned_integer()
        || wider.is_signed_integer() && width(wider) > width(narrower)
    {
        return Some(wider.clone());
    }
    // An unsigned number beside a signed one of at most its width.
    let unsigned = if one.is_unsigned_integer() { one } else { other };
    Some(match unsigned {
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        _ => DataType::Decimal128(20, 0),
    })
}
