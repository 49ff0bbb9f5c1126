//! Expressions give SQL's answers; what is wrong is refused with its place and the nearest name.

mod clocks;
mod edges;
mod extremes;
mod intervals;
mod numerals;
mod passes;
mod regressions;
mod semantics;
mod units;

use crate::{Expr, parse_call};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int16Array, Int64Array, RecordBatch, StringArray,
    StructArray, UInt64Array, cast::AsArray, types::Int64Type,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use tidemill_types::TIME_COLUMN;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("dep_delay", DataType::Int64, true),
        Field::new("Carrier", DataType::Utf8, false),
        // Behind a join, columns of the right follow it.
        Field::new(TIME_COLUMN, DataType::Int64, false),
        Field::new("air_time", DataType::Float64, true),
    ]))
}

fn batch() -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(20), None, Some(-3)])),
        Arc::new(StringArray::from(vec!["AA", "UA", "B6"])),
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Arc::new(Float64Array::from(vec![Some(1.5), Some(2.5), None])),
    ];
    RecordBatch::try_new(schema(), columns).expect("columns of the schema")
}

fn numbers(sql: &str) -> Vec<Option<i64>> {
    let array = Expr::compile(sql, &schema()).expect(sql).evaluate(&batch()).expect(sql);
    let array = arrow_cast::cast(&array, &DataType::Int64).expect("numbers");
    array.as_primitive::<Int64Type>().iter().collect()
}

#[track_caller]
fn refused(sql: &str, message: &str, place: (u64, u64), nearest: Option<&str>) {
    let error = Expr::compile(sql, &schema()).expect_err(sql);
    assert!(error.message.contains(message), "{sql}: {}", error.message);
    assert_eq!((error.line, error.column), place, "{sql}");
    assert_eq!(error.nearest.as_deref(), nearest, "{sql}");
}

#[test]
fn nulls_are_sql_nulls() {
    assert_eq!(numbers("dep_delay + 1"), [Some(21), None, Some(-2)]);
    assert_eq!(numbers("coalesce(dep_delay, 0)"), [Some(20), Some(0), Some(-3)]);
    assert_eq!(numbers("dep_delay > 15"), [Some(1), None, Some(0)]);
    assert_eq!(numbers("dep_delay is null or dep_delay > 15"), [Some(1), Some(1), Some(0)]);
    assert_eq!(numbers("case when \"Carrier\" = 'AA' then 1 end"), [Some(1), None, None]);
}

/// Its columns hold something there: files of Arrow may have it so, and `nullif` makes it so.
#[test]
fn a_field_of_an_object_that_is_null_is_null() {
    let inner = vec![
        Arc::new(Field::new("a", DataType::Int64, false)),
        Arc::new(Field::new("b", DataType::Utf8, true)),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2, 3, 4])),
        Arc::new(StringArray::from(vec![Some("q"), Some("hidden"), Some(""), None])),
    ];
    let nulls = vec![true, false, true, true];
    let inner = StructArray::new(inner.into(), columns, Some(nulls.into()));
    let outer = vec![Arc::new(Field::new("o", inner.data_type().clone(), true))];
    let nulls = vec![true, true, true, false];
    let outer = StructArray::new(outer.into(), vec![Arc::new(inner.clone())], Some(nulls.into()));
    let columns: [(_, ArrayRef); 2] = [("o", Arc::new(inner)), ("p", Arc::new(outer))];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let values = |sql: &str| {
        let expr = Expr::compile(sql, &batch.schema()).expect(sql);
        assert!(expr.nullable(), "{sql}");
        // Of a part that begins within a byte of the nulls, too.
        let part = expr.evaluate(&batch.slice(1, 3)).expect(sql);
        let all = expr.evaluate(&batch).expect(sql);
        assert_eq!(&all.slice(1, 3), &part, "{sql}");
        let texts = arrow_cast::cast(&all, &DataType::Utf8).expect(sql);
        texts.as_string::<i32>().iter().map(|it| it.map(str::to_owned)).collect::<Vec<_>>()
    };
    let some = |it: &str| Some(it.to_owned());
    assert_eq!(values("o.a"), [some("1"), None, some("3"), some("4")]);
    assert_eq!(values("o['b']"), [some("q"), None, some(""), None]);
    assert_eq!(values("p.o.a"), [some("1"), None, some("3"), None]);
    assert_eq!(values("p['o']['b']"), [some("q"), None, some(""), None]);
    assert_eq!(values("nullif(o, o)['a']"), [None, None, None, None]);
}

