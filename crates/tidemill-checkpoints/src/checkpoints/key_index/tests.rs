//! Rows that are looked for by their keys, against a map of what was saved.

use super::*;
use crate::IndexedBackend;
use crate::checkpoints::{Checkpoints, Manifest, SavedStage};
use crate::tests::{BY_HAND, run_of};
use proptest::prelude::*;
use std::sync::Arc;
use std::{collections::BTreeMap, path::Path};
use tidemill_env::{Random, World};
use tidemill_state::Delta;
use tidemill_types::{CheckpointNumber, Cycle, Micros, SliceKey};

/// The part of a row's key before its number, and the row.
type At = (u8, u32);
/// By row: its key, and its value behind that.
type Model = BTreeMap<At, (u64, Vec<u8>)>;

/// Keys whose hashes are alike in all that the index keeps of them.
const ALIKE: u64 = 10;

fn hash_of(key: u64) -> u64 {
    let spread = (key / ALIKE).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The index has no room for the bits that tell these apart.
    spread >> 16 | (key % ALIKE) << 48
}

fn hash_of_entry() -> HashOfEntry {
    Arc::new(|value| Some(hash_of(u64::from_le_bytes(*value.first_chunk()?))))
}

fn world_with(backend: &World) -> Arc<dyn Backend> {
    let opened = IndexedBackend::open(backend, Path::new("/state"), BY_HAND);
    Arc::new(opened.expect("it can be opened").0)
}

fn put(delta: &mut Delta, (part, row): At, (key, more): &(u64, Vec<u8>)) {
    delta.within(&[0, part], |delta| {
        delta.put_with(&row.to_be_bytes(), |out| {
            out.extend_from_slice(&key.to_le_bytes());
            out.extend_from_slice(more);
        });
    });
}

fn checkpoint(checkpoints: &mut Checkpoints, runs: &[Vec<u8>]) {
    let number = checkpoints.begin().expect("it can be written");
    for run in runs {
        checkpoints.put(SliceKey::new(StageIx(7), SliceId(0)), run).expect("it can be written");
    }
    let stage = SavedStage {
        name: "stage".to_owned(),
        does: String::new(),
        watermark: Micros(0),
        slices: checkpoints.chains(StageIx(7), 1),
    };
    let manifest = Manifest {
        number,
        made: Micros(0),
        cycle: Cycle(number.0),
        time: Micros(0),
        sources: Vec::new(),
        stages: vec![stage],
        sinks: Vec::new(),
        letters: Cycle::NONE,
        coordinated: true,
    };
    checkpoints.complete(manifest).expect("it can be written");
}

/// The row and the rest of the value of a key in a part.
fn find(keys: &mut KeyReader, part: u8, key: u64) -> Option<(u32, Vec<u8>)> {
    let mut found = None;
    let taken = keys.find(&[0, part], hash_of(key), &mut |row, value| {
        let (held, more) = value.split_first_chunk().expect("a key");
        let is_it = u64::from_le_bytes(*held) == key;
        if is_it {
            let row = u32::from_be_bytes(row.try_into().expect("the number of a row"));
            found = Some((row, more.to_vec()));
        }
        Ok(is_it)
    });
    assert_eq!(taken.expect("it can be read"), found.is_some());
    found
}

#[test]
fn a_key_is_found_as_the_newest_checkpoint_has_it() {
    let sim = World::simulated(3);
    let backend = world_with(&sim.world);
    let mut checkpoints = Checkpoints::open(Arc::clone(&backend)).expect("it can be opened");
    let looker = checkpoints.looker();
    checkpoints.read_by_key(StageIx(7), hash_of_entry());
    let (mut model, mut random) = (Model::new(), Random::new(9));
    let mut kept: Option<KeyReader> = None;
    // Beyond the number of checkpoints that runs of a slice come from: they are merged on the way.
    for _ in 0..18 {
        let mut runs = Vec::new();
        for part in 0..3 {
            let mut delta = Delta::default();
            if random.below(8) == 0 {
                delta.clear(&[0, part]);
                model.retain(|(of, _), _| *of != part);
            }
            let held = model.range((part, 0)..(part + 1, 0)).count() as u32;
            let mut changed = BTreeMap::new();
            for _ in 0..random.below(1_500) {
                let row = random.below(u64::from(held) + 1) as u32;
                changed.insert((part, row), ());
            }
            // New rows follow those that are there.
            for row in held..held + random.below(900) as u32 {
                changed.insert((part, row), ());
            }
            for at in changed.into_keys() {
                let key = model.get(&at).map_or(u64::from(at.1) * 3 + u64::from(part), |it| it.0);
                let long = if random.below(300) == 0 { 70_000 } else { random.below(90) };
                let entry = (key, vec![random.below(256) as u8; long as usize]);
                put(&mut delta, at, &entry);
                model.insert(at, entry);
            }
            if !delta.is_empty() {
                runs.push(run_of(&mut delta));
            }
        }
        checkpoint(&mut checkpoints, &runs);
        if model.is_empty() {
            continue;
        }
        let open = |looker: &CheckpointReader| {
            KeyReader::open(looker, "stage", SliceId(0)).expect("it can be read").expect("an index")
        };
        // Who looked before sees what is newer; and another process finds out where rows are.
        let kept = kept.get_or_insert_with(|| open(&looker));
        let again = Checkpoints::open(Arc::clone(&backend)).expect("it can be opened").looker();
        let mut parts = BTreeMap::new();
        parts.extend(model.keys().map(|(part, row)| (vec![0, *part], row + 1)));
        for keys in [kept, &mut open(&again)] {
            for ((part, row), (key, more)) in &model {
                if random.below(40) == 0 {
                    assert_eq!(find(keys, *part, *key), Some((*row, more.clone())));
                }
            }
            for key in (0..60).map(|it| it * 3 * ALIKE + 1) {
                // Such a key is of part 1 alone.
                assert_eq!(find(keys, 0, key), None, "{key}");
                let held = model.iter().any(|((of, _), (it, _))| (*of, *it) == (1, key));
                assert_eq!(find(keys, 1, key).is_some(), held, "{key}");
                assert_eq!(find(keys, 9, key), None, "{key}");
            }
        }
        let said: BTreeMap<Vec<u8>, u32> = open(&again).parts().into_iter().collect();
        assert_eq!(said, parts);
    }
}

