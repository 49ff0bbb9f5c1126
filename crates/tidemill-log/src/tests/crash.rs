//! Stops of every kind, at any moment: what was acknowledged is there, and what is there is a
//! prefix of what was appended.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Append {
        lane: u64,
        bytes: usize,
    },
    Sync,
    Groups(u32),
    DeleteBefore(u8),
    Maintain,
    /// The next-but-so-many operation of the disk fails.
    Fail(u64),
    PowerCut,
    Kill,
    Close,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..4u64, 0..6000usize).prop_map(|(lane, bytes)| Step::Append { lane, bytes }),
        4 => Just(Step::Sync),
        1 => (1..5u32).prop_map(Step::Groups),
        1 => any::<u8>().prop_map(Step::DeleteBefore),
        1 => Just(Step::Maintain),
        1 => (0..12u64).prop_map(Step::Fail),
        2 => Just(Step::PowerCut),
        1 => Just(Step::Kill),
        1 => Just(Step::Close),
    ];
    proptest::collection::vec(step, 1..120)
}

/// An offset and the value that it has.
type Stored = (i64, Vec<u8>);

/// What the outside knows.
#[derive(Default)]
struct Model {
    /// Every value that was ever given to each offset.
    tried: Vec<Vec<Vec<u8>>>,
    /// Offsets whose append was acknowledged, and the value.
    acknowledged: Arc<Mutex<Vec<Stored>>>,
    /// The records that readers saw.
    seen: Vec<Stored>,
    start: i64,
    /// The furthest start asked for: a request that failed may have come to pass.
    start_asked: i64,
    counter: u32,
}

impl Model {
    fn append(&mut self, streamlet: &Arc<Streamlet>, lane: u64, bytes: usize) {
        self.counter += 1;
        let mut text = format!("{} ", self.counter).into_bytes();
        text.resize(text.len() + bytes, b'z');
        let options = AppendOptions { order_key: lane };
        let offset = streamlet.end_offset();
        self.tried.resize_with(self.tried.len().max(offset as usize + 1), Vec::new);
        self.tried[offset as usize].push(text.clone());
        // One that failed may be found after a restart all the same.
        let Ok(append) = streamlet.append(&batch_with(&text), options) else { return };
        assert_eq!(append.base_offset, offset);
        let acknowledged = Arc::clone(&self.acknowledged);
        append.on_durable(Box::new(move |outcome| {
            if outcome.is_ok() {
                acknowledged.lock().unwrap().push((offset, text));
            }
        }));
    }

    /// Reads all and compares.
    fn check(&mut self, streamlet: &Streamlet, all_acknowledged: bool) {
        let start = streamlet.start_offset();
        let asked = self.start_asked.max(self.start);
        assert!((self.start..=asked).contains(&start), "the start never goes back, nor too far");
        self.start = start;
        let found = values(streamlet);
        let end = start + found.len() as i64;
        assert_eq!(end, streamlet.high_watermark(), "no gap");
        let at = |offset: i64| found.get((offset - start) as usize);
        for (offset, value) in found.iter().enumerate() {
            assert!(self.tried[offset + start as usize].contains(value), "it was appended there");
        }
        if all_acknowledged {
            for (offset, value) in self.acknowledged.lock().unwrap().iter() {
                assert!(*offset < start || at(*offset) == Some(value), "lost offset {offset}");
            }
            for (offset, value) in &self.seen {
                assert!(*offset < start || at(*offset) == Some(value), "{offset} was served");
            }
        }
        let places = (start..end).zip(found);
        self.seen = places.collect();
    }
}

/// Opens the log; an operation that the test makes fail may be one of opening's.
fn reopen(sim: &SimWorld) -> (Log, Arc<Streamlet>) {
    let log = Log::open(&sim.world, Path::new(FOLDER), by_hand());
    let log = log.unwrap_or_else(|_| open(sim));
    let streamlet = log.get("s").expect("it was made").streamlet(0).unwrap();
    (log, streamlet)
}

