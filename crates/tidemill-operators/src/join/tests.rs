//! Joins against lists of rows and two nested loops.

use super::*;
use crate::testing::shown;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{
    Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
    cast::AsArray,
};
use arrow_schema::TimeUnit;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_flow::{OperatorError, Partition, trial::Trial};
use tidemill_types::Micros;

/// A row of either side: its number, key and time.
type Row = (i64, Option<i8>, i64);
/// A row of the output: left's number, right's number, time.
type Out = (i64, Option<i64>, i64);
/// Left blocks, right blocks, watermark.
type Step = (Vec<Vec<Row>>, Vec<Vec<Row>>, i64);

fn utc() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn left_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("k", DataType::Int32, true),
        Field::new(TIME_COLUMN, utc(), false),
        Field::new("l", DataType::Utf8, false),
    ]))
}

fn right_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new(TIME_COLUMN, utc(), false),
        Field::new("key", DataType::Int64, true),
        Field::new("id", DataType::Int64, false),
    ]))
}

fn times(rows: &[Row]) -> ArrayRef {
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.2));
    Arc::new(times.with_timezone("UTC"))
}

fn left_batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(rows.iter().map(|row| row.1.map(i32::from)).collect::<Int32Array>()),
        times(rows),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| format!("l{}", row.0)))),
    ];
    RecordBatch::try_new(left_schema(), columns).unwrap()
}

fn right_batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        times(rows),
        Arc::new(rows.iter().map(|row| row.1.map(i64::from)).collect::<Int64Array>()),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
    ];
    RecordBatch::try_new(right_schema(), columns).unwrap()
}

fn spec(within: Option<i64>, kind: JoinKind) -> JoinSpec {
    JoinSpec {
        left: "l".to_owned(),
        right: within.map(|_| "r".to_owned()),
        table: within.is_none().then(|| "r".to_owned()),
        on: vec!["k = key".to_owned()],
        within: within.map(Span),
        kind,
    }
}

fn read(batch: &RecordBatch) -> Vec<Out> {
    assert_eq!(batch.schema().field(4).name(), "right_id");
    let ids = batch.column(0).as_primitive::<Int64Type>();
    let times = batch.column(2).as_primitive::<TimestampMicrosecondType>();
    let names = batch.column(3).as_string::<i32>();
    let right = batch.column(4).as_primitive::<Int64Type>();
    (0..batch.num_rows())
        .map(|row| {
            assert_eq!(names.value(row), format!("l{}", ids.value(row)));
            let right = right.is_valid(row).then(|| right.value(row));
            (ids.value(row), right, times.value(row))
        })
        .collect()
}

/// Runs the steps, and one more in which both inputs end; gives the output by cycle.
fn run(steps: &[Step], spec: &JoinSpec, slices: u32, lanes: u32) -> Vec<Vec<Out>> {
    let Join { factory, left_keys, right_keys } =
        join(&left_schema(), &right_schema(), spec).unwrap();
    let parts = vec![Partition::Key(left_keys), Partition::Key(right_keys)];
    let mut trial = Trial::new(factory, parts, slices, lanes);
    let mut cycle = |(left, right, watermark): &Step, ended| {
        let left = left.iter().map(|rows| left_batch(rows)).collect();
        let right = right.iter().map(|rows| right_batch(rows)).collect();
        let out: Result<_, OperatorError> =
            trial.cycle(vec![left, right], Micros(*watermark), ended);
        out.unwrap().iter().flat_map(|(_, batch)| read(batch)).collect::<Vec<Out>>()
    };
    let mut out: Vec<Vec<Out>> = steps.iter().map(|step| cycle(step, false)).collect();
    out.push(cycle(&(vec![], vec![], i64::MAX), true));
    out
}

/// Nested loops over everything held: the rules of the stream join, written plainly.
fn stream_model(steps: &[Step], within: i64, kind: JoinKind) -> Vec<Vec<Out>> {
    stream_model_held(steps, within, kind).0
}

/// By cycle: left rows and whether they have met a partner, right rows.
type HeldRows = Vec<(Vec<(Row, bool)>, Vec<Row>)>;

