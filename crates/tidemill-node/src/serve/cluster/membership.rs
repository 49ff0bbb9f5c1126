//! Joining the cluster, and leaving it.

use super::{
    PeerContact,
    coordinator::{open_coordinator, read_key, refuse_without_port},
    reachability::Reachability,
    requests::{MemberFence, NodeHandler, OpenFence},
    transport::PortTransport,
};
use crate::serve::settings::ClusterSettings;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tidemill_cluster::{
    ClusterOptions, ClusterPort, ClusterPortMetrics, Identity, IdentityCell, Peers,
};
use tidemill_coord::{
    Coordinator, CoordinatorError, Revision,
    membership::{
        ClusterEvent, ClusterMember, ClusterView, DesireError, DesiredState, JoinError,
        MemberOptions, MemberStatus, NodeAddresses, NodeProfile, NodeRole, Registered, set_desired,
    },
};
use tidemill_env::{Thread, World, lock::Mutex};
use tidemill_raft::{RaftError, RaftVoter, Transport};
use tidemill_types::{ClusterId, Incarnation, NodeId, address};

/// Time between two looks at the member's status.
const STATUS_LOOK: Duration = Duration::from_millis(500);

/// Why a node does not join its cluster. Each names a way out.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A setting is missing or fits no other.
    #[error("{0}")]
    Settings(String),
    /// A file cannot be read.
    #[error("{option} {path}: {error}")]
    File {
        /// The option that names it.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The problem.
        error: io::Error,
    },
    /// The key is none.
    #[error("--cluster-key-file {path}: {why}")]
    Key {
        /// The file.
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// The cluster port cannot be opened.
    #[error("cannot listen on {address} (--cluster-listen): {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The problem.
        error: io::Error,
    },
    /// The coordinator cannot be used as the settings say.
    #[error("--coordinator: {0}")]
    Coordinator(CoordinatorError),
    /// The voters of the cluster.
    #[error(transparent)]
    Voters(#[from] RaftError),
    /// The node may not join.
    #[error("{0}")]
    Join(#[from] JoinError),
}

/// Why a change of the cluster was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The desired state makes no sense.
    #[error(transparent)]
    Desire(#[from] DesireError),
    /// The coordinator did not take it.
    #[error(transparent)]
    Coordinator(#[from] CoordinatorError),
}

/// All that a node brings when it joins.
pub struct ClusterPlan<'a> {
    /// The settings of the cluster.
    pub settings: &'a ClusterSettings,
    /// The node.
    pub node: NodeId,
    /// The data folder.
    pub data: &'a Path,
    /// The cluster that the data folder is of; none for a new one.
    pub cluster: Option<ClusterId>,
    /// The newest incarnation that the data folder has seen.
    pub last_incarnation: Incarnation,
    /// The address for Kafka clients.
    pub kafka: Option<String>,
    /// The address for HTTP.
    pub http: Option<String>,
    /// True once the node is told to stop.
    pub is_stopped: &'a (dyn Fn() -> bool + Sync),
}

/// A node that has joined its cluster.
pub struct ClusterNode {
    member: Arc<ClusterMember>,
    coordinator: Arc<dyn Coordinator>,
    settings: ClusterSettings,
    registered: Registered,
    port: ClusterPort,
    peers: Arc<Peers>,
    voter_peers: Arc<Peers>,
    handler: Arc<NodeHandler>,
    metrics: Arc<ClusterPortMetrics>,
    voter: Option<Arc<RaftVoter>>,
    reachability: Reachability,
    is_stopping: Arc<AtomicBool>,
    renewal: Mutex<Option<Box<dyn Thread>>>,
}

impl ClusterNode {
    /// Joins the cluster and waits for it; none if the settings name no cluster. While something is
    /// missing, a log line says what it waits for.
    ///
    /// # Errors
    /// [`ClusterError`]: nothing is left running.
    pub fn join(world: &World, plan: &ClusterPlan<'_>) -> Result<Option<Self>, ClusterError> {
        let settings = plan.settings;
        let Some(listen) = settings.listen else {
            return refuse_without_port(settings).map(|()| None);
        };
        let key = read_key(world, settings)?;
        let fence = Arc::new(MemberFence::default());
        let handler = Arc::new(NodeHandler::new(Arc::clone(&world.spawn)));
        let of_no_life = Identity {
            cluster: handshake_cluster(),
            node: plan.node,
            incarnation: Incarnation::NONE,
            version: build(),
        };
        let io = |error| ClusterError::Listen { address: listen, error };
        let cell = || Arc::new(IdentityCell::new(of_no_life.clone()));
        let voter_options = ClusterOptions::new(cell(), key.clone(), Arc::new(OpenFence));
        let voter_peers = Arc::new(Peers::new(world, voter_options).map_err(io)?);
        let transport: Arc<dyn Transport> = Arc::new(PortTransport::new(Arc::clone(&voter_peers)));
        // The port and the links show the incarnation of this life once there is one.
        let identity = cell();
        let options = ClusterOptions::new(Arc::clone(&identity), key, Arc::clone(&fence) as _);
        let port = ClusterPort::listen(
            world,
            &listen.to_string(),
            options.clone(),
            Arc::clone(&handler) as _,
        )
        .map_err(io)?;
        let own_address = match &settings.advertised {
            Some((host, port)) => address::join(host, *port),
            None => port.address().to_owned(),
        };
        let (coordinator, voter) =
            open_coordinator(world, plan, &own_address, &transport, &handler)?;
        let profile = NodeProfile {
            node: plan.node,
            addresses: NodeAddresses {
                kafka: plan.kafka.clone(),
                http: plan.http.clone(),
                cluster: Some(own_address),
            },
            roles: BTreeSet::from([NodeRole::Broker, NodeRole::Worker]),
            rack: settings.rack.clone(),
            build: build(),
            cluster: plan.cluster.clone(),
            last_incarnation: plan.last_incarnation,
            can_create: plan.cluster.is_none(),
        };
        let lease = settings.lease.duration();
        let options_of_member = MemberOptions { lease, ..MemberOptions::new(profile) };
        let joined = launch(world, plan, Arc::clone(&coordinator), options_of_member);
        let (member, registered) = match joined {
            Ok(joined) => joined,
            Err(error) => {
                handler.serve_voter(None);
                voter.iter().for_each(|it| it.close());
                return Err(error);
            }
        };
        identity.renew(registered.incarnation);
        fence.follow(&member);
        let metrics = Arc::clone(&options.metrics);
        let peers = Arc::new(Peers::new(world, options).map_err(io)?);
        let reachability = Reachability::watch(world, &member, &peers);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let renewal = renew(world, &member, &identity, &is_stopping);
        Ok(Some(Self {
            member,
            coordinator,
            settings: settings.clone(),
            registered,
            port,
            peers,
            voter_peers,
            handler,
            metrics,
            voter,
            reachability,
            is_stopping,
            renewal: Mutex::new(Some(renewal)),
        }))
    }

    /// The cluster and the incarnation of this life.
    #[must_use]
    pub fn registered(&self) -> &Registered {
        &self.registered
    }

    /// Where other nodes connect.
    #[must_use]
    pub fn address(&self) -> &str {
        self.port.address()
    }

    /// The home of the coordinator's table, as the settings have it.
    #[must_use]
    pub fn home(&self) -> String {
        match self.settings.join.as_slice() {
            [] => self.settings.coordinator.to_string(),
            addresses => format!("voters at {}", addresses.join(", ")),
        }
    }

    /// The leader among the voters, on a node that is one.
    #[must_use]
    pub fn voters_leader(&self) -> Option<NodeId> {
        self.voter.as_ref().and_then(|it| it.status().leader)
    }

    /// The node's own state.
    #[must_use]
    pub fn status(&self) -> MemberStatus {
        self.member.status()
    }

    /// The newest view.
    #[must_use]
    pub fn view(&self) -> Option<Arc<ClusterView>> {
        self.member.view()
    }

    /// The events after one of this number.
    #[must_use]
    pub fn events(&self, after: u64) -> Vec<ClusterEvent> {
        self.member.events(after)
    }

    /// The last ping of each other node.
    #[must_use]
    pub fn contacts(&self) -> BTreeMap<NodeId, PeerContact> {
        self.reachability.contacts()
    }

    /// The counters of the cluster port.
    #[must_use]
    pub fn metrics(&self) -> &ClusterPortMetrics {
        &self.metrics
    }

    /// Gives a node another desired state. Returns false if the view was too old: ask again.
    ///
    /// # Errors
    /// [`ChangeError::Desire`] if the state makes no sense; [`ChangeError::Coordinator`] if the
    /// change may not have been made.
    pub fn set_desired(&self, node: NodeId, desired: DesiredState) -> Result<bool, ChangeError> {
        let view = self.view().ok_or(DesireError::Unknown(node))?;
        let transaction = set_desired(&view, node, desired)?;
        Ok(self.coordinator.commit(&transaction)?.is_applied())
    }

    /// The id of this node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        self.member.node()
    }

    /// Waits a moment for a newer view.
    pub fn wait_for_change(&self) {
        let revision = self.view().map_or(Revision::NONE, |it| it.revision);
        let _newer = self.member.wait_for_view(revision, STATUS_LOOK);
    }

    /// Leaves the cluster and closes the port.
    pub fn leave(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        self.reachability.stop();
        self.member.leave();
        if let Some(thread) = self.renewal.lock().take() {
            thread.join();
        }
        self.peers.stop();
        self.handler.serve_voter(None);
        self.voter.iter().for_each(|it| it.close());
        self.voter_peers.stop();
        self.port.stop();
    }
}

