//! Byte credits of one link: the bytes that wait on it, and the lanes that wait for it to drain.
//!
//! A lane does not *begin* a cycle while a link it writes to is over its high watermark, but may
//! always finish one. So a full link never deadlocks, and holds at most the high watermark and one
//! cycle of each writer. It opens again at the low watermark, so that it does not flap (Neptune
//! 3.2.4).

use tidemill_env::sync::{
    Mutex,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[cfg(test)]
mod tests;

/// The credits of one link. `W` is a lane that can wait for them.
#[derive(Debug)]
pub(crate) struct Credit<W> {
    waiting_bytes: AtomicU64,
    high_bytes: u64,
    low_bytes: u64,
    closed: AtomicBool,
    waiters: Mutex<Vec<W>>,
}

impl<W: PartialEq> Credit<W> {
    /// An open link. A low watermark above the high one counts as the high one.
    pub(crate) fn new(high_bytes: u64, low_bytes: u64) -> Self {
        Self {
            waiting_bytes: AtomicU64::new(0),
            high_bytes,
            low_bytes: low_bytes.min(high_bytes),
            closed: AtomicBool::new(false),
            waiters: Mutex::new(Vec::new()),
        }
    }

    /// Bytes that wait on the link.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Acquire)
    }

    /// Puts bytes on the link. Never refused: a begun cycle may be finished.
    pub(crate) fn add(&self, bytes: u64) {
        let before = self.waiting_bytes.fetch_add(bytes, Ordering::AcqRel);
        debug_assert!(
            before.checked_add(bytes).is_some(),
            "{before} bytes wait: more were released"
        );
        if before + bytes >= self.high_bytes {
            self.closed.store(true, Ordering::Release);
        }
    }

    /// Takes bytes off the link; returns the waiters that may go on now. Waiters are checked
    /// although the link may be open: another writer may have opened it since.
    pub(crate) fn release(&self, bytes: u64) -> Vec<W> {
        let before = self.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
        debug_assert!(before >= bytes, "released more than was added");
        if before - bytes > self.low_bytes {
            return Vec::new();
        }
        let mut waiters = self.waiters.lock().expect("no panic while held");
        if self.open_if_drained() { std::mem::take(&mut *waiters) } else { Vec::new() }
    }

    /// Opens the link if at most the low watermark waits on it; returns true if it is open. Only
    /// under the lock of the waiters. If a writer has filled the link meanwhile, it stays closed,
    /// and a later release opens it.
    fn open_if_drained(&self) -> bool {
        if self.is_open() {
            return true;
        }
        if self.waiting_bytes() > self.low_bytes {
            return false;
        }
        // Reads what `add` stored, so the bytes of an `add` that closed the link are seen.
        self.closed.swap(false, Ordering::AcqRel);
        if self.waiting_bytes() > self.low_bytes.max(self.high_bytes.saturating_sub(1)) {
            self.closed.store(true, Ordering::Release);
            return false;
        }
        true
    }

    /// Returns true if the link takes a new cycle now.
    pub(crate) fn is_open(&self) -> bool {
        !self.closed.load(Ordering::Acquire)
    }

    /// Returns true if a new cycle may begin; else [`Self::release`] will return `waiter`.
    pub(crate) fn may_begin(&self, waiter: impl FnOnce() -> W) -> bool {
        if self.is_open() {
            return true;
        }
        let mut waiters = self.waiters.lock().expect("no panic while held");
        if self.open_if_drained() {
            return true;
        }
        let waiter = waiter();
        if !waiters.contains(&waiter) {
            waiters.push(waiter);
        }
        false
    }
}
