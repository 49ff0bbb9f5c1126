//! Many consumers, one streamlet: each chunk once, in order within groups.

use crate::{
    testing::{batch_with, value},
    *,
};
use proptest::prelude::*;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};
use tidemill_env::{SimWorld, World};
use tidemill_types::{ByteSize, Micros};

fn spec(active_groups: u32) -> StreamSpec {
    StreamSpec { active_groups, segment_bytes: ByteSize(64 << 10), ..StreamSpec::default() }
}

fn by_hand() -> LogOptions {
    LogOptions {
        sync_threads: 0,
        group_segments: 2,
        read_ahead_bytes: ByteSize(8192),
        memory_bytes: ByteSize(100_000),
        ..LogOptions::default()
    }
}

fn open(sim: &SimWorld) -> Log {
    Log::open(&sim.world, Path::new("/log"), by_hand()).unwrap()
}

fn put(streamlet: &Arc<Streamlet>, lane: u64, number: u32, bytes: usize) -> Append {
    let text = format!("{lane} {number} {}", "x".repeat(bytes));
    streamlet.append(&batch_with(text.as_bytes()), AppendOptions { order_key: lane }).unwrap()
}

/// Lane and number of a chunk that [`put`] made.
fn parse(chunk: &[u8]) -> (u64, u32) {
    let text = std::str::from_utf8(value(chunk)).unwrap();
    let mut words = text.split(' ');
    (words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap())
}

/// Reads a group to the end of what is there: whether it has ended.
fn drain(cursor: &mut GroupCursor, max_bytes: usize, into: &mut Vec<(u64, u32)>) -> bool {
    loop {
        let found = cursor.read(ReadLimit { max_bytes, ..ReadLimit::default() }).unwrap();
        into.extend(found.chunks.iter().map(|it| parse(it)));
        if found.ended || found.chunks.is_empty() {
            return found.ended;
        }
    }
}

/// Producers on threads of their own, consumers too; every chunk is read once, by one of them.
fn everyone_at_once(active_groups: u32) {
    const LANES: u64 = 6;
    const EACH: u32 = 700;
    let folder = tempfile::tempdir().unwrap();
    let world = World::real();
    let options = LogOptions {
        group_segments: 2,
        memory_bytes: ByteSize(200_000),
        fsync: Fsync::Os,
        ..LogOptions::default()
    };
    let log = Log::open(&world, folder.path(), options).unwrap();
    let streamlet = log.create("s", spec(active_groups)).unwrap().streamlet(0).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::new(Mutex::new(BTreeMap::<(u64, u32), u64>::new()));
    let producers = (0..LANES).map(|lane| {
        let streamlet = Arc::clone(&streamlet);
        let body = move || {
            for number in 0..EACH {
                put(&streamlet, lane, number, 700).on_durable(Box::new(|it| it.unwrap()));
            }
        };
        world.spawn.spawn("producer", Box::new(body))
    });
    let consumers = (0..4).map(|index| {
        let (streamlet, over, seen) = (streamlet.clone(), over.clone(), seen.clone());
        let body = move || {
            let mut turn = index;
            while !over.load(Ordering::SeqCst) {
                for mut cursor in streamlet.next_groups("app", 1 + index % 2).unwrap() {
                    let mut chunks = Vec::new();
                    let mut ended = false;
                    turn += 1;
                    // Now and then a consumer goes away in the middle of its work.
                    for _ in 0..if turn % 5 == 0 { 1 } else { usize::MAX } {
                        let found =
                            cursor.read(ReadLimit { max_bytes: 5000, ..ReadLimit::default() });
                        let found = found.unwrap();
                        chunks.extend(found.chunks.iter().map(|it| parse(it)));
                        ended = found.ended;
                        if ended || found.chunks.is_empty() {
                            break;
                        }
                    }
                    let mut last: BTreeMap<u64, u32> = BTreeMap::new();
                    let mut seen = seen.lock().unwrap();
                    if turn % 7 == 0 && !ended {
                        continue;
                    }
                    for (lane, number) in chunks {
                        assert!(last.insert(lane, number) < Some(number), "in order");
                        assert_eq!(seen.insert((lane, number), cursor.group().0), None, "once");
                    }
                    assert_eq!(cursor.acknowledge(), ended);
                    over.store(seen.len() as u64 == LANES * u64::from(EACH), Ordering::SeqCst);
                }
                std::thread::yield_now();
            }
        };
        world.spawn.spawn("consumer", Box::new(body))
    });
    let (producers, consumers): (Vec<_>, Vec<_>) = (producers.collect(), consumers.collect());
    producers.into_iter().for_each(|it| it.join());
    consumers.into_iter().for_each(|it| it.join());
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len() as u64, LANES * u64::from(EACH));
    let groups: BTreeSet<u64> = seen.values().copied().collect();
    assert!(groups.len() > 10, "{groups:?}");
    // A lane's chunks are in groups in the order of their numbers.
    for lane in 0..LANES {
        let of_lane: Vec<u64> =
            seen.iter().filter(|it| it.0.0 == lane).map(|(_, group)| *group).collect();
        assert!(of_lane.is_sorted(), "{of_lane:?}");
    }
}

