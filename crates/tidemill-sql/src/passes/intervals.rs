//! Corrections for intervals, such as `interval '1 day'`.
//!
//! - Comparisons count 30 days for a month and 24 hours for a day, as in PostgreSQL. DataFusion compares
//!   months, then days, then the rest, so that a day is more than 25 hours. It treats the difference of two
//!   times as such a rest.
//! - A date plus a part of a day is a time. DataFusion drops the part of a day.

use crate::catalogue;
use arrow_array::{
    ArrayRef, Decimal128Array,
    cast::AsArray,
    types::{Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, IntervalYearMonthType},
};
use arrow_cast::cast;
use arrow_schema::{DataType, IntervalUnit, TimeUnit};
use datafusion_common::{
    DFSchema, DataFusionError, Result, ScalarValue, plan_err,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    Between, BinaryExpr, Case, Cast, ColumnarValue, Expr as Logical, ExprSchemable, Operator,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    expr::{InList, ScalarFunction},
};
use std::sync::{Arc, LazyLock};

const DAY_NS: i64 = 86_400_000_000_000;
const MONTH_DAYS: i64 = 30;
/// The type of an interval in nanoseconds; the longest interval fits.
const NANOS: DataType = DataType::Decimal128(38, 0);

/// The function from an interval to its nanoseconds.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalNanos {
    signature: Signature,
}

static NANOS_OF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(IntervalNanos { signature }))
});

