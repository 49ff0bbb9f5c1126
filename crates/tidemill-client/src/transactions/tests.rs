//! All or nothing, and how it is known which.

use super::*;
use crate::{
    ClientOptions,
    admin::GroupOffset,
    testing::log::{FakeLog, Fault},
};
use std::sync::{Arc, Mutex};
use tidemill_env::{Random, World};
use tidemill_wire::records::{ChunkBuilder, Compression, Headers};

fn client(address: &str) -> Client {
    let options = ClientOptions {
        connect_timeout: Duration::from_secs(5),
        request_timeout: Duration::from_secs(2),
        backoff: Duration::from_millis(1),
        backoff_max: Duration::from_millis(2),
        ..ClientOptions::at(address)
    };
    Client::new(&World::real(), options)
}

fn chunk(values: &[&str]) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    for value in values {
        builder.append(1, None, Some(value.as_bytes()), Headers::NONE).unwrap();
    }
    builder.finish().unwrap()
}

fn mark(offset: i64) -> OffsetMark {
    OffsetMark {
        group: "g".to_owned(),
        stream: "events".to_owned(),
        streamlet: 0,
        offset,
        metadata: "me".to_owned(),
    }
}

fn held(client: &Client) -> Option<i64> {
    let offsets = client.admin().group_offsets("g").unwrap();
    offset_in(&offsets)
}

fn offset_in(offsets: &BTreeMap<String, BTreeMap<i32, GroupOffset>>) -> Option<i64> {
    offsets.get("events").and_then(|it| it.get(&0)).map(|it| it.offset)
}

/// Transactions of which the first, with the offset 1, has come through.
fn first_committed(client: &Client) -> Transactions {
    let mut transactions = client.transactions("t", Duration::from_secs(60));
    transactions.take_over("events", "g").unwrap();
    transactions.commit("events", BTreeMap::new(), &mark(1)).unwrap();
    transactions
}

#[test]
fn chunks_and_offset_are_sent_before_the_end_and_count_with_it() {
    let log = FakeLog::start(&[("events", 2)]);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let mut concurrent = 3;
    log.on_request(move |key| {
        noted.lock().unwrap().push(key);
        // The transaction before is still being ended.
        if key == ApiKey::AddPartitionsToTxn && concurrent > 0 {
            concurrent -= 1;
            return Fault::Code(ErrorCode::ConcurrentTransactions);
        }
        Fault::None
    });
    let client = client(log.address());
    let mut transactions = client.transactions("t", Duration::from_secs(60));
    assert!(!transactions.is_ready());
    assert!(transactions.commit("events", BTreeMap::new(), &mark(1)).is_err(), "not taken over");
    transactions.take_over("events", "g").unwrap();
    let chunks =
        BTreeMap::from([(0, vec![chunk(&["a", "b"]), chunk(&["c"])]), (1, vec![chunk(&["d"])])]);
    transactions.commit("events", chunks, &mark(7)).unwrap();
    assert_eq!(held(&client), Some(7));
    // Sequence numbers go on: the log refuses gaps.
    let chunks = BTreeMap::from([(0, vec![chunk(&["e"])])]);
    transactions.commit("events", chunks, &mark(8)).unwrap();
    assert_eq!(held(&client), Some(8));
    assert_eq!(log.values("events", 0), [b"a", b"b", b"c", b"e"]);
    assert_eq!(log.values("events", 1), [b"d"]);
    let asked = asked.lock().unwrap();
    let of_first: Vec<ApiKey> = asked
        .iter()
        .copied()
        .filter(|it| ![ApiKey::Metadata, ApiKey::FindCoordinator].contains(it))
        .skip_while(|it| *it != ApiKey::AddOffsetsToTxn)
        .take_while(|it| *it != ApiKey::OffsetFetch)
        .collect();
    let expected = [
        ApiKey::AddOffsetsToTxn,
        ApiKey::Produce,
        ApiKey::Produce,
        ApiKey::TxnOffsetCommit,
        ApiKey::EndTxn,
    ];
    assert_eq!(of_first, expected);
}

