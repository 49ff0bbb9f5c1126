//! Stages over rows, some of which are refused, against the same stages over the others alone.

use super::*;
use crate::{top::top, transform::transform, window::windowed};
use arrow_array::{ArrayRef, Int64Array, TimestampMicrosecondArray};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use proptest::prelude::*;
use tidemill_flow::{DeadLetter, OperatorFactory, Partition, trial::Trial};
use tidemill_types::{
    Micros, Span,
    job::{CountWindow, EmptySpec, FlatMapSpec, Named, TopSpec, WindowSpec},
};

/// Number, key, what is divided by, and time.
type Row = (i64, i64, Option<i64>, i64);
/// Blocks of each cycle.
type Cycles = Vec<Vec<Vec<Row>>>;

fn schema() -> SchemaRef {
    let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    let number = |name, nullable| Field::new(name, DataType::Int64, nullable);
    let fields = [number("id", false), number("k", false), number("v", true)];
    let fields = fields.into_iter().chain([Field::new(TIME_COLUMN, utc, false)]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let ints = |of: fn(&Row) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values(rows.iter().map(of)))
    };
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|it| it.3));
    let divisors: ArrayRef = Arc::new(rows.iter().map(|it| it.2).collect::<Int64Array>());
    let columns =
        vec![ints(|it| it.0), ints(|it| it.1), divisors, Arc::new(times.with_timezone("UTC"))];
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

fn named(columns: &[(&str, &str)]) -> Named<String> {
    columns.iter().map(|(name, sql)| ((*name).to_owned(), (*sql).to_owned())).collect()
}

/// Stages with an expression that has no value where `v` is 0: what names it, and the stage.
fn stages() -> Vec<(&'static str, Arc<dyn OperatorFactory>, Partition)> {
    let (schema, by_key) = (schema(), Partition::Key(vec![1]));
    let select = named(&[("id", "id"), ("x", "60 / v")]);
    let made = transform(&schema, None, None, Some(&select)).expect("right");
    let mut stages = vec![("`select.x`", made, by_key.clone())];
    let made = transform(&schema, None, Some("60 / v > 10"), None).expect("right");
    stages.push(("`where`", made, by_key.clone()));
    let aggregate = named(&[("n", "count(*)"), ("sum", "sum(60 / v)"), ("last", "last(id)")]);
    let windows = [
        WindowSpec::Tumbling(Span(10)),
        WindowSpec::Session(Span(3)),
        WindowSpec::Count(CountWindow { size: 4, every: 2 }),
        WindowSpec::Global(EmptySpec {}),
    ];
    for window in &windows {
        let made = windowed(&schema, &["k".to_owned()], Some(window), &aggregate);
        stages.push(("`60 / v`", made.expect("right"), by_key.clone()));
    }
    let spec =
        TopSpec { k: 3, by: "60 / v".to_owned(), ascending: false, per: vec!["k".to_owned()] };
    let made = top(&schema, &spec).expect("right");
    stages.push(("`by`", made.factory, made.partition));
    stages
}

/// What comes out, row by row, and the dead letters in the order in which they are written.
fn run(
    (factory, partition): (&Arc<dyn OperatorFactory>, &Partition),
    cycles: &Cycles,
    lanes: u32,
) -> (Vec<String>, Vec<DeadLetter>) {
    let mut trial = Trial::new(Arc::clone(factory), vec![partition.clone()], 4, lanes);
    let mut written = Vec::new();
    for (nth, blocks) in cycles.iter().enumerate() {
        let blocks = blocks.iter().map(|rows| batch(rows)).collect();
        let watermark = Micros(10 * nth as i64);
        let ended = nth + 1 == cycles.len();
        let watermark = if ended { Micros::MAX } else { watermark };
        for (port, batch) in trial.cycle(vec![blocks], watermark, ended).expect("no row fails it") {
            let options = FormatOptions::new().with_null("null");
            let cells: Vec<ArrayFormatter<'_>> = (0..batch.num_columns())
                .map(|it| ArrayFormatter::try_new(batch.column(it), &options).expect("a text"))
                .collect();
            written.extend((0..batch.num_rows()).map(|row| {
                let cells: Vec<String> = cells.iter().map(|it| it.value(row).to_string()).collect();
                format!("{nth} {port}: {}", cells.join(" "))
            }));
        }
    }
    let mut letters = trial.letters;
    letters.sort_by_key(|it| (it.cycle, it.slice));
    (written, letters)
}

fn cycles() -> impl Strategy<Value = Cycles> {
    let row =
        (0..5_i64, prop_oneof![Just(Some(0)), (1..9_i64).prop_map(Some), Just(None)], 0..40_i64);
    let block = prop::collection::vec(row, 0..12);
    let cycles = prop::collection::vec(prop::collection::vec(block, 0..4), 1..5);
    cycles.prop_map(|cycles| {
        let mut id = 0;
        let mut numbered = |(k, v, time)| {
            id += 1;
            (id, k, v, time)
        };
        let mut block = |rows: Vec<_>| rows.into_iter().map(&mut numbered).collect();
        let mut cycle = |blocks: Vec<_>| blocks.into_iter().map(&mut block).collect();
        cycles.into_iter().map(&mut cycle).collect()
    })
}

