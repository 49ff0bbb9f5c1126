//! The network as a process sees it: listeners, connections and their handles.
//!
//! A socket is closed when its last handle is dropped: reader, writer or closer.

use super::{
    SimNet,
    connection::{Attempt, SocketPlace},
    link::draw_one_in,
    pass,
    state::{
        BACKLOG_MAX, FIRST_FREE_PORT, HostIx, ListenPlace, ListenScope, NetState, ProcessPlace,
    },
};
use crate::{Connection, Listener, Net};
use std::{
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};

/// The network of one process.
pub(super) struct HostNet {
    pub(super) net: SimNet,
    pub(super) process: ProcessPlace,
}

struct SimListener {
    net: SimNet,
    process: ProcessPlace,
    place: ListenPlace,
    number: u64,
    address: String,
}

/// One end of a connection, as its owner has it.
struct SocketHandle {
    net: SimNet,
    socket: SocketPlace,
}

struct SocketReader(Arc<SocketHandle>);

struct SocketWriter(Arc<SocketHandle>);

/// Names by which every host knows itself.
const LOOPBACK: &[&str] = &["localhost", "127.0.0.1", "[::1]"];

/// Names of all addresses of a host.
const ALL: &[&str] = &["0.0.0.0", "[::]", ""];

/// The port that a connecting host has of a connection.
fn client_port(connection: u64) -> u16 {
    let range = u64::from(u16::MAX - FIRST_FREE_PORT);
    FIRST_FREE_PORT + (connection % range) as u16
}

/// The host and the port of an address.
fn parse(address: &str) -> io::Result<(&str, u16)> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no address: HOST:PORT"))
}

fn refused() -> io::Error {
    io::ErrorKind::ConnectionRefused.into()
}

/// A connect that waits for its answer.
struct ConnectAttempt {
    process: ProcessPlace,
    target: HostIx,
    port: u16,
    is_loopback: bool,
    /// The arrival of the answer; none: there is no way.
    answer_us: Option<u64>,
    /// It has waited for a way.
    is_late: bool,
}

impl ConnectAttempt {
    /// Goes on as far as it can; none: it has to wait.
    fn advance(&mut self, state: &mut NetState, now_us: u64) -> io::Result<Option<SocketPlace>> {
        state.check_alive(self.process)?;
        let way = (self.process.host, self.target);
        let link = state.link(way.0, way.1);
        if !state.is_open_both_ways(way.0, way.1) {
            self.is_late = true;
            self.answer_us = None;
            return Ok(None);
        }
        let Some(answer_us) = self.answer_us else {
            // A request that was lost is sent again, later each time.
            let again_us =
                if self.is_late { state.random.below(link.resend_us * 5 + 1) } else { 0 };
            let asked_us = state.draw_arrival_us(way, 0, now_us + again_us);
            let back = (way.1, way.0);
            self.answer_us = asked_us.and_then(|it| state.draw_arrival_us(back, 0, it));
            return Ok(None);
        };
        if answer_us > now_us {
            return Ok(None);
        }
        if draw_one_in(&mut state.random, link.refused_one_in) {
            return Err(refused());
        }
        let accepted_us = state.draw_arrival_us(way, 0, now_us).unwrap_or(now_us);
        let (host, port) = (self.target, self.port);
        let listener = state.find_listener(host, port, self.is_loopback).ok_or_else(refused)?;
        if listener.backlog.len() >= BACKLOG_MAX {
            self.is_late = true;
            self.answer_us = None;
            return Ok(None);
        }
        let acceptor = ProcessPlace { host, life: listener.life };
        let connection = state.open_connection([self.process, acceptor]);
        if let Some(listener) = state.find_listener(host, port, self.is_loopback) {
            listener.backlog.push((accepted_us, SocketPlace { connection, side: 1 }));
            listener.arrival.notify_at(accepted_us);
        }
        Ok(Some(SocketPlace { connection, side: 0 }))
    }
}

