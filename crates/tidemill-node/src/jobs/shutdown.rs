//! The end of jobs with their node.
//!
//! ```text
//! node stops ─▶ jobs are told ─▶ requests end, three seconds at most ─▶ jobs have ended, or have had
//!               └──────────────────── four seconds ───────────────────┘  their time ─▶ log closed
//! ```

use super::{JobEntry, Jobs};
use std::{sync::PoisonError, time::Duration};
use tidemill_env::Thread;

/// Longest time for jobs to end when their node stops, in microseconds: longer than a sink tries to
/// commit and a last checkpoint to be saved.
const STOP_US_MAX: u64 = 4_000_000;

impl Jobs {
    /// Tells all jobs to stop at the end of the cycles that were begun, and takes no more. Their
    /// time runs from the first call.
    pub fn begin_to_close(&self) {
        {
            let mut state = self.state();
            if std::mem::replace(&mut state.stopping, true) {
                return;
            }
            state.until_us = self.world.clock.monotonic_micros().saturating_add(STOP_US_MAX);
            state.jobs.values().filter_map(|it| it.handle.as_ref()).for_each(|it| it.stop());
        }
        self.bell.notify_all();
    }

    /// As [`Self::begin_to_close`], and waits for the jobs. They are started again when the node is.
    /// One that is just being tried is not waited for: that takes as long as servers do not answer,
    /// and its unfinished cycle is dropped as by a crash. So is a job that does not end within four
    /// seconds, as its input or its output does not answer.
    pub fn close(&self) {
        self.begin_to_close();
        self.watchers_of_ended().into_iter().for_each(Thread::join);
        self.note_again();
    }

    /// When all jobs have ended, or have had their time: the threads that have nothing left to wait
    /// for.
    fn watchers_of_ended(&self) -> Vec<Box<dyn Thread>> {
        let clock = &self.world.clock;
        let mut state = self.state();
        loop {
            let left_us = state.until_us.saturating_sub(clock.monotonic_micros());
            let runs = |it: &JobEntry| it.handle.is_some();
            if left_us == 0 || !state.jobs.values().any(runs) {
                break;
            }
            let left = Duration::from_micros(left_us);
            state = self.bell.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        for (name, _) in state.jobs.iter().filter(|(_, it)| it.handle.is_some()) {
            tracing::warn!(job = name, "it has not ended in time: it goes on as after a crash");
        }
        let hangs = |it: &JobEntry| {
            it.handle.is_some() || it.waiting.as_ref().is_some_and(|it| it.is_tried)
        };
        let rest = state.jobs.values_mut().filter(|it| !hangs(it));
        rest.filter_map(|it| it.watcher.take()).collect()
    }
}
