//! Errors of expressions: refused when a job is planned, or without a value for a record.
//!
//! DataFusion's messages carry headings of its own modules; [`one_line`] leaves these out.

use datafusion_common::DataFusionError;
use datafusion_sql::sqlparser::tokenizer::Location;

/// An expression that was refused when it was compiled, with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ExprError {
    /// The reason, for a person.
    pub message: String,
    /// Line within the SQL text, from 1.
    pub line: u64,
    /// Column within the line, from 1.
    pub column: u64,
    /// The syntax that the parser expected there.
    pub expected: Option<String>,
    /// The nearest name that would have been right.
    pub nearest: Option<String>,
}

impl ExprError {
    /// An error of the expression as a whole.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), line: 1, column: 1, expected: None, nearest: None }
    }

    pub(crate) fn at(mut self, location: Location) -> Self {
        if location.line > 0 {
            (self.line, self.column) = (location.line, location.column);
        }
        self
    }
}

/// A record for which an expression has no value: a cast that fails, a number that does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EvaluationError {
    /// The reason, for a person.
    pub message: String,
}

/// The parser's error, with its place taken from the "… at Line: 1, Column: 9" of its text.
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
    match pattern_error(rest) {
        Some(reason) => format!("the regular expression does not compile: {reason}"),
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
    let wrapped = || {
        // Functions with a wrapper coerce their arguments themselves, and DataFusion's message says so.
        let (_, rest) = message.strip_prefix("Function '")?.split_once(COERCED)?;
        Some(rest)
    };
    headings.iter().find_map(|it| message.strip_prefix(it)).or_else(wrapped)
}

/// Stands before the reason in messages about the types of arguments.
const COERCED: &str = "' user-defined coercion failed with: ";

/// The reason of an error about a regular expression. Some messages have the parser's reason below the
/// pattern, and some have the pattern alone.
fn pattern_error(message: &str) -> Option<String> {
    const HEADINGS: [&str; 3] =
        ["Regular expression did not compile: ", "Invalid regex", "regex parse error:"];
    let rest = HEADINGS.iter().find_map(|it| message.strip_prefix(it))?;
    let parser_reason = |text: &str| {
        let line = text.lines().filter_map(|it| it.strip_prefix("error: ")).next_back()?;
        Some(line.trim().to_owned())
    };
    if let Some(reason) = parser_reason(rest) {
        return Some(reason);
    }
    let size = rest.strip_prefix("CompiledTooBig(").and_then(|it| it.split_once(')'));
    if let Some((bytes, _)) = size {
        return Some(format!("it takes more than {bytes} bytes"));
    }
    let error = regex::Regex::new(rest).err()?.to_string();
    parser_reason(&error).or(Some(error))
}
