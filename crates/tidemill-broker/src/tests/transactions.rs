//! Transactions against a whole broker: what readers of committed records see, and what late or
//! wrong requests are told.

use super::{
    client::*,
    node::Node,
    producer::{Producer, committed, init},
};
use std::time::Duration;
use tidemill_env::World;
use tidemill_wire::kafka::message::describe_producers_request::TopicRequest;
use tidemill_wire::{
    kafka::{ErrorCode, message::*, text},
    transactions::TransactionPhase,
};

async fn started(node: &Node) -> Client {
    let mut client = node.client().await;
    client.create("t", 3).await;
    client
}

#[tokio::test]
async fn r4_committed_readers_see_whole_transactions_and_none_that_was_aborted() {
    for protocol in [1, 2] {
        let node = Node::start().await;
        let mut client = started(&node).await;
        let mut producer = Producer::transactional(&mut client, "x", protocol).await;
        let mut expected = [vec![], vec![]];
        for round in 0..6 {
            let (a, b) = (format!("a{round}"), format!("b{round}"));
            producer.begin(&mut client, &[(0, &a), (1, &b)]).await;
            for (partition, expected) in expected.iter().enumerate() {
                let (seen, stable) = committed(&mut client, partition as i32).await;
                assert_eq!(&seen, expected, "what is open is not seen");
                assert_eq!(stable, round * 2, "up to its first record");
            }
            let commit = round % 3 != 1;
            assert_eq!(producer.end(&mut client, commit).await, 0, "protocol {protocol}");
            if commit {
                expected[0].push(a);
                expected[1].push(b);
            }
            for (partition, expected) in expected.iter().enumerate() {
                let (seen, stable) = committed(&mut client, partition as i32).await;
                assert_eq!((&seen, stable), (expected, round * 2 + 2), "protocol {protocol}");
            }
        }
        node.stop().await;
    }
}

#[tokio::test]
async fn r12_a_marker_takes_one_offset_and_readers_of_all_records_see_what_was_aborted() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    let mut producer = Producer::transactional(&mut client, "x", 2).await;
    producer.begin(&mut client, &[(0, "a")]).await;
    assert_eq!(producer.send(&mut client, 0, &["b", "c"]).await, (0, 1));
    assert_eq!(client.offset("t", -1).await.0, 3);
    producer.end(&mut client, false).await;
    assert_eq!(client.offset("t", -1).await.0, 4, "three records and a marker");
    let answer = client.fetch("t", 0, 0, 0).await;
    assert_eq!((answer.high_watermark, answer.last_stable_offset), (4, 4));
    let mut request = fetch("t", 0, 2, 0);
    request.isolation_level = 1;
    let answer = only(only(client.ask(&request, 12).await.responses).partitions);
    let aborted = only(answer.aborted_transactions.unwrap());
    assert_eq!((aborted.producer_id, aborted.first_offset), (producer.id, 0));
    // The next one begins after the marker.
    producer.begin(&mut client, &[(0, "d")]).await;
    assert_eq!(committed(&mut client, 0).await, (vec![], 4));
    node.stop().await;
}

/// The offset of the end for readers of committed records.
async fn committed_end(client: &mut Client) -> i64 {
    let partition = ListOffsetsPartition::default().with_timestamp(-1);
    let topic = ListOffsetsTopic::default().with_name(text("t")).with_partitions(vec![partition]);
    let request =
        ListOffsetsRequestData::default().with_isolation_level(1).with_topics(vec![topic]);
    only(only(client.ask(&request, 8).await.topics).partitions).offset
}

