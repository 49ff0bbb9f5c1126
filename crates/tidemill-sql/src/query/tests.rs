//! Queries against what the rows themselves say.

mod admission;
mod bounds;
mod operands;
mod times;

use super::{Query, QueryError, RunningQuery};
use arrow_array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array, cast::AsArray,
    types::Int64Type,
};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::take::take_record_batch;
use std::sync::Arc;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("n", DataType::Int64, true),
        Field::new("Mean", DataType::Float64, true),
        Field::new("__slice", DataType::UInt32, false),
    ]))
}

/// `k0`, 0, 0.0, slice 0; `k1`, 1, 0.5 … each tenth `n` is null.
fn batches(rows: i64, at_once: usize) -> Vec<RecordBatch> {
    let all: Vec<i64> = (0..rows).collect();
    let batch = |rows: &[i64]| {
        let keys: ArrayRef =
            Arc::new(StringArray::from_iter_values(rows.iter().map(|n| format!("k{}", n % 7))));
        let n: ArrayRef =
            Arc::new(rows.iter().map(|n| (n % 10 != 9).then_some(*n)).collect::<Int64Array>());
        let mean: ArrayRef =
            Arc::new(rows.iter().map(|n| Some(*n as f64 / 2.0)).collect::<Float64Array>());
        let slice: ArrayRef =
            Arc::new(rows.iter().map(|n| Some(*n as u32 / 30)).collect::<UInt32Array>());
        RecordBatch::try_new(schema(), vec![keys, n, mean, slice]).unwrap()
    };
    all.chunks(at_once).map(batch).collect()
}

fn tables() -> Vec<(String, SchemaRef)> {
    let other = Schema::new(vec![Field::new("value", DataType::Int64, true)]);
    vec![("state".to_owned(), schema()), ("other".to_owned(), Arc::new(other))]
}

fn ask_of(sql: &str, batches: Vec<RecordBatch>) -> Result<Vec<String>, QueryError> {
    let query = Query::compile(sql, &tables())?;
    lines(query.run(100_000)?, batches)
}

/// The lines of an answer to rows.
fn lines(
    mut running: RunningQuery<'_>,
    batches: Vec<RecordBatch>,
) -> Result<Vec<String>, QueryError> {
    let schema = running.schema();
    for batch in batches {
        if running.push(batch)?.is_break() {
            break;
        }
    }
    let mut lines = Vec::new();
    for batch in running.finish()? {
        assert_eq!(batch.schema(), schema);
        let options = FormatOptions::new().with_null("null");
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|it| ArrayFormatter::try_new(it.as_ref(), &options).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> = columns.iter().map(|it| it.value(row).to_string()).collect();
            lines.push(cells.join(" "));
        }
    }
    Ok(lines)
}

fn ask(sql: &str) -> Vec<String> {
    ask_of(sql, batches(100, 13)).unwrap()
}

fn refused(sql: &str) -> super::ExprError {
    Query::compile(sql, &tables()).unwrap_err()
}

