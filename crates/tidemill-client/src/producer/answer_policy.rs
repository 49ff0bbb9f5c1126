//! The decision on a chunk after a node's answer. Facts in, a decision out.

use crate::CallError;
use tidemill_wire::kafka::ErrorCode;

/// The decision on a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AnswerDecision {
    /// It counts.
    Delivered,
    /// It counts, and did before: an earlier attempt had come through.
    Known,
    /// It is sent again; `refresh` says whether the leader may be another one.
    Again {
        /// True if new metadata are needed.
        refresh: bool,
    },
    /// Sequence numbers have a gap that will not close: it is sent again under a new producer id.
    NewIdentity,
    /// It will never count.
    Failed,
}

/// The facts about a chunk when its answer comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkFacts {
    /// True if it has a producer id and a sequence number.
    pub(super) stamped: bool,
    /// True if all chunks of its streamlet before it have their final answers.
    pub(super) first: bool,
}

/// The decision on an error code.
pub(super) fn of_code(code: ErrorCode, facts: ChunkFacts) -> AnswerDecision {
    match code {
        ErrorCode::None => AnswerDecision::Delivered,
        ErrorCode::DuplicateSequenceNumber => AnswerDecision::Known,
        // Behind one that is sent again itself this is how it must be; the first one in the row
        // meets a log that does not remember what was before.
        ErrorCode::OutOfOrderSequenceNumber if facts.stamped && !facts.first => {
            AnswerDecision::Again { refresh: false }
        }
        ErrorCode::OutOfOrderSequenceNumber
        | ErrorCode::UnknownProducerId
        | ErrorCode::InvalidProducerEpoch
            if facts.stamped =>
        {
            AnswerDecision::NewIdentity
        }
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId
        | ErrorCode::LeaderNotAvailable
        | ErrorCode::NotLeaderOrFollower
        | ErrorCode::FencedLeaderEpoch
        | ErrorCode::BrokerNotAvailable
        | ErrorCode::KafkaStorageError => AnswerDecision::Again { refresh: true },
        code if code.is_retriable() => AnswerDecision::Again { refresh: false },
        _ => AnswerDecision::Failed,
    }
}

/// The decision when there is no answer. The chunk may have been written: sent again under the
/// same sequence number it will not be written twice.
pub(super) fn of_error(error: &CallError) -> AnswerDecision {
    match error {
        CallError::Unsupported { .. } => AnswerDecision::Failed,
        CallError::BadRequest(_) => AnswerDecision::Again { refresh: false },
        CallError::Unreachable { .. }
        | CallError::NodeAway { .. }
        | CallError::ClosedAtOnce { .. }
        | CallError::Lost { .. }
        | CallError::TimedOut { .. }
        | CallError::BadAnswer { .. }
        | CallError::Closed => AnswerDecision::Again { refresh: true },
    }
}

#[cfg(test)]
mod tests;
