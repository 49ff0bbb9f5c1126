//! Promotion: an elected node reads the copies, adopts the longest prefix, copies it to a new set,
//! has the set recorded, and leads.
//!
//! ```text
//! Seal ─→ Sealed … ─→ choose ─→ Adopt ─→ Adopted + Place ─→ Ship ─→ Matched … ─→ Put ─→ Read ─→ Serve
//!                       ↑          └─ SourceLost
//! ```
//!
//! The candidate's own copy is sealed first, as any other, also if it is of no set. Its promise then
//! is durable, and a node that has promised an epoch is never a candidate for it again: it does not
//! resume after a restart.
//!
//! Model: `seal`, `adopt` and `record_set` of `tidemill-models`.
//!
//! Invariants:
//! - The source is the longest of the full copies that have answered. A copy is full if the open
//!   segment names its generation. If none is full, every copy of the set has answered.
//! - Nothing is visible before the record names a set that has the whole prefix.

use crate::backup::{BackupAnswer, HeldRange};
use crate::copy_set::{CopyId, CopySet, RecordPut, RecordRevision, SetSegment, VirtualLogRecord};
use crate::history::EpochHistory;
use crate::set::{ProposalError, SetLeadership};
use std::collections::BTreeMap;
use tidemill_types::{LogPosition, NodeId, VirtualLogEpoch};

/// An event of a candidate.
#[derive(Clone, Debug)]
pub enum PromotionEvent {
    /// A copy has answered a seal.
    Answer {
        /// The node of the copy.
        node: NodeId,
        /// The answer.
        answer: BackupAnswer,
    },
    /// The time for more answers is over: one full copy is enough from now on.
    Hurry,
    /// The set that is to have the prefix. Before the set is written, another one may replace it.
    Place {
        /// The set, the candidate's own copy in it.
        set: CopySet,
        /// The fewest copies that a set may have.
        min_insync: usize,
    },
    /// The candidate's own copy has the prefix.
    Adopted,
    /// A copy has everything up to here.
    Matched {
        /// The copy.
        copy: CopyId,
        /// The end of what it has.
        end: LogPosition,
    },
    /// The record as the coordinator has it, read after the event that asked for it.
    Read {
        /// The record's revision.
        revision: RecordRevision,
        /// The record.
        record: VirtualLogRecord,
    },
    /// The source cannot give the prefix any more: another one is to be found.
    SourceLost,
    /// An answer is overdue: what has not been answered is asked again. A write that was not
    /// answered may have been applied or not.
    Retry,
}

/// A step that a candidate asks for.
#[derive(Clone, Debug)]
pub enum PromotionAction {
    /// Ask the copy on a node to seal itself. The own copy is asked like any other.
    Seal {
        /// The node.
        node: NodeId,
        /// The epoch.
        epoch: VirtualLogEpoch,
    },
    /// Open the own copy with this history, then fetch from the source what it lacks.
    Adopt {
        /// The copy that has the prefix.
        source: CopyId,
        /// The prefix of the open segment.
        prefix: HeldRange,
        /// The epochs of its entries.
        history: EpochHistory,
    },
    /// Ship the prefix to a copy.
    Ship {
        /// The copy.
        copy: CopyId,
        /// The first position.
        from: LogPosition,
    },
    /// Ship to this copy no more.
    Stop(CopyId),
    /// Write the record, then read it, whatever the answer.
    Put(RecordPut),
    /// The set is not possible.
    Rejected(ProposalError),
    /// The promotion is finished.
    Serve(Box<SetLeadership>),
    /// A higher epoch is there: this promotion is over.
    Deposed(VirtualLogEpoch),
}

#[derive(Clone, Debug)]
struct SealedCopy {
    copy: CopyId,
    held: HeldRange,
    history: EpochHistory,
}

/// A candidate's way to leadership.
#[derive(Clone, Debug)]
pub struct Promotion {
    node: NodeId,
    revision: RecordRevision,
    record: VirtualLogRecord,
    sealed: BTreeMap<NodeId, SealedCopy>,
    is_hurried: bool,
    chosen: Option<(CopyId, HeldRange)>,
    is_adopted: bool,
    set: Option<CopySet>,
    matched: BTreeMap<CopyId, LogPosition>,
    put: Option<RecordPut>,
    is_over: bool,
}

