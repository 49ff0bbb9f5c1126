//! What is answered where.

use axum::{Router, routing::get};

/// All routes.
pub(super) fn router() -> Router {
    Router::new().route("/health", get(|| async { "{\"status\":\"ready\"}\n" }))
}
