//! The log as its users see it, on the simulated disk.

use crate::{testing::*, *};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};
use tidemill_env::{Disk, SimWorld, World};
use tidemill_types::{ByteSize, Micros, Span};

mod crash;
mod damage;
mod outgoing;
mod retention;
#[cfg(debug_assertions)]
mod simulation;

const FOLDER: &str = "/log";

/// Without threads: the test says when to sync.
fn by_hand() -> LogOptions {
    LogOptions {
        sync_threads: 0,
        sync_together_min: 2,
        read_ahead_bytes: ByteSize(8192),
        ..LogOptions::default()
    }
}

fn open(sim: &SimWorld) -> Log {
    Log::open(&sim.world, Path::new(FOLDER), by_hand()).unwrap()
}

fn spec() -> StreamSpec {
    let segment_bytes = ByteSize(64 << 10);
    StreamSpec { segment_bytes, max_chunk_bytes: ByteSize(1 << 20), ..StreamSpec::default() }
}

/// A log with a stream `s` that has one streamlet.
fn started(sim: &SimWorld, spec: StreamSpec) -> (Log, Arc<Streamlet>) {
    let log = open(sim);
    let stream = log.create("s", spec).unwrap();
    (log, stream.streamlet(0).unwrap())
}

fn reopened(sim: &SimWorld) -> (Log, Arc<Streamlet>) {
    let log = open(sim);
    let streamlet = log.get("s").expect("it was made").streamlet(0).unwrap();
    (log, streamlet)
}

fn put(streamlet: &Arc<Streamlet>, value: &[u8]) -> Result<Append, AppendError> {
    streamlet.append(&batch_with(value), AppendOptions::default())
}

/// All visible chunks from an offset on, by reads of at most `max_bytes`.
fn read_all(streamlet: &Streamlet, from: i64, max_bytes: usize) -> Result<Vec<Vec<u8>>, ReadError> {
    let mut cursor = ReadCursor::default();
    let (mut offset, mut all) = (from, Vec::new());
    loop {
        let limit = ReadLimit { max_bytes, ..ReadLimit::default() };
        let found = streamlet.read(&mut cursor, offset, limit)?;
        if found.chunks.is_empty() {
            assert_eq!(offset, streamlet.high_watermark().max(from));
            return Ok(all);
        }
        for chunk in &found.chunks {
            let head = ChunkHead::check(chunk).expect("served chunks are whole");
            assert!(head.base_offset <= offset && head.last_offset() >= offset, "no gap");
            offset = head.last_offset() + 1;
            all.push(chunk.to_vec());
        }
        assert_eq!(found.next_offset, offset);
    }
}

fn values(streamlet: &Streamlet) -> Vec<Vec<u8>> {
    let chunks = read_all(streamlet, streamlet.start_offset(), 1 << 20).unwrap();
    chunks.iter().map(|chunk| value(chunk).to_vec()).collect()
}

/// The segment files of the log, sorted.
fn segment_files(sim: &SimWorld) -> Vec<PathBuf> {
    let streams = sim.disk.list(&Path::new(FOLDER).join("streams")).unwrap();
    let files = streams.iter().flat_map(|it| sim.disk.list(it).unwrap());
    files.filter(|it| it.extension().is_some_and(|it| it == "seg")).collect()
}

#[test]
fn what_is_appended_is_visible_once_it_is_durable() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    let told = Arc::new(Mutex::new(Vec::new()));
    for (index, text) in ["a", "bb", "ccc"].iter().enumerate() {
        let append = put(&streamlet, text.as_bytes()).unwrap();
        assert_eq!((append.base_offset, append.last_offset), (index as i64, index as i64));
        let told = Arc::clone(&told);
        append.on_durable(Box::new(move |it| told.lock().unwrap().push((index, it.is_ok()))));
    }
    assert!(told.lock().unwrap().is_empty());
    assert_eq!((streamlet.high_watermark(), streamlet.end_offset()), (0, 3));
    assert!(values(&streamlet).is_empty());
    log.sync();
    assert_eq!(*told.lock().unwrap(), [(0, true), (1, true), (2, true)]);
    assert_eq!(values(&streamlet), [b"a".to_vec(), b"bb".to_vec(), b"ccc".to_vec()]);
    put(&streamlet, b"late").unwrap().on_durable(Box::new(|it| assert!(it.is_err())));
    sim.disk.power_cut();
    drop(log);
    let (log, streamlet) = reopened(&sim);
    let left = values(&streamlet);
    assert_eq!(left[..3], [b"a".to_vec(), b"bb".to_vec(), b"ccc".to_vec()]);
    put(&streamlet, b"again").unwrap().on_durable(Box::new(|it| assert!(it.is_ok())));
    log.sync();
    assert_eq!(values(&streamlet).last().unwrap(), b"again");
    assert_eq!(streamlet.high_watermark(), left.len() as i64 + 1);
}

