//! A cluster of simulated machines, each with a world of its own, for code that runs on several nodes.
//!
//! ```text
//! Simulation ─▶ SimWorld, outside: the test, clients, checkers; they survive all nodes
//!            └▶ SimCluster ─ node 1 ─ process: threads, handles of disk and network
//!                          │    └──── machine: disk, clock with drift, host `node-1`
//!                          └ node 2 …
//! ```
//!
//! - `kill`: the threads of the process end at their next point by unwinding, and its handles refuse.
//!   The machine's system closes its connections; what was written to files is there.
//! - `power_cut`: as `kill`, but unsynced bytes may be lost, and the machine is silent.
//! - `pause`: SIGSTOP. No thread of the process goes on; its timers run, its system still accepts
//!   connections and bytes.
//! - `restart`: a new process with new handles, on the same disk.
//!
//! Invariant: a thread of a dead process has no effect on a disk or the network.
//!
//! A killed thread may hold a lock of a value that others share with it, such as the history of a
//! checker; [`crate::lock`] has locks that do not mind.

use super::{
    SimClock, SimDisk, SimDrift, SimNet, SimWorld,
    machine_clock::MachineClock,
    process::ProcessNumber,
    run::SimSpawn,
    schedule::{self, Scheduler},
    signal::hold,
};
use crate::{Random, World, entropy::SeededEntropy};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};
use tidemill_types::NodeId;

/// The ways between two nodes that a partition cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimPartition {
    /// From the first node to the second. The way back stays.
    OneWay,
    /// Both.
    BothWays,
}

/// One machine.
struct Machine {
    name: String,
    disk: Arc<SimDisk>,
    clock: Arc<MachineClock>,
    process: Mutex<MachineProcess>,
}

/// The newest process of a machine.
struct MachineProcess {
    number: ProcessNumber,
    world: World,
}

/// The machines that all clones share. The last clone kills the nodes, so that the simulation ends.
struct ClusterMachines {
    net: SimNet,
    scheduler: Arc<Scheduler>,
    /// The world outside all nodes.
    outside: World,
    machines: BTreeMap<NodeId, Machine>,
}

/// Nodes of a simulation, numbered from 1. Clones share them; the nodes are killed when the last
/// clone is dropped.
#[derive(Clone)]
pub struct SimCluster(Arc<ClusterMachines>);

/// A drift as machines have it: most of them almost none, some so much that leases misjudge it.
fn draw_drift(random: &mut Random) -> SimDrift {
    let rate_ppm = [0, 0, 20, 200, 10_000][random.below(5) as usize];
    let wall_us = [0, 1_000, 300_000, 90_000_000, 86_400_000_000][random.below(5) as usize];
    let signs = [random.below(2), random.below(2)].map(|it| it == 0);
    SimDrift {
        rate_ppm: if signs[0] { rate_ppm } else { -rate_ppm },
        wall_us: if signs[1] { wall_us } else { -wall_us },
    }
}

impl SimCluster {
    /// A cluster of `count` nodes, each with a running process without threads. The world's seed
    /// sets the errors of their clocks.
    ///
    /// # Panics
    /// Panics outside a `Simulation`.
    #[must_use]
    pub fn new(sim: &SimWorld, count: usize) -> Self {
        let mut random = sim.world.random(0x636c_7573);
        let drifts: Vec<_> = (0..count).map(|_| draw_drift(&mut random)).collect();
        Self::with_drifts(sim, &drifts)
    }

    /// A node for each of these drifts.
    ///
    /// # Panics
    /// Panics outside a `Simulation`.
    #[must_use]
    pub fn with_drifts(sim: &SimWorld, drifts: &[SimDrift]) -> Self {
        let here = schedule::here().expect("only a simulation has nodes");
        let mut random = sim.world.random(0x6e6f_6465);
        let scheduler = here.scheduler;
        let machines = (1..).map(NodeId).zip(drifts).map(|(node, drift)| {
            let name = format!("node-{node}");
            let up_us = random.below(1 << 40);
            let clock: Arc<SimClock> = Arc::clone(&sim.clock);
            let clock = Arc::new(MachineClock::new(clock, *drift, up_us));
            let disk = Arc::new(SimDisk::new(random.next()));
            let process = begin(&sim.world, &sim.net, &scheduler, (&name, &disk, &clock));
            (node, Machine { name, disk, clock, process: Mutex::new(process) })
        });
        let (machines, net, outside) = (machines.collect(), sim.net.clone(), sim.world.clone());
        Self(Arc::new(ClusterMachines { net, scheduler, outside, machines }))
    }