impl Promotion {
    /// A promotion by the record that elects the node, and its first actions: the own copy alone is
    /// sealed until it has answered.
    #[must_use]
    pub fn new(
        node: NodeId,
        revision: RecordRevision,
        record: VirtualLogRecord,
    ) -> (Self, Vec<PromotionAction>) {
        let seal = PromotionAction::Seal { node, epoch: record.epoch };
        let promotion = Self {
            node,
            revision,
            record,
            sealed: BTreeMap::new(),
            is_hurried: false,
            chosen: None,
            is_adopted: false,
            set: None,
            matched: BTreeMap::new(),
            put: None,
            is_over: false,
        };
        (promotion, vec![seal])
    }

    /// The epoch of the promotion.
    #[must_use]
    pub fn epoch(&self) -> VirtualLogEpoch {
        self.record.epoch
    }

    /// The copies of the open segment that have not answered yet.
    pub fn unsealed(&self) -> impl Iterator<Item = NodeId> {
        let nodes = self.record.open.set.iter().map(|copy| copy.node);
        nodes.filter(|node| !self.sealed.contains_key(node))
    }

    /// The steps that an event asks for.
    pub fn on(&mut self, event: PromotionEvent) -> Vec<PromotionAction> {
        let mut actions = Vec::new();
        if self.is_over {
            return actions;
        }
        match event {
            PromotionEvent::Answer { node, answer } => self.hear(node, answer, &mut actions),
            PromotionEvent::Hurry => self.is_hurried = true,
            PromotionEvent::Place { set, min_insync } => self.place(set, min_insync, &mut actions),
            PromotionEvent::Adopted if self.chosen.is_some() && !self.is_adopted => {
                self.is_adopted = true;
                let set = self.set.clone().unwrap_or_default();
                self.ship(set.iter(), &mut actions);
            }
            PromotionEvent::Adopted => {}
            PromotionEvent::Matched { copy, end } => {
                let known = self.matched.entry(copy).or_insert(end);
                *known = end.max(*known);
            }
            PromotionEvent::Read { revision, record } => self.read(revision, record, &mut actions),
            PromotionEvent::SourceLost if !self.is_adopted => {
                if let Some((source, _)) = self.chosen.take() {
                    self.sealed.remove(&source.node);
                    self.seal(&mut actions);
                }
            }
            PromotionEvent::SourceLost => {}
            PromotionEvent::Retry => {
                self.seal(&mut actions);
                actions.extend(self.put.clone().map(PromotionAction::Put));
            }
        }
        if !self.is_over {
            self.choose(&mut actions);
            self.record_set(&mut actions);
        }
        actions
    }

    fn hear(&mut self, node: NodeId, answer: BackupAnswer, actions: &mut Vec<PromotionAction>) {
        match answer {
            BackupAnswer::Sealed { epoch, generation, held, history } if epoch == self.epoch() => {
                let is_first = node == self.node && !self.sealed.contains_key(&node);
                let copy = CopyId { node, generation };
                if is_first || self.record.open.set.on(node).is_some() {
                    self.sealed.entry(node).or_insert(SealedCopy { copy, held, history });
                }
                if is_first {
                    self.seal(actions);
                }
            }
            BackupAnswer::Refused { promised } if promised > self.epoch() => {
                self.is_over = true;
                actions.push(PromotionAction::Deposed(promised));
            }
            _ => {}
        }
    }

    /// Asks the copies that have not answered, the own one alone until it has.
    fn seal(&self, actions: &mut Vec<PromotionAction>) {
        let epoch = self.epoch();
        if self.chosen.is_some() {
            return;
        }
        if self.sealed.contains_key(&self.node) {
            actions.extend(self.unsealed().map(|node| PromotionAction::Seal { node, epoch }));
        } else {
            actions.push(PromotionAction::Seal { node: self.node, epoch });
        }
    }

