//! When the sender looks at which queue.
//!
//! Senders of records put queues in, at most once a chunk; the producer's thread takes out those that
//! are due, and sleeps until the next one is.

use std::{collections::BTreeSet, time::Duration};
use tidemill_env::lock::{Condvar, Mutex};

/// See the module.
#[derive(Default)]
pub(super) struct Schedule {
    state: Mutex<DueState>,
    bell: Condvar,
}

#[derive(Default)]
struct DueState {
    due: BTreeSet<(u64, usize)>,
    /// Until when the thread sleeps; 0 while it does not.
    sleeps_until_us: u64,
    rung: bool,
}

impl Schedule {
    /// Puts a queue in, in place of its entry `before`.
    pub(super) fn put(&self, queue: usize, due_us: u64, before: Option<u64>) {
        let mut state = self.state.lock();
        if let Some(before) = before {
            state.due.remove(&(before, queue));
        }
        state.due.insert((due_us, queue));
        if due_us < state.sleeps_until_us {
            state.rung = true;
            self.bell.notify_one();
        }
    }

    /// Wakes the thread: something has changed.
    pub(super) fn ring(&self) {
        self.state.lock().rung = true;
        self.bell.notify_one();
    }

    /// Begins a round of the thread: it looks at everything now, and later changes wake it again.
    pub(super) fn begin_turn(&self) {
        let mut state = self.state.lock();
        state.rung = false;
    }

    /// Takes out all queues that are due.
    pub(super) fn take_due(&self, now_us: u64, into: &mut Vec<usize>) {
        let mut state = self.state.lock();
        let later = state.due.split_off(&(now_us.saturating_add(1), 0));
        into.extend(std::mem::replace(&mut state.due, later).into_iter().map(|(_, queue)| queue));
    }

    /// Sleeps until a queue is due, it is rung, or `until_us`.
    pub(super) fn sleep(&self, now_us: u64, until_us: u64) {
        let mut state = self.state.lock();
        let first_us = state.due.first().map_or(u64::MAX, |(due_us, _)| *due_us);
        let until_us = until_us.min(first_us);
        if state.rung || until_us <= now_us {
            return;
        }
        state.sleeps_until_us = until_us;
        let wait = Duration::from_micros(until_us - now_us);
        state = self.bell.wait_timeout(state, wait).0;
        state.sleeps_until_us = 0;
    }
}
