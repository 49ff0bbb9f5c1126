//! Times of years that nanoseconds do not reach.
//!
//! DataFusion compares a time with a text or a date in nanoseconds, which know the years 1677 to
//! 2262. Where a constant lies beyond those, or nobody knows as it is no constant, all are compared
//! in microseconds, as times are kept: that changes nothing else, and no digits are lost by it.

use arrow_schema::{
    DataType,
    TimeUnit::{Microsecond, Nanosecond},
};
use datafusion_common::{
    DFSchema, DataFusionError, ScalarValue,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    Between, BinaryExpr, Cast, Expr as Logical, ExprSchemable, Operator, expr::InList,
};
use std::sync::Arc;

/// An expression whose types are settled, with those comparisons in microseconds.
pub(crate) fn in_microseconds(
    logical: Logical,
    schema: &DFSchema,
) -> Result<Logical, DataFusionError> {
    logical.transform_up(|node| Ok(compared(node, schema))).data()
}

/// What `at time zone` makes of a time, as a time is kept. Types are not settled yet.
pub(crate) fn zones_in_microseconds(
    logical: Logical,
    schema: &DFSchema,
) -> Result<Logical, DataFusionError> {
    let kept = |node| match node {
        Logical::Cast(Cast { expr, field }) => {
            let held = || expr.get_type(schema);
            let is_finer = matches!(field.data_type(), DataType::Timestamp(Nanosecond, Some(_)))
                && matches!(held(), Ok(DataType::Timestamp(unit, _)) if unit != Nanosecond);
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

/// All that is compared with each other, if a far constant is among it or more than one is no
/// constant.
fn several<'a>(
    all: impl IntoIterator<Item = &'a Logical>,
    schema: &DFSchema,
) -> Option<Vec<Logical>> {
    let (mut has_far, mut others) = (false, 0);
    let one = |it: &Logical| {
        let (it, kind) = one(it, schema)?;
        has_far |= kind == Kind::Far;
        others += usize::from(kind == Kind::Other);
        Some(it)
    };
    let all = all.into_iter().map(one).collect::<Option<Vec<_>>>()?;
    (has_far || others > 1).then_some(all)
}

/// What is compared.
#[derive(PartialEq)]
enum Kind {
    /// A constant that nanoseconds do not reach.
    Far,
    Near,
    /// No constant.
    Other,
}

/// What was to be compared in nanoseconds, in microseconds.
fn one(it: &Logical, schema: &DFSchema) -> Option<(Logical, Kind)> {
    let Logical::Cast(Cast { expr, field }) = it else { return None };
    let DataType::Timestamp(Nanosecond, zone) = field.data_type() else { return None };
    let in_microseconds = DataType::Timestamp(Microsecond, zone.as_ref().map(Arc::clone));
    if let Some(value) = constant(expr) {
        let kind = if value.cast_to(field.data_type()).is_err() { Kind::Far } else { Kind::Near };
        return Some((Logical::Literal(value.cast_to(&in_microseconds).ok()?, None), kind));
    }
    // Those in nanoseconds are never that far, and have digits to lose.
    let held = expr.get_type(schema).ok()?;
    let is_kept = match held {
        DataType::Timestamp(unit, _) => unit != Nanosecond,
        other => matches!(other, DataType::Date32 | DataType::Date64),
    };
    is_kept.then(|| (Logical::Cast(Cast::new(expr.clone(), in_microseconds)), Kind::Other))
}

/// The value of a text, if it has no digits to lose, and of one that is cast, as `date '9000-01-01'`
/// is.
fn constant(expr: &Logical) -> Option<ScalarValue> {
    match expr {
        Logical::Literal(value, _) => {
            let text = value.try_as_str().flatten().unwrap_or_default();
            let fraction = text.split_once('.').map_or("", |(_, it)| it);
            let digits = fraction.chars().take_while(char::is_ascii_digit).count();
            (digits <= 6).then(|| value.clone())
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
