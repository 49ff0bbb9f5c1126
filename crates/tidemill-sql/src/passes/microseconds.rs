//! Times beyond the range of nanoseconds.
//!
//! DataFusion converts a time and a text or a date to nanoseconds before it compares or combines them, and
//! nanoseconds cover the years 1677 to 2262. These passes use microseconds, the unit of records' times,
//! wherever no digits are lost.

use super::nanoseconds;
use crate::{
    catalogue::{self, TypeRule},
    evaluate::physical,
};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{
    DataType, Schema,
    TimeUnit::{Microsecond, Nanosecond},
};
use datafusion_common::{
    DFSchema, DataFusionError, ScalarValue,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    Between, BinaryExpr, Case, Cast, Expr as Logical, ExprSchemable, Operator,
    expr::{InList, ScalarFunction},
};
use std::sync::Arc;

/// Runs comparisons of times in microseconds. Types must be coerced.
pub(crate) fn in_microseconds(
    logical: Logical,
    schema: &DFSchema,
) -> Result<Logical, DataFusionError> {
    logical.transform_up(|node| Ok(compared(node, schema))).data()
}

/// Runs `at time zone` in microseconds. Types need not be coerced.
pub(crate) fn zones_in_microseconds(
    logical: Logical,
    schema: &DFSchema,
) -> Result<Logical, DataFusionError> {
    let kept = |node| match node {
        Logical::Cast(Cast { expr, field }) => {
            let held = || expr.get_type(schema);
            let is_kept = match held() {
                Ok(DataType::Timestamp(unit, _)) => unit != Nanosecond,
                held => matches!(held, Ok(DataType::Date32 | DataType::Date64)),
            };
            let is_finer =
                is_kept && matches!(field.data_type(), DataType::Timestamp(Nanosecond, Some(_)));
            let (DataType::Timestamp(_, zone), true) = (field.data_type(), is_finer) else {
                return Transformed::no(Logical::Cast(Cast { expr, field }));
            };
            let to = DataType::Timestamp(Microsecond, zone.clone());
            Transformed::yes(Logical::Cast(Cast::new(expr, to)))
        }
        other => Transformed::no(other),
    };
    logical.transform_up(|node| Ok(kept(node))).data()
}

/// Runs differences of times, and functions and cases that choose among times, in microseconds. Types must
/// be coerced before, and again afterwards.
pub(crate) fn chosen_in_microseconds(
    logical: Logical,
    schema: &DFSchema,
) -> Result<Logical, DataFusionError> {
    logical.transform_up(|node| Ok(chosen(node, schema))).data()
}

fn chosen(node: Logical, schema: &DFSchema) -> Transformed<Logical> {
    let made = match &node {
        Logical::ScalarFunction(call)
            if catalogue::type_rule(call.func.name()) != TypeRule::Own =>
        {
            match &call.args[..] {
                // Its result is a time, and both are compared to the last digit.
                [one, other] if call.func.name() == "nullif" && are_unlike(&call.args, schema) => {
                    Some(null_if(one, other, schema))
                }
                args => alike(args, schema).map(|args| {
                    Logical::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args })
                }),
            }
        }
        Logical::BinaryExpr(it) if it.op == Operator::Minus => {
            alike([&*it.left, &*it.right], schema).and_then(|sides| {
                let [left, right] = <[Logical; 2]>::try_from(sides).ok()?.map(Box::new);
                Some(Logical::BinaryExpr(BinaryExpr { left, op: it.op, right }))
            })
        }
        Logical::Case(it) => case(it, schema).map(Logical::Case),
        // As `coalesce` asks.
        Logical::IsNotNull(it) => one(it, schema).map(|it| Logical::IsNotNull(Box::new(it))),
        Logical::IsNull(it) => one(it, schema).map(|it| Logical::IsNull(Box::new(it))),
        _ => None,
    };
    made.map_or_else(|| Transformed::no(node), Transformed::yes)
}

