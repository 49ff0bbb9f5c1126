//! The catalogue of functions that SQL may call: one row a function says how it is treated.
//!
//! | question | field of `FunctionRow` | read by |
//! | --- | --- | --- |
//! | Does a replay give the same? | `is_pure` | `resolve` |
//! | May one row's result be far larger than its arguments? | `growth` | `wrapper` |
//! | How large may a result be in a query? | `reach` | `query/reach` |
//! | Which code runs around DataFusion's own? (nulls, zeros of floats, own code) | `body` | `wrapper` |
//! | Which argument is a time that is taken in its own unit? | `time` | `wrapper` |
//! | Which common type do the arguments get? | `types` | `passes/operands` |
//! | Can a constant argument be checked before there are records? | `probe` | `passes/probe` |
//! | Does it have code, or only another form? | `has_body` | `passes/coercion` |
//!
//! Planning refuses a call of a function without a row.

use arrow_schema::TimeUnit;
use bounds::Bounds;
use growth::{Growth, ResultReach};
use rounding::Direction;

mod bounds;
pub(crate) mod calendar;
mod epoch;
pub(crate) mod fields;
pub(crate) mod growth;
mod regexp;
pub(crate) mod registry;
mod rounding;
mod sums;
mod table;
pub(crate) mod wrapper;

/// The properties of one function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionRow {
    /// DataFusion's name; aliases have the row of their function.
    pub(crate) name: &'static str,
    /// True if the result follows from the arguments alone. Some functions that DataFusion marks as
    /// depending on the session are pure, because settings never change here.
    pub(crate) is_pure: bool,
    /// The growth of results that may be far larger than their arguments.
    pub(crate) growth: Option<Growth>,
    /// The bound of results in a query; a query cannot call a function without one.
    pub(crate) reach: Option<ResultReach>,
    pub(crate) body: Body,
    /// The argument that is a time and keeps its own unit. DataFusion converts some to nanoseconds, which
    /// cover the years 1677 to 2262.
    pub(crate) time: Option<usize>,
    pub(crate) types: TypeRule,
    /// The argument that the check of constants replaces with a default value.
    pub(crate) probe: Option<usize>,
    /// The number of times that planning copies the arguments into the rewritten expression.
    pub(crate) copies: u64,
    /// False if DataFusion runs it only in another form, such as `coalesce` as `case`.
    pub(crate) has_body: bool,
    /// False if it compares intervals by their parts, so that it refuses them.
    pub(crate) takes_intervals: bool,
}

/// The code around DataFusion's own. All code but `Own` sees lists and objects without unreachable values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Body {
    /// DataFusion's own code, as it is.
    Own,
    /// A null argument makes the result null, independent of the other rows of the batch. 0.0 and -0.0 are
    /// equal.
    Strict,
    /// 0.0 and -0.0 are equal, in lists too.
    OneZero,
    /// The same, and the result is the first argument or null.
    FirstOrNull,
    /// Floats are rounded to any number of digits.
    Rounded,
    /// `floor` and `ceil`: decimals and whole numbers become whole numbers that have room for each result.
    Whole(Direction),
    /// `trunc`: whole numbers stay whole numbers, and floats are cut to any number of digits.
    Cut,
    /// Times are cut to this unit towards the past.
    Epoch(TimeUnit),
    /// Arguments at the ends of their types are brought within bounds.
    Bounds(Bounds),
    /// Groups that take no part in a match are null.
    Groups,
    /// Whole numbers and decimals of a list are added exactly.
    Sum,
    /// `to_timestamp`: dates and times of other units than nanoseconds become microseconds, which know
    /// all years.
    Timestamp,
    /// `make_time` and `to_time`: times of day are in microseconds.
    Clock,
    /// Fields of an object that is null are null.
    Fields,
    /// Next to a column, constants become columns too: DataFusion would read only the first row of the
    /// columns. Times keep their unit.
    Format,
    /// `date_trunc` of any year. The time is always a column: DataFusion treats constants differently.
    Truncate,
    /// `date_bin` of any year.
    Bin,
}

/// The rule for the common type of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeRule {
    /// DataFusion's own rule.
    Own,
    /// The arguments are compared with each other.
    Compared,
    /// The result is one of the arguments, or a list of them.
    Chosen,
}

const fn row(name: &'static str) -> FunctionRow {
    FunctionRow {
        name,
        is_pure: true,
        growth: None,
        reach: Some(ResultReach::Sum(1)),
        body: Body::Own,
        time: None,
        types: TypeRule::Own,
        probe: None,
        copies: 1,
        has_body: true,
        takes_intervals: true,
    }
}

impl FunctionRow {
    const fn impure(mut self) -> Self {
        self.is_pure = false;
        self
    }

    const fn grows(mut self, growth: Growth) -> Self {
        self.growth = Some(growth);
        self
    }

    const fn reaches(mut self, reach: ResultReach) -> Self {
        self.reach = Some(reach);
        self
    }

    const fn without_reach(mut self) -> Self {
        self.reach = None;
        self
    }

    const fn body(mut self, body: Body) -> Self {
        self.body = body;
        self
    }

    const fn time(mut self, argument: usize) -> Self {
        self.time = Some(argument);
        self
    }

    const fn compares(mut self) -> Self {
        self.types = TypeRule::Compared;
        self
    }

    const fn chooses(mut self) -> Self {
        self.types = TypeRule::Chosen;
        self
    }

    const fn probed(mut self, argument: usize) -> Self {
        self.probe = Some(argument);
        self
    }

    const fn copied(mut self, copies: u64) -> Self {
        self.copies = copies;
        self
    }

    const fn without_body(mut self) -> Self {
        self.has_body = false;
        self
    }

    const fn without_intervals(mut self) -> Self {
        self.takes_intervals = false;
        self
    }
}

/// The row of a function, by DataFusion's name for it.
pub(crate) fn function(name: &str) -> Option<&'static FunctionRow> {
    let at = table::TABLE.binary_search_by(|row| row.name.cmp(name)).ok()?;
    Some(&table::TABLE[at])
}

/// The rule for the types of a function's arguments.
pub(crate) fn type_rule(name: &str) -> TypeRule {
    function(name).map_or(TypeRule::Own, |row| row.types)
}

/// The aggregates of a job's windows, which `tidemill-operators` computes. Expressions name them to say
/// where an aggregate belongs.
pub const JOB_AGGREGATES: [&str; 21] = [
    "count",
    "sum",
    "min",
    "max",
    "avg",
    "mean",
    "var",
    "var_samp",
    "variance",
    "var_pop",
    "stddev",
    "stddev_samp",
    "stddev_pop",
    "first",
    "first_value",
    "last",
    "last_value",
    "approx_distinct",
    "quantile",
    "approx_percentile_cont",
    "median",
];

#[cfg(test)]
mod tests;
