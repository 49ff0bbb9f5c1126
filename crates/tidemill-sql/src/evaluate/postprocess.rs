//! An expression followed by a step on its values. It keeps the type and the name of the inner expression.

use arrow_array::RecordBatch;
use arrow_schema::{DataType, FieldRef, Schema};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use std::{
    fmt::{self, Debug, Display},
    hash::{Hash, Hasher},
    sync::Arc,
};

/// A step that corrects the values of an expression.
pub(crate) trait Postprocess: Copy + Debug + Eq + Hash + Send + Sync + 'static {
    /// Applies the step; the result has the same type.
    ///
    /// # Errors
    /// A value cannot be corrected.
    fn apply(&self, values: ColumnarValue) -> Result<ColumnarValue>;
}

/// An expression, followed by a step that corrects its values.
#[derive(Debug)]
pub(crate) struct WithPostprocess<T> {
    inner: Arc<dyn PhysicalExpr>,
    step: T,
}

/// Appends the step to an expression.
pub(crate) fn postprocess(
    inner: &Arc<dyn PhysicalExpr>,
    step: impl Postprocess,
) -> Arc<dyn PhysicalExpr> {
    Arc::new(WithPostprocess { inner: Arc::clone(inner), step })
}

impl<T: Postprocess> PartialEq for WithPostprocess<T> {
    fn eq(&self, other: &Self) -> bool {
        self.step == other.step && self.inner.eq(&other.inner)
    }
}

impl<T: Postprocess> Eq for WithPostprocess<T> {}

impl<T: Postprocess> Hash for WithPostprocess<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.step.hash(state);
    }
}

impl<T> Display for WithPostprocess<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.inner, out)
    }
}

impl<T: Postprocess> PhysicalExpr for WithPostprocess<T> {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.inner.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.inner.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.inner.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.step.apply(self.inner.evaluate(batch)?)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.inner]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        let inner = children.pop().unwrap_or_else(|| Arc::clone(&self.inner));
        Ok(Arc::new(Self { inner, step: self.step }))
    }

    fn fmt_sql(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(out)
    }
}
