//! Bells that a worker holds back for a moment.
//!
//! To wake a thread costs some microseconds on either side, more than a short run of a lane. So
//! while a worker runs lanes that take no longer than that, it rings for the others only every few
//! runs: they find several cycles then, and sleep once for all of them.
//!
//! Invariants: a bell is held for [`RUNS_MAX`] short runs at most, and never while its worker
//! sleeps; a run that may be long begins with none held, and holds none.

use super::WorkerQueue;
use std::{cell::RefCell, sync::Arc};

/// A run that is not longer than this is short, in microseconds.
const SHORT_US: u64 = 25;
/// After so many runs what is held is rung: before a link of few large cycles is full, so that the
/// one who reads begins while the one who writes goes on.
const RUNS_MAX: u32 = 4;

thread_local! {
    static HELD: RefCell<Held> = const { RefCell::new(Held { runs: 0, queues: Vec::new() }) };
}

/// Its memory is kept from bell to bell.
struct Held {
    /// Short runs since a bell was rung. None: no bell is held, as the run may be long or this is no
    /// worker.
    runs: u32,
    queues: Vec<Arc<WorkerQueue>>,
}

/// Whether a run that took so long was short.
pub(super) fn is_short(took_us: u64) -> bool {
    took_us <= SHORT_US
}

/// A run begins, which will be short for all that is known, or not.
pub(super) fn begin_run(is_short: bool) {
    if !is_short {
        return ring();
    }
    let is_due = HELD.with_borrow_mut(|held| {
        held.runs += 1;
        held.runs > RUNS_MAX
    });
    if is_due {
        ring();
        HELD.with_borrow_mut(|held| held.runs = 1);
    }
}

/// Holds the bell of a worker that sleeps; false: it must be rung now.
pub(super) fn hold(queue: &Arc<WorkerQueue>) -> bool {
    HELD.with_borrow_mut(|held| {
        let may_hold = held.runs > 0;
        if may_hold {
            held.queues.push(Arc::clone(queue));
        }
        may_hold
    })
}

/// Rings what is held, and holds nothing until the next short run.
pub(super) fn ring() {
    HELD.with_borrow_mut(|held| {
        held.runs = 0;
        held.queues.drain(..).for_each(|queue| queue.bell.notify_one());
    });
}

#[cfg(test)]
mod tests {
    use super::{super::tests::lane, *};
    use tidemill_env::World;
    use tidemill_types::Cycle;

    fn held() -> usize {
        HELD.with_borrow(|held| held.queues.len())
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
        assert_eq!(held(), 1);
        queue.push(Cycle(2), lane(0));
        assert_eq!(held(), 1, "one bell is enough");
        for _ in 1..RUNS_MAX {
            begin_run(true);
            assert_eq!(held(), 1);
        }
        begin_run(true);
        assert_eq!(held(), 0, "rung");
        asleep().push(Cycle(3), lane(0));
        assert_eq!(held(), 1);
        ring();
        assert_eq!(held(), 0);
    }

    #[test]
    fn a_long_run_holds_none_and_who_is_no_worker_neither() {
        asleep().push(Cycle(1), lane(0));
        assert_eq!(held(), 0);
        begin_run(true);
        asleep().push(Cycle(1), lane(0));
        assert_eq!(held(), 1);
        begin_run(false);
        assert_eq!(held(), 0, "rung before it begins");
        asleep().push(Cycle(1), lane(0));
        assert_eq!(held(), 0);
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
        assert_eq!(held(), 1);
        ring();
        sleeper.join();
        assert!(clock.monotonic_micros() - began_us < 30_000_000);
    }
}
