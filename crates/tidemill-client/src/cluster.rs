//! A cluster as a client sees it: a connection to each node it needs, and the leaders of
//! streamlets.
//!
//! ```text
//! tend ─▶ overdue requests end their connection
//!      ─▶ ended connections rest (backoff), then may be opened again
//!      ─▶ wanted metadata are requested from any node that answers
//! ```
//!
//! Only [`Cluster::wait_any`], [`Cluster::wait_node`] and their callers wait. A producer and a
//! consumer call [`Cluster::tend`] from their own thread and are woken through
//! [`Cluster::on_change`]; admin calls tend while it waits.
//!
//! Invariants: at most one connection a node and cluster; a node that fails rests, longer each
//! time; a waiting call gives up when all nodes it could ask have failed since it began.

use crate::{
    backoff::rest_us,
    buffers::Buffers,
    connection::{Connection, RequestOptions},
    error::CallError,
    options::{ClientOptions, micros},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Weak},
    time::Duration,
};
use tidemill_env::{
    Random, World,
    lock::{Condvar, Mutex, MutexGuard},
};
use tidemill_types::NodeId;
use tidemill_wire::kafka::{ApiKey, message::MetadataRequestData};

mod metadata;
mod node_slot;

pub(crate) use metadata::{Metadata, StreamMeta, request};
use node_slot::NodeSlot;

#[cfg(test)]
mod tests;

/// So many nodes that do not answer are tried one after the other within
/// [`ClientOptions::connect_timeout`], so that one that hangs does not hide the others.
const TRIES: u64 = 10;

/// Streams for which metadata are kept up to date.
type WantedStreams = BTreeSet<String>;

/// See the module. Clones are the same cluster.
#[derive(Clone)]
pub(crate) struct Cluster {
    inner: Arc<ClusterCore>,
}

struct ClusterCore {
    world: World,
    options: ClientOptions,
    buffers: Arc<Buffers>,
    state: Mutex<ClusterState>,
    changed: Condvar,
    on_change: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
}

struct ClusterState {
    seeds: Vec<NodeSlot>,
    nodes: BTreeMap<NodeId, NodeSlot>,
    metadata: Arc<Metadata>,
    wanted: WantedStreams,
    refresh: MetadataRefresh,
    /// Grows with each change that a caller may wait for.
    version: u64,
    random: Random,
    closed: bool,
}

/// The progress of the next metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetadataRefresh {
    /// No metadata are wanted.
    Idle,
    /// Metadata are wanted, but not before this moment.
    Wanted { not_before_us: u64 },
    /// A request for them is under way.
    UnderWay,
}

/// The route to a node: a connection, or the reason that there is none.
pub(crate) enum NodeRoute {
    /// Requests can be sent.
    Ready(Connection),
    /// A connection is being made.
    Opening {
        /// The moment from which another node is worth a try, on the monotonic clock.
        until_us: u64,
    },
    /// It has failed, and rests until this moment.
    Resting {
        /// On the monotonic clock.
        until_us: u64,
        /// The last failure.
        error: CallError,
    },
    /// The metadata do not name such a node.
    Unknown,
}

impl Cluster {
    pub(crate) fn new(world: &World, options: &ClientOptions) -> Self {
        let seeds = options.bootstrap.iter().map(|it| NodeSlot::new(it.clone())).collect();
        // Two clients of one world draw different numbers.
        let purpose = world.clock.monotonic_micros();
        let state = ClusterState {
            seeds,
            nodes: BTreeMap::new(),
            metadata: Arc::default(),
            wanted: BTreeSet::new(),
            refresh: MetadataRefresh::Idle,
            version: 0,
            random: world.random(purpose),
            closed: false,
        };
        Self {
            inner: Arc::new(ClusterCore {
                world: world.clone(),
                options: options.clone(),
                buffers: Arc::default(),
                state: Mutex::new(state),
                changed: Condvar::new(),
                on_change: Mutex::new(None),
            }),
        }
    }

    pub(crate) fn world(&self) -> &World {
        &self.inner.world
    }

    pub(crate) fn options(&self) -> &ClientOptions {
        &self.inner.options
    }

    pub(crate) fn buffers(&self) -> &Arc<Buffers> {
        &self.inner.buffers
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.inner.world.clock.monotonic_micros()
    }