/// A `case` with its operand and its values in microseconds. None if both stay as they are.
fn case(it: &Case, schema: &DFSchema) -> Option<Case> {
    let conditions = it.expr.iter().chain(it.when_then_expr.iter().map(|it| &it.0));
    let values = it.when_then_expr.iter().map(|it| &it.1).chain(&it.else_expr);
    let conditions = it.expr.as_ref().and_then(|_| several(conditions.map(|it| &**it), schema));
    let values = alike(values.map(|it| &**it), schema);
    if conditions.is_none() && values.is_none() {
        return None;
    }
    let (mut made, branches) = (it.clone(), it.when_then_expr.len());
    if let Some(mut conditions) = conditions {
        let whens = conditions.split_off(1);
        made.expr = conditions.pop().map(Box::new);
        for (branch, when) in made.when_then_expr.iter_mut().zip(whens) {
            *branch.0 = when;
        }
    }
    if let Some(mut values) = values {
        made.else_expr = values.split_off(branches).pop().map(Box::new);
        for (branch, then) in made.when_then_expr.iter_mut().zip(values) {
            *branch.1 = then;
        }
    }
    Some(made)
}

fn compared(node: Logical, schema: &DFSchema) -> Transformed<Logical> {
    let made = match &node {
        Logical::BinaryExpr(it) if is_comparison(it.op) => sides([&*it.left, &*it.right], schema)
            .map(|sides| {
                let [left, right] = sides.map(Box::new);
                Logical::BinaryExpr(BinaryExpr { left, op: it.op, right })
            }),
        Logical::Between(it) => sides([&*it.expr, &*it.low, &*it.high], schema).map(|sides| {
            let [expr, low, high] = sides.map(Box::new);
            Logical::Between(Between { expr, negated: it.negated, low, high })
        }),
        Logical::InList(it) => {
            let all = std::iter::once(&*it.expr).chain(&it.list);
            several(all, schema).map(|mut list| {
                let expr = Box::new(list.remove(0));
                Logical::InList(InList { expr, list, negated: it.negated })
            })
        }
        _ => None,
    };
    made.map_or_else(|| Transformed::no(node), Transformed::yes)
}

fn is_comparison(operator: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(operator, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn sides<const N: usize>(all: [&Logical; N], schema: &DFSchema) -> Option<[Logical; N]> {
    several(all, schema)?.try_into().ok()
}

/// All operands in microseconds. None if one of them cannot be converted.
fn several<'a>(
    all: impl IntoIterator<Item = &'a Logical>,
    schema: &DFSchema,
) -> Option<Vec<Logical>> {
    let all: Vec<&Logical> = all.into_iter().collect();
    if all.iter().all(|it| matches!(it, Logical::ScalarFunction(_))) {
        return None;
    }
    all.into_iter().map(|it| one(it, schema)).collect()
}

/// Times in microseconds that are chosen or subtracted: those in nanoseconds beside others, too.
fn alike<'a>(
    all: impl IntoIterator<Item = &'a Logical>,
    schema: &DFSchema,
) -> Option<Vec<Logical>> {
    let all: Vec<&Logical> = all.into_iter().collect();
    if let Some(made) = several(all.iter().copied(), schema) {
        return Some(made);
    }
    if !are_unlike(all.iter().copied(), schema) {
        return None;
    }
    let in_microseconds = |it: &Logical| match it.get_type(schema) {
        Ok(DataType::Timestamp(Nanosecond, zone)) => {
            let to = DataType::Timestamp(Microsecond, zone);
            one(it, schema).unwrap_or_else(|| Logical::Cast(Cast::new(Box::new(it.clone()), to)))
        }
        _ => it.clone(),
    };
    Some(all.into_iter().map(in_microseconds).collect())
}