/// The output and what is held after each cycle.
fn stream_model_held(steps: &[Step], within: i64, kind: JoinKind) -> (Vec<Vec<Out>>, HeldRows) {
    let mut held = Vec::new();
    let mut left: Vec<(Row, bool)> = Vec::new();
    let mut right: Vec<Row> = Vec::new();
    let pair = |l: &Row, r: &Row| {
        (l.1.is_some() && l.1 == r.1 && (l.2 - r.2).abs() <= within)
            .then(|| (l.0, Some(r.0), l.2.max(r.2)))
    };
    let mut out = Vec::new();
    let end = (vec![], vec![], i64::MAX);
    for (left_blocks, right_blocks, watermark) in steps.iter().chain([&end]) {
        let mut cycle = Vec::new();
        for l in left_blocks.iter().flatten() {
            let pairs: Vec<Out> = right.iter().filter_map(|r| pair(l, r)).collect();
            left.push((*l, !pairs.is_empty()));
            cycle.extend(pairs);
        }
        for r in right_blocks.iter().flatten() {
            for (l, matched) in &mut left {
                if let Some(out) = pair(l, r) {
                    *matched = true;
                    cycle.push(out);
                }
            }
            right.push(*r);
        }
        let past = |row: &Row| *watermark == i64::MAX || row.2 + within < *watermark;
        let mut alone: Vec<Row> = left
            .iter()
            .filter(|(row, matched)| past(row) && !matched && kind == JoinKind::Left)
            .map(|(row, _)| *row)
            .collect();
        alone.sort_by_key(|row| row.2);
        cycle.extend(alone.iter().map(|row| (row.0, None, row.2)));
        left.retain(|(row, _)| !past(row));
        right.retain(|row| !past(row));
        held.push((left.clone(), right.clone()));
        out.push(cycle);
    }
    (out, held)
}

fn moment(us: i64) -> String {
    format!("1970-01-01T00:00:00.{us:06}Z").replace(".000000", "")
}

fn table_model(steps: &[Step], kind: JoinKind) -> Vec<Vec<Out>> {
    let mut table: BTreeMap<i8, i64> = BTreeMap::new();
    let mut out = Vec::new();
    for (left, right, _) in steps {
        for (id, key, _) in right.iter().flatten() {
            key.map(|key| table.insert(key, *id));
        }
        let rows = left
            .iter()
            .flatten()
            .map(|(id, key, time)| (*id, key.and_then(|key| table.get(&key).copied()), *time));
        out.push(rows.filter(|row| row.1.is_some() || kind == JoinKind::Left).collect());
    }
    out.push(Vec::new());
    out
}

fn side(keys: i8) -> impl Strategy<Value = Vec<(bool, Option<i8>, i64)>> {
    let row = (any::<bool>(), prop::option::weighted(0.9, 0..keys), 0..40_i64);
    prop::collection::vec(row, 0..12)
}

/// Steps whose watermark trails the largest time by `lateness`, so that with a small one some
/// rows are late.
fn steps(keys: i8, lateness: i64) -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((side(keys), side(keys), 0..20_i64), 0..8).prop_map(move |cycles| {
        let (mut next, mut base, mut watermark) = (0, 0, i64::MIN + 1_000);
        let mut block = |rows: Vec<(bool, Option<i8>, i64)>, base: i64| {
            let mut blocks: Vec<Vec<Row>> = vec![Vec::new()];
            for (cut, key, time) in rows {
                if cut && blocks.last().is_some_and(|it| !it.is_empty()) {
                    blocks.push(Vec::new());
                }
                blocks.last_mut().unwrap().push((next, key, base + time));
                next += 1;
            }
            blocks
        };
        let mut steps = Vec::new();
        for (left, right, forward) in cycles {
            let (left, right) = (block(left, base), block(right, base));
            let high = left.iter().chain(&right).flatten().map(|row| row.2 - lateness).max();
            watermark = high.map_or(watermark, |high| watermark.max(high));
            base += forward;
            steps.push((left, right, watermark));
        }
        steps
    })
}

fn kinds() -> impl Strategy<Value = JoinKind> {
    prop_oneof![Just(JoinKind::Inner), Just(JoinKind::Left)]
}

