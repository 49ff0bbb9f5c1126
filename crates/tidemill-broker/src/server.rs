//! Accepting connections, and ending them all.

use crate::{Broker, BrokerError, connection, upkeep};
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

/// A broker that takes connections. Dropping it without [`Self::stop`] leaves it running.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    accepting: JoinHandle<()>,
    upkeep: JoinHandle<()>,
}

impl Server {
    /// Binds the address of the broker's settings and takes connections, in a tokio runtime.
    ///
    /// # Errors
    /// The address cannot be listened on.
    pub async fn start(broker: Arc<Broker>) -> Result<Self, BrokerError> {
        let listen = broker.settings.listen;
        let refused = |error| BrokerError::Listen { address: listen, error };
        let listener = listen_at(listen).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        broker.listens_at(address);
        let (stop, stopped) = watch::channel(false);
        let upkeep = tokio::spawn(upkeep::run(Arc::clone(&broker), stopped.clone()));
        tokio::spawn(Arc::clone(&broker.groups).run(stopped.clone()));
        let accepting = tokio::spawn(accept(broker, listener, stopped));
        Ok(Self { address, stop, accepting, upkeep })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections, lets requests that are being answered end, and closes them.
    pub async fn stop(self) {
        let _nobody = self.stop.send(true);
        let _ended = self.accepting.await;
        let _ended = self.upkeep.await;
    }
}

/// Waits until the broker is told to stop.
pub(crate) async fn asked(stopped: &mut watch::Receiver<bool>) {
    // Without a sender nobody can say it any more.
    let _said_or_gone = stopped.wait_for(|it| *it).await;
}

/// Room for many clients that connect at the same moment, as they do when a node comes back.
const BACKLOG: u32 = 4096;

/// Listens on an address, with room for many clients that come at once. In a tokio runtime.
///
/// # Errors
/// The address is taken, or not of this machine.
pub fn listen_at(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // A node that starts again need not wait for connections of its last life.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn accept(broker: Arc<Broker>, listener: TcpListener, stopped: watch::Receiver<bool>) {
    let mut stop = stopped.clone();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = asked(&mut stop) => break,
            accepted = listener.accept() => match accepted {
                Ok((socket, peer)) => {
                    if connections.len() >= broker.settings.limits.connections {
                        broker.counts.connections_refused.fetch_add(1, Ordering::Relaxed);
                        drop(socket);
                    } else {
                        begin(&broker, socket, peer, &mut connections, &stopped);
                    }
                }
                Err(error) => rest(&error).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(Duration::from_secs(3), all).await.is_err() {
        tracing::warn!("connections that did not end in 3 s are cut");
        connections.shutdown().await;
    }
}

fn begin(
    broker: &Arc<Broker>,
    socket: TcpStream,
    peer: SocketAddr,
    connections: &mut JoinSet<()>,
    stopped: &watch::Receiver<bool>,
) {
    tidemill_env::net::tune(&socket);
    let open = connection::OpenConnection::new(broker);
    connections.spawn(connection::serve(Arc::clone(broker), socket, peer, stopped.clone(), open));
}

/// Out of file descriptors, most likely: the next try may do.
async fn rest(error: &io::Error) {
    tracing::warn!(%error, "a connection could not be accepted");
    tokio::time::sleep(Duration::from_millis(50)).await;
}
