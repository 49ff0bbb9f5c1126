//! `date_trunc` and `date_bin` for all years.
//!
//! DataFusion computes both in nanoseconds, whose range is the years 1677 to 2262; other times fail or
//! become null. Here `date_trunc` shifts such a time by a multiple of 400 years, after which the calendar
//! repeats, days of the week included. `date_bin` computes with 128 bits.

use arrow_array::{
    Array, ArrayRef, BooleanArray, Int64Array, TimestampMicrosecondArray,
    cast::AsArray,
    types::{Int64Type, IntervalDayTimeType, IntervalMonthDayNanoType, TimestampMicrosecondType},
};
use arrow_cast::cast;
use arrow_schema::{DataType, TimeUnit};
use arrow_select::nullif::nullif;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use std::sync::Arc;

const DAY_US: i64 = 86_400_000_000;
const DAY_NS: i128 = 86_400_000_000_000;
/// The period of the calendar.
const CYCLE_US: i64 = 146_097 * DAY_US;
/// The beginning of 1800. The 400 years from here on fit into nanoseconds.
const FROM_US: i64 = -62_091 * DAY_US;
/// The times whose year begins within the range of nanoseconds.
const NEAR_US: std::ops::RangeInclusive<i64> = i64::MIN / 1_000 + 366 * DAY_US..=i64::MAX / 1_000;

/// A column of times, and their unit. None if the argument is not a column of times.
fn times(of: Option<&ColumnarValue>) -> Option<(ArrayRef, TimeUnit)> {
    let Some(ColumnarValue::Array(array)) = of else { return None };
    match array.data_type() {
        DataType::Timestamp(unit, _) => Some((Arc::clone(array), *unit)),
        _ => None,
    }
}

/// `date_trunc` of a column.
pub(super) fn truncated(
    function: &ScalarUDF,
    arguments: ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    let Some((times, unit)) = times(arguments.args.get(1)) else {
        return function.invoke_with_args(arguments);
    };
    let DataType::Timestamp(_, zone) = times.data_type().clone() else { unreachable!("times") };
    let in_micros = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
    let micros = cast(&times, &in_micros)?;
    let micros = micros.as_primitive::<TimestampMicrosecondType>();
    let far: BooleanArray =
        micros.iter().map(|it| Some(it.is_some_and(|it| !NEAR_US.contains(&it)))).collect();
    if unit == TimeUnit::Nanosecond || far.true_count() == 0 {
        return function.invoke_with_args(arguments);
    }
    let rows = times.len();
    let ask = |times: ArrayRef| {
        let mut arguments = arguments.clone();
        let field = arguments.return_field.as_ref().clone();
        arguments.return_field = Arc::new(field.with_data_type(times.data_type().clone()));
        arguments.args[1] = ColumnarValue::Array(times);
        function.invoke_with_args(arguments)?.into_array(rows)
    };
    let near = cast(&ask(nullif(&times, &far)?)?, &in_micros)?;
    let near = near.as_primitive::<TimestampMicrosecondType>();
    // What a clock shows that is taken for one of the zone. In far years it is not changed any more.
    let clocks = cast(&micros.clone().with_timezone_opt(None::<Arc<str>>), &in_micros)?;
    let clocks = clocks.as_primitive::<TimestampMicrosecondType>();
    let moves = |row: usize| {
        let time = micros.value(row);
        let ahead = if clocks.is_valid(row) { time.wrapping_sub(clocks.value(row)) } else { 0 };
        let clock = time.saturating_add(ahead);
        (clock, clock.saturating_sub(FROM_US).div_euclid(CYCLE_US) * CYCLE_US, ahead)
    };
    let moved = (0..rows).map(|row| {
        let (clock, by, _) = moves(row);
        far.value(row).then(|| clock - by)
    });
    let cut = ask(Arc::new(moved.collect::<TimestampMicrosecondArray>()))?;
    let cut = cut.as_primitive::<TimestampMicrosecondType>();
    let all = (0..rows).map(|row| match far.value(row) {
        true => {
            let (_, by, ahead) = moves(row);
            cut.is_valid(row).then(|| cut.value(row) + by - ahead)
        }
        false => near.is_valid(row).then(|| near.value(row)),
    });
    let all = all.collect::<TimestampMicrosecondArray>().with_timezone_opt(zone);
    Ok(ColumnarValue::Array(cast(&all, times.data_type())?))
}

