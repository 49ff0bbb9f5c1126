//! Casts that Arrow makes of what it should not, or fails for the values of other rows.
//!
//! - Bytes as text: only the bytes of these rows decide, not all that is in the memory of their batch.
//! - Text as a time of day: it has a colon, and is before 24:00. Arrow takes a number for nanoseconds.
//! - Whole numbers as times of day and as dates: those of a day, and those that can be written. Arrow keeps
//!   any number.
//! - Floats as decimals: floats with more digits before the point than the type has have no value. Arrow
//!   multiplies first, and the product may be rounded to one that fits.

use super::postprocess::{Postprocess, postprocess};
use arrow_array::{
    Array, ArrayRef, BooleanArray, UInt32Array,
    cast::AsArray,
    types::{Decimal128Type, Float32Type, Float64Type},
};
use arrow_cast::{cast, parse::string_to_time_nanoseconds};
use arrow_schema::{DataType, Schema, TimeUnit};
use arrow_select::{nullif::nullif, take::take};
use datafusion_common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{CastExpr, TryCastExpr},
};
use std::{ops::RangeInclusive, sync::Arc};

const DAY_NS: i64 = 86_400_000_000_000;
/// The first and the last day that can be written, of the years -262143 and 262142.
pub(crate) const DAYS: RangeInclusive<i64> = -96_465_292..=95_026_236;

/// The cast with its argument as it has to be, if it is one of these.
pub(super) fn corrected(
    node: &Arc<dyn PhysicalExpr>,
    input: &Schema,
) -> Result<Option<Arc<dyn PhysicalExpr>>, DataFusionError> {
    let (from, to, is_tried) = if let Some(it) = node.downcast_ref::<CastExpr>() {
        (it.expr(), it.cast_type(), false)
    } else if let Some(it) = node.downcast_ref::<TryCastExpr>() {
        (it.expr(), it.cast_type(), true)
    } else {
        return Ok(None);
    };
    let argument = match (from.data_type(input)?, to) {
        (DataType::Binary | DataType::LargeBinary, it) if it.is_string() => {
            postprocess(from, OwnBytes)
        }
        (it, DataType::Time32(_) | DataType::Time64(_)) if it.is_string() => {
            postprocess(from, TimesOfDay { is_tried })
        }
        (it, DataType::Time32(unit) | DataType::Time64(unit)) if it.is_integer() => {
            postprocess(from, Counts::of_day(*unit, is_tried))
        }
        (it, DataType::Date32) if it.is_integer() => postprocess(from, Counts::of_dates(is_tried)),
        (it, DataType::Decimal128(precision, scale)) if it.is_floating() => {
            let digits = i32::from(*precision) - i32::from(*scale);
            postprocess(from, DigitsBeforePoint { digits, is_tried })
        }
        _ => return Ok(None),
    };
    Arc::clone(node).with_new_children(vec![argument]).map(Some)
}

/// The bytes of these rows alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct OwnBytes;

impl Postprocess for OwnBytes {
    fn apply(&self, values: ColumnarValue) -> Result<ColumnarValue> {
        let ColumnarValue::Array(array) = &values else { return Ok(values) };
        let rows = UInt32Array::from_iter_values(0..array.len() as u32);
        Ok(ColumnarValue::Array(take(array, &rows, None)?))
    }
}

/// The nanoseconds since midnight of a text. None if it is no time of day, such as one of the second after
/// 23:59:59.
pub(crate) fn time_of_day(text: &str) -> Option<i64> {
    let nanos = text.contains(':').then(|| string_to_time_nanoseconds(text))?.ok()?;
    (0..DAY_NS).contains(&nanos).then_some(nanos)
}

/// Texts that are written as a time of day is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct TimesOfDay {
    is_tried: bool,
}

