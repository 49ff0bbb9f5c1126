//! The state of the network: hosts, links, listeners, connections.
//!
//! Everything here is a plain function of the state and a moment. Nothing here waits.

use super::{
    connection::{ConnectionState, SocketPlace},
    link::SimLink,
    pipe::Payload,
};
use crate::{Random, sim::signal::Signal};
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
};

/// Connections that a listener holds before they are accepted.
pub(super) const BACKLOG_MAX: usize = 128;

/// The first port that is chosen for a listener at port 0.
pub(super) const FIRST_FREE_PORT: u16 = 32_768;

/// A host by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostIx(pub(super) usize);

/// A process on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ProcessPlace {
    pub(super) host: HostIx,
    pub(super) life: u64,
}

pub(super) struct HostState {
    pub(super) name: String,
    /// The number of kills and power cuts: handles of an earlier life are refused.
    pub(super) life: u64,
    pub(super) has_power: bool,
    pub(super) is_unplugged: bool,
    next_port: u16,
}

/// The addresses of its host that a listener answers at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ListenScope {
    All,
    Name,
    Loopback,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListenPlace {
    pub(super) host: HostIx,
    pub(super) port: u16,
    pub(super) scope: ListenScope,
}

pub(super) struct ListenerState {
    /// A later listener at the same place is another one.
    pub(super) number: u64,
    pub(super) life: u64,
    /// Connections with the moments from which on they can be accepted.
    pub(super) backlog: Vec<(u64, SocketPlace)>,
    pub(super) arrival: Arc<Signal>,
}

/// Counts of the events of a network since it was new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimNetCounts {
    /// Connections opened.
    pub connections: u64,
    /// Connects that were refused.
    pub refusals: u64,
    /// Connects that took too long.
    pub timeouts: u64,
    /// Resets that an end was told of.
    pub resets: u64,
    /// Connections given up because the other end was silent.
    pub given_up: u64,
    /// Bytes that writers handed over.
    pub sent_bytes: u64,
    /// Bytes that readers got.
    pub received_bytes: u64,
}

pub(super) struct NetState {
    pub(super) random: Random,
    pub(super) hosts: Vec<HostState>,
    /// Ways that are cut.
    pub(super) cut: BTreeSet<(HostIx, HostIx)>,
    pub(super) default_link: SimLink,
    pub(super) links: BTreeMap<(HostIx, HostIx), SimLink>,
    /// The moment at which a link of limited speed has sent all it was given.
    free_at_us: BTreeMap<(HostIx, HostIx), u64>,
    pub(super) listeners: BTreeMap<ListenPlace, ListenerState>,
    pub(super) connections: BTreeMap<u64, ConnectionState>,
    next_number: u64,
    /// Hosts or links have changed: those that connect look again.
    pub(super) change: Arc<Signal>,
    pub(super) counts: SimNetCounts,
}

pub(super) fn dead() -> io::Error {
    io::Error::other("the process that opened this is dead")
}

