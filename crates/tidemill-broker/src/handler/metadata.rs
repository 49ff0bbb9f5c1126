//! Metadata: topics, their partitions, and this node as leader of all.

use crate::{
    Broker,
    api::Context,
    handler::{
        cluster::{CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS},
        duplicates::remove_repeated,
        name_collision::NameCollisions,
        thread_pool,
    },
    internal_topic::{INTERNAL_EPOCH, INTERNAL_PARTITIONS, InternalTopic},
    topic::Topic,
};
use std::{collections::BTreeMap, sync::Arc};
use tidemill_log::{LogError, StreamletRole};
use tidemill_wire::kafka::{
    ErrorCode, KafkaString, KafkaUuid,
    message::{
        MetadataRequestData, MetadataRequestTopic, MetadataResponseBroker, MetadataResponseData,
        MetadataResponsePartition, MetadataResponseTopic,
    },
    text,
};

/// Topics that one request may name: as many as a node can have partitions, and more.
const TOPICS_MAX: usize = 200_000;
/// The version from which on topics are asked for by id.
const BY_ID_FROM_VERSION: i16 = 12;

/// The leader of a partition whose leader is not known.
pub(crate) const NO_LEADER: i32 = -1;

/// The outcomes of making topics, by name.
type Made = BTreeMap<String, Result<Arc<Topic>, LogError>>;

/// Answers with all topics, or those asked for; makes them, if that is allowed and wanted.
pub(crate) async fn answer(
    context: &Context<'_>,
    request: MetadataRequestData,
) -> MetadataResponseData {
    let broker = context.broker;
    let (host, port) = broker.advertised();
    let node = MetadataResponseBroker {
        node_id: broker.settings.node_id.0,
        host: text(&host),
        port: i32::from(port),
        ..MetadataResponseBroker::default()
    };
    let operations = |asked, all| if asked { all } else { NOT_ASKED };
    let of_topic = operations(request.include_topic_authorized_operations, TOPIC_OPERATIONS);
    let of_cluster = operations(request.include_cluster_authorized_operations, CLUSTER_OPERATIONS);
    // The oldest version says so with no topics.
    let asked = request.topics.filter(|it| !it.is_empty() || context.version() > 0);
    let topics = match asked {
        None => {
            let all = broker.log.list();
            let all = all.iter().filter_map(|it| broker.topic(it.name()));
            let internal = InternalTopic::all(broker).map(|it| internal(broker, it, of_topic));
            all.map(|it| found(broker, &it, of_topic)).chain(internal).collect()
        }
        Some(asked) if asked.len() > TOPICS_MAX => {
            let error_code = ErrorCode::InvalidRequest.code();
            let named = asked.into_iter().next().and_then(|it| it.name);
            // Older versions have no error but that of a topic.
            let refused = MetadataResponseTopic { error_code, name: named, ..Default::default() };
            return MetadataResponseData {
                error_code,
                topics: vec![refused],
                ..Default::default()
            };
        }
        Some(mut asked) => {
            // Who asks by id says no name, or an empty one as Java's admin client does.
            if context.version() >= BY_ID_FROM_VERSION {
                asked.iter_mut().filter(|it| is_by_id(it)).for_each(|it| it.name = None);
            }
            // Each is answered once, with all of its partitions, however often it is named.
            remove_repeated(&mut asked, |it| match &it.name {
                // Its id does not count then.
                Some(name) => (Some(name.clone()), KafkaUuid::ZERO),
                None => (None, it.topic_id),
            });
            let create = request.allow_auto_topic_creation || context.version() < 4;
            let made = if create { make(broker, &asked).await } else { Made::new() };
            asked.into_iter().map(|it| one(broker, it, &made, of_topic)).collect()
        }
    };
    MetadataResponseData {
        brokers: vec![node],
        cluster_id: Some(text(broker.cluster_id())),
        controller_id: broker.settings.node_id.0,
        topics,
        cluster_authorized_operations: of_cluster,
        ..MetadataResponseData::default()
    }
}

/// True if a topic is asked for by its id. A name beside it takes precedence.
fn is_by_id(asked: &MetadataRequestTopic) -> bool {
    let named = asked.name.as_ref().is_some_and(|it| !it.as_str().is_empty());
    asked.topic_id != KafkaUuid::ZERO && !named
}

