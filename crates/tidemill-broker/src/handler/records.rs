//! Records are deleted from the front; where an epoch of leaders ended.

use crate::{
    Broker, api::Context, handler::blocking, partition::Partition, refusal::Refusal, tending,
    topic::Topic,
};
use std::sync::Arc;
use tidemill_log::LogError;
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
    let (request, lacking) = blocking::run(move || {
        let mut request = request;
        let lacking = lacking(&asked, &mut request);
        (request, lacking)
    })
    .await;
    tending::keep(&broker, lacking).await;
    let topics = blocking::run(move || {
        let topic = |asked: tidemill_wire::kafka::message::DeleteRecordsTopic| {
            let topic = broker.topic(asked.name.as_str());
            let one = |it: &DeleteRecordsPartition| {
                let outcome = delete_one(&broker, topic.as_deref(), it);
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

/// Says what "to the end" is, and tells the partitions what is about to go: those whose producers
/// are not stored up to there.
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
    topic: Option<&Topic>,
    asked: &DeleteRecordsPartition,
) -> Result<i64, Refusal> {
    let unknown = || Refusal::of(ErrorCode::UnknownTopicOrPartition);
    let topic = topic.ok_or_else(unknown)?;
    let partition = topic.partition(asked.partition_index).ok_or_else(unknown)?;
    match topic.stream.delete_records(&partition.streamlet, asked.offset) {
        Err(LogError::Closed) if broker.topic(topic.stream.name()).is_none() => Err(unknown()),
        other => Ok(other?),
    }
}

/// Says where epochs end: there is one epoch, 0, and it goes on.
pub(crate) async fn epoch_ends(
    context: &Context<'_>,
    request: OffsetForLeaderEpochRequestData,
) -> OffsetForLeaderEpochResponseData {
    let topics = request.topics.into_iter().map(|asked| {
        let topic = context.broker.topic(asked.topic.as_str());
        let one = |it: &OffsetForLeaderPartition| epoch_end(topic.as_deref(), it);
        let partitions = asked.partitions.iter().map(one).collect();
        OffsetForLeaderTopicResult { topic: asked.topic, partitions, ..Default::default() }
    });
    let topics = topics.collect();
    OffsetForLeaderEpochResponseData { topics, ..OffsetForLeaderEpochResponseData::default() }
}

fn epoch_end(topic: Option<&Topic>, asked: &OffsetForLeaderPartition) -> EpochEndOffset {
    let partition = topic.and_then(|it| it.partition(asked.partition));
    let (error, leader_epoch, end_offset) = match partition {
        None => (ErrorCode::UnknownTopicOrPartition, UNDEFINED, -1),
        Some(_) if asked.current_leader_epoch > 0 => (ErrorCode::UnknownLeaderEpoch, UNDEFINED, -1),
        Some(it) if asked.leader_epoch == 0 => (ErrorCode::None, 0, it.streamlet.high_watermark()),
        Some(_) => (ErrorCode::None, UNDEFINED, -1),
    };
    EpochEndOffset {
        error_code: error.code(),
        partition: asked.partition,
        leader_epoch,
        end_offset,
        ..EpochEndOffset::default()
    }
}