#[tokio::test]
async fn the_end_of_committed_records_is_not_below_the_start_of_the_log() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    client.produce("t", 0, chunk(&["before"])).await;
    let mut producer = Producer::transactional(&mut client, "x", 2).await;
    producer.begin(&mut client, &[(0, "a")]).await;
    producer.send(&mut client, 0, &["b", "c"]).await;
    assert_eq!(committed_end(&mut client).await, 1);
    let partition = DeleteRecordsPartition::default().with_offset(3);
    let topic = DeleteRecordsTopic::default().with_name(text("t")).with_partitions(vec![partition]);
    let request = DeleteRecordsRequestData::default().with_topics(vec![topic]);
    let deleted = only(only(client.ask(&request, 2).await.topics).partitions);
    assert_eq!((deleted.error_code, deleted.low_watermark), (0, 3));
    // Who begins at the end gets on from there: nothing yet, and all that is left by and by.
    assert_eq!(committed_end(&mut client).await, 3);
    let mut reader = node.client().await;
    let mut request = fetch("t", 0, 3, 0);
    for isolation_level in [0, 1] {
        request.isolation_level = isolation_level;
        let answer = only(only(client.ask(&request, 12).await.responses).partitions);
        assert_eq!((answer.error_code, answer.log_start_offset), (0, 3));
        assert_eq!((answer.high_watermark, answer.last_stable_offset), (4, 3));
        assert_eq!(answer.records.is_none_or(|it| it.is_empty()), isolation_level == 1);
    }
    request.max_wait_ms = 20_000;
    let id = reader.send(&request, 12).await;
    assert_eq!(producer.end(&mut client, true).await, 0);
    let answer = reader.receive::<FetchRequestData>(12, id).await;
    let answer = only(only(answer.responses).partitions);
    assert_eq!((answer.error_code, answer.last_stable_offset), (0, 5));
    assert!(!answer.records.unwrap().is_empty());
    node.stop().await;
}

#[tokio::test]
async fn a_waiting_reader_of_committed_records_is_woken_by_the_end_and_not_before() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    let mut producer = Producer::transactional(&mut client, "x", 2).await;
    producer.begin(&mut client, &[(0, "a")]).await;
    let mut reader = node.client().await;
    let mut request = fetch("t", 0, 0, 20_000);
    request.isolation_level = 1;
    let id = reader.send(&request, 12).await;
    let early = tokio::time::timeout(Duration::from_millis(200), reader.frame()).await;
    assert!(early.is_err(), "nothing is committed");
    // The half that was read belongs to nobody: there was none.
    producer.send(&mut client, 0, &["b"]).await;
    producer.end(&mut client, true).await;
    let answer = reader.receive::<FetchRequestData>(12, id).await;
    let partition = only(only(answer.responses).partitions);
    assert!(!partition.records.unwrap().is_empty());
    node.stop().await;
}

#[tokio::test]
async fn k1_a_late_end_ends_no_later_transaction() {
    for protocol in [1, 2] {
        let node = Node::start().await;
        let mut client = started(&node).await;
        let mut producer = Producer::transactional(&mut client, "x", protocol).await;
        // What the network holds back was sent on a connection that the client gave up.
        let mut late = client;
        producer.begin(&mut late, &[(0, "a")]).await;
        let (held_back, version) = producer.end_request(false);
        let mut client = node.client().await;
        assert_eq!(producer.end(&mut client, false).await, 0, "repeated on a new connection");
        producer.begin(&mut client, &[(0, "b")]).await;
        let answer = late.ask(&held_back, version).await;
        assert_ne!(answer.error_code, 0, "protocol {protocol}");
        producer.send(&mut client, 0, &["c"]).await;
        assert_eq!(producer.end(&mut client, true).await, 0);
        assert_eq!(committed(&mut client, 0).await.0, ["b", "c"], "protocol {protocol}");
        node.stop().await;
    }
}

#[tokio::test]
async fn k2_a_late_chunk_joins_no_later_transaction_and_holds_nobody_back() {
    for protocol in [1, 2] {
        let node = Node::start().await;
        let mut client = started(&node).await;
        let mut producer = Producer::transactional(&mut client, "x", protocol).await;
        producer.begin(&mut client, &[(0, "a")]).await;
        let (held_back, version) = producer.request(0, &["late"]);
        let (elsewhere, _) = producer.request(1, &["late"]);
        assert_eq!(producer.end(&mut client, false).await, 0);
        let mut late = node.client().await;
        for request in [&held_back, &elsewhere] {
            let answer = late.ask(request, version).await;
            let answer = only(only(answer.responses).partition_responses);
            let expected = if protocol == 2 {
                ErrorCode::InvalidProducerEpoch
            } else {
                ErrorCode::TransactionAbortable
            };
            assert_eq!(answer.error_code, code(expected), "protocol {protocol}");
        }
        for partition in [0, 1] {
            let (seen, stable) = committed(&mut client, partition).await;
            assert_eq!(seen, Vec::<String>::new());
            assert_eq!(stable, client_end(&mut client, partition).await, "nothing is open");
        }
        node.stop().await;
    }
}

