//! Consumer groups: who reads what, and how far they are.
//!
//! ```text
//! handler ─▶ registry ─▶ machine ─▶ decisions: answer this one, store that
//!              │  ▲ timers   pure: facts in, decisions out
//!              │  └ store's notices
//!              └─▶ offsets, what is committed and what open transactions hold
//! ```
//!
//! Read in this order: [`member`], [`machine`], `subscription`, `join`, `sync`, `rebalance`, [`offsets`],
//! [`registry`].
//!
//! Invariant: what is in memory of offsets is what is stored of them; it changes when the store has
//! it, in the order in which the store took it. So a restart changes nothing. (R11.)

pub(crate) mod join;
pub(crate) mod machine;
pub(crate) mod member;
mod notice;
pub(crate) mod offsets;
mod rebalance;
pub(crate) mod registry;
mod subscription;
pub(crate) mod sync;
#[cfg(test)]
mod tests;
