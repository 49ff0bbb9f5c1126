//! Leaders and copies: who appends, under which epoch, and what readers see.

use super::*;
use crate::{
    AppendError, AppendOptions, Log, LogOptions, ReadCursor, ReadLimit, StreamSpec,
    testing::batch_with,
};
use std::{path::Path, sync::Mutex};
use tidemill_env::{SimWorld, World};
use tidemill_types::Incarnation;

fn options(role: StartRole) -> LogOptions {
    LogOptions { role, sync_threads: 0, ..LogOptions::default() }
}

fn open(sim: &SimWorld, role: StartRole) -> (Log, Arc<Streamlet>) {
    let log = Log::open(&sim.world, Path::new("/log"), options(role)).unwrap();
    let stream = log.get("s").unwrap_or_else(|| log.create("s", StreamSpec::default()).unwrap());
    let streamlet = stream.streamlet(0).unwrap();
    (log, streamlet)
}

fn put(streamlet: &Arc<Streamlet>) -> Result<i64, AppendError> {
    streamlet.append(&batch_with(b"x"), AppendOptions::default()).map(|it| it.base_offset)
}

fn epochs(streamlet: &Streamlet) -> Vec<(i32, i64)> {
    streamlet.epochs().iter().map(|it| (it.epoch.0, it.start.0)).collect()
}

/// True if some reader sees the record at this offset.
fn is_visible(streamlet: &Arc<Streamlet>, offset: i64) -> bool {
    let has = |next: i64| next > offset;
    let read = streamlet.read(&mut ReadCursor::default(), offset, ReadLimit::default());
    let sent = streamlet.read_to_send(&mut ReadCursor::default(), offset, ReadLimit::default());
    let told = Arc::new(Mutex::new(false));
    let tell = Arc::clone(&told);
    let _waits = streamlet.on_data(offset, Box::new(move || *tell.lock().unwrap() = true));
    let mut groups = streamlet.next_groups("all", 9).unwrap();
    let chunks = groups.iter_mut().flat_map(|it| it.read(ReadLimit::default()).unwrap().chunks);
    let heads = chunks.map(|it| crate::ChunkHead::read(&it).unwrap().base_offset);
    let in_groups = heads.max().is_some_and(|it| it >= offset);
    let timed = streamlet.offset_for_time_from(0, offset).unwrap().is_some();
    let seen = [
        read.is_ok_and(|it| has(it.next_offset)),
        sent.is_ok_and(|it| has(it.next_offset)),
        *told.lock().unwrap(),
        in_groups,
        timed,
        has(streamlet.high_watermark()),
    ];
    assert!(seen.iter().all(|it| *it == seen[0]), "all see the same: {seen:?}");
    seen[0]
}

#[test]
fn a_node_that_is_alone_leads_and_a_stop_without_a_close_begins_an_epoch() {
    let sim = World::simulated(1);
    let (log, streamlet) = open(&sim, StartRole::Alone);
    assert_eq!(streamlet.role(), StreamletRole::Leader(LeaderEpoch(0)));
    put(&streamlet).unwrap();
    log.close();
    let (log, streamlet) = open(&sim, StartRole::Alone);
    assert_eq!(epochs(&streamlet), [(0, 0)], "a log that was closed has lost nothing");
    put(&streamlet).unwrap();
    log.sync();
    // Somebody may have been told of this one, which no sync has covered.
    put(&streamlet).unwrap();
    sim.disk.power_cut();
    drop((log, streamlet));
    let (log, streamlet) = open(&sim, StartRole::Alone);
    let end = streamlet.end_offset();
    assert_eq!(epochs(&streamlet), [(0, 0), (1, end)]);
    assert_eq!(put(&streamlet).unwrap(), end);
    assert_eq!(streamlet.epoch_at(Offset(end)), LeaderEpoch(1));
    log.sync();
    sim.disk.power_cut();
    drop((log, streamlet));
    let (log, streamlet) = open(&sim, StartRole::Alone);
    assert_eq!(epochs(&streamlet), [(0, 0), (1, end), (2, end + 1)]);
    let end_of = |epoch| streamlet.end_of_epoch(LeaderEpoch(epoch), Offset(end + 1)).unwrap();
    assert_eq!(end_of(0), EpochEnd { epoch: LeaderEpoch(0), end: Offset(end) });
    assert_eq!(end_of(1), EpochEnd { epoch: LeaderEpoch(1), end: Offset(end + 1) });
    assert_eq!(streamlet.end_of_epoch(LeaderEpoch(3), Offset(end + 1)), None);
    log.close();
    let (log, streamlet) = open(&sim, StartRole::Alone);
    assert_eq!(streamlet.leader_epoch(), LeaderEpoch(2), "and goes on under it once closed");
    log.close();
}

#[test]
fn a_log_that_was_not_closed_is_opened_with_one_sync_more_however_many_streamlets() {
    let operations = |streamlets: u32| {
        let sim = World::simulated(1);
        let (log, _) = open(&sim, StartRole::Alone);
        log.create("t", StreamSpec { streamlets, ..StreamSpec::default() }).unwrap();
        drop(log);
        let before = sim.disk.operations();
        open(&sim, StartRole::Alone);
        sim.disk.operations() - before
    };
    assert_eq!(operations(1), operations(50));
}

