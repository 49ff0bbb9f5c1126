//! The errors of an object store, in messages with a way out.

use object_store::Error;
use std::error::Error as _;
use tidemill_checkpoints::BackendError;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectRequest {
    /// Reads an object, which may be missing.
    Read,
    /// Writes an object.
    Write,
    /// Writes an object that must not exist.
    Create,
    /// Deletes an object, which may be missing.
    Delete,
    /// Lists the names of objects.
    List,
}

/// Converts an error, or returns none where it says only that the object is missing or was deleted
/// before.
pub(super) fn told<T>(
    asked: ObjectRequest,
    error: &Error,
    place: String,
) -> Result<Option<T>, BackendError> {
    let text = whole(error);
    let has_no_bucket = text.contains("NoSuchBucket");
    let refused = |why: String| Err(BackendError::Refused { place: place.clone(), why });
    match error {
        Error::NotFound { .. } if !has_no_bucket && asked != ObjectRequest::Write => Ok(None),
        Error::AlreadyExists { .. } if asked == ObjectRequest::Create => Ok(None),
        _ if has_no_bucket => refused("there is no such bucket: make it first".to_owned()),
        Error::NotFound { .. } => refused(format!("{}. Is there such a bucket?", said(error))),
        Error::NotImplemented { .. } | Error::NotSupported { .. } => {
            let needs = "checkpoints need a store that writes an object only if it is not there";
            refused(format!("{}: {needs} (`If-None-Match`)", said(error)))
        }
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            refused(format!("{}. {CREDENTIALS}", said(error)))
        }
        // Where machines of AWS ask for theirs, if there are none.
        _ if text.contains("169.254.") => {
            refused(format!("there are no credentials. {CREDENTIALS}"))
        }
        _ if text.contains("status code: 4") && !text.contains("code: 429") => refused(said(error)),
        _ => Err(BackendError::Unreachable { place, why: said(error) }),
    }
}

const CREDENTIALS: &str = "Credentials are taken from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
                           or from what else the tools of AWS take them from";

/// An error and its causes.
fn whole(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

/// The answer of a store in short. Answers may hold signed headers, so only code and message are
/// shown.
pub(super) fn said(error: &Error) -> String {
    let text = whole(error);
    let part = |name: &str| {
        let (_, rest) = text.split_once(&format!("<{name}>"))?;
        rest.split_once(&format!("</{name}>")).map(|(part, _)| part.to_owned())
    };
    match (part("Code"), part("Message")) {
        (Some(code), Some(message)) => format!("{code}: {message}"),
        (Some(code), None) => code,
        _ => text.split('<').next().unwrap_or(&text).trim_end().to_owned(),
    }
}
