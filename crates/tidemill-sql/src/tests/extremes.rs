//! Values at the ends of their types; `tests/oracle` goes through all functions with them.

use super::semantics::{some, texts};
use super::*;
use crate::catalogue::registry;
use arrow_array::{
    BinaryArray, Date32Array, Decimal128Array, Float32Array, IntervalMonthDayNanoArray, ListArray,
    TimestampMicrosecondArray, TimestampNanosecondArray,
    types::{Decimal128Type, IntervalMonthDayNano},
};
use arrow_schema::IntervalUnit;
use std::{collections::BTreeSet, path::Path};

/// Words that may be a part of a time, an operator or a type; those that are must be in the catalogue.
const PARTS: &str = "millennium century decade year isoyear quarter month week day doy dow isodow hour minute \
                     second millisecond microsecond nanosecond epoch julian timezone timezone_hour";
const OPERATORS: &str = "+ - * / % & | ^ # << >> = <> < <= > >= // || ~ ~* !~ !~* @> <@ -> ->> ?";
const WORDS: [&str; 13] = [
    "and",
    "or",
    "is distinct from",
    "is not distinct from",
    "like",
    "not like",
    "ilike",
    "not ilike",
    "similar to",
    "rlike",
    "in",
    "between",
    "div",
];
const TYPES: [&str; 24] = [
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "tinyint unsigned",
    "smallint unsigned",
    "int unsigned",
    "bigint unsigned",
    "real",
    "double",
    "decimal(38,10)",
    "text",
    "bytea",
    "date",
    "time",
    "timestamp",
    "timestamp(0)",
    "timestamp(3)",
    "timestamp(6)",
    "timestamp(9)",
    "timestamp with time zone",
    "interval",
    "uuid",
];

/// What a job may use, one a line, as `tests/oracle` reads it: each line needs a case there.
fn catalogue() -> BTreeSet<String> {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("b", DataType::Boolean, true),
        Field::new("n", DataType::Int64, true),
        Field::new("t", DataType::Utf8, true),
        Field::new("at", DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None), true),
        Field::new("l", DataType::new_list(DataType::Int64, true), true),
    ]));
    let compiles = |sql: &str| Expr::compile(sql, &schema).is_ok();
    let replays = |name: &&str| {
        let refused = Expr::compile(&format!("{name}()"), &schema).map_err(|error| error.message);
        !refused.is_err_and(|it| it.contains("a replay would differ"))
    };
    let functions = registry::shared().names().filter(replays).map(|it| format!("function {it}"));
    let parts = PARTS.split_whitespace().filter(|it| compiles(&format!("date_part('{it}', at)")));
    let operators = OPERATORS.split_whitespace().chain(WORDS).filter(|it| {
        let on = |column: &str| match *it {
            "in" => compiles(&format!("{column} in ({column})")),
            "between" => compiles(&format!("{column} between {column} and {column}")),
            it => compiles(&format!("{column} {it} {column}")),
        };
        ["b", "n", "t", "l"].into_iter().any(on)
    });
    let types = TYPES.into_iter().filter(|it| {
        ["n", "t", "at"].iter().any(|column| compiles(&format!("cast({column} as {it})")))
    });
    functions
        .chain(parts.map(|it| format!("part {it}")))
        .chain(operators.map(|it| format!("operator {it}")))
        .chain(types.map(|it| format!("type {it}")))
        .collect()
}

#[test]
fn the_oracle_knows_all_that_a_job_may_use() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracle/catalogue.txt");
    let listed = std::fs::read_to_string(&file).expect("the catalogue of tests/oracle");
    let listed: BTreeSet<String> =
        listed.lines().filter(|it| !it.starts_with('#')).map(str::to_owned).collect();
    let all = catalogue();
    let missing: Vec<_> = all.difference(&listed).collect();
    let gone: Vec<_> = listed.difference(&all).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "tests/oracle/catalogue.txt lacks {missing:#?} and has {gone:#?}; each line needs a case in \
         tests/oracle/*_catalogue.py"
    );
}

