//! The faults of a cluster one by one, and a small program of five nodes under all of them.

use super::*;
use crate::{SimPace, Simulation, lock, sync::mpsc};
use std::{
    io::{self, Read, Write},
    path::Path,
    time::Duration,
};

mod program;

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

/// Runs code in a simulation with an even pace and two nodes whose clocks are right.
fn run<T: Send + 'static>(body: impl FnOnce(&SimWorld, &SimCluster) -> T + Send + 'static) -> T {
    let ran = Simulation::new(1).run(|sim| {
        let cluster = SimCluster::with_drifts(sim, &[SimDrift::default(); 2]);
        body(sim, &cluster)
    });
    let (value, report) = ran.unwrap_or_else(|it| panic!("{}", it.message));
    assert!(report.panicked.is_empty() && report.stuck.is_empty(), "{report:?}");
    value.expect("it did not panic")
}

/// A number that a thread of a node counts up each millisecond of its clock.
fn count_up(world: &World) -> Arc<lock::Mutex<u64>> {
    let count = Arc::new(lock::Mutex::new(0));
    let (counted, clock) = (Arc::clone(&count), Arc::clone(&world.clock));
    let body = move || {
        loop {
            clock.sleep_micros(1_000);
            *counted.lock() += 1;
        }
    };
    world.spawn.spawn("counter", Box::new(body));
    count
}

#[test]
fn a_killed_process_does_nothing_any_more_and_drops_what_it_has() {
    struct Drops(Arc<lock::Mutex<u64>>);
    impl Drop for Drops {
        fn drop(&mut self) {
            *self.0.lock() += 1;
        }
    }
    run(|sim, cluster| {
        let world = cluster.node(ONE);
        let count = count_up(&world);
        let dropped = Arc::new(lock::Mutex::new(0));
        // Threads that wait for a lock, a channel, a thread and a peer.
        let held = Arc::new(lock::Mutex::new(()));
        let guard = held.lock();
        let (sender, receiver) = mpsc::channel::<()>();
        let listener = world.net.listen("node-1:1").unwrap();
        let (waits_for, counter) = (Arc::clone(&held), Arc::clone(&world.spawn));
        let bodies: [Box<dyn FnOnce() + Send>; 4] = [
            Box::new(move || drop(waits_for.lock())),
            Box::new(move || assert!(receiver.recv().is_ok())),
            Box::new(move || counter.spawn("forever", Box::new(loop_forever)).join()),
            Box::new(move || drop(listener.accept())),
        ];
        for body in bodies {
            let drops = Drops(Arc::clone(&dropped));
            let body = move || {
                let _drops = drops;
                body();
                panic!("it comes to no end");
            };
            world.spawn.spawn("waits", Box::new(body));
        }
        sim.world.clock.sleep_micros(100_000);
        assert!(cluster.is_alive(ONE));
        cluster.kill(ONE);
        let counted = *count.lock();
        assert!((80..101).contains(&counted), "{counted}");
        sim.world.clock.sleep_micros(100_000);
        assert_eq!((*count.lock(), *dropped.lock()), (counted, 4));
        assert!(sender.send(()).is_err() && !cluster.is_alive(ONE));
        drop(guard);
        assert!(world.disk.create(Path::new("file")).is_err());
        assert!(world.net.listen("node-1:1").is_err());
        assert!(cluster.is_alive(TWO));
        let world = cluster.restart(ONE);
        world.disk.create(Path::new("file")).unwrap();
        world.net.listen("node-1:1").expect("the port is free");
    });
}

fn loop_forever() {
    if let Some(here) = schedule::here() {
        loop {
            here.sleep(50_000);
        }
    }
}

#[test]
fn a_paused_process_stands_still_while_its_clock_goes_on() {
    run(|sim, cluster| {
        let world = cluster.node(ONE);
        let (count, other) = (count_up(&world), count_up(&cluster.node(TWO)));
        let listener = world.net.listen("node-1:1").unwrap();
        sim.world.clock.sleep_micros(100_000);
        cluster.pause(ONE);
        assert!(cluster.is_paused(ONE) && cluster.is_alive(ONE));
        let (before, other_before) = (*count.lock(), *other.lock());
        let clock_before = world.clock.monotonic_micros();
        sim.world.clock.sleep_micros(1_000_000);
        assert_eq!(*count.lock(), before);
        assert!(*other.lock() > other_before + 800, "others go on");
        assert!(world.clock.monotonic_micros() - clock_before >= 1_000_000);
        let connection = sim.world.net.connect("node-1:1", Duration::from_secs(1));
        connection.unwrap().writer.write_all(b"its system takes it").unwrap();
        cluster.resume(ONE);
        let mut bytes = Vec::new();
        listener.accept().unwrap().reader.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"its system takes it");
        sim.world.clock.sleep_micros(100_000);
        assert!(*count.lock() > before + 80);
        // A stopped process can be killed.
        cluster.pause(ONE);
        cluster.kill(ONE);
        assert!(!cluster.is_paused(ONE) && !cluster.is_alive(ONE));
        cluster.resume(ONE);
        assert!(!cluster.is_alive(ONE));
    });
}

