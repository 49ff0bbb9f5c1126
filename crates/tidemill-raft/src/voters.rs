//! A voter: the journal, the table and the consensus library, running.

use crate::{
    journal::RaftJournal,
    leases::LeaderLeases,
    log_storage::LogStorage,
    machine::{Machine, MachineHandle},
    message::{Answer, Call, CallAnswer, HelloAnswer, Message, decode, encode},
    transport::{Network, Transport},
    voter::{CommandOutcome, Directory, TableRaft, Voter, node_id, raft_id},
};
use openraft::{
    Config, Raft, ServerState, Snapshot, SnapshotPolicy,
    error::{CheckIsLeaderError, InitializeError, RaftError as LibraryError},
};
use std::{collections::BTreeMap, fmt::Display, io, path::PathBuf, sync::Arc, time::Duration};
use tidemill_coord::{
    CoordinatorError,
    table::{Command, Reply},
};
use tidemill_env::{
    DiskLock, World,
    lock::Mutex,
    sync::atomic::{AtomicBool, Ordering},
};
use tidemill_types::NodeId;
use tokio::{runtime::Runtime, time::timeout};

/// Threads of the library.
const THREADS: usize = 2;
/// Entries after a snapshot before the next one is made.
const SNAPSHOT_ENTRIES: u64 = 4_096;
/// Entries before a snapshot that are kept for voters that are a little behind.
const KEPT_ENTRIES: u64 = 1_024;
/// Longest wait of a watcher's call.
const WATCH_WAIT_MAX: Duration = Duration::from_secs(10);
/// The lock of the folder.
const LOCK_FILE: &str = "raft.lock";

/// Why a voter does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RaftError {
    /// The voter's folder cannot be used.
    #[error("{0}")]
    Disk(String),
    /// The node was a voter with another folder.
    #[error(
        "node {node} is a voter of this cluster with data folder {known}, and this folder is \
         {found}: its data were lost or another folder was given. Start it with the folder that it \
         had; if that is lost, let the cluster decommission node {node} and come with another node id"
    )]
    DataLost {
        /// The node.
        node: NodeId,
        /// The folder that the cluster knows.
        known: Directory,
        /// The folder of this process.
        found: Directory,
    },
    /// Two nodes to join have one id.
    #[error("{first} and {second} are both node {node}: give each node a --node-id of its own")]
    DuplicateNode {
        /// The id.
        node: NodeId,
        /// The address of one.
        first: String,
        /// The address of the other.
        second: String,
    },
    /// The consensus library stopped.
    #[error("the coordinator of this node has stopped: {0}")]
    Stopped(String),
}

/// Options of a voter.
#[derive(Clone, Debug)]
pub struct RaftOptions {
    /// The node.
    pub node: NodeId,
    /// The address of its cluster port, as other nodes reach it.
    pub address: String,
    /// The folder of its journal and snapshots.
    pub folder: PathBuf,
    /// Time between heartbeats of a leader. Default 200 ms.
    pub heartbeat: Duration,
    /// A voter that has not heard a leader for this long, and up to twice as long, stands for
    /// election. Default 1 s.
    pub election: Duration,
    /// Longest time of a call. Default 5 s.
    pub call_timeout: Duration,
}

impl RaftOptions {
    /// Options with their defaults.
    #[must_use]
    pub fn new(node: NodeId, address: String, folder: PathBuf) -> Self {
        Self {
            node,
            address,
            folder,
            heartbeat: Duration::from_millis(200),
            election: Duration::from_secs(1),
            call_timeout: Duration::from_secs(5),
        }
    }

    fn config(&self) -> Config {
        let millis = |it: Duration| u64::try_from(it.as_millis()).unwrap_or(u64::MAX);
        Config {
            cluster_name: "tidemill".to_owned(),
            heartbeat_interval: millis(self.heartbeat),
            election_timeout_min: millis(self.election),
            election_timeout_max: 2 * millis(self.election),
            install_snapshot_timeout: millis(self.call_timeout),
            snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_ENTRIES),
            max_in_snapshot_log_to_keep: KEPT_ENTRIES,
            ..Config::default()
        }
    }
}

