//! Compiled expressions, evaluated for all rows of a batch.

use crate::{
    error::{EvaluationError, ExprError, one_line, plan_error},
    parse::{depth, parse},
    passes, resolve,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use datafusion_common::DFSchema;
use datafusion_physical_expr::{PhysicalExpr, expressions::Column, utils::collect_columns};
use datafusion_sql::sqlparser::ast;
use std::sync::Arc;

pub(crate) mod canonical;
pub(crate) mod casts;
mod decimals;
mod elements;
pub(crate) mod failure;
pub(crate) mod floats;
pub(crate) mod nested;
mod numerals;
pub(crate) mod physical;
pub(crate) mod postprocess;
pub(crate) mod short_circuit;
pub(crate) mod times;

/// A compiled expression. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Expr {
    physical: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    nullable: bool,
    columns: Vec<usize>,
    can_fail: bool,
}

impl Expr {
    /// Compiles an expression over the columns of `input`.
    ///
    /// # Errors
    /// The text is not an expression, names a column or a function that is not there, combines
    /// types that do not go together, or would not replay.
    pub fn compile(sql: &str, input: &SchemaRef) -> Result<Self, ExprError> {
        let parsed = parse(sql)?;
        depth::with_stack(parsed.depth, || Self::planned(parsed.ast, input))
    }

    fn planned(parsed: ast::Expr, input: &SchemaRef) -> Result<Self, ExprError> {
        resolve::names::check(&parsed, input)?;
        let schema = DFSchema::try_from(Arc::clone(input)).map_err(|error| plan_error(&error))?;
        let logical = resolve::resolve(parsed, &schema)?;
        let physical = passes::compile_physical(logical, &schema)?;
        let data_type = physical.data_type(input).map_err(|error| plan_error(&error))?;
        let nullable = physical.nullable(input).map_err(|error| plan_error(&error))?;
        let mut columns: Vec<usize> =
            collect_columns(&physical).iter().map(Column::index).collect();
        columns.sort_unstable();
        let can_fail = failure::can_fail(&physical, input);
        Ok(Self { physical, data_type, nullable, columns, can_fail })
    }

    /// The type of the result.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// True if the result may be null.
    #[must_use]
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// The columns it reads, ascending.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// True if there may be rows for which it has no value.
    #[must_use]
    pub fn can_fail(&self) -> bool {
        self.can_fail
    }

    /// The column, if the expression is nothing but that.
    #[must_use]
    pub fn as_column(&self) -> Option<usize> {
        let column: Option<&Column> = self.physical.downcast_ref();
        column.map(Column::index)
    }

    /// Evaluates the expression for every row.
    ///
    /// # Errors
    /// A row has values for which the expression has none: a cast that fails, a number that does
    /// not fit.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, EvaluationError> {
        if batch.num_rows() == 0 {
            // Of constants, DataFusion makes a value even for no row at all, and might fail.
            return Ok(arrow_array::new_empty_array(&self.data_type));
        }
        self.physical
            .evaluate(batch)
            .and_then(|value| value.into_array(batch.num_rows()))
            .map_err(|error| EvaluationError { message: one_line(&error) })
    }
}
