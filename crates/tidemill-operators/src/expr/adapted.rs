//! DataFusion's functions, where they need something done before or after.

use super::{
    alone,
    bounded::Growth,
    calendar,
    fields::{self, GET_FIELD},
    floats,
};
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

/// A function with what it needs.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Adapted {
    function: Arc<ScalarUDF>,
    need: Need,
    signature: Signature,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Need {
    /// Of lists and objects it sees only what is there, as all do that need something else.
    Alone,
    /// It is asked only for what is not too large.
    Bounded(Growth),
    /// Of null it gives null: by itself it does so or not, as the other rows of the batch are. The two
    /// zeros of floats are the same.
    Strict,
    /// The two zeros of floats are the same, in lists too.
    OneZero,
    /// The same, and what it gives is its first argument, or null.
    FirstOrNull,
    /// Floats are rounded however many digits are asked for.
    Rounded,
    /// Fields of an object that is null are null.
    OfObjects,
    /// Constants become columns where another argument is one: of a constant it looks at the first
    /// row of the others only. Times stay in their unit.
    Written,
    /// Its second argument, a time in its unit, is always a column: of a constant it makes another
    /// value, or none. Times of far years are cut as others are.
    Cut,
    /// The same, of times that are put into bins.
    Binned,
}

impl Need {
    /// Which argument is a time that it takes in whatever unit it is kept. DataFusion takes some in
    /// nanoseconds, which know few years.
    fn time(self) -> Option<usize> {
        match self {
            Self::Written => Some(0),
            Self::Cut | Self::Binned => Some(1),
            _ => None,
        }
    }
}

/// The function itself, or one that does what it needs; those on lists always need something.
pub(super) fn adapted(function: Arc<ScalarUDF>, is_on_lists: bool) -> Arc<ScalarUDF> {
    let need = match function.name() {
        "array_has" | "array_has_all" | "array_has_any" => Need::Strict,
        "array_position" | "array_positions" | "array_remove" | "array_remove_n"
        | "array_remove_all" | "array_replace" | "array_replace_n" | "array_replace_all" => {
            Need::OneZero
        }
        "nullif" => Need::FirstOrNull,
        "round" | "trunc" => Need::Rounded,
        GET_FIELD => Need::OfObjects,
        "to_char" => Need::Written,
        "date_trunc" => Need::Cut,
        "date_bin" => Need::Binned,
        name => match Growth::of(name) {
            Some(growth) => Need::Bounded(growth),
            None if is_on_lists => Need::Alone,
            None => return function,
        },
    };
    let signature = match need.time() {
        Some(_) => Signature::user_defined(function.signature().volatility),
        None => function.signature().clone(),
    };
    Arc::new(ScalarUDF::new_from_impl(Adapted { function, need, signature }))
}

fn with_one_zero(mut arguments: ScalarFunctionArgs) -> Result<ScalarFunctionArgs> {
    arguments.args =
        arguments.args.iter().map(floats::with_one_zero).collect::<Result<Vec<_>>>()?;
    Ok(arguments)
}

impl Adapted {
    /// What it gives where no argument is null.
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

impl ScalarUDFImpl for Adapted {
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
        self.function.return_field_from_args(arguments)
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let Some(at) = self.need.time() else { return self.function.coerce_types(arguments) };
        let field = |it: &DataType| Arc::new(Field::new("", it.clone(), true));
        let fields: Vec<FieldRef> = arguments.iter().map(field).collect();
        let taken = fields_with_udf(&fields, self.function.as_ref())?;
        let mut taken: Vec<DataType> = taken.iter().map(|it| it.data_type().clone()).collect();
        if let (Some(DataType::Timestamp(TimeUnit::Nanosecond, zone)), Some(given)) =
            (taken.get(at), arguments.get(at))
        {
            taken[at] = match given {
                DataType::Timestamp(..) => given.clone(),
                DataType::Date32 | DataType::Date64 => {
                    DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
                }
                _ => return Ok(taken),
            };
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
        alone::arguments(&mut arguments.args)?;
        match self.need {
            Need::Alone => self.function.invoke_with_args(arguments),
            Need::Bounded(growth) => {
                self.function.invoke_with_args(growth.checked(self.name(), arguments)?)
            }
            Need::Strict => self.strictly(with_one_zero(arguments)?),
            Need::OneZero => self.function.invoke_with_args(with_one_zero(arguments)?),
            Need::FirstOrNull => {
                let (first, rows) = (arguments.args.first().cloned(), arguments.number_rows);
                let made = self.function.invoke_with_args(with_one_zero(arguments)?)?;
                match first {
                    Some(first) if first.data_type().is_floating() => {
                        floats::with_nulls_of(&first, made, rows)
                    }
                    _ => Ok(made),
                }
            }
            Need::Rounded => {
                let (args, rows) = (arguments.args.clone(), arguments.number_rows);
                floats::rounded(&args, self.function.invoke_with_args(arguments)?, rows)
            }
            Need::OfObjects => fields::taken(&self.function, arguments),
            Need::Cut | Need::Binned => {
                let invoke = match self.need {
                    Need::Cut => calendar::truncated,
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
            Need::Written => {
                if arguments.args.iter().any(|it| matches!(it, ColumnarValue::Array(_))) {
                    let columns = ColumnarValue::values_to_arrays(&arguments.args)?;
                    arguments.args = columns.into_iter().map(ColumnarValue::Array).collect();
                }
                self.function.invoke_with_args(arguments)
            }
        }
    }
}