/// True if one of them is cast to nanoseconds to go with one that is in them.
fn are_unlike<'a>(all: impl IntoIterator<Item = &'a Logical>, schema: &DFSchema) -> bool {
    let (mut has_coarser, mut has_nanos) = (false, false);
    for it in all {
        let is_coarser = nanoseconds::in_own_unit(it, schema).is_some();
        has_coarser |= is_coarser;
        has_nanos |= !is_coarser
            && matches!(it.get_type(schema), Ok(DataType::Timestamp(Nanosecond, _)))
            && !matches!(it, Logical::Literal(value, _) if value.is_null());
    }
    has_coarser && has_nanos
}

/// `nullif` of times in unlike units, as a `case`.
fn null_if(time: &Logical, other: &Logical, schema: &DFSchema) -> Logical {
    let equal = time.clone().eq(other.clone());
    let kept = one(time, schema).unwrap_or_else(|| time.clone());
    let null = Logical::Literal(ScalarValue::Null, None);
    let when_then_expr = vec![(Box::new(equal), Box::new(null))];
    Logical::Case(Case { expr: None, when_then_expr, else_expr: Some(Box::new(kept)) })
}

/// A cast to nanoseconds as a cast to microseconds. None if that would lose digits.
fn one(it: &Logical, schema: &DFSchema) -> Option<Logical> {
    if let Some(made) = constant_in_microseconds(it) {
        return Some(made);
    }
    let Logical::Cast(Cast { expr, field }) = it else { return None };
    let DataType::Timestamp(Nanosecond, zone) = field.data_type() else { return None };
    let in_microseconds = DataType::Timestamp(Microsecond, zone.as_ref().map(Arc::clone));
    if let Some(value) = constant(expr) {
        return Some(Logical::Literal(value.cast_to(&in_microseconds).ok()?, None));
    }
    // Those in nanoseconds are never that far, and have digits to lose.
    let held = expr.get_type(schema).ok()?;
    let is_kept = match held {
        DataType::Timestamp(unit, _) => unit != Nanosecond,
        other => matches!(other, DataType::Date32 | DataType::Date64),
    };
    is_kept.then(|| Logical::Cast(Cast::new(expr.clone(), in_microseconds)))
}

/// A constant call that gives nanoseconds, such as `to_timestamp('2024-01-01')`, as a constant in
/// microseconds. None if that would lose digits.
fn constant_in_microseconds(it: &Logical) -> Option<Logical> {
    if !matches!(it, Logical::ScalarFunction(_)) || it.any_column_refs() {
        return None;
    }
    let nothing = DFSchema::empty();
    let Ok(DataType::Timestamp(Nanosecond, zone)) = it.get_type(&nothing) else { return None };
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let row =
        RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &options).ok()?;
    let made = physical::physical(it, &nothing).ok()?.evaluate(&row).ok()?.into_array(1).ok()?;
    let value = ScalarValue::try_from_array(&made, 0).ok()?;
    let ScalarValue::TimestampNanosecond(Some(nanos), _) = value else { return None };
    let micros = (nanos % 1_000 == 0).then_some(nanos / 1_000)?;
    Some(Logical::Literal(ScalarValue::TimestampMicrosecond(Some(micros), zone), None))
}

/// The constant of a literal or of a cast literal, such as `date '9000-01-01'`. None if it has digits
/// below a microsecond.
fn constant(expr: &Logical) -> Option<ScalarValue> {
    match expr {
        Logical::Literal(value, _) => {
            let text = value.try_as_str().flatten().unwrap_or_default();
            let fraction = text.split_once('.').map_or("", |(_, it)| it);
            let digits = fraction.bytes().take_while(u8::is_ascii_digit);
            digits.skip(6).all(|it| it == b'0').then(|| value.clone())
        }
        Logical::Cast(Cast { expr, field }) => {
            let value = constant(expr)?;
            let in_microseconds = |zone| DataType::Timestamp(Microsecond, zone);
            match field.data_type() {
                DataType::Timestamp(Nanosecond, zone) => {
                    value.cast_to(&in_microseconds(zone.clone()))
                }
                other => value.cast_to(other),
            }
            .ok()
        }
        _ => None,
    }
}
