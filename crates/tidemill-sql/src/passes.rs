//! Rewrites of a resolved expression, in order, before it becomes a physical one.

use crate::{
    error::{ExprError, plan_error},
    evaluate::physical,
};
use coercion::Coercion;
use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::Expr as Logical;
use datafusion_physical_expr::PhysicalExpr;
use std::sync::Arc;

pub(crate) mod coercion;
pub(crate) mod intervals;
pub(crate) mod like;
pub(crate) mod microseconds;
pub(crate) mod nanoseconds;
mod operands;
pub(crate) mod probe;
pub(crate) mod subsecond;

/// Most nested levels of choices among times that are converted to microseconds.
const CHOICES_MAX: usize = 8;

/// Runs all passes over an expression of a job, and makes the physical expression.
pub(crate) fn compile_physical(
    logical: Logical,
    schema: &DFSchema,
) -> Result<Arc<dyn PhysicalExpr>, ExprError> {
    let coercion = Coercion::new(schema);
    let logical = microseconds::zones_in_microseconds(logical, schema)
        .and_then(|it| coercion.typed(it))
        .and_then(|it| in_kept_units(it, &coercion, schema))
        .and_then(|it| subsecond::without_digits(it, schema))
        .and_then(|it| microseconds::in_microseconds(it, schema))
        .and_then(|it| nanoseconds::compared(it, schema))
        .and_then(|it| intervals::compared(it, schema))
        .map_err(|error| plan_error(&error))?;
    physical::refuse_constants(&logical)?;
    let logical = coercion.finished(logical).map_err(|error| plan_error(&error))?;
    probe::refuse_wrong_constants(&logical, schema)?;
    physical::physical(&logical, schema).map_err(|error| plan_error(&error))
}

/// Choices among times become microseconds, and dates that are moved by hours become times. The type of
/// a choice among choices follows from those, so this repeats until nothing changes.
pub(crate) fn in_kept_units(
    logical: Logical,
    coercion: &Coercion<'_>,
    schema: &DFSchema,
) -> Result<Logical, DataFusionError> {
    let mut logical = intervals::moved(logical, schema)?;
    for _ in 0..CHOICES_MAX {
        let next =
            coercion.typed(microseconds::chosen_in_microseconds(logical.clone(), schema)?)?;
        if next == logical {
            break;
        }
        logical = next;
    }
    Ok(logical)
}
