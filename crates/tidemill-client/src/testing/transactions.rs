//! A minimal transaction coordinator: offsets count when their transaction is committed, only under
//! the newest epoch. Deaf streamlets never get the end.

use super::{
    Reply,
    log::{FakeState, Fault},
};
use bytes::Bytes;
use tidemill_wire::kafka::{ApiKey, ErrorCode, RequestHead, message::*};

/// The open transaction of a transactional id.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeTransaction {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
    /// In Kafka's words.
    pub(crate) state: &'static str,
    pub(crate) timeout_ms: i32,
    streamlets: Vec<(String, i32)>,
    group: Option<String>,
    offsets: Vec<(String, String, i32, i64)>,
}

impl FakeState {
    /// Answers a request for an id as Kafka does: the first request while a transaction is open is
    /// refused.
    pub(super) fn init(&mut self, asked: &InitProducerIdRequestData) -> (ErrorCode, i64, i16) {
        let Some(id) = &asked.transactional_id else {
            self.next_producer_id += 1;
            return (ErrorCode::None, self.next_producer_id, 0);
        };
        let Some(known) = self.transactions.get_mut(id.as_str()) else {
            self.next_producer_id += 1;
            let producer_id = self.next_producer_id;
            let timeout_ms = asked.transaction_timeout_ms;
            let fresh =
                FakeTransaction { producer_id, state: "Empty", timeout_ms, ..Default::default() };
            self.transactions.insert(id.to_string(), fresh);
            return (ErrorCode::None, producer_id, 0);
        };
        match known.state {
            "Ongoing" => {
                known.epoch += 1;
                known.state = "PrepareAbort";
                (ErrorCode::ConcurrentTransactions, -1, -1)
            }
            "PrepareAbort" | "PrepareCommit" => {
                self.complete(id.as_str());
                (ErrorCode::ConcurrentTransactions, -1, -1)
            }
            _ => {
                known.epoch += 1;
                known.state = "Empty";
                known.timeout_ms = asked.transaction_timeout_ms;
                (ErrorCode::None, known.producer_id, known.epoch)
            }
        }
    }

    /// Aborts the open transaction of an id after its timeout.
    pub(crate) fn time_out(&mut self, id: &str) {
        let open = self.transactions.get_mut(id).unwrap();
        assert_eq!(open.state, "Ongoing");
        open.epoch += 1;
        open.state = "PrepareAbort";
        self.complete(id);
    }

    /// Tells all that hear it how a transaction ends.
    fn complete(&mut self, id: &str) {
        let ended = self.transactions.get_mut(id).unwrap();
        let committed = match ended.state {
            "PrepareCommit" => true,
            "PrepareAbort" => false,
            _ => return,
        };
        ended.state = if committed { "CompleteCommit" } else { "CompleteAbort" };
        let is_missed = self.deaf_ends > 0;
        self.deaf_ends = self.deaf_ends.saturating_sub(1);
        let streamlets = std::mem::take(&mut ended.streamlets);
        let group = ended.group.take();
        for place in &streamlets {
            let is_deaf = is_missed && self.deaf.contains(place);
            match self.hanging.iter().position(|it| it == place) {
                Some(_) if is_deaf => {}
                Some(at) => {
                    self.hanging.remove(at);
                    self.fates.push((place.clone(), committed));
                }
                None if is_deaf => self.hanging.push(place.clone()),
                None => self.fates.push((place.clone(), committed)),
            }
        }
        let offsets = std::mem::take(&mut ended.offsets);
        match &group {
            Some(_) if is_missed && self.is_group_deaf => self.undecided.extend(offsets),
            Some(name) => {
                let of_group = |it: &(String, String, i32, i64)| it.0 == *name;
                let earlier = self.undecided.extract_if(.., |it| of_group(it));
                for (group, stream, index, offset) in earlier.chain(offsets).collect::<Vec<_>>() {
                    if committed {
                        self.committed.insert((group, stream, index), offset);
                    }
                }
            }
            None => {}
        }
        self.ended.push((committed, streamlets, group));
    }

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
                let producer = (asked.v3_and_below_producer_id, asked.v3_and_below_producer_epoch);
                let told = self.code(&id, producer, told);
                let open = self.open(&id);
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
                        open.state = "Ongoing";
                        open.streamlets
                            .extend(topic.partitions.iter().map(|it| (name.clone(), *it)));
                    }
                }
                let answer = AddPartitionsToTxnResponseData::default();
                Reply::message(head, &answer.with_results_by_topic_v3_and_below(topics))
            }
            ApiKey::AddOffsetsToTxn => {
                let asked = AddOffsetsToTxnRequestData::read(content, version).unwrap();
                let id = asked.transactional_id.as_str();
                let told = self.code(id, (asked.producer_id, asked.producer_epoch), told);
                if told == 0 {
                    let open = self.open(id);
                    open.state = "Ongoing";
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
                let open = self.open(asked.transactional_id.as_str());
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
                let id = asked.transactional_id.as_str();
                let code = self.code(id, (asked.producer_id, asked.producer_epoch), told);
                let prepared = if asked.committed { "PrepareCommit" } else { "PrepareAbort" };
                let complete = if asked.committed { "CompleteCommit" } else { "CompleteAbort" };
                let open = self.open(id);
                let code = match open.state {
                    _ if code != 0 => code,
                    "Ongoing" => {
                        open.state = prepared;
                        0
                    }
                    it if it == complete => 0,
                    _ => ErrorCode::InvalidTxnState.code(),
                };
                if !self.is_slow {
                    self.complete(id);
                }
                Reply::message(head, &EndTxnResponseData::default().with_error_code(code))
            }
            ApiKey::DescribeProducers => {
                use describe_producers_request::TopicRequest;
                use describe_producers_response::{
                    PartitionResponse, ProducerState, TopicResponse,
                };
                let asked = DescribeProducersRequestData::read(content, version).unwrap();
                // There is one who asks.
                let newest = self.next_producer_id;
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
                let asked = DescribeTransactionsRequestData::read(content, version).unwrap();
                let id = asked.transactional_ids[0].as_str();
                let row = match self.transactions.get(id) {
                    None => TransactionState::default()
                        .with_error_code(ErrorCode::TransactionalIdNotFound.code()),
                    Some(it) => TransactionState::default()
                        .with_error_code(told)
                        .with_producer_id(it.producer_id)
                        .with_producer_epoch(it.epoch)
                        .with_transaction_timeout_ms(it.timeout_ms)
                        .with_transaction_state(tidemill_wire::kafka::text(it.state)),
                };
                // It has ended before it is asked for once more.
                self.complete_if_known(id);
                let answer = DescribeTransactionsResponseData::default();
                Reply::message(head, &answer.with_transaction_states(vec![row]))
            }
            _ => return None,
        })
    }

    fn complete_if_known(&mut self, id: &str) {
        if self.transactions.contains_key(id) {
            self.complete(id);
        }
    }

    /// The error code for a producer; `told` if there is no other.
    fn code(&self, id: &str, (producer_id, epoch): (i64, i16), told: i16) -> i16 {
        let known = self.transactions.get(id);
        match known {
            _ if told != 0 => told,
            Some(it) if it.producer_id == producer_id && it.epoch == epoch => 0,
            Some(it) if it.producer_id == producer_id => ErrorCode::ProducerFenced.code(),
            _ => ErrorCode::InvalidProducerIdMapping.code(),
        }
    }

    fn open(&mut self, id: &str) -> &mut FakeTransaction {
        self.transactions.entry(id.to_owned()).or_default()
    }
}
