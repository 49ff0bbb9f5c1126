//! Enough of a transaction coordinator: offsets count when their transaction is committed, and only
//! under the newest producer id.

use super::{
    Reply,
    log::{FakeState, Fault},
};
use bytes::Bytes;
use tidemill_wire::kafka::{ApiKey, ErrorCode, RequestHead, message::*};

/// What is open under a transactional id.
#[derive(Debug, Default)]
pub(crate) struct FakeTransaction {
    producer_id: i64,
    streamlets: Vec<(String, i32)>,
    group: Option<String>,
    offsets: Vec<(String, String, i32, i64)>,
}

impl FakeState {
    /// Answers a request about transactions; none: it is another request.
    pub(super) fn transact(
        &mut self,
        head: &RequestHead,
        key: ApiKey,
        content: &mut Bytes,
        fault: Fault,
    ) -> Option<Reply> {
        let told = if let Fault::Code(code) = fault { code.code() } else { 0 };
        let version = head.version;
        Some(match key {
            ApiKey::AddPartitionsToTxn => {
                use add_partitions_to_txn_response::{
                    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult,
                };
                assert!(version <= 3, "later ones are for brokers");
                let asked = AddPartitionsToTxnRequestData::read(content, version).unwrap();
                let id = asked.v3_and_below_transactional_id.to_string();
                let open = self.open(&id, asked.v3_and_below_producer_id);
                let mut topics = Vec::new();
                for topic in &asked.v3_and_below_topics {
                    let name = topic.name.to_string();
                    let rows = topic.partitions.iter().map(|index| {
                        AddPartitionsToTxnPartitionResult::default()
                            .with_partition_index(*index)
                            .with_partition_error_code(told)
                    });
                    let result = AddPartitionsToTxnTopicResult::default()
                        .with_name(topic.name.clone())
                        .with_results_by_partition(rows.collect());
                    topics.push(result);
                    if told == 0 {
                        open.streamlets
                            .extend(topic.partitions.iter().map(|it| (name.clone(), *it)));
                    }
                }
                let answer = AddPartitionsToTxnResponseData::default();
                Reply::message(head, &answer.with_results_by_topic_v3_and_below(topics))
            }
            ApiKey::AddOffsetsToTxn => {
                let asked = AddOffsetsToTxnRequestData::read(content, version).unwrap();
                let open = self.open(asked.transactional_id.as_str(), asked.producer_id);
                if told == 0 {
                    open.group = Some(asked.group_id.to_string());
                }
                let answer = AddOffsetsToTxnResponseData::default().with_error_code(told);
                Reply::message(head, &answer)
            }
            ApiKey::TxnOffsetCommit => {
                use txn_offset_commit_response::{
                    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
                };
                assert!(version <= 4, "the next one is of the other protocol");
                let asked = TxnOffsetCommitRequestData::read(content, version).unwrap();
                let open = self.open(asked.transactional_id.as_str(), asked.producer_id);
                let group = asked.group_id.to_string();
                let known = open.group.as_ref() == Some(&group);
                let code = if known { told } else { ErrorCode::InvalidTxnState.code() };
                let mut topics = Vec::new();
                for topic in &asked.topics {
                    let mut rows = Vec::new();
                    for it in &topic.partitions {
                        let row = TxnOffsetCommitResponsePartition::default();
                        rows.push(
                            row.with_partition_index(it.partition_index).with_error_code(code),
                        );
                        if code == 0 {
                            let name = topic.name.to_string();
                            let offset =
                                (group.clone(), name, it.partition_index, it.committed_offset);
                            open.offsets.push(offset);
                        }
                    }
                    let row = TxnOffsetCommitResponseTopic::default();
                    topics.push(row.with_name(topic.name.clone()).with_partitions(rows));
                }
                let answer = TxnOffsetCommitResponseData::default().with_topics(topics);
                Reply::message(head, &answer)
            }
            ApiKey::EndTxn => {
                assert!(version <= 4, "the next one is of the other protocol");
                let asked = EndTxnRequestData::read(content, version).unwrap();
                let open = self.open(asked.transactional_id.as_str(), asked.producer_id);
                let producer_id = open.producer_id;
                let fresh = FakeTransaction { producer_id, ..FakeTransaction::default() };
                let code = match asked.producer_id < producer_id {
                    true => ErrorCode::ProducerFenced.code(),
                    false => told,
                };
                if code == 0 {
                    let FakeTransaction { streamlets, group, offsets, .. } =
                        std::mem::replace(open, fresh);
                    self.hanging.retain(|it| !streamlets.contains(it));
                    self.ended.push((asked.committed, streamlets, group));
                    for (group, stream, index, offset) in offsets {
                        if asked.committed {
                            self.committed.insert((group, stream, index), offset);
                        }
                    }
                }
                Reply::message(head, &EndTxnResponseData::default().with_error_code(code))
            }
            ApiKey::DescribeProducers => {
                use describe_producers_request::TopicRequest;
                use describe_producers_response::{
                    PartitionResponse, ProducerState, TopicResponse,
                };
                let asked = DescribeProducersRequestData::read(content, version).unwrap();
                // The newest id is that of who asks.
                let newest = self.transactions.values().map(|it| it.producer_id).max();
                let newest = newest.unwrap_or(0).max(self.next_producer_id);
                let topic = |asked: &TopicRequest| {
                    let row = |index: &i32| {
                        let open = (asked.name.to_string(), *index);
                        let start = if self.hanging.contains(&open) { 0 } else { -1 };
                        let producer = ProducerState::default()
                            .with_producer_id(newest)
                            .with_current_txn_start_offset(start);
                        PartitionResponse::default()
                            .with_partition_index(*index)
                            .with_error_code(told)
                            .with_active_producers(vec![producer])
                    };
                    TopicResponse::default()
                        .with_name(asked.name.clone())
                        .with_partitions(asked.partition_indexes.iter().map(row).collect())
                };
                let answer = DescribeProducersResponseData::default();
                Reply::message(head, &answer.with_topics(asked.topics.iter().map(topic).collect()))
            }
            ApiKey::DescribeTransactions => {
                use describe_transactions_response::TransactionState;
                let row = TransactionState::default()
                    .with_error_code(told)
                    .with_transaction_state(tidemill_wire::kafka::text(self.decided));
                let answer = DescribeTransactionsResponseData::default();
                Reply::message(head, &answer.with_transaction_states(vec![row]))
            }
            _ => return None,
        })
    }

    fn open(&mut self, id: &str, producer_id: i64) -> &mut FakeTransaction {
        let open = self.transactions.entry(id.to_owned()).or_default();
        if producer_id > open.producer_id {
            *open = FakeTransaction { producer_id, ..FakeTransaction::default() };
        }
        open
    }
}