#[test]
fn chunks_of_many_records_are_found_by_any_of_their_offsets() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    streamlet.become_leader(LeaderEpoch(5), Landing::Local).unwrap();
    let mut bases = Vec::new();
    for count in (1..60).map(|it| it * 7 % 50 + 1) {
        let made = streamlet.append(
            &Batch { value: vec![1; 3000], ..Batch::of(count) }.bytes(),
            AppendOptions::default(),
        );
        let made = made.unwrap();
        bases.push(made.base_offset..=made.last_offset);
    }
    log.sync();
    assert!(streamlet.segment_count() > 2);
    // Once from memory, once from the disk.
    for _ in 0..2 {
        let streamlet = log.get("s").unwrap().streamlet(0).unwrap();
        for range in &bases {
            for offset in [*range.start(), *range.end()] {
                let limit = ReadLimit { max_bytes: 1, ..ReadLimit::default() };
                let found = streamlet.read(&mut ReadCursor::default(), offset, limit).unwrap();
                let head = ChunkHead::check(&found.chunks[0]).unwrap();
                assert_eq!(head.base_offset..=head.last_offset(), *range);
                assert_eq!((found.chunks.len(), head.leader_epoch), (1, 5));
                let none = ReadLimit { at_least_one: false, ..limit };
                let found = streamlet.read(&mut ReadCursor::default(), offset, none).unwrap();
                assert!(found.chunks.is_empty());
            }
        }
        for segment in streamlet.segments().values() {
            while segment.recent_place(i64::MAX).is_some_and(|_| segment.forget_one()) {}
        }
    }
    let out = streamlet.read(&mut ReadCursor::default(), 1 << 40, ReadLimit::default());
    assert!(matches!(out, Err(ReadError::OutOfRange { start: 0, .. })));
    assert!(streamlet.read(&mut ReadCursor::default(), -1, ReadLimit::default()).is_err());
}

#[test]
fn several_groups_are_one_run_of_offsets_whatever_their_number() {
    let sim = World::simulated(3);
    let (log, streamlet) = started(&sim, StreamSpec { active_groups: 4, ..spec() });
    let mut wanted = Vec::new();
    let mut cursor = ReadCursor::default();
    let (mut offset, mut tailed) = (0, Vec::new());
    for round in 0..60u64 {
        if round % 15 == 14 {
            let active_groups = [1, 8, 2, 5][round as usize / 15];
            log.alter("s", StreamSpec { active_groups, ..spec() }).unwrap();
        }
        for lane in 0..6 {
            let text = format!("{round}-{lane}-{}", "x".repeat(400)).into_bytes();
            let options = AppendOptions { order_key: lane };
            let append = streamlet.append(&batch_with(&text), options).unwrap();
            assert_eq!(append.base_offset, wanted.len() as i64);
            wanted.push(text);
        }
        log.sync();
        let found = streamlet.read(&mut cursor, offset, ReadLimit::default()).unwrap();
        offset = found.next_offset;
        tailed.extend(found.chunks.iter().map(|it| value(it).to_vec()));
    }
    assert_eq!(tailed, wanted);
    assert_eq!(values(&streamlet), wanted);
    let small = read_all(&streamlet, 0, 700).unwrap();
    assert_eq!(small.len(), wanted.len());
    log.close();
    let (_log, streamlet) = reopened(&sim);
    assert_eq!(values(&streamlet), wanted);
}

