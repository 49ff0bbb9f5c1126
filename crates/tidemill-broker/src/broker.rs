//! The state shared by all connections.

use crate::{
    chunk_check::InflateLimiter,
    frame::MemoryBudget,
    group::registry::GroupRegistry,
    partition::{Partition, PartitionContext},
    session::FetchSessions,
    settings::BrokerSettings,
    store::{MetadataStore, StoreError},
    topic::{Topic, Topics, uuid_of},
    topic_settings::Defaults,
    transaction::coordinator::Coordinator,
    upkeep,
};
use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError, atomic::AtomicU64},
};
use tidemill_env::{Random, World};
use tidemill_log::{Log, LogError, StreamId};
use tidemill_types::ByteSize;
use tidemill_types::NodeId;
use tidemill_wire::{kafka::FRAME_HEAD_BYTES, transactions::TransactionPartition};

/// The purpose of the random numbers for ids of fetch sessions.
const SESSION_IDS: u64 = 0x6665_7463_6865_7300;

/// The broker of one node.
pub struct Broker {
    pub(crate) world: World,
    pub(crate) log: Arc<Log>,
    pub(crate) settings: BrokerSettings,
    pub(crate) topics: Topics,
    pub(crate) budget: Arc<MemoryBudget>,
    pub(crate) inflating: InflateLimiter,
    /// For records in answers.
    pub(crate) answers: Arc<MemoryBudget>,
    pub(crate) counts: BrokerCounts,
    pub(crate) sessions: FetchSessions,
    pub(crate) store: Arc<MetadataStore>,
    pub(crate) groups: Arc<GroupRegistry>,
    pub(crate) transactions: Arc<Coordinator>,
    session_ids: Mutex<Random>,
    address: OnceLock<SocketAddr>,
}

impl std::fmt::Debug for Broker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Broker({:?})", self.address)
    }
}

/// Counts since the broker was opened.
#[derive(Debug, Default)]
pub(crate) struct BrokerCounts {
    pub(crate) connections: AtomicU64,
    pub(crate) connections_refused: AtomicU64,
    pub(crate) connections_hostile: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) produced_bytes: AtomicU64,
    pub(crate) produced_records: AtomicU64,
    pub(crate) fetched_bytes: AtomicU64,
    pub(crate) fetched_records: AtomicU64,
}

/// Why a broker does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// The broker's metadata cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The file of a broker's own metadata, in its data folder.
pub const STORE_FILE: &str = "broker.redb";

impl Broker {
    /// A broker for a log; [`crate::Server::start`] lets it take connections. Its own metadata
    /// (group offsets, producers, transactions) are the file [`STORE_FILE`] in `folder`, which must
    /// be there; the file is made if it is not. Blocks while it reads that file.
    ///
    /// # Errors
    /// Its metadata are damaged, in use, or cannot be read; nothing was changed in them.
    pub fn open(
        world: &World,
        log: Arc<Log>,
        folder: &Path,
        settings: BrokerSettings,
    ) -> Result<Arc<Self>, BrokerError> {
        let file = folder.join(STORE_FILE);
        if !log.list().is_empty() && !world.disk.exists(&file).unwrap_or(true) {
            tracing::warn!(
                file = %file.display(),
                "not there, though there are streams: groups start without committed offsets"
            );
        }
        let store = Arc::new(MetadataStore::open(world, &file)?);
        let groups = GroupRegistry::open(world, Arc::clone(&store), settings.groups.clone())?;
        let transactions = Coordinator::open(world, &store, settings.limits.transactions)?;
        let shared = Arc::new(PartitionContext {
            world: world.clone(),
            store: Arc::clone(&store),
            transactions: Arc::clone(&transactions),
            limits: settings.limits.producers,
        });
        let size = |it: ByteSize| usize::try_from(it.0).unwrap_or(usize::MAX);
        let limits = &settings.limits;
        // Of the longest request the whole frame.
        let longest = size(limits.request_bytes).saturating_add(FRAME_HEAD_BYTES);
        let budget = MemoryBudget::with_reserve(size(limits.requests_bytes), longest);
        let answers = MemoryBudget::new(size(limits.answers_bytes));
        Ok(Arc::new(Self {
            world: world.clone(),
            log,
            topics: Topics::new(shared),
            budget,
            inflating: InflateLimiter::new(settings.limits.inflated_bytes.0),
            answers,
            counts: BrokerCounts::default(),
            sessions: FetchSessions::default(),
            session_ids: Mutex::new(world.random(SESSION_IDS)),
            address: OnceLock::new(),
            store,
            groups,
            transactions,
            settings,
        }))
    }

