//! The cluster: one node, which leads everything.

use crate::api::Context;
use tidemill_wire::kafka::{
    ErrorCode, KafkaString,
    message::{
        DescribeClusterBroker, DescribeClusterRequestData, DescribeClusterResponseData,
        DescribeQuorumRequestData, DescribeQuorumResponseData,
        describe_quorum_response::{Listener, Node, PartitionData, ReplicaState, TopicData},
    },
    text,
};

/// The topic by which clients ask for the quorum of the metadata. (KIP-595.)
const METADATA_TOPIC: &str = "__cluster_metadata";
/// The first version of DescribeQuorum with nodes and messages. (KIP-853.)
const NODES_FROM_VERSION: i16 = 2;

/// Brokers are asked for, not controllers.
const BROKERS: i8 = 1;
/// Controllers are.
const CONTROLLERS: i8 = 2;

/// Operations on the cluster that a client may do, a bit each: create, alter, describe, cluster
/// action, describe and alter configs, idempotent write. Without authorization all are allowed.
pub(crate) const CLUSTER_OPERATIONS: i32 =
    1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;
/// As [`CLUSTER_OPERATIONS`], with a topic: read, write, create, delete, alter, describe, describe
/// and alter configs.
pub(crate) const TOPIC_OPERATIONS: i32 =
    1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;
/// The client did not ask for its operations.
pub(crate) const NOT_ASKED: i32 = i32::MIN;

/// Describes the cluster.
pub(crate) async fn describe(
    context: &Context<'_>,
    request: DescribeClusterRequestData,
) -> DescribeClusterResponseData {
    let broker = context.broker;
    if context.version() >= 1 && request.endpoint_type != BROKERS {
        let why = "this is a broker: ask for brokers (endpoint type 1)";
        let error = match request.endpoint_type {
            CONTROLLERS => ErrorCode::MismatchedEndpointType,
            _ => ErrorCode::UnsupportedEndpointType,
        };
        return DescribeClusterResponseData {
            error_code: error.code(),
            error_message: Some(text(why)),
            endpoint_type: BROKERS,
            ..DescribeClusterResponseData::default()
        };
    }
    let (host, port) = broker.advertised();
    let node = DescribeClusterBroker {
        broker_id: broker.settings.node_id.0,
        host: text(&host),
        port: i32::from(port),
        ..DescribeClusterBroker::default()
    };
    let operations = request.include_cluster_authorized_operations;
    DescribeClusterResponseData {
        endpoint_type: BROKERS,
        cluster_id: text(broker.cluster_id()),
        controller_id: broker.settings.node_id.0,
        brokers: vec![node],
        cluster_authorized_operations: if operations { CLUSTER_OPERATIONS } else { NOT_ASKED },
        ..DescribeClusterResponseData::default()
    }
}

/// Describes the quorum of the metadata: this node is its only voter, and leads it under its
/// incarnation. Its log is not counted in offsets, so all of them are 0.
pub(crate) async fn quorum(
    context: &Context<'_>,
    request: DescribeQuorumRequestData,
) -> DescribeQuorumResponseData {
    let broker = context.broker;
    let node_id = broker.settings.node_id.0;
    let has_nodes = context.version() >= NODES_FROM_VERSION;
    let unknown = text("the metadata have one partition, `__cluster_metadata` 0");
    let partition = |topic: &KafkaString, partition_index: i32| {
        if topic.as_str() != METADATA_TOPIC || partition_index != 0 {
            return PartitionData {
                partition_index,
                error_code: ErrorCode::UnknownTopicOrPartition.code(),
                error_message: has_nodes.then(|| unknown.clone()),
                leader_id: -1,
                leader_epoch: -1,
                high_watermark: -1,
                ..PartitionData::default()
            };
        }
        let voter = ReplicaState { replica_id: node_id, ..ReplicaState::default() };
        PartitionData {
            partition_index,
            leader_id: node_id,
            leader_epoch: i32::try_from(broker.log.incarnation().0).unwrap_or(i32::MAX),
            current_voters: vec![voter],
            ..PartitionData::default()
        }
    };
    let topics = request.topics.into_iter().map(|asked| TopicData {
        partitions: asked
            .partitions
            .iter()
            .map(|it| partition(&asked.topic_name, it.partition_index))
            .collect(),
        topic_name: asked.topic_name,
        ..TopicData::default()
    });
    let topics = topics.collect();
    let (host, port) = broker.advertised();
    let listener =
        Listener { name: text("PLAINTEXT"), host: text(&host), port, ..Listener::default() };
    let node = Node { node_id, listeners: vec![listener], ..Node::default() };
    DescribeQuorumResponseData {
        topics,
        nodes: if has_nodes { vec![node] } else { Vec::new() },
        ..DescribeQuorumResponseData::default()
    }
}
