//! Settings of a node, as plain values, and [`GROUPS`]: their names, meanings and bounds.
//!
//! ```text
//! --kafka-listen  ┐                                    flag       over
//! TIDEMILL_KAFKA_LISTEN ├─▶ resolve ─▶ ServeSettings   environment over
//! kafka_listen: (file) ┘                               file       over default
//! ```
//!
//! The table is the only list of them: flags, variables, keys of the file, the help text and the
//! table in `docs/serve.md` are made of it, or checked against it.
//!
//! Read in this order: this file, `cluster`, `table`, `value`, `resolve`, `page`.

mod cluster;
mod page;
mod resolve;
mod table;
pub(in crate::serve) mod value;

pub use cluster::{ClusterSettings, CoordinatorSettings};
pub use page::markdown;
pub use resolve::{FLAG, Given, misspelt_variable, resolve};
pub use table::{GROUPS, Setting, SettingGroup, settings};
pub use value::retention_time;

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf};
use tidemill_broker::BrokerSettings;
use tidemill_log::LogOptions;
use tidemill_types::{ByteSize, Span};

#[cfg(test)]
mod tests;

/// Bytes that a node keeps free on its disk for the work that makes room when it is full.
const RESERVE_BYTES: ByteSize = ByteSize(256 << 10);

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// The data folder; made if it is not there. Default `tidemill-data`.
    pub data: PathBuf,
    /// Listens on addresses that other machines reach, though nobody is asked for a
    /// password. Default false.
    pub insecure: bool,
    /// The cluster's id for a new data folder, or the one that an old one must have; none: a new
    /// one is made, or the old one used. Default none.
    pub cluster_id: Option<String>,
    /// Threads that serve connections; none: one a processor. Default none.
    pub threads: Option<NonZeroUsize>,
    /// The level of log lines on standard error. Default info.
    pub log_level: LogLevel,
    /// The form of log lines. Default text.
    pub log_format: LogFormat,
    /// Time between two looks of retention for data to remove. Default 10 s.
    pub retention_every: Span,
    /// Of the log.
    pub log: LogOptions,
    /// Of the Kafka side. Its cluster id is replaced by the one in the data folder.
    pub broker: BrokerSettings,
    /// Of the HTTP side.
    pub http: HttpSettings,
    /// Of the cluster.
    pub cluster: ClusterSettings,
}

/// Settings of the HTTP side.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Where to listen; port 0 takes a free one. Default `127.0.0.1:8088`.
    pub listen: SocketAddr,
    /// Names that a request may call this node by, beside `localhost` and addresses; `*` for any.
    /// Others are refused, so that no web page reaches a node through a name of its own. Default
    /// none.
    pub hosts: Vec<String>,
    /// Connections at once; one more is closed at once. Default 16,000.
    pub connections: usize,
    /// Bytes of a request's body, inflated; at most a quarter of `bodies_bytes`. Default 16 MiB.
    pub body_bytes: ByteSize,
    /// Bytes of all bodies that are being received or answered. Default 256 MiB.
    pub bodies_bytes: ByteSize,
    /// A body must be whole this long after its head, and a second more for each 64 KiB of it; and
    /// so long an answer may wait for its reader to take more of it. Default 10 s.
    pub transfer_time: Span,
    /// A connection is closed this long after its last answer, if no other head is whole by then.
    /// Default 15 s.
    pub idle_time: Span,
}

/// A level of log lines: this and the worse ones are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    #[default]
    Info,
    Debug,
    Trace,
}

/// The form of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For persons.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self {
            data: PathBuf::from("tidemill-data"),
            insecure: false,
            cluster_id: None,
            threads: None,
            log_level: LogLevel::default(),
            log_format: LogFormat::default(),
            retention_every: Span(10_000_000),
            log: LogOptions { reserve_bytes: RESERVE_BYTES, ..LogOptions::default() },
            broker: BrokerSettings::default(),
            http: HttpSettings::default(),
            cluster: ClusterSettings::default(),
        }
    }
}

impl HttpSettings {
    /// Bytes of a body that can be taken: while it comes it may take twice its length, and as much
    /// again when it becomes chunks of the log.
    pub(super) fn body_bytes_max(&self) -> u64 {
        self.body_bytes.0.min(self.bodies_bytes.0 / 4)
    }
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8088)),
            hosts: Vec::new(),
            connections: 16_000,
            body_bytes: ByteSize(16 << 20),
            bodies_bytes: ByteSize(256 << 20),
            transfer_time: Span(10_000_000),
            idle_time: Span(15_000_000),
        }
    }
}
