//! Arithmetic whose operands need another type than DataFusion gives them.
//!
//! | operands | here | DataFusion |
//! | --- | --- | --- |
//! | a time in seconds or milliseconds, and an interval | microseconds | no room for a part of a second |
//! | a date or a time, and a time of day | a time in microseconds | nanoseconds, of the years 1677 to 2262 |
//! | a date, and a whole number of days | [`DateMoved`] | fails for a large number beside a null date |
//! | `real` and a whole number | `double` | `real`, which has 24 bits of a number |
//! | a decimal by one with many digits behind the point | 256 bits | refuses |

use super::{
    operands::{common_number, digits},
    refusals::in_words,
};
use crate::evaluate::casts::DAYS;
use arrow_array::{
    Array, ArrayRef, Date32Array, Date64Array,
    cast::AsArray,
    types::{
        Date32Type, Date64Type, Decimal128Type, IntervalMonthDayNanoType, Time64NanosecondType,
    },
};
use arrow_cast::cast;
use arrow_schema::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, IntervalUnit,
    TimeUnit::{Microsecond, Millisecond, Nanosecond, Second},
};
use datafusion_common::{DFSchema, Result, ScalarValue, exec_err, plan_err};
use datafusion_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr as Logical, ExprSchemable, Operator, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, expr::ScalarFunction,
};
use std::sync::{Arc, LazyLock};

/// Digits that a quotient has behind the point, more than its dividend.
const QUOTIENT_DIGITS: i16 = 4;
const DAY_MS: i64 = 86_400_000;

/// True for `+`, `-`, `*`, `/` and `%`.
pub(super) fn is_arithmetic(op: Operator) -> bool {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    matches!(op, Plus | Minus | Multiply | Divide | Modulo)
}

/// The expression with its operands in types that have room for the result.
pub(super) fn arithmetic(it: BinaryExpr, schema: &DFSchema) -> Result<Logical> {
    let BinaryExpr { left, op, right } = it;
    let (one, other) = (left.get_type(schema)?, right.get_type(schema)?);
    if let Some(moved) = moved_date(&left, &one, op, &right, &other) {
        return Ok(moved);
    }
    let to = |expr: Box<Logical>, held: &DataType, to: Option<DataType>| match to {
        Some(to) if to != *held => Box::new(Logical::Cast(Cast::new(expr, to))),
        _ => expr,
    };
    let (of_left, of_right) = match (&one, &other) {
        (time, DataType::Interval(_)) => (with_room(time), None),
        (DataType::Interval(_), time) => (None, with_room(time)),
        (moment, clock) if is_clock(clock) && is_moment(moment) && is_sum(op) => {
            let (left, right) = (to(left, &one, moment_type(moment)), length_of(*right));
            return Ok(Logical::BinaryExpr(BinaryExpr { left, op, right }));
        }
        (clock, moment) if is_clock(clock) && is_moment(moment) && op == Operator::Plus => {
            let (left, right) = (length_of(*left), to(right, &other, moment_type(moment)));
            return Ok(Logical::BinaryExpr(BinaryExpr { left, op, right }));
        }
        (one, other) if one.is_floating() && other.is_integer() => float_type(one, other),
        (one, other) if one.is_integer() && other.is_floating() => float_type(one, other),
        (one, other)
            if one.is_numeric()
                && other.is_numeric()
                && (one.is_floating() || other.is_floating())
                && one != other =>
        {
            let common = common_number(one, other).unwrap_or(DataType::Float64);
            (Some(common.clone()), Some(common))
        }
        (one, other) if one.is_decimal() || other.is_decimal() => {
            fits_decimal(op, one, other)?;
            if let Some((dividend, divisor, quotient)) = wide_quotient(op, one, other) {
                let left = to(left, one, Some(dividend));
                let right = to(right, other, Some(divisor));
                let wide = Box::new(Logical::BinaryExpr(BinaryExpr { left, op, right }));
                return Ok(Logical::Cast(Cast::new(wide, quotient)));
            }
            (None, None)
        }
        _ => (None, None),
    };
    let (left, right) = (to(left, &one, of_left), to(right, &other, of_right));
    Ok(Logical::BinaryExpr(BinaryExpr { left, op, right }))
}