proptest! {
    #[test]
    fn refused_rows_are_dead_letters_and_the_others_go_on(cycles in cycles(), lanes in 1..5_u32) {
        let fits = |row: &Row| row.2 != Some(0);
        let others: Cycles = cycles
            .iter()
            .map(|blocks| {
                let block = |rows: &Vec<Row>| rows.iter().copied().filter(fits).collect();
                blocks.iter().map(block).collect()
            })
            .collect();
        let rows = |it: &Row| !fits(it);
        let refused: Vec<i64> =
            cycles.iter().flatten().flatten().copied().filter(rows).map(|it| it.0).collect();
        for (part, factory, partition) in stages() {
            let stage = (&factory, &partition);
            let (written, letters) = run(stage, &cycles, lanes);
            let (alone, none) = run(stage, &others, lanes);
            prop_assert_eq!(&written, &alone, "{}", part);
            prop_assert!(none.is_empty());
            let mut ids = Vec::new();
            for letter in &letters {
                prop_assert_eq!(&letter.reason, &format!("{part}: Divide by zero error"));
                let text = std::str::from_utf8(&letter.record).unwrap();
                let id = text.strip_prefix("{\"id\":").and_then(|it| it.split_once(','));
                let (id, rest) = id.expect("the record as JSON");
                prop_assert!(rest.ends_with(",\"v\":0}"), "{}", text);
                ids.push(id.parse::<i64>().unwrap());
            }
            ids.sort_unstable();
            prop_assert_eq!(&ids, &refused, "{}", part);
            prop_assert_eq!(letters, run(stage, &cycles, 1).1, "lanes show");
        }
    }
}

#[test]
fn an_expression_that_has_a_value_for_no_row_refuses_each() {
    let (schema, by_key) = (schema(), Partition::Key(vec![1]));
    for sql in
        ["1 / 0", "k + 1 / 0", "date_trunc('day', to_timestamp(k + 9000000000000000000 / (k - k)))"]
    {
        let calls = named(&[("n", "count(*)"), ("most", &format!("max({sql})"))]);
        let by = format!("case when k >= 0 then {sql} end");
        let spec = TopSpec { k: 3, by, ascending: false, per: vec!["k".to_owned()] };
        let flat_map =
            FlatMapSpec { unnest: format!("make_array({sql})"), name: "part".to_owned() };
        let mut stages = vec![
            transform(&schema, None, None, Some(&named(&[("x", sql)]))).expect(sql),
            transform(&schema, None, Some(&format!("nullif({sql}, {sql}) is null")), None)
                .expect(sql),
            transform(&schema, Some(&flat_map), None, None).expect(sql),
            top(&schema, &spec).expect(sql).factory,
        ];
        for window in [WindowSpec::Tumbling(Span(10)), WindowSpec::Session(Span(3))] {
            let key = ["k".to_owned()];
            stages.push(windowed(&schema, &key, Some(&window), &calls).expect(sql));
        }
        for factory in stages {
            let rows = vec![vec![(1, 1, None, 5), (2, 2, None, 5)], vec![(3, 1, None, 6)]];
            let (written, letters) = run((&factory, &by_key), &vec![rows], 2);
            assert!(written.is_empty(), "{sql}: {written:?}");
            assert_eq!(letters.len(), 3, "{sql}");
        }
    }
}

