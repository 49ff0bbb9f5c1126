//! The pace of a simulation: durations, disturbances and bounds of its threads.

use crate::Random;

/// The durations and disturbances of a simulation's threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimPace {
    /// At how many of 256 points a thread goes on although others could.
    pub stay: u64,
    /// The longest step from one point to the next, in microseconds.
    pub step_us_max: u64,
    /// The longest operation of the disk, in microseconds.
    pub disk_us_max: u64,
    /// One thread in this number is slow; 0: none is.
    pub slow_one_in: u64,
    /// The longest step of a slow thread, in microseconds.
    pub slow_us_max: u64,
    /// At one point in this number a thread is stopped for a while; 0: never.
    pub pause_one_in: u64,
    /// The longest stop, in microseconds.
    pub pause_us_max: u64,
    /// One wait in this number ends without cause; 0: none does.
    pub spurious_one_in: u64,
    /// A simulation with more points than this goes round in circles.
    pub points_max: u64,
    /// A simulation that takes longer than this on its clock comes to no end, in microseconds.
    pub micros_max: u64,
}

impl SimPace {
    /// Short steps, and no thread is stopped.
    pub const EVEN: Self = Self {
        stay: 200,
        step_us_max: 2,
        disk_us_max: 20,
        slow_one_in: 0,
        slow_us_max: 0,
        pause_one_in: 0,
        pause_us_max: 0,
        spurious_one_in: 0,
        points_max: 5_000_000,
        micros_max: u64::MAX,
    };

    /// One of many, as the numbers say.
    pub fn of(random: &mut Random) -> Self {
        fn one(random: &mut Random, of: &[u64]) -> u64 {
            of[random.below(of.len() as u64) as usize]
        }
        Self {
            stay: one(random, &[0, 128, 220, 250]),
            step_us_max: one(random, &[1, 1, 5, 50]),
            disk_us_max: one(random, &[0, 10, 500, 20_000]),
            slow_one_in: one(random, &[0, 0, 3, 8]),
            slow_us_max: one(random, &[10, 300, 5_000]),
            pause_one_in: one(random, &[0, 0, 500, 5_000]),
            pause_us_max: one(random, &[1_000, 100_000, 3_000_000]),
            spurious_one_in: one(random, &[0, 0, 50]),
            ..Self::EVEN
        }
    }
}
