//! Every byte that is stored or sent.

pub mod journal;
pub mod ledger;