/// With two groups, of which both may wait for one sync.
fn run(seed: u64, fsync: Fsync, steps: &[Step]) {
    let sim = World::simulated(seed);
    let spec = StreamSpec { fsync: Some(fsync), active_groups: 2, ..spec() };
    let (mut log, mut streamlet) = started(&sim, spec.clone());
    let mut model = Model::default();
    let lossless = fsync == Fsync::Always;
    for step in steps {
        let mut powered = true;
        match step {
            Step::Append { lane, bytes } => model.append(&streamlet, *lane, *bytes),
            Step::Sync => log.sync(),
            Step::Groups(active_groups) => {
                let _failed =
                    log.alter("s", StreamSpec { active_groups: *active_groups, ..spec.clone() });
            }
            Step::DeleteBefore(part) => {
                let (start, end) = (streamlet.start_offset(), streamlet.high_watermark());
                let before = start + (end - start) * i64::from(*part) / 600;
                model.start_asked = model.start_asked.max(before);
                let _failed = log.get("s").unwrap().delete_records(&streamlet, before);
                model.start = streamlet.start_offset();
            }
            Step::Maintain => {
                let _failed = log.maintain(Micros(sim.world.clock.wall_micros()));
            }
            Step::Fail(operations) => sim.disk.fail_after(*operations),
            Step::PowerCut | Step::Kill | Step::Close => {
                match step {
                    Step::Close => log.close(),
                    Step::Kill => sim.disk.kill(),
                    _ => {
                        sim.disk.power_cut();
                        powered = false;
                    }
                }
                (log, streamlet) = reopen(&sim);
                let kept = lossless || powered;
                model.check(&streamlet, kept);
                if !kept {
                    // What was lost is forgotten; what is there now counts from now on.
                    *model.acknowledged.lock().unwrap() = model.seen.clone();
                }
                continue;
            }
        }
        model.check(&streamlet, true);
    }
}

proptest! {
    #[test]
    fn n1_n2_row_17_nothing_acknowledged_is_lost_with_fsync_always(
        seed in any::<u64>(), steps in steps(),
    ) {
        run(seed, Fsync::Always, &steps);
    }

    #[test]
    fn row_4_row_18_other_modes_lose_at_power_failure_only_and_keep_a_prefix(
        seed in any::<u64>(), steps in steps(), every in any::<bool>(),
    ) {
        run(seed, if every { Fsync::Every(Span(10_000)) } else { Fsync::Os }, &steps);
    }
}

#[test]
fn row_19_a_tail_torn_at_any_byte_keeps_all_before_it() {
    for cut in 0..300 {
        let sim = World::simulated(1);
        let (log, streamlet) = started(&sim, spec());
        put(&streamlet, b"first").unwrap().on_durable(Box::new(|it| it.unwrap()));
        log.sync();
        let path = segment_files(&sim)[0].clone();
        let append = put(&streamlet, &[7; 150]).unwrap();
        let position = append.position;
        drop(append);
        sim.disk.kill();
        // Garbage from some byte of the last chunk on.
        for at in cut..300 {
            sim.disk.flip(&path, position + at, 0xa5).unwrap();
        }
        let left = if cut >= 64 + 68 + 150 { 2 } else { 1 };
        for _ in 0..2 {
            let (log, streamlet) = reopened(&sim);
            assert_eq!(values(&streamlet).len(), left, "cut at {cut}, and no more the next time");
            drop(log);
            sim.disk.kill();
        }
        let (log, streamlet) = reopened(&sim);
        put(&streamlet, b"next").unwrap().on_durable(Box::new(|it| it.unwrap()));
        log.sync();
        drop(log);
        sim.disk.kill();
        let (_log, streamlet) = reopened(&sim);
        assert_eq!(values(&streamlet).len(), left + 1);
        assert_eq!(values(&streamlet).last().unwrap(), b"next");
    }
}

