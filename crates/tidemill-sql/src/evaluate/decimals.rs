//! Arithmetic of decimals, and floats made of them.
//!
//! Arrow computes in the 128 bits of the result: a quotient fails if its scaled dividend does not fit, and
//! every quotient is truncated. Here intermediate results have 256 bits and more, and quotients are rounded
//! half away from zero, as in PostgreSQL.
//!
//! A decimal becomes the nearest float. Arrow divides two floats, each of which may be rounded already.

use arrow_array::{
    Array, ArrayRef, Decimal128Array, Decimal256Array, Float32Array, Float64Array, RecordBatch,
    cast::AsArray,
    types::{Decimal128Type, Decimal256Type, DecimalType},
};
use arrow_buffer::i256;
use arrow_schema::{DataType, FieldRef, Schema};
use datafusion_common::{DataFusionError, Result, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{BinaryExpr, CastExpr},
};
use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// Floats hold whole numbers below this, and powers of ten up to the next.
const EXACT_MAX: u128 = 1 << 53;
const EXACT_POWER_MAX: i8 = 22;

/// Sums, differences, products, quotients and remainders of two decimals.
#[derive(Debug, Eq)]
pub(super) struct DecimalArithmetic {
    left: Arc<dyn PhysicalExpr>,
    op: Operator,
    right: Arc<dyn PhysicalExpr>,
    data_type: DataType,
}

/// The same arithmetic with steps of 256 bits, if it is that of decimals.
pub(super) fn arithmetic(
    expr: &Arc<dyn PhysicalExpr>,
    input: &Schema,
) -> Option<DecimalArithmetic> {
    use Operator::{Divide, Minus, Modulo, Multiply, Plus};
    let it = expr.downcast_ref::<BinaryExpr>()?;
    if !matches!(it.op(), Plus | Minus | Multiply | Divide | Modulo) {
        return None;
    }
    let (one, other) = (it.left().data_type(input).ok()?, it.right().data_type(input).ok()?);
    let data_type = it.data_type(input).ok()?;
    let is_one_width = matches!(
        (&one, &other, &data_type),
        (DataType::Decimal128(..), DataType::Decimal128(..), DataType::Decimal128(..))
            | (DataType::Decimal256(..), DataType::Decimal256(..), DataType::Decimal256(..))
    );
    let (left, right) = (Arc::clone(it.left()), Arc::clone(it.right()));
    is_one_width.then_some(DecimalArithmetic { left, op: *it.op(), right, data_type })
}

fn scale_of(data_type: &DataType) -> i32 {
    match data_type {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => i32::from(*scale),
        _ => 0,
    }
}

fn power(exponent: i32) -> Option<i256> {
    i256::from_i128(10).checked_pow(u32::try_from(exponent).ok()?)
}

/// An operation on unscaled numbers; the scales are those of the operands and of the result.
struct Operation {
    op: Operator,
    left_scale: i32,
    right_scale: i32,
    scale: i32,
}

impl Operation {
    /// The unscaled result; none if it does not fit into 256 bits.
    fn value(&self, left: i256, right: i256) -> Result<Option<i256>> {
        let aligned = || {
            let left = left.checked_mul(power(self.scale - self.left_scale)?)?;
            Some((left, right.checked_mul(power(self.scale - self.right_scale)?)?))
        };
        Ok(match self.op {
            Operator::Plus => aligned().and_then(|(left, right)| left.checked_add(right)),
            Operator::Minus => aligned().and_then(|(left, right)| left.checked_sub(right)),
            Operator::Multiply => left.checked_mul(right),
            _ if right == i256::ZERO => return exec_err!("Divide by zero error"),
            Operator::Divide => {
                quotient(left, right, self.scale - self.left_scale + self.right_scale)
            }
            _ => match aligned() {
                Some((left, right)) => left.checked_rem(right),
                None => remainder(left, right, self.left_scale - self.right_scale),
            },
        })
    }
}

