//! Decisions as a table.

use super::*;

#[test]
fn answers_and_what_follows() {
    let (first, later) =
        (Facts { stamped: true, first: true }, Facts { stamped: true, first: false });
    let plain = Facts { stamped: false, first: true };
    let again = |refresh| Verdict::Again { refresh };
    let table = [
        (ErrorCode::None, later, Verdict::Delivered),
        (ErrorCode::DuplicateSequenceNumber, first, Verdict::Known),
        (ErrorCode::OutOfOrderSequenceNumber, later, again(false)),
        (ErrorCode::OutOfOrderSequenceNumber, first, Verdict::NewIdentity),
        (ErrorCode::OutOfOrderSequenceNumber, plain, Verdict::Failed),
        (ErrorCode::UnknownProducerId, first, Verdict::NewIdentity),
        (ErrorCode::UnknownProducerId, later, Verdict::NewIdentity),
        (ErrorCode::InvalidProducerEpoch, first, Verdict::NewIdentity),
        (ErrorCode::NotLeaderOrFollower, first, again(true)),
        (ErrorCode::UnknownTopicOrPartition, first, again(true)),
        (ErrorCode::KafkaStorageError, first, again(true)),
        (ErrorCode::NotEnoughReplicas, first, again(false)),
        (ErrorCode::RequestTimedOut, first, again(false)),
        (ErrorCode::MessageTooLarge, first, Verdict::Failed),
        (ErrorCode::TopicAuthorizationFailed, first, Verdict::Failed),
        (ErrorCode::InvalidRecord, first, Verdict::Failed),
        (ErrorCode::Unknown(9999), first, Verdict::Failed),
        (ErrorCode::UnknownServerError, first, Verdict::Failed),
    ];
    for (code, facts, verdict) in table {
        assert_eq!(of_code(code, facts), verdict, "{code:?} {facts:?}");
    }
}

#[test]
fn no_answer_means_once_more_but_for_what_cannot_be_said() {
    let lost = CallError::Lost { address: String::new(), reason: String::new() };
    assert_eq!(of_error(&lost), Verdict::Again { refresh: true });
    assert_eq!(of_error(&CallError::BadRequest(String::new())), Verdict::Again { refresh: false });
    let unsupported = CallError::Unsupported {
        address: String::new(),
        api: tidemill_wire::kafka::ApiKey::Produce,
        ours: String::new(),
        theirs: String::new(),
    };
    assert_eq!(of_error(&unsupported), Verdict::Failed);
}
