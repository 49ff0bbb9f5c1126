//! `Condvar`: a simulated thread waits in the scheduler, in simulated time, and now and then wakes
//! without cause, as `std` permits.

use super::lock::MutexGuard;
use crate::sim::schedule::{here, key_of};
use std::{
    sync::{self, LockResult},
    time::Duration,
};

/// As [`std::sync::Condvar`].
#[derive(Debug, Default)]
pub struct Condvar(sync::Condvar);

/// As [`std::sync::WaitTimeoutResult`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the wait ended because the time had passed.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    /// As [`std::sync::Condvar::new`].
    #[must_use]
    pub const fn new() -> Self {
        Self(sync::Condvar::new())
    }

    /// As [`std::sync::Condvar::wait`].
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let (lock, guard) = guard.apart();
        let Some(here) = here() else { return lock.hold(self.0.wait(guard)) };
        drop(guard);
        here.wake_all(key_of(lock));
        here.wait_for_signal(key_of(self), None);
        lock.lock_at_once(&here)
    }

    /// As [`std::sync::Condvar::wait_timeout`].
    ///
    /// # Errors
    /// A thread panicked while it held the lock.
    #[track_caller]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        span: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let (lock, guard) = guard.apart();
        let Some(here) = here() else {
            let waited = self.0.wait_timeout(guard, span);
            return super::lock::map(waited, |(guard, result)| {
                let guard = lock.hold(Ok(guard)).expect("it is not poisoned");
                (guard, WaitTimeoutResult(result.timed_out()))
            });
        };
        drop(guard);
        here.wake_all(key_of(lock));
        let signalled = here.wait_for_signal(key_of(self), Some(span));
        super::lock::map(lock.lock_at_once(&here), |guard| (guard, WaitTimeoutResult(!signalled)))
    }

    /// As [`std::sync::Condvar::notify_one`]; which one, the seed decides.
    #[track_caller]
    pub fn notify_one(&self) {
        match here() {
            None => self.0.notify_one(),
            Some(here) => {
                here.pass("notify");
                here.signal_one(key_of(self));
            }
        }
    }

    /// As [`std::sync::Condvar::notify_all`].
    #[track_caller]
    pub fn notify_all(&self) {
        match here() {
            None => self.0.notify_all(),
            Some(here) => {
                here.pass("notify");
                here.wake_all(key_of(self));
            }
        }
    }
}
