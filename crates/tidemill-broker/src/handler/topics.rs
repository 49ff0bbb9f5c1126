//! Topics are made and deleted. Each is on the disk, or durably gone, before the answer says so.

use crate::{
    Broker,
    api::Context,
    handler::{configs, name_collision::NameCollisions, partitions::PartitionRoom, thread_pool},
    internal_topic::InternalTopic,
    refusal::RequestRefusal,
    topic::{Topic, uuid_of},
    topic_settings::Texts,
};
use std::{collections::BTreeSet, sync::Arc};
use tidemill_log::{LogError, StreamSpec, is_stream_name};
use tidemill_wire::kafka::{
    ErrorCode, KafkaString, KafkaUuid,
    message::{
        CreatableTopic, CreatableTopicResult, CreateTopicsRequestData, CreateTopicsResponseData,
        DeletableTopicResult, DeleteTopicState, DeleteTopicsRequestData, DeleteTopicsResponseData,
        create_topics_request::{CreatableReplicaAssignment, CreatableTopicConfig},
    },
    text,
};

/// Replicas of each partition.
pub(crate) const REPLICAS: i16 = 1;
/// "As the broker has it", for a count.
const BY_DEFAULT: i32 = -1;

/// Topics that one request may make: their settings are told with them.
const TOPICS_MAX: usize = 10_000;
/// Topics that are made, or deleted, together; other changes may come between.
const TOGETHER: usize = 500;

/// Makes topics.
pub(crate) async fn create(
    context: &Context<'_>,
    request: CreateTopicsRequestData,
) -> CreateTopicsResponseData {
    let broker = Arc::clone(context.broker);
    let topics = thread_pool::run(move || {
        let twice = twice(request.topics.iter().map(|it| it.name.as_str().to_owned()));
        let mut twins =
            NameCollisions::of(&broker, request.topics.iter().map(|it| it.name.as_str()));
        let mut done = BTreeSet::new();
        let mut checked = Vec::with_capacity(request.topics.len());
        let too_many = request.topics.len() > TOPICS_MAX;
        for asked in request.topics {
            let outcome = if too_many {
                let why = format!("a request makes {TOPICS_MAX} topics at most");
                Err(RequestRefusal::with(ErrorCode::PolicyViolation, &why))
            } else if !twice.contains(asked.name.as_str()) {
                check(&broker, &mut twins, &asked)
            } else if done.insert(asked.name.as_str().to_owned()) {
                let why = "the request names this topic more than once";
                Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why))
            } else {
                continue;
            };
            checked.push((asked.name, outcome));
        }
        if request.validate_only {
            let mut room = PartitionRoom::of(&broker);
            let mut outcome = |spec: StreamSpec| {
                room.take(spec.streamlets)?;
                Ok((None, spec))
            };
            let one =
                |(name, it): (_, Result<_, _>)| told(&broker, name, it.and_then(&mut outcome));
            return checked.into_iter().map(one).collect();
        }
        make(&broker, checked)
    });
    let topics = topics.await;
    CreateTopicsResponseData { topics, ..CreateTopicsResponseData::default() }
}

/// The items that occur more than once.
pub(crate) fn twice<T: Ord>(all: impl Iterator<Item = T>) -> BTreeSet<T> {
    let (mut once, mut twice) = (BTreeSet::new(), BTreeSet::new());
    for one in all {
        if let Some(again) = once.replace(one) {
            twice.insert(again);
        }
    }
    twice
}

/// Nobody has made it.
pub(crate) fn no_topic(name: &str) -> RequestRefusal {
    let why = format!("there is no topic `{}`", name.escape_debug());
    RequestRefusal::with(ErrorCode::UnknownTopicOrPartition, &why)
}

/// The spec of a requested topic, if the topic can be made.
fn check(
    broker: &Broker,
    twins: &mut NameCollisions,
    asked: &CreatableTopic,
) -> Result<StreamSpec, RequestRefusal> {
    let name = asked.name.as_str();
    if !is_stream_name(name) {
        return Err(LogError::Name(name.escape_debug().to_string()).into());
    }
    if broker.topic(name).is_some() || InternalTopic::named(broker, name).is_some() {
        return Err(LogError::Exists(name.to_owned()).into());
    }
    twins.check(name)?;
    let streamlets = streamlets(broker, asked)?;
    let spec = broker.defaults().spec(streamlets, texts(&asked.configs)?);
    let spec = spec.map_err(|error| RequestRefusal::with(ErrorCode::InvalidConfig, &error))?;
    twins.add(name);
    Ok(spec)
}