impl Postprocess for TimesOfDay {
    fn apply(&self, values: ColumnarValue) -> Result<ColumnarValue> {
        let of = |texts: &ArrayRef| {
            let texts = cast(texts, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>().iter();
            let is_unfit = |it: &&str| time_of_day(it).is_none();
            Ok(texts.map(|it| it.filter(is_unfit).map(str::to_owned)).collect())
        };
        let why =
            |text: &str| format!("`{text}` is no time of day, such as `12:30` or `12:30:00.5`");
        without(values, self.is_tried, of, why)
    }
}

/// Whole numbers that are days since 1970, or counts of a unit since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Counts {
    least: i64,
    most: i64,
    /// The name of a value of the type.
    kind: &'static str,
    is_tried: bool,
}

impl Counts {
    fn of_dates(is_tried: bool) -> Self {
        let (least, most) = (*DAYS.start(), *DAYS.end());
        Self { least, most, kind: "date", is_tried }
    }

    fn of_day(unit: TimeUnit, is_tried: bool) -> Self {
        let unit_ns = match unit {
            TimeUnit::Second => 1_000_000_000,
            TimeUnit::Millisecond => 1_000_000,
            TimeUnit::Microsecond => 1_000,
            TimeUnit::Nanosecond => 1,
        };
        Self { least: 0, most: DAY_NS / unit_ns - 1, kind: "time of day", is_tried }
    }
}

impl Postprocess for Counts {
    fn apply(&self, values: ColumnarValue) -> Result<ColumnarValue> {
        let range = i128::from(self.least)..=i128::from(self.most);
        let of = |numbers: &ArrayRef| {
            let numbers = cast(numbers, &DataType::Decimal128(38, 0))?;
            let numbers = numbers.as_primitive::<Decimal128Type>().iter();
            let unfit = |it: Option<i128>| it.filter(|it| !range.contains(it));
            Ok(numbers.map(|it| unfit(it).map(|it| it.to_string())).collect())
        };
        let Self { least, most, kind, is_tried } = *self;
        let why = |number: &str| format!("{number} is no {kind}: those are {least} to {most}");
        without(values, is_tried, of, why)
    }
}

/// Floats with no more digits before the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct DigitsBeforePoint {
    digits: i32,
    is_tried: bool,
}

impl Postprocess for DigitsBeforePoint {
    fn apply(&self, values: ColumnarValue) -> Result<ColumnarValue> {
        let bound = 10_f64.powi(self.digits);
        let is_beyond = |it: f64| it.is_finite() && it.abs() >= bound;
        let of = |floats: &ArrayRef| {
            let beyond = |it: Option<f64>| it.filter(|it| is_beyond(*it)).map(|it| it.to_string());
            Ok(match floats.data_type() {
                DataType::Float64 => {
                    floats.as_primitive::<Float64Type>().iter().map(beyond).collect()
                }
                DataType::Float32 => {
                    let floats = floats.as_primitive::<Float32Type>().iter();
                    floats.map(|it| beyond(it.map(f64::from))).collect()
                }
                _ => Vec::new(),
            })
        };
        let why = |number: &str| {
            format!(
                "{number} has more digits before the point than the {} of its decimal",
                self.digits
            )
        };
        without(values, self.is_tried, of, why)
    }
}

/// Values without those that have none after the cast: they are null if it is tried, else there is an
/// error.
fn without(
    values: ColumnarValue,
    is_tried: bool,
    unfit: impl Fn(&ArrayRef) -> Result<Vec<Option<String>>>,
    why: impl Fn(&str) -> String,
) -> Result<ColumnarValue> {
    let array = values.to_array(1)?;
    let unfit = unfit(&array)?;
    let Some(first) = unfit.iter().flatten().next() else { return Ok(values) };
    if !is_tried {
        return exec_err!("{}", why(first));
    }
    let is_unfit: BooleanArray = unfit.iter().map(|it| Some(it.is_some())).collect();
    let array = nullif(&array, &is_unfit)?;
    Ok(match values {
        ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
        ColumnarValue::Array(_) => ColumnarValue::Array(array),
    })
}
