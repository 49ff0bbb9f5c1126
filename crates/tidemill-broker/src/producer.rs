//! Idempotent producers (KIP-98): their state in a partition, and their ids.

pub(crate) mod ids;
pub(crate) mod state;
