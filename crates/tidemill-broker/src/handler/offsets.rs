//! Offsets of groups: committed, asked for, deleted.

use crate::{
    Broker,
    api::Context,
    group::{
        offsets::{GroupOffsets, TopicPartition},
        registry::{NewOffset, RequestSender},
    },
    handler::duplicates::{merge_repeated, remove_repeated_partitions},
    internal_topic::{INTERNAL_PARTITIONS, InternalTopic},
    topic::{Topic, stream_id_of},
};
use tidemill_types::{LeaderEpoch, Offset};
use tidemill_wire::kafka::{
    ErrorCode, KafkaString, KafkaUuid,
    message::{
        OffsetCommitRequestData, OffsetCommitResponseData, OffsetCommitResponsePartition,
        OffsetCommitResponseTopic, OffsetDeleteRequestData, OffsetDeleteResponseData,
        OffsetDeleteResponsePartition, OffsetDeleteResponseTopic, OffsetFetchRequestData,
        OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponseData,
        OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
        OffsetFetchResponseTopic, OffsetFetchResponseTopics,
    },
    text,
};

/// Topics are named by their ids from this version on. (KIP-848.)
const BY_ID_VERSION: i16 = 10;
/// Several groups are asked for from this version on. (KIP-709.)
const GROUPS_VERSION: i16 = 8;

/// A position that a client commits, and the leader epoch of the last record before it.
pub(crate) struct CommittedPosition {
    pub(crate) offset: Offset,
    /// -1 if the client does not know it.
    pub(crate) leader_epoch: LeaderEpoch,
}

