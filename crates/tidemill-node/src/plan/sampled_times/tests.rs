//! Columns of time that are probably not meant, and those that are.

use super::*;
use tidemill_connectors::FileSource;
use tidemill_env::World;
use tidemill_types::job::{FileSourceSpec, Format, TimeSpec};

#[track_caller]
fn check(lines: &str, expected: Option<&str>) {
    let sim = World::simulated(1);
    sim.disk.put("f", format!("at,n\n{lines}").as_bytes());
    let spec = FileSourceSpec::new("f", Format::Csv);
    let time = TimeSpec { field: "at".to_owned(), lateness: Default::default() };
    let source = FileSource::new(&sim.world, "f", &spec, Some(&time)).expect("a good source");
    match (doubt(&*source), expected) {
        (Some(found), Some(expected)) => assert!(found.contains(expected), "{found}"),
        (found, expected) => assert_eq!(found.as_deref(), expected),
    }
}

#[test]
fn times_that_are_meant_are_not_doubted() {
    check("2024-03-01T12:00:00Z,1\n", None);
    check("1709294400000,1\n", None);
    check("1960-01-01,1\n", None);
    check("1709294400,1\n1709294400000,2\n", None);
    check("1,1\n2,2\n", None);
    check("01/03/2024 12:00,1\n2024-03-01,2\n", None);
    check("", None);
}

#[test]
fn texts_that_are_no_times_are_doubted() {
    check("01/03/2024 12:00,1\n02/03/2024 13:00,2\n", Some("first 2 records would all be dead"));
    check("tea,1\n", Some("`at`"));
}

#[test]
fn seconds_are_doubted() {
    check("1709294400,1\n1709294401,2\n", Some("first 2 records are all in 1970"));
}
