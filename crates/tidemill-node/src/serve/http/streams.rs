//! Streams themselves: listed, described, made, deleted.

use super::{
    append::{blocking, unknown},
    parameters::Parameters,
    path::PathNames,
    problem::{Problem, json},
    read,
    state::HttpState,
};
use crate::serve::settings::value;
use axum::{
    body::Body,
    extract::State as Shared,
    http::{HeaderMap, StatusCode, Uri, header},
    response::{IntoResponse, Response},
};
use hyper::body::Body as _;
use serde_json::{Value, json as value_of};
use std::sync::Arc;
use tidemill_broker::fsync;
use tidemill_log::{Stream, StreamSpec};
use tidemill_types::ByteSize;

pub(super) const CREATE_PARAMETERS: &[&str] = &[
    "streamlets",
    "active_groups",
    "segment_bytes",
    "max_chunk_bytes",
    "retention_time",
    "retention_bytes",
    "fsync",
];

pub(super) async fn list(
    Shared(state): Shared<Arc<HttpState>>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    let streams = blocking(move || {
        let one = |it: &Arc<Stream>| {
            let streamlets = it.streamlets();
            let bytes: u64 = streamlets.iter().map(|it| it.bytes()).sum();
            value_of!({ "name": it.name(), "streamlets": streamlets.len(), "bytes": bytes })
        };
        state.log.list().iter().map(one).collect::<Value>()
    });
    Ok(json(&value_of!({ "streams": streams.await? })).into_response())
}

/// Describes a stream; or, if the request has a position or a media type of records, reads it.
pub(super) async fn describe_or_read(
    shared: Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let lines = |it: &str| it.contains("application/x-ndjson");
    let wants_lines =
        headers.get(header::ACCEPT).and_then(|it| it.to_str().ok()).is_some_and(lines);
    if wants_lines || Parameters::any(&uri)?.has_any(read::PARAMETERS) {
        return read::read(shared, PathNames(name), uri).await;
    }
    Parameters::of(&uri, read::PARAMETERS)?;
    let state = shared.0;
    let stream = state.log.get(&name).ok_or_else(|| unknown(&name))?;
    let described = blocking(move || describe(&state, &stream)).await?;
    Ok(json(&described).into_response())
}

fn describe(state: &HttpState, stream: &Stream) -> Value {
    let StreamSpec {
        streamlets: _,
        active_groups,
        segment_bytes,
        max_chunk_bytes,
        retention,
        compacted,
        fsync,
        settings: _,
    } = stream.spec();
    let streamlets = stream.streamlets();
    let one = |it: &Arc<tidemill_log::Streamlet>| {
        value_of!({
            "streamlet": it.index(),
            "start_offset": it.start_offset(),
            "end_offset": it.high_watermark(),
            "bytes": it.bytes(),
            "segments": it.segment_count(),
            "failure": it.failure().map(|it| it.to_string()),
        })
    };
    value_of!({
        "name": stream.name(),
        "id": stream.id().to_string(),
        "streamlets": streamlets.iter().map(one).collect::<Value>(),
        "active_groups": active_groups,
        "segment_bytes": segment_bytes.0,
        "max_chunk_bytes": max_chunk_bytes.0,
        "retention_time": retention.time.map(|it| it.to_string()),
        "retention_bytes": retention.bytes.map(|ByteSize(it)| it),
        "compacted": compacted,
        "fsync": fsync::text(fsync.unwrap_or(state.log.options().fsync)),
    })
}

pub(super) async fn create(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
    body: Body,
) -> Result<Response, Problem> {
    if !body.is_end_stream() && body.size_hint().exact() != Some(0) {
        // Left aside it would make another stream than was asked for.
        let why = "a stream is made without a body: its settings are parameters, such as \
                   `?streamlets=4`";
        return Err(Problem::bad(why));
    }
    let spec = spec_of(&Parameters::of(&uri, CREATE_PARAMETERS)?, state.broker.stream_defaults())?;
    let described = blocking(move || {
        let stream = state.log.create(&name, spec)?;
        Ok::<_, Problem>(describe(&state, &stream))
    });
    Ok((StatusCode::CREATED, json(&described.await??)).into_response())
}

fn spec_of(parameters: &Parameters, mut spec: StreamSpec) -> Result<StreamSpec, Problem> {
    let (number, size) = ("a whole number", "a size such as 4MiB");
    if let Some(it) = parameters.value("streamlets", number)? {
        spec.streamlets = it;
    }
    if let Some(it) = parameters.value("active_groups", number)? {
        spec.active_groups = it;
    }
    if let Some(it) = parameters.value("segment_bytes", size)? {
        spec.segment_bytes = it;
    }
    if let Some(it) = parameters.value("max_chunk_bytes", size)? {
        spec.max_chunk_bytes = it;
    }
    let time = |it: &str| value::or_none(it, value::retention_time);
    if let Some(it) = parameters.read("retention_time", time)? {
        spec.retention.time = it;
    }
    let bytes = |it: &str| value::or_none(it, |it| value::size(it, 0, value::SIZE_MAX));
    if let Some(it) = parameters.read("retention_bytes", bytes)? {
        spec.retention.bytes = it;
    }
    if let Some(it) = parameters.read("fsync", fsync::parse)? {
        spec.fsync = Some(it);
    }
    Ok(spec)
}

pub(super) async fn delete(
    Shared(state): Shared<Arc<HttpState>>,
    PathNames(name): PathNames<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    Parameters::of(&uri, &[])?;
    blocking(move || state.broker.delete_stream(&name)).await??;
    Ok(StatusCode::NO_CONTENT.into_response())
}
