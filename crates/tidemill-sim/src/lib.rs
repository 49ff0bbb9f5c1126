//! Simulations of whole jobs: one seed decides the job, the order of its threads, and its faults.
//!
//! ```text
//! seed ─▶ job      sources, operators, sinks, cycles, credit    job, sim_source, journal_sink
//!      ├▶ lives    kills, power cuts, disks that fail or are full, changes of threads,
//!      │           checkpoints kept and deleted, clock jumps     life_plan, life
//!      ├▶ faults   sources, operators and sinks that fail, small budgets    fault
//!      └▶ pace     slow threads, stopped threads, slow disks     env::SimPace
//! rows of its sinks at the end = rows of an undisturbed run      check
//! ```
//!
//! - A seed says everything: two runs of it go through the same points in the same order.
//! - A job whose sources are all bounded is compared with a run of its own; one with a live source
//!   with a replay of the ledger that the lives left, since it says where its cycles ended.
//! - Simulations need debug assertions; without them this crate is empty.

#![cfg(debug_assertions)]

mod check;
mod damage;
mod fault;
mod job;
mod journal_sink;
mod ledger;
mod life;
mod life_plan;
mod outputs;
mod second_process;
mod sim_source;

pub use check::{SeedFailure, SeedOutcome, run, run_at_least_once, run_at_most_once, run_damaged};
pub use fault::Failures;

#[cfg(test)]
mod tests;
