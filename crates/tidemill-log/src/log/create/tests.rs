//! Many streams are made as one is, and all of them or none are there after a crash.

use super::*;
use crate::{AppendOptions, Finding, LogOptions, testing::batch};
use std::path::Path;
use tidemill_env::{Disk, SimWorld, World};

const FOLDER: &str = "/log";

fn open(sim: &SimWorld) -> Log {
    let options = LogOptions { sync_threads: 0, streamlets_max: 100, ..LogOptions::default() };
    Log::open(&sim.world, Path::new(FOLDER), options).unwrap()
}

fn of(streamlets: u32) -> StreamSpec {
    StreamSpec { streamlets, ..StreamSpec::default() }
}

fn names(log: &Log) -> Vec<String> {
    log.list().iter().map(|it| it.name().to_owned()).collect()
}

#[test]
fn each_gets_its_own_answer() {
    let sim = World::simulated(1);
    let log = open(&sim);
    log.create("there", of(10)).unwrap();
    let asked = [
        ("a", of(30)),
        ("there", of(1)),
        ("no name", of(1)),
        ("a", of(1)),
        ("b", of(0)),
        ("c", of(61)),
        ("d", of(60)),
        ("e", of(1)),
    ];
    let asked = asked.map(|(name, spec)| (name.to_owned(), spec)).to_vec();
    let made = log.create_all(asked);
    let ok: Vec<bool> = made.iter().map(Result::is_ok).collect();
    assert_eq!(ok, [true, false, false, false, false, false, true, false]);
    assert!(matches!(made[1], Err(LogError::Exists(_))));
    assert!(matches!(made[2], Err(LogError::Name(_))));
    assert!(matches!(made[3], Err(LogError::Exists(_))));
    assert!(matches!(made[4], Err(LogError::Spec { .. })));
    assert!(matches!(made[7], Err(LogError::Spec { .. })), "there are 100");
    assert_eq!(names(&log), ["a", "d", "there"]);
    let streamlet = log.get("d").unwrap().streamlet(59).unwrap();
    let _append = streamlet.append(&batch(1), AppendOptions::default()).unwrap();
    log.sync();
    drop(log);
    sim.disk.power_cut();
    let log = open(&sim);
    assert_eq!(names(&log), ["a", "d", "there"]);
    assert!(log.findings().is_empty(), "{:?}", log.findings());
    assert_eq!(log.get("d").unwrap().streamlet(59).unwrap().high_watermark(), 1);
    log.close();
    let after = log.create_all(vec![("x".into(), of(1)); 5]);
    assert!(after.iter().all(|it| matches!(it, Err(LogError::Closed))));
}

/// Whenever the power goes or the disk fails: what was said to be made is there afterwards, and
/// the log opens.
#[test]
fn at_every_operation_the_disk_may_fail_or_lose_power() {
    for at in 0..60 {
        for cut in [false, true] {
            let sim = World::simulated(at);
            let log = open(&sim);
            sim.disk.fail_after(at);
            let asked = (0..6).map(|it| (format!("s{it}"), of(1))).collect();
            let made = log.create_all(asked);
            sim.disk.fail_after(u64::MAX);
            let said: Vec<String> = made.iter().flatten().map(|it| it.name().to_owned()).collect();
            assert_eq!(names(&log), said);
            drop((log, made));
            if cut {
                sim.disk.power_cut();
            }
            let log = open(&sim);
            let there = names(&log);
            assert!(said.iter().all(|it| there.contains(it)), "{at}: {said:?}, {there:?}");
        }
    }
}

/// As above, of one; and then it is made in a second attempt, which has data.
#[test]
fn one_that_could_not_be_made_is_not_in_the_way_of_the_next_of_its_name() {
    for at in 0..12 {
        for cut in [false, true] {
            let sim = World::simulated(at);
            let log = open(&sim);
            sim.disk.fail_after(at);
            let failed = log.create("s", of(1)).is_err();
            sim.disk.fail_after(u64::MAX);
            if failed {
                let folders = sim.disk.list(&Path::new(FOLDER).join("streams")).unwrap();
                assert!(folders.is_empty(), "{at}: {folders:?}");
                log.create("s", of(1)).unwrap();
            }
            let streamlet = log.get("s").unwrap().streamlet(0).unwrap();
            let append = streamlet.append(&batch(1), AppendOptions::default()).unwrap();
            append.on_durable(Box::new(|it| it.unwrap()));
            log.sync();
            drop((streamlet, log));
            if cut {
                sim.disk.power_cut()
            } else {
                sim.disk.kill()
            }
            let streamlet = open(&sim).get("s").unwrap().streamlet(0).unwrap();
            assert_eq!(streamlet.high_watermark(), 1, "{at}");
        }
    }
}

#[test]
fn of_two_with_one_name_the_one_that_has_data_is_served() {
    for seed in 0..16 {
        let sim = World::simulated(seed);
        let log = open(&sim);
        let folder = log.create("s", of(1)).unwrap().core.folder.clone();
        let meta = sim.disk.read(&folder.join("meta")).unwrap();
        log.delete("s").unwrap();
        let made = log.create("s", of(1)).unwrap();
        let append =
            made.streamlet(0).unwrap().append(&batch(1), AppendOptions::default()).unwrap();
        append.on_durable(Box::new(|it| it.unwrap()));
        log.close();
        // As if the first had failed, and could not be removed.
        sim.disk.create_dir_all(&folder).unwrap();
        sim.disk.put(folder.join("meta"), &meta);
        let log = open(&sim);
        assert_eq!(log.get("s").unwrap().id(), made.id(), "whatever the order of their ids");
        let [Finding::SetAside { path, .. }] = log.findings() else { panic!("it is told") };
        assert_eq!(*path, folder);
    }
}

#[test]
fn a_folder_that_cannot_be_listed_is_an_error_and_not_set_aside() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::real();
    let open = || Log::open(&world, folder.path(), LogOptions::default());
    open().unwrap().close();
    let around = folder.path().join("streams/around");
    std::os::unix::fs::symlink(&around, &around).unwrap();
    assert!(matches!(open(), Err(LogError::Disk { path, .. }) if path == around));
    std::fs::remove_file(&around).unwrap();
    open().unwrap().close();
}
