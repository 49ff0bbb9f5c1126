//! Checks of a job that open nothing: names, numbers, parts, and the graph.
//!
//! Every problem is found, not only the first, so that one look at the file mends them all.

mod advice;
mod backend;
mod graph;
mod stage;
#[cfg(test)]
mod tests;

pub use advice::{advice, advice_of_one_run};
pub(crate) use graph::{reached, sources_of, streamed};
pub(crate) use stage::EXPIRES;

use crate::diagnostic::Problem;
use crate::registry::Registry;
use tidemill_types::job::{
    CompressionSpec, DEAD_LETTER, Delivery, Every, FileSourceSpec, Format, JobSpec, SinkSpec,
    SourceSpec, StartSpec,
};
use tidemill_types::limits::{SLICES_MAX, STAGES_MAX, WORKERS_MAX};
use tidemill_types::{ByteSize, Span};

/// Longest time of a transaction in another cluster; the protocol has 31 bits for milliseconds.
const TRANSACTION_TIMEOUT: std::ops::RangeInclusive<Span> =
    Span(1_000_000)..=Span(20 * 86_400_000_000);
/// Longest name of a job, source, stage or sink, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// Everything that is wrong with a job as it is written.
#[must_use]
pub fn check(spec: &JobSpec, registry: &Registry) -> Vec<Problem> {
    let mut problems = Vec::new();
    names(spec, &mut problems);
    numbers(spec, &mut problems);
    sources(spec, registry, &mut problems);
    for (name, stage) in &spec.stages {
        stage::check(name, stage, registry, &mut problems);
    }
    sinks(spec, registry, &mut problems);
    graph::check(spec, &mut problems);
    problems
}

/// Stages in an order in which each comes after those it reads. Call it on a checked job only.
#[must_use]
pub fn order(spec: &JobSpec) -> Vec<&str> {
    graph::order(spec).unwrap_or_default()
}

fn name_is_good(name: &str) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(good)
}

fn names(spec: &JobSpec, problems: &mut Vec<Problem>) {
    let rule = "letters, digits, `-` and `_`, up to 128 of them";
    if !name_is_good(&spec.name) {
        let problem = Problem::new(["name"], format!("`{}` cannot be a name", spec.name));
        problems.push(problem.expected(rule));
    } else if spec.name.starts_with('-') {
        // Commands name jobs, and would take it for an option.
        let message = format!("the name `{}` begins with `-`", spec.name);
        problems.push(Problem::new(["name"], message).expected("a letter, a digit or `_` first"));
    }
    let count = spec.sources.len() + spec.stages.len() + spec.sinks.len();
    if count > STAGES_MAX {
        let message = format!("the job has {count} sources, stages and sinks");
        problems.push(Problem::new(["stages"], message).expected(format!("at most {STAGES_MAX}")));
    }
    let sources = spec.sources.keys().map(|name| (name, vec!["sources", name.as_str()]));
    let stages = spec.stages.keys().map(|name| (name, vec!["stages", name.as_str()]));
    let sinks = spec.sinks.keys().map(|name| (name, vec!["sinks", name.as_str()]));
    let late = spec.stages.iter().filter_map(|(name, stage)| {
        stage.late.as_ref().map(|late| (late, vec!["stages", name.as_str(), "late"]))
    });
    let mut seen: Vec<(&String, String)> = Vec::new();
    for (name, path) in sources.chain(stages).chain(late).chain(sinks) {
        let is_sink = path[0] == "sinks";
        // Nothing reads a sink, so it may have the name of its rows.
        let is_read = is_sink && spec.sinks[name].from.contains(name);
        let problem = |message: String| {
            let problem = Problem::new(path.iter().copied(), message);
            if path.len() == 2 { problem.at_name() } else { problem }
        };
        if !name_is_good(name) {
            problems.push(problem(format!("`{name}` cannot be a name")).expected(rule));
        } else if is_read {
            continue;
        } else if name == DEAD_LETTER {
            problems.push(problem(format!("`{DEAD_LETTER}` is the name of the bad records")));
        } else if let Some((_, other)) = seen.iter().find(|(it, _)| *it == name) {
            let message = format!("the name `{name}` is taken by `{other}`");
            let expected = match is_sink {
                true => "a name of its own, or that of the stage or source it writes",
                false => "a name of its own",
            };
            problems.push(problem(message).expected(expected));
        }
        seen.push((name, path.join(".")));
    }
}