#[test]
fn row_33_a_producers_own_base_offset_never_matters() {
    for own in [i64::MAX, i64::MAX - 2, i64::MIN, -1] {
        let sim = World::simulated(1);
        let (log, streamlet) = started(&sim, spec());
        let mut first = Batch { value: b"first".to_vec(), ..Batch::of(5) }.bytes();
        first[..8].copy_from_slice(&own.to_be_bytes());
        let append = streamlet.append(&first, AppendOptions::default()).unwrap();
        assert_eq!((append.base_offset, append.last_offset), (0, 4));
        append.on_durable(Box::new(|it| it.unwrap()));
        put(&streamlet, b"healthy").unwrap().on_durable(Box::new(|it| it.unwrap()));
        log.sync();
        let all = read_all(&streamlet, 0, 1 << 20).unwrap();
        sim.disk.kill();
        // Without its marks, so that all chunks are scanned.
        let path = segment_files(&sim)[0].clone();
        for at in (512..1536).step_by(4) {
            sim.disk.flip(&path, at, 0xff).unwrap();
        }
        let (log, streamlet) = reopened(&sim);
        assert!(log.findings().is_empty(), "{own}: {:?}", log.findings());
        assert_eq!(streamlet.high_watermark(), 6, "{own}");
        assert_eq!(read_all(&streamlet, 0, 1 << 20).unwrap(), all);
    }
}

#[test]
fn threads_append_and_wait_and_readers_are_woken() {
    appended_by_threads(Journal::Write, 100_000);
}

#[test]
fn the_journal_by_memory_map_stores_the_same() {
    appended_by_threads(Journal::Map, 100_000);
    appended_by_threads(Journal::Map, 0);
}

#[test]
fn nothing_is_kept_in_memory_if_nothing_may_be() {
    appended_by_threads(Journal::Write, 0);
}

fn appended_by_threads(journal: Journal, memory_bytes: u64) {
    let folder = tempfile::tempdir().unwrap();
    let world = World::real();
    let memory = ByteSize(memory_bytes);
    let options = LogOptions { memory_bytes: memory, journal, ..LogOptions::default() };
    let log = Log::open(&world, folder.path(), options.clone()).unwrap();
    let spec = StreamSpec { active_groups: 3, ..spec() };
    let streamlet = log.create("s", spec).unwrap().streamlet(0).unwrap();
    let producers: Vec<_> = (0..6u64)
        .map(|lane| {
            let streamlet = Arc::clone(&streamlet);
            let body = move || {
                for index in 0..100 {
                    let text = format!("{lane} {index} {}", "y".repeat(300));
                    let options = AppendOptions { order_key: lane };
                    let append = streamlet.append(&batch_with(text.as_bytes()), options).unwrap();
                    let offset = append.base_offset;
                    if index % 10 == 9 {
                        append.wait().unwrap();
                        assert!(streamlet.high_watermark() > offset);
                    }
                }
            };
            world.spawn.spawn("producer", Box::new(body))
        })
        .collect();
    let mut cursor = ReadCursor::default();
    let (mut offset, mut seen) = (0, Vec::new());
    while offset < 600 {
        let (sender, receiver) = std::sync::mpsc::channel();
        let interest = streamlet.on_data(offset, Box::new(move || sender.send(()).unwrap()));
        receiver.recv().unwrap();
        drop(interest);
        let found = streamlet.read(&mut cursor, offset, ReadLimit::default()).unwrap();
        assert!(!found.chunks.is_empty(), "woken for data");
        seen.extend(found.chunks.iter().map(|it| value(it).to_vec()));
        offset = found.next_offset;
    }
    producers.into_iter().for_each(|it| it.join());
    for lane in 0..6 {
        let begins = format!("{lane} ").into_bytes();
        let mine: Vec<_> = seen.iter().filter(|it| it.starts_with(&begins)).collect();
        let wanted = (0..100).map(|index| format!("{lane} {index} {}", "y".repeat(300)));
        assert!(
            mine.iter().map(|it| it.as_slice()).eq(wanted
                .map(String::into_bytes)
                .collect::<Vec<_>>()
                .iter()
                .map(Vec::as_slice))
        );
    }
    assert!(log.kept_bytes().0 <= memory_bytes);
    log.close();
    assert!(matches!(put(&streamlet, b"x"), Err(AppendError::Closed)));
    let again = Log::open(&world, folder.path(), options).unwrap();
    assert_eq!(values(&again.get("s").unwrap().streamlet(0).unwrap()), seen);
    assert!(again.findings().is_empty(), "{:?}", again.findings());
}

