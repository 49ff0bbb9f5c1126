//! Partitions of topics: more of them, and a list of them in pieces.

use crate::{
    Broker,
    api::Context,
    handler::{
        cluster::TOPIC_OPERATIONS,
        metadata::{NO_LEADER, internal_roles},
        thread_pool,
        topics::{REPLICAS, positive, twice},
    },
    internal_topic::InternalTopic,
    refusal::RequestRefusal,
};
use std::{collections::BTreeSet, sync::Arc};
use tidemill_log::{LogError, StreamSpec, StreamletRole};
use tidemill_wire::kafka::{
    ErrorCode, KafkaString, KafkaUuid,
    message::{
        CreatePartitionsRequestData, CreatePartitionsResponseData, CreatePartitionsTopic,
        CreatePartitionsTopicResult, DescribeTopicPartitionsRequestData,
        DescribeTopicPartitionsResponseData, DescribeTopicPartitionsResponsePartition,
        DescribeTopicPartitionsResponseTopic, describe_topic_partitions_response::Cursor,
    },
    text,
};

/// Partitions in one answer, at most.
const DESCRIBED_MAX: usize = 2_000;

/// Adds partitions to topics, while they are used.
pub(crate) async fn create(
    context: &Context<'_>,
    request: CreatePartitionsRequestData,
) -> CreatePartitionsResponseData {
    let broker = Arc::clone(context.broker);
    let results = thread_pool::run(move || {
        let twice = twice(request.topics.iter().map(|it| it.name.as_bytes()));
        let mut told = BTreeSet::new();
        let one = |asked: &CreatePartitionsTopic| {
            let outcome = if !twice.contains(asked.name.as_bytes()) {
                create_one(&broker, asked, request.validate_only)
            } else if told.insert(asked.name.as_str().to_owned()) {
                let why = "the request names this topic more than once";
                Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why))
            } else {
                return None;
            };
            let refusal = outcome.err();
            Some(CreatePartitionsTopicResult {
                name: asked.name.clone(),
                error_code: refusal.as_ref().map_or(0, |it| it.code.code()),
                error_message: refusal.and_then(|it| it.reason()),
                ..CreatePartitionsTopicResult::default()
            })
        };
        request.topics.iter().filter_map(one).collect()
    });
    let results = results.await;
    CreatePartitionsResponseData { results, ..CreatePartitionsResponseData::default() }
}

