//! A network in memory: hosts that listen, connect and die, and links that a test disturbs.
//!
//! ```text
//! SimNet ─ host("node-1") ─▶ Net of one process ─ listen, connect ─▶ Connection
//!    ├ links        latency, speed, loss, refused connects, resets: as the seed says
//!    ├ partition    one way or both: bytes wait, and arrive after `heal`
//!    ├ kill         the system of the host closes its sockets: the others read the end, or a reset
//!    ├ power cut    silence: nobody is told, until the host is back and answers with resets
//!    └ reset, forget    both ends, or one end: the other stays half-open until it sends
//! ```
//!
//! It behaves as TCP on Linux does, as far as programs see it:
//!
//! - Within a connection no byte is lost, doubled or overtaken: it arrives, late perhaps, or the
//!   connection fails. A prefix of the written bytes was read then.
//! - Buffers are bounded. Room is free again when the other end has read and its acknowledgement has
//!   come back, so a way that is cut stalls the other direction too, after a buffer of bytes.
//! - A failure is told once, to the reader or to the writer. After it the reader finds the end, which
//!   so is no proof that all was sent.
//! - A host answers by its name; `localhost` is the host itself, and no partition cuts that.
//! - In a simulation durations are those of the simulated clock; elsewhere those of the real one.
//!   The default link is [`SimLink::INSTANT`].
//!
//! A thread that waits for the network waits in the scheduler if it is a simulated one.

mod connection;
mod link;
mod pipe;
mod socket;
mod state;

pub use link::SimLink;
pub use state::SimNetCounts;

use super::signal::{Signal, hold};
use crate::{Clock, Net, real::RealClock};
use state::{HostIx, NetState, ProcessPlace};
use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

/// A network in memory. Clones share it.
///
/// A name of a host that is not known yet adds the host.
#[derive(Clone)]
pub struct SimNet {
    state: Arc<Mutex<NetState>>,
    clock: Arc<RealClock>,
}

/// In a simulation every operation is a moment at which others may go on.
#[track_caller]
fn pass(operation: &'static str) {
    #[cfg(debug_assertions)]
    if let Some(here) = super::schedule::here() {
        here.pass(operation);
    }
    let _ = operation;
}

impl SimNet {
    /// A network without hosts. The seed decides latencies, losses and resets.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: Arc::new(Mutex::new(NetState::new(seed))), clock: Arc::new(RealClock::new()) }
    }

    /// The network as a new process on a host has it: once the host is killed or loses power, this
    /// value and all its connections refuse everything.
    #[must_use]
    pub fn host(&self, name: &str) -> Arc<dyn Net> {
        let mut state = self.state();
        let host = state.add_host(name);
        let process = ProcessPlace { host, life: state.hosts[host.0].life };
        drop(state);
        Arc::new(socket::HostNet { net: self.clone(), process })
    }

    /// The settings of all links that have none of their own.
    pub fn set_links(&self, link: SimLink) {
        self.state().default_link = link;
    }

    /// The settings of the link from one host to another, for what is sent from now on.
    pub fn set_link(&self, from: &str, to: &str, link: SimLink) {
        let mut state = self.state();
        let way = (state.add_host(from), state.add_host(to));
        state.links.insert(way, link);
    }

    /// Cuts the way from one host to another. The way back stays.
    pub fn partition(&self, from: &str, to: &str) {
        pass("partition");
        let mut state = self.state();
        let way = (state.add_host(from), state.add_host(to));
        state.cut.insert(way);
        state.stall(self.now_us());
    }

    /// Cuts all ways to and from a host, as pulling its cable does.
    pub fn unplug(&self, host: &str) {
        pass("unplug");
        let mut state = self.state();
        let host = state.add_host(host);
        state.hosts[host.0].is_unplugged = true;
        state.stall(self.now_us());
    }

    /// Opens the way from one host to another, unless one of them is unplugged.
    pub fn heal_way(&self, from: &str, to: &str) {
        pass("heal");
        let mut state = self.state();
        let way = (state.add_host(from), state.add_host(to));
        state.cut.remove(&way);
        state.resume(self.now_us());
    }

    /// Opens all ways. Hosts without power stay so.
    pub fn heal(&self) {
        pass("heal");
        let mut state = self.state();
        state.cut.clear();
        state.hosts.iter_mut().for_each(|it| it.is_unplugged = false);
        state.resume(self.now_us());
    }

    /// Kills the processes on a host as SIGKILL does. Its system sends what they had written, and
    /// closes their connections.
    pub fn kill(&self, host: &str) {
        pass("kill");
        self.kill_now(host);
    }

    /// As [`Self::kill`], without a moment at which others may go on.
    pub(super) fn kill_now(&self, host: &str) {
        let mut state = self.state();
        let host = state.add_host(host);
        state.kill(host, self.now_us());
    }

    /// Cuts the power of a host: its processes are dead, and it is silent until [`Self::power_on`].
    pub fn power_cut(&self, host: &str) {
        self.change_host("power cut", host, |state, host, now_us| state.cut_power(host, now_us));
    }

    /// Gives a host its power back. It knows nothing of its earlier connections, and answers what
    /// arrives for them with resets.
    pub fn power_on(&self, host: &str) {
        self.change_host("power on", host, |state, host, now_us| {
            state.hosts[host.0].has_power = true;
            state.resume(now_us);
        });
    }

    /// True unless a host's power was cut.
    #[cfg(debug_assertions)]
    pub(super) fn has_power(&self, host: &str) -> bool {
        let state = self.state();
        state.find_host(host).is_none_or(|it| state.hosts[it.0].has_power)
    }

    /// Resets all connections between two hosts, from between: each end is told that can be reached.
    pub fn reset(&self, one: &str, other: &str) {
        let other = self.state().add_host(other);
        self.change_host("reset", one, |state, one, now_us| {
            for socket in state.sockets(|it| it.host == one) {
                if state.way(socket.connection, socket.side).1 == other {
                    state.reset(socket.connection, now_us);
                }
            }
        });
    }

    /// Resets the end that a host has of its connections to another one. The other end is not told:
    /// it is half-open until it sends.
    pub fn forget(&self, host: &str, peer: &str) {
        let peer = self.state().add_host(peer);
        self.change_host("forget", host, |state, host, now_us| {
            for socket in state.sockets(|it| it.host == host) {
                if state.way(socket.connection, socket.side).1 == peer {
                    state.forget(socket, now_us);
                }
            }
        });
    }

    /// Counts of the events so far.
    #[must_use]
    pub fn counts(&self) -> SimNetCounts {
        self.state().counts
    }

    #[track_caller]
    fn change_host(
        &self,
        operation: &'static str,
        host: &str,
        change: impl FnOnce(&mut NetState, HostIx, u64),
    ) {
        pass(operation);
        let mut state = self.state();
        let host = state.add_host(host);
        change(&mut state, host, self.now_us());
    }

    fn state(&self) -> MutexGuard<'_, NetState> {
        hold(&self.state)
    }

    fn now_us(&self) -> u64 {
        #[cfg(debug_assertions)]
        if let Some(here) = super::schedule::here() {
            return here.now_us();
        }
        self.clock.monotonic_micros()
    }

    /// Waits for a signal, until a moment at most.
    fn wait<'a>(
        &'a self,
        state: MutexGuard<'a, NetState>,
        signal: &Signal,
        until_us: Option<u64>,
    ) -> MutexGuard<'a, NetState> {
        let now_us = self.now_us();
        let span = until_us.map(|it| Duration::from_micros(it.saturating_sub(now_us)));
        signal.wait(&self.state, state, span)
    }
}

#[cfg(test)]
mod tests;
