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
//! The interface is synchronous, as that of [`tidemill_checkpoints`]. Asynchronous client libraries
//! run on the calling thread.
//!
//! Invariants:
//!
//! - A place has one owner: a job and its data folder. Others are refused. The owner gets in at
//!   once after any end of its process.
//! - A value read is the value put under that key, or there is an error.
//! - After an error of a server the next call begins with a new connection.
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
mod seal;
mod store;

pub use remote::{OwnerJob, RemoteBackend};
