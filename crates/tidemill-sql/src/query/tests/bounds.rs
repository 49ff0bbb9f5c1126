//! What a query may hold, make on its way, and count to.

use super::{Query, QueryError, ask, ask_of, batches, lines, refused, tables};
use crate::{catalogue::registry, query::reach::is_judged};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, UInt32Array};
use datafusion_expr::planner::ContextProvider;
use std::sync::Arc;

/// An answer by a query that may hold so many KiB.
fn within(kib: usize, sql: &str, rows: Vec<RecordBatch>) -> Result<Vec<String>, QueryError> {
    let query = Query::compile(sql, &tables())?;
    lines(query.run_within(100_000, kib << 10)?, rows)
}

/// One row with a key of so many KiB.
fn large(kib: usize) -> RecordBatch {
    let key: ArrayRef = Arc::new(StringArray::from(vec!["k".repeat(kib << 10)]));
    let n: ArrayRef = Arc::new(Int64Array::from(vec![1]));
    let mean: ArrayRef = Arc::new(Float64Array::from(vec![1.0]));
    let slice: ArrayRef = Arc::new(UInt32Array::from(vec![0]));
    RecordBatch::try_new(super::schema(), vec![key, n, mean, slice]).unwrap()
}

#[test]
fn a_query_that_holds_too_much_ends_with_an_error() {
    let rows = || batches(20_000, 500);
    for sql in [
        "SELECT * FROM state",                      // the answer
        "SELECT * FROM state ORDER BY n",           // what a sort holds
        "SELECT n, count(*) FROM state GROUP BY n", // keys of groups
        "SELECT DISTINCT n FROM state",
        "SELECT array_agg(n) FROM state", // what aggregates hold
        "SELECT count(DISTINCT n) FROM state",
        "SELECT key, array_agg(n) FROM state GROUP BY key",
        "SELECT key, string_agg(key, 'and') FROM state GROUP BY key",
        "SELECT key, median(n) FROM state GROUP BY key",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n) FROM state",
    ] {
        assert!(matches!(within(96, sql, rows()), Err(QueryError::Memory)), "{sql}");
        assert!(within(64 << 10, sql, rows()).is_ok(), "{sql}");
    }
    for (sql, lines) in [
        ("SELECT count(*), sum(n), max(key) FROM state", 1),
        ("SELECT key, count(*) FROM state GROUP BY key", 7),
        ("SELECT * FROM state WHERE n > 19990", 8),
    ] {
        assert_eq!(within(96, sql, rows()).unwrap().len(), lines, "{sql}");
    }
    assert!(QueryError::Memory.to_string().contains("256 MiB"));
}

#[test]
fn what_a_step_would_make_of_a_row_is_reckoned_before() {
    let twice = "SELECT length(key || key) FROM state";
    assert!(matches!(within(512, twice, vec![large(200)]), Err(QueryError::Memory)));
    assert_eq!(within(4_096, twice, vec![large(200)]).unwrap(), ["409600"]);
    // What does not grow is not taken for more.
    let alike = "SELECT n + 1, upper(substr(key, 1, 1)), CAST(n AS text) || 'a' FROM state";
    assert_eq!(within(2_048, alike, vec![large(200)]).unwrap(), ["2 K 1a"]);
    // Within one expression, within those after one another, and in a filter.
    let doubled = format!("concat({})", vec!["key"; 40].join(", "));
    let first = "WITH a AS (SELECT key||key||key||key||key||key AS key FROM state),";
    let second = "b AS (SELECT key||key||key||key||key||key AS key FROM a)";
    for sql in [
        format!("SELECT {doubled} AS k FROM state"),
        format!("SELECT n FROM state WHERE {doubled} > 'a'"),
        format!("SELECT count({doubled}) FROM state GROUP BY key"),
        format!("SELECT n FROM state ORDER BY {doubled}"),
        format!("{first} {second} SELECT count(key) FROM b"),
        "SELECT replace(key, 'k', 'twenty characters or so') FROM state".to_owned(),
        "SELECT repeat(key, 100) FROM state".to_owned(),
        format!("SELECT concat({}) FROM state", vec!["key"; 2_000].join(",")),
    ] {
        let failed = within(4_096, &sql, vec![large(200)]);
        assert!(matches!(failed, Err(QueryError::Memory)), "{sql}: {failed:?}");
    }
}