#[test]
fn row_28_a_folder_has_one_log() {
    let sim = World::simulated(1);
    let log = open(&sim);
    let second = Log::open(&sim.world, Path::new(FOLDER), by_hand());
    assert!(matches!(second, Err(LogError::InUse(_))));
    log.close();
    drop(open(&sim));
}

#[test]
fn streams_are_made_changed_and_removed() {
    let sim = World::simulated(1);
    let log = open(&sim);
    for bad in ["", "..", "a/b", "../../etc"] {
        assert!(matches!(log.create(bad, spec()), Err(LogError::Name(_))));
    }
    let none = StreamSpec { streamlets: 0, ..spec() };
    assert!(matches!(log.create("a", none), Err(LogError::Spec { .. })));
    let many = StreamSpec { streamlets: 100_000, ..spec() };
    log.create("a", StreamSpec { streamlets: 2, ..spec() }).unwrap();
    assert!(log.create("b", many).is_err(), "too many with those there are");
    assert!(matches!(log.create("a", spec()), Err(LogError::Exists(_))));
    assert!(log.alter("a", StreamSpec { streamlets: 1, ..spec() }).is_err());
    assert!(matches!(log.alter("none", spec()), Err(LogError::Unknown(_))));
    let stream = log.alter("a", StreamSpec { streamlets: 5, ..spec() }).unwrap();
    let streamlet = stream.streamlet(4).unwrap();
    put(&streamlet, b"in the new one").unwrap().on_durable(Box::new(|it| it.unwrap()));
    log.sync();
    let id = stream.id();
    log.close();
    let log = open(&sim);
    let stream = log.get_by_id(id).expect("ids stay");
    assert_eq!((stream.name(), stream.streamlets().len()), ("a", 5));
    assert_eq!(values(&stream.streamlet(4).unwrap()).len(), 1);
    assert_eq!(log.list().len(), 1);
    let told = Arc::new(Mutex::new(0));
    let count = Arc::clone(&told);
    let interest =
        stream.streamlet(4).unwrap().on_data(9, Box::new(move || *count.lock().unwrap() += 1));
    log.delete("a").unwrap();
    drop(interest);
    assert_eq!(*told.lock().unwrap(), 1, "who waits is told");
    assert!(matches!(put(&stream.streamlet(4).unwrap(), b"x"), Err(AppendError::Closed)));
    assert!(log.get("a").is_none() && segment_files(&sim).is_empty());
    let late = stream.delete_records(&stream.streamlet(4).unwrap(), 1);
    assert!(matches!(late, Err(LogError::Closed)), "it does not come back to life");
    log.create("a", spec()).unwrap();
    assert_ne!(log.get("a").unwrap().id(), id);
    log.close();
    let log = open(&sim);
    assert_eq!(log.get("a").unwrap().streamlet(0).unwrap().end_offset(), 0);
    assert!(log.findings().is_empty(), "{:?}", log.findings());
}

#[test]
fn chunks_over_the_limit_and_lies_are_refused_and_change_nothing() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, StreamSpec { max_chunk_bytes: ByteSize(1024), ..spec() });
    let big = streamlet.append(&batch_with(&[0; 1024]), AppendOptions::default());
    assert!(matches!(big, Err(AppendError::TooLarge { max: 1024, .. })));
    let mut lie = batch_with(b"x");
    lie[68] ^= 1;
    let lie = streamlet.append(&lie, AppendOptions::default());
    assert!(matches!(lie, Err(AppendError::Chunk(ChunkError::Crc { .. }))));
    assert_eq!(streamlet.end_offset(), 0);
    let larger = ByteSize(300 << 10);
    log.alter("s", StreamSpec { max_chunk_bytes: larger, ..spec() }).unwrap();
    put(&streamlet, b"small").unwrap().on_durable(Box::new(|it| it.unwrap()));
    put(&streamlet, &[7; 200 << 10]).unwrap().on_durable(Box::new(|it| it.unwrap()));
    put(&streamlet, b"after").unwrap().on_durable(Box::new(|it| it.unwrap()));
    log.sync();
    assert_eq!(values(&streamlet)[1], [7; 200 << 10], "larger than a segment");
    assert_eq!(values(&streamlet).len(), 3);
}

