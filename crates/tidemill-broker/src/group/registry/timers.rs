//! When groups have to be looked at: one task sleeps until the first of them is due.

use super::GroupRegistry;
use crate::server::asked;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::{Notify, watch};

/// The interval of the search for old entries, in milliseconds.
const SWEEP_MS: u64 = 600_000;

/// When which group is due.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    due: Mutex<BTreeSet<(u64, String)>>,
    /// One was set that is before all others.
    earlier: Notify,
}

impl Alarms {
    pub(super) fn set(&self, at_ms: u64, group: &str) {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = due.first().is_none_or(|(first_ms, _)| at_ms < *first_ms);
        due.insert((at_ms, group.to_owned()));
        drop(due);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Takes a group that is due.
    fn take(&self, now_ms: u64) -> Option<String> {
        let mut due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = due.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms);
        if is_due { due.pop_first().map(|(_, group)| group) } else { None }
    }

    fn first_ms(&self) -> Option<u64> {
        let due = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        due.first().map(|(at_ms, _)| *at_ms)
    }
}

impl GroupRegistry {
    /// Looks at groups when they are due, until the server stops.
    pub(crate) async fn run(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        let mut sweep_ms = self.now_ms() + SWEEP_MS;
        loop {
            self.tick();
            let now_ms = self.now_ms();
            if now_ms >= sweep_ms {
                self.sweep();
                sweep_ms = now_ms + SWEEP_MS;
            }
            let next_ms = self.alarms.first_ms().map_or(sweep_ms, |it| it.min(sweep_ms));
            // One more: a clock in whole milliseconds may be just below.
            let wait = Duration::from_millis(next_ms.saturating_sub(now_ms) + 1);
            tokio::select! {
                () = asked(&mut stopped) => return,
                () = self.alarms.earlier.notified() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    /// Looks at all groups that are due now.
    pub(crate) fn tick(self: &Arc<Self>) {
        let now_ms = self.now_ms();
        while let Some(id) = self.alarms.take(now_ms) {
            self.with(&id, |_, inner, now_ms| {
                inner.alarm_ms = u64::MAX;
                inner.group.tick(now_ms);
            });
        }
    }
}
