//! Refusals: of a connection in its handshake, and of a request.
//!
//! ```text
//! code u8 │ fields of that code
//! ```
//!
//! The text of a refusal fits both sides: the one that refuses and the one that is refused.

use super::{
    VersionRange,
    fields::{ClusterDecodeError, FieldReader, put_text},
};
use tidemill_types::{ClusterId, Incarnation, NodeId};

/// The reason for which a node refuses a connection or a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No version of the cluster protocol is spoken by both.
    #[error(
        "no version of the cluster protocol is spoken by both: the refusing node speaks {0}; run builds that are one release apart at most"
    )]
    Version(VersionRange),
    /// The nodes are of different clusters.
    #[error(
        "the nodes are of different clusters, and the refusing one is of `{0}`; check the addresses of --join or --coordinator, or use another data folder"
    )]
    Cluster(ClusterId),
    /// The other side does not have the key.
    #[error(
        "the cluster keys differ; give both nodes the same file as --cluster-key-file and restart the one that was wrong"
    )]
    Key,
    /// The refusing node has as many connections as it may have.
    #[error("the refusing node has no connection left; it is tried again")]
    Busy,
    /// A newer incarnation of the node is known.
    #[error(
        "this incarnation of the node is over, and the newest known is {newest}; the node must register again"
    )]
    Fenced {
        /// The newest incarnation that the refusing node knows.
        newest: Incarnation,
    },
    /// The refusing node knows no such node, or not yet.
    #[error("the refusing node knows no such node yet; the node must be registered first")]
    Unknown,
    /// The lease of the node's incarnation has ended.
    #[error("the lease of this incarnation has ended; the node must register again")]
    LeaseEnded,
    /// The other side has the id of the refusing node itself.
    #[error(
        "the node id is in use by the refusing node, in incarnation {incarnation}; give one of them another --node-id"
    )]
    IdInUse {
        /// The incarnation of the refusing node.
        incarnation: Incarnation,
    },
    /// A node has connected to itself.
    #[error("the address is the node's own; leave it out, or correct it")]
    OwnAddress,
    /// Another node is at this address.
    #[error("the refusing node has id {0}, not the one that was expected; correct the address")]
    WrongNode(NodeId),
    /// No handler of the refusing node knows this kind of request.
    #[error("requests of kind {0} are not known to the refusing node; upgrade the older build")]
    Kind(u16),
    /// The body is larger than the refusing node takes.
    #[error("the body is over the limit of {bytes_max} bytes")]
    TooLarge {
        /// The limit, in bytes.
        bytes_max: u32,
    },
    /// The time of the request was over before it was handled.
    #[error("the time of the request was over before it was handled")]
    Expired,
    /// The handler failed. It may have done a part of its work.
    #[error("the request failed: {0}")]
    Failed(String),
    /// The refusing node is about to stop.
    #[error("the refusing node is stopping")]
    Stopping,
}

impl Refusal {
    /// Number of codes: a refusal's [`Self::code`] is below it.
    pub const CODES: usize = 16;

    /// The number that stands for the reason, from 1.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Version(_) => 1,
            Self::Cluster(_) => 2,
            Self::Key => 3,
            Self::Busy => 4,
            Self::Fenced { .. } => 5,
            Self::Unknown => 6,
            Self::LeaseEnded => 7,
            Self::IdInUse { .. } => 8,
            Self::OwnAddress => 9,
            Self::WrongNode(_) => 10,
            Self::Kind(_) => 11,
            Self::TooLarge { .. } => 12,
            Self::Expired => 13,
            Self::Failed(_) => 14,
            Self::Stopping => 15,
        }
    }

    /// The reason in a word, as metrics and JSON have it.
    #[must_use]
    pub fn name(code: u8) -> &'static str {
        match code {
            1 => "version",
            2 => "cluster",
            3 => "key",
            4 => "busy",
            5 => "fenced",
            6 => "unknown",
            7 => "lease_ended",
            8 => "id_in_use",
            9 => "own_address",
            10 => "wrong_node",
            11 => "kind",
            12 => "too_large",
            13 => "expired",
            14 => "failed",
            15 => "stopping",
            _ => "other",
        }
    }

    /// True for what a port may say before the other side has proven that it has the key. All else
    /// tells of the cluster's members, and is believed with a proof alone.
    #[must_use]
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Version(_) | Self::Cluster(_) | Self::Key | Self::Busy)
    }

    /// True if the other side's incarnation is over, or not known: it must not act on what it
    /// believed.
    #[must_use]
    pub fn is_fence(&self) -> bool {
        matches!(self, Self::Fenced { .. } | Self::Unknown | Self::LeaseEnded)
    }

    /// The refusal as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.code()];
        match self {
            Self::Version(range) => out.extend([range.oldest, range.newest]),
            Self::Cluster(cluster) => put_text(&mut out, cluster.as_str()),
            Self::Fenced { newest: incarnation } | Self::IdInUse { incarnation } => {
                out.extend(incarnation.0.to_le_bytes());
            }
            Self::WrongNode(node) => out.extend(node.0.to_le_bytes()),
            Self::Kind(kind) => out.extend(kind.to_le_bytes()),
            Self::TooLarge { bytes_max } => out.extend(bytes_max.to_le_bytes()),
            Self::Failed(message) => put_text(&mut out, message),
            Self::Key
            | Self::Busy
            | Self::Unknown
            | Self::LeaseEnded
            | Self::OwnAddress
            | Self::Expired
            | Self::Stopping => {}
        }
        out
    }

    /// Reads a refusal. Bytes behind its last field are left for later versions.
    ///
    /// # Errors
    /// The code is not known, or a field is cut short or has no meaning.
    pub fn decode(bytes: &[u8]) -> Result<Self, ClusterDecodeError> {
        let mut fields = FieldReader(bytes);
        Ok(match fields.u8("code")? {
            1 => {
                let range =
                    VersionRange { oldest: fields.u8("version")?, newest: fields.u8("version")? };
                if range.oldest > range.newest {
                    return Err(ClusterDecodeError::Field("version"));
                }
                Self::Version(range)
            }
            2 => {
                let cluster = fields.text("cluster")?.parse();
                Self::Cluster(cluster.map_err(|_| ClusterDecodeError::Field("cluster"))?)
            }
            3 => Self::Key,
            4 => Self::Busy,
            5 => Self::Fenced { newest: Incarnation(fields.u32("incarnation")?) },
            6 => Self::Unknown,
            7 => Self::LeaseEnded,
            8 => Self::IdInUse { incarnation: Incarnation(fields.u32("incarnation")?) },
            9 => Self::OwnAddress,
            10 => Self::WrongNode(NodeId(fields.i32("node")?)),
            11 => Self::Kind(fields.u16("kind")?),
            12 => Self::TooLarge { bytes_max: fields.u32("limit")? },
            13 => Self::Expired,
            14 => {
                let message = fields.text("message")?;
                Self::Failed(message.chars().filter(|it| !it.is_control()).collect())
            }
            15 => Self::Stopping,
            _ => return Err(ClusterDecodeError::Field("code")),
        })
    }
}
