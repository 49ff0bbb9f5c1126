//! Many streams are deleted as one is: each is durably gone when that is said, and is there
//! otherwise.

use crate::{
    AppendError, AppendOptions, Log, LogError, LogOptions, ReadCursor, ReadError, ReadLimit,
    StreamSpec, Streamlet, testing::batch,
};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tidemill_env::{Disk, SimWorld, World};
use tidemill_types::{ByteSize, Micros};

const FOLDER: &str = "/log";
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn open(sim: &SimWorld) -> Log {
    let reserve_bytes = ByteSize(1 << 10);
    let options = LogOptions { sync_threads: 0, reserve_bytes, ..LogOptions::default() };
    Log::open(&sim.world, Path::new(FOLDER), options).unwrap()
}

fn names(log: &Log) -> Vec<String> {
    log.list().iter().map(|it| it.name().to_owned()).collect()
}

/// Appends a record: whether it is acknowledged, later.
fn put(log: &Log, name: &str) -> Result<Arc<AtomicBool>, AppendError> {
    let streamlet = log.get(name).unwrap().streamlet(0).unwrap();
    let append = streamlet.append(&batch(1), AppendOptions::default())?;
    let told = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&told);
    append.on_durable(Box::new(move |it| tell.store(it.is_ok(), Ordering::SeqCst)));
    Ok(told)
}

/// Reads all there is.
fn read(streamlet: &Streamlet) -> Result<(), ReadError> {
    let (mut cursor, mut offset) = (ReadCursor::default(), streamlet.start_offset());
    while offset < streamlet.high_watermark() {
        offset = streamlet.read(&mut cursor, offset, ReadLimit::default())?.next_offset;
    }
    Ok(())
}

/// Streams that have a record each.
fn make(log: &Log, names: &[&str]) {
    for name in names {
        log.create(name, StreamSpec::default()).unwrap();
        put(log, name).unwrap();
    }
    log.sync();
}

/// A log of those, and of one that stays.
fn started(sim: &SimWorld) -> Log {
    let log = open(sim);
    make(&log, &["stays"]);
    make(&log, &NAMES);
    log
}

#[test]
fn each_gets_its_own_answer() {
    let sim = World::simulated(1);
    let log = started(&sim);
    let outcomes = log.delete_all(&["a", "b", "gap_error", "a", "c", "d"]);
    let ok: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(ok, [true, true, false, false, true, true]);
    assert!(matches!(&outcomes[2], Err(LogError::Unknown(it)) if it == "gap_error"));
    assert!(matches!(&outcomes[3], Err(LogError::Unknown(it)) if it == "a"));
    assert_eq!(names(&log), ["e", "f", "stays"]);
    let folders = sim.disk.list(&Path::new(FOLDER).join("streams")).unwrap();
    assert_eq!(folders.len(), 3, "{folders:?}");
    // Two are too few for the way above, and go as well.
    assert!(log.delete_all(&["e", "f"]).iter().all(Result::is_ok));
    drop(log);
    sim.disk.power_cut();
    let log = open(&sim);
    assert_eq!(names(&log), ["stays"]);
    assert!(log.findings().is_empty(), "{:?}", log.findings());
    log.close();
    let after = log.delete_all(&["stays"; 5]);
    assert!(matches!(after[0], Err(LogError::Closed)));
}

#[test]
fn names_are_free_again_and_who_has_a_stream_still_is_told() {
    let sim = World::simulated(1);
    let log = started(&sim);
    let before: Vec<_> = NAMES.iter().map(|it| log.get(it).unwrap()).collect();
    assert!(log.delete_all(&NAMES).iter().all(Result::is_ok));
    for (stream, name) in before.iter().zip(NAMES) {
        let streamlet = stream.streamlet(0).unwrap();
        let append = streamlet.append(&batch(1), AppendOptions::default());
        assert!(matches!(append, Err(AppendError::Closed)));
        let late = stream.delete_records(&streamlet, 1);
        assert!(matches!(late, Err(LogError::Closed)), "it does not come back to life");
        assert_ne!(log.create(name, StreamSpec::default()).unwrap().id(), stream.id());
    }
}

/// Where there is no room to say it of all of them, one goes after another: what is kept is enough
/// for one, and each makes room for the next.
#[test]
fn a_disk_without_a_free_byte_is_deleted_from() {
    let sim = World::simulated(1);
    let log = started(&sim);
    for free in [0, 1 << 10] {
        // It is kept again once there is room.
        log.maintain(Micros(0)).unwrap();
        sim.disk.set_capacity(sim.disk.used() + free);
        let outcomes = log.delete_all(&NAMES);
        assert!(outcomes.iter().all(Result::is_ok), "{free}: {outcomes:?}");
        assert_eq!(names(&log), ["stays"]);
        sim.disk.set_capacity(u64::MAX);
        make(&log, &NAMES);
    }
}

/// Or the disk fails, at any operation. And nothing that is served then, and acknowledges records,
/// is lost.
#[test]
fn what_is_said_to_be_deleted_is_gone_whenever_the_power_goes() {
    let (mut all, mut none, mut refused) = (0, 0, 0);
    for at in 0..120 {
        for cut in [false, true] {
            let sim = World::simulated(at);
            let log = started(&sim);
            // It has no file, and gets one of theirs.
            log.create("later", StreamSpec::default()).unwrap();
            sim.disk.fail_after(at);
            let outcomes = log.delete_all(&NAMES);
            sim.disk.fail_after(u64::MAX);
            let served = names(&log);
            for (name, outcome) in NAMES.iter().zip(&outcomes) {
                let is_served = served.iter().any(|it| it == name);
                assert!(outcome.is_err() || !is_served, "{at}: {name}");
            }
            let puts = served.iter().map(|name| (name.clone(), put(&log, name)));
            let puts: Vec<_> = puts.collect();
            log.sync();
            drop(log);
            if cut {
                sim.disk.power_cut()
            } else {
                sim.disk.kill()
            }
            let log = open(&sim);
            assert!(log.findings().is_empty(), "{at}: {:?}", log.findings());
            let there = names(&log);
            assert!(there.iter().all(|it| served.contains(it)), "{at}: {served:?}, {there:?}");
            // What is in the pool now is nobody's.
            make(&log, &["again"]);
            for (name, put) in puts {
                match put {
                    Ok(told) if told.load(Ordering::SeqCst) => {
                        let streamlet = log.get(&name).unwrap().streamlet(0).unwrap();
                        let records = if name == "later" { 1 } else { 2 };
                        assert_eq!(streamlet.high_watermark(), records, "{at}: {name}");
                        assert!(read(&streamlet).is_ok(), "{at}: {name}");
                    }
                    Ok(_) => panic!("{at}: {name} takes records and does not acknowledge them"),
                    Err(_) => refused += 1,
                }
            }
            all += usize::from(served == ["later", "stays"]);
            none += usize::from(served.len() == 8);
        }
    }
    assert!(all > 0 && none > 0, "{all} {none} {refused}");
}