#[test]
fn one_active_group_is_shared_by_consumers() {
    everyone_at_once(1);
}

#[test]
fn eight_active_groups_are_shared_by_consumers() {
    everyone_at_once(8);
}

#[test]
fn only_what_is_durable_is_read_and_a_group_grows_while_it_is_held() {
    let sim = World::simulated(1);
    let log = open(&sim);
    let streamlet = log.create("s", spec(2)).unwrap().streamlet(0).unwrap();
    let never = |it: Append| it.on_durable(Box::new(|it| it.unwrap()));
    never(put(&streamlet, 0, 0, 10));
    assert!(streamlet.next_groups("app", 9).unwrap().is_empty(), "nothing is durable");
    log.sync();
    never(put(&streamlet, 1, 0, 10));
    never(put(&streamlet, 0, 1, 10));
    let mut held = streamlet.next_groups("app", 9).unwrap();
    assert_eq!(held.len(), 1, "the other group has nothing that is visible");
    let mut read = Vec::new();
    assert!(!drain(&mut held[0], 1, &mut read));
    assert_eq!(read, [(0, 0)]);
    log.sync();
    assert!(!drain(&mut held[0], 1, &mut read));
    assert_eq!(read, [(0, 0), (0, 1)]);
    assert!(streamlet.next_groups("app", 0).unwrap().is_empty());
    assert_eq!(streamlet.next_groups("other", 9).unwrap().len(), 2, "each has its own turn");
    let more = streamlet.next_groups("app", 9).unwrap();
    assert_eq!(more.iter().map(GroupCursor::group).collect::<Vec<_>>(), [GroupIx(1)]);
    // A group ends when it is no longer active, though nothing was appended to it.
    log.alter("s", spec(1)).unwrap();
    log.sync();
    let (mut first, mut second) = (held.pop().unwrap(), more.into_iter().next().unwrap());
    assert!(!drain(&mut first, 1000, &mut read) && read.len() == 2);
    assert!(drain(&mut second, 1000, &mut read) && read.len() == 3);
    assert!(second.acknowledge() && !first.acknowledge());
    assert!(matches!(streamlet.forget_application("app"), Err(GroupError::Held(2))));
    drop((first, second));
    assert_eq!(streamlet.group_progress("app").unwrap().done, BTreeSet::from([GroupIx(1)]));
    streamlet.forget_application("app").unwrap();
    assert_eq!(streamlet.group_progress("app"), None);
}

#[test]
fn no_group_has_the_number_of_one_that_is_gone_from_the_disk() {
    let sim = World::simulated(1);
    let mut log = open(&sim);
    let mut streamlet = log.create("s", spec(2)).unwrap().streamlet(0).unwrap();
    let (mut progress, mut numbers) = (GroupProgress::default(), BTreeSet::new());
    for life in 0..4 {
        for number in 0..20 {
            put(&streamlet, number % 2, life, 5000).on_durable(Box::new(|it| it.unwrap()));
        }
        // All groups end here.
        log.close();
        log = open(&sim);
        let stream = log.get("s").unwrap();
        streamlet = stream.streamlet(0).unwrap();
        streamlet.restore_groups("app", progress).unwrap();
        let mut read = Vec::new();
        for mut cursor in streamlet.next_groups("app", 99).unwrap() {
            assert!(numbers.insert(cursor.group()), "{}", cursor.group());
            assert!(drain(&mut cursor, 1 << 20, &mut read) && cursor.acknowledge());
        }
        assert_eq!(read.len(), 20, "life {life}: nothing is taken for read that is new");
        assert!(streamlet.next_groups("app", 99).unwrap().is_empty());
        progress = streamlet.group_progress("app").unwrap();
        stream.delete_records(&streamlet, streamlet.high_watermark()).unwrap();
        assert_eq!(streamlet.segment_count(), 0);
        if life % 2 == 0 {
            // Nothing tells the next life how many groups there were.
            drop(log);
            sim.disk.kill();
            log = open(&sim);
            streamlet = log.get("s").unwrap().streamlet(0).unwrap();
        }
    }
}

