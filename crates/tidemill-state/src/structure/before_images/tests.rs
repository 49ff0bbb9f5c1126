//! What is put aside against a map.

use super::*;
use crate::delta::{ByteReader, visit_entries};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// What a delta has: prefixes that it empties, and its keys, each with its value.
fn written(delta: &mut Delta) -> (Vec<Vec<u8>>, Entries) {
    let (mut run, mut cleared, mut all) = (Vec::new(), Vec::new(), Vec::new());
    delta.finish(&mut run).unwrap();
    let mut from = ByteReader::new(&run);
    for _ in 0..from.u32().unwrap() {
        cleared.push(from.sized().unwrap().to_vec());
    }
    visit_entries(&[&run], &mut |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        Ok(())
    })
    .unwrap();
    (cleared, all)
}

#[derive(Clone, Debug)]
enum Step {
    /// Rows, with the length of their values.
    Put(Vec<(u32, usize)>),
    /// Rows behind a prefix.
    Within(u8, Vec<(u32, usize)>),
    /// What is there may be handed over before.
    Drain { most: usize, is_handed_over: bool },
    /// A row that is written out from where it is.
    Own(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let rows = || prop::collection::vec((any::<u32>(), 0_usize..40), 1..12);
    prop_oneof![
        4 => rows().prop_map(Step::Put),
        2 => (0_u8..3, rows()).prop_map(|(prefix, rows)| Step::Within(prefix, rows)),
        4 => (0_usize..3, any::<bool>())
            .prop_map(|(most, is_handed_over)| Step::Drain { most, is_handed_over }),
        1 => any::<u32>().prop_map(Step::Own),
    ]
}

proptest! {
    #[test]
    fn what_was_put_aside_comes_out_once(
        checkpoints in prop::collection::vec(
            (prop::collection::btree_set(0_u8..5, 0..2), prop::collection::vec(step(), 0..40)), 1..4),
    ) {
        let mut aside = BeforeImages::default();
        for (cleared, steps) in checkpoints {
            let (mut model, mut came) = (BTreeMap::new(), BTreeMap::new());
            let (mut delta, mut keys) = (Delta::default(), BTreeSet::new());
            cleared.iter().for_each(|prefix| aside.clear(&[*prefix]));
            // Behind a run that empties them, keys would be gone.
            let mut due: Vec<_> = cleared.iter().map(|prefix| vec![9, *prefix]).collect();
            let mut hand_over = |delta: &mut Delta| {
                let (cleared, all) = written(delta);
                assert_eq!(cleared, std::mem::take(&mut due));
                for (key, value) in all {
                    assert!(came.insert(key, value).is_none(), "each key once");
                }
            };
            let value_of = |row: u32, bytes: usize| vec![row as u8; bytes];
            for step in steps {
                match step {
                    Step::Put(rows) => for (row, bytes) in rows {
                        let key = [&[9], &row.to_be_bytes()[..]].concat();
                        if keys.insert(key.clone()) {
                            aside.put_row(row as usize, |out| {
                                out.extend_from_slice(&value_of(row, bytes));
                                true
                            });
                            model.insert(key, value_of(row, bytes));
                        }
                    },
                    Step::Within(prefix, rows) => aside.within(&[prefix], |delta| {
                        for (row, bytes) in rows {
                            let key = [&[9, prefix], &row.to_be_bytes()[..]].concat();
                            if keys.insert(key.clone()) {
                                delta.put_row(row, |out| {
                                    out.extend_from_slice(&value_of(row, bytes));
                                    true
                                });
                                model.insert(key, value_of(row, bytes));
                            }
                        }
                    }),
                    Step::Drain { most, is_handed_over } => {
                        let bytes_before = delta.bytes();
                        let is_all = delta.within(&[9], |delta| aside.drain(delta, most));
                        prop_assert_eq!(is_all, aside.is_empty());
                        prop_assert!(most > 0 || delta.bytes() == bytes_before);
                        if is_handed_over {
                            hand_over(&mut delta);
                        }
                    }
                    Step::Own(row) => {
                        let key = [&[8], &row.to_be_bytes()[..]].concat();
                        if keys.insert(key.clone()) {
                            delta.within(&[8], |delta| delta.put_row(row, |_| true));
                            model.insert(key, Vec::new());
                        }
                    }
                }
            }
            let mut calls = 0;
            while !delta.within(&[9], |delta| aside.drain(delta, 1)) {
                calls += 1;
                prop_assert!(calls < 1_000, "each call has a piece");
            }
            hand_over(&mut delta);
            prop_assert!(aside.is_empty());
            prop_assert_eq!(came, model);
        }
    }
}

/// Puts about so many bytes aside.
fn filled(aside: &mut BeforeImages, bytes: usize) {
    for row in 0..bytes.div_ceil(24) {
        aside.put_row(row, |out| {
            out.extend_from_slice(&[row as u8; 20]);
            true
        });
    }
}

#[test]
fn a_piece_that_is_full_goes_as_it_is() {
    let (mut aside, mut delta) = (BeforeImages::default(), Delta::default());
    filled(&mut aside, 10 * piece_bytes());
    assert!(aside.full.len() >= 7);
    let first = aside.full[0].memory();
    assert!(!aside.drain(&mut delta, 1));
    assert_eq!(delta.memory(), first, "nothing was copied to other memory");
    assert!(delta.bytes() >= piece_bytes());
    let (full, before) = (aside.full.len(), delta.bytes());
    assert!(!aside.drain(&mut delta, 0));
    assert_eq!((aside.full.len(), delta.bytes()), (full, before), "none is wanted");
    // What is held is what is still to come.
    while !aside.drain(&mut Delta::default(), 1) {}
    assert!(aside.memory() <= 2 * first, "{} bytes", aside.memory());
}
