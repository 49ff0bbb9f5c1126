//! Names, units, statements, and lines that are bad among good ones.

use super::*;
use query::{Statement, parse};
use std::path::Path;
use tidemill_env::World;
use tidemill_log::{Log, LogOptions, StreamSpec};
use tidemill_types::ByteSize;

#[test]
fn databases_and_buckets_are_streams() {
    assert_eq!(stream_name("db", None), "db");
    assert_eq!(stream_name("db", Some("autogen")), "db");
    assert_eq!(stream_name("db", Some("")), "db");
    assert_eq!(stream_name("db", Some("week")), "db.week");
    assert_eq!(stream_name("db/week", None), "db.week");
    assert_eq!(stream_name("db/autogen", None), "db");
    assert_eq!(stream_name("db/", None), "db");
}

#[test]
fn units_are_those_of_both_versions() {
    for (precision, ns) in
        [("n", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("h", 3_600_000_000_000)]
    {
        assert_eq!(unit_ns(Some(precision)), Ok(ns));
    }
    assert_eq!(unit_ns(None), Ok(1));
    assert!(unit_ns(Some("fortnight")).is_err());
}

#[test]
fn two_statements_are_understood() {
    let create = |name: &str| Some(Statement::Create(name.to_owned()));
    assert_eq!(parse("CREATE DATABASE telegraf"), create("telegraf"));
    assert_eq!(parse("create database \"my db\" WITH DURATION 1d"), create("my db"));
    assert_eq!(parse("CREATE DATABASE IF NOT EXISTS foo"), create("foo"));
    assert_eq!(parse("create database if  not exists \"my db\";"), create("my db"));
    assert_eq!(parse("CREATE DATABASE if"), create("if"));
    assert_eq!(parse("CREATE DATABASE if WITH DURATION 1d"), create("if"));
    assert_eq!(parse("CREATE DATABASE IF NOT EXISTS "), None, "no name follows");
    assert_eq!(parse(" CREATE  DATABASE x;"), None, "one space, as clients send it");
    assert_eq!(parse("SHOW DATABASES;"), Some(Statement::Show));
    for text in
        ["", "CREATE", "CREATE DATABASE", "DROP DATABASE x", "SELECT 1", "CREATE DATABASE \"x"]
    {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn an_unknown_stream_is_a_database_that_is_not_found() {
    let unknown = Problem::from(tidemill_log::LogError::Unknown("tele".to_owned()));
    let message = v1(unknown).message;
    assert!(message.starts_with("database not found: ") && message.contains("tele"), "{message}");
    assert_eq!(v1(Problem::bad("else")).message, "else");
}

#[test]
fn good_lines_are_taken_and_bad_ones_told() {
    let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
    let log = Log::open(&World::simulated(7).world, Path::new("data"), options).unwrap();
    let stream = log.create("s", StreamSpec::default()).unwrap();
    let mut batch = AppendBatch::new(stream, None, 0).unwrap();
    let text =
        "cpu v=1 5\n# a comment\n\nbad\ncpu v= 6\ncpu,h=a v=2\ncpu v=1 9223372036854775807\n";
    let bad = points(text.as_bytes(), 1_000, 77, &mut batch);
    assert_eq!(batch.record_count, 2);
    assert_eq!(bad.count, 3);
    assert_eq!(bad.told.iter().map(|it| it.0).collect::<Vec<_>>(), [4, 5, 7]);
    let problem = bad.problem(2).unwrap();
    assert_eq!(problem.status, StatusCode::BAD_REQUEST);
    assert!(problem.message.starts_with("partial write: line 4: "), "{}", problem.message);
    assert!(problem.message.ends_with("dropped=3, written=2"), "{}", problem.message);
    assert!(Bad::default().problem(2).is_none());
    let many = points("x\n".repeat(1_000).as_bytes(), 1, 0, &mut batch);
    assert_eq!((many.count, many.told.len()), (1_000, TOLD_MAX));
}

#[test]
fn a_line_break_within_quotes_ends_no_point() {
    let points = |text: &str| -> Vec<(usize, String)> {
        let owned = |(number, point): (usize, &[u8])| {
            (number, String::from_utf8(point.to_vec()).expect("text"))
        };
        points_of(text.as_bytes()).map(owned).collect()
    };
    let whole = [
        "log,h=a msg=\"Traceback:\n  File \\\"x\\\", line 1\nfake,h=b v=1\nValueError\" 5",
        "log a=1,msg=\"\n\n# no comment\n\",more=\"x\ny\"",
        "log msg=\"ends with \\\\\",more=\"\n\" 5",
        "l\\ og,t=a\"b m=\"x\r\ny\"",
    ];
    for point in whole {
        let text = format!("a v=1 1\n{point}\r\n#\"\nb v=2 2\n");
        let breaks = point.matches('\n').count();
        let expected =
            [(1, "a v=1 1".to_owned()), (2, point.to_owned()), (4 + breaks, "b v=2 2".to_owned())];
        assert_eq!(points(&text), expected);
        let point = InfluxLines::default().point(point.as_bytes()).map(|_| ());
        assert_eq!(point, Ok(()));
    }
    // A line that is a bad one anyhow takes no other with it.
    for bad in [
        "log msg=\"open",
        "log msg=\"x\"y\"",
        "log,t=\"open v=1",
        "log v=1=\"open",
        "log \"open=1",
        "log v=1 \"open",
        "\"open",
        "log",
        "log v=",
    ] {
        let text = format!("{bad}\nb v=2,s=\"x\" 2\nc v=3 3");
        let expected = [(1, bad.to_owned()), (2, "b v=2,s=\"x\" 2".into()), (3, "c v=3 3".into())];
        assert_eq!(points(&text), expected, "{bad}");
    }
}

/// Each line is looked at once: otherwise this would take hours.
#[test]
fn lines_with_nothing_in_them_are_passed_over() {
    for nothing in ["\n", " \n", "#\n", "\r\n"] {
        let body = nothing.repeat(2_000_000) + "a v=1";
        let points: Vec<_> = points_of(body.as_bytes()).collect();
        assert_eq!(points, [(2_000_001, &b"a v=1"[..])]);
    }
}

#[test]
fn a_text_keeps_its_line_breaks() {
    let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
    let log = Log::open(&World::simulated(7).world, Path::new("data"), options).unwrap();
    let stream = log.create("s", StreamSpec::default()).unwrap();
    let mut batch = AppendBatch::new(stream, None, 0).unwrap();
    let text = b"log,h=a msg=\"one\nfake v=1\nthree\" 5\nbad\nlog msg=\"open\ncpu v=1\n";
    let bad = points(text, 1, 77, &mut batch);
    assert_eq!(batch.record_count, 2);
    assert_eq!(bad.told.iter().map(|it| it.0).collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn a_line_that_is_too_long_is_a_bad_one() {
    let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
    let log = Log::open(&World::simulated(7).world, Path::new("data"), options).unwrap();
    let spec = StreamSpec { max_chunk_bytes: ByteSize(1024), ..StreamSpec::default() };
    let mut batch = AppendBatch::new(log.create("s", spec).unwrap(), None, 0).unwrap();
    let text = format!("a v=1 1\nlog msg=\"{}\" 1\nb v=2 2\nc v=3 3\n", "x".repeat(1_100));
    let bad = points(text.as_bytes(), 1, 77, &mut batch);
    assert_eq!((batch.record_count, bad.count), (3, 1));
    let told = bad.problem(3).unwrap().message;
    assert!(
        told.starts_with("partial write: line 2: a record of 1") && told.ends_with("written=3")
    );
}

proptest::proptest! {
    #[test]
    fn row_34_any_line_is_a_point_or_is_told(
        changes in proptest::collection::vec(
            (proptest::prelude::any::<usize>(), 0..6usize, "[ -~\n\t\u{e9}]{0,4}"), 0..8,
        ),
        unit_ns in proptest::prelude::any::<i64>(),
        bytes: Vec<u8>,
    ) {
        let good = "cpu,host=a\\ b v=1.5,u=2i,t=\"x \\\" y\",ok=true 1700000000\ncpu v=1\n# c\n";
        let mut text: Vec<char> = good.chars().collect();
        for (at, gone, new) in changes {
            let at = at % (text.len() + 1);
            let end = (at + gone).min(text.len());
            text.splice(at..end, new.chars());
        }
        let text: String = text.into_iter().collect();
        let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
        let log = Log::open(&World::simulated(7).world, Path::new("data"), options).unwrap();
        let stream = log.create("s", StreamSpec::default()).unwrap();
        for body in [text.as_bytes(), &bytes] {
            let mut batch = AppendBatch::new(Arc::clone(&stream), None, 0).unwrap();
            let bad = points(body, unit_ns, 77, &mut batch);
            let of_points: Vec<_> = points_of(body).collect();
            proptest::prop_assert_eq!(batch.record_count + bad.count, of_points.len());
            // No byte of a line is in no point, but for comments.
            let lines: Vec<&[u8]> = body.split(|it| *it == b'\n').collect();
            let mut next = 1;
            for (number, point) in of_points {
                for line in &lines[next - 1..number - 1] {
                    let first = line.trim_ascii().first();
                    proptest::prop_assert!(matches!(first, None | Some(b'#')));
                }
                next = number + 1 + point.iter().filter(|it| **it == b'\n').count();
                let whole = lines[number - 1..next - 1].join(&b'\n');
                proptest::prop_assert_eq!(whole.strip_suffix(b"\r").unwrap_or(&whole), point);
            }
        }
    }
}