#[test]
fn damage_and_missing_segments_are_told_and_can_be_passed() {
    for how in 0..2 {
        let sim = World::simulated(1);
        let log = open(&sim);
        let streamlet = log.create("s", spec(1)).unwrap().streamlet(0).unwrap();
        let mut places = Vec::new();
        for number in 0..40 {
            let append = put(&streamlet, 0, number, 5000);
            places.push((append.group.0, append.segment.0, append.position));
            append.on_durable(Box::new(|it| it.unwrap()));
        }
        log.sync();
        let streams = tidemill_env::Disk::list(&*sim.disk, Path::new("/log/streams")).unwrap();
        let name = |at: usize| format!("00000000-{:012x}-{:04x}.seg", places[at].0, places[at].1);
        log.close();
        let path = streams[0].join(name(14));
        if how == 0 {
            sim.disk.flip(&path, places[14].2 + 100, 1).unwrap();
        } else {
            tidemill_env::Disk::remove(&*sim.disk, &path).unwrap();
        }
        let streamlet = open(&sim).get("s").unwrap().streamlet(0).unwrap();
        let (mut read, mut errors) = (Vec::new(), Vec::new());
        for mut cursor in streamlet.next_groups("app", 99).unwrap() {
            loop {
                match cursor.read(ReadLimit { max_bytes: 1, ..ReadLimit::default() }) {
                    Ok(found) => {
                        read.extend(found.chunks.iter().map(|it| parse(it).1));
                        if found.ended {
                            assert!(cursor.acknowledge());
                            break;
                        }
                    }
                    Err(error) => {
                        match &error {
                            ReadError::Corrupt { next: Some(next), .. }
                            | ReadError::Missing { next, .. } => cursor.skip_to(*next),
                            other => panic!("{other}"),
                        }
                        errors.push(error);
                    }
                }
            }
        }
        let lost: Vec<u32> = (0..40).filter(|it| !read.contains(it)).collect();
        let in_it = |at: &u32| (places[*at as usize].0, places[*at as usize].1);
        match how {
            0 => assert_eq!((lost, errors.len()), (vec![14], 1)),
            _ => assert!(lost.iter().all(|it| in_it(it) == (places[14].0, places[14].1))),
        }
        assert!(errors.len() <= 1 && read.is_sorted(), "{errors:?}");
        assert!(streamlet.next_groups("app", 9).unwrap().is_empty());
    }
}

#[test]
fn what_comes_behind_damage_in_an_open_segment_is_read() {
    for reads_in_between in [true, false] {
        let sim = World::simulated(1);
        let log = open(&sim);
        let streamlet = log.create("s", spec(1)).unwrap().streamlet(0).unwrap();
        let append = |number: u32| {
            let append = put(&streamlet, 0, number, 100);
            let position = append.position;
            append.on_durable(Box::new(|it| it.unwrap()));
            log.sync();
            position
        };
        let positions: Vec<u64> = (0..4).map(append).collect();
        let segment = Arc::clone(streamlet.segments().values().next().unwrap());
        sim.disk.flip(&segment.path, positions[3] + 100, 1).unwrap();
        while segment.forget_one() {}
        let mut cursor = streamlet.next_groups("app", 1).unwrap().pop().unwrap();
        let read = |cursor: &mut GroupCursor| {
            let found = cursor.read(ReadLimit::default())?;
            assert!(!found.ended);
            Ok::<_, ReadError>(found.chunks.iter().map(|it| parse(it).1).collect::<Vec<_>>())
        };
        assert_eq!(read(&mut cursor).unwrap(), [0, 1, 2]);
        let refused = read(&mut cursor);
        assert!(matches!(refused, Err(ReadError::Corrupt { offset: 3, next: Some(4), .. })));
        cursor.skip_to(4);
        if reads_in_between {
            assert!(read(&mut cursor).unwrap().is_empty(), "it may get more");
        }
        append(4);
        append(5);
        assert_eq!(read(&mut cursor).unwrap(), [4, 5], "{reads_in_between}");
    }
}

#[derive(Clone, Debug)]
enum Step {
    Append { lane: u64, bytes: usize },
    Sync,
    Groups(u32),
    Take { most: usize },
    Read { which: usize, max_bytes: usize },
    Acknowledge { which: usize },
    Vanish { which: usize },
    Maintain,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let which = 0..8usize;
    let step = prop_oneof![
        20 => (0..5u64, 0..12000usize).prop_map(|(lane, bytes)| Step::Append { lane, bytes }),
        6 => Just(Step::Sync),
        1 => (1..9u32).prop_map(Step::Groups),
        4 => (0..4usize).prop_map(|most| Step::Take { most }),
        8 => (which.clone(), 1..60000usize)
            .prop_map(|(which, max_bytes)| Step::Read { which, max_bytes }),
        4 => which.clone().prop_map(|which| Step::Acknowledge { which }),
        2 => which.prop_map(|which| Step::Vanish { which }),
        1 => Just(Step::Maintain),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..200)
}

