//! The canonical form of values: equal values have equal bits.
//!
//! - NaN has one bit pattern, the one that text parses to, and it is larger than all numbers.
//!   Comparisons use all bits of a float, and the sign bit of `inf - inf` differs between processors:
//!   without this step the result would be below all numbers on some of them. Every expression that can
//!   produce NaN is followed by this step.
//! - Decimals have no more digits than their type. Arrow computes with all bits, in which some numbers
//!   with one more digit fit, and writes them without that digit.

use super::postprocess::{Postprocess, postprocess};
use arrow_array::{
    ArrayRef,
    cast::AsArray,
    types::{Decimal128Type, Decimal256Type, Float32Type, Float64Type},
};
use arrow_schema::{DataType, Schema};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::{
    PhysicalExpr, ScalarFunctionExpr,
    expressions::{BinaryExpr, CastExpr, Literal, NegativeExpr, TryCastExpr},
};
use std::sync::Arc;

/// The step that brings values into canonical form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Canonical;

impl Postprocess for Canonical {
    fn apply(&self, values: ColumnarValue) -> Result<ColumnarValue> {
        Ok(match values {
            ColumnarValue::Array(array) => {
                with_digits(&array)?;
                ColumnarValue::Array(with_one_nan(array))
            }
            ColumnarValue::Scalar(value) => {
                if value.data_type().is_decimal() {
                    with_digits(&value.to_array()?)?;
                }
                ColumnarValue::Scalar(of_constant(&value).unwrap_or(value))
            }
        })
    }
}

/// The expression followed by [`Canonical`]. None if its values always have canonical form.
pub(super) fn canonical(
    expr: &Arc<dyn PhysicalExpr>,
    input: &Schema,
) -> Option<Arc<dyn PhysicalExpr>> {
    if let Some(constant) = expr.downcast_ref::<Literal>() {
        return of_constant(constant.value()).map(|it| Arc::new(Literal::new(it)) as _);
    }
    let makes_some = expr.is::<BinaryExpr>()
        || expr.is::<NegativeExpr>()
        || expr.is::<ScalarFunctionExpr>()
        || expr.is::<CastExpr>()
        || expr.is::<TryCastExpr>();
    let is_looked_at = || expr.data_type(input).is_ok_and(|it| it.is_floating() || it.is_decimal());
    (makes_some && is_looked_at()).then(|| postprocess(expr, Canonical))
}

/// The expression, which fails where a decimal has more digits than its type.
pub(super) fn checked(expr: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    postprocess(expr, Canonical)
}

/// The canonical NaN, if the constant is a NaN.
pub(crate) fn of_constant(value: &ScalarValue) -> Option<ScalarValue> {
    match value {
        ScalarValue::Float32(Some(it)) if it.is_nan() => Some(ScalarValue::from(f32::NAN)),
        ScalarValue::Float64(Some(it)) if it.is_nan() => Some(ScalarValue::from(f64::NAN)),
        _ => None,
    }
}

/// The values, or an error if one has more digits than its type.
pub(crate) fn with_digits(array: &ArrayRef) -> Result<()> {
    match array.data_type() {
        DataType::Decimal128(precision, _) => {
            array.as_primitive::<Decimal128Type>().validate_decimal_precision(*precision)?;
        }
        DataType::Decimal256(precision, _) => {
            array.as_primitive::<Decimal256Type>().validate_decimal_precision(*precision)?;
        }
        _ => {}
    }
    Ok(())
}

/// The floats with every NaN in canonical form.
#[must_use]
pub fn with_one_nan(array: ArrayRef) -> ArrayRef {
    // Without a way out of the loop, many are looked at together.
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        if floats.values().iter().fold(false, |found, it| found | it.is_nan()) {
            let one = |it: f64| if it.is_nan() { f64::NAN } else { it };
            return Arc::new(floats.unary::<_, Float64Type>(one));
        }
    } else if let Some(floats) = array.as_primitive_opt::<Float32Type>()
        && floats.values().iter().fold(false, |found, it| found | it.is_nan())
    {
        let one = |it: f32| if it.is_nan() { f32::NAN } else { it };
        return Arc::new(floats.unary::<_, Float32Type>(one));
    }
    array
}

/// Floats with one zero and one NaN, for keys and hashes. Other columns are returned unchanged.
#[must_use]
pub fn with_one_zero(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let one = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        DataType::Float64 => {
            let one = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        _ => column,
    }
}
