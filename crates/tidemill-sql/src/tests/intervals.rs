//! Lengths of time, dates that are moved by them, and digits of a second.

use super::semantics::{some, texts};
use super::*;
use arrow_array::{Date32Array, TimestampMicrosecondArray};

const HOUR_US: i64 = 3_600_000_000;

fn times() -> RecordBatch {
    let at = |hours: [i64; 3]| {
        Arc::new(TimestampMicrosecondArray::from(hours.map(|it| it * HOUR_US).to_vec())) as ArrayRef
    };
    RecordBatch::try_from_iter_with_nullable([
        ("a", at([0, 0, 0]), true),
        ("b", at([48, 24, 25]), true),
        ("day", Arc::new(Date32Array::from(vec![0, 19_782, 2_932_896])) as _, true),
        ("n", Arc::new(Int64Array::from(vec![1, 2, 3])) as _, true),
    ])
    .expect("columns of one length")
}

/// Months, days and the rest were compared one after the other, and a difference of times has no days.
#[test]
fn lengths_of_time_are_compared_by_how_long_they_are() {
    for (sql, expected) in [
        ("b - a > interval '1 day'", ["true", "false", "true"]),
        ("interval '1 day' >= b - a", ["false", "true", "false"]),
        ("b - a = interval '1 day'", ["false", "true", "false"]),
        ("b - a in (interval '2 days', interval '25 hours')", ["true", "false", "true"]),
        ("b - a not between interval '1 hour' and interval '1 day'", ["true", "false", "true"]),
        ("case b - a when interval '2 days' then 1 else 2 end", ["1", "2", "2"]),
        ("nullif(interval '1 day', b - a) is null", ["false", "true", "false"]),
        ("(b - a) is distinct from interval '24 hours'", ["true", "false", "true"]),
        ("interval '1 day' > interval '25 hours'", ["false"; 3]),
        ("interval '1 day' = interval '24 hours'", ["true"; 3]),
        ("interval '1 month' > interval '40 days'", ["false"; 3]),
        ("interval '1 year' > interval '359 days'", ["true"; 3]),
        ("interval '-1 day' < interval '0 days'", ["true"; 3]),
        ("b - a > case when n > 5 then interval '1 day' end", ["-"; 3]),
        // Three hundred years are more nanoseconds than there are.
        ("timestamp '9999-12-31' - a > interval '9 years'", ["true"; 3]),
    ] {
        assert_eq!(texts(sql, &times()), some(&expected), "{sql}");
    }
    let error = Expr::compile("greatest(interval '1 day', interval '2 days')", &schema());
    assert!(error.expect_err("refused").message.contains("takes no lengths of time"));
}

#[test]
fn a_date_that_is_moved_by_hours_is_a_time() {
    for (sql, expected) in [
        (
            "day + interval '1 hour'",
            ["1970-01-01T01:00:00", "2024-02-29T01:00:00", "9999-12-31T01:00:00"],
        ),
        (
            "interval '36 hours' + day - interval '1 day'",
            ["1970-01-01T12:00:00", "2024-02-29T12:00:00", "9999-12-31T12:00:00"],
        ),
        (
            "day - interval '30 minutes'",
            ["1969-12-31T23:30:00", "2024-02-28T23:30:00", "9999-12-30T23:30:00"],
        ),
        // As ever.
        ("day - interval '1 month'", ["1969-12-01", "2024-01-29", "9999-11-30"]),
        ("day + interval '-48 hours'", ["1969-12-30", "2024-02-27", "9999-12-29"]),
        ("day - n", ["1969-12-31", "2024-02-27", "9999-12-28"]),
        (
            "day - case when n = 1 then interval '1 day' else interval '2 days' end",
            ["1969-12-31", "2024-02-27", "9999-12-29"],
        ),
    ] {
        assert_eq!(texts(sql, &times()), some(&expected), "{sql}");
    }
}

#[test]
fn far_times_are_compared_with_texts_of_any_digits() {
    let micros = vec![
        Some(253_402_214_400_000_000),
        Some(1_704_067_200_123_456),
        Some(-62_135_596_800_000_000),
        None,
    ];
    let at = TimestampMicrosecondArray::from(micros.clone()).with_timezone("UTC");
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("at", Arc::new(at) as ArrayRef, true),
        ("plain", Arc::new(TimestampMicrosecondArray::from(micros)) as _, true),
    ])
    .expect("columns of one length");
    for at in ["at", "plain"] {
        for (sql, expected) in [
            ("X > '2024-01-01T00:00:00.1234561Z'", ["true", "false", "false", "-"]),
            ("X >= '2024-01-01T00:00:00.1234561Z'", ["true", "false", "false", "-"]),
            ("X > '2024-01-01T00:00:00.1234559'", ["true", "true", "false", "-"]),
            ("'2024-01-01T00:00:00.1234561Z' > X", ["false", "true", "true", "-"]),
            ("X = '2024-01-01T00:00:00.1234561Z'", ["false", "false", "false", "-"]),
            ("X = '2024-01-01T00:00:00.1234560Z'", ["false", "true", "false", "-"]),
            ("X <> '2024-01-01T00:00:00.1234561Z'", ["true", "true", "true", "-"]),
            ("X is distinct from '2024-01-01T00:00:00.1234561Z'", ["true"; 4]),
            ("X is not distinct from '2024-01-01T00:00:00.1234561Z'", ["false"; 4]),
            (
                "X in ('2024-01-01T00:00:00.1234561Z', '9999-12-31')",
                ["true", "false", "false", "-"],
            ),
            ("X not in ('2024-01-01T00:00:00.1234561Z')", ["true", "true", "true", "-"]),
            (
                "X between '0001-01-01' and '2024-01-01T00:00:00.1234567'",
                ["false", "true", "true", "-"],
            ),
            (
                "X not between '2024-01-01T00:00:00.1234567+00:00' and '9999-12-31'",
                ["false", "true", "true", "-"],
            ),
            ("X > '9000-01-01T00:00:00.0000001'", ["true", "false", "false", "-"]),
        ] {
            let sql = sql.replace('X', at);
            assert_eq!(texts(&sql, &batch), some(&expected), "{sql}");
        }
    }
}