/// Checks an offset to be committed for a partition, all but its group. `topic` is the one that the
/// name or the id stands for.
pub(crate) fn new_offset(
    context: &Context<'_>,
    topic: Result<&CommitTopic, ErrorCode>,
    partition: i32,
    position: CommittedPosition,
    metadata: Option<&KafkaString>,
) -> Result<(TopicPartition, NewOffset), ErrorCode> {
    let topic = topic?;
    let place = place(topic, partition)?;
    let metadata = metadata.map_or("", KafkaString::as_str);
    if metadata.len() > context.broker.groups.settings().metadata_bytes {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    let topic_id = stream_id_of(topic.id).0;
    let CommittedPosition { offset, leader_epoch } = position;
    let (offset, leader_epoch) = (offset.0, leader_epoch.0);
    Ok((place, NewOffset { offset, leader_epoch, topic_id, metadata: metadata.to_owned() }))
}

/// A topic that offsets are committed for. Consumers may read internal topics, too.
pub(crate) struct CommitTopic {
    name: String,
    id: KafkaUuid,
    partitions: i32,
}

impl CommitTopic {
    fn of(topic: &Topic) -> Self {
        let name = topic.stream.name().to_owned();
        Self { name, id: topic.id(), partitions: topic.partition_count() }
    }

    fn internal(topic: &InternalTopic) -> Self {
        Self { name: topic.name.to_owned(), id: topic.id, partitions: INTERNAL_PARTITIONS }
    }

    /// The topic of a name.
    pub(crate) fn named(broker: &Broker, name: &str) -> Result<Self, ErrorCode> {
        let stream = broker.topic(name).map(|it| Self::of(&it));
        let topic = stream.or_else(|| InternalTopic::named(broker, name).map(Self::internal));
        topic.ok_or(ErrorCode::UnknownTopicOrPartition)
    }

    fn of_id(broker: &Broker, id: KafkaUuid) -> Result<Self, ErrorCode> {
        let stream = broker.topics.get_by_id(&broker.log, id).map(|it| Self::of(&it));
        let topic = stream.or_else(|| InternalTopic::of_id(broker, id).map(Self::internal));
        topic.ok_or(ErrorCode::UnknownTopicId)
    }
}

fn place(topic: &CommitTopic, partition: i32) -> Result<TopicPartition, ErrorCode> {
    let number = u32::try_from(partition).ok().filter(|_| partition < topic.partitions);
    let number = number.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok((topic.name.clone(), number))
}

/// The topic of a request, by its id or its name.
fn topic(
    context: &Context<'_>,
    name: &KafkaString,
    id: KafkaUuid,
) -> Result<CommitTopic, ErrorCode> {
    if context.version() >= BY_ID_VERSION {
        CommitTopic::of_id(context.broker, id)
    } else {
        CommitTopic::named(context.broker, name.as_str())
    }
}

/// Commits offsets; the answer comes when they are durable.
pub(crate) async fn commit(
    context: &Context<'_>,
    request: OffsetCommitRequestData,
) -> OffsetCommitResponseData {
    let sender = RequestSender {
        group: request.group_id.as_str().to_owned(),
        member_id: request.member_id.as_str().to_owned(),
        instance: request.group_instance_id.as_ref().map(|it| it.as_str().to_owned()),
        generation: request.generation_id_or_member_epoch,
    };
    let mut offsets = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for asked in request.topics {
        let topic = topic(context, &asked.name, asked.topic_id);
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for it in asked.partitions {
            let topic = topic.as_ref().map_err(|error| *error);
            let committed = CommittedPosition {
                offset: Offset(it.committed_offset),
                leader_epoch: LeaderEpoch(it.committed_leader_epoch),
            };
            let metadata = it.committed_metadata.as_ref();
            let checked = new_offset(context, topic, it.partition_index, committed, metadata);
            let error = checked.as_ref().err().copied();
            offsets.extend(checked.ok());
            partitions.push((it.partition_index, error));
        }
        topics.push((asked.name, asked.topic_id, partitions));
    }
    // Without anything to commit a member still says that it lives, and is told if it is none.
    let outcome = context.broker.groups.commit(&sender, offsets).await;
    let outcome = outcome.err().unwrap_or(ErrorCode::None);
    let partition = |(partition_index, error): (i32, Option<ErrorCode>)| {
        let error_code = error.unwrap_or(outcome).code();
        OffsetCommitResponsePartition { partition_index, error_code, ..Default::default() }
    };
    let topics = topics.into_iter().map(|(name, topic_id, partitions)| OffsetCommitResponseTopic {
        name,
        topic_id,
        partitions: partitions.into_iter().map(partition).collect(),
        ..OffsetCommitResponseTopic::default()
    });
    OffsetCommitResponseData { topics: topics.collect(), ..OffsetCommitResponseData::default() }
}

/// Offsets of one or several groups.
pub(crate) async fn fetch(
    context: &Context<'_>,
    mut request: OffsetFetchRequestData,
) -> OffsetFetchResponseData {
    let stable = request.require_stable;
    merge_repeated(
        &mut request.groups,
        |it| it.group_id.clone(),
        |first, again| match (&mut first.topics, again.topics) {
            (Some(topics), Some(more)) => topics.extend(more),
            // All topics of the group are asked for.
            (topics, _) => *topics = None,
        },
    );
    if context.version() >= GROUPS_VERSION {
        let groups = request.groups.into_iter().map(|it| fetched(context, it, stable)).collect();
        return OffsetFetchResponseData { groups, ..OffsetFetchResponseData::default() };
    }
    let group = request.group_id.as_str();
    let topics = match request.topics {
        None => all(context, group, stable),
        Some(mut topics) => {
            remove_repeated_partitions(
                &mut topics,
                |it| it.name.clone(),
                |it| &mut it.partition_indexes,
            );
            let topics = topics.into_iter();
            topics
                .map(|it| {
                    let name = it.name.as_str();
                    let topic = CommitTopic::named(context.broker, name).ok();
                    let told =
                        some(context, group, name, topic.as_ref(), &it.partition_indexes, stable);
                    (it.name, KafkaUuid::ZERO, told)
                })
                .collect()
        }
    };
    let older = |it: FetchedOffset| OffsetFetchResponsePartition {
        partition_index: it.partition,
        committed_offset: it.offset,
        committed_leader_epoch: it.leader_epoch,
        metadata: Some(text(&it.metadata)),
        error_code: it.error.code(),
        ..OffsetFetchResponsePartition::default()
    };
    let topics = topics.into_iter().map(|(name, _, told)| OffsetFetchResponseTopic {
        name,
        partitions: told.into_iter().map(older).collect(),
        ..OffsetFetchResponseTopic::default()
    });
    OffsetFetchResponseData { topics: topics.collect(), ..OffsetFetchResponseData::default() }
}

/// The answer for a partition's offset.
struct FetchedOffset {
    partition: i32,
    offset: i64,
    leader_epoch: i32,
    metadata: String,
    error: ErrorCode,
}

impl FetchedOffset {
    /// There is none.
    fn none(partition: i32, error: ErrorCode) -> Self {
        Self { partition, offset: -1, leader_epoch: -1, metadata: String::new(), error }
    }
}

type FetchedTopic = (KafkaString, KafkaUuid, Vec<FetchedOffset>);

fn fetched(
    context: &Context<'_>,
    asked: OffsetFetchRequestGroup,
    stable: bool,
) -> OffsetFetchResponseGroup {
    let group = asked.group_id.as_str();
    let topics: Vec<FetchedTopic> = match asked.topics {
        None => all(context, group, stable),
        Some(mut topics) => {
            let key = |it: &OffsetFetchRequestTopics| (it.name.clone(), it.topic_id);
            remove_repeated_partitions(&mut topics, key, |it| &mut it.partition_indexes);
            let topics = topics.into_iter();
            topics
                .map(|it| {
                    let partitions = &it.partition_indexes;
                    let topic = topic(context, &it.name, it.topic_id);
                    let told = match &topic {
                        Err(ErrorCode::UnknownTopicId) => {
                            let none =
                                |it: &i32| FetchedOffset::none(*it, ErrorCode::UnknownTopicId);
                            partitions.iter().map(none).collect()
                        }
                        Ok(topic) => {
                            some(context, group, &topic.name, Some(topic), partitions, stable)
                        }
                        Err(_) => some(context, group, it.name.as_str(), None, partitions, stable),
                    };
                    (it.name, it.topic_id, told)
                })
                .collect()
        }
    };
    let newer = |it: FetchedOffset| OffsetFetchResponsePartitions {
        partition_index: it.partition,
        committed_offset: it.offset,
        committed_leader_epoch: it.leader_epoch,
        metadata: Some(text(&it.metadata)),
        error_code: it.error.code(),
        ..OffsetFetchResponsePartitions::default()
    };
    let by_id = context.version() >= BY_ID_VERSION;
    let topics = topics.into_iter().map(|(name, topic_id, told)| OffsetFetchResponseTopics {
        name: if by_id { KafkaString::default() } else { name },
        topic_id: if by_id { topic_id } else { KafkaUuid::ZERO },
        partitions: told.into_iter().map(newer).collect(),
        ..OffsetFetchResponseTopics::default()
    });
    let topics = topics.collect();
    OffsetFetchResponseGroup {
        group_id: asked.group_id,
        topics,
        ..OffsetFetchResponseGroup::default()
    }
}

/// Offsets of a topic's partitions.
fn some(
    context: &Context<'_>,
    group: &str,
    name: &str,
    topic: Option<&CommitTopic>,
    partitions: &[i32],
    stable: bool,
) -> Vec<FetchedOffset> {
    let look = |offsets: &GroupOffsets| {
        partitions.iter().map(|it| told(offsets, name, topic, *it, stable)).collect()
    };
    let none = || partitions.iter().map(|it| FetchedOffset::none(*it, ErrorCode::None)).collect();
    context.broker.groups.offsets(group, look).unwrap_or_else(none)
}

fn told(
    offsets: &GroupOffsets,
    name: &str,
    topic: Option<&CommitTopic>,
    partition: i32,
    stable: bool,
) -> FetchedOffset {
    let Ok(number) = u32::try_from(partition) else {
        return FetchedOffset::none(partition, ErrorCode::None);
    };
    let place = (name.to_owned(), number);
    if stable && offsets.is_pending(&place) {
        return FetchedOffset::none(partition, ErrorCode::UnstableOffsetCommit);
    }
    let id = topic.map(|it| stream_id_of(it.id).0);
    match offsets.get(&place) {
        // An offset of a topic that was deleted is none of the one that has its name now.
        Some(record) if id.is_none_or(|it| it == record.topic_id) => FetchedOffset {
            partition,
            offset: record.offset,
            leader_epoch: record.leader_epoch,
            metadata: record.metadata.clone(),
            error: ErrorCode::None,
        },
        _ => FetchedOffset::none(partition, ErrorCode::None),
    }
}

/// All offsets of a group.
fn all(context: &Context<'_>, group: &str, stable: bool) -> Vec<FetchedTopic> {
    let broker = context.broker;
    let look = |offsets: &GroupOffsets| {
        let mut places: Vec<TopicPartition> =
            offsets.all().map(|(place, _)| place.clone()).collect();
        if stable {
            let held = offsets.pending().values().flat_map(|it| it.keys().cloned());
            places.extend(held);
        }
        places.sort();
        places.dedup();
        let mut topics: Vec<FetchedTopic> = Vec::new();
        for of_topic in places.chunk_by(|a, b| a.0 == b.0) {
            let name = &of_topic[0].0;
            let topic = CommitTopic::named(broker, name).ok();
            if topic.is_none() && context.version() >= BY_ID_VERSION {
                continue;
            }
            let partition = |it: &TopicPartition| {
                let number = i32::try_from(it.1).unwrap_or(i32::MAX);
                told(offsets, name, topic.as_ref(), number, stable)
            };
            let told = of_topic.iter().map(partition);
            let told = told.filter(|it| it.offset >= 0 || it.error != ErrorCode::None).collect();
            let id = topic.as_ref().map_or(KafkaUuid::ZERO, |it| it.id);
            topics.push((text(name), id, told));
        }
        topics
    };
    broker.groups.offsets(group, look).unwrap_or_default()
}

/// Deletes offsets of a group. (KIP-496.)
pub(crate) async fn delete(
    context: &Context<'_>,
    request: OffsetDeleteRequestData,
) -> OffsetDeleteResponseData {
    let mut places = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for asked in request.topics {
        let topic = CommitTopic::named(context.broker, asked.name.as_str());
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for it in asked.partitions {
            let known = topic.as_ref().map_err(|error| *error);
            let place = known.and_then(|topic| place(topic, it.partition_index));
            partitions.push((it.partition_index, place.as_ref().err().copied()));
            places.extend(place.ok());
        }
        topics.push((asked.name, partitions));
    }
    let outcome = context.broker.groups.delete_offsets(request.group_id.as_str(), places).await;
    let mut codes = match outcome {
        Err(error) => {
            let error_code = error.code();
            return OffsetDeleteResponseData { error_code, ..Default::default() };
        }
        Ok(codes) => codes.into_iter(),
    };
    let mut partition = |(partition_index, error): (i32, Option<ErrorCode>)| {
        let error = error.or_else(|| codes.next()).unwrap_or(ErrorCode::None);
        OffsetDeleteResponsePartition {
            partition_index,
            error_code: error.code(),
            ..OffsetDeleteResponsePartition::default()
        }
    };
    let topics = topics.into_iter().map(|(name, partitions)| OffsetDeleteResponseTopic {
        name,
        partitions: partitions.into_iter().map(&mut partition).collect(),
        ..OffsetDeleteResponseTopic::default()
    });
    OffsetDeleteResponseData { topics: topics.collect(), ..OffsetDeleteResponseData::default() }
}