#[test]
fn row_15_a_failed_sync_is_an_error_for_producers_and_the_file_is_never_called_good() {
    let sim = World::simulated(5);
    let (log, streamlet) = started(&sim, StreamSpec { active_groups: 2, ..spec() });
    put(&streamlet, b"good").unwrap().on_durable(Box::new(|it| it.unwrap()));
    log.sync();
    let told = Arc::new(Mutex::new(Vec::new()));
    for text in [b"a", b"b"] {
        let told = Arc::clone(&told);
        put(&streamlet, text)
            .unwrap()
            .on_durable(Box::new(move |it| told.lock().unwrap().push(it)));
    }
    sim.disk.fail_sync_after(0);
    log.sync();
    assert_eq!(told.lock().unwrap().len(), 2);
    assert!(told.lock().unwrap().iter().all(|it| matches!(it, Err(AppendError::Failed(_)))));
    assert!(matches!(put(&streamlet, b"c"), Err(AppendError::Failed(_))));
    log.sync();
    assert_eq!(values(&streamlet), [b"good"], "what is durable is served");
    assert!(streamlet.failure().is_some());
    drop(log);
    sim.disk.kill();
    // A restart finds what the failed sync left in memory, and makes it durable before serving it.
    let (log, streamlet) = reopened(&sim);
    let found = values(&streamlet);
    assert!(put(&streamlet, b"d").is_ok());
    log.sync();
    drop(log);
    sim.disk.power_cut();
    let (_log, streamlet) = reopened(&sim);
    assert_eq!(values(&streamlet)[..found.len()], found[..]);
}

/// One group's sync ends after a write of the other failed.
#[test]
fn row_15_a_write_that_failed_while_another_group_was_synced_leaves_no_hole() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, StreamSpec { active_groups: 2, ..spec() });
    let append = |lane: u64, text: &[u8]| {
        streamlet.append(&batch_with(text), AppendOptions { order_key: lane })
    };
    append(0, b"a").unwrap().on_durable(Box::new(|it| it.unwrap()));
    append(1, b"b").unwrap().on_durable(Box::new(|it| it.unwrap()));
    log.sync();
    let (disk, other) = (Arc::clone(&sim.disk), Arc::clone(&streamlet));
    append(1, b"c").unwrap().on_durable(Box::new(move |it| {
        it.unwrap();
        disk.fail_after(0);
        assert!(matches!(put(&other, b"d"), Err(AppendError::Failed(_))));
    }));
    log.sync();
    assert_eq!((streamlet.high_watermark(), streamlet.floor()), (3, 2), "3 never came to be");
    drop(log);
    sim.disk.kill();
    let (log, streamlet) = reopened(&sim);
    assert_eq!(put(&streamlet, b"e").unwrap().base_offset, 3);
    log.sync();
    assert_eq!(values(&streamlet), [b"a", b"b", b"c", b"e"]);
}

