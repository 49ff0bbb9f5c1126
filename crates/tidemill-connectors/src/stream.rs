//! Streams of this process's log as sources and sinks.
//!
//! ```text
//! streamlet ─▶ chunks in memory ─▶ records ─▶ json │ csv │ text │ influx ─▶ batch, meta columns
//! blocks ─▶ rows as text ─▶ chunks, marked with their cycle ─▶ streamlet
//! ```
//!
//! Nothing goes over a socket, and a chunk is read where the log has it (KerA ch. 5, locality).

mod aborted_chunks;
mod declaration;
mod node;
mod note;
mod progress;
mod reader;
pub(crate) mod rows;
mod sink;
mod source;

pub use declaration::DeclaredStream;
pub use node::{AbortedTransaction, StreamGroup, StreamNode, Transactions};
pub use sink::StreamSink;