#[test]
fn a_row_is_named_by_its_place_in_the_slice() {
    let select = named(&[("x", "60 / v")]);
    let factory = transform(&schema(), None, None, Some(&select)).expect("right");
    let mut trial = Trial::new(factory, vec![Partition::Local], 1, 1);
    let rows = |divisors: &[i64]| {
        let rows: Vec<Row> = divisors.iter().map(|it| (7, 1, Some(*it), 5)).collect();
        batch(&rows)
    };
    trial.cycle(vec![vec![rows(&[1, 0]), rows(&[2, 3, 0])]], Micros(0), false).expect("it runs");
    let positions: Vec<&str> = trial.letters.iter().map(|it| it.position.as_str()).collect();
    assert_eq!(positions, ["slice 0, row 1", "slice 0, row 4"]);
    assert_eq!(trial.letters[0].record, br#"{"id":7,"k":1,"v":0}"#);
}

/// The right side of `and` is left out only if the left one decides all rows at once, which must not
/// show: such an expression has a value for each row.
#[test]
fn a_guard_fails_no_batch() {
    let (schema, by_key) = (schema(), Partition::Key(vec![1]));
    let guards = [
        "v <> 0 and 10 / v > 1",
        "not (v = 0 or 10 / v <= 1)",
        "case when v <> 0 then 10 / v > 1 else false end",
        "v > -1 and (v = 0 or 10 / v > 1) and not v = 0",
        "v in (2, 3, 4, 5) or v between 9 and sqrt(v)",
        "case when v = 0 then false else id in (id + 1 + 10 / v, 0, id) and 10 / v > 1 end",
    ];
    let rows = |numbers: std::ops::Range<i64>| -> Vec<Row> {
        numbers.map(|it| (it, it % 3, (it % 7 != 6).then_some(it % 6), 5)).collect()
    };
    let cycles = vec![vec![rows(0..20), rows(20..21), rows(21..50)]];
    let alone = cycles.iter().flatten().flatten().map(|row| vec![vec![*row]]).collect();
    for sql in guards {
        let made = transform(&schema, None, Some(sql), Some(&named(&[("id", "id")]))).expect(sql);
        let ids = |cycles| {
            let (written, letters) = run((&made, &by_key), cycles, 2);
            assert!(letters.is_empty(), "{sql}: {letters:?}");
            let id = |it: &String| it.rsplit_once(": ").expect("an id").1.to_owned();
            let mut ids: Vec<String> = written.iter().map(id).collect();
            ids.sort();
            ids
        };
        assert_eq!(ids(&cycles), ids(&alone), "{sql}");
        let aggregate = named(&[("n", &format!("count(*) filter (where {sql})"))]);
        let windows = [WindowSpec::Tumbling(Span(10)), WindowSpec::Global(EmptySpec {})];
        for window in &windows {
            let made = windowed(&schema, &["k".to_owned()], Some(window), &aggregate).expect(sql);
            let (written, letters) = run((&made, &by_key), &cycles, 2);
            assert!(letters.is_empty(), "{sql}: {letters:?}");
            assert_eq!(written.len(), 3, "{sql}: {written:?}");
        }
        let spec =
            TopSpec { k: 50, by: sql.to_owned(), ascending: false, per: vec!["k".to_owned()] };
        let made = top(&schema, &spec).expect(sql).factory;
        let (written, letters) = run((&made, &by_key), &cycles, 2);
        assert!(letters.is_empty(), "{sql}: {letters:?}");
        assert_eq!(written.len(), 50, "{sql}");
    }
    // Rows that fail alone do so beside others that are guarded.
    let sql = "v = 1 or 60 / (v - 2) > 0";
    let made = transform(&schema, None, Some(sql), None).expect(sql);
    let (written, letters) = run((&made, &by_key), &cycles, 2);
    let of = |v| cycles[0].iter().flatten().filter(|row| row.2 == Some(v)).count();
    assert_eq!(letters.len(), of(2));
    assert_eq!(written.len(), of(1) + of(3) + of(4) + of(5));
}

/// A part of a list's rows has the values of all of them in memory.
#[test]
fn a_list_that_has_no_value_takes_no_other_row_along() {
    use arrow_array::{ListArray, types::Int64Type};
    use tidemill_sql::Expr;
    let lists = [Some(vec!["1"]), Some(vec!["2", "3"]), Some(vec!["a"]), Some(vec![]), None];
    let mut builder =
        arrow_array::builder::ListBuilder::new(arrow_array::builder::StringBuilder::new());
    for list in lists.iter().chain(&[Some(vec!["4"])]) {
        match list {
            Some(texts) => builder.append_value(texts.iter().map(|it| Some(*it))),
            None => builder.append_null(),
        }
    }
    let lists: ListArray = builder.finish();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..6));
    let columns = [("id", ids, false), ("w", Arc::new(lists) as ArrayRef, true)];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length");
    for sql in ["w::bigint[]", "array_sum(w::bigint[])", "array_concat([1], w::bigint[])"] {
        let expr = Expr::compile(sql, &batch.schema()).expect(sql);
        let evaluate = |part: &RecordBatch| {
            beside(
                vec![
                    Arc::clone(part.column(0)),
                    expr.evaluate(part).map_err(crate::lane::no_value)?,
                ],
                part.num_rows(),
            )
        };
        // Also where the batch is itself a part.
        let cases: [(usize, usize, &[i64]); 4] =
            [(0, 6, &[0, 1, 3, 4, 5]), (1, 5, &[1, 3, 4, 5]), (3, 3, &[3, 4, 5]), (5, 1, &[5])];
        for (first, rows, kept) in cases {
            let part = batch.slice(first, rows);
            let divided = SplitBatch::new(&part, &evaluate).expect("rows that have values");
            let ids = divided.made.column(0);
            let ids = arrow_array::cast::AsArray::as_primitive::<Int64Type>(ids).values();
            assert_eq!(ids, kept, "{sql}");
            let refused: Vec<usize> = divided.refused.into_keys().collect();
            let expected: Vec<usize> = if first < 3 { vec![2 - first] } else { Vec::new() };
            assert_eq!(refused, expected, "{sql}");
        }
    }
}
