//! Syntax to a logical expression: names and functions are resolved, and functions that must not run are
//! refused.

use crate::{
    catalogue::{self, registry},
    error::{ExprError, plan_error},
};
use arrow_array::timezone::Tz;
use arrow_schema::DataType;
use datafusion_common::{
    DFSchema,
    tree_node::{TreeNode, TreeNodeRecursion},
};
use datafusion_expr::{Cast, Expr as Logical, TryCast, Volatility};
use datafusion_sql::{
    planner::{ParserOptions, PlannerContext, SqlToRel},
    sqlparser::ast,
};

pub(crate) mod names;

/// The logical expression of a syntax tree, over the columns of `schema`.
pub(crate) fn resolve(parsed: ast::Expr, schema: &DFSchema) -> Result<Logical, ExprError> {
    let options = ParserOptions {
        enable_ident_normalization: false,
        map_string_types_to_utf8view: false,
        ..ParserOptions::default()
    };
    let logical = SqlToRel::new_with_options(registry::shared(), options)
        .sql_to_expr(parsed, schema, &mut PlannerContext::new())
        .map_err(|error| plan_error(&error))?;
    refuse_unfit(&logical)?;
    Ok(logical)
}

/// Refuses functions that would not replay, and parts that DataFusion accepts and computes otherwise
/// than SQL says.
pub(crate) fn refuse_unfit(logical: &Logical) -> Result<(), ExprError> {
    let mut found = None;
    let walked = logical.apply(|node| {
        found = match node {
            Logical::ScalarFunction(call) => {
                let name = call.func.name();
                let is_pure = call.func.signature().volatility == Volatility::Immutable
                    || catalogue::function(name).is_some_and(|row| row.is_pure);
                (!is_pure).then(|| {
                    format!("`{name}` gives another result at every call, so a replay would differ")
                })
            }
            Logical::SimilarTo(_) => Some(
                "there is no `similar to`; use `like`, or `~` with a regular expression".to_owned(),
            ),
            Logical::Cast(Cast { field, .. }) | Logical::TryCast(TryCast { field, .. }) => {
                match field.data_type() {
                    DataType::Timestamp(_, Some(zone)) if zone.parse::<Tz>().is_err() => Some(
                        format!(
                            "unknown time zone `{zone}`: it is written as in `Europe/Berlin`, `UTC` \
                             or `+02:00`"
                        ),
                    ),
                    _ => None,
                }
            }
            _ => None,
        };
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.map_err(|error| plan_error(&error))?;
    found.map_or(Ok(()), |reason| Err(ExprError::new(reason)))
}
