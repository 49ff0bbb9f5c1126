//! Kills, power cuts, failures and damage; and what is removed.

use super::*;
use crate::tests::{BY_HAND, Model, change, contents};
use std::sync::atomic::{AtomicBool, Ordering};
use tidemill_env::{Disk, Random, SimWorld};

const FOLDER: &str = "/state";

fn open(world: &World) -> Result<(IndexedBackend, RecoveryReport), BackendError> {
    IndexedBackend::open(world, Path::new(FOLDER), BY_HAND)
}

/// The changes of commit `number`: keys that come again, some deleted, some large.
fn batch(number: u64, model: &mut Model) -> WriteBatch {
    let mut random = Random::new(number);
    let mut batch = WriteBatch::default();
    for _ in 0..=random.below(5) {
        let key = format!("key {}", random.below(25));
        let value = vec![number as u8; random.below(400) as usize];
        let value = (random.below(5) > 0).then_some(&value[..]);
        change(&mut batch, model, key.as_bytes(), value);
    }
    batch
}

/// Commits until an error, with a flush now and then: what was acknowledged, and what would be
/// there with the commit that failed.
fn work(world: &World, commits: std::ops::Range<u64>, model: &mut Model) -> Result<(), Model> {
    let Ok((backend, _)) = open(world) else { return Err(model.clone()) };
    assert_eq!(contents(&backend).map_err(|_| model.clone())?, *model);
    for number in commits {
        let mut with = model.clone();
        let outcome = backend.commit(&mut batch(number, &mut with));
        if outcome.is_err() {
            return Err(with);
        }
        *model = with;
        if number % 4 == 3 && backend.flush().is_err() {
            return Err(model.clone());
        }
    }
    Ok(())
}

/// A failed sync gives bytes up that can still be read. Whoever opens the store after that believes
/// them, and goes on; a power cut must not take them away from under what came later.
#[test]
fn row_15_a_batch_that_a_failed_sync_gave_up_is_lost_with_nothing_behind_it() {
    for syncs in 0..12 {
        let sim = World::simulated(syncs);
        let mut model = Model::new();
        sim.disk.fail_sync_after(syncs);
        let _failed_or_not = work(&sim.process(), 0..8, &mut model);
        sim.disk.kill();
        let world = sim.process();
        let backend = open(&world).expect("what is there can be read").0;
        let mut model = contents(&backend).expect("it can be read");
        backend.commit(&mut batch(100, &mut model)).expect("the disk works again");
        sim.disk.power_cut();
        let world = sim.process();
        let (backend, _) = open(&world).unwrap_or_else(|error| panic!("{syncs} syncs: {error}"));
        assert_eq!(contents(&backend).expect("it can be read"), model, "{syncs} syncs");
    }
}

/// The process is killed, or the power fails, at every operation of its disk.
#[test]
fn e1_row_17_what_was_committed_is_there_after_any_kill_and_power_cut() {
    for cuts_power in [false, true] {
        for operations in 0.. {
            let sim = World::simulated(operations);
            let mut model = Model::new();
            sim.disk.fail_after(operations);
            let done = work(&sim.process(), 0..24, &mut model);
            if cuts_power {
                sim.disk.power_cut()
            } else {
                sim.disk.kill()
            }
            let with = done.clone().err().unwrap_or_else(|| model.clone());
            let (backend, _) = open(&sim.world).unwrap();
            let found = contents(&backend).unwrap();
            assert!(found == model || found == with, "operation {operations}, {cuts_power}");
            drop(backend);
            // It goes on from there, and twice opened is as once.
            let mut model = found;
            work(&sim.process(), 24..40, &mut model).unwrap();
            assert_eq!(contents(&open(&sim.world).unwrap().0).unwrap(), model);
            if done.is_ok() {
                break;
            }
        }
    }
}

