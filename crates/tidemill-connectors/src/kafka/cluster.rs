//! A cluster that a job names, and the messages for a missing cluster or topic.

use crate::error::{ConnectorError, ConnectorErrorKind};
use tidemill_client::{
    AdminError, CallError, Client, ClientOptions, ErrorCode, consumer::ConsumeError,
};
use tidemill_env::World;
use tidemill_flow::{ErrorKind, SourceError};
use tidemill_types::{address, signs};

/// A client of the cluster at these addresses.
///
/// # Errors
/// They are no addresses.
pub(super) fn client(world: &World, brokers: &str) -> Result<Client, ConnectorError> {
    let options = ClientOptions::at(brokers);
    let is_address = |it: &String| address::split(it).is_some();
    if options.bootstrap.is_empty() || !options.bootstrap.iter().all(is_address) {
        let message = format!(
            "`brokers: {brokers}` is no list of addresses; it is written `HOST:PORT`, an IPv6 \
             address in brackets (`[::1]:9092`), several with commas between them"
        );
        return Err(ConnectorError { kind: ConnectorErrorKind::Unreachable, message });
    }
    Ok(Client::new(world, options))
}

/// The refusal of a topic, with the remedy.
pub(super) fn refused(brokers: &str, topic: &str, error: &AdminError) -> ConnectorError {
    let (kind, message) = match (error, error.code()) {
        (AdminError::Call(error), _) => {
            let none = |reason: String| {
                format!(
                    "no broker of the cluster of topic `{topic}` answers ({reason}): `brokers` is \
                     `{brokers}`, and one of these must be up when the job starts"
                )
            };
            let message = match error {
                CallError::Unreachable { address, reason } => none(format!("{address}: {reason}")),
                CallError::NodeAway { address, reason } => format!(
                    "the cluster at `{brokers}` of topic `{topic}` answers, but names a broker that \
                     does not, `{address}`: {reason}; it must be up, and its `advertised.listeners` \
                     must say where it is reached from here"
                ),
                other => none(other.to_string()),
            };
            let kind = match is_away(error) {
                true => ConnectorErrorKind::Away,
                false => ConnectorErrorKind::Unreachable,
            };
            (kind, message)
        }
        (_, Some(ErrorCode::UnknownTopicOrPartition)) => {
            let message = format!(
                "the cluster at `{brokers}` has no topic `{topic}`{}: create it, or write to it first",
                signs::note(topic, None)
            );
            (ConnectorErrorKind::NotFound, message)
        }
        (_, Some(code)) if code.is_retriable() => {
            (ConnectorErrorKind::Away, format!("topic `{topic}`: {error}"))
        }
        _ => (ConnectorErrorKind::Unreadable, format!("topic `{topic}`: {error}")),
    };
    ConnectorError { kind, message }
}

/// Returns true if nobody answers, or not as it should: it may later.
fn is_away(error: &CallError) -> bool {
    matches!(
        error,
        CallError::Unreachable { .. }
            | CallError::NodeAway { .. }
            | CallError::ClosedAtOnce { .. }
            | CallError::Lost { .. }
            | CallError::TimedOut { .. }
    )
}

/// The kind of a failed request.
fn kind_of(error: &AdminError) -> ErrorKind {
    match (error, error.code()) {
        (AdminError::Call(error), _) if is_away(error) => ErrorKind::Retry,
        (_, Some(ErrorCode::UnknownTopicOrPartition)) => ErrorKind::Invalid,
        (_, Some(code)) if code.is_retriable() => ErrorKind::Retry,
        _ => ErrorKind::Failed,
    }
}

/// The error of a source whose cluster refuses a request.
pub(super) fn admin_error(error: AdminError) -> SourceError {
    SourceError::of_kind(kind_of(&error), error.to_string()).with_source(error)
}

/// The error of a source whose records cannot be fetched.
pub(super) fn consume_error(error: ConsumeError) -> SourceError {
    let kind = match &error {
        ConsumeError::Lookup(error) => kind_of(error),
        ConsumeError::NoStreamlet { .. }
        | ConsumeError::OutOfRange { .. }
        | ConsumeError::MadeAnew { .. } => ErrorKind::Invalid,
        ConsumeError::Damaged { .. } => ErrorKind::Corrupt,
        ConsumeError::Refused { .. } | ConsumeError::Closed => ErrorKind::Failed,
    };
    SourceError::of_kind(kind, error.to_string()).with_source(error)
}

#[cfg(test)]
mod tests;
