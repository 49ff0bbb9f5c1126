//! The clock of a machine: it starts at a moment of its own, goes faster or slower than true time, and
//! its wall clock is set wrong.

use super::{SimClock, WALL_START_US, schedule, signal::hold};
use crate::Clock;
use std::sync::{Arc, Mutex};

/// The error of a machine's clocks against the true time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimDrift {
    /// Their rate above the true one, in millionths; negative: slower.
    pub rate_ppm: i32,
    /// The offset of the wall clock at the start, in microseconds.
    pub wall_us: i64,
}

#[derive(Clone, Copy, Debug)]
struct ClockBase {
    /// The true time since which these numbers hold.
    since_us: u64,
    /// The monotonic clock then.
    monotonic_us: u64,
    /// The wall clock then.
    wall_us: i64,
    rate_ppm: i32,
}

/// The clock of one machine. It outlives the processes on it.
pub(super) struct MachineClock {
    true_clock: Arc<SimClock>,
    base: Mutex<ClockBase>,
}

impl ClockBase {
    /// The time that the machine believes to have passed.
    fn passed_us(&self, now_us: u64) -> u64 {
        let rate = 1_000_000_u32.saturating_add_signed(self.rate_ppm);
        let passed = u128::from(now_us - self.since_us) * u128::from(rate) / 1_000_000;
        u64::try_from(passed).unwrap_or(u64::MAX)
    }

    fn monotonic_us(&self, now_us: u64) -> u64 {
        self.monotonic_us.saturating_add(self.passed_us(now_us))
    }

    fn wall_us(&self, now_us: u64) -> i64 {
        self.wall_us.saturating_add_unsigned(self.passed_us(now_us))
    }
}

impl MachineClock {
    /// The clock of a machine that was started so long ago.
    pub(super) fn new(true_clock: Arc<SimClock>, drift: SimDrift, up_us: u64) -> Self {
        let since_us = true_clock.monotonic_micros();
        let wall_us = WALL_START_US.saturating_add_unsigned(since_us).saturating_add(drift.wall_us);
        let rate_ppm = drift.rate_ppm;
        let base = Mutex::new(ClockBase { since_us, monotonic_us: up_us, wall_us, rate_ppm });
        Self { true_clock, base }
    }

    pub(super) fn rate_ppm(&self) -> i32 {
        hold(&self.base).rate_ppm
    }

    /// Sets the wall clock forward or back.
    pub(super) fn jump_wall(&self, micros: i64) {
        let base = &mut *hold(&self.base);
        base.wall_us = base.wall_us.saturating_add(micros);
    }

    /// The machine starts: its monotonic clock begins anew, and its wall clock went on.
    pub(super) fn reboot(&self, up_us: u64) {
        let now_us = self.true_clock.monotonic_micros();
        let base = &mut *hold(&self.base);
        base.wall_us = base.wall_us(now_us);
        (base.since_us, base.monotonic_us) = (now_us, up_us);
    }
}

impl Clock for MachineClock {
    fn monotonic_micros(&self) -> u64 {
        let now_us = self.true_clock.monotonic_micros();
        hold(&self.base).monotonic_us(now_us)
    }

    fn wall_micros(&self) -> i64 {
        let now_us = self.true_clock.monotonic_micros();
        hold(&self.base).wall_us(now_us)
    }

    fn sleep_micros(&self, micros: u64) {
        if let Some(here) = schedule::here() {
            here.sleep(micros);
        }
    }
}