/// A write or a sync fails and the process lives on.
#[test]
fn row_15_after_an_error_nothing_acknowledged_is_lost_and_nothing_else_is_acknowledged() {
    let mut refused = 0;
    for operations in 0..200 {
        let sim = World::simulated(operations);
        let (backend, _) = open(&sim.world).unwrap();
        let mut model = Model::new();
        sim.disk.fail_after(operations);
        let mut unsure = None;
        for number in 0..30 {
            let mut with = model.clone();
            match backend.commit(&mut batch(number, &mut with)) {
                Ok(()) => {
                    assert!(unsure.is_none(), "nothing is acknowledged after a failed sync");
                    model = with;
                }
                Err(BackendError::Failed { .. }) => {
                    unsure.get_or_insert(with);
                    break;
                }
                Err(_) => {
                    refused += 1;
                    // What failed is whole or not there; if it may be there, the next is refused.
                    let next = backend.commit(&mut batch(1_000, &mut Model::new()));
                    if matches!(next, Err(BackendError::Failed { .. })) {
                        unsure = Some(with);
                        break;
                    }
                    next.unwrap();
                    batch(1_000, &mut model);
                }
            }
            if number % 4 == 3 {
                let _may_fail = backend.flush();
            }
            assert_eq!(contents(&backend).unwrap(), model);
        }
        drop(backend);
        sim.disk.fail_after(u64::MAX);
        if operations % 2 == 0 {
            sim.disk.power_cut();
        }
        let found = contents(&open(&sim.world).unwrap().0).unwrap();
        assert!(found == model || Some(&found) == unsure.as_ref(), "operation {operations}");
    }
    assert!(refused > 10, "{refused}");
}

fn worked(commits: u64) -> (SimWorld, Model) {
    let sim = World::simulated(1);
    let mut model = Model::new();
    work(&sim.process(), 0..commits, &mut model).unwrap();
    (sim, model)
}

fn files(sim: &SimWorld) -> Vec<PathBuf> {
    let files = sim.disk.list(Path::new(FOLDER)).unwrap();
    files.into_iter().filter(|it| !it.ends_with("lock")).collect()
}

#[test]
fn row_20_a_flipped_bit_is_told_and_never_a_wrong_value() {
    let (sim, model) = worked(22);
    let before = worked(21).1;
    let (mut told, mut cut) = (0, 0);
    for path in files(&sim) {
        let healthy = sim.disk.read(&path).unwrap();
        for at in (0..healthy.len()).step_by(3) {
            sim.disk.flip(&path, at as u64, 1 << (at % 8)).unwrap();
            match open(&sim.process()) {
                Err(BackendError::Damaged { path: said, .. }) => {
                    assert_eq!(said, path);
                    assert_eq!(
                        sim.disk.read(&path).unwrap().len(),
                        healthy.len(),
                        "nothing is cut"
                    );
                    told += 1;
                }
                Err(other) => panic!("{}: {other}", path.display()),
                // The last batch behind the index is like one that is torn.
                Ok((backend, opened)) if opened.cut.is_some() => {
                    assert_eq!(contents(&backend).unwrap(), before);
                    cut += 1;
                }
                Ok((backend, _)) => {
                    for (key, value) in &model {
                        match backend.get(key) {
                            Err(BackendError::Damaged { .. }) => told += 1,
                            Err(other) => panic!("{other}"),
                            Ok(found) => assert_eq!(found.as_deref(), Some(&value[..])),
                        }
                    }
                }
            }
            sim.disk.put(&path, &healthy);
        }
    }
    assert!(told > 1_000 && cut > 10, "{told} of them were told, {cut} cut");
    assert_eq!(contents(&open(&sim.world).unwrap().0).unwrap(), model);
}

/// The zeros behind the last batch too: what is committed after it is found again.
#[test]
fn row_19_an_end_that_is_torn_anywhere_is_cut_and_the_store_goes_on() {
    let (sim, model) = worked(22);
    let before = worked(21).1;
    let newest = files(&sim).into_iter().filter(|it| it.extension().is_some()).max().unwrap();
    let healthy = sim.disk.read(&newest).unwrap();
    for length in (healthy.len() - 60)..=healthy.len() {
        sim.disk.put(&newest, &healthy[..length]);
        let mut found = if length == healthy.len() { model.clone() } else { before.clone() };
        let (backend, opened) = open(&sim.process()).unwrap();
        assert_eq!(opened.cut.is_some(), length < healthy.len(), "{length}");
        assert_eq!(contents(&backend).unwrap(), found, "{length}");
        backend.commit(&mut batch(100, &mut found)).unwrap();
        drop(backend);
        let (backend, opened) = open(&sim.process()).unwrap();
        assert_eq!((opened.cut, contents(&backend).unwrap()), (None, found), "{length}");
    }
}

