//! A broker with one topic in memory: enough of Kafka for a source.

use crate::kafka::testing::{serve, versions, written};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tidemill_env::World;
use tidemill_wire::{
    chunk::{ChunkHead, LeaderEpoch, stamp},
    kafka::{
        ApiKey, ErrorCode, RequestHead,
        message::{
            FetchRequestData, FetchResponseData, ListOffsetsRequestData, ListOffsetsResponseData,
            MetadataResponseData,
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
        stamp(&mut chunk, self.end + gap, LeaderEpoch(0));
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
                let serving = Box::new(move || {
                    drop(serve(connection, |head, asked, content| {
                        broker.answer(head, asked, content)
                    }))
                });
                drop(spawn.spawn.spawn("broker", serving));
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
    fn answer(&self, head: &RequestHead, asked: ApiKey, mut content: Bytes) -> Vec<u8> {
        match asked {
            ApiKey::ApiVersions => written(head, &versions(&[])),
            ApiKey::Metadata => written(head, &self.metadata()),
            ApiKey::ListOffsets => {
                let asked = ListOffsetsRequestData::read(&mut content, head.version).unwrap();
                written(head, &self.offsets(&asked))
            }
            ApiKey::Fetch => {
                let asked = FetchRequestData::read(&mut content, head.version).unwrap();
                written(head, &self.fetch(&asked))
            }
            other => panic!("a source does not ask for {other:?}"),
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
