//! The schema that is published is the schema of the code.

use super::*;
use tidemill_types::limits::{SLICES_MAX, WORKERS_MAX};

#[test]
fn the_published_schema_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/job.schema.json");
    let published = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        published == job_schema_text(),
        "docs/job.schema.json is out of date: tidemill job schema > docs/job.schema.json"
    );
}

#[test]
fn the_schema_names_every_part() {
    let schema = job_schema();
    assert_eq!(schema["title"], "Tidemill job");
    assert!(schema["$schema"].as_str().is_some_and(|it| it.contains("json-schema.org")));
    for field in ["name", "delivery", "cycle", "sources", "stages", "sinks"] {
        assert!(schema["properties"][field].is_object(), "{field}");
    }
    assert_eq!(schema["additionalProperties"], json!(false));
    let (slices, threads) = (&schema["properties"]["slices"], &schema["properties"]["parallelism"]);
    assert_eq!((&slices["minimum"], &slices["maximum"]), (&json!(1), &json!(SLICES_MAX)));
    assert_eq!((&threads["minimum"], &threads["maximum"]), (&json!(1), &json!(WORKERS_MAX)));
    assert_eq!(schema["properties"]["name"]["maxLength"], 128);
    assert_eq!(schema["$defs"]["TopSpec"]["properties"]["k"]["minimum"], 1);
    let stage = &schema["$defs"]["StageSpec"]["properties"];
    for part in ["from", "where", "select", "key", "window", "aggregate", "top", "join", "dedup"] {
        assert!(stage[part].is_object(), "{part}");
    }
}
