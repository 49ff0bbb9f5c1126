//! What expressions mean where DataFusion by itself gives other values, or values that depend on
//! which rows are evaluated together.

use super::*;
use arrow_array::{
    BooleanArray, Date32Array, Float64Array, ListArray, StringArray, TimestampMicrosecondArray,
};

/// DataFusion's simplifier makes others of these, of which some rows differ.
#[test]
fn expressions_mean_what_they_say_where_something_is_null_or_negative() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("i", DataType::Int64, true),
        Field::new("short", DataType::Int16, true),
        Field::new("t", DataType::Utf8, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![Some(1), Some(6), None])),
        Arc::new(Int16Array::from(vec![Some(1), Some(6), None])),
        Arc::new(StringArray::from(vec![Some("a"), Some(""), None])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of the schema");
    let of = |sql: &str| Expr::compile(sql, &schema).expect(sql).evaluate(&batch).expect(sql);
    let truth = |sql: &str, expected: [Option<bool>; 3]| {
        assert_eq!(of(sql).as_boolean(), &BooleanArray::from(expected.to_vec()), "{sql}");
    };
    let (yes, no) = (Some(true), Some(false));
    for i in ["i", "short"] {
        for (sql, expected) in [
            ("X not in (1, 2) or X not in (3, 5)", [yes, yes, None]),
            ("X in (1, 2) and X not in (2, null)", [None, no, None]),
            ("not (X in (1, 2) and X in (3, 4))", [yes, yes, None]),
            ("X not in (2, null) or X not in (6, 5)", [yes, None, None]),
            ("X in (1, 2, null) or X in (6)", [yes, yes, None]),
            ("X in (100000, 6)", [no, yes, None]),
            ("X > 100000 or X < -100000", [no, no, None]),
            ("100000 > X", [yes, yes, None]),
            ("X between -100000 and 5", [yes, no, None]),
            ("X not between 2 and 9", [yes, no, None]),
            ("X = null", [None, None, None]),
            ("X * 0 = 0", [yes, yes, None]),
            ("X = X", [yes, yes, None]),
            ("not (X <> X)", [yes, yes, None]),
            ("X > 3 or not X > 3", [yes, yes, None]),
            ("X > 3 and not X > 3", [no, no, None]),
            ("X is not distinct from 6", [no, yes, no]),
            ("coalesce(X, 7) > 6", [no, no, yes]),
            ("nullif(X, 6) is null", [no, yes, yes]),
        ] {
            truth(&sql.replace('X', i), expected);
        }
    }
    for (sql, expected) in [
        ("t ~ '.*'", [yes, yes, None]),
        ("not (t ~ '.*')", [no, no, None]),
        ("t !~ '.*'", [no, no, None]),
        ("t like '%'", [yes, yes, None]),
        ("t not like '%'", [no, no, None]),
        ("t ~ '^a$'", [yes, no, None]),
        ("starts_with(t, '')", [yes, yes, None]),
        ("concat(t, null) = ''", [no, yes, yes]),
    ] {
        truth(sql, expected);
    }
    let numbers = |sql: &str, expected: [Option<i64>; 3]| {
        assert_eq!(
            of(sql).as_primitive::<Int64Type>(),
            &Int64Array::from(expected.to_vec()),
            "{sql}"
        );
    };
    numbers("-(i & 3)", [Some(-1), Some(-2), None]);
    numbers("-(i | 3)", [Some(-3), Some(-7), None]);
    numbers("coalesce(i, 0) & -coalesce(i, 0)", [Some(1), Some(2), Some(0)]);
    numbers("coalesce(i, 0) | -coalesce(i, 0)", [Some(-1), Some(-2), Some(0)]);
    numbers("coalesce(i, 0) ^ -coalesce(i, 0)", [Some(-2), Some(-4), Some(0)]);
    numbers("-(0 & i)", [Some(0), Some(0), None]);
    numbers("nvl2(i, i + 1, 0)", [Some(2), Some(7), Some(0)]);
    numbers("coalesce(null, -(6 & 3))", [Some(-2); 3]);
    numbers("arrow_cast(i, 'Int64') + arrow_cast('4', 'Int64')", [Some(5), Some(10), None]);
    let no_number = of("power(2.0, log(2.0, -i))");
    let no_number = no_number.as_primitive::<arrow_array::types::Float64Type>();
    assert!(no_number.value(0).is_nan() && no_number.is_null(2), "{no_number:?}");
}

