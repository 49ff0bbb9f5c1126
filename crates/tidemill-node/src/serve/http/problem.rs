//! The refusal of a request: a status, and JSON with the reason and a way out.
//!
//! ```text
//! {"error":"there is no stream `orders`","line":3}
//! ```

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value};
use tidemill_env::has_no_room;
use tidemill_log::{AppendError, LogError, ReadError};

/// Why a request is refused.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// More facts for a program.
    pub(super) details: Map<String, Value>,
}

impl Problem {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), details: Map::new() }
    }

    /// The request is wrong.
    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// The node has too much to do: the same request may be taken a moment later.
    pub(super) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, message)
    }

    /// With the line of the body that is wrong, counted from 1.
    pub(super) fn at_line(self, line: usize) -> Self {
        self.with("line", line)
    }

    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = Map::new();
        body.insert("error".to_owned(), Value::String(self.message));
        body.extend(self.details);
        let mut response = (self.status, json(&Value::Object(body))).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            let soon = axum::http::HeaderValue::from_static("1");
            response.headers_mut().insert(header::RETRY_AFTER, soon);
        }
        response
    }
}

/// A JSON document as an answer.
pub(super) fn json(value: &Value) -> impl IntoResponse + use<> {
    ([(header::CONTENT_TYPE, "application/json")], format!("{value}\n"))
}

impl From<LogError> for Problem {
    fn from(error: LogError) -> Self {
        let status = match &error {
            LogError::Unknown(_) => StatusCode::NOT_FOUND,
            LogError::Exists(_) => StatusCode::CONFLICT,
            LogError::Name(_) | LogError::Spec { .. } | LogError::Offset { .. } => {
                StatusCode::BAD_REQUEST
            }
            LogError::Disk { error, .. } if has_no_room(error) => StatusCode::INSUFFICIENT_STORAGE,
            LogError::Closed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, error.to_string())
    }
}

impl From<AppendError> for Problem {
    fn from(error: AppendError) -> Self {
        let status = match &error {
            AppendError::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            AppendError::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
            AppendError::NotLeader { .. } | AppendError::Closed => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        tracing::warn!(%error, "an append over HTTP failed");
        Self::new(status, error.to_string())
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        if let ReadError::OutOfRange { start, end, .. } = error {
            return Self::new(StatusCode::RANGE_NOT_SATISFIABLE, error.to_string())
                .with("start_offset", start)
                .with("end_offset", end);
        }
        tracing::error!(%error, "a read over HTTP failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
    }
}
