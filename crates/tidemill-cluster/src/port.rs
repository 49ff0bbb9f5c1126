//! The port: it listens, lets nodes in that prove the key, and hands their requests to the handler.
//!
//! ```text
//! "cluster accept"     ─▶ a thread for each connection
//! "cluster read"       handshake, then: frame ─ fence ─ room ─▶ handler
//! "cluster write"      answers and heartbeats, as they come
//! "cluster deadlines"  closes what is silent or stuck
//! ```
//!
//! A flood of strangers costs [`unproven_max`](crate::ClusterLimits::unproven_max) threads for the
//! time of a handshake at most. The oldest stranger makes room for the newest, so a node with the key
//! gets in.

mod connection;
mod in_flight;
mod registry;

pub(crate) use in_flight::InFlight;

use crate::{ClusterOptions, Handler, deadline::DeadlineWatch, log_gate::LogGate};
use registry::ConnectionRegistry;
use std::{io, sync::Arc, time::Duration};
use tidemill_env::{
    Connection, Listener, Thread, World, has_no_room,
    lock::Mutex,
    sync::atomic::{AtomicBool, Ordering},
};

/// The port that nodes listen at if nothing else is said, on the loopback address.
pub const CLUSTER_PORT: u16 = 7088;

/// Failed accepts in a row after which the port is given up, unless there was no room.
const ACCEPT_FAILURES_MAX: u32 = 20;
/// The wait after a failed accept, in microseconds.
const ACCEPT_PAUSE_US: u64 = 100_000;
/// The time for the connection that wakes the accepting thread at the end.
const WAKE_TIMEOUT: Duration = Duration::from_secs(1);

/// A listening cluster port. Dropped, it closes all connections and waits for their threads.
pub struct ClusterPort {
    state: Arc<PortState>,
    address: String,
    acceptor: Mutex<Option<Box<dyn Thread>>>,
}

/// The parts that the threads of a port share.
pub(crate) struct PortState {
    pub(crate) world: World,
    pub(crate) options: ClusterOptions,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) watch: DeadlineWatch,
    pub(crate) registry: ConnectionRegistry,
    pub(crate) log: LogGate,
    is_stopping: AtomicBool,
}

impl PortState {
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::SeqCst)
    }
}

impl ClusterPort {
    /// Listens at an address such as `127.0.0.1:7088`.
    ///
    /// # Errors
    /// The address cannot be taken, or the system has no thread left.
    pub fn listen(
        world: &World,
        address: &str,
        options: ClusterOptions,
        handler: Arc<dyn Handler>,
    ) -> io::Result<Self> {
        let listener = world.net.listen(address)?;
        let address = listener.address()?;
        let state = Arc::new(PortState {
            world: world.clone(),
            registry: ConnectionRegistry::new(options.limits),
            options,
            handler,
            watch: DeadlineWatch::start(world)?,
            log: LogGate::default(),
            is_stopping: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&state);
        let acceptor = world
            .spawn
            .try_spawn("cluster accept", Box::new(move || accept_all(&accepting, &*listener)))?;
        let identity = state.options.identity.get();
        tracing::info!(
            "the cluster port listens at {address}: node {}, incarnation {}, cluster {}",
            identity.node,
            identity.incarnation,
            identity.cluster
        );
        Ok(Self { state, address, acceptor: Mutex::new(Some(acceptor)) })
    }

    /// The address that others connect to.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Closes the port: answers that are there are still sent, and then all connections are closed.
    /// Waits for their threads.
    pub fn stop(&self) {
        let Some(acceptor) = self.acceptor.lock().take() else { return };
        self.state.is_stopping.store(true, Ordering::SeqCst);
        self.state.registry.close_all();
        // An accept has no time limit: a connection ends the wait.
        drop(self.state.world.net.connect(&self.address, WAKE_TIMEOUT));
        acceptor.join();
        self.state.registry.close_all();
        self.state.registry.join_all();
    }
}

impl Drop for ClusterPort {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept_all(state: &Arc<PortState>, listener: &dyn Listener) {
    let mut failures = 0;
    while !state.is_stopping() {
        match listener.accept() {
            Ok(connection) if state.is_stopping() => (connection.closer)(),
            Ok(connection) => {
                failures = 0;
                start_connection(state, connection);
            }
            Err(error) => {
                failures += u32::from(!has_no_room(&error));
                let now = state.world.clock.monotonic_micros();
                if state.log.admit(now, "accept").is_some() {
                    tracing::warn!("the cluster port accepts no connection: {error}");
                }
                if failures > ACCEPT_FAILURES_MAX {
                    tracing::error!(
                        "the cluster port is closed, as its socket fails: {error}; restart the node"
                    );
                    return;
                }
                state.world.clock.sleep_micros(ACCEPT_PAUSE_US);
            }
        }
        state.registry.join_ended();
    }
}

fn start_connection(state: &Arc<PortState>, connection: Connection) {
    let closer = Arc::clone(&connection.closer);
    let (number, oldest) = state.registry.add_unproven(Arc::clone(&closer));
    if let Some(oldest) = oldest {
        state.options.metrics.unproven_closed.increment();
        oldest();
    }
    let serving = Arc::clone(state);
    let body = move || {
        connection::serve(&serving, number, connection);
        serving.registry.end(number);
    };
    match state.world.spawn.try_spawn("cluster read", Box::new(body)) {
        Ok(thread) => state.registry.keep_thread(number, thread),
        Err(error) => {
            closer();
            state.registry.remove(number);
            state.options.metrics.handshakes_failed.increment();
            let now = state.world.clock.monotonic_micros();
            if state.log.admit(now, "thread").is_some() {
                tracing::warn!("no thread for a connection of the cluster port: {error}");
            }
        }
    }
}
