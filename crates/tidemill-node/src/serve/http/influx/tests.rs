//! Names, units, statements, and lines that are bad among good ones.

use super::*;
use query::{Statement, parse};
use std::path::Path;
use tidemill_env::World;
use tidemill_log::{Log, LogOptions, StreamSpec};

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
    assert_eq!(parse(" CREATE  DATABASE x;"), None, "one space, as clients send it");
    assert_eq!(parse("SHOW DATABASES;"), Some(Statement::Show));
    for text in
        ["", "CREATE", "CREATE DATABASE", "DROP DATABASE x", "SELECT 1", "CREATE DATABASE \"x"]
    {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn good_lines_are_taken_and_bad_ones_told() {
    let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
    let log = Log::open(&World::simulated(7).world, Path::new("data"), options).unwrap();
    let stream = log.create("s", StreamSpec::default()).unwrap();
    let mut batch = Batch::new(stream, None, 0).unwrap();
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
            let mut batch = Batch::new(Arc::clone(&stream), None, 0).unwrap();
            let bad = points(body, unit_ns, 77, &mut batch);
            let is_comment = |it: &[u8]| it.trim_ascii_start().starts_with(b"#");
            let lines = non_empty_lines(body).filter(|it| !is_comment(it.1)).count();
            proptest::prop_assert_eq!(batch.record_count + bad.count, lines);
        }
    }
}
