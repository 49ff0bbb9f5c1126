//! Jobs that are wanted and do not run yet: their node has just been started, or something outside is
//! away, a broker, a database, a server of checkpoints. Each has a thread that tries, with rests.
//!
//! ```text
//! wanted ─▶ try ─▶ runs: the thread waits for its end
//!            ▲ ├──▶ an error that does not pass: failed
//!            │ └──▶ away ─▶ rest: 1 s, 2 s, … 1 min
//!            └───────────────────────────────────┘
//! ```
//!
//! Invariant: the note of such a job says that it runs, so it waits in every life of the
//! node until it runs, is cancelled or cannot run.

use super::{JobEntry, JobRecord, JobView, Jobs, JobsError, NotEntered, StartedJob, Status};
use std::{
    sync::{Arc, PoisonError},
    time::Duration,
};

#[cfg(test)]
mod tests;

/// The first rest, and the longest, in microseconds.
const REST_US: (u64, u64) = (1_000_000, 60_000_000);

/// A job that is tried again.
pub(super) struct JobRetries {
    /// When, by the wall clock, in microseconds.
    pub(super) next_try_us: i64,
    /// It is being tried now.
    pub(super) is_tried: bool,
}

/// Longest time that a starting node waits for its jobs to run, in microseconds.
const FIRST_US_MAX: u64 = 2_000_000;

/// The pause after a number of tries.
fn rest_us(tries: u32) -> u64 {
    let (first, most) = REST_US;
    if tries == 0 {
        return 0;
    }
    1_u64.checked_shl(tries.saturating_sub(1)).map_or(most, |it| it.saturating_mul(first)).min(most)
}

impl JobEntry {
    /// It waits no more.
    pub(super) fn give_up(&mut self, status: Status) -> JobView {
        self.record.status = status;
        self.waiting = None;
        self.view()
    }
}

impl Jobs {
    /// Puts a wanted job among the others, and has it tried at once and until it runs.
    ///
    /// # Errors
    /// There is no thread for that.
    pub(super) fn enter_waiting(self: &Arc<Self>, mut record: JobRecord) -> Result<(), NotEntered> {
        record.status = Status::Waiting("it is being started with its node".to_owned());
        let (jobs, name) = (Arc::clone(self), record.name.clone());
        let mut entry = JobEntry::new(record);
        entry.waiting = Some(JobRetries { is_tried: true, ..self.resting(0) });
        let mut state = self.state();
        let of = name.clone();
        let watch = Box::new(move || jobs.start_when_it_can_be(&of));
        match self.world.spawn.try_spawn("job", watch) {
            Ok(watcher) => entry.watcher = Some(watcher),
            Err(error) => return Err(Box::new((entry.record, JobsError::Thread(error)))),
        }
        state.jobs.insert(name, entry);
        Ok(())
    }

    /// Waits until every job has been tried once, or for a bounded time: a request for jobs is
    /// answered while a server that one of them needs says nothing.
    pub(super) fn wait_for_first_tries(&self) {
        let clock = &self.world.clock;
        let until_us = clock.monotonic_micros().saturating_add(FIRST_US_MAX);
        let mut state = self.state();
        while state.jobs.values().any(|it| it.waiting.as_ref().is_some_and(|it| it.is_tried)) {
            let left_us = until_us.saturating_sub(clock.monotonic_micros());
            if left_us == 0 {
                break;
            }
            let left = Duration::from_micros(left_us);
            state = self.bell.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn resting(&self, tries: u32) -> JobRetries {
        let now_us = self.world.clock.wall_micros();
        JobRetries { next_try_us: now_us.saturating_add_unsigned(rest_us(tries)), is_tried: false }
    }

    fn start_when_it_can_be(self: &Arc<Self>, name: &str) {
        for tries in 0.. {
            if !self.rests(name, rest_us(tries)) {
                return;
            }
            // Who looks at its checkpoints has them open.
            let turn = self.turn(name);
            let mine = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(record) = self.begins_a_try(name) else { return };
            let mut record = JobRecord { status: Status::Running, ..record };
            let started = self.start(&record);
            let noting = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            let mut state = self.state();
            let stopping = state.stopping;
            let wanted = state.jobs.get_mut(name).filter(|it| it.waiting.is_some() && !stopping);
            let Some(entry) = wanted else {
                drop((state, noting));
                if let Ok(StartedJob { handle, .. }) = started {
                    handle.stop();
                    // Another of its name waits for the turn. A node that stops does not.
                    let _ended = (!stopping).then(|| handle.wait());
                }
                return;
            };
            match started {
                Ok(StartedJob { handle, warnings }) => {
                    let handle = Arc::new(handle);
                    entry.warnings = warnings;
                    if tries > 0 {
                        tracing::info!(job = name, "what was away is there, and the job goes on");
                    }
                    let begins = record.begins.take();
                    record.before = None;
                    (entry.record, entry.waiting) = (record.clone(), None);
                    entry.handle = Some(Arc::clone(&handle));
                    drop(state);
                    if begins.is_some() {
                        self.keep(&record);
                    }
                    drop((noting, mine));
                    self.bell.notify_all();
                    return self.ended(name, handle);
                }
                Err(error) if error.may_pass() => {
                    if tries == 0 {
                        tracing::warn!(job = name, %error, "a job waits for what is away");
                    }
                    entry.record.status = Status::Waiting(error.to_string());
                    entry.waiting = Some(self.resting(tries + 1));
                    drop(state);
                    self.bell.notify_all();
                }
                Err(error) => {
                    let status = match self.put_back(&mut record, &error) {
                        Some(before) => {
                            entry.record = before;
                            entry.record.status.clone()
                        }
                        None => {
                            tracing::error!(job = name, %error, "a job could not be started again");
                            Status::Failed(error.to_string())
                        }
                    };
                    let _view = entry.give_up(status);
                    let record = entry.record.clone();
                    drop(state);
                    self.bell.notify_all();
                    return self.keep(&record);
                }
            }
        }
    }

    /// Waits for the next try; false if there is to be none.
    fn rests(&self, name: &str, rest_us: u64) -> bool {
        let clock = &self.world.clock;
        let until_us = clock.monotonic_micros().saturating_add(rest_us);
        let mut state = self.state();
        loop {
            if state.stopping || state.jobs.get(name).is_none_or(|it| it.waiting.is_none()) {
                return false;
            }
            let left_us = until_us.saturating_sub(clock.monotonic_micros());
            if left_us == 0 {
                return true;
            }
            let left = Duration::from_micros(left_us);
            state = self.bell.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The job to start now; none if it is not wanted.
    fn begins_a_try(&self, name: &str) -> Option<JobRecord> {
        let mut state = self.state();
        if state.stopping {
            return None;
        }
        let entry = state.jobs.get_mut(name)?;
        entry.waiting.as_mut()?.is_tried = true;
        Some(entry.record.clone())
    }
}
