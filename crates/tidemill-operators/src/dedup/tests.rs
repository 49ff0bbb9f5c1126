//! Against a plain list of known keys; lanes, blocks and cycles do not show.

use super::*;
use crate::testing::shown;
use arrow_array::{
    Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    cast::AsArray, types::Int64Type,
};
use arrow_schema::{Field, Schema, TimeUnit};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_flow::{Partition, trial::Trial};

fn schema() -> SchemaRef {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("k", DataType::Utf8, true),
        Field::new(TIME_COLUMN, utc, false),
    ]))
}

/// A record: its number, key and time.
type Row = (i64, Option<String>, i64);

fn batch(rows: &[Row]) -> RecordBatch {
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.2));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(rows.iter().map(|row| row.1.clone()).collect::<StringArray>()),
        Arc::new(times.with_timezone("UTC")),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn spec(within: Option<i64>) -> DedupSpec {
    DedupSpec { on: vec!["k".to_owned()], within: within.map(Span) }
}

/// Runs cycles of blocks; gives the ids by cycle, in order of slices.
fn run(cycles: &[(Vec<Vec<Row>>, i64)], within: Option<i64>, lanes: u32) -> Vec<Vec<i64>> {
    let factory = dedup(&schema(), &spec(within)).unwrap();
    let mut trial = Trial::new(factory, vec![Partition::Key(vec![1])], 5, lanes);
    let cycle = |(blocks, watermark): &(Vec<Vec<Row>>, i64)| {
        let blocks = blocks.iter().map(|rows| batch(rows)).collect();
        let out = trial.cycle(vec![blocks], Micros(*watermark), false).unwrap();
        out.iter()
            .flat_map(|(_, it)| it.column(0).as_primitive::<Int64Type>().values().to_vec())
            .collect()
    };
    cycles.iter().map(cycle).collect()
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (prop::option::weighted(0.9, "[a-d]"), 0..60_i64);
    prop::collection::vec(row, 0..60).prop_map(|rows| {
        let number = |(id, (key, time)): (usize, (Option<String>, i64))| (id as i64, key, time);
        rows.into_iter().enumerate().map(number).collect()
    })
}

/// Cuts rows into cycles of blocks. The watermark trails the largest time by `lateness`.
fn cut(rows: &[Row], ends: &BTreeSet<usize>, lateness: i64) -> Vec<(Vec<Vec<Row>>, i64)> {
    let mut cycles = Vec::new();
    let mut start = 0;
    let mut high = i64::MIN + 100;
    for end in ends.iter().copied().filter(|it| *it < rows.len()).chain([rows.len()]) {
        let cycle = &rows[start..end];
        let middle = cycle.len() / 2;
        high = cycle.iter().map(|row| row.2).fold(high, i64::max);
        cycles.push((vec![cycle[..middle].to_vec(), cycle[middle..].to_vec()], high - lateness));
        start = end;
    }
    cycles
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_first_of_each_key_passes(
        rows in rows(), ends in prop::collection::btree_set(0..60_usize, 0..8), lanes in 1..5_u32,
    ) {
        let out = run(&cut(&rows, &ends, 0), None, lanes);
        let mut known = BTreeSet::new();
        let wanted: BTreeSet<i64> =
            rows.iter().filter(|row| known.insert(row.1.clone())).map(|row| row.0).collect();
        prop_assert_eq!(out.into_iter().flatten().collect::<BTreeSet<_>>(), wanted);
    }

    /// No record is late here, so neither the cut nor the lanes may show.
    #[test]
    fn a_key_is_known_for_its_span(
        rows in rows(), ends in prop::collection::btree_set(0..60_usize, 0..8),
        lanes in 1..5_u32, within in 1..30_i64,
    ) {
        let out = run(&cut(&rows, &ends, 60), Some(within), lanes);
        let mut known: BTreeMap<Option<String>, i64> = BTreeMap::new();
        let mut wanted = BTreeSet::new();
        for (id, key, time) in &rows {
            if known.get(key).is_none_or(|first| *time >= first + within) {
                known.insert(key.clone(), *time);
                wanted.insert(*id);
            }
        }
        prop_assert_eq!(out.into_iter().flatten().collect::<BTreeSet<_>>(), wanted);
    }

    #[test]
    fn what_is_shown_are_the_keys_that_are_still_known(
        rows in rows(), ends in prop::collection::btree_set(0..60_usize, 0..8),
        within in prop::option::of(1..30_i64),
    ) {
        let factory = dedup(&schema(), &spec(within)).unwrap();
        let mut trial = Trial::new(factory, vec![Partition::Key(vec![1])], 5, 2);
        let mut known: BTreeMap<Option<String>, i64> = BTreeMap::new();
        let mut low = i64::MIN;
        for (blocks, watermark) in cut(&rows, &ends, 5) {
            for (_, key, time) in blocks.iter().flatten() {
                let end = within.map_or(i64::MAX, |within| time + within);
                if known.get(key).is_none_or(|held| *held != i64::MAX && (time >= held || *held <= low)) {
                    known.insert(key.clone(), end);
                }
            }
            let blocks = blocks.iter().map(|rows| batch(rows)).collect();
            trial.cycle(vec![blocks], Micros(watermark), false).unwrap();
            low = watermark;
            let mut shown = shown(&mut trial, 0);
            shown.sort();
            let still = known.iter().filter(|(_, end)| **end == i64::MAX || **end > low);
            let mut wanted: Vec<String> = still
                .map(|(key, end)| {
                    let until = match end {
                        &i64::MAX => "null".to_owned(),
                        end => format!("1970-01-01T00:00:00.{end:06}Z").replace(".000000", ""),
                    };
                    format!("{} {until}", key.as_deref().unwrap_or("null"))
                })
                .collect();
            wanted.sort();
            prop_assert_eq!(shown, wanted);
        }
    }

    /// With late records too, lanes must not show, and a slice keeps the order of its input.
    #[test]
    fn lanes_do_not_show(
        rows in rows(), ends in prop::collection::btree_set(0..60_usize, 0..12), within in 1..30_i64,
    ) {
        let cycles = cut(&rows, &ends, 5);
        let one = run(&cycles, Some(within), 1);
        prop_assert_eq!(&one, &run(&cycles, Some(within), 3));
        prop_assert_eq!(&one, &run(&cycles, Some(within), 5));
        let key_of = |id: i64| rows[id as usize].1.clone();
        for cycle in one {
            let mut last: BTreeMap<Option<String>, i64> = BTreeMap::new();
            for id in cycle {
                prop_assert!(last.insert(key_of(id), id).is_none_or(|before| before < id));
            }
        }
    }
}

