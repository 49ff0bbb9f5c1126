//! Deltas and runs against a map in memory.

use super::entries::{FORM, RunEntries, lengths, row_word};
use super::key_order::nth_of;
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
    visit_entries(&runs, &mut take).unwrap();
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
        cleared in prop::option::of(0_u8..3),
    ) {
        let (mut delta, mut model, mut number) = (Delta::default(), Model::new(), 0);
        let mut own = own.into_iter();
        let mut write_own = |delta: &mut Delta, model: &mut Model| {
            let Some(key) = own.next() else { return };
            number += 1;
            write(delta, &key, value_of(number).as_ref());
            model.insert([&[7][..], &key].concat(), value_of(number));
        };
        // Those of others come under prefixes of their own, below that of who takes them.
        let mut other = Delta::default();
        let mut given = 1_000;
        for (nth, keys) in others.iter().enumerate() {
            cleared.iter().for_each(|prefix| other.clear(&[*prefix, nth as u8]));
            for key in keys {
                given += 1;
                other.within(&[nth as u8], |other| write(other, key, value_of(given).as_ref()));
                model.insert([&[7, 9, nth as u8][..], key].concat(), value_of(given));
            }
            delta.within(&[7], |delta| {
                write_own(delta, &mut model);
                delta.within(&[9], |delta| delta.take_from(&mut other));
                // Under the prefix that was there before.
                write_own(delta, &mut model);
            });
            prop_assert!(other.is_empty());
        }
        delta.within(&[7], |delta| (0..20).for_each(|_| write_own(delta, &mut model)));
        let wanted = cleared.iter().flat_map(|it| (0..others.len() as u8).map(|nth| vec![7, 9, *it, nth]));
        prop_assert_eq!(&delta.cleared, &wanted.collect::<Vec<_>>());
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
            let ends = visit_entries(&[run], &mut |key, _| {
                assert!(last.as_deref().is_none_or(|last| last < key), "in ascending order");
                last = Some(key.to_vec());
                Ok(())
            });
            drop(ends);
        }
    }
}

/// Rows behind prefixes, which may be of one length. No key is empty.
fn rows() -> impl Strategy<Value = Vec<(Vec<u8>, Vec<u8>)>> {
    let prefix = |lengths| prop::collection::vec(0_u8..3, lengths);
    let prefixes = prop_oneof![
        prop::collection::vec(prefix(1_usize..2), 1..4),
        prop::collection::vec(prefix(2_usize..3), 1..4),
        prop::collection::vec(prefix(1_usize..3), 1..4),
    ];
    let bytes = 0_usize..7;
    (prefixes, bytes, 0_u32..=32).prop_flat_map(|(prefixes, bytes, bits)| {
        let row = (prop::sample::select(prefixes), any::<u32>()).prop_map(move |(prefix, row)| {
            let row = u64::from(row) & ((1_u64 << bits) - 1);
            let key = [&[0, 0][..], &(row as u32).to_be_bytes()].concat();
            (prefix, key[6 - bytes..].to_vec())
        });
        prop::collection::vec(row, 0..300)
    })
}

proptest! {
    #[test]
    fn rows_are_written_in_the_order_of_their_keys(
        rows in rows(),
        is_ascending in any::<bool>(),
        is_one_call in any::<bool>(),
    ) {
        let (mut delta, mut model) = (Delta::default(), Model::new());
        let mut new = Vec::new();
        for (number, (prefix, row)) in (0..).zip(rows) {
            let value = value_of(number);
            if model.insert([&prefix[..], &row].concat(), value.clone()).is_none() {
                new.push((prefix, row, value));
            } else {
                model.remove(&[&prefix[..], &row].concat());
                new.retain(|(p, r, _)| [&p[..], r].concat() != [&prefix[..], &row].concat());
            }
        }
        if is_ascending {
            new.sort();
        }
        if is_one_call {
            new.sort_by(|a, b| a.0.cmp(&b.0));
            for chunk in new.chunk_by(|a, b| a.0 == b.0) {
                delta.within(&chunk[0].0, |delta| {
                    chunk.iter().for_each(|(_, row, value)| write(delta, row, value.as_ref()));
                });
            }
        } else {
            for (prefix, row, value) in &new {
                delta.within(prefix, |delta| write(delta, row, value.as_ref()));
            }
        }
        let mut keys = Vec::new();
        let mut order = KeyOrder::default();
        for _ in 0..2 {
            // Its memory is used again.
            keys = order.sort(&delta).iter().map(|it| {
                let it = &delta.entries[nth_of(*it)];
                [&delta.prefixes[it.prefix as usize].bytes[..], &delta.bytes[it.key()]].concat()
            }).collect();
        }
        prop_assert_eq!(keys, model.keys().cloned().collect::<Vec<_>>());
        prop_assert_eq!(read(vec![run_of(&mut delta)]), there(&model));
    }
}

