//! Transactions: chunks of several streamlets and an offset of a group, all or nothing (KIP-98).
//!
//! ```text
//! take_over ─▶ producer id, epoch      an earlier owner's open transaction is aborted, and it is fenced
//!           ─▶ the group's offsets     they say which transaction was the last that counted
//! commit    ─▶ add streamlets, add the group ─▶ chunks to their leaders, the offset ─▶ end
//!     any failure, a lost connection too ─▶ the open transaction is left alone: take_over again
//! ```
//!
//! A committer has one question, "did it count?", and one way to know: after
//! [`Transactions::take_over`] every transaction begun before has come to its end, and the offset
//! of the group says which was the last that counted. So all failures are treated alike.
//!
//! In two cases a transaction is not begun though nothing has failed: the connection to its
//! coordinator was lost, or a streamlet is led anew. Then it may be that an end has not come
//! through everywhere (`transactions/takeover.rs`, `transactions/open_transactions.rs`).
//!
//! The protocol is that of before KIP-890's second part, which brokers of all versions take: a
//! transaction's streamlets and group are added first. Its epoch changes with each take-over, so a
//! chunk that is late on its way is refused.
//!
//! Invariants: calls wait no longer than [`ClientOptions::request_timeout`] for an answer; a chunk
//! is only sent within a transaction, and an end only after all of it is acknowledged.
//!
//! [`ClientOptions::request_timeout`]: crate::ClientOptions::request_timeout

use crate::{
    Admin, AdminError, CallError, Client, Refusal,
    admin::about,
    cluster::Metadata,
    connection::{Connection, RequestOptions},
    producer::ProducerIdentity,
};
use bytes::Bytes;
use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};
use tidemill_env::sync::mpsc;
use tidemill_types::NodeId;
use tidemill_wire::{
    chunk::{ChunkHead, seal},
    kafka::{
        ApiKey, ErrorCode, KafkaUuid, Produce, ProduceStream, Request,
        message::{
            AddOffsetsToTxnRequestData, AddPartitionsToTxnRequestData, EndTxnRequestData,
            ProduceRequestData, TxnOffsetCommitRequestData,
            add_partitions_to_txn_request::AddPartitionsToTxnTopic,
            txn_offset_commit_request::{
                TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
            },
        },
        produce_frame, text,
    },
};

mod decision;
mod open_transactions;
mod takeover;

#[cfg(test)]
mod tests;

/// The newest versions of before KIP-890's second part.
const NEWEST: &[(ApiKey, i16)] = &[
    (ApiKey::AddPartitionsToTxn, 3),
    (ApiKey::AddOffsetsToTxn, 3),
    (ApiKey::TxnOffsetCommit, 4),
    (ApiKey::EndTxn, 4),
    (ApiKey::InitProducerId, 5),
    (ApiKey::Produce, 11),
];
/// The first and the longest rest before asking again while the transaction before is being ended,
/// in microseconds. That takes a moment, or as long as a partition has no leader.
const REST_US: (u64, u64) = (5_000, 500_000);

/// The transactions of one id, one after the other. It has connections of its own.
pub struct Transactions {
    admin: Admin,
    id: String,
    timeout: Duration,
    identity: Option<ProducerIdentity>,
    /// Over which the id was taken over.
    coordinator: Option<Connection>,
    /// The coordinator's decision on the last transaction, until its end is known everywhere.
    last_committed: Option<bool>,
    /// The next sequence number, by streamlet.
    sequences: BTreeMap<(String, i32), i32>,
    /// The id of the only stream that is written to, if that is known.
    only: Option<String>,
    /// The leader epochs of the stream when nothing was open in it.
    epochs: open_transactions::Epochs,
}

/// An offset that is committed with a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetMark {
    /// Of which group; it has no members.
    pub group: String,
    /// Of which stream and streamlet.
    pub stream: String,
    /// See `stream`.
    pub streamlet: i32,
    /// The offset.
    pub offset: i64,
    /// Text beside it, some thousand bytes at most.
    pub metadata: String,
}

impl Client {
    /// Transactions under an id. The cluster aborts one that is open for longer than `timeout`.
    #[must_use]
    pub fn transactions(&self, id: &str, timeout: Duration) -> Transactions {
        let (admin, sequences) = (self.admin(), BTreeMap::new());
        Transactions {
            admin,
            id: id.to_owned(),
            timeout,
            identity: None,
            coordinator: None,
            last_committed: None,
            sequences,
            only: None,
            epochs: open_transactions::Epochs::new(),
        }
    }
}

