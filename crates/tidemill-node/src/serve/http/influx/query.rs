//! `/query`: the few statements that clients send before they write.
//!
//! `CREATE DATABASE` makes a stream, if it is not there; `SHOW DATABASES` lists streams.
//! There is no query language: reading is by offset.

use super::{HttpState, Parameters, Problem, VERSION, blocking, body, stream_name};
use axum::{
    body::Body,
    extract::State as Shared,
    http::{HeaderMap, Method, Uri, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use std::sync::Arc;
use tidemill_log::LogError;

/// A statement that is understood.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Statement {
    Create(String),
    Show,
}

/// Reads one statement. Whatever follows the name of a database is of no concern here.
pub(super) fn parse(text: &str) -> Option<Statement> {
    let text = text.trim().trim_end_matches(';').trim();
    let mut words = text.splitn(3, char::is_whitespace).map(str::trim);
    let (first, second) = (words.next()?, words.next()?);
    let rest = words.next().unwrap_or_default();
    let is = |word: &str, wanted: &str| word.eq_ignore_ascii_case(wanted);
    if is(first, "show") && is(second, "databases") && rest.is_empty() {
        return Some(Statement::Show);
    }
    if !is(first, "create") || !is(second, "database") {
        return None;
    }
    // Making one that is there does nothing anyhow.
    let rest = without_condition(rest);
    let name = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?.0,
        None => rest.split_whitespace().next()?,
    };
    Some(Statement::Create(name.to_owned()))
}

/// The text behind `IF NOT EXISTS`, if that stands here; `IF` alone is the name of a database.
fn without_condition(text: &str) -> &str {
    let mut rest = text;
    for wanted in ["if", "not", "exists"] {
        let (word, behind) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        if !word.eq_ignore_ascii_case(wanted) {
            return text;
        }
        rest = behind.trim_start();
    }
    rest
}

pub(in super::super) async fn query(
    Shared(state): Shared<Arc<HttpState>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let parameters = Parameters::any(&uri)?;
    let mut statement = parameters.text("q").map(str::to_owned);
    if statement.is_none() && method == Method::POST {
        let received = body::receive(&state, &headers, body).await?;
        let (bytes, _charge) = received.plain(&state)?;
        let form = format!("/?{}", String::from_utf8_lossy(&bytes).trim());
        let form: Uri = form.parse().map_err(|_| Problem::bad("the body is no form"))?;
        statement = Parameters::any(&form)?.text("q").map(str::to_owned);
    }
    let statement = statement.ok_or_else(|| Problem::bad("missing required parameter `q`"))?;
    match parse(&statement) {
        Some(Statement::Create(_)) if method != Method::POST => {
            Err(Problem::bad("CREATE DATABASE changes something: send it with POST"))
        }
        Some(Statement::Create(name)) => {
            let name = stream_name(&name, None);
            let spec = state.broker.stream_defaults();
            match blocking(move || state.log.create(&name, spec)).await? {
                Ok(_) | Err(LogError::Exists(_)) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(results(&json!([{ "statement_id": 0 }])))
        }
        Some(Statement::Show) => {
            let names: Vec<Value> = state.log.list().iter().map(|it| json!([it.name()])).collect();
            let series = json!([{ "name": "databases", "columns": ["name"], "values": names }]);
            Ok(results(&json!([{ "statement_id": 0, "series": series }])))
        }
        None => {
            let shown: String = statement.chars().take(100).collect();
            Err(Problem::bad(format!(
                "`{shown}` is not understood: CREATE DATABASE and SHOW DATABASES are; records are \
                 read with GET /streams/NAME/records"
            )))
        }
    }
}

fn results(results: &Value) -> Response {
    let head = [(header::CONTENT_TYPE, "application/json"), VERSION_HEADER];
    (head, format!("{}\n", json!({ "results": results }))).into_response()
}

const VERSION_HEADER: (header::HeaderName, &str) =
    (header::HeaderName::from_static("x-influxdb-version"), VERSION);
