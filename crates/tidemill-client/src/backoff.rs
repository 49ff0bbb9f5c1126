//! The rest after a failure. No clock and no randomness here: both come in.

use crate::options::{ClientOptions, micros};

/// The rest after the `failures`th failure in a row (from 1), in microseconds: twice as long each
/// time up to the longest, and by up to a fifth longer or shorter, so that clients that failed
/// together do not come back together. `random` is any number.
pub(crate) fn rest_us(failures: u32, options: &ClientOptions, random: u64) -> u64 {
    let doublings = failures.saturating_sub(1).min(20);
    let base = micros(options.backoff).saturating_mul(1 << doublings);
    let base = base.min(micros(options.backoff_max));
    let fifth = base / 5;
    base - fifth + random % (2 * fifth + 1)
}

#[cfg(test)]
mod tests;
