//! Idempotent producers and transactions: producer ids, and records that count together.
//!
//! ```text
//! InitProducerId ─▶ AddPartitionsToTxn, Produce ─▶ AddOffsetsToTxn, TxnOffsetCommit ─▶ EndTxn
//! ```

pub(crate) mod add;
pub(crate) mod describe;
pub(crate) mod end;
pub(crate) mod init;
pub(crate) mod offsets;
