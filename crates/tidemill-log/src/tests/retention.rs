//! What goes and what stays; recycled files; crashes in the middle of it.

use super::*;

const DAY: i64 = 86_400_000_000;

fn fill(log: &Log, streamlet: &Arc<Streamlet>, count: usize) {
    for index in 0..count {
        let options = AppendOptions { order_key: index as u64 };
        let append = streamlet.append(&batch_with(&[3; 5000]), options).unwrap();
        append.on_durable(Box::new(|it| it.unwrap()));
    }
    log.sync();
}

fn now(sim: &SimWorld) -> Micros {
    Micros(sim.world.clock.wall_micros())
}

#[test]
fn old_data_go_after_their_time_and_idle_ends_too() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, StreamSpec { active_groups: 2, ..spec() });
    fill(&log, &streamlet, 50);
    assert_eq!(log.maintain(now(&sim)).unwrap(), 0);
    sim.clock.advance((6 * DAY) as u64);
    fill(&log, &streamlet, 30);
    assert_eq!(log.maintain(now(&sim)).unwrap(), 0);
    sim.clock.advance((2 * DAY) as u64);
    assert!(log.maintain(now(&sim)).unwrap() >= 3);
    let start = streamlet.start_offset();
    assert!((30..=50).contains(&start), "{start}");
    assert_eq!(values(&streamlet).len() as i64, 80 - start);
    assert!(streamlet.read(&mut ReadCursor::default(), start - 1, ReadLimit::default()).is_err());
    sim.clock.advance((8 * DAY) as u64);
    log.maintain(now(&sim)).unwrap();
    log.sync();
    log.maintain(now(&sim)).unwrap();
    assert_eq!((streamlet.start_offset(), streamlet.segment_count()), (80, 0));
    drop(log);
    sim.disk.power_cut();
    let (log, streamlet) = reopened(&sim);
    assert_eq!((streamlet.start_offset(), streamlet.end_offset()), (80, 80), "offsets go on");
    fill(&log, &streamlet, 1);
    assert_eq!(streamlet.high_watermark(), 81);
}

/// A segment that is never full would never end.
#[test]
fn what_comes_slowly_goes_too_after_twice_its_time_at_most() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    let start = (1..=60).map(|day| {
        sim.clock.advance(DAY as u64);
        fill(&log, &streamlet, 1);
        log.maintain(now(&sim)).unwrap();
        log.sync();
        log.maintain(now(&sim)).unwrap();
        // A record a day: what is older than two weeks has gone, but for the days that are not over,
        // and nothing that is younger than one week.
        assert!(streamlet.start_offset() >= day - 17, "day {day}: {}", streamlet.start_offset());
        assert!(
            streamlet.start_offset() <= (day - 7).max(0),
            "day {day}: {}",
            streamlet.start_offset()
        );
        streamlet.start_offset()
    });
    assert!(start.max().is_some_and(|it| it > 40));
}

#[test]
fn row_13_a_clock_that_jumps_forward_deletes_nothing() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    fill(&log, &streamlet, 40);
    log.maintain(now(&sim)).unwrap();
    sim.clock.jump_wall(30 * DAY);
    sim.clock.advance(60_000_000);
    assert_eq!(log.maintain(now(&sim)).unwrap(), 0);
    assert_eq!(streamlet.start_offset(), 0);
}

#[test]
fn row_13_a_clock_that_is_ahead_when_the_log_is_opened_deletes_nothing() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    fill(&log, &streamlet, 40);
    log.close();
    sim.clock.jump_wall(30 * DAY);
    let (log, streamlet) = reopened(&sim);
    assert_eq!(log.maintain(now(&sim)).unwrap(), 0);
    sim.clock.advance(300_000_000);
    assert_eq!(log.maintain(now(&sim)).unwrap(), 0);
    sim.clock.jump_wall(-30 * DAY);
    for _ in 0..3 {
        sim.clock.advance(660_000_000);
        assert_eq!(log.maintain(now(&sim)).unwrap(), 0);
    }
    assert_eq!((streamlet.start_offset(), values(&streamlet).len()), (0, 40));
    sim.clock.advance((8 * DAY) as u64);
    assert!(log.maintain(now(&sim)).unwrap() > 0, "they are old now");
    assert_eq!(streamlet.start_offset(), 40);
}

