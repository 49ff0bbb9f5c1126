//! A condition under a lock of `std` that simulated and real threads can wait for.
//!
//! Invariant: no scheduling point passes while the lock is held, so that a simulated thread never
//! blocks in `std`.

#[cfg(debug_assertions)]
use super::schedule::{here, key_of};
use std::{
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

#[derive(Debug, Default)]
pub(super) struct Signal(Condvar);

impl Signal {
    /// Lets go of the lock and waits for a notification, for `span` at most, or for no cause.
    pub(super) fn wait<'a, T>(
        &self,
        lock: &'a Mutex<T>,
        guard: MutexGuard<'a, T>,
        span: Option<Duration>,
    ) -> MutexGuard<'a, T> {
        #[cfg(debug_assertions)]
        if let Some(here) = here() {
            drop(guard);
            here.wait_for_signal(key_of(self), span);
            return hold(lock);
        }
        // The argument stands for the guard's lock in a simulation alone.
        let _ = lock;
        match span {
            None => self.0.wait(guard).unwrap_or_else(PoisonError::into_inner),
            Some(span) => {
                self.0.wait_timeout(guard, span).unwrap_or_else(PoisonError::into_inner).0
            }
        }
    }

    /// Wakes all waiting threads.
    pub(super) fn notify(&self) {
        #[cfg(debug_assertions)]
        if let Some(here) = here() {
            return here.wake_all(key_of(self));
        }
        self.0.notify_all();
    }

    /// Wakes all waiting threads at a moment of the simulated clock; real ones at once, and they
    /// wait again by themselves.
    pub(super) fn notify_at(&self, moment_us: u64) {
        #[cfg(debug_assertions)]
        if let Some(here) = here() {
            return here.wake_all_at(key_of(self), moment_us);
        }
        let _ = moment_us;
        self.0.notify_all();
    }
}

/// Takes a lock; a thread that panicked while it held it left the value as it is.
pub(super) fn hold<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}