/// Makes the topics that are not there.
async fn make(broker: &Arc<Broker>, asked: &[MetadataRequestTopic]) -> Made {
    let names = asked.iter().filter_map(|it| it.name.as_ref());
    let missing = |it: &&KafkaString| {
        let name = it.as_str();
        broker.topic(name).is_none() && InternalTopic::named(broker, name).is_none()
    };
    let names: Vec<String> = names.filter(missing).map(|it| it.as_str().to_owned()).collect();
    if names.is_empty() || !broker.settings.auto_create {
        return Made::new();
    }
    let broker = Arc::clone(broker);
    let make = move || {
        let mut twins = NameCollisions::of(&broker, names.iter().map(String::as_str));
        let made = names.into_iter().map(|name| {
            if twins.check(&name).is_err() {
                return (name.clone(), Err(LogError::Name(name)));
            }
            let made = broker.topic_or_new(&name);
            twins.add(&name);
            (name, made)
        });
        made.collect()
    };
    thread_pool::run(make).await
}

fn one(
    broker: &Broker,
    asked: MetadataRequestTopic,
    made: &Made,
    operations: i32,
) -> MetadataResponseTopic {
    let internal_topic = match &asked.name {
        None => InternalTopic::of_id(broker, asked.topic_id),
        Some(name) => InternalTopic::named(broker, name.as_str()),
    };
    if let Some(topic) = internal_topic {
        return internal(broker, topic, operations);
    }
    let topic = match &asked.name {
        None => {
            broker.topics.get_by_id(&broker.log, asked.topic_id).ok_or(ErrorCode::UnknownTopicId)
        }
        Some(name) => match (broker.topic(name.as_str()), made.get(name.as_str())) {
            (Some(topic), _) => Ok(topic),
            (None, Some(Err(error))) => Err(refused(name.as_str(), error)),
            (None, _) => Err(ErrorCode::UnknownTopicOrPartition),
        },
    };
    match topic {
        Ok(topic) => found(broker, &topic, operations),
        Err(error) => MetadataResponseTopic {
            error_code: error.code(),
            name: asked.name,
            topic_id: asked.topic_id,
            ..MetadataResponseTopic::default()
        },
    }
}

fn refused(name: &str, error: &LogError) -> ErrorCode {
    match error {
        LogError::Name(_) => ErrorCode::InvalidTopicException,
        LogError::Unknown(_) => ErrorCode::UnknownTopicOrPartition,
        // There are as many partitions as there may be.
        LogError::Spec { .. } => {
            tracing::warn!(topic = name, %error, "a topic is not made");
            ErrorCode::UnknownTopicOrPartition
        }
        error => {
            tracing::warn!(topic = name, %error, "a topic could not be made");
            ErrorCode::LeaderNotAvailable
        }
    }
}

fn found(broker: &Broker, topic: &Topic, operations: i32) -> MetadataResponseTopic {
    MetadataResponseTopic {
        name: Some(text(topic.stream.name())),
        topic_id: topic.id(),
        is_internal: false,
        partitions: partitions(broker, topic.stream.roles()),
        topic_authorized_operations: operations,
        ..MetadataResponseTopic::default()
    }
}

/// Partitions from 0 on, by this node's roles for them. The leader of a copy is not known here.
fn partitions(
    broker: &Broker,
    roles: impl IntoIterator<Item = StreamletRole>,
) -> Vec<MetadataResponsePartition> {
    let node = broker.settings.node_id.0;
    let partition = |(index, role): (i32, StreamletRole)| {
        let error = if role.leads() { ErrorCode::None } else { ErrorCode::LeaderNotAvailable };
        MetadataResponsePartition {
            error_code: error.code(),
            partition_index: index,
            leader_id: if role.leads() { node } else { NO_LEADER },
            leader_epoch: role.epoch().0,
            replica_nodes: vec![node],
            isr_nodes: vec![node],
            ..MetadataResponsePartition::default()
        }
    };
    (0..).zip(roles).map(partition).collect()
}

/// The roles of this node for the partitions of an internal topic.
pub(crate) fn internal_roles() -> Vec<StreamletRole> {
    (0..INTERNAL_PARTITIONS).map(|_| StreamletRole::Leader(INTERNAL_EPOCH)).collect()
}

fn internal(broker: &Broker, topic: &InternalTopic, operations: i32) -> MetadataResponseTopic {
    MetadataResponseTopic {
        name: Some(text(topic.name)),
        topic_id: topic.id,
        is_internal: true,
        partitions: partitions(broker, internal_roles()),
        topic_authorized_operations: operations,
        ..MetadataResponseTopic::default()
    }
}
