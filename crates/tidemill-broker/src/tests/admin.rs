//! Topics, partitions and records, made and deleted as admin clients do it.

use super::{client::*, node::Node};
use std::sync::Arc;
use tidemill_log::StreamSpec;
use tidemill_wire::kafka::message::describe_topic_partitions_request::Cursor;
use tidemill_wire::kafka::{
    ApiKey, ErrorCode, KafkaUuid, known_versions,
    message::{
        create_topics_request::CreatableReplicaAssignment,
        describe_log_dirs_request::DescribableLogDirTopic, *,
    },
    text,
};

fn create(topics: Vec<CreatableTopic>) -> CreateTopicsRequestData {
    CreateTopicsRequestData::default().with_topics(topics)
}

#[tokio::test]
async fn topics_are_made_in_every_version() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for version in 2..=7 {
        let name = format!("t{version}");
        let request = create(vec![new_topic(&name, 3, &[("retention.ms", "5000")])]);
        let made = only(client.ask(&request, version).await.topics);
        assert_eq!(made.error_code, 0, "{:?}", made.error_message);
        let stream = node.log.get(&name).unwrap();
        assert_eq!(stream.spec().streamlets, 3);
        if version >= 5 {
            assert_eq!((made.num_partitions, made.replication_factor), (3, 1));
            let configs = made.configs.unwrap();
            let retention = configs.iter().find(|it| it.name.as_str() == "retention.ms").unwrap();
            assert_eq!(retention.value, Some(text("5000")));
            assert_eq!(retention.config_source, 1);
        }
        assert_eq!(made.topic_id == KafkaUuid::ZERO, version < 7);
    }
}

#[tokio::test]
async fn what_cannot_be_made_is_told_with_its_own_error() {
    let node = Node::start_with(|how| {
        how.settings.partitions = 4;
        how.options.streamlets_max = 50;
    })
    .await;
    let mut client = node.client().await;
    client.create("there", 1).await;
    let assigned = |list: &[(i32, &[i32])]| {
        let one = |(index, nodes): &(i32, &[i32])| {
            CreatableReplicaAssignment::default()
                .with_partition_index(*index)
                .with_broker_ids(nodes.to_vec())
        };
        new_topic("a", -1, &[]).with_assignments(list.iter().map(one).collect())
    };
    let replicated = |count| new_topic("a", 1, &[]).with_replication_factor(count);
    let long = "x".repeat(250);
    let cases = [
        (new_topic("there", 1, &[]), ErrorCode::TopicAlreadyExists),
        (new_topic("", 1, &[]), ErrorCode::InvalidTopicException),
        (new_topic("..", 1, &[]), ErrorCode::InvalidTopicException),
        (new_topic("../../etc", 1, &[]), ErrorCode::InvalidTopicException),
        (new_topic("a b", 1, &[]), ErrorCode::InvalidTopicException),
        (new_topic("a\0", 1, &[]), ErrorCode::InvalidTopicException),
        (new_topic("ü", 1, &[]), ErrorCode::InvalidTopicException),
        (new_topic(&long, 1, &[]), ErrorCode::InvalidTopicException),
        (new_topic("a", 0, &[]), ErrorCode::InvalidPartitions),
        (new_topic("a", -2, &[]), ErrorCode::InvalidPartitions),
        (new_topic("a", 50, &[]), ErrorCode::InvalidPartitions),
        (new_topic("a", i32::MAX, &[]), ErrorCode::InvalidPartitions),
        (replicated(0), ErrorCode::InvalidReplicationFactor),
        (replicated(2), ErrorCode::InvalidReplicationFactor),
        (replicated(-2), ErrorCode::InvalidReplicationFactor),
        (assigned(&[(0, &[1]), (2, &[1])]), ErrorCode::InvalidReplicaAssignment),
        (assigned(&[(0, &[1]), (0, &[1])]), ErrorCode::InvalidReplicaAssignment),
        (assigned(&[(0, &[2])]), ErrorCode::InvalidReplicaAssignment),
        (assigned(&[(0, &[1, 1])]), ErrorCode::InvalidReplicaAssignment),
        (assigned(&[(0, &[1])]).with_num_partitions(1), ErrorCode::InvalidRequest),
        (new_topic("a", 1, &[("no.such", "1")]), ErrorCode::InvalidConfig),
        (new_topic("a", 1, &[("retention.ms", "-2")]), ErrorCode::InvalidConfig),
        (new_topic("a", 1, &[("cleanup.policy", "burn")]), ErrorCode::InvalidConfig),
        (
            new_topic("a", 1, &[("min.compaction.lag.ms", "6"), ("max.compaction.lag.ms", "5")]),
            ErrorCode::InvalidConfig,
        ),
        (new_topic("a", 1, &[("remote.storage.enable", "true")]), ErrorCode::InvalidConfig),
    ];
    for validate_only in [true, false] {
        for (topic, error) in &cases {
            let request = create(vec![topic.clone()]).with_validate_only(validate_only);
            let made = only(client.ask(&request, 7).await.topics);
            assert_eq!(made.error_code, code(*error), "{topic:?}: {:?}", made.error_message);
            assert!(made.error_message.is_some_and(|it| it.len() < 1_000), "{topic:?}");
        }
    }
    let remote = create(vec![new_topic("a", 1, &[("remote.storage.enable", "true")])]);
    let why = only(client.ask(&remote, 7).await.topics).error_message.unwrap();
    assert!(why.as_str().contains("later version"), "{why}");
    assert_eq!(node.log.list().len(), 1, "nothing was made");

    let good = [new_topic("b", -1, &[]), assigned(&[(1, &[1]), (0, &[1])])];
    let checked = client.ask(&create(good.to_vec()).with_validate_only(true), 7).await;
    assert!(checked.topics.iter().all(|it| it.error_code == 0 && it.topic_id == KafkaUuid::ZERO));
    assert_eq!(node.log.list().len(), 1, "it was only checked");
    let made = client.ask(&create(good.to_vec()), 7).await.topics;
    assert_eq!((made[0].num_partitions, made[1].num_partitions), (4, 2));
}