    /// The id of this node, as clients are told.
    #[must_use]
    pub fn node_id(&self) -> NodeId {
        self.settings.node_id
    }

    /// Commits pending changes and closes the broker's metadata. Later changes are refused. Call
    /// [`crate::Server::stop`] first, which ends the connections. Blocks.
    pub fn close(&self) {
        upkeep::last_snapshots(self);
        self.transactions.close();
        self.store.close();
    }

    /// A partition by the id of its stream; none if there is no such stream.
    pub(crate) fn partition_at(&self, place: &TransactionPartition) -> Option<Arc<Partition>> {
        let topic = self.topics.get_by_id(&self.log, uuid_of(StreamId(place.stream)))?;
        topic.partition(i32::try_from(place.index).ok()?)
    }

    pub(crate) fn listens_at(&self, address: SocketAddr) {
        let _once = self.address.set(address);
    }

    /// The address to which clients connect.
    pub(crate) fn advertised(&self) -> (String, u16) {
        if let Some(advertised) = &self.settings.advertised {
            return advertised.clone();
        }
        let address = self.address.get().copied().unwrap_or(self.settings.listen);
        (address.ip().to_string(), address.port())
    }

    /// An id without a fetch session. It is random, so a client of an earlier run of the node
    /// almost never meets another client's session.
    pub(crate) fn new_session_id(&self) -> i32 {
        let mut ids = self.session_ids.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let id = (ids.next() >> 33) as i32;
            if id != 0 && !self.sessions.has(id) {
                return id;
            }
        }
    }

    /// The cluster's id, as clients are told.
    #[must_use]
    pub fn cluster_id(&self) -> &str {
        &self.settings.cluster_id
    }

    /// The settings of a topic that has none of its own.
    pub(crate) fn defaults(&self) -> Defaults {
        Defaults::of(self.log.options())
    }

    pub(crate) fn topic(&self, name: &str) -> Option<Arc<Topic>> {
        self.topics.get(&self.log, name)
    }

    /// The topic of a name; made, if it is not there and clients may make topics.
    pub(crate) fn topic_or_new(&self, name: &str) -> Result<Arc<Topic>, LogError> {
        if let Some(topic) = self.topic(name) {
            return Ok(topic);
        }
        if !self.settings.auto_create {
            return Err(LogError::Unknown(name.to_owned()));
        }
        match self.log.create(name, self.stream_defaults()) {
            Ok(_) | Err(LogError::Exists(_)) => {}
            Err(error) => return Err(error),
        }
        self.topic(name).ok_or_else(|| LogError::Unknown(name.to_owned()))
    }

    /// Deletes topics that were looked at, with all that the broker has of them. Blocks. None may
    /// be named twice.
    ///
    /// # Errors
    /// One of them is not there any more, or the disk failed and it still is.
    pub(crate) fn delete_topics(&self, topics: &[&Topic]) -> Vec<Result<(), LogError>> {
        let _one = self.topics.change();
        // Who deletes and makes topics at the same time must not lose a new one of the name.
        let is_there = |topic: &&&Topic| {
            self.log.get(topic.stream.name()).is_some_and(|it| it.id() == topic.stream.id())
        };
        let there: Vec<&Topic> = topics.iter().filter(is_there).copied().collect();
        // Readers who find no data must know why.
        there.iter().for_each(|it| it.set_gone(true));
        let names: Vec<&str> = there.iter().map(|it| it.stream.name()).collect();
        let outcomes = self.log.delete_all(&names);
        // One may be gone although the disk failed: the rest goes when the log is opened again.
        let (stay, gone): (Vec<&Topic>, Vec<&Topic>) = there.iter().partition(is_there);
        stay.iter().for_each(|it| it.set_gone(false));
        gone.iter().for_each(|it| self.topics.forget(it));
        let gone: BTreeMap<&str, StreamId> =
            gone.iter().map(|it| (it.stream.name(), it.stream.id())).collect();
        self.groups.forget_topics(&gone);
        let mut outcomes: BTreeMap<&str, _> = names.into_iter().zip(outcomes).collect();
        let tell = |topic: &&Topic| {
            let name = topic.stream.name();
            let unknown = || Err(LogError::Unknown(name.to_owned()));
            let outcome = outcomes.remove(name).unwrap_or_else(unknown);
            if !gone.contains_key(name) {
                return outcome;
            }
            tracing::info!(topic = name, "topic deleted");
            if let Err(error) = outcome {
                tracing::warn!(topic = name, %error, "files of a deleted topic are left");
            }
            Ok(())
        };
        topics.iter().map(tell).collect()
    }
}
