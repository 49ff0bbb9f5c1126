//! Metadata: topics, their partitions, and this node as leader of all.

use crate::{api::Context, topic::Topic};
use std::sync::Arc;
use tidemill_log::LogError;
use tidemill_wire::kafka::{
    ErrorCode, KafkaString, KafkaUuid,
    message::{
        MetadataRequestData, MetadataResponseBroker, MetadataResponseData,
        MetadataResponsePartition, MetadataResponseTopic,
    },
    text,
};

/// Answers with all topics, or those asked for.
pub(crate) async fn answer(
    context: &Context<'_>,
    request: MetadataRequestData,
) -> MetadataResponseData {
    let broker = context.broker;
    let (host, port) = broker.advertised();
    let node = MetadataResponseBroker {
        node_id: broker.settings.node_id,
        host: text(&host),
        port: i32::from(port),
        ..MetadataResponseBroker::default()
    };
    let all = match &request.topics {
        None => true,
        // The oldest version says so with no topics.
        Some(topics) => topics.is_empty() && context.version() == 0,
    };
    let topics = if all {
        let names = broker.log.list();
        names
            .iter()
            .filter_map(|it| broker.topic(it.name()))
            .map(|it| found(context, &it))
            .collect()
    } else {
        let create = request.allow_auto_topic_creation || context.version() < 4;
        let asked = request.topics.unwrap_or_default();
        asked.into_iter().map(|it| one(context, it.name, it.topic_id, create)).collect()
    };
    MetadataResponseData {
        brokers: vec![node],
        cluster_id: Some(text(broker.cluster_id())),
        controller_id: broker.settings.node_id,
        topics,
        ..MetadataResponseData::default()
    }
}

fn one(
    context: &Context<'_>,
    name: Option<KafkaString>,
    id: KafkaUuid,
    create: bool,
) -> MetadataResponseTopic {
    let broker = context.broker;
    let missing = |error: ErrorCode| MetadataResponseTopic {
        error_code: error.code(),
        name: name.clone(),
        topic_id: id,
        ..MetadataResponseTopic::default()
    };
    let Some(name_given) = &name else {
        return match broker.topics.get_by_id(&broker.log, id) {
            Some(topic) => found(context, &topic),
            None => missing(ErrorCode::UnknownTopicId),
        };
    };
    let topic = match broker.topic(name_given.as_str()) {
        Some(topic) => Ok(topic),
        None if create => broker.topic_or_new(name_given.as_str()),
        None => Err(LogError::Unknown(String::new())),
    };
    match topic {
        Ok(topic) => found(context, &topic),
        Err(LogError::Name(_)) => missing(ErrorCode::InvalidTopicException),
        Err(LogError::Unknown(_)) => missing(ErrorCode::UnknownTopicOrPartition),
        Err(error) => {
            tracing::warn!(topic = name_given.as_str(), %error, "a topic could not be made");
            missing(ErrorCode::LeaderNotAvailable)
        }
    }
}

fn found(context: &Context<'_>, topic: &Arc<Topic>) -> MetadataResponseTopic {
    let node = context.broker.settings.node_id;
    let partition = |index: i32| MetadataResponsePartition {
        partition_index: index,
        leader_id: node,
        leader_epoch: 0,
        replica_nodes: vec![node],
        isr_nodes: vec![node],
        ..MetadataResponsePartition::default()
    };
    MetadataResponseTopic {
        name: Some(text(topic.stream.name())),
        topic_id: topic.id(),
        is_internal: false,
        partitions: (0..topic.partition_count()).map(partition).collect(),
        ..MetadataResponseTopic::default()
    }
}