async fn client_end(client: &mut Client, partition: i32) -> i64 {
    client.fetch("t", partition, 0, 0).await.high_watermark
}

#[tokio::test]
async fn r10_row_36_what_takes_too_long_is_aborted_and_its_producer_told() {
    for protocol in [1, 2] {
        let node = Node::start().await;
        let mut client = started(&node).await;
        let answer = client.ask(&init("x", 300), 5).await;
        let mut producer = Producer {
            transactional_id: Some("x"),
            id: answer.producer_id,
            epoch: answer.producer_epoch,
            protocol,
            next: [0; 4],
        };
        producer.begin(&mut client, &[(0, "a")]).await;
        // A long poll that ends when the transaction does.
        let mut request = fetch("t", 0, 0, 15_000);
        request.isolation_level = 1;
        let answer = client.ask(&request, 12).await;
        let partition = only(only(answer.responses).partitions);
        assert_eq!((partition.high_watermark, partition.last_stable_offset), (2, 2));
        assert_eq!(committed(&mut client, 0).await.0, Vec::<String>::new());
        let (error, _) = producer.send(&mut client, 0, &["late"]).await;
        assert_eq!(error, code(ErrorCode::InvalidProducerEpoch));
        let ends = match protocol {
            1 => [ErrorCode::ProducerFenced, ErrorCode::ProducerFenced],
            // It may abort what was aborted, and goes on.
            _ => [ErrorCode::TransactionAbortable, ErrorCode::None],
        };
        for (commit, expected) in [true, false].into_iter().zip(ends) {
            let error = producer.end(&mut client, commit).await;
            assert_eq!(error, code(expected), "K3, protocol {protocol}");
        }
        if protocol == 2 {
            producer.begin(&mut client, &[(0, "went on")]).await;
            assert_eq!(producer.end(&mut client, false).await, 0);
        }
        let mut next = Producer::transactional(&mut client, "x", protocol).await;
        next.begin(&mut client, &[(0, "b")]).await;
        assert_eq!(next.end(&mut client, true).await, 0);
        assert_eq!(committed(&mut client, 0).await.0, ["b"]);
        node.stop().await;
    }
}

#[tokio::test]
async fn k3_a_commit_that_races_the_timeout_is_done_or_can_be_aborted() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    let (mut done, mut fenced) = (Vec::new(), 0);
    for round in 0..60 {
        let answer = client.ask(&init("x", 1), 5).await;
        let mut producer = Producer {
            transactional_id: Some("x"),
            id: answer.producer_id,
            epoch: answer.producer_epoch,
            protocol: 2,
            next: [0; 4],
        };
        let value = format!("v{round}");
        let (error, _) = producer.send(&mut client, 0, &[&value]).await;
        if error != 0 {
            assert_eq!(error, code(ErrorCode::InvalidProducerEpoch));
            fenced += 1;
            continue;
        }
        // The end comes before the next look at timeouts, together with it, and after it.
        tokio::time::sleep(Duration::from_millis(round * 7 % 260)).await;
        match producer.end(&mut client, true).await {
            0 => done.push(value),
            error => {
                assert_eq!(error, code(ErrorCode::TransactionAbortable));
                assert_eq!(producer.end(&mut client, false).await, 0);
                fenced += 1;
            }
        }
    }
    assert!(fenced > 0 && !done.is_empty(), "{fenced} fenced, {} done", done.len());
    let mut last = Producer::transactional(&mut client, "x", 2).await;
    last.begin(&mut client, &[(0, "end")]).await;
    assert_eq!(last.end(&mut client, true).await, 0);
    done.push("end".into());
    assert_eq!(committed(&mut client, 0).await.0, done);
    node.stop().await;
}

