//! Consumer groups: their members, and their committed offsets.
//!
//! ```text
//! handler ─▶ registry ─▶ machine ─▶ decisions: answer this one, store that
//!              │  ▲ timers   pure: facts in, decisions out
//!              │  └ store's notices
//!              └─▶ offsets: committed, and pending in open transactions
//! ```
//!
//! Read in this order: [`member`], [`machine`], `subscription`, `join`, `sync`, `rebalance`, [`offsets`],
//! [`registry`].
//!
//! Invariant: the offsets in memory are those in the store. A change reaches memory when the store
//! has it, in the store's order, so a restart changes nothing. (R11.)

mod event;
pub(crate) mod join;
pub(crate) mod machine;
pub(crate) mod member;
pub(crate) mod offsets;
mod rebalance;
pub(crate) mod registry;
mod subscription;
pub(crate) mod sync;
#[cfg(test)]
mod tests;