/// `left * 10^shift / right`, rounded half away from zero.
fn quotient(left: i256, right: i256, shift: i32) -> Option<i256> {
    let is_negative = left.is_negative() != right.is_negative();
    let (left, right) = (left.checked_abs()?, right.checked_abs()?);
    let right = if shift < 0 { right.checked_mul(power(-shift)?)? } else { right };
    let ten = i256::from_i128(10);
    let (mut whole, mut rest) = (left.checked_div(right)?, left.checked_rem(right)?);
    // Digit by digit, as the dividend may not fit with all of them.
    for _ in 0..shift.max(0) {
        let next = rest.checked_mul(ten)?;
        whole = whole.checked_mul(ten)?.checked_add(next.checked_div(right)?)?;
        rest = next.checked_rem(right)?;
    }
    // Half of the divisor or more: `rest >= right - rest` needs no wider numbers.
    if rest >= right.checked_sub(rest)? {
        whole = whole.checked_add(i256::ONE)?;
    }
    if is_negative { whole.checked_neg() } else { Some(whole) }
}

/// A remainder where one side, scaled to the other, is wider than 256 bits.
fn remainder(left: i256, right: i256, left_scale_more: i32) -> Option<i256> {
    if left_scale_more >= 0 {
        // The divisor is larger than any dividend.
        return Some(left);
    }
    // `left * 10^n mod right`, a power of ten at a time.
    let ten = i256::from_i128(10);
    let mut rest = left.checked_rem(right)?;
    for _ in 0..-left_scale_more {
        rest = rest.checked_mul(ten)?.checked_rem(right)?;
    }
    Some(rest)
}

/// A column of unscaled numbers, or one for all rows.
struct Unscaled {
    array: ArrayRef,
    is_constant: bool,
}

impl Unscaled {
    fn new(value: &ColumnarValue) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Array(array) => Self { array: Arc::clone(array), is_constant: false },
            ColumnarValue::Scalar(value) => Self { array: value.to_array()?, is_constant: true },
        })
    }

    fn get(&self, row: usize) -> Option<i256> {
        let row = if self.is_constant { 0 } else { row };
        if self.array.is_null(row) {
            return None;
        }
        match self.array.data_type() {
            DataType::Decimal128(..) => {
                Some(i256::from_i128(self.array.as_primitive::<Decimal128Type>().value(row)))
            }
            _ => Some(self.array.as_primitive::<Decimal256Type>().value(row)),
        }
    }
}

impl PartialEq for DecimalArithmetic {
    fn eq(&self, other: &Self) -> bool {
        self.op == other.op && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Hash for DecimalArithmetic {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.left.hash(state);
        self.op.hash(state);
        self.right.hash(state);
    }
}

impl fmt::Display for DecimalArithmetic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "({} {} {})", self.left, self.op, self.right)
    }
}