/// Makes the topics that passed the check.
fn make(
    broker: &Broker,
    checked: Vec<(KafkaString, Result<StreamSpec, RequestRefusal>)>,
) -> Vec<CreatableTopicResult> {
    let good = checked.iter().filter_map(|(name, outcome)| {
        outcome.as_ref().ok().map(|spec| (name.as_str().to_owned(), spec.clone()))
    });
    let good: Vec<_> = good.collect();
    let made = good.chunks(TOGETHER).flat_map(|some| broker.log.create_all(some.to_vec()));
    let mut made = made.collect::<Vec<_>>().into_iter();
    let outcome = |(name, outcome): (KafkaString, Result<StreamSpec, RequestRefusal>)| {
        let outcome = outcome.and_then(|spec| match made.next() {
            Some(stream) => {
                let stream = stream?;
                let topic = stream.name();
                tracing::info!(topic, partitions = spec.streamlets, "topic made");
                Ok((Some(uuid_of(stream.id())), spec))
            }
            None => Err(LogError::Closed.into()),
        });
        told(broker, name, outcome)
    };
    checked.into_iter().map(outcome).collect()
}

/// The count of partitions of a new topic.
fn streamlets(broker: &Broker, asked: &CreatableTopic) -> Result<u32, RequestRefusal> {
    if !asked.assignments.is_empty() {
        if asked.num_partitions != BY_DEFAULT || asked.replication_factor != -1 {
            let why = "with assignments, partitions and replication factor must be -1";
            return Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why));
        }
        return assigned(broker, &asked.assignments);
    }
    match asked.replication_factor {
        -1 | REPLICAS => {}
        other => {
            let why = format!("replication factor {other} is not possible: there is one node");
            return Err(RequestRefusal::with(ErrorCode::InvalidReplicationFactor, &why));
        }
    }
    match asked.num_partitions {
        BY_DEFAULT => Ok(broker.settings.partitions),
        count => positive(count),
    }
}

/// A number of partitions.
pub(crate) fn positive(count: i32) -> Result<u32, RequestRefusal> {
    u32::try_from(count).ok().filter(|it| *it > 0).ok_or_else(|| {
        let why = format!("{count} partitions are not possible: a topic has at least one");
        RequestRefusal::with(ErrorCode::InvalidPartitions, &why)
    })
}

/// The number of partitions that are assigned to nodes: from 0 on, each to this one.
fn assigned(
    broker: &Broker,
    assignments: &[CreatableReplicaAssignment],
) -> Result<u32, RequestRefusal> {
    let bad = |why: &str| Err(RequestRefusal::with(ErrorCode::InvalidReplicaAssignment, &why));
    let mut partitions = BTreeSet::new();
    for assignment in assignments {
        if assignment.broker_ids != [broker.settings.node_id.0] {
            return bad("there is one node: each partition has it as its only replica");
        }
        if !partitions.insert(assignment.partition_index) {
            return bad("a partition is assigned more than once");
        }
    }
    let count = partitions.len();
    if !partitions.into_iter().zip(0..).all(|(index, place)| index == place) {
        return bad("partitions must be numbered from 0 on, without gaps");
    }
    Ok(u32::try_from(count).unwrap_or(u32::MAX))
}

fn texts(configs: &[CreatableTopicConfig]) -> Result<Texts, RequestRefusal> {
    let mut texts = Texts::new();
    for config in configs {
        let name = config.name.as_str();
        let Some(value) = &config.value else {
            let why = format!("{}: it has no value", name.escape_debug());
            return Err(RequestRefusal::with(ErrorCode::InvalidConfig, &why));
        };
        texts.insert(name.to_owned(), value.as_str().trim().to_owned());
    }
    Ok(texts)
}

