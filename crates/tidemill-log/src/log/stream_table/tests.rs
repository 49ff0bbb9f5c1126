//! Streams are found by both, and soon.

use super::*;
use crate::{Log, LogOptions, StreamSpec};
use std::path::Path;
use tidemill_env::World;

#[test]
fn a_stream_is_found_by_its_id_until_it_is_deleted() {
    let sim = World::simulated(1);
    let open = || {
        let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
        Log::open(&sim.world, Path::new("/log"), options).unwrap()
    };
    let log = open();
    let first = log.create("a", StreamSpec::default()).unwrap().id();
    let other = log.create("b", StreamSpec::default()).unwrap().id();
    log.delete("a").unwrap();
    let again = log.create("a", StreamSpec::default()).unwrap().id();
    let found = |log: &Log| {
        let name = |id| log.get_by_id(id).map(|it| it.name().to_owned());
        [first, other, again].map(name)
    };
    let expected = [None, Some("b".to_owned()), Some("a".to_owned())];
    assert_eq!(found(&log), expected);
    log.close();
    drop(log);
    assert_eq!(found(&open()), expected);
}

#[test]
fn ids_of_no_stream_are_not_compared_with_all() {
    let sim = World::simulated(1);
    let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
    let log = Log::open(&sim.world, Path::new("/log"), options).unwrap();
    let named = (0..2_000).map(|it| (format!("s{it}"), StreamSpec::default())).collect();
    assert!(log.create_all(named).iter().all(Result::is_ok));
    let clock = World::real().clock;
    let began_us = clock.monotonic_micros();
    for number in 0..100_000u128 {
        assert!(log.get_by_id(StreamId(number.to_be_bytes())).is_none());
    }
    let took_us = clock.monotonic_micros() - began_us;
    assert!(took_us < 5_000_000, "{took_us} us");
}