/// Kafka's metrics have `_` for each `.`.
#[tokio::test]
async fn a_name_that_differs_in_dots_alone_is_refused() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("a.b_c", 1).await;
    let invalid = code(ErrorCode::InvalidTopicException);
    for (name, error) in [("a_b.c", invalid), ("a_b_c", invalid), ("a.b", 0), ("abc", 0)] {
        let made = only(client.ask(&create(vec![new_topic(name, 1, &[])]), 7).await.topics);
        assert_eq!(made.error_code, error, "{name}: {:?}", made.error_message);
        if error != 0 {
            let why = made.error_message.unwrap();
            assert!(why.as_str().contains("collides with the topic `a.b_c`"), "{why}");
        }
    }
    // The first of two in one request is made; who writes to another has none made for it.
    let asked = create(vec![new_topic("x.y", 1, &[]), new_topic("x_y", 1, &[])]);
    let codes: Vec<i16> =
        client.ask(&asked, 7).await.topics.iter().map(|it| it.error_code).collect();
    assert_eq!(codes, [0, invalid]);
    let row = MetadataRequestTopic::default().with_name(Some(text("x_y")));
    let request = MetadataRequestData::default().with_topics(Some(vec![row]));
    let request = request.with_allow_auto_topic_creation(true);
    assert_eq!(only(client.ask(&request, 9).await.topics).error_code, invalid);
    assert!(node.log.get("x_y").is_none());
    // Once the one is gone the other can be made.
    node.broker.delete_stream("x.y").unwrap();
    client.create("x_y", 1).await;
    node.stop().await;
}

#[tokio::test]
async fn a_name_twice_in_one_request_is_made_not_at_all() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let topics = ["a", "b", "a", "a"].map(|it| new_topic(it, 1, &[]));
    let made = client.ask(&create(topics.to_vec()), 7).await.topics;
    let made: Vec<_> = made.iter().map(|it| (it.name.as_str(), it.error_code)).collect();
    assert_eq!(made, [("a", code(ErrorCode::InvalidRequest)), ("b", 0)]);
    assert!(node.log.get("a").is_none());
}

/// Thousands of topics in one request; others are served meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_topics_are_made_at_once_and_nobody_waits() {
    let node = Node::start().await;
    let (mut client, mut other) = (node.client().await, node.client().await);
    other.create("busy", 1).await;
    let topics = (0..2_000).map(|it| new_topic(&format!("t.{it}"), 2, &[])).collect();
    let id = client.send(&create(topics), 7).await;
    let mut produced = 0;
    while node.log.list().len() < 1_500 {
        assert_eq!(other.produce("busy", 0, chunk(&["x"])).await.error_code, 0);
        produced += 1;
    }
    let made = client.receive::<CreateTopicsRequestData>(7, id).await.topics;
    assert_eq!(made.iter().filter(|it| it.error_code == 0).count(), 2_000);
    assert!(produced > 20, "{produced} appends while topics were made");
    let all = client.ask(&MetadataRequestData::default().with_topics(None), 12).await.topics;
    assert_eq!(all.iter().filter(|it| !it.is_internal).count(), 2_001);
    let delete = DeleteTopicsRequestData::default()
        .with_topic_names((0..2_000).map(|it| text(&format!("t.{it}"))).collect());
    let deleted = client.ask(&delete, 5).await.responses;
    assert_eq!(deleted.iter().filter(|it| it.error_code == 0).count(), 2_000);
    assert_eq!(node.log.list().len(), 1);
}

