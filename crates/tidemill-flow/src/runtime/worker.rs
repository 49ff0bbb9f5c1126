//! A worker: one thread that runs lanes, oldest cycle first, then furthest downstream first.
//!
//! That order drains cycles under way before it takes in more, so data is still in the cache when
//! the next stage reads it.

use super::job::Job;
use super::lane::Lane;
use std::{sync::Arc, time::Duration};
use tidemill_env::sync::{Condvar, Mutex, atomic::Ordering};
use tidemill_types::Cycle;

mod deferred_wakes;
#[cfg(test)]
mod tests;

/// The longest sleep of a worker without work: a bound on the cost of a lost wake.
const SLEEP_MAX_US: u64 = 1_000_000;

/// Lanes that wait for one worker.
#[derive(Default)]
pub(crate) struct WorkerQueue {
    inner: Mutex<QueueState>,
    wakeup: Condvar,
}

#[derive(Default)]
struct QueueState {
    ready: Vec<(Cycle, Arc<Lane>)>,
    timers: Vec<(u64, Arc<Lane>)>,
    asleep: bool,
    rung: bool,
}

/// The next task of a worker.
pub(crate) enum Next {
    /// A lane to run.
    Run(Arc<Lane>),
    /// A timer is due: poke this lane.
    Due(Arc<Lane>),
    /// Nothing until this time.
    Sleep(u64),
}

impl WorkerQueue {
    /// Queues a lane. Its worker is woken, if it sleeps; by another worker that is busy with short
    /// runs, some runs later.
    pub(crate) fn push(self: &Arc<Self>, next: Cycle, lane: Arc<Lane>) {
        let mut inner = self.inner.lock().expect("no panic while held");
        inner.ready.push((next, lane));
        if inner.asleep {
            inner.asleep = false;
            drop(inner);
            if !deferred_wakes::defer(self) {
                self.wakeup.notify_one();
            }
        }
    }

    /// Sets a timer for a lane; an earlier one of the same lane is replaced.
    pub(crate) fn push_timer(&self, due_us: u64, lane: Arc<Lane>) {
        let mut inner = self.inner.lock().expect("no panic while held");
        inner.timers.retain(|(_, it)| !Arc::ptr_eq(it, &lane));
        inner.timers.push((due_us, lane));
        if inner.asleep {
            inner.asleep = false;
            drop(inner);
            self.wakeup.notify_one();
        }
    }

    /// Wakes the worker whatever its queue holds.
    pub(crate) fn wake(&self) {
        let mut inner = self.inner.lock().expect("no panic while held");
        inner.rung = true;
        inner.asleep = false;
        drop(inner);
        self.wakeup.notify_one();
    }

    /// The task to do now.
    pub(crate) fn next(&self, now_us: u64) -> Next {
        let mut inner = self.inner.lock().expect("no panic while held");
        if let Some(due) = inner.timers.iter().position(|(due_us, _)| *due_us <= now_us) {
            return Next::Due(inner.timers.remove(due).1);
        }
        let oldest = (0..inner.ready.len()).min_by_key(|index| {
            let (cycle, lane) = &inner.ready[*index];
            (*cycle, std::cmp::Reverse(lane.rank))
        });
        if let Some(index) = oldest {
            return Next::Run(inner.ready.swap_remove(index).1);
        }
        let due = inner.timers.iter().map(|(due_us, _)| *due_us).min();
        Next::Sleep(due.unwrap_or(u64::MAX).min(now_us + SLEEP_MAX_US))
    }

    /// Sleeps until there may be something, or the time has come.
    fn sleep(&self, span_us: u64) {
        let mut inner = self.inner.lock().expect("no panic while held");
        if !inner.ready.is_empty() || std::mem::take(&mut inner.rung) {
            return;
        }
        inner.asleep = true;
        let span = Duration::from_micros(span_us);
        let (mut inner, _) = self.wakeup.wait_timeout(inner, span).expect("no panic while held");
        inner.asleep = false;
        inner.rung = false;
    }
}

/// The thread of worker `index`: runs lanes until the job is over.
pub(crate) fn work(job: &Arc<Job>, queue: &WorkerQueue) {
    let mut now_us = job.now_us();
    while !job.over.load(Ordering::Acquire) {
        match queue.next(now_us) {
            Next::Run(lane) => {
                deferred_wakes::begin_run(lane.is_short.load(Ordering::Relaxed));
                super::run(job, &lane);
                let began_us = std::mem::replace(&mut now_us, job.now_us());
                let is_short = deferred_wakes::is_short(now_us.saturating_sub(began_us));
                lane.is_short.store(is_short, Ordering::Relaxed);
                continue;
            }
            Next::Due(lane) => job.wake_lane(&lane),
            Next::Sleep(until_us) => {
                deferred_wakes::flush();
                queue.sleep(until_us.saturating_sub(job.now_us()));
            }
        }
        now_us = job.now_us();
    }
    deferred_wakes::flush();
}