/// Of whatever sign the processor makes it.
#[test]
fn there_is_one_nan_that_is_more_than_all_numbers() {
    let nan = |sign: u64| f64::from_bits(f64::NAN.to_bits() | sign << 63);
    let floats: ArrayRef = Arc::new(Float64Array::from(vec![f64::INFINITY, nan(0), nan(1)]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["NaN", "-NaN", "nan"]));
    let small = arrow_cast::cast(&floats, &DataType::Float32).expect("smaller floats");
    let numbers: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0, 3.0]));
    let columns = [("x", floats), ("t", texts), ("f", small), ("n", numbers)];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let made = [
        "x - x",
        "-(x - x)",
        "x / x",
        "x % 7",
        "0.0 * x",
        "0.0 / 0.0 + 0.0 * x",
        "-abs(x - x)",
        "sqrt(-1.0 - abs(x - x)) + nullif(x, 0)  - x",
        "ln(-3.0) + x - x",
        "cast(t as double)",
        "try_cast(t as double)",
        "f - f",
        "case when x > 0 then x - x else x - x end",
    ];
    for sql in made {
        for condition in
            ["({}) > 5", "({}) = 'NaN'::double", "not ({}) < 5", "({}) in (1, 'NaN'::double)"]
        {
            let sql = condition.replace("{}", sql);
            let values = Expr::compile(&sql, &batch.schema()).expect(&sql).evaluate(&batch);
            let values = values.expect(&sql);
            assert_eq!(values.as_boolean().true_count(), 3, "{sql}: {values:?}");
        }
        let values = Expr::compile(sql, &batch.schema()).expect(sql).evaluate(&batch).expect(sql);
        let values = arrow_cast::cast(&values, &DataType::Float64).expect(sql);
        let values = values.as_primitive::<arrow_array::types::Float64Type>();
        let bits: Vec<u64> = values.values().iter().map(|it| it.to_bits()).collect();
        assert_eq!(bits, [f64::NAN.to_bits(); 3], "{sql}");
    }
    for sql in ["n < 0.0 / 0.0", "n < -('NaN'::double)", "n between 1 and 0.0 / 0.0"] {
        let values = Expr::compile(sql, &batch.schema()).expect(sql).evaluate(&batch).expect(sql);
        assert_eq!(values.as_boolean().true_count(), 3, "{sql}: {values:?}");
    }
}

#[test]
fn a_guard_keeps_rows_from_what_would_fail() {
    let n = Int64Array::from(vec![Some(0), Some(5), None, Some(20), Some(0)]);
    let yes = BooleanArray::from(vec![Some(false), None, Some(true), Some(true), None]);
    let columns: [(_, ArrayRef); 2] = [("n", Arc::new(n)), ("b", Arc::new(yes))];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    let evaluate = |sql: &str, rows: &RecordBatch| {
        let expr = Expr::compile(sql, &rows.schema()).expect(sql);
        assert!(expr.can_fail(), "{sql}");
        expr.evaluate(rows)
    };
    for sql in [
        "n <> 0 and 10 / n > 1",
        "n = 0 or 10 / n > 1",
        "n is null or n = 0 or (10 / n > 1 and b)",
        "n <> 0 and (b or 10 / n > 1)",
        "n <> 0 and 10 / n > 1 and n < 100 and 3 / n = 0",
        "n <> 0 and nullif(10 / n > 1, true)",
        "case when n <> 0 then 10 / n > 1 else false end",
    ] {
        let together = evaluate(sql, &batch).expect(sql);
        for row in 0..batch.num_rows() {
            let alone = evaluate(sql, &batch.slice(row, 1)).expect(sql);
            assert_eq!(&together.slice(row, 1), &alone, "{sql}, row {row}");
        }
    }
    // What is null decides nothing.
    evaluate("b and 10 / n > 1", &batch).expect_err("the last row has no value");
    evaluate("b and 10 / n > 1", &batch.slice(0, 4)).expect("the others have theirs");
}