#[test]
fn at_the_end_what_is_held_is_counted_too() {
    // Each key is put out 40 times as long as it was held.
    let long = format!("concat({})", vec!["key"; 40].join(", "));
    for of in ["GROUP BY key", "ORDER BY key"] {
        let sql = format!("SELECT {long} AS k FROM (SELECT key FROM state {of})");
        let failed = within(4_096, &sql, vec![large(200)]);
        assert!(matches!(failed, Err(QueryError::Memory)), "{of}: {failed:?}");
    }
    // What was held fits, but not with the copy that is put out.
    for sql in ["SELECT * FROM state ORDER BY n", "SELECT array_agg(n) FROM state"] {
        let fits = |kib: usize| {
            let query = Query::compile(sql, &tables()).unwrap();
            let mut running = query.run_within(100_000, kib << 10).unwrap();
            let pushed =
                batches(20_000, 500).into_iter().try_for_each(|it| running.push(it).map(|_| ()));
            pushed.map(|()| running.finish().is_ok())
        };
        let first = (1..200).map(|it| fits(it * 16)).find_map(Result::ok);
        assert_eq!(first, Some(false), "{sql}");
        assert!(fits(32 << 10).unwrap(), "{sql}");
    }
}

#[test]
fn rows_that_become_large_go_through_in_pieces() {
    let sql = "SELECT sum(length(repeat(key, 1000))) FROM state";
    assert_eq!(within(2_048, sql, batches(5_000, 5_000)).unwrap(), ["10000000"]);
    let sql = "SELECT key FROM (SELECT n, repeat(key, 4000) AS key FROM state) ORDER BY n LIMIT 1";
    let sql = sql.replacen("key", "length(key) AS l", 1);
    assert_eq!(within(4_096, &sql, batches(5_000, 5_000)).unwrap(), ["8000"]);
}

#[test]
fn lengths_are_small_constants() {
    for (sql, what) in [
        ("SELECT lpad(key, 2000000000) FROM state LIMIT 1", "at most 4096"),
        ("SELECT rpad(key, n) FROM state", "must be a constant"),
        ("SELECT repeat(key, 20000000) FROM state", "at most 4096"),
        ("SELECT repeat('x', 2000000000) FROM state", "at most 4096"),
        ("SELECT repeat('x', 2000 * 1000000) FROM state", "must be a constant"),
        ("SELECT repeat(repeat(repeat('x', 4000), 4000), 4000) FROM state", "16 MiB"),
        ("SELECT n FROM state WHERE repeat('x', 2000000000) = key", "at most 4096"),
        ("SELECT count(repeat('x', 2000000000)) FROM state", "at most 4096"),
        ("SELECT count(*) FILTER (WHERE repeat(key, 5000) > 'a') FROM state", "at most 4096"),
        ("SELECT count(*) FROM state GROUP BY repeat(key, 5000)", "at most 4096"),
        ("SELECT n FROM state ORDER BY repeat(key, 5000)", "at most 4096"),
        ("SELECT range(n) FROM state", "`range`"),
        ("SELECT generate_series(1, 2000000000) FROM state", "`generate_series`"),
        ("SELECT array_repeat(n, n) FROM state", "must be a constant"),
        ("SELECT array_resize([n], 2000000000, 1) FROM state", "at most 4096"),
        ("SELECT replace(key, 'k', key) FROM state", "must be a constant"),
        ("SELECT regexp_replace(key, 'k', key, 'g') FROM state", "must be a constant"),
        ("SELECT regexp_like(key, key) FROM state", "regular expression"),
        ("SELECT key ~ key FROM state", "regular expression"),
        ("SELECT arrow_cast([n], 'FixedSizeList(2000000000, Int64)') FROM state", "fixed number"),
        ("SELECT CAST(NULL AS BIGINT[2000000000]) FROM state", "fixed number"),
        ("SELECT approx_percentile_cont(n, 0.5, 2000000000) FROM state", "at most 4096"),
    ] {
        let error = refused(sql);
        assert!(error.message.contains(what), "{sql}: {error}");
    }
    assert_eq!(ask("SELECT lpad(key, 4, '-'), repeat(key, 2) FROM state LIMIT 1"), ["--k0 k0k0"]);
    assert_eq!(ask("SELECT replace(key, 'k', 'key') FROM state LIMIT 1"), ["key0"]);
    assert_eq!(ask("SELECT regexp_replace(key, '[a-z]', 'n') FROM state LIMIT 1"), ["n0"]);
    assert_eq!(ask("SELECT count(*) FROM state WHERE key ~ '[34]'"), ["28"]);
}