#[tokio::test]
async fn topics_are_deleted_by_name_and_by_id() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let unknown = code(ErrorCode::UnknownTopicOrPartition);
    for version in 1..=5 {
        client.create("t", 1).await;
        let names = vec![text("t"), text("gone")];
        let request = DeleteTopicsRequestData::default().with_topic_names(names);
        let deleted = client.ask(&request, version).await.responses;
        assert_eq!([deleted[0].error_code, deleted[1].error_code], [0, unknown]);
        assert!(node.log.get("t").is_none());
    }
    let state = |name: Option<&str>, id: KafkaUuid| {
        DeleteTopicState::default().with_name(name.map(text)).with_topic_id(id)
    };
    let (a, b) = (client.create("a", 1).await, client.create("b", 1).await);
    let nobody = KafkaUuid::from_parts(3, 4);
    let request = DeleteTopicsRequestData::default().with_topics(vec![
        state(None, a),
        state(Some("b"), KafkaUuid::ZERO),
        state(None, nobody),
        state(Some("b"), b),
        state(None, KafkaUuid::ZERO),
    ]);
    let deleted = client.ask(&request, 6).await.responses;
    let invalid = code(ErrorCode::InvalidRequest);
    let codes: Vec<i16> = deleted.iter().map(|it| it.error_code).collect();
    assert_eq!(codes, [0, 0, code(ErrorCode::UnknownTopicId), invalid, invalid]);
    assert_eq!(deleted[0].name, Some(text("a")));
    assert_eq!(deleted[1].topic_id, b);
    client.create("c", 1).await;
    let twice = DeleteTopicsRequestData::default()
        .with_topics(vec![state(Some("c"), KafkaUuid::ZERO), state(Some("c"), KafkaUuid::ZERO)]);
    let deleted = client.ask(&twice, 6).await.responses;
    assert_eq!([deleted[0].error_code, deleted[1].error_code], [invalid, invalid]);
    assert!(node.log.get("c").is_some());
}

#[tokio::test]
async fn partitions_are_added_while_they_are_used() {
    let node = Node::start_with(|how| how.options.streamlets_max = 20).await;
    let mut client = node.client().await;
    client.create_with("t", 2, &[("retention.ms", "777")]).await;
    client.produce("t", 1, chunk(&["before"])).await;
    let ask = |count: i32, nodes: Option<Vec<Vec<i32>>>| {
        let one = |ids| CreatePartitionsAssignment::default().with_broker_ids(ids);
        CreatePartitionsTopic::default()
            .with_name(text("t"))
            .with_count(count)
            .with_assignments(nodes.map(|it| it.into_iter().map(one).collect()))
    };
    let add = |topic: CreatePartitionsTopic| {
        CreatePartitionsRequestData::default().with_topics(vec![topic])
    };
    let cases = [
        (ask(2, None), ErrorCode::InvalidPartitions),
        (ask(1, None), ErrorCode::InvalidPartitions),
        (ask(0, None), ErrorCode::InvalidPartitions),
        (ask(-1, None), ErrorCode::InvalidPartitions),
        (ask(21, None), ErrorCode::InvalidPartitions),
        (ask(i32::MAX, None), ErrorCode::InvalidPartitions),
        (ask(4, Some(vec![vec![1]])), ErrorCode::InvalidReplicaAssignment),
        (ask(3, Some(vec![vec![2]])), ErrorCode::InvalidReplicaAssignment),
        (ask(3, None).with_name(text("u")), ErrorCode::UnknownTopicOrPartition),
        (ask(3, None).with_name(text("../u")), ErrorCode::UnknownTopicOrPartition),
    ];
    for (topic, error) in cases {
        let refused = only(client.ask(&add(topic.clone()), 3).await.results);
        assert_eq!(refused.error_code, code(error), "{topic:?}: {:?}", refused.error_message);
    }
    let checked = add(ask(5, None)).with_validate_only(true);
    assert_eq!(only(client.ask(&checked, 3).await.results).error_code, 0);
    assert_eq!(node.log.get("t").unwrap().spec().streamlets, 2);
    for (version, count) in (0..=3).zip(3..) {
        let nodes = Some(vec![vec![1]]);
        let added = only(client.ask(&add(ask(count, nodes)), version).await.results);
        assert_eq!(added.error_code, 0, "{:?}", added.error_message);
        let answer = client.produce("t", count - 1, chunk(&["after"])).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, 0));
    }
    assert_eq!(values(&client.fetch("t", 1, 0, 0).await.records), [(0, "before".into())]);
    let spec = node.log.get("t").unwrap().spec();
    assert_eq!(spec.retention.time.unwrap().0, 777_000, "other settings stay");
    client.create("u", 1).await;
    let topics = [ask(9, None), ask(2, None).with_name(text("u")), ask(9, None), ask(8, None)];
    let twice = CreatePartitionsRequestData::default().with_topics(topics.to_vec());
    let results = client.ask(&twice, 3).await.results;
    let told: Vec<_> = results.iter().map(|it| (it.name.as_str(), it.error_code)).collect();
    assert_eq!(told, [("t", code(ErrorCode::InvalidRequest)), ("u", 0)], "each once");
    assert_eq!(node.log.get("u").unwrap().spec().streamlets, 2);
}

