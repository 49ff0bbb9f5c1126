//! The summary at the end of a job, for a person or as one JSON object.

use super::progress::{bytes, records};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};
use std::fmt::Write;
use tidemill_flow::Progress;
use tidemill_node::preview::Preview;

/// The end of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum JobEnd {
    /// All inputs ended, all output is flushed.
    Done,
    /// Stopped at the end of a cycle.
    Stopped,
    /// It wrote to standard output, which nobody reads any more.
    Unread,
    /// It failed, and this is why and where.
    Failed(String),
}

/// Everything that is said at the end.
pub(super) struct JobSummary<'a> {
    pub(super) job: &'a str,
    pub(super) end: JobEnd,
    pub(super) progress: Progress,
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) previews: &'a [Preview],
    pub(super) letters: &'a Preview,
}

impl JobSummary<'_> {
    fn late(&self) -> u64 {
        self.progress.stages.iter().map(|stage| stage.rows_side).sum()
    }

    fn per_second(&self, count: u64) -> u64 {
        (count as f64 / self.seconds.max(1e-6)) as u64
    }

    /// Of the first dead letters, which source or stage refused each, where it stood, and why.
    fn reasons(&self) -> Vec<[String; 3]> {
        let at = |name: &str| self.letters.columns.iter().position(|column| column == name);
        let (Some(stage), Some(position), Some(reason)) =
            (at("stage"), at("position"), at("reason"))
        else {
            return Vec::new();
        };
        let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
        let rows = self.letters.rows();
        rows.iter().map(|row| [stage, position, reason].map(|it| text(&row[it]))).collect()
    }

    /// The summary for a person.
    pub(super) fn text(&self) -> String {
        let progress = &self.progress;
        let count = records(progress);
        let end = match &self.end {
            JobEnd::Done => "is done".to_owned(),
            JobEnd::Stopped => format!("was stopped after cycle {}", progress.cycle_committed),
            JobEnd::Unread => "ended, as nobody reads standard output any more".to_owned(),
            JobEnd::Failed(_) => "failed".to_owned(),
        };
        let mut text = format!(
            "job `{}` {end}: {} records in {:.2} s ({} records/s, {}/s), {:.2} CPU seconds\n",
            self.job,
            HumanCount(count),
            self.seconds,
            HumanCount(self.per_second(count)),
            HumanBytes(self.per_second(bytes(progress))),
            self.cpu_seconds,
        );
        // Writing to a string cannot fail.
        let mut add = |kind: &str, name: &str, count: u64, unit: &str, more: &str| {
            let count = HumanCount(count).to_string();
            let line = format!("  {kind:<5}{name:<20}{count:>14} {unit:<8}{more}");
            let _ = writeln!(text, "{}", line.trim_end());
        };
        for source in &progress.sources {
            let size = HumanBytes(source.bytes).to_string();
            add("in", &source.name, source.records, "records", &size);
        }
        for sink in &progress.sinks {
            let preview = self.previews.iter().find(|it| it.sink == sink.name);
            let place = preview.map_or("", |it| it.place.as_str());
            add("out", &sink.name, sink.rows, "rows", place);
        }
        for (name, count) in [("late", self.late()), ("shed", progress.shed)] {
            if count > 0 {
                add("", name, count, "rows", "");
            }
        }
        if progress.dead_letters > 0 {
            add("", "dead letters", progress.dead_letters, "records", &self.letters.place);
            for [stage, position, reason] in self.reasons() {
                // The position in a source names its file or stream, that in a stage only a slice.
                let of_stage = match progress.stages.iter().any(|it| it.name == stage) {
                    true => format!("{stage}, "),
                    false => String::new(),
                };
                let _ = writeln!(text, "       {of_stage}{position}: {reason}");
            }
        }
        text
    }

    /// The summary for a script.
    pub(super) fn json(&self) -> Value {
        let count = records(&self.progress);
        let (end, error) = match &self.end {
            JobEnd::Done => ("done", None),
            JobEnd::Stopped => ("stopped", None),
            JobEnd::Unread => ("unread", None),
            JobEnd::Failed(error) => ("failed", Some(error)),
        };
        let reasons: Vec<Value> = self
            .reasons()
            .into_iter()
            .map(|[stage, position, reason]| {
                json!({ "stage": stage, "position": position, "reason": reason })
            })
            .collect();
        json!({
            "type": "summary",
            "job": self.job,
            "end": end,
            "error": error,
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
            "records": count,
            "records_per_s": self.per_second(count),
            "bytes": bytes(&self.progress),
            "late": self.late(),
            "shed": self.progress.shed,
            "dead_letters": self.progress.dead_letters,
            "dead_letter_reasons": reasons,
            "cycle": self.progress.cycle_committed,
            "checkpoints": self.progress.checkpoints,
            "sources": self.progress.sources,
            "stages": self.progress.stages,
            "sinks": self.progress.sinks,
        })
    }
}