/// The state of a voter, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VoterStatus {
    /// The leader, if one is known.
    pub leader: Option<NodeId>,
    /// The term of the newest vote.
    pub term: u64,
    /// The index of the last entry on disk.
    pub last_index: Option<u64>,
    /// The index of the last entry in the table.
    pub applied_index: Option<u64>,
    /// The voters; none before the cluster was founded.
    pub voters: Option<BTreeMap<NodeId, Voter>>,
}

/// A running voter, or a node that is ready to become one.
pub struct RaftVoter {
    pub(crate) world: World,
    pub(crate) options: RaftOptions,
    pub(crate) raft: Raft<TableRaft>,
    pub(crate) machine: Arc<Machine>,
    pub(crate) leases: Mutex<LeaderLeases>,
    directory: Directory,
    runtime: Mutex<Option<Arc<Runtime>>>,
    is_closed: Arc<AtomicBool>,
    _lock: Box<dyn DiskLock>,
}

impl RaftVoter {
    /// Opens the folder and starts the library. A node that is in no cluster yet is passive until
    /// [`Self::found`], or until a leader takes it in.
    ///
    /// # Errors
    /// [`RaftError::Disk`] if the folder cannot be read or written, or another process has it.
    pub fn open(
        world: &World,
        options: RaftOptions,
        transport: Arc<dyn Transport>,
    ) -> Result<Arc<Self>, RaftError> {
        let folder = &options.folder;
        let disk = |error: io::Error| RaftError::Disk(format!("{}: {error}", folder.display()));
        world.disk.create_dir_all(folder).map_err(disk)?;
        let lock = world.disk.lock(&folder.join(LOCK_FILE)).map_err(disk)?;
        let journal = RaftJournal::open(world, folder).map_err(disk)?;
        let machine = Arc::new(Machine::open(world, folder).map_err(disk)?);
        let directory = journal.directory();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("raft")
            .enable_time()
            .build()
            .map_err(disk)?;
        let config = options.config().validate().map_err(stopped)?;
        let raft = runtime
            .block_on(Raft::new(
                raft_id(options.node),
                Arc::new(config),
                Network(transport),
                LogStorage(Arc::new(Mutex::new(journal))),
                MachineHandle(Arc::clone(&machine)),
            ))
            .map_err(stopped)?;
        let voter = Arc::new(Self {
            world: world.clone(),
            options,
            raft,
            machine,
            leases: Mutex::default(),
            directory,
            runtime: Mutex::new(Some(Arc::new(runtime))),
            is_closed: Arc::default(),
            _lock: lock,
        });
        LeaderLeases::keep(&voter);
        Ok(voter)
    }

    /// Makes a new cluster of these voters. All of them may be told the same.
    ///
    /// # Errors
    /// [`RaftError::Stopped`] if the library has stopped. A cluster that is there already is left as
    /// it is.
    pub fn found(&self, voters: &BTreeMap<NodeId, Voter>) -> Result<(), RaftError> {
        let runtime = self.runtime()?;
        let members: BTreeMap<u64, Voter> =
            voters.iter().map(|(node, voter)| (raft_id(*node), voter.clone())).collect();
        match runtime.block_on(self.raft.initialize(members)) {
            Ok(()) | Err(LibraryError::APIError(InitializeError::NotAllowed(_))) => Ok(()),
            Err(error) => Err(stopped(error)),
        }
    }

    /// Answers a message of another node. It blocks until the answer is known.
    #[must_use]
    pub fn handle(&self, message: &[u8]) -> Vec<u8> {
        let answer = match decode(message) {
            Ok(message) => self.answer(message),
            Err(why) => Answer::Failed(why),
        };
        encode(&answer)
    }

