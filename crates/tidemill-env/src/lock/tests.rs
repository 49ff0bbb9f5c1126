//! A panic under a lock leaves it usable, and a simulation sees its threads wait.

use super::*;
use std::{panic, sync::Arc};

#[test]
fn a_lock_is_usable_after_a_panic_under_it() {
    let mutex = Mutex::new(1);
    let rwlock = RwLock::new(1);
    let panicked = panic::catch_unwind(panic::AssertUnwindSafe(|| {
        *mutex.lock() = 2;
        *rwlock.write() = 2;
        let (_a, _b) = (mutex.lock(), rwlock.write());
        panic!("under both locks");
    }));
    assert!(panicked.is_err());
    assert_eq!((*mutex.lock(), *rwlock.read()), (2, 2));
    let (guard, timed_out) = Condvar::new().wait_timeout(mutex.lock(), Duration::ZERO);
    assert_eq!((*guard, timed_out), (2, true));
    drop(guard);
    assert_eq!(mutex.into_inner(), 2);
}

#[cfg(debug_assertions)]
#[test]
fn a_simulation_sees_threads_that_wait_for_each_other() {
    for seed in 0..50 {
        let outcome = crate::Simulation::new(seed).run(|sim| {
            let shared = Arc::new((Mutex::new(0), Condvar::new()));
            let other = Arc::clone(&shared);
            let body = Box::new(move || {
                *other.0.lock() = 7;
                other.1.notify_all();
            });
            let thread = sim.world.spawn.spawn("sets", body);
            let mut value = shared.0.lock();
            while *value == 0 {
                value = shared.1.wait(value);
            }
            let seen = *value;
            drop(value);
            thread.join();
            seen
        });
        assert_eq!(outcome.unwrap().0, Some(7), "seed {seed}");
    }
}
