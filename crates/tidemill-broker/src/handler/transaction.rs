//! Idempotent producers and transactions: who may write under which id, and what counts together.
//!
//! ```text
//! InitProducerId ─▶ AddPartitionsToTxn, Produce ─▶ AddOffsetsToTxn, TxnOffsetCommit ─▶ EndTxn
//! ```

pub(crate) mod add;
pub(crate) mod describe;
pub(crate) mod end;
pub(crate) mod init;
pub(crate) mod offsets;
