//! The hash is stable and of values; routing loses, repeats and reorders nothing.

use super::*;
use crate::block::{Payload, Routing};
use crate::slice_runs::SliceRuns;
use arrow_array::{
    BinaryArray, Decimal128Array, FixedSizeBinaryArray, Int32Array, Int64Array, StringArray,
    StringViewArray,
};
use proptest::prelude::*;
use std::sync::Arc;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, column)| (name, column, true)),
    )
    .expect("columns of one length")
}

#[test]
fn the_hash_never_changes() {
    // State on disk is placed by these numbers.
    assert_eq!(hash_number(5), 0xdce5_f8e7_9fc9_68eb_u64);
    assert_eq!(hash_bytes(b"tide"), 0xf5eb_2651_5ec9_1c0e_u64);
    let decimal = Decimal128Array::from(vec![5]);
    let hashes = hash_columns(&batch(vec![("k", Arc::new(decimal))]), &[0]);
    assert_eq!(hashes, Ok(vec![hash_bytes(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])]));
}

#[test]
fn equal_values_of_different_types_meet() {
    let narrow = batch(vec![("k", Arc::new(Int32Array::from(vec![Some(5), None, Some(-7)])))]);
    let wide = batch(vec![("k", Arc::new(Int64Array::from(vec![Some(5), None, Some(-7)])))]);
    assert_eq!(hash_columns(&narrow, &[0]), hash_columns(&wide, &[0]));
    let decimals = |digits| {
        let column = Decimal128Array::from(vec![Some(5), None, Some(-7)]);
        let column = column.with_precision_and_scale(digits, 2).expect("it has room");
        hash_columns(&batch(vec![("k", Arc::new(column))]), &[0]).expect("a key")
    };
    assert_eq!(decimals(5), decimals(38));
    let sized = FixedSizeBinaryArray::try_from_iter(["ab", "cd"].into_iter()).expect("two bytes");
    let plain = batch(vec![("k", Arc::new(BinaryArray::from_vec(vec![b"ab", b"cd"])))]);
    assert_eq!(
        hash_columns(&batch(vec![("k", Arc::new(sized))]), &[0]),
        hash_columns(&plain, &[0])
    );
    let text = batch(vec![("k", Arc::new(StringArray::from(vec!["a", "", "tide"])))]);
    let view = batch(vec![("k", Arc::new(StringViewArray::from(vec!["a", "", "tide"])))]);
    assert_eq!(hash_columns(&text, &[0]), hash_columns(&view, &[0]));
}

#[test]
fn a_byte_record_goes_where_it_goes_as_a_column() {
    // A stage that passes some blocks on and copies what is left of others gives both.
    let mut rows = crate::rows::Rows::default();
    (0..100_u32).for_each(|nth| rows.push(nth.to_string().as_bytes()));
    let column = Payload::Arrow(rows.to_batch());
    let rows = Payload::Rows(rows);
    let mut router = Router::default();
    for seed in [0, 7, u64::MAX] {
        let mut order = |payload| {
            let routing = router.by_content(payload, 5, seed, Routing::default());
            (routing.order, routing.starts)
        };
        assert_eq!(order(&rows), order(&column), "seed {seed}");
    }
    let mut order = |payload| {
        let routing = router.by_key(payload, &[0], 5, Routing::default()).expect("bytes are keys");
        (routing.order, routing.starts)
    };
    assert_eq!(order(&rows), order(&column));
}

#[test]
fn the_order_of_key_columns_matters() {
    let two = batch(vec![
        ("a", Arc::new(Int64Array::from(vec![1, 2]))),
        ("b", Arc::new(Int64Array::from(vec![2, 1]))),
    ]);
    let hashes = hash_columns(&two, &[0, 1]).expect("integers are keys");
    assert_ne!(hashes[0], hashes[1]);
}

proptest! {
    #[test]
    fn every_row_is_routed_once_and_in_order(
        keys in prop::collection::vec(any::<i64>(), 0..500),
        slices in 1_u32..100,
    ) {
        let rows = keys.len();
        let payload = Payload::Arrow(batch(vec![("k", Arc::new(Int64Array::from(keys.clone())))]));
        // What was in the memory before does not matter.
        let mut router = Router::default();
        let used = router.at_random(0..rows as u64 + 7, slices + 3, 5, Routing::default());
        let routing = router.by_key(&payload, &[0], slices, used).expect("integers are keys");
        let mut seen = vec![false; rows];
        prop_assert_eq!(routing.starts.len(), slices as usize + 1);
        prop_assert_eq!(routing.starts[slices as usize] as usize, rows);
        for slice in 0..slices as usize {
            let (from, to) = (routing.starts[slice] as usize, routing.starts[slice + 1] as usize);
            let mine = &routing.order[from..to];
            prop_assert!(mine.windows(2).all(|pair| pair[0] < pair[1]));
            for row in mine {
                prop_assert_eq!(slice_of(routing.hashes[*row as usize], slices) as usize, slice);
                prop_assert!(!std::mem::replace(&mut seen[*row as usize], true));
            }
        }
        prop_assert!(seen.into_iter().all(|it| it));
    }

    #[test]
    fn random_routing_is_even_and_replays(
        count in 0_u64..500, cuts in prop::collection::vec(0_u64..500, 0..5), slices in 1_u32..50, seed: u64,
    ) {
        let route = |rows| Router::default().at_random(rows, slices, seed, Routing::default());
        let routing = route(0..count);
        prop_assert_eq!(&route(0..count).order, &routing.order);
        // However a replay puts the rows into blocks, each goes where it went.
        let mut cuts: Vec<u64> = cuts.into_iter().filter(|cut| *cut < count).chain([0, count]).collect();
        cuts.sort_unstable();
        for slice in 0..slices as usize {
            let of = |it: &Routing, from: u64| {
                let (start, end) = (it.starts[slice] as usize, it.starts[slice + 1] as usize);
                it.order[start..end].iter().map(|row| u64::from(*row) + from).collect::<Vec<_>>()
            };
            let parts = cuts.windows(2).flat_map(|cut| of(&route(cut[0]..cut[1]), cut[0]));
            prop_assert_eq!(parts.collect::<Vec<_>>(), of(&routing, 0));
        }
        let sizes: Vec<u32> = routing.starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let spread = sizes.iter().max().expect("a slice") - sizes.iter().min().expect("a slice");
        prop_assert!(spread <= 1);
    }
}

#[test]
fn rows_go_where_their_runs_say() {
    let routed = |begun: &[(u32, usize)], rows: usize, slices| {
        let mut runs = SliceRuns::default();
        begun.iter().for_each(|(slice, row)| runs.begin(SliceId(*slice), *row));
        let used = Routing { order: vec![9; 3], starts: vec![7; 9], hashes: vec![1] };
        let routing = Router::default().by_runs(&runs, rows, slices, used);
        assert!(routing.hashes.is_empty());
        (routing.order, routing.starts)
    };
    let in_order = routed(&[(1, 0), (3, 2)], 5, 5);
    assert_eq!(in_order, (vec![0, 1, 2, 3, 4], vec![0, 0, 2, 2, 5, 5]));
    // Slices come round, where those that read are fewer.
    assert_eq!(routed(&[(1, 0), (3, 2)], 5, 2), (vec![0, 1, 2, 3, 4], vec![0, 0, 5]));
    assert_eq!(routed(&[(1, 0), (2, 2)], 5, 2), (vec![2, 3, 4, 0, 1], vec![0, 3, 5]));
    assert_eq!(routed(&[(0, 0), (4, 1)], 3, 5), (vec![0, 1, 2], vec![0, 1, 1, 1, 1, 3]));
}