/// A consumer with what it has read and not acknowledged.
struct Consumer {
    cursor: GroupCursor,
    read: Vec<(u64, u32)>,
    acknowledged: BTreeSet<(u64, u32)>,
}

fn run(seed: u64, steps: &[Step]) {
    let sim = World::simulated(seed);
    let mut log = open(&sim);
    let mut streamlet = log.create("s", spec(2)).unwrap().streamlet(0).unwrap();
    let (mut counter, mut appended, mut done) = (0, BTreeSet::new(), BTreeSet::new());
    let mut consumers: Vec<Consumer> = Vec::new();
    let settle = |it: &mut Consumer, done: &mut BTreeSet<(u64, u32)>| {
        let ended = it.cursor.acknowledge();
        for chunk in it.read.drain(..) {
            assert!(done.insert(chunk), "{chunk:?} came twice");
            it.acknowledged.insert(chunk);
        }
        ended
    };
    for step in steps {
        match step {
            Step::Append { lane, bytes } => {
                counter += 1;
                appended.insert((*lane, counter));
                put(&streamlet, *lane, counter, *bytes).on_durable(Box::new(|_| ()));
            }
            Step::Sync => log.sync(),
            Step::Groups(count) => drop(log.alter("s", spec(*count)).unwrap()),
            Step::Take { most } => {
                for cursor in streamlet.next_groups("app", *most).unwrap() {
                    let twin = consumers.iter().any(|it| it.cursor.group() == cursor.group());
                    assert!(!twin, "one consumer has a group");
                    let (read, acknowledged) = (Vec::new(), BTreeSet::new());
                    consumers.push(Consumer { cursor, read, acknowledged });
                }
            }
            Step::Read { which, max_bytes } => {
                let Some(consumer) = consumers.get_mut(*which) else { continue };
                let limit = ReadLimit { max_bytes: *max_bytes, ..ReadLimit::default() };
                let found = consumer.cursor.read(limit).unwrap();
                for chunk in &found.chunks {
                    let head = ChunkHead::check(chunk).unwrap();
                    assert!(head.last_offset() < streamlet.high_watermark());
                    consumer.read.push(parse(chunk));
                }
            }
            Step::Acknowledge { which } => {
                let Some(consumer) = consumers.get_mut(*which) else { continue };
                if settle(consumer, &mut done) {
                    consumers.swap_remove(*which);
                }
            }
            Step::Vanish { which } if *which < consumers.len() => {
                drop(consumers.swap_remove(*which));
            }
            Step::Vanish { .. } => {}
            Step::Maintain => {
                log.maintain(Micros(sim.world.clock.wall_micros())).unwrap();
            }
            Step::Restart => {
                consumers.clear();
                let progress = streamlet.group_progress("app");
                log.close();
                log = open(&sim);
                streamlet = log.get("s").unwrap().streamlet(0).unwrap();
                let json = serde_json::to_string(&progress).unwrap();
                if let Some(progress) = serde_json::from_str(&json).unwrap() {
                    streamlet.restore_groups("app", progress).unwrap();
                }
            }
        }
        let floor = streamlet.groups_floor();
        assert!(floor.is_none_or(|it| it <= streamlet.high_watermark()));
    }
    // In the end everything was read once.
    consumers.clear();
    log.close();
    log = open(&sim);
    let progress = streamlet.group_progress("app").unwrap_or_default();
    streamlet = log.get("s").unwrap().streamlet(0).unwrap();
    streamlet.restore_groups("app", progress).unwrap();
    loop {
        let held = streamlet.next_groups("app", 2).unwrap();
        if held.is_empty() {
            break;
        }
        for cursor in held {
            let mut it = Consumer { cursor, read: Vec::new(), acknowledged: BTreeSet::new() };
            assert!(drain(&mut it.cursor, 20_000, &mut it.read), "all groups are complete");
            assert!(settle(&mut it, &mut done));
        }
    }
    assert_eq!(done, appended);
    assert_eq!(streamlet.groups_floor(), Some(streamlet.high_watermark()));
    let progress = streamlet.group_progress("app").unwrap();
    assert!(progress.done.is_empty() && progress.partly.is_empty(), "{progress:?}");
}

proptest! {
    #[test]
    fn every_chunk_is_read_once_whoever_comes_and_goes(seed in any::<u64>(), steps in steps()) {
        run(seed, &steps);
    }
}
