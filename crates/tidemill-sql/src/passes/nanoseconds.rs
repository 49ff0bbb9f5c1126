//! Times in nanoseconds beside times of other units and dates: compared exactly, whatever the year.
//!
//! DataFusion casts the others to nanoseconds, which know the years 1677 to 2262. Here each side becomes its
//! count of nanoseconds in 128 bits. Where no side has a part of a microsecond, `microseconds` has
//! compared them already.

use arrow_array::{ArrayRef, Decimal128Array, cast::AsArray, types::Int64Type};
use arrow_cast::cast;
use arrow_schema::{
    DataType,
    TimeUnit::{self, Microsecond, Millisecond, Nanosecond, Second},
};
use datafusion_common::{
    DFSchema, DataFusionError, Result, ScalarValue, exec_err,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    Between, BinaryExpr, Case, Cast, ColumnarValue, Expr as Logical, ExprSchemable,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    expr::{InList, ScalarFunction},
};
use std::sync::{Arc, LazyLock};

/// The type of a time as a count of nanoseconds; each time of each unit fits.
const NANOS: DataType = DataType::Decimal128(38, 0);

/// The function from a time to its nanoseconds since 1970.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TimeNanos {
    signature: Signature,
}

static NANOS_OF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(TimeNanos { signature }))
});

impl ScalarUDFImpl for TimeNanos {
    fn name(&self) -> &str {
        "nanoseconds of a time"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(NANOS)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.first() {
            Some(ColumnarValue::Array(times)) => Ok(ColumnarValue::Array(nanos(times)?)),
            Some(ColumnarValue::Scalar(time)) => {
                let made = nanos(&time.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?))
            }
            None => exec_err!("no time is given"),
        }
    }
}

fn nanos(times: &ArrayRef) -> Result<ArrayRef> {
    let DataType::Timestamp(unit, _) = times.data_type() else {
        return exec_err!("{} is no time", times.data_type());
    };
    let per_unit: i128 = match unit {
        Second => 1_000_000_000,
        Millisecond => 1_000_000,
        Microsecond => 1_000,
        Nanosecond => 1,
    };
    let numbers = cast(times, &DataType::Int64)?;
    let numbers = numbers.as_primitive::<Int64Type>();
    let made: Decimal128Array = numbers.unary(|it| i128::from(it) * per_unit);
    Ok(Arc::new(made.with_data_type(NANOS)))
}

/// Compares times of unlike units by their nanoseconds. Types must be coerced.
pub(crate) fn compared(expr: Logical, schema: &DFSchema) -> Result<Logical, DataFusionError> {
    expr.transform_up(|node| Ok(by_count(node, schema))).data()
}

fn by_count(node: Logical, schema: &DFSchema) -> Transformed<Logical> {
    let made = match &node {
        Logical::BinaryExpr(it) if it.op.supports_propagation() => {
            counts([&*it.left, &*it.right], schema).and_then(|sides| {
                let [left, right] = <[Logical; 2]>::try_from(sides).ok()?.map(Box::new);
                Some(Logical::BinaryExpr(BinaryExpr { left, op: it.op, right }))
            })
        }
        Logical::Between(it) => {
            counts([&*it.expr, &*it.low, &*it.high], schema).and_then(|sides| {
                let [expr, low, high] = <[Logical; 3]>::try_from(sides).ok()?.map(Box::new);
                Some(Logical::Between(Between { expr, negated: it.negated, low, high }))
            })
        }
        Logical::InList(it) => {
            let all = std::iter::once(&*it.expr).chain(&it.list);
            counts(all, schema).map(|mut list| {
                let expr = Box::new(list.remove(0));
                Logical::InList(InList { expr, list, negated: it.negated })
            })
        }
        Logical::Case(Case { expr: Some(expr), when_then_expr, else_expr }) => {
            let all = std::iter::once(&**expr).chain(when_then_expr.iter().map(|it| &*it.0));
            counts(all, schema).map(|mut whens| {
                let expr = Some(Box::new(whens.remove(0)));
                let branches = whens.into_iter().zip(when_then_expr);
                let when_then_expr =
                    branches.map(|(when, (_, then))| (Box::new(when), then.clone())).collect();
                Logical::Case(Case { expr, when_then_expr, else_expr: else_expr.clone() })
            })
        }
        _ => None,
    };
    made.map_or_else(|| Transformed::no(node), Transformed::yes)
}

/// The counts of times, if all are in nanoseconds and one of them is cast from another unit.
fn counts<'a>(
    all: impl IntoIterator<Item = &'a Logical>,
    schema: &DFSchema,
) -> Option<Vec<Logical>> {
    let all: Vec<&Logical> = all.into_iter().collect();
    let is_in_nanos =
        |it: &&Logical| matches!(it.get_type(schema), Ok(DataType::Timestamp(Nanosecond, _)));
    if !all.iter().all(is_in_nanos) {
        return None;
    }
    let coarser: Vec<Option<Logical>> = all.iter().map(|it| in_own_unit(it, schema)).collect();
    if coarser.iter().all(Option::is_none) {
        return None;
    }
    let count = |(coarser, it): (Option<Logical>, &Logical)| {
        let (func, args) = (Arc::clone(&NANOS_OF), vec![coarser.unwrap_or_else(|| it.clone())]);
        Logical::ScalarFunction(ScalarFunction { func, args })
    };
    Some(coarser.into_iter().zip(all).map(count).collect())
}

/// A time that is cast to nanoseconds, in the unit that it had; in the same zone.
pub(super) fn in_own_unit(expr: &Logical, schema: &DFSchema) -> Option<Logical> {
    let Logical::Cast(Cast { expr, field }) = expr else { return None };
    let DataType::Timestamp(Nanosecond, zone) = field.data_type() else { return None };
    let to = |unit: TimeUnit| DataType::Timestamp(unit, zone.clone());
    if let Logical::Literal(value, _) = &**expr {
        // A text of a year that nanoseconds do not know.
        let is_far =
            value.try_as_str().flatten().is_some() && value.cast_to(&to(Nanosecond)).is_err();
        let value = is_far.then(|| value.cast_to(&to(Microsecond)))?;
        return Some(Logical::Literal(value.ok()?, None));
    }
    let unit = match expr.get_type(schema).ok()? {
        DataType::Timestamp(Nanosecond, _) => return None,
        DataType::Timestamp(unit, _) => unit,
        DataType::Date32 => Second,
        DataType::Date64 => Millisecond,
        _ => return None,
    };
    Some(Logical::Cast(Cast::new(expr.clone(), to(unit))))
}
