//! The `tidemill-bench` binary: the workloads of `bench/peers/ENGINES.md`, run by this engine.
//!
//! A workload runs in the process of the command, on the engine that jobs run on, and prints one
//! line of JSON or a few lines for a person. Its memory is that of the product, and every
//! allocation is counted ([`allocator`]).
//!
//! Codes: 0 done, 1 the workload failed, 2 the arguments were refused.

mod allocator;
mod checkpoint;
mod events;
mod keyed;
mod measure;
mod messages;
mod neighbours;
mod overhead;
mod recovery;
mod relay;
mod state;
mod window;
mod windows;
mod wordcount;
mod workload;

use clap::Parser;
use std::{
    io::{ErrorKind, Write as _},
    process::ExitCode,
};
use tidemill_env::World;
use workload::Workload;

#[global_allocator]
static ALLOCATOR: allocator::CountingAllocator = allocator::CountingAllocator;

/// Done.
const DONE: u8 = 0;
/// The workload failed, or its report is lost.
const FAILED: u8 = 1;
/// The arguments were refused; nothing was started.
const REFUSED: u8 = 2;

/// Measures Tidemill's engine with the workloads that its peers are measured with.
#[derive(Debug, Parser)]
#[command(name = "tidemill-bench", version, max_term_width = 100)]
struct CommandLine {
    #[command(subcommand)]
    workload: Workload,
}

fn main() -> ExitCode {
    tidemill::alloc::set_up();
    let arguments = match CommandLine::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are printed to standard output; anything else is refused.
            let printed = error.print();
            let refused = error.use_stderr();
            return ExitCode::from(if refused { REFUSED } else { exit_code(printed) });
        }
    };
    ExitCode::from(match arguments.workload.run(&World::real()) {
        Ok(None) => DONE,
        Ok(Some(report)) => {
            let mut out = std::io::stdout().lock();
            exit_code(out.write_all(report.as_bytes()).and_then(|()| out.flush()))
        }
        Err(error) => {
            report_error(&error);
            FAILED
        }
    })
}

/// The exit code after output was written: a closed pipe is no failure, a full disk is one.
fn exit_code(written: std::io::Result<()>) -> u8 {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            report_error(&format!("standard output: {error}"));
            FAILED
        }
        _ => DONE,
    }
}

/// Writes an error to standard error. If nobody reads that, the exit code remains.
fn report_error(error: &str) {
    let _unread = writeln!(std::io::stderr().lock(), "error: {error}");
}
