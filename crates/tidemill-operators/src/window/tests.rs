//! Every window and aggregate against a naive model, over many cycles, slices and lanes.

use super::*;
use arrow_array::{Array, Float64Array, Int64Array, StringArray};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_flow::{Partition, trial::Trial};
use tidemill_types::{
    Micros, Span,
    job::{CountWindow, EmptySpec, SlidingWindow},
};

/// key, value, time
pub(super) type Record = (i64, Option<f64>, i64);

pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("value", DataType::Float64, true),
        Field::new("name", DataType::Utf8, true),
        Field::new(TIME_COLUMN, time_type(), false),
    ]))
}

pub(super) fn batch(records: &[Record]) -> RecordBatch {
    let times: Vec<i64> = records.iter().map(|it| it.2).collect();
    let names = records.iter().map(|it| it.1.map(|value| format!("v{value}")));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(records.iter().map(|it| it.0))),
        Arc::new(Float64Array::from_iter(records.iter().map(|it| it.1))),
        Arc::new(StringArray::from_iter(names)),
        Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC")),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

pub(super) fn calls() -> Named<String> {
    [
        ("n", "count(*)"),
        ("values", "count(value)"),
        ("distinct", "count(distinct value)"),
        ("sum", "sum(value)"),
        ("ints", "sum(key)"),
        ("mean", "avg(value)"),
        ("var", "var_samp(value)"),
        ("dev", "stddev_pop(value)"),
        ("least", "min(value)"),
        ("most", "max(name)"),
        ("first", "first(value)"),
        ("last", "last(name)"),
        ("big", "count(*) filter (where value > 5)"),
        ("median", "median(value)"),
    ]
    .into_iter()
    .map(|(name, sql)| (name.to_owned(), sql.to_owned()))
    .collect()
}

/// A result: key, bounds, then the aggregates as text with few digits.
pub(super) type Row = (i64, i64, i64, String);

fn digits(value: Option<f64>) -> String {
    // Adding 0 makes one zero of two.
    value.map_or("-".to_owned(), |it| format!("{:.6}", (it * 1e6).round() / 1e6 + 0.0))
}

fn naive(records: &[&Record], bounds: (i64, i64)) -> Row {
    let values: Vec<f64> = records.iter().filter_map(|it| it.1).collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let m2: f64 = values.iter().map(|it| (it - mean).powi(2)).sum();
    let mut sorted = values.clone();
    sorted.sort_by(f64::total_cmp);
    let mut distinct = sorted.clone();
    distinct.dedup();
    let some = |value: f64| (!values.is_empty()).then_some(value);
    let names = || values.iter().map(|it| format!("v{it}"));
    let there = || records.iter().filter(|it| it.1.is_some());
    // `min_by_key` gives the first of equals, `max_by_key` the last.
    let first = there().min_by_key(|it| it.2).and_then(|it| it.1);
    let last = there().max_by_key(|it| it.2).and_then(|it| it.1);
    let text = |name: Option<String>| name.unwrap_or("-".to_owned());
    let cells = [
        records.len().to_string(),
        values.len().to_string(),
        distinct.len().to_string(),
        digits(some(values.iter().sum())),
        records.iter().map(|it| it.0).sum::<i64>().to_string(),
        digits(some(mean)),
        digits((values.len() > 1).then(|| m2 / (n - 1.0))),
        digits(some((m2 / n).sqrt())),
        digits(sorted.first().copied()),
        text(names().max()),
        digits(first),
        text(last.map(|it| format!("v{it}"))),
        values.iter().filter(|it| **it > 5.0).count().to_string(),
    ];
    (records[0].0, bounds.0, bounds.1, cells.join(" "))
}