#[test]
fn what_is_planned_more_than_once_is_bounded() {
    let nested = |before: &str, after: &str, levels: usize| {
        format!("SELECT {}n{} AS x FROM state", before.repeat(levels), after.repeat(levels))
    };
    for (before, after) in [
        ("nvl(", ", 1)"),
        ("nullif(", ", 1)"),
        ("(", " BETWEEN false AND true)"),
        ("(", " IN (false, true))"),
        ("CASE WHEN ", " THEN true ELSE false END"),
    ] {
        assert!(Query::compile(&nested(before, after, 4), &tables()).is_ok() || after != ", 1)");
        assert!(Query::compile(&nested(before, after, 14), &tables()).is_err(), "{before}");
    }
    let error = refused(&nested("nvl(", ", 1)", 14));
    assert!(error.message.contains("nested too deeply"), "{error}");
    // One within another is part of that.
    Query::compile(&nested("coalesce(", ", 1)", 14), &tables()).expect("no copies");
}

#[test]
fn all_functions_are_judged() {
    let all = registry::shared();
    let name = |name: &str| all.get_function_meta(name).unwrap().name().to_owned();
    let mut refused: Vec<_> = all.names().filter(|it| !is_judged(&name(it))).collect();
    refused.sort_unstable();
    assert_eq!(
        refused,
        [
            "arrays_zip",
            "arrow_field",
            "arrow_metadata",
            "cast_to_type",
            "current_date",
            "current_time",
            "current_timestamp",
            "generate_series",
            "list_zip",
            "map",
            "now",
            "rand",
            "random",
            "range",
            "today",
            "try_cast_to_type",
            "uuid",
            "with_metadata"
        ]
    );
}

#[test]
fn a_sum_of_integers_beyond_64_bits_is_an_error() {
    for sql in [
        "SELECT sum(9223372036854775807) FROM state",
        "SELECT key, sum(9223372036854775807) AS s FROM state GROUP BY key",
        "SELECT sum(-9223372036854775807 - n) FROM state WHERE n < 2",
        "SELECT sum(DISTINCT 9223372036854775807 - n) FROM state",
        "SELECT sum(arrow_cast(18446744073709551615, 'UInt64')) FROM state",
        "SELECT sum(n) FILTER (WHERE n < 5) + sum(9223372036854775807) FROM state",
    ] {
        let failed = ask_of(sql, batches(100, 13)).unwrap_err().to_string();
        assert_eq!(failed, "a sum of integers is beyond 64 bits", "{sql}");
    }
    // On the way there it may be, whatever the order of the rows.
    let sql = "SELECT sum(CASE WHEN n < 50 THEN 9223372036854775807 ELSE -9223372036854775807 END) AS s FROM state WHERE n < 100";
    assert_eq!(ask(sql), ["0"]);
    assert_eq!(
        ask("SELECT sum(9223372036854775807) FROM state WHERE n = 1"),
        ["9223372036854775807"]
    );
    assert_eq!(
        ask("SELECT sum(DISTINCT n), sum(\"Mean\"), sum(__slice) FROM state"),
        ["4410 2475.0 120"]
    );
    assert_eq!(ask("SELECT sum(CAST(n AS DECIMAL(10, 2))) FROM state"), ["4410.00"]);
    // As in a job's expressions.
    for sql in [
        "SELECT 9223372036854775807 + n FROM state WHERE n = 1",
        "SELECT n FROM state WHERE n > 9223372036854775807 + 1",
        "SELECT key FROM state GROUP BY key HAVING count(*) * 9223372036854775807 > 0",
        "SELECT sum(n * 9223372036854775807) FROM state WHERE n = 2",
        "SELECT key, max(-9223372036854775807 - n) FROM state GROUP BY key",
        "SELECT avg(n + 9223372036854775800) FROM state",
        "SELECT count(*) FILTER (WHERE n * 9223372036854775807 < 0) FROM state",
        "SELECT key, min(n) FILTER (WHERE n * 9223372036854775807 < 0) FROM state GROUP BY key",
        "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY n * 9223372036854775807) FROM state",
    ] {
        let failed = ask_of(sql, batches(100, 13)).unwrap_err().to_string();
        assert!(failed.contains("verflow"), "{sql}: {failed}");
    }
}

#[test]
fn a_row_that_an_aggregate_leaves_out_needs_no_value() {
    for (sql, expected) in [
        (
            "SELECT sum(n * 9223372036854775807) FILTER (WHERE n < 2) FROM state",
            "9223372036854775807",
        ),
        ("SELECT max(10 / n) FILTER (WHERE n > 4), count(*) FROM state", "2 100"),
        ("SELECT max(10 / n) FILTER (WHERE n > 4) AS m FROM state GROUP BY key LIMIT 1", "1"),
    ] {
        assert_eq!(ask(sql), [expected], "{sql}");
    }
}
