//! Rewrites of a resolved expression, in order, before it becomes a physical one: [`PASSES`].

use crate::{
    error::{ExprError, plan_error},
    evaluate::physical,
};
use coercion::Coercion;
use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::Expr as Logical;
use datafusion_physical_expr::PhysicalExpr;
use std::sync::Arc;

pub(crate) mod arithmetic;
pub(crate) mod coercion;
pub(crate) mod intervals;
pub(crate) mod like;
pub(crate) mod microseconds;
pub(crate) mod nanoseconds;
mod operands;
pub(crate) mod probe;
mod refusals;
pub(crate) mod subsecond;

/// The part of a query's planning that a pass belongs to. An expression of a job runs through all parts,
/// one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryPart {
    /// Over the whole plan, so that each step knows the types of the one before.
    Plan,
    /// Over one expression of a step, before the memory that it may take is bounded.
    Types,
    /// Over one expression of a step, after that.
    Values,
}

/// One rewrite of an expression.
#[cfg_attr(
    not(test),
    expect(
        dead_code,
        reason = "name and reason are for the reader, and for the test of the document"
    )
)]
struct Pass {
    name: &'static str,
    /// One reason, as in `docs/internals/sql.md`.
    reason: &'static str,
    part: QueryPart,
    run: fn(Logical, &DFSchema, &Coercion<'_>) -> Result<Logical, DataFusionError>,
}

/// All passes in their order. `docs/internals/sql.md` shows the same table.
const PASSES: [Pass; 10] = [
    Pass {
        name: "zones",
        reason: "`at time zone` gives microseconds, in which all years fit",
        part: QueryPart::Plan,
        run: |expr, schema, _| microseconds::zones_in_microseconds(expr, schema),
    },
    Pass {
        name: "choices",
        reason: "operands get one type that holds all of both; choices and differences of times are in microseconds",
        part: QueryPart::Plan,
        run: |expr, schema, coercion| in_kept_units(coercion.typed(expr)?, coercion, schema),
    },
    Pass {
        name: "types",
        reason: "functions are the catalogue's; `coalesce` and `nvl` become `case`",
        part: QueryPart::Types,
        run: |expr, _, coercion| coercion.typed(expr),
    },
    Pass {
        name: "digits",
        reason: "a constant with more digits than the time beside it is compared without those",
        part: QueryPart::Types,
        run: |expr, schema, _| subsecond::without_digits(expr, schema),
    },
    Pass {
        name: "microseconds",
        reason: "times are compared with texts and dates in microseconds",
        part: QueryPart::Types,
        run: |expr, schema, _| microseconds::in_microseconds(expr, schema),
    },
    Pass {
        name: "overflow",
        reason: "sums and products of constants that overflow are refused",
        part: QueryPart::Values,
        run: |expr, _, _| physical::refuse_constants(&expr).map(|()| expr),
    },
    Pass {
        name: "nanoseconds",
        reason: "times of unlike units are compared by their count of nanoseconds, in 128 bits",
        part: QueryPart::Values,
        run: |expr, schema, _| nanoseconds::compared(expr, schema),
    },
    Pass {
        name: "intervals",
        reason: "intervals are compared by their length",
        part: QueryPart::Values,
        run: |expr, schema, _| intervals::compared(expr, schema),
    },
    Pass {
        name: "constants",
        reason: "constants are computed, casts beside them go to them, `in` and `case x when` say what `=` says",
        part: QueryPart::Values,
        run: |expr, _, coercion| coercion.finished(expr),
    },
    Pass {
        name: "probe",
        reason: "units, patterns and formats that are wrong for every record are refused",
        part: QueryPart::Values,
        run: |expr, schema, _| probe::refuse_wrong_constants(&expr, schema).map(|()| expr),
    },
];

/// Most nested levels of choices among times that are converted to microseconds.
const CHOICES_MAX: usize = 8;

/// Runs the passes of some parts over an expression.
pub(crate) fn run_passes(
    logical: Logical,
    schema: &DFSchema,
    parts: &[QueryPart],
) -> Result<Logical, DataFusionError> {
    let coercion = Coercion::new(schema);
    let mut passes = PASSES.iter().filter(|pass| parts.contains(&pass.part));
    passes.try_fold(logical, |expr, pass| (pass.run)(expr, schema, &coercion))
}

/// Runs all passes over an expression of a job, and makes the physical expression.
pub(crate) fn compile_physical(
    logical: Logical,
    schema: &DFSchema,
) -> Result<Arc<dyn PhysicalExpr>, ExprError> {
    let parts = [QueryPart::Plan, QueryPart::Types, QueryPart::Values];
    run_passes(logical, schema, &parts)
        .and_then(|it| physical::physical(&it, schema))
        .map_err(|error| plan_error(&error))
}

/// The passes as rows of a table.
#[cfg(test)]
pub(crate) fn table() -> String {
    let row = |(nth, pass): (usize, &Pass)| {
        format!("| {} | `{}` | {} | {:?} |\n", nth + 1, pass.name, pass.reason, pass.part)
    };
    PASSES.iter().enumerate().map(row).collect()
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
