//! A raw client: any request in any version, answers as they come.

use bytes::{Bytes, BytesMut};
use std::{fmt::Debug, net::SocketAddr, time::Duration};
use tidemill_wire::kafka::message::fetch_request::{FetchPartition, FetchTopic};
use tidemill_wire::{
    kafka::{
        ErrorCode, KafkaUuid, Message, Request, message::*, read_response_head, request_frame, text,
    },
    records::{ChunkBuilder, Compression},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

/// Longer than anything that should be waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection.
pub(crate) struct Client {
    pub(crate) socket: TcpStream,
    last_correlation_id: i32,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, last_correlation_id: 0 }
    }

    /// Sends a request and says which: what its answer repeats.
    pub(crate) async fn send<R: Request>(&mut self, request: &R, version: i16) -> i32 {
        self.last_correlation_id += 1;
        let id = self.last_correlation_id;
        let frame = request_frame(request, version, id, &text("test")).unwrap();
        self.socket.write_all(&frame).await.unwrap();
        id
    }

    /// The next frame's content. None: the broker closed the connection.
    pub(crate) async fn frame(&mut self) -> Option<Bytes> {
        let mut head = [0; 4];
        match timeout(PATIENCE, self.socket.read_exact(&mut head)).await.expect("no answer") {
            Ok(_) => {}
            Err(_) => return None,
        }
        let mut body = BytesMut::zeroed(u32::from_be_bytes(head) as usize);
        let whole = timeout(PATIENCE, self.socket.read_exact(&mut body)).await;
        whole.expect("half an answer").ok()?;
        Some(body.freeze())
    }

    /// The answer to a request that was sent.
    pub(crate) async fn receive<R: Request>(&mut self, version: i16, id: i32) -> R::Response
    where
        R::Response: Debug,
    {
        let mut frame = self.frame().await.expect("the broker closed the connection");
        let said = read_response_head(&mut frame, R::KEY, version).unwrap();
        assert_eq!(said, id, "answers come in the order of their requests");
        let response = R::Response::read(&mut frame, version).unwrap();
        assert!(frame.is_empty(), "{} bytes are left of an answer", frame.len());
        let shown = format!("{response:?}");
        assert!(!shown.contains("error_code: -1"), "UNKNOWN_SERVER_ERROR: {shown}");
        response
    }

    /// Sends a request and waits for its answer.
    pub(crate) async fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response
    where
        R::Response: Debug,
    {
        let id = self.send(request, version).await;
        self.receive::<R>(version, id).await
    }

    /// Whether the broker closes the connection, with nothing said before.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.frame().await.is_none()
    }

    /// Makes a topic; its id.
    pub(crate) async fn create(&mut self, name: &str, partitions: i32) -> KafkaUuid {
        self.create_with(name, partitions, &[]).await
    }

    pub(crate) async fn create_with(
        &mut self,
        name: &str,
        partitions: i32,
        settings: &[(&str, &str)],
    ) -> KafkaUuid {
        let request = CreateTopicsRequestData::default()
            .with_topics(vec![new_topic(name, partitions, settings)]);
        let made = self.ask(&request, 7).await.topics.remove(0);
        assert_eq!(made.error_code, 0, "{:?}", made.error_message);
        made.topic_id
    }

    /// Produces one chunk, acknowledged by all.
    pub(crate) async fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        chunk: Vec<u8>,
    ) -> PartitionProduceResponse {
        let answer = self.ask(&produce(topic, partition, chunk, -1), 12).await;
        only(only(answer.responses).partition_responses)
    }

    /// Fetches from one partition without a session.
    pub(crate) async fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        max_wait_ms: i32,
    ) -> fetch_response::PartitionData {
        let request = fetch(topic, partition, offset, max_wait_ms);
        let answer = self.ask(&request, 12).await;
        assert_eq!(answer.error_code, 0);
        only(only(answer.responses).partitions)
    }

    /// The offset that a partition has for a timestamp, and its time.
    pub(crate) async fn offset(&mut self, topic: &str, timestamp: i64) -> (i64, i64) {
        let partition = ListOffsetsPartition::default().with_timestamp(timestamp);
        let topic =
            ListOffsetsTopic::default().with_name(text(topic)).with_partitions(vec![partition]);
        let request = ListOffsetsRequestData::default().with_topics(vec![topic]);
        let answer = only(only(self.ask(&request, 8).await.topics).partitions);
        assert_eq!(answer.error_code, 0);
        (answer.offset, answer.timestamp)
    }
}

