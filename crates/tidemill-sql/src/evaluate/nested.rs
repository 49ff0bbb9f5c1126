//! Lists and objects without unreachable elements.
//!
//! The child array of a list may hold elements of null lists, and of lists outside this slice of the
//! batch: Arrow files do, and `nullif` and `case` produce them. Arrow's cast converts those elements too
//! and fails a row whose own list is fine, and list functions take some of them for elements.

use super::{
    floats,
    postprocess::{Postprocess, postprocess},
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, GenericListArray, OffsetSizeTrait, StructArray, UInt32Array,
    cast::AsArray,
};
use arrow_schema::{DataType, FieldRef};
use arrow_select::{nullif::nullif, take::take};
use datafusion_common::Result;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::PhysicalExpr;
use std::sync::Arc;

/// The step that removes unreachable elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reachable {
    /// The floats in them have one zero.
    of_one_zero: bool,
}

impl Postprocess for Reachable {
    fn apply(&self, values: ColumnarValue) -> Result<ColumnarValue> {
        let values = if self.of_one_zero { floats::with_one_zero(&values)? } else { values };
        Ok(match values {
            ColumnarValue::Array(array) => ColumnarValue::Array(reachable(&array)?),
            constant => constant,
        })
    }
}

/// The expression without unreachable elements in its values.
pub(crate) fn reachable_values(inner: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    postprocess(inner, Reachable { of_one_zero: false })
}

/// The same for a comparison, for which the two zeros of floats are one.
pub(crate) fn comparable_values(inner: &Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    postprocess(inner, Reachable { of_one_zero: true })
}

/// Arguments without unreachable elements.
pub(crate) fn reachable_arguments(all: &mut [ColumnarValue]) -> Result<()> {
    for argument in all {
        if let ColumnarValue::Array(array) = argument
            && array.data_type().is_nested()
        {
            *array = reachable(array)?;
        }
    }
    Ok(())
}

/// The values without unreachable elements.
pub(super) fn reachable(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::List(element) => reachable_list::<i32>(array, element)?,
        DataType::LargeList(element) => reachable_list::<i64>(array, element)?,
        DataType::Struct(fields) => {
            let object = array.as_struct();
            let is_null = object.nulls().map(|it| BooleanArray::new(!it.inner(), None));
            let column = |it: &ArrayRef| {
                let it = match &is_null {
                    Some(is_null) => nullif(it, is_null)?,
                    None => Arc::clone(it),
                };
                reachable(&it)
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

fn reachable_list<O: OffsetSizeTrait>(array: &ArrayRef, element: &FieldRef) -> Result<ArrayRef> {
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
    let values = reachable(list.values())?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(element), offsets, values, nulls)?))
}
