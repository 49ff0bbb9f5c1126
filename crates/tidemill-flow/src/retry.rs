//! Retries: a part of a job waits for a full disk, or for a server that is away.
//!
//! ```text
//! try ─▶ not now ─▶ told, in the log once and in the job's progress ─▶ rest ─▶ try …
//!          │                                                                ├─▶ done: told, if it waited
//!          └─ the job is to stop, and two seconds are over: given up        ┘
//! ```
//!
//! A part that waits stops the parts behind it and, by the links' credit and the limit of cycles
//! under way, the sources. Given-up rows are made again when the job resumes.

use crate::error::{ErrorKind, PartError};
use crate::progress::Stalled;
use crate::runtime::{job::Job, plan::Work};
use crate::source::Obstacle;
use std::{
    fmt::Display,
    sync::{Arc, Weak},
};
use tidemill_env::{
    Clock, World,
    sync::{Mutex, atomic::Ordering},
};

/// The pause after the first failure and the longest one, in microseconds.
pub const RETRY_PAUSE_US: (u64, u64) = (50_000, 2_000_000);

/// The longest pause before the job is checked for a stop, in microseconds.
const LOOK_US: u64 = 50_000;

/// A commit that takes longer is shown as stalled, in microseconds: its server may never answer.
const SILENCE_US: u64 = 10_000_000;

/// The shortest time between two logged reasons of one outage, in microseconds: each attempt may
/// have its own.
const LOG_AGAIN_US: u64 = 60_000_000;

/// The time of further attempts once the job is to stop, in microseconds.
const STOP_RETRY_US: u64 = 2_000_000;

/// The retry policy of one part of a job.
pub struct RetryPolicy {
    clock: Arc<dyn Clock>,
    /// Once it runs.
    job: Option<Weak<Job>>,
    part: String,
    rest_us: u64,
    told: bool,
    /// The time of the last logged reason.
    logged_us: u64,
    stop_since_us: Option<u64>,
}

/// The parts of a job that wait, the first of them first.
#[derive(Debug, Default)]
pub(crate) struct Stalls(Mutex<Vec<Stalled>>);

impl Stalls {
    /// The one that has waited for longest.
    pub(crate) fn first(&self) -> Option<Stalled> {
        self.0.lock().expect("no panic while held").first().cloned()
    }

    fn add(&self, stalled: Stalled) {
        self.0.lock().expect("no panic while held").push(stalled);
    }

    /// Replaces the reason of a part that waits; returns false if it is the same.
    fn replace(&self, part: &str, why: &str) -> bool {
        let mut all = self.0.lock().expect("no panic while held");
        match all.iter_mut().find(|it| it.part == part && it.why != why) {
            Some(stalled) => {
                why.clone_into(&mut stalled.why);
                true
            }
            None => false,
        }
    }

    fn remove(&self, part: &str) {
        let mut all = self.0.lock().expect("no panic while held");
        if let Some(at) = all.iter().position(|it| it.part == part) {
            all.remove(at);
        }
    }
}

impl RetryPolicy {
    /// The policy of a sink whose job does not run yet, so that nothing stops it.
    #[must_use]
    pub fn new(world: &World) -> Self {
        Self::with(world, None, "")
    }

    /// The policy of a part of a running job.
    pub(crate) fn of(job: &Arc<Job>, part: &str) -> Self {
        Self::with(&job.world, Some(Arc::downgrade(job)), part)
    }

    fn with(world: &World, job: Option<Weak<Job>>, part: &str) -> Self {
        let (clock, part) = (Arc::clone(&world.clock), part.to_owned());
        let (rest_us, stop_since_us) = (RETRY_PAUSE_US.0, None);
        Self { clock, job, part, rest_us, told: false, logged_us: 0, stop_since_us }
    }

