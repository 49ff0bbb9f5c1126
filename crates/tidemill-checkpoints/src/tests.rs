//! Both backends against a map in memory.

use crate::*;
use proptest::prelude::*;
use std::{collections::BTreeMap, path::Path};
use tidemill_env::{SimWorld, World};
use tidemill_state::Delta;
use tidemill_types::ByteSize;

pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Small files, and no flush but by hand.
pub(crate) const BY_HAND: IndexedOptions = IndexedOptions {
    file_bytes: ByteSize(2 << 10),
    flush_bytes: ByteSize(u64::MAX),
    flush_in_background: false,
};

/// The run of a delta.
pub(crate) fn run_of(delta: &mut Delta) -> Vec<u8> {
    let mut run = Vec::new();
    delta.finish(&mut run).expect("little has changed");
    run
}

/// All that a backend has.
pub(crate) fn contents(backend: &dyn Backend) -> Result<Model, BackendError> {
    let keys = backend.keys(b"")?;
    assert!(keys.is_sorted_by(|a, b| a < b), "in ascending order, each once");
    let mut values = ValueBuffer::default();
    let value = |key: Vec<u8>| {
        let value = backend.get(&key)?.expect("a key that is there has a value");
        let before = values.get().len();
        assert!(backend.read(&key, &mut values)?, "read in either way");
        assert_eq!(&values.get()[before..], value, "the same");
        Ok((key, value.to_vec()))
    };
    keys.into_iter().map(value).collect()
}

/// Puts a change into a batch and into the model. No value: delete.
pub(crate) fn change(batch: &mut WriteBatch, model: &mut Model, key: &[u8], value: Option<&[u8]>) {
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

enum Kind {
    Indexed,
    Files,
}

fn open(kind: &Kind, sim: &SimWorld) -> Box<dyn Backend> {
    let folder = Path::new("/state");
    match kind {
        Kind::Indexed => Box::new(IndexedBackend::open(&sim.world, folder, BY_HAND).unwrap().0),
        Kind::Files => Box::new(FileBackend::open(&sim.world, folder).unwrap()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_backend_holds_what_was_put(
        commits in prop::collection::vec(
            (prop::collection::vec(
                (prop::collection::vec(any::<u8>(), 0..3),
                 prop::option::weighted(0.8, prop::collection::vec(any::<u8>(), 0..600))), 0..12),
             any::<bool>()), 0..12),
    ) {
        for kind in [Kind::Indexed, Kind::Files] {
            let sim = World::simulated(1);
            let mut backend = open(&kind, &sim);
            let (mut model, mut batch) = (Model::new(), WriteBatch::default());
            for (changes, reopen) in &commits {
                for (key, value) in changes {
                    change(&mut batch, &mut model, key, value.as_deref());
                }
                prop_assert_eq!(batch.len(), changes.len());
                backend.commit(&mut batch).unwrap();
                prop_assert!(batch.is_empty());
                if *reopen {
                    drop(backend);
                    backend = open(&kind, &sim);
                }
                prop_assert_eq!(&contents(&*backend).unwrap(), &model);
                prop_assert_eq!(backend.get(b"not there").unwrap(), None);
            }
        }
    }
}

#[test]
fn keys_of_a_prefix_come_in_order() {
    for kind in [Kind::Indexed, Kind::Files] {
        let sim = World::simulated(1);
        let backend = open(&kind, &sim);
        let mut batch = WriteBatch::default();
        for key in ["a", "ab", "abc", "ac", "b", "", "ab\u{ff}"] {
            batch.put(key.as_bytes(), key.as_bytes());
        }
        backend.commit(&mut batch).unwrap();
        let keys = |prefix: &str| {
            let found = backend.keys(prefix.as_bytes()).unwrap().into_iter();
            found.map(|key| String::from_utf8(key).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(keys("ab"), ["ab", "abc", "ab\u{ff}"]);
        assert_eq!(keys(""), ["", "a", "ab", "abc", "ab\u{ff}", "ac", "b"]);
        assert!(keys("x").is_empty());
    }
}

#[test]
fn what_is_too_long_is_refused_and_stays_in_the_batch() {
    let sim = World::simulated(1);
    for kind in [Kind::Indexed, Kind::Files] {
        let backend = open(&kind, &sim);
        let mut batch = WriteBatch::default();
        batch.put(&vec![7; (1 << 20) + 1], b"value");
        batch.put(b"good", b"value");
        for _ in 0..2 {
            let refused = backend.commit(&mut batch).unwrap_err();
            assert!(matches!(refused, BackendError::KeyTooLong { .. }), "{refused}");
        }
        batch.clear();
        batch.put(b"good", b"value");
        backend.commit(&mut batch).unwrap();
        assert_eq!(contents(&*backend).unwrap().len(), 1);
    }
}

#[test]
fn row_28_a_folder_has_one_backend() {
    for kind in [Kind::Indexed, Kind::Files] {
        let sim = World::simulated(1);
        let first = open(&kind, &sim);
        let folder = Path::new("/state");
        let error = match kind {
            Kind::Indexed => IndexedBackend::open(&sim.world, folder, BY_HAND).map(|_| ()).err(),
            Kind::Files => FileBackend::open(&sim.world, folder).map(|_| ()).err(),
        };
        assert!(matches!(error, Some(BackendError::InUse { .. })));
        drop(first);
        open(&kind, &sim);
    }
}

#[test]
fn commits_of_several_threads_do_not_mix() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::real();
    let indexed = folder.path().join("indexed");
    let backends: [Box<dyn Backend>; 2] = [
        Box::new(IndexedBackend::open(&world, &indexed, BY_HAND).unwrap().0),
        Box::new(FileBackend::open(&world, &folder.path().join("files")).unwrap()),
    ];
    for backend in &backends {
        std::thread::scope(|scope| {
            for thread in 0..4u8 {
                scope.spawn(move || {
                    let mut batch = WriteBatch::default();
                    for round in 0..25u8 {
                        batch.put(&[thread, round], &vec![thread; 100 * usize::from(thread + 1)]);
                        backend.commit(&mut batch).unwrap();
                    }
                });
            }
        });
        let all = contents(&**backend).unwrap();
        assert_eq!(all.len(), 100);
        let is_own = |(key, value): (&Vec<u8>, &Vec<u8>)| value.iter().all(|it| *it == key[0]);
        assert!(all.iter().all(is_own));
    }
}