impl Net for HostNet {
    fn listen(&self, address: &str) -> io::Result<Box<dyn Listener>> {
        pass("listen");
        let (name, port) = parse(address)?;
        let mut state = self.net.state();
        let own_name = &state.hosts[self.process.host.0].name;
        let scope = match name {
            name if LOOPBACK.contains(&name) => ListenScope::Loopback,
            name if ALL.contains(&name) => ListenScope::All,
            name if name == own_name => ListenScope::Name,
            name => {
                let message = format!("{name} is no address of {own_name}");
                return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, message));
            }
        };
        let (place, number) = state.listen(self.process, scope, port)?;
        drop(state);
        let (net, process) = (self.net.clone(), self.process);
        let address = format!("{name}:{}", place.port);
        Ok(Box::new(SimListener { net, process, place, number, address }))
    }

    fn connect(&self, address: &str, timeout: Duration) -> io::Result<Connection> {
        pass("connect");
        let (name, port) = parse(address)?;
        let mut state = self.net.state();
        let is_loopback = LOOPBACK.contains(&name) || ALL.contains(&name);
        let own = is_loopback.then_some(self.process.host);
        let target = own.or_else(|| state.find_host(name)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, format!("the name {name} has no address"))
        })?;
        let process = self.process;
        let mut attempt =
            ConnectAttempt { process, target, port, is_loopback, answer_us: None, is_late: false };
        let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX);
        let deadline_us = self.net.now_us().saturating_add(micros);
        loop {
            let now_us = self.net.now_us();
            let advanced = attempt.advance(&mut state, now_us).inspect_err(|error| {
                let is_refused = error.kind() == io::ErrorKind::ConnectionRefused;
                state.counts.refusals += u64::from(is_refused);
            });
            if let Some(socket) = advanced? {
                drop(state);
                return Ok(self.net.connection(socket, port));
            }
            if now_us >= deadline_us {
                state.counts.timeouts += 1;
                return Err(io::Error::new(io::ErrorKind::TimedOut, "connection timed out"));
            }
            let until_us = attempt.answer_us.unwrap_or(deadline_us).min(deadline_us);
            if until_us > now_us {
                let change = Arc::clone(&state.change);
                state = self.net.wait(state, &change, Some(until_us));
            }
        }
    }
}

impl SimNet {
    /// The handles of a new socket, whose other end is at this port.
    fn connection(&self, socket: SocketPlace, peer_port: u16) -> Connection {
        let state = self.state();
        let (from, to) = state.way(socket.connection, socket.side);
        let peer = format!("{}:{peer_port}", state.hosts[to.0].name);
        drop(state);
        let handle = Arc::new(SocketHandle { net: self.clone(), socket });
        let closing = Arc::clone(&handle);
        Connection {
            reader: Box::new(SocketReader(Arc::clone(&handle))),
            writer: Box::new(SocketWriter(handle)),
            closer: Arc::new(move || {
                pass("close");
                let mut state = closing.net.state();
                let now_us = closing.net.now_us();
                state.shut(closing.socket, now_us);
            }),
            is_within_machine: from == to,
            peer,
        }
    }
}

impl Listener for SimListener {
    fn accept(&self) -> io::Result<Connection> {
        pass("accept");
        let mut state = self.net.state();
        loop {
            state.check_alive(self.process)?;
            let listener = state.listeners.get_mut(&self.place).ok_or_else(super::state::dead)?;
            let now_us = self.net.now_us();
            let entries = listener.backlog.iter().enumerate();
            let first = entries.min_by_key(|(_, (ready_us, _))| *ready_us);
            let first = first.map(|(at, (ready_us, _))| (at, *ready_us));
            if let Some((at, _)) = first.filter(|(_, ready_us)| *ready_us <= now_us) {
                let (_, socket) = listener.backlog.remove(at);
                drop(state);
                return Ok(self.net.connection(socket, client_port(socket.connection)));
            }
            let arrival = Arc::clone(&listener.arrival);
            state = self.net.wait(state, &arrival, first.map(|(_, ready_us)| ready_us));
        }
    }

    fn address(&self) -> io::Result<String> {
        self.net.state().check_alive(self.process)?;
        Ok(self.address.clone())
    }
}

impl Drop for SimListener {
    fn drop(&mut self) {
        let mut state = self.net.state();
        let now_us = self.net.now_us();
        state.close_listener(self.place, self.number, now_us);
    }
}

impl Drop for SocketHandle {
    fn drop(&mut self) {
        let mut state = self.net.state();
        let now_us = self.net.now_us();
        state.release(self.socket, now_us);
        state.drop_handle(self.socket);
    }
}

impl Read for SocketReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        pass("read");
        let SocketHandle { net, socket } = &*self.0;
        let mut state = net.state();
        if into.is_empty() {
            return Ok(0);
        }
        loop {
            let until_us = match state.read(*socket, into, net.now_us())? {
                Attempt::Done(count) => return Ok(count),
                Attempt::Wait(until_us) => until_us,
            };
            let readable =
                Arc::clone(&state.connections[&socket.connection].ends[socket.side].readable);
            state = net.wait(state, &readable, until_us);
        }
    }
}

impl Write for SocketWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        pass("write");
        let SocketHandle { net, socket } = &*self.0;
        let mut state = net.state();
        if bytes.is_empty() {
            return Ok(0);
        }
        loop {
            let until_us = match state.write(*socket, bytes, net.now_us())? {
                Attempt::Done(count) => return Ok(count),
                Attempt::Wait(until_us) => until_us,
            };
            let writable =
                Arc::clone(&state.connections[&socket.connection].ends[socket.side].writable);
            state = net.wait(state, &writable, until_us);
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
