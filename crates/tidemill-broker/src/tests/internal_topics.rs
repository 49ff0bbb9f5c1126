//! `__consumer_offsets` and `__transaction_state`, as clients find them.

use super::{client::*, groups::commit, groups::committed, node::Node};
use tidemill_log::StreamSpec;
use tidemill_wire::kafka::{
    ErrorCode, KafkaUuid,
    message::{
        CreatableTopic, CreatePartitionsRequestData, CreatePartitionsTopic,
        CreateTopicsRequestData, DeleteRecordsPartition, DeleteRecordsRequestData,
        DeleteRecordsTopic, DeleteTopicState, DeleteTopicsRequestData, DescribeConfigsRequestData,
        DescribeConfigsResource, DescribeTopicPartitionsRequestData,
        IncrementalAlterConfigsRequestData, ListConfigResourcesRequestData, MetadataRequestData,
        MetadataRequestTopic, MetadataResponseTopic, OffsetForLeaderEpochRequestData,
        OffsetForLeaderPartition, OffsetForLeaderTopic,
        describe_topic_partitions_request::TopicRequest,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
    },
    text,
};

const OFFSETS: &str = "__consumer_offsets";
const NAMES: [&str; 2] = [OFFSETS, "__transaction_state"];

async fn metadata(
    client: &mut Client,
    topics: Option<Vec<MetadataRequestTopic>>,
) -> Vec<MetadataResponseTopic> {
    let request =
        MetadataRequestData::default().with_topics(topics).with_allow_auto_topic_creation(true);
    client.ask(&request, 12).await.topics
}

fn by_name(name: &str) -> MetadataRequestTopic {
    MetadataRequestTopic::default().with_name(Some(text(name)))
}

#[tokio::test]
async fn they_are_listed_as_internal_and_found_by_name_and_id() {
    let node = Node::start().await;
    let mut client = node.client().await;
    client.create("t", 1).await;
    let all = metadata(&mut client, None).await;
    let told: Vec<_> =
        all.iter().map(|it| (it.name.as_ref().unwrap().as_str(), it.is_internal)).collect();
    assert_eq!(told, [("t", false), (NAMES[0], true), (NAMES[1], true)]);
    for name in NAMES {
        let found = only(metadata(&mut client, Some(vec![by_name(name)])).await);
        assert_eq!((found.error_code, found.is_internal), (0, true), "{name}");
        assert_eq!(only(found.partitions).leader_id, 1);
        assert_ne!(found.topic_id, KafkaUuid::ZERO);
        let by_id = MetadataRequestTopic::default().with_name(None).with_topic_id(found.topic_id);
        let by_id = only(metadata(&mut client, Some(vec![by_id])).await);
        assert_eq!((by_id.name, by_id.is_internal), (Some(text(name)), true));
    }
    assert_eq!(node.log.list().len(), 1, "asking for them made none");

    let request = DescribeTopicPartitionsRequestData::default().with_response_partition_limit(100);
    let described = client.ask(&request, 0).await.topics;
    let told: Vec<_> = described.iter().map(|it| (it.is_internal, it.partitions.len())).collect();
    assert_eq!(told, [(true, 1), (true, 1), (false, 1)], "by name");
    let one = request.with_topics(vec![TopicRequest::default().with_name(text(OFFSETS))]);
    let described = only(client.ask(&one, 0).await.topics);
    assert_eq!((described.error_code, described.is_internal), (0, true));

    let resources = ListConfigResourcesRequestData::default().with_resource_types(vec![2]);
    let resources = client.ask(&resources, 1).await.config_resources;
    assert_eq!(resources.len(), 3);
    let resource = DescribeConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text(OFFSETS))
        .with_configuration_keys(None);
    let request = DescribeConfigsRequestData::default().with_resources(vec![resource]);
    let configs = only(client.ask(&request, 4).await.results).configs;
    let policy = configs.iter().find(|it| it.name.as_str() == "cleanup.policy").unwrap();
    assert_eq!(policy.value, Some(text("compact")));
    node.stop().await;
}

