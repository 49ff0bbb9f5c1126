//! Many streams are opened as one is, with one sync for all of them.

use crate::{Log, LogOptions, StreamSpec};
use std::path::Path;
use tidemill_env::{SimWorld, World};

fn open(sim: &SimWorld, sync_together_min: usize) -> Log {
    let options = LogOptions { sync_threads: 0, sync_together_min, ..LogOptions::default() };
    Log::open(&sim.world, Path::new("/log"), options).unwrap()
}

fn of(streamlets: u32) -> StreamSpec {
    StreamSpec { streamlets, ..StreamSpec::default() }
}

fn make(log: &Log, count: usize) {
    let asked = (0..count).map(|index| (format!("s{index}"), of(1))).collect();
    assert!(log.create_all(asked).iter().all(Result::is_ok));
}

/// Operations on the disk that opening takes, reads aside.
fn operations(streams: usize, sync_together_min: usize) -> u64 {
    let sim = World::simulated(1);
    let log = open(&sim, sync_together_min);
    make(&log, streams);
    drop(log);
    let before = sim.disk.operations();
    let log = open(&sim, sync_together_min);
    assert_eq!(log.list().len(), streams);
    sim.disk.operations() - before
}

#[test]
fn many_streams_are_opened_with_one_sync() {
    assert_eq!(operations(100, 4), operations(10, 4));
    assert_eq!(operations(100, 0), operations(10, 0) + 90, "where there must be none");
}

/// A change failed at any step, and the process ended. What the next one reads of it is so for good.
#[test]
fn what_was_read_of_many_streams_stays() {
    let mut seen_both = [false; 2];
    for step in 0..12 {
        let sim = World::simulated(step);
        let log = open(&sim, 4);
        make(&log, 6);
        sim.disk.fail_after(step);
        let _either_way = log.alter("s3", of(2));
        sim.disk.kill();
        sim.disk.fail_after(u64::MAX);
        drop(log);
        let count = |log: &Log| log.get("s3").unwrap().spec().streamlets;
        let seen = count(&open(&sim, 4));
        seen_both[usize::from(seen == 2)] = true;
        sim.disk.power_cut();
        assert_eq!(count(&open(&sim, 4)), seen, "step {step}");
    }
    assert_eq!(seen_both, [true; 2]);
}
