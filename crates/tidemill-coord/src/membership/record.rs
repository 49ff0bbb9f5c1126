//! The records of the table that tell of nodes, and their encoding.
//!
//! ```text
//! cluster         {"version":1,"id":"q1pXk0mBT7Wc3nRzVw5uYg"}          made once
//! incarnations    {"version":1,"last":17}                              the counter of all lives
//! nodes/3         {"version":1,"incarnation":17,"addresses":{…},…}     outlives the node's lease
//! live/3          {"version":1,"incarnation":17}                       goes with the node's lease
//! controller      {"version":1,"node":3,"incarnation":17}              goes with its node's lease
//! ```
//!
//! Values are JSON, so that a person can read them with the tools of the coordinator. They come
//! from outside: a value is bounded before it is parsed, its version is read first, and each text
//! in it has a bound.
//!
//! Invariant: reading any bytes gives a record or an error, never a panic.

use crate::key::Key;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::{collections::BTreeSet, fmt};
use tidemill_types::{ClusterId, Incarnation, NodeId};

/// The version of every record, which the encoding of each begins with.
pub const RECORD_VERSION: u32 = 1;
/// Longest record, in bytes.
pub const RECORD_BYTES_MAX: usize = 16 * 1024;
/// Longest text of a record: an address, a rack or a version, in bytes.
pub const TEXT_BYTES_MAX: usize = 300;
/// Most nodes of a cluster, those included that are decommissioned.
pub const NODES_MAX: usize = 1_024;

/// Before the id of a node in the key of its durable record.
const NODES: &str = "nodes/";
/// Before the id of a node in the key of its leased record.
const LIVE: &str = "live/";

/// The place of a record in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RecordKey {
    /// The cluster's id.
    Cluster,
    /// The counter of incarnations.
    Incarnations,
    /// The durable record of a node.
    Node(NodeId),
    /// The leased record of a node.
    Live(NodeId),
    /// The controller.
    Controller,
}

impl RecordKey {
    /// The place that a key names; none if it is of another room of the table.
    #[must_use]
    pub fn of(key: &Key) -> Option<Self> {
        Some(match key.as_str() {
            "cluster" => Self::Cluster,
            "incarnations" => Self::Incarnations,
            "controller" => Self::Controller,
            text => match text.strip_prefix(NODES) {
                Some(id) => Self::Node(node_id(id)?),
                None => Self::Live(node_id(text.strip_prefix(LIVE)?)?),
            },
        })
    }

    /// The key in the table.
    ///
    /// # Panics
    /// Never: each name is short and has no control characters.
    #[must_use]
    pub fn key(self) -> Key {
        let text = match self {
            Self::Cluster => "cluster".to_owned(),
            Self::Incarnations => "incarnations".to_owned(),
            Self::Controller => "controller".to_owned(),
            Self::Node(node) => format!("{NODES}{node}"),
            Self::Live(node) => format!("{LIVE}{node}"),
        };
        Key::new(text).expect("a short name without control characters")
    }
}

/// An id as [`RecordKey::key`] writes it: no sign, no leading zero. One id has one key.
fn node_id(text: &str) -> Option<NodeId> {
    let id: i32 = text.parse().ok()?;
    (id >= 0 && id.to_string() == text).then_some(NodeId(id))
}

/// Bytes that are no record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The value is longer than any record.
    #[error("{0} bytes, {RECORD_BYTES_MAX} at most")]
    TooLong(usize),
    /// The record is of a newer program.
    #[error("version {0}, this program reads version {RECORD_VERSION}: upgrade this node")]
    Version(u32),
    /// The bytes have another form.
    #[error("{0}")]
    Form(String),
}

/// A record of the table.
pub trait TableRecord: Serialize + DeserializeOwned {
    /// Checks the bounds of the fields.
    ///
    /// # Errors
    /// [`RecordError::Form`] names the field.
    fn check(&self) -> Result<(), RecordError> {
        Ok(())
    }
}

/// The part of a record that says how to read the rest.
#[derive(Deserialize)]
struct RecordHead {
    version: u32,
}

/// A record behind its version.
#[derive(Serialize)]
struct Versioned<'a, T> {
    version: u32,
    #[serde(flatten)]
    record: &'a T,
}

