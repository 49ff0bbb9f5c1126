//! DescribeTransactions, ListTransactions, DescribeProducers: for administrators in search of
//! hanging transactions.

use crate::{
    api::Context,
    handler::duplicates::{remove_repeated, remove_repeated_partitions},
    partition::Partition,
    transaction::{
        describe::{is_phase_name, phase_name},
        state::Transaction,
    },
};
use std::collections::{BTreeMap, BTreeSet};
use tidemill_log::StreamId;
use tidemill_wire::kafka::{
    ErrorCode, KafkaString,
    message::{
        DescribeProducersRequestData, DescribeProducersResponseData,
        DescribeTransactionsRequestData, DescribeTransactionsResponseData,
        ListTransactionsRequestData, ListTransactionsResponseData,
        describe_producers_request::TopicRequest,
        describe_producers_response::{PartitionResponse, ProducerState, TopicResponse},
        describe_transactions_response::{TopicData, TransactionState},
        list_transactions_response::TransactionState as Listed,
    },
    text,
};
use tidemill_wire::transactions::TransactionPhase as Phase;

/// Answers with all there is to know of transactional ids.
pub(crate) async fn transactions(
    context: &Context<'_>,
    mut request: DescribeTransactionsRequestData,
) -> DescribeTransactionsResponseData {
    remove_repeated(&mut request.transactional_ids, KafkaString::clone);
    let one = |id: KafkaString| match context.broker.transactions.find(id.as_str()) {
        Some(it) => described(context, id, &it),
        None => TransactionState {
            error_code: match id.as_str() {
                "" => ErrorCode::InvalidRequest.code(),
                _ => ErrorCode::TransactionalIdNotFound.code(),
            },
            transactional_id: id,
            ..TransactionState::default()
        },
    };
    let transaction_states = request.transactional_ids.into_iter().map(one).collect();
    DescribeTransactionsResponseData {
        transaction_states,
        ..DescribeTransactionsResponseData::default()
    }
}

fn described(context: &Context<'_>, id: KafkaString, it: &Transaction) -> TransactionState {
    let mut topics: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    for place in &it.partitions {
        let stream = context.broker.log.get_by_id(StreamId(place.stream));
        let Some(stream) = stream else { continue };
        let index = i32::try_from(place.index).unwrap_or(i32::MAX);
        topics.entry(stream.name().to_owned()).or_default().push(index);
    }
    let topic = |(name, partitions): (String, Vec<i32>)| TopicData {
        topic: text(&name),
        partitions,
        ..TopicData::default()
    };
    TransactionState {
        transactional_id: id,
        transaction_state: text(phase_name(it.phase)),
        transaction_timeout_ms: it.timeout_ms,
        transaction_start_time_ms: it.began_ms,
        producer_id: it.producer.id,
        producer_epoch: it.producer.epoch,
        topics: topics.into_iter().map(topic).collect(),
        ..TransactionState::default()
    }
}

/// Answers with the transactional ids that pass all filters.
pub(crate) async fn list(
    context: &Context<'_>,
    mut request: ListTransactionsRequestData,
) -> ListTransactionsResponseData {
    let pattern = request.transactional_id_pattern.as_ref().filter(|it| !it.as_str().is_empty());
    let mut response = ListTransactionsResponseData::default();
    if pattern.is_some() {
        // Patterns (KIP-1152) would need an engine for RE2.
        response.error_code = ErrorCode::InvalidRegularExpression.code();
        return response;
    }
    remove_repeated(&mut request.state_filters, KafkaString::clone);
    let unknown = request.state_filters.iter().filter(|it| !is_phase_name(it.as_str()));
    response.unknown_state_filters = unknown.cloned().collect();
    // Sets: there may be as many transactional ids as filters.
    let states: BTreeSet<&str> = request.state_filters.iter().map(KafkaString::as_str).collect();
    let producers: BTreeSet<i64> = request.producer_id_filters.iter().copied().collect();
    // What goes on for longer, as KIP-994 has it: Apache Kafka lists what has ended, too.
    let now_ms = context.broker.world.clock.wall_micros() / 1000;
    let passes = |it: &Transaction| {
        let phase = phase_name(it.phase);
        let open_ms = if it.began_ms >= 0 { now_ms - it.began_ms } else { -1 };
        (states.is_empty() || states.contains(phase))
            && (producers.is_empty() || producers.contains(&it.producer.id))
            && (request.duration_filter < 0
                || (it.phase == Phase::Ongoing && open_ms > request.duration_filter))
    };
    let all = context.broker.transactions.list().into_iter();
    let listed = all.filter(|(_, it)| passes(it)).map(|(id, it)| Listed {
        transactional_id: text(&id),
        producer_id: it.producer.id,
        transaction_state: text(phase_name(it.phase)),
        ..Listed::default()
    });
    response.transaction_states = listed.collect();
    response
}

/// Answers with the producers that partitions know.
pub(crate) async fn producers(
    context: &Context<'_>,
    mut request: DescribeProducersRequestData,
) -> DescribeProducersResponseData {
    remove_repeated_partitions(
        &mut request.topics,
        |it| it.name.clone(),
        |it| &mut it.partition_indexes,
    );
    let topic = |asked: TopicRequest| {
        let topic = context.broker.topic(asked.name.as_str());
        let one = |index: i32| match topic.as_ref().and_then(|it| it.partition(index)) {
            Some(partition) => active(&partition, index),
            None => failed(index, ErrorCode::UnknownTopicOrPartition),
        };
        TopicResponse {
            name: asked.name,
            partitions: asked.partition_indexes.into_iter().map(one).collect(),
            ..TopicResponse::default()
        }
    };
    let topics = request.topics.into_iter().map(topic).collect();
    DescribeProducersResponseData { topics, ..DescribeProducersResponseData::default() }
}

fn active(partition: &Partition, index: i32) -> PartitionResponse {
    let producers = partition.with_history(|history| {
        let one = |(id, it): (i64, &crate::producer::state::Producer)| ProducerState {
            producer_id: id,
            producer_epoch: i32::from(it.epoch),
            last_sequence: it.last_sequence(),
            last_timestamp: it.timestamp_ms,
            // Of the coordinator that ended its last transaction: ours never changes.
            coordinator_epoch: if it.has_ended { 0 } else { -1 },
            current_txn_start_offset: it.open.unwrap_or(-1),
            ..ProducerState::default()
        };
        history.producers().list().into_iter().map(one).collect()
    });
    match producers {
        Ok(active_producers) => PartitionResponse {
            partition_index: index,
            active_producers,
            ..PartitionResponse::default()
        },
        Err(error) => failed(index, error),
    }
}

fn failed(index: i32, error: ErrorCode) -> PartitionResponse {
    PartitionResponse {
        partition_index: index,
        error_code: error.code(),
        ..PartitionResponse::default()
    }
}
