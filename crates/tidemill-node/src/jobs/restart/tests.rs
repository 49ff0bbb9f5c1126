//! Jobs that would not keep their promise when they begin again.

use super::*;
use crate::descriptor;

/// What is said of a job with this delivery, start of its source, stage and sinks.
fn said(delivery: &str, start: &str, stage: &str, sinks: &str) -> Option<String> {
    let text = format!(
        "name: j\ndelivery: {delivery}\n\
         sources: {{s: {{stream: s, format: json{start}}}}}\n\
         stages: {{w: {{from: s{stage}}}}}\n\
         sinks: {{{sinks}}}\n"
    );
    let descriptor =
        descriptor::parse(&text, "job.yaml").unwrap_or_else(|it| panic!("{it}: {text}"));
    refused(&descriptor.spec).map(|it| descriptor.locate(it).to_string())
}

const OUT: &str = "out: {from: w, stream: out}";
const ALL: &str = "out: {from: w, stream: out}, bad: {from: dead_letter, stream: bad}";
const GROUP: &str = ", start: {group: g}";

#[test]
fn what_goes_on_or_comes_again_as_a_whole_is_taken() {
    let files = "out: {from: w, file: {path: out.csv, format: csv}}";
    for start in ["", GROUP, ", start: latest", ", start: earliest"] {
        assert_eq!(said("exactly-once", start, ", where: n > 0", files), None, "{start}");
    }
    let saved = "at-most-once\ncheckpoint: {every: 10s}";
    assert_eq!(said(saved, "", ", where: n > 0", OUT), None);
    for start in ["", ", start: earliest", ", start: \"2026-01-01T00:00:00Z\""] {
        assert_eq!(said("at-least-once", start, ", dedup: {on: [n]}", files), None, "{start}");
    }
    assert_eq!(said("at-least-once", GROUP, ", where: n > 0", ALL), None);
}

#[test]
fn what_would_be_lost_or_twice_is_refused() {
    let in_file = format!("{ALL}, f: {{from: w, file: {{path: out.csv, format: csv}}}}");
    let latest = ", start: latest";
    for (delivery, start, stage, sinks, why) in [
        ("at-most-once", "", ", where: n > 0", ALL, "count records twice"),
        ("at-most-once", latest, ", where: n > 0", ALL, "a `checkpoint` too"),
        ("at-least-once", latest, ", where: n > 0", ALL, "lose it"),
        ("at-least-once", GROUP, ", dedup: {on: [n]}", ALL, "states of its stages would be empty"),
        ("at-least-once", GROUP, ", where: n > 0", &in_file, "files of its sinks"),
        ("at-least-once", GROUP, ", where: n > 0", OUT, "as no sink takes them"),
    ] {
        let said = said(delivery, start, stage, sinks).expect("refused");
        assert!(said.contains(why), "{said}");
        assert!(said.contains("job.yaml:2:11"), "{said}");
    }
}
