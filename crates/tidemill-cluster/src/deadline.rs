//! Deadlines of connections: one thread closes those that are silent or stuck.
//!
//! A read or a write of a socket has no time limit of its own, in the real world and in a simulated
//! one. Before it may wait, a thread arms its [`Deadline`]. If the deadline passes, the connection
//! is closed and the thread comes back with an error.
//!
//! Invariant: without connections the thread sleeps.

use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tidemill_env::{
    Clock, Thread, World,
    lock::{Condvar, Mutex},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

/// The time between two looks at all deadlines.
const LOOK: Duration = Duration::from_millis(100);

/// No deadline.
const NEVER: u64 = u64::MAX;

/// Closes a connection.
pub(crate) type Closer = Arc<dyn Fn() + Send + Sync>;

/// The deadline of one wait of one connection.
pub(crate) struct Deadline {
    clock: Arc<dyn Clock>,
    at_us: AtomicU64,
    has_passed: AtomicBool,
}

impl Deadline {
    /// A deadline that is not armed, and that nobody looks at yet.
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, at_us: AtomicU64::new(NEVER), has_passed: AtomicBool::new(false) }
    }

    /// Sets the deadline to a span from now.
    pub(crate) fn arm(&self, span_us: u64) {
        let now = self.clock.monotonic_micros();
        self.at_us.store(now.saturating_add(span_us), Ordering::SeqCst);
    }

    /// Takes the deadline away: the thread does not wait for the other side.
    pub(crate) fn disarm(&self) {
        self.at_us.store(NEVER, Ordering::SeqCst);
    }

    /// True if the connection was closed because of this deadline.
    pub(crate) fn has_passed(&self) -> bool {
        self.has_passed.load(Ordering::SeqCst)
    }
}

#[derive(Default)]
struct Watched {
    connections: BTreeMap<u64, (Arc<Deadline>, Closer)>,
    next: u64,
    is_over: bool,
}

struct WatchState {
    watched: Mutex<Watched>,
    changed: Condvar,
}

/// Closes connections whose deadlines have passed.
pub(crate) struct DeadlineWatch {
    state: Arc<WatchState>,
    clock: Arc<dyn Clock>,
    thread: Mutex<Option<Box<dyn Thread>>>,
}

/// A deadline that is looked at until this is dropped.
pub(crate) struct WatchedDeadline {
    state: Arc<WatchState>,
    number: u64,
    deadline: Arc<Deadline>,
}

impl DeadlineWatch {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread left.
    pub(crate) fn start(world: &World) -> std::io::Result<Self> {
        let state = Arc::new(WatchState { watched: Mutex::default(), changed: Condvar::new() });
        let (watching, clock) = (Arc::clone(&state), Arc::clone(&world.clock));
        let thread = world
            .spawn
            .try_spawn("cluster deadlines", Box::new(move || watch(&watching, &*clock)))?;
        Ok(Self { state, clock: Arc::clone(&world.clock), thread: Mutex::new(Some(thread)) })
    }

    /// Looks at a new deadline, which is not armed yet.
    pub(crate) fn add(&self, closer: Closer) -> WatchedDeadline {
        let deadline = Arc::new(Deadline::new(Arc::clone(&self.clock)));
        let mut watched = self.state.watched.lock();
        let number = watched.next;
        watched.next += 1;
        watched.connections.insert(number, (Arc::clone(&deadline), closer));
        self.state.changed.notify_all();
        drop(watched);
        WatchedDeadline { state: Arc::clone(&self.state), number, deadline }
    }
}

fn watch(state: &WatchState, clock: &dyn Clock) {
    let mut watched = state.watched.lock();
    loop {
        if watched.is_over {
            return;
        }
        if watched.connections.is_empty() {
            watched = state.changed.wait(watched);
            continue;
        }
        let now = clock.monotonic_micros();
        let late = |deadline: &Deadline| deadline.at_us.load(Ordering::SeqCst) <= now;
        let all = watched.connections.values().filter(|(deadline, _)| late(deadline));
        let passed: Vec<_> = all.cloned().collect();
        if passed.is_empty() {
            watched = state.changed.wait_timeout(watched, LOOK).0;
            continue;
        }
        drop(watched);
        for (deadline, closer) in passed {
            deadline.disarm();
            deadline.has_passed.store(true, Ordering::SeqCst);
            closer();
        }
        watched = state.watched.lock();
    }
}

impl Drop for DeadlineWatch {
    fn drop(&mut self) {
        self.state.watched.lock().is_over = true;
        self.state.changed.notify_all();
        if let Some(thread) = self.thread.get_mut().take() {
            thread.join();
        }
    }
}

impl std::ops::Deref for WatchedDeadline {
    type Target = Deadline;

    fn deref(&self) -> &Deadline {
        &self.deadline
    }
}

impl Drop for WatchedDeadline {
    fn drop(&mut self) {
        self.state.watched.lock().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