/// The bytes of a record.
///
/// # Panics
/// Never: every field has an encoding.
#[must_use]
pub fn encode<T: TableRecord>(record: &T) -> Vec<u8> {
    let versioned = Versioned { version: RECORD_VERSION, record };
    serde_json::to_vec(&versioned).expect("every field has an encoding")
}

/// The record of these bytes.
///
/// # Errors
/// [`RecordError`] names the offence.
pub fn decode<T: TableRecord>(bytes: &[u8]) -> Result<T, RecordError> {
    if bytes.len() > RECORD_BYTES_MAX {
        return Err(RecordError::TooLong(bytes.len()));
    }
    let form = |error: serde_json::Error| RecordError::Form(error.to_string());
    // The version is read first: a later one may have other fields.
    let head: RecordHead = serde_json::from_slice(bytes).map_err(form)?;
    if head.version != RECORD_VERSION {
        return Err(RecordError::Version(head.version));
    }
    let record: T = serde_json::from_slice(bytes).map_err(form)?;
    record.check()?;
    Ok(record)
}

/// Checks the length of a text, and that it is one line.
pub(super) fn check_text(field: &str, text: &str) -> Result<(), RecordError> {
    if text.is_empty() || text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control) {
        return Err(RecordError::Form(format!(
            "{field}: expected 1 to {TEXT_BYTES_MAX} bytes without control characters"
        )));
    }
    Ok(())
}

/// The identity of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterRecord {
    /// The cluster's id.
    pub id: ClusterId,
}

impl TableRecord for ClusterRecord {}

/// The counter of incarnations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IncarnationsRecord {
    /// The newest incarnation that was drawn by any node.
    pub last: Incarnation,
}

impl TableRecord for IncarnationsRecord {}

/// The addresses of a node, as `HOST:PORT`. None where the node has no such port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddresses {
    /// For Kafka clients.
    pub kafka: Option<String>,
    /// For HTTP.
    pub http: Option<String>,
    /// For other nodes.
    pub cluster: Option<String>,
}

/// A duty of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// It keeps streams.
    Broker,
    /// It runs jobs.
    Worker,
}

/// The state that an operator wants a node to be in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DesiredState {
    /// It takes part. Default.
    #[default]
    Active,
    /// It gives away the streamlets that it leads, and gets nothing new.
    Draining,
    /// It gives away all that it has, and may not come back.
    Decommissioned,
}

impl fmt::Display for DesiredState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Active => "active",
            Self::Draining => "draining",
            Self::Decommissioned => "decommissioned",
        })
    }
}

/// The durable record of a node. It outlives the node's lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// The newest incarnation of the node. It never goes back.
    pub incarnation: Incarnation,
    /// The node's addresses.
    pub addresses: NodeAddresses,
    /// The node's duties.
    pub roles: BTreeSet<NodeRole>,
    /// The rack, zone or room of the node. Copies of one streamlet go to different racks.
    pub rack: Option<String>,
    /// The version of the node's program.
    pub build: String,
    /// The state that an operator wants it to be in.
    pub desired: DesiredState,
    /// True if the newest incarnation ended by a clean stop.
    pub is_stopped: bool,
}

impl TableRecord for NodeRecord {
    fn check(&self) -> Result<(), RecordError> {
        let NodeAddresses { kafka, http, cluster } = &self.addresses;
        for (field, address) in [("kafka", kafka), ("http", http), ("cluster", cluster)] {
            let Some(address) = address else { continue };
            check_text(field, address)?;
            if tidemill_types::address::split(address).is_none() {
                return Err(RecordError::Form(format!("{field}: {address:?} is not HOST:PORT")));
            }
        }
        if let Some(rack) = &self.rack {
            check_text("rack", rack)?;
        }
        check_text("build", &self.build)
    }
}

/// The leased record of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRecord {
    /// The incarnation that holds the lease.
    pub incarnation: Incarnation,
}

impl TableRecord for LiveRecord {}

/// The leased record of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ControllerRecord {
    /// The node that is the controller.
    pub node: NodeId,
    /// Its incarnation.
    pub incarnation: Incarnation,
}

impl TableRecord for ControllerRecord {
    fn check(&self) -> Result<(), RecordError> {
        if self.node.0 < 0 {
            return Err(RecordError::Form(format!("node {} is negative", self.node)));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
