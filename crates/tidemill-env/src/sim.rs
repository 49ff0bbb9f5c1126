//! A simulated clock, disk and network, under a test's control.
//!
//! - The clock stands still until [`SimClock::advance`] or a sleep moves it.
//! - The disk keeps written and durable bytes apart.
//! - The network delays bytes, is partitioned, and resets connections; it loses no byte in between.
//! - In a [`Simulation`] threads are simulated too: a sleep then lets others go on.

#[cfg(debug_assertions)]
mod cluster;
mod disk;
#[cfg(debug_assertions)]
mod machine_clock;
mod net;
#[cfg(debug_assertions)]
mod pace;
#[cfg(debug_assertions)]
mod process;
#[cfg(debug_assertions)]
mod run;
#[cfg(debug_assertions)]
pub(crate) mod schedule;
mod signal;
#[cfg(debug_assertions)]
mod trace;

#[cfg(debug_assertions)]
pub use cluster::{SimCluster, SimPartition};
pub use disk::{FaultCounts, SimDisk};
#[cfg(debug_assertions)]
pub use machine_clock::SimDrift;
pub use net::{SimLink, SimNet, SimNetCounts};
#[cfg(debug_assertions)]
pub use pace::SimPace;
#[cfg(debug_assertions)]
pub use run::{SimFailure, SimReport, Simulation};

use crate::{Clock, World};
use std::sync::{
    Arc,
    atomic::{AtomicI64, AtomicU64, Ordering},
};

/// 2020-01-01T00:00:00Z: where simulated wall clocks start.
const WALL_START_US: i64 = 1_577_836_800_000_000;

/// A simulated world, and its parts for the test to drive.
#[derive(Clone)]
pub struct SimWorld {
    /// The world for the code under test.
    pub world: World,
    /// Its clock.
    pub clock: Arc<SimClock>,
    /// Its disk.
    pub disk: Arc<SimDisk>,
    /// A simulated network. The world is on it in a simulation alone, as the host `outside`.
    pub net: SimNet,
}

impl SimWorld {
    /// The world as one process has it: once the disk was killed or lost power, this world's disk
    /// refuses everything, even if threads of that process are still about.
    #[must_use]
    pub fn process(&self) -> World {
        World { disk: Arc::new(self.disk.process()), ..self.world.clone() }
    }
}

/// A clock that only a test or a sleep moves. A sleep takes no real time; in a simulation the
/// scheduler moves the clock when all threads wait.
#[derive(Debug, Default)]
pub struct SimClock {
    monotonic_us: AtomicU64,
    /// The offset of the wall clock, as set by [`Self::jump_wall`].
    skew_us: AtomicI64,
}

impl SimClock {
    /// Moves both clocks forward.
    pub fn advance(&self, micros: u64) {
        self.monotonic_us.fetch_add(micros, Ordering::SeqCst);
    }

    /// Moves the wall clock alone, forward or back, as an administrator would.
    pub fn jump_wall(&self, micros: i64) {
        self.skew_us.fetch_add(micros, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn monotonic_micros(&self) -> u64 {
        self.monotonic_us.load(Ordering::SeqCst)
    }

    fn wall_micros(&self) -> i64 {
        let passed = i64::try_from(self.monotonic_micros()).unwrap_or(i64::MAX);
        WALL_START_US.saturating_add(passed).saturating_add(self.skew_us.load(Ordering::SeqCst))
    }

    fn sleep_micros(&self, micros: u64) {
        #[cfg(debug_assertions)]
        if let Some(here) = schedule::here() {
            return here.sleep(micros);
        }
        self.advance(micros);
    }
}