#[test]
fn types_are_made_to_fit() {
    assert_eq!(numbers("dep_delay + air_time"), [Some(21), None, None]);
    assert_eq!(numbers("length(Carrier)"), [Some(2); 3]);
    assert_eq!(numbers("cast('7' as bigint)"), [Some(7); 3]);
    assert_eq!(numbers("array_length(string_to_array('a b c', ' '))"), [Some(3); 3]);
}

#[test]
fn whole_numbers_do_not_wrap() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("short", DataType::Int16, false),
        Field::new("natural", DataType::UInt64, false),
    ]));
    let row = |n: Option<i64>, short: i16, natural: u64| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![n])),
            Arc::new(Int16Array::from(vec![short])),
            Arc::new(UInt64Array::from(vec![natural])),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of the schema")
    };
    let cases = [
        ("n + 1", row(Some(i64::MAX - 1), 0, 0), row(Some(i64::MAX), 0, 0)),
        ("n - 2", row(Some(i64::MIN + 2), 0, 0), row(Some(i64::MIN + 1), 0, 0)),
        ("n * n", row(Some(3_037_000_499), 0, 0), row(Some(3_037_000_500), 0, 0)),
        ("n * 2", row(None, 0, 0), row(Some(1 << 62), 0, 0)),
        ("-n", row(Some(-i64::MAX), 0, 0), row(Some(i64::MIN), 0, 0)),
        ("abs(n)", row(Some(-i64::MAX), 0, 0), row(Some(i64::MIN), 0, 0)),
        ("short + short", row(None, 16_383, 0), row(None, 16_384, 0)),
        ("natural + natural", row(None, 0, 1 << 62), row(None, 0, 1 << 63)),
        (
            "case when n < 0 then n * 4 else n end",
            row(Some(i64::MAX), 0, 0),
            row(Some(i64::MIN), 0, 0),
        ),
        ("(n + 1) * 1.5", row(Some(7), 0, 0), row(Some(i64::MAX), 0, 0)),
    ];
    for (sql, fits, does_not) in cases {
        let expr = Expr::compile(sql, &schema).expect(sql);
        assert!(expr.can_fail(), "{sql}");
        expr.evaluate(&fits).expect(sql);
        expr.evaluate(&does_not).expect_err(sql);
    }
    for sql in ["n * 1.5", "cast(n as double) * n", "n / 2.0 - short", "n > 1 and short < 2"] {
        assert!(!Expr::compile(sql, &schema).expect(sql).can_fail(), "{sql}");
    }
}

#[test]
fn constants_do_not_wrap() {
    refused("dep_delay > 9223372036854775807 + 1", "verflow", (1, 1), None);
    refused("abs(1 - 9223372036854775807 - 3)", "verflow", (1, 1), None);
    refused("4611686018427387904 * 2 + dep_delay", "verflow", (1, 1), None);
    assert_eq!(numbers("-9223372036854775808"), [Some(i64::MIN); 3]);
    assert_eq!(numbers("dep_delay * (2 + 3)"), [Some(100), None, Some(-15)]);
    assert_eq!(numbers("9223372036854775807 + 1.0 > 0"), [Some(1); 3]);
}