    /// The ids of all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.0.machines.keys().copied()
    }

    /// The world of a node's newest process. After a kill it refuses everything.
    ///
    /// # Panics
    /// As all functions of a node: panics if there is no node of this id.
    #[must_use]
    pub fn node(&self, node: NodeId) -> World {
        hold(&self.machine(node).process).world.clone()
    }

    /// The world of somebody outside all nodes, as a host of this name.
    #[must_use]
    pub fn outside(&self, host: &str) -> World {
        World { net: self.0.net.host(host), ..self.0.outside.clone() }
    }

    /// The address of a port of a node.
    #[must_use]
    pub fn address(&self, node: NodeId, port: u16) -> String {
        format!("{}:{port}", self.machine(node).name)
    }

    /// The network, for its other faults. The host of node 1 is `node-1`.
    #[must_use]
    pub fn net(&self) -> &SimNet {
        &self.0.net
    }

    /// The disk of a node's machine, for its faults. Kills are this value's.
    #[must_use]
    pub fn disk(&self, node: NodeId) -> &SimDisk {
        &self.machine(node).disk
    }

    /// True if a node's newest process was not killed. It may be paused.
    #[must_use]
    pub fn is_alive(&self, node: NodeId) -> bool {
        let number = hold(&self.machine(node).process).number;
        !self.0.scheduler.process(number).is_killed
    }

    /// True if a node's newest process is paused.
    #[must_use]
    pub fn is_paused(&self, node: NodeId) -> bool {
        let number = hold(&self.machine(node).process).number;
        self.0.scheduler.process(number).is_paused
    }

    /// Kills a node's process, as SIGKILL does.
    pub fn kill(&self, node: NodeId) {
        let machine = self.machine(node);
        self.0.net.kill(&machine.name);
        machine.disk.kill();
        self.end_threads(machine);
    }

    /// Kills a node's process in the middle of the operation that changes its disk after this many
    /// more. A process that is dead stays so.
    pub fn kill_after(&self, node: NodeId, operations: u64) {
        if !self.is_alive(node) {
            return;
        }
        let machine = self.machine(node);
        let (net, name) = (self.0.net.clone(), machine.name.clone());
        let (scheduler, number) = (Arc::clone(&self.0.scheduler), hold(&machine.process).number);
        machine.disk.kill_after_with(operations, move || {
            net.kill_now(&name);
            scheduler.change_process(number, |it| it.is_killed = true);
        });
    }

    /// Cuts the power of a node's machine: its process is dead, unsynced bytes may be lost, and the
    /// machine is silent until [`Self::restart`].
    pub fn power_cut(&self, node: NodeId) {
        let machine = self.machine(node);
        self.0.net.power_cut(&machine.name);
        machine.disk.power_cut();
        self.end_threads(machine);
    }

    /// Starts a node's next process, without threads, and returns its world. An earlier process is
    /// killed; a machine without power gets it back.
    pub fn restart(&self, node: NodeId) -> World {
        if self.is_alive(node) {
            self.kill(node);
        }
        let machine = self.machine(node);
        if !self.0.net.has_power(&machine.name) {
            machine.clock.reboot(20_000_000);
            self.0.net.power_on(&machine.name);
        }
        let ClusterMachines { net, scheduler, outside, .. } = &*self.0;
        let parts = (machine.name.as_str(), &machine.disk, &machine.clock);
        let process = begin(outside, net, scheduler, parts);
        let world = process.world.clone();
        *hold(&machine.process) = process;
        world
    }

    /// Stops a node's threads, as SIGSTOP does, until [`Self::resume`], a kill or a power cut.
    pub fn pause(&self, node: NodeId) {
        self.set_paused(node, true);
    }

    /// Lets a node's threads go on.
    pub fn resume(&self, node: NodeId) {
        self.set_paused(node, false);
    }

    /// Cuts the ways between two nodes. What is sent on them waits until they are healed.
    pub fn partition(&self, from: NodeId, to: NodeId, ways: SimPartition) {
        let (from, to) = (&self.machine(from).name, &self.machine(to).name);
        self.0.net.partition(from, to);
        if ways == SimPartition::BothWays {
            self.0.net.partition(to, from);
        }
    }

    /// Cuts all ways to and from a node, those of clients too.
    pub fn isolate(&self, node: NodeId) {
        self.0.net.unplug(&self.machine(node).name);
    }

    /// Opens all ways. Processes and machines stay as they are.
    pub fn heal(&self) {
        self.0.net.heal();
    }

    /// Sets the wall clock of a node forward or back.
    pub fn jump_wall(&self, node: NodeId, micros: i64) {
        self.machine(node).clock.jump_wall(micros);
    }

    fn machine(&self, node: NodeId) -> &Machine {
        let machine = self.0.machines.get(&node);
        machine.unwrap_or_else(|| panic!("the simulation has no node {node}"))
    }

    fn set_paused(&self, node: NodeId, is_paused: bool) {
        let number = hold(&self.machine(node).process).number;
        self.0.scheduler.change_process(number, |it| it.is_paused = is_paused && !it.is_killed);
    }

    fn end_threads(&self, machine: &Machine) {
        let number = hold(&machine.process).number;
        self.0.scheduler.change_process(number, |it| it.is_killed = true);
    }
}

impl Drop for ClusterMachines {
    fn drop(&mut self) {
        for machine in self.machines.values() {
            machine.disk.kill();
            self.net.kill_now(&machine.name);
            let number = hold(&machine.process).number;
            self.scheduler.change_process(number, |it| it.is_killed = true);
        }
    }
}

/// A new process of a machine: its handles, and a seed of its own.
fn begin(
    outside: &World,
    net: &SimNet,
    scheduler: &Arc<Scheduler>,
    (name, disk, clock): (&str, &Arc<SimDisk>, &Arc<MachineClock>),
) -> MachineProcess {
    let number = scheduler.add_process(clock.rate_ppm());
    let seed = outside.random(0x7072_6f63 ^ ((number.0 as u64) << 32)).next();
    let world = World {
        clock: Arc::clone(clock) as _,
        disk: Arc::new(disk.process()),
        net: net.host(name),
        spawn: Arc::new(SimSpawn::new(scheduler, number)),
        entropy: Arc::new(SeededEntropy::new(seed)),
        seed,
    };
    MachineProcess { number, world }
}

#[cfg(test)]
mod tests;
