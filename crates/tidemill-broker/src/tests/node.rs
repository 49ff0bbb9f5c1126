//! A broker in a folder of its own, on a free port.

use super::client::Client;
use crate::{Broker, BrokerSettings, Server};
use std::{net::SocketAddr, path::PathBuf, sync::Arc};
use tempfile::TempDir;
use tidemill_env::World;
use tidemill_log::{Log, LogOptions};

/// A running broker.
pub(crate) struct Node {
    pub(crate) log: Arc<Log>,
    pub(crate) broker: Arc<Broker>,
    server: Option<Server>,
    /// None: it is in a simulated world.
    _folder: Option<TempDir>,
}

/// How a broker is started.
pub(crate) struct How {
    pub(crate) settings: BrokerSettings,
    pub(crate) options: LogOptions,
    /// None: the real one.
    pub(crate) world: Option<World>,
}

impl Default for How {
    fn default() -> Self {
        let settings =
            BrokerSettings { listen: SocketAddr::from(([127, 0, 0, 1], 0)), ..Default::default() };
        Self { settings, options: LogOptions::default(), world: None }
    }
}

impl Node {
    /// A broker as it is by default.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// A broker with something changed.
    pub(crate) async fn start_with(change: impl FnOnce(&mut How)) -> Self {
        let mut how = How::default();
        change(&mut how);
        let folder = how.world.is_none().then(|| tempfile::tempdir().unwrap());
        let path = folder.as_ref().map_or(PathBuf::from("/data"), |it| it.path().to_owned());
        let world = how.world.unwrap_or_else(World::real);
        let log = Arc::new(Log::open(&world, &path.join("log"), how.options).unwrap());
        let broker = Broker::open(&world, Arc::clone(&log), &path, how.settings).unwrap();
        let server = Server::start(Arc::clone(&broker)).await.unwrap();
        Self { log, broker, server: Some(server), _folder: folder }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.as_ref().unwrap().address()
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(self.address()).await
    }

    /// How many requests have come, those that wait for their answers too.
    pub(crate) fn requests(&self) -> u64 {
        self.broker.figures().requests
    }

    /// Ends it in order.
    pub(crate) async fn stop(mut self) {
        self.server.take().unwrap().stop().await;
        self.broker.close();
        self.log.close();
    }
}

/// Waits until something is so, for a minute.
pub(crate) async fn until(is_so: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("it is never so");
}
