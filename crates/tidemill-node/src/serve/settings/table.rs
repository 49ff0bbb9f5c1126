//! Every setting: its name, what it says, how it is read and written.

use super::{
    ServeSettings,
    value::{self, DAY_MS, SIZE_MAX, SPAN_MS_MAX},
};
use std::num::NonZeroUsize;
use tidemill_broker::fsync;

/// A setting of a node.
#[derive(Debug)]
pub struct Setting {
    /// Its name as a flag, without the dashes before it.
    pub name: &'static str,
    /// The title of its group.
    pub group: &'static str,
    /// What stands for its value in help.
    pub value: &'static str,
    /// What it says: sentences.
    pub about: &'static str,
    /// What Kafka calls it; empty if Kafka has no such thing.
    pub kafka: &'static str,
    /// Its value, as [`Self::set`] takes it.
    pub get: fn(&ServeSettings) -> String,
    /// Sets it, or says what is possible.
    pub set: fn(&mut ServeSettings, &str) -> Result<(), String>,
}

impl Setting {
    /// Its key in a config file.
    #[must_use]
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Its environment variable.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("TIDEMILL_{}", self.key().to_uppercase())
    }

    /// Whether it is yes or no, so that a flag alone means yes.
    #[must_use]
    pub fn is_switch(&self) -> bool {
        self.value == SWITCH
    }

    /// Its value if nobody says otherwise.
    #[must_use]
    pub fn default(&self) -> String {
        (self.get)(&ServeSettings::default())
    }
}

const SWITCH: &str = "true|false";

/// The titles of groups, in the order of help and documentation.
pub const GROUPS: &[&str] = &[NODE, ADDRESSES, STREAMS, STORAGE, KAFKA_LIMITS, HTTP_LIMITS];

const NODE: &str = "Node";
const ADDRESSES: &str = "Addresses";
const STREAMS: &str = "Streams that do not say otherwise";
const STORAGE: &str = "Storage";
const KAFKA_LIMITS: &str = "Limits of the Kafka side";
const HTTP_LIMITS: &str = "Limits of the HTTP side";

/// A row; `$settings` is what is read or changed, `$text` the new value.
macro_rules! row {
    ($name:literal, $group:expr, $value:expr, $kafka:literal, $about:expr,
     |$settings:ident| $get:expr, |$changed:ident, $text:ident| $set:expr) => {
        Setting {
            name: $name,
            group: $group,
            value: $value,
            about: $about,
            kafka: $kafka,
            get: |$settings| $get,
            set: |$changed, $text| {
                $set;
                Ok(())
            },
        }
    };
}