#[test]
fn row_13_what_came_while_the_clock_was_behind_is_not_old_when_it_is_right_again() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    fill(&log, &streamlet, 1);
    log.close();
    sim.clock.jump_wall(-30 * DAY);
    let log = open(&sim);
    let other = log.create("other", spec()).unwrap().streamlet(0).unwrap();
    fill(&log, &other, 40);
    log.close();
    sim.clock.jump_wall(30 * DAY);
    let log = open(&sim);
    sim.clock.advance(DAY as u64);
    assert_eq!(log.maintain(now(&sim)).unwrap(), 0);
    assert_eq!(log.get("other").unwrap().streamlet(0).unwrap().start_offset(), 0);
}

/// Rounds of retention every five minutes for so long: how many segments went.
fn rounds(sim: &SimWorld, log: &Log, for_us: i64) -> usize {
    let every_us = 300_000_000;
    let round = |_| {
        sim.clock.advance(every_us as u64);
        log.maintain(now(sim)).unwrap()
    };
    (0..for_us / every_us).map(round).sum()
}

#[test]
fn row_13_what_comes_after_a_clock_was_ahead_goes_at_its_time() {
    for (ahead_us, restarted) in [(DAY / 24, false), (400 * DAY, false), (400 * DAY, true)] {
        let sim = World::simulated(1);
        let (log, streamlet) = started(&sim, spec());
        fill(&log, &streamlet, 20);
        sim.clock.jump_wall(ahead_us);
        fill(&log, &streamlet, 20);
        sim.clock.jump_wall(-ahead_us);
        let (log, streamlet) = if restarted {
            log.close();
            drop((log, streamlet));
            reopened(&sim)
        } else {
            (log, streamlet)
        };
        assert_eq!(rounds(&sim, &log, DAY / 48), 0);
        fill(&log, &streamlet, 20);
        assert_eq!(rounds(&sim, &log, 6 * DAY), 0);
        assert_eq!(streamlet.start_offset(), 0, "nothing is old");
        fill(&log, &streamlet, 20);
        rounds(&sim, &log, DAY + DAY / 12);
        let start = streamlet.start_offset();
        assert!((40..=60).contains(&start), "what came a week ago is gone: {start}");
        rounds(&sim, &log, 7 * DAY);
        log.sync();
        rounds(&sim, &log, DAY / 48);
        assert_eq!(streamlet.start_offset(), 80);
    }
}

#[test]
fn row_13_a_node_that_starts_often_is_rid_of_what_came_while_its_clock_was_ahead() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    sim.clock.jump_wall(400 * DAY);
    fill(&log, &streamlet, 40);
    sim.clock.jump_wall(-400 * DAY);
    rounds(&sim, &log, DAY / 48);
    fill(&log, &streamlet, 20);
    log.close();
    drop((log, streamlet));
    for day in 1..=8 {
        let (log, streamlet) = reopened(&sim);
        assert_eq!(rounds(&sim, &log, DAY) > 0, day == 8, "day {day}");
        log.close();
        assert_eq!(streamlet.start_offset(), if day == 8 { 60 } else { 0 });
    }
}

