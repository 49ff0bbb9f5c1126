//! Lines taken apart: what is in them, and what is wrong with them.

use super::*;

fn point(line: &str) -> Result<(String, String, Option<i64>), String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let point = InfluxLines::default().point(line.as_bytes())?;
    Ok((text(point.series), text(point.untimed), point.timestamp))
}

#[test]
fn a_line_is_series_fields_and_perhaps_a_timestamp() {
    for (line, series, untimed, timestamp) in [
        ("cpu v=1", "cpu", "cpu v=1", None),
        ("  cpu,host=a v=1i,s=\"x, y\" 17 ", "cpu,host=a", "cpu,host=a v=1i,s=\"x, y\"", Some(17)),
        (r"a\ b,t\,x=1\ 2 f=t -5", r"a\ b,t\,x=1\ 2", r"a\ b,t\,x=1\ 2 f=t", Some(-5)),
        ("cpu   v=1   9223372036854775807", "cpu", "cpu   v=1", Some(i64::MAX)),
    ] {
        let whole = (series.to_owned(), untimed.to_owned(), timestamp);
        assert_eq!(point(line), Ok(whole), "{line}");
    }
}

#[test]
fn what_is_no_point_is_refused() {
    for line in [
        "",
        "cpu",
        "cpu ",
        "cpu v",
        "cpu v=",
        "cpu v=x",
        "cpu,=a v=1",
        "cpu,h= v=1",
        "cpu v=\"open",
        "cpu v=1 12x",
        "cpu v=1 99999999999999999999",
        "cpu v=1 1 2",
        "v=1",
    ] {
        assert!(point(line).is_err(), "{line}");
    }
    assert!(InfluxLines::default().point(b"cpu v=\"\xff\"").unwrap_err().contains("byte 7"));
}
