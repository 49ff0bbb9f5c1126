//! Records of the handshake: who is there, the proof of the key, the verdict.
//!
//! ```text
//! record:   magic "TMCP" │ kind │ 0 │ length u16 │ body
//! hello:    oldest newest │ node │ expected node │ incarnation │ nonce 32 │ cluster │ build │ …
//! proof:    tag 32
//! verdict:  tag 32 │ refusal, or 0
//! ```
//!
//! Bytes behind the last known field of a hello are left for later versions, and are covered by
//! the proofs.

use super::{
    Refusal,
    fields::{ClusterDecodeError, FieldReader, put_text},
};
use std::fmt;
use tidemill_types::{ClusterId, Incarnation, NodeId};

const MAGIC: [u8; 4] = *b"TMCP";

/// Bytes of a record before its body.
pub const RECORD_HEAD_BYTES: usize = 8;
/// Most bytes of the body of a record.
pub const HELLO_BYTES_MAX: usize = 1_024;
/// Bytes of the random number in a hello.
pub const NONCE_BYTES: usize = 32;
/// Bytes of the tag in a proof and in a verdict: HMAC-SHA256.
pub const TAG_BYTES: usize = 32;

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeRecord {
    /// The first record of the side that opened the connection.
    CallerHello,
    /// The answer to it.
    PortHello,
    /// The caller's proof that it has the key.
    CallerProof,
    /// The port's proof, with a welcome or a refusal.
    Verdict,
}

/// The head of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandshakeHead {
    /// The kind of the body.
    pub kind: HandshakeRecord,
    /// Bytes of the body, at most [`HELLO_BYTES_MAX`].
    pub body_bytes: usize,
}

impl HandshakeHead {
    /// Reads a head.
    ///
    /// # Errors
    /// It is of another protocol, or states a body over the limit.
    pub fn decode(bytes: &[u8; RECORD_HEAD_BYTES]) -> Result<Self, ClusterDecodeError> {
        let mut fields = FieldReader(bytes);
        let magic = fields.array("magic")?;
        if magic != MAGIC {
            return Err(ClusterDecodeError::Magic(magic));
        }
        let kind = match fields.u8("kind")? {
            1 => HandshakeRecord::CallerHello,
            2 => HandshakeRecord::PortHello,
            3 => HandshakeRecord::CallerProof,
            4 => HandshakeRecord::Verdict,
            _ => return Err(ClusterDecodeError::Field("kind")),
        };
        if fields.u8("reserved")? != 0 {
            return Err(ClusterDecodeError::Field("reserved"));
        }
        let body_bytes = usize::from(fields.u16("length")?);
        if body_bytes > HELLO_BYTES_MAX {
            let bytes_max = HELLO_BYTES_MAX as u32;
            return Err(ClusterDecodeError::TooLarge { bytes: body_bytes as u32, bytes_max });
        }
        Ok(Self { kind, body_bytes })
    }
}

impl HandshakeRecord {
    /// A record of this kind around a body.
    ///
    /// # Panics
    /// Panics if the body is over [`HELLO_BYTES_MAX`]: all bodies here are far below.
    #[must_use]
    pub fn encode(self, body: &[u8]) -> Vec<u8> {
        assert!(body.len() <= HELLO_BYTES_MAX, "bodies of the handshake are small");
        let kind: u8 = match self {
            Self::CallerHello => 1,
            Self::PortHello => 2,
            Self::CallerProof => 3,
            Self::Verdict => 4,
        };
        let mut out = Vec::with_capacity(RECORD_HEAD_BYTES + body.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[kind, 0]);
        out.extend_from_slice(&(body.len() as u16).to_le_bytes());
        out.extend_from_slice(body);
        out
    }
}

/// Versions of the cluster protocol, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The oldest that is spoken.
    pub oldest: u8,
    /// The newest that is spoken.
    pub newest: u8,
}

impl VersionRange {
    /// The versions of this build.
    pub const OWN: Self =
        Self { oldest: super::CLUSTER_VERSION_OLDEST, newest: super::CLUSTER_VERSION };

    /// The newest version that both sides speak.
    #[must_use]
    pub fn common(self, other: Self) -> Option<u8> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.oldest == self.newest {
            return write!(f, "version {}", self.newest);
        }
        write!(f, "versions {} to {}", self.oldest, self.newest)
    }
}

/// The claim that each side begins with. Nothing in it is proven before the proofs are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterHello {
    /// The versions of the sender.
    pub versions: VersionRange,
    /// The sender's node.
    pub node: NodeId,
    /// The node that the sender takes the other side for.
    pub expected: NodeId,
    /// The sender's incarnation.
    pub incarnation: Incarnation,
    /// A random number that is used in one handshake.
    pub nonce: [u8; NONCE_BYTES],
    /// The sender's cluster.
    pub cluster: ClusterId,
    /// The sender's build, for messages.
    pub build: String,
}

impl ClusterHello {
    /// The body of the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.versions.oldest, self.versions.newest];
        out.extend_from_slice(&self.node.0.to_le_bytes());
        out.extend_from_slice(&self.expected.0.to_le_bytes());
        out.extend_from_slice(&self.incarnation.0.to_le_bytes());
        out.extend_from_slice(&self.nonce);
        put_text(&mut out, self.cluster.as_str());
        put_text(&mut out, &self.build);
        out
    }

    /// Reads the body of a hello.
    ///
    /// # Errors
    /// A field is cut short or has no meaning.
    pub fn decode(body: &[u8]) -> Result<Self, ClusterDecodeError> {
        let mut fields = FieldReader(body);
        let versions =
            VersionRange { oldest: fields.u8("oldest version")?, newest: fields.u8("version")? };
        if versions.oldest > versions.newest {
            return Err(ClusterDecodeError::Field("oldest version"));
        }
        Ok(Self {
            versions,
            node: NodeId(fields.i32("node")?),
            expected: NodeId(fields.i32("expected node")?),
            incarnation: Incarnation(fields.u32("incarnation")?),
            nonce: fields.array("nonce")?,
            cluster: fields
                .text("cluster")?
                .parse()
                .map_err(|_| ClusterDecodeError::Field("cluster"))?,
            build: fields.text("build")?.chars().filter(|it| !it.is_control()).collect(),
        })
    }
}

/// The last record of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterVerdict {
    /// The port's proof over both hellos and the outcome. All zero if the port refuses before it
    /// has checked a proof.
    pub tag: [u8; TAG_BYTES],
    /// A refusal; none is a welcome.
    pub refusal: Option<Refusal>,
}

impl ClusterVerdict {
    /// The bytes of the outcome that the tag covers.
    #[must_use]
    pub fn outcome(refusal: Option<&Refusal>) -> Vec<u8> {
        refusal.map_or_else(|| vec![0], Refusal::encode)
    }

    /// The body of the record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.tag.to_vec();
        out.extend(Self::outcome(self.refusal.as_ref()));
        out
    }

    /// Reads the body of a verdict.
    ///
    /// # Errors
    /// It is cut short, or names no refusal that this build knows.
    pub fn decode(body: &[u8]) -> Result<Self, ClusterDecodeError> {
        let mut fields = FieldReader(body);
        let tag = fields.array("tag")?;
        let refusal = match fields.0 {
            [0] => None,
            outcome => Some(Refusal::decode(outcome)?),
        };
        Ok(Self { tag, refusal })
    }
}
