//! A node that serves: the log, its broker and its HTTP side, started and stopped together.
//!
//! ```text
//! settings ─▶ listen ─▶ cluster ─▶ log ─▶ cluster id ─▶ broker ─▶ Kafka server, HTTP server ─▶ ready
//! stop ─▶ HTTP server, Kafka server (requests under way end) ─▶ log closed
//! ```
//!
//! Read in this order: [`settings`], [`node`], [`cluster`], `identity`, `open_files`, `upkeep`,
//! [`http`].
//!
//! Invariant: a node that does not start has told nobody that it is there, and leaves the data
//! folder as it found it, or as a clean stop leaves it.

pub mod cluster;
pub mod http;
mod identity;
pub mod node;
mod open_files;
pub mod settings;
mod upkeep;

pub use node::{Node, Ready, ServeError, Stop, run};
pub use settings::{ClusterSettings, HttpSettings, LogFormat, LogLevel, ServeSettings};
