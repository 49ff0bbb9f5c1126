//! Where clients and agents of InfluxDB write: `/write` (version 1) and `/api/v2/write` (version 2).
//!
//! A database or bucket is a stream. Each point of line protocol is a record: its value is the line
//! with the timestamp in nanoseconds, its key measurement and tags in the order of their names, its
//! time the timestamp. Bad lines are told, and the good ones written all the same, as InfluxDB does
//! it.

use super::{
    append::{blocking, write},
    batch::AppendBatch,
    body,
    parameters::Parameters,
    problem::Problem,
    state::HttpState,
};
use axum::{
    body::Body,
    extract::State as Shared,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use std::sync::{Arc, Mutex, PoisonError};
use tidemill_connectors::InfluxLines;
use tidemill_types::Micros;

mod points;
mod query;

use points::points_of;
pub(super) use query::query;

#[cfg(test)]
mod tests;

/// The version for these clients: the last of line 1 whose interface this is a part of.
const VERSION: &str = "1.8.10-tidemill";
/// Bad lines that are told; more are counted.
const TOLD_MAX: usize = 10;

/// The unit of timestamps, in nanoseconds.
fn unit_ns(precision: Option<&str>) -> Result<i64, String> {
    match precision {
        None | Some("" | "n" | "ns") => Ok(1),
        Some("u" | "us" | "µ") => Ok(1_000),
        Some("ms") => Ok(1_000_000),
        Some("s") => Ok(1_000_000_000),
        Some("m") => Ok(60_000_000_000),
        Some("h") => Ok(3_600_000_000_000),
        Some(other) => {
            let shown: String = other.chars().take(20).collect();
            Err(format!("precision `{shown}` is not one of ns, us, ms, s, m, h"))
        }
    }
}

/// The stream of a database or bucket: its name; with a retention policy that is not the default
/// one, `NAME.POLICY`. Version 2 clients write `NAME/POLICY` for that.
fn stream_name(database: &str, policy: Option<&str>) -> String {
    let (database, of_name) = match database.split_once('/') {
        Some((database, policy)) => (database, Some(policy)),
        None => (database, None),
    };
    match policy.or(of_name).filter(|it| !it.is_empty() && *it != "autogen") {
        Some(policy) => format!("{database}.{policy}"),
        None => database.to_owned(),
    }
}

pub(super) async fn ping() -> Response {
    (StatusCode::NO_CONTENT, [("x-influxdb-version", VERSION)]).into_response()
}

pub(super) async fn write_v1(
    Shared(state): Shared<Arc<HttpState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let done = async {
        let parameters = Parameters::any(&uri)?;
        let database = parameters.text("db").filter(|it| !it.is_empty());
        let database = database.ok_or_else(|| Problem::bad("database is required: `db=NAME`"))?;
        let name = stream_name(database, parameters.text("rp"));
        lines(&state, &name, parameters.text("precision"), &headers, body).await
    };
    match done.await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => v1(problem).into_response(),
    }
}

pub(super) async fn write_v2(
    Shared(state): Shared<Arc<HttpState>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let done = async {
        let parameters = Parameters::any(&uri)?;
        let bucket = parameters.text("bucket").filter(|it| !it.is_empty());
        let bucket = bucket.ok_or_else(|| Problem::bad("a bucket is required: `bucket=NAME`"))?;
        let name = stream_name(bucket, None);
        lines(&state, &name, parameters.text("precision"), &headers, body).await
    };
    match done.await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(problem) => v2(problem),
    }
}

/// A problem in the words of version 1: agents look for them, and then make the database.
fn v1(mut problem: Problem) -> Problem {
    if problem.status == StatusCode::NOT_FOUND {
        problem.message = format!("database not found: {}", problem.message);
    }
    problem
}

