//! The native client: producer, consumer and admin, over the Kafka protocol.
//!
//! ```text
//!  Client ┬ admin()    ─▶ Admin      streams, settings, offsets, groups: one call, one answer
//!         ├ producer() ─▶ Producer   records ─▶ chunks ─▶ requests, in order, several under way
//!         ├ consumer() ─▶ Consumer   chunks, the next fetched while the current is processed
//!         └ transactions() ─▶ Transactions   chunks and an offset, all or nothing
//!
//!  Admin, Producer, Consumer ─▶ Cluster: leaders, a connection a node ─▶ Connection
//! ```
//!
//! It speaks to nodes of Tidemill and to Apache Kafka from 2.1 on. Kafka calls a stream a topic, a
//! streamlet a partition, and a chunk a record batch.
//!
//! # Threads
//!
//! Nobody is async here. A connection has two threads, one that writes and one that reads; a
//! producer and a consumer have one more each, which decides. A thread of the caller waits only
//! where it says so, and never past the deadline that it gives.
//!
//! # Invariants
//!
//! - Every request has a deadline, also when the other side says nothing, or does not read.
//! - No bytes from outside panic, or take memory by a length that they claim; the queues of
//!   requests and of fetched records are bounded.
//! - Nothing here reads a clock, opens a socket, starts a thread or draws a random number but
//!   through [`tidemill_env::World`].
//!
//! Read the modules in this order: `error`, `options`, `backoff`, `connection`, `cluster`,
//! [`admin`], [`producer`], [`consumer`], [`transactions`].

pub mod admin;
mod backoff;
mod buffers;
mod cluster;
mod connection;
pub mod consumer;
mod error;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod options;
pub mod producer;
pub mod transactions;

pub use admin::{Admin, AdminError};
pub use consumer::Consumer;
pub use error::{CallError, Refusal};
pub use options::{ClientOptions, Security};
pub use producer::Producer;
pub use transactions::Transactions;
#[cfg(test)]
mod testing;

pub use tidemill_wire::kafka::ErrorCode;

use std::time::Duration;
use tidemill_env::World;

/// Where a cluster is, and how to talk to it. Cheap to clone; it holds no connection.
#[derive(Clone)]
pub struct Client {
    world: World,
    options: ClientOptions,
}

impl Client {
    /// A client of the cluster that `options` name. Nothing is connected yet.
    #[must_use]
    pub fn new(world: &World, options: ClientOptions) -> Self {
        Self { world: world.clone(), options }
    }

    /// The same, which waits no longer than this to connect, or for an answer.
    #[must_use]
    pub fn with_patience(&self, patience: Duration) -> Self {
        let options = ClientOptions {
            connect_timeout: patience,
            request_timeout: patience,
            ..self.options.clone()
        };
        Self { world: self.world.clone(), options }
    }
}
