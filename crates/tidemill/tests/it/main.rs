//! The binary from the outside: arguments, files, output, exit codes, signals.

mod examples;
mod house;
mod library;
mod refused;
mod run;
mod signal;
mod unread;
