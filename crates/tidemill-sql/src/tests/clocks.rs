//! Times of day in every unit, and times moved by them.

use super::semantics::{some, texts};
use super::*;
use arrow_array::{
    Date32Array, Time32MillisecondArray, Time32SecondArray, Time64MicrosecondArray,
    Time64NanosecondArray, TimestampMicrosecondArray, TimestampSecondArray,
};
use arrow_schema::TimeUnit;

/// 12:34:56 in each unit, with a part of a second where the unit has one; the last second of a day; null.
fn clocks() -> RecordBatch {
    let date = vec![Some(2_932_896), Some(-719_162), None];
    let micros = vec![Some(253_402_300_799_000_000), Some(-62_135_596_800_000_000), None];
    RecordBatch::try_from_iter_with_nullable([
        (
            "s",
            Arc::new(Time32SecondArray::from(vec![Some(45_296), Some(86_399), None])) as ArrayRef,
            true,
        ),
        (
            "ms",
            Arc::new(Time32MillisecondArray::from(vec![Some(45_296_500), Some(86_399_999), None]))
                as _,
            true,
        ),
        (
            "us",
            Arc::new(Time64MicrosecondArray::from(vec![
                Some(45_296_500_000),
                Some(86_399_999_999),
                None,
            ])) as _,
            true,
        ),
        (
            "ns",
            Arc::new(Time64NanosecondArray::from(vec![
                Some(45_296_500_000_000),
                Some(86_399_999_999_999),
                None,
            ])) as _,
            true,
        ),
        ("d", Arc::new(Date32Array::from(date)) as _, true),
        ("ts", Arc::new(TimestampMicrosecondArray::from(micros)) as _, true),
        ("ts_s", Arc::new(TimestampSecondArray::from(vec![Some(0), Some(-1), None])) as _, true),
        (
            "n",
            Arc::new(Int64Array::from(vec![Some(45_296_500_000), Some(86_399_999_999), None])) as _,
            true,
        ),
    ])
    .expect("columns of one length")
}

#[test]
fn times_of_day_are_in_microseconds() {
    let batch = clocks();
    for sql in [
        "cast('12:34:56' as time)",
        "time '12:34:56'",
        "try_cast('12:34:56' as time)",
        "to_time('12:34:56')",
        "make_time(12, 34, 56)",
        "cast(ts as time)",
        "cast(n as time)",
        "us + interval '1 second'",
        "s + interval '1 second'",
        "ms - interval '1 second'",
    ] {
        let expr = Expr::compile(sql, &batch.schema()).expect(sql);
        assert_eq!(*expr.data_type(), DataType::Time64(TimeUnit::Microsecond), "{sql}");
        let made = expr.evaluate(&batch).expect(sql);
        assert_eq!(made.data_type(), expr.data_type(), "{sql}");
    }
    for (sql, expected) in [
        ("cast('12:34:56.7' as time)", ["12:34:56.700"; 3]),
        ("cast(n as time)", ["12:34:56.500", "23:59:59.999999", "-"]),
        ("cast(us as bigint)", ["45296500000", "86399999999", "-"]),
        ("s + interval '1500 milliseconds'", ["12:34:57.500", "00:00:00.500", "-"]),
        ("s - interval '1 microsecond'", ["12:34:55.999999", "23:59:58.999999", "-"]),
        ("date_part('microsecond', us)", ["56500000", "59999999", "-"]),
        ("date_part('epoch', ns)", ["45296.5", "86399.999999999", "-"]),
        ("extract(hour from s)", ["12", "23", "-"]),
        ("extract(second from ms)", ["56", "59", "-"]),
    ] {
        assert_eq!(texts(sql, &batch), some(&expected), "{sql}");
    }
}

#[test]
fn times_of_day_of_unlike_units_are_compared_to_the_last_digit() {
    let (yes, no) = ("true", "false");
    for (sql, expected) in [
        ("s < ms", [yes, yes, "-"]),
        ("ms = us", [yes, no, "-"]),
        ("us = ns", [yes, no, "-"]),
        ("s is distinct from ns", [yes, yes, no]),
        ("us < ns", [no, yes, "-"]),
        ("ms between s and us", [yes, yes, "-"]),
        ("ns in (s, ms)", [yes, no, "-"]),
        ("case ms when us then 'y' end = 'y'", [yes, "-", "-"]),
        ("s = '12:34:56'", [yes, no, "-"]),
        ("s = '12:34:56.5'", [no, no, "-"]),
        ("s < '12:34:56.0000001'", [yes, no, "-"]),
        ("us > '23:59:59.9999989'", [no, yes, "-"]),
        ("'12:34:56.500' = ms", [yes, no, "-"]),
        ("us = time '12:34:56.5'", [yes, no, "-"]),
        ("s >= make_time(12, 34, 56)", [yes, yes, "-"]),
    ] {
        assert_eq!(texts(sql, &clocks()), some(&expected), "{sql}");
    }
    for (sql, expected) in [
        ("greatest(s, us)", ["12:34:56.500", "23:59:59.999999", "-"]),
        ("coalesce(nullif(s, s), ms)", ["12:34:56.500", "23:59:59.999", "-"]),
        ("nullif(ms, us)", ["-", "23:59:59.999", "-"]),
        ("case when s < us then us else s end", ["12:34:56.500", "23:59:59.999999", "-"]),
    ] {
        assert_eq!(texts(sql, &clocks()), some(&expected), "{sql}");
    }
}

#[test]
fn times_are_moved_by_times_of_day_whatever_the_year() {
    for (sql, expected) in [
        ("d + us", ["9999-12-31T12:34:56.500", "0001-01-01T23:59:59.999999", "-"]),
        ("us + d", ["9999-12-31T12:34:56.500", "0001-01-01T23:59:59.999999", "-"]),
        ("d - s", ["9999-12-30T11:25:04", "0000-12-31T00:00:01", "-"]),
        ("ts - ms", ["9999-12-31T11:25:02.500", "0000-12-31T00:00:00.001", "-"]),
        ("ts_s + ms", ["1970-01-01T12:34:56.500", "1970-01-01T23:59:58.999", "-"]),
        ("d + cast(null as time)", ["-"; 3]),
    ] {
        assert_eq!(texts(sql, &clocks()), some(&expected), "{sql}");
    }
}

#[test]
fn what_is_no_time_of_day_is_refused() {
    let schema = clocks().schema();
    for sql in ["us = '12'", "us > 'noon'", "s = '24:00:00'", "ms <> '23:59:60'", "us = '-1:00'"] {
        let error = Expr::compile(sql, &schema).expect_err(sql);
        assert!(error.message.contains("type time"), "{sql}: {}", error.message);
    }
    let batch = RecordBatch::try_from_iter([
        ("t", Arc::new(StringArray::from(vec!["23:59:60"])) as ArrayRef),
        ("n", Arc::new(Int64Array::from(vec![86_400_000_000])) as _),
        ("m", Arc::new(Int64Array::from(vec![-1])) as _),
    ])
    .expect("columns of one length");
    for sql in ["cast(t as time)", "cast(n as time)", "cast(m as time)"] {
        let error = Expr::compile(sql, &batch.schema()).expect(sql).evaluate(&batch);
        let error = error.expect_err(sql).message;
        assert!(error.contains("is no time of day"), "{sql}: {error}");
        assert_eq!(texts(&format!("try_{sql}"), &batch), some(&["-"]), "{sql}");
    }
}
