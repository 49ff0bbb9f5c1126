//! Settings of a node among others: its port, its key and the coordinator.

use std::{fmt, net::SocketAddr, path::PathBuf};
use tidemill_types::Span;

/// Settings of a node among others. A node is in a cluster if [`Self::listen`] is set.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// Where other nodes connect; none: this node is alone. Default none.
    pub listen: Option<SocketAddr>,
    /// The address that other nodes are told; none: where this node listens. Default none.
    pub advertised: Option<(String, u16)>,
    /// The file with the key of the cluster. Default none.
    pub key_file: Option<PathBuf>,
    /// The home of the coordinator's table, if no nodes keep it. Default a file.
    pub coordinator: CoordinatorSettings,
    /// Cluster addresses of the nodes that keep the coordinator's table themselves. Default none.
    pub join: Vec<String>,
    /// PEM file of the authorities that sign etcd's certificate. Default none: those of the system.
    pub etcd_ca_file: Option<PathBuf>,
    /// The time to live of the node's lease. Default 6 s.
    pub lease: Span,
    /// The rack of the node. Default none.
    pub rack: Option<String>,
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            listen: None,
            advertised: None,
            key_file: None,
            coordinator: CoordinatorSettings::File,
            join: Vec::new(),
            etcd_ca_file: None,
            lease: Span(6_000_000),
            rack: None,
        }
    }
}

/// The home of the coordinator's table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorSettings {
    /// A file in the data folder: one node.
    File,
    /// etcd, at these addresses with commas between.
    Etcd(String),
}

impl CoordinatorSettings {
    /// Reads `file` or `etcd:ADDRESSES`.
    pub(in crate::serve) fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "file" => Ok(Self::File),
            Some(("etcd", addresses)) => {
                let options = tidemill_coord::EtcdOptions::new(addresses);
                options.map(|_| Self::Etcd(addresses.to_owned())).map_err(|it| it.to_string())
            }
            _ => {
                let shown: String = text.chars().take(100).collect();
                Err(format!("`{shown}` is not `file` or `etcd:http://HOST:PORT,…`"))
            }
        }
    }
}

impl fmt::Display for CoordinatorSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File => f.write_str("file"),
            Self::Etcd(addresses) => write!(f, "etcd:{addresses}"),
        }
    }
}
