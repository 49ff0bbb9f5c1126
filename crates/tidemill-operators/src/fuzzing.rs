//! Any text as a query of a state and as an expression of a job, for tests and for the fuzz target
//! `sql`; and expressions that are made up ([`expression`]).

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::{
    ops::ControlFlow,
    sync::{Arc, LazyLock},
};
use tidemill_sql::{
    Expr,
    query::{Query, QueryError},
};

mod expression;

pub use expression::{expression, expression_seeds};

const ROWS: usize = 40;

static BATCH: LazyLock<RecordBatch> = LazyLock::new(|| {
    let numbers = 0..ROWS as i64;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(numbers.clone().map(|n| format!("k{}", n % 7)))),
        Arc::new(numbers.clone().map(|n| (n % 10 != 9).then_some(n - 5)).collect::<Int64Array>()),
        Arc::new(numbers.map(|n| Some(n as f64 / 2.0)).collect::<Float64Array>()),
    ];
    let field = |name, data_type| Field::new(name, data_type, true);
    let fields = vec![
        field("key", DataType::Utf8),
        field("n", DataType::Int64),
        field("x", DataType::Float64),
    ];
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("columns of the schema")
});

fn answer(query: &Query, rows: usize) -> Result<Vec<RecordBatch>, QueryError> {
    let mut running = query.run(1000)?;
    for from in (0..ROWS).step_by(rows) {
        let batch = BATCH.slice(from, rows.min(ROWS - from));
        if let ControlFlow::Break(()) = running.push(batch)? {
            break;
        }
    }
    running.finish()
}

fn in_words(batches: &[RecordBatch]) -> Vec<String> {
    let rows = |batch: &RecordBatch| {
        (0..batch.num_rows()).map(|row| format!("{:?}", batch.slice(row, 1).columns())).collect()
    };
    batches.iter().flat_map(|batch| -> Vec<String> { rows(batch) }).collect()
}

/// The text as a query and as an expression: refused, or the same rows give the same answer, however
/// they are put into batches.
///
/// # Panics
/// They do not.
pub fn sql(sql: &str) {
    let tables: [(String, SchemaRef); 1] = [("state".to_owned(), BATCH.schema())];
    if let Ok(query) = Query::compile(sql, &tables) {
        let answers = [ROWS, 7].map(|rows| answer(&query, rows));
        if let [Ok(whole), Ok(parts)] = answers {
            assert!(whole.iter().all(|it| it.schema() == query.schema()));
            assert_eq!(in_words(&whole), in_words(&parts));
        }
    }
    if let Ok(expr) = Expr::compile(sql, &BATCH.schema())
        && let Ok(values) = expr.evaluate(&BATCH)
    {
        assert_eq!((values.len(), values.data_type()), (ROWS, expr.data_type()));
        assert!(expr.columns().iter().all(|it| *it < 3));
    }
}

/// Queries and expressions of many kinds.
#[must_use]
pub fn sql_seeds() -> Vec<Vec<u8>> {
    let queries = [
        "SELECT key, count(*) AS c, sum(n), avg(x), min(n), max(x) FROM state GROUP BY key ORDER BY c DESC, key LIMIT 3",
        "SELECT DISTINCT key FROM state WHERE n > 3 AND key LIKE 'k%' OR x IS NULL ORDER BY 1",
        "SELECT n, CASE WHEN n % 2 = 0 THEN 'even' ELSE 'odd' END FROM state WHERE n BETWEEN 1 AND 9 OFFSET 2",
        "SELECT * FROM (SELECT key, n FROM state WHERE n IN (1, 2, 3)) AS t HAVING count(*) > 0",
        "SELECT count(DISTINCT key), stddev(x), median(n) FROM state",
        "SELECT upper(key) || '-' || CAST(n AS VARCHAR), regexp_replace(key, 'k', 'q') FROM state",
        "n + 1",
        "CAST(key AS BIGINT)",
        "coalesce(n, 0) * 2 - x / 3",
        "substr(key, 1, 1) = 'k'",
        "date_trunc('hour', to_timestamp(n))",
        "NOT (n > 1) AND x < 2.5e3 OR key IN ('a', 'b')",
        "repeat(key, 3)",
        "lpad(key, n, '0')",
        "abs(n) ^ 2",
        "interval '1 day'",
    ];
    queries.iter().map(|it| it.as_bytes().to_vec()).collect()
}

#[cfg(test)]
mod tests;
