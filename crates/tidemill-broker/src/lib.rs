//! The broker of one node: the log, served in the Kafka protocol.
//!
//! ```text
//! socket ─▶ connection ─▶ api ─▶ handler ─▶ topic, partition ─▶ tidemill-log
//!             │ frames in, answers out in order        │ the broker's part on top of a
//!             └ one task a connection                  └ streamlet: producers, transactions
//! ```
//!
//! A topic is a stream of the log, a partition one of its streamlets, a record batch a chunk; a
//! topic's id is the stream's. Decisions are synchronous functions (groups, transactions,
//! producers); the tasks around them wait for sockets, timers and the log's notices.
//!
//! Invariants:
//!
//! - Answers leave a connection in the order of its requests. Appends of one connection happen in
//!   that order too, whether or not the earlier ones are durable yet.
//! - Whatever a client sends costs at most [`Limits`] of memory, and its own connection at worst.
//! - `UNKNOWN_SERVER_ERROR` is never an answer: each failure has the protocol's own code.
//! - Nothing here decides by a clock but timeouts of groups and transactions.
//!
//! Read the modules in this order: `settings`, `server`, `connection`, `requests`, `api`, `handler`, `topic`,
//! `topic_settings`, `partition`, `chunk_check`, `producer`, `transaction`, `session`.

mod answer;
mod api;
mod broker;
mod broker_settings;
mod chunk_check;
mod connection;
mod direct_client;
mod fetch_answer;
mod frame;
pub mod fsync;
mod group;
mod handler;
mod internal_topic;
mod local_api;
mod outbox;
mod partition;
mod producer;
mod record_time;
mod refusal;
mod requests;
mod server;
mod session;
mod settings;
mod store;
mod topic;
mod topic_settings;
mod transaction;
mod upkeep;

pub use broker::{Broker, BrokerError, STORE_FILE};
pub use direct_client::DirectClient;
pub use local_api::{Committed, Figures, GroupError, GroupLag, GroupLags, RecordWait};
pub use server::{Server, listen_at};
pub use settings::{BrokerSettings, GroupSettings, Limits, ProducerLimits, TransactionLimits};
pub use store::StoreError;
pub use topic_settings::has_keys;

#[cfg(test)]
mod tests;
