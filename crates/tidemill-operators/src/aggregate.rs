//! Aggregate functions: a call is compiled to accumulators, which are shared where calls need the
//! same one, and to the column that reads them.
//!
//! | call | type of the result |
//! | --- | --- |
//! | `count(*)`, `count(x)`, `count(distinct x)`, `approx_distinct(x)` | `Int64`, never null |
//! | `sum(x)` | `Int64` of integers, `Decimal128` of decimals, `Float64` of floats |
//! | `avg`, `var_samp`, `var_pop`, `stddev_samp`, `stddev_pop`, `median`, `quantile(x, q)` | `Float64` |
//! | `min`, `max`, `first`, `last` | the type of `x` |
//!
//! `first` and `last` go by event time; of records with one time, and of records without, by
//! arrival.
//!
//! Nulls are left out, as in SQL: a count of none is 0, everything else of none is null. Variance
//! is Welford's; quantiles are a t-digest, which unlike other sketches uses no random numbers, so
//! that a replay gives the same bytes.

use crate::transform::not_reserved;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, SchemaRef};
use tidemill_sql::{
    AggregateCall, Expr, ExprError, catalogue::JOB_AGGREGATES, nearest, parse_call,
};
use tidemill_types::{job::Named, signs};

mod cells;
mod digest;
mod numbers;
mod results;
mod sides;
mod words;

pub(crate) use cells::{Cells, Columns, Taken};
pub(crate) use numbers::{ArgColumn, from_ints};
pub(crate) use results::Results;

/// The refusal of an aggregation: the part at fault, and the fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{part}`: {error}")]
pub struct AggregateError {
    /// The part: `key[0]`, `window` or `aggregate.NAME`.
    pub part: String,
    /// The fault.
    pub error: ExprError,
}

/// The representation of an argument's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NumberKind {
    Int,
    /// Decimals, and unsigned numbers of 64 bits: whole numbers of 128.
    Wide,
    Float,
    Text,
}

/// One accumulator: its state for every group, and its argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AccumulatorKind {
    /// Rows.
    Rows,
    /// Values that are not null.
    Values,
    /// Values and their sum; of whole numbers in a word more than they have, in the place of how many
    /// there are, so that no order of them fills it.
    Sum(NumberKind),
    /// Count, mean and the sum of squared distances.
    Moments,
    /// A flag for *any value*, and the smallest.
    Min(NumberKind),
    /// A flag for *any value*, and the largest.
    Max(NumberKind),
    /// A flag for *any value*, the earliest in event time, and its time.
    First(NumberKind),
    /// A flag for *any value*, the latest in event time, and its time.
    Last(NumberKind),
    /// The set of values.
    Distinct,
    /// A HyperLogLog sketch.
    Sketch,
    /// A t-digest.
    Digest,
}

impl AccumulatorKind {
    /// Words that it has among those of a group; none if it is kept beside them.
    pub(crate) fn words(self) -> Option<usize> {
        match self {
            Self::Rows | Self::Values => Some(1),
            Self::Sum(held) | Self::Min(held) | Self::Max(held) => Some(1 + held.words()?),
            Self::First(held) | Self::Last(held) => Some(2 + held.words()?),
            Self::Moments => Some(3),
            Self::Distinct | Self::Sketch | Self::Digest => None,
        }
    }
}

impl NumberKind {
    /// Words of a value; text has none.
    fn words(self) -> Option<usize> {
        match self {
            Self::Int | Self::Float => Some(1),
            Self::Wide => Some(2),
            Self::Text => None,
        }
    }
}

/// An accumulator with its argument and its place among the words of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Accumulator {
    pub(crate) kept: AccumulatorKind,
    pub(crate) argument: usize,
    /// First word, or the number of the side store.
    pub(crate) place: usize,
}

