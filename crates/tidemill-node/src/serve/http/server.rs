//! Taking HTTP connections, and ending them all.
//!
//! Each connection is one task. It is closed if a head is not whole some time after the last
//! request, if an answer is not taken, and when the node stops.

use super::{metrics::Lasting, routes, slow_peers::Patient, state::HttpState};
use crate::jobs::Jobs;
use crate::serve::{cluster::ClusterNode, settings::HttpSettings};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{
    io,
    net::SocketAddr,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tidemill_broker::Broker;
use tidemill_env::World;
use tidemill_log::Log;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

/// Time that is left to requests under way when the node stops.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// Bytes that a request's head may have; and, for each connection, that are read ahead.
const HEAD_BYTES_MAX: usize = 32 << 10;

/// An HTTP server. Dropping it without [`Self::stop`] leaves it running.
#[derive(Debug)]
pub struct Http {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

impl Http {
    /// Takes connections, in a tokio runtime.
    ///
    /// # Errors
    /// The listener does not know its address.
    pub fn start(
        world: &World,
        log: &Arc<Log>,
        broker: &Arc<Broker>,
        jobs: &Arc<Jobs>,
        cluster: Option<&Arc<ClusterNode>>,
        settings: HttpSettings,
        listener: TcpListener,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let state = Arc::new(HttpState::new(world, log, broker, jobs, cluster, settings, stopped));
        let accepting = tokio::spawn(accept(listener, state));
        Ok(Self { address, stop, accepting })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets requests that are being answered end, and closes them.
    pub async fn stop(self) {
        self.stop.send_replace(true);
        let _ended = self.accepting.await;
    }
}

async fn asked(stopped: &mut watch::Receiver<bool>) {
    // Without a sender nobody can say it any more.
    let _said_or_gone = stopped.wait_for(|it| *it).await;
}

async fn accept(listener: TcpListener, state: Arc<HttpState>) {
    let router = routes::router(Arc::clone(&state));
    let mut stop = state.stopped.clone();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = asked(&mut stop) => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) if connections.len() < state.settings.connections => {
                    // Counted here, not in its task: the tasks begin in no order, and the figures
                    // that a connection asks for have those that were taken before it.
                    let open = Lasting::new(&state.counts, |it| &it.connections);
                    let served = serve(socket, peer, router.clone(), Arc::clone(&state), open);
                    connections.spawn(served);
                }
                Ok(_) => {
                    state.counts.connections_refused.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => {
                    // Out of file descriptors, most likely: the next try may do.
                    tracing::warn!(%error, "an HTTP connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if timeout(STOP_PATIENCE, all).await.is_err() {
        tracing::warn!("HTTP connections that did not end in 3 s are cut");
        connections.shutdown().await;
    }
}

async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    router: Router,
    state: Arc<HttpState>,
    _open: Lasting,
) {
    tidemill_env::net::tune(&socket);
    let settings = &state.settings;
    let socket = Patient::new(socket, settings.transfer_time.duration(), Arc::clone(&state.counts));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(settings.idle_time.duration())
        .max_buf_size(HEAD_BYTES_MAX);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(http.serve_connection(TokioIo::new(socket), service));
    let mut stopped = state.stopped.clone();
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = asked(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    match ended {
        Err(error) if error.is_parse() => {
            tracing::warn!(%peer, %error, "HTTP connection closed");
        }
        Err(error) => tracing::debug!(%peer, %error, "HTTP connection ended"),
        Ok(()) => {}
    }
}
