//! Offsets by timestamp: the first, the last, and those between.

use crate::{
    api::Context,
    chunk_check::InflateRoom,
    internal_topic::{INTERNAL_EPOCH, INTERNAL_OFFSET, InternalTopic, is_internal_partition},
    partition::{Partition, Timed},
};
use hashbrown::HashSet;
use std::sync::Arc;
use tidemill_log::{LeaderEpoch, Offset};
use tidemill_wire::kafka::{
    ErrorCode, KafkaString,
    message::{
        ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequestData,
        ListOffsetsResponseData, ListOffsetsTopicResponse,
    },
};

/// The end: the high watermark, or the last stable offset.
const LATEST: i64 = -1;
/// The first offset there is.
const EARLIEST: i64 = -2;
/// The record with the largest timestamp. (KIP-734.)
const MAX_TIMESTAMP: i64 = -3;
/// The first offset on this node's own disk. (KIP-405.)
const EARLIEST_LOCAL: i64 = -4;
/// The last offset that was moved to an object store. (KIP-1005.)
const LATEST_TIERED: i64 = -5;

/// Offset and its timestamp in milliseconds; -1 where there is none.
type OffsetOutcome = Result<(i64, i64), ErrorCode>;

/// The answer for a partition of this number.
struct PartitionOutcome {
    index: i32,
    /// None: it is none, or one of an internal topic.
    partition: Option<Arc<Partition>>,
    /// None: its records must be searched first.
    outcome: Option<OffsetOutcome>,
}

impl PartitionOutcome {
    /// The epoch of the record at an offset.
    fn epoch_at(&self, offset: i64) -> LeaderEpoch {
        let partition = self.partition.as_ref();
        partition.map_or(INTERNAL_EPOCH, |it| it.streamlet.epoch_at(Offset(offset)))
    }
}

/// Answers for each partition.
pub(crate) async fn answer(
    context: &Context<'_>,
    request: ListOffsetsRequestData,
) -> ListOffsetsResponseData {
    let broker = context.broker;
    // The codec refuses to write what a version has no field for.
    let has_epoch = context.version() >= 4;
    let committed = request.isolation_level == 1;
    let twice = named_twice(&request);
    let mut looks: Vec<TimeSearch> = Vec::new();
    let mut topics: Vec<(KafkaString, Vec<PartitionOutcome>)> = Vec::new();
    for asked in request.topics {
        let topic = broker.topic(asked.name.as_str());
        let is_internal = InternalTopic::named(broker, asked.name.as_str()).is_some();
        let one = |it: ListOffsetsPartition| {
            let partition = topic.as_ref().and_then(|topic| topic.partition(it.partition_index));
            let place = (asked.name.clone(), it.partition_index);
            let checked =
                partition.as_ref().map(|known| known.check_leader(it.current_leader_epoch));
            let outcome = match &partition {
                _ if twice.contains(&place) => Some(Err(ErrorCode::InvalidRequest)),
                Some(_) if let Some(Err(error)) = checked => Some(Err(error)),
                Some(partition) if it.timestamp >= 0 || it.timestamp == MAX_TIMESTAMP => {
                    let partition = Arc::clone(partition);
                    looks.push(TimeSearch { partition, timestamp: it.timestamp, committed });
                    None
                }
                Some(partition) => Some(offset(partition, it.timestamp, committed)),
                None if is_internal && is_internal_partition(it.partition_index) => {
                    Some(internal_offset(it.timestamp))
                }
                None => Some(Err(ErrorCode::UnknownTopicOrPartition)),
            };
            PartitionOutcome { index: it.partition_index, partition, outcome }
        };
        let partitions = asked.partitions.into_iter().map(one).collect();
        topics.push((asked.name, partitions));
    }
    // Records are looked at, and they may be on the disk.
    let mut found = broker.inflating.each(looks, TimeSearch::outcome).await.into_iter();
    let topic = |(name, partitions): (KafkaString, Vec<PartitionOutcome>)| {
        let one = |mut it: PartitionOutcome| {
            let outcome = it.outcome.take().or_else(|| found.next());
            told(&it, outcome.expect("each look has its answer"), has_epoch)
        };
        let partitions = partitions.into_iter().map(one).collect();
        ListOffsetsTopicResponse { name, partitions, ..Default::default() }
    };
    let topics = topics.into_iter().map(topic).collect();
    ListOffsetsResponseData { topics, ..ListOffsetsResponseData::default() }
}

/// A partition whose records are looked at.
struct TimeSearch {
    partition: Arc<Partition>,
    timestamp: i64,
    committed: bool,
}

impl TimeSearch {
    fn outcome(&self, room: InflateRoom) -> Timed {
        match (end(&self.partition, self.committed), self.timestamp) {
            (Err(error), _) => Ok(Err(error)),
            (Ok(end), MAX_TIMESTAMP) => self.partition.max_timestamp(end, room),
            (Ok(end), timestamp) => self.partition.offset_for_time(timestamp, end, room),
        }
    }
}

/// Partitions that are named more than once. They may be asked for different times, so that none of
/// their answers would be right, and each can take a look at the disk.
fn named_twice(request: &ListOffsetsRequestData) -> HashSet<(KafkaString, i32)> {
    let (mut once, mut twice) = (HashSet::new(), HashSet::new());
    for topic in &request.topics {
        for partition in &topic.partitions {
            let place = (topic.name.clone(), partition.partition_index);
            if let Some(again) = once.replace(place) {
                twice.insert(again);
            }
        }
    }
    twice
}

fn end(partition: &Partition, committed: bool) -> Result<i64, ErrorCode> {
    if committed {
        partition.last_stable_offset()
    } else {
        Ok(partition.streamlet.high_watermark())
    }
}

fn offset(partition: &Partition, timestamp: i64, committed: bool) -> OffsetOutcome {
    match timestamp {
        LATEST => Ok((end(partition, committed)?, -1)),
        EARLIEST | EARLIEST_LOCAL => Ok((partition.streamlet.start_offset(), -1)),
        LATEST_TIERED => Ok((-1, -1)),
        _ => Err(ErrorCode::InvalidRequest),
    }
}

/// The answer for a partition of an internal topic, which has no records.
fn internal_offset(timestamp: i64) -> OffsetOutcome {
    match timestamp {
        LATEST | EARLIEST | EARLIEST_LOCAL => Ok((INTERNAL_OFFSET, -1)),
        LATEST_TIERED | MAX_TIMESTAMP | 0.. => Ok((-1, -1)),
        _ => Err(ErrorCode::InvalidRequest),
    }
}

fn told(
    of: &PartitionOutcome,
    outcome: OffsetOutcome,
    has_epoch: bool,
) -> ListOffsetsPartitionResponse {
    let error = outcome.as_ref().err().copied().unwrap_or(ErrorCode::None);
    let (offset, timestamp) = outcome.unwrap_or((-1, -1));
    ListOffsetsPartitionResponse {
        partition_index: of.index,
        error_code: error.code(),
        timestamp,
        offset,
        leader_epoch: if offset >= 0 && has_epoch { of.epoch_at(offset).0 } else { -1 },
        ..ListOffsetsPartitionResponse::default()
    }
}
