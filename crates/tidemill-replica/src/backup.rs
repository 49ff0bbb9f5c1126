//! A copy of a virtual log on a node that does not lead it.
//!
//! ```text
//! Seal ──→ Promise ──────────────────────────────────→ Sealed (range, history)
//! Open ──→ Promise → StartSegment or Truncate ───────→ Accepted (end)
//! Ship ──→ Append → Sync (mode `always`) → Show ─────→ Accepted (end)
//! ```
//!
//! Model: `accept` and `seal` of `tidemill-models`.
//!
//! Invariants:
//! - The steps of a request are performed in order; the answer is the last one. A shell that cannot
//!   perform a step drops the machine and builds it again from what is on the disk.
//! - The promise never falls, and is durable before anything under its epoch is answered.
//! - Entries are dropped only by the first opening of an epoch, and only above the point where the
//!   leader's log parts from the copy's.
//! - The held range begins where the leader of the newest epoch opened it: below, an older epoch may
//!   have left entries that were never acknowledged.
//! - What is visible never exceeds the leader's watermark, nor the end.

use crate::history::EpochHistory;
use tidemill_types::{Incarnation, LogPosition, VirtualLogEpoch};

/// The unbroken run of entries that a copy holds of the open segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HeldRange {
    /// The first position.
    pub from: LogPosition,
    /// The position after the last one.
    pub end: LogPosition,
}

/// The content of a copy on the disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurableCopy {
    /// The incarnation since which nothing was forgotten.
    pub generation: Incarnation,
    /// The lowest epoch that is accepted.
    pub promised: VirtualLogEpoch,
    /// The epoch whose leader has opened this copy, if one has since the last loss.
    pub joined: Option<VirtualLogEpoch>,
    /// The entries of the open segment.
    pub held: HeldRange,
    /// The epochs of the entries, those of closed segments included.
    pub history: EpochHistory,
}

/// A request to a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupRequest {
    /// A candidate reads the copy and has it refuse lower epochs.
    Seal {
        /// The candidate's epoch.
        epoch: VirtualLogEpoch,
    },
    /// The first request of a leader: where its log and the copy's part.
    Open {
        /// The leader's epoch.
        epoch: VirtualLogEpoch,
        /// The generation of the copy that is meant.
        generation: Incarnation,
        /// The first position that the copy is to hold.
        from: LogPosition,
        /// The end of the leader's log.
        end: LogPosition,
        /// The epochs of the leader's entries from `from` on.
        history: EpochHistory,
    },
    /// Entries.
    Ship {
        /// The leader's epoch.
        epoch: VirtualLogEpoch,
        /// The generation of the copy that is meant.
        generation: Incarnation,
        /// The position of the first entry.
        from: LogPosition,
        /// The position after the last entry. Equal to `from` if only the watermark is news.
        to: LogPosition,
        /// The epochs of the entries.
        history: EpochHistory,
        /// The leader's watermark.
        watermark: LogPosition,
    },
}

/// An answer of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupAnswer {
    /// The copy holds everything up to `end`, by its mode of durability.
    Accepted {
        /// The epoch of the request.
        epoch: VirtualLogEpoch,
        /// The copy's generation.
        generation: Incarnation,
        /// The end of what the copy holds.
        end: LogPosition,
    },
    /// The request begins above the end of the copy.
    Gap {
        /// The epoch of the request.
        epoch: VirtualLogEpoch,
        /// The copy's generation.
        generation: Incarnation,
        /// The end of what the copy holds.
        end: LogPosition,
    },
    /// No leader of this epoch has opened the copy.
    Unopened {
        /// The epoch of the request.
        epoch: VirtualLogEpoch,
        /// The copy's generation.
        generation: Incarnation,
    },
    /// The copy has promised a higher epoch.
    Refused {
        /// The promised epoch.
        promised: VirtualLogEpoch,
    },
    /// The request is for another generation: this one may lack what that one had.
    OtherGeneration {
        /// The copy's generation.
        generation: Incarnation,
    },
    /// The copy is sealed.
    Sealed {
        /// The epoch of the request.
        epoch: VirtualLogEpoch,
        /// The copy's generation.
        generation: Incarnation,
        /// The part of the open segment that it holds.
        held: HeldRange,
        /// The epochs of what it holds.
        history: EpochHistory,
    },
}

/// A step of a copy's shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackupStep {
    /// Write and sync the promise, in every mode of durability.
    Promise {
        /// The lowest epoch that is accepted from now on.
        promised: VirtualLogEpoch,
        /// The epoch whose leader has opened the copy.
        joined: Option<VirtualLogEpoch>,
    },
    /// Drop entries of the open segment at this position and above.
    Truncate(LogPosition),
    /// The open segment begins here. What lies below stays, and only closed segments vouch for it.
    StartSegment(LogPosition),
    /// Append the entries of the request between these positions.
    Append {
        /// The first position.
        from: LogPosition,
        /// The position after the last one.
        to: LogPosition,
    },
    /// Sync what was appended.
    Sync,
    /// Let consumers read below this position.
    Show(LogPosition),
    /// Send the answer.
    Answer(BackupAnswer),
}

/// A copy on a node that does not lead.
#[derive(Clone, Debug)]
pub struct BackupCopy {
    durable: DurableCopy,
    syncs: bool,
    watermark: LogPosition,
}

