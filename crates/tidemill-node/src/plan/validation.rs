//! A look at a job whose streams are not here.
//!
//! ```text
//! streams with the columns that the job names ─▶ plan ─▶ fits ──────────────▶ all is checked but
//!                                                  │                          the streams
//!                                                  └─▶ does not fit: those columns may not be all
//! without streams of unknown columns and their readers ─▶ plan ─▶ fits ─▶ the rest is checked
//! ```
//!
//! Of stages that are left out the expressions are parsed, and their names were checked before.

use super::{PlanOptions, Planned, Planner, refused};
use crate::check;
use crate::descriptor::Descriptor;
use crate::diagnostic::Refused;
use crate::registry::Registry;
use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;
use tidemill_connectors::StreamSink;
use tidemill_env::World;
use tidemill_sql::{check_syntax, parse_call};
use tidemill_types::job::{DEAD_LETTER, JobSpec, SourceSpec, StageSpec, StreamSinkSpec};

#[cfg(test)]
mod tests;

/// The treatment of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamAccess {
    /// As they are in the log.
    Opened,
    /// With the columns that the job names.
    Declared,
    /// As `Declared`, but for those that may have other columns: they are left out.
    Known,
}

/// A job that was looked at.
#[derive(Debug)]
pub struct Validated {
    /// The plan, without the parts that could not be planned.
    pub planned: Planned,
    /// The parts that were not checked, in one line; none if everything was.
    pub unchecked: Option<String>,
}

/// Plans a job that is not to run. Streams are looked at if `options` has them; else everything is
/// checked that does not need them.
///
/// # Errors
/// Everything that is wrong with the job, with its place in the file.
pub fn validate(
    descriptor: &Descriptor,
    options: &PlanOptions,
    world: &World,
    registry: &Registry,
) -> Result<Validated, Refused> {
    let spec = &descriptor.spec;
    let by_stream = |(name, it): (&String, &SourceSpec)| {
        it.stream.as_ref().map(|stream| (name.clone(), stream.clone()))
    };
    let sources: Vec<(String, String)> = spec.sources.iter().filter_map(by_stream).collect();
    let sinks = spec.sinks.values().any(|it| it.stream.is_some());
    if options.streams.is_some() || (sources.is_empty() && !sinks) {
        let planned = super::plan(descriptor, options, world, registry)?;
        return Ok(Validated { planned, unchecked: None });
    }
    let take = |streams| take(descriptor, options, world, registry, streams);
    if let Ok((planned, left_out)) = take(StreamAccess::Declared)
        && left_out.is_empty()
    {
        let line = match sources.as_slice() {
            [] => "the streams that it writes".to_owned(),
            some => {
                format!("that {} there, with these columns", are(some.iter().map(|it| &it.1)))
            }
        };
        return Ok(Validated { planned, unchecked: Some(line) });
    }
    let (planned, left_out) = take(StreamAccess::Known)?;
    let streams = are(sources.iter().map(|it| &it.1));
    let names: Vec<String> = left_out.iter().map(|it| format!("`{it}`")).collect();
    let line = format!(
        "that {streams} there, and the columns in {}, which depend on its records",
        names.join(", ")
    );
    Ok(Validated { planned, unchecked: Some(line) })
}

/// "the stream `a` is", "the streams `a`, `b` are".
fn are<'s>(streams: impl Iterator<Item = &'s String>) -> String {
    let names: Vec<String> = streams.map(|it| format!("`{it}`")).collect();
    match names.as_slice() {
        [one] => format!("the stream {one} is"),
        several => format!("the streams {} are", several.join(", ")),
    }
}

/// Plans as much as it can: the plan, and the names of sources, stages and sinks that are not in
/// it.
fn take(
    descriptor: &Descriptor,
    options: &PlanOptions,
    world: &World,
    registry: &Registry,
    streams: StreamAccess,
) -> Result<(Planned, Vec<String>), Refused> {
    let spec = &descriptor.spec;
    let problems = check::check(spec, registry);
    if !problems.is_empty() {
        return Err(refused(descriptor, problems));
    }
    let mut planner = Planner::new(spec, options, world, registry);
    planner.streams = streams;
    let letters = planner.all();
    let left_out = left_out(spec, &planner);
    for name in &left_out {
        if let Some(stage) = spec.stages.get(name) {
            planner.syntax(name, stage);
        }
        if let Some(sink) = spec.sinks.get(name).and_then(|it| it.stream.as_ref()) {
            planner.stream_sink(name, sink);
        }
    }
    if !planner.problems.is_empty() {
        return Err(refused(descriptor, planner.problems));
    }
    Ok((planner.planned(letters), left_out))
}

fn left_out(spec: &JobSpec, planner: &Planner<'_>) -> Vec<String> {
    let planned = |name: &&String| planner.names.contains_key(*name);
    let sinks = spec.sinks.iter().filter(|(_, sink)| {
        let known = |it: &String| it == DEAD_LETTER || planned(&it);
        !sink.from.iter().all(known)
    });
    let sources = spec.sources.keys().filter(|it| !planned(it));
    let stages = spec.stages.keys().filter(|it| !planned(it));
    sources.chain(stages).chain(sinks.map(|(name, _)| name)).cloned().collect()
}

impl Planner<'_> {
    /// Checks a sink whose columns are not known: its name and its format.
    fn stream_sink(&mut self, name: &str, sink: &StreamSinkSpec) {
        let any = Arc::new(Schema::new(vec![Field::new("any", DataType::Utf8, true)]));
        let sink = StreamSinkSpec { key: Vec::new(), ..sink.clone() };
        if let Err(error) = StreamSink::check(&sink, &any) {
            self.problem(super::operators::sink_problem(name, "stream", &error));
        }
    }

    /// Checks a stage whose input is not known.
    fn syntax(&mut self, name: &str, stage: &StageSpec) {
        let mut texts: Vec<(String, &String)> = Vec::new();
        texts.extend(stage.flat_map.as_ref().map(|it| ("flat_map.unnest".to_owned(), &it.unnest)));
        texts.extend(stage.filter.as_ref().map(|it| ("where".to_owned(), it)));
        let select = stage.select.iter().flatten();
        texts.extend(select.map(|(column, text)| (format!("select.{column}"), text)));
        for (part, text) in texts {
            if let Err(error) = check_syntax(text) {
                self.problem(super::operators::expression_problem(name, &part, &error));
            }
        }
        for (column, text) in stage.aggregate.iter().flatten() {
            if let Err(error) = parse_call(text) {
                let part = format!("aggregate.{column}");
                self.problem(super::operators::expression_problem(name, &part, &error));
            }
        }
    }
}
