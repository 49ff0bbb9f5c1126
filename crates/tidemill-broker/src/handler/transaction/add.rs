//! Additions to a transaction: AddPartitionsToTxn, AddOffsetsToTxn, and produce requests that add
//! their partitions themselves (KIP-890).

use crate::{
    api::Context,
    partition::ADDS_FROM_VERSION,
    refusal::RequestRefusal,
    topic::Topic,
    transaction::{
        coordinator::{Failure, TransactionSender},
        state::{ProducerIdentity, Protocol},
    },
};
use std::collections::{BTreeMap, BTreeSet};
use tidemill_wire::{
    chunk::ChunkHead,
    kafka::{
        ErrorCode, KafkaString,
        message::{
            AddOffsetsToTxnRequestData, AddOffsetsToTxnResponseData,
            AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequestData,
            AddPartitionsToTxnResponseData, AddPartitionsToTxnResult, AddPartitionsToTxnTopic,
            AddPartitionsToTxnTopicResult, ProduceRequestData,
        },
    },
    transactions::TransactionPartition,
};

/// The first versions that have `PRODUCER_FENCED`, that are about several transactions at once, and
/// that have `TRANSACTION_ABORTABLE`.
const FENCED_FROM_VERSION: i16 = 2;
const BATCHED_FROM_VERSION: i16 = 4;
const ABORTABLE_FROM_VERSION: i16 = 4;

/// Adds partitions to one transaction, or to several.
pub(crate) async fn partitions(
    context: &Context<'_>,
    request: AddPartitionsToTxnRequestData,
) -> AddPartitionsToTxnResponseData {
    let mut response = AddPartitionsToTxnResponseData::default();
    if context.version() < BATCHED_FROM_VERSION {
        let asked = TransactionAdditions {
            id: request.v3_and_below_transactional_id,
            producer: ProducerIdentity {
                id: request.v3_and_below_producer_id,
                epoch: request.v3_and_below_producer_epoch,
            },
            verify_only: false,
        };
        let topics = request.v3_and_below_topics;
        response.results_by_topic_v3_and_below = asked.answer(context, topics).await;
        return response;
    }
    for one in request.transactions {
        let asked = TransactionAdditions {
            id: one.transactional_id,
            producer: ProducerIdentity { id: one.producer_id, epoch: one.producer_epoch },
            verify_only: one.verify_only,
        };
        let topic_results = asked.answer(context, one.topics).await;
        response.results_by_transaction.push(AddPartitionsToTxnResult {
            transactional_id: asked.id,
            topic_results,
            ..AddPartitionsToTxnResult::default()
        });
    }
    response
}

/// One transaction that partitions are added to.
struct TransactionAdditions {
    id: KafkaString,
    producer: ProducerIdentity,
    /// They are to be in it already.
    verify_only: bool,
}

impl TransactionAdditions {
    /// Adds all partitions, or none.
    async fn answer(
        &self,
        context: &Context<'_>,
        topics: Vec<AddPartitionsToTxnTopic>,
    ) -> Vec<AddPartitionsToTxnTopicResult> {
        let place = |asked: &AddPartitionsToTxnTopic| {
            let topic = context.broker.topic(asked.name.as_str());
            let place = |index: &i32| (*index, topic.as_ref().and_then(|it| place(it, *index)));
            asked.partitions.iter().map(place).collect::<Vec<_>>()
        };
        let places: Vec<Vec<(i32, Option<TransactionPartition>)>> =
            topics.iter().map(place).collect();
        let all = places.iter().flatten();
        let whole: Option<Vec<TransactionPartition>> = all.map(|(_, place)| *place).collect();
        let outcome = match whole {
            _ if self.id.as_str().is_empty() => Err(ErrorCode::InvalidRequest),
            // Those that are there are not added either.
            None => Err(ErrorCode::OperationNotAttempted),
            Some(_) if self.verify_only => Ok(()),
            Some(places) => self.add(context, &places).await,
        };
        let partition = |(index, place): &(i32, Option<TransactionPartition>)| {
            let error = match (outcome, place) {
                (Err(ErrorCode::OperationNotAttempted), None) => ErrorCode::UnknownTopicOrPartition,
                (Ok(()), Some(place)) if self.verify_only => self.verify(context, place),
                (Ok(()), _) => ErrorCode::None,
                (Err(error), _) => error,
            };
            AddPartitionsToTxnPartitionResult {
                partition_index: *index,
                partition_error_code: error.code(),
                ..AddPartitionsToTxnPartitionResult::default()
            }
        };
        let named = topics.into_iter().zip(&places);
        let topic =
            |(topic, places): (AddPartitionsToTxnTopic, &Vec<_>)| AddPartitionsToTxnTopicResult {
                name: topic.name,
                results_by_partition: places.iter().map(partition).collect(),
                ..AddPartitionsToTxnTopicResult::default()
            };
        named.map(topic).collect()
    }

