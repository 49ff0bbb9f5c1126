//! `ORDER BY`: all rows are held, or those that a `LIMIT` behind it lets through.

use super::{QueryError, evaluate, plan};
use crate::expr::ExprError;
use arrow_array::{RecordBatch, UInt32Array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::SortOptions;
use arrow_select::{concat::concat_batches, take::take_record_batch};
use datafusion_common::DFSchema;
use datafusion_expr::logical_plan::Sort;
use datafusion_physical_expr::PhysicalExpr;
use std::sync::Arc;

/// Rows that are held beyond those that are wanted, before those that are not are let go.
const HELD_BEYOND: usize = 65_536;

/// What rows are ordered by.
#[derive(Debug)]
pub(super) struct SortPlan {
    by: Vec<(Arc<dyn PhysicalExpr>, SortField)>,
    /// No more rows are wanted.
    pub(super) fetch: Option<usize>,
}

impl SortPlan {
    pub(super) fn new(sort: &Sort, input: &DFSchema) -> Result<Self, ExprError> {
        let by = sort.expr.iter().map(|it| {
            let expr = plan::physical(&it.expr, input)?;
            let data_type = expr.data_type(input.as_arrow());
            let data_type = data_type.map_err(|error| crate::expr::plan_error(&error))?;
            let options = SortOptions { descending: !it.asc, nulls_first: it.nulls_first };
            let field = SortField::new_with_options(data_type, options);
            if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
                return Err(ExprError::new(format!("values of `{}` have no order", it.expr)));
            }
            Ok((expr, field))
        });
        Ok(Self { by: by.collect::<Result<_, _>>()?, fetch: sort.fetch })
    }
}

/// The rows so far.
pub(super) struct Sorted<'a> {
    plan: &'a SortPlan,
    converter: RowConverter,
    held: Vec<RecordBatch>,
    rows: usize,
}

impl<'a> Sorted<'a> {
    pub(super) fn new(plan: &'a SortPlan) -> Result<Self, QueryError> {
        let fields = plan.by.iter().map(|(_, field)| field.clone()).collect();
        Ok(Self { plan, converter: RowConverter::new(fields)?, held: Vec::new(), rows: 0 })
    }

    /// Bytes that are held.
    pub(super) fn bytes(&self) -> usize {
        self.held.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    pub(super) fn take(&mut self, batch: RecordBatch) -> Result<(), QueryError> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.rows += batch.num_rows();
        self.held.push(batch);
        if self.plan.fetch.is_some_and(|fetch| self.rows > fetch.saturating_add(HELD_BEYOND)) {
            self.sort()?;
        }
        Ok(())
    }

    /// The rows in order.
    pub(super) fn finish(mut self) -> Result<Vec<RecordBatch>, QueryError> {
        self.sort()?;
        Ok(self.held)
    }

    fn sort(&mut self) -> Result<(), QueryError> {
        let Some(first) = self.held.first() else { return Ok(()) };
        let all = concat_batches(&first.schema(), &self.held)?;
        let by = self.plan.by.iter().map(|(expr, _)| evaluate(expr, &all));
        let rows = self.converter.convert_columns(&by.collect::<Result<Vec<_>, _>>()?)?;
        let count = u32::try_from(all.num_rows()).map_err(|_| QueryError::Memory)?;
        let mut order: Vec<u32> = (0..count).collect();
        // Stable: of equal rows the one that came first stays first.
        order.sort_by_key(|row| rows.row(*row as usize));
        order.truncate(self.plan.fetch.unwrap_or(usize::MAX));
        let sorted = take_record_batch(&all, &UInt32Array::from(order))?;
        self.rows = sorted.num_rows();
        self.held = vec![sorted];
        Ok(())
    }
}
