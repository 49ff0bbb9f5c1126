//! Tidemill as a library: jobs in code, run on a node inside the program.
//!
//! Modules: [`alloc`].

pub mod alloc;