impl ScalarUDFImpl for IntervalNanos {
    fn name(&self) -> &str {
        "nanoseconds of an interval"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(NANOS)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let lengths = ColumnarValue::values_to_arrays(&arguments.args)?;
        let made: ArrayRef = Arc::new(nanos(&lengths[0])?);
        let is_constant = matches!(arguments.args[..], [ColumnarValue::Scalar(_)]);
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

fn nanos(lengths: &ArrayRef) -> Result<Decimal128Array> {
    let of = |months: i32, days: i32, nanos: i64| {
        let days = i64::from(months) * MONTH_DAYS + i64::from(days);
        i128::from(days) * i128::from(DAY_NS) + i128::from(nanos)
    };
    let made: Decimal128Array = match lengths.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => lengths
            .as_primitive::<IntervalMonthDayNanoType>()
            .unary(|it| of(it.months, it.days, it.nanoseconds)),
        DataType::Interval(IntervalUnit::DayTime) => lengths
            .as_primitive::<IntervalDayTimeType>()
            .unary(|it| of(0, it.days, i64::from(it.milliseconds) * 1_000_000)),
        DataType::Interval(IntervalUnit::YearMonth) => {
            lengths.as_primitive::<IntervalYearMonthType>().unary(|it| of(it, 0, 0))
        }
        DataType::Duration(unit) => {
            let per_unit = match unit {
                TimeUnit::Second => 1_000_000_000,
                TimeUnit::Millisecond => 1_000_000,
                TimeUnit::Microsecond => 1_000,
                TimeUnit::Nanosecond => 1,
            };
            let numbers = cast(lengths, &DataType::Int64)?;
            numbers.as_primitive::<Int64Type>().unary(|it| i128::from(it) * per_unit)
        }
        other => return plan_err!("{other} is no length of time"),
    };
    Ok(made.with_data_type(NANOS))
}

/// Compares intervals by their nanoseconds. Types must be coerced.
pub(crate) fn compared(expr: Logical, schema: &DFSchema) -> Result<Logical, DataFusionError> {
    expr.transform_up(|node| by_length(node, schema)).data()
}

/// Converts a date to a time before a part of a day is added to it. Types must be coerced again afterwards.
pub(crate) fn moved(expr: Logical, schema: &DFSchema) -> Result<Logical, DataFusionError> {
    expr.transform_up(|node| Ok(date_moved(node, schema))).data()
}

fn is_length(expr: &Logical, schema: &DFSchema) -> bool {
    matches!(expr.get_type(schema), Ok(DataType::Interval(_)))
}

/// The nanoseconds of an interval. A cast around a difference of times is dropped: the difference of far
/// years would not fit the cast's type.
fn lasting(expr: Logical, schema: &DFSchema) -> Logical {
    let expr = match expr {
        Logical::Cast(Cast { expr, .. })
            if matches!(expr.get_type(schema), Ok(DataType::Duration(_))) =>
        {
            *expr
        }
        other => other,
    };
    let func = Arc::clone(&NANOS_OF);
    Logical::ScalarFunction(ScalarFunction { func, args: vec![expr] })
}

fn by_length(node: Logical, schema: &DFSchema) -> Result<Transformed<Logical>, DataFusionError> {
    let all = |all: &[&Logical]| all.iter().all(|it| is_length(it, schema));
    let boxed = |it: Box<Logical>| Box::new(lasting(*it, schema));
    Ok(match node {
        Logical::BinaryExpr(BinaryExpr { left, op, right })
            if op.supports_propagation() && all(&[&*left, &*right]) =>
        {
            let (left, right) = (boxed(left), boxed(right));
            Transformed::yes(Logical::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Logical::Between(Between { expr, negated, low, high }) if all(&[&*expr, &*low, &*high]) => {
            let (expr, low, high) = (boxed(expr), boxed(low), boxed(high));
            Transformed::yes(Logical::Between(Between { expr, negated, low, high }))
        }
        Logical::InList(InList { expr, list, negated })
            if all(&[&*expr]) && all(&list.iter().collect::<Vec<_>>()) =>
        {
            let list = list.into_iter().map(|it| lasting(it, schema)).collect();
            Transformed::yes(Logical::InList(InList { expr: boxed(expr), list, negated }))
        }
        Logical::Case(Case { expr: Some(expr), when_then_expr, else_expr })
            if is_length(&expr, schema) =>
        {
            let when_then_expr =
                when_then_expr.into_iter().map(|(when, then)| (boxed(when), then)).collect();
            let expr = Some(boxed(expr));
            Transformed::yes(Logical::Case(Case { expr, when_then_expr, else_expr }))
        }
        Logical::ScalarFunction(call) if call.args.iter().any(|it| is_length(it, schema)) => {
            let name = call.func.name();
            if catalogue::function(name).is_some_and(|row| !row.takes_intervals) {
                return plan_err!(
                    "`{name}` takes no lengths of time; `case when a > b then a else b end` does"
                );
            }
            match (name, <[Logical; 2]>::try_from(call.args.clone())) {
                ("nullif", Ok([value, other])) => {
                    let is_same =
                        Box::new(lasting(value.clone(), schema).eq(lasting(other, schema)));
                    let null = ScalarValue::try_from(value.get_type(schema)?)?;
                    Transformed::yes(Logical::Case(Case {
                        expr: None,
                        when_then_expr: vec![(is_same, Box::new(Logical::Literal(null, None)))],
                        else_expr: Some(Box::new(value)),
                    }))
                }
                _ => Transformed::no(Logical::ScalarFunction(call)),
            }
        }
        other => Transformed::no(other),
    })
}

fn date_moved(node: Logical, schema: &DFSchema) -> Transformed<Logical> {
    let Logical::BinaryExpr(BinaryExpr { left, op, right }) = node else {
        return Transformed::no(node);
    };
    let is_date = |it: &Logical| matches!(it.get_type(schema), Ok(DataType::Date32));
    let by_part = |it: &Logical| is_length(it, schema) && !is_of_days(it, schema);
    let as_time = |it: Box<Logical>| {
        Box::new(Logical::Cast(Cast::new(it, DataType::Timestamp(TimeUnit::Microsecond, None))))
    };
    let is_moved = matches!(op, Operator::Plus | Operator::Minus);
    let (left, right, is_changed) = if is_moved && is_date(&left) && by_part(&right) {
        (as_time(left), right, true)
    } else if op == Operator::Plus && is_date(&right) && by_part(&left) {
        (left, as_time(right), true)
    } else {
        (left, right, false)
    };
    let made = Logical::BinaryExpr(BinaryExpr { left, op, right });
    if is_changed { Transformed::yes(made) } else { Transformed::no(made) }
}

/// Returns true if the interval is known to consist of whole days.
fn is_of_days(expr: &Logical, schema: &DFSchema) -> bool {
    match expr {
        Logical::Literal(ScalarValue::IntervalMonthDayNano(it), _) => {
            it.is_none_or(|it| it.nanoseconds % DAY_NS == 0)
        }
        Logical::Literal(ScalarValue::IntervalDayTime(it), _) => {
            it.is_none_or(|it| it.milliseconds % 86_400_000 == 0)
        }
        Logical::Literal(ScalarValue::IntervalYearMonth(_), _) => true,
        Logical::Negative(it) => is_of_days(it, schema),
        // A date that is moved by a number is moved by so many days.
        Logical::Cast(Cast { expr, .. }) => {
            is_of_days(expr, schema) || expr.get_type(schema).is_ok_and(|it| it.is_integer())
        }
        Logical::Case(it) => {
            let mut values = it.when_then_expr.iter().map(|it| &it.1).chain(&it.else_expr);
            values.all(|it| is_of_days(it, schema))
        }
        _ => false,
    }
}
