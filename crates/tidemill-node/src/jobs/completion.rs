//! The end of a job.
//!
//! Invariant: a job that is seen as ended can be resumed. Until all that it had open is closed,
//! its turn is taken.

use super::{JobRecord, Jobs, Status};
use std::sync::{Arc, PoisonError};
use tidemill_flow::JobHandle;

/// Longest time that the handle of an ended job is kept for snapshots under way, in microseconds.
const LOOK_US_MAX: u64 = 5_000_000;
/// Time between two looks at these snapshots, in microseconds.
const LOOK_REST_US: u64 = 1_000;

impl Jobs {
    /// Waits for a job's end and notes it.
    pub(super) fn ended(&self, name: &str, handle: Arc<JobHandle>) {
        let outcome = handle.wait();
        let progress = handle.progress();
        // Who sees that it has ended may start it or read its checkpoints, once it is gone.
        let turn = self.turn(name);
        let _mine = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let noting = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state();
        let stopping = state.stopping;
        let Some(entry) = state.jobs.get(name) else { return };
        let status = match outcome {
            // A sink that waited for its cluster has given up because the node stops.
            Err(error) if stopping => {
                tracing::warn!(job = name, "stopped with its node: {error}");
                Status::Running
            }
            Err(error) => Status::Failed(error.to_string()),
            Ok(_) if progress.finished => Status::Finished,
            Ok(_) if entry.cancelled => Status::Cancelled,
            // It stopped with its node, and is wanted still.
            Ok(_) if stopping => Status::Running,
            Ok(_) => Status::Cancelled,
        };
        if let Status::Failed(message) = &status {
            tracing::error!(job = name, "failed: {message}");
        }
        let record = JobRecord { status, ..entry.record.clone() };
        drop(state);
        if record.status != Status::Running {
            self.keep(&record);
        }
        // Only now another may be started, or its folder deleted.
        let mut state = self.state();
        let shown = state.jobs.get_mut(name).and_then(|entry| {
            (entry.record, entry.last) = (record, Some(progress));
            entry.handle.take()
        });
        drop((state, noting));
        self.bell.notify_all();
        drop(shown);
        self.let_go(handle);
    }

    /// Drops the handle of a job that has ended, once nobody looks at it: its checkpoints are open as long
    /// as that.
    fn let_go(&self, handle: Arc<JobHandle>) {
        let clock = &self.world.clock;
        let until_us = clock.monotonic_micros().saturating_add(LOOK_US_MAX);
        while Arc::strong_count(&handle) > 1 && clock.monotonic_micros() < until_us {
            clock.sleep_micros(LOOK_REST_US);
        }
    }
}
