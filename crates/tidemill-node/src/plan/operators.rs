//! Errors of operators and connectors as problems of the job: which field of which stage, and
//! where in its expression.

use crate::diagnostic::{Problem, TextPlace};
use arrow_schema::SchemaRef;
use std::fmt::Display;
use tidemill_connectors::{ConnectorError, ConnectorErrorKind, SchemaPlace};
use tidemill_flow::TIME_COLUMN;
use tidemill_operators::{
    aggregate::AggregateError,
    dedup::DedupError,
    join::{JoinError, Side},
    top::TopError,
    transform::TransformError,
};
use tidemill_sql::ExprError;
use tidemill_types::{
    job::{JoinSpec, TopSpec},
    signs,
};

/// Names of columns that a job may use.
pub(super) fn columns(schema: &SchemaRef) -> Vec<&str> {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    names.filter(|name| *name != TIME_COLUMN).collect()
}

/// The problem of an expression at a path.
fn expression(path: &[&str], error: &ExprError) -> Problem {
    let number = |it: u64| u32::try_from(it).unwrap_or(u32::MAX);
    Problem {
        within: Some(TextPlace { line: number(error.line), column: number(error.column) }),
        expected: error.expected.clone(),
        nearest: error.nearest.clone(),
        ..Problem::new(path.iter().copied(), error.message.clone())
    }
}

fn of_stage(stage: &str, field: &str, error: &impl Display) -> Problem {
    Problem::new(["stages", stage, field], error.to_string())
}

/// A part such as `where`, `flat_map.unnest` or `select.NAME`; a name may have dots in it.
fn part_path<'p>(stage: &'p str, part: &'p str) -> Vec<&'p str> {
    let fields = part.split_once('.').map_or(vec![part], |(field, name)| vec![field, name]);
    ["stages", stage].into_iter().chain(fields).collect()
}

/// An expression of a part such as `where` or `select.NAME`.
pub(super) fn expression_problem(stage: &str, part: &str, error: &ExprError) -> Problem {
    expression(&part_path(stage, part), error)
}

pub(super) fn transform_problem(stage: &str, error: &TransformError) -> Problem {
    expression(&part_path(stage, &error.part), &error.error)
}

pub(super) fn dedup_problem(stage: &str, error: &DedupError) -> Problem {
    let field = match error {
        DedupError::Within(_) | DedupError::NoTime => "within",
        _ => "on",
    };
    Problem::new(["stages", stage, "dedup", field], error.to_string())
}

/// An unknown column is shown in the entry of `on` that names it.
pub(super) fn join_problem(
    stage: &str,
    spec: &JoinSpec,
    (left, right): (&SchemaRef, &SchemaRef),
    error: &JoinError,
) -> Problem {
    let JoinError::Unknown { side, error: unknown } = error else {
        let field = match error {
            JoinError::Within(_) | JoinError::NoTime(_) | JoinError::WithinTable => "within",
            JoinError::Sides | JoinError::NoWithin => return of_stage(stage, "join", error),
            _ => "on",
        };
        return Problem::new(["stages", stage, "join", field], error.to_string());
    };
    let (schema, of) = match side {
        Side::Left => (left, Some(&spec.left)),
        Side::Right => (right, spec.right.as_ref().or(spec.table.as_ref())),
    };
    let of = of.map_or("", String::as_str);
    let find = |on: &String| match side {
        Side::Left => on.find(&unknown.name),
        Side::Right => on.rfind(&unknown.name),
    };
    let found =
        spec.on.iter().enumerate().find_map(|(number, on)| find(on).map(|at| (number, on, at)));
    let (number, within) = found.map_or((0, None), |(number, on, at)| {
        let column = u32::try_from(on[..at].chars().count() + 1).unwrap_or(u32::MAX);
        (number, Some(TextPlace { line: 1, column }))
    });
    let number = number.to_string();
    let message = format!("`{of}` has no column `{}`", unknown.name);
    Problem { within, ..Problem::new(["stages", stage, "join", "on", &number], message) }
        .one_of(&unknown.name, columns(schema))
}

/// `key[0]`, `window` or `aggregate.NAME`.
pub(super) fn aggregate_problem(stage: &str, error: &AggregateError) -> Problem {
    match error.part.strip_prefix("key[").and_then(|rest| rest.strip_suffix(']')) {
        Some(number) => expression(&["stages", stage, "key", number], &error.error),
        None => expression(&part_path(stage, &error.part), &error.error),
    }
}

