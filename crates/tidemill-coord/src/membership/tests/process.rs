//! The process of a node in a simulation: it can be stopped as a whole, cut off, killed and begun
//! anew from its folder, and its clock drifts.

use crate::{
    Coordinator, CoordinatorError, ModelCoordinator, Watch,
    key::{LeaseId, Revision},
    membership::{ClusterMember, MemberOptions, NodeProfile, member::tests::profile},
    model::{Anomalies, Model},
    transaction::{Change, CommitOutcome, Listing, Transaction},
};
use std::{sync::Arc, time::Duration};
use tidemill_env::{
    Clock, Random, World,
    lock::{Condvar, Mutex},
};
use tidemill_types::{ClusterId, Incarnation, NodeId};

/// A gate that all threads of a process pass at each clock reading and call of the coordinator.
#[derive(Default)]
pub(super) struct Gate {
    is_closed: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut is_closed = self.is_closed.lock();
        while *is_closed {
            is_closed = self.changed.wait(is_closed);
        }
    }

    fn set(&self, is_closed: bool) {
        *self.is_closed.lock() = is_closed;
        self.changed.notify_all();
    }
}

/// The clock of one node: it stops its readers with the process, and its wall time jumps.
struct NodeClock {
    clock: Arc<dyn Clock>,
    gate: Arc<Gate>,
    skew_us: Arc<Mutex<i64>>,
    /// By how many parts of a thousand the clock runs fast.
    drift: i64,
}

impl Clock for NodeClock {
    fn monotonic_micros(&self) -> u64 {
        self.gate.pass();
        self.clock.monotonic_micros() / 1_000 * 1_000_u64.saturating_add_signed(self.drift)
    }

    fn wall_micros(&self) -> i64 {
        self.gate.pass();
        self.clock.wall_micros() + *self.skew_us.lock()
    }

    fn sleep_micros(&self, micros: u64) {
        self.clock.sleep_micros(micros);
        self.gate.pass();
    }
}

/// A handle of the table that stops its callers with the process, before and after each call.
struct GatedCoordinator {
    handle: ModelCoordinator,
    gate: Arc<Gate>,
}

impl GatedCoordinator {
    fn call<T>(&self, call: impl FnOnce(&ModelCoordinator) -> T) -> T {
        self.gate.pass();
        let result = call(&self.handle);
        self.gate.pass();
        result
    }
}

impl Coordinator for GatedCoordinator {
    fn list(&self, prefix: &str) -> Result<Listing, CoordinatorError> {
        self.call(|it| it.list(prefix))
    }

    fn commit(&self, transaction: &Transaction) -> Result<CommitOutcome, CoordinatorError> {
        self.call(|it| it.commit(transaction))
    }

    fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, CoordinatorError> {
        let watch = self.call(|it| it.watch(prefix, after))?;
        Ok(Box::new(GatedWatch { watch, gate: Arc::clone(&self.gate) }))
    }

    fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, CoordinatorError> {
        self.call(|it| it.grant_lease(ttl))
    }

    fn keep_alive(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        self.call(|it| it.keep_alive(lease))
    }

    fn revoke_lease(&self, lease: LeaseId) -> Result<(), CoordinatorError> {
        self.call(|it| it.revoke_lease(lease))
    }
}

struct GatedWatch {
    watch: Box<dyn Watch>,
    gate: Arc<Gate>,
}

impl Watch for GatedWatch {
    fn changes(&mut self, timeout: Duration) -> Result<Vec<Change>, CoordinatorError> {
        self.gate.pass();
        let changes = self.watch.changes(timeout);
        self.gate.pass();
        changes
    }
}

/// A running process.
pub(super) struct Process {
    pub(super) member: ClusterMember,
    pub(super) life: u32,
    /// The moment since which it stands still.
    pub(super) paused_us: Option<u64>,
    pub(super) is_cut: bool,
    handle: ModelCoordinator,
    gate: Arc<Gate>,
    skew_us: Arc<Mutex<i64>>,
}

impl Process {
    pub(super) fn set_cut(&mut self, is_cut: bool) {
        self.is_cut = is_cut;
        self.handle.set_cut(is_cut);
    }

    pub(super) fn pause(&mut self, now_us: u64) {
        self.paused_us = Some(now_us);
        self.gate.set(true);
    }

    /// Lets the process go on. Gives the moment since which it stood still.
    pub(super) fn resume(&mut self) -> Option<u64> {
        self.gate.set(false);
        self.paused_us.take()
    }

    pub(super) fn jump_wall(&self, micros: i64) {
        *self.skew_us.lock() += micros;
    }
}

/// A node: its folder, and its process if it runs.
pub(super) struct SimNode {
    pub(super) node: NodeId,
    pub(super) process: Option<Process>,
    lives: u32,
    /// The cluster that the folder knows.
    pub(super) cluster: Option<ClusterId>,
    /// The incarnation that the folder knows.
    pub(super) last_incarnation: Incarnation,
}

impl SimNode {
    pub(super) fn new(node: i32) -> Self {
        Self {
            node: NodeId(node),
            process: None,
            lives: 0,
            cluster: None,
            last_incarnation: Incarnation(0),
        }
    }

    /// Begins a life. It joins by itself.
    pub(super) fn start(&mut self, world: &World, model: &Model, anomalies: Anomalies, drift: i64) {
        self.lives += 1;
        let seed =
            world.seed ^ (u64::from(self.lives) << 32) ^ u64::from(self.node.0.unsigned_abs());
        let (gate, skew_us) = (Arc::new(Gate::default()), Arc::new(Mutex::new(0)));
        let clock = NodeClock {
            clock: Arc::clone(&world.clock),
            gate: Arc::clone(&gate),
            skew_us: Arc::clone(&skew_us),
            drift,
        };
        let world = World { clock: Arc::new(clock), seed, ..world.clone() };
        let handle = model.handle_with(anomalies, Random::new(seed));
        let coordinator = GatedCoordinator { handle: handle.clone(), gate: Arc::clone(&gate) };
        let profile = NodeProfile {
            cluster: self.cluster.clone(),
            last_incarnation: self.last_incarnation,
            ..profile(self.node.0)
        };
        let options = MemberOptions::new(profile);
        let member = ClusterMember::launch(&world, Arc::new(coordinator), options);
        let member = member.expect("the lease is long enough");
        let life = self.lives;
        let (paused_us, is_cut) = (None, false);
        self.process = Some(Process { member, life, paused_us, is_cut, handle, gate, skew_us });
    }

    /// Ends the process as `kill -9` does: nothing of it reaches the table any more.
    pub(super) fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        process.set_cut(true);
        let _since = process.resume();
    }
}
