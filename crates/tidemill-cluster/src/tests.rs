//! Ports and links over real loopback sockets: calls, refusals, hostile strangers.

mod calls;
mod hostile;
mod refusals;
#[cfg(debug_assertions)]
mod seeds;

use crate::{
    ClusterKey, ClusterLimits, ClusterOptions, ClusterPort, Fence, Handler, Identity, IdentityCell,
    PeerReply, PeerRequest, Peers, Refusal,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tidemill_env::{World, lock::Mutex};
use tidemill_types::{Incarnation, NodeId};

/// Long enough for any machine: no test waits for it to pass.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Kinds of requests that [`Echo`] knows.
pub(crate) const ECHO: u16 = 1;
pub(crate) const KEEP: u16 = 2;
pub(crate) const DROP: u16 = 3;
pub(crate) const PANIC: u16 = 4;
pub(crate) const GROW: u16 = 5;

/// A handler for tests, and the requests that reached it.
#[derive(Default)]
pub(crate) struct Echo {
    /// Node, incarnation and body of each request.
    pub(crate) seen: Mutex<Vec<(NodeId, Incarnation, Vec<u8>)>>,
    /// Replies that a test answers by hand.
    pub(crate) kept: Mutex<Vec<(Vec<u8>, PeerReply)>>,
}

impl Handler for Echo {
    fn handle(&self, request: PeerRequest, reply: PeerReply) {
        let PeerRequest { peer, kind, body, .. } = request;
        self.seen.lock().push((peer.node, peer.incarnation, body.clone()));
        match kind {
            ECHO => reply.send(body),
            KEEP => self.kept.lock().push((body, reply)),
            DROP => drop(reply),
            PANIC => panic!("a planted panic of a handler"),
            GROW => reply.send(vec![7; 1 << 20]),
            _ => reply.refuse(&Refusal::Kind(kind)),
        }
    }
}

/// A fence that a test moves: the least incarnation that is accepted of each node.
#[derive(Default)]
pub(crate) struct TestFence(pub(crate) Mutex<BTreeMap<NodeId, Incarnation>>);

impl Fence for TestFence {
    fn check(&self, node: NodeId, incarnation: Incarnation) -> Result<(), Refusal> {
        match self.0.lock().get(&node) {
            Some(least) if incarnation < *least => Err(Refusal::Fenced { newest: *least }),
            _ => Ok(()),
        }
    }
}

/// A node of a test: a port and links.
pub(crate) struct TestNode {
    pub(crate) world: World,
    pub(crate) identity: Arc<IdentityCell>,
    pub(crate) options: ClusterOptions,
    pub(crate) fence: Arc<TestFence>,
    pub(crate) handler: Arc<Echo>,
    pub(crate) port: ClusterPort,
    pub(crate) peers: Peers,
}

/// The settings of a node that tests change.
#[derive(Clone)]
pub(crate) struct TestSettings {
    pub(crate) node: i32,
    pub(crate) incarnation: u32,
    pub(crate) cluster: &'static str,
    pub(crate) key: &'static str,
    pub(crate) address: String,
    pub(crate) limits: ClusterLimits,
}

impl TestSettings {
    pub(crate) fn of(node: i32) -> Self {
        Self {
            node,
            incarnation: 10 + node.unsigned_abs(),
            cluster: "tide-pool",
            key: "correct horse battery staple",
            address: "127.0.0.1:0".to_owned(),
            limits: ClusterLimits {
                body_bytes_max: 1 << 20,
                connect: PATIENCE,
                handshake: PATIENCE,
                heartbeat: Duration::from_millis(50),
                silence_max: PATIENCE,
                write_max: PATIENCE,
                back_off_min: Duration::from_millis(1),
                back_off_max: Duration::from_millis(20),
                ..ClusterLimits::default()
            },
        }
    }

    pub(crate) fn options(&self) -> (ClusterOptions, Arc<TestFence>) {
        let identity = Identity {
            cluster: self.cluster.parse().expect("it is an id"),
            node: NodeId(self.node),
            incarnation: Incarnation(self.incarnation),
            version: "test".to_owned(),
        };
        let fence = Arc::new(TestFence::default());
        let key = ClusterKey::parse(self.key.as_bytes()).expect("it is a key");
        let judge = Arc::clone(&fence) as Arc<dyn Fence>;
        let options = ClusterOptions::new(Arc::new(IdentityCell::new(identity)), key, judge);
        (ClusterOptions { limits: self.limits, ..options }, fence)
    }

    pub(crate) fn start(&self) -> TestNode {
        self.start_in(World::real())
    }

    pub(crate) fn start_in(&self, world: World) -> TestNode {
        let (options, fence) = self.options();
        let handler = Arc::new(Echo::default());
        let listening = Arc::clone(&handler) as Arc<dyn Handler>;
        let port = ClusterPort::listen(&world, &self.address, options.clone(), listening);
        let peers = Peers::new(&world, options.clone()).expect("there are threads");
        TestNode {
            identity: Arc::clone(&options.identity),
            port: port.expect("the address is free"),
            world,
            options,
            fence,
            handler,
            peers,
        }
    }
}

impl TestNode {
    pub(crate) fn node(&self) -> NodeId {
        self.identity.node()
    }

    pub(crate) fn call(
        &self,
        other: &Self,
        kind: u16,
        body: &[u8],
    ) -> Result<Vec<u8>, crate::CallError> {
        self.peers.call(other.port.address(), other.node(), kind, body.to_vec(), PATIENCE)
    }

    /// Waits for a condition.
    pub(crate) fn until(&self, condition: impl Fn() -> bool) {
        let clock = &self.world.clock;
        let end = clock.monotonic_micros() + PATIENCE.as_micros() as u64;
        while !condition() {
            assert!(clock.monotonic_micros() < end, "the condition never came");
            clock.sleep_micros(2_000);
        }
    }
}
