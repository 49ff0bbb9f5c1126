//! DataFusion's functions with the code that their rows ask for before and after.

use super::{Body, FunctionRow, calendar, epoch, fields, growth::Growth, regexp, rounding, sums};
use crate::evaluate::{floats, nested};
use arrow_array::Array;
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, FieldRef, TimeUnit};
use arrow_select::nullif::nullif;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
    simplify::{ExprSimplifyResult, SimplifyContext},
    type_coercion::functions::fields_with_udf,
};
use std::sync::Arc;

/// A function with the code around it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct WrappedFunction {
    function: Arc<ScalarUDF>,
    body: Body,
    growth: Option<Growth>,
    time: Option<usize>,
    signature: Signature,
}

/// The function itself, or one with the code that its row asks for; functions on lists always need some.
pub(super) fn wrapped(
    function: Arc<ScalarUDF>,
    row: &FunctionRow,
    is_on_lists: bool,
) -> Arc<ScalarUDF> {
    let FunctionRow { body, growth, time, .. } = *row;
    if body == Body::Sum {
        return sums::array_sum(function);
    }
    if body == Body::Own && growth.is_none() && time.is_none() && !is_on_lists {
        return function;
    }
    let signature = match (time, body) {
        (None, Body::Whole(_) | Body::Cut) | (Some(_), _) => {
            Signature::user_defined(function.signature().volatility)
        }
        (None, _) => function.signature().clone(),
    };
    let wrapped = WrappedFunction { function, body, growth, time, signature };
    Arc::new(ScalarUDF::new_from_impl(wrapped))
}

fn with_one_zero(mut arguments: ScalarFunctionArgs) -> Result<ScalarFunctionArgs> {
    arguments.args =
        arguments.args.iter().map(floats::with_one_zero).collect::<Result<Vec<_>>>()?;
    Ok(arguments)
}

impl WrappedFunction {
    /// Calls the function; a row with a null argument gets a null result.
    fn strictly(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, return_type) =
            (arguments.number_rows, arguments.return_field.data_type().clone());
        let mut nulls: Option<NullBuffer> = None;
        for argument in &arguments.args {
            match argument {
                ColumnarValue::Scalar(value) if value.is_null() => {
                    return Ok(ColumnarValue::Scalar(ScalarValue::try_from(return_type)?));
                }
                ColumnarValue::Scalar(_) => {}
                ColumnarValue::Array(array) => {
                    nulls = NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref());
                }
            }
        }
        let result = self.function.invoke_with_args(arguments)?;
        let Some(nulls) = nulls else { return Ok(result) };
        let is_null = arrow_array::BooleanArray::new(!nulls.inner(), None);
        Ok(ColumnarValue::Array(nullif(&result.into_array(rows)?, &is_null)?))
    }
}

impl ScalarUDFImpl for WrappedFunction {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        self.function.return_type(arguments)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let first = arguments.arg_fields.first();
        let whole = first.and_then(|it| match self.body {
            Body::Whole(_) => rounding::whole_type(it.data_type()),
            Body::Cut => Some(it.data_type().clone()).filter(DataType::is_integer),
            Body::Timestamp if epoch::is_coarse(it.data_type()) => {
                Some(DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            Body::Clock => Some(DataType::Time64(TimeUnit::Microsecond)),
            _ => None,
        });
        match whole {
            Some(whole) => Ok(Arc::new(Field::new(self.name(), whole, true))),
            None => self.function.return_field_from_args(arguments),
        }
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match (self.body, arguments) {
            (Body::Whole(_), [one]) if rounding::whole_type(one).is_some() => {
                return Ok(vec![one.clone()]);
            }
            (Body::Cut, [one]) if one.is_integer() => return Ok(vec![one.clone()]),
            (Body::Cut, [one, digits]) if one.is_integer() && digits.is_integer() => {
                return Ok(vec![one.clone(), DataType::Int64]);
            }
            _ => {}
        }
        let field = |it: &DataType| Arc::new(Field::new("", it.clone(), true));
        let fields: Vec<FieldRef> = arguments.iter().map(field).collect();
        let taken = fields_with_udf(&fields, self.function.as_ref())?;
        let mut taken: Vec<DataType> = taken.iter().map(|it| it.data_type().clone()).collect();
        let Some(at) = self.time else { return Ok(taken) };
        if let (Some(DataType::Timestamp(TimeUnit::Nanosecond, zone)), Some(given)) =
            (taken.get(at), arguments.get(at))
        {
            taken[at] = match given {
                DataType::Timestamp(..) => given.clone(),
                it if matches!(it, DataType::Date32 | DataType::Date64) || it.is_string() => {
                    DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
                }
                _ => return Ok(taken),
            };
        }
        // Bins may begin within a second.
        if let (Body::Bin, DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, zone)) =
            (self.body, &taken[at])
        {
            taken[at] = DataType::Timestamp(TimeUnit::Microsecond, zone.clone());
        }
        Ok(taken)
    }

