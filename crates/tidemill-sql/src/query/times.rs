//! Times of far years in a query: choices, differences and time zones in its plan run in microseconds, as
//! in expressions of jobs. This happens before steps are made of the plan.
//!
//! The pass changes types, and with them the columns of all later steps.

use crate::passes::{coercion::Coercion, in_kept_units, microseconds};
use datafusion_common::{
    DFSchema, Result as Planned,
    tree_node::{Transformed, TransformedResult, TreeNode},
};
use datafusion_expr::{
    Expr as Logical, LogicalPlan, expr_rewriter::NamePreserver, utils::merge_schema,
};

/// A plan whose types are not settled, with times that are put into zones in microseconds.
pub(super) fn in_zones(plan: LogicalPlan) -> Planned<LogicalPlan> {
    changed(plan, &microseconds::zones_in_microseconds)
}

/// A plan whose operands have the types that those of a job's expressions have. It comes before
/// DataFusion's analysis, which compares text with numbers in the type of the number.
pub(super) fn with_types(plan: LogicalPlan) -> Planned<LogicalPlan> {
    changed(plan, &|expr, schema| Coercion::new(schema).coerced(expr))
}

/// A plan whose types are settled, with times that are chosen in microseconds, and dates that are moved
/// by a part of a day as times.
pub(super) fn in_microseconds(plan: LogicalPlan) -> Planned<LogicalPlan> {
    changed(plan, &|expr, schema| {
        let coercion = Coercion::new(schema);
        let typed = coercion.typed(expr.clone())?;
        let made = in_kept_units(typed.clone(), &coercion, schema)?;
        // Names of columns follow from what is written, so nothing else is changed.
        Ok(if made == typed { expr } else { made })
    })
}

type Change<'a> = dyn Fn(Logical, &DFSchema) -> Planned<Logical> + 'a;

fn changed(plan: LogicalPlan, change: &Change<'_>) -> Planned<LogicalPlan> {
    plan.transform_up(|node| {
        let inputs = node.inputs();
        if inputs.is_empty() {
            return Ok(Transformed::no(node));
        }
        let (schema, names) = (merge_schema(&inputs), NamePreserver::new(&node));
        let node = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let made = change(expr.clone(), &schema)?;
            Ok(match made == expr {
                true => Transformed::no(expr),
                false => Transformed::yes(name.restore(made)),
            })
        })?;
        Ok(Transformed::yes(node.data.recompute_schema()?))
    })
    .data()
}