#[test]
fn nothing_of_a_copy_is_readable_until_its_leader_says_so() {
    let sim = World::simulated(2);
    let (log, streamlet) = open(&sim, StartRole::Alone);
    for offset in 0..4 {
        assert_eq!(put(&streamlet).unwrap(), offset);
    }
    log.sync();
    assert!(is_visible(&streamlet, 3));
    log.close();
    let (log, streamlet) = open(&sim, StartRole::Copy);
    assert_eq!((streamlet.role().leads(), streamlet.end_offset()), (false, 4));
    assert!(matches!(put(&streamlet), Err(AppendError::NotLeader { .. })));
    for offset in 0..4 {
        assert!(!is_visible(&streamlet, offset));
    }
    streamlet.set_replicated(Offset(2));
    assert!(is_visible(&streamlet, 1) && !is_visible(&streamlet, 2));
    streamlet.set_replicated(Offset(1));
    assert_eq!(streamlet.high_watermark(), 2, "it never goes back");
    streamlet.set_replicated(Offset(9));
    assert_eq!(streamlet.high_watermark(), 4);
    log.close();
}

#[test]
fn a_leader_with_copies_acknowledges_what_they_have() {
    let sim = World::simulated(3);
    let (log, streamlet) = open(&sim, StartRole::Copy);
    streamlet.become_leader(LeaderEpoch(3), Landing::Replicated).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    for offset in 0..3 {
        let append = streamlet.append(&batch_with(b"x"), AppendOptions::default()).unwrap();
        assert_eq!((append.base_offset, append.leader_epoch), (offset, LeaderEpoch(3)));
        let told = Arc::clone(&told);
        append.on_durable(Box::new(move |it| told.lock().unwrap().push((offset, it.is_ok()))));
    }
    // On the copies first, then here: both are needed.
    streamlet.set_replicated(Offset(1));
    assert!(told.lock().unwrap().is_empty());
    log.sync();
    assert_eq!(*told.lock().unwrap(), [(0, true)]);
    assert!(is_visible(&streamlet, 0) && !is_visible(&streamlet, 1));
    streamlet.set_replicated(Offset(2));
    assert_eq!(*told.lock().unwrap(), [(0, true), (1, true)]);
    // The next leader may not have the last one.
    streamlet.become_copy(LeaderEpoch(4)).unwrap();
    assert_eq!(*told.lock().unwrap(), [(0, true), (1, true), (2, false)]);
    assert!(!is_visible(&streamlet, 2));
    assert!(put(&streamlet).is_err());
    streamlet.become_leader(LeaderEpoch(5), Landing::Local).unwrap();
    assert!(is_visible(&streamlet, 2));
    assert_eq!(epochs(&streamlet), [(3, 0), (5, 3)]);
    log.close();
}

#[test]
fn an_epoch_that_was_taken_is_never_taken_again() {
    for seed in 0..4 {
        let sim = World::simulated(seed);
        let (log, streamlet) = open(&sim, StartRole::Copy);
        streamlet.become_leader(LeaderEpoch(4), Landing::Local).unwrap();
        put(&streamlet).unwrap();
        let is_over = |epoch, streamlet: &Arc<Streamlet>| {
            let led = streamlet.become_leader(LeaderEpoch(epoch), Landing::Local);
            matches!(led, Err(LogError::Epoch(_)))
        };
        assert!((0..=4).all(|epoch| is_over(epoch, &streamlet)));
        assert!(streamlet.become_copy(LeaderEpoch(4)).is_err(), "it leads itself under that one");
        assert_eq!(streamlet.role(), StreamletRole::Leader(LeaderEpoch(4)), "nothing changed");
        sim.disk.power_cut();
        drop((log, streamlet));
        let (log, streamlet) = open(&sim, StartRole::Copy);
        assert!((0..=4).all(|epoch| is_over(epoch, &streamlet)), "the epoch is on the disk");
        streamlet.become_copy(LeaderEpoch(9)).unwrap();
        sim.disk.power_cut();
        drop((log, streamlet));
        let (log, streamlet) = open(&sim, StartRole::Copy);
        assert!((0..=9).all(|epoch| is_over(epoch, &streamlet)), "followed ones too");
        assert!(streamlet.become_copy(LeaderEpoch(8)).is_err());
        streamlet.become_leader(LeaderEpoch(10), Landing::Local).unwrap();
        log.close();
    }
}

#[test]
fn a_failed_disk_ends_a_leadership_before_it_begins() {
    for step in 0..4 {
        let sim = World::simulated(step);
        let (log, streamlet) = open(&sim, StartRole::Copy);
        sim.disk.fail_after(step);
        let led = streamlet.become_leader(LeaderEpoch(1), Landing::Local);
        if led.is_err() {
            assert!(!streamlet.role().leads());
            assert!(put(&streamlet).is_err());
        }
        drop(log);
    }
}

#[test]
fn an_incarnation_is_used_once() {
    let sim = World::simulated(5);
    let open = |incarnation| {
        let incarnation = Some(Incarnation(incarnation));
        let options = LogOptions { incarnation, ..options(StartRole::Alone) };
        Log::open(&sim.world, Path::new("/log"), options)
    };
    let log = open(7).unwrap();
    assert_eq!(log.incarnation(), Incarnation(7));
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    put(&streamlet).unwrap();
    let key = streamlet.segments().values().next().unwrap().key;
    assert_eq!(key.epoch.0 >> 32, 7, "no other node makes a segment of this identity");
    log.close();
    for used in [0, 6, 7] {
        let error = open(used).err().expect("it was used").to_string();
        assert!(error.contains("under incarnation 7"), "{error}");
    }
    // Without its metadata the folder still has the segments.
    sim.disk.flip("/log/meta", 40, 0x10).unwrap();
    assert!(matches!(open(7), Err(LogError::Incarnation { .. })));
    open(8).unwrap().close();
    let log = Log::open(&sim.world, Path::new("/log"), options(StartRole::Alone)).unwrap();
    assert_eq!(log.incarnation(), Incarnation(9), "one that is not given is the next one");
}
