//! Which other nodes this node reaches. It is for people and for alarms: nothing is decided by it.

use super::requests::RequestKind;
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tidemill_cluster::Peers;
use tidemill_coord::membership::ClusterMember;
use tidemill_env::{Thread, World, lock::Mutex};
use tidemill_types::NodeId;

/// Time between two rounds of pings, in microseconds.
const ROUND_US: u64 = 1_000_000;
/// Longest time for an answer.
const ANSWER_TIME: Duration = Duration::from_secs(1);

/// The last ping of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerContact {
    /// The time until the answer came, in microseconds; or why none came.
    pub round_trip_us: Result<u64, String>,
}

/// Pings the live nodes of the view, on a thread of its own.
pub(super) struct Reachability {
    contacts: Arc<Mutex<BTreeMap<NodeId, PeerContact>>>,
    is_stopping: Arc<AtomicBool>,
    thread: Mutex<Option<Box<dyn Thread>>>,
}

impl Reachability {
    pub(super) fn watch(world: &World, member: &Arc<ClusterMember>, peers: &Arc<Peers>) -> Self {
        let contacts = Arc::<Mutex<BTreeMap<NodeId, PeerContact>>>::default();
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (clock, member, peers) =
            (Arc::clone(&world.clock), Arc::clone(member), Arc::clone(peers));
        let (found, stopping) = (Arc::clone(&contacts), Arc::clone(&is_stopping));
        let body = move || {
            while !stopping.load(Ordering::SeqCst) {
                let next = member.view().map(|view| {
                    let others = view.live().filter(|(node, _)| *node != member.node());
                    let round = others.filter_map(|(node, it)| {
                        let address = it.record.addresses.cluster.clone()?;
                        let start_us = clock.monotonic_micros();
                        let kind = RequestKind::Ping.number();
                        let answer = peers.call(&address, node, kind, Vec::new(), ANSWER_TIME);
                        let round_trip_us = answer
                            .map(|_| clock.monotonic_micros().saturating_sub(start_us))
                            .map_err(|error| error.to_string());
                        Some((node, PeerContact { round_trip_us }))
                    });
                    round.collect()
                });
                *found.lock() = next.unwrap_or_default();
                clock.sleep_micros(ROUND_US);
            }
        };
        let thread = world.spawn.spawn("cluster-pings", Box::new(body));
        Self { contacts, is_stopping, thread: Mutex::new(Some(thread)) }
    }

    pub(super) fn contacts(&self) -> BTreeMap<NodeId, PeerContact> {
        self.contacts.lock().clone()
    }

    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.lock().take() {
            thread.join();
        }
    }
}