fn is_sum(op: Operator) -> bool {
    matches!(op, Operator::Plus | Operator::Minus)
}

fn is_clock(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Time32(_) | DataType::Time64(_))
}

fn is_moment(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64)
}

/// The type of a time that a time of day is added to. None if it has room for one.
fn moment_type(moment: &DataType) -> Option<DataType> {
    match moment {
        DataType::Timestamp(..) => with_room(moment),
        _ => Some(DataType::Timestamp(Microsecond, None)),
    }
}

/// A type with room for a part of a second. None if the type of the time has it, or is no such type.
fn with_room(time: &DataType) -> Option<DataType> {
    match time {
        DataType::Timestamp(Second | Millisecond, zone) => {
            Some(DataType::Timestamp(Microsecond, zone.clone()))
        }
        DataType::Time32(_) => Some(DataType::Time64(Microsecond)),
        _ => None,
    }
}

/// The types of a float and a whole number: as PostgreSQL has it, the result is `double`.
fn float_type(one: &DataType, other: &DataType) -> (Option<DataType>, Option<DataType>) {
    let is_half = |it: &DataType| *it == DataType::Float16;
    let common = match is_half(one) || is_half(other) {
        true => DataType::Float32,
        false => DataType::Float64,
    };
    (Some(common.clone()), Some(common))
}

/// Refuses products of decimals that have more digits behind the point than a decimal can.
fn fits_decimal(op: Operator, one: &DataType, other: &DataType) -> Result<()> {
    let (Some((_, s1)), Some((_, s2))) = (digits(one), digits(other)) else { return Ok(()) };
    let is_wide = |it: &DataType| matches!(it, DataType::Decimal256(..));
    let most = if is_wide(one) || is_wide(other) {
        DECIMAL256_MAX_PRECISION
    } else {
        DECIMAL128_MAX_PRECISION
    };
    if op == Operator::Multiply && s1 + s2 > i16::from(most) {
        return plan_err!(
            "the product of {} and {} has {} digits behind the point, and {most} are the most: cast \
             one of them to fewer, as in `cast(x as decimal(38, 10))`",
            in_words(one),
            in_words(other),
            s1 + s2
        );
    }
    Ok(())
}

/// The types of dividend, divisor and quotient where DataFusion finds no type, because the dividend with the
/// digits of the divisor is wider than 128 bits. The quotient has the digits that it would have.
fn wide_quotient(
    op: Operator,
    one: &DataType,
    other: &DataType,
) -> Option<(DataType, DataType, DataType)> {
    let is_wide = |it: &DataType| matches!(it, DataType::Decimal256(..));
    if op != Operator::Divide || is_wide(one) || is_wide(other) {
        return None;
    }
    let ((p1, s1), (p2, s2)) = (digits(one)?, digits(other)?);
    let scale = (s1 + QUOTIENT_DIGITS).min(DECIMAL128_MAX_PRECISION.into());
    if scale - s1 + s2 <= DECIMAL128_MAX_PRECISION.into() {
        return None;
    }
    let wide = |precision: i16, scale: i16| {
        let (precision, scale) = (u8::try_from(precision).ok()?, i8::try_from(scale).ok()?);
        Some(DataType::Decimal256(precision, scale))
    };
    let quotient = DataType::Decimal128(DECIMAL128_MAX_PRECISION, i8::try_from(scale).ok()?);
    Some((wide(p1, s1)?, wide(p2, s2)?, quotient))
}

/// Names of the functions that arithmetic calls.
pub(crate) const DAYS_AFTER: &str = "days after a date";
pub(crate) const DAYS_BEFORE: &str = "days before a date";
pub(crate) const LENGTH: &str = "length since midnight";

/// The interval from midnight to a time of day.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SinceMidnight {
    signature: Signature,
}

static LENGTH_OF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(SinceMidnight { signature }))
});

fn length_of(clock: Logical) -> Box<Logical> {
    let (func, args) = (Arc::clone(&LENGTH_OF), vec![clock]);
    Box::new(Logical::ScalarFunction(ScalarFunction { func, args }))
}

