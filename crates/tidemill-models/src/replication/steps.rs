//! The steps of the protocol and the faults around it.
//!
//! Each step is one atomic change of one node, of the coordinator, or of the network. The pure
//! machines of `tidemill-replica` mirror them: shipper ([`ProtocolStep::Ship`], acknowledgements), backup
//! ([`ReplicaMessage::Ship`], [`ProtocolStep::Seal`]), promotion ([`ProtocolStep::Seal`], [`ProtocolStep::Adopt`], [`ProtocolStep::RecordSet`]),
//! set ([`ProtocolStep::Change`], [`ProtocolStep::Observe`]).
//!
//! Invariants:
//! - A step reads nothing of [`super::state::Promises`].
//! - A message that no state to come could act on is dropped: that loses no behaviour and many states.

use super::state::{
    ClusterState, CopyNode, Leadership, NODES, POSITIONS, Phase, ReplicaMessage, SEGMENTS,
    SegmentCopies, SegmentSpan, UNMATCHED,
};
use super::{Flaw, ProtocolStep, ReplicationModel, SyncMode};

impl ReplicationModel {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Syncs are steps of their own only where a power cut can come between.
    fn syncs(&self) -> bool {
        self.losses > 0
    }

    /// All steps that can come next.
    pub(super) fn steps(&self, state: &ClusterState, steps: &mut Vec<ProtocolStep>) {
        for n in 0..self.nodes {
            let node = &state.nodes[usize::from(n)];
            if let Some(lead) = &node.lead {
                self.steps_of_leader(state, n, lead, steps);
            }
            if self.syncs() && node.synced < node.extent() {
                steps.push(ProtocolStep::Sync(n));
            }
            if state.observes(n) {
                steps.push(ProtocolStep::Observe(n));
            }
            if state.spent.crashes < self.crashes {
                steps.push(ProtocolStep::Crash(n));
            }
            if state.spent.losses < self.losses {
                steps.push(ProtocolStep::PowerCut(n));
                if self.durability == SyncMode::Always && node.lead.is_none() {
                    let entries = (0..POSITIONS).filter(|p| node.log.0[*p] != 0);
                    steps.extend(entries.map(|p| ProtocolStep::Rot(n, p as u8)));
                }
            }
            let is_new = state.record.leader != n || node.promised >= state.record.epoch;
            if state.record.epoch < self.epochs && self.candidates & 1 << n != 0 && is_new {
                steps.push(ProtocolStep::Elect(n));
            }
        }
        for message in &state.network {
            steps.push(ProtocolStep::Deliver(*message));
            if state.spent.duplicates < self.duplicates {
                steps.push(ProtocolStep::DeliverTwice(*message));
            }
        }
    }

    /// A candidate may choose once it has read a copy that has forgotten nothing, or every copy.
    pub(super) fn may_adopt(&self, lead: &Leadership) -> bool {
        let all = lead.open.set.nodes().all(|m| lead.sealed & 1 << m != 0);
        lead.complete || all && !self.has(Flaw::WaitForFullCopy)
    }

    fn steps_of_leader(
        &self,
        state: &ClusterState,
        n: u8,
        lead: &Leadership,
        steps: &mut Vec<ProtocolStep>,
    ) {
        let node = &state.nodes[usize::from(n)];
        let sets =
            || self.sets.iter().filter(|set| **set & 1 << n != 0).map(|set| state.set_of(*set));
        let has_room = state.network.len() < self.in_flight;
        match lead.phase {
            Phase::Sealing => {
                let unsealed = lead.open.set.nodes().filter(|m| lead.sealed & 1 << m == 0);
                steps.extend(unsealed.map(|m| ProtocolStep::Seal(n, m as u8)));
                if self.may_adopt(lead) {
                    steps.extend(sets().map(|set| ProtocolStep::Adopt(n, set)));
                }
            }
            Phase::Copying => {
                let set = lead.next.expect("a candidate that copies has a set").set;
                let end = node.log.end(lead.open.from);
                let lacks = |m: &usize| lead.matched[*m] == UNMATCHED || lead.matched[*m] < end;
                if !set.nodes().any(|m| lacks(&m)) {
                    steps.push(ProtocolStep::RecordSet(n));
                } else if has_room {
                    let behind = set.nodes().filter(|m| state.lacks_shipment(n, *m, false));
                    steps.extend(behind.map(|m| ProtocolStep::Ship(n, m as u8)));
                }
            }
            Phase::Recording => {}
            Phase::Serving => {
                let end = node.log.end(lead.open.from);
                if state.spent.records < self.records && usize::from(end) < POSITIONS {
                    steps.push(ProtocolStep::Append(n));
                }
                if has_room {
                    let behind =
                        (0..NODES).filter(|m| state.lacks_shipment(n, *m, self.copy_reads));
                    steps.extend(behind.map(|m| ProtocolStep::Ship(n, m as u8)));
                }
                let segments = usize::from(state.record.segments);
                if lead.next.is_none() && state.spent.changes < self.changes && segments < SEGMENTS
                {
                    let others = sets().filter(|set| *set != lead.open.set);
                    steps.extend(others.map(|set| ProtocolStep::Change(n, set)));
                }
            }
        }
    }

