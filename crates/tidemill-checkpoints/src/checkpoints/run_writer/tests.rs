//! What is put against what was put before runs were written to where they go: as a whole, then cut.

use super::*;
use crate::tests::{BY_HAND, contents, run_of};
use crate::{Backend, FileBackend, IndexedBackend};
use proptest::prelude::*;
use std::{collections::BTreeMap, path::Path, sync::Arc};
use tidemill_env::{SimWorld, World};
use tidemill_types::SliceId;

/// Keys behind prefixes, each with its value; none: it is deleted.
type Changes = BTreeMap<(Vec<u8>, Vec<u8>), Option<Vec<u8>>>;

/// Rows of one form, or any.
fn changes(most: usize) -> impl Strategy<Value = Changes> {
    let value = |bytes| prop::collection::vec(any::<u8>(), bytes);
    let rows = (0_usize..100, prop_oneof![Just(u32::MAX >> 1), Just(u32::MAX)]);
    let rows = rows.prop_flat_map(move |(bytes, mask)| {
        let row = any::<u32>().prop_map(move |row| (vec![7], (row & mask).to_be_bytes().to_vec()));
        prop::collection::btree_map(row, value(bytes).prop_map(Some), 0..most)
    });
    prop_oneof![any_changes(most), rows]
}

fn any_changes(most: usize) -> impl Strategy<Value = Changes> {
    let prefix = prop::collection::vec(0_u8..2, 1..3);
    let key = prop_oneof![
        prop::collection::vec(any::<u8>(), 4),
        prop::collection::vec(any::<u8>(), 0..30)
    ];
    let value = prop::option::weighted(0.9, prop::collection::vec(any::<u8>(), 0..80));
    // One length of prefixes, or a key could be told in two ways.
    let one = prefix.prop_flat_map(move |prefix| (Just(prefix), key.clone()));
    prop::collection::btree_map(one, value, 0..most).prop_map(|all| {
        let mut keys = BTreeSet::new();
        all.into_iter().filter(|((a, b), _)| keys.insert([&a[..], b].concat())).collect()
    })
}

fn delta_of(changes: &Changes, cleared: &[Vec<u8>]) -> Delta {
    let mut delta = Delta::default();
    cleared.iter().for_each(|prefix| delta.clear(prefix));
    let changes: Vec<_> = changes.iter().collect();
    for of_one in changes.chunk_by(|((a, _), _), ((b, _), _)| a == b) {
        let ((prefix, _), _) = of_one[0];
        delta.within(prefix, |delta| {
            for ((_, key), value) in of_one {
                match value {
                    Some(value) => delta.put_with(key, |out| out.extend_from_slice(value)),
                    None => delta.delete(key),
                }
            }
        });
    }
    delta
}

/// How long the values of all are, if they are rows of one form.
fn form_of(changes: &Changes) -> Option<usize> {
    let mut all = changes.iter().map(|((prefix, key), value)| {
        let bytes = value.as_ref().map(Vec::len).filter(|bytes| *bytes >= 4);
        let is_row = key.len() == 4 && key[0] < 128;
        (prefix, bytes.filter(|_| is_row))
    });
    let (prefix, bytes) = all.next()?;
    let are_alike = changes.len() > 1 && all.all(|it| it == (prefix, bytes));
    bytes.filter(|_| are_alike)
}

