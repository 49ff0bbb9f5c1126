//! Equal keys are one group, different ones are not, and keys come back as they went in.

use super::*;
use arrow_array::{
    BinaryViewArray, FixedSizeBinaryArray, Float64Array, LargeStringArray, StringArray, UInt64Array,
};
use arrow_schema::{Field, Schema, TimeUnit};
use arrow_select::take::take;
use proptest::prelude::*;
use tidemill_state::ByteReader;

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns.into_iter().map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

/// Resolves all rows, and reads the keys of all groups back.
fn round_trip(batch: &RecordBatch) -> (Vec<u32>, Vec<ArrayRef>) {
    let schema = Arc::new(Schema::new(
        batch.schema().fields().iter().map(|it| it.as_ref().clone()).collect::<Vec<Field>>(),
    ));
    let columns: Vec<usize> = (0..batch.num_columns()).collect();
    let hashes = hash_columns(batch, &columns).expect("keys");
    let plan = KeyPlan::new(&schema, columns).expect("keys");
    let mut groups = Groups::new(&plan);
    let keys = plan.read(batch).expect("the columns it was made for");
    let rows: Vec<u32> = (0..batch.num_rows() as u32).collect();
    let mut resolved = Vec::new();
    groups.resolve((&keys, &hashes), (&rows, 0..rows.len()), &mut resolved, |_| {});
    let mut out = KeyOut::new(&plan);
    groups.write(0..groups.len(), &mut out);
    (resolved, out.finish(&plan).expect("keys that were read"))
}

#[test]
fn nulls_are_one_key_and_types_come_back() {
    let most = u64::MAX;
    let ints = UInt64Array::from(vec![Some(7), None, Some(most), None, Some(7), Some(most - 1)]);
    let (groups, keys) = round_trip(&batch(vec![("k", Arc::new(ints))]));
    assert_eq!(groups, [0, 1, 2, 1, 0, 3]);
    assert_eq!(*keys[0], UInt64Array::from(vec![Some(7), None, Some(most), Some(most - 1)]));
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some(""), None, Some("a"), Some("")]));
    let (groups, keys) = round_trip(&batch(vec![("k", text)]));
    assert_eq!(groups, [0, 1, 2, 0]);
    assert_eq!(*keys[0], StringArray::from(vec![Some(""), None, Some("a")]));
}

/// Columns of types that are not among the usual ones.
fn unusual() -> Vec<ArrayRef> {
    let numbers = Int64Array::from(vec![Some(7), None, Some(-3), Some(7), Some(80_000)]);
    let as_type = |to: &DataType| cast(&numbers, to).expect("it has room");
    let microseconds = as_type(&DataType::Time64(TimeUnit::Microsecond));
    let seconds = as_type(&DataType::Int32);
    let seconds = cast(&seconds, &DataType::Time32(TimeUnit::Second)).expect("a label");
    let bytes = [Some("ab"), None, Some("\0\0"), Some("ab"), Some("zz")];
    vec![
        as_type(&DataType::Decimal128(20, 2)),
        as_type(&DataType::Decimal256(60, 3)),
        as_type(&DataType::Duration(TimeUnit::Nanosecond)),
        as_type(&DataType::UInt64),
        microseconds,
        seconds,
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 2)
                .expect("two bytes each"),
        ),
        Arc::new(BinaryViewArray::from_iter(bytes)),
        Arc::new(LargeStringArray::from_iter(bytes)),
    ]
}

#[test]
fn every_type_that_is_hashed_is_a_key() {
    for column in unusual() {
        let data_type = column.data_type().clone();
        let (groups, keys) = round_trip(&batch(vec![("k", Arc::clone(&column))]));
        let none = column.is_null(2);
        assert_eq!(groups, if none { [0, 1, 1, 0, 2] } else { [0, 1, 2, 0, 3] }, "{data_type}");
        let first = if none { vec![0, 1, 4] } else { vec![0, 1, 2, 4] };
        let first = take(&column, &UInt64Array::from(first), None).expect("rows that are there");
        assert_eq!(*keys[0], *first, "{data_type}");
        saved_again(column);
    }
}

/// All keys of a column: resolved, saved, and taken back in another order than that of hashes.
fn saved_again(column: ArrayRef) {
    let batch = batch(vec![("k", column)]);
    let plan = KeyPlan::new(&batch.schema(), vec![0]).expect("keys");
    let hashes = hash_columns(&batch, &[0]).expect("keys");
    let keys = plan.read(&batch).expect("the columns it was made for");
    let rows: Vec<u32> = (0..batch.num_rows() as u32).collect();
    let (mut groups, mut resolved) = (Groups::new(&plan), Vec::new());
    groups.resolve((&keys, &hashes), (&rows, 0..rows.len()), &mut resolved, |_| {});
    let save = |group| {
        let mut saved = Vec::new();
        groups.save(group, &mut saved);
        saved
    };
    let restored = |saved: &[Vec<u8>]| {
        let mut groups = Groups::new(&plan);
        for (group, bytes) in saved.iter().enumerate() {
            groups.restore(group, &mut ByteReader::new(bytes))?;
        }
        groups.restored().map(|()| groups)
    };
    let all: Vec<Vec<u8>> = (0..groups.len()).map(save).collect();
    let mut again = restored(&all).expect("all of them");
    let mut found = Vec::new();
    again.resolve((&keys, &hashes), (&rows, 0..rows.len()), &mut found, |_| {});
    assert_eq!(found, resolved);
    assert_eq!(again.len(), groups.len(), "none is new");
    assert!(again.restore(1, &mut ByteReader::new(&all[1])).is_ok(), "it has that key");
    assert!(again.restore(1, &mut ByteReader::new(&all[0])).is_err(), "it has another");
    let twice: Vec<Vec<u8>> = all.iter().chain([&all[1]]).cloned().collect();
    assert!(restored(&twice).is_err(), "a key that is there twice");
    let mut other = Groups::new(&plan);
    assert!(other.restore(1, &mut ByteReader::new(&all[1])).is_err(), "the first is missing");
}

