//! The record of a transaction's coordinator, stored under the transactional id.
//!
//! ```text
//! version │ state │ producer id, epoch │ last epoch, previous and next id │ timeout, protocol,
//! began, changed │ partitions: stream id, number │ groups
//! ```
//!
//! Entries are postcard; fields are only ever added at the end, states too.

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// The version of the records written by this code.
pub const TRANSACTION_VERSION: u8 = 1;

/// Where a transactional id is in its life. (KIP-98.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TransactionPhase {
    /// No transaction since the producer was initialized.
    Empty,
    /// A transaction with partitions or groups.
    Ongoing,
    /// It will be committed, whatever happens; markers are on their way.
    PrepareCommit,
    /// It will be aborted, whatever happens; markers are on their way.
    PrepareAbort,
    /// It was committed, and all markers are durable.
    CompleteCommit,
    /// It was aborted, and all markers are durable.
    CompleteAbort,
}

/// A partition in a transaction: the id of its stream, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TransactionPartition {
    /// The stream's id.
    pub stream: [u8; 16],
    /// The partition's number.
    pub index: u32,
}

/// A transactional id, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionRecord {
    /// [`TRANSACTION_VERSION`].
    pub version: u8,
    /// Where it is.
    pub phase: TransactionPhase,
    /// The producer's id.
    pub producer_id: i64,
    /// The producer's epoch; -1 before the first.
    pub epoch: i16,
    /// The epoch that the producer had before, if it was the one that asked for a newer; else -1.
    pub last_epoch: i16,
    /// The producer id before, if epochs of that one ran out; else -1.
    pub previous_id: i64,
    /// The producer id once this transaction has ended, if epochs run out with it; else -1.
    pub next_id: i64,
    /// A transaction that is open for longer is aborted, in milliseconds.
    pub timeout_ms: i32,
    /// The transaction protocol that the producer speaks: 1, or 2 with an epoch for each
    /// transaction (KIP-890).
    pub protocol: u8,
    /// When the transaction began, in milliseconds since 1970; -1 if there is none.
    pub began_ms: i64,
    /// When this record was last changed, in milliseconds since 1970.
    pub changed_ms: i64,
    /// Partitions in the transaction.
    pub partitions: Vec<TransactionPartition>,
    /// Groups whose offsets are in the transaction.
    pub groups: Vec<String>,
}

impl TransactionRecord {
    /// The record as bytes.
    ///
    /// # Panics
    /// Never: all fields have an encoding.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("every field has an encoding")
    }

    /// Reads a record.
    ///
    /// # Errors
    /// The bytes are no record, or one of a version that is not known.
    pub fn decode(bytes: &[u8]) -> Result<Self, postcard::Error> {
        let (record, rest): (Self, _) = postcard::take_from_bytes(bytes)?;
        let known = record.version == TRANSACTION_VERSION && rest.is_empty();
        if known { Ok(record) } else { Err(postcard::Error::DeserializeBadEncoding) }
    }
}
