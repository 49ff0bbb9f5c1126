//! Expiry of leases: the leader's work.
//!
//! A deadline is on the leader's own clock. A new leader gives every lease its whole time anew, as
//! etcd does, so a change of leaders never makes a lease shorter.

use crate::voters::RaftVoter;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tidemill_coord::{
    LeaseId,
    table::{Command, Deadlines},
};

/// Time between two looks for expired leases, in microseconds.
const LOOK_US: u64 = 100_000;

/// Deadlines as the leader of a term keeps them.
#[derive(Default)]
pub(crate) struct LeaderLeases {
    /// The term whose leader's deadlines these are.
    term: Option<u64>,
    deadlines: Deadlines,
}

impl LeaderLeases {
    /// Moves a deadline.
    pub(crate) fn prolong(&mut self, lease: LeaseId, ttl: Duration, now_us: u64) {
        self.deadlines.prolong(lease, ttl, now_us);
    }

    /// Ends leases while this voter leads, on a thread of its own, until it is closed.
    pub(crate) fn keep(voter: &Arc<RaftVoter>) {
        let (weak, clock) = (Arc::downgrade(voter), Arc::clone(&voter.world.clock));
        let body = move || {
            while let Some(voter) = Weak::upgrade(&weak).filter(|it| !it.is_closed()) {
                end_expired(&voter);
                drop(voter);
                clock.sleep_micros(LOOK_US);
            }
        };
        drop(voter.world.spawn.spawn("raft-leases", Box::new(body)));
    }
}

fn end_expired(voter: &RaftVoter) {
    let Ok(runtime) = voter.runtime() else { return };
    let Some(term) = voter.leading_term() else {
        voter.leases.lock().term = None;
        return;
    };
    if voter.leases.lock().term != Some(term) {
        // Its table must have all leases of the leaders before.
        if runtime.block_on(voter.confirm_leadership()).is_err() {
            return;
        }
        let now_us = voter.now_us();
        let deadlines = voter.machine.with_table(|table| Deadlines::anew(table, now_us));
        *voter.leases.lock() = LeaderLeases { term: Some(term), deadlines };
    }
    let expired = voter.leases.lock().deadlines.expired(voter.now_us());
    for lease in expired {
        match runtime.block_on(voter.propose(Command::End { lease })) {
            Ok(_) => voter.leases.lock().deadlines.remove(lease),
            Err(error) => {
                tracing::debug!(%error, %lease, "a lease has expired and could not be ended yet");
                return;
            }
        }
    }
}