/// A cast that loses something is part of what is asked.
#[test]
fn a_cast_that_loses_something_is_not_left_out_of_a_comparison() {
    use arrow_array::TimestampMicrosecondArray;
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("at", DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None), true),
        Field::new("x", DataType::Float64, true),
        Field::new("n", DataType::Int64, true),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(TimestampMicrosecondArray::from(vec![1_500_000])),
        Arc::new(Float64Array::from(vec![1.5])),
        Arc::new(Int64Array::from(vec![7])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of the schema");
    for sql in [
        "arrow_cast(at, 'Timestamp(Second, None)') = arrow_cast(1, 'Timestamp(Second, None)')",
        "cast(at as date) = date '1970-01-01'",
        "cast(x as bigint) = 1",
        "cast(n as varchar) = '7'",
        "cast(n as varchar) < '70'",
        "cast(n as varchar) > '10'",
        "n < 7.5 and n > 6.5",
    ] {
        let truth = Expr::compile(sql, &schema).expect(sql).evaluate(&batch).expect(sql);
        assert!(truth.as_boolean().value(0), "{sql}");
    }
}

/// A value of each row, evaluated with the others and by itself.
pub(super) fn texts(sql: &str, batch: &RecordBatch) -> Vec<Option<String>> {
    let expr = Expr::compile(sql, &batch.schema()).expect(sql);
    let of = |batch: &RecordBatch| {
        let array = expr.evaluate(batch).expect(sql);
        let array = arrow_cast::cast(&array, &DataType::Utf8).expect("a text of it");
        array.as_string::<i32>().iter().map(|it| it.map(str::to_owned)).collect::<Vec<_>>()
    };
    let together = of(batch);
    let alone: Vec<_> = (0..batch.num_rows()).flat_map(|row| of(&batch.slice(row, 1))).collect();
    assert_eq!(together, alone, "{sql}");
    together
}

pub(super) fn some(texts: &[&str]) -> Vec<Option<String>> {
    texts.iter().map(|it| (*it != "-").then(|| (*it).to_owned())).collect()
}