/// True if the same may succeed after [`Transactions::take_over`]: the cluster could not be
/// reached, a leadership is moving, or a transaction is still being ended, or was ended by another
/// owner.
#[must_use]
pub fn is_passing(error: &AdminError) -> bool {
    match error {
        AdminError::Call(error) => {
            !matches!(error, CallError::Unsupported { .. } | CallError::BadRequest(_))
        }
        AdminError::Refused { refusal, .. } => {
            refusal.code.is_retriable()
                || matches!(
                    refusal.code,
                    ErrorCode::ConcurrentTransactions
                        | ErrorCode::KafkaStorageError
                        | ErrorCode::ProducerFenced
                        | ErrorCode::InvalidProducerEpoch
                        | ErrorCode::InvalidProducerIdMapping
                        | ErrorCode::UnknownProducerId
                        | ErrorCode::OutOfOrderSequenceNumber
                        | ErrorCode::InvalidTxnState
                        | ErrorCode::TransactionAbortable
                        | ErrorCode::OperationNotAttempted
                        | ErrorCode::UnknownServerError
                )
        }
    }
}

impl Transactions {
    /// Writes to the stream of this id, as [`Admin::identify`] says it, and to no other one that
    /// has its name later. Zeros are no id.
    #[must_use]
    pub fn only_to(mut self, id: &str) -> Self {
        self.only = Some(id.to_owned()).filter(|it| it.bytes().any(|it| it != b'0'));
        self
    }

