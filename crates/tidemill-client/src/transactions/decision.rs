//! The last transaction of an id, as its coordinator knows it, and the decision on the next step.
//!
//! The timeout of an id marks a transaction that only repeats a lost end. The coordinator keeps the
//! timeout with the id's state, returns it, and changes it in the request that takes the id over.
//! Its last two digits say how the transaction is to end. So the next owner, another process too,
//! ends it in the same way, and knows the decision though the coordinator has forgotten it.
//!
//! No request is sent here.

use crate::producer::ProducerIdentity;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// The purpose of a takeover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeoverPurpose {
    /// To write.
    Write,
    /// To repeat a lost end: a commit if true, else an abort.
    EndAgain(bool),
}

impl TakeoverPurpose {
    /// The timeout of an id whose transactions may be open for `timeout`, in milliseconds.
    pub(super) fn timeout_ms(self, timeout: Duration) -> i32 {
        let hundreds = i32::try_from(timeout.as_millis() / 100).unwrap_or(i32::MAX);
        let whole_ms = hundreds.clamp(2, i32::MAX / 100) * 100;
        // Never longer than what was asked for, which may be the longest that the cluster takes.
        match self {
            Self::Write => whole_ms,
            Self::EndAgain(true) => whole_ms - 99,
            Self::EndAgain(false) => whole_ms - 98,
        }
    }

    fn of(timeout_ms: i32) -> Self {
        match timeout_ms % 100 {
            1 => Self::EndAgain(true),
            2 => Self::EndAgain(false),
            _ => Self::Write,
        }
    }
}

/// The last transaction of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LastTransaction {
    /// Producer id and epoch.
    pub(super) identity: ProducerIdentity,
    /// In Kafka's words.
    pub(super) state: String,
    pub(super) timeout_ms: i32,
}

impl LastTransaction {
    /// True if this decision is repeated under the current epoch. With a new one, a late request
    /// and the takeover behind it would abort the repetition.
    pub(super) fn may_end_again(&self, committed: bool) -> bool {
        // What is undecided is that of this producer, and its next epoch would be another one's.
        let is_last_epoch = self.identity.epoch.0 >= i16::MAX - 1;
        TakeoverPurpose::of(self.timeout_ms) == TakeoverPurpose::EndAgain(committed)
            || is_last_epoch
    }
}

/// The step before the id is taken over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// It is being ended: how it was decided is still there when that is done.
    Wait,
    /// It repeats a lost end, and has none: its owner was killed, or cut off.
    End(bool),
    /// Nothing: taking the id over aborts it.
    TakeOver,
    /// It has ended so, if that is known; but it may be that not everybody was told.
    Look(Option<bool>),
    /// It was to repeat a lost commit, and was aborted.
    Refuse,
}

pub(super) fn decide(last: &LastTransaction) -> NextStep {
    let ended = |committed| match TakeoverPurpose::of(last.timeout_ms) {
        TakeoverPurpose::EndAgain(expected) if expected != committed => NextStep::Refuse,
        _ => NextStep::Look(Some(committed)),
    };
    match (last.state.as_str(), TakeoverPurpose::of(last.timeout_ms)) {
        ("Ongoing", TakeoverPurpose::EndAgain(committed)) => NextStep::End(committed),
        ("Ongoing", TakeoverPurpose::Write) => NextStep::TakeOver,
        ("PrepareCommit" | "PrepareAbort" | "PrepareEpochFence", _) => NextStep::Wait,
        ("CompleteCommit", _) => ended(true),
        ("CompleteAbort", _) => ended(false),
        ("Empty", TakeoverPurpose::EndAgain(committed)) => NextStep::Look(Some(committed)),
        _ => NextStep::Look(None),
    }
}
