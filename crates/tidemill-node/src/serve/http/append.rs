//! `POST /streams/NAME`: each line of the body is a record.

use super::{
    batch::{AppendBatch, Range, json_of},
    body,
    parameters::Parameters,
    path::PathNames,
    problem::{Problem, json},
    state::HttpState,
};
use crate::record_key::checked_key;
use axum::{
    body::Body,
    extract::State as Shared,
    http::{HeaderMap, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use std::{
    borrow::Cow,
    sync::{Arc, atomic::Ordering},
};
use tidemill_connectors::ForeignEncoding;
use tidemill_types::signs;

#[cfg(test)]
mod tests;

pub(super) const PARAMETERS: &[&str] = &["key", "streamlet", "format"];

/// The content of each line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Lines {
    /// Text, taken as it is.
    Text,
    /// Objects of JSON, and the field that has the key, if one has.
    Json { key: Option<String> },
}

pub(super) async fn append(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let parameters = Parameters::of(&uri, PARAMETERS)?;
    let lines = lines_of(&parameters)?;
    let asks_for_keys = parameters.text("key").is_some();
    let only = parameters.value("streamlet", "the number of a streamlet")?;
    let stream = state.log.get(&name).ok_or_else(|| unknown(&name))?;
    let needs_keys = tidemill_broker::has_keys(&stream.spec());
    let received = body::receive(&state, &headers, body).await?;
    let number = state.number();
    let batch = AppendBatch::new(stream, only, number)?;
    let written = write(&state, number, received, batch, move |bytes, now_ms, batch| {
        lines.records(bytes, now_ms, needs_keys, batch)
    })
    .await?;
    Ok((StatusCode::OK, json(&answer(&written, asks_for_keys))).into_response())
}

/// The positions written, and the number of records without a key where a field was named for it: with a
/// wrong name that is all of them.
fn answer(written: &AppendReceipt, asks_for_keys: bool) -> Value {
    let AppendReceipt { ranges, record_count, keyless_count } = written;
    let mut answer = serde_json::json!({ "records": record_count, "appended": json_of(ranges) });
    if asks_for_keys {
        answer["without_key"] = (*keyless_count).into();
    }
    answer
}

/// Records that count.
pub(super) struct AppendReceipt {
    pub(super) ranges: Vec<Range>,
    pub(super) record_count: usize,
    /// Those of them that have no key.
    pub(super) keyless_count: usize,
}

pub(super) fn unknown(name: &str) -> Problem {
    let name: String = name.chars().take(249).collect();
    let note = signs::note(&name, None);
    Problem::new(StatusCode::NOT_FOUND, format!("there is no stream `{name}`{note}"))
}

/// Inflates a body, has its records put into a batch, appends that and waits until it counts.
pub(super) async fn write(
    state: &Arc<HttpState>,
    number: u64,
    received: body::Received,
    mut batch: AppendBatch,
    fill: impl FnOnce(&[u8], i64, &mut AppendBatch) -> Result<(), Problem> + Send + 'static,
) -> Result<AppendReceipt, Problem> {
    let shared = Arc::clone(state);
    let work = move || {
        let (bytes, mut charge) = received.plain(&shared)?;
        if let Some(encoding) = ForeignEncoding::of(&bytes) {
            return Err(Problem::bad(encoding.refusal("the body")));
        }
        // The chunks are another copy, with up to some bytes more for each record.
        shared.charge_more(&mut charge, 2 * bytes.len())?;
        // A byte order mark is no data.
        let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
        fill(text, shared.now_ms(), &mut batch)?;
        drop(bytes);
        let counts = (batch.record_count, batch.keyless_count);
        Ok::<_, Problem>((batch.append(number), counts, charge))
    };
    let (appending, (record_count, keyless_count), _charge) = blocking(work).await??;
    let ranges = appending.durable().await?;
    state.counts.written_records.fetch_add(record_count as u64, Ordering::Relaxed);
    Ok(AppendReceipt { ranges, record_count, keyless_count })
}

/// Runs blocking work on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    tokio::task::spawn_blocking(work).await.map_err(|error| {
        tracing::error!(%error, "a request panicked");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "the node has a fault; see its log")
    })
}

/// Lines with their numbers, from 1; those with nothing in them are left out.
pub(super) fn non_empty_lines(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let lines = bytes.split(|it| *it == b'\n').map(|it| it.strip_suffix(b"\r").unwrap_or(it));
    (1..).zip(lines).filter(|(_, line)| !line.trim_ascii().is_empty())
}

fn lines_of(parameters: &Parameters) -> Result<Lines, Problem> {
    let key = parameters.text("key").map(str::to_owned);
    match parameters.choice("format", &["json", "text"])? {
        Some("text") if key.is_none() => Ok(Lines::Text),
        Some("text") => Err(Problem::bad("lines of text have no field that could be the key")),
        _ => Ok(Lines::Json { key }),
    }
}

impl Lines {
    /// Puts each line of a body into a batch.
    fn records(
        &self,
        bytes: &[u8],
        now_ms: i64,
        needs_keys: bool,
        batch: &mut AppendBatch,
    ) -> Result<(), Problem> {
        for (line, text) in non_empty_lines(bytes) {
            let key = self.key(text).map_err(|why| Problem::bad(why).at_line(line))?;
            if key.is_none() && needs_keys {
                return Err(self.keyless().at_line(line));
            }
            let added = batch.add(now_ms, key.as_deref(), text);
            added.map_err(|error| Problem::from(error).at_line(line))?;
        }
        Ok(())
    }

    /// A line has no key, and must have one.
    fn keyless(&self) -> Problem {
        let why = match self {
            Self::Json { key: Some(field) } => {
                format!("there is no field `{field}`, the key, or it is null")
            }
            Self::Json { key: None } => "say which field is the key, with `key`".to_owned(),
            Self::Text => "lines of text have no key".to_owned(),
        };
        Problem::bad(format!("{why}: all records of a stream that is `compact` have one"))
    }

    /// The key of a line, if it has one; or why it is no such line.
    fn key<'t>(&self, text: &'t [u8]) -> Result<Option<Cow<'t, [u8]>>, String> {
        let Self::Json { key } = self else { return Ok(None) };
        checked_key(text, key.as_deref().into_iter())
    }
}
