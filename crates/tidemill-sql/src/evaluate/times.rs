//! Casts of times to a coarser unit round towards the past, before 1970 too. Arrow divides, which rounds
//! towards 1970.

use arrow_array::{
    ArrayRef, PrimitiveArray, RecordBatch,
    cast::AsArray,
    types::{
        ArrowTimestampType, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
        TimestampSecondType,
    },
};
use arrow_cast::cast;
use arrow_schema::{DataType, Schema, TimeUnit};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{CastExpr, TryCastExpr},
};
use std::{
    fmt::{self, Display},
    hash::{Hash, Hasher},
    sync::Arc,
};

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Times in a coarser unit, in the same zone. Times in that unit or a coarser one are returned unchanged,
/// and so are values of other types.
pub(crate) fn floor(array: &ArrayRef, to: TimeUnit) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, zone) = array.data_type() else { return Ok(Arc::clone(array)) };
    let step = per_second(*unit) / per_second(to);
    if step <= 1 {
        return Ok(Arc::clone(array));
    }
    // The quotient fits for every time. The time at which its unit begins may not fit the finer unit.
    let counts = cast(array, &DataType::Int64)?;
    let counts = counts.as_primitive::<Int64Type>().unary::<_, Int64Type>(|it| it.div_euclid(step));
    let zone = zone.clone();
    Ok(match to {
        TimeUnit::Second => times::<TimestampSecondType>(&counts, zone),
        TimeUnit::Millisecond => times::<TimestampMillisecondType>(&counts, zone),
        TimeUnit::Microsecond => times::<TimestampMicrosecondType>(&counts, zone),
        TimeUnit::Nanosecond => Arc::clone(array),
    })
}

fn times<T: ArrowTimestampType>(
    counts: &PrimitiveArray<Int64Type>,
    zone: Option<Arc<str>>,
) -> ArrayRef {
    Arc::new(counts.reinterpret_cast::<T>().with_timezone_opt(zone))
}

/// Times of an expression in a coarser unit.
#[derive(Debug)]
struct CoarserTimes {
    inner: Arc<dyn PhysicalExpr>,
    unit: TimeUnit,
}

impl PartialEq for CoarserTimes {
    fn eq(&self, other: &Self) -> bool {
        self.unit == other.unit && self.inner.eq(&other.inner)
    }
}

impl Eq for CoarserTimes {}

impl Hash for CoarserTimes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.unit.hash(state);
    }
}

impl Display for CoarserTimes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.inner, out)
    }
}

impl PhysicalExpr for CoarserTimes {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        Ok(match self.inner.data_type(input)? {
            DataType::Timestamp(_, zone) => DataType::Timestamp(self.unit, zone),
            other => other,
        })
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.inner.nullable(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        Ok(match self.inner.evaluate(batch)? {
            ColumnarValue::Array(array) => ColumnarValue::Array(floor(&array, self.unit)?),
            ColumnarValue::Scalar(value) => {
                let made = floor(&value.to_array()?, self.unit)?;
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
        Ok(Arc::new(Self { inner, unit: self.unit }))
    }

    fn fmt_sql(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(out)
    }
}

/// A cast to a coarser unit of time, with its operand in that unit before.
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
    let inner: Arc<dyn PhysicalExpr> =
        Arc::new(CoarserTimes { inner: Arc::clone(inner), unit: *to });
    Ok(Some(Arc::clone(expr).with_new_children(vec![inner])?))
}
