//! Deltas and runs against a map in memory.

use super::*;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Keys that often begin alike, are longer than a head, or prefixes of others.
fn keys() -> impl Strategy<Value = Vec<u8>> {
    let long = prop::collection::vec(0_u8..2, 17..20);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..4),
        prop::collection::vec(0_u8..3, 1..18),
        long
    ]
}

fn value_of(number: u64) -> Option<Vec<u8>> {
    let value = &number.to_le_bytes()[..number as usize % 9];
    (!number.is_multiple_of(5)).then(|| value.to_vec())
}

fn write(delta: &mut Delta, key: &[u8], value: Option<&Vec<u8>>) {
    match value {
        Some(value) => delta.put_with(key, |out| out.extend_from_slice(value)),
        None => delta.delete(key),
    }
}

fn run_of(delta: &mut Delta) -> Bytes {
    let mut run = Vec::new();
    delta.finish(&mut run).expect("little has changed");
    assert!(delta.is_empty());
    run.into()
}

fn read(runs: Vec<Bytes>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    let mut take = |key: &[u8], value: &[u8]| {
        all.push((key.to_vec(), value.to_vec()));
        Ok(())
    };
    merged(&runs, &mut take).unwrap();
    all
}

fn there(model: &Model) -> Vec<(Vec<u8>, Vec<u8>)> {
    let there = model.iter().filter_map(|(key, value)| Some((key.clone(), value.clone()?)));
    there.collect()
}

proptest! {
    #[test]
    fn what_one_takes_from_another_is_written_under_its_prefix(
        own in prop::collection::btree_set(keys(), 0..20),
        others in prop::collection::vec(prop::collection::btree_set(keys(), 0..20), 0..3),
        most in 1_usize..9,
    ) {
        let (mut delta, mut model, mut number) = (Delta::default(), Model::new(), 0);
        // Those of another come under prefixes of its own, below that of who takes them.
        let mut other = Delta::default();
        for (nth, keys) in others.iter().enumerate() {
            for key in keys {
                number += 1;
                other.within(&[nth as u8], |other| write(other, key, value_of(number).as_ref()));
                model.insert([&[9, 9, nth as u8][..], key].concat(), value_of(number));
            }
        }
        let mut own = own.into_iter();
        let mut is_all = false;
        while !is_all {
            delta.within(&[9, 9], |delta| is_all = delta.take_from(&mut other, most));
            if let Some(key) = own.next() {
                number += 1;
                delta.within(&[7], |delta| write(delta, &key, value_of(number).as_ref()));
                model.insert([&[7][..], &key].concat(), value_of(number));
            }
        }
        prop_assert!(other.is_empty());
        prop_assert_eq!(delta.len(), model.len());
        let run = run_of(&mut delta);
        prop_assert_eq!(read(vec![run.clone()]), there(&model));
        // Deletions are in a run, and gone from one of all runs.
        let merged = merge(&[run]).unwrap();
        prop_assert_eq!(read(vec![merged.into()]), there(&model));
    }

    #[test]
    fn of_each_key_the_newest_counts(
        runs in prop::collection::vec(
            (prop::option::of(prop::collection::vec(0_u8..3, 0..2)), prop::collection::btree_set(keys(), 0..20)),
            0..6,
        ),
    ) {
        let (mut model, mut number, mut written) = (Model::new(), 0, Vec::new());
        for (cleared, keys) in runs {
            let mut delta = Delta::default();
            if let Some(prefix) = cleared {
                delta.clear(&prefix);
                model.retain(|key, _| !key.starts_with(&prefix));
            }
            for key in keys {
                number += 1;
                write(&mut delta, &key, value_of(number).as_ref());
                model.insert(key, value_of(number));
            }
            written.push(run_of(&mut delta));
        }
        prop_assert_eq!(read(written.clone()), there(&model));
        prop_assert_eq!(read(vec![merge(&written).unwrap().into()]), there(&model));
    }

    #[test]
    fn what_is_no_run_is_refused(
        run in prop::collection::vec(any::<u8>(), 0..64),
        places in prop::collection::vec((any::<prop::sample::Index>(), 0_u8..4), 0..4),
    ) {
        // Bytes of any kind, and a run of which some bytes are others: refused, or read as one.
        let mut delta = Delta::default();
        (0..4).for_each(|number| write(&mut delta, &[1, number], value_of(number.into()).as_ref()));
        let mut changed = run_of(&mut delta).to_vec();
        places.into_iter().for_each(|(place, byte)| {
            let place = place.index(changed.len());
            changed[place] = byte;
        });
        for run in [run, changed] {
            let mut last: Option<Vec<u8>> = None;
            let ends = merged(&[run], &mut |key, _| {
                assert!(last.as_deref().is_none_or(|last| last < key), "in ascending order");
                last = Some(key.to_vec());
                Ok(())
            });
            drop(ends);
        }
    }
}

#[test]
fn a_run_whose_keys_are_out_of_order_is_refused() {
    let entry = |key: u8| [[1, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[key]].concat();
    let run = |keys: [u8; 2]| {
        let heads = [0, 0, 0, 0, 2, 0, 0, 0];
        Bytes::from([&heads[..], &entry(keys[0]), &entry(keys[1])].concat())
    };
    let read = |run: Bytes| merged(&[run], &mut |_, _| Ok(()));
    assert_eq!(read(run([1, 2])), Ok(()));
    for keys in [[2, 1], [1, 1]] {
        assert_eq!(read(run(keys)), Err(SavedError::new("saved state is out of order")));
    }
    let longer = [&run([1, 2])[..], &[0]].concat();
    assert_eq!(read(longer.into()), Err(SavedError::new("saved state has 1 bytes too many")));
}
