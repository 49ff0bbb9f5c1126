//! What a job may well say, and whoever wrote it has perhaps not thought of.

use tidemill_types::job::{Delivery, JobSpec, SourceSpec, UntilSpec};

/// What will be missed one day, as whole sentences. Call it on a checked job only.
#[must_use]
pub fn advice(spec: &JobSpec) -> Vec<String> {
    if spec.delivery != Delivery::ExactlyOnce || spec.checkpoint.is_some() {
        return Vec::new();
    }
    let lasting = spec.sources.iter().filter(|(_, it)| goes_on(it));
    let lasting: Vec<String> = lasting.map(|(name, _)| format!("`{name}`")).collect();
    if lasting.is_empty() {
        return Vec::new();
    }
    let lasting = lasting.join(", ");
    vec![format!(
        "without a `checkpoint` the job reads {lasting} from where it first began whenever it is \
         started again, and cannot go on once those records are no longer kept: give it one, such \
         as `checkpoint: {{every: 10s}}`"
    )]
}

/// Whether a source has records of which the first are not kept for ever, and does not end.
fn goes_on(source: &SourceSpec) -> bool {
    let until = match &source.kafka {
        Some(kafka) => kafka.until,
        None if source.stream.is_some() => source.until,
        None => return false,
    };
    until != Some(UntilSpec::Latest)
}
