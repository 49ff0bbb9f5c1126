//! Sources that have no columns as their files are empty: a column that stages miss is not
//! their mistake.
//!
//! Invariant: a job that needs none of their columns is planned.

use super::Planner;
use crate::{check, diagnostic::Problem};
use tidemill_flow::{SourceFactory, TIME_COLUMN};
use tidemill_types::job::{Format, SourceSpec};

/// True if the records decide the columns, and no record was found.
pub(super) fn shows_no_columns(spec: &SourceSpec, source: &dyn SourceFactory) -> bool {
    let time = spec.time.as_ref().map(|it| it.field.as_str());
    let schema = source.schema();
    let mut names = schema.fields().iter().map(|it| it.name().as_str());
    spec.file.as_ref().is_some_and(|file| file.format == Format::Json && file.schema.is_empty())
        && names.all(|name| name == TIME_COLUMN || Some(name) == time)
}

impl Planner<'_> {
    /// Says of empty files that their columns are not known, instead of the problems of those who
    /// read them: all problems from number `since` on.
    pub(super) fn blame_empty_files(&mut self, since: usize) {
        let spec = self.spec;
        let mut found = self.problems.split_off(since);
        for (name, path) in std::mem::take(&mut self.columnless) {
            let file = self.world.disk.open_read(&self.path(&path)).and_then(|it| it.length());
            if !file.is_ok_and(|bytes| bytes == 0) {
                continue;
            }
            let reads = |reader: &str| check::sources_of(spec, reader).contains(&name.as_str());
            let is_of_it = |problem: &Problem| match problem.path.as_slice() {
                [kind, stage, ..] if kind == "stages" => reads(stage),
                [kind, sink, ..] if kind == "sinks" => {
                    let sink = spec.sinks.get(sink);
                    sink.is_some_and(|it| it.from.iter().any(|it| reads(it)))
                }
                _ => false,
            };
            let before = found.len();
            found.retain(|problem| !is_of_it(problem));
            if found.len() < before {
                let place = ["sources", &name, "file", "path"];
                let message = format!("`{path}` is empty, so its columns are not known");
                let expected = "a file with a record, or `schema` with the columns and their types";
                self.problems.push(Problem::new(place, message).expected(expected));
            }
        }
        self.problems.extend(found);
    }
}
