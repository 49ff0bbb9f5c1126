//! Requests that name one thing many times: what they look at is answered once.

use super::{client::*, groups::commit, node::Node};
use tidemill_wire::kafka::{
    ErrorCode, KafkaUuid,
    message::{describe_producers_request::TopicRequest, *},
    text,
};

const TIMES: usize = 1_000;

/// A node with the topic `t`, and its id.
async fn node() -> (Node, Client, KafkaUuid) {
    let node = Node::start().await;
    let mut client = node.client().await;
    let id = client.create("t", 2).await;
    (node, client, id)
}

#[tokio::test]
async fn settings_are_described_once() {
    let (node, mut client, _) = node().await;
    let of = |kind, name| {
        DescribeConfigsResource::default().with_resource_type(kind).with_resource_name(text(name))
    };
    let mut resources = vec![of(2, "t"); TIMES];
    resources.extend(vec![of(4, "1"); TIMES]);
    resources.extend(vec![of(2, "u"); TIMES]);
    let request = DescribeConfigsRequestData::default()
        .with_resources(resources)
        .with_include_documentation(true);
    let results = client.ask(&request, 4).await.results;
    let told: Vec<_> =
        results.iter().map(|it| (it.resource_name.as_str(), it.error_code)).collect();
    assert_eq!(told, [("t", 0), ("1", 0), ("u", code(ErrorCode::UnknownTopicOrPartition))]);
    node.stop().await;
}

