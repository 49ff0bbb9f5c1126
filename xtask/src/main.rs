//! Repository automation.
//!
//! - `cargo test -p xtask`: the checks in `tidy`, and that each planted bug still fits the code.
//! - `cargo run -p xtask -- plants [NAME|PACKAGE ...]`: plants bugs, one after the other, in a
//!   copy of the repository under the target folder, and runs the tests that must fail.

mod plants;

#[cfg(test)]
mod tidy;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("plants") => plants::run(&arguments.collect::<Vec<_>>()),
        _ => {
            eprintln!("usage: cargo run -p xtask -- plants [NAME|PACKAGE ...]");
            ExitCode::from(2)
        }
    }
}