#[tokio::test]
async fn records_are_deleted_up_to_an_offset() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 2).await;
    for _ in 0..5 {
        client.produce("t", 0, chunk(&["a", "b"])).await;
    }
    let ask = |topic: &str, partition: i32, offset: i64| {
        let partition =
            DeleteRecordsPartition::default().with_partition_index(partition).with_offset(offset);
        let topic =
            DeleteRecordsTopic::default().with_name(text(topic)).with_partitions(vec![partition]);
        DeleteRecordsRequestData::default().with_topics(vec![topic])
    };
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let cases = [
        (ask("t", 0, 3), Ok(3)),
        (ask("t", 0, 3), Ok(3)),
        (ask("t", 0, 1), Ok(3)),
        (ask("t", 0, 11), Err(ErrorCode::OffsetOutOfRange)),
        (ask("t", 0, -2), Err(ErrorCode::OffsetOutOfRange)),
        (ask("t", 0, i64::MIN), Err(ErrorCode::OffsetOutOfRange)),
        (ask("t", 2, 0), Err(unknown)),
        (ask("t", -1, 0), Err(unknown)),
        (ask("u", 0, 0), Err(unknown)),
        (ask("t", 1, -1), Ok(0)),
        (ask("t", 0, -1), Ok(10)),
    ];
    for (request, expected) in cases {
        for version in 0..=2 {
            let answer = only(only(client.ask(&request, version).await.topics).partitions);
            let outcome = (answer.error_code, answer.low_watermark);
            let expected = expected.map_or_else(|error| (code(error), -1), |low| (0, low));
            assert_eq!(outcome, expected, "{request:?}");
        }
    }
    let answer = client.fetch("t", 0, 9, 0).await;
    assert_eq!(answer.error_code, code(ErrorCode::OffsetOutOfRange));
    assert_eq!(client.fetch("t", 0, 10, 0).await.log_start_offset, 10);
    assert_eq!(client.offset("t", -2).await, (10, -1));
}