/// The cluster that the handshake names. It is the same for all: voters speak before there is a table
/// with an id in it. The key keeps clusters apart, and so does the fence: a node is accepted in an
/// incarnation that the table has.
fn handshake_cluster() -> ClusterId {
    ClusterId::try_from("tidemill".to_owned()).expect("the letters of an id")
}

fn build() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

/// Starts the member and waits until it has joined.
fn launch(
    world: &World,
    plan: &ClusterPlan<'_>,
    coordinator: Arc<dyn Coordinator>,
    options: MemberOptions,
) -> Result<(Arc<ClusterMember>, Registered), ClusterError> {
    let member = ClusterMember::launch(world, coordinator, options)?;
    let mut reported = None;
    loop {
        match member.wait_joined(STATUS_LOOK) {
            Ok(Some(registered)) => return Ok((Arc::new(member), registered)),
            Ok(None) if (plan.is_stopped)() => {
                member.leave();
                return Err(JoinError::Stopped.into());
            }
            Ok(None) => {
                let status = member.status();
                if let MemberStatus::Waiting { why, .. } = &status
                    && reported.as_ref() != Some(&status)
                {
                    tracing::info!("the node waits to join its cluster: {why}");
                    reported = Some(status);
                }
            }
            Err(error) => {
                member.leave();
                return Err(error.into());
            }
        }
    }
}

