//! The parts of one stage: which go together, and their numbers.

use crate::diagnostic::Problem;
use crate::registry::Registry;
use tidemill_types::Span;
use tidemill_types::job::{PartitionSpec, StageSpec, WindowSpec};
use tidemill_types::limits::WINDOWS_OF_RECORD_MAX;

/// The parts of a stage, for messages.
const LEGAL: &str = "any of `flat_map`, `where`, `select`, then at most one of \
    `window` + `aggregate` (with or without `key`), `top`, `dedup`, `operator`; \
    or `join`, then `where`, `select`";

/// Where keys can leave memory, for messages.
pub(crate) const EXPIRES: &str = "a `count` window, or an `operator` that keeps a map; other windows \
    end by themselves, and `dedup` has `within`";

/// Finds the problems of a stage by itself.
pub(super) fn check(
    name: &str,
    stage: &StageSpec,
    registry: &Registry,
    problems: &mut Vec<Problem>,
) {
    let mut found = StageParts { name, problems };
    parts(stage, &mut found);
    if let Some(operator) = &stage.operator
        && registry.operator(operator).is_none()
    {
        let message = format!("no operator `{operator}` is registered by the program");
        let mut problem = Problem::new(found.path(&["operator"]), message);
        if registry.operators().next().is_some() {
            problem = problem.one_of(operator, registry.operators());
        }
        found.problems.push(problem);
    }
    if let Some(window) = &stage.window {
        window_numbers(window, &mut found);
    }
    if stage.top.as_ref().is_some_and(|top| top.k == 0) {
        found.add(&["top", "k"], "it is zero", "a number of rows");
    }
    if stage.dedup.as_ref().is_some_and(|dedup| dedup.on.is_empty()) {
        found.add(&["dedup", "on"], "it names no column", "at least one");
    }
    if let Some(Span(..=0)) = stage.dedup.as_ref().and_then(|dedup| dedup.within) {
        found.add(&["dedup", "within"], "it is zero", "a time such as `1h`");
    }
    if let Some(ttl) = stage.ttl {
        let can_expire =
            matches!(stage.window, Some(WindowSpec::Count(_))) || stage.operator.is_some();
        if ttl.0 <= 0 {
            found.add(&["ttl"], "it is zero", "a time such as `1h`");
        } else if !can_expire {
            found.add_at_name(&["ttl"], "no key of this stage can leave memory", EXPIRES);
        }
    }
    join(stage, &mut found);
    partition(stage, &mut found);
}

struct StageParts<'a> {
    name: &'a str,
    problems: &'a mut Vec<Problem>,
}

impl StageParts<'_> {
    fn path(&self, fields: &[&str]) -> Vec<String> {
        ["stages", self.name].iter().chain(fields).map(|it| (*it).to_owned()).collect()
    }

    fn add(&mut self, fields: &[&str], message: impl Into<String>, expected: &str) {
        self.problems.push(Problem::new(self.path(fields), message).expected(expected));
    }

    fn add_at_name(&mut self, fields: &[&str], message: impl Into<String>, expected: &str) {
        let problem = Problem::new(self.path(fields), message).expected(expected);
        self.problems.push(problem.at_name());
    }
}

fn parts(stage: &StageSpec, found: &mut StageParts<'_>) {
    let main = [
        ("aggregate", stage.aggregate.is_some()),
        ("top", stage.top.is_some()),
        ("dedup", stage.dedup.is_some()),
        ("operator", stage.operator.is_some()),
        ("join", stage.join.is_some()),
    ];
    let main: Vec<&str> = main.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    if main.len() > 1 {
        let message = format!("`{}` do not go together in one stage", main.join("` and `"));
        found.add_at_name(&[main[1]], message, LEGAL);
    }
    if stage.join.is_some() && !stage.from.is_empty() {
        let message = "`from` and `join` do not go together";
        found.add_at_name(&["from"], message, "the inputs in `join.left` and `join.right`");
    }
    if stage.join.is_some() && stage.flat_map.is_some() {
        found.add_at_name(&["flat_map"], "`join` and `flat_map` do not go together", LEGAL);
    }
    if stage.join.is_none() && stage.from.is_empty() {
        found.add_at_name(&[], "the stage reads nothing", "`from` or `join`");
    }
    let changes = stage.flat_map.is_some() || stage.filter.is_some() || stage.select.is_some();
    let moves = stage.partition.is_some() || stage.from.len() > 1;
    if main.is_empty() && !changes && !moves && stage.window.is_none() && stage.key.is_none() {
        found.add_at_name(&[], "the stage does nothing", LEGAL);
    }
    if stage.select.as_ref().is_some_and(indexmap::IndexMap::is_empty) {
        found.add(&["select"], "it names no column", "at least one");
    }
    key_and_window(stage, found);
}

