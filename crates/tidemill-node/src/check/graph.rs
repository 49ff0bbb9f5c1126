//! The graph of a job: names that `from` and `join` use, and loops.

use crate::diagnostic::{Path, Problem};
use tidemill_types::job::{DEAD_LETTER, JobSpec, StageSpec};

/// The inputs of a stage, with the path of each name.
pub(crate) fn reads<'s>(name: &str, stage: &'s StageSpec) -> Vec<(&'s str, Path)> {
    let path = |fields: &[&str]| -> Path {
        ["stages", name].iter().chain(fields).map(|it| (*it).to_owned()).collect()
    };
    let from = stage.from.iter().enumerate().map(|(number, from)| {
        let number = number.to_string();
        // `from: a` is written without a number, and its path ends at the name then.
        (from.as_str(), path(&["from", &number]))
    });
    let join = stage.join.iter().flat_map(|join| {
        let right = join.right.as_deref().map(|it| (it, path(&["join", "right"])));
        let table = join.table.as_deref().map(|it| (it, path(&["join", "table"])));
        [Some((join.left.as_str(), path(&["join", "left"]))), right, table].into_iter().flatten()
    });
    from.chain(join).collect()
}

/// The stage that a name leads to: itself, or the stage whose late rows it is.
fn stage_of<'s>(spec: &'s JobSpec, name: &str) -> Option<&'s str> {
    let late = |stage: &StageSpec| stage.late.as_deref() == Some(name);
    match spec.stages.get_key_value(name) {
        Some((name, _)) => Some(name),
        None => spec.stages.iter().find(|(_, stage)| late(stage)).map(|(name, _)| name.as_str()),
    }
}

/// Names that can be read.
pub(crate) fn readable(spec: &JobSpec) -> Vec<&str> {
    let late = spec.stages.values().filter_map(|stage| stage.late.as_deref());
    spec.sources.keys().chain(spec.stages.keys()).map(String::as_str).chain(late).collect()
}

pub(super) fn check(spec: &JobSpec, problems: &mut Vec<Problem>) {
    let before = problems.len();
    let readable = readable(spec);
    for (name, stage) in &spec.stages {
        for (read, path) in reads(name, stage) {
            if read == DEAD_LETTER {
                let problem = Problem::new(path, "a stage cannot read the dead letters");
                problems.push(problem.expected("a sink to do so"));
            } else if !readable.contains(&read) {
                let problem = Problem::new(path, format!("there is no source or stage `{read}`"));
                problems.push(problem.one_of(read, readable.iter().copied()));
            }
        }
    }
    for (name, sink) in &spec.sinks {
        if sink.from.is_empty() {
            let problem = Problem::new(["sinks", name, "from"], "it names nothing");
            problems.push(problem.one_of("", readable.iter().copied()));
        }
        for (number, read) in sink.from.iter().enumerate() {
            let path = ["sinks".to_owned(), name.clone(), "from".to_owned(), number.to_string()];
            let letters = read == DEAD_LETTER;
            if letters && sink.from.len() > 1 {
                let problem = Problem::new(path, "`dead_letter` is read together with others");
                problems.push(problem.expected("a sink of its own"));
            } else if !letters && !readable.contains(&read.as_str()) {
                let problem = Problem::new(path, format!("there is no source or stage `{read}`"));
                let names = readable.iter().copied().chain([DEAD_LETTER]);
                problems.push(problem.one_of(read, names));
            }
        }
    }
    if problems.len() == before
        && let Err(walk) = order(spec)
    {
        let names = walk.join(" -> ");
        let path =
            ["stages", walk[0], if spec.stages[walk[0]].join.is_some() { "join" } else { "from" }];
        let problem = Problem::new(path, format!("stages read each other in a loop: {names}"));
        problems.push(problem.expected("a way from sources to sinks"));
    }
}

/// Stages, each after those it reads; or the stages of a loop, the first repeated at the end.
/// Without loops, the order is that of the file as far as possible.
pub(super) fn order(spec: &JobSpec) -> Result<Vec<&str>, Vec<&str>> {
    let mut done: Vec<&str> = Vec::with_capacity(spec.stages.len());
    for start in spec.stages.keys() {
        // Depth first, without recursion: a long chain must not end the stack.
        let mut walk: Vec<(&str, usize)> = vec![(start.as_str(), 0)];
        while let Some((name, next)) = walk.pop() {
            if done.contains(&name) {
                continue;
            }
            let reads = reads(name, &spec.stages[name]);
            let Some((read, _)) = reads.get(next) else {
                done.push(name);
                continue;
            };
            walk.push((name, next + 1));
            let Some(stage) = stage_of(spec, read) else { continue };
            if let Some(at) = walk.iter().position(|(name, _)| *name == stage) {
                let mut names: Vec<&str> = walk[at..].iter().map(|(name, _)| *name).collect();
                names.push(stage);
                return Err(names);
            }
            walk.push((stage, 0));
        }
    }
    Ok(done)
}

/// Sources that the sinks reach without going through the table of a join.
pub(crate) fn streamed(spec: &JobSpec) -> Vec<&str> {
    let mut seen: Vec<&str> = Vec::new();
    let mut walk: Vec<&str> =
        spec.sinks.values().flat_map(|sink| sink.from.iter().map(String::as_str)).collect();
    while let Some(name) = walk.pop() {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let Some(stage) = stage_of(spec, name).map(|name| &spec.stages[name]) else { continue };
        walk.extend(stage.from.iter().map(String::as_str));
        if let Some(join) = &stage.join {
            walk.push(&join.left);
            walk.extend(join.right.as_deref());
        }
    }
    spec.sources.keys().map(String::as_str).filter(|name| seen.contains(name)).collect()
}

/// Sources that the sinks reach, by any way.
pub(crate) fn reached(spec: &JobSpec) -> Vec<&str> {
    reached_from(spec, spec.sinks.values().flat_map(|sink| &sink.from).map(String::as_str))
}

/// Sources that a name leads to, by any way.
pub(crate) fn sources_of<'s>(spec: &'s JobSpec, name: &'s str) -> Vec<&'s str> {
    reached_from(spec, [name])
}

fn reached_from<'s>(spec: &'s JobSpec, names: impl IntoIterator<Item = &'s str>) -> Vec<&'s str> {
    let mut seen: Vec<&str> = Vec::new();
    let mut walk: Vec<&str> = names.into_iter().collect();
    while let Some(name) = walk.pop() {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        if let Some((stage_name, stage)) =
            stage_of(spec, name).and_then(|it| spec.stages.get_key_value(it))
        {
            walk.extend(reads(stage_name, stage).into_iter().map(|(read, _)| read));
        }
    }
    spec.sources.keys().map(String::as_str).filter(|name| seen.contains(name)).collect()
}
