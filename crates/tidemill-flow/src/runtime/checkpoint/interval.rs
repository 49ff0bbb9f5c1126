//! The interval between checkpoints.

use tidemill_types::{
    job::Every,
    limits::{CHECKPOINT_EVERY_US_MAX, CHECKPOINT_EVERY_US_MIN},
};

#[cfg(test)]
mod tests;

/// The time from one checkpoint to the next, in microseconds.
const FIRST_US: u64 = 1_000_000;

/// The interval between checkpoints: as the job sets it, or adapted to the backend. A slow backend
/// gets fewer checkpoints; none is dropped.
#[derive(Debug)]
pub(super) struct CheckpointInterval {
    every_us: u64,
    is_calibrated: bool,
}

impl CheckpointInterval {
    pub(super) fn new(every: &Every) -> Self {
        match every {
            Every::Auto => Self { every_us: FIRST_US, is_calibrated: true },
            Every::Bounds { time, .. } => {
                let every_us = time.map_or(u64::MAX, |time| time.0.max(1).unsigned_abs());
                Self { every_us, is_calibrated: false }
            }
        }
    }

    /// From the beginning of a checkpoint to that of the next, in microseconds; [`u64::MAX`] if time
    /// does not matter.
    pub(super) fn every_us(&self) -> u64 {
        self.every_us
    }

    /// The same for people; 0 if time does not matter.
    pub(super) fn shown_us(&self) -> u64 {
        if self.every_us == u64::MAX { 0 } else { self.every_us }
    }

    /// Adapts the interval to a completed checkpoint. One that takes more than half of it, or
    /// behind which the next was due, lengthens it; one that takes less than an eighth shortens it.
    pub(super) fn completed(&mut self, took_us: u64, is_behind: bool) {
        if !self.is_calibrated {
            return;
        }
        let every_us = if is_behind || took_us > self.every_us / 2 {
            self.every_us.max(took_us).saturating_mul(2)
        } else if took_us < self.every_us / 8 {
            self.every_us / 4 * 3
        } else {
            self.every_us
        };
        self.every_us = every_us.clamp(CHECKPOINT_EVERY_US_MIN, CHECKPOINT_EVERY_US_MAX);
    }
}