fn sorted(cycles: &[Vec<Out>]) -> Vec<Vec<Out>> {
    let sort = |cycle: &Vec<Out>| {
        let mut cycle = cycle.clone();
        cycle.sort_unstable();
        cycle
    };
    cycles.iter().map(sort).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn one_slice_joins_streams_as_nested_loops_do(
        steps in steps(3, 10), within in 0..30_i64, kind in kinds(),
    ) {
        let out = run(&steps, &spec(Some(within), kind), 1, 1);
        prop_assert_eq!(out, stream_model(&steps, within, kind));
    }

    #[test]
    fn what_is_shown_are_the_rows_that_are_held(
        steps in steps(3, 10), within in 0..30_i64, kind in kinds(),
    ) {
        let made = join(&left_schema(), &right_schema(), &spec(Some(within), kind)).unwrap();
        let names = |nth: usize| tidemill_flow::columns_in_words(&made.factory.tables()[nth].schema);
        let utc = "Timestamp(µs, \"UTC\")";
        prop_assert_eq!(names(0), format!("id Int64, k Int32, l Utf8, __event_time {utc}, __matched Boolean"));
        prop_assert_eq!(names(1), format!("k Int64, right_id Int64, __event_time {utc}"));
        let parts = vec![Partition::Key(made.left_keys), Partition::Key(made.right_keys)];
        let mut trial = Trial::new(made.factory, parts, 1, 1);
        let (_, held) = stream_model_held(&steps, within, kind);
        for ((left, right, watermark), (left_held, right_held)) in steps.iter().zip(held) {
            let left = left.iter().map(|rows| left_batch(rows)).collect();
            let right = right.iter().map(|rows| right_batch(rows)).collect();
            trial.cycle(vec![left, right], Micros(*watermark), false).unwrap();
            let key = |key: Option<i8>| key.map_or("null".to_owned(), |key| key.to_string());
            let wanted = left_held.iter().map(|((id, k, time), matched)| {
                format!("{id} {} l{id} {} {matched}", key(*k), moment(*time))
            });
            prop_assert_eq!(shown(&mut trial, 0), wanted.collect::<Vec<_>>());
            let wanted = right_held.iter().map(|(id, k, time)| {
                format!("{} {id} {}", key(*k), moment(*time))
            });
            prop_assert_eq!(shown(&mut trial, 1), wanted.collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_table_shows_the_last_row_of_each_key(steps in steps(6, 10), kind in kinds()) {
        let made = join(&left_schema(), &right_schema(), &spec(None, kind)).unwrap();
        let parts = vec![Partition::Key(made.left_keys), Partition::Key(made.right_keys)];
        let mut trial = Trial::new(made.factory, parts, 4, 2);
        let mut table: BTreeMap<i8, i64> = BTreeMap::new();
        for (left, right, watermark) in &steps {
            for (id, key, _) in right.iter().flatten() {
                key.map(|key| table.insert(key, *id));
            }
            let left = left.iter().map(|rows| left_batch(rows)).collect();
            let right = right.iter().map(|rows| right_batch(rows)).collect();
            trial.cycle(vec![left, right], Micros(*watermark), false).unwrap();
            let mut shown = shown(&mut trial, 0);
            shown.sort();
            let wanted = table.iter().map(|(key, id)| format!("{key} {id}"));
            prop_assert_eq!(shown, wanted.collect::<Vec<_>>());
        }
    }

    #[test]
    fn lanes_do_not_show_in_a_join_of_streams(
        steps in steps(6, 10), within in 0..30_i64, kind in kinds(),
    ) {
        let spec = spec(Some(within), kind);
        let one = run(&steps, &spec, 7, 1);
        prop_assert_eq!(&one, &run(&steps, &spec, 7, 3));
        prop_assert_eq!(&one, &run(&steps, &spec, 7, 7));
        prop_assert_eq!(sorted(&one), sorted(&stream_model(&steps, within, kind)));
    }

    /// Without late rows, the pairs are the same however the input is cut into cycles.
    #[test]
    fn cuts_do_not_show_in_the_pairs(
        mut steps in steps(3, 400), within in 0..30_i64, kind in kinds(),
    ) {
        let all = |steps: &[Step]| {
            let mut rows = run(steps, &spec(Some(within), kind), 4, 2).concat();
            rows.sort_unstable();
            rows
        };
        let fine = all(&steps);
        let mut coarse: Vec<Step> = Vec::new();
        while let Some((left, right, watermark)) = steps.pop() {
            match coarse.first_mut() {
                Some(step) if steps.len() % 3 > 0 => {
                    step.0.splice(0..0, left);
                    step.1.splice(0..0, right);
                }
                _ => coarse.insert(0, (left, right, watermark)),
            }
        }
        prop_assert_eq!(fine, all(&coarse));
    }

    #[test]
    fn a_table_gives_the_last_row_of_each_key(steps in steps(6, 10), kind in kinds()) {
        let spec = spec(None, kind);
        prop_assert_eq!(run(&steps, &spec, 1, 1), table_model(&steps, kind));
        let one = run(&steps, &spec, 7, 1);
        prop_assert_eq!(&one, &run(&steps, &spec, 7, 3));
        prop_assert_eq!(&one, &run(&steps, &spec, 7, 7));
        prop_assert_eq!(sorted(&one), sorted(&table_model(&steps, kind)));
    }
}

#[test]
fn many_pairs_leave_in_several_batches() {
    let rows = |from: i64| (from..from + 400).map(|id| (id, Some(1), 0)).collect::<Vec<Row>>();
    let steps: Vec<Step> = vec![(vec![rows(0)], vec![rows(1_000)], 0)];
    for within in [Some(0), None] {
        let out = run(&steps, &spec(within, JoinKind::Left), 3, 1);
        let wanted = if within.is_some() { 160_000 } else { 400 };
        assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), vec![wanted, 0]);
    }
}

#[test]
fn a_right_side_of_keys_alone_adds_no_columns() {
    let keys = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8View, true),
        Field::new(TIME_COLUMN, utc(), false),
    ]));
    let left = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new(TIME_COLUMN, utc(), false),
    ]));
    let times: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from(vec![1, 2]).with_timezone("UTC"));
    let left_keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let right_keys: ArrayRef =
        Arc::new(arrow_array::StringViewArray::from(vec!["b", "a long key, out of line"]));
    for within in [Some(Span(5)), None] {
        let mut spec = spec(within.map(|it| it.0), JoinKind::Left);
        spec.on = vec!["k".to_owned()];
        let made = join(&left, &keys, &spec).unwrap();
        assert_eq!(made.factory.outputs(), vec![Arc::clone(&left)]);
        let parts = vec![Partition::Key(made.left_keys), Partition::Key(made.right_keys)];
        let mut trial = Trial::new(made.factory, parts, 3, 1);
        let batch = |schema: &SchemaRef, keys: &ArrayRef| {
            let columns = vec![Arc::clone(keys), Arc::clone(&times)];
            vec![RecordBatch::try_new(Arc::clone(schema), columns).unwrap()]
        };
        let input = vec![batch(&left, &left_keys), batch(&keys, &right_keys)];
        let out = trial.cycle(input, Micros(0), true).unwrap();
        assert_eq!(out.iter().map(|(_, batch)| batch.num_rows()).sum::<usize>(), 2);
    }
}

