//! The leader's side of a virtual log: the watermark, and change of set through the coordinator.
//!
//! ```text
//! Propose → Put ─ Read: the record has the proposal ─→ the new set alone counts
//!             │   Read: the record has a higher epoch → Deposed
//!             └── no answer, or the record is as before → the same Put again
//! from Propose on until the outcome is known both sets count
//! ```
//!
//! Model: `advance`, `change` and `observe` of `tidemill-models`.
//!
//! Invariants:
//! - A position is below the watermark only if the leader and every copy of every set that may be in
//!   force have it. The write of a proposal may have been applied though its answer was lost, and may
//!   be applied later, so that neither set alone is enough.
//! - A proposal ends only when the record's revision has moved.
//! - The watermark never falls.

use crate::copy_set::{CopyId, CopySet, RecordPut, RecordRevision, SetSegment, VirtualLogRecord};
use std::collections::BTreeMap;
use tidemill_types::{LogPosition, VirtualLogEpoch};

/// An event of a leader.
#[derive(Clone, Debug)]
pub enum SetEvent {
    /// The leader's own log has everything up to here, by the mode of durability.
    Local(LogPosition),
    /// A copy has everything up to here.
    Matched {
        /// The copy.
        copy: CopyId,
        /// The end of what it has.
        end: LogPosition,
    },
    /// Positions below are no longer needed. The next change drops segments that lie below.
    LogStart(LogPosition),
    /// Another set is wanted.
    Propose {
        /// The set, the leader's own copy in it.
        set: CopySet,
        /// The fewest copies that a set may have.
        min_insync: usize,
    },
    /// The record as the coordinator has it, read after the event that asked for it.
    Read {
        /// The record's revision.
        revision: RecordRevision,
        /// The record.
        record: VirtualLogRecord,
    },
    /// The coordinator did not answer: the write may have been applied or not.
    Unavailable,
}

/// A step that a leader asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SetAction {
    /// Write the record, then read it, whatever the answer.
    Put(RecordPut),
    /// Ship to this copy from this position on.
    Ship {
        /// The copy.
        copy: CopyId,
        /// The first position that it is to hold.
        from: LogPosition,
    },
    /// Ship to this copy no more.
    Stop(CopyId),
    /// Everything below is acknowledged and visible.
    Watermark(LogPosition),
    /// The proposal is not possible.
    Rejected(ProposalError),
    /// A higher epoch is there: this leadership is over.
    Deposed(VirtualLogEpoch),
}

/// The reason why a set cannot be proposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalError {
    /// The outcome of an earlier proposal is not known yet.
    Pending,
    /// The set is the one in force.
    Unchanged,
    /// The set does not have the leader's own copy.
    WithoutLeader,
    /// The set has fewer copies than may acknowledge.
    TooSmall,
}

/// A serving leadership of a virtual log.
#[derive(Clone, Debug)]
pub struct SetLeadership {
    own: CopyId,
    revision: RecordRevision,
    record: VirtualLogRecord,
    pending: Option<RecordPut>,
    matched: BTreeMap<CopyId, LogPosition>,
    local: LogPosition,
    log_start: LogPosition,
    watermark: LogPosition,
    is_over: bool,
}

impl SetLeadership {
    /// A leadership by the record that names it. Positions below `watermark` are on every copy.
    #[must_use]
    pub fn new(
        own: CopyId,
        revision: RecordRevision,
        record: VirtualLogRecord,
        watermark: LogPosition,
    ) -> Self {
        let matched = record.open.set.iter().filter(|copy| *copy != own);
        Self {
            matched: matched.map(|copy| (copy, watermark)).collect(),
            own,
            revision,
            record,
            pending: None,
            local: watermark,
            log_start: LogPosition(0),
            watermark,
            is_over: false,
        }
    }

    /// The position below which everything is acknowledged and visible.
    #[must_use]
    pub fn watermark(&self) -> LogPosition {
        self.watermark
    }

    /// The record that was read last.
    #[must_use]
    pub fn record(&self) -> &VirtualLogRecord {
        &self.record
    }

