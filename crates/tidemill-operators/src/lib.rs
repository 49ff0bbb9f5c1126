//! The operators of a job's stages: projections and filters, aggregates, windows, joins, top-k and Rust
//! functions.
//!
//! Invariant: the output of a slice follows from its state and its input alone, in their order;
//! lanes, threads and the cut of batches into blocks do not show.

pub mod aggregate;
pub mod custom;
mod dead_letters;
pub mod dedup;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod groups;
pub mod join;
mod keys;
mod lane;
mod row_picker;
mod row_store;
#[cfg(test)]
mod testing;
mod timer_queue;
pub mod top;
pub mod transform;
pub mod window;

pub use keys::UnknownColumn;
