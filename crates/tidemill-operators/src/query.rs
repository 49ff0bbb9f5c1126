//! SQL over the tables of a state: a query reads one table, batch by batch, and keeps no more of it
//! than its answer needs.
//!
//! ```text
//! SQL ─▶ DataFusion: parsed, names and types checked ─▶ steps
//! batches ─▶ filter ─▶ project ─▶ group ─▶ sort ─▶ limit ─▶ answer
//! ```
//!
//! DataFusion's planner and its expressions and aggregates are in this binary for the stages anyway.
//! Its own executor is not: it is asynchronous, and seventeen crates more to build, for plans that
//! here are one chain over one table.
//!
//! Invariants:
//!
//! - The same rows in the same order give the same answer: groups come in the order of their first
//!   row, and of rows that are equal in `ORDER BY` the first comes first.
//! - What a query holds is bounded; one that would need more is an error that says what to do.

mod group;
mod plan;
mod sort;
#[cfg(test)]
mod tests;

use crate::expr::ExprError;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, cast::AsArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::filter::filter_record_batch;
use datafusion_common::DataFusionError;
use datafusion_physical_expr::PhysicalExpr;
use group::{GroupPlan, Grouped};
use sort::{SortPlan, Sorted};
use std::{ops::ControlFlow, sync::Arc};

/// Bytes that a query may hold, its answer counted.
const HELD_BYTES_MAX: usize = 256 << 20;

/// Why a query has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// The SQL is none, or does not fit the tables; with its place.
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
        Self::Value(crate::expr::one_line(&error))
    }
}

impl From<ArrowError> for QueryError {
    fn from(error: ArrowError) -> Self {
        Self::Value(error.to_string())
    }
}

/// What is done with the rows, one thing after another.
#[derive(Debug)]
enum Step {
    /// Keeps the rows of which this is true.
    Filter(Arc<dyn PhysicalExpr>),
    Project(Vec<Arc<dyn PhysicalExpr>>, SchemaRef),
    Group(GroupPlan),
    Sort(SortPlan),
    /// Leaves out some rows, then takes some.
    Limit(usize, Option<usize>),
}

/// A query that is ready to run.
#[derive(Debug)]
pub struct Query {
    table: usize,
    steps: Vec<Step>,
    schema: SchemaRef,
}

impl Query {
    /// Compiles a query over tables with names and columns.
    ///
    /// # Errors
    /// It is no `SELECT` over one of the tables, or uses what is not known here: joins, unions,
    /// window functions, subqueries within expressions.
    pub fn compile(sql: &str, tables: &[(String, SchemaRef)]) -> Result<Self, ExprError> {
        plan::compile(sql, tables)
    }

    /// The table that it reads.
    #[must_use]
    pub fn table(&self) -> usize {
        self.table
    }

    /// The columns of its answer.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Begins to run it; its answer may have `rows_max` rows.
    ///
    /// # Errors
    /// An aggregate cannot be made.
    pub fn run(&self, rows_max: usize) -> Result<Running<'_>, QueryError> {
        let doing = self.steps.iter().map(|step| {
            Ok(match step {
                Step::Filter(_) | Step::Project(..) => Doing::Nothing,
                Step::Group(plan) => Doing::Group(Grouped::new(plan)?),
                Step::Sort(plan) => Doing::Sort(Sorted::new(plan)?),
                Step::Limit(skip, fetch) => Doing::Limit(*skip, fetch.unwrap_or(usize::MAX)),
            })
        });
        let doing = doing.collect::<Result<_, QueryError>>()?;
        Ok(Running { query: self, doing, answer: Vec::new(), bytes: 0, rows: 0, rows_max })
    }
}

/// What a step holds.
enum Doing<'a> {
    Nothing,
    Group(Grouped<'a>),
    Sort(Sorted<'a>),
    /// Rows that are still to be left out, and to be taken.
    Limit(usize, usize),
}

impl Doing<'_> {
    fn bytes(&self) -> usize {
        match self {
            Self::Nothing | Self::Limit(..) => 0,
            Self::Group(it) => it.bytes(),
            Self::Sort(it) => it.bytes(),
        }
    }
}

