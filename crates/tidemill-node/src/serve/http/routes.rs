//! The routes: each path and method, with its handler.
//!
//! [`ROUTES`] is the one table: the router is made of it, and a test holds `openapi.json` against
//! it.

use super::{
    append, cluster, guard, health, influx, jobs, metrics, problem::Problem, read,
    state::HttpState, states, streams,
};
use axum::{
    Router,
    extract::{Request, State as Shared},
    http::{StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodRouter, delete, get, post, put},
};
use std::sync::{Arc, atomic::Ordering};

#[cfg(test)]
mod tests;

/// The document that describes all of it.
const OPENAPI: &str = include_str!("openapi.json");

/// One thing that can be asked for.
#[cfg_attr(
    not(any(test, fuzzing)),
    expect(dead_code, reason = "the document is held against it in a test")
)]
pub(super) struct Route {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    /// Parameters of the query string.
    pub(super) parameters: &'static [&'static str],
    handler: fn() -> MethodRouter<Arc<HttpState>>,
}

const fn route(
    method: &'static str,
    path: &'static str,
    parameters: &'static [&'static str],
    handler: fn() -> MethodRouter<Arc<HttpState>>,
) -> Route {
    Route { method, path, parameters, handler }
}

/// Everything that can be asked for.
pub(super) const ROUTES: &[Route] = &[
    route("get", "/health", &[], || get(health::health)),
    route("get", "/metrics", &[], || get(metrics::metrics)),
    route("get", "/openapi.json", &[], || get(openapi)),
    route("get", "/cluster", &[], || get(cluster::status)),
    route("get", "/cluster/nodes", &[], || get(cluster::nodes)),
    route("get", "/cluster/events", cluster::EVENTS_PARAMETERS, || get(cluster::events)),
    route("post", "/cluster/nodes/{node}/drain", &[], || post(cluster::drain)),
    route("post", "/cluster/nodes/{node}/decommission", &[], || post(cluster::decommission)),
    route("post", "/cluster/nodes/{node}/activate", &[], || post(cluster::activate)),
    route("get", "/streams", &[], || get(streams::list)),
    route("put", "/streams/{name}", streams::CREATE_PARAMETERS, || put(streams::create)),
    route("get", "/streams/{name}", read::PARAMETERS, || get(streams::describe_or_read)),
    route("post", "/streams/{name}", append::PARAMETERS, || post(append::append)),
    route("delete", "/streams/{name}", &[], || delete(streams::delete)),
    route("get", "/streams/{name}/records", read::PARAMETERS, || get(read::read)),
    route("post", "/streams/{name}/records", append::PARAMETERS, || post(append::append)),
    route("get", "/jobs", &[], || get(jobs::list)),
    route("post", "/jobs", &[], || post(jobs::submit)),
    route("get", "/jobs/{name}", &[], || get(jobs::describe)),
    route("delete", "/jobs/{name}", &[], || delete(jobs::cancel)),
    route("post", "/jobs/{name}/delete", &[], || post(jobs::delete)),
    route("put", "/jobs/{name}/threads", jobs::RESCALE_PARAMETERS, || put(jobs::rescale)),
    route("get", "/jobs/{name}/checkpoints", &[], || get(jobs::checkpoints)),
    route("post", "/jobs/{name}/checkpoints", jobs::KEEP_PARAMETERS, || {
        post(jobs::keep_checkpoint)
    }),
    route("get", "/jobs/{name}/checkpoints/{number}", &[], || get(jobs::checkpoint)),
    route("delete", "/jobs/{name}/checkpoints/{number}", &[], || delete(jobs::delete_checkpoint)),
    route("post", "/jobs/{name}/checkpoints/{number}/restore", jobs::RESTORE_PARAMETERS, || {
        post(jobs::restore)
    }),
    route("get", "/jobs/{name}/state", &[], || get(states::tables)),
    route("post", "/jobs/{name}/state/{stage}", states::PARAMETERS, || post(states::query)),
    route("get", "/jobs/{name}/state/{stage}/{table}", states::PARAMETERS, || get(states::table)),
    route("get", "/ping", &[], || get(influx::ping)),
    route("get", "/query", &["q"], || get(influx::query)),
    route("post", "/query", &["q"], || post(influx::query)),
    route("post", "/write", &["db", "rp", "precision"], || post(influx::write_v1)),
    route("post", "/api/v2/write", &["bucket", "org", "precision"], || post(influx::write_v2)),
];

/// The router of all routes.
pub(super) fn router(state: Arc<HttpState>) -> Router {
    let add = |router: Router<Arc<HttpState>>, it: &Route| router.route(it.path, (it.handler)());
    ROUTES
        .iter()
        .fold(Router::new(), add)
        .fallback(async || {
            Problem::new(StatusCode::NOT_FOUND, "nothing is here: see /openapi.json")
        })
        .method_not_allowed_fallback(async || {
            let why = "this cannot be done here: see /openapi.json";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, why)
        })
        .layer(middleware::from_fn_with_state(Arc::clone(&state), guard::check))
        .layer(middleware::from_fn_with_state(Arc::clone(&state), count))
        .with_state(state)
}

async fn openapi() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], OPENAPI).into_response()
}

async fn count(Shared(state): Shared<Arc<HttpState>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let counts = &state.counts;
    counts.requests.fetch_add(1, Ordering::Relaxed);
    if response.status().is_client_error() {
        counts.refused.fetch_add(1, Ordering::Relaxed);
    } else if response.status().is_server_error() {
        counts.failed.fetch_add(1, Ordering::Relaxed);
    }
    response
}
