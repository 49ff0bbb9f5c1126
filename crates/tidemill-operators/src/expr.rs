//! SQL expressions on record batches: parsed, checked against a schema, evaluated by DataFusion.
//!
//! - Names of columns are as in the data: `Delay` is not `delay`.
//! - An expression is a function of its record: what would not replay (`now()`, `random()`) is
//!   refused.

use arrow_array::{ArrayRef, RecordBatch, timezone::Tz};
use arrow_schema::{DataType, SchemaRef};
use datafusion_common::{DFSchema, DataFusionError};
use datafusion_expr::{Cast, Expr as Logical, TryCast, Volatility};
use datafusion_physical_expr::{PhysicalExpr, utils::collect_columns};
use datafusion_sql::{
    planner::{ParserOptions, PlannerContext, SqlToRel},
    sqlparser::{
        ast,
        dialect::GenericDialect,
        parser::Parser,
        tokenizer::{Token, Tokenizer},
    },
};
use settled::Settling;
use std::sync::Arc;
use tidemill_flow::OperatorError;

mod adapted;
mod after;
mod alone;
mod bounded;
mod calendar;
mod call;
pub(crate) mod checked;
mod depth;
mod fallible;
pub(crate) mod far;
mod fields;
pub(crate) mod finer;
mod floats;
pub(crate) mod functions;
mod guarded;
pub(crate) mod kept;
pub(crate) mod lengths;
pub(crate) mod like;
mod names;
pub(crate) mod settled;
#[cfg(test)]
mod tests;
pub(crate) mod trial;
pub(crate) mod words;

pub use call::{AggregateCall, parse_call};
pub use names::nearest;

/// How deep times may be chosen among times that were chosen, so that all are in microseconds.
const CHOICES_MAX: usize = 8;

/// A compiled expression. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Expr {
    physical: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    nullable: bool,
    columns: Vec<usize>,
    can_fail: bool,
}

/// Why an expression was refused, and where in its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// What is wrong, for a person.
    pub message: String,
    /// Line within the SQL text, from 1.
    pub line: u64,
    /// Column within the line, from 1.
    pub column: u64,
    /// What was expected there.
    pub expected: Option<String>,
    /// The nearest name that would have been right.
    pub nearest: Option<String>,
}

impl ExprError {
    /// An error of the expression as a whole.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), line: 1, column: 1, expected: None, nearest: None }
    }

    pub(crate) fn at(mut self, location: datafusion_sql::sqlparser::tokenizer::Location) -> Self {
        if location.line > 0 {
            (self.line, self.column) = (location.line, location.column);
        }
        self
    }
}

/// A text that is an expression, and how deep it is at most.
pub(crate) struct Parsed {
    pub(crate) ast: ast::Expr,
    depth: usize,
}

/// Parses one SQL expression; anything after it is refused.
pub(crate) fn parse(sql: &str) -> Result<Parsed, ExprError> {
    let syntax = |error: &dyn std::fmt::Display| syntax_error(&error.to_string());
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let mut tokens = tokens.map_err(|error| syntax(&error))?;
    words::quote_names(&mut tokens);
    let depth = depth::checked(&tokens)?;
    let mut parser = Parser::new(&GenericDialect {}).with_tokens_with_locations(tokens);
    let ast = parser.parse_expr().map_err(|error| syntax(&error))?;
    let next = parser.peek_token();
    if next.token == Token::EOF {
        return Ok(Parsed { ast, depth });
    }
    let mut error = ExprError::new(format!("unexpected `{}`", next.token)).at(next.span.start);
    error.expected = Some("the end of the expression".to_owned());
    Err(error)
}

/// Whether a text is an expression at all; its names and types are not looked at.
///
/// # Errors
/// It is none.
pub fn check_syntax(sql: &str) -> Result<(), ExprError> {
    parse(sql).map(|_| ())
}

/// Takes "… at Line: 1, Column: 9" apart.
pub(crate) fn syntax_error(text: &str) -> ExprError {
    let text = text.trim_start_matches("sql parser error: ");
    let (message, place) = text.split_once(" at Line: ").unwrap_or((text, ""));
    let mut error = ExprError::new(message);
    let number = |text: &str| text.trim().parse::<u64>().ok();
    if let Some((line, column)) = place.split_once(", Column: ")
        && let (Some(line), Some(column)) = (number(line), number(column))
    {
        (error.line, error.column) = (line, column);
    }
    error
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
        names::check(&parsed, input)?;
        let schema = DFSchema::try_from(Arc::clone(input)).map_err(|error| plan_error(&error))?;
        let logical = plan(parsed, &schema)?;
        refuse_unfit(&logical)?;
        let physical = compile_physical(logical, &schema)?;
        let data_type = physical.data_type(input).map_err(|error| plan_error(&error))?;
        let nullable = physical.nullable(input).map_err(|error| plan_error(&error))?;
        let mut columns: Vec<usize> =
            collect_columns(&physical).iter().map(|column| column.index()).collect();
        columns.sort_unstable();
        let can_fail = fallible::can_fail(&physical, input);
        Ok(Self { physical, data_type, nullable, columns, can_fail })
    }

    /// The type of the result.
    #[must_use]
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Whether the result may be null.
    #[must_use]
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// The columns it reads, ascending.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether there may be rows that it has no value for.
    #[must_use]
    pub fn can_fail(&self) -> bool {
        self.can_fail
    }

    /// The column, if the expression is nothing but that.
    #[must_use]
    pub fn as_column(&self) -> Option<usize> {
        let column: Option<&datafusion_physical_expr::expressions::Column> =
            self.physical.downcast_ref();
        column.map(datafusion_physical_expr::expressions::Column::index)
    }

    /// Evaluates the expression for every row.
    ///
    /// # Errors
    /// A row has values for which the expression has none: a cast that fails, a number that does
    /// not fit.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef, OperatorError> {
        if batch.num_rows() == 0 {
            // Of constants, DataFusion makes a value even for no row at all, and might fail.
            return Ok(arrow_array::new_empty_array(&self.data_type));
        }
        self.physical
            .evaluate(batch)
            .and_then(|value| value.into_array(batch.num_rows()))
            .map_err(|error| OperatorError::new(one_line(&error)))
    }
}