#[tokio::test]
async fn the_cluster_and_its_folder_are_described() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for version in 0..=2 {
        let request = DescribeClusterRequestData::default()
            .with_include_cluster_authorized_operations(version > 0)
            .with_endpoint_type(1);
        let answer = client.ask(&request, version).await;
        assert_eq!((answer.error_code, answer.controller_id), (0, 1));
        let broker = only(answer.brokers);
        assert_eq!(broker.port, i32::from(node.address().port()));
        assert_eq!(answer.cluster_authorized_operations == i32::MIN, version == 0);
    }
    for (kind, error) in
        [(2, ErrorCode::MismatchedEndpointType), (3, ErrorCode::UnsupportedEndpointType)]
    {
        let others = DescribeClusterRequestData::default().with_endpoint_type(kind);
        assert_eq!(client.ask(&others, 1).await.error_code, code(error));
    }

    client.create("t", 2).await;
    client.create("u", 1).await;
    client.produce("t", 1, chunk(&[&"v".repeat(10_000)])).await;
    for version in 1..=4 {
        let all = DescribeLogDirsRequestData::default().with_topics(None);
        let folder = only(client.ask(&all, version).await.results);
        assert_eq!(folder.error_code, 0);
        assert_eq!(folder.log_dir.as_str(), node.log.folder().to_string_lossy());
        assert!(std::path::Path::new(folder.log_dir.as_str()).is_absolute());
        assert_eq!(folder.topics.iter().map(|it| it.partitions.len()).sum::<usize>(), 3);
        let sizes: Vec<i64> =
            folder.topics[0].partitions.iter().map(|it| it.partition_size).collect();
        assert!(sizes[0] == 0 && sizes[1] > 10_000, "{sizes:?}");
        if version >= 4 {
            assert!(folder.total_bytes >= folder.usable_bytes && folder.usable_bytes > 0);
        }
        let one = |name: &str, partitions: Vec<i32>| {
            DescribableLogDirTopic::default().with_topic(text(name)).with_partitions(partitions)
        };
        let some = vec![one("t", vec![1, 1, 9]), one("gone", vec![0])];
        let request = DescribeLogDirsRequestData::default().with_topics(Some(some));
        let topic = only(only(client.ask(&request, version).await.results).topics);
        assert_eq!(only(topic.partitions).partition_index, 1);
    }
}

#[tokio::test]
async fn partitions_are_described_in_pieces() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for (name, partitions) in [("a", 3), ("b", 1), ("c", 4)] {
        client.create(name, partitions).await;
    }
    let topic = |name: &str| {
        describe_topic_partitions_request::TopicRequest::default().with_name(text(name))
    };
    let (mut cursor, mut seen, mut rounds) = (None, Vec::new(), 0);
    loop {
        let request = DescribeTopicPartitionsRequestData::default()
            .with_topics(["c", "a", "gone", "b"].map(topic).to_vec())
            .with_response_partition_limit(2)
            .with_cursor(cursor.take());
        let answer = client.ask(&request, 0).await;
        for topic in answer.topics {
            let name = topic.name.unwrap();
            // Read, write, create, delete, alter, describe, describe and alter configs.
            let allowed = if topic.error_code == 0 { 0b1101_1111_1000 } else { i32::MIN };
            assert_eq!(topic.topic_authorized_operations, allowed);
            if topic.error_code != 0 {
                assert_eq!(topic.error_code, code(ErrorCode::UnknownTopicOrPartition));
                seen.push((name.to_string(), -1));
            }
            let partitions = topic.partitions.iter().map(|it| it.partition_index);
            seen.extend(partitions.map(|it| (name.to_string(), it)));
        }
        rounds += 1;
        let Some(next) = answer.next_cursor else { break };
        let next = Cursor::default()
            .with_topic_name(next.topic_name)
            .with_partition_index(next.partition_index);
        cursor = Some(Box::new(next));
    }
    let expected: Vec<(String, i32)> = [("a", 0..3), ("b", 0..1), ("c", 0..4), ("gone", -1..0)]
        .into_iter()
        .flat_map(|(name, range)| range.map(move |it| (name.to_owned(), it)))
        .collect();
    assert_eq!(seen, expected);
    assert!(rounds >= 4);
    let all = DescribeTopicPartitionsRequestData::default().with_response_partition_limit(i32::MIN);
    let answer = client.ask(&all, 0).await;
    assert_eq!(only(answer.topics).partitions.len(), 1, "there is always some progress");
    for (names, told) in [(vec!["a", "gone"], vec!["a", "gone"]), (vec![], vec![])] {
        let nowhere = Cursor::default().with_topic_name(text("a")).with_partition_index(-1);
        let request = DescribeTopicPartitionsRequestData::default()
            .with_topics(names.into_iter().map(topic).collect())
            .with_response_partition_limit(9)
            .with_cursor(Some(Box::new(nowhere)));
        let answer = client.ask(&request, 0).await;
        let topics = answer.topics.into_iter();
        let refused = topics.map(|it| (it.name.unwrap(), it.error_code, it.partitions.len()));
        let invalid = code(ErrorCode::InvalidRequest);
        let expected: Vec<_> = told.into_iter().map(|it| (text(it), invalid, 0)).collect();
        assert_eq!(refused.collect::<Vec<_>>(), expected);
        assert!(answer.next_cursor.is_none());
    }
}

