//! A whole broker against a raw client: real sockets, a real folder.
//!
//! `node` starts one, `client` speaks to it; each answer that a client reads is searched for
//! `UNKNOWN_SERVER_ERROR`, which must never be one.

pub(crate) mod client;
pub(crate) mod node;
pub(crate) mod producer;

mod admin;
mod answers;
mod documents;
mod duplicates;
mod epochs;
mod faults;
mod fetch;
mod groups;
mod hostile;
mod idempotence;
mod internal_topics;
mod produce;
mod resets;
mod sessions;
mod settings;
mod snapshots;
mod times;
mod topic_deletion;
mod transaction_crashes;
mod transaction_room;
mod transactions;
