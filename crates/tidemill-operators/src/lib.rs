//! The operators that stages run: SQL expressions, aggregates, windows, joins, top-k and Rust functions; and
//! their states as tables.
//!
//! Invariant: the output of a slice follows from its state and its input alone, in their order;
//! lanes, threads and the cut of batches into blocks do not show.

pub mod aggregate;
pub mod custom;
pub mod dedup;
mod due;
pub mod expr;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod gather;
mod groups;
mod held;
pub mod join;
mod keys;
mod lane;
pub mod query;
mod refused;
#[cfg(test)]
mod testing;
pub mod top;
pub mod transform;
pub mod window;

pub use keys::UnknownColumn;
