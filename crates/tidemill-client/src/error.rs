//! Errors between this client and a node: no answer, or an answer that refuses.

use tidemill_wire::kafka::{ApiKey, ErrorCode, KafkaString};

/// Why a request got no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// Nobody takes connections there.
    #[error("no node at {address}: {reason}")]
    Unreachable {
        /// Where it was tried.
        address: String,
        /// The system's error.
        reason: String,
    },
    /// The cluster names a node that does not answer: it has just died and the others do not know
    /// yet, or its advertised address cannot be reached from here.
    #[error("the cluster names a node at {address}, and there is none: {reason}")]
    NodeAway {
        /// Where it was tried.
        address: String,
        /// The system's error.
        reason: String,
    },
    /// The other side takes connections and closes them before it has said anything.
    #[error(
        "{address} closed the connection before it answered; does it ask for TLS? That is not \
         spoken here yet"
    )]
    ClosedAtOnce {
        /// The other end.
        address: String,
    },
    /// The connection ended before the answer came. The request may have been carried out.
    #[error("the connection to {address} was lost: {reason}")]
    Lost {
        /// The other end.
        address: String,
        /// The end of the connection, in words.
        reason: String,
    },
    /// No answer came in time. The request may have been carried out.
    #[error("{address} did not answer {api:?} within {after_ms} ms")]
    TimedOut {
        /// The node's address.
        address: String,
        /// The kind of the request.
        api: ApiKey,
        /// The wait for the answer, in milliseconds.
        after_ms: u64,
    },
    /// The node does not know the request, or in no version that is known here.
    #[error("{address} does not take {api:?} in a version known here ({ours}; it takes {theirs})")]
    Unsupported {
        /// The node's address.
        address: String,
        /// The kind of the request.
        api: ApiKey,
        /// Versions known here.
        ours: String,
        /// Versions known there.
        theirs: String,
    },
    /// The bytes are no answer of the protocol: the listener there is not a node.
    #[error("{address} sent what is no answer: {reason}; is it a node's Kafka address?")]
    BadAnswer {
        /// The sender's address.
        address: String,
        /// The fault.
        reason: String,
    },
    /// The request cannot be written.
    #[error("the request cannot be written: {0}")]
    BadRequest(String),
    /// This side was closed.
    #[error("the client is closed")]
    Closed,
}

/// An error code that a node answered with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{}", explain(*.code), .message.as_deref().map(|it| format!(" ({it})")).unwrap_or_default())]
pub struct Refusal {
    /// The protocol's code.
    pub code: ErrorCode,
    /// The node's own message.
    pub message: Option<String>,
}

impl Refusal {
    /// None if the code says that all is well.
    pub(crate) fn of(code: i16, message: Option<&KafkaString>) -> Option<Self> {
        let code = ErrorCode::from(code);
        let message = message.map(KafkaString::as_str).filter(|it| !it.is_empty());
        code.is_error().then(|| Self { code, message: message.map(str::to_owned) })
    }

    /// As [`Self::of`], for `?`.
    pub(crate) fn check(code: i16, message: Option<&KafkaString>) -> Result<(), Self> {
        Self::of(code, message).map_or(Ok(()), Err)
    }
}

/// An error code in words.
fn explain(code: ErrorCode) -> String {
    let words = match code {
        ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId => {
            "there is no such stream or streamlet"
        }
        ErrorCode::TopicAlreadyExists => "a stream of this name exists",
        ErrorCode::InvalidTopicException => {
            "the name is not possible: 1 to 249 of a-z A-Z 0-9 . _ -"
        }
        ErrorCode::InvalidPartitions => "the number of streamlets is not possible",
        ErrorCode::InvalidReplicationFactor => "the number of replicas is not possible",
        ErrorCode::InvalidConfig => "a setting is not possible",
        ErrorCode::InvalidRequest => "the node refused the request",
        ErrorCode::PolicyViolation => "a policy of the cluster forbids it",
        ErrorCode::NotController => "the node does not lead the cluster",
        ErrorCode::NotLeaderOrFollower => "the node does not lead the streamlet",
        ErrorCode::LeaderNotAvailable => "the streamlet has no leader at the moment",
        ErrorCode::MessageTooLarge => {
            "the chunk is larger than the stream takes: raise its `max.message.bytes`, or send \
             smaller batches"
        }
        ErrorCode::RecordListTooLarge => "the chunk is larger than a segment of the stream",
        ErrorCode::OffsetOutOfRange => "the offset is not in the streamlet",
        ErrorCode::CorruptMessage => "the chunk was damaged on its way, or in the log",
        ErrorCode::KafkaStorageError => "the node cannot use its disk",
        ErrorCode::NotEnoughReplicas | ErrorCode::NotEnoughReplicasAfterAppend => {
            "there are fewer replicas than the stream asks for"
        }
        ErrorCode::TopicAuthorizationFailed
        | ErrorCode::GroupAuthorizationFailed
        | ErrorCode::ClusterAuthorizationFailed
        | ErrorCode::TransactionalIdAuthorizationFailed => "this client may not do that",
        ErrorCode::UnsupportedVersion => "the node does not know the request in this version",
        ErrorCode::UnsupportedCompressionType => "the node does not take this compression",
        ErrorCode::InvalidRecord => "the node refused a record",
        ErrorCode::RequestTimedOut => "the node could not do it in time",
        ErrorCode::ProducerFenced | ErrorCode::InvalidProducerEpoch => {
            "another one writes under this transactional id, or the cluster has aborted the \
             transaction, as it was open for longer than its timeout"
        }
        ErrorCode::ConcurrentTransactions => "the transaction before is still being ended",
        ErrorCode::InvalidTxnState => "the transaction is not open any more",
        ErrorCode::GroupIdNotFound => "there is no such group",
        ErrorCode::NonEmptyGroup => "the group has members",
        ErrorCode::IllegalGeneration | ErrorCode::UnknownMemberId => {
            "the group has gone on without this member"
        }
        ErrorCode::RebalanceInProgress => "the group is dealing out its streamlets anew",
        ErrorCode::CoordinatorNotAvailable | ErrorCode::CoordinatorLoadInProgress => {
            "the group's coordinator is not ready"
        }
        ErrorCode::ThrottlingQuotaExceeded => "too many changes at once",
        ErrorCode::UnknownServerError => "the node failed at it",
        _ => return format!("{code:?}"),
    };
    format!("{words} [{code:?}]")
}

#[cfg(test)]
mod tests;