    /// Calls this, from any thread, when a connection is ready or lost and when metadata are new.
    pub(crate) fn on_change(&self, call: Arc<dyn Fn() + Send + Sync>) {
        *self.inner.on_change.lock() = Some(call);
    }

    /// The newest metadata.
    pub(crate) fn metadata(&self) -> Arc<Metadata> {
        Arc::clone(&self.inner.lock().metadata)
    }

    /// Draws a random number.
    pub(crate) fn random(&self) -> u64 {
        self.inner.lock().random.next()
    }

    /// Adds a stream to the metadata that are kept, and requests them.
    pub(crate) fn want(&self, stream: &str) {
        let mut state = self.inner.lock();
        if state.wanted.insert(stream.to_owned()) {
            state.refresh_soon(0);
        }
    }

    /// Requests new metadata at the next [`Self::tend`], or a little later if the last request was
    /// just sent.
    pub(crate) fn refresh(&self) {
        let now_us = self.now_us();
        let mut state = self.inner.lock();
        let rest_us = micros(self.inner.options.backoff);
        let not_before_us = match state.metadata.at_us {
            0 => now_us,
            at_us => at_us.saturating_add(rest_us),
        };
        state.refresh_soon(not_before_us);
    }

    /// The route to a node; begins to connect if that is possible.
    pub(crate) fn route_to(&self, node: NodeId, now_us: u64) -> NodeRoute {
        let mut state = self.inner.lock();
        if state.closed {
            return NodeRoute::Unknown;
        }
        self.inner.look_after(&mut state, now_us);
        match state.nodes.get_mut(&node) {
            Some(slot) => slot.way(now_us, |address| self.open(address)),
            None => NodeRoute::Unknown,
        }
    }

    /// The way to any node, the ones of the metadata first. While one takes long to connect to,
    /// which it does when its host is down, the others are tried.
    pub(crate) fn route_to_any(&self, now_us: u64) -> NodeRoute {
        let mut state = self.inner.lock();
        if state.closed {
            return NodeRoute::Unknown;
        }
        self.inner.look_after(&mut state, now_us);
        let mut slots: Vec<&mut NodeSlot> = state.slots().collect();
        if let Some(ready) = slots.iter().find_map(|slot| slot.ready()) {
            return NodeRoute::Ready(ready);
        }
        let patience_us = micros(self.inner.options.connect_timeout) / TRIES;
        let opening = slots.iter().filter(|slot| slot.is_opening());
        let until_us = opening.map(|slot| slot.opened_us().saturating_add(patience_us)).max();
        if let Some(until_us) = until_us.filter(|it| now_us < *it) {
            return NodeRoute::Opening { until_us };
        }
        slots.retain(|slot| !slot.is_opening());
        // The one that has rested longest.
        slots.sort_by_key(|slot| slot.rests_until_us());
        let way = slots.first_mut().map(|slot| slot.way(now_us, |address| self.open(address)));
        match (way, until_us) {
            (Some(NodeRoute::Opening { .. }), _) => {
                NodeRoute::Opening { until_us: now_us.saturating_add(patience_us) }
            }
            // One that is being connected to may still come.
            (Some(NodeRoute::Resting { until_us, .. }), Some(_)) => NodeRoute::Opening { until_us },
            (None, Some(_)) => NodeRoute::Opening { until_us: u64::MAX },
            (way, _) => way.unwrap_or(NodeRoute::Unknown),
        }
    }

    fn open(&self, address: &str) -> Connection {
        let inner = Arc::downgrade(&self.inner);
        let changed = Arc::new(move || ClusterCore::tell(&inner));
        let ClusterCore { world, options, buffers, .. } = &*self.inner;
        Connection::open(world, address, options, buffers, changed)
    }

    /// Does the work that the module describes. Returns the moment for the next call.
    pub(crate) fn tend(&self, now_us: u64) -> Option<u64> {
        let connections: Vec<Connection> =
            self.inner.lock().slots().filter_map(|slot| slot.connection().cloned()).collect();
        // Not under the lock: what ends a connection calls back.
        let overdue_us = connections.iter().filter_map(|it| it.expire(now_us)).min();
        let mut state = self.inner.lock();
        self.inner.look_after(&mut state, now_us);
        let refresh_us = match state.refresh {
            MetadataRefresh::Wanted { not_before_us } if not_before_us <= now_us => {
                drop(state);
                self.ask_metadata(now_us)
            }
            MetadataRefresh::Wanted { not_before_us } => Some(not_before_us),
            MetadataRefresh::Idle | MetadataRefresh::UnderWay => None,
        };
        [overdue_us, refresh_us].into_iter().flatten().min()
    }

