//! Values at the ends of their types, and operands of unlike types.

use super::semantics::{some, texts};
use super::*;
use arrow_array::{TimestampMicrosecondArray, TimestampSecondArray};

/// A column of texts `p`, and a column of floats `f`.
fn prices(texts: &[&str], floats: &[Option<f64>]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([
        ("p", Arc::new(StringArray::from(texts.to_vec())) as ArrayRef, true),
        ("f", Arc::new(Float64Array::from(floats.to_vec())) as _, true),
    ])
    .expect("columns of one length")
}

#[test]
fn floor_and_ceil_of_decimals_have_room_for_one_digit_more() {
    let all = ["-999.9", "999.9", "9.9", "-9.9", "-0.1", "0.1", "998.1", "-998.1"];
    let batch = prices(&all, &[None; 8]);
    for precision in [4, 18, 38, 76] {
        let of = |function: &str| {
            texts(&format!("{function}(cast(p as decimal({precision}, 1)))"), &batch)
        };
        assert_eq!(of("floor"), some(&["-1000", "999", "9", "-10", "-1", "0", "998", "-999"]));
        assert_eq!(of("ceil"), some(&["-999", "1000", "10", "-9", "0", "1", "999", "-998"]));
    }
    let small = prices(&["9.9", "-9.9", "-0.1", "0.1"], &[None; 4]);
    assert_eq!(texts("floor(cast(p as decimal(2, 1)))", &small), some(&["9", "-10", "-1", "0"]));
    assert_eq!(texts("ceil(cast(p as decimal(2, 1)))", &small), some(&["10", "-9", "0", "1"]));
    assert_eq!(texts("round(cast(p as decimal(2, 1)))", &small), some(&["10", "-10", "0", "0"]));
    let full = prices(&["-0.99", "0.99"], &[None; 2]);
    assert_eq!(texts("floor(cast(p as decimal(38, 38)))", &full), some(&["-1", "0"]));
    assert_eq!(texts("ceil(cast(p as decimal(2, 2)))", &full), some(&["0", "1"]));
}

#[test]
fn whole_numbers_are_their_own_floor() {
    let n = Int64Array::from(vec![Some(i64::MAX), Some(i64::MIN), Some(-1_250), None]);
    let batch = RecordBatch::try_from_iter_with_nullable([("n", Arc::new(n) as ArrayRef, true)])
        .expect("n");
    let same = some(&["9223372036854775807", "-9223372036854775808", "-1250", "-"]);
    for function in ["floor(n)", "ceil(n)", "trunc(n)", "trunc(n, 3)", "round(n)"] {
        assert_eq!(texts(function, &batch), same, "{function}");
    }
    assert_eq!(
        texts("trunc(n, -2)", &batch),
        some(&["9223372036854775800", "-9223372036854775800", "-1200", "-"])
    );
    assert_eq!(texts("trunc(n, -30)", &batch), some(&["0", "0", "0", "-"]));
}

#[test]
fn times_are_cut_towards_the_past_before_1970_too() {
    let micros = [-310_478_399_750_000, -1_500_000, -1_000, 750_000, 30_000_000];
    let batch = RecordBatch::try_from_iter_with_nullable([(
        "ts",
        Arc::new(TimestampMicrosecondArray::from(micros.to_vec())) as ArrayRef,
        true,
    )])
    .expect("times");
    let seconds = some(&["-310478400", "-2", "-1", "0", "30"]);
    for sql in [
        "to_unixtime(ts)",
        "to_unixtime(date_trunc('second', ts))",
        "to_unixtime(cast(ts as timestamp(0)))",
        "to_unixtime(cast(ts as text))",
        "cast(cast(ts as timestamp(0)) as bigint)",
        "cast(try_cast(ts as timestamp(0)) as bigint)",
        "cast(to_timestamp_seconds(ts) as bigint)",
        "cast(to_timestamp_seconds(cast(ts as text)) as bigint)",
    ] {
        assert_eq!(texts(sql, &batch), seconds, "{sql}");
    }
    let millis = some(&["-310478399750", "-1500", "-1", "750", "30000"]);
    for sql in
        ["cast(cast(ts as timestamp(3)) as bigint)", "cast(to_timestamp_millis(ts) as bigint)"]
    {
        assert_eq!(texts(sql, &batch), millis, "{sql}");
    }
    assert_eq!(texts("to_unixtime(timestamp '1969-12-31 23:59:58.5')", &batch), some(&["-2"; 5]));
    let days = texts("cast(to_timestamp_seconds(cast(ts as date)) as bigint)", &batch);
    assert_eq!(days, some(&["-310521600", "-86400", "-86400", "0", "0"]));
}

