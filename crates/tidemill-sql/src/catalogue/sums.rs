//! `array_sum` (`list_sum`) of whole numbers and decimals, exact. DataFusion sums floats alone, and takes
//! all other numbers for them.

use crate::evaluate::nested;
use arrow_array::{
    Array, ArrayRef, GenericListArray, OffsetSizeTrait, PrimitiveArray,
    cast::AsArray,
    types::{ArrowPrimitiveType, Decimal128Type, Int64Type, UInt64Type},
};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use std::sync::Arc;

/// The function, with sums of their own type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ArraySum {
    function: Arc<ScalarUDF>,
}

/// `array_sum` with exact sums.
pub(super) fn array_sum(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(ArraySum { function }))
}

/// The type of a sum of elements of a type, unless it is that of floats.
fn exact(element: &DataType) -> Option<DataType> {
    match element {
        it if it.is_signed_integer() => Some(DataType::Int64),
        it if it.is_unsigned_integer() => Some(DataType::UInt64),
        DataType::Decimal128(_, scale) => Some(DataType::Decimal128(38, *scale)),
        _ => None,
    }
}

fn element(list: &DataType) -> Option<&FieldRef> {
    match list {
        DataType::List(it) | DataType::LargeList(it) | DataType::FixedSizeList(it, _) => Some(it),
        _ => None,
    }
}

impl ScalarUDFImpl for ArraySum {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let exact = arguments.first().and_then(element).and_then(|it| exact(it.data_type()));
        exact.map_or_else(|| self.function.return_type(arguments), Ok)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        if let [list] = arguments
            && let Some(sum) = element(list).and_then(|it| exact(it.data_type()))
        {
            let element = Arc::new(Field::new_list_field(sum, true));
            return Ok(vec![match list {
                DataType::LargeList(_) => DataType::LargeList(element),
                _ => DataType::List(element),
            }]);
        }
        self.function.coerce_types(arguments)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        nested::reachable_arguments(&mut arguments.args)?;
        let [argument] = &arguments.args[..] else {
            return self.function.invoke_with_args(arguments);
        };
        let is_exact =
            element(&argument.data_type()).is_some_and(|it| exact(it.data_type()).is_some());
        if !is_exact {
            return self.function.invoke_with_args(arguments);
        }
        let list = argument.to_array(1)?;
        let made = match list.data_type() {
            DataType::LargeList(_) => sums(list.as_list::<i64>())?,
            _ => sums(list.as_list::<i32>())?,
        };
        Ok(match argument {
            ColumnarValue::Scalar(_) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?)
            }
            ColumnarValue::Array(_) => ColumnarValue::Array(made),
        })
    }
}

fn sums<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Result<ArrayRef> {
    let data_type = lists.value_type();
    Ok(match &data_type {
        DataType::Int64 => Arc::new(summed::<O, Int64Type>(lists, i128::from, narrow)?),
        DataType::UInt64 => Arc::new(summed::<O, UInt64Type>(lists, i128::from, narrow)?),
        DataType::Decimal128(precision, _) => {
            let made = summed::<O, Decimal128Type>(lists, |it| it, Ok)?;
            made.validate_decimal_precision(*precision)?;
            Arc::new(made.with_data_type(data_type))
        }
        other => return exec_err!("`array_sum` takes no {other}"),
    })
}

fn narrow<T: TryFrom<i128>>(sum: i128) -> Result<T> {
    T::try_from(sum)
        .or_else(|_| exec_err!("the sum {sum} of a list does not fit its type of 64 bits"))
}

/// The sums of all that is not null; null of none.
fn summed<O: OffsetSizeTrait, T: ArrowPrimitiveType>(
    lists: &GenericListArray<O>,
    wide: fn(T::Native) -> i128,
    narrow: fn(i128) -> Result<T::Native>,
) -> Result<PrimitiveArray<T>> {
    let row = |list: Option<ArrayRef>| {
        let Some(list) = list else { return Ok(None) };
        let mut sum = None;
        for number in list.as_primitive::<T>().iter().flatten() {
            match sum.unwrap_or(0_i128).checked_add(wide(number)) {
                Some(more) => sum = Some(more),
                None => return exec_err!("the sum of a list has more than 38 digits"),
            }
        }
        sum.map(narrow).transpose()
    };
    lists.iter().map(row).collect()
}
