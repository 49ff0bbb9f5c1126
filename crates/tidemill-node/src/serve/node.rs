//! Starting and stopping a node.
//!
//! Invariant: problems that need no look at the data folder are refused first: addresses.

use super::{
    cluster::{ClusterError, ClusterNode, ClusterPlan},
    http::Http,
    identity, open_files,
    settings::ServeSettings,
    upkeep::Upkeep,
};
use crate::jobs::{Jobs, JobsError};
use crate::streams::Streams;
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_broker::{Broker, BrokerError, Server, listen_at};
use tidemill_env::{FOLDER_ADVICE, World};
use tidemill_log::{Log, LogError};
use tokio::{net::TcpListener, runtime, sync::watch};

/// Stack of a thread that serves requests, in bytes: planning SQL goes as deep as the SQL does.
const STACK_BYTES: usize = 8 << 20;

/// Errors that keep a node from starting. Each names a way out.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address that other machines reach, without leave.
    #[error(
        "{0} can be reached from other machines, and there is no authentication yet: anybody there \
         could read, write and delete. Listen on 127.0.0.1, or say --insecure if the network itself \
         keeps others out"
    )]
    Insecure(SocketAddr),
    /// An address cannot be listened on.
    #[error("cannot listen on {address} ({option}): {error}{}", listen_advice(.error))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The option that says so.
        option: &'static str,
        /// The error of the system.
        error: io::Error,
    },
    /// Another process serves this data folder.
    #[error(
        "the data folder {0} is in use by another process: stop that one, or choose another folder \
         with --data"
    )]
    InUse(PathBuf),
    /// The log does not open.
    #[error("the data folder {folder}: {error}{}", log_advice(.error))]
    Log {
        /// The data folder.
        folder: PathBuf,
        /// The problem.
        error: LogError,
    },
    /// The node's own files are there, and no log beside them.
    #[error(
        "the data folder {folder} has no streams any more: {missing} is not there, though {beside} \
         says that a node has served here. If it is on a disk of its own, mount that; if the \
         streams are meant to be gone, choose a new folder with --data"
    )]
    NoLog {
        /// The data folder.
        folder: PathBuf,
        /// The expected one.
        missing: PathBuf,
        /// The one that is there.
        beside: PathBuf,
    },
    /// A file of the node itself.
    #[error("{path}: {error}{}", disk_advice(.error))]
    Disk {
        /// Which.
        path: PathBuf,
        /// The problem.
        error: io::Error,
    },
    /// The broker's own data do not open.
    #[error(transparent)]
    Broker(BrokerError),
    /// The folder of its jobs cannot be read.
    #[error("{0}")]
    Jobs(JobsError),
    /// The node does not join its cluster.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The threads of the node cannot be started.
    #[error("threads cannot be started: {0}. Raise the limit of processes (ulimit -u)")]
    Threads(io::Error),
    /// Something that cannot be: a thread that opens or closes the log panicked.
    #[error("a part of the node panicked: {0}")]
    Panicked(String),
}

fn listen_advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            ". Another process listens there: stop it, or choose another port (0 takes a free one)"
        }
        io::ErrorKind::AddrNotAvailable => ". This machine does not have that address",
        io::ErrorKind::PermissionDenied => ". Ports below 1024 are for the superuser",
        _ => "",
    }
}

fn disk_advice(error: &io::Error) -> String {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "Choose a folder with --data that this user may write"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "Make room there, or choose another folder with --data"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "It must be a folder, or not be there yet: choose another with --data"
        }
        io::ErrorKind::IsADirectory => FOLDER_ADVICE,
        _ => return String::new(),
    };
    format!(". {advice}")
}

fn log_advice(error: &LogError) -> String {
    match error {
        LogError::Disk { error, .. } => disk_advice(error),
        _ => String::new(),
    }
}

/// Where a node answers.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The Kafka protocol.
    pub kafka: SocketAddr,
    /// HTTP.
    pub http: SocketAddr,
    /// Other nodes of the cluster; none for a node that is alone.
    pub cluster: Option<String>,
}

/// Tells a node to stop; clones tell the same node.
#[derive(Clone, Debug)]
pub struct Stop(watch::Sender<bool>);

impl Default for Stop {
    fn default() -> Self {
        Self(watch::channel(false).0)
    }
}

impl Stop {
    /// Tells it.
    pub fn now(&self) {
        self.0.send_replace(true);
    }

    /// True once it was told.
    #[must_use]
    pub fn is_told(&self) -> bool {
        *self.0.borrow()
    }

