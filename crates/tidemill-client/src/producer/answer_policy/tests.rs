//! Decisions as a table.

use super::*;

#[test]
fn answers_and_what_follows() {
    let (first, later) =
        (ChunkFacts { stamped: true, first: true }, ChunkFacts { stamped: true, first: false });
    let plain = ChunkFacts { stamped: false, first: true };
    let again = |refresh| AnswerDecision::Again { refresh };
    let table = [
        (ErrorCode::None, later, AnswerDecision::Delivered),
        (ErrorCode::DuplicateSequenceNumber, first, AnswerDecision::Known),
        (ErrorCode::OutOfOrderSequenceNumber, later, again(false)),
        (ErrorCode::OutOfOrderSequenceNumber, first, AnswerDecision::NewIdentity),
        (ErrorCode::OutOfOrderSequenceNumber, plain, AnswerDecision::Failed),
        (ErrorCode::UnknownProducerId, first, AnswerDecision::NewIdentity),
        (ErrorCode::UnknownProducerId, later, AnswerDecision::NewIdentity),
        (ErrorCode::InvalidProducerEpoch, first, AnswerDecision::NewIdentity),
        (ErrorCode::NotLeaderOrFollower, first, again(true)),
        (ErrorCode::UnknownTopicOrPartition, first, again(true)),
        (ErrorCode::KafkaStorageError, first, again(true)),
        (ErrorCode::NotEnoughReplicas, first, again(false)),
        (ErrorCode::RequestTimedOut, first, again(false)),
        (ErrorCode::MessageTooLarge, first, AnswerDecision::Failed),
        (ErrorCode::TopicAuthorizationFailed, first, AnswerDecision::Failed),
        (ErrorCode::InvalidRecord, first, AnswerDecision::Failed),
        (ErrorCode::Unknown(9999), first, AnswerDecision::Failed),
        (ErrorCode::UnknownServerError, first, AnswerDecision::Failed),
    ];
    for (code, facts, answer_policy) in table {
        assert_eq!(of_code(code, facts), answer_policy, "{code:?} {facts:?}");
    }
}

#[test]
fn no_answer_means_once_more_but_for_what_cannot_be_said() {
    let lost = CallError::Lost { address: String::new(), reason: String::new() };
    assert_eq!(of_error(&lost), AnswerDecision::Again { refresh: true });
    assert_eq!(
        of_error(&CallError::BadRequest(String::new())),
        AnswerDecision::Again { refresh: false }
    );
    let unsupported = CallError::Unsupported {
        address: String::new(),
        api: tidemill_wire::kafka::ApiKey::Produce,
        ours: String::new(),
        theirs: String::new(),
    };
    assert_eq!(of_error(&unsupported), AnswerDecision::Failed);
}