    fn simplify(
        &self,
        arguments: Vec<Expr>,
        context: &SimplifyContext,
    ) -> Result<ExprSimplifyResult> {
        self.function.simplify(arguments, context)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }

    fn invoke_with_args(&self, mut arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        nested::reachable_arguments(&mut arguments.args)?;
        if let Some(growth) = self.growth {
            arguments = growth.checked(self.name(), arguments)?;
        }
        match self.body {
            Body::Own | Body::Sum => self.function.invoke_with_args(arguments),
            Body::Bounds(bounds) => bounds.invoke(&self.function, arguments),
            Body::Groups => regexp::matched(&self.function, arguments),
            Body::Strict => self.strictly(with_one_zero(arguments)?),
            Body::OneZero => self.function.invoke_with_args(with_one_zero(arguments)?),
            Body::FirstOrNull => {
                let (first, rows) = (arguments.args.first().cloned(), arguments.number_rows);
                let made = self.function.invoke_with_args(with_one_zero(arguments)?)?;
                match first {
                    Some(first) if first.data_type().is_floating() => {
                        floats::with_nulls_of(&first, made, rows)
                    }
                    _ => Ok(made),
                }
            }
            Body::Rounded => {
                let (args, rows) = (arguments.args.clone(), arguments.number_rows);
                floats::rounded(&args, self.function.invoke_with_args(arguments)?, rows)
            }
            Body::Whole(direction) => match &arguments.args[..] {
                [one] if rounding::whole_type(&one.data_type()).is_some() => {
                    rounding::whole(direction, one)
                }
                _ => self.function.invoke_with_args(arguments),
            },
            Body::Cut if arguments.args.first().is_some_and(|it| it.data_type().is_integer()) => {
                rounding::truncated(&arguments)
            }
            Body::Cut => {
                let (args, rows) = (arguments.args.clone(), arguments.number_rows);
                floats::rounded(&args, self.function.invoke_with_args(arguments)?, rows)
            }
            Body::Clock => {
                let made = arguments.return_field.data_type().clone();
                let types: Vec<DataType> =
                    arguments.args.iter().map(ColumnarValue::data_type).collect();
                let own = self.function.return_type(&types)?;
                arguments.return_field = Arc::new(Field::new(self.name(), own, true));
                self.function.invoke_with_args(arguments)?.cast_to(&made, None)
            }
            Body::Timestamp => epoch::timestamp(&self.function, arguments),
            Body::Epoch(unit) => epoch::in_unit(&self.function, unit, arguments),
            Body::Fields => fields::taken(&self.function, arguments),
            Body::Truncate | Body::Bin => {
                let invoke = match self.body {
                    Body::Truncate => calendar::truncated,
                    _ => calendar::binned,
                };
                let Some(ColumnarValue::Scalar(value)) = arguments.args.get(1) else {
                    return invoke(&self.function, arguments);
                };
                arguments.args[1] = ColumnarValue::Array(value.to_array()?);
                arguments.number_rows = 1;
                let made = invoke(&self.function, arguments)?.into_array(1)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?))
            }
            Body::Format => {
                if arguments.args.iter().any(|it| matches!(it, ColumnarValue::Array(_))) {
                    let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
                    arguments.args = columns.into_iter().map(ColumnarValue::Array).collect();
                }
                self.function.invoke_with_args(arguments)
            }
        }
    }
}
