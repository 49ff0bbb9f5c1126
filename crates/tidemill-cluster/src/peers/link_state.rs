//! The state of a link: calls that wait to be sent, calls that wait for answers, the back-off.
//!
//! Invariant: a call is in `waiting` until it has an outcome or its caller leaves, and its outcome is
//! put by the thread that took it out of there. So each call has one outcome.

use super::{
    PeersState,
    call::{CallOutcome, CallSlot, NewCall, PendingCall},
};
use crate::{CallError, ClusterLimits, deadline::Closer, limits::micros};
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::Duration,
};
use tidemill_env::lock::{Condvar, Mutex};
use tidemill_types::{Incarnation, NodeId};

/// A call that is not sent yet.
pub(super) struct QueuedCall {
    pub(super) correlation: u64,
    pub(super) kind: u16,
    pub(super) incarnation: Incarnation,
    pub(super) body: Vec<u8>,
    pub(super) deadline_us: u64,
}

struct WaitingCall {
    slot: Arc<CallSlot>,
    was_sent: bool,
}

/// The pause after a connect that failed.
struct BackOff {
    until_us: u64,
    error: CallError,
}

/// The link to one node at one address.
pub(crate) struct PeerLink {
    pub(super) node: NodeId,
    pub(super) address: String,
    limits: ClusterLimits,
    state: Mutex<LinkState>,
    /// For the link's thread: there is something to do.
    work: Condvar,
    /// For callers: there is room in the queue.
    room: Condvar,
}

#[derive(Default)]
struct LinkState {
    queue: VecDeque<QueuedCall>,
    queued_bytes: usize,
    waiting: BTreeMap<u64, WaitingCall>,
    next: u64,
    closer: Option<Closer>,
    /// The fault that ended the present connection.
    end: Option<String>,
    back_off: Option<BackOff>,
    failures: u32,
    is_stopped: bool,
    has_ended: bool,
}

/// The next thing for the thread of a link to do.
pub(super) enum LinkWork {
    /// Calls to send, in their order. May be empty.
    Send(Vec<QueuedCall>),
    /// Nothing came for a heartbeat's time.
    Heartbeat,
    /// The connection has ended, for this reason.
    End(String),
    /// The link is to be closed.
    Stop,
}

/// Most calls that are sent at once.
const BATCH_MAX: usize = 64;

impl PeerLink {
    pub(super) fn new(node: NodeId, address: String, limits: ClusterLimits) -> Self {
        Self {
            node,
            address,
            limits,
            state: Mutex::default(),
            work: Condvar::new(),
            room: Condvar::new(),
        }
    }

    /// Puts a call into the queue. Waits for room until the call's deadline.
    pub(super) fn enqueue(
        link: &Arc<Self>,
        shared: &Arc<PeersState>,
        call: NewCall,
    ) -> Result<PendingCall, CallError> {
        let NewCall { kind, incarnation, body, timeout } = call;
        let clock = &shared.world.clock;
        let deadline_us = clock.monotonic_micros().saturating_add(micros(timeout));
        let mut state = link.state.lock();
        loop {
            if state.is_stopped {
                return Err(CallError::Stopped);
            }
            let now = clock.monotonic_micros();
            if let Some(back_off) = state.back_off.as_ref().filter(|it| now < it.until_us) {
                return Err(back_off.error.clone());
            }
            let is_over = state.queued_bytes + body.len() > link.limits.queue_bytes_max;
            let is_full =
                state.queue.len() >= link.limits.queue_max || (is_over && !state.queue.is_empty());
            if !is_full {
                break;
            }
            if now >= deadline_us {
                return Err(link.timed_out(timeout, false));
            }
            let left = Duration::from_micros(deadline_us - now);
            state = link.room.wait_timeout(state, left).0;
        }
        let correlation = state.next;
        state.next += 1;
        let slot = Arc::new(CallSlot::default());
        let waiting = WaitingCall { slot: Arc::clone(&slot), was_sent: false };
        state.waiting.insert(correlation, waiting);
        state.queued_bytes += body.len();
        state.queue.push_back(QueuedCall { correlation, kind, incarnation, body, deadline_us });
        link.work.notify_all();
        drop(state);
        let (state, link) = (Arc::clone(shared), Arc::clone(link));
        Ok(PendingCall { state, link, slot, correlation, deadline_us, timeout })
    }

    pub(super) fn timed_out(&self, timeout: Duration, was_sent: bool) -> CallError {
        CallError::TimedOut { node: self.node, address: self.address.clone(), timeout, was_sent }
    }

    pub(super) fn lost(&self, reason: &str) -> CallError {
        let (node, address) = (self.node, self.address.clone());
        CallError::Lost { node, address, reason: reason.to_owned() }
    }

    /// Takes a call out whose caller waits no more. None if it has its outcome, or is about to get
    /// it; else true if it was sent.
    pub(super) fn forget(&self, correlation: u64) -> Option<bool> {
        let mut state = self.state.lock();
        let call = state.waiting.remove(&correlation)?;
        if !call.was_sent
            && let Some(place) = state.queue.iter().position(|it| it.correlation == correlation)
            && let Some(queued) = state.queue.remove(place)
        {
            state.queued_bytes -= queued.body.len();
            self.room.notify_all();
        }
        Some(call.was_sent)
    }