#[test]
fn names_of_the_right_that_the_left_has_are_prefixed() {
    let field = |name: &str| Field::new(name, DataType::Int64, false);
    let left = Arc::new(Schema::new(vec![field("k"), field("a"), field("right_a")]));
    let right = Arc::new(Schema::new(vec![field("k"), field("a"), field("b"), field("right_b")]));
    let mut spec = spec(None, JoinKind::Left);
    spec.on = vec!["k".to_owned()];
    let schema = join(&left, &right, &spec).unwrap().factory.outputs().remove(0);
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, vec!["k", "a", "right_a", "right_right_a", "b", "right_b"]);
    assert!(schema.field(4).is_nullable() && !schema.field(1).is_nullable());
}

/// Both sides may be results of joins themselves.
#[test]
fn no_two_columns_are_called_the_same() {
    let spec = JoinSpec { on: vec!["k".to_owned()], ..spec(None, JoinKind::Inner) };
    let side = |names: &[&str]| -> SchemaRef {
        let field = |name: &&str| Field::new(*name, DataType::Int64, false);
        Arc::new(Schema::new(names.iter().map(field).collect::<Vec<_>>()))
    };
    for (names, expected) in [
        (["k", "v", "right_v"], ["k", "v", "right_v", "right_right_v", "right_right_right_v"]),
        (["k", "right_v", "v"], ["k", "right_v", "v", "right_right_v", "right_right_right_v"]),
    ] {
        let made = join(&side(&names), &side(&names), &spec).unwrap();
        let schema = made.factory.outputs().remove(0);
        let written: Vec<&str> = schema.fields().iter().map(|it| it.name().as_str()).collect();
        assert_eq!(written, expected);
    }
}