#[tokio::test]
async fn k8_an_abort_while_the_first_chunk_is_on_its_way_is_clean() {
    for protocol in [1, 2] {
        let node = Node::start().await;
        let mut client = started(&node).await;
        let mut producer = Producer::transactional(&mut client, "x", protocol).await;
        for turn in 0..100 {
            if protocol == 1 {
                // Nothing was added: the request is not on its way yet. To abort once more what
                // was aborted is a repetition.
                let nothing = if turn == 0 { code(ErrorCode::InvalidTxnState) } else { 0 };
                assert_eq!(producer.end(&mut client, false).await, nothing);
                producer.add(&mut client, &[0]).await;
            }
            let (request, version) = producer.request(0, &["a"]);
            let first = client.send(&request, version).await;
            let (end, end_version) = producer.end_request(false);
            let mut other = node.client().await;
            let ended = other.ask(&end, end_version).await;
            assert_eq!(ended.error_code, 0, "protocol {protocol}");
            let answer = client.receive::<ProduceRequestData>(version, first).await;
            let error = only(only(answer.responses).partition_responses).error_code;
            if protocol == 2 {
                (producer.id, producer.epoch) = (ended.producer_id, ended.producer_epoch);
                producer.next = [0; 4];
            } else if error == 0 {
                producer.next[0] += 1;
            }
        }
        producer.begin(&mut client, &[(0, "b")]).await;
        assert_eq!(producer.end(&mut client, true).await, 0);
        assert_eq!(committed(&mut client, 0).await.0, ["b"]);
        node.stop().await;
    }
}

#[tokio::test]
async fn a_new_instance_aborts_what_the_old_one_has_open() {
    for protocol in [1, 2] {
        let node = Node::start().await;
        let mut client = started(&node).await;
        let mut old = Producer::transactional(&mut client, "x", protocol).await;
        old.begin(&mut client, &[(0, "a"), (2, "a")]).await;
        let mut other = node.client().await;
        let mut new = Producer::transactional(&mut other, "x", protocol).await;
        assert!(new.id == old.id && new.epoch > old.epoch);
        let (error, _) = old.send(&mut client, 0, &["late"]).await;
        assert_eq!(error, code(ErrorCode::InvalidProducerEpoch));
        let (error, _) = old.send(&mut client, 1, &["late"]).await;
        assert_eq!(error, code(ErrorCode::InvalidProducerEpoch));
        assert_eq!(old.end(&mut client, true).await, code(ErrorCode::ProducerFenced));
        new.begin(&mut other, &[(0, "b")]).await;
        assert_eq!(new.end(&mut other, true).await, 0);
        assert_eq!(committed(&mut client, 0).await.0, ["b"]);
        assert_eq!(committed(&mut client, 2).await, (vec![], 2));
        node.stop().await;
    }
}

#[tokio::test]
async fn k4_epochs_run_out_and_another_id_takes_over() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    let mut producer = Producer::transactional(&mut client, "x", 2).await;
    // As many inits as it takes would take a while.
    node.broker.transactions.set_epoch("x", i16::MAX - 3).await;
    producer.epoch = i16::MAX - 3;
    let (mut expected, mut ids) = (Vec::new(), vec![producer.id]);
    for round in 0..6 {
        let value = format!("v{round}");
        producer.begin(&mut client, &[(0, &value)]).await;
        let (end, version) = producer.end_request(true);
        assert_eq!(producer.end(&mut client, true).await, 0);
        // Its answer was lost: the same once more.
        let again = client.ask(&end, version).await;
        assert_eq!(again.error_code, 0);
        assert_eq!((again.producer_id, again.producer_epoch), (producer.id, producer.epoch));
        if !ids.contains(&producer.id) {
            ids.push(producer.id);
        }
        expected.push(value);
    }
    assert_eq!(ids.len(), 2);
    assert_eq!(committed(&mut client, 0).await.0, expected);
    node.stop().await;
}

