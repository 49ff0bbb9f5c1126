//! The JSON Schema of job files, for editors.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use tidemill_types::job::JobSpec;

#[cfg(test)]
mod tests;

/// The JSON Schema (draft 2020-12) of a job file.
#[must_use]
pub fn job_schema() -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let schema = generator.into_root_schema_for::<JobSpec>().to_value();
    let mut first = Map::new();
    first.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    first.insert("title".to_owned(), json!("Tidemill job"));
    if let Value::Object(fields) = schema {
        fields.into_iter().for_each(|(name, value)| {
            first.entry(name).or_insert(value);
        });
    }
    Value::Object(first)
}

/// The schema as text, ending with a line end: the content of `docs/job.schema.json`.
#[must_use]
pub fn job_schema_text() -> String {
    format!("{:#}\n", job_schema())
}
