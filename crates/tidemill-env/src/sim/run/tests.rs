//! What a simulation decides, and that it decides the same again.

use super::*;
use crate::{
    Random,
    sync::{Condvar, Mutex, RwLock, atomic::AtomicU64, atomic::Ordering, mpsc},
};
use std::{collections::BTreeSet, path::Path, time::Duration};

fn random(seed: u64) -> Simulation {
    Simulation { pace: SimPace::of(&mut Random::new(seed)), ..Simulation::new(seed) }
}

/// Two threads add to a number that they read and write one after the other.
fn race(seed: u64) -> (u64, u64) {
    let outcome = Simulation::new(seed).run(|sim| {
        let number = Arc::new(AtomicU64::new(0));
        let threads = (0..2).map(|name| {
            let number = Arc::clone(&number);
            let add = move || {
                let before = number.load(Ordering::Acquire);
                number.store(before + 1, Ordering::Release);
            };
            sim.world.spawn.spawn(&format!("{name}"), Box::new(add))
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|it| it.join());
        number.load(Ordering::Acquire)
    });
    let (value, ran) = outcome.expect("it comes to an end");
    (value.expect("it did not panic"), ran.hash)
}

#[test]
fn a_lost_update_is_found_and_a_seed_gives_the_same_again() {
    let runs: Vec<_> = (0..40).map(race).collect();
    assert!(runs.iter().any(|(value, _)| *value == 1), "one seed loses an update");
    assert!(runs.iter().any(|(value, _)| *value == 2), "one does not");
    assert_eq!(runs, (0..40).map(race).collect::<Vec<_>>());
    assert!(runs.iter().map(|(_, hash)| hash).collect::<BTreeSet<_>>().len() > 3);
}

#[test]
fn two_locks_in_two_orders_are_a_deadlock_that_says_who_waits_where() {
    let outcome = |seed| {
        Simulation::new(seed).run(|sim| {
            let locks = Arc::new((Mutex::new(0), RwLock::new(0)));
            let other = Arc::clone(&locks);
            let thread = sim.world.spawn.spawn(
                "other",
                Box::new(move || {
                    let _second = other.1.write().expect("nobody panics");
                    let _first = other.0.lock().expect("nobody panics");
                }),
            );
            let first = locks.0.lock().expect("nobody panics");
            let second = locks.1.read().expect("nobody panics");
            drop((first, second));
            thread.join();
        })
    };
    let failed: Vec<SimFailure> = (0..100).filter_map(|seed| outcome(seed).err()).collect();
    assert!(!failed.is_empty() && failed.len() < 100, "{} of 100", failed.len());
    let message = &failed[0].message;
    assert!(message.starts_with("nobody can go on:"), "{message}");
    assert!(message.contains("main: lock at ") && message.contains("other: lock at "), "{message}");
    assert!(message.contains("run/tests.rs"), "{message}");
}

#[test]
fn time_passes_at_once_and_a_signal_comes_before_it_or_not() {
    for seed in 0..50 {
        let outcome = random(seed).run(move |sim| {
            let pair = Arc::new((Mutex::new(false), Condvar::new()));
            let (other, clock) = (Arc::clone(&pair), Arc::clone(&sim.clock));
            let thread = sim.world.spawn.spawn(
                "signals",
                Box::new(move || {
                    crate::Clock::sleep_micros(&*clock, 60_000_000);
                    *other.0.lock().expect("nobody panics") = true;
                    other.1.notify_one();
                }),
            );
            let mut given_up = 0;
            let mut said = pair.0.lock().expect("nobody panics");
            while !*said {
                let (guard, waited) =
                    pair.1.wait_timeout(said, Duration::from_secs(50)).expect("nobody panics");
                said = guard;
                given_up += u32::from(waited.timed_out());
            }
            drop(said);
            thread.join();
            given_up
        });
        let (given_up, ran) = outcome.expect("it comes to an end");
        assert_eq!(given_up, Some(1), "seed {seed}");
        assert!(ran.micros >= 60_000_000 && ran.micros < 150_000_000, "{} us", ran.micros);
    }
}

#[test]
fn answers_come_through_channels_or_never() {
    for seed in 0..50 {
        let outcome = random(seed).run(|sim| {
            let (sender, receiver) = mpsc::channel();
            let send = move || sender.send(7).expect("somebody receives");
            let thread = sim.world.spawn.spawn("sends", Box::new(send));
            assert_eq!(receiver.recv(), Ok(7));
            assert!(receiver.recv().is_err(), "nobody sends any more");
            thread.join();
        });
        assert!(outcome.expect("it comes to an end").0.is_some(), "seed {seed}");
    }
}

#[test]
fn threads_that_panic_or_go_round_in_circles_are_told() {
    let outcome = Simulation::new(1).run(|sim| {
        let panics = || std::panic::resume_unwind(Box::new("on purpose"));
        sim.world.spawn.spawn("unhappy", Box::new(panics)).join();
    });
    assert_eq!(outcome.expect("it comes to an end").1.panicked, ["unhappy"]);
    let pace = SimPace { points_max: 1_000, ..SimPace::EVEN };
    let outcome = Simulation { pace, ..Simulation::new(1) }.run(|_| {
        let number = AtomicU64::new(0);
        while number.load(Ordering::Acquire) == 0 {}
    });
    let failed = outcome.expect_err("it has no end");
    assert!(failed.message.contains("circles") && failed.message.contains("main: atomic at"));
    assert!(!failed.trace.is_empty());
}

/// Several threads append to files while the power is cut: the same seed leaves the same bytes.
#[test]
fn a_disk_is_left_the_same_by_the_same_seed() {
    let left = |seed| {
        let outcome = random(seed).run(move |sim| {
            let process = sim.process();
            process.disk.create_dir_all(Path::new("/d")).expect("there is room");
            let threads = (0..3_u8).map(|name| {
                let world = process.clone();
                let write = move || {
                    let Ok(mut file) = world.disk.create(Path::new(&format!("/d/{name}"))) else {
                        return;
                    };
                    while file.append(&[name; 1_000]).and_then(|()| file.sync()).is_ok() {
                        drop(world.disk.sync_dir(Path::new("/d")));
                    }
                };
                process.spawn.spawn(&format!("{name}"), Box::new(write))
            });
            let threads: Vec<_> = threads.collect();
            crate::Clock::sleep_micros(&*sim.clock, 1_000);
            sim.disk.power_cut();
            threads.into_iter().for_each(|it| it.join());
            let read = |name| sim.world.disk.read(Path::new(&format!("/d/{name}"))).ok();
            (0..3).map(read).collect::<Vec<_>>()
        });
        let (bytes, ran) = outcome.expect("it comes to an end");
        (bytes, ran.hash, ran.points, ran.micros)
    };
    let runs: Vec<_> = (0..10).map(left).collect();
    assert!(runs == (0..10).map(left).collect::<Vec<_>>());
    assert!(runs.windows(2).any(|two| two[0].0 != two[1].0), "seeds differ");
}