/// The length of a bin.
enum Stride {
    Months(i64),
    Nanos(i128),
}

/// `date_bin` of a column.
pub(super) fn binned(function: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let Some((times, unit)) = times(arguments.args.get(1)) else {
        return function.invoke_with_args(arguments);
    };
    let stride = match arguments.args.first() {
        Some(ColumnarValue::Scalar(ScalarValue::IntervalMonthDayNano(Some(it)))) => {
            match IntervalMonthDayNanoType::to_parts(*it) {
                (0, days, nanos) => Stride::Nanos(i128::from(days) * DAY_NS + i128::from(nanos)),
                (months, ..) => Stride::Months(months.into()),
            }
        }
        Some(ColumnarValue::Scalar(ScalarValue::IntervalDayTime(Some(it)))) => {
            let (days, millis) = IntervalDayTimeType::to_parts(*it);
            Stride::Nanos(i128::from(days) * DAY_NS + i128::from(millis) * 1_000_000)
        }
        _ => return function.invoke_with_args(arguments),
    };
    let origin = match arguments.args.get(2) {
        None => Some(0),
        Some(ColumnarValue::Scalar(ScalarValue::TimestampNanosecond(it, _))) => *it,
        Some(_) => None,
    };
    let made = function.invoke_with_args(arguments)?.into_array(times.len())?;
    let (Some(origin), true) = (origin, made.null_count() > times.null_count()) else {
        return Ok(ColumnarValue::Array(made));
    };
    let data_type = made.data_type().clone();
    let whole = |it: &ArrayRef| cast(it, &DataType::Int64);
    let (made, values) = (whole(&made)?, whole(&times)?);
    let (made, values) = (made.as_primitive::<Int64Type>(), values.as_primitive::<Int64Type>());
    let scale = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let row = |row: usize| {
        if values.is_null(row) || made.is_valid(row) {
            return Ok(made.is_valid(row).then(|| made.value(row)));
        }
        let bin = bin(i128::from(values.value(row)) * scale, &stride, origin.into());
        match bin.and_then(|it| i64::try_from(it.div_euclid(scale)).ok()) {
            Some(bin) => Ok(Some(bin)),
            None => exec_err!("there is no bin of the time {}", values.value(row)),
        }
    };
    let all = (0..values.len()).map(row).collect::<Result<Int64Array>>()?;
    Ok(ColumnarValue::Array(cast(&all, &data_type)?))
}

/// The beginning of a time's bin, in nanoseconds. None on overflow, or if the stride is not positive.
fn bin(time: i128, stride: &Stride, origin: i128) -> Option<i128> {
    let apart = time.checked_sub(origin)?;
    match stride {
        Stride::Nanos(stride) if *stride > 0 => Some(origin + apart.div_euclid(*stride) * stride),
        Stride::Months(stride) if *stride > 0 => {
            let ((month, _), (from, day)) = (month_of(time)?, month_of(origin)?);
            let bin = |months: i64| {
                let month = from + months;
                // As the 31st of a month that has none is its last day.
                let last = days_before(month + 1) - days_before(month);
                let days = days_before(month) + (day - 1).min(last - 1);
                i128::from(days) * DAY_NS + origin.rem_euclid(DAY_NS)
            };
            let months = (month - from).div_euclid(*stride) * stride;
            Some(match bin(months) {
                later if later > time => bin(months - stride),
                bin => bin,
            })
        }
        _ => None,
    }
}

/// The month of a time, counted from the year 0, and its day in the month, from 1.
fn month_of(time: i128) -> Option<(i64, i64)> {
    let days = i64::try_from(time.div_euclid(DAY_NS)).ok()?;
    // A month has 30 days and a half, about: it is this one, or one beside it.
    let mut month = ((days + 719_528) * 4_800).div_euclid(146_097) - 1;
    while days_before(month + 1) <= days {
        month += 1;
    }
    Some((month, days - days_before(month) + 1))
}

/// The days from 1970 to a month. Years are taken to begin in March, so that leap days are their last.
fn days_before(month: i64) -> i64 {
    let month = month - 2;
    let (year, month) = (month.div_euclid(12), month.rem_euclid(12));
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 - 719_468
}
#[cfg(test)]
mod tests;