    /// Requests the wanted metadata from any node. Returns the moment for the next attempt.
    fn ask_metadata(&self, now_us: u64) -> Option<u64> {
        let connection = match self.route_to_any(now_us) {
            NodeRoute::Ready(connection) => connection,
            NodeRoute::Resting { until_us, .. } | NodeRoute::Opening { until_us } => {
                return Some(until_us);
            }
            NodeRoute::Unknown => return None,
        };
        let Ok(version) = connection.version(ApiKey::Metadata) else { return None };
        let wanted = {
            let mut state = self.inner.lock();
            if state.refresh == MetadataRefresh::UnderWay {
                return None;
            }
            state.refresh = MetadataRefresh::UnderWay;
            state.wanted.clone()
        };
        let request = request(Some(&mut wanted.iter().map(String::as_str)));
        let deadline_us = now_us.saturating_add(micros(self.inner.options.request_timeout));
        let inner = Arc::downgrade(&self.inner);
        let asked = connection.clone();
        let then = Box::new(move |answer| {
            let answer: Result<_, CallError> = answer;
            let read = answer
                .and_then(|content| asked.read_answer::<MetadataRequestData>(version, content));
            let Some(inner) = inner.upgrade() else { return };
            let now_us = inner.world.clock.monotonic_micros();
            let mut state = inner.lock();
            match read {
                Ok(answer) => {
                    let metadata = Metadata::read(&answer, &state.metadata, now_us);
                    let gone = state.take_metadata(metadata);
                    // Streams that came to be wanted meanwhile are not in it.
                    if state.wanted.iter().any(|it| !wanted.contains(it)) {
                        state.refresh_soon(0);
                    }
                    drop(state);
                    end_all(gone);
                }
                Err(error) => {
                    let rest = micros(inner.options.backoff);
                    state.refresh =
                        MetadataRefresh::Wanted { not_before_us: now_us.saturating_add(rest) };
                    drop(state);
                    if matches!(error, CallError::BadAnswer { .. }) {
                        asked.end(error);
                    }
                }
            }
            ClusterCore::tell(&Arc::downgrade(&inner));
        });
        connection.send(&request, &RequestOptions::answered(version, deadline_us), then);
        None
    }

    /// A connection to a node, as soon as there is one.
    ///
    /// # Errors
    /// It could not be reached since this call began, or the deadline has passed.
    pub(crate) fn wait_node(
        &self,
        node: NodeId,
        deadline_us: u64,
    ) -> Result<Connection, CallError> {
        self.wait(
            deadline_us,
            |now_us| self.route_to(node, now_us),
            |state| state.nodes.get(&node).into_iter().collect(),
        )
    }

    /// A connection to any node, as soon as there is one.
    ///
    /// # Errors
    /// None could be reached since this call began, or the deadline has passed.
    pub(crate) fn wait_any(&self, deadline_us: u64) -> Result<Connection, CallError> {
        self.wait(
            deadline_us,
            |now_us| self.route_to_any(now_us),
            |state| state.seeds.iter().chain(state.nodes.values()).collect(),
        )
    }

    fn wait(
        &self,
        deadline_us: u64,
        way: impl Fn(u64) -> NodeRoute,
        candidates: impl Fn(&ClusterState) -> Vec<&NodeSlot>,
    ) -> Result<Connection, CallError> {
        let began_us = self.now_us();
        loop {
            let version = self.inner.lock().version;
            let now_us = self.now_us();
            let next_us = self.tend(now_us);
            let (error, until_us) = match way(now_us) {
                NodeRoute::Ready(connection) => return Ok(connection),
                NodeRoute::Opening { until_us } => (None, until_us),
                NodeRoute::Resting { until_us, error } => (Some(error), until_us),
                NodeRoute::Unknown => (Some(self.nobody(&[])), deadline_us),
            };
            let state = self.inner.lock();
            if state.closed {
                return Err(CallError::Closed);
            }
            let all = candidates(&state);
            let all_failed = all.iter().all(|slot| slot.failed_since(began_us));
            if let Some(error) = error.filter(|_| all_failed) {
                return Err(error);
            }
            if now_us >= deadline_us {
                return Err(self.nobody(&all));
            }
            let until_us = until_us.min(deadline_us).min(next_us.unwrap_or(u64::MAX));
            let wait = Duration::from_micros(until_us.saturating_sub(now_us).max(1000));
            if state.version == version {
                drop(self.inner.changed.wait_timeout(state, wait));
            }
        }
    }

