//! Times in coarser units, `to_timestamp_seconds` and its like, and `to_unixtime`.
//!
//! A time is cut towards the past on both sides of 1970, as `date_trunc` cuts it. DataFusion divides, and
//! so cuts towards 1970.

use crate::evaluate::times::floor;
use arrow_array::{
    ArrayRef,
    cast::AsArray,
    types::{Float32Type, Float64Type},
};
use arrow_cast::{CastOptions, cast_with_options, display::FormatOptions};
use arrow_schema::{DataType, Field, TimeUnit};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use std::sync::Arc;

/// Values beyond the type are errors, not nulls.
const MUST_FIT: CastOptions<'_> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// The function with its first argument in the unit before. Of nanoseconds, dates alone: the function
/// itself takes all else.
pub(super) fn in_unit(
    function: &ScalarUDF,
    unit: TimeUnit,
    mut arguments: ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    let Some(first) = arguments.args.first() else {
        return function.invoke_with_args(arguments);
    };
    let micros = DataType::Timestamp(TimeUnit::Microsecond, None);
    let is_date = matches!(first.data_type(), DataType::Date32 | DataType::Date64);
    if unit == TimeUnit::Nanosecond && !is_date {
        return function.invoke_with_args(arguments);
    }
    let made = match first.data_type() {
        // Microseconds know all years.
        it if it.is_string() && arguments.args.len() == 1 => {
            mapped(first, |texts| floor(&cast_with_options(texts, &micros, &MUST_FIT)?, unit))?
        }
        it if it.is_string() => {
            let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
            let mut of_text = arguments.clone();
            of_text.return_field = Arc::new(Field::new("", nanos, true));
            let nanos =
                datafusion_functions::datetime::to_timestamp_nanos(&arguments.config_options);
            let times = nanos.invoke_with_args(of_text)?;
            arguments.args = vec![times];
            mapped(&arguments.args[0], |array| floor(array, unit))?
        }
        DataType::Timestamp(..) => mapped(first, |array| floor(array, unit))?,
        DataType::Date32 | DataType::Date64 => {
            mapped(first, |array| floor(&cast_with_options(array, &micros, &MUST_FIT)?, unit))?
        }
        DataType::Float64 => mapped(first, |array| {
            let floats = array.as_primitive::<Float64Type>();
            Ok(Arc::new(floats.unary::<_, Float64Type>(f64::floor)) as ArrayRef)
        })?,
        DataType::Float32 => mapped(first, |array| {
            let floats = array.as_primitive::<Float32Type>();
            Ok(Arc::new(floats.unary::<_, Float32Type>(f32::floor)) as ArrayRef)
        })?,
        _ => return function.invoke_with_args(arguments),
    };
    let field = Field::new("", made.data_type(), true);
    arguments.arg_fields = std::iter::once(Arc::new(field))
        .chain(arguments.arg_fields.into_iter().skip(1))
        .take(arguments.args.len())
        .collect();
    arguments.args[0] = made;
    function.invoke_with_args(arguments)
}

/// True for dates, and for times of all units but nanoseconds.
pub(super) fn is_coarse(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(unit, _) => *unit != TimeUnit::Nanosecond,
        other => matches!(other, DataType::Date32 | DataType::Date64),
    }
}

/// `to_timestamp`, in microseconds of what has no nanoseconds.
pub(super) fn timestamp(
    function: &ScalarUDF,
    arguments: ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    match arguments.args.first() {
        Some(first) if is_coarse(&first.data_type()) => {
            let options = &arguments.config_options;
            let micros = datafusion_functions::datetime::to_timestamp_micros(options);
            in_unit(&micros, TimeUnit::Microsecond, arguments)
        }
        _ => function.invoke_with_args(arguments),
    }
}

fn mapped(
    argument: &ColumnarValue,
    map: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ColumnarValue> {
    Ok(match argument {
        ColumnarValue::Array(array) => ColumnarValue::Array(map(array)?),
        ColumnarValue::Scalar(value) => {
            let made = map(&value.to_array()?)?;
            ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?)
        }
    })
}
