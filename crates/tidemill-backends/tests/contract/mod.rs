//! What every backend on a server must do, whatever the server is.
//!
//! Each test has a job of its own on the server, and so a place of its own.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Barrier},
};
use tempfile::TempDir;
use tidemill_checkpoints::{Backend, BackendError, Checkpoints, Manifest, SavedStage, WriteBatch};
use tidemill_env::Random;
use tidemill_state::Delta;
use tidemill_types::{CheckpointNumber, Cycle, Micros, SliceId, SliceKey, StageIx};

pub(crate) type Opened = Result<Arc<dyn Backend>, BackendError>;
/// Opens the place of a job, by its name, with this folder.
pub(crate) type Open<'a> = &'a (dyn Fn(&str, &Path) -> Opened + Sync);
type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs each test of the contract with a function that opens a backend.
#[macro_export]
macro_rules! contract {
    ($open:expr; $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                contract::$name(&$open);
            }
        )*
    };
    ($open:expr) => {
        $crate::contract! { $open;
            it_holds_what_was_put
            keys_of_a_prefix_come_in_order
            what_is_too_long_is_refused_and_stays_in_the_batch
            row_28_a_place_has_one_owner
            of_several_that_claim_a_place_at_once_one_has_it
            a_place_that_was_cleared_is_anybodys
            jobs_do_not_mix
            commits_of_several_threads_do_not_mix
            large_batches_are_taken
            of_several_changes_of_a_key_the_last_counts
            the_newest_complete_checkpoint_is_what_was_there
        }
    };
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// All that a backend has.
fn contents(backend: &dyn Backend) -> Model {
    let keys = backend.keys(b"").unwrap();
    assert!(keys.is_sorted_by(|a, b| a < b), "in ascending order, each once");
    let value = |key: Vec<u8>| {
        let value = backend.get(&key).unwrap().expect("a key that is there has a value");
        (key, value.to_vec())
    };
    keys.into_iter().map(value).collect()
}

fn change(batch: &mut WriteBatch, model: &mut Model, key: &[u8], value: Option<&[u8]>) {
    match value {
        Some(value) => {
            batch.put(key, value);
            model.insert(key.to_vec(), value.to_vec());
        }
        None => {
            batch.delete(key);
            model.remove(key);
        }
    }
}

pub(crate) fn it_holds_what_was_put(open: Open<'_>) {
    let folder = folder();
    let mut backend = open("held", folder.path()).unwrap();
    let (mut model, mut batch, mut random) = (Model::new(), WriteBatch::default(), Random::new(7));
    for _ in 0..30 {
        for _ in 0..random.below(12) {
            let key: Vec<u8> = (0..random.below(3)).map(|_| random.next() as u8).collect();
            let value: Vec<u8> = (0..random.below(600)).map(|_| random.next() as u8).collect();
            change(&mut batch, &mut model, &key, (random.below(5) > 0).then_some(&value[..]));
        }
        backend.commit(&mut batch).unwrap();
        assert!(batch.is_empty());
        if random.below(3) == 0 {
            drop(backend);
            backend = open("held", folder.path()).unwrap();
        }
        assert_eq!(contents(&*backend), model);
        assert_eq!(backend.get(b"not there").unwrap(), None);
    }
}

pub(crate) fn keys_of_a_prefix_come_in_order(open: Open<'_>) {
    let folder = folder();
    let backend = open("prefixes", folder.path()).unwrap();
    let mut batch = WriteBatch::default();
    let all: [&[u8]; 9] =
        [b"a", b"ab", b"abc", b"ac", b"b", b"", b"ab\xff", b"\xff", b"\xff\xff\0:/ %*\n"];
    all.iter().for_each(|key| batch.put(key, key));
    backend.commit(&mut batch).unwrap();
    for prefix in [&b""[..], b"a", b"ab", b"x", b"\xff", b"\xff\xff", b"abcd"] {
        let mut expected: Vec<_> = all.iter().filter(|key| key.starts_with(prefix)).collect();
        expected.sort();
        assert_eq!(backend.keys(prefix).unwrap().iter().collect::<Vec<_>>(), expected);
    }
    all.iter().for_each(|key| assert_eq!(backend.get(key).unwrap().unwrap(), *key));
}

pub(crate) fn what_is_too_long_is_refused_and_stays_in_the_batch(open: Open<'_>) {
    let folder = folder();
    let backend = open("too-long", folder.path()).unwrap();
    let mut batch = WriteBatch::default();
    batch.put(b"good", b"value");
    batch.put(&[7; 121], b"value");
    for _ in 0..2 {
        let refused = backend.commit(&mut batch).unwrap_err();
        assert!(matches!(refused, BackendError::KeyTooLong { .. }), "{refused}");
        assert_eq!(batch.len(), 2);
    }
    assert!(contents(&*backend).is_empty());
    batch.clear();
    batch.put(&[7; 120], b"value");
    backend.commit(&mut batch).unwrap();
    assert_eq!(contents(&*backend).len(), 1);
}