#[test]
fn row_21_an_entry_at_another_place_is_not_taken_for_it() {
    let sim = World::simulated(1);
    let (backend, _) = open(&sim.world).unwrap();
    for value in [b"old", b"new"] {
        let mut batch = WriteBatch::default();
        batch.put(b"key", value);
        backend.commit(&mut batch).unwrap();
    }
    backend.flush().unwrap();
    drop(backend);
    let path = data_path(Path::new(FOLDER), 1);
    let mut bytes = sim.disk.read(&path).unwrap();
    let (first, second) = (32, 32 + (40 + 12 + 6usize).next_multiple_of(8));
    bytes.copy_within(first..second, second);
    sim.disk.put(&path, &bytes);
    let (backend, _) = open(&sim.world).unwrap();
    assert!(matches!(backend.get(b"key"), Err(BackendError::Damaged { .. })));
}

#[test]
fn n4_files_that_are_missing_or_strange_are_told_and_nothing_is_deleted() {
    let (sim, model) = worked(22);
    let all = files(&sim);
    // Of the newest file nobody knows how much there was behind the index.
    let newest = flush::numbers(&sim.world, Path::new(FOLDER)).unwrap().pop().unwrap();
    let newest = data_path(Path::new(FOLDER), newest);
    for path in all.iter().filter(|it| **it != newest) {
        let healthy = sim.disk.read(path).unwrap();
        for how in 0..3 {
            match how {
                0 => sim.disk.remove(path).unwrap(),
                1 => sim.disk.put(path, b""),
                _ => sim.disk.put(path, &healthy[..healthy.len() / 2]),
            }
            let found = open(&sim.process());
            match found {
                Err(BackendError::Damaged { .. }) => {}
                // The end of the last file is cut where a batch is torn.
                Ok((_, opened)) if opened.cut.is_some() => {}
                // Files that the index points into are looked at when they are read.
                Ok((backend, _)) => match contents(&backend) {
                    Err(BackendError::Damaged { .. }) => assert_ne!(how, 0),
                    found => assert_eq!(found.unwrap(), model, "{} {how}", path.display()),
                },
                Err(other) => panic!("{}: {other}", path.display()),
            }
            sim.disk.put(path, &healthy);
            assert_eq!(files(&sim), all);
        }
    }
}

#[test]
fn files_without_a_live_entry_are_removed_by_a_flush() {
    let sim = World::simulated(1);
    let (backend, _) = open(&sim.world).unwrap();
    let count = || files(&sim).iter().filter(|it| it.extension().is_some()).count();
    let mut batch = WriteBatch::default();
    for round in 0..20u8 {
        for key in 0..4u8 {
            batch.put(&[key], &[round; 500]);
        }
        backend.commit(&mut batch).unwrap();
    }
    assert!(count() > 15, "{}", count());
    backend.flush().unwrap();
    assert!(count() <= 2, "{:?}", files(&sim));
    for key in 0..4u8 {
        batch.delete(&[key]);
    }
    backend.commit(&mut batch).unwrap();
    backend.flush().unwrap();
    drop(backend);
    let (backend, opened) = open(&sim.world).unwrap();
    assert_eq!(opened, RecoveryReport::default(), "there is nothing behind the index");
    assert!(contents(&backend).unwrap().is_empty(), "what was deleted stays so");
}

#[test]
fn files_of_which_little_is_live_are_emptied() {
    let sim = World::simulated(1);
    let (backend, _) = open(&sim.world).unwrap();
    let (mut batch, mut model) = (WriteBatch::default(), Model::new());
    for round in 0..40u8 {
        // One key of each round is never saved again.
        change(&mut batch, &mut model, &[round, 1], Some(&[round; 50]));
        for key in 0..4u8 {
            change(&mut batch, &mut model, &[key], Some(&[round; 450]));
        }
        backend.commit(&mut batch).unwrap();
    }
    let count = || files(&sim).iter().filter(|it| it.extension().is_some()).count();
    assert!(count() > 30, "{}", count());
    for _ in 0..6 {
        backend.flush().unwrap();
        assert_eq!(contents(&backend).unwrap(), model);
    }
    assert!(count() < 8, "{:?}", files(&sim));
    drop(backend);
    assert_eq!(contents(&open(&sim.world).unwrap().0).unwrap(), model);
}