/// Rows of some parts: in order or not, one by one or many, and among other keys.
#[derive(Clone, Debug)]
enum Step {
    Rows(Vec<u8>, Vec<u32>),
    Key(Vec<u8>),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = |count| prop::collection::vec(0_u8..3, count);
    let prefix = prop_oneof![bytes(0..3), bytes(17..18)];
    let row = prop_oneof![0_u32..40, any::<u32>()];
    let rows = (prefix, prop::collection::vec(row, 1..20), any::<bool>());
    let rows = rows.prop_map(|(prefix, mut rows, is_ascending)| {
        if is_ascending {
            rows.sort_unstable();
        }
        Step::Rows(prefix, rows)
    });
    prop::collection::vec(prop_oneof![3 => rows, 1 => keys().prop_map(Step::Key)], 0..12)
}

proptest! {
    #[test]
    fn rows_that_come_in_order_are_in_the_run_with_all_others(
        steps in steps(),
        is_moved in any::<bool>(),
        may_have_forms in any::<bool>(),
        are_alike in any::<bool>(),
    ) {
        let value_of = |number: u64| match value_of(number) {
            Some(_) if are_alike => Some(number.to_le_bytes().to_vec()),
            value => value,
        };
        let (mut delta, mut model, mut number) = (Delta::default(), Model::new(), 0);
        let mut is_new = |key: Vec<u8>| {
            number += 1;
            let is_new = !model.contains_key(&key);
            is_new.then(|| model.entry(key).or_insert_with(|| value_of(number)).clone())
        };
        for step in &steps {
            match step {
                Step::Rows(prefix, rows) => delta.within(prefix, |delta| {
                    for row in rows {
                        let key = [&prefix[..], &row.to_be_bytes()].concat();
                        let Some(value) = is_new(key) else { continue };
                        delta.put_row(*row, |out| {
                            out.extend_from_slice(value.as_deref().unwrap_or(&[9, 9]));
                            value.is_some()
                        });
                    }
                }),
                Step::Key(key) => {
                    let Some(value) = is_new(key.clone()) else { continue };
                    write(&mut delta, key, value.as_ref());
                }
            }
        }
        if is_moved {
            let mut to = Delta::default();
            to.within(&[7], |to| to.take_from(&mut delta));
            prop_assert!(delta.is_empty());
            model = model.into_iter().map(|(key, value)| ([&[7], &key[..]].concat(), value)).collect();
            delta = to;
        }
        prop_assert_eq!(delta.len(), model.len());
        let bytes = delta.run_bytes(may_have_forms).unwrap();
        let mut run = Vec::new();
        delta.write_run(may_have_forms, &mut KeyOrder::default(), &mut run);
        prop_assert_eq!(run.len(), bytes);
        prop_assert_eq!(read(vec![run.clone().into()]), there(&model));
        let mut from = ByteReader::new(&run[2 * LENGTH_BYTES..]);
        let mut entries = Model::new();
        if may_have_forms {
            let mut from = RunEntries::new(from, None);
            while !from.rest().is_empty() {
                let (key, value) = from.next_entry().unwrap();
                entries.insert(key.iter().collect(), value.map(<[u8]>::to_vec));
            }
        } else {
            // Each is read by itself.
            while !from.rest().is_empty() {
                let (key, value) = entry(&mut from).unwrap();
                entries.insert(key.to_vec(), value.map(<[u8]>::to_vec));
            }
        }
        prop_assert_eq!(&entries, &model, "deletions too");
        // In one run of all runs nothing is lost, with forms or without.
        let merged = if may_have_forms { merge(&[run]) } else { merge_plain(&[run]) };
        prop_assert_eq!(read(vec![merged.unwrap().into()]), there(&model));
    }
}

