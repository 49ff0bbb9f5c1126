//! Lists and objects with nothing in them but what is there.
//!
//! A list that is null, or that is not of this part of its batch, may hold elements still: files may have
//! it so, and `nullif` and `case` make it so. Arrow casts them with all others, so that one that cannot be
//! cast fails rows whose lists are fine, and functions on lists take some of them for elements.

use super::floats;
use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericListArray, OffsetSizeTrait, RecordBatch, StructArray,
    UInt32Array, cast::AsArray,
};
use arrow_schema::{DataType, FieldRef, Schema};
use arrow_select::{nullif::nullif, take::take};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

/// An expression whose values have nothing else in them.
#[derive(Debug, Eq)]
struct Alone {
    inner: Arc<dyn PhysicalExpr>,
    /// The floats in them have one zero.
    of_one_zero: bool,
}

/// The expression with nothing else in its values.
pub(super) fn expression(inner: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(Alone { inner: Arc::clone(inner), of_one_zero: false })
}

/// The same for a comparison, for which the two zeros of floats are one.
pub(super) fn compared(inner: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(Alone { inner: Arc::clone(inner), of_one_zero: true })
}

/// Arguments with nothing else in them.
pub(super) fn arguments(all: &mut [ColumnarValue]) -> Result<()> {
    for argument in all {
        if let ColumnarValue::Array(array) = argument
            && array.data_type().is_nested()
        {
            *array = alone(array)?;
        }
    }
    Ok(())
}

/// The same values alone.
fn alone(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::List(element) => list_alone::<i32>(array, element)?,
        DataType::LargeList(element) => list_alone::<i64>(array, element)?,
        DataType::Struct(fields) => {
            let object = array.as_struct();
            let is_null = object.nulls().map(|it| BooleanArray::new(!it.inner(), None));
            let column = |it: &ArrayRef| {
                let it = match &is_null {
                    Some(is_null) => nullif(it, is_null)?,
                    None => Arc::clone(it),
                };
                alone(&it)
            };
            let columns = object.columns().iter().map(column).collect::<Result<Vec<_>>>()?;
            // What its type says is never null is so in objects that are there.
            let fits = fields.iter().zip(&columns).all(|(it, column)| {
                it.is_nullable() || column.logical_null_count() <= object.null_count()
            });
            if columns.is_empty() || !fits {
                return Ok(Arc::clone(array));
            }
            Arc::new(StructArray::try_new(fields.clone(), columns, object.nulls().cloned())?)
        }
        _ => Arc::clone(array),
    })
}

fn list_alone<O: OffsetSizeTrait>(array: &ArrayRef, element: &FieldRef) -> Result<ArrayRef> {
    let list = array.as_list::<O>();
    let there = |row: usize| match list.is_null(row) {
        true => 0,
        false => list.value_length(row).as_usize(),
    };
    let elements: usize = (0..list.len()).map(there).sum();
    let array = match elements == list.values().len() {
        true => Arc::clone(array),
        false => take(array, &UInt32Array::from_iter_values(0..list.len() as u32), None)?,
    };
    if !element.data_type().is_nested() {
        return Ok(array);
    }
    let list = array.as_list::<O>();
    let values = alone(list.values())?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(element), offsets, values, nulls)?))
}

impl PartialEq for Alone {
    fn eq(&self, other: &Self) -> bool {
        self.of_one_zero == other.of_one_zero && self.inner.eq(&other.inner)
    }
}

impl Hash for Alone {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
        self.of_one_zero.hash(state);
    }
}

impl fmt::Display for Alone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(out)
    }
}

impl PhysicalExpr for Alone {
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
        let values = self.inner.evaluate(batch)?;
        let values = if self.of_one_zero { floats::with_one_zero(&values)? } else { values };
        Ok(match values {
            ColumnarValue::Array(array) => ColumnarValue::Array(alone(&array)?),
            constant => constant,
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
        Ok(Arc::new(Self { inner, of_one_zero: self.of_one_zero }))
    }

    fn fmt_sql(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(out)
    }
}