pub(crate) fn row_28_a_place_has_one_owner(open: Open<'_>) {
    let (ours, theirs) = (folder(), folder());
    let first = open("owned", ours.path()).unwrap();
    let mut batch = WriteBatch::default();
    batch.put(b"key", b"value");
    first.commit(&mut batch).unwrap();
    let refused = |folder: &Path| open("owned", folder).err().expect("it is another's");
    let error = refused(ours.path());
    assert!(matches!(error, BackendError::InUse { .. }), "{error}");
    let error = refused(theirs.path());
    assert!(matches!(error, BackendError::Taken { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains(&*ours.path().display().to_string()), "whose it is: {text}");
    assert!(text.contains("owner"), "what to do: {text}");
    // The process is killed: its lock is gone, its id is not.
    drop(first);
    let again = open("owned", ours.path()).unwrap();
    assert_eq!(again.get(b"key").unwrap().unwrap(), "value");
    // The folder is moved.
    drop(again);
    let moved = PathBuf::from(format!("{}-moved", ours.path().display()));
    std::fs::rename(ours.path(), &moved).unwrap();
    let again = open("owned", &moved).unwrap();
    again.commit(&mut batch).unwrap();
    drop(again);
    std::fs::rename(&moved, ours.path()).unwrap();
}

pub(crate) fn of_several_that_claim_a_place_at_once_one_has_it(open: Open<'_>) {
    let folders: Vec<_> = (0..6).map(|_| folder()).collect();
    let start = Barrier::new(folders.len());
    let claim = |folder: &TempDir| {
        start.wait();
        open("claimed", folder.path())
    };
    let outcomes: Vec<Opened> = std::thread::scope(|scope| {
        let claims: Vec<_> = folders.iter().map(|folder| scope.spawn(|| claim(folder))).collect();
        claims.into_iter().map(|it| it.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|it| it.is_ok()).count(), 1);
    for error in outcomes.iter().filter_map(|it| it.as_ref().err()) {
        assert!(matches!(error, BackendError::Taken { .. }), "{error}");
    }
}

pub(crate) fn a_place_that_was_cleared_is_anybodys(open: Open<'_>) {
    let (ours, theirs, neighbour) = (folder(), folder(), folder());
    let mut batch = WriteBatch::default();
    let mut put = |backend: &dyn Backend, key: &[u8]| {
        batch.put(key, b"value");
        backend.commit(&mut batch).unwrap();
    };
    let beside = open("cleared-not", neighbour.path()).unwrap();
    put(&*beside, b"key");
    let backend = open("cleared", ours.path()).unwrap();
    for key in [&b""[..], b"a", b"ab", &[0xff; 3]] {
        put(&*backend, key);
    }
    backend.clear().unwrap();
    drop(backend);
    let other = open("cleared", theirs.path()).unwrap();
    assert_eq!(contents(&*other), Model::new());
    put(&*other, b"theirs");
    assert_eq!(contents(&*other).len(), 1);
    assert_eq!(contents(&*beside).len(), 1, "nothing of another job was touched");
    let refused = open("cleared", ours.path()).err().unwrap();
    assert!(matches!(refused, BackendError::Taken { .. }), "{refused}");
}

pub(crate) fn jobs_do_not_mix(open: Open<'_>) {
    let folders = [folder(), folder(), folder()];
    let names = ["mixed", "mixed-", "mixe"];
    let backends: Vec<_> =
        names.iter().zip(&folders).map(|(name, it)| open(name, it.path()).unwrap()).collect();
    let mut batch = WriteBatch::default();
    for (backend, name) in backends.iter().zip(names) {
        batch.put(b"key", name.as_bytes());
        batch.put(name.as_bytes(), b"");
        backend.commit(&mut batch).unwrap();
    }
    for (backend, name) in backends.iter().zip(names) {
        let all = contents(&**backend);
        assert_eq!((all.len(), &*all[&b"key"[..]]), (2, name.as_bytes()));
    }
}

pub(crate) fn commits_of_several_threads_do_not_mix(open: Open<'_>) {
    let folder = folder();
    let backend = open("threads", folder.path()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let backend = &backend;
            scope.spawn(move || {
                let mut batch = WriteBatch::default();
                for round in 0..10u8 {
                    batch.put(&[thread, round], &vec![thread; 100 * usize::from(thread + 1)]);
                    backend.commit(&mut batch).unwrap();
                    backend.get(&[thread, round]).unwrap().unwrap();
                }
            });
        }
    });
    let all = contents(&*backend);
    assert_eq!(all.len(), 40);
    assert!(all.iter().all(|(key, value)| value.iter().all(|it| *it == key[0])));
}

pub(crate) fn large_batches_are_taken(open: Open<'_>) {
    let folder = folder();
    let backend = open("large", folder.path()).unwrap();
    let mut batch = WriteBatch::default();
    // Larger than one request, and one of values that are larger than the others.
    let large = |number: u8| vec![number; (1 << 20) + usize::from(number)];
    (0..24).for_each(|number| batch.put(&[b'l', number], &large(number)));
    backend.commit(&mut batch).unwrap();
    for number in 0..24 {
        assert_eq!(backend.get(&[b'l', number]).unwrap().unwrap(), large(number));
    }
    // More than one page of keys, and one request of deletions.
    let small = |number: u32| [&b"s"[..], &number.to_be_bytes()].concat();
    (0..1_100).for_each(|number| batch.put(&small(number), b""));
    backend.commit(&mut batch).unwrap();
    assert_eq!(backend.keys(b"s").unwrap(), (0..1_100).map(small).collect::<Vec<_>>());
    (0..24).for_each(|number| batch.delete(&[b'l', number]));
    (1..1_100).for_each(|number| batch.delete(&small(number)));
    batch.delete(b"not there");
    backend.commit(&mut batch).unwrap();
    assert_eq!(backend.keys(b"").unwrap(), [small(0)]);
}

pub(crate) fn of_several_changes_of_a_key_the_last_counts(open: Open<'_>) {
    let folder = folder();
    let backend = open("several", folder.path()).unwrap();
    let mut batch = WriteBatch::default();
    batch.put(b"put", b"1");
    batch.delete(b"put");
    batch.put(b"put", b"2");
    batch.put(b"deleted", b"1");
    batch.delete(b"deleted");
    backend.commit(&mut batch).unwrap();
    assert_eq!(contents(&*backend), Model::from([(b"put".to_vec(), b"2".to_vec())]));
}

/// The engine's own use of a backend: some slices change, and a checkpoint follows another.
pub(crate) fn the_newest_complete_checkpoint_is_what_was_there(open: Open<'_>) {
    let folder = folder();
    let mut random = Random::new(1);
    let mut backend = open("checkpoints", folder.path()).unwrap();
    let mut checkpoints = Checkpoints::open(Arc::clone(&backend)).unwrap();
    assert!(checkpoints.newest().is_none());
    let mut model = vec![Model::new(); 3];
    for number in 1..25 {
        let cycle = Cycle(number);
        let given = checkpoints.begin().unwrap();
        for (slice, model) in (0..).zip(&mut model) {
            if random.below(3) > 0 {
                checkpoints
                    .put_changes(
                        SliceKey::new(StageIx(0), SliceId(slice)),
                        &mut changed(&mut random, model),
                    )
                    .unwrap();
            }
        }
        let slices = checkpoints.chains(StageIx(0), 3);
        checkpoints.complete(manifest((given, cycle), slices)).unwrap();
        if random.below(4) == 0 {
            drop((checkpoints, backend));
            backend = open("checkpoints", folder.path()).unwrap();
            checkpoints = Checkpoints::open(Arc::clone(&backend)).unwrap();
            assert_eq!(checkpoints.newest().unwrap().cycle, cycle);
            checkpoints.go_on(given, |_| Some(StageIx(0))).unwrap();
        }
        assert_eq!(restored(&checkpoints), model);
        let runs: usize = checkpoints.chains(StageIx(0), 3).iter().map(Vec::len).sum();
        assert_eq!(backend.keys(b"").unwrap().len(), runs + 2, "nothing is left behind");
    }
    let mut anew = Checkpoints::open(Arc::clone(&backend)).unwrap();
    anew.confirm().unwrap();
    assert_eq!(backend.keys(b"").unwrap(), [b"b", b"o"], "notes of numbers that were given");
}

fn manifest(
    (number, cycle): (CheckpointNumber, Cycle),
    slices: Vec<Vec<tidemill_checkpoints::RunRef>>,
) -> Manifest {
    let (name, does) = ("stage".to_owned(), "work".to_owned());
    let stages = vec![SavedStage { name, does, watermark: Micros(0), slices }];
    let (sources, sinks, letters) = (Vec::new(), Vec::new(), Cycle::NONE);
    let (made, time) = (Micros(0), Micros(0));
    Manifest { number, made, cycle, time, sources, stages, sinks, letters, coordinated: true }
}

/// Some changes of a slice.
fn changed(random: &mut Random, model: &mut Model) -> Delta {
    let mut changes = BTreeMap::new();
    for _ in 0..1 + random.below(5) {
        let value = vec![random.next() as u8; random.below(2_000) as usize];
        changes.insert(vec![random.below(20) as u8], value);
    }
    let mut delta = Delta::default();
    for (key, value) in changes {
        delta.put_with(&key, |out| out.extend_from_slice(&value));
        model.insert(key, value);
    }
    delta
}

fn restored(checkpoints: &Checkpoints) -> Vec<Model> {
    let slice = |slice| {
        let mut model = Model::new();
        let read = checkpoints.runs_of(SliceKey::new(StageIx(0), SliceId(slice))).read().unwrap();
        let mut keep = |key: &[u8], value: &[u8]| {
            model.insert(key.to_vec(), value.to_vec());
            Ok(())
        };
        tidemill_state::visit_entries(&read.get(), &mut keep).unwrap();
        model
    };
    (0..3).map(slice).collect()
}