    /// The error of a wait without an answer: from one node, or from any of the cluster.
    fn nobody(&self, waited_for: &[&NodeSlot]) -> CallError {
        let address = match waited_for {
            [slot] => slot.address().to_owned(),
            _ => self.inner.options.bootstrap.join(","),
        };
        CallError::Unreachable { address, reason: "nobody answered in time".to_owned() }
    }

    /// Notes the address of a coordinator that was just named. It may not be in the metadata
    /// yet, or be there with the address that it had before it was started again.
    pub(crate) fn learn(&self, id: NodeId, host: &str, port: i32) {
        let Ok(port) = u16::try_from(port) else { return };
        let address = tidemill_types::address::join(host, port);
        let gone = {
            let mut state = self.inner.lock();
            match state.nodes.get(&id) {
                Some(slot) if slot.address() == address => None,
                _ => state.nodes.insert(id, NodeSlot::new(address)),
            }
        };
        end_all(gone.and_then(|mut slot| slot.take()).into_iter().collect());
    }

    /// Takes metadata that were requested apart from the refresh.
    pub(crate) fn take_metadata(&self, metadata: Metadata) {
        let gone = self.inner.lock().take_metadata(metadata);
        end_all(gone);
        ClusterCore::tell(&Arc::downgrade(&self.inner));
    }

    /// Ends all connections; none is opened any more.
    pub(crate) fn close(&self) {
        let connections: Vec<Connection> = {
            let mut state = self.inner.lock();
            state.closed = true;
            state.slots().filter_map(NodeSlot::take).collect()
        };
        end_all(connections);
    }
}

fn end_all(connections: Vec<Connection>) {
    connections.iter().for_each(|it| it.end(CallError::Closed));
}

impl Drop for ClusterCore {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        end_all(state.slots().filter_map(NodeSlot::take).collect());
    }
}

impl ClusterCore {
    fn lock(&self) -> MutexGuard<'_, ClusterState> {
        self.state.lock()
    }

    /// Notifies all waiting callers of a change.
    fn tell(inner: &Weak<Self>) {
        let Some(inner) = inner.upgrade() else { return };
        inner.lock().version += 1;
        inner.changed.notify_all();
        let call = inner.on_change.lock().clone();
        if let Some(call) = call {
            call();
        }
    }

    /// Notes ended connections: their nodes rest.
    fn look_after(&self, state: &mut ClusterState, now_us: u64) {
        let ClusterState { seeds, nodes, random, .. } = state;
        for slot in seeds.iter_mut().chain(nodes.values_mut()) {
            slot.look_after(now_us, |failures| rest_us(failures, &self.options, random.next()));
        }
    }
}

impl ClusterState {
    fn slots(&mut self) -> impl Iterator<Item = &mut NodeSlot> {
        self.nodes.values_mut().chain(self.seeds.iter_mut())
    }

    fn refresh_soon(&mut self, not_before_us: u64) {
        self.refresh = match self.refresh {
            MetadataRefresh::Idle => MetadataRefresh::Wanted { not_before_us },
            MetadataRefresh::Wanted { not_before_us: before } => {
                MetadataRefresh::Wanted { not_before_us: before.min(not_before_us) }
            }
            MetadataRefresh::UnderWay => MetadataRefresh::UnderWay,
        };
    }

    /// Returns connections to nodes that are not there any more, or elsewhere: to be ended without
    /// the lock.
    fn take_metadata(&mut self, metadata: Metadata) -> Vec<Connection> {
        self.refresh = MetadataRefresh::Idle;
        let (mut before, mut gone) = (std::mem::take(&mut self.nodes), Vec::new());
        for (id, address) in &metadata.nodes {
            let slot = match before.remove(id) {
                Some(slot) if slot.address() == address => slot,
                elsewhere => {
                    gone.extend(elsewhere);
                    NodeSlot::new(address.clone())
                }
            };
            self.nodes.insert(*id, slot);
        }
        self.metadata = Arc::new(metadata);
        gone.extend(before.into_values());
        gone.iter_mut().filter_map(NodeSlot::take).collect()
    }
}
