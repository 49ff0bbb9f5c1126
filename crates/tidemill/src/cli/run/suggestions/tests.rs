//! What is said at the end of a run, and what is not.

use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    run: RunArguments,
}

const FILES: &str = "name: j\nsources: {s: {file: {path: a.csv, format: csv}}}\n\
                     sinks: {o: {from: s, file: {path: o.csv, format: csv}}}\n";

/// The commands that are offered after a run with these arguments.
fn offered(arguments: &[&str], job: &str, end: WayOut) -> Vec<String> {
    let line = [&["run"], arguments].concat();
    let run = Line::try_parse_from(line).unwrap_or_else(|error| panic!("{error}")).run;
    let spec = tidemill_node::descriptor::parse(job, "job.yaml").expect("a job").spec;
    let said = what_next("bin/tidemill", &run, &spec, end);
    let commands = said.lines().skip(2).map(str::trim_start);
    commands.map(|it| it.split("  ").next().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_commands_call_program_and_job_as_they_were_called() {
    let arguments = ["examples/demo.yaml", "--set", "cycle=5ms", "--set", "stages.l.where=d > 3"];
    assert_eq!(
        offered(&arguments, FILES, WayOut::Done),
        [
            "bin/tidemill run examples/demo.yaml --set cycle=5ms --set 'stages.l.where=d > 3' --threads 1",
            "bin/tidemill run examples/demo.yaml --set cycle=5ms --set 'stages.l.where=d > 3' --set KEY=VALUE",
            "bin/tidemill validate examples/demo.yaml --set cycle=5ms --set 'stages.l.where=d > 3'",
            "bin/tidemill job schema",
        ]
    );
    let arguments = ["j.yaml", "--data", "my state", "--threads", "2"];
    let first = &offered(&arguments, FILES, WayOut::Done)[0];
    assert_eq!(first, "bin/tidemill run j.yaml --data 'my state' --threads 1");
}

#[test]
fn a_job_that_was_stopped_goes_on_and_does_not_begin_anew() {
    let stopped = |arguments: &[&str], job: &str| offered(arguments, job, WayOut::Stopped);
    let in_folder = ["j.yaml", "--data", "d", "--set", "cycle=5ms", "--checkpoint", "3"];
    let commands = stopped(&in_folder, FILES);
    assert_eq!(commands[0], "bin/tidemill run j.yaml --data d --set cycle=5ms --resume");
    assert_eq!(commands.len(), 3, "{commands:?}");
    // Nothing to go on with: no folder, or no ledger in it.
    assert_eq!(stopped(&["j.yaml"], FILES).len(), 2);
    let lossy = format!("delivery: at-least-once\n{FILES}");
    assert_eq!(stopped(&["j.yaml", "--data", "d"], &lossy).len(), 2);
}

#[test]
fn what_would_write_rows_again_is_not_offered() {
    let stream = FILES.replace("file: {path: o.csv, format: csv}", "stream: o");
    let live = FILES.replace("file: {path: a.csv, format: csv}", "stream: s");
    let lossy = format!("delivery: at-most-once\n{FILES}");
    for job in [&stream, &live, &lossy] {
        assert_eq!(offered(&["j.yaml", "--data", "d"], job, WayOut::Done).len(), 2, "{job}");
    }
    let resumed = ["j.yaml", "--data", "d", "--resume"];
    assert_eq!(offered(&resumed, FILES, WayOut::Done).len(), 2);
    let standard_output = FILES.replace("file: {path: o.csv, format: csv}", "stdout: {}");
    assert_eq!(offered(&["j.yaml"], &standard_output, WayOut::Done).len(), 4);
}

#[test]
fn what_a_shell_would_take_apart_is_quoted() {
    assert_eq!(shell_word("./jobs/ärger-2.yaml"), "./jobs/ärger-2.yaml");
    assert_eq!(shell_word("my jobs/it's.yaml"), r"'my jobs/it'\''s.yaml'");
    assert_eq!(shell_word(""), "''");
    let commands = offered(&["--data=-d", "--", "-j.yaml"], FILES, WayOut::Done);
    assert_eq!(commands[0], "bin/tidemill run ./-j.yaml --data=-d --threads 1");
}