impl PhysicalExpr for DecimalArithmetic {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        Ok(self.left.nullable(input)? || self.right.nullable(input)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let (left, right) = (self.left.evaluate(batch)?, self.right.evaluate(batch)?);
        let is_constant =
            matches!((&left, &right), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let operation = Operation {
            op: self.op,
            left_scale: scale_of(&left.data_type()),
            right_scale: scale_of(&right.data_type()),
            scale: scale_of(&self.data_type),
        };
        let (left, right) = (Unscaled::new(&left)?, Unscaled::new(&right)?);
        let rows = if is_constant { 1 } else { batch.num_rows() };
        let beyond = || {
            let message = format!("a decimal beyond {}", self.data_type);
            DataFusionError::Execution(message)
        };
        let row = |row: usize| match (left.get(row), right.get(row)) {
            (Some(left), Some(right)) => operation.value(left, right)?.ok_or_else(beyond).map(Some),
            _ => Ok(None),
        };
        let made: ArrayRef = match self.data_type {
            DataType::Decimal128(precision, scale) => {
                let narrow = |it: Option<i256>| match it {
                    Some(it) => it.to_i128().ok_or_else(beyond).map(Some),
                    None => Ok(None),
                };
                let all = (0..rows).map(|it| row(it).and_then(narrow));
                let all = all.collect::<Result<Decimal128Array>>()?;
                Arc::new(all.with_precision_and_scale(precision, scale)?)
            }
            DataType::Decimal256(precision, scale) => {
                let all = (0..rows).map(row).collect::<Result<Decimal256Array>>()?;
                Arc::new(all.with_precision_and_scale(precision, scale)?)
            }
            ref other => return exec_err!("{other} is no decimal"),
        };
        Ok(match is_constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let [left, right] = &children[..] else { return Ok(self) };
        let (left, right, data_type) =
            (Arc::clone(left), Arc::clone(right), self.data_type.clone());
        Ok(Arc::new(Self { left, op: self.op, right, data_type }))
    }

    fn fmt_sql(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

/// A cast of a decimal to a float, to the nearest one.
#[derive(Debug, Eq)]
pub(super) struct NearestFloat {
    inner: Arc<dyn PhysicalExpr>,
    cast: Arc<dyn PhysicalExpr>,
    is_double: bool,
}

/// The cast in this form, if it is one of a decimal to a float.
pub(super) fn nearest_float(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<NearestFloat> {
    let cast = expr.downcast_ref::<CastExpr>()?;
    let held = cast.expr().data_type(input).ok()?;
    let is_double = match cast.cast_type() {
        DataType::Float64 => true,
        DataType::Float32 => false,
        _ => return None,
    };
    let is_decimal = matches!(held, DataType::Decimal128(..) | DataType::Decimal256(..));
    let inner = Arc::clone(cast.expr());
    is_decimal.then(|| NearestFloat { inner, cast: Arc::clone(expr), is_double })
}

/// The text of an unscaled number with an exponent, which the float's own parser reads.
fn scientific<T: DecimalType>(value: T::Native, scale: i8) -> String
where
    T::Native: fmt::Display,
{
    format!("{value}e{}", -i32::from(scale))
}

fn double_of(value: i128, scale: i8) -> f64 {
    if value.unsigned_abs() <= EXACT_MAX && (0..=EXACT_POWER_MAX).contains(&scale) {
        return value as f64 / 10_f64.powi(scale.into());
    }
    scientific::<Decimal128Type>(value, scale).parse().unwrap_or(f64::NAN)
}

fn doubles(array: &ArrayRef) -> Float64Array {
    match *array.data_type() {
        DataType::Decimal128(_, scale) => {
            array.as_primitive::<Decimal128Type>().unary(|it| double_of(it, scale))
        }
        DataType::Decimal256(_, scale) => array.as_primitive::<Decimal256Type>().unary(|it| {
            it.to_i128().map_or_else(
                || scientific::<Decimal256Type>(it, scale).parse().unwrap_or(f64::NAN),
                |it| double_of(it, scale),
            )
        }),
        _ => Float64Array::new_null(array.len()),
    }
}

fn singles(array: &ArrayRef) -> Float32Array {
    match *array.data_type() {
        DataType::Decimal128(_, scale) => array
            .as_primitive::<Decimal128Type>()
            .unary(|it| scientific::<Decimal128Type>(it, scale).parse().unwrap_or(f32::NAN)),
        DataType::Decimal256(_, scale) => array
            .as_primitive::<Decimal256Type>()
            .unary(|it| scientific::<Decimal256Type>(it, scale).parse().unwrap_or(f32::NAN)),
        _ => Float32Array::new_null(array.len()),
    }
}

impl PartialEq for NearestFloat {
    fn eq(&self, other: &Self) -> bool {
        self.is_double == other.is_double && self.inner.eq(&other.inner)
    }
}

impl Hash for NearestFloat {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.is_double.hash(state);
    }
}

impl fmt::Display for NearestFloat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.cast, out)
    }
}

impl PhysicalExpr for NearestFloat {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(if self.is_double { DataType::Float64 } else { DataType::Float32 })
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.inner.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.cast.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let float = |array: &ArrayRef| -> ArrayRef {
            if self.is_double { Arc::new(doubles(array)) } else { Arc::new(singles(array)) }
        };
        Ok(match self.inner.evaluate(batch)? {
            ColumnarValue::Array(array) => ColumnarValue::Array(float(&array)),
            ColumnarValue::Scalar(value) => {
                let made = float(&value.to_array()?);
                ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?)
            }
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.pop().unwrap_or_else(|| Arc::clone(&self.inner));
        let cast = Arc::clone(&self.cast).with_new_children(vec![Arc::clone(&inner)])?;
        Ok(Arc::new(Self { inner, cast, is_double: self.is_double }))
    }

    fn fmt_sql(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cast.fmt_sql(out)
    }
}