#[test]
fn what_was_changed_meanwhile_is_not_written_again() {
    let sim = World::simulated(1);
    let (backend, _) = open(&sim.world).unwrap();
    let (mut batch, mut model) = (WriteBatch::default(), Model::new());
    for key in [b"kept", b"new!", b"gone"] {
        change(&mut batch, &mut model, key, Some(b"old"));
    }
    backend.commit(&mut batch).unwrap();
    let entries = backend.store.index.read().unwrap().with_prefix(b"");
    change(&mut batch, &mut model, b"new!", Some(b"new"));
    change(&mut batch, &mut model, b"gone", None);
    backend.commit(&mut batch).unwrap();
    let kept = entries.iter().find(|(key, _)| key == b"kept").unwrap().1;
    backend.store.write_again(&entries).unwrap();
    assert_eq!(contents(&backend).unwrap(), model);
    assert_ne!(backend.store.index.read().unwrap().get(b"kept"), Some(kept), "it moved");
    drop(backend);
    assert_eq!(contents(&open(&sim.world).unwrap().0).unwrap(), model);
}

/// Readers, a writer and the thread that flushes, on a real disk.
#[test]
fn readers_always_find_the_newest_or_the_one_before() {
    let folder = tempfile::tempdir().unwrap();
    let options = IndexedOptions {
        file_bytes: ByteSize(16 << 10),
        flush_bytes: ByteSize(32 << 10),
        flush_in_background: true,
    };
    let (backend, _) = IndexedBackend::open(&World::real(), folder.path(), options).unwrap();
    let number = |value: &Bytes| u64::from_le_bytes(value[..8].try_into().unwrap());
    let put = |round: u64| {
        let mut batch = WriteBatch::default();
        for key in 0..10u8 {
            let mut value = round.to_le_bytes().to_vec();
            value.resize(200, key);
            batch.put(&[key], &value);
        }
        backend.commit(&mut batch).unwrap();
    };
    put(0);
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (1..400).for_each(put);
            is_done.store(true, Ordering::SeqCst);
        });
        for key in 0..3u8 {
            let (backend, is_done) = (&backend, &is_done);
            scope.spawn(move || {
                let mut last = 0;
                while !is_done.load(Ordering::SeqCst) {
                    let value = backend.get(&[key]).unwrap().expect("it was put before");
                    assert!(number(&value) >= last, "never back in time");
                    last = number(&value);
                    assert_eq!(backend.keys(b"").unwrap().len(), 10);
                }
            });
        }
    });
    let unflushed = || backend.store.writer.lock().unwrap().unflushed;
    while unflushed() >= options.flush_bytes.0 {
        assert!(backend.flush_failure().is_none());
        std::thread::yield_now();
    }
    drop(backend);
    let (backend, opened) = IndexedBackend::open(&World::real(), folder.path(), options).unwrap();
    assert!(contents(&backend).unwrap().values().all(|it| it[..8] == 399u64.to_le_bytes()));
    assert!(opened.bytes < options.flush_bytes.0, "{opened:?}");
}

/// What was deleted is gone from the disk soon, though little was written since; also if the process
/// ended before.
#[test]
fn the_room_of_what_was_deleted_comes_back_without_more_being_written() {
    let options = IndexedOptions {
        file_bytes: ByteSize(16 << 10),
        flush_bytes: ByteSize(256 << 20),
        flush_in_background: true,
    };
    for is_opened_again in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let opened = |options| IndexedBackend::open(&World::real(), folder.path(), options);
        let in_background = !is_opened_again;
        let first = IndexedOptions { flush_in_background: in_background, ..options };
        let mut backend = opened(first).unwrap().0;
        let mut batch = WriteBatch::default();
        for key in 0..100u8 {
            batch.put(&[key], &[key; 1_000]);
            backend.commit(&mut batch).unwrap();
        }
        (0..100u8).for_each(|key| batch.delete(&[key]));
        backend.commit(&mut batch).unwrap();
        if is_opened_again {
            drop(backend);
            backend = opened(options).unwrap().0;
        }
        let files = || flush::numbers(&World::real(), folder.path()).unwrap().len();
        for _ in 0..20_000 {
            if files() > 1 {
                World::real().clock.sleep_micros(1_000);
            }
        }
        assert_eq!(files(), 1, "opened again: {is_opened_again}");
        assert!(backend.flush_failure().is_none());
    }
}