#[test]
fn memory_of_forgotten_keys_is_given_back() {
    let mut known = KnownKeys { keys: Map::default(), swept_at: SWEPT_FROM };
    for time in 0..100_000_i64 {
        let bytes = time.to_le_bytes();
        assert!(known.passes(&bytes, time, Micros(time + 10), Micros(time)));
        known.sweep(Micros(time));
    }
    assert!(known.keys.len() <= SWEPT_FROM, "{} keys", known.keys.len());
    assert!(known.keys.capacity() <= SWEPT_FROM * 8);
}

#[test]
fn keys_are_told_apart() {
    let mut known = KnownKeys { keys: Map::default(), swept_at: SWEPT_FROM };
    let mut passes = |bytes: &[u8]| known.passes(bytes, 0, Micros::MAX, Micros::MIN);
    assert!(passes(b"a"));
    assert!(passes(b"b"));
    assert!(!passes(b"a"));
    assert!(!passes(b"b"));
}

#[test]
fn one_slice_without_routing_and_floats_with_two_zeros() {
    let fields = vec![Field::new("x", DataType::Float64, true)];
    let input = Arc::new(Schema::new(fields));
    let spec = DedupSpec { on: vec!["x".to_owned()], within: None };
    let mut trial = Trial::new(dedup(&input, &spec).unwrap(), vec![Partition::One], 1, 1);
    let values = vec![Some(0.0), Some(-0.0), None, Some(f64::NAN), None, Some(-f64::NAN)];
    let column: ArrayRef = Arc::new(Float64Array::from(values));
    let batch = RecordBatch::try_new(input, vec![column]).unwrap();
    let out = trial.cycle(vec![vec![batch]], Micros::MIN, false).unwrap();
    assert_eq!(out[0].1.num_rows(), 3);
    assert_eq!(out[0].1.column(0).null_count(), 1);
}

#[test]
fn mistakes_are_refused() {
    let message = |on: &[&str], within: Option<i64>, input: &SchemaRef| {
        let on = on.iter().map(|name| (*name).to_owned()).collect();
        let spec = DedupSpec { on, within: within.map(Span) };
        dedup(input, &spec).err().expect("a mistake").to_string()
    };
    let input = schema();
    assert_eq!(
        message(&["idd"], None, &input),
        "in `on`: unknown column `idd`; did you mean `id`?"
    );
    assert!(message(&[], None, &input).starts_with("`on` is empty"));
    assert_eq!(message(&["k"], Some(0), &input), "`within` is 0us, but must be more than nothing");
    let list = DataType::new_list(DataType::Int64, true);
    let timeless = Arc::new(Schema::new(vec![
        Field::new("l", list, true),
        Field::new("k", DataType::Utf8, true),
    ]));
    assert!(message(&["l"], None, &timeless).contains("`l` of type List"));
    assert!(message(&["k"], Some(1), &timeless).contains("needs event time"));
}

#[test]
fn what_a_saved_state_fits_is_told_by_the_names_of_columns() {
    let schema = |names: [&str; 2]| {
        Arc::new(Schema::new(names.map(|it| Field::new(it, DataType::Int64, true)).to_vec()))
    };
    let does = |names: [&str; 2], on: &str| {
        let spec = DedupSpec { on: vec![on.to_owned()], within: None };
        dedup(&schema(names), &spec).unwrap().does()
    };
    assert_eq!(does(["k", "v"], "k"), does(["v", "k"], "k"), "it is there, in another place");
    assert_ne!(does(["k", "v"], "k"), does(["v", "k"], "v"), "another column in its place");
}