#[test]
fn a_plain_column_is_known_as_one() {
    let column = Expr::compile("Carrier", &schema()).expect("a column");
    assert_eq!((column.as_column(), column.columns()), (Some(1), &[1][..]));
    let sum = Expr::compile("air_time + dep_delay", &schema()).expect("a sum");
    assert_eq!((sum.as_column(), sum.columns()), (None, &[0, 3][..]));
    assert_eq!(sum.data_type(), &DataType::Float64);
}

#[test]
fn a_wrong_name_is_refused_with_the_nearest() {
    refused("dep_dely > 15", "unknown column `dep_dely`", (1, 1), Some("dep_delay"));
    refused("1 +\n carrier", "unknown column `carrier`", (2, 2), Some("Carrier"));
    refused("1 + lenght(Carrier)", "unknown function `lenght`", (1, 5), Some("length"));
    refused("1 + sum(dep_delay)", "`sum` is an aggregate", (1, 5), None);
    refused("Count(*) > 1", "`Count` is an aggregate", (1, 1), None);
    for sql in ["(select 1)", "1 in (select 1)", "exists (select 1)", "1 + (select \"Carrier\")"] {
        refused(sql, "a `SELECT` has no place in an expression", (1, 1), None);
    }
    refused("__time", "unknown column `__time`", (1, 1), None);
}

#[test]
fn parts_of_objects_are_found_before_and_behind_those_of_lists() {
    use arrow_array::{ListArray, StructArray};
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(7), Some(8)])]);
    let object = |name: &str, of: ArrayRef| -> ArrayRef {
        let field = Field::new(name, of.data_type().clone(), true);
        Arc::new(StructArray::from(vec![(Arc::new(field), of)]))
    };
    let o = object("z", object("y", Arc::new(list)));
    let schema = Arc::new(Schema::new(vec![Field::new("o", o.data_type().clone(), true)]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![o]).expect("an object");
    for sql in ["o.z.y[1]", "o.z['y'][1]", "o['z']['y'][1]", "o.z.y[o.z.y[1] - 5] - 1"] {
        let array = Expr::compile(sql, &schema).expect(sql).evaluate(&batch).expect(sql);
        assert_eq!(array.as_primitive::<Int64Type>().values(), &[7], "{sql}");
    }
    // What is no part is a column still.
    for (sql, column) in [("o.z.y[z]", 7), ("z.y[1]", 1), ("o.z.y[1] + y", 12)] {
        let error = Expr::compile(sql, &schema).expect_err(sql);
        assert!(error.message.starts_with("unknown column `"), "{sql}: {}", error.message);
        assert_eq!((error.line, error.column), (1, column), "{sql}");
    }
    for (sql, column) in [("o['z'].y[1]", 8), ("(o.z).y", 7)] {
        let error = Expr::compile(sql, &schema).expect_err(sql);
        assert_eq!(error.message, "`.y` does not go behind brackets", "{sql}");
        assert_eq!(error.expected.as_deref(), Some("brackets again: `['y']`"), "{sql}");
        assert_eq!((error.line, error.column), (1, column), "{sql}");
    }
}

#[test]
fn what_is_not_an_expression_is_refused_with_its_place() {
    refused("dep_delay >", "Expected", (1, 1), None);
    refused("dep_delay 15", "unexpected `15`", (1, 11), None);
    refused("Carrier + 1 > true", "", (1, 1), None);
}

/// In the parser's words, whoever asked it.
#[test]
fn a_pattern_that_is_none_is_refused_with_the_reason() {
    let why = "the regular expression does not compile: unclosed group";
    for sql in [
        "\"Carrier\" ~ '('",
        "not (\"Carrier\" !~* '(')",
        "'a' ~ '('",
        "regexp_like(\"Carrier\", '(')",
        "regexp_match(\"Carrier\", '(')",
        "regexp_replace(\"Carrier\", '(', '')",
        "regexp_count(\"Carrier\", '(')",
        "case when dep_delay > 1 then regexp_instr(\"Carrier\", '(') end",
    ] {
        let error = Expr::compile(sql, &schema()).expect_err(sql);
        assert_eq!(error.message, why, "{sql}");
        // The same of a record.
        let sql = sql.replace("'('", "concat('(', \"Carrier\")");
        let error = Expr::compile(&sql, &schema()).expect(&sql).evaluate(&batch());
        assert_eq!(error.expect_err(&sql).to_string(), why, "{sql}");
    }
    let large = Expr::compile("\"Carrier\" ~ 'a{5000}{5000}'", &schema()).expect_err("too large");
    assert!(large.message.contains("takes more than 10485760 bytes"), "{}", large.message);
}

