//! The names in a request's path.

use super::problem::Problem;
use axum::{
    extract::{FromRequestParts, Path},
    http::request::Parts,
};
use serde::de::DeserializeOwned;

/// Most characters of a path that are shown again.
const SHOWN_CHARS: usize = 200;

/// The names in a path, without their escapes. A name that is not UTF-8 is refused.
pub(super) struct PathNames<T>(pub(super) T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for PathNames<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let names = Path::<T>::from_request_parts(parts, state).await;
        names.map(|Path(it)| Self(it)).map_err(|_| {
            let path: String = parts.uri.path().chars().take(SHOWN_CHARS).collect();
            Problem::bad(format!(
                "a name in the path `{path}` is not UTF-8: of each character beyond ASCII its bytes \
                 of UTF-8 are escaped, such as `%C3%A4` for `\u{e4}`"
            ))
        })
    }
}
