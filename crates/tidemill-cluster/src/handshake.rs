//! The handshake as two pure machines: records in, records out, no socket and no clock.
//!
//! ```text
//! CallerHandshake::begin ─ CallerHello ─▶ PortHandshake::on_hello
//!         on_hello  ◀──────── PortHello ─┘        │
//!            └───────────── CallerProof ─▶     on_proof
//!         on_verdict ◀────────── Verdict ─────────┘
//! ```
//!
//! The caller proves the key first: a stranger that connects to a port gets no tag that it could try
//! keys against. Before that proof a port tells its versions and its cluster, and nothing of the
//! members. What a caller must act on, such as a fence, it believes with the port's proof alone.

use crate::{
    ClusterKey, Identity, Peer,
    cipher::{FrameOpener, FrameSealer},
    key::{ConnectionSecret, ConnectionSide, Transcript, transcript},
};
use tidemill_types::{Incarnation, NodeId};
use tidemill_wire::cluster::{
    ClusterDecodeError, ClusterHello, ClusterVerdict, HandshakeRecord, NONCE_BYTES, Refusal,
    TAG_BYTES, VersionRange,
};

#[cfg(test)]
mod tests;

/// A record as it was read: its kind, and its bytes with head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedRecord {
    /// The kind.
    pub kind: HandshakeRecord,
    /// Head and body.
    pub bytes: Vec<u8>,
}

impl ReceivedRecord {
    fn body(&self) -> &[u8] {
        self.bytes.get(tidemill_wire::cluster::RECORD_HEAD_BYTES..).unwrap_or_default()
    }
}

/// Why a handshake came to no connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The other side refused.
    #[error("{0}")]
    Refused(Refusal),
    /// This side refuses.
    #[error("{0}")]
    Refuses(Refusal),
    /// The bytes are no record, or not the one that is due.
    #[error("{0}")]
    Malformed(#[from] ClusterDecodeError),
    /// A record comes out of turn.
    #[error("a {0:?} was sent out of turn")]
    Order(HandshakeRecord),
    /// The other side said something that only a node with the key may say, without a proof.
    #[error(
        "the other side did not prove that it has the cluster's key; it is no node of this cluster"
    )]
    Unproven,
}

/// A connection whose two sides have proven the key.
#[derive(Debug)]
pub struct ProvenConnection {
    /// The other side. Its address is not known here.
    pub peer: Peer,
    /// The version that both speak.
    pub version: u8,
    secret: ConnectionSecret,
    side: ConnectionSide,
}

impl ProvenConnection {
    pub(crate) fn sealer(&self) -> FrameSealer {
        FrameSealer::new(&self.secret, self.side)
    }

    pub(crate) fn opener(&self) -> FrameOpener {
        let other = match self.side {
            ConnectionSide::Caller => ConnectionSide::Port,
            ConnectionSide::Port => ConnectionSide::Caller,
        };
        FrameOpener::new(&self.secret, other)
    }
}

fn hello_of(identity: &Identity, expected: NodeId, nonce: [u8; NONCE_BYTES]) -> ClusterHello {
    ClusterHello {
        versions: VersionRange::OWN,
        node: identity.node,
        expected,
        incarnation: identity.incarnation,
        nonce,
        cluster: identity.cluster.clone(),
        build: identity.version.clone(),
    }
}

fn peer_of(hello: &ClusterHello) -> Peer {
    Peer {
        node: hello.node,
        incarnation: hello.incarnation,
        version: hello.build.clone(),
        address: String::new(),
    }
}

/// Checks the public part of a hello: the version and the cluster.
fn check_public(identity: &Identity, hello: &ClusterHello) -> Result<u8, Refusal> {
    let common = VersionRange::OWN.common(hello.versions);
    let version = common.ok_or(Refusal::Version(VersionRange::OWN))?;
    if hello.cluster != identity.cluster {
        return Err(Refusal::Cluster(identity.cluster.clone()));
    }
    Ok(version)
}