    /// Gives a call its outcome. False if its caller waits no more.
    pub(super) fn finish(&self, correlation: u64, outcome: CallOutcome) -> bool {
        let call = self.state.lock().waiting.remove(&correlation);
        call.map(|it| it.slot.finish(outcome)).is_some()
    }

    /// Waits for a call, and for the end of the back-off. False once the link is to be closed.
    pub(super) fn wait_for_call(&self, shared: &PeersState) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.is_stopped {
                return false;
            }
            let now = shared.world.clock.monotonic_micros();
            let pause = state.back_off.as_ref().map_or(0, |it| it.until_us.saturating_sub(now));
            if state.queue.is_empty() {
                state = self.work.wait(state);
            } else if pause > 0 {
                state = self.work.wait_timeout(state, Duration::from_micros(pause)).0;
            } else {
                return true;
            }
        }
    }

    /// A connection is being made, and can be closed by [`Self::stop`]. False if it is to be closed
    /// at once.
    pub(super) fn begin_connection(&self, closer: Closer) -> bool {
        let mut state = self.state.lock();
        state.end = None;
        state.closer = Some(closer);
        !state.is_stopped
    }

    /// No connection came about: all calls end with the error, and the link backs off.
    pub(super) fn fail_connect(&self, shared: &PeersState, error: &CallError) {
        let mut state = self.state.lock();
        state.closer = None;
        self.back_off(&mut state, shared, error.clone());
        let waiting = std::mem::take(&mut state.waiting);
        state.queue.clear();
        state.queued_bytes = 0;
        self.room.notify_all();
        drop(state);
        waiting.into_values().for_each(|it| it.slot.finish(Err(error.clone())));
    }

    fn back_off(&self, state: &mut LinkState, shared: &PeersState, error: CallError) {
        let now = shared.world.clock.monotonic_micros();
        let doubled = micros(self.limits.back_off_min) << state.failures.min(20);
        let span = doubled.min(micros(self.limits.back_off_max));
        state.failures += 1;
        // Half of it is random, so that nodes that lost one peer do not come back all at once.
        let seed = (u64::from(self.node.0.cast_unsigned()) << 32) ^ u64::from(state.failures) ^ now;
        let span = span / 2 + shared.world.random(seed).below(span / 2 + 1);
        state.back_off = Some(BackOff { until_us: now.saturating_add(span), error });
    }

    /// A genuine frame came: the connection is good.
    pub(super) fn note_frame(&self) {
        let mut state = self.state.lock();
        state.failures = 0;
        state.back_off = None;
    }

    /// The connection has ended. The first reason counts.
    pub(super) fn note_end(&self, reason: String) {
        self.state.lock().end.get_or_insert(reason);
        self.work.notify_all();
    }

    /// The next thing to do on the present connection.
    pub(super) fn take_work(&self) -> LinkWork {
        let mut state = self.state.lock();
        let mut is_late = false;
        loop {
            if state.is_stopped {
                return LinkWork::Stop;
            }
            if let Some(end) = state.end.clone() {
                return LinkWork::End(end);
            }
            if !state.queue.is_empty() {
                return LinkWork::Send(self.take_calls(&mut state));
            }
            if is_late {
                return LinkWork::Heartbeat;
            }
            (state, is_late) = self.work.wait_timeout(state, self.limits.heartbeat);
        }
    }

    fn take_calls(&self, state: &mut LinkState) -> Vec<QueuedCall> {
        let count = state.queue.len().min(BATCH_MAX);
        let calls: Vec<_> = state.queue.drain(..count).collect();
        for call in &calls {
            state.queued_bytes -= call.body.len();
            if let Some(waiting) = state.waiting.get_mut(&call.correlation) {
                waiting.was_sent = true;
            }
        }
        self.room.notify_all();
        calls
    }

    /// The connection is over: calls that were sent are lost, the others wait for the next one.
    /// Without a single frame on it, it counts as a failed connect.
    pub(super) fn end_connection(&self, shared: &PeersState, reason: &str, was_good: bool) {
        let mut state = self.state.lock();
        state.closer = None;
        let sent: Vec<u64> =
            state.waiting.iter().filter(|(_, it)| it.was_sent).map(|(it, _)| *it).collect();
        let lost: Vec<_> = sent.iter().filter_map(|it| state.waiting.remove(it)).collect();
        let error = self.lost(reason);
        if !was_good {
            let (node, address, reason) = (self.node, self.address.clone(), reason.to_owned());
            self.back_off(&mut state, shared, CallError::Unreachable { node, address, reason });
        }
        drop(state);
        lost.into_iter().for_each(|it| it.slot.finish(Err(error.clone())));
    }

    /// True if nobody waits for anything: the link may be closed.
    pub(super) fn is_idle(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    /// Closes the link: its thread ends soon.
    pub(super) fn stop(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        let closer = state.closer.clone();
        self.work.notify_all();
        self.room.notify_all();
        drop(state);
        if let Some(closer) = closer {
            closer();
        }
    }

    /// The thread ends: so do all calls.
    pub(super) fn end(&self) {
        let mut state = self.state.lock();
        state.is_stopped = true;
        state.has_ended = true;
        let waiting = std::mem::take(&mut state.waiting);
        state.queue.clear();
        self.room.notify_all();
        drop(state);
        for call in waiting.into_values() {
            let error =
                if call.was_sent { self.lost("this node is stopping") } else { CallError::Stopped };
            call.slot.finish(Err(error));
        }
    }

    /// True once the thread has ended, or is about to.
    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().has_ended
    }
}
