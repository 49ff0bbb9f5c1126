//! Offsets by timestamp: the first, the last, and those between.

use crate::{Broker, api::Context, handler::blocking, partition::Partition};
use hashbrown::HashSet;
use std::sync::Arc;
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

/// Answers for each partition.
pub(crate) async fn answer(
    context: &Context<'_>,
    request: ListOffsetsRequestData,
) -> ListOffsetsResponseData {
    let looks = |it: &ListOffsetsPartition| it.timestamp >= 0 || it.timestamp == MAX_TIMESTAMP;
    let broker = Arc::clone(context.broker);
    // The codec refuses to write what a version has no field for.
    let has_epoch = context.version() >= 4;
    if request.topics.iter().flat_map(|it| &it.partitions).any(looks) {
        // Records are looked at, and they may be on the disk.
        return blocking::run(move || answered(&broker, request, has_epoch)).await;
    }
    answered(&broker, request, has_epoch)
}

fn answered(
    broker: &Broker,
    request: ListOffsetsRequestData,
    has_epoch: bool,
) -> ListOffsetsResponseData {
    let committed = request.isolation_level == 1;
    let twice = named_twice(&request);
    let topics = request.topics.into_iter().map(|asked| {
        let topic = broker.topic(asked.name.as_str());
        let one = |it: ListOffsetsPartition| {
            let partition = topic.as_ref().and_then(|topic| topic.partition(it.partition_index));
            let place = (asked.name.clone(), it.partition_index);
            let outcome = match partition {
                _ if twice.contains(&place) => Err(ErrorCode::InvalidRequest),
                Some(_) if it.current_leader_epoch > 0 => Err(ErrorCode::UnknownLeaderEpoch),
                Some(partition) => offset(&partition, it.timestamp, committed),
                None => Err(ErrorCode::UnknownTopicOrPartition),
            };
            told(it.partition_index, outcome, has_epoch)
        };
        let partitions = asked.partitions.into_iter().map(one).collect();
        ListOffsetsTopicResponse { name: asked.name, partitions, ..Default::default() }
    });
    let topics = topics.collect();
    ListOffsetsResponseData { topics, ..ListOffsetsResponseData::default() }
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

/// Offset and its timestamp in milliseconds; -1 where there is none.
fn offset(partition: &Partition, timestamp: i64, committed: bool) -> Result<(i64, i64), ErrorCode> {
    let streamlet = &partition.streamlet;
    let end = if committed { partition.last_stable_offset()? } else { streamlet.high_watermark() };
    match timestamp {
        LATEST => Ok((end, -1)),
        EARLIEST | EARLIEST_LOCAL => Ok((streamlet.start_offset(), -1)),
        LATEST_TIERED => Ok((-1, -1)),
        MAX_TIMESTAMP => partition.max_timestamp(end),
        0.. => partition.offset_for_time(timestamp, end),
        _ => Err(ErrorCode::InvalidRequest),
    }
}

fn told(
    index: i32,
    outcome: Result<(i64, i64), ErrorCode>,
    has_epoch: bool,
) -> ListOffsetsPartitionResponse {
    let error = outcome.as_ref().err().copied().unwrap_or(ErrorCode::None);
    let (offset, timestamp) = outcome.unwrap_or((-1, -1));
    ListOffsetsPartitionResponse {
        partition_index: index,
        error_code: error.code(),
        timestamp,
        offset,
        leader_epoch: if offset >= 0 && has_epoch { 0 } else { -1 },
        ..ListOffsetsPartitionResponse::default()
    }
}