/// Little is live and much was written, on a disk that could not hold a file as long as there usually
/// are: what is dead never fills it.
#[test]
fn row_14_on_a_small_disk_room_comes_back_before_there_is_none() {
    for deletes in [true, false] {
        let sim = World::simulated(1);
        sim.disk.set_capacity(24 << 20);
        let options = IndexedOptions { flush_in_background: false, ..IndexedOptions::default() };
        let world = sim.process();
        let (backend, _) = IndexedBackend::open(&world, Path::new(FOLDER), options).expect("room");
        let mut flushes = 0;
        let mut most = 0;
        for number in 0..1_500_u32 {
            let mut batch = WriteBatch::default();
            let key = |number: u32| format!("{}", if deletes { number } else { number % 10 });
            batch.put(key(number).as_bytes(), &vec![number as u8; 200_000]);
            if deletes && number >= 10 {
                batch.delete(key(number - 10).as_bytes());
            }
            backend.commit(&mut batch).unwrap_or_else(|error| panic!("commit {number}: {error}"));
            if backend.store.flusher.take_wanted() {
                backend.flush().expect("there is room");
                flushes += 1;
            }
            most = most.max(sim.disk.used());
        }
        assert!(flushes < 300, "{flushes}: what is free is worth a flush");
        assert!(most < 20 << 20, "{most}");
        assert_eq!(backend.keys(b"").expect("in memory").len(), 10);
    }
}

/// Commits `count` batches of a thousand bytes, each under keys of its own.
fn long_batches(sim: &SimWorld, count: u8) -> Model {
    let (backend, _) = open(&sim.process()).unwrap();
    let (mut batch, mut model) = (WriteBatch::default(), Model::new());
    for nth in 0..count {
        change(&mut batch, &mut model, &[nth, 0], Some(&[nth; 500]));
        change(&mut batch, &mut model, &[nth, 1], Some(&[nth; 500]));
        change(&mut batch, &mut model, &[nth.wrapping_sub(1), 1], None);
        backend.commit(&mut batch).unwrap();
    }
    model
}

#[test]
fn of_long_batches_only_the_last_is_read_whole() {
    let sim = World::simulated(1);
    let model = long_batches(&sim, 100);
    let (backend, opened) = open(&sim.process()).unwrap();
    assert_eq!(contents(&backend).unwrap(), model);
    assert_eq!(opened.batches, 100);
    assert!(opened.bytes > 100_000, "{opened:?}");
    assert!(opened.read_bytes * 4 < opened.bytes, "{opened:?}");
}

#[test]
fn row_20_of_a_damaged_directory_the_entries_are_read() {
    let sim = World::simulated(1);
    let model = long_batches(&sim, 3);
    let path = data_path(Path::new(FOLDER), 1);
    let healthy = sim.disk.read(&path).unwrap();
    let head = BatchHead::decode(&healthy[32..], id_of(&healthy), 1, 32).unwrap();
    assert!(head.directory_bytes > 0);
    let at = 32 + BATCH_HEAD_BYTES as u64 + head.bytes;
    for at in at..at + u64::from(head.directory_bytes) {
        sim.disk.flip(&path, at, 1).unwrap();
        let (backend, opened) = open(&sim.process()).unwrap();
        assert_eq!((contents(&backend).unwrap(), opened.cut), (model.clone(), None), "{at}");
        sim.disk.put(&path, &healthy);
    }
}

/// The number of the store that a data file belongs to.
fn id_of(file: &[u8]) -> u64 {
    u64::from_le_bytes(file[8..16].try_into().unwrap())
}

/// A disk may write the end of what it was given before the beginning.
#[test]
fn row_19_a_last_batch_of_which_the_end_came_first_is_cut() {
    let sim = World::simulated(1);
    let model = long_batches(&sim, 1);
    let (backend, _) = open(&sim.process()).unwrap();
    let mut batch = WriteBatch::default();
    for (key, value) in &model {
        batch.put(key, &vec![9; value.len()]);
    }
    backend.commit(&mut batch).unwrap();
    drop(backend);
    // It did not fit the first file.
    let path = data_path(Path::new(FOLDER), 2);
    let mut bytes = sim.disk.read(&path).unwrap();
    let head = BatchHead::decode(&bytes[32..], id_of(&bytes), 2, 32).unwrap();
    assert!(head.directory_bytes > 0);
    bytes[32 + BATCH_HEAD_BYTES..][..head.bytes as usize].fill(0);
    sim.disk.put(&path, &bytes);
    let (backend, opened) = open(&sim.process()).unwrap();
    assert_eq!(opened.cut, Some((path, 32)));
    assert_eq!(contents(&backend).unwrap(), model);
}
