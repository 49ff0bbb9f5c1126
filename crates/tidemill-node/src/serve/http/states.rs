//! States of jobs over HTTP: which tables there are, queries with SQL, a table as a file.

use super::{
    append::blocking,
    body,
    document::{DocumentKind, read_document},
    parameters::Parameters,
    path::PathNames,
    problem::{Problem, json},
    state::{Charge, HttpState},
};
use crate::{
    jobs::{Bounded, Jobs, JobsError, StateOf},
    state_query::{self, Answer, StateError},
};
use axum::{
    body::{Body, Bytes},
    extract::State as Shared,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json as value_of};
use std::{io::Write, sync::Arc};
use tidemill_checkpoints::CheckpointError;
use tidemill_connectors::rows_as;
use tidemill_flow::{AskError, SnapshotError};
use tidemill_sql::query::QueryError;
use tidemill_types::{CheckpointNumber, job::Format};
use tokio::sync::OwnedSemaphorePermit;

pub(super) const PARAMETERS: &[&str] = &["checkpoint"];

/// An Arrow file, as its format's documents name it.
const ARROW_FILE: &str = "application/vnd.apache.arrow.file";

/// Rows that are written as text at a time.
const ROWS_AT_ONCE: usize = 128;

/// The body of a query.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateQuery {
    sql: String,
}

const QUERY: DocumentKind =
    DocumentKind { name: "a query", form: "`{\"sql\": \"SELECT * FROM state\"}`" };

impl From<StateError> for Problem {
    fn from(error: StateError) -> Self {
        let status = match &error {
            StateError::Table { .. } | StateError::Look(SnapshotError::Stage { .. }) => {
                StatusCode::NOT_FOUND
            }
            StateError::Query(_) => StatusCode::BAD_REQUEST,
            StateError::Look(
                SnapshotError::Checkpoint(error) | SnapshotError::Ask(AskError::Checkpoint(error)),
            ) => match error {
                CheckpointError::Unknown(_) => StatusCode::NOT_FOUND,
                CheckpointError::None => StatusCode::CONFLICT,
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
            StateError::Look(SnapshotError::Slice { .. })
            | StateError::Write(_)
            | StateError::Text(_) => StatusCode::INTERNAL_SERVER_ERROR,
            StateError::Look(_) | StateError::Large(_) => StatusCode::CONFLICT,
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

/// Looks at states on a thread that may block; one request at a time, as each may hold much. A client
/// that hangs up ends neither the work nor the turn.
async fn with<T: Send + 'static>(
    state: &Arc<HttpState>,
    work: impl FnOnce(&Arc<Jobs>) -> Result<T, JobsError> + Send + 'static,
) -> Result<(T, OwnedSemaphorePermit), Problem> {
    let turn = state.turn_to_look().await?;
    let jobs = Arc::clone(&state.jobs);
    blocking(move || Ok((work(&jobs)?, turn))).await?
}

/// An answer that is charged as other bodies are, until it was sent.
struct Charged {
    bytes: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Sends the rows of a snapshot. It is the next one's turn once the bytes are charged.
pub(super) async fn sent(
    state: &HttpState,
    kind: &'static str,
    (bytes, turn): (Vec<u8>, OwnedSemaphorePermit),
) -> Result<Response, Problem> {
    let charge = state.charge(bytes.len()).await?;
    drop(turn);
    let body = Bytes::from_owner(Charged { bytes, _charge: charge });
    Ok(([(header::CONTENT_TYPE, kind)], Body::from(body)).into_response())
}

/// The state that is meant.
fn state_of(parameters: &Parameters) -> Result<StateOf, Problem> {
    let read = |text: &str| match text {
        "newest" => Ok(StateOf::Newest),
        number => number.parse().map(|it| StateOf::Checkpoint(CheckpointNumber(it))),
    };
    let expected = "expected the number of a checkpoint, from 1, or `newest`";
    let of = parameters.read("checkpoint", |text| read(text).map_err(|_| expected))?;
    Ok(of.unwrap_or(StateOf::Now))
}

pub(super) async fn tables(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let jobs = Arc::clone(&state.jobs);
    let tables = blocking(move || jobs.state_tables(&name)).await??;
    Ok(json(&value_of!({ "tables": tables })).into_response())
}

pub(super) async fn query(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames((name, stage)): PathNames<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let of = state_of(&Parameters::of(&uri, PARAMETERS)?)?;
    let (bytes, _charge) = body::receive(&state, &headers, body).await?.plain(&state)?;
    let StateQuery { sql } = read_document(&bytes, &QUERY)?;
    let as_file = accepts(&headers, ARROW_FILE);
    let answer = with(&state, move |jobs| {
        let answer = jobs.query_state((&name, &stage), of, &sql)?;
        if as_file { Ok(state_query::arrow_file(&answer)?) } else { Ok(document(&answer)?) }
    });
    let kind = if as_file { ARROW_FILE } else { "application/json" };
    sent(&state, kind, answer.await?).await
}

pub(super) async fn table(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames((name, stage, table)): PathNames<(String, String, String)>,
    uri: Uri,
) -> Result<Response, Problem> {
    let of = state_of(&Parameters::of(&uri, PARAMETERS)?)?;
    let file = with(&state, move |jobs| jobs.state_table((&name, &stage, &table), of)).await?;
    sent(&state, ARROW_FILE, file).await
}

/// True if a client has named a media type.
fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let named = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    let kinds = named.flat_map(|it| it.split(',')).filter_map(|it| it.split(';').next());
    kinds.map(str::trim).any(|it| it.eq_ignore_ascii_case(kind))
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
        "columns": state_query::columns(&answer.schema),
        "rows": Value::Null,
    });
    let head = head.to_string();
    let head = head.strip_suffix("null}").unwrap_or(&head);
    let mut document = Bounded::default();
    document.write_all(head.as_bytes())?;
    let mut separator = b"[";
    for batch in &answer.batches {
        // Names stand in each row, so rows may be much longer than they were.
        for from in (0..batch.num_rows()).step_by(ROWS_AT_ONCE) {
            let rows = batch.slice(from, ROWS_AT_ONCE.min(batch.num_rows() - from));
            let lines = rows_as(Format::Json, &answer.schema, &[rows]);
            let lines = lines.map_err(|error| StateError::Text(error.to_string()))?;
            for line in lines.split(|it| *it == b'\n').filter(|it| !it.is_empty()) {
                document.write_all(separator)?;
                document.write_all(line)?;
                separator = b",";
            }
        }
    }
    let end: &[u8] = if separator == b"[" { b"[]}\n" } else { b"]}\n" };
    document.write_all(end)?;
    Ok(document.0)
}
