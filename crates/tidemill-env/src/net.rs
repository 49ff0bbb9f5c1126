//! The network: connections of bytes, both halves usable by a thread of their own.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs},
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
}

/// The sockets of this machine.
#[derive(Debug)]
pub(crate) struct RealNet;

struct RealListener(TcpListener);

fn connection(stream: TcpStream) -> io::Result<Connection> {
    stream.set_nodelay(true)?;
    let closing = stream.try_clone()?;
    Ok(Connection {
        reader: Box::new(stream.try_clone()?),
        writer: Box::new(stream),
        closer: Arc::new(move || {
            // A connection that is gone already is closed.
            drop(closing.shutdown(Shutdown::Both));
        }),
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