fn create_one(
    broker: &Broker,
    asked: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<(), RequestRefusal> {
    let name = asked.name.as_str();
    if let Some(internal) = InternalTopic::named(broker, name) {
        return Err(internal.refusal());
    }
    let unknown = || LogError::Unknown(name.escape_debug().to_string());
    let topic = broker.topic(name).ok_or_else(unknown)?;
    let _one = broker.topics.change();
    let spec = topic.stream.spec();
    let (has, streamlets) = (spec.streamlets, positive(asked.count)?);
    if streamlets <= has {
        let why = format!("it has {has} partitions: {streamlets} are not more");
        return Err(RequestRefusal::with(ErrorCode::InvalidPartitions, &why));
    }
    if let Some(assignments) = &asked.assignments {
        let of_here = assignments.iter().all(|it| it.broker_ids == [broker.settings.node_id.0]);
        if assignments.len() != (streamlets - has) as usize || !of_here {
            let why = "assign each new partition, and no other, to this node alone";
            return Err(RequestRefusal::with(ErrorCode::InvalidReplicaAssignment, &why));
        }
    }
    let spec = StreamSpec { streamlets, ..spec };
    check_room(broker, streamlets - has)?;
    if validate_only {
        return Ok(());
    }
    broker.log.alter(name, spec)?;
    tracing::info!(topic = name, partitions = streamlets, "partitions added");
    Ok(())
}

/// Checks that the log may have this many more partitions.
pub(crate) fn check_room(broker: &Broker, more: u32) -> Result<(), RequestRefusal> {
    PartitionRoom::of(broker).take(more)
}

/// The count of partitions in the log, and its bound.
pub(crate) struct PartitionRoom {
    all: u64,
    max: u32,
}

impl PartitionRoom {
    pub(crate) fn of(broker: &Broker) -> Self {
        let all = broker.log.list().iter().map(|it| u64::from(it.spec().streamlets)).sum();
        Self { all, max: broker.log.options().streamlets_max }
    }

    /// Counts `more` partitions, if they are allowed.
    pub(crate) fn take(&mut self, more: u32) -> Result<(), RequestRefusal> {
        let (all, max) = (self.all, self.max);
        if all + u64::from(more) <= u64::from(max) {
            self.all += u64::from(more);
            return Ok(());
        }
        let why = format!("{more} partitions more than {all}: this node has at most {max}");
        Err(RequestRefusal::with(ErrorCode::InvalidPartitions, &why))
    }
}

/// Describes partitions, by topic, until the answer has as many as it may; it says where to go on.
/// (KIP-966.)
pub(crate) async fn describe(
    context: &Context<'_>,
    request: DescribeTopicPartitionsRequestData,
) -> DescribeTopicPartitionsResponseData {
    let broker = context.broker;
    if request.cursor.as_ref().is_some_and(|it| it.partition_index < 0) {
        return DescribeTopicPartitionsResponseData {
            topics: request
                .topics
                .into_iter()
                .map(|it| failed(it.name, ErrorCode::InvalidRequest))
                .collect(),
            ..DescribeTopicPartitionsResponseData::default()
        };
    }
    let all = request.topics.is_empty();
    let mut names: BTreeSet<String> = if all {
        let streams = broker.log.list();
        let names = streams.iter().map(|it| it.name().to_owned());
        names.chain(InternalTopic::all(broker).map(|it| it.name.to_owned())).collect()
    } else {
        request.topics.iter().map(|it| it.name.as_str().to_owned()).collect()
    };
    let (from_topic, from_partition) = match &request.cursor {
        Some(cursor) => (cursor.topic_name.as_str().to_owned(), cursor.partition_index),
        None => (String::new(), 0),
    };
    names = names.split_off(&from_topic);
    let asked = usize::try_from(request.response_partition_limit).unwrap_or(0);
    let mut room = asked.clamp(1, DESCRIBED_MAX);
    let mut response = DescribeTopicPartitionsResponseData::default();
    for name in names {
        let first = if name == from_topic { from_partition } else { 0 };
        let topic = TopicDescription::find(broker, &name);
        if topic.is_none() && all {
            continue;
        }
        if room == 0 {
            response.next_cursor = Some(Box::new(cursor(&name, first)));
            break;
        }
        let (described, next) = described(broker, text(&name), topic.as_ref(), first, room);
        room = room.saturating_sub(described.partitions.len());
        response.topics.push(described);
        if let Some(next) = next {
            response.next_cursor = Some(Box::new(cursor(&name, next)));
            break;
        }
    }
    response
}

/// A topic as it is described.
struct TopicDescription {
    id: KafkaUuid,
    /// This node's, for its partitions.
    roles: Vec<StreamletRole>,
    is_internal: bool,
}

impl TopicDescription {
    fn find(broker: &Broker, name: &str) -> Option<Self> {
        if let Some(internal) = InternalTopic::named(broker, name) {
            return Some(Self { id: internal.id, roles: internal_roles(), is_internal: true });
        }
        let topic = broker.topic(name)?;
        Some(Self { id: topic.id(), roles: topic.stream.roles(), is_internal: false })
    }
}

fn cursor(topic: &str, partition_index: i32) -> Cursor {
    Cursor { topic_name: text(topic), partition_index, ..Cursor::default() }
}

fn failed(name: KafkaString, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        name: Some(name),
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}

/// Up to `room` partitions of a topic from `first` on, and the one after them, if there is one.
fn described(
    broker: &Broker,
    name: KafkaString,
    topic: Option<&TopicDescription>,
    first: i32,
    room: usize,
) -> (DescribeTopicPartitionsResponseTopic, Option<i32>) {
    let Some(topic) = topic else {
        return (failed(name, ErrorCode::UnknownTopicOrPartition), None);
    };
    let node = broker.settings.node_id.0;
    let partition =
        |(index, role): (i32, &StreamletRole)| DescribeTopicPartitionsResponsePartition {
            partition_index: index,
            leader_id: if role.leads() { node } else { NO_LEADER },
            leader_epoch: role.epoch().0,
            replica_nodes: vec![node; usize::from(REPLICAS.unsigned_abs())],
            isr_nodes: vec![node],
            // Java's admin client cannot do without these lists.
            eligible_leader_replicas: Some(Vec::new()),
            last_known_elr: Some(Vec::new()),
            ..DescribeTopicPartitionsResponsePartition::default()
        };
    let count = i32::try_from(topic.roles.len()).unwrap_or(i32::MAX);
    let end = first.saturating_add(i32::try_from(room).unwrap_or(i32::MAX)).min(count);
    let described = DescribeTopicPartitionsResponseTopic {
        name: Some(name),
        topic_id: topic.id,
        is_internal: topic.is_internal,
        partitions: (0..end)
            .zip(&topic.roles)
            .skip_while(|it| it.0 < first)
            .map(partition)
            .collect(),
        // Nobody can ask for them, so that they are always told.
        topic_authorized_operations: TOPIC_OPERATIONS,
        ..DescribeTopicPartitionsResponseTopic::default()
    };
    (described, (end < count).then_some(end))
}
