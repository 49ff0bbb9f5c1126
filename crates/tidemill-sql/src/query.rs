//! SQL over the tables of a state: a query reads one table, batch by batch, and keeps only the rows
//! that its answer needs.
//!
//! ```text
//! SQL ─▶ DataFusion: parsed, names and types checked ─▶ steps
//! batches ─▶ filter ─▶ project ─▶ group ─▶ sort ─▶ limit ─▶ answer
//! ```
//!
//! DataFusion's planner, expressions and aggregates are in this binary for the stages anyway. Its
//! executor is not: it is asynchronous and needs many more crates, while a plan here is one chain over
//! one table.
//!
//! Invariants:
//!
//! - The same rows in the same order give the same answer: groups come in the order of their first
//!   row, and rows that are equal in `ORDER BY` keep their order.
//! - The memory of a query is bounded, its intermediate results included; a query that needs more fails
//!   with a way out. `execution.rs` lists the parts that do not count. Its run time is not bounded.
//! - Unknown clauses are refused, never ignored.
//! - A sum of integers that does not fit is an error, as in a job; so is a result of `+`, `-` and `*`
//!   beyond its type, arguments and `FILTER`s of aggregates included.

mod admission;
mod execution;
mod group;
mod plan;
mod reach;
mod sort;
#[cfg(test)]
mod tests;
mod times;

use crate::error::{ExprError, one_line};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, cast::AsArray};
use arrow_cast::{CastOptions, cast_with_options, display::FormatOptions};
use arrow_schema::{ArrowError, SchemaRef};
use datafusion_common::DataFusionError;
use datafusion_physical_expr::PhysicalExpr;
pub use execution::RunningQuery;
use group::GroupPlan;
use reach::Reach;
use sort::SortPlan;
use std::sync::Arc;

/// Memory of a query in bytes, its answer included.
const HELD_BYTES_MAX: usize = 256 << 20;

/// Values that a column's type cannot hold are errors, not nulls.
const MUST_FIT: CastOptions<'_> = CastOptions { safe: false, format_options: FormatOptions::new() };

/// The error of a query.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The SQL is invalid or does not fit the tables; with its place.
    #[error("line {}, column {}: {}", .0.line, .0.column, .0.message)]
    Sql(#[from] ExprError),
    /// A row has values for which there is no result.
    #[error("{0}")]
    Value(String),
    /// It needs more memory than a query may have.
    #[error(
        "the query holds more than {} MiB: take fewer rows with `WHERE` or `LIMIT`, or fewer groups",
        HELD_BYTES_MAX >> 20
    )]
    Memory,
    /// The answer is too large.
    #[error("the answer has more than {0} rows: take fewer with `WHERE` or `LIMIT`")]
    Rows(usize),
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        Self::Value(one_line(&error))
    }
}

impl From<ArrowError> for QueryError {
    fn from(error: ArrowError) -> Self {
        Self::Value(error.to_string())
    }
}

/// One step of a plan.
#[derive(Debug)]
enum Step {
    /// Keeps the rows for which the condition is true.
    Filter(Arc<dyn PhysicalExpr>, Reach),
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef, Reach),
    Group(GroupPlan),
    Sort(SortPlan),
    /// Skips rows (`OFFSET`), then takes rows (`LIMIT`; none for all).
    Limit(usize, Option<usize>),
}

impl Step {
    /// The bound of the step's results, intermediate ones included.
    fn reach(&self) -> Reach {
        match self {
            Self::Filter(_, reach) | Self::Project(_, _, reach) => *reach,
            Self::Group(plan) => plan.reach,
            Self::Sort(plan) => plan.reach,
            Self::Limit(..) => Reach::default(),
        }
    }
}

/// A query that is ready to run.
#[derive(Debug)]
pub struct Query {
    table: usize,
    steps: Vec<Step>,
    schema: SchemaRef,
}

impl Query {
    /// Compiles a query over tables, given by name and columns.
    ///
    /// # Errors
    /// The text is not a `SELECT` over one of the tables, or it uses an unsupported construct: joins, unions,
    /// window functions, subqueries within expressions.
    pub fn compile(sql: &str, tables: &[(String, SchemaRef)]) -> Result<Self, ExprError> {
        plan::compile(sql, tables)
    }

    /// The index of the table that the query reads.
    #[must_use]
    pub fn table(&self) -> usize {
        self.table
    }

    /// The columns of the answer.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Starts the query. An answer of more than `rows_max` rows is an error.
    ///
    /// # Errors
    /// An aggregate cannot be made.
    pub fn run(&self, rows_max: usize) -> Result<RunningQuery<'_>, QueryError> {
        self.run_within(rows_max, HELD_BYTES_MAX)
    }

    /// Starts the query with `bytes_max` bytes of memory.
    fn run_within(
        &self,
        rows_max: usize,
        bytes_max: usize,
    ) -> Result<RunningQuery<'_>, QueryError> {
        RunningQuery::new(self, rows_max, bytes_max)
    }
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef, QueryError> {
    Ok(expr.evaluate(batch)?.into_array(batch.num_rows())?)
}

/// The rows for which a condition is true.
fn truth(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray, QueryError> {
    let array = evaluate(expr, batch)?;
    let truth = array.as_boolean_opt().cloned();
    truth.ok_or_else(|| QueryError::Value("the condition is neither true nor false".to_owned()))
}

/// Casts columns to the types of a schema. A sum that was computed in a wider type must fit.
fn shaped(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, QueryError> {
    let of_type = |(column, field): (ArrayRef, &Arc<arrow_schema::Field>)| {
        let is_it = column.data_type() == field.data_type();
        if is_it {
            return Ok(column);
        }
        let cast = cast_with_options(&column, field.data_type(), &MUST_FIT);
        cast.map_err(|error| match field.data_type().is_integer() {
            true => QueryError::Value("a sum of integers is beyond 64 bits".to_owned()),
            false => error.into(),
        })
    };
    let columns = columns.into_iter().zip(schema.fields()).map(of_type);
    let columns = columns.collect::<Result<Vec<_>, QueryError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
