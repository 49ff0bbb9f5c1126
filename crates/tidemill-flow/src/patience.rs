//! How a part of a job waits for what cannot be done now: a disk that is full, a server that is away.
//!
//! ```text
//! try ─▶ not now ─▶ told, in the log once and in the job's progress ─▶ rest ─▶ try …
//!          │                                                                ├─▶ done: told, if it waited
//!          └─ the job is to stop, and two seconds are over: given up        ┘
//! ```
//!
//! Who waits does not go on, so what comes behind it waits too, and by the links' credit and the
//! cycles under way the sources do. What is given up is made again when the job resumes.

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

/// The rest after the first failure and the longest one, in microseconds.
pub const REST_US: (u64, u64) = (50_000, 2_000_000);

/// After so much of a rest it is looked whether the job is to stop, in microseconds.
const LOOK_US: u64 = 50_000;

/// A commit that takes so long is shown, in microseconds: what it is sent to may say nothing for ever.
const SILENCE_US: u64 = 10_000_000;

/// Another reason is logged after so long at the earliest, in microseconds: of an outage each try may
/// have its own.
const LOG_AGAIN_US: u64 = 60_000_000;

/// For how long it is tried on when the job is to stop, in microseconds.
const STOP_PATIENCE_US: u64 = 2_000_000;

/// See the module. One for each part of a job.
pub struct Patience {
    clock: Arc<dyn Clock>,
    /// Once it runs.
    job: Option<Weak<Job>>,
    part: String,
    rest_us: u64,
    told: bool,
    /// When it was logged why.
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

    /// Another reason for what waits already; whether it is another.
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

impl Patience {
    /// Of a sink whose job does not run yet: nobody asks it to stop.
    #[must_use]
    pub fn new(world: &World) -> Self {
        Self::with(world, None, "")
    }

    /// Of a part of a job that runs.
    pub(crate) fn of(job: &Arc<Job>, part: &str) -> Self {
        Self::with(&job.world, Some(Arc::downgrade(job)), part)
    }

    fn with(world: &World, job: Option<Weak<Job>>, part: &str) -> Self {
        let (clock, part) = (Arc::clone(&world.clock), part.to_owned());
        let (rest_us, stop_since_us) = (REST_US.0, None);
        Self { clock, job, part, rest_us, told: false, logged_us: 0, stop_since_us }
    }

    /// Whether the job runs, so that it can be told to stop.
    #[must_use]
    pub fn runs(&self) -> bool {
        self.job.is_some()
    }

    /// Says why it does not go on now. The job shows what was said last; it is logged once, and again
    /// where it is another reason a while later.
    pub fn tell(&mut self, why: impl Display) {
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

    /// Whether to give up, because the job is to stop, or has ended. Asked after each failure.
    pub fn gives_up(&mut self) -> bool {
        let Some(job) = &self.job else { return false };
        let Some(job) = job.upgrade().filter(|it| !it.is_over()) else { return true };
        if !job.is_to_stop() {
            return false;
        }
        let now_us = self.clock.monotonic_micros();
        let since_us = *self.stop_since_us.get_or_insert(now_us);
        now_us.saturating_sub(since_us) >= STOP_PATIENCE_US
    }

    /// What is said then.
    #[must_use]
    pub fn given_up(why: impl Display) -> String {
        format!(
            "the job is to stop, and its rows could not be committed; resumed, it goes on: {why}"
        )
    }

    /// Rests before the next try: longer each time, but not for long once the job is to stop.
    pub fn rest(&mut self) {
        let mut left_us = self.rest_us;
        while left_us > 0 {
            let now_us = left_us.min(LOOK_US);
            self.clock.sleep_micros(now_us);
            left_us -= now_us;
            if self.job.as_ref().is_some_and(|it| it.upgrade().is_none_or(|it| it.is_to_stop())) {
                break;
            }
        }
        self.rest_us = (self.rest_us * 2).min(REST_US.1);
    }

    /// Tells why, and rests before the next try.
    ///
    /// # Errors
    /// It is to be given up; what is to be said.
    pub fn again(&mut self, why: impl Display) -> Result<(), String> {
        self.tell(&why);
        if self.gives_up() {
            return Err(Self::given_up(why));
        }
        self.rest();
        Ok(())
    }

    /// It went on. That is told, if it was told that it did not.
    pub fn over(&mut self) {
        self.rest_us = REST_US.0;
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

impl Drop for Patience {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Why something could not be done: not now, or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It left nothing, and may be done in a while.
    Passing(String),
    Lasting(String),
}

impl Job {
    /// A source that cannot read what there may be.
    pub(crate) fn hindered_source(&self) -> Option<Stalled> {
        let now_us = self.world.clock.monotonic_micros();
        self.plan.stages.iter().find_map(|stage| {
            let Work::Source { factory, .. } = &stage.work else { return None };
            let Obstacle { why, since_us } = factory.obstacle()?;
            let passed_us = now_us.saturating_sub(since_us);
            let since_us = self.wall().0.saturating_sub_unsigned(passed_us);
            Some(Stalled { part: stage.name.clone(), why, since_us })
        })
    }

    /// A sink that commits for so long that what it writes to seems to say nothing.
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

    /// Does something for a part of the job; while that cannot be done now, waits and tries again.
    ///
    /// # Errors
    /// It cannot be done, or was given up; the message says why.
    pub(crate) fn persist<T, E: Into<Trouble>>(
        self: &Arc<Self>,
        part: &str,
        mut attempt: impl FnMut() -> Result<T, E>,
    ) -> Result<T, String> {
        let mut patience: Option<Patience> = None;
        loop {
            match attempt().map_err(Into::into) {
                Ok(done) => {
                    patience.iter_mut().for_each(Patience::over);
                    return Ok(done);
                }
                Err(Trouble::Lasting(why)) => return Err(why),
                Err(Trouble::Passing(why)) => {
                    patience.get_or_insert_with(|| Patience::of(self, part)).again(why)?;
                }
            }
        }
    }
}
