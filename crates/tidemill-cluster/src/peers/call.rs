//! A call from the caller's side: it waits for its outcome until its deadline.

use super::{PeersState, link_state::PeerLink};
use crate::CallError;
use std::{fmt, sync::Arc, time::Duration};
use tidemill_env::lock::{Condvar, Mutex};
use tidemill_types::Incarnation;

/// A call that is to be made.
pub(super) struct NewCall {
    pub(super) kind: u16,
    pub(super) incarnation: Incarnation,
    pub(super) body: Vec<u8>,
    pub(super) timeout: Duration,
}

/// The answer's body, or the fault.
pub(super) type CallOutcome = Result<Vec<u8>, CallError>;

/// The place where the outcome of a call is put, once.
#[derive(Debug, Default)]
pub(super) struct CallSlot {
    outcome: Mutex<Option<CallOutcome>>,
    done: Condvar,
}

impl CallSlot {
    pub(super) fn finish(&self, outcome: CallOutcome) {
        *self.outcome.lock() = Some(outcome);
        self.done.notify_all();
    }
}

/// A call whose answer was not waited for yet. Dropped, its answer is of no interest.
pub struct PendingCall {
    pub(super) state: Arc<PeersState>,
    pub(super) link: Arc<PeerLink>,
    pub(super) slot: Arc<CallSlot>,
    pub(super) correlation: u64,
    pub(super) deadline_us: u64,
    pub(super) timeout: Duration,
}

impl PendingCall {
    /// Waits for the answer until the call's deadline.
    ///
    /// # Errors
    /// As [`super::Peers::call`].
    pub fn wait(self) -> Result<Vec<u8>, CallError> {
        let outcome = self.wait_for_outcome();
        if outcome.is_err() {
            self.state.options.metrics.calls_failed.increment();
        }
        outcome
    }

    fn wait_for_outcome(&self) -> CallOutcome {
        let clock = &self.state.world.clock;
        let mut is_forgotten = false;
        let mut outcome = self.slot.outcome.lock();
        loop {
            if let Some(outcome) = outcome.take() {
                return outcome;
            }
            let left = self.deadline_us.saturating_sub(clock.monotonic_micros());
            if left > 0 {
                outcome = self.slot.done.wait_timeout(outcome, Duration::from_micros(left)).0;
            } else if is_forgotten {
                // Another thread has taken the call out to finish it, and does so now.
                outcome = self.slot.done.wait(outcome);
            } else {
                drop(outcome);
                if let Some(was_sent) = self.link.forget(self.correlation) {
                    return Err(self.link.timed_out(self.timeout, was_sent));
                }
                is_forgotten = true;
                outcome = self.slot.outcome.lock();
            }
        }
    }
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        self.link.forget(self.correlation);
    }
}

impl fmt::Debug for PendingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingCall")
            .field("correlation", &self.correlation)
            .finish_non_exhaustive()
    }
}