#[test]
fn row_13_what_came_while_the_clock_was_surely_behind_is_not_old_when_it_is_right_again() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    fill(&log, &streamlet, 1);
    log.close();
    drop((log, streamlet));
    sim.clock.jump_wall(-30 * DAY);
    let (log, streamlet) = reopened(&sim);
    let other = log.create("other", spec()).unwrap().streamlet(0).unwrap();
    assert_eq!(rounds(&sim, &log, DAY / 48), 0);
    fill(&log, &streamlet, 40);
    fill(&log, &other, 40);
    assert_eq!(rounds(&sim, &log, DAY / 48), 0);
    log.close();
    drop((log, streamlet, other));
    sim.clock.jump_wall(30 * DAY);
    let (log, streamlet) = reopened(&sim);
    let other = log.get("other").unwrap().streamlet(0).unwrap();
    assert_eq!(rounds(&sim, &log, 6 * DAY), 0);
    assert_eq!((streamlet.start_offset(), other.start_offset()), (0, 0));
    assert!(rounds(&sim, &log, 2 * DAY) > 0);
    assert_eq!((streamlet.start_offset(), other.start_offset()), (41, 40));
}

#[test]
fn the_largest_size_is_kept_and_emptied_files_are_used_again() {
    let sim = World::simulated(1);
    let bytes = Some(ByteSize(200_000));
    let retention = Retention { time: None, bytes };
    let (log, streamlet) = started(&sim, StreamSpec { retention, ..spec() });
    for _ in 0..30 {
        fill(&log, &streamlet, 10);
        log.maintain(now(&sim)).unwrap();
        assert!(streamlet.bytes() >= 200_000 || streamlet.start_offset() == 0);
        assert!(streamlet.bytes() < 350_000);
    }
    assert!(streamlet.start_offset() > 200);
    assert!(log.kept_bytes().1 > 0, "files wait for reuse");
    assert!(sim.disk.used() < 1_000_000, "files are used again: {}", sim.disk.used());
    assert_eq!(values(&streamlet).len() as i64, 300 - streamlet.start_offset());
}

#[test]
fn row_38_a_reader_of_a_recycled_file_never_sees_its_new_bytes() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    fill(&log, &streamlet, 40);
    for segment in streamlet.segments().values() {
        while segment.forget_one() {}
    }
    let mut cursor = ReadCursor::default();
    let one = ReadLimit { max_bytes: 1, ..ReadLimit::default() };
    assert_eq!(streamlet.read(&mut cursor, 0, one).unwrap().next_offset, 1);
    let stream = log.get("s").unwrap();
    assert_eq!(stream.delete_records(&streamlet, 30).unwrap(), 30);
    // Others fill the emptied files.
    let other = log.create("other", spec()).unwrap().streamlet(0).unwrap();
    fill(&log, &other, 40);
    assert_eq!(log.kept_bytes().1, 0);
    let out = streamlet.read(&mut cursor, 1, one);
    assert!(matches!(out, Err(ReadError::OutOfRange { start: 30, .. })), "{out:?}");
    assert_eq!(values(&streamlet).len(), 10);
    assert!(matches!(stream.delete_records(&streamlet, 41), Err(LogError::Offset { .. })));
    assert_eq!(stream.delete_records(&streamlet, 5).unwrap(), 30, "never back");
}

#[test]
fn row_38_a_stop_at_any_step_of_retention_and_recycling_loses_nothing_that_should_stay() {
    for step in 0..40 {
        for cut in [true, false] {
            let sim = World::simulated(step);
            let (log, streamlet) = started(&sim, spec());
            fill(&log, &streamlet, 60);
            sim.disk.fail_after(step);
            let _failed = log.get("s").unwrap().delete_records(&streamlet, 30);
            let made = log.create("other", spec()).ok().and_then(|it| it.streamlet(0));
            let acknowledged = Arc::new(Mutex::new(0));
            for _ in 0..20 {
                let Some(other) = &made else { break };
                let count = Arc::clone(&acknowledged);
                if let Ok(append) = put(other, &[9; 5000]) {
                    append.on_durable(Box::new(move |it| {
                        *count.lock().unwrap() += usize::from(it.is_ok());
                    }));
                }
            }
            log.sync();
            if cut {
                sim.disk.power_cut()
            } else {
                sim.disk.kill()
            }
            let (log, streamlet) = reopened(&sim);
            assert!(streamlet.start_offset() <= 30 && streamlet.high_watermark() == 60);
            assert!(values(&streamlet).iter().all(|it| *it == [3; 5000]));
            let other = log.get("other").and_then(|it| it.streamlet(0));
            let left = other.map_or(vec![], |it| values(&it));
            assert!(left.len() >= *acknowledged.lock().unwrap());
            assert!(left.iter().all(|it| *it == [9; 5000]));
        }
    }
}

