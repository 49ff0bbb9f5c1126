//! Connections: two ends and two pipes, with the rules of TCP for an end that is closed or gone.
//!
//! ```text
//! open ─▶ shut (both directions closed, the other end reads to the end) ─▶ released: no socket is
//!   └──────────────────────── kill, drop of all handles ──────────────────▶ there, bytes that
//!                                                                           arrive are answered
//!                                                                           with a reset
//! ```
//!
//! An end that is released with unread bytes resets the connection at once, as Linux does.

use super::{
    pipe::{Arrival, BytePipe, Payload},
    state::{NetState, ProcessPlace},
};
use crate::sim::signal::Signal;
use std::{io, sync::Arc};

/// One end of a connection by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SocketPlace {
    pub(super) connection: u64,
    pub(super) side: usize,
}

pub(super) struct SocketEnd {
    pub(super) process: ProcessPlace,
    /// Its owner has closed both directions.
    is_shut: bool,
    /// The socket is not there any more.
    pub(super) is_released: bool,
    /// The connection failed, and the owner was told.
    is_broken: bool,
    is_dropped: bool,
    /// Its host has lost power: it sends nothing again.
    pub(super) is_silent: bool,
    pub(super) readable: Arc<Signal>,
    pub(super) writable: Arc<Signal>,
}

pub(super) struct ConnectionState {
    pub(super) ends: [SocketEnd; 2],
    /// The bytes that each end writes.
    pub(super) pipes: [BytePipe; 2],
}

/// The result of a call that may have to wait.
pub(super) enum Attempt {
    Done(usize),
    /// It is to be tried again when it is told to, or at this moment.
    Wait(Option<u64>),
}

impl SocketEnd {
    fn new(process: ProcessPlace) -> Self {
        Self {
            process,
            is_shut: false,
            is_released: false,
            is_broken: false,
            is_dropped: false,
            is_silent: false,
            readable: Arc::default(),
            writable: Arc::default(),
        }
    }

    /// True if bytes that arrive are kept for the owner.
    pub(super) fn takes_bytes(&self) -> bool {
        !self.is_shut && !self.is_released
    }

    pub(super) fn notify(&self) {
        self.readable.notify();
        self.writable.notify();
    }

    pub(super) fn notify_at(&self, moment_us: u64) {
        self.readable.notify_at(moment_us);
        self.writable.notify_at(moment_us);
    }
}

impl ConnectionState {
    pub(super) fn notify(&self) {
        self.ends.iter().for_each(SocketEnd::notify);
    }
}

impl NetState {
    /// Opens a connection; its first end is that of the process that connects.
    pub(super) fn open_connection(&mut self, ends: [ProcessPlace; 2]) -> u64 {
        let number = self.draw_number();
        self.counts.connections += 1;
        let connection = ConnectionState {
            ends: ends.map(SocketEnd::new),
            pipes: [BytePipe::default(), BytePipe::default()],
        };
        self.connections.insert(number, connection);
        number
    }

    fn connection(&mut self, socket: SocketPlace) -> io::Result<&mut ConnectionState> {
        let process = self.connections[&socket.connection].ends[socket.side].process;
        self.check_alive(process)?;
        self.connections.get_mut(&socket.connection).ok_or_else(super::state::dead)
    }

    /// Reads at one end.
    pub(super) fn read(
        &mut self,
        socket: SocketPlace,
        into: &mut [u8],
        now_us: u64,
    ) -> io::Result<Attempt> {
        let SocketPlace { connection: number, side } = socket;
        let end = &self.connection(socket)?.ends[side];
        if end.is_shut || end.is_broken {
            return Ok(Attempt::Done(0));
        }
        let given_up_us = self.check_silence(socket, now_us)?;
        let (to, from) = self.way(number, side);
        let acknowledges = self.is_open(to, from);
        let length = self.link(from, to).draw_part(&mut self.random, into.len());
        let connection = self.connection(socket)?;
        match connection.pipes[1 - side].read(&mut into[..length], now_us, acknowledges) {
            Arrival::Bytes(count) => {
                connection.ends[1 - side].writable.notify();
                self.counts.received_bytes += count as u64;
                Ok(Attempt::Done(count))
            }
            Arrival::End => Ok(Attempt::Done(0)),
            Arrival::Reset => Err(self.break_end(socket, io::ErrorKind::ConnectionReset)),
            Arrival::Nothing(next_us) => Ok(Attempt::Wait(earliest(next_us, given_up_us))),
        }
    }

    /// Writes at one end.
    pub(super) fn write(
        &mut self,
        socket: SocketPlace,
        bytes: &[u8],
        now_us: u64,
    ) -> io::Result<Attempt> {
        let SocketPlace { connection: number, side } = socket;
        let connection = self.connection(socket)?;
        let end = &connection.ends[side];
        if end.is_shut || end.is_broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let reset_us = connection.pipes[1 - side].reset_us();
        if reset_us.is_some_and(|it| it <= now_us) {
            return Err(self.break_end(socket, io::ErrorKind::ConnectionReset));
        }
        let given_up_us = self.check_silence(socket, now_us)?;
        let way = self.way(number, side);
        let link = self.link(way.0, way.1);
        if super::link::draw_one_in(&mut self.random, link.reset_one_in) {
            self.reset(number, now_us);
            return Err(self.break_end(socket, io::ErrorKind::ConnectionReset));
        }
        let room = self.connection(socket)?.pipes[side].room(link.buffer_bytes);
        if room == 0 {
            return Ok(Attempt::Wait(earliest(reset_us, given_up_us)));
        }
        let length = link.draw_part(&mut self.random, room.min(bytes.len()));
        let arrival_us = self.draw_arrival_us(way, length, now_us);
        let is_answered = self.is_open(way.1, way.0);
        let connection = self.connection(socket)?;
        let is_taken = connection.ends[1 - side].takes_bytes();
        // Bytes that nobody takes are sent again until there is a way back for the reset.
        let arrival_us = arrival_us.filter(|_| is_taken || is_answered);
        let pipe = &mut connection.pipes[side];
        if is_taken || arrival_us.is_none() {
            pipe.push(Payload::Bytes(bytes[..length].to_vec()), arrival_us);
        }
        if !is_answered || arrival_us.is_none() {
            pipe.stalled_since_us.get_or_insert(now_us);
        }
        match arrival_us {
            Some(arrival_us) if is_taken => {
                connection.ends[1 - side].readable.notify_at(arrival_us);
            }
            Some(arrival_us) => self.answer_with_reset(number, 1 - side, arrival_us),
            // A reader of this end may wait for an answer without a limit.
            None => connection.ends[side].readable.notify(),
        }
        self.counts.sent_bytes += length as u64;
        Ok(Attempt::Done(length))
    }