    /// Takes a step. A step that is not possible changes nothing.
    pub(super) fn take(&self, state: &mut ClusterState, step: ProtocolStep) {
        match step {
            ProtocolStep::Append(n) => self.append(state, n),
            ProtocolStep::Sync(n) => {
                let node = &mut state.nodes[usize::from(n)];
                node.synced = node.extent();
                self.advance(state, n);
            }
            ProtocolStep::Ship(n, m) => state.ship(n, m),
            ProtocolStep::Deliver(message) => {
                state.network.retain(|m| *m != message);
                self.deliver(state, message);
            }
            ProtocolStep::DeliverTwice(message) => {
                state.spent.duplicates += 1;
                self.deliver(state, message);
            }
            ProtocolStep::Change(n, set) => self.change(state, n, set),
            ProtocolStep::Elect(n) => {
                state.record.revision += 1;
                state.record.epoch += 1;
                state.record.leader = n;
                state.record.serving = false;
            }
            ProtocolStep::Observe(n) => self.observe(state, n),
            ProtocolStep::Seal(n, m) => self.seal(state, n, m),
            ProtocolStep::Adopt(n, set) => self.adopt(state, n, set),
            ProtocolStep::RecordSet(n) => state.record_set(n),
            ProtocolStep::Crash(n) => {
                state.spent.crashes += 1;
                self.crash(&mut state.nodes[usize::from(n)]);
            }
            ProtocolStep::PowerCut(n) => {
                state.spent.losses += 1;
                let node = &mut state.nodes[usize::from(n)];
                node.log.cut(node.synced);
                self.crash(node);
                if self.durability == SyncMode::Later && !self.has(Flaw::ForgetfulCopyCounts) {
                    node.forget();
                }
            }
            ProtocolStep::Rot(n, position) => {
                state.spent.losses += 1;
                let node = &mut state.nodes[usize::from(n)];
                node.cut(position);
                if !self.has(Flaw::SickCopyAsSource) {
                    node.forget();
                }
            }
        }
        // A set may be recorded, and a paused leader may acknowledge, after the copies forgot.
        state.void();
        self.drop_dead(state);
    }

    fn crash(&self, node: &mut CopyNode) {
        node.lead = None;
        if self.has(Flaw::TruncateByHighWatermark) {
            node.cut(node.head.max(node.base));
        }
        if self.has(Flaw::PromiseInMemory) {
            node.promised = node.joined;
        }
    }

    /// Drops messages that nothing to come can act on.
    fn drop_dead(&self, state: &mut ClusterState) {
        let (nodes, record) = (&state.nodes, &state.record);
        state.network.retain(|message| match *message {
            ReplicaMessage::Ship { to, generation, epoch, .. } => {
                let node = &nodes[usize::from(to)];
                let is_refused = epoch < node.promised && !self.has(Flaw::PromiseInMemory);
                generation == node.generation && !is_refused
            }
            ReplicaMessage::Ack { to, epoch, .. } => {
                nodes[usize::from(to)].lead.is_some_and(|lead| lead.epoch == epoch)
            }
            ReplicaMessage::Put(put) => {
                put.revision > record.revision || self.has(Flaw::PutWithoutCompare)
            }
        });
    }

    fn append(&self, state: &mut ClusterState, n: u8) {
        state.spent.records += 1;
        let record = state.spent.records;
        let node = &mut state.nodes[usize::from(n)];
        let lead = node.lead.expect("a node that appends leads");
        let end = node.log.end(lead.open.from);
        node.log.0[usize::from(end)] = lead.epoch << 4 | record;
        self.advance(state, n);
    }

