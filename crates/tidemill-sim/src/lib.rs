//! Whole jobs under one seed: what they do, who goes on when, and what is done to them.
//!
//! ```text
//! seed ─▶ job      sources, stages, sinks, cycles, credit       job, feed, kept
//!      ├▶ lives    kills, power cuts, disks that fail or are full, changes of threads,
//!      │           checkpoints kept and deleted, jumps of the clock       fate, life
//!      ├▶ faults   sources, stages, sinks that fail, budgets that are small   fault
//!      └▶ pace     who is slow, who is stopped, how long a disk takes     env::SimPace
//! what its sinks hold at the end = what an undisturbed run writes         check
//! ```
//!
//! - A seed says everything: two runs of it go through the same points in the same order.
//! - A job whose sources are all bounded is compared with a run of its own; one with a live source
//!   with a replay of the ledger that the lives left, since it says where its cycles ended.
//! - Simulations need debug assertions; without them this crate is empty.

#![cfg(debug_assertions)]

mod check;
mod damage;
mod fate;
mod fault;
mod feed;
mod job;
mod kept;
mod ledger;
mod life;
mod outputs;
mod second;

pub use check::{Outcome, Wrong, run, run_at_least_once, run_at_most_once, run_damaged};
pub use fault::Failures;

#[cfg(test)]
mod tests;
