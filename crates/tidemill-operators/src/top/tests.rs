//! Against sorting all rows of a group.

use super::*;
use crate::testing::shown;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, cast::AsArray,
};
use arrow_schema::{Field, Schema, TimeUnit};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_flow::trial::Trial;

/// Number, window (its end is the time), key and value.
type Row = (i64, i64, u8, Option<i32>);
/// Blocks and watermark.
type Step = (Vec<Vec<Row>>, i64);

fn utc() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("window_start", utc(), false),
        Field::new("k", DataType::Utf8, false),
        Field::new("v", DataType::Int32, true),
        Field::new(TIME_COLUMN, utc(), false),
    ]))
}

fn moments(moments: impl Iterator<Item = i64>) -> ArrayRef {
    Arc::new(TimestampMicrosecondArray::from_iter_values(moments).with_timezone("UTC"))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        moments(rows.iter().map(|row| row.1 * 10)),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.2.to_string()))),
        Arc::new(rows.iter().map(|row| row.3).collect::<Int32Array>()),
        moments(rows.iter().map(|row| row.1 * 10 + 9)),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn spec(k: usize, per: &[&str]) -> TopSpec {
    let per = per.iter().map(|name| (*name).to_owned()).collect();
    TopSpec { k, by: "v".to_owned(), ascending: false, per }
}

/// Runs the steps and the end; gives ids by cycle.
fn run(steps: &[Step], spec: &TopSpec, slices: u32, lanes: u32) -> Vec<Vec<i64>> {
    let Top { factory, partition } = top(&schema(), spec).unwrap();
    let slices = if partition == Partition::One { 1 } else { slices };
    let mut trial = Trial::new(factory, vec![partition], slices, lanes.min(slices));
    let mut cycle = |blocks: &Vec<Vec<Row>>, watermark, ended| {
        let blocks = blocks.iter().map(|rows| batch(rows)).collect();
        let out = trial.cycle(vec![blocks], Micros(watermark), ended).unwrap();
        let read =
            |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        out.iter().flat_map(|(_, batch)| read(batch)).collect::<Vec<_>>()
    };
    let mut out: Vec<_> =
        steps.iter().map(|(blocks, watermark)| cycle(blocks, *watermark, false)).collect();
    out.push(cycle(&Vec::new(), i64::MAX, true));
    out
}

/// Every group's rows sorted: best value first, nulls last, then by arrival.
fn model(rows: &[Row], k: usize, ascending: bool, group: impl Fn(&Row) -> (i64, u8)) -> Vec<i64> {
    let mut groups: BTreeMap<(i64, u8), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry(group(row)).or_default().push(row);
    }
    let mut groups: Vec<((i64, u8), Vec<&Row>)> = groups.into_iter().collect();
    groups.sort_by_key(|((end, _), rows)| (*end, rows[0].0));
    let mut out = Vec::new();
    for (_, mut rows) in groups {
        rows.sort_by_key(|row| {
            let value = row.3.map(|v| if ascending { i64::from(v) } else { -i64::from(v) });
            (value.is_none(), value, row.0)
        });
        out.extend(rows.iter().take(k).map(|row| row.0));
    }
    out
}

/// Rows of windows that do not close before their rows have come.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let row = (0..3_i64, 0..4_u8, prop::option::weighted(0.85, 0..8_i32));
    let blocks = prop::collection::vec(prop::collection::vec(row, 0..10), 0..4);
    prop::collection::vec((blocks, 0..3_i64), 0..8).prop_map(|cycles| {
        let (mut next, mut window) = (0, 0);
        cycles
            .into_iter()
            .map(|(blocks, forward)| {
                let mut number = |(ahead, key, value): (i64, u8, Option<i32>)| {
                    next += 1;
                    (next - 1, window + ahead, key, value)
                };
                let blocks = blocks
                    .into_iter()
                    .map(|rows| rows.into_iter().map(&mut number).collect())
                    .collect();
                window += forward;
                (blocks, window * 10)
            })
            .collect()
    })
}

fn all(steps: &[Step]) -> Vec<Row> {
    steps.iter().flat_map(|(blocks, _)| blocks.iter().flatten().copied()).collect()
}