    /// True if a transaction can be committed: the id was taken over, nothing has failed since, and
    /// its coordinator was not away.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.identity.is_some() && self.lost().is_none()
    }

    /// Why the connection is lost over which the id was taken over, if it is. A coordinator that
    /// was away may have lost how the last transaction ended.
    fn lost(&self) -> Option<CallError> {
        self.coordinator.as_ref().and_then(Connection::ended)
    }

    /// Writes chunks, each to its streamlet in their order, and the offset, in one transaction. The
    /// chunks' heads get producer and sequence numbers here.
    ///
    /// # Errors
    /// Something failed, and the transaction may count or not: take over again, and read the
    /// offset.
    pub fn commit(
        &mut self,
        stream: &str,
        chunks: BTreeMap<i32, Vec<Vec<u8>>>,
        mark: &OffsetMark,
    ) -> Result<(), AdminError> {
        let Some(identity) = self.identity.take() else {
            return Err(CallError::BadRequest("the id was not taken over".to_owned()).into());
        };
        if let Some(error) = self.lost() {
            return Err(error.into());
        }
        let metadata = self.admin.metadata(Some(&[stream]))?;
        self.check_stream(stream, &metadata)?;
        open_transactions::check_epochs(&self.epochs, &metadata, stream)?;
        let indexes: Vec<i32> = chunks.keys().copied().collect();
        if !indexes.is_empty() {
            self.add_streamlets(identity, stream, &indexes)?;
        }
        self.add_group(identity, &mark.group)?;
        self.produce(identity, (stream, &metadata), chunks)?;
        self.mark(identity, mark)?;
        self.end(identity, true)?;
        self.identity = Some(identity);
        Ok(())
    }

    /// See [`Self::only_to`].
    fn check_stream(&self, stream: &str, metadata: &Metadata) -> Result<(), AdminError> {
        let Some(only) = &self.only else { return Ok(()) };
        let now = metadata.streams.get(stream).filter(|it| it.code == ErrorCode::None);
        if now.is_some_and(|it| it.id_text() != *only) {
            let why = "it was deleted and made anew, and what was written to it is gone with it";
            return Err(CallError::BadRequest(why.to_owned()).into());
        }
        Ok(())
    }

    fn subject(&self) -> String {
        format!("transactional id `{}`", self.id)
    }

    /// As [`Admin::again`], with shorter rests while the transaction before is being ended.
    fn again<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, AdminError>,
    ) -> Result<T, AdminError> {
        let deadline_us = self.admin.deadline_us();
        let mut rest_us = REST_US.0;
        self.admin.again(|| {
            loop {
                match attempt() {
                    Err(error)
                        if error.code() == Some(ErrorCode::ConcurrentTransactions)
                            && self.admin.now_us() < deadline_us =>
                    {
                        self.admin.rest(rest_us);
                        rest_us = (2 * rest_us).min(REST_US.1);
                    }
                    other => return other,
                }
            }
        })
    }

    /// As [`Self::again`], within a transaction: a lost request is not repeated. It may come late,
    /// behind requests under the same epoch, and then count for the next transaction; a new epoch
    /// shuts it out.
    fn within<T>(
        &self,
        mut attempt: impl FnMut() -> Result<T, AdminError>,
    ) -> Result<T, AdminError> {
        let outcome = self.again(|| match attempt() {
            Err(error @ AdminError::Call(CallError::Lost { .. })) => Ok(Err(error)),
            other => other.map(Ok),
        });
        outcome?
    }

    fn add_streamlets(
        &self,
        identity: ProducerIdentity,
        stream: &str,
        indexes: &[i32],
    ) -> Result<(), AdminError> {
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(text(stream))
            .with_partitions(indexes.to_vec());
        let request = AddPartitionsToTxnRequestData::default()
            .with_v3_and_below_transactional_id(text(&self.id))
            .with_v3_and_below_producer_id(identity.id.0)
            .with_v3_and_below_producer_epoch(identity.epoch.0)
            .with_v3_and_below_topics(vec![topic]);
        self.within(|| {
            let connection = self.admin.transaction_coordinator(&self.id)?;
            let answer = call(&connection, &request)?;
            // One that is refused has the others not attempted: what it was is said.
            let mut worst = 0;
            let topics = answer.results_by_topic_v3_and_below.iter();
            let rows = topics.flat_map(|it| &it.results_by_partition);
            for row in rows.clone() {
                let code = row.partition_error_code;
                if code != 0
                    && (worst == 0 || ErrorCode::from(worst) == ErrorCode::OperationNotAttempted)
                {
                    worst = code;
                }
            }
            Refusal::check(worst, None).map_err(about(self.subject()))?;
            let sent = indexes.iter().copied();
            let spoken_of = rows.map(|it| it.partition_index);
            Ok(connection.check_spoken_of(ApiKey::AddPartitionsToTxn, sent, spoken_of)?)
        })
    }

    fn add_group(&self, identity: ProducerIdentity, group: &str) -> Result<(), AdminError> {
        let request = AddOffsetsToTxnRequestData::default()
            .with_transactional_id(text(&self.id))
            .with_producer_id(identity.id.0)
            .with_producer_epoch(identity.epoch.0)
            .with_group_id(text(group));
        self.within(|| {
            let answer = call(&self.admin.transaction_coordinator(&self.id)?, &request)?;
            Refusal::check(answer.error_code, None).map_err(about(self.subject()))
        })
    }

    fn mark(&self, identity: ProducerIdentity, mark: &OffsetMark) -> Result<(), AdminError> {
        let row = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(mark.streamlet)
            .with_committed_offset(mark.offset)
            .with_committed_leader_epoch(-1)
            .with_committed_metadata(Some(text(&mark.metadata)));
        let topic = TxnOffsetCommitRequestTopic::default()
            .with_name(text(&mark.stream))
            .with_partitions(vec![row]);
        let request = TxnOffsetCommitRequestData::default()
            .with_transactional_id(text(&self.id))
            .with_group_id(text(&mark.group))
            .with_producer_id(identity.id.0)
            .with_producer_epoch(identity.epoch.0)
            .with_generation_id(-1)
            .with_member_id(text(""))
            .with_topics(vec![topic]);
        self.within(|| {
            let connection = self.admin.coordinator(&mark.group)?;
            let answer = call(&connection, &request)?;
            let rows = answer.topics.iter().flat_map(|it| &it.partitions);
            for it in rows.clone() {
                let subject = format!("group `{}`", mark.group);
                Refusal::check(it.error_code, None).map_err(about(subject))?;
            }
            let spoken_of = rows.map(|it| it.partition_index);
            let sent = [mark.streamlet];
            Ok(connection.check_spoken_of(ApiKey::TxnOffsetCommit, sent, spoken_of)?)
        })
    }

    fn end(&self, identity: ProducerIdentity, committed: bool) -> Result<(), AdminError> {
        let request = EndTxnRequestData::default()
            .with_transactional_id(text(&self.id))
            .with_producer_id(identity.id.0)
            .with_producer_epoch(identity.epoch.0)
            .with_committed(committed);
        self.within(|| {
            let answer = call(&self.admin.transaction_coordinator(&self.id)?, &request)?;
            Refusal::check(answer.error_code, None).map_err(about(self.subject()))
        })
    }

    /// Sends the chunks, one of each streamlet at a time, to all leaders at once.
    fn produce(
        &mut self,
        identity: ProducerIdentity,
        (stream, metadata): (&str, &Metadata),
        chunks: BTreeMap<i32, Vec<Vec<u8>>>,
    ) -> Result<(), AdminError> {
        let mut left: BTreeMap<i32, VecDeque<Vec<u8>>> =
            chunks.into_iter().map(|(index, chunks)| (index, chunks.into())).collect();
        loop {
            let mut round: BTreeMap<NodeId, Vec<(i32, Bytes)>> = BTreeMap::new();
            for (index, chunks) in &mut left {
                let Some(mut chunk) = chunks.pop_front() else { continue };
                let Some(leader) = metadata.leader(stream, *index) else {
                    let code = ErrorCode::LeaderNotAvailable;
                    let refusal = Refusal { code, message: None };
                    return Err(about(crate::admin::streamlet(stream, *index))(refusal));
                };
                let next = self.sequences.entry((stream.to_owned(), *index)).or_insert(0);
                *next = stamp(&mut chunk, identity, *next);
                round.entry(leader).or_default().push((*index, chunk.into()));
            }
            if round.is_empty() {
                return Ok(());
            }
            self.send(stream, metadata, round)?;
        }
    }

    /// One request to each leader; all answers are waited for.
    fn send(
        &self,
        stream: &str,
        metadata: &Metadata,
        round: BTreeMap<NodeId, Vec<(i32, Bytes)>>,
    ) -> Result<(), AdminError> {
        let (tell, told) = mpsc::channel();
        let mut sent = Vec::new();
        for (leader, chunks) in round {
            let connection = self.admin.node(leader)?;
            let version = picked::<ProduceRequestData>(&connection)?;
            let id = metadata.streams.get(stream).map_or(KafkaUuid::ZERO, |it| it.id);
            let indexes: Vec<i32> = chunks.iter().map(|(index, _)| *index).collect();
            let row = ProduceStream { name: text(stream), id: Some(id), chunks };
            let timeout_ms = self.admin.timeout_ms();
            let produce = Produce {
                transactional_id: Some(text(&self.id)),
                acks: -1,
                timeout_ms,
                streams: vec![row],
            };
            let asking = RequestOptions::answered(version, self.admin.deadline_us());
            let tell = tell.clone();
            let asked = connection.clone();
            let then = Box::new(move |answer: Result<Bytes, CallError>| {
                let read =
                    answer.and_then(|it| asked.read_answer::<ProduceRequestData>(version, it));
                drop(tell.send(read.map(|it| (asked, indexes, it))));
            });
            let write = |version, id, client: &_| produce_frame(&produce, version, id, client);
            connection.send_pieces(ApiKey::Produce, &asking, write, then);
            sent.push(connection);
        }
        drop(tell);
        for _ in 0..sent.len() {
            let (asked, indexes, answer) = loop {
                match told.recv_timeout(Duration::from_millis(100)) {
                    Ok(answer) => break answer?,
                    Err(mpsc::RecvTimeoutError::Disconnected) => {
                        return Err(CallError::Closed.into());
                    }
                    Err(mpsc::RecvTimeoutError::Timeout) => {
                        let now_us = self.admin.now_us();
                        for connection in &sent {
                            let _ = connection.expire(now_us);
                        }
                    }
                }
            };
            let rows = answer.responses.iter().flat_map(|it| &it.partition_responses);
            for row in rows.clone() {
                if ErrorCode::from(row.error_code) == ErrorCode::DuplicateSequenceNumber {
                    continue;
                }
                Refusal::check(row.error_code, row.error_message.as_ref())
                    .map_err(about(crate::admin::streamlet(stream, row.index)))?;
            }
            asked.check_spoken_of(ApiKey::Produce, indexes, rows.map(|it| it.index))?;
        }
        Ok(())
    }
}

/// Writes producer and sequence number into a chunk's head. Gives back the number that follows.
fn stamp(chunk: &mut [u8], identity: ProducerIdentity, base_sequence: i32) -> i32 {
    let Ok(head) = ChunkHead::read(chunk) else { return base_sequence };
    let attributes = head.attributes | 0x10;
    let (producer_id, producer_epoch) = (identity.id.0, identity.epoch.0);
    seal(chunk, &ChunkHead { producer_id, producer_epoch, base_sequence, attributes, ..head });
    // After the largest number comes 0.
    let next = i64::from(base_sequence) + i64::from(head.record_count.max(0));
    i32::try_from(next % (i64::from(i32::MAX) + 1)).unwrap_or(0)
}

/// The version in which a request is sent.
fn picked<R: Request>(connection: &Connection) -> Result<i16, CallError> {
    let newest = NEWEST.iter().find(|(api, _)| *api == R::KEY).map_or(i16::MAX, |it| it.1);
    connection.version(R::KEY).map(|it| it.min(newest))
}

fn call<R: Request>(connection: &Connection, request: &R) -> Result<R::Response, CallError> {
    connection.call_in(request, picked::<R>(connection)?, Duration::ZERO)
}
