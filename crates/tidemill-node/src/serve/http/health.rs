//! `GET /health`: 200 while the node takes appends, 503 with the reason when it does not.

use super::{append::blocking, problem::Problem, state::HttpState};
use axum::{
    extract::State as Shared,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::json;
use std::sync::Arc;

pub(super) async fn health(Shared(state): Shared<Arc<HttpState>>) -> Result<Response, Problem> {
    let failing = blocking(move || why_failing(&state)).await?;
    let (status, word, message) = match failing {
        None => (StatusCode::OK, "pass", "ready".to_owned()),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, "fail", why),
    };
    let body = json!({ "status": word, "message": message, "name": "tidemill" });
    Ok((status, super::problem::json(&body)).into_response())
}

fn why_failing(state: &HttpState) -> Option<String> {
    if *state.stopped.borrow() {
        return Some("the node stops".to_owned());
    }
    if let Some(why) = state.broker.failure() {
        return Some(why.to_string());
    }
    let streams = state.log.list();
    let streamlets = streams.iter().flat_map(|it| it.streamlets());
    let mut failed = streamlets.filter_map(|it| {
        let why = it.failure()?;
        Some(format!("{} {}: {why}", it.stream_name(), it.index()))
    });
    let first = failed.next()?;
    let others = failed.count();
    let more = if others > 0 { format!(" (and {others} more)") } else { String::new() };
    Some(format!("a streamlet takes no appends: {first}{more}"))
}