impl ScalarUDFImpl for SinceMidnight {
    fn name(&self) -> &str {
        LENGTH
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = matches!(arguments.args[..], [ColumnarValue::Scalar(_)]);
        let clocks = ColumnarValue::values_to_arrays(&arguments.args)?;
        let nanos = cast(&clocks[0], &DataType::Time64(Nanosecond))?;
        let nanos = nanos.as_primitive::<Time64NanosecondType>();
        let length = |it: i64| IntervalMonthDayNanoType::make_value(0, 0, it);
        let made: ArrayRef = Arc::new(nanos.unary::<_, IntervalMonthDayNanoType>(length));
        constant_or_column(made, is_constant)
    }
}

fn constant_or_column(made: ArrayRef, is_constant: bool) -> Result<ColumnarValue> {
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
        false => ColumnarValue::Array(made),
    })
}

/// A date that is moved by a number of days.
#[derive(Debug, PartialEq, Eq, Hash)]
struct DateMoved {
    signature: Signature,
    is_back: bool,
}

static LATER: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| DateMoved::function(false));
static EARLIER: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| DateMoved::function(true));

/// A date plus or minus a whole number, as a call. None for other operands.
fn moved_date(
    left: &Logical,
    one: &DataType,
    op: Operator,
    right: &Logical,
    other: &DataType,
) -> Option<Logical> {
    let is_date = |it: &DataType| matches!(it, DataType::Date32 | DataType::Date64);
    let (func, args) = match op {
        Operator::Plus if is_date(one) && other.is_integer() => (&LATER, [left, right]),
        Operator::Plus if one.is_integer() && is_date(other) => (&LATER, [right, left]),
        Operator::Minus if is_date(one) && other.is_integer() => (&EARLIER, [left, right]),
        _ => return None,
    };
    let args = args.into_iter().cloned().collect();
    Some(Logical::ScalarFunction(ScalarFunction { func: Arc::clone(func), args }))
}

impl DateMoved {
    fn function(is_back: bool) -> Arc<ScalarUDF> {
        let signature = Signature::any(2, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Self { signature, is_back }))
    }

    fn moved(&self, day: i64, by: i128) -> Result<i64> {
        let from = i128::from(day);
        let to = if self.is_back { from.checked_sub(by) } else { from.checked_add(by) };
        match to.and_then(|it| i64::try_from(it).ok()).filter(|it| DAYS.contains(it)) {
            Some(to) => Ok(to),
            None => {
                let date = ScalarValue::Date32(i32::try_from(day).ok());
                let sign = if self.is_back { '-' } else { '+' };
                exec_err!("date out of range: {date} {sign} {by}")
            }
        }
    }
}

impl ScalarUDFImpl for DateMoved {
    fn name(&self) -> &str {
        if self.is_back { DAYS_BEFORE } else { DAYS_AFTER }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(arguments.first().cloned().unwrap_or(DataType::Date32))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|it| matches!(it, ColumnarValue::Scalar(_)));
        let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [dates, numbers] = &columns[..] else {
            return exec_err!("a date and a number of days");
        };
        let numbers = cast(numbers, &DataType::Decimal128(DECIMAL128_MAX_PRECISION, 0))?;
        let numbers = numbers.as_primitive::<Decimal128Type>();
        let number = |row: usize| numbers.is_valid(row).then(|| numbers.value(row));
        let made: ArrayRef = match dates.data_type() {
            DataType::Date64 => {
                let dates = dates.as_primitive::<Date64Type>().iter().enumerate();
                let moved = dates.map(|(row, date)| match (date, number(row)) {
                    (Some(date), Some(by)) => {
                        let day = date.div_euclid(DAY_MS);
                        Ok(Some(date + (self.moved(day, by)? - day) * DAY_MS))
                    }
                    _ => Ok(None),
                });
                Arc::new(moved.collect::<Result<Date64Array>>()?)
            }
            _ => {
                let dates = dates.as_primitive::<Date32Type>().iter().enumerate();
                let moved = dates.map(|(row, date)| match (date, number(row)) {
                    (Some(date), Some(by)) => Ok(i32::try_from(self.moved(date.into(), by)?).ok()),
                    _ => Ok(None),
                });
                Arc::new(moved.collect::<Result<Date32Array>>()?)
            }
        };
        constant_or_column(made, is_constant)
    }
}