#[test]
fn row_15_a_failed_sync_of_many_files_fails_all_that_waited_and_asks_the_others_one_by_one() {
    let mut fine = 0;
    for seed in 0..32 {
        let sim = World::simulated(seed);
        let log = open(&sim);
        let stream = log.create("s", StreamSpec { streamlets: 6, ..spec() }).unwrap();
        let idle = log.create("os", StreamSpec { fsync: Some(Fsync::Os), ..spec() }).unwrap();
        let idle = idle.streamlet(0).unwrap();
        let told = Arc::new(Mutex::new(Vec::new()));
        let append = |streamlet: &Arc<Streamlet>, text: &[u8]| {
            let (told, index) = (Arc::clone(&told), streamlet.index());
            let note = move |it: Result<(), AppendError>| {
                told.lock().unwrap().push((index, it.is_ok()));
            };
            put(streamlet, text).unwrap().on_durable(Box::new(note));
        };
        stream.streamlets().iter().for_each(|it| append(it, b"good"));
        let operations = sim.disk.operations();
        log.sync();
        // Six marks, one sync for all, and one of a file for the sake of the drive.
        assert_eq!(sim.disk.operations(), operations + 8);
        assert_eq!(std::mem::take(&mut *told.lock().unwrap()).len(), 6);
        stream.streamlets()[..4].iter().for_each(|it| append(it, b"lost"));
        put(&idle, &[1; 40_000]).unwrap().on_durable(Box::new(|it| it.unwrap()));
        sim.disk.fail_sync_after(0);
        log.sync();
        let wanted: Vec<_> = (0..4).map(|index| (index, false)).collect();
        assert_eq!(std::mem::take(&mut *told.lock().unwrap()), wanted);
        stream.streamlets()[4..].iter().for_each(|it| append(it, b"later"));
        log.sync();
        // Their marks were not synced then: one that was lost is told.
        let told = told.lock().unwrap().clone();
        assert_eq!((told.len(), told[0].0, told[1].0), (2, 4, 5));
        fine += told.iter().filter(|it| it.1).count();
        for streamlet in &stream.streamlets()[..4] {
            assert_eq!(values(streamlet), [b"good"]);
            assert!(put(streamlet, b"x").is_err());
        }
        // One that nobody had asked about then: when its segment is full, what it lost is told.
        for _ in 0..2 {
            let _full = put(&idle, &[2; 40_000]);
        }
        log.sync();
        let failed = idle.failure().is_some();
        sim.disk.power_cut();
        let log = open(&sim);
        let left = values(&log.get("os").unwrap().streamlet(0).unwrap());
        assert!(failed || left.starts_with(&[vec![1; 40_000]]), "a full segment is durable");
        let stream = log.get("s").unwrap();
        for streamlet in stream.streamlets() {
            let left = values(&streamlet);
            assert_eq!(left[0], b"good");
            let durable = told.contains(&(streamlet.index(), true));
            assert!(!durable || left[1] == b"later");
        }
    }
    assert!(fine > 10, "{fine}");
}

#[test]
fn n7_row_14_a_full_disk_refuses_and_goes_on_when_there_is_room() {
    let sim = World::simulated(2);
    let (log, streamlet) = started(&sim, spec());
    let fill = |streamlet: &Arc<Streamlet>| {
        for _ in 0..1000 {
            match put(streamlet, &[1; 5000]) {
                Ok(append) => append.on_durable(Box::new(|it| it.unwrap())),
                Err(error) => return error,
            }
            log.sync();
        }
        panic!("the disk is never full");
    };
    sim.disk.set_capacity(sim.disk.used() + (1 << 20));
    assert!(matches!(fill(&streamlet), AppendError::Full(_)));
    let before = values(&streamlet);
    assert!(before.len() > 100);
    assert!(matches!(put(&streamlet, &[1; 5000]), Err(AppendError::Full(_))), "and again");
    assert_eq!(values(&streamlet), before, "reads work");
    // Restarted while it is full: nothing is wiped out.
    sim.disk.kill();
    let log = Log::open(&sim.world, Path::new(FOLDER), by_hand());
    if let Ok(log) = log {
        assert_eq!(values(&log.get("s").unwrap().streamlet(0).unwrap()), before);
    }
    sim.disk.kill();
    sim.disk.set_capacity(u64::MAX);
    let (log, streamlet) = reopened(&sim);
    assert_eq!(values(&streamlet), before);
    put(&streamlet, b"room").unwrap().on_durable(Box::new(|it| it.unwrap()));
    log.sync();
    assert_eq!(values(&streamlet).len(), before.len() + 1);
}

#[test]
fn row_14_deleting_makes_room() {
    let sim = World::simulated(2);
    let (log, streamlet) = started(&sim, spec());
    sim.disk.set_capacity(sim.disk.used() + (1 << 20));
    while let Ok(append) = put(&streamlet, &[1; 5000]) {
        append.on_durable(Box::new(|it| it.unwrap()));
        log.sync();
    }
    let stream = log.get("s").unwrap();
    // The metadata need a little room of their own.
    sim.disk.set_capacity(sim.disk.used() + 2000);
    stream.delete_records(&streamlet, streamlet.high_watermark() / 2).unwrap();
    for _ in 0..20 {
        put(&streamlet, &[1; 5000]).unwrap().on_durable(Box::new(|it| it.unwrap()));
        log.sync();
    }
}

