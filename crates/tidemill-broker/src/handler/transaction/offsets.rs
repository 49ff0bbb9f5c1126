//! TxnOffsetCommit: offsets of a group that count when a transaction is committed (KIP-98,
//! KIP-447).

use super::add::asker;
use crate::{
    api::Context,
    group::registry::RequestSender,
    handler::offsets::{CommitTopic, CommittedPosition, new_offset},
    transaction::state::{ProducerIdentity, Protocol},
};
use tidemill_types::{LeaderEpoch, Offset};
use tidemill_wire::kafka::{
    ErrorCode,
    message::{
        TxnOffsetCommitRequestData, TxnOffsetCommitResponseData, TxnOffsetCommitResponsePartition,
        TxnOffsetCommitResponseTopic,
    },
};

/// The first version with `TRANSACTION_ABORTABLE`, and the first that adds its group itself.
const ABORTABLE_FROM_VERSION: i16 = 4;
const ADDS_FROM_VERSION: i16 = 5;

/// Holds offsets; the answer comes when that is durable.
pub(crate) async fn commit(
    context: &Context<'_>,
    request: TxnOffsetCommitRequestData,
) -> TxnOffsetCommitResponseData {
    let version = context.version();
    let sender = RequestSender {
        group: request.group_id.as_str().to_owned(),
        member_id: request.member_id.as_str().to_owned(),
        instance: request.group_instance_id.as_ref().map(|it| it.as_str().to_owned()),
        // Older versions do not say it.
        generation: if version >= 3 { request.generation_id } else { -1 },
    };
    let mut offsets = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for asked in request.topics {
        let topic = CommitTopic::named(context.broker, asked.name.as_str());
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for it in asked.partitions {
            let topic = topic.as_ref().map_err(|error| *error);
            let committed = CommittedPosition {
                offset: Offset(it.committed_offset),
                leader_epoch: LeaderEpoch(it.committed_leader_epoch),
            };
            let metadata = it.committed_metadata.as_ref();
            let checked = new_offset(context, topic, it.partition_index, committed, metadata);
            partitions.push((it.partition_index, checked.as_ref().err().copied()));
            offsets.extend(checked.ok());
        }
        topics.push((asked.name, partitions));
    }
    let producer = ProducerIdentity { id: request.producer_id, epoch: request.producer_epoch };
    let id = request.transactional_id.as_str();
    let outcome = if id.is_empty() {
        Err(ErrorCode::InvalidRequest)
    } else if sender.group.is_empty() {
        Err(ErrorCode::InvalidGroupId)
    } else {
        hold(context, id, producer, &sender, offsets).await
    };
    let outcome = outcome.err().unwrap_or(ErrorCode::None);
    let partition = |(partition_index, error): (i32, Option<ErrorCode>)| {
        let error_code = error.unwrap_or(outcome).code();
        TxnOffsetCommitResponsePartition { partition_index, error_code, ..Default::default() }
    };
    let topics = topics.into_iter().map(|(name, partitions)| TxnOffsetCommitResponseTopic {
        name,
        partitions: partitions.into_iter().map(partition).collect(),
        ..TxnOffsetCommitResponseTopic::default()
    });
    TxnOffsetCommitResponseData {
        topics: topics.collect(),
        ..TxnOffsetCommitResponseData::default()
    }
}

async fn hold(
    context: &Context<'_>,
    id: &str,
    producer: ProducerIdentity,
    sender: &RequestSender,
    offsets: Vec<(crate::group::offsets::TopicPartition, crate::group::registry::NewOffset)>,
) -> Result<(), ErrorCode> {
    let version = context.version();
    let (broker, adds) = (context.broker, version >= ADDS_FROM_VERSION);
    let code = |it: crate::transaction::coordinator::Failure| {
        it.of_offsets(version >= ABORTABLE_FROM_VERSION, adds)
    };
    if adds {
        let asker = asker(context, producer, Protocol::Two);
        broker.transactions.add(id, asker, &[], Some(&sender.group)).await.map_err(code)?;
    }
    let held = broker.transactions.stage(&broker.groups, id, producer, sender, offsets).await;
    held.map_err(code)?
}