fn key_and_window(stage: &StageSpec, found: &mut StageParts<'_>) {
    let keyed = stage.aggregate.is_some() || stage.operator.is_some();
    match &stage.key {
        Some(key) if key.is_empty() => found.add(&["key"], "it names no column", "at least one"),
        Some(_) if !keyed && stage.partition != Some(PartitionSpec::Key) => {
            let expected = "`window` + `aggregate`, `operator` or `partition: key` with it";
            found.add_at_name(&["key"], "`key` decides nothing in this stage", expected);
        }
        _ => {}
    }
    match (&stage.window, &stage.aggregate) {
        (Some(_), None) => {
            found.add_at_name(&["window"], "`window` gathers nothing", "`aggregate` with it");
        }
        (None, Some(_)) => {
            let expected = "`window` with it; `window: {global: {}}` gives one result at the end";
            found.add_at_name(&["aggregate"], "`aggregate` has no window", expected);
        }
        (Some(_), Some(aggregate)) if aggregate.is_empty() => {
            found.add(&["aggregate"], "it names no column", "at least one");
        }
        _ => {}
    }
    let in_time = matches!(
        stage.window,
        Some(WindowSpec::Tumbling(_) | WindowSpec::Sliding(_) | WindowSpec::Session(_))
    );
    if stage.late.is_some() && !in_time {
        let expected = "a `tumbling`, `sliding` or `session` window";
        found.add_at_name(&["late"], "nothing comes late in this stage", expected);
    }
}

fn window_numbers(window: &WindowSpec, found: &mut StageParts<'_>) {
    let span = "a time such as `1h`";
    match window {
        WindowSpec::Tumbling(Span(..=0)) => {
            found.add(&["window", "tumbling"], "it is zero", span);
        }
        WindowSpec::Session(Span(..=0)) => found.add(&["window", "session"], "it is zero", span),
        WindowSpec::Sliding(sliding) => {
            if sliding.size.0 <= 0 {
                found.add(&["window", "sliding", "size"], "it is zero", span);
            }
            if sliding.every.0 <= 0 {
                found.add(&["window", "sliding", "every"], "it is zero", span);
            } else if sliding.size.0 / sliding.every.0 > WINDOWS_OF_RECORD_MAX {
                let message = "each record would belong to more than a million windows";
                found.add(&["window", "sliding", "every"], message, "a longer time");
            }
        }
        WindowSpec::Count(count) => {
            if count.size == 0 {
                found.add(&["window", "count", "size"], "it is zero", "a number of records");
            }
            if count.every == 0 {
                found.add(&["window", "count", "every"], "it is zero", "a number of records");
            }
        }
        WindowSpec::Tumbling(_) | WindowSpec::Session(_) | WindowSpec::Global(_) => {}
    }
}

fn join(stage: &StageSpec, found: &mut StageParts<'_>) {
    let Some(join) = &stage.join else { return };
    if join.on.is_empty() {
        found.add(&["join", "on"], "it names no column", "at least one");
    }
    match (&join.right, &join.table) {
        (Some(_), Some(_)) => {
            found.add_at_name(
                &["join", "table"],
                "the join has a stream and a table",
                "one of them",
            );
        }
        (None, None) => {
            found.add_at_name(&["join"], "the join has no right side", "`right` or `table`");
        }
        (Some(_), None) if join.within.is_none() => {
            let expected = "`within`, such as `within: 1h`";
            found.add_at_name(&["join"], "a join of two streams has no time limit", expected);
        }
        (None, Some(_)) if join.within.is_some() => {
            let message = "a table holds the last row of each key, whatever its time";
            found.add_at_name(&["join", "within"], message, "no `within`");
        }
        _ => {}
    }
    if let Some(Span(..=-1)) = join.within {
        found.add(&["join", "within"], "it is negative", "a time such as `1h`");
    }
}

/// A partition that would give wrong results is refused.
fn partition(stage: &StageSpec, found: &mut StageParts<'_>) {
    let Some(partition) = &stage.partition else { return };
    let gathers = stage.aggregate.is_some() || stage.top.is_some() || stage.dedup.is_some();
    match partition {
        PartitionSpec::Key | PartitionSpec::One if stage.join.is_some() => {}
        PartitionSpec::Key
            if stage.key.is_none() && stage.top.is_none() && stage.dedup.is_none() =>
        {
            found.add(&["partition"], "the stage has no `key` to part by", "`key: [...]` with it");
        }
        PartitionSpec::All | PartitionSpec::Random | PartitionSpec::Local
            if gathers || stage.join.is_some() =>
        {
            let message = "rows of one key would meet in several slices";
            found.add(&["partition"], message, "one of `key`, `one`, or none");
        }
        _ => {}
    }
}