fn told(
    broker: &Broker,
    name: KafkaString,
    outcome: Result<(Option<KafkaUuid>, StreamSpec), RequestRefusal>,
) -> CreatableTopicResult {
    match outcome {
        Ok((id, spec)) => CreatableTopicResult {
            name,
            topic_id: id.unwrap_or(KafkaUuid::ZERO),
            num_partitions: i32::try_from(spec.streamlets).unwrap_or(i32::MAX),
            replication_factor: REPLICAS,
            configs: Some(configs::of_new_topic(broker, &spec)),
            ..CreatableTopicResult::default()
        },
        Err(refusal) => CreatableTopicResult {
            name,
            error_code: refusal.code.code(),
            error_message: refusal.reason(),
            num_partitions: -1,
            replication_factor: -1,
            configs: Some(Vec::new()),
            ..CreatableTopicResult::default()
        },
    }
}

/// Deletes topics, by name or by id.
pub(crate) async fn delete(
    context: &Context<'_>,
    request: DeleteTopicsRequestData,
) -> DeleteTopicsResponseData {
    let broker = Arc::clone(context.broker);
    let named = |name: KafkaString| DeleteTopicState { name: Some(name), ..Default::default() };
    let asked = request.topics.into_iter().chain(request.topic_names.into_iter().map(named));
    let asked: Vec<DeleteTopicState> = asked.collect();
    let responses = thread_pool::run(move || {
        let mut found: Vec<_> = asked.iter().map(|it| found(&broker, it)).collect();
        let names = found.iter().flatten().map(|it| it.stream.name().to_owned());
        let twice = twice(names);
        for topic in &mut found {
            if topic.as_ref().is_ok_and(|it| twice.contains(it.stream.name())) {
                let why = "the request names this topic more than once";
                *topic = Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why));
            }
        }
        let going: Vec<&Topic> = found.iter().flatten().map(|it| &**it).collect();
        let outcomes = going.chunks(TOGETHER).flat_map(|some| broker.delete_topics(some));
        let mut outcomes = outcomes.collect::<Vec<_>>().into_iter();
        let outcome = |topic: Result<Arc<Topic>, RequestRefusal>| {
            let topic = topic?;
            outcomes.next().expect("one for each that was found")?;
            Ok(topic)
        };
        let found = found.into_iter().map(outcome);
        asked.into_iter().zip(found).map(|(asked, it)| deleted(asked, it)).collect()
    });
    let responses = responses.await;
    DeleteTopicsResponseData { responses, ..DeleteTopicsResponseData::default() }
}

fn found(broker: &Broker, asked: &DeleteTopicState) -> Result<Arc<Topic>, RequestRefusal> {
    let unknown = || RequestRefusal::of(ErrorCode::UnknownTopicOrPartition);
    let by_id = asked.topic_id != KafkaUuid::ZERO;
    let internal = match &asked.name {
        Some(name) => InternalTopic::named(broker, name.as_str()),
        None => InternalTopic::of_id(broker, asked.topic_id),
    };
    if let Some(internal) = internal {
        return Err(internal.refusal());
    }
    match &asked.name {
        Some(_) if by_id => {
            let why = "name the topic or give its id, not both";
            Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why))
        }
        Some(name) => broker.topic(name.as_str()).ok_or_else(unknown),
        None if by_id => broker
            .topics
            .get_by_id(&broker.log, asked.topic_id)
            .ok_or_else(|| RequestRefusal::of(ErrorCode::UnknownTopicId)),
        None => {
            let why = "name the topic or give its id";
            Err(RequestRefusal::with(ErrorCode::InvalidRequest, &why))
        }
    }
}

fn deleted(
    asked: DeleteTopicState,
    outcome: Result<Arc<Topic>, RequestRefusal>,
) -> DeletableTopicResult {
    match outcome {
        Ok(topic) => DeletableTopicResult {
            name: Some(text(topic.stream.name())),
            topic_id: topic.id(),
            ..DeletableTopicResult::default()
        },
        Err(refusal) => DeletableTopicResult {
            name: asked.name,
            topic_id: asked.topic_id,
            error_code: refusal.code.code(),
            error_message: refusal.reason(),
            ..DeletableTopicResult::default()
        },
    }
}