#[test]
fn power_cuts_lose_what_is_not_synced_and_silence_the_host() {
    run(|sim, cluster| {
        let world = cluster.node(ONE);
        world.disk.create_dir_all(Path::new("/d")).unwrap();
        let mut file = world.disk.create(Path::new("/d/f")).unwrap();
        file.append(b"synced").unwrap();
        file.sync().unwrap();
        world.disk.sync_dir(Path::new("/d")).unwrap();
        file.append(b" not synced").unwrap();
        let listener = world.net.listen("0.0.0.0:1").unwrap();
        let connect = || sim.world.net.connect("node-1:1", Duration::from_secs(1));
        let mut connection = connect().unwrap();
        drop(listener.accept());
        let up_us = world.clock.monotonic_micros();
        cluster.power_cut(ONE);
        assert_eq!(connect().err().unwrap().kind(), io::ErrorKind::TimedOut);
        assert!(file.append(b"x").is_err());
        let world = cluster.restart(ONE);
        assert_eq!(connect().err().unwrap().kind(), io::ErrorKind::ConnectionRefused);
        assert!(connection.reader.read(&mut [0]).is_ok_and(|it| it == 0), "closed before");
        let left = world.disk.read(Path::new("/d/f")).unwrap();
        assert!(left.starts_with(b"synced"), "{left:?}");
        assert!(world.clock.monotonic_micros() < up_us, "the machine was started again");
    });
}

#[test]
fn a_kill_in_the_middle_of_a_write_ends_the_whole_process() {
    run(|sim, cluster| {
        let world = cluster.node(ONE);
        let count = count_up(&world);
        let disk = Arc::clone(&world.disk);
        let writes = move || {
            let mut file = disk.create(Path::new("f")).unwrap();
            while file.append(b"x").is_ok() {}
            drop(disk.exists(Path::new("f")));
            panic!("it has ended");
        };
        let _listener = world.net.listen("node-1:1").unwrap();
        cluster.kill_after(ONE, 5);
        world.spawn.spawn("writes", Box::new(writes)).join();
        assert!(!cluster.is_alive(ONE));
        let counted = *count.lock();
        sim.world.clock.sleep_micros(50_000);
        assert_eq!(*count.lock(), counted);
        let error = sim.world.net.connect("node-1:1", Duration::from_secs(1)).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        let left = cluster.restart(ONE).disk.read(Path::new("f")).unwrap();
        assert_eq!(left.len(), 4, "one operation made it");
    });
}

#[test]
fn clocks_drift_and_are_set_wrong() {
    let ran = Simulation::new(1).run(|sim| {
        let fast = SimDrift { rate_ppm: 100_000, wall_us: 5_000_000 };
        let slow = SimDrift { rate_ppm: -100_000, wall_us: -5_000_000 };
        let cluster = SimCluster::with_drifts(sim, &[fast, slow]);
        let worlds = [ONE, TWO].map(|node| cluster.node(node));
        let true_wall = || sim.world.clock.wall_micros();
        let off = worlds.each_ref().map(|it| it.clock.wall_micros() - true_wall());
        assert!(off[0].abs_diff(5_000_000) < 100 && off[1].abs_diff(-5_000_000) < 100, "{off:?}");
        let counts = worlds.each_ref().map(count_up);
        let before = worlds.each_ref().map(|it| it.clock.monotonic_micros());
        assert_ne!(before[0], before[1], "each machine counts from a moment of its own");
        sim.world.clock.sleep_micros(10_000_000);
        for (nth, expected) in [(0, 11_000), (1, 9_000)] {
            let passed = worlds[nth].clock.monotonic_micros() - before[nth];
            assert!(passed.abs_diff(expected * 1_000) < 1_000, "{nth}: {passed}");
            // Waits are as long as the machine's clock says.
            let counted = *counts[nth].lock();
            assert!(counted <= expected && counted > expected - 200, "{nth}: {counted}");
        }
        cluster.jump_wall(ONE, -3_600_000_000);
        let off = worlds[0].clock.wall_micros() - true_wall();
        assert!(off.abs_diff(-3_594_000_000) < 1_000, "{off}");
    });
    assert!(ran.unwrap().0.is_some(), "it did not panic");
}

#[test]
fn nodes_that_never_end_are_ended_with_the_test() {
    let counts: Vec<_> =
        run(|_, cluster| cluster.nodes().map(|node| count_up(&cluster.node(node))).collect());
    assert_eq!(counts.len(), 2);
}

#[test]
fn a_simulation_that_takes_too_long_is_told() {
    let pace = SimPace { micros_max: 5_000_000, ..SimPace::EVEN };
    let failed = Simulation { pace, ..Simulation::new(1) }.run(|sim| {
        let cluster = SimCluster::new(sim, 1);
        cluster.pause(ONE);
        sim.world.clock.sleep_micros(6_000_000);
        sim.world.clock.sleep_micros(1);
    });
    let message = failed.expect_err("it is too long").message;
    assert!(message.starts_with("too much time") && message.contains("main: sleep"), "{message}");
}
