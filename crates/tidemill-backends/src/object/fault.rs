//! What an object store's errors mean, in words that say what to do.

use object_store::Error;
use std::error::Error as _;
use tidemill_checkpoints::BackendError;

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// An object, which need not be there.
    Read,
    /// To write one.
    Write,
    /// To write one that is not there.
    Create,
    /// To delete one, which need not be there.
    Delete,
    /// The names of objects.
    List,
}

/// Nothing, where an error says only that nothing is there or nothing is left to do.
pub(super) fn told<T>(
    asked: Asked,
    error: &Error,
    place: String,
) -> Result<Option<T>, BackendError> {
    let text = whole(error);
    let has_no_bucket = text.contains("NoSuchBucket");
    let refused = |why: String| Err(BackendError::Refused { place: place.clone(), why });
    match error {
        Error::NotFound { .. } if !has_no_bucket && asked != Asked::Write => Ok(None),
        Error::AlreadyExists { .. } if asked == Asked::Create => Ok(None),
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

/// An error and what caused it.
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

/// What a store says, in short. Its answers may hold what was signed: only code and message are
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