pub(super) fn top_problem(
    stage: &str,
    spec: &TopSpec,
    schema: &SchemaRef,
    error: &TopError,
) -> Problem {
    let path = |field| ["stages", stage, "top", field];
    match error {
        TopError::By(error) => expression(&path("by"), error),
        TopError::Unknown(unknown) => {
            let number = spec.per.iter().position(|name| *name == unknown.name).unwrap_or(0);
            let number = number.to_string();
            unknown_column(&["stages", stage, "top", "per", &number], &unknown.name, schema)
        }
        TopError::K => Problem::new(path("k"), error.to_string()),
        TopError::Order(_) => Problem::new(path("by"), error.to_string()),
        TopError::KeyType { .. } => Problem::new(path("per"), error.to_string()),
    }
}

/// The problem of a file that is a source.
pub(super) fn source_problem(source: &str, error: &ConnectorError) -> Problem {
    let file = ["sources", source, "file"];
    column_problem(source, "the file", &file, &[file[0], file[1], file[2], "path"], error)
}

/// The problem of a stream that is a source.
pub(super) fn stream_problem(source: &str, error: &ConnectorError) -> Problem {
    let place = ["sources", source];
    column_problem(source, "the stream", &place, &[place[0], place[1], "stream"], error)
}

/// The problem of a topic that is a source.
pub(super) fn kafka_problem(source: &str, error: &ConnectorError) -> Problem {
    let part = match error.kind {
        ConnectorErrorKind::Unreachable | ConnectorErrorKind::Away => "brokers",
        _ => "topic",
    };
    let place = ["sources", source, "kafka"];
    column_problem(source, "the topic", &place, &[place[0], place[1], place[2], part], error)
}

/// `parent` has the part `schema`; a problem of no column is shown at `whole`.
fn column_problem(
    source: &str,
    subject: &str,
    parent: &[&str],
    whole: &[&str],
    error: &ConnectorError,
) -> Problem {
    let at = |path: &[&str]| Problem {
        is_passing: error.kind == ConnectorErrorKind::Away,
        ..Problem::new(path.iter().copied(), error.message.clone())
    };
    let ConnectorErrorKind::Schema { place, field, expected, nearest } = &error.kind else {
        return at(whole);
    };
    let of_column = [parent, &["schema", field.as_str()][..]].concat();
    let problem = match place {
        SchemaPlace::Column => {
            let note = signs::note(field, nearest.as_deref());
            let message = format!("{subject} has no column `{field}`{note}");
            Problem { message, ..at(&of_column).at_name() }
        }
        SchemaPlace::Type => at(&of_column),
        SchemaPlace::Time => {
            let note = signs::note(field, nearest.as_deref());
            let message = format!("{subject} has no column `{field}`{note}");
            Problem::new(["sources", source, "time", "field"], message)
        }
    };
    Problem { expected: Some(expected.clone()), nearest: nearest.clone(), ..problem }
}

pub(super) fn sink_problem(sink: &str, kind: &str, error: &ConnectorError) -> Problem {
    let problem = Problem::new(["sinks", sink, kind], error.message.clone());
    match &error.kind {
        ConnectorErrorKind::Schema { expected, nearest, .. } => {
            Problem { expected: Some(expected.clone()), nearest: nearest.clone(), ..problem }
        }
        kind => Problem { is_passing: *kind == ConnectorErrorKind::Away, ..problem },
    }
}

/// The same of a table, at the name of the database or the table.
pub(super) fn table_problem(sink: &str, error: &ConnectorError) -> Problem {
    let problem = sink_problem(sink, "postgres", error);
    let part = match &error.kind {
        ConnectorErrorKind::Unreachable | ConnectorErrorKind::Away => "url",
        ConnectorErrorKind::NotFound => "table",
        _ => return problem,
    };
    Problem { path: ["sinks", sink, "postgres", part].map(str::to_owned).to_vec(), ..problem }
}

/// A name that is no column of the input.
pub(super) fn unknown_column(path: &[&str], name: &str, schema: &SchemaRef) -> Problem {
    let problem = Problem::new(path.iter().copied(), format!("unknown column `{name}`"));
    problem.one_of(name, columns(schema))
}
