//! `ORDER BY`: the step keeps all rows, or the first ones up to the `LIMIT` that follows.

use super::{QueryError, evaluate, plan, reach::Reach};
use crate::{
    error::{ExprError, plan_error},
    evaluate::canonical::with_one_zero,
};
use arrow_array::RecordBatch;
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::SortOptions;
use arrow_select::interleave::interleave_record_batch;
use datafusion_common::DFSchema;
use datafusion_expr::logical_plan::Sort;
use datafusion_physical_expr::PhysicalExpr;
use std::sync::Arc;

/// Surplus rows beyond the `LIMIT` at which the step drops them.
const HELD_BEYOND: usize = 65_536;
/// Surplus rows may take one part in this many of the free memory.
const LARGE: usize = 8;

/// The keys and the limit of a sort step.
#[derive(Debug)]
pub(super) struct SortPlan {
    by: Vec<(Arc<dyn PhysicalExpr>, SortField)>,
    /// The largest number of rows in the answer. None without a `LIMIT`.
    pub(super) fetch: Option<usize>,
    /// The bound of the results for the rows of a piece.
    pub(super) reach: Reach,
}

impl SortPlan {
    pub(super) fn new(sort: &Sort, input: &DFSchema) -> Result<Self, ExprError> {
        let mut all = Reach::default();
        let by = sort.expr.iter().map(|it| {
            let (expr, reach) = plan::physical(&it.expr, input)?;
            all = all.and(reach).and(Reach::KEY);
            let data_type = expr.data_type(input.as_arrow());
            let data_type = data_type.map_err(|error| plan_error(&error))?;
            let options = SortOptions { descending: !it.asc, nulls_first: it.nulls_first };
            let field = SortField::new_with_options(data_type, options);
            if !RowConverter::supports_fields(std::slice::from_ref(&field)) {
                return Err(ExprError::new(format!("values of `{}` have no order", it.expr)));
            }
            Ok((expr, field))
        });
        let by = by.collect::<Result<_, _>>()?;
        Ok(Self { by, fetch: sort.fetch, reach: all })
    }
}

/// The state of a sort step.
pub(super) struct SortState<'a> {
    plan: &'a SortPlan,
    converter: RowConverter,
    held: Vec<RecordBatch>,
    /// The encoded sort keys of the rows.
    keys: Vec<Rows>,
    rows: usize,
}

impl<'a> SortState<'a> {
    pub(super) fn new(plan: &'a SortPlan) -> Result<Self, QueryError> {
        let fields = plan.by.iter().map(|(_, field)| field.clone()).collect();
        let converter = RowConverter::new(fields)?;
        Ok(Self { plan, converter, held: Vec::new(), keys: Vec::new(), rows: 0 })
    }

    /// Bytes that are held.
    pub(super) fn bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(Rows::size).sum();
        keys + self.row_bytes()
    }

    fn row_bytes(&self) -> usize {
        self.held.iter().map(RecordBatch::get_array_memory_size).sum()
    }

    /// Takes rows. There is `room` for so many bytes more.
    pub(super) fn take(&mut self, batch: RecordBatch, room: usize) -> Result<(), QueryError> {
        let by = self.plan.by.iter().map(|(expr, _)| evaluate(expr, &batch));
        let by = by.map(|it| it.map(with_one_zero)).collect::<Result<Vec<_>, _>>()?;
        self.keys.push(self.converter.convert_columns(&by)?);
        self.rows += batch.num_rows();
        self.held.push(batch);
        let Some(fetch) = self.plan.fetch else { return Ok(()) };
        let many = self.rows > fetch.saturating_add(HELD_BEYOND);
        // Large rows are let go sooner; the rows double in between, or it would be done too often.
        let large = self.rows >= fetch.saturating_mul(2) && self.row_bytes() > room / LARGE;
        if many || large { self.sort(room) } else { Ok(()) }
    }

    /// The rows in order.
    pub(super) fn finish(mut self, room: usize) -> Result<Option<RecordBatch>, QueryError> {
        self.sort(room)?;
        Ok(self.held.pop())
    }

    fn sort(&mut self, room: usize) -> Result<(), QueryError> {
        if self.held.is_empty() {
            return Ok(());
        }
        let mut order = Vec::with_capacity(self.rows);
        for (nth, batch) in self.held.iter().enumerate() {
            order.extend((0..batch.num_rows()).map(|row| (nth, row)));
        }
        // Stable: of equal rows the one that came first stays first.
        order.sort_by_key(|(nth, row)| self.keys[*nth].row(*row));
        let kept = self.plan.fetch.unwrap_or(usize::MAX).min(order.len());
        order.truncate(kept);
        // The rows in order are a copy, beside those that are held.
        let copied = self.row_bytes().saturating_add(self.rows * size_of::<(usize, usize)>());
        if copied > room {
            return Err(QueryError::Memory);
        }
        let all: Vec<&RecordBatch> = self.held.iter().collect();
        let sorted = interleave_record_batch(&all, &order)?;
        let mut keys = self.converter.empty_rows(kept, 0);
        order.iter().for_each(|(nth, row)| keys.push(self.keys[*nth].row(*row)));
        self.rows = sorted.num_rows();
        (self.held, self.keys) = (vec![sorted], vec![keys]);
        Ok(())
    }
}

/// The number of a row.
pub(super) fn of_row(row: usize) -> Result<u32, QueryError> {
    u32::try_from(row).map_err(|_| QueryError::Memory)
}