#[test]
fn what_would_not_replay_is_refused() {
    for sql in ["now()", "random()", "uuid()", "current_date()"] {
        refused(sql, "replay", (1, 1), None);
    }
}

#[test]
fn an_aggregate_that_is_to_respect_nulls_is_refused_and_not_computed_without_them() {
    for sql in ["last(x) respect nulls", "first_value(x) RESPECT NULLS", "count(x) respect nulls"] {
        let error = parse_call(sql).expect_err(sql);
        assert!(error.to_string().contains("`respect nulls`"), "{error}");
    }
    assert_eq!(parse_call("last(x) ignore nulls").expect("as it is anyway").arguments, ["x"]);
}

#[test]
fn aggregate_calls_are_taken_apart() {
    let call = parse_call("Quantile(delay * 2, 0.9)").expect("a call");
    assert_eq!((call.function.as_str(), call.distinct), ("quantile", false));
    assert_eq!(call.arguments, ["delay * 2", "0.9"]);
    let call = parse_call("count(distinct Carrier) filter (where x > 1)").expect("a call");
    assert!(call.distinct);
    assert_eq!((call.arguments, call.filter), (vec!["Carrier".into()], Some("x > 1".into())));
    assert_eq!(parse_call("count(*)").expect("a call").arguments, ["*"]);
    assert!(parse_call("delay + 1").is_err());
    assert!(parse_call("sum(x) over ()").is_err());
    assert!(parse_call("quantile(0.9)(delay)").is_err());
}