    async fn asked(&self) {
        let mut said = self.0.subscribe();
        let _said_or_gone = said.wait_for(|it| *it).await;
    }
}

/// A node that serves. It must be stopped by [`Self::stop`]: dropping it leaves the log open.
pub struct Node {
    kafka: Server,
    http: Http,
    upkeep: Upkeep,
    broker: Arc<Broker>,
    jobs: Arc<Jobs>,
    log: Arc<Log>,
    cluster: Option<Arc<ClusterNode>>,
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({:?})", self.ready())
    }
}

/// The open parts of the node; closed again if the rest of it does not start.
struct OpenedParts {
    cluster: Option<Arc<ClusterNode>>,
    log: Option<Arc<Log>>,
    broker: Option<Arc<Broker>>,
    jobs: Option<Arc<Jobs>>,
    keep: bool,
}

impl Drop for OpenedParts {
    fn drop(&mut self) {
        if !self.keep {
            self.jobs.iter().for_each(|it| it.close());
            self.broker.iter().for_each(|it| it.close());
            self.log.iter().for_each(|it| it.close());
            self.cluster.iter().for_each(|it| it.leave());
        }
    }
}

/// Serves until it is told to stop, on threads of its own. `ready` is called once, when both
/// servers answer.
///
/// # Errors
/// The node does not start.
pub fn run(
    world: &World,
    settings: ServeSettings,
    stop: &Stop,
    ready: impl FnOnce(&Ready),
) -> Result<(), ServeError> {
    open_files::raise();
    let mut threads = runtime::Builder::new_multi_thread();
    threads.thread_stack_size(STACK_BYTES);
    threads.enable_all().thread_name("serve");
    if let Some(count) = settings.threads {
        threads.worker_threads(count.get());
    }
    let threads = threads.build().map_err(ServeError::Threads)?;
    let outcome = threads.block_on(async {
        let data = settings.data.display().to_string();
        let node = Node::start(world, settings, stop).await?;
        let Ready { kafka, http, cluster } = node.ready();
        tracing::info!(%kafka, %http, cluster, data, "the node serves");
        ready(&node.ready());
        stop.asked().await;
        tracing::info!("the node stops");
        node.stop().await?;
        tracing::info!("the node has stopped");
        Ok(())
    });
    // Whatever still runs has nothing to lose: the log is closed.
    threads.shutdown_background();
    outcome
}

impl Node {
    /// Joins the cluster, opens the data folder and takes connections, in a tokio runtime. While it
    /// waits for its cluster, `stop` ends the wait.
    ///
    /// # Errors
    /// The node does not start; nothing is left running.
    pub async fn start(
        world: &World,
        settings: ServeSettings,
        stop: &Stop,
    ) -> Result<Self, ServeError> {
        let listen = settings.broker.listen;
        for address in [listen, settings.http.listen] {
            if !address.ip().is_loopback() && !settings.insecure {
                return Err(ServeError::Insecure(address));
            }
        }
        let http = bind(settings.http.listen, "--http-listen")?;
        let mut opened =
            OpenedParts { cluster: None, log: None, broker: None, jobs: None, keep: false };
        opened.cluster = {
            let (world, settings, stop) = (world.clone(), settings.clone(), stop.clone());
            blocking(move || join(&world, &settings, &stop)).await??
        };
        let registered = opened.cluster.as_ref().map(|it| it.registered().clone());
        let (log, cluster_id) = {
            let (world, data) = (world.clone(), settings.data.clone());
            let mut options = settings.log.clone();
            options.incarnation = registered.as_ref().map(|it| it.incarnation);
            let joined = registered.as_ref().map(|it| it.cluster.to_string());
            let wanted = joined.or_else(|| settings.cluster_id.clone());
            blocking(move || open(&world, &data, options, wanted.as_deref())).await??
        };
        opened.log = Some(Arc::clone(&log));
        for finding in log.findings() {
            tracing::warn!("found when the log was opened: {finding}");
        }
        let mut broker = settings.broker.clone();
        broker.cluster_id = cluster_id;
        let broker = {
            let (world, log, data) = (world.clone(), Arc::clone(&log), settings.data.clone());
            blocking(move || Broker::open(&world, log, &data, broker)).await?
        };
        let broker = broker.map_err(ServeError::Broker)?;
        opened.broker = Some(Arc::clone(&broker));
        let kafka = Server::start(Arc::clone(&broker)).await.map_err(|error| match error {
            BrokerError::Listen { address, error } => {
                ServeError::Listen { address, option: "--kafka-listen", error }
            }
            other => ServeError::Broker(other),
        })?;
        let address = settings.http.listen;
        let jobs = {
            let (world, data) = (world.clone(), settings.data.clone());
            let streams = Streams::of(&log, &broker);
            blocking(move || Jobs::open(&world, streams, &data)).await?.map_err(ServeError::Jobs)?
        };
        opened.jobs = Some(Arc::clone(&jobs));
        let cluster = opened.cluster.clone();
        let http = Http::start(world, &log, &broker, &jobs, cluster.as_ref(), settings.http, http);
        let http =
            http.map_err(|error| ServeError::Listen { address, option: "--http-listen", error })?;
        opened.keep = true;
        let upkeep = Upkeep::start(world, (&log, &jobs), settings.retention_every.duration());
        Ok(Self { kafka, http, upkeep, broker, jobs, log, cluster })
    }