/// The way a result is read from an accumulator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ResultKind {
    Count,
    Value,
    /// A sum of whole numbers.
    Sum(NumberKind),
    Mean,
    Variance {
        sample: bool,
        root: bool,
    },
    Quantile(f64),
}

/// A column of the result.
#[derive(Clone, Debug)]
pub(crate) struct ResultColumn {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) nullable: bool,
    pub(crate) accumulator: usize,
    pub(crate) reading: ResultKind,
}

/// All aggregates of a stage.
#[derive(Clone, Debug, Default)]
pub(crate) struct Aggregates {
    /// Arguments, each evaluated once a block; the SQL tells equal ones.
    pub(crate) arguments: Vec<(String, Expr, NumberKind)>,
    pub(crate) accumulators: Vec<Accumulator>,
    pub(crate) results: Vec<ResultColumn>,
    /// Words of a group.
    pub(crate) words: usize,
    /// Side stores: sets, sketches, texts.
    pub(crate) sides: usize,
}

impl Aggregates {
    /// A description of accumulators and arguments, for checkpoints.
    pub(crate) fn does(&self) -> String {
        let kept = |it: &Accumulator| match it.kept {
            // There were states with a count in them.
            AccumulatorKind::Sum(NumberKind::Int | NumberKind::Wide) => {
                format!("long {:?}", it.kept)
            }
            kept => format!("{kept:?}"),
        };
        let one = |it: &Accumulator| match self.arguments.get(it.argument) {
            // What is held of a decimal or a time is a number whose unit is in its type.
            Some((sql, expr, NumberKind::Int | NumberKind::Wide))
                if !expr.data_type().is_integer() =>
            {
                format!("{} of {sql} ({})", kept(it), expr.data_type())
            }
            Some((sql, ..)) => format!("{} of {sql}", kept(it)),
            None => kept(it),
        };
        self.accumulators.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// Functions that return or count their arguments exactly; all others compute with floats.
const HOLDS_EXACTLY: [&str; 9] =
    ["count", "approx_distinct", "sum", "min", "max", "first", "first_value", "last", "last_value"];

impl Aggregates {
    /// Compiles aggregates over the columns of `input`: those of several stages have the same
    /// accumulators, and each its own results.
    pub(crate) fn compile<'a>(
        input: &SchemaRef,
        stages: impl Iterator<Item = &'a Named<String>>,
    ) -> Result<Vec<Self>, AggregateError> {
        let (mut all, mut results) = (Self::default(), Vec::new());
        for calls in stages {
            for (name, sql) in calls {
                let part = |error| AggregateError { part: format!("aggregate.{name}"), error };
                not_reserved(name).map_err(part)?;
                let call = parse_call(sql).map_err(part)?;
                all.add(input, name, &call).map_err(part)?;
            }
            results.push(std::mem::take(&mut all.results));
        }
        Ok(results.into_iter().map(|results| Self { results, ..all.clone() }).collect())
    }

    /// The state of each accumulator, with its argument.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (AccumulatorKind, &str)> {
        let argument = |it: &Accumulator| match it.kept {
            AccumulatorKind::Rows => "",
            _ => self.arguments[it.argument].0.as_str(),
        };
        self.accumulators.iter().map(move |it| (it.kept, argument(it)))
    }

    /// The representation of a result's values.
    fn held(&self, result: &ResultColumn) -> NumberKind {
        match (self.accumulators[result.accumulator].kept, result.reading) {
            (_, ResultKind::Count) => NumberKind::Int,
            // What does not fit its type is found when it is written.
            (_, ResultKind::Sum(_)) => NumberKind::Wide,
            (
                AccumulatorKind::Sum(held)
                | AccumulatorKind::Min(held)
                | AccumulatorKind::Max(held)
                | AccumulatorKind::First(held)
                | AccumulatorKind::Last(held),
                ResultKind::Value,
            ) => held,
            _ => NumberKind::Float,
        }
    }