#[test]
fn row_38_a_stop_at_any_step_of_a_deletion_removes_all_or_nothing() {
    for step in 0..14 {
        for cut in [true, false] {
            let sim = World::simulated(step);
            let (log, streamlet) = started(&sim, spec());
            fill(&log, &streamlet, 40);
            sim.disk.fail_after(step);
            let outcome = log.delete("s");
            if cut {
                sim.disk.power_cut()
            } else {
                sim.disk.kill()
            }
            let log = open(&sim);
            match log.get("s") {
                Some(stream) => {
                    assert!(outcome.is_err());
                    assert_eq!(values(&stream.streamlet(0).unwrap()).len(), 40);
                }
                None => assert!(segment_files(&sim).is_empty(), "step {step}"),
            }
            assert!(log.findings().is_empty(), "step {step}: {:?}", log.findings());
        }
    }
}

#[test]
fn row_38_a_deletion_that_failed_takes_nothing_with_it_that_is_acknowledged_later() {
    let (mut went_on, mut refused) = (0, 0);
    for (step, full, cut) in
        (0..10).flat_map(|step| (0..4).map(move |it| (step, it % 2 == 0, it < 2)))
    {
        let sim = World::simulated(step);
        let (log, streamlet) = started(&sim, spec());
        fill(&log, &streamlet, 3);
        if full {
            // There is room to say that it is deleted, and then none to say that it is not.
            let meta = segment_files(&sim)[0].with_file_name("meta");
            let bytes = sim.disk.read(&meta).unwrap().len() as u64;
            sim.disk.set_capacity(sim.disk.used() + bytes - 1);
        }
        sim.disk.fail_after(step);
        let outcome = log.delete("s");
        sim.disk.set_capacity(u64::MAX);
        sim.disk.fail_after(u64::MAX);
        let Some(stream) = log.get("s") else { continue };
        assert!(outcome.is_err());
        assert_eq!(values(&streamlet).len(), 3, "it is served");
        let acknowledged = Arc::new(Mutex::new(false));
        let tell = Arc::clone(&acknowledged);
        match put(&streamlet, b"later") {
            Ok(append) => {
                went_on += 1;
                append.on_durable(Box::new(move |it| *tell.lock().unwrap() = it.is_ok()));
            }
            Err(error) => {
                refused += 1;
                assert!(full && matches!(error, AppendError::Failed(_)), "step {step}: {error}");
            }
        }
        log.sync();
        drop((stream, log));
        if cut {
            sim.disk.power_cut()
        } else {
            sim.disk.kill()
        }
        let there = open(&sim).get("s").map(|it| values(&it.streamlet(0).unwrap()).len());
        let acknowledged = *acknowledged.lock().unwrap();
        assert!(!acknowledged || there == Some(4), "step {step}: {there:?}");
        assert!(there.is_none_or(|it| it >= 3));
        assert!(there.is_some() || full, "step {step}: it was taken back");
    }
    assert!(went_on > 10 && refused > 1, "{went_on} {refused}");
}

#[test]
fn space_that_a_dead_process_had_reserved_is_given_back() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    fill(&log, &streamlet, 3);
    let all = values(&streamlet);
    sim.disk.kill();
    let before = sim.disk.used();
    let (log, streamlet) = reopened(&sim);
    assert_eq!(values(&streamlet), all);
    log.maintain(now(&sim)).unwrap();
    assert!(sim.disk.used() + 40_000 < before, "{before} {}", sim.disk.used());
    for segment in streamlet.segments().values() {
        while segment.forget_one() {}
    }
    assert_eq!(values(&streamlet), all);
    sim.disk.power_cut();
    let (log, streamlet) = reopened(&sim);
    assert_eq!(values(&streamlet), all);
    assert!(log.findings().is_empty(), "{:?}", log.findings());
}

