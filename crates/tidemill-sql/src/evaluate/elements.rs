//! Casts of lists: each element is cast as a value by itself is.
//!
//! Arrow casts elements by its own rules, so that `cast(['1e5'] as decimal(8, 2)[])` would fail where
//! `cast('1e5' as decimal(8, 2))` has a value, and times before 1970 would be cut towards 1970.

use super::{nested, physical};
use arrow_array::{
    Array, ArrayRef, GenericListArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions,
    cast::AsArray,
};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::{
    PhysicalExpr,
    expressions::{CastExpr, Column, TryCastExpr},
};
use std::{
    fmt::{self, Display},
    hash::{Hash, Hasher},
    sync::Arc,
};

/// The cast of a list to a list.
#[derive(Debug)]
pub(super) struct ListCast {
    inner: Arc<dyn PhysicalExpr>,
    /// The cast as DataFusion has it, for its name and its type.
    cast: Arc<dyn PhysicalExpr>,
    /// The cast of the elements, over a schema with the elements as its only column.
    element_cast: Arc<dyn PhysicalExpr>,
    elements: Arc<Schema>,
    /// The elements of the result.
    made: FieldRef,
}

/// The cast in this form, if it is one of lists.
pub(super) fn list_cast(node: &Arc<dyn PhysicalExpr>, input: &Schema) -> Result<Option<ListCast>> {
    let (inner, to, is_tried) = if let Some(it) = node.downcast_ref::<CastExpr>() {
        (it.expr(), it.cast_type(), false)
    } else if let Some(it) = node.downcast_ref::<TryCastExpr>() {
        (it.expr(), it.cast_type(), true)
    } else {
        return Ok(None);
    };
    let (from, made) = match (inner.data_type(input)?, to) {
        (DataType::List(from), DataType::List(made))
        | (DataType::LargeList(from), DataType::LargeList(made)) => (from, Arc::clone(made)),
        _ => return Ok(None),
    };
    let elements =
        Arc::new(Schema::new(vec![Field::new("element", from.data_type().clone(), true)]));
    let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new("element", 0));
    let to = made.data_type().clone();
    let element_cast: Arc<dyn PhysicalExpr> = match is_tried {
        true => Arc::new(TryCastExpr::new(column, to)),
        false => Arc::new(CastExpr::new(column, to, None)),
    };
    let element_cast = physical::fails(element_cast, &elements)?;
    let (inner, cast) = (Arc::clone(inner), Arc::clone(node));
    Ok(Some(ListCast { inner, cast, element_cast, elements, made }))
}

impl ListCast {
    fn apply(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let array = nested::reachable(array)?;
        match array.data_type() {
            DataType::List(_) => self.of_offsets::<i32>(&array),
            _ => self.of_offsets::<i64>(&array),
        }
    }

    fn of_offsets<O: OffsetSizeTrait>(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let list = array.as_list::<O>();
        let rows = list.values().len();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let columns = vec![Arc::clone(list.values())];
        let batch =
            RecordBatch::try_new_with_options(Arc::clone(&self.elements), columns, &options)?;
        let values = match rows {
            0 => arrow_array::new_empty_array(self.made.data_type()),
            _ => self.element_cast.evaluate(&batch)?.into_array(rows)?,
        };
        let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
        Ok(Arc::new(GenericListArray::<O>::try_new(
            Arc::clone(&self.made),
            offsets,
            values,
            nulls,
        )?))
    }
}

impl PartialEq for ListCast {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner) && self.element_cast.eq(&other.element_cast)
    }
}

impl Eq for ListCast {}

impl Hash for ListCast {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.element_cast.hash(state);
    }
}

impl Display for ListCast {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(&self.cast, out)
    }
}

impl PhysicalExpr for ListCast {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.cast.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.cast.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.cast.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        Ok(match self.inner.evaluate(batch)? {
            ColumnarValue::Array(array) => ColumnarValue::Array(self.apply(&array)?),
            ColumnarValue::Scalar(value) => {
                let made = self.apply(&value.to_array()?)?;
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
        Ok(Arc::new(Self {
            inner,
            cast,
            element_cast: Arc::clone(&self.element_cast),
            elements: Arc::clone(&self.elements),
            made: Arc::clone(&self.made),
        }))
    }

    fn fmt_sql(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cast.fmt_sql(out)
    }
}