    /// The arguments that some rows may have no value for.
    pub(crate) fn fallible(&self) -> impl Iterator<Item = &str> {
        let fallible = self.arguments.iter().filter(|(_, expr, _)| expr.can_fail());
        fallible.map(|(sql, ..)| sql.as_str())
    }

    fn add(
        &mut self,
        input: &SchemaRef,
        name: &str,
        call: &AggregateCall,
    ) -> Result<(), ExprError> {
        let function = call.function.as_str();
        if !JOB_AGGREGATES.contains(&function) {
            let mut error = ExprError::new(format!("unknown aggregate `{function}`"));
            error.expected = Some(format!("one of {}", JOB_AGGREGATES.join(", ")));
            error.nearest = nearest(function, JOB_AGGREGATES);
            error.message.push_str(&signs::note(function, error.nearest.as_deref()));
            return Err(error);
        }
        let has_quantile = matches!(function, "quantile" | "approx_percentile_cont");
        let wanted = if has_quantile { 2 } else { 1 };
        if call.arguments.len() != wanted {
            let given = call.arguments.len();
            return Err(ExprError::new(format!(
                "`{function}` takes {wanted} arguments, not {given}"
            )));
        }
        if call.distinct && function != "count" {
            return Err(ExprError::new(format!(
                "`{function}(distinct …)` is not known; `count` is"
            )));
        }
        let star = call.arguments[0] == "*";
        if star && function != "count" {
            return Err(ExprError::new(format!("`{function}(*)` has no meaning; name a column")));
        }
        if star && call.distinct {
            return Err(ExprError::new("`count(distinct *)` has no meaning; name a column"));
        }
        let mut sql = argument_sql(call, star);
        if !star {
            let data_type = Expr::compile(&sql, input)?.data_type().clone();
            let is_wide = numbers::held(&data_type) == Some(NumberKind::Wide);
            if is_wide && !HOLDS_EXACTLY.contains(&function) {
                sql = format!("cast({sql} as double)");
            } else if function == "sum" && data_type == DataType::UInt64 {
                sql = format!("cast({sql} as bigint)");
            }
        }
        if star && call.filter.is_none() {
            let accumulator = self.keep(AccumulatorKind::Rows, 0);
            self.result(name, (DataType::Int64, false), accumulator, ResultKind::Count);
            return Ok(());
        }
        // Of what cannot be kept, whether it is there is all that is counted.
        if function == "count"
            && !call.distinct
            && numbers::held(Expr::compile(&sql, input)?.data_type()).is_none()
        {
            sql = format!("case when ({sql}) is not null then 1 end");
        }
        let (argument, held, data_type) = self.argument(input, &sql)?;
        let quantile = if has_quantile { Some(call.arguments[1].as_str()) } else { None };
        self.add_over(name, (function, call.distinct, quantile), (argument, held, data_type))
    }