#[tokio::test]
async fn the_one_epoch_goes_on() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    client.produce("t", 0, chunk(&["a", "b"])).await;
    let cases = [
        (0, -1, 0, (0, 0, 2)),
        (0, 0, 0, (0, 0, 2)),
        (0, -1, 5, (0, -1, -1)),
        (0, -1, -1, (0, -1, -1)),
        (0, 1, 0, (code(ErrorCode::UnknownLeaderEpoch), -1, -1)),
        (3, -1, 0, (code(ErrorCode::UnknownTopicOrPartition), -1, -1)),
    ];
    for (partition, current, epoch, expected) in cases {
        for version in 2..=4 {
            let place = OffsetForLeaderPartition::default()
                .with_partition(partition)
                .with_current_leader_epoch(current)
                .with_leader_epoch(epoch);
            let topic =
                OffsetForLeaderTopic::default().with_topic(text("t")).with_partitions(vec![place]);
            let request = OffsetForLeaderEpochRequestData::default()
                .with_replica_id(-1)
                .with_topics(vec![topic]);
            let answer = only(only(client.ask(&request, version).await.topics).partitions);
            assert_eq!((answer.error_code, answer.leader_epoch, answer.end_offset), expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_for_a_topic_makes_it_if_that_is_allowed() {
    let node = Node::start_with(|how| {
        how.settings.partitions = 3;
        let defaults = StreamSpec { active_groups: 2, ..StreamSpec::default() };
        how.options.defaults = defaults;
    })
    .await;
    let ask = |names: &[&str], create: bool| {
        let topic = |it: &&str| MetadataRequestTopic::default().with_name(Some(text(it)));
        MetadataRequestData::default()
            .with_topics(Some(names.iter().map(topic).collect()))
            .with_allow_auto_topic_creation(create)
    };
    let mut client = node.client().await;
    let answer = client.ask(&ask(&["a"], false), 12).await;
    let unknown = code(ErrorCode::UnknownTopicOrPartition);
    assert_eq!(only(answer.topics).error_code, unknown);
    let answer = client.ask(&ask(&["a", "a", "b c"], true), 12).await;
    let found: Vec<_> =
        answer.topics.iter().map(|it| (it.error_code, it.partitions.len())).collect();
    assert_eq!(found, [(0, 3), (code(ErrorCode::InvalidTopicException), 0)], "each once");
    assert_eq!(node.log.get("a").unwrap().spec().active_groups, 2);
    // Many at once want the same one: it is made once.
    let mut tasks = Vec::new();
    for _ in 0..8 {
        let (mut client, request) = (node.client().await, ask(&["same"], true));
        tasks.push(tokio::spawn(async move { client.ask(&request, 12).await.topics.remove(0) }));
    }
    let mut ids = Vec::new();
    for task in tasks {
        let topic = task.await.unwrap();
        assert_eq!(topic.error_code, 0);
        ids.push(topic.topic_id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);

    let node = Node::start_with(|how| how.settings.auto_create = false).await;
    let mut client = node.client().await;
    let answer = client.ask(&ask(&["a"], true), 12).await;
    assert_eq!(only(answer.topics).error_code, unknown);
    assert_eq!(Arc::strong_count(&node.broker) > 0, node.log.list().is_empty());
}

#[tokio::test]
async fn metadata_of_a_topic_are_told_once_and_of_too_many_not_at_all() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 3).await;
    let topic = |name: &str| MetadataRequestTopic::default().with_name(Some(text(name)));
    let asked = vec![topic("t"), topic("none"), topic("t")];
    let mut request = MetadataRequestData::default().with_topics(Some(asked));
    for version in [1, 9, 13] {
        let topics = client.ask(&request, version).await.topics;
        let names: Vec<_> = topics.iter().filter_map(|it| it.name.as_ref()).collect();
        assert_eq!(names, [&text("t"), &text("none")], "version {version}");
    }
    request.topics = Some(vec![topic("t"); 200_001]);
    for version in [9, 13] {
        let answer = client.ask(&request, version).await;
        let invalid = code(ErrorCode::InvalidRequest);
        assert_eq!(answer.error_code, if version == 13 { invalid } else { 0 });
        assert_eq!(only(answer.topics).error_code, invalid, "version {version}");
    }
    node.stop().await;
}

/// Java's admin client says an empty name beside the id.
#[tokio::test]
async fn metadata_are_told_by_id_beside_an_empty_name() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let (t, nobody) = (client.create("t", 3).await, KafkaUuid::from_parts(3, 4));
    let ask = |name: Option<&str>, id: KafkaUuid| {
        MetadataRequestTopic::default().with_name(name.map(text)).with_topic_id(id)
    };
    for version in [12, 13] {
        for name in [None, Some("")] {
            let topics = vec![ask(name, t), ask(name, nobody), ask(None, t)];
            let request = MetadataRequestData::default()
                .with_topics(Some(topics))
                .with_allow_auto_topic_creation(true);
            let found = client.ask(&request, version).await.topics;
            let found: Vec<_> = found
                .iter()
                .map(|it| (it.error_code, it.name.clone(), it.topic_id, it.partitions.len()))
                .collect();
            let unknown = (code(ErrorCode::UnknownTopicId), None, nobody, 0);
            assert_eq!(found, [(0, Some(text("t")), t, 3), unknown], "{name:?}");
        }
    }
    assert_eq!(node.log.list().len(), 1, "an empty name beside an id makes no topic");
    node.stop().await;
}

/// As a broker of Kafka without an authorizer says it, for tools that ask all the same.
#[tokio::test]
async fn rules_of_access_are_told_to_be_switched_off() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let disabled = code(ErrorCode::SecurityDisabled);
    for version in known_versions(ApiKey::DescribeAcls) {
        let answer = client.ask(&DescribeAclsRequestData::default(), version).await;
        assert_eq!((answer.error_code, answer.resources.len()), (disabled, 0));
        assert!(answer.error_message.unwrap().as_str().contains("no authorization"));

        let creations = vec![AclCreation::default().with_resource_name(text("t")); 3];
        let request = CreateAclsRequestData::default().with_creations(creations);
        let results = client.ask(&request, version).await.results;
        assert_eq!(results.iter().map(|it| it.error_code).collect::<Vec<_>>(), [disabled; 3]);

        let request =
            DeleteAclsRequestData::default().with_filters(vec![DeleteAclsFilter::default(); 2]);
        let results = client.ask(&request, version).await.filter_results;
        assert_eq!(results.iter().map(|it| it.error_code).collect::<Vec<_>>(), [disabled; 2]);
    }
    node.stop().await;
}