    /// Delivers one message.
    fn deliver(&self, state: &mut ClusterState, message: ReplicaMessage) {
        match message {
            ReplicaMessage::Ship { .. } => self.accept(state, message),
            ReplicaMessage::Ack { to, from, generation, epoch, end } => {
                let node = &mut state.nodes[usize::from(to)];
                let Some(lead) = node.lead.as_mut().filter(|lead| lead.epoch == epoch) else {
                    return;
                };
                let copy = usize::from(from);
                let is_meant = lead.generation_of(copy) == Some(generation);
                if is_meant || self.has(Flaw::AckOfOtherGeneration) {
                    let known = lead.matched[copy];
                    lead.matched[copy] = if known == UNMATCHED { end } else { known.max(end) };
                    self.advance(state, to);
                }
            }
            ReplicaMessage::Put(put) => {
                if put.revision == state.record.revision + 1 {
                    state.record = put;
                } else if self.has(Flaw::PutWithoutCompare) {
                    let revision = state.record.revision + 1;
                    state.record = super::TableRecord { revision, ..put };
                }
            }
        }
    }

    /// A copy takes a shipment, or refuses it for its epoch.
    fn accept(&self, state: &mut ClusterState, message: ReplicaMessage) {
        let ReplicaMessage::Ship { to, generation, leader, epoch, opening, at, entries, head } =
            message
        else {
            return;
        };
        let node = &mut state.nodes[usize::from(to)];
        if generation != node.generation || epoch < node.promised {
            return;
        }
        node.promised = epoch;
        node.lead = node.lead.filter(|lead| lead.epoch >= epoch);
        if node.joined != epoch {
            if !opening {
                return;
            }
            if self.has(Flaw::TruncateByLength) {
                let kept = node.log.end(at).min(entries.end(at));
                node.cut(kept);
            } else {
                node.cut(at);
            }
            node.joined = epoch;
            node.base = at;
        } else if at > node.log.end(node.base) {
            if !opening {
                return;
            }
            node.base = at;
        } else if opening && self.has(Flaw::OpeningCutsAgain) {
            node.cut(at);
        }
        for p in usize::from(at)..POSITIONS {
            if node.log.0[p] == 0 {
                node.log.0[p] = entries.0[p];
            }
        }
        if self.durability == SyncMode::Always && !self.has(Flaw::AckBeforeSync) {
            node.synced = node.extent();
        }
        let end = node.log.end(node.base);
        node.head = node.head.max(head.min(end));
        let (base, visible) = (node.base, node.head);
        state.send(ReplicaMessage::Ack { to: leader, from: to, generation, epoch, end });
        if self.copy_reads {
            state.mark_read(to, base, visible);
        }
    }

    /// The high watermark follows what all copies of the set have, and of the next set too while a
    /// change is under way: either may be the recorded one.
    fn advance(&self, state: &mut ClusterState, n: u8) {
        let node = &mut state.nodes[usize::from(n)];
        let Some(lead) = node.lead.as_mut().filter(|lead| lead.phase == Phase::Serving) else {
            return;
        };
        let end = node.log.end(lead.open.from);
        let is_local =
            self.syncs() && self.durability == SyncMode::Always && !self.has(Flaw::AckBeforeSync);
        let local = if is_local { end.min(node.synced) } else { end };
        let sets = match lead.next {
            Some(next) if self.has(Flaw::AckFewerDuringChange) => [next.set; 2],
            Some(next) if !self.has(Flaw::AckOldSetDuringChange) => [lead.open.set, next.set],
            _ => [lead.open.set; 2],
        };
        let others = || sets.iter().flat_map(|set| set.nodes().map(|m| (m, set.generation(m))));
        let replicated = |(m, generation): (usize, Option<u8>)| {
            let is_same = lead.generation_of(m) == generation;
            if is_same && lead.matched[m] != UNMATCHED { lead.matched[m] } else { 0 }
        };
        let backups = || others().filter(|(m, _)| *m != usize::from(n)).map(replicated);
        let replicated = if self.has(Flaw::AckAfterOneBackup) {
            backups().max().unwrap_or(end)
        } else {
            backups().min().unwrap_or(end)
        };
        let head = local.min(replicated);
        if head > lead.head {
            let (from, epoch) = (lead.head, lead.epoch);
            lead.head = head;
            node.head = node.head.max(head);
            state.mark_acknowledged(n, epoch, from, head);
        }
    }

