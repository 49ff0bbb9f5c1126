//! The producer's buffer as a number: bytes that may be taken, given back and waited for.

use std::time::Duration;
use tidemill_env::lock::{Condvar, Mutex};

/// See the module.
pub(super) struct BufferBudget {
    max: usize,
    state: Mutex<BudgetState>,
    freed: Condvar,
}

#[derive(Default)]
struct BudgetState {
    used: usize,
    /// Grows with each time that bytes are given back.
    freed: u64,
    waiting: usize,
}

impl BufferBudget {
    pub(super) fn new(max: usize) -> Self {
        Self { max, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Takes bytes if there are enough; a chunk longer than the whole buffer may have all of it.
    pub(super) fn try_take(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        if state.used > 0 && state.used.saturating_add(bytes) > self.max {
            return false;
        }
        state.used += bytes;
        true
    }

    pub(super) fn give(&self, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let mut state = self.state.lock();
        state.used = state.used.saturating_sub(bytes);
        state.freed += 1;
        if state.waiting > 0 {
            self.freed.notify_all();
        }
    }

    /// Bytes that are taken, and how often some were given back.
    pub(super) fn used(&self) -> (usize, u64) {
        let state = self.state.lock();
        (state.used, state.freed)
    }

    /// Waits until bytes are given back after `freed` times, or time is up.
    pub(super) fn wait(&self, freed: u64, patience: Duration) {
        let mut state = self.state.lock();
        if state.freed != freed {
            return;
        }
        state.waiting += 1;
        state = self.freed.wait_timeout(state, patience).0;
        state.waiting -= 1;
    }

    /// Wakes all waiting threads.
    pub(super) fn wake(&self) {
        let mut state = self.state.lock();
        state.freed += 1;
        self.freed.notify_all();
    }
}
