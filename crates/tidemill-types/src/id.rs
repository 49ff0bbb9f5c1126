//! Numbers that name things. Each is a type of its own, so that a cycle is never a slice.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The number of a cycle: a recorded batch of a job's whole input (the first is 1).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Cycle(pub u64);

impl Cycle {
    /// The cycle before the first: nothing has been processed.
    pub const NONE: Self = Self(0);
    /// The first cycle of a job.
    pub const FIRST: Self = Self(1);

    /// The cycle after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The number of a slice within its stage, counted from 0. A slice is a range of the key hash.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct SliceId(pub u32);

impl SliceId {
    /// The slice as an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for SliceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
