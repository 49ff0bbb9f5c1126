//! `tidemill job …`: jobs of a node that serves, over its HTTP side.

use super::node::{NodeArguments, answer, ask, job_path, submission, word};
use super::{JobArguments, REFUSED, load, print_all};
use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::Value;
use tidemill::table::grid;
use tidemill_node::schema::job_schema_text;
use tidemill_types::ByteSize;

/// A job by its name.
#[derive(Debug, Args)]
pub(super) struct NamedArguments {
    /// The job's name.
    name: String,
    #[command(flatten)]
    node: NodeArguments,
}

#[derive(Debug, Subcommand)]
pub(super) enum JobCommand {
    /// Prints the JSON Schema of job files, for editors.
    Schema,
    /// Gives a job to a node, which runs it until it ends or is cancelled, also after a restart.
    Submit {
        #[command(flatten)]
        job: JobArguments,
        /// Goes on where a job of this name stopped.
        #[arg(long)]
        resume: bool,
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Lists the jobs of a node.
    List {
        #[command(flatten)]
        node: NodeArguments,
    },
    /// Shows one job: how far it is, stage by stage.
    Status(NamedArguments),
    /// Stops a job for good, at the end of the cycles that were begun.
    Cancel(NamedArguments),
    /// Deletes a job that has ended, with its ledger, checkpoints and dead letters.
    Delete(NamedArguments),
    /// Gives a job another number of worker threads, without stopping it.
    Rescale {
        #[command(flatten)]
        named: NamedArguments,
        /// Worker threads.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
        threads: u16,
    },
}

pub(super) fn run(command: &JobCommand) -> u8 {
    match command {
        JobCommand::Schema => print_all(&job_schema_text()),
        JobCommand::Submit { job, resume, node } => submit(job, *resume, node),
        JobCommand::List { node } => {
            answer(node, ask(node, "GET", "/jobs", None), |it| list(&it["jobs"]))
        }
        JobCommand::Status(named) => {
            answer(&named.node, ask(&named.node, "GET", &job_path(&named.name), None), status)
        }
        JobCommand::Cancel(named) => {
            let asked = ask(&named.node, "DELETE", &job_path(&named.name), None);
            answer(&named.node, asked, |it| format!("cancelling job {}\n", word(&it["name"])))
        }
        JobCommand::Delete(named) => {
            let path = format!("{}/delete", job_path(&named.name));
            let asked = ask(&named.node, "POST", &path, None);
            answer(&named.node, asked, |it| format!("job {} is deleted\n", word(&it["name"])))
        }
        JobCommand::Rescale { named, threads } => {
            let path = format!("{}/threads?threads={threads}", job_path(&named.name));
            let asked = ask(&named.node, "PUT", &path, None);
            answer(&named.node, asked, |it| {
                format!("job {} runs on {threads} threads\n", word(&it["name"]))
            })
        }
    }
}

fn submit(arguments: &JobArguments, resume: bool, node: &NodeArguments) -> u8 {
    // What can be seen here is said here.
    let descriptor = match load::load(arguments) {
        Ok(descriptor) => descriptor,
        Err(refused) => {
            load::show_refusal(&refused, node.json);
            return REFUSED;
        }
    };
    let body = match submission(arguments, &descriptor, resume) {
        Ok(body) => body,
        Err(message) => return node.wrong(message, REFUSED),
    };
    let asked = ask(node, "POST", "/jobs", Some(&body));
    if let Ok((200..=299, job)) = &asked {
        show_warnings(job);
    }
    answer(node, asked, |it| {
        let name = word(&it["name"]);
        format!("job {name} is running; look at it with: tidemill job status {name}\n")
    })
}

/// Shows the warnings of an answer about a job that was started.
pub(super) fn show_warnings(job: &Value) {
    let warnings = job["warnings"].as_array().into_iter().flatten();
    load::warn(&word(&job["name"]), warnings.map(word));
}

fn list(jobs: &Value) -> String {
    let jobs = jobs.as_array().map_or(&[][..], Vec::as_slice);
    if jobs.is_empty() {
        return "there are no jobs; give one to the node with: tidemill job submit JOB.yaml\n"
            .into();
    }
    let rows = jobs.iter().map(|job| {
        let progress = &job["progress"];
        vec![
            word(&job["name"]),
            word(&job["status"]),
            word(&job["delivery"]),
            word(&progress["workers"]),
            word(&progress["cycle_committed"]),
            sum(&progress["sources"], "records"),
            sum(&progress["sinks"], "rows"),
        ]
    });
    let head = ["job", "status", "delivery", "threads", "cycle", "records in", "rows out"];
    format!(
        "{}\n",
        grid(&head, &[false, false, false, true, true, true, true], &rows.collect::<Vec<_>>())
    )
}

/// A count summed over sources or sinks; nothing if the job's progress is not known.
fn sum(parts: &Value, of: &str) -> String {
    let parts = parts.as_array();
    let sum = |parts: &Vec<Value>| parts.iter().filter_map(|it| it[of].as_u64()).sum::<u64>();
    parts.map_or_else(String::new, |parts| sum(parts).to_string())
}

/// The state of a stage in memory, and the number of expired keys.
fn state(stage: &Value) -> String {
    let bytes = stage["state_bytes"].as_u64().map(|it| ByteSize(it & !0x3ff).to_string());
    match (bytes, stage["expired_keys"].as_u64()) {
        (Some(bytes), Some(expired @ 1..)) => format!("{bytes} and {expired} expired keys"),
        (bytes, _) => bytes.unwrap_or_default(),
    }
}

/// A line about a job's checkpoints; nothing if it has made none.
fn checkpoints(it: &Value) -> String {
    let mut out = String::new();
    if it["cycle"].as_u64().is_some_and(|cycle| cycle > 0) {
        let took_ms = it["took_us"].as_u64().unwrap_or(0) as f64 / 1e3;
        let (cycle, completed, bytes) =
            (word(&it["cycle"]), word(&it["completed"]), it["bytes"].as_u64().unwrap_or(0));
        let bytes = ByteSize(bytes);
        out.push_str(&format!(
            "checkpoint of cycle {cycle}; {completed} in this run, the last of {bytes} in {took_ms:.1} ms"
        ));
        if let Some(every_us) = it["every_us"].as_u64().filter(|it| *it > 0) {
            out.push_str(&format!(", every {:.1} s", every_us as f64 / 1e6));
        }
        out.push('\n');
    }
    if it["slices_left"].as_u64().is_some_and(|left| left > 0) {
        let left = word(&it["slices_left"]);
        out.push_str(&format!("the state of {left} slices is still to be read back\n"));
    }
    if let Some(failure) = it["failure"].as_str() {
        out.push_str(&format!("the checkpoint under way cannot be written yet: {failure}\n"));
    }
    out
}

/// The reason that a running job waits, in a line.
fn stalled(stalled: &Value) -> String {
    let Some(why) = stalled["why"].as_str() else { return String::new() };
    let since = stalled["since_us"].as_i64().and_then(|it| Timestamp::from_microsecond(it).ok());
    let since = since.map_or_else(String::new, |it| format!(" since {it:.0}"));
    format!("`{}` waits{since}, and goes on by itself: {why}\n", word(&stalled["part"]))
}

fn status(job: &Value) -> String {
    let mut out = format!("job {}: {}\n", word(&job["name"]), word(&job["status"]));
    if let Some(message) = job["message"].as_str() {
        out.push_str(&format!("  {message}\n"));
    }
    if let Some(next_us) = job["next_try_us"].as_i64() {
        let next = Timestamp::from_microsecond(next_us)
            .map_or_else(|_| String::new(), |it| format!(" {it:.0}"));
        out.push_str(&format!(
            "  tried again and again, next{next}; `tidemill job cancel` ends that\n"
        ));
    }
    for warning in job["warnings"].as_array().into_iter().flatten() {
        out.push_str(&format!("  warning: {}\n", word(warning)));
    }
    let progress = &job["progress"];
    if progress.is_null() {
        return out;
    }
    out.push_str(&format!(
        "cycle {} cut, {} committed; {} threads; {} dead letters; {} shed\n",
        word(&progress["cycle_cut"]),
        word(&progress["cycle_committed"]),
        word(&progress["workers"]),
        word(&progress["dead_letters"]),
        word(&progress["shed"]),
    ));
    out.push_str(&stalled(&progress["stalled"]));
    out.push_str(&checkpoints(&progress["checkpoints"]));
    let none = Vec::new();
    let parts = |kind: &str| progress[kind].as_array().unwrap_or(&none).clone();
    let mut rows = Vec::new();
    for it in parts("sources") {
        let lag = it["lag_cycles"].as_u64().map_or_else(String::new, |lag| format!("{lag} cycles"));
        rows.push(vec![
            "source".into(),
            word(&it["name"]),
            word(&it["records"]),
            String::new(),
            String::new(),
            lag,
        ]);
    }
    for it in parts("stages") {
        let waiting =
            it["waiting_bytes"].as_u64().map_or_else(String::new, |it| format!("{it} bytes"));
        rows.push(vec![
            "stage".into(),
            word(&it["name"]),
            word(&it["rows_in"]),
            word(&it["rows_out"]),
            state(&it),
            waiting,
        ]);
    }
    for it in parts("sinks") {
        rows.push(vec![
            "sink".into(),
            word(&it["name"]),
            String::new(),
            word(&it["rows"]),
            String::new(),
            String::new(),
        ]);
    }
    out.push_str(&format!(
        "{}\n",
        grid(
            &["", "name", "rows in", "rows out", "state", "waiting"],
            &[false, false, true, true, true, true],
            &rows
        )
    ));
    out
}