#[test]
fn after_any_failure_the_offset_says_whether_it_counts() {
    let log = FakeLog::start(&[("events", 2)]);
    let mut random = Random::new(7);
    log.on_request(move |key| match (key, random.below(12)) {
        (ApiKey::Metadata, _) => Fault::None,
        (_, 0) => Fault::CloseBefore,
        (_, 1) => Fault::CloseAfter,
        (ApiKey::Produce, 2) => Fault::Code(ErrorCode::NotLeaderOrFollower),
        (ApiKey::EndTxn, 2) => Fault::Code(ErrorCode::InvalidProducerEpoch),
        (ApiKey::AddOffsetsToTxn, 2) => Fault::Code(ErrorCode::NotCoordinator),
        _ => Fault::None,
    });
    let client = client(log.address());
    let mut transactions = client.transactions("t", Duration::from_secs(60));
    let mut failures = 0;
    for offset in 1..=60 {
        loop {
            if !transactions.is_ready() {
                match transactions.take_over("events", "g") {
                    Ok(found) => {
                        let found = offset_in(&found);
                        assert_eq!(found, held(&client));
                        if found == Some(offset) {
                            break;
                        }
                        assert_eq!(found, (offset > 1).then_some(offset - 1));
                    }
                    Err(error) => {
                        assert!(is_passing(&error), "{error}");
                        continue;
                    }
                }
            }
            let chunks = BTreeMap::from([(0, vec![chunk(&["a"])]), (1, vec![chunk(&["b"])])]);
            match transactions.commit("events", chunks, &mark(offset)) {
                Ok(()) => {
                    assert_eq!(held(&client), Some(offset));
                    break;
                }
                Err(error) => {
                    assert!(is_passing(&error), "{error}");
                    assert!(!transactions.is_ready(), "nothing is sent before it is known");
                    failures += 1;
                }
            }
        }
    }
    assert!(failures > 10, "{failures}");
}

#[test]
fn nothing_is_sent_while_it_is_not_known_what_counts() {
    let log = FakeLog::start(&[("events", 1)]);
    let client = client(log.address());
    let mut transactions = first_committed(&client);
    // The id is taken over, but the offsets cannot be read.
    log.on_request(|key| match key {
        ApiKey::OffsetFetch => Fault::Code(ErrorCode::GroupAuthorizationFailed),
        _ => Fault::None,
    });
    transactions.take_over("events", "g").unwrap_err();
    assert!(!transactions.is_ready());
    let chunks = BTreeMap::from([(0, vec![chunk(&["a"])])]);
    transactions.commit("events", chunks, &mark(1)).unwrap_err();
    assert!(log.values("events", 0).is_empty());
}

#[test]
fn after_its_coordinator_was_away_an_id_is_taken_over_anew() {
    let log = FakeLog::start(&[("events", 1)]);
    let client = client(log.address());
    let mut transactions = first_committed(&client);
    log.hang_up();
    for _ in 0..10_000 {
        if !transactions.is_ready() {
            break;
        }
        transactions.admin.rest(1_000);
    }
    let error = transactions.commit("events", BTreeMap::new(), &mark(2)).unwrap_err();
    assert!(is_passing(&error) && !transactions.is_ready(), "{error}");
    assert_eq!(offset_in(&transactions.take_over("events", "g").unwrap()), Some(1));
    transactions.commit("events", BTreeMap::new(), &mark(2)).unwrap();
    assert_eq!(held(&client), Some(2));
}

#[test]
fn an_end_that_the_cluster_has_lost_is_made_up_for_as_it_was_decided() {
    let decisions = [("CompleteCommit", true), ("PrepareCommit", true), ("CompleteAbort", false)];
    for (decided, committed) in decisions {
        let log = FakeLog::start(&[("events", 2)]);
        let client = client(log.address());
        let mut transactions = first_committed(&client);
        let mut undecided = true;
        log.state.lock().unwrap().decided = decided;
        log.on_request(move |key| match key {
            ApiKey::EndTxn => {
                undecided = false;
                Fault::None
            }
            ApiKey::OffsetFetch if undecided => Fault::Code(ErrorCode::UnstableOffsetCommit),
            _ => Fault::None,
        });
        transactions.take_over("events", "g").unwrap();
        let all = vec![("events".to_owned(), 0), ("events".to_owned(), 1)];
        let ended = log.state.lock().unwrap().ended.pop();
        assert_eq!(ended, Some((committed, all, Some("g".to_owned()))), "{decided}");
        let chunks = BTreeMap::from([(0, vec![chunk(&["a"])])]);
        transactions.commit("events", chunks, &mark(2)).unwrap();
        assert_eq!(held(&client), Some(2));
    }
    // What nobody has decided is not guessed, even if it was known how the one before ended.
    let log = FakeLog::start(&[("events", 2)]);
    log.state.lock().unwrap().decided = "CompleteCommit";
    let mut transactions = first_committed(&client(log.address()));
    log.state.lock().unwrap().decided = "Empty";
    log.on_request(|key| match key {
        ApiKey::OffsetFetch => Fault::Code(ErrorCode::UnstableOffsetCommit),
        _ => Fault::None,
    });
    let error = transactions.take_over("events", "g").unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UnstableOffsetCommit));
    assert!(!transactions.is_ready() && is_passing(&error));
}