fn numbers(spec: &JobSpec, problems: &mut Vec<Problem>) {
    let mut bound = |path: &[&str], value: u64, max: u64| {
        if value == 0 || value > max {
            let problem = Problem::new(path.iter().copied(), format!("it is {value}"));
            problems.push(problem.expected(format!("a number from 1 to {max}")));
        }
    };
    bound(&["slices"], spec.slices.into(), SLICES_MAX.into());
    if let Some(parallelism) = spec.parallelism {
        bound(&["parallelism"], parallelism as u64, WORKERS_MAX as u64);
    }
    for (name, stage) in &spec.stages {
        if let Some(slices) = stage.slices {
            bound(&["stages", name, "slices"], slices.into(), SLICES_MAX.into());
        }
    }
    let mut zero = |path: &[&str], is_zero: bool, expected: &str| {
        if is_zero {
            let problem = Problem::new(path.iter().copied(), "it is zero");
            problems.push(problem.expected(expected));
        }
    };
    zero(&["cycle"], spec.cycle.time.0 <= 0, "a time such as `10ms`");
    zero(&["cycle", "bytes"], spec.cycle.bytes.0 == 0, "a size such as `4MiB`");
    zero(&["cycle", "records"], spec.cycle.records == 0, "a number of records");
    zero(&["buffer", "bytes"], spec.buffer.bytes.0 == 0, "a size such as `256KiB`");
    zero(&["buffer", "high_watermark"], spec.buffer.high_watermark.0 == 0, "a size");
    zero(&["buffer", "output"], spec.buffer.output.0 == 0, "a size such as `4GiB`");
    zero(&["state", "budget"], spec.state.budget == Some(ByteSize(0)), "a size such as `1GiB`");
    if spec.buffer.low_watermark > spec.buffer.high_watermark {
        let (low, high) = (spec.buffer.low_watermark, spec.buffer.high_watermark);
        let message = format!("the low watermark {low} is above the high watermark {high}");
        problems.push(Problem::new(["buffer", "low_watermark"], message));
    }
    if let Some(checkpoint) = &spec.checkpoint {
        every(checkpoint.every, spec.delivery, problems);
        if spec.delivery == Delivery::AtLeastOnce {
            let message = "a job with the delivery `at-least-once` has no checkpoints";
            let problem = Problem::new(["checkpoint"], message);
            problems.push(problem.expected("`exactly-once` or `at-most-once`"));
        }
        backend::check(checkpoint, problems);
    } else {
        for (name, _) in spec.stages.iter().filter(|(_, stage)| stage.ttl.is_some()) {
            let message = "keys can leave memory only where they are saved";
            let problem = Problem::new(["stages", name, "ttl"], message).at_name();
            problems.push(problem.expected("`checkpoint: {every: 10s}` in the job"));
        }
    }
    if let CompressionSpec::Selective { coefficient } = spec.compression
        && !(0.0..=1.0).contains(&coefficient)
    {
        let problem = Problem::new(["compression"], format!("the ratio is {coefficient}"));
        problems.push(problem.expected("a ratio from 0 to 1"));
    }
}

