//! Settings of a node, as plain values.

use std::{net::SocketAddr, num::NonZeroUsize, path::PathBuf};
use tidemill_broker::BrokerSettings;
use tidemill_log::LogOptions;

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct ServeSettings {
    /// The data folder; made if it is not there. Default `tidemill-data`.
    pub data: PathBuf,
    /// Where HTTP is answered; port 0 takes a free one. Default `127.0.0.1:8080`.
    pub http_listen: SocketAddr,
    /// Whether addresses that other machines reach are listened on, though nobody is asked for a
    /// password. Default false.
    pub insecure: bool,
    /// The cluster's id for a new data folder, or the one that an old one must have; none: a new
    /// one is made, or the old one used. Default none.
    pub cluster_id: Option<String>,
    /// Threads that serve connections; none: one a processor. Default none.
    pub threads: Option<NonZeroUsize>,
    /// Of the log.
    pub log: LogOptions,
    /// Of the Kafka side. Its cluster id is replaced by the one in the data folder.
    pub broker: BrokerSettings,
}

impl Default for ServeSettings {
    fn default() -> Self {
        Self {
            data: PathBuf::from("tidemill-data"),
            http_listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            insecure: false,
            cluster_id: None,
            threads: None,
            log: LogOptions::default(),
            broker: BrokerSettings::default(),
        }
    }
}
