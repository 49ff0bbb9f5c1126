//! The state that all requests share.

use super::{metrics::HttpCounts, problem::Problem};
use crate::jobs::Jobs;
use crate::serve::{cluster::ClusterNode, settings::HttpSettings};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tidemill_broker::Broker;
use tidemill_env::World;
use tidemill_log::Log;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};

/// The unit that memory is charged in, in bytes.
const UNIT_BYTES: usize = 1024;
/// Longest time that a request waits for memory before it is told to come again.
const MEMORY_PATIENCE: Duration = Duration::from_secs(2);
/// Longest time that a request waits for its turn to read a state, or the figures.
const LOOK_PATIENCE: Duration = Duration::from_secs(10);

/// The state that all requests share.
pub(super) struct HttpState {
    pub(super) world: World,
    pub(super) log: Arc<Log>,
    pub(super) broker: Arc<Broker>,
    pub(super) jobs: Arc<Jobs>,
    /// The node's place in its cluster; none for a node that is alone.
    pub(super) cluster: Option<Arc<ClusterNode>>,
    pub(super) settings: HttpSettings,
    pub(super) counts: Arc<HttpCounts>,
    /// When the node stops, readers stop waiting for records.
    pub(super) stopped: watch::Receiver<bool>,
    memory: Arc<Semaphore>,
    memory_units: usize,
    looks: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    next_request: AtomicU64,
}

/// Memory that a request may use; it is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Charge(Option<OwnedSemaphorePermit>);

impl Charge {
    /// For a request that uses none yet.
    pub(super) const NONE: Self = Self(None);
}

/// Requests are numbered from here on, so that they take other lanes of a streamlet than producers,
/// whose numbers are small.
const FIRST_REQUEST: u64 = 1 << 62;

impl HttpState {
    pub(super) fn new(
        world: &World,
        log: &Arc<Log>,
        broker: &Arc<Broker>,
        jobs: &Arc<Jobs>,
        cluster: Option<&Arc<ClusterNode>>,
        settings: HttpSettings,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let bytes = usize::try_from(settings.bodies_bytes.0).unwrap_or(usize::MAX);
        let memory_units = (bytes / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            world: world.clone(),
            log: Arc::clone(log),
            broker: Arc::clone(broker),
            jobs: Arc::clone(jobs),
            cluster: cluster.map(Arc::clone),
            settings,
            counts: Arc::default(),
            stopped,
            memory: Arc::new(Semaphore::new(memory_units)),
            memory_units,
            looks: Arc::new(Semaphore::new(1)),
            pages: Arc::new(Semaphore::new(1)),
            next_request: AtomicU64::new(FIRST_REQUEST),
        }
    }

    /// The turn of a request that looks at a job's state; waits a little for those before it.
    pub(super) async fn turn_to_look(&self) -> Result<OwnedSemaphorePermit, Problem> {
        match timeout(LOOK_PATIENCE, Arc::clone(&self.looks).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(Problem::busy("another request looks at a state: come again in a second")),
        }
    }

    /// The turn of a request that makes a page of figures; waits a little for those before it.
    pub(super) async fn turn_to_show(&self) -> Result<OwnedSemaphorePermit, Problem> {
        match timeout(LOOK_PATIENCE, Arc::clone(&self.pages).acquire_owned()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(Problem::busy("other requests ask for the figures: come again in a second")),
        }
    }

    /// A number that no other request has.
    pub(super) fn number(&self) -> u64 {
        self.next_request.fetch_add(1, Ordering::Relaxed)
    }

    /// Now, in milliseconds since 1970.
    pub(super) fn now_ms(&self) -> i64 {
        self.world.clock.wall_micros() / 1_000
    }

    pub(super) fn body_bytes_max(&self) -> usize {
        usize::try_from(self.settings.body_bytes_max()).unwrap_or(usize::MAX)
    }

    /// The most that a chunk may become when it is inflated here.
    pub(super) fn inflated_bytes_max(&self) -> usize {
        (self.memory_units / 4).saturating_mul(UNIT_BYTES)
    }

    fn units(&self, bytes: usize) -> u32 {
        let units = bytes.div_ceil(UNIT_BYTES).min(self.memory_units);
        u32::try_from(units).unwrap_or(u32::MAX)
    }

    /// Memory for a request that has none; waits a little.
    pub(super) async fn charge(&self, bytes: usize) -> Result<Charge, Problem> {
        let permit = Arc::clone(&self.memory).acquire_many_owned(self.units(bytes));
        match timeout(MEMORY_PATIENCE, permit).await {
            Ok(Ok(permit)) => Ok(Charge(Some(permit))),
            _ => Err(full()),
        }
    }

    /// More memory for a request that has some. It does not wait: two that wait for each other's
    /// would wait for ever.
    pub(super) fn charge_more(&self, charge: &mut Charge, bytes: usize) -> Result<(), Problem> {
        let permit = Arc::clone(&self.memory).try_acquire_many_owned(self.units(bytes));
        let permit = permit.map_err(|_| full())?;
        match &mut charge.0 {
            Some(have) => have.merge(permit),
            none => *none = Some(permit),
        }
        Ok(())
    }
}

fn full() -> Problem {
    Problem::busy("the node has as many bodies under way as it may hold: come again in a second")
}