#[test]
fn numbers_of_any_width_meet() {
    let schema = |data_type| {
        Arc::new(Schema::new(vec![
            Field::new("k", data_type, true),
            Field::new(TIME_COLUMN, utc(), false),
        ]))
    };
    let (left, right) = (schema(DataType::Int64), schema(DataType::UInt64));
    let mut spec = spec(Some(0), JoinKind::Inner);
    spec.on = vec!["k".to_owned()];
    let made = join(&left, &right, &spec).unwrap();
    let times: ArrayRef =
        Arc::new(TimestampMicrosecondArray::from(vec![1, 1]).with_timezone("UTC"));
    // -1 and the largest unsigned number have the same bits, and are not equal.
    let signed: ArrayRef = Arc::new(Int64Array::from(vec![-1, 7]));
    let unsigned: ArrayRef = Arc::new(arrow_array::UInt64Array::from(vec![u64::MAX, 7]));
    let batch = |schema: &SchemaRef, keys| {
        vec![RecordBatch::try_new(Arc::clone(schema), vec![keys, Arc::clone(&times)]).unwrap()]
    };
    let parts = vec![Partition::Key(made.left_keys), Partition::Key(made.right_keys)];
    let mut trial = Trial::new(made.factory, parts, 4, 2);
    let input = vec![batch(&left, signed), batch(&right, unsigned)];
    let out = trial.cycle(input, Micros(0), true).unwrap();
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].1.column(0).as_primitive::<Int64Type>().values().to_vec(), vec![7]);
}

#[test]
fn mistakes_are_refused() {
    let message = |change: &dyn Fn(&mut JoinSpec)| {
        let mut spec = spec(Some(5), JoinKind::Inner);
        change(&mut spec);
        join(&left_schema(), &right_schema(), &spec).unwrap_err().to_string()
    };
    let on = |on: &'static str| message(&move |spec| spec.on = vec![on.to_owned()]);
    assert_eq!(on("kk=key"), "in `on`, left side: unknown column `kk`; did you mean `k`?");
    assert_eq!(on("k = keys"), "in `on`, right side: unknown column `keys`; did you mean `key`?");
    assert_eq!(
        on("l = key"),
        "in `on`: the left `l` is Utf8, but the right `key` is Int64; make them the same with \
         `cast` in a `select` before the join"
    );
    assert!(message(&|spec| spec.on.clear()).starts_with("`on` is empty"));
    assert!(message(&|spec| spec.within = None).contains("needs `within`"));
    assert!(message(&|spec| spec.within = Some(Span(-1))).contains("must not be negative"));
    assert!(message(&|spec| spec.right = None).contains("either `right`"));
    assert!(message(&|spec| spec.table = Some("t".to_owned())).contains("either `right`"));
    assert!(
        message(&|spec| spec.table = spec.right.take()).contains("`within` is for two streams")
    );
    let timeless = Arc::new(Schema::new(vec![Field::new("key", DataType::Int64, true)]));
    let error = join(&left_schema(), &timeless, &spec(Some(5), JoinKind::Inner)).unwrap_err();
    assert_eq!(error, JoinError::NoTime(Side::Right));
}

#[test]
fn only_a_left_join_of_streams_holds_event_time_back() {
    let held_back = |within, kind| {
        join(&left_schema(), &right_schema(), &spec(within, kind)).unwrap().factory.holds_back()
    };
    assert_eq!(held_back(Some(7), JoinKind::Left), Span(7));
    assert_eq!(held_back(Some(7), JoinKind::Inner), Span(0));
    assert_eq!(held_back(None, JoinKind::Left), Span(0));
}

#[test]
fn other_columns_that_are_held_are_another_join() {
    let schema = |name: &str, kind| {
        let key = Field::new("k", DataType::Int64, false);
        Arc::new(Schema::new(vec![key, Field::new(name, kind, false)]))
    };
    let does = |right: &SchemaRef| {
        let spec = JoinSpec { on: vec!["k".to_owned()], ..spec(None, JoinKind::Inner) };
        join(&schema("a", DataType::Int64), right, &spec).unwrap().factory.does()
    };
    let one = does(&schema("b", DataType::Int64));
    assert_eq!(one, does(&schema("b", DataType::Int64)));
    assert_ne!(one, does(&schema("c", DataType::Int64)));
    assert_ne!(one, does(&schema("b", DataType::Utf8)));
}
