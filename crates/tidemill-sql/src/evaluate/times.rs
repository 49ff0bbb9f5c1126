//! Casts of times to a coarser unit round towards the past, before 1970 too. Arrow divides, which rounds
//! towards 1970.

use super::postprocess::{Postprocess, postprocess};
use arrow_array::{
    ArrayRef,
    cast::AsArray,
    types::{TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType},
};
use arrow_schema::{DataType, Schema, TimeUnit};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{CastExpr, TryCastExpr},
};
use std::sync::Arc;

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Times in their unit, cut to a multiple of a coarser one.
pub(crate) fn floor(array: &ArrayRef, to: TimeUnit) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, zone) = array.data_type() else { return Ok(Arc::clone(array)) };
    let step = per_second(*unit) / per_second(to).max(1);
    if step <= 1 {
        return Ok(Arc::clone(array));
    }
    // A time whose beginning of a second does not fit stays: dividing it gives the same.
    let cut = |it: i64| it.checked_sub(it.rem_euclid(step)).unwrap_or(it);
    let zone = zone.clone();
    Ok(match unit {
        TimeUnit::Second => Arc::clone(array),
        TimeUnit::Millisecond => Arc::new(
            array
                .as_primitive::<TimestampMillisecondType>()
                .unary::<_, TimestampMillisecondType>(cut)
                .with_timezone_opt(zone),
        ),
        TimeUnit::Microsecond => Arc::new(
            array
                .as_primitive::<TimestampMicrosecondType>()
                .unary::<_, TimestampMicrosecondType>(cut)
                .with_timezone_opt(zone),
        ),
        TimeUnit::Nanosecond => Arc::new(
            array
                .as_primitive::<TimestampNanosecondType>()
                .unary::<_, TimestampNanosecondType>(cut)
                .with_timezone_opt(zone),
        ),
    })
}

/// The step that rounds times down to a multiple of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Floor(TimeUnit);

impl Postprocess for Floor {
    fn apply(&self, values: ColumnarValue) -> Result<ColumnarValue> {
        Ok(match values {
            ColumnarValue::Array(array) => ColumnarValue::Array(floor(&array, self.0)?),
            ColumnarValue::Scalar(value) => {
                let made = floor(&value.to_array()?, self.0)?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?)
            }
        })
    }
}

/// A cast to a coarser unit of time, with its operand cut before.
pub(super) fn floored_cast(
    expr: &Arc<dyn PhysicalExpr>,
    input: &Schema,
) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    let (inner, to) = if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        (cast.expr(), cast.cast_type())
    } else if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
        (cast.expr(), cast.cast_type())
    } else {
        return Ok(None);
    };
    let (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) = (inner.data_type(input)?, to)
    else {
        return Ok(None);
    };
    if per_second(*to) >= per_second(from) {
        return Ok(None);
    }
    let inner = postprocess(inner, Floor(*to));
    Ok(Some(Arc::clone(expr).with_new_children(vec![inner])?))
}
