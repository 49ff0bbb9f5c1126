//! Times in nanoseconds beside times of other units and of all years.

use super::semantics::{some, texts};
use super::*;
use arrow_array::{
    Date32Array, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray,
};

/// 9999-12-31 in days and in microseconds.
const FAR_DAYS: i32 = 2_932_896;
const FAR: i64 = FAR_DAYS as i64 * 86_400_000_000;

/// Times of a far year, of 1970, a microsecond before it, and of year 0, beside times in nanoseconds.
fn times() -> RecordBatch {
    let us = [FAR, 1, -1, -62_167_219_200_000_000];
    let ns = [i64::MAX, 1_001, -1_000, i64::MIN + 808];
    let zoned = TimestampMicrosecondArray::from(us.to_vec()).with_timezone("UTC");
    let ns_zoned = TimestampNanosecondArray::from(ns.to_vec()).with_timezone("UTC");
    RecordBatch::try_from_iter_with_nullable([
        ("us", Arc::new(TimestampMicrosecondArray::from(us.to_vec())) as ArrayRef, true),
        ("ns", Arc::new(TimestampNanosecondArray::from(ns.to_vec())) as _, true),
        ("uz", Arc::new(zoned) as _, true),
        ("nz", Arc::new(ns_zoned) as _, true),
        (
            "ms",
            Arc::new(TimestampMillisecondArray::from(us.map(|it| it.div_euclid(1_000)).to_vec()))
                as _,
            true,
        ),
        (
            "s",
            Arc::new(TimestampSecondArray::from(us.map(|it| it.div_euclid(1_000_000)).to_vec()))
                as _,
            true,
        ),
        ("d", Arc::new(Date32Array::from(vec![FAR_DAYS, 0, -1, -719_528])) as _, true),
    ])
    .expect("columns of one length")
}

#[test]
fn times_of_all_units_and_years_are_compared_to_the_last_digit() {
    let (yes, no) = ("true", "false");
    for (sql, expected) in [
        ("us > ns", [yes, no, no, no]),
        ("ns > us", [no, yes, no, yes]),
        ("us = ns", [no, no, yes, no]),
        ("us <> ns", [yes, yes, no, yes]),
        ("us is distinct from ns", [yes, yes, no, yes]),
        ("uz = nz", [no, no, yes, no]),
        ("us >= nz", [yes, no, yes, no]),
        ("ms > ns", [yes, no, no, no]),
        ("s > ns", [yes, no, no, no]),
        ("d > ns", [yes, no, no, no]),
        ("d <= nz", [no, yes, yes, yes]),
        ("ns between us and us", [no, no, yes, no]),
        ("us between ns and '9999-12-31'", [yes, no, yes, no]),
        ("ns in (us, s)", [no, no, yes, no]),
        ("ns not in (us, s)", [yes, yes, no, yes]),
        ("case ns when us then true else false end", [no, no, yes, no]),
        ("nullif(ns, us) is null", [no, no, yes, no]),
        ("nullif(us, ns) is null", [no, no, yes, no]),
        ("ns = '9999-12-31T00:00:00'", [no; 4]),
        ("ns < '9999-12-31T00:00:00'", [yes; 4]),
        ("ns > timestamp '0001-01-01T00:00:00'", [yes; 4]),
        ("ns < date '9999-12-31'", [yes; 4]),
        ("ns in ('9999-12-31T00:00:00', '1969-12-31T23:59:59.999999')", [no, no, yes, no]),
        ("us > to_timestamp('2024-01-01T00:00:00')", [yes, no, no, no]),
        ("us > to_timestamp('1970-01-01T00:00:00.000000999')", [yes, yes, no, no]),
        ("us = to_timestamp('1970-01-01T00:00:00.000001')", [no, yes, no, no]),
        ("us = to_timestamp('1970-01-01T00:00:00.000001001')", [no, no, no, no]),
    ] {
        assert_eq!(texts(sql, &times()), some(&expected), "{sql}");
    }
}

#[test]
fn times_of_all_units_and_years_are_chosen_and_subtracted_in_microseconds() {
    let far = FAR.to_string();
    let zero = "-62167219200000000";
    let (near, old) = ("9223372036854775", "-9223372036854775");
    for (sql, expected) in [
        ("coalesce(us, ns)", [&*far, "1", "-1", zero]),
        ("coalesce(ns, us)", [near, "1", "-1", old]),
        ("nvl(ns, uz)", [near, "1", "-1", old]),
        ("greatest(us, ns)", [&*far, "1", "-1", old]),
        ("least(ns, us)", [near, "1", "-1", zero]),
        (
            "greatest(ns, date '1970-01-02', us)",
            [&*far, "86400000000", "86400000000", "86400000000"],
        ),
        ("case when ns > us then ns else us end", [&*far, "1", "-1", old]),
        ("case ns when us then us else ns end", [near, "1", "-1", old]),
        ("coalesce(nullif(us, ns), s)", [&*far, "1", "-1000000", zero]),
        ("[ns, us][2]", [&*far, "1", "-1", zero]),
    ] {
        let sql = format!("cast({sql} as bigint)");
        assert_eq!(texts(&sql, &times()), some(&expected), "{sql}");
    }
    for (sql, expected) in [
        ("us - ns > interval '7000 years'", ["true", "false", "false", "false"]),
        ("ns - us > interval '1500 years'", ["false", "false", "false", "true"]),
        ("us - ns = interval '0 days'", ["false", "true", "true", "false"]),
        ("d - ns > interval '7000 years'", ["true", "false", "false", "false"]),
    ] {
        assert_eq!(texts(sql, &times()), some(&expected), "{sql}");
    }
}

#[test]
fn functions_make_times_of_all_years() {
    let far = FAR.to_string();
    let old = "-62167219200000000";
    for sql in [
        "to_timestamp(us)",
        "to_timestamp(uz)",
        "to_timestamp_micros(us)",
        "to_timestamp_micros(cast(us as text))",
    ] {
        let sql = format!("cast({sql} as bigint)");
        assert_eq!(texts(&sql, &times()), some(&[&*far, "1", "-1", old]), "{sql}");
    }
    let days = some(&[&*far, "0", "-86400000000", old]);
    assert_eq!(texts("cast(to_timestamp(d) as bigint)", &times()), days);
    assert_eq!(texts("cast(to_timestamp_micros(d) as bigint)", &times()), days);
    assert_eq!(texts("cast(to_timestamp_micros(cast(d as text)) as bigint)", &times()), days);
    let seconds = some(&["253402214400", "0", "-1", "-62167219200"]);
    for sql in ["to_timestamp_seconds(us)", "to_timestamp_seconds(cast(us as text))"] {
        assert_eq!(texts(&format!("cast({sql} as bigint)"), &times()), seconds, "{sql}");
    }
    assert_eq!(
        texts("to_timestamp(d) = d and to_timestamp(us) = us", &times()),
        some(&["true"; 4])
    );
    let nanos = texts("cast(to_timestamp(ns) as bigint)", &times());
    assert_eq!(nanos[1].as_deref(), Some("1001"), "nanoseconds stay");
    let sql = "to_timestamp_seconds(cast(us as text) || '?')";
    let expr = Expr::compile(sql, &times().schema()).expect(sql);
    assert!(expr.evaluate(&times()).is_err(), "what is no time has no value");
}
