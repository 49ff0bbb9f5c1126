//! The position of a consumer in a streamlet. Facts in, decisions out; no clock and no lock.

use super::{ConsumeError, OutOfRange, Start, walk::WalkEnd};
use crate::{Refusal, admin::OffsetAt};
use std::sync::Arc;
use tidemill_wire::kafka::{ErrorCode, KafkaUuid};

#[cfg(test)]
mod tests;

/// The most bytes asked for of a streamlet whose chunk is longer than the usual limit.
const STREAMLET_BYTES_MAX: usize = 1 << 30;

/// The phase of a streamlet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PositionPhase {
    /// The start is to be looked up.
    Starting(OffsetAt),
    /// Fetching from this offset on.
    Fetching(i64),
    /// It has stopped; `poll` returns the error once.
    Stopped,
}

/// A streamlet that is consumed.
pub(super) struct Position {
    pub(super) stream: Arc<str>,
    pub(super) streamlet: i32,
    pub(super) id: KafkaUuid,
    pub(super) phase: PositionPhase,
    /// Changes with each assignment: answers to earlier requests do not count then.
    pub(super) epoch: u64,
    /// The offset after the last record that the user has taken; none before the first.
    pub(super) taken: Option<i64>,
    /// Bytes that wait to be taken.
    pub(super) buffered_bytes: usize,
    /// The bytes to fetch.
    pub(super) bytes: usize,
    /// The end of the streamlet when it was last fetched; none before.
    pub(super) end: Option<i64>,
    failures: u32,
    /// The first and the last moment of a row of refusals that may be lasting.
    refused_us: Option<(u64, u64)>,
    pub(super) not_before_us: u64,
    /// Its obstacle; none once it was fetched again.
    pub(super) obstacle: Option<Obstacle>,
}

/// An obstacle to fetching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The obstacle in words.
    pub why: Arc<str>,
    /// Since when something has, as a time of the environment's monotonic clock, in microseconds.
    pub since_us: u64,
}

/// The reaction to an answer without chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PositionFault {
    /// Fetch again, later; with `refresh` the leader may be another one.
    Again { refresh: bool },
    /// Look the offset up again.
    Restart(OffsetAt),
    /// Stop.
    Stop(ConsumeError),
}

impl From<Start> for PositionPhase {
    fn from(start: Start) -> Self {
        match start {
            Start::Offset(offset) => Self::Fetching(offset.max(0)),
            Start::Earliest => Self::Starting(OffsetAt::Earliest),
            Start::Latest => Self::Starting(OffsetAt::Latest),
            Start::Time(time_ms) => Self::Starting(OffsetAt::Time(time_ms)),
        }
    }
}

impl Position {
    pub(super) fn new(
        (stream, streamlet): (Arc<str>, i32),
        id: KafkaUuid,
        start: Start,
        (epoch, bytes): (u64, usize),
    ) -> Self {
        Self {
            stream,
            streamlet,
            id,
            phase: start.into(),
            epoch,
            taken: None,
            buffered_bytes: 0,
            bytes,
            end: None,
            failures: 0,
            refused_us: None,
            not_before_us: 0,
            obstacle: None,
        }
    }

    /// The decision on an error code that came at `now_us`.
    pub(super) fn refused(
        &mut self,
        refusal: Refusal,
        policy: OutOfRange,
        now_us: u64,
        patience_us: u64,
    ) -> PositionFault {
        let is_over = self.is_over(refusal.code, now_us, patience_us);
        let stopped = |position: &Self, refusal| {
            PositionFault::Stop(ConsumeError::Refused {
                stream: position.stream.to_string(),
                streamlet: position.streamlet,
                refusal,
            })
        };
        match refusal.code {
            ErrorCode::OffsetOutOfRange => match policy {
                OutOfRange::Earliest => PositionFault::Restart(OffsetAt::Earliest),
                OutOfRange::Latest => PositionFault::Restart(OffsetAt::Latest),
                OutOfRange::Stop => PositionFault::Stop(ConsumeError::OutOfRange {
                    stream: self.stream.to_string(),
                    streamlet: self.streamlet,
                    offset: if let PositionPhase::Fetching(offset) = self.phase {
                        offset
                    } else {
                        -1
                    },
                    hint: "what was there was deleted, or has not been written yet".to_owned(),
                }),
            },
            _ if is_over => stopped(self, refusal),
            ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::InconsistentTopicId
            | ErrorCode::NotLeaderOrFollower
            | ErrorCode::LeaderNotAvailable
            | ErrorCode::FencedLeaderEpoch
            | ErrorCode::UnknownLeaderEpoch
            | ErrorCode::ReplicaNotAvailable
            | ErrorCode::KafkaStorageError
            | ErrorCode::UnknownServerError => PositionFault::Again { refresh: true },
            // What is damaged on a node's disk stays so.
            ErrorCode::CorruptMessage => PositionFault::Stop(ConsumeError::Damaged {
                stream: self.stream.to_string(),
                streamlet: self.streamlet,
                offset: if let PositionPhase::Fetching(offset) = self.phase { offset } else { -1 },
                reason: refusal.to_string(),
            }),
            code if code.is_retriable() => PositionFault::Again { refresh: false },
            _ => stopped(self, refusal),
        }
    }

    /// True if the code has come back for so long that it is lasting: of a stream that is gone, or
    /// from a node that fails each time.
    fn is_over(&mut self, code: ErrorCode, now_us: u64, patience_us: u64) -> bool {
        let waits = matches!(
            code,
            ErrorCode::UnknownTopicOrPartition
                | ErrorCode::UnknownTopicId
                | ErrorCode::UnknownServerError
        );
        // What was said before a cluster was away, or before something else stood in the way, does
        // not count: a broker that comes up may not know its streams for a moment.
        self.refused_us = waits.then(|| match self.refused_us {
            Some((first_us, last_us)) if now_us.saturating_sub(last_us) <= patience_us / 2 => {
                (first_us, last_us.max(now_us))
            }
            _ => (now_us, now_us),
        });
        self.refused_us.is_some_and(|(first_us, last_us)| last_us - first_us > patience_us)
    }

    /// The decision on how a walk over chunks ended; none: it ended well.
    pub(super) fn walked(&mut self, end: WalkEnd, next: i64) -> Option<PositionFault> {
        let reason = match end {
            WalkEnd::Done => return None,
            WalkEnd::Longer(bytes) if bytes <= STREAMLET_BYTES_MAX && bytes > self.bytes => {
                self.bytes = bytes;
                return None;
            }
            WalkEnd::Longer(bytes) => format!("a chunk of {bytes} bytes did not come whole"),
            WalkEnd::Damaged(reason) => reason,
        };
        Some(PositionFault::Stop(ConsumeError::Damaged {
            stream: self.stream.to_string(),
            streamlet: self.streamlet,
            offset: next,
            reason,
        }))
    }

    /// Notes a temporary failure.
    pub(super) fn rest(&mut self, rest_until_us: impl FnOnce(u32) -> u64) {
        self.failures = self.failures.saturating_add(1);
        self.not_before_us = rest_until_us(self.failures);
    }

    /// Notes its obstacle.
    pub(super) fn hinder(&mut self, why: &Arc<str>, now_us: u64) {
        let since_us = self.obstacle.as_ref().map_or(now_us, |it| it.since_us);
        self.obstacle = Some(Obstacle { why: Arc::clone(why), since_us });
    }

    /// Notes a success.
    pub(super) fn good(&mut self) {
        self.failures = 0;
        self.refused_us = None;
        self.not_before_us = 0;
        self.obstacle = None;
    }
}