    /// The moment at which this end gives up a silent connection.
    ///
    /// # Errors
    /// It has come.
    fn check_silence(&mut self, socket: SocketPlace, now_us: u64) -> io::Result<Option<u64>> {
        let (from, to) = self.way(socket.connection, socket.side);
        let limit_us = self.link(from, to).give_up_us;
        let since_us = self.connection(socket)?.pipes[socket.side].stalled_since_us;
        let given_up_us = since_us.map(|it| it.saturating_add(limit_us));
        if given_up_us.is_some_and(|it| it <= now_us) {
            return Err(self.break_end(socket, io::ErrorKind::TimedOut));
        }
        Ok(given_up_us)
    }

    /// The connection has failed for one end, which is told now.
    fn break_end(&mut self, socket: SocketPlace, kind: io::ErrorKind) -> io::Error {
        match kind {
            io::ErrorKind::TimedOut => self.counts.given_up += 1,
            _ => self.counts.resets += 1,
        }
        if let Some(connection) = self.connections.get_mut(&socket.connection) {
            let end = &mut connection.ends[socket.side];
            end.is_broken = true;
            end.is_released = true;
            end.notify();
            connection.pipes[socket.side].lose_waiting();
        }
        kind.into()
    }

    /// Closes both directions of one end. The other end reads what was sent, and then the end.
    pub(super) fn shut(&mut self, socket: SocketPlace, now_us: u64) {
        let SocketPlace { connection: number, side } = socket;
        let Ok(connection) = self.connection(socket) else { return };
        if !connection.ends[side].takes_bytes() {
            // The connection is gone already, and its owner may not have been told: no reset gets
            // through a way that is cut. Its own threads come back all the same.
            connection.ends[side].is_shut = true;
            connection.ends[side].notify();
            return;
        }
        connection.ends[side].is_shut = true;
        let way = self.way(number, side);
        let arrival_us = self.draw_arrival_us(way, 0, now_us);
        let Ok(connection) = self.connection(socket) else { return };
        connection.pipes[side].push(Payload::End, arrival_us);
        connection.notify();
        // What is under way to an end that is closed finds nobody.
        if let Some(in_flight_us) = connection.pipes[1 - side].in_flight_us(now_us) {
            self.answer_with_reset(number, side, in_flight_us);
        }
    }

    /// A socket is closed by its owner's last handle, or by its system.
    pub(super) fn release(&mut self, socket: SocketPlace, now_us: u64) {
        let SocketPlace { connection: number, side } = socket;
        if self.connections[&number].ends[side].is_released {
            return;
        }
        if self.connections[&number].pipes[1 - side].has_arrived(now_us) {
            self.answer_with_reset(number, side, now_us);
        } else {
            self.shut(socket, now_us);
        }
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.ends[side].is_released = true;
            connection.pipes[1 - side].lose_arrived(now_us);
            connection.notify();
        }
    }

    /// A socket's host has lost power: what it had not sent is lost, and what it had not read.
    pub(super) fn silence(&mut self, socket: SocketPlace, now_us: u64) {
        if let Some(connection) = self.connections.get_mut(&socket.connection) {
            connection.ends[socket.side].is_released = true;
            connection.ends[socket.side].is_silent = true;
            connection.pipes[socket.side].lose_waiting();
            connection.pipes[1 - socket.side].lose_arrived(now_us);
        }
    }

    /// A host forgets its end of a connection, as one does whose table of connections was lost. The
    /// other end learns of it when it sends.
    pub(super) fn forget(&mut self, socket: SocketPlace, now_us: u64) {
        if let Some(connection) = self.connections.get_mut(&socket.connection) {
            connection.ends[socket.side].is_released = true;
            connection.pipes[1 - socket.side].lose_unarrived(now_us);
            connection.pipes[1 - socket.side].push(Payload::Reset, Some(now_us));
            connection.ends[socket.side].notify();
        }
    }

    /// Both ends of a connection are reset, from between.
    pub(super) fn reset(&mut self, number: u64, now_us: u64) {
        for side in [0, 1] {
            if let Some(connection) = self.connections.get_mut(&number) {
                connection.ends[side].is_released = true;
                connection.pipes[side].lose_unarrived(now_us);
            }
            self.answer_with_reset(number, side, now_us);
        }
    }

    /// The last handle of an end is dropped.
    pub(super) fn drop_handle(&mut self, socket: SocketPlace) {
        if let Some(connection) = self.connections.get_mut(&socket.connection) {
            connection.ends[socket.side].is_dropped = true;
            if connection.ends.iter().all(|it| it.is_dropped) {
                self.connections.remove(&socket.connection);
            }
        }
    }
}

/// The first of two moments, as far as there are any.
fn earliest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