/// A run as it says itself, byte by byte.
fn run_by_hand(changes: &Changes, cleared: &[Vec<u8>], may_have_forms: bool) -> Vec<u8> {
    let mut run = Vec::new();
    let length = |length: usize| (length as u32).to_le_bytes();
    let cleared: BTreeSet<_> = cleared.iter().collect();
    run.extend(length(cleared.len()));
    for prefix in cleared {
        run.extend(length(prefix.len()));
        run.extend(prefix);
    }
    let mut sorted = BTreeMap::new();
    for ((prefix, key), value) in changes {
        sorted.insert([&prefix[..], key].concat(), value.clone());
    }
    run.extend(length(sorted.len()));
    let has_form = may_have_forms && form_of(changes).is_some();
    for (nth, (key, value)) in sorted.into_iter().enumerate() {
        if has_form && nth > 0 {
            let row = u32::from_be_bytes(key[key.len() - 4..].try_into().unwrap());
            run.extend((row | 1 << 31).to_le_bytes());
            run.extend(value.unwrap());
            continue;
        }
        run.extend(length(key.len() | if has_form { 1 << 30 } else { 0 }));
        run.extend(value.as_ref().map_or([255; 4], |value| length(value.len())));
        run.extend(key);
        run.extend(value.unwrap_or_default());
    }
    run
}

proptest! {
    #[test]
    fn a_run_that_is_written_in_parts_is_one_that_is_cut(
        all in prop::collection::vec(
            (changes(40), prop::collection::vec(prop::collection::vec(0_u8..3, 0..3), 0..4), 1_u32..300),
            1..4,
        ),
    ) {
        let (mut batch, mut model) = (WriteBatch::default(), WriteBatch::default());
        let mut order = delta::KeyOrder::default();
        for (nth, (changes, cleared, part_bytes)) in (0..).zip(&all) {
            let run_bytes = delta_of(changes, cleared).run_bytes(true).unwrap();
            let (bytes, part_bytes) = (run_bytes as u64, *part_bytes);
            let run = RunRef { checkpoint: CheckpointNumber(3), stage: StageIx(1), slice: SliceId(2), nth, bytes, part_bytes, index_bytes: 0 };
            let mut parts = RunParts::new(&mut batch, run);
            let mut delta = delta_of(changes, cleared);
            prop_assert_eq!(delta.run_bytes(true).unwrap(), run_bytes);
            delta.write_run(true, &mut order, &mut parts);
            prop_assert!(delta.is_empty());
            let whole = run_of(&mut delta_of(changes, cleared));
            prop_assert_eq!(&whole, &run_by_hand(changes, cleared, true));
            let (mut delta, mut plain) = (delta_of(changes, cleared), Vec::new());
            let plain_bytes = delta.run_bytes(false).unwrap();
            delta.write_run(false, &mut order, &mut plain);
            prop_assert_eq!(&plain, &run_by_hand(changes, cleared, false));
            prop_assert_eq!(plain.len(), plain_bytes);
            for (nth, bytes) in (0..).zip(whole.chunks(part_bytes as usize)) {
                model.put(&run.key(nth), bytes);
            }
        }
        prop_assert_eq!(batch.changes().collect::<Vec<_>>(), model.changes().collect::<Vec<_>>());
        prop_assert_eq!(batch.parts_mut(), model.parts_mut());
    }
}

fn opened(sim: &SimWorld) -> Arc<dyn Backend> {
    Arc::new(IndexedBackend::open(&sim.world, Path::new("/state"), BY_HAND).unwrap().0)
}

/// Plain slices, one whose rows are read one by one, and one whose keys are.
fn read_in_all_ways(backend: &Arc<dyn Backend>) -> Checkpoints {
    let mut checkpoints = Checkpoints::open(Arc::clone(backend)).unwrap();
    checkpoints.read_by_row(StageIx(1));
    checkpoints.read_by_key(StageIx(2), Arc::new(|value| value.first().map(|it| u64::from(*it))));
    checkpoints
}