#[tokio::test]
async fn they_cannot_be_made_produced_to_changed_or_deleted() {
    let node = Node::start().await;
    let mut client = node.client().await;
    let refused = code(ErrorCode::InvalidTopicException);
    for name in NAMES {
        let topic: CreatableTopic = new_topic(name, 1, &[]);
        let request = CreateTopicsRequestData::default().with_topics(vec![topic]);
        let made = only(client.ask(&request, 7).await.topics);
        assert_eq!(made.error_code, code(ErrorCode::TopicAlreadyExists), "{name}");

        let produced = client.produce(name, 0, chunk(&["v"])).await;
        assert_eq!(produced.error_code, refused);
        assert!(produced.error_message.unwrap().as_str().contains("internal"));

        let topic = CreatePartitionsTopic::default().with_name(text(name)).with_count(5);
        let request = CreatePartitionsRequestData::default().with_topics(vec![topic]);
        assert_eq!(only(client.ask(&request, 3).await.results).error_code, refused);

        let partition = DeleteRecordsPartition::default().with_offset(0);
        let topic =
            DeleteRecordsTopic::default().with_name(text(name)).with_partitions(vec![partition]);
        let request = DeleteRecordsRequestData::default().with_topics(vec![topic]);
        let deleted = only(only(client.ask(&request, 2).await.topics).partitions);
        assert_eq!(deleted.error_code, refused);

        let config = AlterableConfig::default()
            .with_name(text("retention.ms"))
            .with_value(Some(text("1000")));
        let resource = AlterConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text(name))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequestData::default().with_resources(vec![resource]);
        assert_eq!(only(client.ask(&request, 1).await.responses).error_code, refused);

        let id = only(metadata(&mut client, Some(vec![by_name(name)])).await).topic_id;
        for state in [
            DeleteTopicState::default().with_name(Some(text(name))),
            DeleteTopicState::default().with_name(None).with_topic_id(id),
        ] {
            let request = DeleteTopicsRequestData::default().with_topics(vec![state]);
            let deleted = only(client.ask(&request, 6).await.responses);
            assert_eq!(deleted.error_code, refused, "{name}");
        }
    }
    assert!(node.log.list().is_empty());
    node.stop().await;
}

#[tokio::test]
async fn a_consumer_finds_them_empty() {
    let node = Node::start().await;
    let mut client = node.client().await;
    for (asked, answered) in [(-2, (0, -1)), (-1, (0, -1)), (0, (-1, -1)), (-3, (-1, -1))] {
        assert_eq!(client.offset(OFFSETS, asked).await, answered, "{asked}");
    }
    let fetched = client.fetch(OFFSETS, 0, 0, 50).await;
    assert_eq!((fetched.error_code, fetched.high_watermark, fetched.log_start_offset), (0, 0, 0));
    assert!(fetched.records.is_none_or(|it| it.is_empty()));
    let beyond = client.fetch(OFFSETS, 0, 7, 0).await;
    assert_eq!(beyond.error_code, code(ErrorCode::OffsetOutOfRange));
    let no_such = client.fetch(OFFSETS, 1, 0, 0).await;
    assert_eq!(no_such.error_code, code(ErrorCode::UnknownTopicOrPartition));

    // By id, in a session.
    let id = only(metadata(&mut client, Some(vec![by_name(OFFSETS)])).await).topic_id;
    let mut request = fetch(OFFSETS, 0, 0, 50);
    request.session_epoch = 0;
    request.topics[0].topic_id = id;
    let first = client.ask(&request, 17).await;
    assert_eq!((first.error_code, only(only(first.responses).partitions).error_code), (0, 0));
    request.session_id = first.session_id;
    request.session_epoch = 1;
    request.topics.clear();
    let second = client.ask(&request, 17).await;
    assert_eq!((second.error_code, second.responses.len()), (0, 0));

    let partition = OffsetForLeaderPartition::default().with_leader_epoch(0);
    let topic =
        OffsetForLeaderTopic::default().with_topic(text(OFFSETS)).with_partitions(vec![partition]);
    let request = OffsetForLeaderEpochRequestData::default().with_topics(vec![topic]);
    let end = only(only(client.ask(&request, 4).await.topics).partitions);
    assert_eq!((end.error_code, end.leader_epoch, end.end_offset), (0, 0, 0));

    for version in [8, 10] {
        let topic = (OFFSETS, id);
        assert_eq!(commit(&mut client, "g", ("", -1), topic, 0, version).await, ErrorCode::None);
        let told = committed(&mut client, "g", topic, version).await;
        assert_eq!((told.0, told.2), (0, ErrorCode::None));
    }
    node.stop().await;
}

/// Versions before this let clients make one.
#[tokio::test]
async fn a_stream_of_such_a_name_is_a_topic_like_others() {
    let node = Node::start().await;
    let mut client = node.client().await;
    node.log.create(OFFSETS, StreamSpec { streamlets: 3, ..StreamSpec::default() }).unwrap();
    let found = only(metadata(&mut client, Some(vec![by_name(OFFSETS)])).await);
    assert_eq!((found.is_internal, found.partitions.len()), (false, 3));
    assert_eq!(metadata(&mut client, None).await.len(), 2, "and the other");
    assert_eq!(client.produce(OFFSETS, 2, chunk(&["v"])).await.error_code, 0);
    let state = DeleteTopicState::default().with_name(Some(text(OFFSETS)));
    let request = DeleteTopicsRequestData::default().with_topics(vec![state]);
    assert_eq!(only(client.ask(&request, 6).await.responses).error_code, 0);
    let found = only(metadata(&mut client, Some(vec![by_name(OFFSETS)])).await);
    assert_eq!((found.is_internal, found.partitions.len()), (true, 1));
    node.stop().await;
}