/// A query that takes the rows of its table.
pub struct Running<'a> {
    query: &'a Query,
    doing: Vec<Doing<'a>>,
    answer: Vec<RecordBatch>,
    bytes: usize,
    rows: usize,
    rows_max: usize,
}

impl Running<'_> {
    /// Takes rows; says whether more can change the answer.
    ///
    /// # Errors
    /// A row has values for which there is no result, or the query needs too much.
    pub fn push(&mut self, batch: RecordBatch) -> Result<ControlFlow<()>, QueryError> {
        let wants = self.push_from(0, batch)?;
        let held: usize = self.doing.iter().map(Doing::bytes).sum();
        if held + self.bytes > HELD_BYTES_MAX {
            return Err(QueryError::Memory);
        }
        Ok(wants)
    }

    /// The answer, when all rows were taken, as batches that all have [`Query::schema`].
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn finish(mut self) -> Result<Vec<RecordBatch>, QueryError> {
        for nth in 0..self.doing.len() {
            let held = match std::mem::replace(&mut self.doing[nth], Doing::Nothing) {
                Doing::Group(it) => it.finish()?,
                Doing::Sort(it) => it.finish()?,
                it => {
                    self.doing[nth] = it;
                    continue;
                }
            };
            for batch in held {
                if self.push_from(nth + 1, batch)?.is_break() {
                    break;
                }
            }
        }
        Ok(self.answer)
    }

    /// Gives rows to a step and those after it.
    fn push_from(
        &mut self,
        first: usize,
        mut batch: RecordBatch,
    ) -> Result<ControlFlow<()>, QueryError> {
        let mut wants = ControlFlow::Continue(());
        let query = self.query;
        for (step, doing) in query.steps.iter().zip(&mut self.doing).skip(first) {
            match (step, doing) {
                (Step::Filter(expr), _) => {
                    batch = filter_record_batch(&batch, &truth(expr, &batch)?)?;
                }
                (Step::Project(exprs, schema), _) => {
                    let columns = exprs.iter().map(|expr| evaluate(expr, &batch));
                    let columns = columns.collect::<Result<_, _>>()?;
                    batch = shaped(schema, columns, batch.num_rows())?;
                }
                (_, Doing::Group(it)) => {
                    it.take(&batch)?;
                    return Ok(wants);
                }
                (_, Doing::Sort(it)) => {
                    it.take(batch)?;
                    return Ok(wants);
                }
                (_, Doing::Limit(skip, fetch)) => {
                    let left_out = batch.num_rows().min(*skip);
                    *skip -= left_out;
                    let taken = (batch.num_rows() - left_out).min(*fetch);
                    *fetch -= taken;
                    batch = batch.slice(left_out, taken);
                    if *fetch == 0 {
                        wants = ControlFlow::Break(());
                    }
                }
                // A step that has given what it held.
                (_, Doing::Nothing) => {}
            }
        }
        if batch.num_rows() > 0 {
            self.rows += batch.num_rows();
            self.bytes += batch.get_array_memory_size();
            if self.rows > self.rows_max {
                return Err(QueryError::Rows(self.rows_max));
            }
            self.answer.push(batch);
        }
        Ok(wants)
    }
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<ArrayRef, QueryError> {
    Ok(expr.evaluate(batch)?.into_array(batch.num_rows())?)
}

/// The rows of which a condition is true.
fn truth(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> Result<BooleanArray, QueryError> {
    let array = evaluate(expr, batch)?;
    let truth = array.as_boolean_opt().cloned();
    truth.ok_or_else(|| QueryError::Value("the condition is neither true nor false".to_owned()))
}

/// Columns as a schema says.
fn shaped(
    schema: &SchemaRef,
    columns: Vec<ArrayRef>,
    rows: usize,
) -> Result<RecordBatch, QueryError> {
    let of_type = |(column, field): (ArrayRef, &Arc<arrow_schema::Field>)| {
        let is_it = column.data_type() == field.data_type();
        if is_it { Ok(column) } else { cast(&column, field.data_type()) }
    };
    let columns = columns.into_iter().zip(schema.fields()).map(of_type);
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}
