//! Commands to go on with, at the end of a run.
//!
//! Invariant: a person who copies one loses nothing. None begins a job anew that can resume, adds rows to a
//! table or a topic again, or would be refused.

use super::{RunArguments, WayOut};
use std::path::Path;
use tidemill_types::job::{Delivery, JobSpec};

/// The words of a command up to its options, and those that name the job as it ran.
struct Words {
    program: String,
    file: String,
    set: String,
    data: String,
}

/// They name the program as it was called: it need not be on the PATH. Nothing if a shell cannot be
/// told of the job.
pub(super) fn what_next(
    program: &str,
    arguments: &RunArguments,
    spec: &JobSpec,
    end: WayOut,
) -> String {
    let Some(words) = words(program, arguments) else { return String::new() };
    let Words { program, file, set, data } = &words;
    let run = format!("{program} run {file}{data}{set}");
    let mut commands = Vec::new();
    match end {
        WayOut::Stopped if arguments.data.is_some() && spec.goes_on() => {
            commands.push((format!("{run} --resume"), "goes on where it stopped"));
        }
        WayOut::Done if may_run_again(arguments, spec) => {
            let same = "the same bytes, whatever the number of threads";
            commands.push((format!("{run} --threads 1"), same));
            let other = "with another value, such as parallelism=1";
            commands.push((format!("{run} --set KEY=VALUE"), other));
        }
        _ => {}
    }
    let validate = format!("{program} validate {file}{set}");
    commands.push((validate, "how the job runs: stages, slices, columns"));
    commands.push((format!("{program} job schema"), "everything that a job file may say"));
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
    let line = |(command, what): (String, &str)| format!("  {command:width$}  {what}\n");
    format!("\nnext:\n{}", commands.into_iter().map(line).collect::<String>())
}

/// True if another run from the beginning writes the same, and nothing twice.
fn may_run_again(arguments: &RunArguments, spec: &JobSpec) -> bool {
    let went_on = arguments.resume || arguments.checkpoint.is_some();
    let reads_files = spec.sources.values().all(|it| it.file.is_some());
    let keeps_nothing = |it: &tidemill_types::job::SinkSpec| {
        it.file.is_some() || it.stdout.is_some() || it.blackhole.is_some()
    };
    !went_on
        && spec.delivery != Delivery::AtMostOnce
        && reads_files
        && spec.sinks.values().all(keeps_nothing)
}

fn words(program: &str, arguments: &RunArguments) -> Option<Words> {
    let path = |path: &Path| path.to_str().map(str::to_owned);
    let file = path(&arguments.job.file)?;
    // A word that begins with it is an option to whoever reads arguments.
    let file = if file.starts_with('-') { format!("./{file}") } else { file };
    let data = match &arguments.data {
        Some(data) => option("--data", &path(data)?),
        None => String::new(),
    };
    let set = arguments.job.set.iter().map(|it| option("--set", it)).collect();
    Some(Words { program: shell_word(program), file: shell_word(&file), set, data })
}

/// An option with its value, and a blank before them.
fn option(name: &str, value: &str) -> String {
    let between = if value.starts_with('-') { '=' } else { ' ' };
    format!(" {name}{between}{}", shell_word(value))
}

/// A text as a shell takes it for one word.
fn shell_word(text: &str) -> String {
    let is_plain = |it: char| it.is_alphanumeric() || "/._-+@:,=".contains(it);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