#[test]
fn row_14_a_disk_without_a_free_byte_is_opened_and_deleted_from() {
    let sim = World::simulated(2);
    let options = || LogOptions { reserve_bytes: ByteSize(16 << 10), ..by_hand() };
    let open = || Log::open(&sim.world, Path::new(FOLDER), options());
    let log = open().unwrap();
    let streamlet = log.create("s", spec()).unwrap().streamlet(0).unwrap();
    log.maintain(Micros(0)).unwrap();
    sim.disk.set_capacity(sim.disk.used() + (1 << 20));
    while let Ok(append) = put(&streamlet, &[1; 5000]) {
        append.on_durable(Box::new(|it| it.unwrap()));
        log.sync();
    }
    let before = values(&streamlet);
    sim.disk.set_capacity(sim.disk.used());
    sim.disk.kill();
    let log = open().expect("with what was kept for it");
    assert_eq!(values(&log.get("s").unwrap().streamlet(0).unwrap()), before);
    log.delete("s").expect("it makes room");
    log.maintain(Micros(0)).unwrap();
    let is_kept = || sim.world.disk.exists(&Path::new(FOLDER).join("reserve")).unwrap();
    assert!(is_kept(), "there is room again");
    // Once more, without a restart.
    sim.disk.set_capacity(u64::MAX);
    let other = log.create("o", spec()).unwrap();
    sim.disk.set_capacity(sim.disk.used());
    log.delete(other.name()).expect("it makes room");
    assert!(!is_kept(), "it was needed");
}

#[test]
fn r9_the_watermark_and_the_start_do_not_go_back_over_a_restart() {
    for seed in 0..40 {
        let sim = World::simulated(seed);
        let (log, streamlet) = started(&sim, StreamSpec { active_groups: 3, ..spec() });
        for index in 0..40u64 {
            let options = AppendOptions { order_key: index };
            let append = streamlet.append(&batch_with(&[0; 4000]), options).unwrap();
            append.on_durable(Box::new(|_| ()));
            if index % 7 == 3 {
                log.sync();
            }
        }
        log.get("s").unwrap().delete_records(&streamlet, 17).unwrap();
        let (start, watermark) = (streamlet.start_offset(), streamlet.high_watermark());
        sim.disk.power_cut();
        let (_log, streamlet) = reopened(&sim);
        assert_eq!(streamlet.start_offset(), start);
        assert!(streamlet.high_watermark() >= watermark);
        assert_eq!(streamlet.end_offset(), streamlet.high_watermark());
    }
}

/// Metadata were between two names when the disk failed, and failed again.
#[test]
fn row_15_a_change_that_failed_half_way_stays_once_it_was_seen() {
    let append = |lane| Step::Append { lane, bytes: 0 };
    for (first, second) in (0..16).flat_map(|first| (0..8).map(move |second| (first, second))) {
        let steps = [
            append(0),
            Step::Fail(first),
            append(1),
            append(0),
            append(0),
            Step::Groups(1),
            append(0),
            Step::Sync,
            Step::Fail(second),
            Step::DeleteBefore(120),
            Step::Kill,
            Step::PowerCut,
        ];
        run(0, Fsync::Always, &steps);
    }
}

