//! Idempotent producers (KIP-98): what a partition remembers of them, and where their ids come
//! from.

pub(crate) mod ids;
pub(crate) mod state;
