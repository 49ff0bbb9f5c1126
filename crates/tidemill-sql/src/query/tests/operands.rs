//! Operands of unlike types: the rules of expressions hold in every clause of a query.

use super::*;
use arrow_array::Decimal128Array;

/// Prices 5.00, 12.50 and a null, as decimals and as texts.
fn batch() -> RecordBatch {
    let prices = Decimal128Array::from(vec![Some(500), Some(1_250), None]);
    let prices = prices.with_precision_and_scale(20, 2).expect("digits");
    let texts = StringArray::from(vec![Some("5.00"), Some("12.50"), None]);
    RecordBatch::try_from_iter_with_nullable([
        ("price", Arc::new(prices) as ArrayRef, true),
        ("text", Arc::new(texts) as _, true),
        ("f", Arc::new(Float64Array::from(vec![1e20, f64::NEG_INFINITY, 1.0])) as _, true),
    ])
    .expect("columns of one length")
}

fn compile(sql: &str) -> Result<Query, crate::ExprError> {
    Query::compile(sql, &[("state".to_owned(), batch().schema())])
}

#[test]
fn text_is_compared_with_numbers_in_no_clause() {
    for sql in [
        "SELECT text FROM state WHERE text > 10",
        "SELECT text FROM state WHERE 10.5 = text",
        "SELECT text > 10 FROM state",
        "SELECT text FROM state WHERE text IN (5, 10)",
        "SELECT text FROM state WHERE text BETWEEN 5 AND 10",
        "SELECT CASE text WHEN 5 THEN 1 END FROM state",
        "SELECT count(*) FROM state GROUP BY text > 10",
        "SELECT text, count(*) FROM state GROUP BY text HAVING text > 10",
        "SELECT max(text) FROM state HAVING max(text) > 10",
        "SELECT count(*) FILTER (WHERE text > 10) FROM state",
        "SELECT sum(nullif(text, 10)) FROM state",
        "SELECT text FROM state ORDER BY text > 10",
        "SELECT t FROM (SELECT text AS t FROM state) WHERE t > 10",
    ] {
        let error = compile(sql).expect_err(sql);
        let says = |it: &str| error.message.contains(it);
        assert!(says("cannot compare") && says("`cast(x as double)`"), "{sql}: {}", error.message);
    }
}

#[test]
fn numbers_are_compared_whatever_their_types() {
    for (sql, expected) in [
        ("SELECT price FROM state WHERE price < 1e20", vec!["5.00", "12.50"]),
        ("SELECT price FROM state WHERE price > -1e300 AND price < f", vec!["5.00"]),
        ("SELECT price < f FROM state", vec!["true", "false", "null"]),
        ("SELECT price FROM state WHERE price IN (5.0, 1e300)", vec!["5.00"]),
        ("SELECT greatest(price, f) FROM state", vec!["1e20", "12.5", "1.0"]),
        ("SELECT count(*) FILTER (WHERE price BETWEEN 0 AND 1e20) FROM state", vec!["2"]),
        (
            "SELECT price < 1e20, count(*) FROM state GROUP BY price < 1e20",
            vec!["true 2", "null 1"],
        ),
        ("SELECT max(price) FROM state HAVING max(price) < 1e20", vec!["12.50"]),
        ("SELECT price FROM state ORDER BY price < f, price LIMIT 1", vec!["12.50"]),
        (
            "SELECT p FROM (SELECT nvl(price, 0) AS p FROM state) WHERE p < 1e20",
            vec!["5.00", "12.50", "0.00"],
        ),
        ("SELECT text FROM state WHERE text > '10'", vec!["5.00", "12.50"]),
        ("SELECT text FROM state WHERE price > '10'", vec!["12.50"]),
        ("SELECT text FROM state WHERE cast(text AS double) > 10", vec!["12.50"]),
    ] {
        let query = compile(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        let answer = lines(query.run(100).expect("a query that fits"), vec![batch()]);
        assert_eq!(answer.unwrap_or_else(|error| panic!("{sql}: {error}")), expected, "{sql}");
    }
}