#[tokio::test]
async fn wrong_requests_get_the_protocols_own_errors() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    for timeout_ms in [0, -1, 900_001] {
        let answer = client.ask(&init("x", timeout_ms), 5).await;
        assert_eq!(answer.error_code, code(ErrorCode::InvalidTransactionTimeout));
    }
    let answer = client.ask(&init("", 1000), 5).await;
    assert_eq!(answer.error_code, code(ErrorCode::InvalidRequest));
    let mut producer = Producer::transactional(&mut client, "x", 1).await;
    // An unknown partition: none is added.
    let errors = producer.add(&mut client, &[0, 7]).await;
    let expected = [ErrorCode::OperationNotAttempted, ErrorCode::UnknownTopicOrPartition];
    assert_eq!(errors, expected.map(code));
    let (error, _) = producer.send(&mut client, 0, &["a"]).await;
    assert_eq!(error, code(ErrorCode::TransactionAbortable), "not added");
    let (request, _) = producer.request(0, &["a"]);
    let answer = client.ask(&request, 9).await;
    let error = only(only(answer.responses).partition_responses).error_code;
    assert_eq!(error, code(ErrorCode::InvalidTxnState), "older clients do not know the other");
    let mut stranger = Producer { transactional_id: Some("y"), ..producer.clone() };
    assert_eq!(stranger.end(&mut client, true).await, code(ErrorCode::InvalidProducerIdMapping));
    let wrong_id = Producer { id: producer.id + 1, ..producer.clone() };
    assert_eq!(wrong_id.add(&mut client, &[0]).await, [code(ErrorCode::InvalidProducerIdMapping)]);
    assert_eq!(producer.end(&mut client, true).await, code(ErrorCode::InvalidTxnState));
    // Records of a transaction, and no transactional id.
    let (mut request, version) = producer.request(0, &["a"]);
    request.transactional_id = None;
    let answer = client.ask(&request, version).await;
    let error = only(only(answer.responses).partition_responses).error_code;
    assert_eq!(error, code(ErrorCode::TransactionalIdAuthorizationFailed));
    // The same, of no producer.
    let mut stray = chunk(&["a"]);
    stray[22] |= 0x10;
    let crc = tidemill_wire::chunk::crc32c(&stray[21..]);
    stray[17..21].copy_from_slice(&crc.to_be_bytes());
    let answer = client.ask(&produce("t", 0, stray.clone(), -1), version).await;
    let error = only(only(answer.responses).partition_responses).error_code;
    assert_eq!(error, code(ErrorCode::TransactionalIdAuthorizationFailed));
    let mut request = produce("t", 0, stray, -1);
    request.transactional_id = Some(text("x"));
    let answer = client.ask(&request, version).await;
    let error = only(only(answer.responses).partition_responses).error_code;
    assert_eq!(error, code(ErrorCode::InvalidRecord));
    // A plain chunk while its producer has a transaction open.
    producer.begin(&mut client, &[(0, "a")]).await;
    let plain = Producer { transactional_id: None, ..producer.clone() };
    let (request, version) = plain.request(0, &["b"]);
    let answer = client.ask(&request, version).await;
    let error = only(only(answer.responses).partition_responses).error_code;
    assert_eq!(error, code(ErrorCode::InvalidTxnState));
    node.stop().await;
}

/// An end whose answer was lost comes again, also to a node that was started in between; there is
/// none to be repeated before the first.
#[tokio::test]
async fn protocol_1_ends_no_transaction_that_never_began_and_answers_a_lost_end_again() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    let nothing = code(ErrorCode::InvalidTxnState);
    for commit in [true, false] {
        let mut producer = Producer::transactional(&mut client, "x", 1).await;
        for version in 0..=4 {
            let (request, _) = producer.end_request(commit);
            assert_eq!(client.ask(&request, version).await.error_code, nothing, "{version}");
        }
        producer.begin(&mut client, &[(0, "a")]).await;
        for _ in 0..3 {
            assert_eq!(producer.end(&mut client, commit).await, 0);
        }
        assert_eq!(producer.end(&mut client, !commit).await, nothing);
    }
    node.stop().await;
}

