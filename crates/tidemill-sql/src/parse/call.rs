//! A call of an aggregate function, taken apart: `count(distinct x)`, `quantile(delay, 0.9)`.

use super::parse;
use crate::error::ExprError;
use datafusion_sql::sqlparser::ast::{
    DuplicateTreatment, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, NullTreatment,
};

/// One aggregate call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AggregateCall {
    /// The function, in lower case.
    pub function: String,
    /// `distinct` stood before the arguments.
    pub distinct: bool,
    /// The arguments as SQL; `*` stands for itself.
    pub arguments: Vec<String>,
    /// The condition of `filter (where …)`.
    pub filter: Option<String>,
}

/// Splits an aggregate call into its parts. It does not check that the function exists.
///
/// # Errors
/// The text is not a call, or has parts that aggregates here do not know.
pub fn parse_call(sql: &str) -> Result<AggregateCall, ExprError> {
    let not_a_call = || {
        let mut error = ExprError::new(format!("`{sql}` is not an aggregate"));
        error.expected = Some("a call such as `count(*)`, `avg(delay)`".to_owned());
        error
    };
    let Expr::Function(call) = parse(sql)?.ast else { return Err(not_a_call()) };
    let FunctionArguments::List(list) = call.args else { return Err(not_a_call()) };
    if call.over.is_some() || !call.within_group.is_empty() || !list.clauses.is_empty() {
        return Err(ExprError::new("`over`, `within group` and clauses are not known here"));
    }
    if call.parameters != FunctionArguments::None {
        return Err(ExprError::new("an aggregate has one list of arguments"));
    }
    // What is left out everywhere may be said to be.
    if call.null_treatment == Some(NullTreatment::RespectNulls) {
        let mut error = ExprError::new("`respect nulls` is not known here: nulls are left out");
        error.expected = Some("`ignore nulls`, or nothing, which is the same".to_owned());
        return Err(error);
    }
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr.to_string()),
        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => Ok("*".to_owned()),
        other => Err(ExprError::new(format!("`{other}` is not an argument of an aggregate"))),
    };
    Ok(AggregateCall {
        function: call.name.to_string().to_lowercase(),
        distinct: list.duplicate_treatment == Some(DuplicateTreatment::Distinct),
        arguments: list.args.iter().map(argument).collect::<Result<_, _>>()?,
        filter: call.filter.map(|filter| filter.to_string()),
    })
}
