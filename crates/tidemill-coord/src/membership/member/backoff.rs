//! Growing rests between attempts, with a part that differs from node to node.

use std::time::Duration;
use tidemill_env::{Random, World};
use tidemill_types::NodeId;

/// The first rest.
const REST_MIN_US: u64 = 50_000;
/// The longest rest.
const REST_MAX_US: u64 = 2_000_000;

/// The rests of one thread. They double with each failure, up to two seconds.
pub(super) struct Backoff {
    random: Random,
    rest_us: u64,
}

impl Backoff {
    /// Rests for a thread of a node: the same for the same seed.
    pub(super) fn new(world: &World, purpose: u64, node: NodeId) -> Self {
        let random = world.random(purpose ^ u64::from(node.0.cast_unsigned()));
        Self { random, rest_us: REST_MIN_US }
    }

    /// The rest after a failure: between half and all of the present span.
    pub(super) fn grow(&mut self) -> Duration {
        let half_us = self.rest_us / 2;
        let rest_us = half_us + self.random.below(half_us + 1);
        self.rest_us = (self.rest_us * 2).min(REST_MAX_US);
        Duration::from_micros(rest_us)
    }

    /// Begins again with the first rest.
    pub(super) fn reset(&mut self) {
        self.rest_us = REST_MIN_US;
    }
}
