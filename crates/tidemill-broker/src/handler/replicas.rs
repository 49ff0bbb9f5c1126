//! Leaders and replicas: this node leads every partition and is its only replica, so elections and
//! reassignments change nothing.

use crate::{
    Broker,
    api::Context,
    internal_topic::{INTERNAL_PARTITIONS, InternalTopic},
};
use tidemill_wire::kafka::{
    ErrorCode, KafkaString,
    message::{
        AlterPartitionReassignmentsRequestData, AlterPartitionReassignmentsResponseData,
        ElectLeadersRequestData, ElectLeadersResponseData, ListPartitionReassignmentsRequestData,
        ListPartitionReassignmentsResponseData, ReassignablePartition,
        ReassignablePartitionResponse, ReassignableTopic, ReassignableTopicResponse,
        ReplicaElectionResult, elect_leaders_request::TopicPartitions,
        elect_leaders_response::PartitionResult,
    },
    text,
};

/// The indexes of a topic's partitions, and the error text for all others. The texts name nothing,
/// as a request may name very many.
fn partitions(broker: &Broker, topic: &KafkaString) -> (std::ops::Range<i32>, KafkaString) {
    match broker.topic(topic.as_str()) {
        Some(it) => (0..it.partition_count(), text("the topic has no such partition")),
        None if InternalTopic::named(broker, topic.as_str()).is_some() => {
            (0..INTERNAL_PARTITIONS, text("the topic has no such partition"))
        }
        None => (0..0, text("there is no such topic")),
    }
}

/// Elects nobody: each partition that is named has its leader. Of all partitions, those are told
/// that have another one now: none.
pub(crate) async fn elect(
    context: &Context<'_>,
    request: ElectLeadersRequestData,
) -> ElectLeadersResponseData {
    let led = text("this node leads the partition already");
    let one = |asked: TopicPartitions| {
        let (there, unknown) = partitions(context.broker, &asked.topic);
        let partition = |index: i32| {
            let (error, why) = match there.contains(&index) {
                true => (ErrorCode::ElectionNotNeeded, &led),
                false => (ErrorCode::UnknownTopicOrPartition, &unknown),
            };
            PartitionResult {
                partition_id: index,
                error_code: error.code(),
                error_message: Some(why.clone()),
                ..PartitionResult::default()
            }
        };
        ReplicaElectionResult {
            partition_result: asked.partitions.into_iter().map(partition).collect(),
            topic: asked.topic,
            ..ReplicaElectionResult::default()
        }
    };
    let named = request.topic_partitions.unwrap_or_default();
    ElectLeadersResponseData {
        replica_election_results: named.into_iter().map(one).collect(),
        ..ElectLeadersResponseData::default()
    }
}

/// Moves nothing: a partition is where it is to be, if that is here.
pub(crate) async fn reassign(
    context: &Context<'_>,
    request: AlterPartitionReassignmentsRequestData,
) -> AlterPartitionReassignmentsResponseData {
    let here = context.broker.settings.node_id.0;
    let why = text("this node is the only one: it alone can have a replica");
    let one = |asked: ReassignableTopic| {
        let (there, unknown) = partitions(context.broker, &asked.name);
        let partition = |it: ReassignablePartition| {
            let (error, why) = match it.replicas.as_deref() {
                _ if !there.contains(&it.partition_index) => {
                    (ErrorCode::UnknownTopicOrPartition, Some(unknown.clone()))
                }
                // It is to be moved no more.
                None => (ErrorCode::NoReassignmentInProgress, None),
                Some([node]) if *node == here => (ErrorCode::None, None),
                Some(_) => (ErrorCode::InvalidReplicaAssignment, Some(why.clone())),
            };
            ReassignablePartitionResponse {
                partition_index: it.partition_index,
                error_code: error.code(),
                error_message: why,
                ..ReassignablePartitionResponse::default()
            }
        };
        ReassignableTopicResponse {
            partitions: asked.partitions.into_iter().map(partition).collect(),
            name: asked.name,
            ..ReassignableTopicResponse::default()
        }
    };
    AlterPartitionReassignmentsResponseData {
        allow_replication_factor_change: request.allow_replication_factor_change,
        responses: request.topics.into_iter().map(one).collect(),
        ..AlterPartitionReassignmentsResponseData::default()
    }
}

/// Lists reassignments: there are none.
pub(crate) async fn list_reassignments(
    _: &Context<'_>,
    _: ListPartitionReassignmentsRequestData,
) -> ListPartitionReassignmentsResponseData {
    ListPartitionReassignmentsResponseData::default()
}
