//! Times beyond the range of nanoseconds.
//!
//! DataFusion converts a time and a text or a date to nanoseconds before it compares or combines them, and
//! nanoseconds cover the years 1677 to 2262. These passes use microseconds, the unit of records' times,
//! wherever no digits are lost.

use crate::catalogue::{self, TypeRule};
use arrow_schema::{
    DataType,
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
            several(&call.args, schema).map(|args| {
                Logical::ScalarFunction(ScalarFunction { func: Arc::clone(&call.func), args })
            })
        }
        Logical::BinaryExpr(it) if it.op == Operator::Minus => {
            sides([&*it.left, &*it.right], schema).map(|sides| {
                let [left, right] = sides.map(Box::new);
                Logical::BinaryExpr(BinaryExpr { left, op: it.op, right })
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
    let values = several(values.map(|it| &**it), schema);
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
    all.into_iter().map(|it| one(it, schema)).collect()
}

/// A cast to nanoseconds as a cast to microseconds. None if that would lose digits.
fn one(it: &Logical, schema: &DFSchema) -> Option<Logical> {
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