    /// Chooses the prefix once enough copies have answered.
    fn choose(&mut self, actions: &mut Vec<PromotionAction>) {
        if self.chosen.is_some() || !self.sealed.contains_key(&self.node) {
            return;
        }
        let SetSegment { from, set } = &self.record.open;
        let members = self.sealed.values().filter(|sealed| set.on(sealed.copy.node).is_some());
        let has_all = self.unsealed().next().is_none();
        let full: Vec<&SealedCopy> =
            members.clone().filter(|sealed| set.contains(sealed.copy)).collect();
        let sources = match (full.is_empty(), has_all || self.is_hurried) {
            (false, true) => full,
            (true, _) if has_all => members.collect(),
            _ => return,
        };
        let end = |sealed: &SealedCopy| {
            if sealed.held.from <= *from { sealed.held.end.max(*from) } else { *from }
        };
        let own = |sealed: &SealedCopy| sealed.copy.node == self.node;
        let longest = sources.into_iter().max_by_key(|sealed| (end(sealed), own(sealed)));
        if let Some(longest) = longest {
            let prefix = HeldRange { from: *from, end: end(longest) };
            let history = longest.history.slice(prefix.from, prefix.end);
            actions.push(PromotionAction::Adopt { source: longest.copy, prefix, history });
            self.chosen = Some((longest.copy, prefix));
        }
    }

    fn place(&mut self, set: CopySet, min_insync: usize, actions: &mut Vec<PromotionAction>) {
        let own = self.sealed.get(&self.node).map(|sealed| sealed.copy);
        let error = if self.put.is_some() {
            Some(ProposalError::Pending)
        } else if own.is_none_or(|own| !set.contains(own)) {
            Some(ProposalError::WithoutLeader)
        } else {
            (set.len() < min_insync.max(1)).then_some(ProposalError::TooSmall)
        };
        if let Some(error) = error {
            actions.push(PromotionAction::Rejected(error));
            return;
        }
        let before = self.set.replace(set.clone()).unwrap_or_default();
        if self.is_adopted {
            let gone = before.iter().filter(|copy| !set.contains(*copy) && copy.node != self.node);
            actions.extend(gone.map(PromotionAction::Stop));
            self.ship(set.iter().filter(|copy| !before.contains(*copy)), actions);
        }
    }

    fn ship(&self, copies: impl Iterator<Item = CopyId>, actions: &mut Vec<PromotionAction>) {
        let from = self.record.open.from;
        let others = copies.filter(|copy| copy.node != self.node);
        actions.extend(others.map(|copy| PromotionAction::Ship { copy, from }));
    }

    /// Asks for the record of the set once all of it has the prefix.
    fn record_set(&mut self, actions: &mut Vec<PromotionAction>) {
        let (Some((_, prefix)), Some(set), None) = (self.chosen, &self.set, &self.put) else {
            return;
        };
        let has = |copy: CopyId| {
            let matched = self.matched.get(&copy);
            copy.node == self.node || matched.is_some_and(|end| *end >= prefix.end)
        };
        if self.is_adopted && set.iter().all(has) {
            let open = SetSegment { from: prefix.from, set: set.clone() };
            let record = VirtualLogRecord { is_serving: true, open, ..self.record.clone() };
            let put = RecordPut { expected: self.revision, record };
            actions.push(PromotionAction::Put(put.clone()));
            self.put = Some(put);
        }
    }

    fn read(
        &mut self,
        revision: RecordRevision,
        record: VirtualLogRecord,
        actions: &mut Vec<PromotionAction>,
    ) {
        if record.epoch > self.epoch() {
            self.is_over = true;
            actions.push(PromotionAction::Deposed(record.epoch));
        } else if revision > self.revision && record.is_serving {
            self.is_over = true;
            let own = self.sealed.get(&self.node).map(|sealed| sealed.copy);
            let own = own.expect("a set is recorded after the own copy was sealed");
            let (_, prefix) = self.chosen.expect("a set is recorded for a prefix");
            let set = SetLeadership::new(own, revision, record, prefix.end);
            actions.push(PromotionAction::Serve(Box::new(set)));
        } else {
            actions.extend(self.put.clone().map(PromotionAction::Put));
        }
    }
}

#[cfg(test)]
mod tests;
