//! The `tidemill` binary: reads its arguments, runs the command, ends with a code.
//!
//! Codes: 0 done, 1 the job failed, 2 refused (job file or arguments), 130 stopped by Ctrl-C.

mod cli;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tidemill::alloc::MiMalloc = tidemill::alloc::MiMalloc;

fn main() -> ExitCode {
    tidemill::alloc::set_up();
    cli::main()
}