/// The caller's side: it waits for the port's hello, then for the verdict.
#[derive(Debug)]
pub struct CallerHandshake {
    identity: Identity,
    expected: NodeId,
    hello: Vec<u8>,
    proof: Option<CallerState>,
}

/// The caller's side after its proof.
#[derive(Debug)]
struct CallerState {
    transcript: Transcript,
    peer: Peer,
    version: u8,
}

impl CallerHandshake {
    /// Begins a handshake with the node that should be at an address. Returns the first record to
    /// send. The nonce must be random and new.
    #[must_use]
    pub fn begin(
        identity: Identity,
        expected: NodeId,
        nonce: [u8; NONCE_BYTES],
    ) -> (Self, Vec<u8>) {
        let body = hello_of(&identity, expected, nonce).encode();
        let hello = HandshakeRecord::CallerHello.encode(&body);
        (Self { identity, expected, hello: hello.clone(), proof: None }, hello)
    }

    /// Takes the port's hello. Returns the proof to send.
    ///
    /// # Errors
    /// The port refuses, or is not the node that is expected.
    pub fn on_hello(
        &mut self,
        key: &ClusterKey,
        record: &ReceivedRecord,
    ) -> Result<Vec<u8>, HandshakeError> {
        match record.kind {
            HandshakeRecord::PortHello => {}
            HandshakeRecord::Verdict => {
                let refusal = ClusterVerdict::decode(record.body())?.refusal;
                let public = refusal.filter(Refusal::is_public);
                return Err(public.map_or(HandshakeError::Unproven, HandshakeError::Refused));
            }
            kind => return Err(HandshakeError::Order(kind)),
        }
        let hello = ClusterHello::decode(record.body())?;
        let version = check_public(&self.identity, &hello).map_err(HandshakeError::Refuses)?;
        // A node that is not the expected one refuses with a proof, so both sides log the mistake.
        let transcript = transcript(&self.hello, &record.bytes);
        self.proof = Some(CallerState { transcript, peer: peer_of(&hello), version });
        let tag = key.proof(ConnectionSide::Caller, &transcript, &[]);
        Ok(HandshakeRecord::CallerProof.encode(&tag))
    }

    /// Takes the verdict.
    ///
    /// # Errors
    /// The port refuses, or does not prove that it has the key.
    pub fn on_verdict(
        self,
        key: &ClusterKey,
        record: &ReceivedRecord,
    ) -> Result<ProvenConnection, HandshakeError> {
        let state = match (record.kind, self.proof) {
            (HandshakeRecord::Verdict, Some(state)) => state,
            (kind, _) => return Err(HandshakeError::Order(kind)),
        };
        let verdict = ClusterVerdict::decode(record.body())?;
        let outcome = ClusterVerdict::outcome(verdict.refusal.as_ref());
        let is_proven = key.verify(ConnectionSide::Port, &state.transcript, &outcome, &verdict.tag);
        match verdict.refusal {
            Some(refusal) if is_proven || refusal.is_public() => {
                Err(HandshakeError::Refused(refusal))
            }
            None if is_proven && state.peer.node != self.expected => {
                Err(HandshakeError::Refuses(Refusal::WrongNode(state.peer.node)))
            }
            None if is_proven => Ok(ProvenConnection {
                peer: state.peer,
                version: state.version,
                secret: key.connection(&state.transcript),
                side: ConnectionSide::Caller,
            }),
            _ => Err(HandshakeError::Unproven),
        }
    }
}

/// A refusal by the port: its reason, and the record that tells the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortRefusal {
    /// The reason.
    pub error: HandshakeError,
    /// The last record to send; none if the other side may not speak this protocol.
    pub record: Option<Vec<u8>>,
}

impl PortRefusal {
    fn silent(error: impl Into<HandshakeError>) -> Self {
        Self { error: error.into(), record: None }
    }