/// A problem in the form of version 2.
fn v2(problem: Problem) -> Response {
    let code = match problem.status {
        StatusCode::NOT_FOUND => "not found",
        StatusCode::PAYLOAD_TOO_LARGE => "request too large",
        StatusCode::SERVICE_UNAVAILABLE => "unavailable",
        status if status.is_client_error() => "invalid",
        _ => "internal error",
    };
    let message = problem.message.clone();
    problem.with("code", code).with("message", message).into_response()
}

/// Agents take every status from 400 to 499 but 429 as "will never be taken" and drop the points;
/// those of a body that came too slowly may come again.
fn come_again(problem: Problem) -> Problem {
    match problem.status {
        StatusCode::REQUEST_TIMEOUT => Problem::busy(problem.message),
        _ => problem,
    }
}

/// The bad lines of a body with reasons, and their number.
#[derive(Debug, Default)]
struct Bad {
    told: Vec<(usize, String)>,
    count: usize,
}

impl Bad {
    fn add(&mut self, line: usize, why: String) {
        self.count += 1;
        if self.told.len() < TOLD_MAX {
            self.told.push((line, why));
        }
    }

    /// None if there are none.
    fn problem(&self, written: usize) -> Option<Problem> {
        let first = self.told.first()?;
        let lines: Vec<String> =
            self.told.iter().map(|(line, why)| format!("line {line}: {why}")).collect();
        let (text, dropped) = (lines.join("; "), self.count);
        let why = format!("partial write: {text}; dropped={dropped}, written={written}");
        Some(Problem::bad(why).at_line(first.0).with("dropped", dropped).with("written", written))
    }
}

/// Writes the lines of a body.
async fn lines(
    state: &Arc<HttpState>,
    name: &str,
    precision: Option<&str>,
    headers: &HeaderMap,
    body: Body,
) -> Result<(), Problem> {
    let unit_ns = unit_ns(precision).map_err(Problem::bad)?;
    let received = body::receive(state, headers, body).await.map_err(come_again)?;
    let stream = {
        let (state, name) = (Arc::clone(state), name.to_owned());
        blocking(move || state.broker.stream_or_new(&name)).await??
    };
    let number = state.number();
    let batch = AppendBatch::new(stream, None, number)?;
    let bad = Arc::new(Mutex::new(Bad::default()));
    let fill = {
        let bad = Arc::clone(&bad);
        move |bytes: &[u8], now_ms: i64, batch: &mut AppendBatch| {
            let found = points(bytes, unit_ns, now_ms, batch);
            *bad.lock().unwrap_or_else(PoisonError::into_inner) = found;
            Ok(())
        }
    };
    let written = write(state, number, received, batch, fill).await?.record_count;
    let bad = bad.lock().unwrap_or_else(PoisonError::into_inner);
    bad.problem(written).map_or(Ok(()), Err)
}

/// Puts the good lines into a batch; gives back the bad ones.
fn points(bytes: &[u8], unit_ns: i64, now_ms: i64, batch: &mut AppendBatch) -> Bad {
    let (mut lines, mut value, mut bad) = (InfluxLines::default(), Vec::new(), Bad::default());
    for (number, line) in points_of(bytes) {
        let added = lines.point(line).and_then(|point| {
            let time_ns = match point.timestamp {
                Some(timestamp) => timestamp.checked_mul(unit_ns),
                None => now_ms.checked_mul(1_000_000),
            };
            let time_ns = time_ns.ok_or("its timestamp is beyond nanoseconds of 64 bits")?;
            let timestamp_ms = Micros(time_ns.div_euclid(1_000)).record_timestamp_ms();
            value.clear();
            value.extend_from_slice(point.untimed);
            value.push(b' ');
            value.extend_from_slice(time_ns.to_string().as_bytes());
            let added = batch.add(timestamp_ms, Some(&point.series), &value);
            added.map_err(|error| Problem::from(error).message)
        });
        if let Err(why) = added {
            bad.add(number, why);
        }
    }
    bad
}