    /// A serving leader closes the segment at its high watermark and asks for another set.
    fn change(&self, state: &mut ClusterState, n: u8, set: SegmentCopies) {
        state.spent.changes += 1;
        let record = state.record;
        let node = &mut state.nodes[usize::from(n)];
        let lead = node.lead.as_mut().expect("a node that changes its set leads");
        let next = SegmentSpan { from: lead.head, set };
        for m in set.nodes() {
            if lead.open.set.generation(m) != set.generation(m) {
                lead.matched[m] = UNMATCHED;
            }
        }
        lead.next = Some(next);
        // The chain is the leader's own since its epoch began, so the record as of `revision` has it.
        let mut put = super::TableRecord {
            revision: lead.revision + 1,
            epoch: lead.epoch,
            leader: n,
            serving: true,
            ..record
        };
        if next.from > lead.open.from {
            put.segments += 1;
        }
        put.chain[usize::from(put.segments) - 1] = next;
        state.send(ReplicaMessage::Put(put));
        self.advance(state, n);
    }

    fn observe(&self, state: &mut ClusterState, n: u8) {
        let record = state.record;
        let node = &mut state.nodes[usize::from(n)];
        if record.is_election_of(n, node) {
            node.promised = record.epoch;
            node.lead = Some(Leadership {
                epoch: record.epoch,
                revision: record.revision,
                phase: Phase::Sealing,
                open: record.open(),
                next: None,
                sealed: 0,
                complete: false,
                best: super::CopyEntries::default(),
                matched: [UNMATCHED; NODES],
                head: 0,
            });
            self.seal(state, n, n);
            return;
        }
        let Some(lead) = &mut node.lead else { return };
        if lead.epoch < record.epoch {
            node.lead = None;
        } else if lead.revision < record.revision {
            lead.revision = record.revision;
            lead.open = record.open();
            lead.next = None;
            for m in (0..NODES).filter(|m| lead.open.set.0[*m] == 0) {
                lead.matched[m] = UNMATCHED;
            }
            if lead.phase != Phase::Serving {
                lead.phase = Phase::Serving;
                lead.head = lead.open.from;
            }
            self.advance(state, n);
        }
    }

    /// A candidate raises the epoch of a copy, reads it, and keeps the longest prefix. A copy of
    /// another generation than the recorded one may have forgotten something.
    fn seal(&self, state: &mut ClusterState, n: u8, m: u8) {
        let mut lead = state.nodes[usize::from(n)].lead.expect("a node that seals is a candidate");
        let copy = &mut state.nodes[usize::from(m)];
        let (from, expected) = (lead.open.from, lead.open.set.generation(usize::from(m)));
        let Some(expected) = expected.filter(|_| copy.promised <= lead.epoch) else {
            return;
        };
        if n != m && !self.has(Flaw::PromoteWithoutSealing) {
            copy.promised = lead.epoch;
            copy.lead = copy.lead.filter(|other| other.epoch >= lead.epoch);
        }
        let mut found = copy.log.tail(from);
        found.cut(copy.log.end(from));
        let complete = copy.generation == expected;
        let is_longer = found.end(from) > lead.best.end(from);
        if complete == lead.complete && is_longer || complete && !lead.complete {
            lead.best = found;
        }
        lead.complete |= complete;
        lead.sealed |= 1 << m;
        state.nodes[usize::from(n)].lead = Some(lead);
    }

    fn adopt(&self, state: &mut ClusterState, n: u8, set: SegmentCopies) {
        let node = &mut state.nodes[usize::from(n)];
        let lead = node.lead.as_mut().expect("a node that adopts is a candidate");
        let from = lead.open.from;
        let end = lead.best.end(from);
        let differs = (from..end).find(|p| node.log.at(*p) != lead.best.at(*p));
        let same = differs.unwrap_or(end);
        lead.phase = Phase::Copying;
        lead.next = Some(SegmentSpan { from, set });
        lead.matched = [UNMATCHED; NODES];
        lead.matched[usize::from(n)] = end;
        let best = std::mem::take(&mut lead.best);
        (lead.sealed, lead.complete) = (0, false);
        let epoch = lead.epoch;
        node.cut(same);
        for p in same..end {
            node.log.0[usize::from(p)] = best.at(p);
        }
        (node.joined, node.base) = (epoch, from);
        if self.durability == SyncMode::Always {
            node.synced = node.extent();
        }
        if self.has(Flaw::HighWatermarkAtEnd) {
            state.mark_read(n, from, end);
        }
    }
}