    fn answer(&self, message: Message) -> Answer {
        let runtime = match self.runtime() {
            Ok(runtime) => runtime,
            Err(error) => return Answer::Failed(error.to_string()),
        };
        let failed = |error: &dyn Display| Answer::Failed(error.to_string());
        let addressee = match &message {
            Message::Append { to, .. }
            | Message::Vote { to, .. }
            | Message::Snapshot { to, .. } => Some(*to),
            Message::Hello | Message::Call(_) => None,
        };
        if let Some(to) = addressee.filter(|to| *to != self.directory) {
            let own = self.directory;
            return Answer::Failed(format!(
                "the message is for data folder {to}, and this is {own}"
            ));
        }
        match message {
            Message::Hello => Answer::Hello(self.hello()),
            Message::Append { request, .. } => {
                match runtime.block_on(self.raft.append_entries(request)) {
                    Ok(answer) => Answer::Append(answer),
                    Err(error) => failed(&error),
                }
            }
            Message::Vote { request, .. } => match runtime.block_on(self.raft.vote(request)) {
                Ok(answer) => Answer::Vote(answer),
                Err(error) => failed(&error),
            },
            Message::Snapshot { vote, meta, table, .. } => {
                let snapshot = Snapshot { meta, snapshot: Box::new(table) };
                match runtime.block_on(self.raft.install_full_snapshot(vote, snapshot)) {
                    Ok(answer) => Answer::Snapshot(answer),
                    Err(error) => failed(&error),
                }
            }
            Message::Call(call) => Answer::Call(self.execute(call)),
        }
    }

    /// This node, as others are told of it.
    #[must_use]
    pub fn hello(&self) -> HelloAnswer {
        let Self { options, directory, .. } = self;
        HelloAnswer { node: options.node, directory: *directory, voters: self.status().voters }
    }

    /// The state of this voter.
    #[must_use]
    pub fn status(&self) -> VoterStatus {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        let members = metrics.membership_config.membership();
        let voters: BTreeMap<NodeId, Voter> =
            members.nodes().map(|(id, voter)| (node_id(*id), voter.clone())).collect();
        VoterStatus {
            leader: metrics.current_leader.map(node_id),
            term: metrics.current_term,
            last_index: metrics.last_log_index,
            applied_index: metrics.last_applied.map(|it| it.index),
            voters: Some(voters).filter(|it| !it.is_empty()),
        }
    }