/// As in Kafka, which refuses the offsets of such a group and not the group.
#[tokio::test]
async fn a_group_without_a_name_is_added_and_ends_with_its_transaction() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    for (version, commit) in (0..=4).zip([true, false, true, false, true]) {
        let mut producer = Producer::transactional(&mut client, "x", 1).await;
        let request = AddOffsetsToTxnRequestData::default()
            .with_transactional_id(text("x"))
            .with_producer_id(producer.id)
            .with_producer_epoch(producer.epoch);
        assert_eq!(client.ask(&request, version).await.error_code, 0);
        assert_eq!(producer.end(&mut client, commit).await, 0);
        assert_eq!(Producer::transactional(&mut client, "x", 1).await.epoch, producer.epoch + 1);
    }
    let groups = client.ask(&ListGroupsRequestData::default(), 4).await.groups;
    assert!(groups.is_empty(), "{groups:?}");
    node.stop().await;
}

#[tokio::test]
async fn administrators_see_transactions_and_their_producers() {
    let node = Node::start().await;
    let mut client = started(&node).await;
    let mut producer = Producer::transactional(&mut client, "x", 2).await;
    let _idle = Producer::transactional(&mut client, "y", 2).await;
    client.produce("t", 1, chunk(&["before"])).await;
    producer.begin(&mut client, &[(0, "a"), (1, "b")]).await;
    let request = DescribeTransactionsRequestData::default().with_transactional_ids(vec![
        text("x"),
        text("none"),
        text(""),
    ]);
    let states = client.ask(&request, 0).await.transaction_states;
    assert_eq!(states[0].transaction_state.as_str(), "Ongoing");
    assert_eq!((states[0].producer_id, states[0].producer_epoch), (producer.id, 0));
    assert!(states[0].transaction_start_time_ms > 0);
    assert_eq!(only(states[0].topics.clone()).partitions, [0, 1]);
    assert_eq!(states[1].error_code, code(ErrorCode::TransactionalIdNotFound));
    assert_eq!(states[2].error_code, code(ErrorCode::InvalidRequest));
    let mut request = ListTransactionsRequestData::default().with_duration_filter(-1);
    let names = |it: ListTransactionsResponseData| {
        it.transaction_states.iter().map(|it| it.transactional_id.as_str().to_owned()).collect()
    };
    let all: Vec<String> = names(client.ask(&request, 1).await);
    assert_eq!(all, ["x", "y"]);
    request.state_filters = vec![text("Ongoing"), text("Wrong")];
    let answer = client.ask(&request, 1).await;
    assert_eq!(answer.unknown_state_filters, [text("Wrong")]);
    let open: Vec<String> = names(answer);
    assert_eq!(open, ["x"]);
    let topic = TopicRequest::default().with_name(text("t")).with_partition_indexes(vec![1]);
    let request = DescribeProducersRequestData::default().with_topics(vec![topic]);
    let described = only(only(client.ask(&request, 0).await.topics).partitions);
    let active = only(described.active_producers);
    assert_eq!((active.producer_id, active.current_txn_start_offset), (producer.id, 1));
    assert_eq!(active.coordinator_epoch, -1, "no coordinator has ended one");
    producer.end(&mut client, true).await;
    let described = only(only(client.ask(&request, 0).await.topics).partitions);
    let active = only(described.active_producers);
    assert_eq!((active.coordinator_epoch, active.current_txn_start_offset), (0, -1));
    let found = node.broker.transactions.find("x").unwrap();
    assert_eq!(found.phase, TransactionPhase::CompleteCommit);
    node.stop().await;
}

