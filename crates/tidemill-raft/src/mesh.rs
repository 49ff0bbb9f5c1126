//! Voters in one process: messages are calls, and a line between two of them can be cut.

use crate::{
    RaftCoordinator, RaftError, RaftOptions, RaftVoter, Transport, TransportError,
    founding::{CoordinatorRole, find_or_found},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};
use tidemill_env::{SimWorld, World, lock::Mutex};
use tidemill_types::NodeId;

/// The lines between voters.
#[derive(Clone, Default)]
pub(crate) struct Mesh(Arc<Mutex<MeshState>>);

#[derive(Default)]
struct MeshState {
    voters: BTreeMap<String, Arc<RaftVoter>>,
    /// Addresses that no message reaches or leaves.
    cut: BTreeSet<String>,
    /// Addresses whose answers are lost.
    deaf: BTreeSet<String>,
}

/// The lines as one node has them.
struct MeshLine {
    from: String,
    mesh: Mesh,
}

impl Mesh {
    pub(crate) fn line(&self, from: &str) -> Arc<dyn Transport> {
        Arc::new(MeshLine { from: from.to_owned(), mesh: self.clone() })
    }

    pub(crate) fn cut(&self, address: &str) {
        self.0.lock().cut.insert(address.to_owned());
    }

    pub(crate) fn lose_answers(&self, address: &str) {
        self.0.lock().deaf.insert(address.to_owned());
    }

    pub(crate) fn heal(&self) {
        let mut lines = self.0.lock();
        lines.cut.clear();
        lines.deaf.clear();
    }
}

impl Transport for MeshLine {
    fn call(
        &self,
        address: &str,
        node: Option<NodeId>,
        message: Vec<u8>,
        _timeout: Duration,
    ) -> Result<Vec<u8>, TransportError> {
        let not_sent = |why: &str| Err(TransportError::NotSent(format!("{address}: {why}")));
        let (voter, is_deaf) = {
            let lines = self.mesh.0.lock();
            if lines.cut.contains(&self.from) || lines.cut.contains(address) {
                return not_sent("no way there");
            }
            let Some(voter) = lines.voters.get(address) else { return not_sent("nobody is there") };
            (Arc::clone(voter), lines.deaf.contains(address))
        };
        if node.is_some_and(|node| node != voter.options.node) {
            return not_sent("another node answers");
        }
        let answer = voter.handle(&message);
        if is_deaf {
            return Err(TransportError::NoAnswer(format!("{address}: the answer is lost")));
        }
        Ok(answer)
    }
}

/// Nodes with a simulated disk each, real time and real threads.
pub(crate) struct Nodes {
    pub(crate) mesh: Mesh,
    disks: BTreeMap<i32, SimWorld>,
    addresses: Vec<String>,
}

pub(crate) fn address(node: i32) -> String {
    format!("node-{node}:7088")
}

impl Nodes {
    /// Nodes 1 to `count`, none of which runs.
    pub(crate) fn new(count: i32) -> Self {
        let disks = (1..=count).map(|node| (node, World::simulated(node.unsigned_abs().into())));
        let addresses = (1..=count).map(address).collect();
        Self { mesh: Mesh::default(), disks: disks.collect(), addresses }
    }

    /// The node's own disk, and the machine's clock and threads.
    pub(crate) fn world(&self, node: i32) -> World {
        World { disk: self.disks[&node].process().disk, ..World::real() }
    }

    pub(crate) fn options(node: i32) -> RaftOptions {
        RaftOptions {
            // A machine with more to do than it has processors must not look like a dead leader.
            election: Duration::from_secs(3),
            ..RaftOptions::new(NodeId(node), address(node), PathBuf::from("/data/raft"))
        }
    }

    /// Starts a node: others reach it.
    pub(crate) fn open(&self, node: i32) -> Arc<RaftVoter> {
        let line = self.mesh.line(&address(node));
        let voter = RaftVoter::open(&self.world(node), Self::options(node), line);
        let voter = voter.expect("the folder opens");
        self.mesh.0.lock().voters.insert(address(node), Arc::clone(&voter));
        voter
    }

    /// Finds the part of a node in the cluster.
    pub(crate) fn join(&self, node: i32, voter: &RaftVoter) -> Result<CoordinatorRole, RaftError> {
        let line = self.mesh.line(&address(node));
        find_or_found(&self.world(node), &*line, voter, &self.addresses, |_| {}, || false)
    }

    /// Starts nodes 1 to `count` and founds their cluster, if there is none.
    pub(crate) fn start(&self, count: i32) -> BTreeMap<i32, Arc<RaftVoter>> {
        let voters: BTreeMap<i32, Arc<RaftVoter>> =
            (1..=count).map(|node| (node, self.open(node))).collect();
        for (node, voter) in &voters {
            assert_eq!(self.join(*node, voter), Ok(CoordinatorRole::Voter));
        }
        voters
    }

    pub(crate) fn coordinator(&self, voter: &Arc<RaftVoter>) -> RaftCoordinator {
        RaftCoordinator::of_voter(voter, self.mesh.line(&voter.options.address))
    }

    pub(crate) fn client(&self, name: &str) -> RaftCoordinator {
        let line = self.mesh.line(name);
        let timeout = Duration::from_secs(20);
        RaftCoordinator::of_client(&World::real(), line, self.addresses.clone(), timeout)
    }

    /// Ends a node's process; `has_power`: what it wrote and did not sync is there.
    pub(crate) fn stop(&self, node: i32, voter: Arc<RaftVoter>, has_power: bool) {
        self.mesh.0.lock().voters.remove(&address(node));
        voter.close();
        drop(voter);
        if has_power {
            self.disks[&node].disk.kill();
        } else {
            self.disks[&node].disk.power_cut();
        }
    }

    /// Gives a node an empty disk.
    pub(crate) fn wipe(&mut self, node: i32) {
        self.disks.insert(node, World::simulated(1_000 + u64::from(node.unsigned_abs())));
    }
}
