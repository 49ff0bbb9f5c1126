//! An idempotent or transactional producer, request by request.

use super::client::{Client, fetch, only, produce, values};
use tidemill_wire::{
    kafka::{message::*, text},
    records::{ChunkBuilder, Compression, Headers, Origin},
};

/// A producer as a client has it: who it is, and the next sequence number by partition.
#[derive(Clone, Debug)]
pub(crate) struct Producer {
    pub(crate) transactional_id: Option<&'static str>,
    pub(crate) id: i64,
    pub(crate) epoch: i16,
    /// 2: partitions are added by producing, the epoch changes with each end.
    pub(crate) protocol: i16,
    pub(crate) next: [i32; 4],
}

impl Producer {
    /// One that is idempotent only.
    pub(crate) async fn idempotent(client: &mut Client) -> Self {
        let answer = client.ask(&InitProducerIdRequestData::default(), 4).await;
        assert_eq!(answer.error_code, 0);
        let (id, epoch) = (answer.producer_id, answer.producer_epoch);
        Self { transactional_id: None, id, epoch, protocol: 1, next: [0; 4] }
    }

    /// A transactional one; what the one before has open is aborted.
    pub(crate) async fn transactional(
        client: &mut Client,
        transactional_id: &'static str,
        protocol: i16,
    ) -> Self {
        let answer = client.ask(&init(transactional_id, 60_000), 5).await;
        assert_eq!(answer.error_code, 0);
        let (id, epoch) = (answer.producer_id, answer.producer_epoch);
        Self { transactional_id: Some(transactional_id), id, epoch, protocol, next: [0; 4] }
    }

    /// A chunk with its next sequence number, which is not counted yet.
    pub(crate) fn chunk(&self, partition: i32, values: &[&str]) -> Vec<u8> {
        let mut builder = ChunkBuilder::new(Compression::NONE);
        builder.set_origin(Origin {
            producer_id: self.id,
            producer_epoch: self.epoch,
            base_sequence: self.next[partition as usize],
            is_transactional: self.transactional_id.is_some(),
        });
        for value in values {
            builder.append(1_000, None, Some(value.as_bytes()), Headers::NONE).unwrap();
        }
        builder.finish().unwrap()
    }

    /// A request for one chunk, and its version.
    pub(crate) fn request(&self, partition: i32, values: &[&str]) -> (ProduceRequestData, i16) {
        let mut request = produce("t", partition, self.chunk(partition, values), -1);
        request.transactional_id = self.transactional_id.map(text);
        (request, if self.protocol == 2 { 12 } else { 11 })
    }

    /// Produces, and counts if it was taken: the error and the offset.
    pub(crate) async fn send(
        &mut self,
        client: &mut Client,
        partition: i32,
        values: &[&str],
    ) -> (i16, i64) {
        let (request, version) = self.request(partition, values);
        let answer = client.ask(&request, version).await;
        let answer = only(only(answer.responses).partition_responses);
        if answer.error_code == 0 {
            self.next[partition as usize] += values.len() as i32;
        }
        (answer.error_code, answer.base_offset)
    }

    /// Adds partitions by request, as protocol 1 does.
    pub(crate) async fn add(&self, client: &mut Client, partitions: &[i32]) -> Vec<i16> {
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(text("t"))
            .with_partitions(partitions.to_vec());
        let request = AddPartitionsToTxnRequestData::default()
            .with_v3_and_below_transactional_id(text(self.transactional_id.unwrap()))
            .with_v3_and_below_producer_id(self.id)
            .with_v3_and_below_producer_epoch(self.epoch)
            .with_v3_and_below_topics(vec![topic]);
        let answer = client.ask(&request, 3).await;
        let topic = only(answer.results_by_topic_v3_and_below);
        topic.results_by_partition.iter().map(|it| it.partition_error_code).collect()
    }

    pub(crate) fn end_request(&self, commit: bool) -> (EndTxnRequestData, i16) {
        let request = EndTxnRequestData::default()
            .with_transactional_id(text(self.transactional_id.unwrap()))
            .with_producer_id(self.id)
            .with_producer_epoch(self.epoch)
            .with_committed(commit);
        (request, if self.protocol == 2 { 5 } else { 4 })
    }

    /// Ends the transaction and goes on with what the answer says: the error.
    pub(crate) async fn end(&mut self, client: &mut Client, commit: bool) -> i16 {
        let (request, version) = self.end_request(commit);
        let answer = client.ask(&request, version).await;
        if answer.error_code == 0 && self.protocol == 2 {
            assert!(answer.producer_id >= 0 && answer.producer_epoch >= 0);
            (self.id, self.epoch, self.next) = (answer.producer_id, answer.producer_epoch, [0; 4]);
        }
        answer.error_code
    }

    /// Begins a transaction in these partitions and writes a value to each.
    pub(crate) async fn begin(&mut self, client: &mut Client, values: &[(i32, &str)]) {
        if self.protocol == 1 {
            let partitions: Vec<i32> = values.iter().map(|it| it.0).collect();
            assert!(self.add(client, &partitions).await.iter().all(|it| *it == 0));
        }
        for (partition, value) in values {
            assert_eq!(self.send(client, *partition, &[value]).await.0, 0);
        }
    }
}

pub(crate) fn init(transactional_id: &str, timeout_ms: i32) -> InitProducerIdRequestData {
    InitProducerIdRequestData::default()
        .with_transactional_id(Some(text(transactional_id)))
        .with_transaction_timeout_ms(timeout_ms)
        .with_producer_id(-1)
        .with_producer_epoch(-1)
}

/// What a reader of committed records gets from a partition, control chunks and aborted
/// transactions left out as clients do it, and the last stable offset.
pub(crate) async fn committed(client: &mut Client, partition: i32) -> (Vec<String>, i64) {
    use tidemill_wire::{chunk::ChunkHead, records::read_control};
    let (mut offset, mut found) = (0, Vec::new());
    loop {
        let mut request = fetch("t", partition, offset, 0);
        request.isolation_level = 1;
        let answer = only(only(client.ask(&request, 12).await.responses).partitions);
        assert_eq!(answer.error_code, 0);
        let records = answer.records.clone().unwrap_or_default();
        if records.is_empty() {
            return (found, answer.last_stable_offset);
        }
        let mut aborted = answer.aborted_transactions.clone().unwrap_or_default();
        let mut dropping = Vec::new();
        let mut rest = &records[..];
        while !rest.is_empty() {
            let head = ChunkHead::read(rest).unwrap();
            let (bytes, after) = rest.split_at(head.bytes);
            rest = after;
            aborted.retain(|it| {
                let begins = it.first_offset <= head.last_offset();
                if begins {
                    dropping.push(it.producer_id);
                }
                !begins
            });
            offset = head.last_offset() + 1;
            if head.is_control() {
                let marker = read_control(bytes).unwrap();
                if !marker.is_commit {
                    dropping.retain(|it| *it != marker.producer_id);
                }
            } else if !(head.is_transactional() && dropping.contains(&head.producer_id)) {
                let chunk = Some(bytes::Bytes::copy_from_slice(bytes));
                found.extend(values(&chunk).into_iter().map(|it| it.1));
            }
        }
    }
}