#[test]
fn what_all_consumers_have_read_goes_and_what_they_have_not_stays() {
    let sim = World::simulated(1);
    let retention = Retention { time: None, bytes: None };
    let (log, streamlet) = started(&sim, StreamSpec { retention, ..spec() });
    fill(&log, &streamlet, 60);
    assert_eq!(log.maintain(now(&sim)).unwrap(), 0);
    streamlet.set_progress_floor(30);
    assert!(log.maintain(now(&sim)).unwrap() > 0);
    let start = streamlet.start_offset();
    assert!((15..=30).contains(&start), "{start}");
    assert_eq!(values(&streamlet).len() as i64, 60 - start);
    streamlet.set_progress_floor(1000);
    log.maintain(now(&sim)).unwrap();
    assert!(streamlet.start_offset() > 40 && streamlet.segment_count() == 1, "the open one stays");
}

#[test]
fn row_38_segments_that_a_crash_left_below_the_start_go_with_the_next_round() {
    let mut left = 0;
    for step in 0..16 {
        let sim = World::simulated(step);
        let (log, streamlet) = started(&sim, spec());
        fill(&log, &streamlet, 60);
        sim.disk.fail_after(step);
        let _failed = log.get("s").unwrap().delete_records(&streamlet, 40);
        sim.disk.kill();
        let (log, streamlet) = reopened(&sim);
        let start = streamlet.start_offset();
        let stale = streamlet.segments().values().filter(|it| it.range().1 <= start).count();
        left += stale;
        assert_eq!(log.maintain(now(&sim)).unwrap(), stale);
        assert!(streamlet.segments().values().all(|it| it.range().1 > start));
        assert_eq!(segment_files(&sim).len(), streamlet.segment_count());
        assert_eq!(values(&streamlet).len() as i64, 60 - start);
    }
    assert!(left > 0, "some stop was at such a moment");
}

#[test]
fn row_28_a_log_that_is_dropped_keeps_its_folder_until_nothing_of_it_can_write() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::real();
    let open = || Log::open(&world, folder.path(), LogOptions::default());
    let log = open().unwrap();
    let streamlet = log.create("s", spec()).unwrap().streamlet(0).unwrap();
    put(&streamlet, b"kept").unwrap().wait().unwrap();
    drop(log);
    assert!(matches!(open(), Err(LogError::InUse(_))), "a streamlet of it is in use");
    assert!(put(&streamlet, b"late").is_err());
    drop(streamlet);
    // Its threads end by themselves.
    let log = loop {
        match open() {
            Ok(log) => break log,
            Err(LogError::InUse(_)) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(values(&log.get("s").unwrap().streamlet(0).unwrap()), [b"kept"]);
}

#[test]
fn a_kill_leaves_no_finding_in_a_file_that_was_used_before() {
    let sim = World::simulated(1);
    let options = || LogOptions { recycled_bytes: ByteSize(64 << 20), ..by_hand() };
    let log = Log::open(&sim.world, Path::new("/log"), options()).unwrap();
    let streamlet = log.create("s", spec()).unwrap().streamlet(0).unwrap();
    fill(&log, &streamlet, 40);
    let end = streamlet.high_watermark();
    log.get("s").unwrap().delete_records(&streamlet, end).unwrap();
    log.sync();
    log.maintain(now(&sim)).unwrap();
    assert!(log.kept_bytes().1 > 0, "files rest in the pool");
    fill(&log, &streamlet, 17);
    let expected = values(&streamlet);
    drop((log, streamlet));
    sim.disk.kill();
    let log = Log::open(&sim.world, Path::new("/log"), options()).unwrap();
    assert!(log.findings().is_empty(), "{:?}", log.findings());
    assert_eq!(values(&log.get("s").unwrap().streamlet(0).unwrap()), expected);
}
