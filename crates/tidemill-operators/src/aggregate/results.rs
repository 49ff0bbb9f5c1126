//! The result columns of aggregates on their way out.

use super::{Aggregates, NumberKind, numbers};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, PrimitiveArray,
    builder::StringBuilder,
    types::{Decimal128Type, Float64Type, Int64Type},
};
use arrow_buffer::NullBufferBuilder;
use arrow_cast::cast;
use std::sync::Arc;
use tidemill_flow::OperatorError;
use tidemill_sql::with_one_nan;

/// One column a result.
#[derive(Debug)]
pub(crate) struct Results {
    pub(super) columns: Vec<ResultBuilder>,
}

/// The builder of one result column.
#[derive(Debug)]
pub(super) enum ResultBuilder {
    Int(NumberBuilder<Int64Type>),
    Wide(NumberBuilder<Decimal128Type>),
    Float(NumberBuilder<Float64Type>),
    Text(StringBuilder),
}

/// A builder of nullable numbers. It reserves memory for the rows of a batch instead of doubling.
#[derive(Debug)]
pub(super) struct NumberBuilder<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Default for NumberBuilder<T> {
    fn default() -> Self {
        Self { values: Vec::new(), nulls: NullBufferBuilder::new(0) }
    }
}

impl<T: ArrowPrimitiveType> NumberBuilder<T> {
    #[inline]
    pub(super) fn push(&mut self, value: T::Native) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    #[inline]
    pub(super) fn push_option(&mut self, value: Option<T::Native>) {
        self.values.push(value.unwrap_or_default());
        self.nulls.append(value.is_some());
    }

    /// Nulls are rare: they are looked for once all values are there.
    pub(super) fn extend(&mut self, values: impl Iterator<Item = Option<T::Native>> + Clone) {
        let (before, mut there) = (self.values.len(), 0);
        self.values.extend(values.clone().map(|value| {
            there += usize::from(value.is_some());
            value.unwrap_or_default()
        }));
        let count = self.values.len() - before;
        if there == count {
            self.nulls.append_n_non_nulls(count);
        } else {
            values.for_each(|value| self.nulls.append(value.is_some()));
        }
    }

    fn finish(&mut self) -> PrimitiveArray<T> {
        PrimitiveArray::new(std::mem::take(&mut self.values).into(), self.nulls.finish())
    }
}

impl Results {
    pub(crate) fn new(plan: &Aggregates) -> Self {
        let column = |held| match held {
            NumberKind::Float => ResultBuilder::Float(NumberBuilder::default()),
            NumberKind::Text => ResultBuilder::Text(StringBuilder::new()),
            NumberKind::Int => ResultBuilder::Int(NumberBuilder::default()),
            NumberKind::Wide => ResultBuilder::Wide(NumberBuilder::default()),
        };
        Self { columns: plan.results.iter().map(|it| column(plan.held(it))).collect() }
    }

    /// So many groups are read next.
    pub(crate) fn reserve(&mut self, groups: usize) {
        for column in &mut self.columns {
            match column {
                ResultBuilder::Int(it) => it.values.reserve(groups),
                ResultBuilder::Wide(it) => it.values.reserve(groups),
                ResultBuilder::Float(it) => it.values.reserve(groups),
                ResultBuilder::Text(_) => {}
            }
        }
    }

    /// The columns built so far, as the plan's types.
    pub(crate) fn finish(&mut self, plan: &Aggregates) -> Result<Vec<ArrayRef>, OperatorError> {
        let columns = self.columns.iter_mut().zip(&plan.results).map(|(column, result)| {
            let array: ArrayRef = match column {
                ResultBuilder::Int(it) => {
                    return numbers::from_ints(it.finish(), &result.data_type);
                }
                ResultBuilder::Wide(it) => {
                    return numbers::from_wide(&it.finish(), &result.data_type);
                }
                ResultBuilder::Float(it) => with_one_nan(Arc::new(it.finish())),
                ResultBuilder::Text(it) => Arc::new(it.finish()),
            };
            if array.data_type() == &result.data_type {
                Ok(array)
            } else {
                cast(&array, &result.data_type).map_err(crate::transform::arrow_error)
            }
        });
        columns.collect()
    }
}
