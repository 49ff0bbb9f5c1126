//! Taking HTTP connections, and ending them all.
//!
//! Each connection is one task. A request's head must be there within [`HEAD_PATIENCE`] of its
//! first byte, and an idle connection is closed after the same time.

use super::routes;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{io, net::SocketAddr, pin::pin, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::timeout,
};

/// How long a request's head may take, and a connection be idle.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// How long requests that are being answered have when the node stops.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

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
    pub fn start(listener: TcpListener) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let (stop, stopped) = watch::channel(false);
        let accepting = tokio::spawn(accept(listener, routes::router(), stopped));
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

async fn accept(listener: TcpListener, router: Router, stopped: watch::Receiver<bool>) {
    let mut stop = stopped.clone();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = asked(&mut stop) => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(serve(socket, router.clone(), stopped.clone()));
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
        connections.shutdown().await;
    }
}

async fn serve(socket: TcpStream, router: Router, mut stopped: watch::Receiver<bool>) {
    let _best_effort = socket.set_nodelay(true);
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_PATIENCE);
    let service = TowerToHyperService::new(router);
    let mut connection = pin!(http.serve_connection(TokioIo::new(socket), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = asked(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.as_mut().await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an HTTP connection ended");
    }
}