/// When checkpoints are made.
fn every(every: Every, delivery: Delivery, problems: &mut Vec<Problem>) {
    let Every::Bounds { time, records } = every else { return };
    let place = ["checkpoint", "every"];
    if time.is_none() && records.is_none() {
        let problem = Problem::new(place, "it has neither `time` nor `records`");
        problems.push(problem.expected("one of them, or both"));
    }
    if time.is_some_and(|time| time.0 <= 0) || records == Some(0) {
        let problem = Problem::new(place, "it must be more than nothing");
        problems.push(problem.expected("a time such as `10s`, or a number of records"));
    }
    if records.is_some() && delivery == Delivery::ExactlyOnce {
        let message =
            "all slices of an `exactly-once` job are saved together, not by their records";
        problems.push(Problem::new(place, message).expected("a time such as `10s`, or `auto`"));
    }
}

fn sources(spec: &JobSpec, registry: &Registry, problems: &mut Vec<Problem>) {
    if spec.sources.is_empty() {
        let problem = Problem::new(["sources"], "the job has no source");
        problems.push(problem.expected("at least one"));
    }
    for (name, source) in &spec.sources {
        let path = ["sources", name.as_str()];
        let custom = registry.source(name).is_some();
        source_kind(source, custom, path, problems);
        if source.time.as_ref().is_some_and(|time| time.lateness.0 < 0) {
            let problem = Problem::new([path[0], path[1], "time", "lateness"], "it is negative");
            problems.push(problem.expected("a time such as `1h`"));
        }
    }
}

/// That a source is of one kind, and has no parts of another.
fn source_kind(source: &SourceSpec, custom: bool, path: [&str; 2], problems: &mut Vec<Problem>) {
    let name = path[1];
    let mut kinds = Vec::new();
    kinds.extend(source.file.is_some().then_some("a file"));
    kinds.extend(source.stream.is_some().then_some("a stream"));
    kinds.extend(source.kafka.is_some().then_some("a topic"));
    kinds.extend(custom.then_some("a source of the program"));
    let expected = "`file: {path: ..., format: ...}`, `kafka: {brokers: ..., topic: ..., format: \
                    ...}`, or `stream: ...` and `format: ...`";
    match kinds.as_slice() {
        [] => {
            let problem = Problem::new(path, format!("the source `{name}` reads nothing"));
            problems.push(problem.at_name().expected(expected));
        }
        [_] => {}
        several => {
            let message = format!("`{name}` is {}", several.join(" and "));
            problems.push(Problem::new(path, message).at_name().expected("one of them"));
        }
    }
    if source.stream.is_some() && source.format.is_none() {
        let problem = Problem::new(path, format!("the stream of `{name}` has no format"));
        problems.push(problem.at_name().expected("`format: json`, `csv`, `text` or `influx`"));
    }
    let mut zero = |key: &[&str], is_zero: bool| {
        if is_zero {
            let problem = Problem::new(path.iter().chain(key).copied(), "it is zero");
            problems.push(problem.expected("a number of records"));
        }
    };
    zero(&["file", "sample"], source.file.as_ref().is_some_and(|it| it.sample == Some(0)));
    zero(&["sample"], source.sample == Some(0));
    zero(&["kafka", "sample"], source.kafka.as_ref().is_some_and(|it| it.sample == Some(0)));
    if let Some(file) = &source.file {
        of_csv(file, path, problems);
    }
    if matches!(source.kafka.as_ref().and_then(|it| it.start.as_ref()), Some(StartSpec::Group(_))) {
        let message = "a topic of another cluster cannot start from a consumer group";
        let problem = Problem::new([path[0], path[1], "kafka", "start"], message);
        problems.push(problem.expected("`earliest`, `latest` or a time"));
    }
    if source.stream.is_none() {
        let parts = [
            ("format", source.format.is_some()),
            ("schema", !source.schema.is_empty()),
            ("sample", source.sample.is_some()),
            ("start", source.start.is_some()),
            ("until", source.until.is_some()),
            ("isolation", source.isolation.is_some()),
            ("meta", source.meta.is_some()),
        ];
        for (part, _) in parts.iter().filter(|(_, there)| *there) {
            let message = format!("`{part}` belongs to a `stream`, and `{name}` reads none");
            let problem = Problem::new([path[0], path[1], part], message);
            let expected = "a `stream`, or the same part under `file` or `kafka`";
            problems.push(problem.expected(expected));
        }
    }
}

