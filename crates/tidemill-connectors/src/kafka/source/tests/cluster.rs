//! A broker with one topic in memory: enough of Kafka for a source.

use bytes::{Bytes, BytesMut};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tidemill_env::{Connection, World};
use tidemill_wire::{
    chunk::{ChunkHead, stamp},
    kafka::{
        ApiKey, ErrorCode, Message, RequestHead, end_frame, known_versions,
        message::{
            ApiVersionsResponseData, FetchRequestData, FetchResponseData, ListOffsetsRequestData,
            ListOffsetsResponseData, MetadataResponseData,
            api_versions_response::ApiVersion,
            fetch_response::{FetchableTopicResponse, PartitionData},
            list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse},
            metadata_response::{
                MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
            },
        },
        text,
    },
};

/// The topic.
pub(super) const TOPIC: &str = "t";

/// Chunks of a partition, and the first offset that it keeps.
#[derive(Default)]
pub(super) struct Partition {
    chunks: Vec<Vec<u8>>,
    pub(super) start: i64,
    pub(super) end: i64,
}

impl Partition {
    /// Appends a chunk; what would be the first so many offsets of it was compacted away.
    pub(super) fn put(&mut self, mut chunk: Vec<u8>, gap: i64) {
        stamp(&mut chunk, self.end + gap, 0);
        self.end = ChunkHead::read(&chunk).unwrap().last_offset() + 1;
        self.chunks.push(chunk);
    }

    fn fetch(&self, from: i64) -> PartitionData {
        if !(self.start..=self.end).contains(&from) {
            return PartitionData::default().with_error_code(ErrorCode::OffsetOutOfRange.code());
        }
        let last = |it: &Vec<u8>| ChunkHead::read(it).unwrap().last_offset();
        let chunks: Vec<_> = self.chunks.iter().filter(|it| last(it) >= from).cloned().collect();
        PartitionData::default()
            .with_high_watermark(self.end)
            .with_last_stable_offset(self.end)
            .with_log_start_offset(self.start)
            .with_records(Some(chunks.concat().into()))
    }
}

type Partitions = Arc<Mutex<Vec<Partition>>>;

/// See the module. Its connections end when it is dropped.
pub(super) struct Cluster {
    address: String,
    pub(super) partitions: Partitions,
    /// The offsets that were fetched, by partition.
    pub(super) fetched: Arc<Mutex<BTreeMap<i32, Vec<i64>>>>,
    over: Arc<AtomicBool>,
}

impl Cluster {
    pub(super) fn start(partitions: Vec<Partition>) -> Self {
        let world = World::real();
        let listener = world.net.listen("127.0.0.1:0").unwrap();
        let cluster = Self {
            address: listener.address().unwrap(),
            partitions: Arc::new(Mutex::new(partitions)),
            fetched: Arc::default(),
            over: Arc::default(),
        };
        let over = Arc::clone(&cluster.over);
        let broker = Broker {
            address: cluster.address.clone(),
            partitions: Arc::clone(&cluster.partitions),
            fetched: Arc::clone(&cluster.fetched),
        };
        let spawn = world.clone();
        let accept = move || {
            while let Ok(connection) = listener.accept()
                && !over.load(Ordering::SeqCst)
            {
                let broker = broker.clone();
                let serve = Box::new(move || drop(broker.serve(connection)));
                drop(spawn.spawn.spawn("broker", serve));
            }
        };
        drop(world.spawn.spawn("broker", Box::new(accept)));
        cluster
    }

    pub(super) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the thread that accepts.
        drop(World::real().net.connect(&self.address, Duration::from_secs(1)));
    }
}

#[derive(Clone)]
struct Broker {
    address: String,
    partitions: Partitions,
    fetched: Arc<Mutex<BTreeMap<i32, Vec<i64>>>>,
}