#[test]
fn a_value_does_not_depend_on_the_other_rows() {
    let list = |rows: &[Option<&[&str]>]| {
        let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
        let lengths = rows.iter().map(|it| it.map_or(0, <[_]>::len));
        let values: StringArray =
            rows.iter().flat_map(|it| it.unwrap_or_default()).map(Some).collect();
        let nulls: arrow_buffer::NullBuffer = rows.iter().map(Option::is_some).collect();
        let offsets = arrow_buffer::OffsetBuffer::from_lengths(lengths);
        Arc::new(ListArray::new(field, offsets, Arc::new(values), Some(nulls))) as ArrayRef
    };
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("w", list(&[Some(&["x"]), Some(&["x"]), Some(&[]), None]), true),
        ("v", list(&[None, Some(&["x"]), Some(&[]), Some(&["x"])]), true),
        (
            "f",
            Arc::new(StringArray::from(vec![Some("%Y"), Some("%m"), Some("%d"), None])) as _,
            true,
        ),
        ("t", Arc::new(StringArray::from(vec![Some("abc"), Some(""), None, Some("é")])) as _, true),
        ("n", Arc::new(Int64Array::from(vec![Some(-1), Some(2), Some(5), None])) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("array_has_all(w, v)", ["-", "true", "true", "-"]),
        ("w @> v", ["-", "true", "true", "-"]),
        ("v <@ w", ["-", "true", "true", "-"]),
        ("array_has_any(w, v)", ["-", "true", "false", "-"]),
        ("not array_has_any(w, v)", ["-", "false", "true", "-"]),
        ("array_has_all(w, null)", ["-", "-", "-", "-"]),
        ("array_has(w, t)", ["false", "false", "-", "-"]),
        ("array_has(w, 'x')", ["true", "true", "false", "-"]),
        ("array_has(make_array('x', 'abc'), t)", ["true", "false", "-", "false"]),
        ("to_char(timestamp '2024-05-06', f)", ["2024", "05", "06", "-"]),
        ("lpad(t, -1, f)", ["", "", "-", "-"]),
        ("rpad(t, -1, f)", ["", "", "-", "-"]),
        ("lpad(t, n, 'x')", ["", "xx", "-", "-"]),
        ("rpad('a', n, f)", ["", "a%", "a%d%d", "-"]),
        ("lpad(t, 4, f)", ["%abc", "%m%m", "-", "-"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn times_of_far_years_are_compared_with_each_other_and_with_dates() {
    // 0500-01-01, 2024-01-01 and 9500-01-01.
    let seconds = [-46_388_678_400, 1_704_067_200, 237_623_846_400];
    let micros: Vec<i64> = seconds.iter().map(|it| it * 1_000_000).collect();
    let days: Vec<i32> = seconds.iter().map(|it| (it / 86_400) as i32).collect();
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from(micros.clone()).with_timezone("UTC"))
                as ArrayRef,
            true,
        ),
        ("plain", Arc::new(TimestampMicrosecondArray::from(micros)) as _, true),
        ("day", Arc::new(Date32Array::from(days)) as _, true),
        (
            "text",
            Arc::new(StringArray::from(vec!["0500-01-02", "2024-01-02", "9500-01-02"])) as _,
            true,
        ),
    ])
    .expect("columns of one length");
    for at in ["at", "plain"] {
        for (sql, expected) in [
            ("X = day", ["true", "true", "true"]),
            ("day >= X", ["true", "true", "true"]),
            ("X is distinct from day", ["false", "false", "false"]),
            ("X between day and timestamp '2024-06-01'", ["true", "true", "false"]),
            ("X in (timestamp '2024-01-01', day)", ["true", "true", "true"]),
            ("X < cast(text as timestamp)", ["true", "true", "true"]),
            ("coalesce(X, timestamp '2024-01-01') = X", ["true", "true", "true"]),
            ("nullif(X, timestamp '2024-01-01') is null", ["false", "true", "false"]),
            ("case X when timestamp '2024-01-01' then 1 else 2 end", ["2", "1", "2"]),
            ("greatest(X, timestamp '9000-01-01') > X", ["true", "true", "false"]),
            ("date_part('year', cast(text as timestamp))", ["500", "2024", "9500"]),
            ("date_part('hour', to_local_time(at at time zone '+02:00'))", ["2", "2", "2"]),
        ] {
            let sql = sql.replace('X', at);
            assert_eq!(texts(&sql, &batch), some(&expected), "{sql}");
        }
    }
}

#[test]
fn decimals_have_no_more_digits_than_their_type() {
    let text = |it: &str| Arc::new(StringArray::from(vec![it.to_owned()])) as ArrayRef;
    let long = "9".repeat(27);
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("a", text(&format!("{long}0")), true),
        ("b", text("1000000000000000000000000000"), true),
        ("c", text("12345678901234567890"), true),
        ("d", text("10000000000000000000"), true),
    ])
    .expect("columns of one length");
    let of = |sql: &str| Expr::compile(sql, &batch.schema()).expect(sql).evaluate(&batch);
    for sql in [
        "cast(a as decimal(38,10)) + cast(b as decimal(38,10))",
        "-cast(a as decimal(38,10)) - cast(b as decimal(38,10))",
        "cast(c as decimal(20,0)) * cast(d as decimal(20,0))",
    ] {
        let error = of(sql).expect_err(sql).message;
        assert!(error.contains(" is too ") || error.contains("verflow"), "{sql}: {error}");
    }
    for sql in [
        "cast(b as decimal(38,9)) + cast(b as decimal(38,9))",
        "cast(a as decimal(38,10)) - cast(b as decimal(38,10))",
    ] {
        of(sql).expect(sql);
    }
}

