//! Arguments at the ends of their types, where DataFusion's functions compute beyond them.
//!
//! - `substr` and `substring`: a start far before the text.
//! - `array_element` and `array_slice`: places that no list has.
//! - `date_part('nanosecond', …)` of lengths of time: the seconds count once.
//! - `acosh` and `asinh`: numbers whose square is beyond all floats.

use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array,
    cast::AsArray,
    types::{Float64Type, Int64Type, IntervalMonthDayNanoType},
};
use arrow_cast::cast;
use arrow_schema::{DataType, IntervalUnit};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use std::sync::Arc;

/// No text and no list is longer.
const LENGTH_MAX: i64 = i32::MAX as i64 - 1;
const MINUTE_NS: i64 = 60_000_000_000;

/// The arguments that a function needs within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bounds {
    /// A start, and how many letters from there.
    Substring,
    /// Places in a list: all arguments but the list.
    Places,
    /// The part of a length of time.
    Part,
    /// A float of which the function computes the square.
    Square,
}

impl Bounds {
    /// The function with its arguments within bounds.
    pub(super) fn invoke(
        self,
        function: &ScalarUDF,
        mut arguments: ScalarFunctionArgs,
    ) -> Result<ColumnarValue> {
        match self {
            Self::Substring => {
                within_text(&mut arguments)?;
                function.invoke_with_args(arguments)
            }
            Self::Places => {
                for place in arguments.args.iter_mut().skip(1) {
                    within_list(place)?;
                }
                function.invoke_with_args(arguments)
            }
            Self::Part => match nanoseconds(&arguments.args)? {
                Some(made) => Ok(made),
                None => function.invoke_with_args(arguments),
            },
            Self::Square => {
                let (args, rows) = (arguments.args.clone(), arguments.number_rows);
                with_large(&args, function.invoke_with_args(arguments)?, rows)
            }
        }
    }
}

/// True if an argument of whole numbers has one of which that is so.
fn any(argument: &ColumnarValue, is: impl Fn(i64) -> bool) -> bool {
    match argument {
        ColumnarValue::Scalar(ScalarValue::Int64(it)) => it.is_some_and(is),
        ColumnarValue::Scalar(_) => false,
        ColumnarValue::Array(array) => {
            array.as_primitive_opt::<Int64Type>().is_some_and(|it| it.iter().flatten().any(is))
        }
    }
}

/// Moves starts before a text to its first letter, and takes what lies before it off the length.
fn within_text(arguments: &mut ScalarFunctionArgs) -> Result<()> {
    let is_far = |start: i64| start < -LENGTH_MAX;
    if !arguments.args.get(1).is_some_and(|it| any(it, is_far)) {
        return Ok(());
    }
    let is_constant = arguments.args.iter().all(|it| matches!(it, ColumnarValue::Scalar(_)));
    let mut columns = ColumnarValue::values_to_arrays(&arguments.args)?;
    let starts = columns[1].as_primitive::<Int64Type>().clone();
    if let Some(lengths) = columns.get(2).and_then(|it| it.as_primitive_opt::<Int64Type>()) {
        let length = |row: usize| {
            let (length, start) = (lengths.value(row), starts.value(row));
            lengths.is_valid(row).then(|| match starts.is_valid(row) && is_far(start) {
                // A length below 0 is for the function to refuse.
                true if length >= 0 => start.saturating_add(length).saturating_sub(1).max(0),
                _ => length,
            })
        };
        columns[2] = Arc::new((0..starts.len()).map(length).collect::<Int64Array>());
    }
    columns[1] = Arc::new(starts.unary::<_, Int64Type>(|it| if is_far(it) { 1 } else { it }));
    let argument = |it: ArrayRef| {
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&it, 0)?),
            false => ColumnarValue::Array(it),
        })
    };
    arguments.args = columns.into_iter().map(argument).collect::<Result<_>>()?;
    Ok(())
}

/// Moves places that no list has to one that none has either, and that takes 32 bits.
fn within_list(place: &mut ColumnarValue) -> Result<()> {
    let bounded = |it: i64| it.clamp(-LENGTH_MAX, LENGTH_MAX);
    if !any(place, |it| it != bounded(it)) {
        return Ok(());
    }
    *place = match &*place {
        ColumnarValue::Array(array) => {
            let places = array.as_primitive::<Int64Type>();
            ColumnarValue::Array(Arc::new(places.unary::<_, Int64Type>(bounded)))
        }
        ColumnarValue::Scalar(ScalarValue::Int64(Some(it))) => {
            ColumnarValue::Scalar(ScalarValue::from(bounded(*it)))
        }
        other => other.clone(),
    };
    Ok(())
}

/// The nanoseconds of the last minute of a length of time, if that is what is wanted.
fn nanoseconds(arguments: &[ColumnarValue]) -> Result<Option<ColumnarValue>> {
    let [ColumnarValue::Scalar(part), lengths] = arguments else { return Ok(None) };
    let part = part.try_as_str().flatten().unwrap_or_default().trim_matches(['\'', '"']);
    let is_wanted = ["nanosecond", "nanoseconds"].iter().any(|it| part.eq_ignore_ascii_case(it));
    if !is_wanted || lengths.data_type() != DataType::Interval(IntervalUnit::MonthDayNano) {
        return Ok(None);
    }
    let array = lengths.to_array(1)?;
    let made: ArrayRef = Arc::new(
        array
            .as_primitive::<IntervalMonthDayNanoType>()
            .unary::<_, Int64Type>(|it| it.nanoseconds % MINUTE_NS),
    );
    Ok(Some(match lengths {
        ColumnarValue::Scalar(_) => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
        ColumnarValue::Array(_) => ColumnarValue::Array(made),
    }))
}

/// The inverse of a hyperbolic function where the square of its argument is infinite: the logarithm of
/// twice the argument.
fn with_large(
    arguments: &[ColumnarValue],
    made: ColumnarValue,
    rows: usize,
) -> Result<ColumnarValue> {
    let is_constant = matches!(made, ColumnarValue::Scalar(_));
    let (data_type, rows) = (made.data_type(), if is_constant { 1 } else { rows });
    let [argument] = arguments else { return Ok(made) };
    let floats = |it: &ColumnarValue| cast(&it.to_array(rows)?, &DataType::Float64);
    let (results, values) = (floats(&made)?, floats(argument)?);
    let (results, values) =
        (results.as_primitive::<Float64Type>(), values.as_primitive::<Float64Type>());
    if !results.iter().flatten().any(f64::is_infinite) {
        return Ok(made);
    }
    let row = |row: usize| {
        let (result, value) = (results.value(row), values.value(row));
        results.is_valid(row).then(|| match result.is_infinite() && value.is_finite() {
            true => (value.abs().ln() + std::f64::consts::LN_2).copysign(value),
            false => result,
        })
    };
    let all: ArrayRef = Arc::new((0..rows).map(row).collect::<Float64Array>());
    let all = cast(&all, &data_type)?;
    Ok(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&all, 0)?),
        false => ColumnarValue::Array(all),
    })
}