/// Shows others the incarnation that the node has, also after it registered anew.
fn renew(
    world: &World,
    member: &Arc<ClusterMember>,
    identity: &Arc<IdentityCell>,
    is_stopping: &Arc<AtomicBool>,
) -> Box<dyn Thread> {
    let (member, identity) = (Arc::clone(member), Arc::clone(identity));
    let is_stopping = Arc::clone(is_stopping);
    let body = move || {
        let mut seen = member.status();
        while !is_stopping.load(Ordering::SeqCst) {
            if let MemberStatus::Joined { incarnation } = &seen {
                identity.renew(*incarnation);
            }
            let next = member.wait_for_status(&seen, STATUS_LOOK);
            if next != seen {
                report(&next);
            }
            seen = next;
        }
    };
    world.spawn.spawn("cluster-status", Box::new(body))
}

fn report(status: &MemberStatus) {
    match status {
        MemberStatus::Joined { incarnation } => {
            tracing::info!(%incarnation, "the node is a member of its cluster");
        }
        MemberStatus::Waiting { why, .. } => {
            tracing::warn!("the coordinator is away, the cluster stays as it is: {why}");
        }
        MemberStatus::Fenced { incarnation, why } => {
            tracing::warn!(%incarnation, "this life of the node is over for the others: {why}");
        }
        MemberStatus::Replaced { why } => tracing::error!("{why}"),
        MemberStatus::Refused(error) => tracing::error!("the node cannot join again: {error}"),
        MemberStatus::Left => {}
    }
}