/// That parts of CSV are of a CSV file, and can be.
fn of_csv(file: &FileSourceSpec, [sources, name]: [&str; 2], problems: &mut Vec<Problem>) {
    let parts = [("header", file.header.is_some()), ("delimiter", file.delimiter.is_some())];
    for (part, _) in parts.iter().filter(|(_, there)| *there && file.format != Format::Csv) {
        let message = format!("`{part}` belongs to the format `csv`");
        problems.push(Problem::new([sources, name, "file", part], message));
    }
    let can_be = |it: char| it.is_ascii() && !matches!(it, '"' | '\n' | '\r');
    if let Some(delimiter) = file.delimiter.filter(|it| !can_be(*it)) {
        let message = format!("{delimiter:?} cannot stand between fields");
        let problem = Problem::new([sources, name, "file", "delimiter"], message);
        problems.push(problem.expected("a character of one byte, such as `;`, `|` or `\"\\t\"`"));
    }
}

/// The kinds of sink that a sink names.
fn kinds(sink: &SinkSpec) -> Vec<&'static str> {
    let kinds = [
        ("file", sink.file.is_some()),
        ("stdout", sink.stdout.is_some()),
        ("stream", sink.stream.is_some()),
        ("kafka", sink.kafka.is_some()),
        ("postgres", sink.postgres.is_some()),
        ("blackhole", sink.blackhole.is_some()),
    ];
    kinds.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

fn sinks(spec: &JobSpec, registry: &Registry, problems: &mut Vec<Problem>) {
    if spec.sinks.is_empty() {
        let problem = Problem::new(["sinks"], "the job has no sink, so its results go nowhere");
        problems.push(problem.expected("at least one"));
    }
    let mut paths: Vec<(&str, String)> = spec
        .sources
        .iter()
        .filter_map(|(name, it)| {
            Some((it.file.as_ref()?.path.as_str(), format!("source `{name}`")))
        })
        .collect();
    for (name, sink) in &spec.sinks {
        let path = ["sinks", name.as_str()];
        let expected = "one of `file: {path: ..., format: ...}`, `stream: ...`, `kafka: {brokers: \
                        ..., topic: ...}`, `postgres: {url: ..., table: ...}`, `stdout: {}`, \
                        `blackhole: {}`";
        match (kinds(sink).as_slice(), registry.sink(name).is_some()) {
            ([], false) => {
                let problem = Problem::new(path, format!("the sink `{name}` writes nowhere"));
                problems.push(problem.at_name().expected(expected));
            }
            ([_], false) | ([], true) => {}
            (kinds, _) => {
                let message = format!("the sink `{name}` has several kinds: {}", kinds.join(", "));
                problems.push(Problem::new(path, message).at_name().expected("exactly one"));
            }
        }
        if let Some(file) = &sink.file {
            // Other paths to one file are found when the job is planned (`plan/files.rs`).
            if let Some((_, other)) = paths.iter().find(|(path, _)| *path == file.path) {
                let message = format!("`{}` is the file of the {other} too", file.path);
                problems.push(Problem::new([path[0], path[1], "file", "path"], message));
            }
            paths.push((&file.path, format!("sink `{name}`")));
        }
        if let Some(kafka) = &sink.kafka
            && !TRANSACTION_TIMEOUT.contains(&kafka.transaction_timeout)
        {
            let message = format!("{} is no time for a transaction", kafka.transaction_timeout);
            let path = [path[0], path[1], "kafka", "transaction_timeout"];
            problems.push(Problem::new(path, message).expected("from 1s to 20d"));
        }
    }
    let takes_letters = |sink: &&SinkSpec| sink.from.iter().any(|from| from == DEAD_LETTER);
    if spec.sinks.values().filter(takes_letters).count() > 1 {
        let problem = Problem::new(["sinks"], "two sinks read `dead_letter`");
        problems.push(problem.expected("at most one"));
    }
}