impl Broker {
    /// Answers until the other side goes.
    fn serve(&self, mut connection: Connection) -> std::io::Result<()> {
        loop {
            let mut length = [0; 4];
            connection.reader.read_exact(&mut length)?;
            let mut content = vec![0; u32::from_be_bytes(length) as usize];
            connection.reader.read_exact(&mut content)?;
            let mut content = Bytes::from(content);
            let head = RequestHead::read(&mut content).unwrap();
            let answer = match ApiKey::from_i16(head.key).unwrap() {
                ApiKey::ApiVersions => written(&head, &versions()),
                ApiKey::Metadata => written(&head, &self.metadata()),
                ApiKey::ListOffsets => {
                    let asked = ListOffsetsRequestData::read(&mut content, head.version).unwrap();
                    written(&head, &self.offsets(&asked))
                }
                ApiKey::Fetch => {
                    let asked = FetchRequestData::read(&mut content, head.version).unwrap();
                    written(&head, &self.fetch(&asked))
                }
                other => panic!("a source does not ask for {other:?}"),
            };
            connection.writer.write_all(&answer)?;
        }
    }

    /// Streams have no ids here, so they are asked for by name.
    fn metadata(&self) -> MetadataResponseData {
        let (host, port) = self.address.rsplit_once(':').unwrap();
        let broker = MetadataResponseBroker::default().with_node_id(3).with_host(text(host));
        let count = self.partitions.lock().unwrap().len() as i32;
        let partition =
            |it| MetadataResponsePartition::default().with_partition_index(it).with_leader_id(3);
        let topic = MetadataResponseTopic::default().with_name(Some(text(TOPIC)));
        MetadataResponseData::default()
            .with_brokers(vec![broker.with_port(port.parse().unwrap())])
            .with_controller_id(3)
            .with_topics(vec![topic.with_partitions((0..count).map(partition).collect())])
    }

    fn offsets(&self, asked: &ListOffsetsRequestData) -> ListOffsetsResponseData {
        let partitions = self.partitions.lock().unwrap();
        let rows = asked.topics[0].partitions.iter().map(|it| {
            let partition = &partitions[it.partition_index as usize];
            let offset = if it.timestamp == -2 { partition.start } else { partition.end };
            ListOffsetsPartitionResponse::default()
                .with_partition_index(it.partition_index)
                .with_offset(offset)
        });
        let topic = ListOffsetsTopicResponse::default().with_name(text(TOPIC));
        let topic = topic.with_partitions(rows.collect());
        ListOffsetsResponseData::default().with_topics(vec![topic])
    }

    fn fetch(&self, asked: &FetchRequestData) -> FetchResponseData {
        let partitions = self.partitions.lock().unwrap();
        let mut fetched = self.fetched.lock().unwrap();
        let rows = asked.topics[0].partitions.iter().map(|it| {
            fetched.entry(it.partition).or_default().push(it.fetch_offset);
            let row = partitions[it.partition as usize].fetch(it.fetch_offset);
            row.with_partition_index(it.partition)
        });
        let topic = FetchableTopicResponse::default().with_topic(text(TOPIC));
        let topic = topic.with_partitions(rows.collect());
        FetchResponseData::default().with_responses(vec![topic])
    }
}

/// All requests that are known, in all versions.
fn versions() -> ApiVersionsResponseData {
    let rows = (0..80).filter_map(ApiKey::from_i16).map(|key| {
        let known = known_versions(key);
        ApiVersion::default()
            .with_api_key(key as i16)
            .with_min_version(*known.start())
            .with_max_version(*known.end())
    });
    ApiVersionsResponseData::default().with_api_keys(rows.collect())
}

fn written(head: &RequestHead, message: &impl Message) -> Vec<u8> {
    let mut content = BytesMut::new();
    message.write(&mut content, head.version).unwrap();
    let mut out = head.begin_response(content.len());
    out.extend_from_slice(&content);
    end_frame(&mut out, 0).unwrap();
    out.to_vec()
}
