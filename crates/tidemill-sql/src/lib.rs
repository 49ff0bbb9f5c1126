//! SQL over Arrow: expressions of jobs, and queries over the tables of a state.
//!
//! ```text
//!  text ──▶ parse ──▶ resolve ──▶ passes ──▶ evaluate       an expression of one record
//!                        │           │
//!                        └ catalogue ┘                      one row a function
//!  text ──▶ query: admission, plan, steps ──▶ answer        a query over one table
//! ```
//!
//! DataFusion parses SQL, infers types and provides the functions. The passes and the catalogue correct
//! it where it differs from PostgreSQL, and where a replay would give another result.
//!
//! Invariants:
//!
//! - An expression is a function of its record: functions that would not replay, such as `now()` and
//!   `random()`, are refused.
//! - The value of a row does not depend on the rows beside it in a batch.
//! - A constant gives the same value as a column that holds it.
//! - Column names are case sensitive, as in the data: `Delay` is not `delay`.

pub mod catalogue;
mod error;
mod evaluate;
mod parse;
mod passes;
pub mod query;
mod resolve;
#[cfg(test)]
mod tests;

pub use error::{EvaluationError, ExprError};
pub use evaluate::{
    Expr,
    canonical::{with_one_nan, with_one_zero},
};
pub use parse::{
    call::{AggregateCall, parse_call},
    check_syntax,
};
pub use resolve::names::nearest;
