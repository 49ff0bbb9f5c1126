//! Warnings about a job that is legal and perhaps not meant.

use super::graph::sources_of;
use tidemill_types::job::{
    CompressionSpec, DEAD_LETTER, Delivery, JobSpec, KafkaSinkSpec, KafkaSourceSpec, SinkSpec,
    SourceSpec, UntilSpec,
};

/// Warnings about a job, as whole sentences. Call it on a checked job only.
#[must_use]
pub fn advice(spec: &JobSpec) -> Vec<String> {
    without_checkpoint(spec).into_iter().chain(advice_of_one_run(spec)).collect()
}

/// As [`advice`], for a job that keeps no data and so is never resumed.
#[must_use]
pub fn advice_of_one_run(spec: &JobSpec) -> Vec<String> {
    fed_back(spec).into_iter().chain(without_effect(spec)).collect()
}

/// Compression is for links between nodes, and a job runs on one.
fn without_effect(spec: &JobSpec) -> Option<String> {
    (spec.compression != CompressionSpec::Off).then(|| {
        "`compression` has no effect: it is for links between nodes, and a job runs on one node"
            .to_owned()
    })
}

fn without_checkpoint(spec: &JobSpec) -> Option<String> {
    if spec.delivery != Delivery::ExactlyOnce || spec.checkpoint.is_some() {
        return None;
    }
    let lasting = spec.sources.iter().filter(|(_, it)| goes_on(it));
    let lasting: Vec<String> = lasting.map(|(name, _)| format!("`{name}`")).collect();
    if lasting.is_empty() {
        return None;
    }
    let lasting = lasting.join(", ");
    Some(format!(
        "without a `checkpoint` the job reads {lasting} from where it first began whenever it is \
         started again, and cannot go on once those records are no longer kept: give it one, such \
         as `checkpoint: {{every: 10s}}`"
    ))
}

/// Sinks that write to a stream or topic that the job reads.
fn fed_back(spec: &JobSpec) -> Vec<String> {
    let mut found = Vec::new();
    for (sink_name, sink) in &spec.sinks {
        let fed = spec.sources.iter().filter(|(name, source)| {
            let comes_of_it = |from: &String| {
                from == DEAD_LETTER || sources_of(spec, from).contains(&name.as_str())
            };
            goes_on(source) && is_same(source, sink) && sink.from.iter().any(comes_of_it)
        });
        found.extend(fed.map(|(name, _)| {
            format!(
                "the sink `{sink_name}` writes where the source `{name}` reads, so the job reads \
                 what it writes: that never ends, unless a `where` between them leaves it out"
            )
        }));
    }
    found
}

/// True if a sink writes to the stream or topic that a source reads.
fn is_same(source: &SourceSpec, sink: &SinkSpec) -> bool {
    let topics = |from: &KafkaSourceSpec, to: &KafkaSinkSpec| {
        // One cluster has many addresses; that two clusters are one nobody can tell from these.
        let has = |address: &str| from.brokers.split(',').any(|it| it.trim() == address.trim());
        from.topic == to.topic && to.brokers.split(',').any(has)
    };
    let streams = source.stream.as_ref().zip(sink.stream.as_ref());
    streams.is_some_and(|(from, to)| *from == to.name)
        || source.kafka.as_ref().zip(sink.kafka.as_ref()).is_some_and(|(a, b)| topics(a, b))
}

/// True if a source has no end, and its first records are not kept for ever.
fn goes_on(source: &SourceSpec) -> bool {
    let until = match &source.kafka {
        Some(kafka) => kafka.until,
        None if source.stream.is_some() => source.until,
        None => return false,
    };
    until != Some(UntilSpec::Latest)
}