#[tokio::test]
async fn nobody_is_elected_as_all_partitions_are_led() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 2).await;
    let topic = |name: &str, partitions: &[i32]| {
        elect_leaders_request::TopicPartitions::default()
            .with_topic(text(name))
            .with_partitions(partitions.to_vec())
    };
    let (led, unknown) =
        (code(ErrorCode::ElectionNotNeeded), code(ErrorCode::UnknownTopicOrPartition));
    for version in known_versions(ApiKey::ElectLeaders) {
        let topics = vec![topic("t", &[0, 1, 2, -1]), topic("gone", &[0])];
        let request = ElectLeadersRequestData::default().with_topic_partitions(Some(topics));
        let answer = client.ask(&request, version).await;
        assert_eq!(answer.error_code, 0);
        let told = answer.replica_election_results.iter().map(|it| {
            let of_partition = |it: &elect_leaders_response::PartitionResult| {
                let why = it.error_message.as_ref().map(ToString::to_string);
                (it.error_code, why.unwrap_or_default())
            };
            (it.topic.as_str(), it.partition_result.iter().map(of_partition).collect())
        });
        let told: Vec<(&str, Vec<(i16, String)>)> = told.collect();
        let led = (led, "this node leads the partition already".to_owned());
        let no_partition = (unknown, "the topic has no such partition".to_owned());
        let no_topic = (unknown, "there is no such topic".to_owned());
        let of_t = vec![led.clone(), led, no_partition.clone(), no_partition];
        assert_eq!(told, [("t", of_t), ("gone", vec![no_topic])]);
        let all = ElectLeadersRequestData::default().with_topic_partitions(None);
        assert!(client.ask(&all, version).await.replica_election_results.is_empty());
    }
    node.stop().await;
}

