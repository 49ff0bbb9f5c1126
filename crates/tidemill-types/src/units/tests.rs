//! One line per way to write a span or a size.

use super::*;

#[track_caller]
fn span(text: &str, micros: Option<i64>) {
    assert_eq!(text.parse::<Span>().ok(), micros.map(Span), "{text}");
}

#[track_caller]
fn size(text: &str, bytes: Option<u64>) {
    assert_eq!(text.parse::<ByteSize>().ok(), bytes.map(ByteSize), "{text}");
}

#[test]
fn spans_are_a_number_and_a_unit() {
    span("10ms", Some(10_000));
    span("1h30m", Some(5_400_000_000));
    span("1d", Some(86_400_000_000));
    span("0s", Some(0));
    span("", None);
    span("10", None);
    span("ms", None);
    span("-1s", None);
    span("1 fortnight", None);
    span("99999999999999d", None);
    span("3652425d", Some(Span::LONGEST.0));
    span("3652425d1us", None);
    let long = "99999999999999999999d".parse::<Span>().unwrap_err().to_string();
    assert_eq!(long, "`99999999999999999999d` is too long: at most ten thousand years, `521775w`");
}

#[test]
fn event_times_are_those_of_rfc_3339() {
    let day = 86_400_000_000;
    assert!([Micros::EVENT_MIN, Micros(0), Micros::EVENT_MAX].iter().all(|it| it.is_event_time()));
    assert!(!Micros(Micros::EVENT_MIN.0 - 1).is_event_time());
    assert!(!Micros(Micros::EVENT_MAX.0 + 1).is_event_time());
    assert!([Micros::MIN, Micros::MAX].iter().all(|it| !it.is_event_time()));
    // Ten thousand years of the calendar.
    assert_eq!(Micros::EVENT_MAX.0 + 1 - Micros::EVENT_MIN.0, 3_652_425 * day);
}

#[test]
fn sizes_are_a_number_and_a_unit() {
    size("4MiB", Some(4 << 20));
    size("64 KiB", Some(64 << 10));
    size("1GB", Some(1_000_000_000));
    size("17", Some(17));
    size("", None);
    size("4XB", None);
    size("99999999999GiB", None);
    for large in ["99999999999GiB", "18446744073709551616", "16777216TiB"] {
        let error = large.parse::<ByteSize>().expect_err(large);
        assert_eq!(error.to_string().contains("too large"), !large.contains("TiB"), "{error}");
    }
    size("18446744073709551615", Some(u64::MAX));
    size("KiB", None);
}

#[test]
fn what_is_written_reads_back() {
    for micros in [1, 999, 1_000, 90_000_000, 3_600_000_000, 86_400_000_000] {
        assert_eq!(Span(micros).to_string().parse(), Ok(Span(micros)));
    }
    for bytes in [0, 1, 1_024, 1_500, 4 << 20, 1 << 30] {
        assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
    }
}

#[test]
fn the_ends_of_time_do_not_move() {
    assert_eq!(Micros::MAX.minus(Span(5)), Micros::MAX);
    assert_eq!(Micros::MIN.minus(Span(5)), Micros::MIN);
    assert_eq!(Micros(7).minus(Span(5)), Micros(2));
}