/// The one thing in a list.
pub(crate) fn only<T>(list: Vec<T>) -> T {
    assert_eq!(list.len(), 1);
    list.into_iter().next().unwrap()
}

pub(crate) fn code(error: ErrorCode) -> i16 {
    error.code()
}

pub(crate) fn new_topic(name: &str, partitions: i32, settings: &[(&str, &str)]) -> CreatableTopic {
    let config = |(name, value): &(&str, &str)| {
        CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
    };
    CreatableTopic::default()
        .with_name(text(name))
        .with_num_partitions(partitions)
        .with_replication_factor(-1)
        .with_configs(settings.iter().map(config).collect())
}

/// A chunk with a record for each value, at a time in milliseconds each.
pub(crate) fn chunk_at(times: &[i64], value: &[u8], compression: Compression) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(compression);
    for time in times {
        builder.append(*time, None, Some(value), [].into_iter()).unwrap();
    }
    builder.finish().unwrap()
}

/// A chunk with a record for each of these values.
pub(crate) fn chunk(values: &[&str]) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    for value in values {
        builder.append(1_000, Some(b"k"), Some(value.as_bytes()), [].into_iter()).unwrap();
    }
    builder.finish().unwrap()
}

pub(crate) fn produce(
    topic: &str,
    partition: i32,
    chunk: Vec<u8>,
    acks: i16,
) -> ProduceRequestData {
    let partition = PartitionProduceData::default()
        .with_index(partition)
        .with_records(Some(Bytes::from(chunk)));
    let topic =
        TopicProduceData::default().with_name(text(topic)).with_partition_data(vec![partition]);
    ProduceRequestData::default()
        .with_acks(acks)
        .with_timeout_ms(10_000)
        .with_topic_data(vec![topic])
}

pub(crate) fn place(partition: i32, offset: i64) -> FetchPartition {
    FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20)
}

/// A request without a session for one partition.
pub(crate) fn fetch(
    topic: &str,
    partition: i32,
    offset: i64,
    max_wait_ms: i32,
) -> FetchRequestData {
    let topic = FetchTopic::default()
        .with_topic(text(topic))
        .with_partitions(vec![place(partition, offset)]);
    FetchRequestData::default()
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(1 << 24)
        .with_session_epoch(-1)
        .with_topics(vec![topic])
}

/// The values of the records in fetched bytes, and their offsets.
pub(crate) fn values(records: &Option<Bytes>) -> Vec<(i64, String)> {
    use tidemill_wire::{
        chunk::{CHUNK_HEAD_BYTES, ChunkHead},
        records::{Records, inflate},
    };
    let mut rest = records.as_deref().unwrap_or_default();
    let mut values = Vec::new();
    while !rest.is_empty() {
        let head = ChunkHead::read(rest).unwrap();
        let (bytes, after) = rest.split_at(head.bytes);
        tidemill_wire::chunk::verify(bytes).unwrap();
        let mut scratch = Vec::new();
        let plain = inflate(&head, &bytes[CHUNK_HEAD_BYTES..], 1 << 28, &mut scratch).unwrap();
        for record in Records::new(&head, plain) {
            let record = record.unwrap();
            let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
            values.push((head.base_offset + i64::from(record.offset_delta), value));
        }
        rest = after;
    }
    values
}