pub(super) fn rows_of(batch: &RecordBatch) -> Vec<Row> {
    let int = |name: &str, row: usize| match batch.column_by_name(name) {
        Some(column) => {
            let column = arrow_cast::cast(column, &DataType::Int64).expect("a number");
            column.as_primitive::<arrow_array::types::Int64Type>().value(row)
        }
        None => 0,
    };
    let cell = |column: &ArrayRef, row: usize| {
        if column.is_null(row) {
            return "-".to_owned();
        }
        match column.data_type() {
            DataType::Float64 => {
                digits(Some(column.as_primitive::<arrow_array::types::Float64Type>().value(row)))
            }
            DataType::Utf8 => column.as_string::<i32>().value(row).to_owned(),
            _ => {
                let column = column.as_primitive::<arrow_array::types::Int64Type>();
                column.value(row).to_string()
            }
        }
    };
    let row = |row: usize| {
        let names = calls();
        // The median is a sketch's: it is checked for being within the values.
        let cells = names.keys().filter(|it| *it != "median");
        let cells = cells.map(|name| cell(batch.column_by_name(name).expect("a result"), row));
        let cells: Vec<String> = cells.collect();
        (int("key", row), int("window_start", row), int("window_end", row), cells.join(" "))
    };
    (0..batch.num_rows()).map(row).collect()
}

/// Runs records in cycles of `per_cycle` and gives all results, and how many records were late.
fn run(
    records: &[Record],
    window: &WindowSpec,
    (per_cycle, slices, lanes): (usize, u32, u32),
    lateness: i64,
) -> (Vec<Row>, usize) {
    let factory = windowed(&schema(), &["key".to_owned()], Some(window), &calls()).expect("right");
    let mut trial = Trial::new(factory, vec![Partition::Key(vec![0])], slices, lanes);
    let (mut rows, mut late, mut most) = (Vec::new(), 0, i64::MIN);
    let mut take = |written: Vec<(usize, RecordBatch)>| {
        for (port, batch) in written {
            match port {
                0 => rows.extend(rows_of(&batch)),
                _ => late += batch.num_rows(),
            }
        }
    };
    for part in records.chunks(per_cycle) {
        most = part.iter().map(|it| it.2).fold(most, i64::max);
        let watermark = Micros(most - lateness);
        take(trial.cycle(vec![vec![batch(part)]], watermark, false).expect("it runs"));
    }
    take(trial.cycle(vec![vec![]], Micros::MAX, true).expect("it runs"));
    (rows, late)
}

fn by_key(records: &[Record]) -> BTreeMap<i64, Vec<&Record>> {
    let mut keys: BTreeMap<i64, Vec<&Record>> = BTreeMap::new();
    records.iter().for_each(|it| keys.entry(it.0).or_default().push(it));
    keys
}

fn expected(records: &[Record], window: &WindowSpec) -> Vec<Row> {
    let mut rows = Vec::new();
    for records in by_key(records).into_values() {
        match window {
            WindowSpec::Global(_) => rows.push(naive(&records, (0, 0))),
            WindowSpec::Tumbling(size) => slide(&records, size.0, size.0, &mut rows),
            WindowSpec::Sliding(it) => slide(&records, it.size.0, it.every.0, &mut rows),
            WindowSpec::Session(gap) => {
                let mut sorted = records.clone();
                sorted.sort_by_key(|it| it.2);
                let parts: Vec<i64> = sorted
                    .chunk_by(|a, b| b.2 - a.2 < gap.0)
                    .map(|part| part[0].2)
                    .chain([i64::MAX])
                    .collect();
                for pair in parts.windows(2) {
                    let inside = |it: &&&Record| (pair[0]..pair[1]).contains(&it.2);
                    let part: Vec<&Record> = records.iter().filter(inside).copied().collect();
                    let last = part.iter().map(|it| it.2).max().expect("not empty");
                    rows.push(naive(&part, (pair[0], last + gap.0)));
                }
            }
            WindowSpec::Count(it) => {
                for end in (it.every as usize..=records.len()).step_by(it.every as usize) {
                    let start = end.saturating_sub(it.size as usize);
                    rows.push(naive(&records[start..end], (0, 0)));
                }
            }
        }
    }
    rows
}

/// What the next result of each key holds so far.
fn next_results(records: &[Record], window: CountWindow) -> Vec<Row> {
    let (size, every) = (window.size, window.every);
    let next = |records: Vec<&Record>| {
        let count = records.len() as u64;
        let due = (count / every + 1) * every;
        let held = &records[due.saturating_sub(size).min(count) as usize..];
        (!held.is_empty()).then(|| naive(held, (0, 0)))
    };
    by_key(records).into_values().filter_map(next).collect()
}