#[test]
fn what_cannot_be_looked_for_by_key_has_no_index() {
    let run = |put: &dyn Fn(&mut Delta)| {
        let mut delta = Delta::default();
        put(&mut delta);
        run_of(&mut delta)
    };
    let hash_of = hash_of_entry();
    let has_index = |run: Vec<u8>| index_of(&run, &*hash_of).expect("a run").is_some();
    assert!(has_index(run(&|delta| put(delta, (0, 1), &(5, Vec::new())))));
    assert!(!has_index(run(&|delta| delta.delete(&[0, 0, 0, 0, 0, 1]))));
    assert!(!has_index(run(&|delta| delta.put_with(&[0, 0, 0, 0, 0, 1], |out| out.push(1)))));
    assert!(!has_index(run(&|delta| delta.put_with(&[1], |out| out.extend_from_slice(&[0; 8])))));
    // A slice some of whose runs have none is read as a whole.
    let sim = World::simulated(1);
    let backend = world_with(&sim.world);
    let mut checkpoints = Checkpoints::open(Arc::clone(&backend)).expect("it can be opened");
    let looker = checkpoints.looker();
    let entry = |row| run(&|delta| put(delta, (0, row), &(5, Vec::new())));
    assert!(matches!(KeyReader::open(&looker, "stage", SliceId(0)), Err(CheckpointError::None)));
    checkpoint(&mut checkpoints, &[entry(1)]);
    checkpoints.read_by_key(StageIx(7), hash_of_entry());
    checkpoint(&mut checkpoints, &[entry(2)]);
    for slice in [0, 1] {
        let opened = KeyReader::open(&looker, "stage", SliceId(slice)).expect("it can be read");
        assert!(opened.is_none(), "slice {slice}");
    }
}

proptest! {
    #[test]
    fn an_index_that_is_none_is_refused(
        rows in prop::collection::btree_set(0_u32..2_000, 1..600),
        places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut delta = Delta::default();
        delta.clear(&[0, 9]);
        rows.iter().for_each(|row| put(&mut delta, (2, *row), &(u64::from(*row), Vec::new())));
        let run = run_of(&mut delta);
        let mut index = index_of(&run, &*hash_of_entry()).unwrap().expect("keys of rows");
        for (place, byte) in places {
            let place = place.index(index.len());
            index[place] = byte;
        }
        index.truncate(cut.map_or(index.len(), |cut| cut.index(index.len())));
        let sim = World::simulated(1);
        let backend = world_with(&sim.world);
        let named = RunRef {
            checkpoint: CheckpointNumber(1),
            stage: StageIx(7),
            slice: SliceId(0),
            nth: 0,
            bytes: run.len() as u64,
            part_bytes: 1 << 10,
            index_bytes: index.len() as u64,
        };
        let mut batch = crate::WriteBatch::default();
        for (part, bytes) in (0..).zip(run.chunks(1 << 10).chain([&index[..]])) {
            batch.put(&named.key(part), bytes);
        }
        backend.commit(&mut batch).unwrap();
        // Refused, or read as one: what is in it is checked against the keys themselves.
        if let Ok(index) = KeyIndex::read(&named, &*backend) {
            for row in rows.iter().take(20) {
                for at in index.entries(hash_of(u64::from(*row))) {
                    let _refused = entry(&*backend, &named, at);
                }
            }
        }
    }
}
