//! What is wrong is said without a node, and what cannot be known is not held against the job.

use super::*;
use crate::descriptor::parse;

fn look(source: &str, stage: &str, sink: &str) -> Result<(usize, String), String> {
    let text = format!(
        "name: j\nsources:\n  in: {{{source}}}\nstages:\n  s: {stage}\nsinks:\n  out: {sink}\n"
    );
    let descriptor = parse(&text, "j").map_err(|refused| refused.to_string())?;
    let options = PlanOptions::default();
    validate(&descriptor, &options, &World::real(), &Registry::default())
        .map(|it| (it.planned.graph.stages.len(), it.unchecked.unwrap_or_default()))
        .map_err(|refused| refused.to_string())
}

const OPEN: &str = "stream: orders, format: json";
const NAMED: &str = "stream: orders, format: json, schema: {n: bigint}";
const STAGE: &str = "{from: in, where: n > 1, select: {m: n + 1}}";
const SINK: &str = "{from: s, stream: {name: big, key: [m]}}";

#[test]
fn a_job_with_streams_is_checked_without_a_node() {
    let all = "that the stream `orders` is there, with these columns";
    assert_eq!(look(NAMED, STAGE, SINK), Ok((3, all.to_owned())));
    let rest = "that the stream `orders` is there, and the columns in `in`, `s`, `out`, which \
                depend on its records";
    assert_eq!(look(OPEN, STAGE, SINK), Ok((0, rest.to_owned())));
    // There may be other columns than those that are named.
    let other = "{from: in, where: other > 1, select: {m: n}}";
    assert_eq!(look(NAMED, other, SINK), Ok((0, rest.to_owned())));
    let csv = "stream: orders, format: csv, schema: {n: bigint}";
    assert_eq!(look(csv, STAGE, SINK), Ok((3, all.to_owned())));
}

#[test]
fn what_needs_no_records_is_refused() {
    let refused = |source, stage, sink, expected: &str| {
        let message = look(source, stage, sink).expect_err("it is wrong");
        assert!(message.contains(expected), "{message}\n{expected}");
        assert_eq!(message.matches("error:").count(), 1, "{message}");
    };
    refused(OPEN, "{from: inn, where: n > 1}", SINK, "did you mean `in`?");
    refused(OPEN, "{from: in, where: n >}", SINK, "j:5:");
    refused(OPEN, "{from: in, select: {m: n + }}", SINK, "j:5:");
    let window = "{from: in, window: {global: {}}, aggregate: {n: 'count('}}";
    refused(OPEN, window, SINK, "j:5:");
    refused("stream: orders, format: parquet", STAGE, SINK, "json, csv, text or influx");
    refused("stream: orders, format: json, schema: {n: bigit}", STAGE, SINK, "`bigint`");
    refused(NAMED, STAGE, "{from: s, stream: {name: big, format: csv}}", "json or text");
    refused(NAMED, STAGE, "{from: s, stream: 'a b'}", "1 to 249");
    // All columns of CSV are named.
    let csv = "stream: orders, format: csv, schema: {n: bigint}";
    refused(csv, "{from: in, where: other > 1}", SINK, "`other`");
    refused(csv, STAGE, "{from: s, stream: {name: big, key: [n]}}", "no column `n`");
}

#[test]
fn a_job_that_only_writes_streams_is_planned_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("in.csv");
    std::fs::write(&path, "n\n1\n").unwrap();
    let source = format!("file: {{path: {}, format: csv}}", path.display());
    assert_eq!(look(&source, STAGE, SINK), Ok((3, "the streams that it writes".to_owned())));
    let message = look(&source, "{from: in, where: other > 1}", SINK).expect_err("no such column");
    assert!(message.contains("`other`"), "{message}");
}
