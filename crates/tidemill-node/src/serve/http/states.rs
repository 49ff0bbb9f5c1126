//! States of jobs over HTTP: which tables there are, queries with SQL, a table as a file.

use super::{
    append::blocking,
    body,
    parameters::Parameters,
    problem::{Problem, json},
    state::State,
};
use crate::{
    jobs::{Jobs, JobsError, StateOf},
    look::{self, Answer, StateError},
};
use axum::{
    body::Body,
    extract::{Path, State as Shared},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json as value_of};
use std::sync::Arc;
use tidemill_connectors::rows_as;
use tidemill_flow::{AskError, LookError};
use tidemill_operators::query::QueryError;
use tidemill_state::CheckpointError;
use tidemill_types::job::Format;

pub(super) const PARAMETERS: &[&str] = &["checkpoint"];

/// An Arrow file, as its format's documents name it.
const ARROW_FILE: &str = "application/vnd.apache.arrow.file";

/// What a query says.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    sql: String,
}

impl From<StateError> for Problem {
    fn from(error: StateError) -> Self {
        let status = match &error {
            StateError::Table { .. } | StateError::Look(LookError::Stage { .. }) => {
                StatusCode::NOT_FOUND
            }
            StateError::Query(_) => StatusCode::BAD_REQUEST,
            StateError::Look(
                LookError::Checkpoint(error) | LookError::Ask(AskError::Checkpoint(error)),
            ) => match error {
                CheckpointError::Unknown(_) => StatusCode::NOT_FOUND,
                CheckpointError::None => StatusCode::CONFLICT,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
            StateError::Look(LookError::Slice { .. })
            | StateError::Write(_)
            | StateError::Text(_) => StatusCode::INTERNAL_SERVER_ERROR,
            StateError::Look(_) => StatusCode::CONFLICT,
        };
        let problem = Self::new(status, error.to_string());
        match error {
            StateError::Query(QueryError::Sql(error)) => {
                problem.with("line", error.line).with("column", error.column)
            }
            _ => problem,
        }
    }
}

/// Looks at states on a thread that may block; one request at a time, as each may hold much.
async fn with<T: Send + 'static>(
    state: &Arc<State>,
    work: impl FnOnce(&Arc<Jobs>) -> Result<T, JobsError> + Send + 'static,
) -> Result<T, Problem> {
    let _turn = state.turn_to_look().await?;
    let jobs = Arc::clone(&state.jobs);
    Ok(blocking(move || work(&jobs)).await??)
}

/// The state that is meant.
fn state_of(parameters: &Parameters) -> Result<StateOf, Problem> {
    match parameters.text("checkpoint") {
        None => Ok(StateOf::Now),
        Some("newest") => Ok(StateOf::Newest),
        Some(number) => number
            .parse()
            .map(StateOf::Checkpoint)
            .map_err(|_| Problem::bad("`checkpoint` is the number of one, from 1, or `newest`")),
    }
}

pub(super) async fn tables(
    Shared(state): Shared<Arc<State>>,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let tables = with(&state, move |jobs| jobs.state_tables(&name)).await?;
    Ok(json(&value_of!({ "tables": tables })).into_response())
}

pub(super) async fn query(
    Shared(state): Shared<Arc<State>>,
    Path((name, stage)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let of = state_of(&Parameters::of(&uri, PARAMETERS)?)?;
    let (bytes, _charge) = body::receive(&state, &headers, body).await?.plain(&state)?;
    let Asked { sql } = serde_json::from_slice(&bytes)
        .map_err(|error| Problem::bad(format!("the body is no query: {error}")))?;
    let as_file = headers.get(header::ACCEPT).is_some_and(|it| it == ARROW_FILE);
    let answer = with(&state, move |jobs| {
        let answer = jobs.query_state((&name, &stage), of, &sql)?;
        if as_file { Ok(look::arrow_file(&answer)?) } else { Ok(document(&answer)?) }
    });
    let answer = answer.await?;
    let kind = if as_file { ARROW_FILE } else { "application/json" };
    Ok(([(header::CONTENT_TYPE, kind)], answer).into_response())
}

pub(super) async fn table(
    Shared(state): Shared<Arc<State>>,
    Path((name, stage, table)): Path<(String, String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    let of = state_of(&Parameters::of(&uri, PARAMETERS)?)?;
    let file = with(&state, move |jobs| jobs.state_table((&name, &stage, &table), of)).await?;
    Ok(([(header::CONTENT_TYPE, ARROW_FILE)], file).into_response())
}

/// An answer as a JSON document.
fn document(answer: &Answer) -> Result<Vec<u8>, StateError> {
    let of = |key: &str| answer.schema.metadata().get(key);
    let number = |key: &str| of(key).and_then(|it| it.parse::<i64>().ok());
    let head = value_of!({
        "job": of("tidemill.job"),
        "stage": of("tidemill.stage"),
        "cycle": number("tidemill.cycle"),
        "time_us": number("tidemill.time_us"),
        "checkpoint": number("tidemill.checkpoint"),
        "columns": look::columns(&answer.schema),
        "rows": Value::Null,
    });
    let head = head.to_string();
    let head = head.strip_suffix("null}").unwrap_or(&head);
    let lines = rows_as(Format::Json, &answer.schema, &answer.batches);
    let lines = lines.map_err(|error| StateError::Text(error.to_string()))?;
    let mut document = Vec::with_capacity(head.len() + lines.len() + 4);
    document.extend_from_slice(head.as_bytes());
    document.push(b'[');
    // Each row is one line.
    for (nth, line) in lines.split(|it| *it == b'\n').filter(|it| !it.is_empty()).enumerate() {
        if nth > 0 {
            document.push(b',');
        }
        document.extend_from_slice(line);
    }
    document.extend_from_slice(b"]}\n");
    Ok(document)
}