#[test]
fn what_is_not_done_as_it_is_said_is_refused() {
    for (sql, said) in [
        ("Carrier similar to 'a%'", "use `like`"),
        ("Carrier not similar to 'a%'", "use `like`"),
        ("timestamp '2024-01-01' at time zone 'Foo/Bar'", "unknown time zone `Foo/Bar`"),
        ("to_local_time(timestamp '2024-01-01' at time zone 'CEST')", "unknown time zone `CEST`"),
    ] {
        refused(sql, said, (1, 1), None);
    }
    Expr::compile("timestamp '2024-01-01' at time zone 'Europe/Berlin'", &schema())
        .expect("a zone");
}

#[test]
fn a_type_that_follows_from_a_constant_is_that_of_the_values() {
    let text = |rows: &[Option<&str>]| Arc::new(StringArray::from(rows.to_vec())) as ArrayRef;
    let texts_of_decimals = text(&[Some("12.34"), Some("7.00")]);
    let decimals = arrow_cast::cast(&texts_of_decimals, &DataType::Decimal128(10, 2)).unwrap();
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("p", decimals, true),
        ("q", text(&[Some("5"), None]), true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("case when q is null then round(p, 1) else p end", ["12.34", "7.00"]),
        ("p = round(p, 2)", ["true", "true"]),
        ("p > round(p, 1)", ["true", "false"]),
        ("p is distinct from round(p, 1)", ["true", "false"]),
        ("round(p, 1) = cast(12.3 as decimal(3,1))", ["true", "false"]),
        ("nullif(p, round(p, 1))", ["12.34", "-"]),
        ("least(p, round(p, 1))", ["12.30", "7.00"]),
        ("coalesce(nullif(p, p), round(p, 1))", ["12.30", "7.00"]),
        ("array_length([p, round(p, 1)])", ["2", "2"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn constants_with_more_digits_than_a_time_lie_between_times() {
    use arrow_array::{TimestampMillisecondArray, TimestampSecondArray};
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("at", Arc::new(TimestampMicrosecondArray::from(vec![0, -1])) as ArrayRef, true),
        ("ms", Arc::new(TimestampMillisecondArray::from(vec![0, -1])) as _, true),
        ("s", Arc::new(TimestampSecondArray::from(vec![0, -1])) as _, true),
        ("day", Arc::new(Date32Array::from(vec![0, -1])) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("at = '1970-01-01T00:00:00.0000005'", ["false", "false"]),
        ("at < '1970-01-01T00:00:00.0000005'", ["true", "true"]),
        ("at is distinct from '1970-01-01T00:00:00.0000005'", ["true", "true"]),
        ("ms <= timestamp '1969-12-31T23:59:59.9995'", ["false", "true"]),
        (
            "ms in (timestamp '1970-01-01T00:00:00.0005', timestamp '1969-12-31T23:59:59.999')",
            ["false", "true"],
        ),
        ("ms between '1969-12-31T23:59:59.9995' and '1970-01-01'", ["true", "false"]),
        ("s >= timestamp '1969-12-31T23:59:59.5'", ["true", "false"]),
        ("s = '1970-01-01T00:00:00.5Z'", ["false", "false"]),
        ("day >= timestamp '1969-12-31T12:00:00'", ["true", "false"]),
        ("day = timestamp '1970-01-01'", ["true", "false"]),
        ("day < timestamp '9999-12-31'", ["true", "true"]),
        ("day is distinct from null::timestamp", ["true", "true"]),
        ("day = null::timestamp", ["-", "-"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn times_of_far_years_are_chosen_and_subtracted_with_dates() {
    // 2024-01-01 and 9999-12-31.
    let days = [19_723, 2_932_896];
    let micros = days.map(|it| i64::from(it) * 86_400_000_000);
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "at",
            Arc::new(TimestampMicrosecondArray::from(micros.to_vec()).with_timezone("UTC"))
                as ArrayRef,
            true,
        ),
        ("plain", Arc::new(TimestampMicrosecondArray::from(micros.to_vec())) as _, true),
        ("d", Arc::new(Date32Array::from(days.to_vec())) as _, true),
    ])
    .expect("columns of one length");
    for at in ["at", "plain"] {
        for (sql, expected) in [
            ("d > timestamp '2024-06-01'", ["false", "true"]),
            ("timestamp '2024-06-01' < d", ["false", "true"]),
            ("d in (timestamp '2024-01-01', timestamp '2024-01-02')", ["true", "false"]),
            ("d between timestamp '2024-01-01' and timestamp '9999-12-31'", ["true", "true"]),
            ("X is distinct from '2024-01-01'", ["false", "true"]),
            ("X is not distinct from '2024-01-01'", ["true", "false"]),
            ("case X when d then 1 else 2 end", ["1", "1"]),
            ("case X when '2024-01-01' then 1 else 2 end", ["1", "2"]),
            ("case d when timestamp '2024-01-01' then 1 else 2 end", ["1", "2"]),
            ("coalesce(X, d) = X", ["true", "true"]),
            ("nullif(X, d) is null", ["true", "true"]),
            ("nullif(X, '2024-01-01') is null", ["true", "false"]),
            ("nullif(X, '9999-12-31') is null", ["false", "true"]),
            ("greatest(X, d) = X", ["true", "true"]),
            ("least(X, '9000-01-01') = X", ["true", "false"]),
            ("(case when d > timestamp '3000-01-01' then d else X end) = X", ["true", "true"]),
            ("array_length([X, d])", ["2", "2"]),
            ("coalesce(nullif(X, d), d) = X", ["true", "true"]),
            ("greatest(coalesce(X, d), d) = X", ["true", "true"]),
            ("(coalesce(X, d) - d) is not null", ["true", "true"]),
            ("nullif(coalesce(nullif(X, d), d), d) is null", ["true", "true"]),
            ("(d at time zone 'UTC') = X", ["true", "true"]),
            ("(X - d) is not null", ["true", "true"]),
        ] {
            let sql = sql.replace('X', at);
            assert_eq!(texts(&sql, &batch), some(&expected), "{sql}");
        }
    }
}

#[test]
fn lists_of_any_length_take_the_two_zeros_for_one() {
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("f", Arc::new(Float64Array::from(vec![-0.0, 0.0, 1.0])) as ArrayRef, true),
        ("g", Arc::new(Float64Array::from(vec![0.0, -0.0, 2.0])) as _, true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("f in (0.0)", ["true", "true", "false"]),
        ("f in (0, 5)", ["true", "true", "false"]),
        ("f not in (-0.0)", ["false", "false", "true"]),
        ("f in (0.0, null)", ["true", "true", "-"]),
        ("f in (9, 8, 7, 6, 5, -0.0)", ["true", "true", "false"]),
        ("cast(f as real) in (0.0, 3)", ["true", "true", "false"]),
        ("f in (g, 7)", ["true", "true", "false"]),
        ("f + 0.0 in (g)", ["true", "true", "false"]),
        ("f in (case when f > 0.5 then 3 else g end)", ["true", "true", "false"]),
        ("f in (9, case when f > 0.5 then null else g end)", ["true", "true", "-"]),
        ("f not in (case when f > 0.5 then null else g end, 9)", ["false", "false", "-"]),
        ("f / f in (0.0/0.0)", ["true", "true", "false"]),
        ("f in (0.0/0.0)", ["false", "false", "false"]),
        ("f not in (9, 0.0/0.0)", ["true", "true", "true"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn constants_are_computed_as_columns_are() {
    let nines = "9".repeat(38);
    let too_long = [
        format!("cast('{nines}' as decimal(38,0)) + 1"),
        "cast('9000000000000000000000000000' as decimal(38,10)) \
         + cast('1000000000000000000000000000' as decimal(38,10))"
            .to_owned(),
    ];
    for sql in too_long {
        let error = Expr::compile(&sql, &schema()).expect_err(&sql).message;
        assert!(error.contains(" is too "), "{sql}: {error}");
    }
    for (sql, expected) in [
        ("1 + coalesce(null, 2)", 3),
        ("-coalesce(1, 2)", -1),
        ("1 + nvl2(null, 1, 2)", 3),
        ("coalesce(nvl(coalesce(null, nullif(1, 1)), null), 4, 5)", 4),
        ("1 + arrow_cast(2, 'Int64')", 3),
        ("1 + coalesce(arrow_try_cast('x', 'Int64'), 0)", 1),
    ] {
        assert_eq!(numbers(sql), [Some(expected); 3], "{sql}");
    }
}

/// Each `coalesce` has its first argument twice.
#[test]
fn deep_choices_of_the_first_value_are_compiled_at_once() {
    let deep = (0..25).fold("dep_delay".to_owned(), |it, nth| format!("coalesce({it}, {nth})"));
    assert_eq!(numbers(&deep), [Some(20), Some(0), Some(-3)]);
}

#[test]
fn any_sign_may_escape_in_a_pattern() {
    let rows = ["100%", "100x", "a_b", "axb", "c\\d", "!"];
    let batch =
        RecordBatch::try_from_iter([("t", Arc::new(StringArray::from(rows.to_vec())) as ArrayRef)]);
    let batch = batch.expect("one column");
    for (sql, expected) in [
        ("t like '100!%' escape '!'", "100%"),
        ("t like 'a!_b' escape '!'", "a_b"),
        ("t ilike 'A#_B' escape '#'", "a_b"),
        ("t like 'c\\d' escape '!'", "c\\d"),
        ("t like '!!' escape '!'", "!"),
        ("t like 'c\\\\d'", "c\\d"),
    ] {
        let expected = rows.map(|it| Some((it == expected).to_string()));
        assert_eq!(texts(sql, &batch), expected, "{sql}");
    }
    for sql in ["t like 'a!' escape '!'", "t like 'a' || '!' escape '!'"] {
        let error = Expr::compile(sql, &batch.schema()).expect_err(sql);
        assert!(error.message.contains("`a!` of `like` ends with its escape"), "{error}");
    }
    let error = Expr::compile("t like\n 'aé%' escape 'é'", &batch.schema()).expect_err("refused");
    assert!(error.message.contains("'é' cannot escape in `like`"), "{}", error.message);
    assert_eq!((error.line, error.column), (2, 15));
}

#[test]
fn a_pattern_of_a_record_may_be_escaped_by_any_sign() {
    let rows = |it: [Option<&str>; 5]| Arc::new(StringArray::from(it.to_vec())) as ArrayRef;
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("t", rows([Some("a%"), Some("ab"), Some("ab"), Some("a\\b"), Some("x")]), true),
        ("p", rows([Some("a!%"), Some("A!%"), Some("A%"), Some("a\\_"), None]), true),
    ])
    .expect("columns of one length");
    for (sql, expected) in [
        ("t like p escape '!'", ["true", "false", "false", "true", "-"]),
        ("t ilike p escape '!'", ["true", "false", "true", "true", "-"]),
        ("t not like p escape '!'", ["false", "true", "true", "false", "-"]),
        ("t like p || '' escape '!'", ["true", "false", "false", "true", "-"]),
        ("t like null escape '!'", ["-"; 5]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
    let dangling =
        Expr::compile("t like p || '!' escape '!'", &batch.schema()).expect("it may fit");
    let error = dangling.evaluate(&batch).expect_err("no pattern").to_string();
    assert!(error.contains("`a!%!` of `like` ends with its escape"), "{error}");
}

#[test]
fn a_long_list_of_what_is_no_constant_is_not_deep() {
    let list: Vec<String> = (0..3_000).map(|it| format!("dep_delay + {it}")).collect();
    assert_eq!(numbers(&format!("dep_delay in ({})", list.join(", "))), [Some(1), None, Some(1)]);
    // Of each there is a copy of what is looked for.
    let long = (0..30).fold("dep_delay".to_owned(), |it, nth| format!("{it} + {nth}"));
    let error =
        Expr::compile(&format!("{long} in ({})", list.join(", ")), &schema()).expect_err("");
    assert!(error.message.contains("nested too deeply"), "{}", error.message);
}
