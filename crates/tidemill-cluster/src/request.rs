//! Requests of other nodes, and how they are answered.

use crate::{outbox::Outbox, port::InFlight};
use std::{fmt, sync::Arc};
use tidemill_types::{Incarnation, NodeId};
use tidemill_wire::cluster::{ClusterFrame, ClusterFrameHead, Refusal};

/// Another node that has proven the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The node.
    pub node: NodeId,
    /// Its life, as of the handshake or the request.
    pub incarnation: Incarnation,
    /// Its build.
    pub version: String,
    /// The address that it speaks from.
    pub address: String,
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {} at {} (incarnation {})", self.node, self.address, self.incarnation)
    }
}

/// A request of another node that has passed the fence.
#[derive(Clone, Debug)]
pub struct PeerRequest {
    /// The sender. Its incarnation is the one the request was made in.
    pub peer: Peer,
    /// The kind of request.
    pub kind: u16,
    /// The body.
    pub body: Vec<u8>,
    /// The moment of this node's monotonic clock after which the sender waits no more.
    pub expires_us: u64,
}

/// The place for the answer to one request. Dropped without an answer it tells the caller that the
/// request failed.
pub struct PeerReply {
    outbox: Arc<Outbox>,
    in_flight: Arc<InFlight>,
    /// The answer's head. None once there is an answer.
    head: Option<ClusterFrameHead>,
    bytes: usize,
    body_bytes_max: u32,
}

/// The receiver of requests.
///
/// It is called by the thread that reads the connection, in the order in which the requests were
/// sent. A handler with much to do, or that waits, keeps the reply and answers from another thread:
/// answers may go in any order.
///
/// A reply that is kept takes room among the requests of its connection
/// ([`in_flight_max`](crate::ClusterLimits::in_flight_max)). Nobody waits for it after
/// [`PeerRequest::expires_us`]: drop it then.
pub trait Handler: Send + Sync {
    /// Handles a request, now or later.
    fn handle(&self, request: PeerRequest, reply: PeerReply);
}

impl PeerReply {
    pub(crate) fn new(
        outbox: Arc<Outbox>,
        in_flight: Arc<InFlight>,
        head: ClusterFrameHead,
        bytes: usize,
        body_bytes_max: u32,
    ) -> Self {
        Self { outbox, in_flight, head: Some(head), bytes, body_bytes_max }
    }

    /// Answers. Waits while too many answers of the connection are not sent yet; on a connection
    /// that has ended it does nothing.
    pub fn send(mut self, body: Vec<u8>) {
        match u32::try_from(body.len()).ok().filter(|it| *it <= self.body_bytes_max) {
            Some(body_bytes) => self.push(ClusterFrame::Answer, body_bytes, body),
            None => {
                let message = format!(
                    "an answer of {} bytes is over the limit of {}",
                    body.len(),
                    self.body_bytes_max
                );
                self.push_refusal(&Refusal::Failed(message));
            }
        }
    }

    /// Refuses.
    pub fn refuse(mut self, refusal: &Refusal) {
        self.push_refusal(refusal);
    }

    fn push_refusal(&mut self, refusal: &Refusal) {
        let body = refusal.encode();
        self.push(ClusterFrame::Refusal, body.len() as u32, body);
    }

    fn push(&mut self, frame: ClusterFrame, body_bytes: u32, body: Vec<u8>) {
        if let Some(head) = self.head.take() {
            self.outbox.push(ClusterFrameHead { frame, body_bytes, ..head }, body);
            self.in_flight.leave(self.bytes);
        }
    }
}

impl Drop for PeerReply {
    fn drop(&mut self) {
        self.push_refusal(&Refusal::Failed("its handler gave no answer".to_owned()));
    }
}

impl fmt::Debug for PeerReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerReply").field("head", &self.head).finish_non_exhaustive()
    }
}