/// Every setting, by group.
pub const SETTINGS: &[Setting] = &[
    row!(
        "data",
        NODE,
        "DIR",
        "log.dirs",
        "The data folder; made if it is not there.",
        |s| s.data.display().to_string(),
        |s, text| s.data = value::folder(text)?
    ),
    row!(
        "node-id",
        NODE,
        "N",
        "node.id",
        "The number of this node, as clients are told.",
        |s| s.broker.node_id.to_string(),
        |s, text| s.broker.node_id = value::number(text, 0..=i32::MAX)?
    ),
    row!(
        "cluster-id",
        NODE,
        "ID",
        "cluster.id",
        "The cluster's id for a new data folder; data of another cluster are refused. `auto`: it is made once and kept in the data folder.",
        |s| s.cluster_id.clone().unwrap_or_else(|| "auto".to_owned()),
        |s, text| s.cluster_id = value::cluster_id(text)?
    ),
    row!(
        "threads",
        NODE,
        "N",
        "num.network.threads",
        "Threads that serve connections. `auto`: one for each processor.",
        |s| s.threads.map_or_else(|| "auto".to_owned(), |it| it.to_string()),
        |s, text| s.threads = match text {
            "auto" => None,
            text => NonZeroUsize::new(value::number(text, 1..=1_024)?),
        }
    ),
    row!(
        "log-level",
        NODE,
        "LEVEL",
        "",
        "What is logged on standard error: `off`, `error`, `warn`, `info`, `debug` or `trace`.",
        |s| value::level_text(s.log_level),
        |s, text| s.log_level = value::level(text)?
    ),
    row!(
        "log-format",
        NODE,
        "FORMAT",
        "",
        "How it is written: `text` for persons, `json` for programs.",
        |s| value::format_text(s.log_format),
        |s, text| s.log_format = value::format(text)?
    ),
    row!(
        "kafka-listen",
        ADDRESSES,
        "ADDR",
        "listeners",
        "Where the Kafka protocol is spoken; port 0 takes a free one.",
        |s| s.broker.listen.to_string(),
        |s, text| s.broker.listen = value::address(text)?
    ),
    row!(
        "kafka-advertised",
        ADDRESSES,
        "HOST:PORT",
        "advertised.listeners",
        "What Kafka clients are told to connect to. `auto`: where the node listens.",
        |s| value::advertised_text(s.broker.advertised.as_ref()),
        |s, text| s.broker.advertised = value::advertised(text)?
    ),
    row!(
        "http-listen",
        ADDRESSES,
        "ADDR",
        "",
        "Where HTTP is spoken; port 0 takes a free one.",
        |s| s.http.listen.to_string(),
        |s, text| s.http.listen = value::address(text)?
    ),
    row!(
        "http-hosts",
        ADDRESSES,
        "NAMES",
        "",
        "Names that HTTP clients may call this node by, with commas between, beside `localhost` and IP addresses; `*` for any. Other names are refused, so that a web page cannot reach the node through a name of its own.",
        |s| value::hosts_text(&s.http.hosts),
        |s, text| s.http.hosts = value::hosts(text)?
    ),
    row!(
        "insecure",
        ADDRESSES,
        SWITCH,
        "",
        "Listens on addresses that other machines reach, though nobody is asked for a password.",
        |s| s.insecure.to_string(),
        |s, text| s.insecure = value::truth(text)?
    ),
    row!(
        "fsync",
        STREAMS,
        "WHEN",
        "log.flush.interval.messages",
        "When an append is acknowledged: `always` when it is on the disk, `os` when the operating system has it, `10ms` the same but synced that often.",
        |s| fsync::text(s.log.fsync),
        |s, text| s.log.fsync = fsync::parse(text)?
    ),
    row!(
        "auto-create",
        STREAMS,
        SWITCH,
        "auto.create.topics.enable",
        "Clients that ask for a stream that is not there make it.",
        |s| s.broker.auto_create.to_string(),
        |s, text| s.broker.auto_create = value::truth(text)?
    ),
    row!(
        "streamlets",
        STREAMS,
        "N",
        "num.partitions",
        "Streamlets (partitions).",
        |s| s.broker.partitions.to_string(),
        |s, text| s.broker.partitions = value::number(text, 1..=100_000)?
    ),
    row!(
        "active-groups",
        STREAMS,
        "N",
        "",
        "Groups of a streamlet that are appended to at once.",
        |s| s.broker.topic_defaults.active_groups.to_string(),
        |s, text| s.broker.topic_defaults.active_groups = value::number(text, 1..=64)?
    ),
    row!(
        "segment-bytes",
        STREAMS,
        "SIZE",
        "log.segment.bytes",
        "Length of a segment file.",
        |s| s.broker.topic_defaults.segment_bytes.to_string(),
        |s, text| s.broker.topic_defaults.segment_bytes = value::size(text, 64 << 10, 1 << 30)?
    ),
    row!(
        "max-chunk-bytes",
        STREAMS,
        "SIZE",
        "message.max.bytes",
        "The largest chunk (record batch) that is taken.",
        |s| s.broker.topic_defaults.max_chunk_bytes.to_string(),
        |s, text| s.broker.topic_defaults.max_chunk_bytes = value::size(text, 1 << 10, 1 << 30)?
    ),
    row!(
        "retention-time",
        STREAMS,
        "TIME",
        "log.retention.ms",
        "Records are removed this long after they were appended; `none`: never.",
        |s| value::none_text(s.broker.topic_defaults.retention.time),
        |s, text| s.broker.topic_defaults.retention.time =
            value::or_none(text, |it| value::span(it, 1, SPAN_MS_MAX))?
    ),
    row!(
        "retention-bytes",
        STREAMS,
        "SIZE",
        "log.retention.bytes",
        "So much of each streamlet is kept, and older segments are removed; `none`: no limit.",
        |s| value::none_text(s.broker.topic_defaults.retention.bytes),
        |s, text| s.broker.topic_defaults.retention.bytes =
            value::or_none(text, |it| value::size(it, 0, SIZE_MAX))?
    ),
    row!(
        "memory",
        STORAGE,
        "SIZE",
        "",
        "Appended bytes that are kept in memory for readers.",
        |s| s.log.memory_bytes.to_string(),
        |s, text| s.log.memory_bytes = value::size(text, 0, SIZE_MAX)?
    ),
    row!(
        "read-ahead",
        STORAGE,
        "SIZE",
        "",
        "How much a reader of older data reads from the disk at once.",
        |s| s.log.read_ahead_bytes.to_string(),
        |s, text| s.log.read_ahead_bytes = value::size(text, 4 << 10, 64 << 20)?
    ),
    row!(
        "recycled",
        STORAGE,
        "SIZE",
        "",
        "Emptied segment files that are kept to be used again.",
        |s| s.log.recycled_bytes.to_string(),
        |s, text| s.log.recycled_bytes = value::size(text, 0, SIZE_MAX)?
    ),
    row!(
        "group-segments",
        STORAGE,
        "N",
        "",
        "Segments in a group.",
        |s| s.log.group_segments.to_string(),
        |s, text| s.log.group_segments = value::number(text, 1..=1_024)?
    ),
    row!(
        "sync-threads",
        STORAGE,
        "N",
        "",
        "Threads that sync files.",
        |s| s.log.sync_threads.to_string(),
        |s, text| s.log.sync_threads = value::number(text, 1..=64)?
    ),
    row!(
        "sync-together",
        STORAGE,
        "N",
        "",
        "From so many files on that wait for a sync, they are synced by one call for the whole file system, if that is faster; 0: never.",
        |s| s.log.sync_together_min.to_string(),
        |s, text| s.log.sync_together_min = value::number(text, 0..=1_000_000)?
    ),
    row!(
        "retention-every",
        STORAGE,
        "TIME",
        "log.retention.check.interval.ms",
        "How often there is a look for records to remove.",
        |s| s.retention_every.to_string(),
        |s, text| s.retention_every = value::span(text, 100, DAY_MS)?
    ),
    row!(
        "streamlets-max",
        STORAGE,
        "N",
        "",
        "Streamlets over all streams; more are refused.",
        |s| s.log.streamlets_max.to_string(),
        |s, text| s.log.streamlets_max = value::number(text, 1..=10_000_000)?
    ),
    row!(
        "connections",
        KAFKA_LIMITS,
        "N",
        "max.connections",
        "Connections at once; one more is closed at once.",
        |s| s.broker.limits.connections.to_string(),
        |s, text| s.broker.limits.connections = value::number(text, 1..=1_000_000)?
    ),
    row!(
        "request-bytes",
        KAFKA_LIMITS,
        "SIZE",
        "socket.request.max.bytes",
        "Bytes of a request.",
        |s| s.broker.limits.request_bytes.to_string(),
        |s, text| s.broker.limits.request_bytes = value::size(text, 1 << 10, (1 << 31) - 1)?
    ),
    row!(
        "requests-bytes",
        KAFKA_LIMITS,
        "SIZE",
        "queued.max.request.bytes",
        "Bytes of all requests that are being received or answered.",
        |s| s.broker.limits.requests_bytes.to_string(),
        |s, text| s.broker.limits.requests_bytes = value::size(text, 1 << 20, SIZE_MAX)?
    ),
    row!(
        "in-flight",
        KAFKA_LIMITS,
        "N",
        "",
        "Requests of a connection that wait for their answer.",
        |s| s.broker.limits.in_flight.to_string(),
        |s, text| s.broker.limits.in_flight = value::number(text, 1..=10_000)?
    ),
    row!(
        "fetch-bytes",
        KAFKA_LIMITS,
        "SIZE",
        "fetch.max.bytes",
        "Bytes of one answer to a fetch.",
        |s| s.broker.limits.fetch_bytes.to_string(),
        |s, text| s.broker.limits.fetch_bytes = value::size(text, 1 << 10, 1 << 30)?
    ),
    row!(
        "fetch-sessions",
        KAFKA_LIMITS,
        "N",
        "max.incremental.fetch.session.cache.slots",
        "Fetch sessions.",
        |s| s.broker.limits.fetch_sessions.to_string(),
        |s, text| s.broker.limits.fetch_sessions = value::number(text, 0..=1_000_000)?
    ),
    row!(
        "transfer-time",
        KAFKA_LIMITS,
        "TIME",
        "",
        "A request must be whole this long after its first byte, and an answer taken.",
        |s| value::ms_text(s.broker.limits.transfer_ms),
        |s, text| s.broker.limits.transfer_ms = value::span_ms(text, 10, DAY_MS)?
    ),
    row!(
        "idle-time",
        KAFKA_LIMITS,
        "TIME",
        "connections.max.idle.ms",
        "A connection without requests is closed after this long.",
        |s| value::ms_text(s.broker.limits.idle_ms),
        |s, text| s.broker.limits.idle_ms = value::span_ms(text, 10, 365 * DAY_MS)?
    ),
    row!(
        "check-records",
        KAFKA_LIMITS,
        SWITCH,
        "",
        "The records in each batch are looked at before it is stored, not its head and checksum alone.",
        |s| s.broker.check_records.to_string(),
        |s, text| s.broker.check_records = value::truth(text)?
    ),
    row!(
        "inflated-bytes",
        KAFKA_LIMITS,
        "SIZE",
        "",
        "Bytes that a compressed batch may have when it is inflated.",
        |s| s.broker.limits.inflated_bytes.to_string(),
        |s, text| s.broker.limits.inflated_bytes = value::size(text, 1 << 10, 1 << 30)?
    ),
    row!(
        "http-connections",
        HTTP_LIMITS,
        "N",
        "",
        "Connections at once; one more is closed at once.",
        |s| s.http.connections.to_string(),
        |s, text| s.http.connections = value::number(text, 1..=1_000_000)?
    ),
    row!(
        "http-body-bytes",
        HTTP_LIMITS,
        "SIZE",
        "",
        "Bytes of a request's body, inflated.",
        |s| s.http.body_bytes.to_string(),
        |s, text| s.http.body_bytes = value::size(text, 1 << 10, 1 << 30)?
    ),
    row!(
        "http-bodies-bytes",
        HTTP_LIMITS,
        "SIZE",
        "",
        "Bytes of all bodies that are being received or answered.",
        |s| s.http.bodies_bytes.to_string(),
        |s, text| s.http.bodies_bytes = value::size(text, 1 << 20, SIZE_MAX)?
    ),
    row!(
        "http-transfer-time",
        HTTP_LIMITS,
        "TIME",
        "",
        "A body must be whole this long after its head, and an answer taken.",
        |s| s.http.transfer_time.to_string(),
        |s, text| s.http.transfer_time = value::span(text, 10, DAY_MS)?
    ),
    row!(
        "http-idle-time",
        HTTP_LIMITS,
        "TIME",
        "",
        "A connection is closed this long after its last request, if no other head is whole by then.",
        |s| s.http.idle_time.to_string(),
        |s, text| s.http.idle_time = value::span(text, 10, DAY_MS)?
    ),
];
