//! Every byte that is stored or sent: encodings, their versions, and the policy of compression.
//!
//! Read in this order: [`chunk`], [`records`], [`kafka`], [`journal`], [`ledger`], [`link`], [`compression`], [`mark`],
//! [`producers`], [`transactions`], [`groups`], [`json_seal`], [`arrow`], [`cluster`].
//!
//! Invariants: no bytes from outside panic or make a reader allocate more than a stated limit; an
//! encoding that was ever written is read for ever.

pub mod arrow;
pub mod chunk;
pub mod cluster;
pub mod compression;
pub mod groups;
pub mod journal;
pub mod json_seal;
pub mod kafka;
pub mod ledger;
pub mod link;
pub mod mark;
pub mod partitioner;
pub mod producers;
pub mod records;
pub mod transactions;
