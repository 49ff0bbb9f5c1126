//! Wakes that a worker defers for a moment.
//!
//! Waking a thread costs some microseconds on either side, more than a short run of a lane. So a
//! worker that runs short lanes wakes the others only every few runs: they find several cycles
//! then, and sleep once for all of them.
//!
//! Invariants: a wake is deferred for at most [`RUNS_MAX`] short runs, and never while its worker
//! sleeps; a run that may be long begins with none deferred, and defers none.

use super::WorkerQueue;
use std::{cell::RefCell, sync::Arc};

/// A run that is not longer than this is short, in microseconds.
const SHORT_US: u64 = 25;
/// The wakes are sent after this many runs: before a link of few large cycles is full, so that its
/// reader begins while the writer goes on.
const RUNS_MAX: u32 = 4;

thread_local! {
    static DEFERRED: RefCell<Deferred> = const { RefCell::new(Deferred { runs: 0, queues: Vec::new() }) };
}

/// Its memory is reused from wake to wake.
struct Deferred {
    /// Short runs since the last wake. Zero: no wake is deferred, as the run may be long or the
    /// thread is no worker.
    runs: u32,
    queues: Vec<Arc<WorkerQueue>>,
}

/// Returns true if a run of `took_us` was short.
pub(super) fn is_short(took_us: u64) -> bool {
    took_us <= SHORT_US
}

/// Begins a run that is likely to be short, or not.
pub(super) fn begin_run(is_short: bool) {
    if !is_short {
        return flush();
    }
    let is_due = DEFERRED.with_borrow_mut(|deferred| {
        deferred.runs += 1;
        deferred.runs > RUNS_MAX
    });
    if is_due {
        flush();
        DEFERRED.with_borrow_mut(|deferred| deferred.runs = 1);
    }
}

/// Defers the wake of a sleeping worker; returns false if it must be woken now.
pub(super) fn defer(queue: &Arc<WorkerQueue>) -> bool {
    DEFERRED.with_borrow_mut(|deferred| {
        let may_defer = deferred.runs > 0;
        if may_defer {
            deferred.queues.push(Arc::clone(queue));
        }
        may_defer
    })
}

/// Sends the deferred wakes, and defers none until the next short run.
pub(super) fn flush() {
    DEFERRED.with_borrow_mut(|deferred| {
        deferred.runs = 0;
        deferred.queues.drain(..).for_each(|queue| queue.wakeup.notify_one());
    });
}

#[cfg(test)]
mod tests {
    use super::{super::tests::lane, *};
    use tidemill_env::World;
    use tidemill_types::Cycle;

    fn deferred() -> usize {
        DEFERRED.with_borrow(|deferred| deferred.queues.len())
    }

    /// The queue of a worker that has gone to sleep.
    fn asleep() -> Arc<WorkerQueue> {
        let queue = Arc::new(WorkerQueue::default());
        queue.inner.lock().unwrap().asleep = true;
        queue
    }

    #[test]
    fn a_bell_is_held_for_some_short_runs() {
        begin_run(true);
        let queue = asleep();
        queue.push(Cycle(1), lane(0));
        assert_eq!(deferred(), 1);
        queue.push(Cycle(2), lane(0));
        assert_eq!(deferred(), 1, "one wakeup is enough");
        for _ in 1..RUNS_MAX {
            begin_run(true);
            assert_eq!(deferred(), 1);
        }
        begin_run(true);
        assert_eq!(deferred(), 0, "rung");
        asleep().push(Cycle(3), lane(0));
        assert_eq!(deferred(), 1);
        flush();
        assert_eq!(deferred(), 0);
    }

    #[test]
    fn a_long_run_holds_none_and_who_is_no_worker_neither() {
        asleep().push(Cycle(1), lane(0));
        assert_eq!(deferred(), 0);
        begin_run(true);
        asleep().push(Cycle(1), lane(0));
        assert_eq!(deferred(), 1);
        begin_run(false);
        assert_eq!(deferred(), 0, "rung before it begins");
        asleep().push(Cycle(1), lane(0));
        assert_eq!(deferred(), 0);
    }

    #[test]
    fn who_sleeps_is_woken_by_a_bell_that_was_held() {
        let queue = Arc::new(WorkerQueue::default());
        let world = World::real();
        let (of_sleeper, clock) = (Arc::clone(&queue), Arc::clone(&world.clock));
        let began_us = clock.monotonic_micros();
        let sleeper = world.spawn.spawn("sleeper", Box::new(move || of_sleeper.sleep(60_000_000)));
        while !queue.inner.lock().unwrap().asleep {
            std::thread::yield_now();
        }
        begin_run(true);
        queue.push(Cycle(1), lane(0));
        assert_eq!(deferred(), 1);
        flush();
        sleeper.join();
        assert!(clock.monotonic_micros() - began_us < 30_000_000);
    }
}
