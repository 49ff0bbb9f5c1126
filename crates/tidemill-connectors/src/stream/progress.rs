//! Commits a job's progress to a consumer group, on a thread of its own.
//!
//! ```text
//! commit thread of the job ── position ──▶ newest by streamlet ──▶ thread ── commit ──▶ group
//! ```
//!
//! While one commit is under way positions gather, so a group gets as many commits as the disk
//! takes, whatever the length of cycles. Nothing in the job waits for it or depends on it. The
//! group's offsets name a place up to which all results are final.

use super::node::StreamGroup;
use std::{
    collections::BTreeMap,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};
use tidemill_env::{Thread, World};
use tidemill_types::{Offset, StreamletIx};

/// The progress of one source.
pub(super) struct Progress {
    shared: Arc<Shared>,
    thread: Mutex<Option<Box<dyn Thread>>>,
}

struct Shared {
    group: Arc<dyn StreamGroup>,
    state: Mutex<CommitState>,
    wakeup: Condvar,
}

#[derive(Default)]
struct CommitState {
    /// By streamlet, the newest position that is not committed yet.
    newest: BTreeMap<StreamletIx, Offset>,
    ends: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, CommitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits until there is nothing more to come.
    fn run(&self) {
        loop {
            let state = self.lock();
            let idle = |it: &mut CommitState| it.newest.is_empty() && !it.ends;
            let state = self.wakeup.wait_while(state, idle);
            let mut state = state.unwrap_or_else(PoisonError::into_inner);
            if state.newest.is_empty() {
                return;
            }
            let due = std::mem::take(&mut state.newest);
            drop(state);
            self.group.commit(&due);
        }
    }
}

impl Progress {
    /// Of a source that a group follows. No thread runs before there is something to commit.
    pub(super) fn new(group: Arc<dyn StreamGroup>) -> Self {
        let shared = Shared { group, state: Mutex::default(), wakeup: Condvar::new() };
        Self { shared: Arc::new(shared), thread: Mutex::new(None) }
    }

    /// A streamlet is done up to, not including, this offset.
    pub(super) fn reached(&self, world: &World, streamlet: StreamletIx, offset: Offset) {
        self.shared.lock().newest.insert(streamlet, offset);
        self.shared.wakeup.notify_one();
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            *thread = Some(world.spawn.spawn("group", Box::new(move || shared.run())));
        }
    }
}

impl Drop for Progress {
    /// Commits the newest positions before it returns.
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.wakeup.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.join();
        }
    }
}
