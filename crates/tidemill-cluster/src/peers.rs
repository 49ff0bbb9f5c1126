//! Links to other nodes, and calls over them.
//!
//! ```text
//! call ─▶ Peers ─▶ PeerLink of the node ─ queue ─▶ "cluster link" ─▶ socket
//!   ▲                                                                  │
//!   └───────────── outcome of the call ◀──── "cluster answers" ◀───────┘
//! ```
//!
//! A link connects when there is a call, and again after a loss when there is the next one. While
//! it backs off after a failed connect, calls fail at once with the fault of that connect. No request
//! is ever sent twice: after a loss the caller is told that it may have been handled.

mod call;
mod connect;
mod link;
mod link_state;

pub use call::PendingCall;

use crate::{CallError, ClusterOptions, deadline::DeadlineWatch, log_gate::LogGate};
use link::run_link;
use link_state::PeerLink;
use std::{collections::BTreeMap, io, sync::Arc, time::Duration};
use tidemill_env::{Thread, World, lock::Mutex};
use tidemill_types::{Incarnation, NodeId};
use tidemill_wire::cluster::Refusal;

/// The links of a node to others. Dropped, it ends all calls and waits for its threads.
pub struct Peers {
    state: Arc<PeersState>,
    links: Mutex<LinkTable>,
}

/// The parts that the threads of all links share.
pub(crate) struct PeersState {
    pub(crate) world: World,
    pub(crate) options: ClusterOptions,
    pub(crate) watch: DeadlineWatch,
    pub(crate) log: LogGate,
}

#[derive(Default)]
struct LinkTable {
    by_node: BTreeMap<NodeId, (Arc<PeerLink>, Box<dyn Thread>)>,
    /// Links that were replaced or given up, until their threads have ended.
    retired: Vec<(Arc<PeerLink>, Box<dyn Thread>)>,
    is_stopped: bool,
}

impl Peers {
    /// No links yet.
    ///
    /// # Errors
    /// The system has no thread left.
    pub fn new(world: &World, options: ClusterOptions) -> io::Result<Self> {
        let state = PeersState {
            world: world.clone(),
            watch: DeadlineWatch::start(world)?,
            options,
            log: LogGate::default(),
        };
        Ok(Self { state: Arc::new(state), links: Mutex::default() })
    }

    /// Sends a request to the node that should be at an address, and waits for the answer.
    ///
    /// # Errors
    /// There was no answer within `timeout`. [`CallError::may_have_been_handled`] says more.
    pub fn call(
        &self,
        address: &str,
        node: NodeId,
        kind: u16,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<u8>, CallError> {
        self.start(address, node, kind, body, timeout)?.wait()
    }

    /// As [`Self::call`], without waiting for the answer. Requests that one thread starts for one
    /// node are sent and handed over in that order. Waits while the link's queue is full.
    ///
    /// # Errors
    /// The request cannot be sent.
    pub fn start(
        &self,
        address: &str,
        node: NodeId,
        kind: u16,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<PendingCall, CallError> {
        let incarnation = self.state.options.identity.incarnation();
        self.start_as(incarnation, address, node, kind, body, timeout)
    }

    /// As [`Self::start`], for a request whose content was decided in an earlier moment: if the node
    /// has another incarnation by now, the request is not sent.
    ///
    /// # Errors
    /// As [`Self::start`]; [`CallError::Outdated`].
    pub fn start_as(
        &self,
        incarnation: Incarnation,
        address: &str,
        node: NodeId,
        kind: u16,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<PendingCall, CallError> {
        let metrics = &self.state.options.metrics;
        metrics.calls.increment();
        let started = self.enqueue(incarnation, address, node, kind, body, timeout);
        started.inspect_err(|_| metrics.calls_failed.increment())
    }

    fn enqueue(
        &self,
        incarnation: Incarnation,
        address: &str,
        node: NodeId,
        kind: u16,
        body: Vec<u8>,
        timeout: Duration,
    ) -> Result<PendingCall, CallError> {
        let options = &self.state.options;
        let bytes_max = options.limits.body_bytes_max;
        if u32::try_from(body.len()).map_or(true, |it| it > bytes_max) {
            return Err(CallError::TooLarge { bytes: body.len(), bytes_max });
        }
        let identity = options.identity.get();
        if identity.incarnation != incarnation {
            let now = identity.incarnation;
            return Err(CallError::Outdated { made_in: incarnation, now });
        }
        if identity.node == node {
            let (address, refusal) = (address.to_owned(), Refusal::OwnAddress);
            return Err(CallError::Disbelieved { node, address, refusal, was_sent: false });
        }
        let link = self.link(address, node)?;
        let call = call::NewCall { kind, incarnation, body, timeout };
        PeerLink::enqueue(&link, &self.state, call)
    }

    /// The link to a node. One to another address of the node is given up.
    fn link(&self, address: &str, node: NodeId) -> Result<Arc<PeerLink>, CallError> {
        let mut links = self.links.lock();
        if links.is_stopped {
            return Err(CallError::Stopped);
        }
        if let Some((link, _)) = links.by_node.get(&node)
            && link.address == address
            && !link.has_ended()
        {
            return Ok(Arc::clone(link));
        }
        if let Some((old, thread)) = links.by_node.remove(&node) {
            old.stop();
            links.retired.push((old, thread));
        }
        let links_max = self.state.options.limits.links_max;
        if links.by_node.len() >= links_max {
            let idle = links.by_node.iter().find(|(_, (link, _))| link.is_idle());
            let idle = idle.map(|(node, _)| *node).ok_or(CallError::TooManyLinks(links_max))?;
            if let Some((link, thread)) = links.by_node.remove(&idle) {
                link.stop();
                links.retired.push((link, thread));
            }
        }
        let (ended, retired): (Vec<_>, Vec<_>) =
            std::mem::take(&mut links.retired).into_iter().partition(|(link, _)| link.has_ended());
        links.retired = retired;
        let link = Arc::new(PeerLink::new(node, address.to_owned(), self.state.options.limits));
        let (running, state) = (Arc::clone(&link), Arc::clone(&self.state));
        let started = self
            .state
            .world
            .spawn
            .try_spawn("cluster link", Box::new(move || run_link(&state, &running)));
        let thread = started.map_err(|error| CallError::Unreachable {
            node,
            address: address.to_owned(),
            reason: format!("no thread for the link: {error}"),
        })?;
        links.by_node.insert(node, (Arc::clone(&link), thread));
        drop(links);
        ended.into_iter().for_each(|(_, thread)| thread.join());
        Ok(link)
    }

    /// Closes all links. Calls that wait end with [`CallError::Stopped`], or with
    /// [`CallError::Lost`] if they were sent.
    pub fn stop(&self) {
        let mut links = self.links.lock();
        links.is_stopped = true;
        let mut all = std::mem::take(&mut links.retired);
        all.extend(std::mem::take(&mut links.by_node).into_values());
        drop(links);
        all.iter().for_each(|(link, _)| link.stop());
        all.into_iter().for_each(|(_, thread)| thread.join());
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        self.stop();
    }
}