/// It may come late, and count for the next transaction: with other brokers beside the coordinator
/// nothing else ends the epoch.
#[test]
fn what_was_lost_on_its_way_is_not_sent_again_under_its_epoch() {
    let all = [
        ApiKey::AddPartitionsToTxn,
        ApiKey::AddOffsetsToTxn,
        ApiKey::TxnOffsetCommit,
        ApiKey::EndTxn,
    ];
    for lost in all {
        let log = FakeLog::start(&[("events", 1)]);
        let client = client(log.address());
        let mut transactions = first_committed(&client);
        let asked = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&asked);
        log.on_request(move |key| {
            if key != lost {
                return Fault::None;
            }
            let mut asked = counted.lock().unwrap();
            *asked += 1;
            if *asked == 1 { Fault::CloseBefore } else { Fault::None }
        });
        let chunks = || BTreeMap::from([(0, vec![chunk(&["a"])])]);
        let error = transactions.commit("events", chunks(), &mark(2)).unwrap_err();
        assert!(is_passing(&error) && !transactions.is_ready(), "{lost:?}: {error}");
        assert_eq!(*asked.lock().unwrap(), 1, "{lost:?}");
        assert_eq!(offset_in(&transactions.take_over("events", "g").unwrap()), Some(1));
        transactions.commit("events", chunks(), &mark(2)).unwrap();
        assert_eq!(held(&client), Some(2));
    }
}

/// A broker was away when the coordinator told how the transaction ended.
#[test]
fn rows_that_have_lost_their_end_get_it_before_anything_else_is_written() {
    for (decided, committed) in [("CompleteCommit", true), ("Ongoing", false)] {
        let log = FakeLog::start(&[("events", 2)]);
        let client = client(log.address());
        let mut transactions = first_committed(&client);
        {
            let mut state = log.state.lock().unwrap();
            state.decided = decided;
            state.hanging = vec![("events".to_owned(), 1)];
            state.leader_epoch += 1;
        }
        // It is led anew, so it is not written to.
        let chunks = || BTreeMap::from([(0, vec![chunk(&["a"])])]);
        let error = transactions.commit("events", chunks(), &mark(2)).unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NotLeaderOrFollower));
        assert!(is_passing(&error) && !transactions.is_ready(), "{error}");
        assert!(log.values("events", 0).is_empty());
        transactions.take_over("events", "g").unwrap();
        let all = vec![("events".to_owned(), 0), ("events".to_owned(), 1)];
        let ended = log.state.lock().unwrap().ended.pop();
        assert_eq!(ended, Some((committed, all, Some("g".to_owned()))), "{decided}");
        transactions.commit("events", chunks(), &mark(2)).unwrap();
        assert_eq!(held(&client), Some(2));
    }
    // Nobody knows how it was decided: nothing is written.
    let log = FakeLog::start(&[("events", 2)]);
    let client = client(log.address());
    let mut transactions = first_committed(&client);
    log.state.lock().unwrap().hanging = vec![("events".to_owned(), 0)];
    let error = transactions.take_over("events", "g").unwrap_err();
    assert!(is_passing(&error) && !transactions.is_ready(), "{error}");
    assert!(error.to_string().contains("`kafka-transactions.sh abort`"), "{error}");
    log.state.lock().unwrap().hanging.clear();
    transactions.take_over("events", "g").unwrap();
    // One that may not look goes on.
    log.on_request(|key| match key {
        ApiKey::DescribeProducers => Fault::Code(ErrorCode::TopicAuthorizationFailed),
        _ => Fault::None,
    });
    transactions.take_over("events", "g").unwrap();
}

