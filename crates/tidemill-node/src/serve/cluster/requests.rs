//! Requests between nodes, and who may make them.

use std::sync::{Arc, OnceLock};
use tidemill_cluster::{Fence, Handler, PeerReply, PeerRequest, Refusal};
use tidemill_coord::membership::{ClusterMember, FenceError};
use tidemill_env::{Spawn, lock::Mutex};
use tidemill_raft::RaftVoter;
use tidemill_types::{Incarnation, NodeId};

/// A kind of request. Numbers are never used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    /// Asks if the node is there. The answer is empty.
    Ping,
    /// A message of the coordinator's voters.
    Coordinator,
}

impl RequestKind {
    pub(super) fn number(self) -> u16 {
        match self {
            Self::Ping => 1,
            Self::Coordinator => 2,
        }
    }

    fn of(number: u16) -> Option<Self> {
        [Self::Ping, Self::Coordinator].into_iter().find(|it| it.number() == number)
    }
}

/// Lets every node be: for traffic of the coordinator itself, which is of no life of a node. A node
/// has none before the coordinator gave it one, and voters must hear each other while leases end. It
/// is safe without: a vote counts by term, and a message is for one data folder.
pub(super) struct OpenFence;

impl Fence for OpenFence {
    fn check(&self, _: NodeId, _: Incarnation) -> Result<(), Refusal> {
        Ok(())
    }
}

/// The judge of other nodes: the member's view, once there is one.
#[derive(Default)]
pub(super) struct MemberFence {
    member: OnceLock<Arc<ClusterMember>>,
}

impl MemberFence {
    /// Judges by this member's view from now on.
    pub(super) fn follow(&self, member: &Arc<ClusterMember>) {
        let _first = self.member.set(Arc::clone(member));
    }
}

impl Fence for MemberFence {
    fn check(&self, node: NodeId, incarnation: Incarnation) -> Result<(), Refusal> {
        if incarnation == Incarnation::NONE {
            return Ok(());
        }
        let Some(member) = self.member.get() else { return Err(Refusal::Unknown) };
        member.check(node, incarnation).map_err(|error| match error {
            FenceError::Unknown(_) | FenceError::Ahead { .. } => Refusal::Unknown,
            FenceError::Superseded { newest, .. } => Refusal::Fenced { newest },
            FenceError::LeaseEnded { .. } => Refusal::LeaseEnded,
        })
    }
}

/// Answers the requests of other nodes.
pub(super) struct NodeHandler {
    spawn: Arc<dyn Spawn>,
    /// The voter of this node, once it runs.
    voter: Mutex<Option<Arc<RaftVoter>>>,
}

impl NodeHandler {
    pub(super) fn new(spawn: Arc<dyn Spawn>) -> Self {
        Self { spawn, voter: Mutex::default() }
    }

    /// Gives messages of voters to this one; none stops that.
    pub(super) fn serve_voter(&self, voter: Option<Arc<RaftVoter>>) {
        *self.voter.lock() = voter;
    }
}

impl Handler for NodeHandler {
    fn handle(&self, request: PeerRequest, reply: PeerReply) {
        let is_registered = request.peer.incarnation != Incarnation::NONE;
        match RequestKind::of(request.kind) {
            Some(RequestKind::Ping) if is_registered => reply.send(Vec::new()),
            Some(RequestKind::Ping) => reply.refuse(&Refusal::Unknown),
            Some(RequestKind::Coordinator) => {
                let Some(voter) = self.voter.lock().clone() else {
                    let why = "this node keeps no table of the coordinator".to_owned();
                    return reply.refuse(&Refusal::Failed(why));
                };
                // A watcher's call waits for changes, and a proposal for most voters: neither holds
                // the connection's other requests up.
                let body = move || reply.send(voter.handle(&request.body));
                if let Err(error) = self.spawn.try_spawn("coordinator call", Box::new(body)) {
                    tracing::warn!(%error, "no thread for a call of the coordinator");
                }
            }
            None => reply.refuse(&Refusal::Kind(request.kind)),
        }
    }
}