#[test]
fn times_in_seconds_have_room_for_intervals_of_less() {
    let seconds = TimestampSecondArray::from(vec![-1, 0, 1]);
    let batch =
        RecordBatch::try_from_iter([("s", Arc::new(seconds) as ArrayRef)]).expect("seconds");
    for (sql, expected) in [
        ("cast(s + interval '1 microsecond' as bigint)", ["-999999", "1", "1000001"]),
        ("cast(s - interval '500 milliseconds' as bigint)", ["-1500000", "-500000", "500000"]),
        ("cast(date_bin(interval '1500 ms', s) as bigint)", ["-1500000", "0", "0"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn quotients_of_decimals_are_rounded_and_have_wide_steps() {
    let batch = prices(&["0.1", "-0.1", "0.5"], &[None; 3]);
    for (sql, expected) in [
        (
            "cast(p as decimal(2, 1)) / cast('1.5' as decimal(2, 1))",
            ["0.06667", "-0.06667", "0.33333"],
        ),
        (
            "cast(p as decimal(38, 38)) / cast('0.75' as decimal(38, 38)) > 0",
            ["true", "false", "true"],
        ),
        (
            "cast(cast(p as decimal(38, 38)) / cast('0.99' as decimal(38, 38)) as decimal(6, 5))",
            ["0.10101", "-0.10101", "0.50505"],
        ),
        (
            "cast(p as decimal(20, 2)) % cast('99999999999999999999999999999999999999' as decimal(38, 0))",
            ["0.10", "-0.10", "0.50"],
        ),
        (
            "cast(p as decimal(38, 2)) + cast('99999999999999999999999999999999999' as decimal(38, 0)) > 0",
            ["true"; 3],
        ),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
    let sql = "cast(p as decimal(38, 38)) * cast(p as decimal(38, 38))";
    let error = Expr::compile(sql, &batch.schema()).expect_err(sql);
    assert!(error.message.contains("76 digits behind the point"), "{}", error.message);
}

#[test]
fn decimals_are_compared_with_any_number() {
    let floats = [1e20, f64::INFINITY, f64::NAN, 1e-16, 5.0, 4.999_999_999_999_999];
    let floats: Vec<_> =
        floats.map(Some).into_iter().chain([Some(f64::NEG_INFINITY), None]).collect();
    let batch = prices(&["5.00", "5.00", "5.00", "0.00", "5.00", "5.00", "5.00", "5.00"], &floats);
    let price = "cast(p as decimal(20, 2))";
    let of = |sql: &str| texts(&sql.replace("price", price), &batch);
    let (yes, no) = ("true", "false");
    assert_eq!(of("price < f"), some(&[yes, yes, yes, yes, no, no, no, "-"]));
    assert_eq!(of("f < price"), some(&[no, no, no, no, no, yes, yes, "-"]));
    assert_eq!(of("price = f"), some(&[no, no, no, no, yes, no, no, "-"]));
    assert_eq!(of("price between 0 and f"), some(&[yes, yes, yes, yes, yes, no, no, "-"]));
    assert_eq!(of("price < 1e20 and price > -1e300"), some(&[yes; 8]));
    assert_eq!(of("price in (5.0, 1e300, 0)"), some(&[yes; 8]));
    assert_eq!(of("price <= 5.000000000000000000001"), some(&[yes; 8]));
    assert_eq!(
        of("greatest(price, f)"),
        some(&["1e20", "inf", "NaN", "1e-16", "5.0", "5.0", "5.0", "5.0"])
    );
}

#[test]
fn decimals_of_unlike_scales_are_compared_whatever_their_digits() {
    let batch = prices(&["0.5", "1", "-1"], &[None; 3]);
    for (sql, expected) in [
        ("cast(0 as decimal(38, 0)) = cast('0.5' as decimal(38, 38))", ["false"; 3]),
        (
            "cast('99999999999999999999999999999999999999' as decimal(38, 0)) > cast(p as decimal(20, 10))",
            ["true"; 3],
        ),
        ("9223372036854775807 > cast('0.5' as decimal(38, 38))", ["true"; 3]),
        (
            "cast(p as decimal(38, 10)) in (cast(1 as decimal(38, 0)), 7)",
            ["false", "true", "false"],
        ),
        ("nvl(cast(p as decimal(38, 2)), cast(0 as decimal(38, 2)))", ["0.50", "1.00", "-1.00"]),
        (
            "nvl(cast('999999999999999999.99' as decimal(20, 2)), cast(0 as decimal(20, 2)))",
            ["999999999999999999.99"; 3],
        ),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn whole_numbers_are_compared_with_constants_to_the_last_digit() {
    let n = Int64Array::from(vec![9_007_199_254_740_993, i64::MAX, i64::MIN]);
    let batch = RecordBatch::try_from_iter([("n", Arc::new(n) as ArrayRef)]).expect("n");
    for (sql, expected) in [
        ("n = 9007199254740992.0", ["false"; 3]),
        ("n > 9007199254740992.0", ["true", "true", "false"]),
        ("n < 9223372036854775808", ["true"; 3]),
        ("n < 9223372036854775808.0", ["true"; 3]),
        ("n > 0.5", ["true", "true", "false"]),
        ("n = '9007199254740993'", ["true", "false", "false"]),
        ("n > '0.5'", ["true", "true", "false"]),
        ("n in (9007199254740993, 0.5)", ["true", "false", "false"]),
        ("cast(3 as int) = cast(3 as real)", ["true"; 3]),
        ("cast(16777217 as int) = cast(16777216 as real)", ["false"; 3]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn text_is_not_compared_with_what_it_is_not() {
    let batch = prices(&["9", "10.5"], &[None; 2]);
    for sql in [
        "p > 10",
        "p > 10.0",
        "10 = p",
        "p between 5 and 100",
        "p in (9, 100)",
        "p is distinct from 1",
        "case p when 9 then 1 end",
        "nullif(p, 9)",
        "greatest(p, 9)",
        "p = f",
        "p = true",
        "p = date '2024-01-01'",
        "f = date '2024-01-01'",
        "1 < date '2024-01-01'",
        "f > timestamp '2024-01-01'",
        "f = true",
        "[p] = [1]",
    ] {
        let error = Expr::compile(sql, &batch.schema()).expect_err(sql);
        let says = |it: &str| error.message.contains(it);
        assert!(says("cannot compare") && says("as in `"), "{sql}: {}", error.message);
    }
    let error = Expr::compile("f > 'x'", &batch.schema()).expect_err("no number");
    assert!(error.message.contains("`'x'`"), "{}", error.message);
    assert_eq!(texts("p > '10'", &batch), some(&["true", "true"]));
    assert_eq!(texts("cast(p as double) > 10", &batch), some(&["false", "true"]));
}

#[test]
fn text_is_not_chosen_beside_numbers() {
    let batch = prices(&["9", "10.5"], &[Some(1.5), None]);
    for sql in [
        "coalesce(f, p)",
        "coalesce(cast(f as bigint), p)",
        "case when f > 1 then p else f end",
        "nvl(f, p)",
        "[f, p]",
        "coalesce([f], [p])",
    ] {
        let error = Expr::compile(sql, &batch.schema()).expect_err(sql);
        let says = |it: &str| error.message.contains(it);
        assert!(says("cannot choose between") && says("as in `"), "{sql}: {}", error.message);
    }
    assert_eq!(texts("coalesce(cast(f as text), p)", &batch), some(&["1.5", "10.5"]));
    assert_eq!(texts("coalesce(f, '7')", &batch), some(&["1.5", "7.0"]));
    assert!(Expr::compile("coalesce(f, 'none')", &batch.schema()).is_err());
}