#[test]
fn places_beyond_texts_and_lists_are_empty() {
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(7), Some(8)]),
        Some(vec![]),
        None,
    ]);
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("t", Arc::new(StringArray::from(vec!["abc", "", "ä"])) as ArrayRef, true),
        ("l", Arc::new(lists) as _, true),
        ("least", Arc::new(Int64Array::from(vec![i64::MIN; 3])) as _, true),
        ("most", Arc::new(Int64Array::from(vec![i64::MAX; 3])) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("substr(t, least)", ["abc", "", "ä"]),
        ("substr(t, least, most)", ["", "", ""]),
        ("substr(t, cast('-9223372036854775808' as bigint))", ["abc", "", "ä"]),
        ("substr(t, -9223372036854775807, most)", ["", "", ""]),
        ("substr(t, -4000000000, 4000000003)", ["ab", "", "ä"]),
        ("substr('xyz', least)", ["xyz", "xyz", "xyz"]),
        ("substr(t, most)", ["", "", ""]),
        ("l[most]", ["-", "-", "-"]),
        ("l[least]", ["-", "-", "-"]),
        ("l[9223372036854775807]", ["-", "-", "-"]),
        ("array_to_string(array_slice(l, 1, most), ' ')", ["7 8", "", "-"]),
        ("array_to_string(array_slice(l, least, 1), ' ')", ["7", "", "-"]),
        ("lpad(t, most, null)", ["-", "-", "-"]),
        ("rpad(t, 2000000000, nullif('x', 'x'))", ["-", "-", "-"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn floats_at_the_end_of_their_type_have_their_values() {
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "f",
            Arc::new(Float64Array::from(vec![f64::MAX, f64::INFINITY, f64::NAN])) as ArrayRef,
            true,
        ),
        ("r", Arc::new(Float32Array::from(vec![-f32::MAX, f32::NEG_INFINITY, 0.5])) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("round(f, 400)", ["1.7976931348623157e308", "inf", "NaN"]),
        ("round(f, -400)", ["0.0", "inf", "NaN"]),
        ("trunc(r, -39)", ["0.0", "-inf", "0.0"]),
        ("round(acosh(f), 6)", ["710.475860", "inf", "NaN"]),
        ("asinh(f) > 710.4", ["true", "true", "true"]),
        ("asinh(r) < -89", ["true", "true", "false"]),
    ] {
        let expected = expected.map(|it| it.trim_end_matches('0'));
        let found = texts(sql, &batch);
        let found: Vec<_> = found.iter().flatten().map(|it| it.trim_end_matches('0')).collect();
        assert_eq!(
            found.iter().map(|it| it.trim_start_matches('-')).collect::<Vec<_>>(),
            expected.map(|it| it.trim_start_matches('-')),
            "{sql}"
        );
    }
}

#[test]
fn groups_of_a_pattern_keep_their_places() {
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("t", Arc::new(StringArray::from(vec!["ab", "b", "x"])) as ArrayRef, true),
        ("p", Arc::new(StringArray::from(vec!["(a)(b)", "(a)?(b)", "(x)|(y)"])) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("array_to_string(regexp_match(t, '(a)?(b)'), ' ', 'none')", ["a b", "none b", "-"]),
        ("array_to_string(regexp_match(t, p), ' ', 'none')", ["a b", "none b", "x none"]),
        ("array_to_string(regexp_match(t, '(A)?(B)', 'i'), ' ', 'none')", ["a b", "none b", "-"]),
        ("array_to_string(regexp_match(t, 'b'), ' ', 'none')", ["b", "b", "-"]),
        ("array_to_string(regexp_match('b', '(a)?(b)'), ' ', 'none')", ["none b"; 3]),
        ("regexp_match(t, '(a)?(b)')[1]", ["a", "-", "-"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn sums_of_lists_are_exact() {
    let numbers = ListArray::from_iter_primitive::<Int64Type, _, _>([
        Some(vec![Some(i64::MAX), Some(i64::MIN)]),
        Some(vec![None, Some(i64::MAX), None]),
        Some(vec![None]),
        Some(vec![]),
        None,
    ]);
    let prices = ListArray::from_iter_primitive::<Decimal128Type, _, _>(vec![
        Some(vec![
            Some(10_i128.pow(37)),
            Some(1)
        ]);
        5
    ]);
    let lists = RecordBatch::try_from_iter_with_nullable([
        ("l", Arc::new(numbers) as ArrayRef, true),
        ("p", Arc::new(prices) as _, true),
    ])
    .expect("columns of one length");
    let most = i64::MAX.to_string();
    assert_eq!(texts("array_sum(l)", &lists), some(&["-1", &most, "-", "-", "-"]));
    assert_eq!(texts("list_sum([0.5, 1.0])", &lists), some(&["1.5"; 5]));
    let expr = Expr::compile("array_sum(p)", &lists.schema()).expect("a sum of decimals");
    assert!(matches!(expr.data_type(), DataType::Decimal128(38, _)), "{}", expr.data_type());
    let error = Expr::compile("array_sum([9223372036854775807, dep_delay])", &schema())
        .expect("a sum")
        .evaluate(&batch())
        .expect_err("the sum of a row has no 64 bits");
    assert!(error.to_string().contains("does not fit"), "{error}");
}

#[test]
fn nanoseconds_of_a_length_of_time_count_once() {
    let lengths = [(0, 0, 1_500_000_000), (13, 40, -61_000_000_001), (1, 1, 0)];
    let lengths =
        lengths.map(|(months, days, nanos)| IntervalMonthDayNano::new(months, days, nanos));
    let lengths = IntervalMonthDayNanoArray::from(lengths.to_vec());
    assert_eq!(*lengths.data_type(), DataType::Interval(IntervalUnit::MonthDayNano));
    let batch =
        RecordBatch::try_from_iter([("i", Arc::new(lengths) as ArrayRef)]).expect("a column");
    for (sql, expected) in [
        ("date_part('nanosecond', i)", ["1500000000", "-1000000001", "0"]),
        ("extract(nanosecond from i)", ["1500000000", "-1000000001", "0"]),
        ("date_part('nanosecond', interval '1.5 seconds')", ["1500000000"; 3]),
        ("date_part('microsecond', i)", ["1500000", "-1000000", "0"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn a_sign_negates_all_of_a_length_of_time() {
    let batch = batch();
    for (sql, expected) in [
        ("-interval '1 month 2 days'", "-1 mons -2 days"),
        ("-interval '31 days'", "-31 days"),
        ("interval '1 day' - interval '1 month 2 days'", "-1 mons -1 days"),
        ("-(interval '1 month 2 days')", "-1 mons -2 days"),
        ("date '2024-03-31' + -interval '1 month 1 day'", "2024-02-28"),
        (
            "case when dep_delay is null or true then -interval '1 month 2 days' end",
            "-1 mons -2 days",
        ),
    ] {
        assert_eq!(texts(sql, &batch), some(&[expected; 3]), "{sql}");
    }
}

#[test]
fn bytes_are_text_whatever_the_other_rows_are() {
    let bytes = BinaryArray::from_vec(vec![b"a", b"\xff\xfe", "ä".as_bytes()]);
    let batch = RecordBatch::try_from_iter([("b", Arc::new(bytes) as ArrayRef)]).expect("a column");
    let expr = Expr::compile("cast(b as text)", &batch.schema()).expect("a cast");
    assert!(expr.evaluate(&batch).is_err());
    for (row, expected) in [(0, Some("a")), (1, None), (2, Some("ä"))] {
        let made = expr.evaluate(&batch.slice(row, 1)).ok();
        let made = made.as_ref().map(|it| it.as_string::<i32>().value(0));
        assert_eq!(made, expected, "row {row}");
    }
}

#[test]
fn a_number_is_no_time_of_day() {
    let batch = RecordBatch::try_from_iter([(
        "t",
        Arc::new(StringArray::from(vec!["12:30", "12", "-7", "+5", "12:30:00.5"])) as ArrayRef,
    )])
    .expect("a column");
    let found = texts("cast(try_cast(t as time) as text)", &batch);
    assert_eq!(found, some(&["12:30:00", "-", "-", "-", "12:30:00.500"]));
    let expr = Expr::compile("cast(t as time)", &batch.schema()).expect("a cast");
    let error = expr.evaluate(&batch).expect_err("a number").to_string();
    assert!(error.contains("`12` is no time of day"), "{error}");
}

#[test]
fn floats_beyond_a_decimal_are_not_pulled_to_its_end() {
    let batch = RecordBatch::try_from_iter([(
        "f",
        Arc::new(Float64Array::from(vec![1.0, -1.0, 0.25])) as ArrayRef,
    )])
    .expect("a column");
    let expr = Expr::compile("try_cast(f as decimal(38, 38))", &batch.schema()).expect("a cast");
    let made = expr.evaluate(&batch).expect("nulls where there is none");
    let made: &Decimal128Array = made.as_primitive();
    assert_eq!([0, 1, 2].map(|row| made.is_null(row)), [true, true, false]);
    let expr = Expr::compile("cast(f as decimal(38, 38))", &batch.schema()).expect("a cast");
    assert!(expr.evaluate(&batch).is_err());
    assert!(expr.evaluate(&batch.slice(2, 1)).is_ok());
}

#[test]
fn dates_are_moved_by_days_that_fit_and_by_none_if_they_are_null() {
    let dates = Date32Array::from(vec![Some(0), Some(2_932_896), Some(-719_162), None]);
    let numbers = Int64Array::from(vec![Some(-1), Some(1), None, Some(i64::MAX)]);
    let large = UInt64Array::from(vec![Some(3), None, Some(0), Some(u64::MAX)]);
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("d", Arc::new(dates) as ArrayRef, true),
        ("n", Arc::new(numbers) as _, true),
        ("u", Arc::new(large) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("d + n", ["1969-12-31", "+10000-01-01", "-", "-"]),
        ("n + d", ["1969-12-31", "+10000-01-01", "-", "-"]),
        ("d - n", ["1970-01-02", "9999-12-30", "-", "-"]),
        ("d + u", ["1970-01-04", "-", "0001-01-01", "-"]),
        ("d + 1", ["1970-01-02", "+10000-01-01", "0001-01-02", "-"]),
        ("cast(null as date) + n", ["-"; 4]),
        ("cast(null as date) + 9223372036854775807", ["-"; 4]),
        ("d - cast(null as bigint)", ["-"; 4]),
        (
            "cast(arrow_cast(d, 'Date64') + 1 as date)",
            ["1970-01-02", "+10000-01-01", "0001-01-02", "-"],
        ),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
    assert_eq!(
        texts("cast(n as date)", &batch.slice(0, 3)),
        some(&["1969-12-31", "1970-01-02", "-"])
    );
    assert_eq!(texts("try_cast(n as date)", &batch.slice(3, 1)), some(&["-"]));
    let beyond = Expr::compile("cast(n as date)", &batch.schema()).expect("a cast");
    assert!(beyond.evaluate(&batch).expect_err("no date").message.contains("is no date"));
    for sql in ["d + 2147483647", "d - 9223372036854775807", "d + cast('100000000' as bigint)"] {
        let error = Expr::compile(sql, &batch.schema()).expect(sql).evaluate(&batch);
        let error = error.expect_err(sql).message;
        assert!(error.contains("date out of range: 1970-01-01"), "{sql}: {error}");
    }
}

#[test]
fn times_at_the_ends_of_64_bits_are_cut_towards_the_past() {
    let nanos = TimestampNanosecondArray::from(vec![i64::MIN, i64::MIN + 1, -1, i64::MAX]);
    let micros = TimestampMicrosecondArray::from(vec![i64::MIN, i64::MIN + 1, -1, i64::MAX]);
    let batch = RecordBatch::try_from_iter([
        ("ns", Arc::new(nanos) as ArrayRef),
        ("us", Arc::new(micros) as _),
    ])
    .expect("columns of one length");
    let seconds = some(&["-9223372037", "-9223372037", "-1", "9223372036"]);
    for sql in [
        "cast(cast(ns as timestamp(0)) as bigint)",
        "cast(try_cast(ns as timestamp(0)) as bigint)",
        "to_unixtime(ns)",
        "cast(to_timestamp_seconds(ns) as bigint)",
    ] {
        assert_eq!(texts(sql, &batch), seconds, "{sql}");
    }
    let millis = some(&["-9223372036854776", "-9223372036854776", "-1", "9223372036854775"]);
    for sql in
        ["cast(cast(us as timestamp(3)) as bigint)", "cast(cast(ns as timestamp(6)) as bigint)"]
    {
        assert_eq!(texts(sql, &batch), millis, "{sql}");
    }
}

#[test]
fn dates_become_times_of_every_unit() {
    let near = RecordBatch::try_from_iter_with_nullable([(
        "d",
        Arc::new(Date32Array::from(vec![Some(0), Some(-1), Some(106_751), Some(-106_751), None]))
            as ArrayRef,
        true,
    )])
    .expect("dates");
    let midnights = some(&[
        "1970-01-01T00:00:00",
        "1969-12-31T00:00:00",
        "2262-04-11T00:00:00",
        "1677-09-22T00:00:00",
        "-",
    ]);
    for unit in ["", "_seconds", "_millis", "_micros", "_nanos"] {
        let sql = format!("to_timestamp{unit}(d)");
        assert_eq!(texts(&sql, &near), midnights, "{sql}");
    }
    let far = RecordBatch::try_from_iter([(
        "d",
        Arc::new(Date32Array::from(vec![2_932_896, -719_162])) as ArrayRef,
    )])
    .expect("dates");
    for unit in ["", "_seconds", "_millis", "_micros"] {
        let sql = format!("to_timestamp{unit}(d)");
        assert_eq!(
            texts(&sql, &far),
            some(&["9999-12-31T00:00:00", "0001-01-01T00:00:00"]),
            "{sql}"
        );
    }
    let sql = "to_timestamp_nanos(d)";
    assert!(Expr::compile(sql, &far.schema()).expect(sql).evaluate(&far).is_err());
}

#[test]
fn constants_with_a_zone_have_one() {
    let batch = RecordBatch::try_from_iter([(
        "t",
        Arc::new(StringArray::from(vec!["1970-01-01", "1969-12-31T23:30:00"])) as ArrayRef,
    )])
    .expect("texts");
    for (sql, expected) in [
        (
            "date_part('hour', cast('1970-01-01' as timestamp with time zone) at time zone '+02:00')",
            ["2", "2"],
        ),
        (
            "date_part('hour', cast(t as timestamp with time zone) at time zone '+02:00')",
            ["2", "1"],
        ),
        (
            "to_local_time(timestamp with time zone '2024-07-01T00:00:00' at time zone 'Europe/Berlin')",
            ["2024-07-01T02:00:00"; 2],
        ),
        ("cast(t as timestamp with time zone) = '1970-01-01'", ["true", "false"]),
        ("cast(t as timestamp with time zone) < timestamp '1970-01-01'", ["false", "true"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn parts_that_no_time_has_are_refused_of_constants_too() {
    let schema = Arc::new(Schema::empty());
    for sql in ["date_part('decade', timestamp '2024-01-01')", "date_part('day', time '12:00')"] {
        assert!(Expr::compile(sql, &schema).is_err(), "{sql}");
    }
}

#[test]
fn numbers_are_no_bytes() {
    let batch =
        RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![1])) as ArrayRef)])
            .expect("n");
    for sql in ["cast(n as bytea)", "try_cast(n as bytea)", "cast(1 as bytea)"] {
        let error = Expr::compile(sql, &batch.schema()).expect_err(sql);
        assert!(error.message.contains("cast it to text first"), "{sql}: {}", error.message);
    }
}

#[test]
fn quotients_by_decimals_of_many_digits_have_a_type() {
    let batch = RecordBatch::try_from_iter([(
        "p",
        Arc::new(StringArray::from(vec!["0.5", "-0.5", "0.3"])) as ArrayRef,
    )])
    .expect("texts");
    let divisor = "cast('0.75' as decimal(38, 38))";
    for (sql, expected) in [
        ("cast(p as decimal(4, 1)) / X", ["0.66667", "-0.66667", "0.40000"]),
        ("1 / X", ["1.3333"; 3]),
        ("cast(1 as tinyint) / X", ["1.3333"; 3]),
        (
            "cast(p as decimal(20, 2)) / cast('0.99999999999999999999999999999999999999' as decimal(38, 38))",
            ["0.500000", "-0.500000", "0.300000"],
        ),
    ] {
        let sql = sql.replace('X', divisor);
        assert_eq!(texts(&sql, &batch), some(&expected), "{sql}");
    }
    let least = "cast('1e-38' as decimal(38, 38))";
    let sql = format!("cast(p as decimal(4, 1)) / {least}");
    assert!(Expr::compile(&sql, &batch.schema()).expect(&sql).evaluate(&batch).is_err());
}

#[test]
fn singles_and_whole_numbers_are_computed_in_double() {
    let batch = RecordBatch::try_from_iter([(
        "f",
        Arc::new(Float32Array::from(vec![16_777_216.0])) as ArrayRef,
    )])
    .expect("f");
    for (sql, expected) in [
        ("f + cast(1 as tinyint)", "16777217.0"),
        ("f + 1", "16777217.0"),
        ("cast(1 as smallint unsigned) - f", "-16777215.0"),
        ("f + f", "33554432.0"),
    ] {
        assert_eq!(texts(sql, &batch), some(&[expected]), "{sql}");
    }
}

#[test]
fn texts_of_far_years_are_taken_apart() {
    let batch = RecordBatch::try_from_iter([(
        "t",
        Arc::new(StringArray::from(vec!["9999-12-31T23:59:58.5", "0001-01-01"])) as ArrayRef,
    )])
    .expect("texts");
    for (sql, expected) in [
        ("date_part('year', t)", ["9999", "1"]),
        ("extract(microsecond from t)", ["58500000", "0"]),
        ("cast(date_trunc('month', t) as text)", ["9999-12-01T00:00:00", "0001-01-01T00:00:00"]),
        ("to_char(t, '%Y')", ["9999", "0001"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}
