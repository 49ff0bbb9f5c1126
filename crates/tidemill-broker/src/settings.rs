//! Settings of a broker, as plain values. Kafka's names for them are in the documentation of each.

mod groups;

pub use groups::GroupSettings;
use std::{collections::BTreeSet, net::SocketAddr};
use tidemill_types::{ByteSize, NodeId};

/// Settings of a broker.
#[derive(Clone, Debug)]
pub struct BrokerSettings {
    /// Where to listen; port 0 takes a free one. (`listeners`.)
    pub listen: SocketAddr,
    /// The address that clients connect to. None: the one where the broker listens.
    /// (`advertised.listeners`.)
    pub advertised: Option<(String, u16)>,
    /// This node. (`node.id`.) Default 1.
    pub node_id: NodeId,
    /// The cluster, as clients are told; the same for the life of its data. (`cluster.id`.)
    pub cluster_id: String,
    /// A client that asks for a topic that is not there makes it. (`auto.create.topics.enable`.)
    /// Default true.
    pub auto_create: bool,
    /// Partitions of topics that do not say how many. (`num.partitions`.) Default 1. All other settings
    /// of those that do not say otherwise (`log.retention.ms`, `log.segment.bytes`, `message.max.bytes`
    /// …) are [`tidemill_log::LogOptions::defaults`].
    pub partitions: u32,
    /// True if the records in each batch are checked before it is stored, not only its head and
    /// checksum. Compressed batches are inflated for it. Default true.
    pub check_records: bool,
    /// The settings that the operator set, by the names under which DescribeConfigs shows them. It
    /// tells their source as `STATIC_BROKER_CONFIG`, and that of others as `DEFAULT_CONFIG` unless
    /// their value is not the default one. Default none.
    pub stated: BTreeSet<&'static str>,
    /// Consumer groups.
    pub groups: GroupSettings,
    /// Bounds.
    pub limits: Limits,
}

/// The bounds of a partition's state of its producers.
#[derive(Clone, Copy, Debug)]
pub struct ProducerLimits {
    /// Producers of one partition; those that were idle for longest are forgotten for others.
    /// Default 10,000.
    pub producers: usize,
    /// A producer is forgotten after this long without a chunk, in milliseconds, while the node
    /// runs. Default one day. (`producer.id.expiration.ms`.)
    pub producer_idle_ms: u64,
}

/// Bounds of transactions.
#[derive(Clone, Copy, Debug)]
pub struct TransactionLimits {
    /// Transactional ids. Default 100,000.
    pub ids: usize,
    /// Bytes of memory for all of them, with the partitions and groups of their transactions.
    /// Default 1 GiB.
    pub bytes: ByteSize,
    /// The longest time that a client may let a transaction be open, in milliseconds. Default 15
    /// minutes. (`transaction.max.timeout.ms`.)
    pub timeout_ms_max: i32,
    /// A transactional id is forgotten after this long without a request, in milliseconds. Default
    /// 7 days. (`transactional.id.expiration.ms`.)
    pub idle_ms: u64,
}

impl Default for ProducerLimits {
    fn default() -> Self {
        Self { producers: 10_000, producer_idle_ms: 86_400_000 }
    }
}

impl Default for TransactionLimits {
    fn default() -> Self {
        Self {
            ids: 100_000,
            bytes: ByteSize(1 << 30),
            timeout_ms_max: 900_000,
            idle_ms: 7 * 86_400_000,
        }
    }
}

/// Bounds on the cost of clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; one more is closed at once. Default 16,000. (`max.connections`.)
    pub connections: usize,
    /// A request's bytes. Default 100 MiB. (`socket.request.max.bytes`.) Only produce requests may
    /// have more than 16 MiB, and lists of names have 1 MiB at most.
    pub request_bytes: ByteSize,
    /// Bytes of all requests that are being received or answered, and of their parsed forms. One
    /// request may exceed it. Default 256 MiB. (`queued.max.request.bytes`.)
    pub requests_bytes: ByteSize,
    /// Bytes of records in answers to fetches, and of other long answers, that are not sent yet.
    /// Default 256 MiB.
    pub answers_bytes: ByteSize,
    /// Requests of a connection that wait for their answer. Default 32.
    pub in_flight: usize,
    /// Bytes of one answer to a fetch. Default 55 MiB. (`fetch.max.bytes`.)
    pub fetch_bytes: ByteSize,
    /// A request must be whole this long after its first byte, in milliseconds, and an answer
    /// taken; a second more for each 64 KiB of it. Default 30,000.
    pub transfer_ms: u64,
    /// A connection without requests is closed after this long, in milliseconds. Default 600,000.
    /// (`connections.max.idle.ms`.)
    pub idle_ms: u64,
    /// Fetch sessions. Default 10,000. (`max.incremental.fetch.session.cache.slots`.)
    pub fetch_sessions: usize,
    /// Bytes a compressed batch may have when it is inflated, and all together that are being
    /// looked at. Default 256 MiB.
    pub inflated_bytes: ByteSize,
    /// Of producers.
    pub producers: ProducerLimits,
    /// Of transactions.
    pub transactions: TransactionLimits,
}

impl Default for BrokerSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 9092)),
            advertised: None,
            node_id: NodeId(1),
            cluster_id: "tidemill".to_owned(),
            auto_create: true,
            partitions: 1,
            check_records: true,
            stated: BTreeSet::new(),
            groups: GroupSettings::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 16_000,
            request_bytes: ByteSize(100 << 20),
            requests_bytes: ByteSize(256 << 20),
            answers_bytes: ByteSize(256 << 20),
            in_flight: 32,
            fetch_bytes: ByteSize(55 << 20),
            transfer_ms: 30_000,
            idle_ms: 600_000,
            fetch_sessions: 10_000,
            inflated_bytes: ByteSize(256 << 20),
            producers: ProducerLimits::default(),
            transactions: TransactionLimits::default(),
        }
    }
}