    /// Where it answers.
    #[must_use]
    pub fn ready(&self) -> Ready {
        let cluster = self.cluster.as_ref().map(|it| it.address().to_owned());
        Ready { kafka: self.kafka.address(), http: self.http.address(), cluster }
    }

    /// Takes no more connections, lets requests under way end, closes the log.
    ///
    /// # Errors
    /// A part of the node panicked.
    pub async fn stop(self) -> Result<(), ServeError> {
        let Self { kafka, http, upkeep, broker, jobs, log, cluster } = self;
        // Their time runs while requests end, so that all of it takes less than five seconds.
        let told = Arc::clone(&jobs);
        blocking(move || told.begin_to_close()).await?;
        tokio::join!(kafka.stop(), http.stop(), upkeep.stop());
        blocking(move || {
            jobs.close();
            broker.close();
            log.close();
            // Others take over at once what this node had, so it has nothing any more.
            cluster.iter().for_each(|it| it.leave());
        })
        .await
    }
}

/// Runs blocking work on a thread that may block.
async fn blocking<T: Send + 'static>(
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ServeError> {
    let panicked = |error: tokio::task::JoinError| ServeError::Panicked(error.to_string());
    tokio::task::spawn_blocking(body).await.map_err(panicked)
}

fn bind(address: SocketAddr, option: &'static str) -> Result<TcpListener, ServeError> {
    listen_at(address).map_err(|error| ServeError::Listen { address, option, error })
}

/// Joins the cluster; none if the settings name none.
fn join(
    world: &World,
    settings: &ServeSettings,
    stop: &Stop,
) -> Result<Option<Arc<ClusterNode>>, ServeError> {
    let data = &settings.data;
    let known = identity::known_cluster(world, data)
        .map_err(|error| ServeError::Disk { path: identity::path(data), error })?;
    let log = data.join("log");
    let last_incarnation = Log::newest_incarnation(world, &log)
        .map_err(|error| ServeError::Log { folder: data.clone(), error })?;
    let told = |address: SocketAddr| (address.port() != 0).then(|| address.to_string());
    let kafka = match &settings.broker.advertised {
        Some((host, port)) => Some(tidemill_types::address::join(host, *port)),
        None => told(settings.broker.listen),
    };
    let plan = ClusterPlan {
        settings: &settings.cluster,
        node: settings.broker.node_id,
        data,
        cluster: known,
        last_incarnation,
        kafka,
        http: told(settings.http.listen),
        is_stopped: &|| stop.is_told(),
    };
    Ok(ClusterNode::join(world, &plan)?.map(Arc::new))
}

/// Opens the data folder. The log's lock is the lock of all of it.
fn open(
    world: &World,
    data: &Path,
    options: tidemill_log::LogOptions,
    wanted: Option<&str>,
) -> Result<(Arc<Log>, String), ServeError> {
    let (folder, beside) = (data.join("log"), identity::path(data));
    let missing = folder.join("streams");
    // The id is made when the log is there, so it is a log that has gone: an empty one in its place
    // would give its offsets to other records.
    if world.disk.exists(&beside).unwrap_or(false) && !world.disk.exists(&missing).unwrap_or(true) {
        return Err(ServeError::NoLog { folder: data.to_owned(), missing, beside });
    }
    let log = Log::open(world, &folder, options).map_err(|error| match error {
        LogError::InUse(_) => ServeError::InUse(data.to_owned()),
        error => ServeError::Log { folder: data.to_owned(), error },
    })?;
    match identity::cluster_id(world, data, wanted) {
        Ok(id) => Ok((Arc::new(log), id)),
        Err(error) => {
            log.close();
            Err(ServeError::Disk { path: beside, error })
        }
    }
}
