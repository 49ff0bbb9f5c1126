//! Tidemill as a library: jobs in code, run on a node inside the program.
//!
//! Modules: [`builder`] (read this first), [`alloc`].

pub mod alloc;
pub mod builder;

pub use builder::{
    Collected, File, Job, JobFailure, Names, SinkOf, SourceOf, Stage, collected, from, join,
    join_table,
};
pub use tidemill_operators::custom;
pub use tidemill_types::job::{Delivery, Format};