#[test]
fn a_transaction_that_cannot_be_ended_is_waited_for_with_longer_and_longer_rests() {
    let log = FakeLog::start(&[("events", 1)]);
    let client = client(log.address());
    let asked = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&asked);
    // A partition that it wrote to has no leader.
    log.on_request(move |key| match key {
        ApiKey::InitProducerId => {
            *counted.lock().unwrap() += 1;
            Fault::Code(ErrorCode::ConcurrentTransactions)
        }
        _ => Fault::None,
    });
    let mut transactions = client.transactions("t", Duration::from_secs(60));
    let error = transactions.take_over("events", "g").unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::ConcurrentTransactions));
    assert!(is_passing(&error));
    let asked = *asked.lock().unwrap();
    assert!((3..30).contains(&asked), "{asked} times in 2 s");
    log.on_request(|_| Fault::None);
    transactions.take_over("events", "g").unwrap();
    // A disk of a leader has failed: another node will lead.
    log.on_request(|key| match key {
        ApiKey::Produce => Fault::Code(ErrorCode::KafkaStorageError),
        _ => Fault::None,
    });
    let chunks = BTreeMap::from([(0, vec![chunk(&["a"])])]);
    let error = transactions.commit("events", chunks, &mark(1)).unwrap_err();
    assert!(is_passing(&error), "{error}");
}

#[test]
fn what_will_not_pass_is_told_as_such() {
    let log = FakeLog::start(&[("events", 1)]);
    let client = client(log.address());
    for code in [ErrorCode::TransactionalIdAuthorizationFailed, ErrorCode::MessageTooLarge] {
        let mut transactions = client.transactions("t", Duration::from_secs(60));
        log.on_request(|_| Fault::None);
        transactions.take_over("events", "g").unwrap();
        log.on_request(move |key| match key {
            ApiKey::Produce => Fault::Code(code),
            _ => Fault::None,
        });
        let chunks = BTreeMap::from([(0, vec![chunk(&["a"])])]);
        let error = transactions.commit("events", chunks, &mark(1)).unwrap_err();
        assert_eq!(error.code(), Some(code));
        assert!(!is_passing(&error));
        assert_eq!(held(&client), None);
    }
}

#[test]
fn after_the_largest_sequence_number_comes_zero() {
    let mut made = chunk(&["a", "b", "c"]);
    assert_eq!(stamp(&mut made, (9, 4), 10), 13);
    let head = ChunkHead::check(&made).unwrap();
    assert!(head.is_transactional());
    assert_eq!((head.producer_id, head.producer_epoch, head.base_sequence), (9, 4, 10));
    assert_eq!(stamp(&mut made, (9, 4), i32::MAX), 2);
    assert_eq!(stamp(&mut made, (9, 4), i32::MAX - 2), 0);
}

#[test]
fn what_an_answer_leaves_out_did_not_come_through() {
    for left_out in [ApiKey::AddPartitionsToTxn, ApiKey::Produce, ApiKey::TxnOffsetCommit] {
        let log = FakeLog::start(&[("events", 2)]);
        let client = client(log.address());
        let mut transactions = first_committed(&client);
        let chunks = || BTreeMap::from([(0, vec![chunk(&["a"])]), (1, vec![chunk(&["b"])])]);
        log.on_request(move |key| match key == left_out {
            true => Fault::LeaveOut,
            false => Fault::None,
        });
        let error = transactions.commit("events", chunks(), &mark(2)).unwrap_err();
        let said = format!("sent what is no answer: {left_out:?}: it leaves out what was sent");
        assert!(error.to_string().contains(&said), "{error}");
        assert!(is_passing(&error) && !transactions.is_ready(), "{left_out:?}");
        assert_eq!(log.state.lock().unwrap().ended.len(), 1, "that of the first");
        log.on_request(|_| Fault::None);
        assert_eq!(offset_in(&transactions.take_over("events", "g").unwrap()), Some(1));
        transactions.commit("events", chunks(), &mark(2)).unwrap();
        assert_eq!(held(&client), Some(2));
    }
}
