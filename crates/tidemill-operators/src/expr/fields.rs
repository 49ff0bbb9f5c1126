//! Fields of objects: those of an object that is null are null, whatever the field's column holds
//! there. DataFusion gives the column as it stands, and files of Arrow, and what expressions made
//! null, have anything in it.

use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_schema::{DataType, FieldRef, Schema};
use arrow_select::nullif::nullif;
use datafusion_common::Result;
use datafusion_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::sync::Arc;

/// DataFusion's name of the function behind `object.field` and `object['field']`.
const GET_FIELD: &str = "get_field";

/// The function that takes fields out of objects, step by step.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfObjects {
    function: Arc<ScalarUDF>,
}

/// The call with the nulls of its objects, if it is one that takes a field.
pub(super) fn of_objects(
    call: &ScalarFunctionExpr,
    input: &Schema,
) -> Result<Option<ScalarFunctionExpr>> {
    if call.fun().name() != GET_FIELD {
        return Ok(None);
    }
    let function = OfObjects { function: Arc::new(call.fun().clone()) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    let (field, options) = (call.return_field(input)?, call.config_options().clone());
    let arguments = call.args().to_vec();
    Ok(Some(ScalarFunctionExpr::new(GET_FIELD, function, arguments, field, Arc::new(options))))
}

impl ScalarUDFImpl for OfObjects {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.function.return_type(arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.function.return_field_from_args(arguments)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut path = arguments.args.iter().cloned();
        let Some(mut value) = path.next() else {
            return self.function.invoke_with_args(arguments);
        };
        for name in path {
            let object = value.clone();
            let arguments = ScalarFunctionArgs { args: vec![value, name], ..arguments.clone() };
            // Not of the function itself, which holds a step to the type of the last one.
            value = self.function.inner().invoke_with_args(arguments)?;
            if let (ColumnarValue::Array(object), ColumnarValue::Array(field)) = (&object, &value) {
                value = ColumnarValue::Array(with_nulls_of(object, field)?);
            }
        }
        Ok(value)
    }
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