fn sorted(mut rows: Vec<i64>) -> Vec<i64> {
    rows.sort_unstable();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn groups_of_a_window_come_out_when_it_closes(steps in steps(), k in 1..5_usize) {
        let spec = spec(k, &["window_start"]);
        let out = run(&steps, &spec, 1, 1);
        prop_assert_eq!(out.concat(), model(&all(&steps), k, false, |row| (row.1, 0)));
        // As soon as the watermark has reached the end of the window, and not before.
        let rows = all(&steps);
        for ((_, watermark), out) in steps.iter().zip(&out) {
            let ends: Vec<i64> = out.iter().map(|id| rows[*id as usize].1 * 10 + 10).collect();
            prop_assert!(ends.iter().all(|end| end <= watermark));
        }
        let before_end: usize = out[..steps.len()].iter().map(Vec::len).sum();
        let last = steps.last().map_or(0, |step| step.1);
        let closed: Vec<Row> = rows.iter().filter(|row| row.1 * 10 + 10 <= last).copied().collect();
        prop_assert_eq!(before_end, model(&closed, k, false, |row| (row.1, 0)).len());
    }

    #[test]
    fn lanes_do_not_show(steps in steps(), k in 1..4_usize, ascending in any::<bool>()) {
        let mut spec = spec(k, &["k", "window_start"]);
        spec.ascending = ascending;
        let one = run(&steps, &spec, 6, 1);
        prop_assert_eq!(&one, &run(&steps, &spec, 6, 3));
        prop_assert_eq!(&one, &run(&steps, &spec, 6, 6));
        let wanted = model(&all(&steps), k, ascending, |row| (row.1, row.2));
        prop_assert_eq!(sorted(one.concat()), sorted(wanted));
    }

    #[test]
    fn what_is_shown_is_what_would_come_out(steps in steps(), k in 1..5_usize) {
        let Top { factory, partition } = top(&schema(), &spec(k, &["window_start"])).unwrap();
        let mut trial = Trial::new(factory, vec![partition], 1, 1);
        for (nth, (blocks, watermark)) in steps.iter().enumerate() {
            let blocks = blocks.iter().map(|rows| batch(rows)).collect();
            trial.cycle(vec![blocks], Micros(*watermark), false).unwrap();
            let mut open = all(&steps[..=nth]);
            open.retain(|row| row.1 * 10 + 10 > *watermark);
            let wanted = model(&open, k, false, |row| (row.1, 0));
            let shown = shown(&mut trial, 0);
            let ids = shown.iter().map(|line| line.split(' ').nth(1).unwrap().parse().unwrap());
            prop_assert_eq!(ids.collect::<Vec<i64>>(), wanted);
            // Ranks begin with 1 in each group, and go on by 1.
            let ranks = shown.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap());
            let ranks: Vec<usize> = ranks.collect();
            prop_assert!(ranks.windows(2).all(|two| two[1] == 1 || two[1] == two[0] + 1));
            prop_assert!(ranks.iter().all(|rank| (1..=k).contains(rank)));
        }
    }

    #[test]
    fn other_groups_come_out_at_the_end(steps in steps(), k in 1..5_usize) {
        let rows = all(&steps);
        let one = run(&steps, &spec(k, &["k"]), 1, 1);
        prop_assert!(one[..steps.len()].iter().all(Vec::is_empty));
        prop_assert_eq!(one.concat(), model(&rows, k, false, |row| (0, row.2)));
        let whole = run(&steps, &spec(k, &[]), 4, 2);
        prop_assert_eq!(whole.concat(), model(&rows, k, false, |_| (0, 0)));
        // An expression orders as the column does.
        let mut by = spec(k, &[]);
        by.by = "v * 2 + 1".to_owned();
        prop_assert_eq!(run(&steps, &by, 1, 1), whole);
    }
}

#[test]
fn no_more_than_k_rows_of_a_group_are_held() {
    let codec = Arc::new(RowCodec::new(batch(&[]).schema()));
    let mut groups = TopGroups::new(false, codec);
    let mut next = 0;
    for _ in 0..200 {
        let rows: Vec<Row> = (next..next + 500).map(|id| (id, 0, 0, None)).collect();
        next += 500;
        let batch = batch(&rows);
        let mut taken = groups.rows_of(&batch, 3);
        for (row, (id, ..)) in rows.iter().enumerate() {
            // Ever better, so that each row replaces another.
            let value = (i64::MAX - id).to_be_bytes();
            let key = [(id % 2) as u8];
            let hash = u64::from(key[0]);
            taken.take(Arrival { row, hash, key: &key, value: &value, time: *id });
        }
        let mut complete = RowPicker::default();
        groups.complete(Micros::MIN, &mut complete, &mut Output::new(1 << 10)).unwrap();
        assert_eq!(groups.held(), 6);
    }
}

#[test]
fn nan_is_the_largest_and_zeros_are_equal() {
    let input = Arc::new(Schema::new(vec![
        Field::new("x", DataType::Float64, true),
        Field::new("id", DataType::Utf8, false),
    ]));
    let values = vec![Some(-0.0), Some(0.0), None, Some(f64::NAN), Some(f64::INFINITY)];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Float64Array::from(values)),
        Arc::new(StringArray::from(vec!["a", "b", "c", "d", "e"])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&input), columns).unwrap();
    for (ascending, wanted) in [(false, "deabc"), (true, "abedc")] {
        let spec = TopSpec { k: 9, by: "x".to_owned(), ascending, per: vec![] };
        let made = top(&input, &spec).unwrap();
        assert_eq!(made.factory.outputs(), vec![Arc::clone(&input)]);
        let mut trial = Trial::new(made.factory, vec![made.partition], 1, 1);
        let out = trial.cycle(vec![vec![batch.clone()]], Micros::MIN, true).unwrap();
        let names = out[0].1.column(1).as_string::<i32>();
        let names: String = (0..names.len()).map(|row| names.value(row)).collect();
        assert_eq!(names, wanted);
    }
}

#[test]
fn mistakes_are_refused() {
    let message = |spec: &TopSpec| top(&schema(), spec).unwrap_err().to_string();
    assert_eq!(message(&spec(0, &[])), "`k` is 0, but must be at least 1");
    assert_eq!(
        message(&spec(1, &["window_stat"])),
        "in `per`: unknown column `window_stat`; did you mean `window_start`?"
    );
    let mut by = spec(1, &[]);
    by.by = "vv + 1".to_owned();
    assert!(message(&by).starts_with("in `by`: "), "{}", message(&by));
    assert!(message(&by).contains("vv"), "{}", message(&by));
}

/// They come when all input has been seen, with the times that they had.
#[test]
fn rows_without_a_window_are_not_late_for_windows_behind() {
    let held_back = |per: &[&str]| top(&schema(), &spec(3, per)).unwrap().factory.holds_back();
    assert_eq!(held_back(&["k"]), Span(i64::MAX));
    assert_eq!(held_back(&["window_start"]), Span(0));
}
