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
    client_within(address, Duration::from_secs(2))
}

fn client_within(address: &str, request_timeout: Duration) -> Client {
    let options = ClientOptions {
        connect_timeout: Duration::from_secs(5),
        request_timeout,
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
    // The id is taken over, but the offsets cannot be read any more.
    let mut is_first = true;
    log.on_request(move |key| match key {
        ApiKey::OffsetFetch if !std::mem::take(&mut is_first) => {
            Fault::Code(ErrorCode::GroupAuthorizationFailed)
        }
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
    for (decided, committed) in [("CompleteCommit", true), ("CompleteAbort", false)] {
        let log = FakeLog::start(&[("events", 2)]);
        let client = client(log.address());
        let mut transactions = first_committed(&client);
        let mut undecided = true;
        log.state.lock().transactions.get_mut("t").unwrap().state = decided;
        log.on_request(move |key| match key {
            ApiKey::EndTxn => {
                undecided = false;
                Fault::None
            }
            ApiKey::OffsetFetch if undecided => Fault::Code(ErrorCode::UnstableOffsetCommit),
            _ => Fault::None,
        });
        take_over(&mut transactions);
        let all = vec![("events".to_owned(), 0), ("events".to_owned(), 1)];
        let ended = log.state.lock().ended.pop();
        assert_eq!(ended, Some((committed, all, Some("g".to_owned()))), "{decided}");
        let chunks = BTreeMap::from([(0, vec![chunk(&["a"])])]);
        transactions.commit("events", chunks, &mark(2)).unwrap();
        assert_eq!(held(&client), Some(2));
    }
    // What nobody has decided is not guessed, even if it was known how the one before ended.
    let log = FakeLog::start(&[("events", 2)]);
    let mut transactions = first_committed(&client(log.address()));
    log.state.lock().transactions.get_mut("t").unwrap().state = "Empty";
    log.on_request(|key| match key {
        ApiKey::OffsetFetch => Fault::Code(ErrorCode::UnstableOffsetCommit),
        _ => Fault::None,
    });
    let error = transactions.take_over("events", "g").unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::UnstableOffsetCommit));
    assert!(!transactions.is_ready() && is_passing(&error));
}

/// As a sink does, which tries again what passes.
fn take_over(transactions: &mut Transactions) -> Option<i64> {
    for _ in 0..100 {
        match transactions.take_over("events", "g") {
            Ok(offsets) => return offset_in(&offsets),
            Err(error) => assert!(is_passing(&error), "{error}"),
        }
    }
    panic!("it does not pass");
}

/// Streamlets that do not hear how a transaction ends, whether the group does not, how many ends are not
/// heard, and whether those that are not lost come after the answer.
type Deaf = (&'static [i32], bool, usize, bool);

/// A transaction of rows in both streamlets and the offset 2 that does not end everywhere.
fn half_told(committed: bool, (streamlets, is_group, ends, is_slow): Deaf) -> FakeLog {
    let log = FakeLog::start(&[("events", 2)]);
    let mut transactions = first_committed(&client(log.address()));
    {
        let mut state = log.state.lock();
        state.deaf = streamlets.iter().map(|it| ("events".to_owned(), *it)).collect();
        (state.is_group_deaf, state.deaf_ends, state.is_slow) = (is_group, ends, is_slow);
    }
    log.on_request(move |key| match key {
        ApiKey::EndTxn if committed => Fault::CloseAfter,
        ApiKey::EndTxn => Fault::CloseBefore,
        _ => Fault::None,
    });
    let chunks = BTreeMap::from([(0, vec![chunk(&["a"])]), (1, vec![chunk(&["b"])])]);
    transactions.commit("events", chunks, &mark(2)).unwrap_err();
    log
}

/// Lets this many requests come through, and then one more if `is_last_done`, whose answer is lost.
/// Counts them, but for those that only ask.
fn kill_after(log: &FakeLog, requests: usize, is_last_done: bool) -> Arc<Mutex<usize>> {
    let asked = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&asked);
    let only_ask = [ApiKey::Metadata, ApiKey::FindCoordinator, ApiKey::OffsetFetch];
    log.on_request(move |key| {
        if only_ask.contains(&key) {
            return Fault::None;
        }
        let mut asked = counted.lock().unwrap();
        *asked += 1;
        match asked.cmp(&(requests + 1)) {
            std::cmp::Ordering::Less => Fault::None,
            std::cmp::Ordering::Equal if is_last_done => Fault::CloseAfter,
            std::cmp::Ordering::Equal => Fault::CloseBefore,
            // Nobody would ask any more.
            std::cmp::Ordering::Greater => Fault::Code(ErrorCode::ClusterAuthorizationFailed),
        }
    });
    asked
}

/// The table of `transactions/takeover.rs`, line by line: after each request another process goes on,
/// or the same one.
#[test]
fn whoever_is_killed_while_a_lost_end_is_made_up_for_all_of_it_counts_or_nothing() {
    let table: [(Deaf, bool); 6] = [
        ((&[1], false, 1, false), true),
        ((&[1], false, 1, false), false),
        ((&[], true, 1, true), true),
        ((&[0], true, 2, false), true),
        ((&[0], true, 2, false), false),
        ((&[0, 1], false, 2, true), true),
    ];
    for (deaf, committed) in table {
        for kill in 0.. {
            let (requests, is_last_done, is_same_process) = (kill / 3, kill % 3 > 0, kill % 3 > 1);
            let what = format!("{deaf:?}, {committed}, killed at {kill}");
            let log = half_told(committed, deaf);
            // It waits for so long for offsets that are undecided.
            let hasty = client_within(log.address(), Duration::from_millis(25));
            let mut killed = hasty.transactions("t", Duration::from_secs(60));
            let asked = kill_after(&log, requests, is_last_done);
            let _cut_off = killed.take_over("events", "g");
            let asked = *asked.lock().unwrap();
            log.on_request(|_| Fault::None);
            let mut next = match is_same_process {
                true => killed,
                false => hasty.transactions("t", Duration::from_secs(60)),
            };
            let expected = Some(if committed { 2 } else { 1 });
            assert_eq!(take_over(&mut next), expected, "{what}");
            {
                let mut state = log.state.lock();
                for index in 0..2 {
                    let place = ("events".to_owned(), index);
                    let fate = state.fates.iter().find(|it| it.0 == place);
                    assert_eq!(fate, Some(&(place, committed)), "{what}");
                }
                assert!(state.hanging.is_empty() && state.undecided.is_empty(), "{what}");
                state.is_slow = false;
            }
            let client = client(log.address());
            let mut last = client.transactions("t", Duration::from_secs(60));
            assert_eq!(take_over(&mut last), expected, "{what}");
            let chunks = BTreeMap::from([(0, vec![chunk(&["c"])])]);
            last.commit("events", chunks, &mark(3)).unwrap();
            assert_eq!(held(&client), Some(3), "{what}");
            if asked <= requests {
                assert!(requests > 5, "{what}");
                break;
            }
        }
    }
}

#[test]
fn what_was_to_commit_the_rest_and_was_aborted_is_told() {
    let log = half_told(true, (&[1], false, 1, false));
    let client = client(log.address());
    let mut killed = client.transactions("t", Duration::from_secs(60));
    log.on_request(|key| match key {
        ApiKey::EndTxn => Fault::Code(ErrorCode::ClusterAuthorizationFailed),
        _ => Fault::None,
    });
    killed.take_over("events", "g").unwrap_err();
    log.state.lock().time_out("t");
    log.on_request(|_| Fault::None);
    for _ in 0..2 {
        let mut next = client.transactions("t", Duration::from_secs(60));
        let error = next.take_over("events", "g").unwrap_err();
        assert!(!is_passing(&error) && !next.is_ready(), "{error}");
        assert!(error.to_string().contains("has lost the end of a transaction"), "{error}");
    }
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
    for (decided, committed) in [("CompleteCommit", true), ("CompleteAbort", false)] {
        let log = FakeLog::start(&[("events", 2)]);
        let client = client(log.address());
        let mut transactions = first_committed(&client);
        {
            let mut state = log.state.lock();
            state.transactions.get_mut("t").unwrap().state = decided;
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
        let ended = log.state.lock().ended.pop();
        assert_eq!(ended, Some((committed, all, Some("g".to_owned()))), "{decided}");
        transactions.commit("events", chunks(), &mark(2)).unwrap();
        assert_eq!(held(&client), Some(2));
    }
    // Nobody knows how it was decided: nothing is written.
    let log = FakeLog::start(&[("events", 2)]);
    let client = client(log.address());
    let mut transactions = first_committed(&client);
    {
        let mut state = log.state.lock();
        state.transactions.get_mut("t").unwrap().state = "Empty";
        state.hanging = vec![("events".to_owned(), 0)];
    }
    let error = transactions.take_over("events", "g").unwrap_err();
    assert!(is_passing(&error) && !transactions.is_ready(), "{error}");
    assert!(error.to_string().contains("`kafka-transactions.sh abort`"), "{error}");
    log.state.lock().hanging.clear();
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
    assert_eq!(stamp(&mut made, ProducerIdentity::of(9, 4), 10), 13);
    let head = ChunkHead::check(&made).unwrap();
    assert!(head.is_transactional());
    assert_eq!((head.producer_id, head.producer_epoch, head.base_sequence), (9, 4, 10));
    assert_eq!(stamp(&mut made, ProducerIdentity::of(9, 4), i32::MAX), 2);
    assert_eq!(stamp(&mut made, ProducerIdentity::of(9, 4), i32::MAX - 2), 0);
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
        assert_eq!(log.state.lock().ended.len(), 1, "that of the first");
        log.on_request(|_| Fault::None);
        assert_eq!(offset_in(&transactions.take_over("events", "g").unwrap()), Some(1));
        transactions.commit("events", chunks(), &mark(2)).unwrap();
        assert_eq!(held(&client), Some(2));
    }
}
