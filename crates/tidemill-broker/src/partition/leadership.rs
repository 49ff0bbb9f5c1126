//! The leader epochs of a partition, as clients ask for them (KIP-101, KIP-320, KIP-595).
//!
//! Invariant: an epoch that a client knows is compared with the leader's before anything else is
//! answered, and nothing above the high watermark is told of.

use super::Partition;
use tidemill_log::{EpochEnd, StreamletRole};
use tidemill_types::{LeaderEpoch, Offset};
use tidemill_wire::kafka::ErrorCode;

impl Partition {
    /// Checks that this node leads the partition, and the epoch that a client knows, below 0 if it
    /// knows none.
    ///
    /// # Errors
    /// Another node leads, or the client's epoch is not this leader's.
    pub(crate) fn check_leader(&self, known: i32) -> Result<LeaderEpoch, ErrorCode> {
        let role = self.streamlet.role();
        compare(known, role)?;
        match role {
            StreamletRole::Leader(epoch) => Ok(epoch),
            StreamletRole::Copy(_) => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// As [`Self::check_leader`], for readers: a copy serves them too (KIP-392).
    pub(crate) fn check_reader(&self, known: i32) -> Result<LeaderEpoch, ErrorCode> {
        let role = self.streamlet.role();
        compare(known, role)?;
        Ok(role.epoch())
    }

    /// The largest epoch that is not above `asked`, and its end; the last one ends at the high
    /// watermark. None if `asked` is above all that are known.
    pub(crate) fn end_of_epoch(&self, asked: LeaderEpoch) -> Option<EpochEnd> {
        let end = Offset(self.streamlet.high_watermark());
        let found = self.streamlet.end_of_epoch(asked, end)?;
        Some(EpochEnd { end: found.end.min(end), ..found })
    }

    /// The place where the log of a reader parts from this one, if it does: the reader has read up
    /// to `offset`, and the last record was of epoch `last`.
    ///
    /// # Errors
    /// The epoch is not known here, so nobody can say what of the reader's log is right.
    pub(crate) fn diverging(&self, last: i32, offset: i64) -> Result<Option<EpochEnd>, ErrorCode> {
        if last < 0 {
            return Ok(None);
        }
        let last = LeaderEpoch(last);
        let own = self.end_of_epoch(last).ok_or(ErrorCode::OffsetOutOfRange)?;
        if offset < self.streamlet.start_offset() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        Ok((own.epoch < last || own.end < Offset(offset)).then_some(own))
    }
}

fn compare(known: i32, role: StreamletRole) -> Result<(), ErrorCode> {
    let epoch = role.epoch();
    match LeaderEpoch(known) {
        LeaderEpoch(..0) => Ok(()),
        known if known < epoch => Err(ErrorCode::FencedLeaderEpoch),
        known if known > epoch => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}
