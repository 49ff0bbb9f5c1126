//! `and` and `or` whose right side may fail, as in `n <> 0 and 10 / n > 1`: the right side is evaluated
//! only for the rows that the left side does not decide. DataFusion evaluates it for all rows, unless the
//! left side decides every row.

use super::failure::can_fail;
use arrow_array::{Array, BooleanArray, RecordBatch, cast::AsArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Schema};
use datafusion_common::Result;
use datafusion_expr::{ColumnarValue, Operator};
use datafusion_physical_expr::{PhysicalExpr, expressions::BinaryExpr};
use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// An `and` or `or` whose right side may fail.
#[derive(Debug, Eq)]
pub(super) struct ShortCircuit {
    left: Arc<dyn PhysicalExpr>,
    right: Arc<dyn PhysicalExpr>,
    /// True for `or`, which a true left side decides; false for `and`.
    is_or: bool,
}

/// The condition in this form, if its right side needs a guard.
pub(super) fn short_circuit(expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<ShortCircuit> {
    let both = expr.downcast_ref::<BinaryExpr>()?;
    let is_or = match both.op() {
        Operator::And => false,
        Operator::Or => true,
        _ => return None,
    };
    let (left, right) = (Arc::clone(both.left()), Arc::clone(both.right()));
    let is_boolean =
        |it: &Arc<dyn PhysicalExpr>| it.data_type(input).is_ok_and(|it| it == DataType::Boolean);
    let needs_guard = is_boolean(&left) && is_boolean(&right) && can_fail(&right, input);
    needs_guard.then_some(ShortCircuit { left, right, is_or })
}

/// The rows that are true, and those that are false.
fn sides(values: &BooleanArray) -> (BooleanBuffer, BooleanBuffer) {
    let (yes, no) = (values.values().clone(), !values.values());
    match values.nulls() {
        None => (yes, no),
        Some(nulls) => (&yes & nulls.inner(), &no & nulls.inner()),
    }
}

impl PartialEq for ShortCircuit {
    fn eq(&self, other: &Self) -> bool {
        self.is_or == other.is_or && self.left.eq(&other.left) && self.right.eq(&other.right)
    }
}

impl Hash for ShortCircuit {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.left.hash(state);
        self.right.hash(state);
        self.is_or.hash(state);
    }
}

impl fmt::Display for ShortCircuit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_or { "OR" } else { "AND" };
        write!(out, "({} {word} {})", self.left, self.right)
    }
}

impl PhysicalExpr for ShortCircuit {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        Ok(self.left.nullable(input)? || self.right.nullable(input)?)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let left = self.left.evaluate(batch)?.into_array(batch.num_rows())?;
        let (left_yes, left_no) = sides(left.as_boolean());
        let open = if self.is_or { !&left_yes } else { !&left_no };
        if open.count_set_bits() == 0 {
            return Ok(ColumnarValue::Array(left));
        }
        // It fails seldom: only then rows that are decided are left out, which copies the others.
        let right = match self.right.evaluate(batch) {
            Ok(right) => right,
            Err(_) => self.right.evaluate_selection(batch, &BooleanArray::new(open, None))?,
        };
        let right = right.into_array(batch.num_rows())?;
        // Of the rows that are decided, whatever stands here changes nothing.
        let (right_yes, right_no) = sides(right.as_boolean());
        let (yes, no) = match self.is_or {
            true => (&left_yes | &right_yes, &left_no & &right_no),
            false => (&left_yes & &right_yes, &left_no | &right_no),
        };
        let nulls = NullBuffer::new(&yes | &no);
        let nulls = Some(nulls).filter(|it| it.null_count() > 0);
        Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(yes, nulls))))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.left, &self.right]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let [left, right] = &children[..] else { return Ok(self) };
        let (left, right) = (Arc::clone(left), Arc::clone(right));
        Ok(Arc::new(Self { left, right, is_or: self.is_or }))
    }

    fn fmt_sql(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}