#[test]
fn rows_are_filtered_projected_and_limited() {
    assert_eq!(
        ask("SELECT key, n + 1 AS m FROM state WHERE n BETWEEN 3 AND 5"),
        ["k3 4", "k4 5", "k5 6"]
    );
    assert_eq!(ask("SELECT * FROM state LIMIT 2 OFFSET 29"), ["k1 null 14.5 0", "k2 30 15.0 1"]);
    assert_eq!(ask(r#"SELECT "Mean" FROM state WHERE Mean > 49"#), ["49.5"]);
    assert_eq!(
        ask("SELECT coalesce(n, -1) c, upper(key) FROM state WHERE n IS NULL LIMIT 1"),
        ["-1 K2"]
    );
    assert!(ask("SELECT key FROM state WHERE n > 1000").is_empty());
}

#[test]
fn groups_come_in_the_order_of_their_first_row() {
    assert_eq!(
        ask(
            "SELECT key, count(*) AS c, sum(n), min(n), max(\"Mean\") FROM state WHERE n < 30 GROUP BY key"
        ),
        [
            "k0 5 70 0 14.0",
            "k1 4 46 1 11.0",
            "k2 3 41 2 11.5",
            "k3 4 54 3 12.0",
            "k4 4 58 4 12.5",
            "k5 3 43 5 13.0",
            "k6 4 66 6 13.5",
        ]
    );
    assert_eq!(ask("SELECT DISTINCT __slice FROM state"), ["0", "1", "2", "3"]);
    assert_eq!(
        ask("SELECT __slice, count(n) FROM state GROUP BY __slice HAVING count(n) < 20"),
        ["3 9"]
    );
}

#[test]
fn an_aggregate_without_groups_is_one_row_even_over_nothing() {
    assert_eq!(ask("SELECT count(*), count(n), sum(n), avg(n) FROM state"), ["100 90 4410 49.0"]);
    assert_eq!(
        ask("SELECT count(*), sum(n), count(DISTINCT key) FROM state WHERE n < 0"),
        ["0 null 0"]
    );
    assert_eq!(ask_of("SELECT count(*) FROM state", Vec::new()).unwrap(), ["0"]);
    assert!(ask_of("SELECT key, count(*) FROM state GROUP BY key", Vec::new()).unwrap().is_empty());
    assert_eq!(
        ask("SELECT count(DISTINCT key), count(*) FILTER (WHERE n > 90) FROM state"),
        ["7 8"]
    );
    assert_eq!(
        ask("SELECT approx_percentile_cont(0.5) WITHIN GROUP (ORDER BY n) > 40 FROM state"),
        ["true"]
    );
}

#[test]
fn order_is_stable_and_knows_nulls() {
    assert_eq!(ask("SELECT n FROM state ORDER BY n DESC LIMIT 3"), ["null", "null", "null"]);
    assert_eq!(ask("SELECT n FROM state ORDER BY n DESC NULLS LAST LIMIT 2"), ["98", "97"]);
    assert_eq!(
        ask("SELECT key, \"Mean\" FROM state ORDER BY key DESC LIMIT 2 OFFSET 1"),
        ["k6 6.5", "k6 10.0"]
    );
    assert_eq!(
        ask("SELECT key, sum(n) AS s FROM state GROUP BY key ORDER BY s DESC LIMIT 1"),
        ask(
            "SELECT key, s FROM (SELECT key, sum(n) AS s FROM state GROUP BY key) ORDER BY s DESC LIMIT 1"
        )
    );
    assert_eq!(ask("SELECT n AS m FROM state ORDER BY \"Mean\" LIMIT 1"), ["0"]);
}

#[test]
fn how_rows_are_cut_into_batches_does_not_show() {
    for sql in [
        "SELECT key, avg(n), count(DISTINCT __slice) FROM state GROUP BY key ORDER BY 2",
        "SELECT * FROM state ORDER BY key, n DESC LIMIT 17 OFFSET 3",
        "WITH big AS (SELECT * FROM state WHERE n > 20) SELECT DISTINCT key FROM big",
    ] {
        let whole = ask_of(sql, batches(100, 1_000)).unwrap();
        for at_once in [1, 7, 64] {
            assert_eq!(ask_of(sql, batches(100, at_once)).unwrap(), whole, "{sql}");
        }
    }
}

#[test]
fn a_sort_with_a_limit_lets_go_of_what_is_not_wanted() {
    let query = Query::compile("SELECT n FROM state ORDER BY n LIMIT 3", &tables()).unwrap();
    let mut running = query.run(10).unwrap();
    // Descending, so that what is wanted comes last.
    for batch in batches(300_000, 10_000).into_iter().rev() {
        let descending = UInt32Array::from_iter_values((0..batch.num_rows() as u32).rev());
        let batch = take_record_batch(&batch, &descending).unwrap();
        assert!(running.push(batch).unwrap().is_continue());
    }
    let held = running.bytes();
    assert!(held < 4 << 20, "{held} bytes");
    let answer = running.finish().unwrap();
    let (rows, expected) = (answer[0].column(0), Int64Array::from(vec![0, 1, 2]));
    assert_eq!((answer.len(), rows.as_primitive::<Int64Type>()), (1, &expected));
}

#[test]
fn a_limit_ends_reading_and_a_large_answer_is_refused() {
    let query = Query::compile("SELECT n FROM state LIMIT 20", &tables()).unwrap();
    let mut running = query.run(100).unwrap();
    let all = batches(100, 13);
    assert!(running.push(all[0].clone()).unwrap().is_continue());
    assert!(running.push(all[1].clone()).unwrap().is_break());
    let query = Query::compile("SELECT n FROM state", &tables()).unwrap();
    let mut running = query.run(20).unwrap();
    assert!(running.push(all[0].clone()).unwrap().is_continue());
    assert!(matches!(running.push(all[1].clone()), Err(QueryError::Rows(20))));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let error = refused("SELECT key\nFROM state WHERE kex = 1");
    assert!(error.message.contains("kex"), "{error}");
    assert_eq!((error.line, error.column), (2, 18));
    let error = refused("SELECT key FROM state WHERE");
    assert_eq!((error.line, error.message.contains("EOF")), (1, true), "{error}");
    let error = refused("SELECT key FROM sate");
    assert!(
        error.message.contains("`sate`") && error.message.contains("`state`, `other`"),
        "{error}"
    );
    assert!(refused("SELECT foo(key) FROM state").message.contains("foo"));
    assert!(refused("SELECT key + 1 FROM state WHERE true AND key").message.len() > 5);
    assert!(refused("SELECT FROM state").message.contains("no columns"));
    assert!(refused("SELECT 1").message.contains("FROM"));
    assert!(refused("DELETE FROM state").message.contains("SELECT"));
    assert!(refused("SELECT 1 FROM state; SELECT 2 FROM state").message.contains("one statement"));
    assert!(refused("SELECT random() FROM state").message.contains("random"));
    for (sql, what) in [
        ("SELECT a.key FROM state a JOIN state b ON a.key = b.key", "joins"),
        ("SELECT key FROM state UNION ALL SELECT key FROM state", "unions"),
        ("SELECT key FROM state WHERE n = (SELECT max(n) FROM state)", "subqueries within"),
        ("SELECT key FROM state WHERE n IN (SELECT n FROM state)", "subqueries within"),
        ("SELECT key FROM state WHERE EXISTS (SELECT n FROM state)", "subqueries within"),
        ("SELECT (SELECT max(n) FROM state) AS m FROM state", "subqueries within"),
        ("SELECT key FROM state WHERE n > ANY (SELECT n FROM state)", "subqueries within"),
        ("SELECT count(*) FROM state GROUP BY CUBE (key, n)", "grouping"),
    ] {
        assert!(refused(sql).message.contains(what), "{sql}: {}", refused(sql));
    }
    let failing = ask_of("SELECT 1 / n FROM state", batches(3, 3));
    assert!(failing.unwrap_err().to_string().to_lowercase().contains("zero"));
}

#[test]
fn no_column_of_an_answer_has_the_name_of_the_hidden_time() {
    let error = refused("SELECT n AS __time FROM state");
    assert!(error.message.contains("`__time`"), "{error}");
    assert!(error.expected.unwrap().contains("AS"));
    assert_eq!(ask("SELECT __time + 1 AS t FROM (SELECT n AS __time FROM state) LIMIT 1"), ["1"]);
}

#[test]
fn the_table_is_the_one_that_is_named() {
    assert_eq!(Query::compile("SELECT value FROM other", &tables()).unwrap().table(), 1);
    let query = Query::compile("SELECT count(*) AS c, max(key) FROM state s", &tables()).unwrap();
    let names: Vec<_> = query.schema().fields().iter().map(|it| it.name().clone()).collect();
    assert_eq!(names, ["c", "max(s.key)"]);
}

#[test]
fn there_is_one_zero_and_one_nan_to_group_and_order_by() {
    let rows = |means: &[f64]| {
        let count = means.len() as i64;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values((0..count).map(|n| format!("k{n}")))),
            Arc::new(Int64Array::from_iter_values(0..count)),
            Arc::new(Float64Array::from(means.to_vec())),
            Arc::new(UInt32Array::from(vec![0; means.len()])),
        ];
        vec![RecordBatch::try_new(schema(), columns).unwrap()]
    };
    let values = [0.0, -0.0, f64::NAN, 1.0, -f64::NAN, -0.0];
    let grouped = ask_of("SELECT Mean, count(*) FROM state GROUP BY Mean", rows(&values)).unwrap();
    assert_eq!(grouped, ["0.0 3", "NaN 2", "1.0 1"]);
    assert_eq!(ask_of("SELECT DISTINCT Mean FROM state", rows(&values)).unwrap().len(), 3);
    let ordered = ask_of("SELECT key FROM state ORDER BY Mean", rows(&values)).unwrap();
    assert_eq!(
        ordered,
        ["k0", "k1", "k5", "k3", "k2", "k4"],
        "the first of equal ones comes first"
    );
}