#[test]
fn times_are_found_by_chunk() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, StreamSpec { active_groups: 2, ..spec() });
    for index in 0..200i64 {
        let made = Batch { timestamp_ms: index * 10, value: vec![0; 900], ..Batch::of(2) };
        let options = AppendOptions { order_key: index as u64 };
        streamlet.append(&made.bytes(), options).unwrap().on_durable(Box::new(|it| it.unwrap()));
    }
    assert_eq!(streamlet.offset_for_time(0).unwrap(), None, "nothing is visible yet");
    log.sync();
    for (time, (offset, max_timestamp_ms)) in
        [(-5, (0, 0)), (0, (0, 0)), (5, (2, 10)), (1990, (398, 1990))]
    {
        let wanted = ChunkTime { offset, max_timestamp_ms };
        assert_eq!(streamlet.offset_for_time(time).unwrap(), Some(wanted), "{time}");
    }
    assert_eq!(streamlet.offset_for_time(1991).unwrap(), None);
    log.get("s").unwrap().delete_records(&streamlet, 101).unwrap();
    assert_eq!(
        streamlet.offset_for_time(0).unwrap(),
        Some(ChunkTime { offset: 101, max_timestamp_ms: 500 })
    );
}

#[test]
fn a_repeated_append_waits_for_the_first_one() {
    let sim = World::simulated(1);
    let (log, streamlet) = started(&sim, spec());
    streamlet.become_leader(LeaderEpoch(7), Landing::Local).unwrap();
    let told = Arc::new(Mutex::new(Vec::new()));
    let note = |what: &'static str| -> OnDurable {
        let told = Arc::clone(&told);
        Box::new(move |it| told.lock().unwrap().push((what, it.is_ok())))
    };
    let chunk = Batch { value: vec![5; 10], ..Batch::of(3) }.bytes();
    let head = ChunkHead::check(&chunk).unwrap();
    let options = AppendOptions::default();
    let first = streamlet.append_checked(&head, &chunk, options).unwrap();
    // The retry comes before the first answer's notice is asked for, and once more after it.
    streamlet.on_visible(first.last_offset, note("retry"));
    first.on_durable(note("first"));
    streamlet.on_visible(0, note("again"));
    assert!(told.lock().unwrap().is_empty());
    log.sync();
    let mut seen = told.lock().unwrap().clone();
    seen.sort_unstable();
    assert_eq!(seen, [("again", true), ("first", true), ("retry", true)]);
    streamlet.on_visible(2, note("late"));
    assert_eq!(told.lock().unwrap().len(), 4, "it is visible already");
    // The caller's bytes are as they were; the stored ones have offset and epoch.
    assert_eq!(ChunkHead::check(&chunk).unwrap(), head);
    put(&streamlet, b"next").unwrap().on_durable(Box::new(|it| it.unwrap()));
    log.sync();
    let stored = read_all(&streamlet, 0, 1 << 20).unwrap();
    let stored = ChunkHead::check(&stored[0]).unwrap();
    assert_eq!((stored.base_offset, stored.last_offset(), stored.leader_epoch), (0, 2, 7));
    let short = streamlet.append_checked(&head, &chunk[..70], options);
    assert!(matches!(short, Err(AppendError::Chunk(ChunkError::Short { .. }))));
    // What the disk gives up, all who wait are told of.
    put(&streamlet, b"lost").unwrap().on_durable(note("lost"));
    streamlet.on_visible(4, note("lost too"));
    sim.disk.fail_sync_after(0);
    log.sync();
    assert_eq!(told.lock().unwrap()[4..], [("lost", false), ("lost too", false)]);
}
