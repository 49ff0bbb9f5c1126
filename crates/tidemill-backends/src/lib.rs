//! Backends of checkpoints on servers: Redis, an object store that speaks S3, HBase.
//!
//! ```text
//! RemoteBackend        checksums, limits, whose the place is
//!     │ Store
//!     ├ RedisStore     transactions of one connection
//!     ├ ObjectPlace    requests side by side: all puts, then all deletes
//!     └ HbaseTable     the same, through HBase's REST gateway
//! ```
//!
//! The interface is synchronous, as that of [`tidemill_state`]; what is asynchronous inside runs on
//! the thread that asks.
//!
//! Invariants:
//!
//! - A place has one owner: a job and its data folder. Another one is refused, and the same one
//!   gets in at once, whatever became of its process.
//! - A value that is given is the one that was put under that key, or there is an error.
//! - After an error of a server the next call begins with a new connection: nothing stays broken.
//! - No message has a password.

#[cfg(test)]
#[path = "../tests/contract/mod.rs"]
mod contract;
mod hbase;
mod object;
mod owner;
mod redis;
mod remote;
mod runtime;
mod sealed;
mod store;

pub use remote::{Job, RemoteBackend};
