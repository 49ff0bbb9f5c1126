//! The cluster: one node, which leads everything.

use crate::api::Context;
use tidemill_wire::kafka::{
    ErrorCode,
    message::{DescribeClusterBroker, DescribeClusterRequestData, DescribeClusterResponseData},
    text,
};

/// Brokers are asked for, not controllers.
const BROKERS: i8 = 1;
/// Controllers are.
const CONTROLLERS: i8 = 2;

/// What a client may do with the cluster, as a bit each: there is no authorization yet, so all of
/// it. Create, alter, describe, cluster action, describe and alter configs, idempotent write.
pub(crate) const CLUSTER_OPERATIONS: i32 =
    1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;
/// As [`CLUSTER_OPERATIONS`], with a topic: read, write, create, delete, alter, describe, describe
/// and alter configs.
pub(crate) const TOPIC_OPERATIONS: i32 =
    1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;
/// Nobody asked what is allowed.
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
        broker_id: broker.settings.node_id,
        host: text(&host),
        port: i32::from(port),
        ..DescribeClusterBroker::default()
    };
    let operations = request.include_cluster_authorized_operations;
    DescribeClusterResponseData {
        endpoint_type: BROKERS,
        cluster_id: text(broker.cluster_id()),
        controller_id: broker.settings.node_id,
        brokers: vec![node],
        cluster_authorized_operations: if operations { CLUSTER_OPERATIONS } else { NOT_ASKED },
        ..DescribeClusterResponseData::default()
    }
}