#[tokio::test]
async fn groups_and_transactions_are_described_once() {
    let (node, mut client, _) = node().await;
    let mut names = vec![text("a"); TIMES];
    names.extend(vec![text("b"); TIMES]);
    let request = DescribeGroupsRequestData::default().with_groups(names.clone());
    let groups = client.ask(&request, 5).await.groups;
    assert_eq!(groups.iter().map(|it| it.group_id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let request = DescribeTransactionsRequestData::default().with_transactional_ids(names.clone());
    assert_eq!(client.ask(&request, 0).await.transaction_states.len(), 2);
    let request = FindCoordinatorRequestData::default().with_coordinator_keys(names.clone());
    assert_eq!(client.ask(&request, 4).await.coordinators.len(), 2);
    let request = ListTransactionsRequestData::default().with_state_filters(names);
    assert_eq!(client.ask(&request, 0).await.unknown_state_filters.len(), 2);
    node.stop().await;
}

#[tokio::test]
async fn producers_of_a_partition_are_described_once() {
    let (node, mut client, _) = node().await;
    let topic = TopicRequest::default().with_name(text("t")).with_partition_indexes(vec![0; TIMES]);
    let again = topic.clone().with_partition_indexes(vec![0, 1]);
    let request = DescribeProducersRequestData::default().with_topics(vec![topic, again]);
    let topics = client.ask(&request, 0).await.topics;
    let told: Vec<Vec<i32>> = topics
        .iter()
        .map(|it| it.partitions.iter().map(|it| it.partition_index).collect())
        .collect();
    assert_eq!(told, [[0], [1]]);
    node.stop().await;
}

#[tokio::test]
async fn offsets_are_told_once() {
    let (node, mut client, id) = node().await;
    assert_eq!(commit(&mut client, "g", ("", -1), ("t", id), 7, 8).await, ErrorCode::None);
    let topic = OffsetFetchRequestTopic::default()
        .with_name(text("t"))
        .with_partition_indexes(vec![0; TIMES]);
    let request = OffsetFetchRequestData::default()
        .with_group_id(text("g"))
        .with_topics(Some(vec![topic; 3]));
    assert_eq!(only(only(client.ask(&request, 7).await.topics).partitions).committed_offset, 7);

    for version in [9, 10] {
        let topic = OffsetFetchRequestTopics::default().with_partition_indexes(vec![0; TIMES]);
        let topic = if version == 9 { topic.with_name(text("t")) } else { topic.with_topic_id(id) };
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(text("g"))
            .with_topics(Some(vec![topic; 3]));
        let request = OffsetFetchRequestData::default().with_groups(vec![group; 3]);
        let group = only(client.ask(&request, version).await.groups);
        assert_eq!(only(only(group.topics).partitions).committed_offset, 7);
    }
    let all = OffsetFetchRequestGroup::default().with_group_id(text("g")).with_topics(None);
    let request = OffsetFetchRequestData::default().with_groups(vec![all; TIMES]);
    only(only(client.ask(&request, 9).await.groups).topics);
    node.stop().await;
}

#[tokio::test]
async fn a_topic_by_its_name_is_described_once_whatever_ids_stand_beside_it() {
    let (node, mut client, id) = node().await;
    let named = |at: usize| {
        let id = KafkaUuid::from_parts(0, at as _);
        MetadataRequestTopic::default().with_name(Some(text("t"))).with_topic_id(id)
    };
    let topics = (0..TIMES).map(named).collect();
    let request = MetadataRequestData::default().with_topics(Some(topics));
    assert_eq!(only(client.ask(&request, 12).await.topics).topic_id, id);
    node.stop().await;
}

#[tokio::test]
async fn a_partition_is_asked_for_one_time_alone() {
    let (node, mut client, _) = node().await;
    let at = |index, time| {
        ListOffsetsPartition::default().with_partition_index(index).with_timestamp(time)
    };
    let topic = ListOffsetsTopic::default().with_name(text("t")).with_partitions(vec![
        at(0, -1),
        at(1, -1),
        at(0, -2),
    ]);
    let request = ListOffsetsRequestData::default().with_topics(vec![topic]);
    let partitions = only(client.ask(&request, 8).await.topics).partitions;
    let told: Vec<_> = partitions.iter().map(|it| (it.partition_index, it.error_code)).collect();
    let refused = code(ErrorCode::InvalidRequest);
    assert_eq!(told, [(0, refused), (1, 0), (0, refused)], "as Kafka does it");
    node.stop().await;
}

#[tokio::test]
async fn more_topics_than_one_request_makes_are_not_even_tried() {
    let (node, mut client, _) = node().await;
    let topics = (0..10_001).map(|it| new_topic(&format!("t{it}"), 1, &[])).collect();
    let request = CreateTopicsRequestData::default().with_topics(topics).with_validate_only(true);
    let told = client.ask(&request, 7).await.topics;
    assert_eq!(told.len(), 10_001);
    let refused = code(ErrorCode::PolicyViolation);
    assert!(told.iter().all(|it| it.error_code == refused && it.configs == Some(vec![])));
    node.stop().await;
}

#[tokio::test]
async fn topics_that_do_not_fit_together_are_not_possible_together() {
    let node = Node::start_with(|how| how.options.streamlets_max = 50).await;
    let mut client = node.client().await;
    let topics = (0..3).map(|it| new_topic(&format!("t{it}"), 20, &[])).collect();
    let request = CreateTopicsRequestData::default().with_topics(topics).with_validate_only(true);
    let told = client.ask(&request, 7).await.topics;
    let codes: Vec<i16> = told.iter().map(|it| it.error_code).collect();
    assert_eq!(codes, [0, 0, code(ErrorCode::InvalidPartitions)]);
    node.stop().await;
}

/// The second mention of a resource adds its own requests to the answer.
#[tokio::test]
async fn settings_of_both_mentions_are_described() {
    let (node, mut client, _) = node().await;
    let of = |keys: Option<Vec<&str>>| {
        DescribeConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text("t"))
            .with_configuration_keys(keys.map(|it| it.into_iter().map(text).collect()))
    };
    let two = vec![of(Some(vec!["retention.ms"])), of(Some(vec!["segment.bytes"]))];
    let request = DescribeConfigsRequestData::default().with_resources(two.clone());
    let configs = only(client.ask(&request, 4).await.results).configs;
    let names: Vec<_> = configs.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["retention.ms", "segment.bytes"]);
    for all in [None, Some(Vec::new())] {
        let request = request.clone().with_resources([two.clone(), vec![of(all)]].concat());
        assert!(only(client.ask(&request, 4).await.results).configs.len() > 20);
    }
    node.stop().await;
}

#[tokio::test]
async fn offsets_of_both_mentions_of_a_group_are_told() {
    let (node, mut client, id) = node().await;
    let group = |partitions: Option<Vec<i32>>| {
        let topic = |it| {
            OffsetFetchRequestTopics::default().with_name(text("t")).with_partition_indexes(it)
        };
        OffsetFetchRequestGroup::default()
            .with_group_id(text("g"))
            .with_topics(partitions.map(|it| vec![topic(it)]))
    };
    assert_eq!(commit(&mut client, "g", ("", -1), ("t", id), 7, 8).await, ErrorCode::None);
    let groups = vec![group(Some(vec![1])), group(Some(vec![0]))];
    let request = OffsetFetchRequestData::default().with_groups(groups);
    let topics = only(client.ask(&request, 9).await.groups).topics;
    let told: Vec<_> = topics
        .iter()
        .flat_map(|it| &it.partitions)
        .map(|it| (it.partition_index, it.committed_offset))
        .collect();
    assert_eq!(told, [(1, -1), (0, 7)]);
    let groups = vec![group(Some(vec![1])), group(None)];
    let request = OffsetFetchRequestData::default().with_groups(groups);
    let all = only(only(client.ask(&request, 9).await.groups).topics);
    assert_eq!(only(all.partitions).committed_offset, 7);
    node.stop().await;
}