    /// True while the outcome of a proposal is not known.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.pending.is_some()
    }

    /// The steps that an event asks for.
    pub fn on(&mut self, event: SetEvent) -> Vec<SetAction> {
        let mut actions = Vec::new();
        if self.is_over {
            return actions;
        }
        match event {
            SetEvent::Local(end) => self.local = self.local.max(end),
            SetEvent::Matched { copy, end } => {
                if self.counting().any(|counted| counted == copy) {
                    let known = self.matched.entry(copy).or_insert(end);
                    *known = end.max(*known);
                }
            }
            SetEvent::LogStart(position) => self.log_start = self.log_start.max(position),
            SetEvent::Propose { set, min_insync } => self.propose(set, min_insync, &mut actions),
            SetEvent::Read { revision, record } => self.read(revision, record, &mut actions),
            SetEvent::Unavailable => actions.extend(self.pending.clone().map(SetAction::Put)),
        }
        self.advance(&mut actions);
        actions
    }

    /// The copies that must have a record, the leader's own aside: those of the recorded set and of
    /// the proposed one.
    fn counting(&self) -> impl Iterator<Item = CopyId> {
        let proposed = self.pending.iter().flat_map(|put| put.record.open.set.iter());
        self.record.open.set.iter().chain(proposed).filter(|copy| *copy != self.own)
    }

    fn advance(&mut self, actions: &mut Vec<SetAction>) {
        let lowest = self
            .counting()
            .map(|copy| self.matched.get(&copy).copied())
            .try_fold(self.local, |lowest, end| Some(lowest.min(end?)));
        if let Some(watermark) = lowest.filter(|lowest| *lowest > self.watermark) {
            self.watermark = watermark;
            actions.push(SetAction::Watermark(watermark));
        }
    }

    fn propose(&mut self, set: CopySet, min_insync: usize, actions: &mut Vec<SetAction>) {
        let error = if self.pending.is_some() {
            Some(ProposalError::Pending)
        } else if !set.contains(self.own) {
            Some(ProposalError::WithoutLeader)
        } else if set.len() < min_insync.max(1) {
            Some(ProposalError::TooSmall)
        } else {
            (set == self.record.open.set).then_some(ProposalError::Unchanged)
        };
        if let Some(error) = error {
            actions.push(SetAction::Rejected(error));
            return;
        }
        let from = self.watermark;
        let mut record = self.record.clone();
        // A segment without a position is replaced, not closed.
        if from > record.open.from {
            record.closed.push(record.open);
        }
        record.open = SetSegment { from, set };
        drop_below(&mut record, self.log_start);
        let known: Vec<CopyId> = self.record.open.set.iter().collect();
        let added =
            record.open.set.iter().filter(|copy| *copy != self.own && !known.contains(copy));
        actions.extend(added.map(|copy| SetAction::Ship { copy, from }));
        let put = RecordPut { expected: self.revision, record };
        actions.push(SetAction::Put(put.clone()));
        self.pending = Some(put);
    }

    fn read(
        &mut self,
        revision: RecordRevision,
        record: VirtualLogRecord,
        actions: &mut Vec<SetAction>,
    ) {
        if record.epoch > self.record.epoch {
            self.is_over = true;
            actions.push(SetAction::Deposed(record.epoch));
        } else if revision > self.revision {
            let before: Vec<CopyId> = self.counting().collect();
            self.pending = None;
            (self.revision, self.record) = (revision, record);
            let now: Vec<CopyId> = self.counting().collect();
            self.matched.retain(|copy, _| now.contains(copy));
            let gone = CopySet::new(before.into_iter().filter(|copy| !now.contains(copy)));
            actions.extend(gone.iter().map(SetAction::Stop));
        } else {
            actions.extend(self.pending.clone().map(SetAction::Put));
        }
    }
}

/// Drops closed segments that lie below a position.
fn drop_below(record: &mut VirtualLogRecord, position: LogPosition) {
    let ends = record.closed.iter().skip(1).chain([&record.open]);
    let below = ends.take_while(|next| next.from <= position).count();
    record.closed.drain(..below.min(record.closed.len()));
}

#[cfg(test)]
mod tests;
