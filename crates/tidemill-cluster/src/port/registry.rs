//! The connections of a port: strangers, nodes, and the threads of both.

use crate::{ClusterLimits, deadline::Closer, outbox::Outbox};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};
use tidemill_env::{Thread, lock::Mutex};
use tidemill_types::NodeId;
use tidemill_wire::cluster::Refusal;

/// All connections of a port, by number in the order of their coming.
pub(crate) struct ConnectionRegistry {
    limits: ClusterLimits,
    state: Mutex<RegistryState>,
}

#[derive(Default)]
struct RegistryState {
    next: u64,
    unproven: VecDeque<(u64, Closer)>,
    proven: BTreeMap<u64, ProvenEntry>,
    threads: BTreeMap<u64, Box<dyn Thread>>,
    /// Connections whose threads have ended, or are about to.
    ended: Vec<u64>,
}

struct ProvenEntry {
    node: NodeId,
    closer: Closer,
    outbox: Arc<Outbox>,
}

impl ConnectionRegistry {
    pub(crate) fn new(limits: ClusterLimits) -> Self {
        Self { limits, state: Mutex::default() }
    }

    /// Numbers a new connection. At the limit of strangers, the oldest of them comes back, to be
    /// closed.
    pub(crate) fn add_unproven(&self, closer: Closer) -> (u64, Option<Closer>) {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        let is_full = state.unproven.len() >= self.limits.unproven_max;
        let oldest = if is_full { state.unproven.pop_front() } else { None };
        state.unproven.push_back((number, closer));
        (number, oldest.map(|(_, closer)| closer))
    }

    /// A stranger has proven to be a node.
    ///
    /// # Errors
    /// There are as many connections as there may be.
    pub(crate) fn prove(
        &self,
        number: u64,
        node: NodeId,
        outbox: Arc<Outbox>,
    ) -> Result<(), Refusal> {
        let mut state = self.state.lock();
        let Some(place) = state.unproven.iter().position(|(it, _)| *it == number) else {
            // It was closed for a newer stranger at this very moment.
            return Err(Refusal::Busy);
        };
        let of_node: Vec<u64> =
            state.proven.iter().filter(|(_, it)| it.node == node).map(|(it, _)| *it).collect();
        let is_over_own = of_node.len() >= self.limits.connections_of_node_max;
        if !is_over_own && state.proven.len() >= self.limits.connections_max {
            return Err(Refusal::Busy);
        }
        let (_, closer) = state.unproven.remove(place).ok_or(Refusal::Busy)?;
        let oldest = of_node.first().filter(|_| is_over_own).and_then(|it| state.proven.remove(it));
        state.proven.insert(number, ProvenEntry { node, closer, outbox });
        drop(state);
        if let Some(oldest) = oldest {
            oldest.outbox.close();
            (oldest.closer)();
        }
        Ok(())
    }

    /// Keeps the thread of a connection, to be waited for.
    pub(crate) fn keep_thread(&self, number: u64, thread: Box<dyn Thread>) {
        self.state.lock().threads.insert(number, thread);
    }

    /// Forgets a connection.
    pub(crate) fn remove(&self, number: u64) {
        let mut state = self.state.lock();
        state.unproven.retain(|(it, _)| *it != number);
        state.proven.remove(&number);
    }

    /// The thread of a connection is about to end.
    pub(crate) fn end(&self, number: u64) {
        self.state.lock().ended.push(number);
    }

    /// Waits for threads that have ended.
    pub(crate) fn join_ended(&self) {
        let mut state = self.state.lock();
        // A thread may end before its handle is kept: it is waited for in a later round.
        let ended = std::mem::take(&mut state.ended);
        let mut threads = Vec::new();
        for number in ended {
            match state.threads.remove(&number) {
                Some(thread) => threads.push(thread),
                None => state.ended.push(number),
            }
        }
        drop(state);
        threads.into_iter().for_each(Thread::join);
    }

    /// Waits for all threads.
    pub(crate) fn join_all(&self) {
        let threads = std::mem::take(&mut self.state.lock().threads);
        threads.into_values().for_each(Thread::join);
    }

    /// Closes strangers at once, and nodes' connections once their answers are written.
    pub(crate) fn close_all(&self) {
        let mut state = self.state.lock();
        let strangers = std::mem::take(&mut state.unproven);
        let outboxes: Vec<_> = state.proven.values().map(|it| Arc::clone(&it.outbox)).collect();
        drop(state);
        strangers.into_iter().for_each(|(_, closer)| closer());
        outboxes.into_iter().for_each(|it| it.close());
    }
}
