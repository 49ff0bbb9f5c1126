//! Access to the fields of objects. A field of an object that is null is null.
//!
//! DataFusion returns the field's column as it is. Under a null object that column may hold any value,
//! in Arrow files and in the results of expressions.

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::DataType;
use arrow_select::nullif::nullif;
use datafusion_common::Result;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use std::sync::Arc;

/// `get_field`, the function behind `object.field` and `object['field']`, with the nulls of its objects.
pub(super) fn taken(function: &ScalarUDF, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let mut path = arguments.args.iter().cloned();
    let Some(mut value) = path.next() else {
        return function.invoke_with_args(arguments);
    };
    for name in path {
        let object = value.clone();
        let arguments = ScalarFunctionArgs { args: vec![value, name], ..arguments.clone() };
        // Not of the function itself, which holds a step to the type of the last one.
        value = function.inner().invoke_with_args(arguments)?;
        if let (ColumnarValue::Array(object), ColumnarValue::Array(field)) = (&object, &value) {
            value = ColumnarValue::Array(with_nulls_of(object, field)?);
        }
    }
    Ok(value)
}

fn with_nulls_of(object: &ArrayRef, field: &ArrayRef) -> Result<ArrayRef> {
    let nulls = object.nulls().filter(|nulls| nulls.null_count() > 0);
    match (object.data_type(), nulls) {
        (DataType::Struct(_), Some(nulls))
            if !matches!(field.data_type(), DataType::Union(_, _)) =>
        {
            Ok(nullif(field, &BooleanArray::new(!nulls.inner(), None))?)
        }
        _ => Ok(Arc::clone(field)),
    }
}