impl BackupCopy {
    /// A copy as it is on the disk. `syncs` is set in mode `always`; the shell then has synced what it
    /// found, as a process may have ended between an append and its sync.
    #[must_use]
    pub fn new(durable: DurableCopy, syncs: bool) -> Self {
        Self { durable, syncs, watermark: LogPosition(0) }
    }

    /// The content of the copy, once the steps given so far are performed.
    #[must_use]
    pub fn durable(&self) -> &DurableCopy {
        &self.durable
    }

    /// The position below which consumers may read.
    #[must_use]
    pub fn watermark(&self) -> LogPosition {
        self.watermark
    }

    /// The steps that a request asks for.
    pub fn on(&mut self, request: &BackupRequest) -> Vec<BackupStep> {
        let mut steps = Vec::new();
        let answer = match request {
            BackupRequest::Seal { epoch } => self.seal(*epoch, &mut steps),
            BackupRequest::Open { epoch, generation, from, end, history } => self
                .check(*epoch, *generation)
                .unwrap_or_else(|| self.open(*epoch, *from, *end, history, &mut steps)),
            BackupRequest::Ship { epoch, generation, from, to, history, watermark } => {
                self.check(*epoch, *generation).unwrap_or_else(|| {
                    self.take(
                        *epoch,
                        HeldRange { from: *from, end: *to },
                        history,
                        *watermark,
                        &mut steps,
                    )
                })
            }
        };
        steps.push(BackupStep::Answer(answer));
        steps
    }

    /// The refusal of a request for its epoch or generation.
    fn check(&self, epoch: VirtualLogEpoch, generation: Incarnation) -> Option<BackupAnswer> {
        let DurableCopy { promised, generation: own, .. } = self.durable;
        if generation != own {
            return Some(BackupAnswer::OtherGeneration { generation: own });
        }
        (epoch < promised).then_some(BackupAnswer::Refused { promised })
    }

    /// Promises an epoch. The promise of an earlier epoch's leader to this copy ends with it.
    fn promise(
        &mut self,
        epoch: VirtualLogEpoch,
        joined: Option<VirtualLogEpoch>,
        steps: &mut Vec<BackupStep>,
    ) {
        if self.durable.promised != epoch || self.durable.joined != joined {
            (self.durable.promised, self.durable.joined) = (epoch, joined);
            steps.push(BackupStep::Promise { promised: epoch, joined });
        }
    }

    fn seal(&mut self, epoch: VirtualLogEpoch, steps: &mut Vec<BackupStep>) -> BackupAnswer {
        let promised = self.durable.promised;
        if epoch < promised {
            return BackupAnswer::Refused { promised };
        }
        self.promise(epoch, self.durable.joined, steps);
        let DurableCopy { generation, held, ref history, .. } = self.durable;
        let history = history.slice(held.from, held.end);
        BackupAnswer::Sealed { epoch, generation, held, history }
    }

    fn open(
        &mut self,
        epoch: VirtualLogEpoch,
        from: LogPosition,
        end: LogPosition,
        history: &EpochHistory,
        steps: &mut Vec<BackupStep>,
    ) -> BackupAnswer {
        let held = self.durable.held;
        let reaches = held.from <= from && from <= held.end;
        // Entries go before the promise: a crash between them leaves a copy that is opened again.
        if self.durable.joined == Some(epoch) {
            if held.end < from {
                self.start(from, steps);
            }
        } else {
            let known = if reaches { held.end.min(end) } else { from };
            let common = self.durable.history.common_end(history, from, known);
            self.truncate(common, steps);
            // Below the opening an older epoch may have left what this leader's log does not have.
            self.start(from, steps);
        }
        self.promise(epoch, Some(epoch), steps);
        self.accepted(epoch)
    }

    fn take(
        &mut self,
        epoch: VirtualLogEpoch,
        shipped: HeldRange,
        history: &EpochHistory,
        watermark: LogPosition,
        steps: &mut Vec<BackupStep>,
    ) -> BackupAnswer {
        let DurableCopy { generation, joined, held, .. } = self.durable;
        if joined != Some(epoch) {
            return BackupAnswer::Unopened { epoch, generation };
        }
        if shipped.from > held.end {
            return BackupAnswer::Gap { epoch, generation, end: held.end };
        }
        if shipped.end > held.end {
            self.durable.history.extend(held.end, history, shipped.end);
            self.durable.held.end = shipped.end;
            steps.push(BackupStep::Append { from: held.end, to: shipped.end });
            if self.syncs {
                steps.push(BackupStep::Sync);
            }
        }
        let visible = watermark.min(self.durable.held.end);
        if visible > self.watermark {
            self.watermark = visible;
            steps.push(BackupStep::Show(visible));
        }
        self.accepted(epoch)
    }

    fn accepted(&self, epoch: VirtualLogEpoch) -> BackupAnswer {
        let DurableCopy { generation, held, .. } = self.durable;
        BackupAnswer::Accepted { epoch, generation, end: held.end }
    }

    fn truncate(&mut self, to: LogPosition, steps: &mut Vec<BackupStep>) {
        if to < self.durable.held.end {
            let held = &mut self.durable.held;
            (held.from, held.end) = (held.from.min(to), to);
            self.durable.history.truncate(to);
            steps.push(BackupStep::Truncate(to));
        }
    }

    fn start(&mut self, from: LogPosition, steps: &mut Vec<BackupStep>) {
        let held = HeldRange { from, end: self.durable.held.end.max(from) };
        if held != self.durable.held {
            self.durable.held = held;
            steps.push(BackupStep::StartSegment(from));
        }
    }
}

#[cfg(test)]
mod tests;