    /// Returns true if the job runs, so that it can be stopped.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.job.is_some()
    }

    /// Reports the reason for waiting. The progress of the job shows the latest one. It is logged
    /// once, and again a minute later if it has changed.
    pub fn report(&mut self, why: impl Display) {
        let (part, why) = (self.part.clone(), why.to_string());
        let was_told = std::mem::replace(&mut self.told, true);
        let Some(job) = self.job.as_ref().and_then(Weak::upgrade) else {
            if !was_told {
                tracing::warn!(%why, "a sink cannot be opened yet; it is tried again");
            }
            return;
        };
        let (name, now_us) = (&job.plan.name, self.clock.monotonic_micros());
        let is_another = was_told && job.stalls.replace(&part, &why);
        if !was_told || (is_another && now_us.saturating_sub(self.logged_us) >= LOG_AGAIN_US) {
            self.logged_us = now_us;
            tracing::warn!(job = name, part, %why, "a job stalls, and goes on when this passes");
        }
        if !was_told {
            job.stalls.add(Stalled { part, why, since_us: job.wall().0 });
        }
    }

    /// Returns true if the part is to give up: the job has ended, or was to stop for two seconds.
    /// Called after each failure.
    pub fn gives_up(&mut self) -> bool {
        let Some(job) = &self.job else { return false };
        let Some(job) = job.upgrade().filter(|it| !it.is_over()) else { return true };
        if !job.is_to_stop() {
            return false;
        }
        let now_us = self.clock.monotonic_micros();
        let since_us = *self.stop_since_us.get_or_insert(now_us);
        now_us.saturating_sub(since_us) >= STOP_RETRY_US
    }

    /// The message of a part that gives up.
    #[must_use]
    pub fn give_up_message(why: impl Display) -> String {
        format!(
            "the job is to stop, and its rows could not be committed; resumed, it goes on: {why}"
        )
    }

    /// Pauses before the next attempt: longer each time, but briefly once the job is to stop.
    pub fn pause(&mut self) {
        let mut left_us = self.rest_us;
        while left_us > 0 {
            let now_us = left_us.min(LOOK_US);
            self.clock.sleep_micros(now_us);
            left_us -= now_us;
            if self.job.as_ref().is_some_and(|it| it.upgrade().is_none_or(|it| it.is_to_stop())) {
                break;
            }
        }
        self.rest_us = (self.rest_us * 2).min(RETRY_PAUSE_US.1);
    }

    /// Reports the reason, and pauses before the next attempt.
    ///
    /// # Errors
    /// The part is to give up, with the message for it.
    pub fn wait_or_give_up(&mut self, why: impl Display) -> Result<(), String> {
        self.report(&why);
        if self.gives_up() {
            return Err(Self::give_up_message(why));
        }
        self.pause();
        Ok(())
    }

    /// Ends the waiting after a success, and logs it if the waiting was logged.
    pub fn succeeded(&mut self) {
        self.rest_us = RETRY_PAUSE_US.0;
        if !self.told {
            return;
        }
        match self.job.as_ref().and_then(Weak::upgrade) {
            Some(job) => tracing::info!(job = job.plan.name, part = self.part, "a job goes on"),
            None => tracing::info!("a sink that could not be opened is open"),
        }
        self.forget();
    }

    fn forget(&mut self) {
        let job = self.job.as_ref().and_then(Weak::upgrade);
        if let Some(job) = job.filter(|_| std::mem::take(&mut self.told)) {
            job.stalls.remove(&self.part);
        }
        self.told = false;
    }
}

impl Drop for RetryPolicy {
    fn drop(&mut self) {
        self.forget();
    }
}

impl Job {
    /// The source that an obstacle keeps from reading, if there is one.
    pub(crate) fn blocked_source(&self) -> Option<Stalled> {
        let now_us = self.world.clock.monotonic_micros();
        self.plan.stages.iter().find_map(|stage| {
            let Work::Source { factory, .. } = &stage.work else { return None };
            let Obstacle { why, since_us } = factory.obstacle()?;
            let passed_us = now_us.saturating_sub(since_us);
            let since_us = self.wall().0.saturating_sub_unsigned(passed_us);
            Some(Stalled { part: stage.name.clone(), why, since_us })
        })
    }

    /// The sink whose commit has had no answer for ten seconds, if there is one.
    pub(crate) fn silent_sink(&self) -> Option<Stalled> {
        let now_us = self.now_us();
        let passed_us = |since_us: u64| now_us.saturating_sub(since_us);
        self.plan.stages.iter().find_map(|stage| {
            let since_us = stage.count.committing_us.load(Ordering::Relaxed);
            let is_silent = since_us > 0 && passed_us(since_us) >= SILENCE_US;
            is_silent.then(|| Stalled {
                part: stage.name.clone(),
                why: "nothing is heard of a commit that was begun".to_owned(),
                since_us: self.wall().0.saturating_sub_unsigned(passed_us(since_us)),
            })
        })
    }

    /// Calls `attempt` for a part of the job until it succeeds or fails for good, with pauses.
    ///
    /// # Errors
    /// The attempt failed for good, or was given up.
    pub(crate) fn persist<T, E: Into<PartError>>(
        self: &Arc<Self>,
        part: &str,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, PartError> {
        let mut retry: Option<RetryPolicy> = None;
        loop {
            match attempt().map_err(Into::into) {
                Ok(done) => {
                    retry.iter_mut().for_each(RetryPolicy::succeeded);
                    return Ok(done);
                }
                Err(PartError { kind: ErrorKind::Retry, message }) => {
                    let retry = retry.get_or_insert_with(|| RetryPolicy::of(self, part));
                    retry.wait_or_give_up(message)?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}