fn slide(records: &[&Record], size: i64, every: i64, rows: &mut Vec<Row>) {
    let starts: std::collections::BTreeSet<i64> = records
        .iter()
        .flat_map(|it| {
            let last = it.2.div_euclid(every) * every;
            (0..).map(move |nth| last - nth * every).take_while(move |start| it.2 < start + size)
        })
        .collect();
    for start in starts {
        let inside = |it: &&&Record| (start..start + size).contains(&it.2);
        let part: Vec<&Record> = records.iter().filter(inside).copied().collect();
        rows.push(naive(&part, (start, start + size)));
    }
}

pub(super) fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows
}

fn windows() -> impl Strategy<Value = WindowSpec> {
    prop_oneof![
        Just(WindowSpec::Global(EmptySpec {})),
        (1_i64..60).prop_map(|size| WindowSpec::Tumbling(Span(size))),
        (1_i64..60, 1_i64..20).prop_map(|(more, every)| {
            let size = Span(every + more);
            WindowSpec::Sliding(SlidingWindow { size, every: Span(every) })
        }),
        (1_i64..30).prop_map(|gap| WindowSpec::Session(Span(gap))),
        (1_u64..12, 1_u64..6)
            .prop_map(|(size, every)| WindowSpec::Count(CountWindow { size, every })),
        (1_u64..6).prop_map(|every| WindowSpec::Count(CountWindow { size: u64::MAX, every })),
    ]
}