#[test]
fn a_result_that_would_be_too_large_is_none() {
    let large = [
        "repeat(Carrier, dep_delay * 1000000)",
        "repeat('x', dep_delay * 1000000)",
        "lpad(Carrier, dep_delay * 1000000)",
        "rpad(Carrier, dep_delay * 1000000, 'xy')",
        "array_repeat(air_time, dep_delay * 1000000)",
        "list_repeat(make_array(1, 2), dep_delay * 10000)",
        "array_resize(make_array(dep_delay), dep_delay * 1000000, 0)",
        "range(dep_delay * 1000000)",
        "range(0, dep_delay * 9000000000000000, 1)",
        "generate_series(dep_delay * 1000000, 0, -2)",
        "range(timestamp '2020-01-01', to_timestamp_seconds(dep_delay), interval '-1 second')",
        "generate_series(to_timestamp_nanos(dep_delay), timestamp '2020-01-01', interval '1 nanosecond')",
        "replace(repeat(Carrier, dep_delay * 1000), 'A', repeat('x', 1000))",
        "replace(repeat(Carrier, dep_delay * 1000), '', repeat('x', 1000))",
        "regexp_replace(repeat(Carrier, dep_delay * 1000), 'a', repeat('x', 1000), 'gi')",
        "regexp_replace(repeat(Carrier, dep_delay * 1000), '(.*)', '\\1\\1\\1', 'g') || \
         regexp_replace(repeat(Carrier, dep_delay * 10000), '^(.*)$', '\\1\\1\\1')",
        "array_to_string(string_to_array(repeat(Carrier, dep_delay * 1000), 'A'), repeat('x', 100))",
    ];
    for sql in large {
        let expr = Expr::compile(sql, &schema()).expect(sql);
        assert!(expr.can_fail(), "{sql}");
        let error = expr.evaluate(&batch()).expect_err(sql).message;
        assert!(error.contains("at most 1048576 are made for a row"), "{sql}: {error}");
        // The others have theirs.
        let others = expr.evaluate(&batch().slice(1, 1)).expect(sql);
        assert_eq!(others.len(), 1, "{sql}");
    }
    assert_eq!(numbers("length(repeat(Carrier, dep_delay))"), [Some(40), None, Some(0)]);
    assert_eq!(numbers("length(repeat(Carrier, 500000))"), [Some(1_000_000); 3]);
    assert_eq!(numbers("length(lpad(Carrier, 1000000))"), [Some(1_000_000); 3]);
    assert_eq!(numbers("array_length(range(0, 100000, 2))"), [Some(50_000); 3]);
    assert_eq!(numbers("array_length(range(dep_delay))"), [Some(20), None, Some(0)]);
    // What is empty or null is that, however far the numbers are apart.
    assert_eq!(
        numbers("array_length(range(dep_delay * 1000000, -9000000))"),
        [Some(0), None, Some(0)]
    );
    assert_eq!(numbers("length(lpad(nullif(Carrier, Carrier), 2000000000))"), [None; 3]);
    assert_eq!(numbers("length(replace(repeat(Carrier, 500000), 'A', 'x'))"), [Some(1_000_000); 3]);
    // Few matches in much, and a group that there is not.
    let long = "length(regexp_replace(repeat(Carrier, 500000), '^A', 'cost $5', 'g'))";
    assert_eq!(numbers(long)[0], Some(1_000_004));
    let long = "length(array_to_string(array_repeat(repeat('x', 1000), 1000), ','))";
    assert_eq!(numbers(long), [Some(1_000_999); 3]);
    // What gets shorter, and many short elements.
    let long = "repeat(Carrier, 500000)";
    let long = format!("length(regexp_replace({long} || {long}, '[AUB6]', '', 'g'))");
    let long = long.as_str();
    assert_eq!(numbers(long), [Some(0); 3]);
    let many = "length(array_to_string(array_repeat(1, 60000), ','))";
    assert_eq!(numbers(many), [Some(119_999); 3]);
    let many = "length(array_to_string(string_to_array(repeat('x,', 100000), ','), ','))";
    assert_eq!(numbers(many), [Some(200_000); 3]);
    let hours = "range(date '2020-01-01', date '2020-02-01', interval '1 day')";
    assert_eq!(numbers(&format!("array_length({hours})")), [Some(31); 3]);
    // Rows that are small enough each may be too many.
    let batch = arrow_select::concat::concat_batches(&schema(), &vec![batch(); 400]).expect("one");
    let expr = Expr::compile("repeat(Carrier, 500000)", &schema()).expect("right");
    let error = expr.evaluate(&batch).expect_err("1.2 GB").message;
    assert!(error.contains("more than 1073741824 bytes together"), "{error}");
    let replaced = "replace(repeat(Carrier, 1000), 'A', repeat('x', 400))";
    assert_eq!(
        numbers(&format!("length({replaced})")),
        [Some(800_000), Some(401_000), Some(2_000)]
    );
}

