//! Held rows against a plain list of values.

use super::*;
use arrow_array::{Int64Array, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;
use std::{collections::BTreeMap, sync::Arc};

fn batch(values: &[i64]) -> RecordBatch {
    let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false)]));
    RecordBatch::try_new(schema, vec![Arc::new(Int64Array::from(values.to_vec()))]).unwrap()
}

fn value(held: &RowStore<i64>, slot: u32) -> i64 {
    let (piece, row) = held.place(slot);
    held.batch(piece).column(0).as_primitive::<Int64Type>().value(row as usize)
}

/// A cycle: how many rows come, of which every `nth` is held; how many are let go, and replaced.
#[derive(Clone, Debug)]
struct Step {
    rows: usize,
    nth: usize,
    removed: Vec<prop::sample::Index>,
    replaced: Vec<prop::sample::Index>,
}

fn step() -> impl Strategy<Value = Step> {
    let some = || prop::collection::vec(any::<prop::sample::Index>(), 0..12);
    (0..40_usize, 1..9_usize, some(), some()).prop_map(|(rows, nth, removed, replaced)| Step {
        rows,
        nth,
        removed,
        replaced,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_slot_keeps_its_row_until_it_is_freed(
        steps in prop::collection::vec(step(), 1..150)
    ) {
        let mut held = RowStore::default();
        let mut model: BTreeMap<u32, i64> = BTreeMap::new();
        let mut next = 0;
        for step in steps {
            let values: Vec<i64> = (next..next + step.rows as i64).collect();
            next += step.rows as i64;
            let piece = held.add(&batch(&values));
            for row in (0..step.rows).step_by(step.nth) {
                let slot = held.insert(piece, row, values[row]);
                prop_assert_eq!(model.insert(slot, values[row]), None, "a slot was given twice");
            }
            for index in step.replaced {
                if step.rows > 0 && !model.is_empty() {
                    let slot = *index.get(&model.keys().copied().collect::<Vec<_>>());
                    held.replace(slot, piece, step.rows - 1);
                    *held.data_mut(slot) = values[step.rows - 1];
                    model.insert(slot, values[step.rows - 1]);
                }
            }
            for index in step.removed {
                if !model.is_empty() {
                    let slot = *index.get(&model.keys().copied().collect::<Vec<_>>());
                    prop_assert_eq!(Some(held.remove(slot)), model.remove(&slot));
                }
            }
            held.tidy().unwrap();
            prop_assert_eq!(held.len(), model.len());
            prop_assert!(held.pieces.len() <= PIECES_MAX + 1);
            for (slot, wanted) in &model {
                prop_assert_eq!(value(&held, *slot), *wanted);
                prop_assert_eq!(*held.data(*slot), *wanted);
            }
        }
    }
}

#[test]
fn a_few_held_rows_do_not_keep_large_batches() {
    let mut held = RowStore::default();
    let large: Vec<i64> = (0..5_000).collect();
    for cycle in 0..10 {
        let piece = held.add(&batch(&large));
        held.insert(piece, cycle, ());
        held.tidy().unwrap();
        let rows: usize = held.pieces.iter().map(|piece| piece.batch.num_rows()).sum();
        assert!(rows <= UNHELD_ROWS + 17 * 10, "{rows} rows are kept for {}", held.len());
    }
}

#[test]
fn nothing_held_takes_nothing() {
    let mut held = RowStore::default();
    let piece = held.add(&batch(&[1, 2, 3]));
    let slots: Vec<u32> = (0..3).map(|row| held.insert(piece, row, ())).collect();
    slots.into_iter().for_each(|slot| held.remove(slot));
    held.tidy().unwrap();
    assert!(held.pieces.is_empty() && held.slots.is_empty());
}