#[tokio::test]
async fn when_a_transaction_began_is_told_until_its_producer_comes_anew() {
    for protocol in [1, 2] {
        let sim = World::simulated(1);
        let node = Node::start_with(|how| how.world = Some(sim.process())).await;
        let mut client = started(&node).await;
        let now_ms = || sim.world.clock.wall_micros() / 1_000;
        let mut producer = Producer::transactional(&mut client, "x", protocol).await;
        let described = async |client: &mut Client| {
            let request =
                DescribeTransactionsRequestData::default().with_transactional_ids(vec![text("x")]);
            let it = only(client.ask(&request, 0).await.transaction_states);
            (it.transaction_state.to_string(), it.transaction_start_time_ms)
        };
        let open_for = async |client: &mut Client, longer_ms: i64| {
            let request = ListTransactionsRequestData::default().with_duration_filter(longer_ms);
            !client.ask(&request, 1).await.transaction_states.is_empty()
        };
        assert_eq!(described(&mut client).await, ("Empty".into(), -1));
        for (commit, state) in [(true, "CompleteCommit"), (false, "CompleteAbort")] {
            sim.clock.advance(7_000_000);
            let began_ms = now_ms();
            producer.begin(&mut client, &[(0, "a")]).await;
            sim.clock.advance(2_000_000);
            assert_eq!(described(&mut client).await, ("Ongoing".into(), began_ms));
            assert!(open_for(&mut client, 1_000).await && !open_for(&mut client, 3_000).await);
            assert_eq!(producer.end(&mut client, commit).await, 0);
            sim.clock.advance(2_000_000);
            assert_eq!(described(&mut client).await, (state.into(), began_ms));
            assert!(!open_for(&mut client, 1_000).await, "it has ended");
        }
        if protocol == 2 {
            // There was nothing in it.
            let ended_ms = now_ms();
            assert_eq!(producer.end(&mut client, false).await, 0);
            sim.clock.advance(1_000_000);
            assert_eq!(described(&mut client).await, ("CompleteAbort".into(), ended_ms));
        }
        Producer::transactional(&mut client, "x", protocol).await;
        assert_eq!(described(&mut client).await, ("Empty".into(), -1));
        node.stop().await;
    }
}

#[tokio::test]
async fn clients_are_told_that_each_end_makes_a_new_epoch() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for version in [3, 4] {
        let answer = client.ask(&ApiVersionsRequestData::default(), version).await;
        let feature = only(answer.finalized_features);
        assert_eq!(feature.name.as_str(), "transaction.version");
        assert_eq!(feature.max_version_level, 2);
        assert_eq!(answer.finalized_features_epoch, 0);
        let supported: Vec<(i16, i16)> =
            answer.supported_features.iter().map(|it| (it.min_version, it.max_version)).collect();
        // Older Java clients break off where they read of a level 0.
        assert_eq!(supported, if version < 4 { vec![] } else { vec![(0, 2)] });
    }
    node.stop().await;
}

/// The offset of a group for a partition, and the error.
async fn group_offset(client: &mut Client, stable: bool) -> (i16, i64) {
    let topic =
        OffsetFetchRequestTopics::default().with_name(text("t")).with_partition_indexes(vec![0]);
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(text("g"))
        .with_topics(Some(vec![topic]))
        .with_member_epoch(-1);
    let request =
        OffsetFetchRequestData::default().with_groups(vec![group]).with_require_stable(stable);
    let group = only(client.ask(&request, 9).await.groups);
    assert_eq!(group.error_code, 0);
    let partition = only(only(group.topics).partitions);
    (partition.error_code, partition.committed_offset)
}

/// Sends offsets of a group to a transaction: the error.
async fn send_offset(client: &mut Client, producer: &Producer, offset: i64) -> i16 {
    let id = text(producer.transactional_id.unwrap());
    if producer.protocol == 1 {
        let request = AddOffsetsToTxnRequestData::default()
            .with_transactional_id(id.clone())
            .with_producer_id(producer.id)
            .with_producer_epoch(producer.epoch)
            .with_group_id(text("g"));
        let error = client.ask(&request, 4).await.error_code;
        if error != 0 {
            return error;
        }
    }
    let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(offset);
    let topic = TxnOffsetCommitRequestTopic::default()
        .with_name(text("t"))
        .with_partitions(vec![partition]);
    let request = TxnOffsetCommitRequestData::default()
        .with_transactional_id(id)
        .with_group_id(text("g"))
        .with_producer_id(producer.id)
        .with_producer_epoch(producer.epoch)
        .with_generation_id(-1)
        .with_topics(vec![topic]);
    let version = if producer.protocol == 2 { 5 } else { 4 };
    only(only(client.ask(&request, version).await.topics).partitions).error_code
}

