//! The moments at which leases expire, on a monotonic clock.
//!
//! They stand beside the table because they are not part of it: after a restart, or when another
//! member of a quorum takes over, every lease gets its whole time to live anew.

use super::Table;
use crate::key::LeaseId;
use std::{collections::BTreeMap, time::Duration};

/// Deadlines of leases, in microseconds of a monotonic clock.
#[derive(Clone, Debug, Default)]
pub struct Deadlines(BTreeMap<LeaseId, u64>);

impl Deadlines {
    /// Every lease of a table, with its whole time to live from now on.
    #[must_use]
    pub fn anew(table: &Table, now_us: u64) -> Self {
        let mut deadlines = Self::default();
        for (lease, ttl) in table.leases() {
            deadlines.prolong(lease, ttl, now_us);
        }
        deadlines
    }

    /// Moves a deadline to `ttl` from now. It never moves back.
    pub fn prolong(&mut self, lease: LeaseId, ttl: Duration, now_us: u64) {
        let ttl_us = u64::try_from(ttl.as_micros()).unwrap_or(u64::MAX);
        let deadline = now_us.saturating_add(ttl_us);
        let kept = self.0.entry(lease).or_insert(deadline);
        *kept = (*kept).max(deadline);
    }

    /// Forgets a lease that ended.
    pub fn remove(&mut self, lease: LeaseId) {
        self.0.remove(&lease);
    }

    /// The leases whose deadline has passed, in the order of their ids.
    #[must_use]
    pub fn expired(&self, now_us: u64) -> Vec<LeaseId> {
        self.0.iter().filter(|(_, at)| **at <= now_us).map(|(lease, _)| *lease).collect()
    }

    /// The next moment at which a lease expires.
    #[must_use]
    pub fn next_us(&self) -> Option<u64> {
        self.0.values().min().copied()
    }
}
