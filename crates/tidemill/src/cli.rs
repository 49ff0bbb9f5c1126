//! The command line: its commands, and the file of each.

/// A line on standard error, written as `eprintln!` has it: that one panics where nobody listens
/// any more, and a job would end with its reader.
macro_rules! say {
    ($($said:tt)*) => {
        $crate::cli::tell(&format!("{}\n", format_args!($($said)*)))
    };
}

/// [`say!`] without an end of the line.
macro_rules! say_on {
    ($($said:tt)*) => {
        $crate::cli::tell(&format!($($said)*))
    };
}

mod checkpoint;
mod cluster;
mod job;
mod load;
mod log_filter;
mod node;
mod outcome;
mod progress;
mod reader;
mod run;
mod serve;
mod signals;
mod state;
mod stream;
mod table;
mod validate;

use clap::{Parser, Subcommand};
use log_filter::LogFilter;
use std::{
    io::{IsTerminal, Write},
    path::PathBuf,
    process::ExitCode,
};
use tidemill_types::signs;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    fmt::layer,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// Done.
const DONE: u8 = 0;
/// The job failed.
const FAILED: u8 = 1;
/// The job file or the arguments were refused; nothing was started.
const REFUSED: u8 = 2;
/// Stopped by Ctrl-C, at the end of a cycle. Shells report it for a process that SIGINT ended.
const STOPPED: u8 = 130;

/// One engine that ingests, stores and processes streams.
#[derive(Debug, Parser)]
#[command(name = "tidemill", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs a job in the foreground, with a node inside this process.
    Run(run::RunArguments),
    /// Checks a job and shows how it would run; starts nothing.
    Validate(validate::ValidateArguments),
    /// Runs a node: streams on disk, served to Kafka clients and over HTTP.
    Serve(serve::ServeArguments),
    /// Jobs of a node: submit, list, status, cancel, rescale; and the schema of job files.
    #[command(subcommand)]
    Job(job::JobCommand),
    /// Checkpoints of a job: list, create, inspect, restore, delete.
    #[command(subcommand)]
    Checkpoint(checkpoint::CheckpointCommand),
    /// The state of a job's stages: its tables, queries with SQL, Arrow files.
    #[command(subcommand)]
    State(state::StateCommand),
    /// Streams of a node: create, list, describe, alter, delete, produce, consume.
    #[command(subcommand, visible_alias = "topic")]
    Stream(stream::StreamCommand),
    /// The cluster of a node: status, nodes, events, drain, decommission.
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Names the program that the benchmarks are in now.
    #[command(hide = true, disable_help_flag = true)]
    Bench(BenchArguments),
}

/// A job file, and changes to its values.
#[derive(Debug, clap::Args)]
struct JobArguments {
    /// The job file, YAML or JSON.
    #[arg(value_name = "JOB.yaml")]
    file: PathBuf,
    /// A value of the job to replace, such as `cycle=5ms` or `stages.late.where='delay > 30'`;
    /// may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// A command line of the benchmarks, as it was when they were part of this program.
#[derive(Debug, clap::Args)]
struct BenchArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// Says in one line where the benchmarks are.
fn refuse_bench(arguments: &BenchArguments) -> u8 {
    let line = ["tidemill-bench"].into_iter().chain(arguments.rest.iter().map(String::as_str));
    let line: Vec<&str> = line.collect();
    say!(
        "error: benchmarks are a program of their own: `cargo build --release -p tidemill-bench`, \
         then `{}`",
        line.join(" ")
    );
    REFUSED
}

/// Runs the command of the process's arguments.
pub(crate) fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are asked for, the rest is refused.
            let printed = error.print();
            if error.use_stderr() {
                note_unseen(std::env::args().skip(1));
            }
            return ExitCode::from(if error.use_stderr() { REFUSED } else { printed_all(printed) });
        }
    };
    if let Err(error) = signals::let_long_files_fail() {
        say!("error: signals cannot be heard: {error}");
        return ExitCode::from(REFUSED);
    }
    // A node logs as its settings say.
    if !matches!(arguments.command, Command::Serve(_)) {
        match LogFilter::from_env() {
            Ok(filter) => log_as(&filter.or(LevelFilter::WARN)),
            Err(refused) => {
                say!("{refused}");
                return ExitCode::from(REFUSED);
            }
        }
    }
    ExitCode::from(match arguments.command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Validate(arguments) => validate::validate(&arguments),
        Command::Serve(arguments) => serve::serve(&arguments),
        Command::Job(command) => job::run(&command),
        Command::Checkpoint(command) => checkpoint::run(&command),
        Command::Cluster(command) => cluster::run(&command),
        Command::State(command) => state::run(&command),
        Command::Stream(command) => stream::run(&command),
        Command::Bench(arguments) => refuse_bench(&arguments),
    })
}

/// Names the characters of refused arguments that cannot be seen, or look like others.
fn note_unseen(arguments: impl Iterator<Item = String>) {
    for argument in arguments {
        let name = argument.split('=').next().unwrap_or_default();
        if let Some(signs) = signs::unseen(name, None) {
            say!("note: `{name}` has {signs}");
        }
    }
}

/// Log lines go to standard error.
fn log_as(filter: &Targets) {
    // A line that cannot be written is lost; whoever wrote it goes on.
    let lines = layer().with_writer(std::io::stderr).log_internal_errors(false);
    let lines = lines.with_ansi(std::io::stderr().is_terminal());
    tracing_subscriber::registry().with(filter.clone()).with(lines).init();
}

/// Writes a text to standard error. Where nobody reads that, nothing can be said about it either.
fn tell(text: &str) {
    let _unheard = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes a text to standard output. A reader that has gone away wants no more of it.
pub(crate) fn print_all(text: &str) -> u8 {
    let mut out = std::io::stdout().lock();
    printed_all(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// The exit code after output was written.
fn printed_all(written: std::io::Result<()>) -> u8 {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            say!("error: standard output: {error}");
            FAILED
        }
        _ => DONE,
    }
}