#[tokio::test]
async fn r8_offsets_count_with_their_transaction_and_are_unstable_until_then() {
    for protocol in [1, 2] {
        let node = Node::start().await;
        let mut client = started(&node).await;
        let mut producer = Producer::transactional(&mut client, "x", protocol).await;
        let mut expected = -1;
        for (offset, commit) in [(5, true), (7, false), (9, true)] {
            producer.begin(&mut client, &[(0, "a")]).await;
            assert_eq!(send_offset(&mut client, &producer, offset).await, 0);
            let unstable = code(ErrorCode::UnstableOffsetCommit);
            assert_eq!(group_offset(&mut client, true).await.0, unstable);
            assert_eq!(group_offset(&mut client, false).await, (0, expected));
            assert_eq!(producer.end(&mut client, commit).await, 0);
            if commit {
                expected = offset;
            }
            assert_eq!(group_offset(&mut client, true).await, (0, expected), "{protocol}");
        }
        // A transaction of offsets alone.
        assert_eq!(send_offset(&mut client, &producer, 11).await, 0);
        assert_eq!(producer.end(&mut client, true).await, 0);
        assert_eq!(group_offset(&mut client, true).await, (0, 11));
        node.stop().await;
    }
}

#[tokio::test]
async fn k2_late_offsets_join_no_later_transaction() {
    for protocol in [1, 2] {
        let node = Node::start().await;
        let mut client = started(&node).await;
        let mut producer = Producer::transactional(&mut client, "x", protocol).await;
        producer.begin(&mut client, &[(0, "a")]).await;
        let old = producer.clone();
        assert_eq!(producer.end(&mut client, true).await, 0);
        if protocol == 2 {
            let error = send_offset(&mut client, &old, 5).await;
            assert_eq!(error, code(ErrorCode::InvalidProducerEpoch));
        } else {
            // The group is not in the next transaction unless it is added to it.
            let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(5);
            let topic = TxnOffsetCommitRequestTopic::default()
                .with_name(text("t"))
                .with_partitions(vec![partition]);
            let request = TxnOffsetCommitRequestData::default()
                .with_transactional_id(text("x"))
                .with_group_id(text("g"))
                .with_producer_id(old.id)
                .with_producer_epoch(old.epoch)
                .with_generation_id(-1)
                .with_topics(vec![topic]);
            for (version, expected) in
                [(3, ErrorCode::InvalidTxnState), (4, ErrorCode::TransactionAbortable)]
            {
                let answer = client.ask(&request, version).await;
                let error = only(only(answer.topics).partitions).error_code;
                assert_eq!(error, code(expected));
            }
        }
        producer.begin(&mut client, &[(0, "b")]).await;
        assert_eq!(producer.end(&mut client, true).await, 0);
        assert_eq!(group_offset(&mut client, true).await, (0, -1));
        node.stop().await;
    }
}

#[tokio::test]
async fn a_request_with_chunks_of_many_producers_is_not_looked_at_for_long() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let producer =
        Producer { transactional_id: Some("nobody's"), id: 0, epoch: 0, protocol: 2, next: [0; 4] };
    let (mut request, version) = producer.request(0, &[""]);
    let of = |id: i64| {
        let chunk = Producer { id, ..producer.clone() }.chunk(0, &[""]);
        PartitionProduceData::default().with_records(Some(chunk.into()))
    };
    request.topic_data[0].partition_data = (0..100_000).map(of).collect();
    let clock = World::real().clock;
    let began_us = clock.monotonic_micros();
    let answer = only(client.ask(&request, version).await.responses).partition_responses;
    let took_us = clock.monotonic_micros() - began_us;
    assert_eq!(answer.len(), 100_000);
    let refused = code(ErrorCode::InvalidProducerIdMapping);
    assert!(answer.iter().all(|it| it.error_code == refused));
    assert!(took_us < 10_000_000, "{took_us} us");
    node.stop().await;
}