/// With sync threads a mark comes a while after its sync, once for all syncs meanwhile; a node that
/// is killed before finds everything all the same.
#[test]
fn marks_come_now_and_then_and_a_kill_before_them_costs_nothing() {
    let sim = World::simulated(1);
    let options = LogOptions { sync_threads: 1, ..by_hand() };
    let log = Log::open(&sim.process(), Path::new(FOLDER), options).unwrap();
    let streamlet = log.create("s", spec()).unwrap().streamlet(0).unwrap();
    let append = |text: &str| put(&streamlet, text.as_bytes()).unwrap().wait().unwrap();
    let mark = || {
        let bytes = sim.disk.read(&segment_files(&sim)[0]).unwrap();
        let head = format::SegmentHead::decode(&bytes).unwrap();
        format::SegmentMark::decode(&bytes, &head.key)
    };
    (0..20).for_each(|index| append(&index.to_string()));
    assert!(mark().is_none(), "the clock stands still");
    sim.clock.advance(20_000);
    let found = (0..5_000).find_map(|_| {
        World::real().clock.sleep_micros(1_000);
        mark()
    });
    let found = found.expect("a mark comes");
    assert_eq!((found.sequence, found.end, found.sealed), (1, 20, false));
    (20..30).for_each(|index| append(&index.to_string()));
    assert_eq!(mark().unwrap().sequence, 1);
    sim.disk.kill();
    let (_, again) = reopened(&sim);
    let texts: Vec<_> =
        values(&again).into_iter().map(|it| String::from_utf8(it).unwrap()).collect();
    assert_eq!(texts, (0..30).map(|it| it.to_string()).collect::<Vec<_>>());
    log.close();
}

/// What was written by a weaker setting, and is before what is acknowledged by a stronger one, would
/// take that with it.
#[test]
fn row_18_a_stronger_fsync_holds_for_what_is_there_already() {
    let hour = Fsync::Every(Span(3_600_000_000));
    for (seed, weaker, threads) in
        (0..48).map(|it| (it, [Fsync::Os, hour][it as usize % 2], it as usize / 2 % 2))
    {
        let sim = World::simulated(seed);
        let options = LogOptions { sync_threads: threads, ..by_hand() };
        let log = Log::open(&sim.process(), Path::new(FOLDER), options).unwrap();
        let of = |fsync| StreamSpec { active_groups: 3, fsync: Some(fsync), ..spec() };
        let streamlet = log.create("s", of(weaker)).unwrap().streamlet(0).unwrap();
        let append = |lane: u64, bytes: usize| {
            let told = Arc::new(Mutex::new(None));
            let tell = Arc::clone(&told);
            let options = AppendOptions { order_key: lane };
            let append = streamlet.append(&batch_with(&vec![7; bytes]), options).unwrap();
            append.on_durable(Box::new(move |it| *tell.lock().unwrap() = Some(it.is_ok())));
            told
        };
        for lane in 0..3 {
            // The first segment of one group is full.
            for _ in 0..if lane == 0 { 4 } else { 1 } {
                assert_eq!(*append(lane, 20_000).lock().unwrap(), Some(true));
            }
        }
        log.alter("s", of(Fsync::Always)).unwrap();
        let told = append(1, 10);
        let told = if threads == 0 {
            log.sync();
            *told.lock().unwrap()
        } else {
            // The clock stands still: nothing that is due later comes.
            (0..5_000).find_map(|_| {
                World::real().clock.sleep_micros(1_000);
                *told.lock().unwrap()
            })
        };
        assert_eq!(told, Some(true), "seed {seed}: it does not wait for the span before");
        sim.disk.power_cut();
        let (_, again) = reopened(&sim);
        assert_eq!(values(&again).len(), 7, "seed {seed}, {weaker:?}");
        log.close();
    }
}

/// Two groups, of which a power cut may leave chunks of one behind a gap in the other: marks say that
/// they were durable, too.
fn with_a_gap(seed: u64) -> SimWorld {
    let sim = World::simulated(seed);
    let of = |fsync| StreamSpec { active_groups: 2, fsync: Some(fsync), ..spec() };
    let (log, streamlet) = started(&sim, of(Fsync::Always));
    let append = |lane: u64, bytes: usize| {
        let options = AppendOptions { order_key: lane };
        streamlet.append(&batch_with(&vec![lane as u8; bytes]), options).unwrap()
    };
    drop((append(0, 10), append(1, 10)));
    log.sync();
    log.alter("s", of(Fsync::Os)).unwrap();
    drop(append(0, 3000));
    // A full segment is synced, and the open ones are not.
    (0..9).for_each(|_| drop(append(1, 10_000)));
    log.sync();
    sim.disk.power_cut();
    sim
}

