//! Comparisons of times with constants of years that nanoseconds do not reach.
//!
//! DataFusion compares a time with a text or a date in nanoseconds, which know the years 1677 to
//! 2262. Where one lies beyond those, all that it is compared with is compared in microseconds, as
//! times are kept: that changes nothing else, and no digits are lost by it.

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

/// All that is compared with each other, if a far constant is among it.
fn several<'a>(
    all: impl IntoIterator<Item = &'a Logical>,
    schema: &DFSchema,
) -> Option<Vec<Logical>> {
    let mut has_far = false;
    let one = |it: &Logical| {
        let (it, is_far) = one(it, schema)?;
        has_far |= is_far;
        Some(it)
    };
    let all = all.into_iter().map(one).collect::<Option<Vec<_>>>()?;
    has_far.then_some(all)
}

/// What was to be compared in nanoseconds, in microseconds, and whether it is a far constant.
fn one(it: &Logical, schema: &DFSchema) -> Option<(Logical, bool)> {
    let Logical::Cast(Cast { expr, field }) = it else { return None };
    let DataType::Timestamp(Nanosecond, zone) = field.data_type() else { return None };
    let in_microseconds = DataType::Timestamp(Microsecond, zone.as_ref().map(Arc::clone));
    if let Some(value) = constant(expr) {
        let is_far = value.cast_to(field.data_type()).is_err();
        return Some((Logical::Literal(value.cast_to(&in_microseconds).ok()?, None), is_far));
    }
    // Those in nanoseconds are never that far, and have digits to lose.
    let held = expr.get_type(schema).ok()?;
    matches!(held, DataType::Timestamp(unit, _) if unit != Nanosecond)
        .then(|| (Logical::Cast(Cast::new(expr.clone(), in_microseconds)), false))
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
