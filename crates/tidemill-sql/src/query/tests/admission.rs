//! Which SQL is refused before it is planned.

use super::{Query, ask, refused, tables};

#[test]
fn a_clause_that_would_be_passed_over_is_refused() {
    let mut wrong = Vec::new();
    for (sql, what) in [
        ("SELECT n FROM state TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT n FROM state TABLESAMPLE BERNOULLI (10)", "TABLESAMPLE"),
        ("SELECT n FROM (SELECT n FROM state) TABLESAMPLE (1 ROWS)", "TABLESAMPLE"),
        ("SELECT n FROM state FETCH FIRST 3 ROWS ONLY", "FETCH"),
        ("SELECT n FROM state FOR UPDATE", "FOR UPDATE"),
        ("SELECT n FROM state FOR SHARE", "FOR UPDATE"),
        ("SELECT n FROM state WITH (NOLOCK)", "hint"),
        ("SELECT /*+ PARALLEL */ n FROM state", "hint"),
        ("SELECT n FROM state QUALIFY n > 3", "QUALIFY"),
        ("SELECT DISTINCT ON (key) n FROM state", "DISTINCT ON"),
        ("SELECT n FROM state WITH ORDINALITY", "ORDINALITY"),
        ("SELECT n FROM unnest([1, 2]) WITH ORDINALITY", "function in `FROM`"),
        ("SELECT n FROM state FOR SYSTEM_TIME AS OF 3", ""),
        ("SELECT n FROM range(3)", "function in `FROM`"),
        ("SELECT n FROM LATERAL (SELECT n FROM state) AS s", "LATERAL"),
        ("SELECT n FROM state LATERAL VIEW explode(key) AS x", "LATERAL VIEW"),
        ("SELECT n, count(*) FROM state GROUP BY n WITH ROLLUP", "ROLLUP"),
        ("SELECT n, count(*) FROM state GROUP BY ALL WITH CUBE", "ROLLUP"),
        ("SELECT n, count(*) FROM state GROUP BY ROLLUP (n)", "grouping"),
        ("SELECT n, count(*) FROM state GROUP BY GROUPING SETS ((n), ())", "grouping"),
        ("SELECT upper(key) WITHIN GROUP (ORDER BY n) FROM state", "WITHIN GROUP"),
        ("SELECT upper(key) IGNORE NULLS FROM state", "NULLS"),
        ("SELECT upper(key) FILTER (WHERE n > 3) FROM state", "FILTER"),
        ("SELECT upper(DISTINCT key) FROM state", "DISTINCT"),
        ("SELECT upper(key ORDER BY n) FROM state", "ORDER BY"),
        ("SELECT sum(n ORDER BY n) FROM state", "ORDER BY"),
        ("SELECT sum(n) IGNORE NULLS FROM state", ""),
        ("SELECT sum(n) WITHIN GROUP (ORDER BY n) FROM state", ""),
        ("SELECT sum(n) OVER () FROM state", "window"),
        ("SELECT sum(n) OVER w FROM state WINDOW w AS (ORDER BY n)", "WINDOW"),
        ("SELECT TOP 3 n FROM state", "TOP"),
        ("SELECT n INTO other FROM state", "INTO"),
        ("SELECT n FROM state SORT BY n", "SORT BY"),
        ("SELECT n FROM state CLUSTER BY n", "CLUSTER BY"),
        ("SELECT n FROM state DISTRIBUTE BY n", "DISTRIBUTE BY"),
        ("SELECT n FROM state PREWHERE n > 3", "PREWHERE"),
        ("SELECT n FROM state START WITH n = 1 CONNECT BY n = n", "CONNECT BY"),
        ("SELECT n FROM state ORDER BY n WITH FILL", "WITH FILL"),
        ("SELECT n FROM state LIMIT 3 BY key", "BY"),
        ("SELECT n FROM state SETTINGS a = 3", "SETTINGS"),
        ("SELECT n FROM state FORMAT CSV", "FORMAT"),
        ("SELECT n FROM state |> WHERE n > 3", "|>"),
        ("SELECT n FROM state PIVOT (sum(n) FOR key IN ('a'))", "PIVOT"),
        ("SELECT n FROM state PARTITION (p)", "PARTITION"),
        ("WITH RECURSIVE a AS (SELECT n FROM state) SELECT n FROM a", "RECURSIVE"),
        ("WITH a AS MATERIALIZED (SELECT n FROM state) SELECT n FROM a", "MATERIALIZED"),
        ("SELECT n FROM elsewhere.state", "elsewhere.state"),
        ("SELECT SQL_CALC_FOUND_ROWS n FROM state", ""),
        ("SELECT AS STRUCT n FROM state", ""),
        ("TABLE state", ""),
    ] {
        match Query::compile(sql, &tables()) {
            Ok(_) => wrong.push(format!("{sql}: it is passed over")),
            Err(error) if error.message.contains(what) => {}
            Err(error) => wrong.push(format!("{sql}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(ask("SELECT key, count(*) FROM state GROUP BY ALL LIMIT 1"), ["k0 15"]);
    assert_eq!(ask("SELECT first_value(n) IGNORE NULLS FROM state WHERE n IS NULL"), ["null"]);
    assert_eq!(ask("SELECT last_value(n) IGNORE NULLS FROM state"), ["98"]);
    assert_eq!(ask("SELECT last_value(n) FROM state"), ["null"]);
    assert_eq!(ask("SELECT s.a FROM state AS s(b, a, c, d) LIMIT 1"), ["0"]);
    assert_eq!(ask("FROM state SELECT n LIMIT 1"), ["0"]);
    assert_eq!(ask("SELECT * EXCLUDE (key, \"Mean\") FROM (state) LIMIT 1"), ["0 0"]);
}

#[test]
fn deep_queries_are_refused_or_planned() {
    for operator in ["+", " AND ", " OR ", "||", "::bigint + ", " = "] {
        let deep = |count: usize| {
            let chain = vec!["n"; count].join(operator);
            Query::compile(&format!("SELECT count({chain}) AS c FROM state"), &tables())
        };
        // Whether the types go together does not matter.
        if let Err(error) = deep(12) {
            assert!(!error.message.contains("operators"), "{error}");
        }
        let error = deep(3_000).unwrap_err();
        assert!(error.message.contains("more than 48 operators"), "{error}");
    }
    assert!(
        Query::compile(&format!("SELECT {} n FROM state", "NOT ".repeat(5_000)), &tables())
            .is_err()
    );
    assert!(
        refused(&format!("SELECT '{}' FROM state", "x".repeat(70_000))).message.contains("bytes")
    );
    let many = (0..5_000).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
    assert_eq!(ask(&format!("SELECT count(*) FROM state WHERE n IN ({many})")), ["90"]);
    let chained = |count: usize| {
        let next = |n: usize| format!("a{} AS (SELECT n FROM a{n})", n + 1);
        let all: Vec<_> = (0..count).map(next).collect();
        format!("WITH a0 AS (SELECT n FROM state), {} SELECT n FROM a{count}", all.join(","))
    };
    assert_eq!(ask(&chained(13)).len(), 100);
    assert!(refused(&chained(300)).message.contains("16 queries"));
    let members = format!("SELECT n {} FROM state", "MEMBER OF (n) ".repeat(4_000));
    assert!(refused(&members).message.contains("48 operators"));
    let intervals = format!("SELECT {} n FROM state", "INTERVAL ".repeat(6_000));
    assert!(refused(&intervals).message.contains("48 operators"));
    let overlaid =
        format!("SELECT {}key{} FROM state", "overlay(".repeat(10), ",'a',1)".repeat(10));
    assert!(refused(&overlaid).message.contains("more than eight times"));
    let types = format!("SELECT CAST(n AS {}", "Nullable(".repeat(7_000));
    assert!(refused(&types).message.contains("48 brackets"));
    assert!(refused("SELECT a.n FROM state a, state b").message.contains("joins"));
}