    async fn add(
        &self,
        context: &Context<'_>,
        places: &[TransactionPartition],
    ) -> Result<(), ErrorCode> {
        let asker = asker(context, self.producer, Protocol::One);
        let added = context.broker.transactions.add(self.id.as_str(), asker, places, None).await;
        added.map_err(|it| code(context, &it))
    }

    fn verify(&self, context: &Context<'_>, place: &TransactionPartition) -> ErrorCode {
        let coordinator = &context.broker.transactions;
        match coordinator.verify(self.id.as_str(), self.producer, place) {
            Ok(()) => ErrorCode::None,
            Err(error) => code(context, &Failure::Refused(error)),
        }
    }
}

/// Adds a group to a transaction: its offsets are committed or aborted with it.
pub(crate) async fn offsets(
    context: &Context<'_>,
    request: AddOffsetsToTxnRequestData,
) -> AddOffsetsToTxnResponseData {
    let producer = ProducerIdentity { id: request.producer_id, epoch: request.producer_epoch };
    let (id, group) = (request.transactional_id.as_str(), request.group_id.as_str());
    let error = if id.is_empty() {
        ErrorCode::InvalidRequest
    } else {
        // A group without a name, too, as in Kafka: it is its offsets that are refused.
        let asker = asker(context, producer, Protocol::One);
        match context.broker.transactions.add(id, asker, &[], Some(group)).await {
            Ok(()) => ErrorCode::None,
            Err(error) => code(context, &error),
        }
    };
    AddOffsetsToTxnResponseData {
        error_code: error.code(),
        ..AddOffsetsToTxnResponseData::default()
    }
}

/// Adds the partitions of a produce request to its transaction, if the request's version adds them
/// itself. Chunks outside the transaction and bad chunks are not looked at here.
///
/// # Errors
/// The refusal for all of its partitions.
pub(crate) async fn produced(
    context: &Context<'_>,
    request: &ProduceRequestData,
) -> Result<(), RequestRefusal> {
    let version = context.version();
    let Some(id) = &request.transactional_id else { return Ok(()) };
    if version < ADDS_FROM_VERSION {
        return Ok(());
    }
    let broker = context.broker;
    // Clients send chunks of one producer in one request; whoever does not is not held up by it.
    let mut producers: BTreeMap<ProducerIdentity, BTreeSet<TransactionPartition>> = BTreeMap::new();
    for asked in &request.topic_data {
        let topic = if version >= 13 {
            broker.topics.get_by_id(&broker.log, asked.topic_id)
        } else {
            broker.topic(asked.name.as_str())
        };
        let Some(topic) = topic else { continue };
        for partition in &asked.partition_data {
            let chunk = partition.records.as_deref().unwrap_or_default();
            let Ok(head) = ChunkHead::read(chunk) else { continue };
            let Some(place) = place(&topic, partition.index) else { continue };
            if !head.is_transactional() || head.producer_id < 0 {
                continue;
            }
            let producer = ProducerIdentity { id: head.producer_id, epoch: head.producer_epoch };
            producers.entry(producer).or_default().insert(place);
        }
    }
    for (producer, places) in producers {
        let places: Vec<TransactionPartition> = places.into_iter().collect();
        let asker = asker(context, producer, Protocol::Two);
        let added = broker.transactions.add(id.as_str(), asker, &places, None).await;
        added.map_err(|it| it.of_produce(version))?;
    }
    Ok(())
}

fn place(topic: &Topic, index: i32) -> Option<TransactionPartition> {
    topic.partition(index).map(|it| it.place)
}

pub(super) fn asker(
    context: &Context<'_>,
    producer: ProducerIdentity,
    protocol: Protocol,
) -> TransactionSender {
    TransactionSender { producer, protocol, connection: context.caller.id }
}

fn code(context: &Context<'_>, failure: &Failure) -> ErrorCode {
    let version = context.version();
    failure.code(version >= FENCED_FROM_VERSION, version >= ABORTABLE_FROM_VERSION)
}
