//! A link: the durations and disturbances of the way from one host to another.

use crate::Random;

/// The way from one host to another. A number of 0 in `…_one_in` means never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimLink {
    /// The shortest time that a segment takes, in microseconds.
    pub latency_us_min: u64,
    /// The longest time that a segment takes, in microseconds.
    pub latency_us_max: u64,
    /// The speed, shared by all connections of the link; 0: without limit.
    pub bytes_per_second: u64,
    /// The bytes that one direction of a connection holds; a writer of more waits.
    pub buffer_bytes: usize,
    /// One segment in this number is lost, and sent again after [`Self::resend_us`].
    pub lost_one_in: u64,
    /// The time after which a lost segment is sent again, in microseconds.
    pub resend_us: u64,
    /// One connect in this number is refused.
    pub refused_one_in: u64,
    /// One write in this number resets its connection instead.
    pub reset_one_in: u64,
    /// One read or write in this number moves a part of the bytes.
    pub partial_one_in: u64,
    /// A writer that hears nothing for this long gives the connection up, in microseconds.
    pub give_up_us: u64,
}

impl SimLink {
    /// Bytes arrive at once, and nothing is disturbed. A silent connection is given up after 15
    /// minutes, as Linux does.
    pub const INSTANT: Self = Self {
        latency_us_min: 0,
        latency_us_max: 0,
        bytes_per_second: 0,
        buffer_bytes: 256 << 10,
        lost_one_in: 0,
        resend_us: 200_000,
        refused_one_in: 0,
        reset_one_in: 0,
        partial_one_in: 0,
        give_up_us: 900_000_000,
    };

    /// The network of one room: a fraction of a millisecond, and nothing is disturbed.
    pub const ROOM: Self = Self { latency_us_min: 50, latency_us_max: 300, ..Self::INSTANT };

    /// The way within a host.
    pub(super) const WITHIN: Self = Self { latency_us_max: 20, ..Self::INSTANT };

    /// One of many, as the numbers say.
    pub fn of(random: &mut Random) -> Self {
        fn one(random: &mut Random, of: &[u64]) -> u64 {
            of[random.below(of.len() as u64) as usize]
        }
        let latency_us_min = one(random, &[0, 50, 50, 1_000, 20_000]);
        Self {
            latency_us_min,
            latency_us_max: latency_us_min + one(random, &[0, 200, 2_000, 100_000]),
            bytes_per_second: one(random, &[0, 0, 1 << 20, 100 << 20]),
            buffer_bytes: one(random, &[512, 8 << 10, 64 << 10, 256 << 10]) as usize,
            lost_one_in: one(random, &[0, 0, 50, 500]),
            refused_one_in: one(random, &[0, 0, 20]),
            reset_one_in: one(random, &[0, 0, 300, 5_000]),
            partial_one_in: one(random, &[0, 3, 20]),
            ..Self::INSTANT
        }
    }

    /// The time that a segment takes from its sending to its arrival.
    pub(super) fn draw_latency_us(&self, random: &mut Random) -> u64 {
        let spread = self.latency_us_max.saturating_sub(self.latency_us_min);
        let lost = draw_one_in(random, self.lost_one_in);
        let resend_us = if lost { self.resend_us } else { 0 };
        self.latency_us_min + random.below(spread + 1) + resend_us
    }

    /// The number of bytes that a call moves of those that it could.
    pub(super) fn draw_part(&self, random: &mut Random, length: usize) -> usize {
        if length > 1 && draw_one_in(random, self.partial_one_in) {
            1 + random.below(length as u64 - 1) as usize
        } else {
            length
        }
    }
}

/// True once in this number of times; never for 0.
pub(super) fn draw_one_in(random: &mut Random, count: u64) -> bool {
    count > 0 && random.below(count) == 0
}