#[test]
fn row_19_cutting_behind_a_gap_can_stop_anywhere_and_is_done_by_the_next_recovery() {
    let behind_gap = |it: &Finding| matches!(it, Finding::BehindGap { .. });
    let mut gaps = 0;
    for seed in 0..16 {
        let sim = with_a_gap(seed);
        let operations = sim.disk.operations();
        let (log, streamlet) = reopened(&sim);
        if !log.findings().iter().any(behind_gap) {
            continue;
        }
        gaps += 1;
        let operations = sim.disk.operations() - operations;
        let all = values(&streamlet);
        assert_eq!(all.len(), 2, "seed {seed}");
        for (step, cut) in (0..=operations).flat_map(|it| [(it, false), (it, true)]) {
            let sim = with_a_gap(seed);
            sim.disk.fail_after(step);
            drop(Log::open(&sim.world, Path::new(FOLDER), by_hand()));
            if cut {
                sim.disk.power_cut()
            } else {
                sim.disk.kill()
            }
            let (log, streamlet) = reopened(&sim);
            let at = format!("seed {seed}, step {step} of {operations}, {cut}");
            let told = |it: &Finding| behind_gap(it) || matches!(it, Finding::Torn { .. });
            assert!(log.findings().iter().all(told), "{at}: {:?}", log.findings());
            assert_eq!(values(&streamlet), all, "{at}");
            assert_eq!(put(&streamlet, b"next").unwrap().base_offset, 2, "{at}");
            log.close();
            sim.disk.power_cut();
            let (log, streamlet) = reopened(&sim);
            assert!(log.findings().is_empty(), "{at}: {:?}", log.findings());
            assert_eq!(values(&streamlet).len(), 3, "{at}");
        }
    }
    assert!(gaps > 5, "{gaps}");
}

/// A kill is no damage: whatever it cuts short, nothing but an end that is torn is found afterwards,
/// once, and nothing is left of a stream that is deleted.
#[test]
fn a_kill_at_any_operation_leaves_nothing_that_has_to_be_told() {
    let life = |sim: &SimWorld| {
        let world = World { disk: Arc::new(sim.disk.process()), ..sim.world.clone() };
        Log::open(&world, Path::new(FOLDER), by_hand())
    };
    for recycled in [0, 1 << 20] {
        let mut killed = 0;
        for step in 0.. {
            let sim = World::simulated(step);
            let options = LogOptions { recycled_bytes: ByteSize(recycled), ..by_hand() };
            let world = World { disk: Arc::new(sim.disk.process()), ..sim.world.clone() };
            let log = Log::open(&world, Path::new(FOLDER), options).unwrap();
            let stream = log.create("s", spec()).unwrap();
            let streamlet = stream.streamlet(0).unwrap();
            sim.disk.kill_after(step);
            let put_all = || -> Result<(), AppendError> {
                for index in 0..40 {
                    let _told = put(&streamlet, &[index; 12_000])?;
                    log.sync();
                    if index == 20 {
                        let end = streamlet.high_watermark();
                        stream.delete_records(&streamlet, end).ok();
                        log.maintain(Micros(0)).ok();
                    }
                }
                Ok(())
            };
            let is_whole = put_all().is_ok();
            drop((streamlet, stream, log));
            sim.disk.kill();
            let log = life(&sim).unwrap();
            let torn = |it: &Finding| matches!(it, Finding::Torn { .. });
            assert!(log.findings().iter().all(torn), "step {step}: {:?}", log.findings());
            log.delete("s").unwrap();
            log.close();
            let log = life(&sim).unwrap();
            assert!(log.findings().is_empty(), "step {step}: {:?}", log.findings());
            assert!(segment_files(&sim).is_empty(), "step {step}");
            log.close();
            killed += 1;
            if is_whole {
                break;
            }
        }
        assert!(killed > 40, "{killed}");
    }
}