pub(super) fn records() -> impl Strategy<Value = Vec<Record>> {
    let value = prop::option::weighted(0.8, (-8_i32..16).prop_map(|it| f64::from(it) / 2.0));
    prop::collection::vec((0_i64..5, value, -50_i64..200), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn results_are_those_of_the_model(
        records in records(),
        window in windows(),
        per_cycle in 1_usize..40,
        lanes in 1_u32..4,
    ) {
        // Lateness is so long that no record is late, in whatever order they come.
        let (rows, late) = run(&records, &window, (per_cycle, 8, lanes), 1_000);
        prop_assert_eq!(late, 0);
        prop_assert_eq!(sorted(rows), sorted(expected(&records, &window)));
    }

    #[test]
    fn lanes_do_not_show(
        records in records(),
        window in windows(),
        per_cycle in 1_usize..40,
        lateness in 0_i64..60,
    ) {
        let one = run(&records, &window, (per_cycle, 8, 1), lateness);
        for lanes in [2, 3, 8] {
            prop_assert_eq!(&run(&records, &window, (per_cycle, 8, lanes), lateness), &one);
        }
    }

    #[test]
    fn the_cut_of_cycles_does_not_show_for_records_in_order(
        mut records in records(),
        window in windows(),
        per_cycle in 1_usize..40,
    ) {
        records.sort_by_key(|it| it.2);
        let (whole, _) = run(&records, &window, (usize::MAX, 8, 1), 0);
        let (cut, late) = run(&records, &window, (per_cycle, 8, 1), 0);
        prop_assert_eq!(late, 0);
        prop_assert_eq!(sorted(cut), sorted(whole));
    }

    #[test]
    fn what_is_shown_and_what_came_out_are_all_windows_so_far(
        mut records in records(),
        window in windows(),
        per_cycle in 1_usize..40,
        lateness in 0_i64..60,
    ) {
        records.sort_by_key(|it| it.2);
        let factory = windowed(&schema(), &["key".to_owned()], Some(&window), &calls());
        let factory = factory.expect("right");
        let table = factory.tables().remove(0);
        let mut trial = Trial::new(factory, vec![Partition::Key(vec![0])], 8, 3);
        let mut rows = Vec::new();
        for end in (0..records.len()).step_by(per_cycle).map(|it| it + per_cycle) {
            let so_far = &records[..end.min(records.len())];
            let part = &so_far[end - per_cycle..];
            let watermark = Micros(so_far[so_far.len() - 1].2 - lateness);
            let written = trial.cycle(vec![vec![batch(part)]], watermark, false);
            written.expect("it runs").iter().for_each(|(_, batch)| rows.extend(rows_of(batch)));
            let shown = trial.rows(0);
            prop_assert!(shown.iter().all(|(_, batch)| batch.schema() == table.schema));
            let shown: Vec<Row> = shown.iter().flat_map(|(_, batch)| rows_of(batch)).collect();
            if let WindowSpec::Count(it) = &window {
                prop_assert_eq!(sorted(shown), sorted(next_results(so_far, *it)));
            } else {
                let all: Vec<Row> = rows.iter().cloned().chain(shown).collect();
                prop_assert_eq!(sorted(all), sorted(expected(so_far, &window)));
            }
        }
    }

    #[test]
    fn every_record_counts_once_or_is_late(
        records in records(),
        size in 1_i64..60,
        per_cycle in 1_usize..10,
        lateness in 0_i64..40,
    ) {
        let window = WindowSpec::Tumbling(Span(size));
        let (rows, late) = run(&records, &window, (per_cycle, 8, 2), lateness);
        let counted = rows.iter().map(|it| {
            it.3.split(' ').next().and_then(|n| n.parse::<usize>().ok()).expect("a count")
        });
        prop_assert_eq!(counted.sum::<usize>() + late, records.len());
        let mut bounds: Vec<_> = rows.iter().map(|it| (it.0, it.1)).collect();
        bounds.sort_unstable();
        prop_assert!(bounds.windows(2).all(|pair| pair[0] != pair[1]), "a window came out twice");
    }
}

#[test]
fn a_late_row_goes_whole_to_its_output() {
    let factory =
        windowed(&schema(), &["key".to_owned()], Some(&WindowSpec::Tumbling(Span(10))), &calls());
    let mut trial = Trial::new(factory.expect("right"), vec![Partition::Key(vec![0])], 4, 1);
    let first = trial.cycle(vec![vec![batch(&[(1, None, 25)])]], Micros(25), false);
    assert!(first.expect("it runs").is_empty());
    let late = [(1, Some(2.0), 19), (1, Some(3.0), 20)];
    let written = trial.cycle(vec![vec![batch(&late)]], Micros(25), false).expect("it runs");
    assert_eq!(written.len(), 1);
    assert_eq!((written[0].0, &written[0].1), (1, &batch(&late[..1])));
}

/// Late rows of a cycle that came in several blocks: their order is that of the slices.
#[test]
fn lanes_do_not_show_in_late_rows() {
    for window in [WindowSpec::Tumbling(Span(10)), WindowSpec::Session(Span(10))] {
        let late = |lanes| {
            let factory = windowed(&schema(), &["key".to_owned()], Some(&window), &calls());
            let by_key = vec![Partition::Key(vec![0])];
            let mut trial = Trial::new(factory.expect("right"), by_key, 8, lanes);
            let first = trial.cycle(vec![vec![batch(&[(1, None, 95)])]], Micros(95), false);
            assert!(first.expect("it runs").is_empty());
            let block = |value| {
                let records = (0..8).map(|key| (key, Some(f64::from(value)), 15));
                batch(&records.collect::<Vec<_>>())
            };
            let blocks = (0..3).map(block).collect();
            let written = trial.cycle(vec![blocks], Micros(95), false).expect("it runs");
            let row = |batch: &RecordBatch, row| {
                let keys = batch.column(0).as_primitive::<arrow_array::types::Int64Type>();
                let values = batch.column(1).as_primitive::<arrow_array::types::Float64Type>();
                (keys.value(row), values.value(row) as i64)
            };
            let rows = |(port, batch): &(usize, RecordBatch)| {
                assert_eq!(*port, 1);
                (0..batch.num_rows()).map(|it| row(batch, it)).collect::<Vec<_>>()
            };
            written.iter().flat_map(rows).collect::<Vec<_>>()
        };
        let one = late(1);
        assert_eq!(one.len(), 24);
        for lanes in [2, 8] {
            assert_eq!(late(lanes), one, "{window:?} in {lanes} lanes");
        }
    }
}

#[test]
fn windows_that_are_closed_are_not_kept_in_checkpoints() {
    let sliding = WindowSpec::Sliding(SlidingWindow { size: Span(20), every: Span(10) });
    for window in [WindowSpec::Tumbling(Span(10)), sliding] {
        let factory = windowed(&schema(), &["key".to_owned()], Some(&window), &calls());
        let factory = factory.expect("right");
        let mut trial = Trial::new(factory, vec![Partition::Key(vec![0])], 4, 1);
        for cycle in 0..300 {
            let time = cycle * 10;
            let rows = [(cycle, Some(1.0), time), (cycle + 1, None, time)];
            let written = trial.cycle(vec![vec![batch(&rows)]], Micros(time), false);
            assert_eq!(written.expect("it runs").is_empty(), cycle == 0);
        }
        assert!((1..20).contains(&trial.saved_entries()), "{}", trial.saved_entries());
    }
}

#[test]
fn slices_are_saved_as_wholes_if_most_of_them_changed_and_no_row_is_long() {
    let wholes = |aggregate: &str, changing: i64| {
        let calls: Named<String> = [("it".into(), aggregate.into())].into();
        let window = WindowSpec::Tumbling(Span(1_000));
        let factory = windowed(&schema(), &["key".to_owned()], Some(&window), &calls);
        let partitions = vec![Partition::Key(vec![0])];
        let mut trial = Trial::new(factory.expect("right"), partitions, 1, 1);
        for cycle in 0..100 {
            let keys = if cycle == 0 { 0..12 } else { 0..changing };
            let rows: Vec<Record> = keys.map(|key| (key, Some(1.0), cycle)).collect();
            trial.cycle(vec![vec![batch(&rows)]], Micros(cycle), false).expect("it runs");
        }
        trial.saved_as_wholes()
    };
    // The first time all have changed.
    for few in [1, 4, 7] {
        assert_eq!(wholes("sum(value)", few), 1);
    }
    for most in [8, 12] {
        assert!(wholes("sum(value)", most) > 5);
        assert_eq!(wholes("count(distinct value)", most), 0);
    }
}

#[test]
fn an_aggregate_over_nothing_is_one_row_without_a_key_and_none_with() {
    let run = |key: &[String]| {
        let calls: Named<String> =
            [("n", "count(*)"), ("s", "sum(value)")].map(|(a, b)| (a.into(), b.into())).into();
        let factory = windowed(&schema(), key, None, &calls).expect("right");
        let mut trial = Trial::new(factory, vec![Partition::One], 1, 1);
        trial.cycle(vec![vec![]], Micros::MAX, true).expect("it runs")
    };
    let rows = run(&[]);
    assert_eq!(rows[0].1.num_rows(), 1);
    assert!(rows[0].1.column(1).is_null(0));
    assert!(run(&["key".to_owned()]).is_empty());
}

#[test]
fn the_row_over_nothing_is_counted_by_windows_over_time() {
    let sliding = SlidingWindow { size: Span(10), every: Span(3) };
    let windows = [
        WindowSpec::Tumbling(Span(10)),
        WindowSpec::Sliding(sliding),
        WindowSpec::Session(Span(5)),
    ];
    for (window, watermark) in
        windows.iter().flat_map(|it| [Micros::MIN, Micros(-20), Micros(95)].map(|at| (it, at)))
    {
        let calls = |call: &str| Named::from([("n".to_owned(), call.to_owned())]);
        let global = WindowSpec::Global(EmptySpec {});
        let factory = windowed(&schema(), &[], Some(&global), &calls("count(*)")).expect("right");
        let behind = windowed(&factory.outputs()[0], &[], Some(window), &calls("count(n)"));
        let mut trial = Trial::new(factory, vec![Partition::One], 1, 1);
        let none = trial.cycle(vec![vec![]], watermark, false).expect("it runs");
        assert!(none.is_empty());
        let rows = trial.cycle(vec![vec![]], Micros::MAX, true).expect("it runs");
        let [(0, row)] = &rows[..] else { panic!("not one row: {rows:?}") };
        let times = row.column(1).as_primitive::<TimestampMicrosecondType>();
        assert!(Micros(times.value(0)).is_event_time(), "{times:?}");

        let mut trial = Trial::new(behind.expect("right"), vec![Partition::One], 1, 1);
        trial.cycle(vec![vec![]], watermark, false).expect("it runs");
        let rows = trial.cycle(vec![vec![row.clone()]], Micros::MAX, true).expect("it runs");
        assert!(rows.iter().all(|(port, _)| *port == 0), "late for {window:?} at {watermark:?}");
        let starts = rows[0].1.column(0).as_primitive::<TimestampMicrosecondType>();
        let counts = rows[0].1.column(2).as_primitive::<arrow_array::types::Int64Type>();
        assert!(starts.values().iter().all(|it| it.abs() < 1_000), "{starts:?}");
        assert!(counts.values().iter().all(|it| *it == 1), "{counts:?}");
    }
}

/// A row of a global window has the time of its own key's latest record, whatever its slice holds.
#[test]
fn a_row_of_a_global_window_has_the_latest_time_of_its_key() {
    let calls: Named<String> = [("n".to_owned(), "count(*)".to_owned())].into();
    let key = ["key".to_owned()];
    let factory = windowed(&schema(), &key, Some(&WindowSpec::Global(EmptySpec {})), &calls);
    let factory = factory.expect("right");
    // Windows behind it wait for such rows.
    assert!(Micros(1 << 60).minus(factory.holds_back()) < Micros(-(1 << 60)));
    for (slices, lanes) in [(1, 1), (2, 1), (5, 2), (64, 3)] {
        let partition = vec![Partition::Key(vec![0])];
        let mut trial = Trial::new(Arc::clone(&factory), partition, slices, lanes);
        let mut cycle = |records: &[Record], ended| {
            let watermark = if ended { Micros::MAX } else { Micros::MIN };
            trial.cycle(vec![vec![batch(records)]], watermark, ended).expect("it runs")
        };
        cycle(&[(1, None, 1), (2, None, 50), (3, None, 90), (1, None, 4)], false);
        cycle(&[(2, None, 7), (4, None, -8)], false);
        let written = cycle(&[(1, None, 3), (4, None, -9), (2, None, 60)], true);
        let mut rows: Vec<(i64, i64, i64)> = Vec::new();
        for (_, batch) in &written {
            let columns = [0, 1, 2].map(|it| {
                let column = arrow_cast::cast(batch.column(it), &DataType::Int64);
                column.expect("a number").as_primitive::<arrow_array::types::Int64Type>().clone()
            });
            let row =
                |it: usize| (columns[0].value(it), columns[1].value(it), columns[2].value(it));
            rows.extend((0..batch.num_rows()).map(row));
        }
        rows.sort_unstable();
        assert_eq!(rows, [(1, 3, 4), (2, 3, 60), (3, 1, 90), (4, 2, -8)], "{slices} slices");
    }
}

#[test]
fn what_cannot_be_kept_can_be_counted() {
    let count = |call: &str| {
        let calls: Named<String> = [("n".to_owned(), call.to_owned())].into();
        let factory = windowed(&schema(), &[], None, &calls)?;
        let mut trial = Trial::new(factory, vec![Partition::One], 1, 1);
        let records = [(1, Some(1.0), 0), (2, None, 0), (3, Some(3.0), 0)];
        let rows = trial.cycle(vec![vec![batch(&records)]], Micros::MAX, true).expect("it runs");
        let counts = rows[0].1.column(0).as_primitive::<arrow_array::types::Int64Type>();
        Ok::<_, AggregateError>(counts.value(0))
    };
    let list = "case when value is not null then make_array(key) end";
    assert_eq!(count(&format!("count({list})")).expect("right"), 2);
    assert_eq!(count(&format!("count({list}) filter (where key > 1)")).expect("right"), 1);
    let error = count(&format!("max({list})")).expect_err("it cannot be kept");
    assert!(error.error.to_string().contains("cannot be aggregated"), "{}", error.error);
}

/// What is held of a decimal or a time is a number, which says nothing of its scale or unit.
#[test]
fn a_saved_state_fits_the_type_of_its_arguments_alone() {
    let does = |value: DataType, call: &str| {
        let input = Arc::new(Schema::new(vec![Field::new("value", value, true)]));
        let calls: Named<String> = [("it".to_owned(), call.to_owned())].into();
        let window = Some(&WindowSpec::Count(CountWindow { size: 100, every: 1 }));
        windowed(&input, &[], window, &calls).expect("right").does()
    };
    let (cents, points) = (DataType::Decimal128(12, 2), DataType::Decimal128(12, 4));
    let seconds = DataType::Timestamp(TimeUnit::Second, None);
    for call in ["sum(value)", "max(value)"] {
        assert_ne!(does(cents.clone(), call), does(points.clone(), call), "{call}");
        assert_ne!(does(cents.clone(), call), does(DataType::Int64, call), "{call}");
    }
    assert_ne!(does(seconds.clone(), "min(value)"), does(time_type(), "min(value)"));
    assert_eq!(does(seconds.clone(), "count(value)"), does(seconds, "count(value)"));
}

/// A mean is the sum divided by the count, wherever infinities stand, and of however many panes a
/// window is made.
#[test]
fn a_mean_does_not_show_how_it_was_computed() {
    let mean = |values: &[f64], window: &WindowSpec| {
        let calls: Named<String> = [("mean".to_owned(), "avg(value)".to_owned())].into();
        let factory = windowed(&schema(), &[], Some(window), &calls).expect("right");
        let mut trial = Trial::new(factory, vec![Partition::One], 1, 1);
        let records: Vec<Record> = values.iter().map(|it| (1, Some(*it), 95)).collect();
        let rows = trial.cycle(vec![vec![batch(&records)]], Micros::MAX, true).expect("it runs");
        let means = rows[0].1.column_by_name("mean").expect("it is there");
        means.as_primitive::<arrow_array::types::Float64Type>().value(0)
    };
    let inf = f64::INFINITY;
    let sliding = SlidingWindow { size: Span(100), every: Span(10) };
    let windows = [
        WindowSpec::Tumbling(Span(100)),
        WindowSpec::Sliding(sliding),
        WindowSpec::Global(EmptySpec {}),
    ];
    for window in &windows {
        for values in [&[1.0, inf, 2.0][..], &[inf, 1.0], &[inf, inf], &[1.0, 2.0, inf]] {
            assert_eq!(mean(values, window), inf, "{values:?}");
        }
        assert_eq!(mean(&[1.0, -inf], window), -inf);
        assert_eq!(mean(&[inf, 1.0, -inf], window).to_bits(), f64::NAN.to_bits());
        assert_eq!(mean(&[1e308, -1e308], window), 0.0);
        assert_eq!(mean(&[0.1; 3], window).to_bits(), mean(&[0.1; 3], &windows[0]).to_bits());
    }
}

#[test]
fn a_quantile_is_near() {
    let records: Vec<Record> = (0..1_000).map(|it| (1, Some(f64::from(it)), 0)).collect();
    let calls: Named<String> = [("q".to_owned(), "quantile(value, 0.9)".to_owned())].into();
    let factory = windowed(&schema(), &[], None, &calls).expect("right");
    let mut trial = Trial::new(factory, vec![Partition::One], 1, 1);
    let rows = trial.cycle(vec![vec![batch(&records)]], Micros::MAX, true).expect("it runs");
    let q = rows[0].1.column(0).as_primitive::<arrow_array::types::Float64Type>().value(0);
    assert!((890.0..910.0).contains(&q), "{q}");
}

/// Infinities and NaN stand where `min`, `max` and `top` have them.
#[test]
fn a_quantile_counts_what_is_not_finite() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let quantile = |values: &[f64], q: f64| {
        let calls = Named::from([("q".to_owned(), format!("quantile(value, {q})"))]);
        let of = |window: Option<&WindowSpec>| {
            let factory = windowed(&schema(), &[], window, &calls).expect("right");
            let mut trial = Trial::new(factory, vec![Partition::One], 1, 1);
            // Each comes in a cycle of its own, between which there are checkpoints.
            for (nth, value) in values.iter().enumerate() {
                let rows = batch(&[(1, Some(*value), 10 * nth as i64)]);
                trial.cycle(vec![vec![rows]], Micros(0), false).expect("it runs");
            }
            let rows = trial.cycle(vec![vec![]], Micros::MAX, true).expect("it runs");
            let batch = &rows[0].1;
            let starts = batch.column_by_name("window_start");
            let starts = starts.map(|it| it.as_primitive::<TimestampMicrosecondType>().values());
            let row = starts.map_or(Some(0), |it| it.iter().position(|start| *start == 0));
            let column = batch.column_by_name("q").expect("it is there");
            let column = column.as_primitive::<arrow_array::types::Float64Type>();
            column.value(row.expect("the window with all of them"))
        };
        let alone = of(None);
        // Each is in a pane of its own, and these are merged.
        let sliding = SlidingWindow { size: Span(100), every: Span(10) };
        let merged = of(Some(&WindowSpec::Sliding(sliding)));
        assert_eq!(alone.to_bits(), merged.to_bits(), "{values:?} {q}");
        alone
    };
    assert_eq!(quantile(&[inf, inf, 1.0], 0.5), inf);
    assert_eq!(quantile(&[inf, inf, 1.0], 0.0), 1.0);
    assert_eq!(quantile(&[inf, inf, 1.0], 1.0), inf);
    assert_eq!(quantile(&[-inf, 5.0], 0.0), -inf);
    assert_eq!(quantile(&[-inf, 5.0], 1.0), 5.0);
    assert_eq!(quantile(&[-inf, 1.0, 2.0, 3.0, inf], 0.5), 2.0);
    assert_eq!(quantile(&[inf], 0.0), inf);
    assert_eq!(quantile(&[-inf], 1.0), -inf);
    assert_eq!(quantile(&[1.0, inf, nan], 0.6), inf);
    assert!(quantile(&[1.0, inf, nan], 1.0).is_nan());
    assert!(quantile(&[nan, nan], 0.0).is_nan());
}

