//! Comparisons of times with a text that has more digits of a second than the times.
//!
//! DataFusion compares both in nanoseconds, which do not cover all years of a time. Such a text lies between
//! two neighbouring times, so that it equals none. A time is before the text exactly if it is not after the
//! earlier neighbour, the text without the extra digits.

use arrow_schema::{
    DataType,
    TimeUnit::{Microsecond, Millisecond, Nanosecond, Second},
};
use datafusion_common::{
    DFSchema, DataFusionError, ScalarValue,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    Between, BinaryExpr, Cast, Expr as Logical, ExprSchemable, Operator, expr::InList,
};

/// Digits of a second in a time.
const DIGITS: usize = 6;

/// Rewrites such comparisons to the shorter text. Types must be coerced.
pub(crate) fn without_digits(
    logical: Logical,
    schema: &DFSchema,
) -> Result<Logical, DataFusionError> {
    logical.transform_up(|node| Ok(compared(node, schema))).data()
}

fn compared(node: Logical, schema: &DFSchema) -> Transformed<Logical> {
    let made = match &node {
        Logical::BinaryExpr(it) => of_two(it, schema),
        Logical::Between(it) if is_time(&it.expr, schema) => between(it, schema),
        Logical::InList(it) if is_time(&it.expr, schema) => listed(it),
        _ => None,
    };
    made.map_or_else(|| Transformed::no(node), Transformed::yes)
}

fn of_two(it: &BinaryExpr, schema: &DFSchema) -> Option<Logical> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let (time, op, text) = match (is_time(&it.left, schema), is_time(&it.right, schema)) {
        (true, _) => (&it.left, it.op, &it.right),
        (_, true) => (&it.right, it.op.swap()?, &it.left),
        _ => return None,
    };
    let earlier = earlier(text)?;
    let time = time.as_ref().clone();
    let is_itself = || time.clone().eq(time.clone());
    let is_another = || time.clone().not_eq(time.clone());
    Some(match op {
        // Of a time that is null they are null.
        Eq => is_another(),
        NotEq => is_itself(),
        IsDistinctFrom => is_itself().is_not_false(),
        IsNotDistinctFrom => is_another().is_true(),
        Lt | LtEq => time.lt_eq(earlier),
        Gt | GtEq => time.gt(earlier),
        _ => return None,
    })
}

fn between(it: &Between, schema: &DFSchema) -> Option<Logical> {
    if earlier(&it.low).is_none() && earlier(&it.high).is_none() {
        return None;
    }
    let time = || it.expr.as_ref().clone();
    let bound = |op, bound: &Logical| {
        let plain = BinaryExpr { left: Box::new(time()), op, right: Box::new(bound.clone()) };
        of_two(&plain, schema).unwrap_or(Logical::BinaryExpr(plain))
    };
    let both = bound(Operator::GtEq, &it.low).and(bound(Operator::LtEq, &it.high));
    Some(if it.negated { Logical::Not(Box::new(both)) } else { both })
}

fn listed(it: &InList) -> Option<Logical> {
    let list: Vec<Logical> = it.list.iter().filter(|it| earlier(it).is_none()).cloned().collect();
    if list.len() == it.list.len() {
        return None;
    }
    let time = it.expr.as_ref().clone();
    Some(match (list.is_empty(), it.negated) {
        (true, false) => time.clone().not_eq(time),
        (true, true) => time.clone().eq(time),
        (false, negated) => time.in_list(list, negated),
    })
}

/// Returns true for a cast to nanoseconds of a date, or of a time in a coarser unit.
fn is_time(expr: &Logical, schema: &DFSchema) -> bool {
    let Logical::Cast(Cast { expr, field }) = expr else { return false };
    matches!(field.data_type(), DataType::Timestamp(Nanosecond, _))
        && matches!(
            expr.get_type(schema),
            Ok(DataType::Timestamp(Second | Millisecond | Microsecond, _)
                | DataType::Date32
                | DataType::Date64)
        )
}

/// The text without its extra digits. None if it has none.
fn earlier(expr: &Logical) -> Option<Logical> {
    let Logical::Cast(Cast { expr, field }) = expr else { return None };
    let Logical::Literal(value, _) = &**expr else { return None };
    let text = value.try_as_str().flatten()?;
    let (whole, rest) = text.split_once('.')?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let cut = rest.get(DIGITS..digits)?;
    let is_time = matches!(field.data_type(), DataType::Timestamp(Nanosecond, _));
    // Zeros say nothing; and a text that is no time is for others to refuse.
    if !is_time || cut.bytes().all(|it| it == b'0') {
        return None;
    }
    let earlier = ScalarValue::from(format!("{whole}.{}{}", &rest[..DIGITS], &rest[digits..]));
    let micros = match field.data_type() {
        DataType::Timestamp(_, zone) => DataType::Timestamp(Microsecond, zone.clone()),
        other => other.clone(),
    };
    earlier.cast_to(&micros).ok()?;
    let earlier = Box::new(Logical::Literal(earlier, None));
    Some(Logical::Cast(Cast::new(earlier, field.data_type().clone())))
}
