//! The quick reader agrees with `jiff`; what is written is read back.

use super::*;
use proptest::prelude::*;

fn text(value: i64, per_second: i64) -> String {
    let mut out = Vec::new();
    write(value, per_second, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn iso_texts_are_moments() {
    let noon = 1_709_208_000_000_000;
    for same in [
        "2024-02-29T12:00:00Z",
        "2024-02-29T12:00:00",
        "2024-02-29 12:00:00",
        "2024-02-29T12:00",
        "2024-02-29T12:00Z",
        "2024-02-29T14:00:00+02:00",
        "2024-02-29T14:00:00+02",
        "2024-02-29T06:30:00.000-0530",
        "2024-02-29T12:00:00,000000Z",
        " 2024-02-29T12:00:00Z ",
    ] {
        assert_eq!(parse(same.as_bytes()), Some(noon), "{same}");
    }
    assert_eq!(parse(b"2024-02-29"), Some(noon - DAY_US / 2));
    assert_eq!(parse(b"1969-12-31T23:59:59.9999999Z"), Some(-1));
    assert_eq!(parse_date(b"1970-01-02"), Some(1));
    assert_eq!(parse_date(b"1969-12-31T23:00:00Z"), Some(-1));
}

#[test]
fn the_name_of_a_zone_without_an_offset_is_no_moment() {
    let noon = Some(1_709_208_000_000_000);
    for bad in [
        "2024-02-29T13:00:00[Europe/Berlin]",
        "2024-02-29T13:00:00[!Europe/Berlin][u-ca=iso8601]",
        "2024-02-29T13:00[+01:00]",
        "2024-02-29[Europe/Berlin]",
    ] {
        assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        assert_eq!(parse_date(bad.as_bytes()), None, "{bad}");
    }
    for good in [
        "2024-02-29T13:00:00+01:00[Europe/Berlin]",
        "2024-02-29T12:00:00Z[Europe/Berlin]",
        "2024-02-29T12:00:00[u-ca=iso8601]",
    ] {
        assert_eq!(parse(good.as_bytes()), noon, "{good}");
    }
}

#[test]
fn other_texts_are_not() {
    for bad in [
        "",
        "x",
        "2024",
        "2024-02-30",
        "2023-02-29",
        "2024-13-01",
        "2024-00-01",
        "2024-02-29T",
        "2024-02-29T24:00:00",
        "2024-02-29T12:61:00",
        "2024-02-29T12:00:00.",
        "2024-02-29T12:00:00+",
        "2024-02-29T12:00:00 Europe",
        "2024-02-29X12:00:00",
        "２０２４-02-29",
    ] {
        assert_eq!(parse(bad.as_bytes()), None, "{bad}");
    }
    assert_eq!(parse(&[0xff; 10]), None);
}

#[test]
fn moments_are_written_with_z_and_a_fraction_only_if_there_is_one() {
    assert_eq!(text(0, 1_000_000), "1970-01-01T00:00:00Z");
    assert_eq!(text(1_500_000, 1_000_000), "1970-01-01T00:00:01.500Z");
    assert_eq!(text(-1, 1_000_000), "1969-12-31T23:59:59.999999Z");
    assert_eq!(text(1, 1_000_000_000), "1970-01-01T00:00:00.000000001Z");
    assert_eq!(text(1_709_208_000, 1), "2024-02-29T12:00:00Z");
    assert_eq!(text(1_709_208_000_001, 1_000), "2024-02-29T12:00:00.001Z");
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(value in -62_135_596_800_000_000_i64..253_402_300_800_000_000) {
        let written = text(value, 1_000_000);
        prop_assert_eq!(quick(written.as_bytes()), Some(value));
        prop_assert_eq!(slow(&written), Some(value), "{}", written);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes: Vec<u8>, near in "[0-9TZ:., +-]{0,32}", value: i64) {
        parse(&bytes);
        parse_date(&bytes);
        parse(near.as_bytes());
        text(value, 1);
        text(value, 1_000_000_000);
    }
}