#[test]
fn what_changed_is_put_as_the_run_that_it_is() {
    for seed in 0..6 {
        let mut random = tidemill_env::Random::new(seed);
        let (of_deltas, of_runs) = (World::simulated(1), World::simulated(1));
        let backends = [opened(&of_deltas), opened(&of_runs)];
        let [mut deltas, mut runs] = backends.each_ref().map(read_in_all_ways);
        for number in 1..12 {
            assert_eq!(deltas.begin().unwrap(), runs.begin().unwrap());
            for piece in 0..random.below(6) as u8 {
                let stage = StageIx(random.below(3) as u32);
                let slice = SliceKey::new(stage, SliceId(random.below(2) as u32));
                // Some are longer than a part.
                let most = [50, 900_000][usize::from(random.below(6) == 0)];
                let rows = 1 + random.below(12) as u8;
                let bytes_of_all = (random.below(3) == 0).then(|| 1 + random.below(most));
                let entry = |row: u8| {
                    let bytes = bytes_of_all.unwrap_or_else(|| 1 + random.below(most));
                    let value = vec![row ^ number as u8; bytes as usize];
                    ((vec![0], vec![0, 0, piece, row]), Some(value))
                };
                let changes: Changes = (0..rows).map(entry).collect();
                // What is looked for by its keys has no forms.
                let run = run_by_hand(&changes, &[], stage != StageIx(2));
                let mut delta = delta_of(&changes, &[]);
                let put_bytes = deltas.put_changes(slice, &mut delta).unwrap();
                assert_eq!(put_bytes, run.len() as u64);
                assert!(delta.is_empty());
                deltas.flush_if_long().unwrap();
                runs.put(slice, &run).unwrap();
            }
            for stage in (0..3).map(StageIx) {
                assert_eq!(deltas.chains(stage, 2), runs.chains(stage, 2), "seed {seed}");
            }
            assert_eq!(deltas.batch.changes().count(), runs.batch.changes().count());
            deltas.flush().unwrap();
            runs.flush().unwrap();
            let [a, b] = backends.each_ref().map(|it| contents(&**it).unwrap());
            assert!(a == b, "seed {seed}");
        }
    }
}

#[test]
fn what_cannot_be_written_is_kept_and_written_later() {
    for is_tried_again in [true, false] {
        let sim = World::simulated(1);
        let backend = FileBackend::open(&sim.world, Path::new("/state")).unwrap();
        let mut checkpoints = read_in_all_ways(&(Arc::new(backend) as Arc<dyn Backend>));
        checkpoints.begin().unwrap();
        let value = vec![7; PART_BYTES];
        let put = |checkpoints: &mut Checkpoints, key: u8| {
            let mut delta = Delta::default();
            delta.put_with(&[0, key], |out| out.extend_from_slice(&value));
            checkpoints.put_changes(SliceKey::default(), &mut delta).unwrap();
            checkpoints.flush_if_long()
        };
        // This operation alone.
        sim.disk.fail_after(0);
        assert!(matches!(put(&mut checkpoints, 1), Err(CheckpointError::Backend(_))));
        if is_tried_again {
            checkpoints.flush_if_long().unwrap();
            assert!(checkpoints.batch.is_empty());
        }
        put(&mut checkpoints, 2).unwrap();
        let chain = checkpoints.chains(StageIx(0), 1).remove(0);
        assert_eq!(chain.len(), 2);
        let (read, mut keys) = (checkpoints.named(&chain).read().unwrap(), Vec::new());
        delta::visit_entries(&read.get(), &mut |key, found| {
            assert!(found == value);
            keys.push(key[1]);
            Ok(())
        })
        .unwrap();
        assert_eq!(keys, [1, 2]);
    }
}

#[test]
fn what_is_no_run_is_refused_before_any_of_it_is_put() {
    let sim = World::simulated(1);
    let mut checkpoints = read_in_all_ways(&opened(&sim));
    checkpoints.begin().unwrap();
    for stage in (0..3).map(StageIx) {
        let mut delta = Delta::oversized();
        delta.put_with(&[0, 0, 0, 0, 1], |out| out.push(7));
        assert!(checkpoints.put_changes(SliceKey::new(stage, SliceId(0)), &mut delta).is_err());
        assert!(checkpoints.batch.is_empty());
        assert_eq!(checkpoints.chains(stage, 1), [Vec::new()]);
    }
}
