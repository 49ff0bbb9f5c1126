//! Times of all years, against those that DataFusion has room for.

use super::*;
use crate::Expr;
use arrow_array::{RecordBatch, StringArray};
use proptest::prelude::*;

fn column(values: impl IntoIterator<Item = Option<i64>>) -> RecordBatch {
    let times = TimestampMicrosecondArray::from_iter(values).with_timezone("UTC");
    let days = cast(&times, &DataType::Date32).expect("days");
    let columns: [(_, ArrayRef, _); 2] = [("at", Arc::new(times), true), ("d", days, true)];
    RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length")
}

fn of(sql: &str, batch: &RecordBatch) -> ArrayRef {
    Expr::compile(sql, &batch.schema()).expect(sql).evaluate(batch).expect(sql)
}

fn micros(sql: &str, values: &[i64]) -> Vec<Option<i64>> {
    let made = of(sql, &column(values.iter().copied().map(Some)));
    let made = cast(&made, &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
    made.expect("times").as_primitive::<TimestampMicrosecondType>().iter().collect()
}

/// The years 0000 to 9999.
const KEPT_US: std::ops::Range<i64> = -719_528 * DAY_US..2_932_897 * DAY_US;
/// A few centuries that nanoseconds know.
const KNOWN_US: std::ops::Range<i64> = -100_000 * DAY_US..100_000 * DAY_US;

proptest! {
    #[test]
    fn a_time_is_cut_as_the_one_400_years_before(times in prop::collection::vec(KEPT_US, 1..9)) {
        for unit in ["second", "minute", "hour", "day", "week", "month", "quarter", "year"] {
            for zone in ["", " at time zone '+05:30'"] {
                let sql = format!("date_trunc('{unit}', at{zone})");
                let cycles = |it: &i64| (it - FROM_US).div_euclid(CYCLE_US) * CYCLE_US;
                let known: Vec<i64> = times.iter().map(|it| it - cycles(it)).collect();
                let expected = micros(&sql, &known);
                let expected = expected.iter().zip(&times);
                let expected: Vec<_> =
                    expected.map(|(cut, it)| cut.map(|cut| cut + cycles(it))).collect();
                prop_assert_eq!(micros(&sql, &times), expected, "{}", sql);
            }
        }
    }

    /// Whether DataFusion has room for them or not.
    #[test]
    fn bins_are_the_same(time in KNOWN_US, months in 1_i64..40, day in 1_i64..32, us in 1_i64..DAY_US * 999) {
        let origin = format!("2000-01-{day:02}T03:04:05Z");
        let origin_ns = i128::from(10_957 + day - 1) * DAY_NS + 11_045_000_000_000;
        for (stride, interval) in [
            (Stride::Months(months), format!("{months} months")),
            (Stride::Nanos(i128::from(us) * 1_000), format!("{us} microseconds")),
        ] {
            let sql = format!("date_bin(interval '{interval}', at, timestamp '{origin}')");
            let here = bin(i128::from(time) * 1_000, &stride, origin_ns).expect("a bin");
            let micros = micros(&sql, &[time]);
            prop_assert_eq!(micros[0].map(i128::from), Some(here / 1_000), "{}", sql);
        }
    }
}

#[test]
fn what_is_no_time_is_refused_with_the_reason() {
    let batch = column([Some(0)]);
    for (sql, says) in [
        ("date_trunc('day', 5)", "Function 'date_trunc' failed to match any signature"),
        ("date_bin(at)", "Failed to coerce arguments to satisfy a call to 'date_bin'"),
        ("to_char(true, '%Y')", "Failed to coerce arguments to satisfy a call to 'to_char'"),
    ] {
        let error = Expr::compile(sql, &batch.schema()).expect_err(sql);
        assert!(error.message.starts_with(says), "{sql}: {error}");
    }
}

#[test]
fn times_of_far_years_are_cut_binned_and_written() {
    let far = [253_402_232_767_500_000, 1_709_356_000_000_000, -62_130_394_432_500_000];
    let batch = column(far.into_iter().map(Some).chain([None]));
    for (sql, expected) in [
        (
            "date_trunc('day', at)",
            ["9999-12-31T00:00:00Z", "2024-03-02T00:00:00Z", "0001-03-02T00:00:00Z"],
        ),
        (
            "date_trunc('month', d)",
            ["9999-12-01T00:00:00", "2024-03-01T00:00:00", "0001-03-01T00:00:00"],
        ),
        (
            "date_trunc('hour', at at time zone 'Europe/Berlin')",
            ["9999-12-31T06:00:00+01:00", "2024-03-02T06:00:00+01:00", "0001-03-02T05:00:00+00:53"],
        ),
        (
            "date_bin(interval '7 months', at)",
            ["9999-08-01T00:00:00Z", "2023-09-01T00:00:00Z", "0000-09-01T00:00:00Z"],
        ),
        (
            "date_bin(interval '1 month', at, timestamp '2000-01-31')",
            ["9999-12-31T00:00:00Z", "2024-02-29T00:00:00Z", "0001-02-28T00:00:00Z"],
        ),
        (
            "date_bin(interval '1 day', at, timestamp '2000-01-01T12:00:00')",
            ["9999-12-30T12:00:00Z", "2024-03-01T12:00:00Z", "0001-03-01T12:00:00Z"],
        ),
        ("to_char(at, '%d.%m.%Y %H')", ["31.12.9999 05", "02.03.2024 05", "02.03.0001 05"]),
    ] {
        let whole = of(sql, &batch);
        let texts = cast(&whole, &DataType::Utf8).expect("texts");
        let expected: Vec<_> = expected.into_iter().map(Some).chain([None]).collect();
        assert_eq!(texts.as_string::<i32>(), &StringArray::from(expected), "{sql}");
        // As a constant too.
        let constant = sql.replace("at,", "timestamp '9999-12-31T05:06:07.5',");
        let constant = constant.replace("at)", "timestamp '9999-12-31T05:06:07.5')");
        if constant != sql {
            assert!(of(&constant, &batch).is_valid(0), "{constant}");
        }
    }
}