#[test]
fn what_is_too_much_for_one_is_refused_and_nothing_is_written() {
    let long = vec![7; BYTES_MAX / 2];
    let put =
        |delta: &mut Delta, key: u8| delta.put_with(&[key], |out| out.extend_from_slice(&long));
    let refused = |delta: &mut Delta| {
        let mut run = vec![1, 2, 3];
        assert!(!delta.is_empty());
        assert_eq!(delta.finish(&mut run), Err(too_much()));
        assert_eq!(run, [1, 2, 3]);
    };
    let mut delta = Delta::default();
    put(&mut delta, 1);
    put(&mut delta, 2);
    assert_eq!(delta.bytes(), long.len() + 1, "it takes no memory");
    refused(&mut delta);
    // One row that comes in order.
    let mut delta = Delta::default();
    delta.put_row(1, |out| {
        out.resize(out.len() + BYTES_MAX, 7);
        true
    });
    assert_eq!(delta.bytes(), 0, "it takes no memory");
    refused(&mut delta);
    // What is moved is refused as well, and who moves it has its error.
    let (mut one, mut other) = (Delta::default(), Delta::default());
    put(&mut one, 1);
    put(&mut other, 2);
    one.take_from(&mut other);
    refused(&mut one);
    let mut last = Delta::default();
    last.take_from(&mut one);
    refused(&mut last);
    put(&mut one, 1);
    assert_eq!(run_of(&mut one).len(), long.len() + 1 + 4 * LENGTH_BYTES);
}

#[test]
fn a_run_whose_keys_are_out_of_order_is_refused() {
    let entry = |key: u8| [[1, 0, 0, 0, 0, 0, 0, 0].as_slice(), &[key]].concat();
    let run = |keys: [u8; 2]| {
        let heads = [0, 0, 0, 0, 2, 0, 0, 0];
        Bytes::from([&heads[..], &entry(keys[0]), &entry(keys[1])].concat())
    };
    let read = |run: Bytes| visit_entries(&[run], &mut |_, _| Ok(()));
    assert_eq!(read(run([1, 2])), Ok(()));
    for keys in [[2, 1], [1, 1]] {
        assert_eq!(read(run(keys)), Err(SavedError::new("saved state is out of order")));
    }
    let longer = [&run([1, 2])[..], &[0]].concat();
    assert_eq!(read(longer.into()), Err(SavedError::new("saved state has 1 bytes too many")));
}

#[test]
fn a_row_of_no_form_is_refused() {
    let told = |key: &[u8], value: Option<&[u8]>, form: u32| {
        let value_bytes = value.map_or(DELETED, |it| it.len() as u32);
        [&lengths(key.len(), value_bytes, form), key, value.unwrap_or_default()].concat()
    };
    let row = |row: u32, value: &[u8]| [&row_word(row), value].concat();
    let run = |entries: &[Vec<u8>]| {
        let heads = [[0; 4], (entries.len() as u32).to_le_bytes()];
        [&heads.concat(), &entries.concat()[..]].concat()
    };
    let read = |entries: &[Vec<u8>]| {
        let mut all = Vec::new();
        visit_entries(&[run(entries)], &mut |key, value| {
            all.push((key.to_vec(), value.to_vec()));
            Ok(())
        })
        .map(|()| all)
    };
    let entry_of = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    let first = told(&[1, 0, 0, 0, 5], Some(&[7; 4]), FORM);
    let other = told(&[1, 0, 0, 0, 6, 9], Some(&[]), 0);
    // What has no form changes none.
    assert_eq!(
        read(&[first.clone(), row(6, &[8; 4]), other, row(7, &[9; 4])]),
        Ok(vec![
            entry_of(&[1, 0, 0, 0, 5], &[7; 4]),
            entry_of(&[1, 0, 0, 0, 6], &[8; 4]),
            entry_of(&[1, 0, 0, 0, 6, 9], &[]),
            entry_of(&[1, 0, 0, 0, 7], &[9; 4]),
        ])
    );
    let no_form = Err(SavedError::new("a row of saved state has a form that was not told"));
    for entries in [
        &[row(6, &[8; 4])][..],
        &[told(&[1, 0, 0, 0, 5], Some(&[7; 4]), 0), row(6, &[8; 4])],
        // There is no row in so short a key, and no form of values so short, or of none.
        &[told(&[1, 0, 5], Some(&[7; 4]), FORM)],
        &[told(&[1, 0, 0, 0, 5], Some(&[7; 3]), FORM)],
        &[told(&[1, 0, 0, 0, 5], None, FORM)],
    ] {
        assert_eq!(read(entries), no_form);
    }
    for (entries, why) in [
        (&[first.clone(), row(5, &[8; 4])][..], "saved state is out of order"),
        (&[first.clone(), row(6, &[8; 3])], "saved state ends too early"),
        (&[first.clone(), row(6, &[8; 5])], "saved state has 1 bytes too many"),
    ] {
        assert_eq!(read(entries), Err(SavedError::new(why)));
    }
    // Nor is one read by itself.
    for bytes in [first, row(6, &[8; 4])] {
        assert!(entry(&mut ByteReader::new(&bytes)).is_err());
    }
}
