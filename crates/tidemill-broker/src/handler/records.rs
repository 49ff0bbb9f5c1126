//! Records are deleted from the front; where an epoch of leaders ended.

use crate::{
    Broker,
    api::Context,
    handler::thread_pool,
    internal_topic::{INTERNAL_EPOCH, INTERNAL_OFFSET, InternalTopic, is_internal_partition},
    partition::Partition,
    refusal::RequestRefusal,
    topic::Topic,
    upkeep,
};
use std::sync::Arc;
use tidemill_log::{EpochEnd, LeaderEpoch, LogError, Offset};
use tidemill_wire::kafka::{
    ErrorCode,
    message::{
        DeleteRecordsPartition, DeleteRecordsPartitionResult, DeleteRecordsRequestData,
        DeleteRecordsResponseData, DeleteRecordsTopicResult, OffsetForLeaderEpochRequestData,
        OffsetForLeaderEpochResponseData, OffsetForLeaderPartition, OffsetForLeaderTopicResult,
        offset_for_leader_epoch_response::EpochEndOffset,
    },
};

/// "All that can be read now."
const TO_THE_END: i64 = -1;
/// No epoch, no offset.
const UNDEFINED: i32 = -1;

/// Moves the starts of partitions. They are on the disk before the answer says so.
pub(crate) async fn delete(
    context: &Context<'_>,
    request: DeleteRecordsRequestData,
) -> DeleteRecordsResponseData {
    let broker = Arc::clone(context.broker);
    let asked = Arc::clone(&broker);
    let (request, lacking) = thread_pool::run(move || {
        let mut request = request;
        let lacking = lacking(&asked, &mut request);
        (request, lacking)
    })
    .await;
    upkeep::keep(&broker, lacking).await;
    let topics = thread_pool::run(move || {
        let topic = |asked: tidemill_wire::kafka::message::DeleteRecordsTopic| {
            let name = asked.name.as_str();
            let missing = || match InternalTopic::named(&broker, name) {
                Some(internal) => internal.refusal(),
                None => RequestRefusal::of(ErrorCode::UnknownTopicOrPartition),
            };
            let topic = broker.topic(name).ok_or_else(missing);
            let one = |it: &DeleteRecordsPartition| {
                let topic = topic.as_deref().map_err(Clone::clone);
                let outcome = delete_one(&broker, topic, it);
                let error = outcome.as_ref().err().map_or(ErrorCode::None, |it| it.code);
                DeleteRecordsPartitionResult {
                    partition_index: it.partition_index,
                    low_watermark: outcome.unwrap_or(-1),
                    error_code: error.code(),
                    ..DeleteRecordsPartitionResult::default()
                }
            };
            let partitions = asked.partitions.iter().map(one).collect();
            DeleteRecordsTopicResult { name: asked.name, partitions, ..Default::default() }
        };
        request.topics.into_iter().map(topic).collect()
    });
    let topics = topics.await;
    DeleteRecordsResponseData { topics, ..DeleteRecordsResponseData::default() }
}

/// Resolves "to the end", and returns the partitions that must store the state of their producers
/// before these records go.
fn lacking(broker: &Broker, request: &mut DeleteRecordsRequestData) -> Vec<(Arc<Partition>, i64)> {
    let mut lacking = Vec::new();
    for asked in &mut request.topics {
        let Some(topic) = broker.topic(asked.name.as_str()) else { continue };
        for it in &mut asked.partitions {
            let Some(partition) = topic.partition(it.partition_index) else { continue };
            if it.offset == TO_THE_END {
                it.offset = partition.streamlet.high_watermark();
            }
            match partition.keep_below(it.offset) {
                Ok(true) => lacking.push((partition, it.offset)),
                Ok(false) => {}
                // What cannot be read can be deleted all the same.
                Err(error) => {
                    tracing::warn!(topic = asked.name.as_str(), %error, "its producers are not known")
                }
            }
        }
    }
    lacking
}

fn delete_one(
    broker: &Broker,
    topic: Result<&Topic, RequestRefusal>,
    asked: &DeleteRecordsPartition,
) -> Result<i64, RequestRefusal> {
    let unknown = || RequestRefusal::of(ErrorCode::UnknownTopicOrPartition);
    let topic = topic?;
    let partition = topic.partition(asked.partition_index).ok_or_else(unknown)?;
    match topic.stream.delete_records(&partition.streamlet, asked.offset) {
        Err(LogError::Closed) if broker.topic(topic.stream.name()).is_none() => Err(unknown()),
        other => Ok(other?),
    }
}

/// Says where epochs end.
pub(crate) async fn epoch_ends(
    context: &Context<'_>,
    request: OffsetForLeaderEpochRequestData,
) -> OffsetForLeaderEpochResponseData {
    let topics = request.topics.into_iter().map(|asked| {
        let broker = context.broker;
        let topic = broker.topic(asked.topic.as_str());
        let is_internal = InternalTopic::named(broker, asked.topic.as_str()).is_some();
        let one = |it: &OffsetForLeaderPartition| {
            let partition = topic.as_ref().and_then(|topic| topic.partition(it.partition));
            let found = match partition {
                Some(partition) => partition
                    .check_leader(it.current_leader_epoch)
                    .map(|_epoch| partition.end_of_epoch(LeaderEpoch(it.leader_epoch))),
                None if is_internal && is_internal_partition(it.partition) => Ok(internal_end(it)),
                None => Err(ErrorCode::UnknownTopicOrPartition),
            };
            epoch_end(it.partition, found)
        };
        let partitions = asked.partitions.iter().map(one).collect();
        OffsetForLeaderTopicResult { topic: asked.topic, partitions, ..Default::default() }
    });
    let topics = topics.collect();
    OffsetForLeaderEpochResponseData { topics, ..OffsetForLeaderEpochResponseData::default() }
}

/// The only epoch of an internal topic, which has no records.
fn internal_end(asked: &OffsetForLeaderPartition) -> Option<EpochEnd> {
    let end = EpochEnd { epoch: INTERNAL_EPOCH, end: Offset(INTERNAL_OFFSET) };
    (asked.leader_epoch == INTERNAL_EPOCH.0).then_some(end)
}

fn epoch_end(partition: i32, found: Result<Option<EpochEnd>, ErrorCode>) -> EpochEndOffset {
    let error = found.as_ref().err().copied().unwrap_or(ErrorCode::None);
    let found = found.ok().flatten();
    EpochEndOffset {
        error_code: error.code(),
        partition,
        leader_epoch: found.map_or(UNDEFINED, |it| it.epoch.0),
        end_offset: found.map_or(-1, |it| it.end.0),
        ..EpochEndOffset::default()
    }
}