fn plan(parsed: ast::Expr, schema: &DFSchema) -> Result<Logical, ExprError> {
    let functions = functions::shared();
    let options = ParserOptions {
        enable_ident_normalization: false,
        map_string_types_to_utf8view: false,
        ..ParserOptions::default()
    };
    SqlToRel::new_with_options(functions, options)
        .sql_to_expr(parsed, schema, &mut PlannerContext::new())
        .map_err(|error| plan_error(&error))
}

fn compile_physical(
    logical: Logical,
    schema: &DFSchema,
) -> Result<Arc<dyn PhysicalExpr>, ExprError> {
    let settling = Settling::new(schema);
    let logical = far::zones_in_microseconds(logical, schema)
        .and_then(|it| settling.typed(it))
        .and_then(|it| in_kept_units(it, &settling, schema))
        .and_then(|it| finer::without_digits(it, schema))
        .and_then(|it| far::in_microseconds(it, schema))
        .and_then(|it| lengths::compared(it, schema))
        .map_err(|error| plan_error(&error))?;
    checked::refuse_constants(&logical)?;
    let logical = settling.settled(logical).map_err(|error| plan_error(&error))?;
    trial::refuse_wrong_constants(&logical, schema)?;
    checked::physical(&logical, schema).map_err(|error| plan_error(&error))
}

/// Refuses what would not replay, and what DataFusion takes and does not do as it says.
pub(crate) fn refuse_unfit(logical: &Logical) -> Result<(), ExprError> {
    use datafusion_common::tree_node::{TreeNode, TreeNodeRecursion};
    let mut found = None;
    let walked = logical.apply(|node| {
        found = match node {
            Logical::ScalarFunction(call) => {
                let name = call.func.name();
                let is_pure = call.func.signature().volatility == Volatility::Immutable
                    || functions::is_pure_here(name);
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
    found.map_or(Ok(()), |why| Err(ExprError::new(why)))
}

/// Times that are chosen, in microseconds, and dates that are moved by hours as times. What is chosen
/// among what was chosen has its type then, and so on.
pub(crate) fn in_kept_units(
    logical: Logical,
    settling: &Settling<'_>,
    schema: &DFSchema,
) -> Result<Logical, DataFusionError> {
    let mut logical = lengths::moved(logical, schema)?;
    for _ in 0..CHOICES_MAX {
        let next = settling.typed(far::chosen_in_microseconds(logical.clone(), schema)?)?;
        if next == logical {
            break;
        }
        logical = next;
    }
    Ok(logical)
}

pub(crate) fn plan_error(error: &DataFusionError) -> ExprError {
    ExprError::new(one_line(error))
}

/// The message of an error, without DataFusion's own headings.
pub(crate) fn one_line(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    let mut rest = text.as_str();
    while let Some(less) = without_heading(rest) {
        rest = less;
    }
    match of_pattern(rest) {
        Some(why) => format!("the regular expression does not compile: {why}"),
        None => rest.lines().next().unwrap_or(rest).trim().to_owned(),
    }
}

fn without_heading(message: &str) -> Option<&str> {
    let headings = [
        "Error during planning: ",
        "Schema error: ",
        "Execution error: ",
        "Arrow error: ",
        "Invalid argument error: ",
        "This feature is not implemented: ",
        "type_coercion\ncaused by\n",
        "Internal error: ",
        "External error: ",
        "Compute error: ",
    ];
    let adapted = || {
        // The functions that are adapted here take types in another way, which says so.
        let (_, rest) = message.strip_prefix("Function '")?.split_once(COERCED)?;
        Some(rest)
    };
    headings.iter().find_map(|it| message.strip_prefix(it)).or_else(adapted)
}

/// Stands before what is wrong with the types of arguments.
const COERCED: &str = "' user-defined coercion failed with: ";

/// What is wrong with a regular expression, if an error is of one. Some say what the parser says below the
/// pattern, and some the pattern alone.
fn of_pattern(message: &str) -> Option<String> {
    const OF: [&str; 3] =
        ["Regular expression did not compile: ", "Invalid regex", "regex parse error:"];
    let rest = OF.iter().find_map(|it| message.strip_prefix(it))?;
    let said = |text: &str| {
        let line = text.lines().filter_map(|it| it.strip_prefix("error: ")).next_back()?;
        Some(line.trim().to_owned())
    };
    if let Some(why) = said(rest) {
        return Some(why);
    }
    let size = rest.strip_prefix("CompiledTooBig(").and_then(|it| it.split_once(')'));
    if let Some((bytes, _)) = size {
        return Some(format!("it takes more than {bytes} bytes"));
    }
    let error = regex::Regex::new(rest).err()?.to_string();
    said(&error).or(Some(error))
}