    /// The term in which this voter leads; none if another does.
    pub(crate) fn leading_term(&self) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow();
        (metrics.state == ServerState::Leader).then_some(metrics.current_term)
    }

    /// Executes a call of the coordinator; the leader alone does but for watches.
    #[must_use]
    pub fn execute(&self, call: Call) -> CallAnswer {
        if let Call::Changes { prefix, after, wait_ms } = call {
            let wait = Duration::from_millis(wait_ms).min(WATCH_WAIT_MAX);
            return match self.machine.changes(&prefix, after, wait) {
                Ok((changes, revision)) => CallAnswer::Changes { changes, revision },
                Err(error) => CallAnswer::Refused(error),
            };
        }
        match self.runtime() {
            Ok(runtime) => runtime.block_on(self.lead(call)),
            Err(error) => CallAnswer::Refused(CoordinatorError::Failed(error.to_string())),
        }
    }

    async fn lead(&self, call: Call) -> CallAnswer {
        let command = match call {
            Call::List { prefix } => {
                return match self.confirm_leadership().await {
                    Err(answer) => answer,
                    Ok(()) => {
                        let listing = self.machine.list(&prefix);
                        let (revision, entries) = (listing.revision, listing.entries);
                        CallAnswer::Listing { revision, entries }
                    }
                };
            }
            Call::KeepAlive { lease } => {
                return match self.confirm_leadership().await {
                    Err(answer) => answer,
                    Ok(()) => match self.machine.with_table(|table| table.ttl(lease)) {
                        Err(error) => CallAnswer::Refused(error),
                        Ok(ttl) => {
                            self.leases.lock().prolong(lease, ttl, self.now_us());
                            CallAnswer::Done
                        }
                    },
                };
            }
            Call::Commit(transaction) => Command::Commit(transaction),
            Call::Grant { ttl_ms } => Command::Grant { ttl_ms },
            Call::Revoke { lease } => Command::End { lease },
            Call::Changes { .. } => {
                let why = "a watch is no call for the leader".to_owned();
                return CallAnswer::Refused(CoordinatorError::Invalid(why));
            }
        };
        // What is not proposed cannot be applied, so the caller may go to the leader with it.
        if self.leading_term().is_none() {
            return self.not_leader();
        }
        match self.propose(command.clone()).await {
            Err(error) => CallAnswer::Refused(error),
            Ok(CommandOutcome::Refused(error)) => CallAnswer::Refused(error),
            Ok(CommandOutcome::None) => {
                CallAnswer::Refused(CoordinatorError::Failed("a command without a reply".into()))
            }
            Ok(CommandOutcome::Replied(reply)) => {
                if let (Reply::Lease(lease), Command::Grant { ttl_ms }) = (&reply, &command) {
                    let ttl = Duration::from_millis(*ttl_ms);
                    self.leases.lock().prolong(*lease, ttl, self.now_us());
                }
                CallAnswer::Reply(reply)
            }
        }
    }

    /// Proposes a command. An error leaves open if it is applied.
    pub(crate) async fn propose(
        &self,
        command: Command,
    ) -> Result<CommandOutcome, CoordinatorError> {
        let unknown = |why: String| Err(CoordinatorError::Unavailable(why));
        match timeout(self.options.call_timeout, self.raft.client_write(command)).await {
            Ok(Ok(answer)) => Ok(answer.data),
            Ok(Err(LibraryError::Fatal(error))) => {
                Err(CoordinatorError::Failed(stopped(error).to_string()))
            }
            Ok(Err(error)) => unknown(error.to_string()),
            Err(_) => unknown(format!(
                "node {} leads, but most voters do not answer it",
                self.options.node
            )),
        }
    }

    /// Makes sure that this voter leads, and that its table has all that counts.
    pub(crate) async fn confirm_leadership(&self) -> Result<(), CallAnswer> {
        let unavailable = |why: String| CallAnswer::Refused(CoordinatorError::Unavailable(why));
        match timeout(self.options.call_timeout, self.raft.ensure_linearizable()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(LibraryError::Fatal(error))) => {
                let why = stopped(error).to_string();
                Err(CallAnswer::Refused(CoordinatorError::Failed(why)))
            }
            Ok(Err(LibraryError::APIError(CheckIsLeaderError::ForwardToLeader(_)))) => {
                Err(self.not_leader())
            }
            Ok(Err(LibraryError::APIError(error))) => Err(unavailable(error.to_string())),
            Err(_) => Err(unavailable("most voters do not answer".to_owned())),
        }
    }

    fn not_leader(&self) -> CallAnswer {
        let status = self.status();
        let leader = status.leader.filter(|it| *it != self.options.node);
        let address = leader.and_then(|it| status.voters?.get(&it).map(|it| it.address.clone()));
        CallAnswer::NotLeader { leader: leader.zip(address) }
    }

    pub(crate) fn now_us(&self) -> u64 {
        self.world.clock.monotonic_micros()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::SeqCst)
    }

    pub(crate) fn runtime(&self) -> Result<Arc<Runtime>, RaftError> {
        let runtime = self.runtime.lock().clone();
        runtime.ok_or_else(|| RaftError::Stopped("the node stops".to_owned()))
    }

    /// Stops the library. Calls after it fail.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        let Some(runtime) = self.runtime.lock().take() else { return };
        if let Err(error) = runtime.block_on(self.raft.shutdown()) {
            tracing::warn!(%error, "the coordinator of this node stopped with an error");
        }
        // The last call that still waits drops it otherwise.
        if let Some(runtime) = Arc::into_inner(runtime) {
            runtime.shutdown_background();
        }
    }
}

fn stopped(error: impl Display) -> RaftError {
    RaftError::Stopped(error.to_string())
}