    fn add_over(
        &mut self,
        name: &str,
        (function, distinct, quantile): (&str, bool, Option<&str>),
        (argument, held, data_type): (usize, NumberKind, DataType),
    ) -> Result<(), ExprError> {
        let is_number = match &data_type {
            DataType::Boolean | DataType::Null => true,
            it => it.is_numeric(),
        };
        let numeric = |what: &str| match is_number {
            true => Ok(()),
            false => Err(ExprError::new(format!("`{what}` is for numbers, not for {data_type}"))),
        };
        let float = (DataType::Float64, true);
        let count = (DataType::Int64, false);
        match function {
            "count" if distinct => {
                let it = self.keep(AccumulatorKind::Distinct, argument);
                self.result(name, count, it, ResultKind::Count);
            }
            "count" => {
                let it = self.keep(AccumulatorKind::Values, argument);
                self.result(name, count, it, ResultKind::Count);
            }
            "approx_distinct" => {
                let it = self.keep(AccumulatorKind::Sketch, argument);
                self.result(name, count, it, ResultKind::Count);
            }
            "sum" => {
                numeric("sum")?;
                let it = self.keep(AccumulatorKind::Sum(held), argument);
                let kind = match (held, numbers::scale(&data_type)) {
                    (NumberKind::Wide, Some(scale)) => {
                        DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale)
                    }
                    (NumberKind::Int, _) => DataType::Int64,
                    _ => DataType::Float64,
                };
                let is_whole = matches!(held, NumberKind::Int | NumberKind::Wide);
                let reading = if is_whole { ResultKind::Sum(held) } else { ResultKind::Value };
                self.result(name, (kind, true), it, reading);
            }
            "quantile" | "approx_percentile_cont" | "median" => {
                numeric(function)?;
                let q = quantile.map_or(Ok(0.5), parse_quantile)?;
                let it = self.keep(AccumulatorKind::Digest, argument);
                self.result(name, float, it, ResultKind::Quantile(q));
            }
            "min" | "max" | "first" | "first_value" | "last" | "last_value" => {
                let kept = match function {
                    "min" => AccumulatorKind::Min(held),
                    "max" => AccumulatorKind::Max(held),
                    "first" | "first_value" => AccumulatorKind::First(held),
                    _ => AccumulatorKind::Last(held),
                };
                let it = self.keep(kept, argument);
                self.result(name, (data_type, true), it, ResultKind::Value);
            }
            moment => {
                numeric(moment)?;
                let it = self.keep(AccumulatorKind::Moments, argument);
                let root = moment.starts_with("stddev");
                let reading = match moment {
                    "avg" | "mean" => ResultKind::Mean,
                    _ => ResultKind::Variance { sample: !moment.ends_with("_pop"), root },
                };
                self.result(name, float, it, reading);
            }
        }
        Ok(())
    }

    fn argument(
        &mut self,
        input: &SchemaRef,
        sql: &str,
    ) -> Result<(usize, NumberKind, DataType), ExprError> {
        let found = self.arguments.iter().position(|(it, _, _)| it == sql);
        let index = match found {
            Some(index) => index,
            None => {
                let expr = Expr::compile(sql, input)?;
                let held = numbers::held(expr.data_type()).ok_or_else(|| {
                    ExprError::new(format!("{} cannot be aggregated", expr.data_type()))
                })?;
                self.arguments.push((sql.to_owned(), expr, held));
                self.arguments.len() - 1
            }
        };
        let (_, expr, held) = &self.arguments[index];
        Ok((index, *held, expr.data_type().clone()))
    }

    /// The accumulator that keeps this of an argument.
    fn keep(&mut self, kept: AccumulatorKind, argument: usize) -> usize {
        let same = |it: &Accumulator| it.kept == kept && it.argument == argument;
        if let Some(index) = self.accumulators.iter().position(same) {
            return index;
        }
        let (next, size) = match kept.words() {
            Some(words) => (&mut self.words, words),
            None => (&mut self.sides, 1),
        };
        self.accumulators.push(Accumulator { kept, argument, place: *next });
        *next += size;
        self.accumulators.len() - 1
    }

    fn result(
        &mut self,
        name: &str,
        (data_type, nullable): (DataType, bool),
        accumulator: usize,
        reading: ResultKind,
    ) {
        let name = name.to_owned();
        self.results.push(ResultColumn { name, data_type, nullable, accumulator, reading });
    }
}

/// The argument with the call's filter inside: rows for which it is not true count as null.
fn argument_sql(call: &AggregateCall, star: bool) -> String {
    let argument = if star { "1" } else { &call.arguments[0] };
    match &call.filter {
        None => argument.to_owned(),
        Some(filter) => format!("case when ({filter}) then ({argument}) end"),
    }
}

fn parse_quantile(text: &str) -> Result<f64, ExprError> {
    let q = text.parse::<f64>().ok().filter(|q| (0.0..=1.0).contains(q));
    q.ok_or_else(|| ExprError::new(format!("`{text}` is not a quantile: a number from 0 to 1")))
}