#[test]
fn a_sum_beyond_64_bits_is_an_error() {
    let calls: Named<String> = [("s".to_owned(), "sum(key)".to_owned())].into();
    let factory = windowed(&schema(), &[], None, &calls).expect("right");
    let mut trial = Trial::new(factory, vec![Partition::One], 1, 1);
    let records = [(i64::MAX, None, 0), (1, None, 0)];
    let error = trial.cycle(vec![vec![batch(&records)]], Micros::MAX, true);
    assert!(error.expect_err("an overflow").message.contains("beyond 64 bits"));
}

#[test]
fn what_does_not_fit_is_refused_by_part() {
    let refused = |key: &str, window: WindowSpec, call: &str, part: &str, near: Option<&str>| {
        let calls: Named<String> = [("x".to_owned(), call.to_owned())].into();
        let made = windowed(&schema(), &[key.to_owned()], Some(&window), &calls);
        let error = made.err().expect("refused");
        assert_eq!((error.part.as_str(), error.error.nearest.as_deref()), (part, near));
    };
    let day = || WindowSpec::Tumbling(Span(1));
    refused("kee", day(), "count(*)", "key[0]", Some("key"));
    refused("key", day(), "cuont(*)", "aggregate.x", Some("count"));
    refused("key", day(), "sum(valeu)", "aggregate.x", Some("value"));
    refused("key", day(), "sum(name)", "aggregate.x", None);
    for function in ["sum", "avg", "median", "var_samp"] {
        for times in ["to_timestamp(key)", "cast(to_timestamp(key) as date)"] {
            refused("key", day(), &format!("{function}({times})"), "aggregate.x", None);
        }
    }
    refused("key", day(), "quantile(value, 2)", "aggregate.x", None);
    refused("key", day(), "count(distinct *)", "aggregate.x", None);
    refused("key", day(), "count(distinct *) filter (where value > 1)", "aggregate.x", None);
    refused("key", WindowSpec::Tumbling(Span(0)), "count(*)", "window", None);
    let twice = |key: &[&str], window: WindowSpec, result: &str| {
        let calls: Named<String> = [(result.to_owned(), "count(*)".to_owned())].into();
        let key: Vec<String> = key.iter().map(|it| (*it).to_owned()).collect();
        let error = windowed(&schema(), &key, Some(&window), &calls).err().expect("refused");
        (error.part, error.error.message)
    };
    let two = |part: &str, name: &str| {
        (part.to_owned(), format!("the rows would have two columns `{name}`"))
    };
    let count = || WindowSpec::Count(CountWindow { size: 2, every: 1 });
    assert_eq!(twice(&["key"], day(), "key"), two("aggregate.key", "key"));
    assert_eq!(twice(&["name", "key"], count(), "key"), two("aggregate.key", "key"));
    assert_eq!(twice(&["key", "name", "key"], day(), "n"), two("key[2]", "key"));
    assert_eq!(twice(&["key"], day(), "window_end"), two("aggregate.window_end", "window_end"));
    let reserved =
        ("aggregate.__time".to_owned(), "`__time` is a name that is reserved".to_owned());
    assert_eq!(twice(&["key"], day(), TIME_COLUMN), reserved);
    assert_eq!(twice(&["key"], count(), TIME_COLUMN), reserved);
    let gap = SlidingWindow { size: Span(1), every: Span(2) };
    refused("key", WindowSpec::Sliding(gap), "count(*)", "window", None);
}
