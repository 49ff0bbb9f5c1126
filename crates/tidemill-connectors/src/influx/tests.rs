//! Lines taken apart: what is in them, and what is wrong with them.

use super::*;
use crate::sink::cell::Cell;

fn point(line: &str) -> Result<(String, String, Option<i64>), String> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let point = InfluxLines::default().point(line.as_bytes())?;
    Ok((text(&point.series), text(point.untimed), point.timestamp))
}

#[test]
fn a_line_is_series_fields_and_perhaps_a_timestamp() {
    for (line, series, untimed, timestamp) in [
        ("cpu v=1", "cpu", "cpu v=1", None),
        ("  cpu,host=a v=1i,s=\"x, y\" 17 ", "cpu,host=a", "cpu,host=a v=1i,s=\"x, y\"", Some(17)),
        (r"a\ b,t\,x=1\ 2 f=t -5", r"a\ b,t\,x=1\ 2", r"a\ b,t\,x=1\ 2 f=t", Some(-5)),
        ("cpu   v=1   9223372036854775807", "cpu", "cpu   v=1", Some(i64::MAX)),
        ("cpu,b=1,a\\ x=2 v=1", "cpu,a\\ x=2,b=1", "cpu,b=1,a\\ x=2 v=1", None),
        ("a=b,t=c\\=d v=1", "a=b,t=c\\=d", "a=b,t=c\\=d v=1", None),
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
        "cpu,host=a,host=b v=1",
        "cpu,b=1,host=a,a=2,host=a v=1",
        "cpu,foo=bar\\,host=x v=1",
        "cpu,foo=bar=x v=1",
        "cpu,host v=1",
        "cpu,=x v=1",
        "cpu v=9223372036854775808i",
        "cpu v=-9223372036854775809i",
        "cpu v=18446744073709551616u",
        "cpu v=-1u",
        "cpu v=-0u",
        "cpu v=1.5i",
        "cpu v=+1",
        "cpu v=+1i",
        "cpu v=NaN",
        "cpu v=inf",
        "cpu v=1e400",
        "cpu v=1e",
        "cpu v=1, 1",
        "cpu v=1 +5",
        "cpu v=1 9223372036854775808",
        "cpu v=1 1.5",
        "cpu =1 1",
        ",host=a v=1",
        "cpu,time=a v=1",
        "cpu,measurement=a v=1",
        "cpu time=1",
        "cpu a=1,measurement=1",
        "cpu,host=a host=1",
    ] {
        assert!(point(line).is_err(), "{line}");
    }
    assert!(InfluxLines::default().point(b"cpu v=\"\xff\"").unwrap_err().contains("byte 7"));
}

/// The lines of a file as rows: each line alone is a point exactly if it is a row.
#[test]
fn a_job_reads_the_lines_that_are_points() {
    let mut guesses = InfluxGuesses::default();
    for line in ["g v=\"x\",v=1.5", "g v=2", "g n=1i,n=2i,u=1u"] {
        guesses.add_line(line.as_bytes());
    }
    let shape = guesses.shape();
    let types: Vec<String> =
        shape.fields.iter().map(|it| format!("{}: {}", it.name(), it.data_type())).collect();
    assert_eq!(types[1..4], ["v: Float64", "n: Int64", "u: Int64"]);
    let mut decoder = InfluxDecoder::new(&shape);
    for line in [
        "g,host=a v=1,v=2 1700000001000000000",
        "g v=\"x\",v=4",
        "g v=00.254",
        "g v=.5,x=1.",
        "g n=9223372036854775807i,m=-9223372036854775808i,k=18446744073709551615u",
        "g v=1e3,w=1.5E-2 -1",
        "g\\=,a=b v=1",
    ] {
        assert_eq!(decoder.record(line.as_bytes()), Ok(()), "{line}");
        assert!(point(line).is_ok(), "{line}");
    }
    let (batch, bad) = decoder.finish().expect("a batch");
    assert_eq!((batch.num_rows(), bad), (7, Vec::new()));
    let text = |name, row| {
        let mut text = Vec::new();
        let cell = Cell::new(batch.column_by_name(name).unwrap()).unwrap();
        cell.write(row, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    };
    assert_eq!([0, 1, 2].map(|row| text("v", row)), ["2.0", "4.0", "0.254"]);
    assert_eq!(text("time", 5), "1969-12-31T23:59:59.999999Z");
    assert_eq!(text("measurement", 6), "g\\=");
    assert!(decoder.record(b"g v=1,v=\"x\"").is_err(), "the last does not fit");
}