#[tokio::test]
async fn partitions_can_be_moved_to_where_they_are_alone() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let cases = [
        (0, Some(vec![1]), ErrorCode::None),
        (0, Some(vec![2]), ErrorCode::InvalidReplicaAssignment),
        (0, Some(vec![1, 2]), ErrorCode::InvalidReplicaAssignment),
        (0, Some(vec![]), ErrorCode::InvalidReplicaAssignment),
        (0, None, ErrorCode::NoReassignmentInProgress),
        (1, Some(vec![1]), ErrorCode::UnknownTopicOrPartition),
        (-1, None, ErrorCode::UnknownTopicOrPartition),
    ];
    for (index, replicas, error) in cases {
        let partition = ReassignablePartition::default()
            .with_partition_index(index)
            .with_replicas(replicas.clone());
        let topic =
            ReassignableTopic::default().with_name(text("t")).with_partitions(vec![partition]);
        let request = AlterPartitionReassignmentsRequestData::default().with_topics(vec![topic]);
        for version in known_versions(ApiKey::AlterPartitionReassignments) {
            let answer = client.ask(&request, version).await;
            let told = only(only(answer.responses).partitions);
            assert_eq!((answer.error_code, told.error_code), (0, code(error)), "{replicas:?}");
            let says_why = ![ErrorCode::None, ErrorCode::NoReassignmentInProgress].contains(&error);
            assert_eq!(told.error_message.is_some(), says_why, "{index} {replicas:?}");
        }
    }
    let listed = client.ask(&ListPartitionReassignmentsRequestData::default(), 0).await;
    assert_eq!((listed.error_code, listed.topics.len()), (0, 0));
    node.stop().await;
}

#[tokio::test]
async fn there_are_no_quotas() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for version in known_versions(ApiKey::DescribeClientQuotas) {
        let answer = client.ask(&DescribeClientQuotasRequestData::default(), version).await;
        assert_eq!((answer.error_code, answer.entries), (0, Some(Vec::new())));
    }
    node.stop().await;
}

#[tokio::test]
async fn partitions_are_in_the_one_folder_and_cannot_be_moved_to_another() {
    use alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 2).await;
    let topic = |name: &str, partitions: Vec<i32>| {
        AlterReplicaLogDirTopic::default().with_name(text(name)).with_partitions(partitions)
    };
    let here = node.log.folder().to_string_lossy().into_owned();
    for version in 1..=2 {
        let dir = |path: &str, topics: Vec<AlterReplicaLogDirTopic>| {
            AlterReplicaLogDir::default().with_path(text(path)).with_topics(topics)
        };
        let dirs = vec![
            dir(&here, vec![topic("t", vec![0, 7]), topic("gone", vec![0])]),
            dir("/elsewhere", vec![topic("t", vec![1])]),
        ];
        let request = AlterReplicaLogDirsRequestData::default().with_dirs(dirs);
        let results = client.ask(&request, version).await.results;
        let told: Vec<(&str, Vec<(i32, i16)>)> = results
            .iter()
            .map(|it| {
                let partitions = it.partitions.iter();
                let partitions = partitions.map(|it| (it.partition_index, it.error_code));
                (it.topic_name.as_str(), partitions.collect())
            })
            .collect();
        let unknown = code(ErrorCode::UnknownTopicOrPartition);
        let no_folder = code(ErrorCode::LogDirNotFound);
        let of_t = vec![(0, 0), (7, unknown), (1, no_folder)];
        assert_eq!(told, [("gone", vec![(0, unknown)]), ("t", of_t)]);
    }
    node.stop().await;
}

#[tokio::test]
async fn the_quorum_of_the_metadata_is_this_node() {
    use describe_quorum_request::{PartitionData, TopicData};
    let node = Node::start().await;
    let mut client = node.client().await;
    for version in 0..=2 {
        let ask = |name: &str, index: i32| {
            let partition = PartitionData::default().with_partition_index(index);
            TopicData::default().with_topic_name(text(name)).with_partitions(vec![partition])
        };
        let topics = vec![ask("__cluster_metadata", 0), ask("__cluster_metadata", 1), ask("t", 0)];
        let request = DescribeQuorumRequestData::default().with_topics(topics);
        let answer = client.ask(&request, version).await;
        assert_eq!((answer.error_code, answer.topics.len()), (0, 3));
        let told: Vec<_> = answer.topics.iter().map(|it| it.partitions[0].clone()).collect();
        assert_eq!((told[0].error_code, told[0].leader_id, told[0].leader_epoch), (0, 1, 1));
        let voters: Vec<i32> = told[0].current_voters.iter().map(|it| it.replica_id).collect();
        assert_eq!((voters, told[0].observers.len()), (vec![1], 0));
        let unknown = code(ErrorCode::UnknownTopicOrPartition);
        assert_eq!((told[1].error_code, told[2].error_code), (unknown, unknown));
        if version >= 2 {
            let node_told = only(answer.nodes);
            let listener = only(node_told.listeners);
            assert_eq!((node_told.node_id, listener.port), (1, node.address().port()));
            assert_eq!(listener.name.as_str(), "PLAINTEXT");
            assert!(told[1].error_message.is_some());
        }
    }
    node.stop().await;
}
