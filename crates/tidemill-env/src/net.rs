//! The network: connections of bytes, both halves usable by a thread of their own.

use rustix::net::{getpeername, getsockname, sockopt};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs},
    os::fd::AsFd,
    sync::Arc,
    time::Duration,
};

/// Listens and connects.
pub trait Net: Send + Sync {
    /// Listens at an address such as `127.0.0.1:0`.
    ///
    /// # Errors
    /// The address cannot be taken.
    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>>;

    /// Connects to an address such as `127.0.0.1:9092` or `localhost:9092`; a name is looked up
    /// first, and each of its addresses is tried for `timeout` at most.
    ///
    /// # Errors
    /// Nobody answers there: the error is that of the last address tried.
    fn connect(&self, address: &str, timeout: Duration) -> io::Result<Connection>;
}

/// Takes connections.
pub trait Listener: Send {
    /// Waits for the next connection.
    ///
    /// # Errors
    /// The listener cannot go on.
    fn accept(&self) -> io::Result<Connection>;

    /// The address that others connect to.
    ///
    /// # Errors
    /// The listener has lost its socket.
    fn address(&self) -> io::Result<String>;
}

/// One connection.
pub struct Connection {
    /// Bytes from the other end.
    pub reader: Box<dyn Read + Send>,
    /// Bytes to the other end; several pieces at once go out as one.
    pub writer: Box<dyn Write + Send>,
    /// Ends both directions; readers and writers that wait come back.
    pub closer: Arc<dyn Fn() + Send + Sync>,
    /// True if both ends are on this machine: bytes never leave its memory.
    pub is_within_machine: bool,
    /// The address of the other end, for messages.
    pub peer: String,
}

/// The sockets of this machine.
#[derive(Debug)]
pub(crate) struct RealNet;

struct RealListener(TcpListener);

/// Congestion control that does not pace. Every Linux has it, and lets everybody choose it.
const UNPACED: &str = "reno";

/// Makes a TCP connection send each write at once, and within this machine as fast as the other end
/// reads. Everything that opens or accepts a connection calls this first. Returns true if both ends
/// are on this machine.
///
/// Many systems pace their connections (BBR): after some segments the kernel waits for a timer, so
/// that the network between fills evenly. Within a machine there is no such network, and the timers
/// took more than a third of the time of a relay between two processes. A connection to another
/// machine keeps the congestion control of its system; so does one whose system refuses.
pub fn tune(socket: impl AsFd) -> bool {
    // Slower without, but as right.
    let _best_effort = sockopt::set_tcp_nodelay(&socket, true);
    let is_within_machine = is_within_machine(&socket);
    if is_within_machine {
        let _best_effort = sockopt::set_tcp_congestion(&socket, UNPACED);
    }
    is_within_machine
}

/// True if both ends are on this machine.
fn is_within_machine(socket: impl AsFd) -> bool {
    let ours = getsockname(&socket).ok().and_then(|it| SocketAddr::try_from(it).ok());
    let theirs = getpeername(&socket).ok().flatten().and_then(|it| SocketAddr::try_from(it).ok());
    let (Some(ours), Some(theirs)) = (ours, theirs) else { return false };
    ours.ip() == theirs.ip() || theirs.ip().to_canonical().is_loopback()
}

fn connection(stream: TcpStream) -> io::Result<Connection> {
    let is_within_machine = tune(&stream);
    let closing = stream.try_clone()?;
    let peer =
        stream.peer_addr().map_or_else(|_| "an unknown address".to_owned(), |it| it.to_string());
    Ok(Connection {
        reader: Box::new(stream.try_clone()?),
        writer: Box::new(stream),
        closer: Arc::new(move || {
            // A connection that is gone already is closed.
            drop(closing.shutdown(Shutdown::Both));
        }),
        is_within_machine,
        peer,
    })
}

impl Net for RealNet {
    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(RealListener(TcpListener::bind(address)?)))
    }

    fn connect(&self, address: &str, timeout: Duration) -> io::Result<Connection> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        for address in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => return connection(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

impl Listener for RealListener {
    fn accept(&self) -> io::Result<Connection> {
        connection(self.0.accept()?.0)
    }

    fn address(&self) -> io::Result<String> {
        Ok(self.0.local_addr()?.to_string())
    }
}

#[cfg(test)]
mod tests;
