//! How long a sink goes on trying to commit where nobody answers: for ever, or until its job is to
//! stop, and a moment longer.

use tidemill_env::World;
use tidemill_flow::StopAsked;

/// The rest after the first failure of a commit and the longest one, in microseconds.
pub(crate) const REST_US: (u64, u64) = (50_000, 2_000_000);

/// How long a commit goes on trying when the job is to stop, in microseconds.
const STOP_PATIENCE_US: u64 = 2_000_000;

/// Whether a commit is to be given up, because the job is to stop.
pub(crate) struct Stop {
    world: World,
    asked: Option<StopAsked>,
    since_us: Option<u64>,
}

impl Stop {
    pub(crate) fn new(world: &World) -> Self {
        Self { world: world.clone(), asked: None, since_us: None }
    }

    /// Takes what says whether the job is to stop.
    pub(crate) fn by(&mut self, asked: StopAsked) {
        self.asked = Some(asked);
    }

    /// Asked after each failure.
    pub(crate) fn gives_up(&mut self) -> bool {
        if !self.asked.as_ref().is_some_and(|asked| asked()) {
            return false;
        }
        let now_us = self.world.clock.monotonic_micros();
        let since_us = *self.since_us.get_or_insert(now_us);
        now_us.saturating_sub(since_us) >= STOP_PATIENCE_US
    }
}

/// What is said then.
pub(crate) fn given_up(error: &str) -> String {
    format!("the job is to stop, and its rows could not be committed; resumed, it goes on: {error}")
}