    /// A refusal without a proof, of what anyone may know.
    #[must_use]
    pub fn public(refusal: Refusal) -> Self {
        let verdict = ClusterVerdict { tag: [0; TAG_BYTES], refusal: Some(refusal.clone()) };
        let record = HandshakeRecord::Verdict.encode(&verdict.encode());
        Self { error: HandshakeError::Refuses(refusal), record: Some(record) }
    }
}

/// The port's side: it waits for the caller's proof.
#[derive(Debug)]
pub struct PortHandshake {
    identity: Identity,
    hello: ClusterHello,
    version: u8,
    transcript: Transcript,
}

impl PortHandshake {
    /// Takes the caller's hello. Returns the port's own, to send. The nonce must be random and new.
    ///
    /// # Errors
    /// The bytes are no hello, or of another version or cluster.
    pub fn on_hello(
        identity: Identity,
        nonce: [u8; NONCE_BYTES],
        record: &ReceivedRecord,
    ) -> Result<(Self, Vec<u8>), PortRefusal> {
        if record.kind != HandshakeRecord::CallerHello {
            return Err(PortRefusal::silent(HandshakeError::Order(record.kind)));
        }
        let hello = ClusterHello::decode(record.body()).map_err(PortRefusal::silent)?;
        let version = check_public(&identity, &hello).map_err(PortRefusal::public)?;
        let own = hello_of(&identity, hello.node, nonce).encode();
        let own = HandshakeRecord::PortHello.encode(&own);
        let transcript = transcript(&record.bytes, &own);
        Ok((Self { identity, hello, version, transcript }, own))
    }

    /// The node and the incarnation that the caller claims to be. They are not proven yet.
    #[must_use]
    pub fn claim(&self) -> (NodeId, Incarnation) {
        (self.hello.node, self.hello.incarnation)
    }

    /// Takes the caller's proof, and asks `judge` for its node and incarnation. Returns the
    /// connection and the verdict to send.
    ///
    /// # Errors
    /// The proof is wrong, the ids do not fit, or the judge refuses.
    pub fn on_proof(
        self,
        key: &ClusterKey,
        record: &ReceivedRecord,
        judge: impl FnOnce(NodeId, Incarnation) -> Result<(), Refusal>,
    ) -> Result<(ProvenConnection, Vec<u8>), PortRefusal> {
        if record.kind != HandshakeRecord::CallerProof {
            return Err(PortRefusal::silent(HandshakeError::Order(record.kind)));
        }
        let is_proven = <[u8; TAG_BYTES]>::try_from(record.body())
            .is_ok_and(|tag| key.verify(ConnectionSide::Caller, &self.transcript, &[], &tag));
        if !is_proven {
            return Err(PortRefusal::public(Refusal::Key));
        }
        let judged = self.check_ids().and_then(|()| judge(self.hello.node, self.hello.incarnation));
        let refusal = judged.err();
        let outcome = ClusterVerdict::outcome(refusal.as_ref());
        let tag = key.proof(ConnectionSide::Port, &self.transcript, &outcome);
        let verdict = ClusterVerdict { tag, refusal: refusal.clone() };
        let record = HandshakeRecord::Verdict.encode(&verdict.encode());
        if let Some(refusal) = refusal {
            let error = HandshakeError::Refuses(refusal);
            return Err(PortRefusal { error, record: Some(record) });
        }
        let connection = ProvenConnection {
            peer: peer_of(&self.hello),
            version: self.version,
            secret: key.connection(&self.transcript),
            side: ConnectionSide::Port,
        };
        Ok((connection, record))
    }

    fn check_ids(&self) -> Result<(), Refusal> {
        let own = &self.identity;
        if self.hello.node == own.node {
            return Err(if self.hello.incarnation == own.incarnation {
                Refusal::OwnAddress
            } else {
                Refusal::IdInUse { incarnation: own.incarnation }
            });
        }
        if self.hello.expected != own.node {
            return Err(Refusal::WrongNode(own.node));
        }
        Ok(())
    }
}