#[test]
fn keys_that_were_saved_are_found_again() {
    let ints = (0..1_000_i64).map(|it| (it != 7).then_some(it % 700 * 1_000_003));
    saved_again(Arc::new(Int64Array::from_iter(ints)));
    let text = (0..1_000).map(|it| (it != 500).then(|| format!("key {}", it % 600)));
    saved_again(Arc::new(StringArray::from_iter(text)));
    saved_again(Arc::new(Float64Array::from_iter_values((0..300).map(|it| f64::from(it % 100)))));
    saved_again(Arc::new(Int64Array::from(vec![None, Some(1), None])));
}

#[test]
fn both_zeros_and_all_nans_are_one_key() {
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0, f64::NAN, -f64::NAN]));
    assert_eq!(round_trip(&batch(vec![("k", floats)])).0, [0, 0, 1, 1]);
}

proptest! {
    #[test]
    fn groups_are_those_of_a_map(
        rows in prop::collection::vec((0_i64..20, prop::option::of("[ab]{0,2}")), 1..300),
    ) {
        let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|it| it.0)));
        let text: ArrayRef = Arc::new(StringArray::from_iter(rows.iter().map(|it| it.1.clone())));
        let (groups, keys) = round_trip(&batch(vec![("i", ints), ("t", text)]));
        let mut seen: Vec<&(i64, Option<String>)> = Vec::new();
        for (row, group) in rows.iter().zip(&groups) {
            let wanted = seen.iter().position(|it| *it == row).unwrap_or_else(|| {
                seen.push(row);
                seen.len() - 1
            });
            prop_assert_eq!(*group as usize, wanted);
        }
        let read = keys[0].as_primitive::<arrow_array::types::Int64Type>().values().to_vec();
        prop_assert_eq!(read, seen.iter().map(|it| it.0).collect::<Vec<_>>());
        let read: Vec<Option<String>> =
            keys[1].as_string::<i32>().iter().map(|it| it.map(str::to_owned)).collect();
        prop_assert_eq!(read, seen.iter().map(|it| it.1.clone()).collect::<Vec<_>>());
    }
}

proptest! {
    /// Whatever is asked for ahead of time changes nothing, and each group is told of once a row.
    #[test]
    fn rows_are_resolved_some_at_a_time_as_all_at_once_and_one_by_one(
        keys in prop::collection::vec(prop::option::weighted(0.9, 0_i64..200), 1..400),
        is_dense in any::<bool>(),
        form in 0..3,
        at_once in 1_usize..100,
    ) {
        let of = |key: &Option<i64>| if is_dense { Some(key.unwrap_or(0)) } else { *key };
        let ints: ArrayRef = Arc::new(Int64Array::from_iter(keys.iter().map(of)));
        // Some of them stand in their slots, and some are too long.
        let long = |key: i64| format!("{key:0width$}", width = 8 + key as usize % 32);
        let text: ArrayRef =
            Arc::new(StringArray::from_iter(keys.iter().map(|key| of(key).map(long))));
        let batch = batch(match form {
            0 => vec![("k", ints)],
            1 => vec![("k", text)],
            _ => vec![("i", ints), ("t", text)],
        });
        let columns: Vec<usize> = (0..batch.num_columns()).collect();
        let hashes = hash_columns(&batch, &columns).expect("keys");
        let plan = KeyPlan::new(&batch.schema(), columns).expect("keys");
        let keys = plan.read(&batch).expect("the columns it was made for");
        let rows: Vec<u32> = (0..batch.num_rows() as u32).rev().collect();
        let (mut whole, mut all) = (Groups::new(&plan), Vec::new());
        whole.resolve((&keys, &hashes), (&rows, 0..rows.len()), &mut all, |_| {});
        let (mut groups, mut some, mut found) = (Groups::new(&plan), Vec::new(), Vec::new());
        let told = std::cell::RefCell::default();
        groups.look_ahead(&hashes, &rows);
        for start in (0..rows.len()).step_by(at_once) {
            let range = start..rows.len().min(start + at_once);
            let tell = |group| Vec::push(&mut told.borrow_mut(), group);
            groups.resolve((&keys, &hashes), (&rows, range), &mut some, tell);
            found.append(&mut some);
        }
        prop_assert_eq!(&found, &all);
        prop_assert_eq!(told.into_inner(), all);
        let (mut one, rows) = (Groups::new(&plan), rows.iter().map(|row| *row as usize));
        let each: Vec<u32> = rows.map(|row| one.group(&keys, &hashes, row)).collect();
        prop_assert_eq!(each, found);
    }

    #[test]
    fn the_table_is_a_map_in_every_round(
        rounds in prop::collection::vec(prop::collection::vec(-40_i64..40, 0..120), 1..6),
        spread in prop::sample::select(vec![1_u64, 1 << 60, 0x9e37_79b9_7f4a_7c15]),
    ) {
        let mut table = IntTable::new();
        let hash = |key: i64| (key as u64).wrapping_mul(spread);
        for keys in rounds {
            let mut held = std::collections::BTreeMap::new();
            for key in keys {
                table.prefetch(hash(key));
                let next = held.len() as u32;
                let group = table.get_or_insert((key, hash(key)), next, hash);
                prop_assert_eq!(group, *held.entry(key).or_insert(next));
            }
            table.clear();
        }
    }
}