impl NetState {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::new(Random::new(seed).next() ^ 0x6e65_7477),
            hosts: Vec::new(),
            cut: BTreeSet::new(),
            default_link: SimLink::INSTANT,
            links: BTreeMap::new(),
            free_at_us: BTreeMap::new(),
            listeners: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_number: 0,
            change: Arc::default(),
            counts: SimNetCounts::default(),
        }
    }

    /// A number that nothing else of this network has.
    pub(super) fn draw_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    pub(super) fn find_host(&self, name: &str) -> Option<HostIx> {
        self.hosts.iter().position(|it| it.name == name).map(HostIx)
    }

    /// The host of this name; it is added if it is new.
    pub(super) fn add_host(&mut self, name: &str) -> HostIx {
        self.find_host(name).unwrap_or_else(|| {
            self.hosts.push(HostState {
                name: name.to_owned(),
                life: 0,
                has_power: true,
                is_unplugged: false,
                next_port: FIRST_FREE_PORT,
            });
            HostIx(self.hosts.len() - 1)
        })
    }

    /// # Errors
    /// The process was killed, or its host has lost power.
    pub(super) fn check_alive(&self, process: ProcessPlace) -> io::Result<()> {
        if self.hosts[process.host.0].life == process.life { Ok(()) } else { Err(dead()) }
    }

    /// True if segments get from one host to the other.
    pub(super) fn is_open(&self, from: HostIx, to: HostIx) -> bool {
        let (of, at) = (&self.hosts[from.0], &self.hosts[to.0]);
        let is_cut = of.is_unplugged || at.is_unplugged || self.cut.contains(&(from, to));
        of.has_power && at.has_power && (from == to || !is_cut)
    }

    /// True if segments get from each of the two to the other.
    pub(super) fn is_open_both_ways(&self, one: HostIx, other: HostIx) -> bool {
        self.is_open(one, other) && self.is_open(other, one)
    }

    pub(super) fn link(&self, from: HostIx, to: HostIx) -> SimLink {
        if from == to {
            return SimLink::WITHIN;
        }
        self.links.get(&(from, to)).copied().unwrap_or(self.default_link)
    }

    /// The arrival of a segment that is sent now; none: there is no way.
    pub(super) fn draw_arrival_us(
        &mut self,
        (from, to): (HostIx, HostIx),
        length: usize,
        now_us: u64,
    ) -> Option<u64> {
        if !self.is_open(from, to) {
            return None;
        }
        let link = self.link(from, to);
        let mut sent_us = now_us;
        let work = (length as u64).saturating_mul(1_000_000);
        if let Some(takes_us) = work.checked_div(link.bytes_per_second) {
            let free_at_us = self.free_at_us.entry((from, to)).or_default();
            *free_at_us = now_us.max(*free_at_us) + takes_us;
            sent_us = *free_at_us;
        }
        Some(sent_us + link.draw_latency_us(&mut self.random))
    }

    /// Takes a place to listen at; port 0: a free one is chosen.
    pub(super) fn listen(
        &mut self,
        process: ProcessPlace,
        scope: ListenScope,
        port: u16,
    ) -> io::Result<(ListenPlace, u64)> {
        self.check_alive(process)?;
        let host = process.host;
        let is_taken = |state: &Self, port: u16| {
            state.listeners.keys().any(|it| {
                let overlaps = it.scope == scope || [it.scope, scope].contains(&ListenScope::All);
                (it.host, it.port) == (host, port) && overlaps
            })
        };
        let port = if port == 0 {
            let first = self.hosts[host.0].next_port;
            let mut free = (first..=u16::MAX).chain(FIRST_FREE_PORT..first);
            let port = free.find(|it| !is_taken(self, *it)).ok_or(io::ErrorKind::AddrInUse)?;
            self.hosts[host.0].next_port = port.checked_add(1).unwrap_or(FIRST_FREE_PORT);
            port
        } else {
            port
        };
        if is_taken(self, port) {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "the address is taken"));
        }
        let place = ListenPlace { host, port, scope };
        let (number, life) = (self.draw_number(), process.life);
        let listener = ListenerState { number, life, backlog: Vec::new(), arrival: Arc::default() };
        self.listeners.insert(place, listener);
        Ok((place, number))
    }

    /// The listener that answers at a port of a host.
    pub(super) fn find_listener(
        &mut self,
        host: HostIx,
        port: u16,
        is_loopback: bool,
    ) -> Option<&mut ListenerState> {
        let own = if is_loopback { ListenScope::Loopback } else { ListenScope::Name };
        let places = [own, ListenScope::All].map(|scope| ListenPlace { host, port, scope });
        let place = places.into_iter().find(|it| self.listeners.contains_key(it))?;
        self.listeners.get_mut(&place)
    }

    /// A listener is gone: connections that it has not accepted are reset.
    pub(super) fn close_listener(&mut self, place: ListenPlace, number: u64, now_us: u64) {
        if self.listeners.get(&place).is_none_or(|it| it.number != number) {
            return;
        }
        let Some(listener) = self.listeners.remove(&place) else { return };
        listener.arrival.notify();
        for (_, socket) in listener.backlog {
            self.answer_with_reset(socket.connection, socket.side, now_us);
            self.release(socket, now_us);
            self.drop_handle(socket);
        }
    }

    /// A host's processes end as by SIGKILL: its system closes their sockets.
    pub(super) fn kill(&mut self, host: HostIx, now_us: u64) {
        self.end_life(host, now_us, |state, socket| state.release(socket, now_us));
    }

    /// A host falls silent: nothing is closed, and others are told nothing.
    pub(super) fn cut_power(&mut self, host: HostIx, now_us: u64) {
        self.hosts[host.0].has_power = false;
        self.end_life(host, now_us, |state, socket| state.silence(socket, now_us));
        self.stall(now_us);
    }

    fn end_life(&mut self, host: HostIx, now_us: u64, mut end: impl FnMut(&mut Self, SocketPlace)) {
        let listeners = self.listeners.iter().filter(|(place, _)| place.host == host);
        let listeners: Vec<_> = listeners.map(|(place, it)| (*place, it.number)).collect();
        for socket in self.sockets(|it| it.host == host) {
            end(self, socket);
        }
        for (place, number) in listeners {
            self.close_listener(place, number, now_us);
        }
        self.hosts[host.0].life += 1;
        for connection in self.connections.values() {
            let ends = connection.ends.iter().filter(|it| it.process.host == host);
            ends.for_each(|it| it.notify());
        }
        self.change.notify();
    }

    /// The open sockets of some processes.
    pub(super) fn sockets(&self, is_asked_for: impl Fn(ProcessPlace) -> bool) -> Vec<SocketPlace> {
        let mut sockets = Vec::new();
        for (&connection, it) in &self.connections {
            for side in [0, 1] {
                let end = &it.ends[side];
                if !end.is_released && is_asked_for(end.process) {
                    sockets.push(SocketPlace { connection, side });
                }
            }
        }
        sockets
    }

    /// After ways were cut: what is in flight on them waits.
    pub(super) fn stall(&mut self, now_us: u64) {
        for number in self.connections.keys().copied().collect::<Vec<_>>() {
            for side in [0, 1] {
                let (from, to) = self.way(number, side);
                let (is_open, is_answered) = (self.is_open(from, to), self.is_open(to, from));
                let Some(connection) = self.connections.get_mut(&number) else { continue };
                if connection.ends[side].is_silent {
                    continue;
                }
                let pipe = &mut connection.pipes[side];
                let is_flying = pipe.in_flight_us(now_us).is_some();
                if !is_open {
                    pipe.stall(now_us);
                }
                if is_flying && !(is_open && is_answered) {
                    pipe.stalled_since_us.get_or_insert(now_us);
                }
                connection.notify();
            }
        }
        self.change.notify();
    }

    /// After ways were opened: what waited for them goes on.
    pub(super) fn resume(&mut self, now_us: u64) {
        for number in self.connections.keys().copied().collect::<Vec<_>>() {
            for side in [0, 1] {
                self.resume_pipe(number, side, now_us);
            }
        }
        self.change.notify();
    }

    fn resume_pipe(&mut self, number: u64, side: usize, now_us: u64) {
        let (from, to) = self.way(number, side);
        let resend_us = self.link(from, to).resend_us;
        let sent_us = now_us + self.random.below(resend_us + 1);
        let Some(arrival_us) = self.draw_arrival_us((from, to), 0, sent_us) else { return };
        let is_answered = self.is_open(to, from);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let is_taken = connection.ends[1 - side].takes_bytes();
        let pipe = &mut connection.pipes[side];
        let had_waiting = pipe.has_waiting();
        if is_taken {
            pipe.resume(arrival_us);
        } else {
            pipe.lose_waiting();
        }
        if is_answered {
            pipe.acknowledge();
        }
        connection.notify();
        if had_waiting && !is_taken {
            self.answer_with_reset(number, 1 - side, arrival_us);
        }
    }

    /// The hosts that a direction of a connection leads from and to.
    pub(super) fn way(&self, number: u64, side: usize) -> (HostIx, HostIx) {
        let ends = &self.connections[&number].ends;
        (ends[side].process.host, ends[1 - side].process.host)
    }

    /// The system of a socket that is gone answers what arrives there at this moment. Without a way
    /// back the other end is told nothing, and stays half-open.
    pub(super) fn answer_with_reset(&mut self, number: u64, side: usize, moment_us: u64) {
        let way = self.way(number, side);
        if self.connections[&number].pipes[side].reset_us().is_some() {
            return;
        }
        let Some(arrival_us) = self.draw_arrival_us(way, 0, moment_us) else { return };
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.pipes[side].lose_waiting();
        connection.pipes[side].push(Payload::Reset, Some(arrival_us));
        connection.ends[1 - side].notify_at(arrival_us);
    }
}