/// They are names wherever SQL cannot make anything of them here, and in quotes they always were.
#[test]
fn words_of_sql_may_be_names_of_columns() {
    let names = ["user", "interval", "trim", "exists", "struct", "localtime", "plain"];
    let fields: Vec<_> = names.map(|name| Field::new(name, DataType::Int64, true)).into();
    let schema = Arc::new(Schema::new(fields));
    let columns: Vec<ArrayRef> = (1..)
        .take(names.len())
        .map(|it| Arc::new(Int64Array::from(vec![it])) as ArrayRef)
        .collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of the schema");
    let number = |sql: &str| {
        let array = Expr::compile(sql, &schema).expect(sql).evaluate(&batch).expect(sql);
        arrow_cast::cast(&array, &DataType::Int64).expect(sql).as_primitive::<Int64Type>().value(0)
    };
    for (sql, expected) in [
        ("user", 1),
        ("User".to_lowercase().as_str(), 1),
        ("\"user\" + user", 2),
        ("abs(user)", 1),
        ("case when user is null then 9 when user = 1 then interval else trim end", 2),
        ("interval", 2),
        ("interval + 1", 3),
        ("interval between user and trim and not interval in (7, 8)", 1),
        ("(interval)", 2),
        ("cast(interval as varchar) || 'x' = '2x'", 1),
        ("exists + struct * localtime", 34),
        ("length(trim(' x ')) + trim", 4),
        ("extract(day from timestamp '2026-01-03' + interval '1 day') + interval", 6),
        ("extract(day from timestamp '2026-01-03' + interval '1' day) + interval", 6),
        ("struct(user, plain)['c1']", 7),
    ] {
        assert_eq!(number(sql), expected, "{sql}");
    }
    let call = parse_call("sum(user) filter (where interval > 1)").expect("a call");
    assert_eq!(call.arguments, ["\"user\""]);
    assert_eq!(number(call.filter.as_deref().expect("a filter")), 1);
    refused("user + 1", "unknown column `user`", (1, 1), None);
    refused("current_date", "another result at every call", (1, 1), None);
}

#[test]
fn times_are_compared_with_texts_of_far_years() {
    use arrow_array::{TimestampMicrosecondArray, TimestampSecondArray};
    use arrow_schema::TimeUnit::{Microsecond, Nanosecond, Second};
    let zone = |zone: Option<&str>| zone.map(Into::into);
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(Microsecond, zone(Some("UTC"))), true),
        Field::new("plain", DataType::Timestamp(Microsecond, None), true),
        Field::new("seconds", DataType::Timestamp(Second, None), true),
        Field::new("fine", DataType::Timestamp(Nanosecond, None), true),
    ]));
    // 0500-01-01, 2024-01-01 and 9500-01-01.
    let seconds = [-46_388_678_400, 1_704_067_200, 237_623_846_400];
    let micros = seconds.map(|it| it * 1_000_000);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMicrosecondArray::from(micros.to_vec()).with_timezone("UTC")),
        Arc::new(TimestampMicrosecondArray::from(micros.to_vec())),
        Arc::new(TimestampSecondArray::from(seconds.to_vec())),
        Arc::new(arrow_array::TimestampNanosecondArray::from(vec![0, 1, 2])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of the schema");
    let truth = |sql: &str| {
        let array = Expr::compile(sql, &schema).expect(sql).evaluate(&batch).expect(sql);
        array.as_boolean().values().iter().collect::<Vec<_>>()
    };
    for column in ["at", "plain", "seconds"] {
        for (condition, expected) in [
            ("> '9000-01-01'", [false, false, true]),
            ("= '9500-01-01T00:00:00Z'", [false, false, true]),
            ("<> '0500-01-01'", [false, true, true]),
            ("< '0600-01-01 00:00:00.5'", [true, false, false]),
            ("between '0600-01-01' and '9000-01-01'", [false, true, false]),
            ("not between '2000-01-01' and '9000-01-01'", [true, false, true]),
            ("in ('2024-01-01', '9500-01-01')", [false, true, true]),
            ("> cast('9000-01-01' as timestamp)", [false, false, true]),
            ("> timestamp '9000-01-01'", [false, false, true]),
            (">= date '9500-01-01'", [false, false, true]),
            // As ever.
            ("> '2024-01-01'", [false, false, true]),
            (">= date '2024-01-01'", [false, true, true]),
        ] {
            assert_eq!(truth(&format!("{column} {condition}")), expected, "{column} {condition}");
        }
    }
    // Digits are not lost by it.
    assert_eq!(truth("at > '9500-01-01T00:00:00.0000001'"), [false; 3]);
    assert_eq!(truth("at > '9499-12-31T23:59:59.9999999'"), [false, false, true]);
    // Nor is a year that nanoseconds do not know.
    assert_eq!(truth("fine > '9000-01-01'"), [false; 3]);
    assert_eq!(truth("fine < '9000-01-01'"), [true; 3]);
}
