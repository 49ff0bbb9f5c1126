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

/// The names of all definitions that a schema refers to.
fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value {
            Value::String(to) if name == "$ref" => found.push(to.clone()),
            value => references(value, found),
        }),
        Value::Array(values) => values.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_to_a_definition() {
    let schema = job_schema();
    let mut found = Vec::new();
    references(&schema, &mut found);
    assert!(found.len() > 20, "{found:?}");
    for to in found {
        let name = to.strip_prefix("#/$defs/").unwrap_or_else(|| panic!("{to}"));
        assert!(schema["$defs"][name].is_object(), "{to}");
    }
}
