//! Four nodes that run the machines, a coordinator, and a network in the hands of a seed.

use super::promises::{EntryMap, Promises};
use crate::backup::{BackupAnswer, BackupCopy, BackupRequest, BackupStep, DurableCopy, HeldRange};
use crate::copy_set::{CopyId, CopySet, RecordPut, RecordRevision, SetSegment, VirtualLogRecord};
use crate::history::EpochHistory;
use crate::promotion::{Promotion, PromotionAction, PromotionEvent};
use crate::set::{SetAction, SetEvent, SetLeadership};
use crate::shipper::{ChunkSizes, Shipper, ShipperAction, ShipperEvent, ShipperLimits};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tidemill_types::{Incarnation, LogPosition, NodeId, VirtualLogEpoch};

const NODES: i32 = 4;
const LIMITS: ShipperLimits = ShipperLimits {
    write_bytes: 250,
    writes_max: 2,
    answer_timeout: Duration::from_secs(5),
    pause: Duration::from_secs(1),
    pause_max: Duration::from_secs(4),
    watermark_pause: Duration::from_millis(700),
    bytes_per_second: None,
};

/// When copies are durable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SyncsWhen {
    /// Before they answer.
    BeforeAnswer,
    /// Some time later.
    Later,
}

/// A message in flight.
#[derive(Clone)]
enum Mail {
    Request { to: NodeId, from: NodeId, body: BackupRequest, entries: EntryMap },
    Answer { to: NodeId, from: NodeId, body: BackupAnswer },
    Put(RecordPut),
}

enum Role {
    Backup,
    Candidate(Box<Promotion>),
    Leader(Box<SetLeadership>),
}

struct Member {
    id: NodeId,
    disk: DurableCopy,
    entries: EntryMap,
    unsynced: BTreeSet<LogPosition>,
    copy: BackupCopy,
    role: Role,
    epoch: VirtualLogEpoch,
    shippers: BTreeMap<CopyId, Shipper>,
    shown: LogPosition,
}

struct Sizes;

impl ChunkSizes for Sizes {
    fn bytes(&self, position: LogPosition) -> u64 {
        50 + position.0 % 7 * 50
    }
}

/// The whole system.
pub(super) struct Cluster {
    random: u64,
    syncs: SyncsWhen,
    now: Duration,
    members: Vec<Member>,
    revision: RecordRevision,
    record: VirtualLogRecord,
    network: Vec<Mail>,
    incarnations: u32,
    records: u64,
    /// The answers that clients got.
    pub(super) promises: Promises,
    /// Changes of set that were recorded.
    pub(super) changes: usize,
    /// Power cuts after which a copy had another generation.
    pub(super) losses: usize,
}

impl Cluster {
    /// Node 0 leads in epoch 1, with nodes 1 and 2 as backups.
    pub(super) fn new(seed: u64, syncs: SyncsWhen) -> Self {
        let first = VirtualLogEpoch(1);
        let copies = (0..3).map(|node| CopyId { node: NodeId(node), generation: Incarnation(1) });
        let set = CopySet::new(copies);
        let open = SetSegment { from: LogPosition(0), set: set.clone() };
        let record = VirtualLogRecord {
            epoch: first,
            leader: NodeId(0),
            is_serving: true,
            closed: Vec::new(),
            open,
        };
        let member = |id: i32| {
            let disk = DurableCopy {
                generation: Incarnation(1),
                promised: first,
                joined: (id < 3).then_some(first),
                ..DurableCopy::default()
            };
            Member {
                id: NodeId(id),
                copy: BackupCopy::new(disk.clone(), syncs == SyncsWhen::BeforeAnswer),
                disk,
                entries: EntryMap::new(),
                unsynced: BTreeSet::new(),
                role: Role::Backup,
                epoch: first,
                shippers: BTreeMap::new(),
                shown: LogPosition(0),
            }
        };
        let mut members: Vec<Member> = (0..NODES).map(member).collect();
        let own = set.on(NodeId(0)).expect("node 0 is of the first set");
        let zero = LogPosition(0);
        let lead = SetLeadership::new(own, RecordRevision(1), record.clone(), zero);
        members[0].role = Role::Leader(Box::new(lead));
        for copy in set.iter().filter(|copy| *copy != own) {
            let shipper = Shipper::new(copy, first, zero, zero, LIMITS, Duration::ZERO);
            members[0].shippers.insert(copy, shipper);
        }
        Self {
            random: seed,
            syncs,
            now: Duration::ZERO,
            members,
            revision: RecordRevision(1),
            record,
            network: Vec::new(),
            incarnations: 1,
            records: 0,
            promises: Promises::default(),
            changes: 0,
            losses: 0,
        }
    }

    /// A number below `bound` (splitmix64).
    fn draw(&mut self, bound: usize) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    /// The copies of a random choice of nodes, this one among them, in their generations of now.
    fn some_set(&mut self, node: usize) -> CopySet {
        let chosen: Vec<usize> =
            (0..self.members.len()).filter(|n| *n == node || self.draw(2) == 0).collect();
        CopySet::new(chosen.into_iter().map(|n| self.copy_of(n)))
    }

    fn copy_of(&self, node: usize) -> CopyId {
        let Member { id, ref disk, .. } = self.members[node];
        CopyId { node: id, generation: disk.generation }
    }

    /// One random step.
    pub(super) fn step(&mut self) {
        // What the record's leader does is worth more steps, and zombies get theirs too.
        let leader = self.record.leader.0 as usize;
        let node = if self.draw(2) == 0 { leader } else { self.draw(self.members.len()) };
        match self.draw(1_000) {
            0..150 => self.append(node),
            150..640 => self.deliver_some(),
            640..760 => {
                self.now += Duration::from_millis(500);
                self.tick();
            }
            760..860 => self.read(node),
            860..880 => self.propose(node),
            880..886 => {
                let node = self.draw(self.members.len());
                self.elect(node);
            }
            886..950 => {
                let set = self.some_set(node);
                self.promote(node, PromotionEvent::Place { set, min_insync: 2 });
                self.promote(node, PromotionEvent::Hurry);
            }
            950..965 => {
                self.promote(node, PromotionEvent::Retry);
                self.lead(node, SetEvent::Unavailable);
            }
            965..980 => self.members[node].unsynced.clear(),
            980..985 => self.restart(node),
            985..989 => self.cut_power(node),
            _ => self.disconnect(node),
        }
    }

    /// Every promise holds.
    pub(super) fn check(&self) {
        let nodes = self.members.iter();
        let nodes = nodes.map(|member| (member.id, (member.disk.generation, &member.entries)));
        self.promises.check(&self.record, &nodes.collect());
        for member in &self.members {
            let Role::Leader(lead) = &member.role else { continue };
            if lead.record().epoch == self.record.epoch && self.record.is_serving {
                let open = self.record.open.from;
                for (position, entry) in self.promises.read.range(open..) {
                    assert_eq!(member.entries.get(position), Some(entry), "at {position}");
                }
            }
        }
    }

    fn append(&mut self, node: usize) {
        let member = &self.members[node];
        if !matches!(member.role, Role::Leader(_)) || self.records >= 60 {
            return;
        }
        let (epoch, generation) = (member.epoch, member.disk.generation);
        let from = member.copy.durable().held.end;
        let to = LogPosition(from.0 + 1);
        self.records += 1;
        let entries = EntryMap::from([(from, (epoch, self.records))]);
        let mut history = EpochHistory::default();
        history.begin(epoch, from);
        let watermark = LogPosition(0);
        let body = BackupRequest::Ship { epoch, generation, from, to, history, watermark };
        self.perform(node, &body, &entries, usize::MAX);
        self.lead(node, SetEvent::Local(to));
        self.tell_shippers(node, &ShipperEvent::Appended(to));
    }

    /// Performs a request at a node, and its steps in order until the process ends.
    fn perform(
        &mut self,
        node: usize,
        body: &BackupRequest,
        entries: &EntryMap,
        steps_max: usize,
    ) -> Option<BackupAnswer> {
        let syncs = self.syncs;
        let member = &mut self.members[node];
        let steps = member.copy.on(body);
        for step in steps.into_iter().take(steps_max) {
            match step {
                BackupStep::Promise { promised, joined } => {
                    assert!(promised >= member.disk.promised);
                    (member.disk.promised, member.disk.joined) = (promised, joined);
                }
                BackupStep::Truncate(to) => member.cut(to),
                BackupStep::StartSegment(from) => {
                    let end = member.disk.held.end.max(from);
                    member.disk.held = HeldRange { from, end };
                }
                BackupStep::Append { from, to } => {
                    assert_eq!(from, member.disk.held.end);
                    for (position, entry) in entries.range(from..to) {
                        member.entries.insert(*position, *entry);
                        member.unsynced.insert(*position);
                        member.disk.history.begin(entry.0, *position);
                    }
                    member.disk.held.end = to;
                }
                BackupStep::Sync => member.unsynced.clear(),
                BackupStep::Show(to) => {
                    let from = member.disk.held.from;
                    self.promises.read(&member.entries, from, to);
                }
                BackupStep::Answer(answer) => {
                    assert_eq!(&member.disk, member.copy.durable(), "the disk is as the machine");
                    let syncs_first = syncs == SyncsWhen::BeforeAnswer;
                    assert!(!syncs_first || member.unsynced.is_empty(), "answered before the sync");
                    return Some(answer);
                }
            }
        }
        None
    }

    fn deliver_some(&mut self) {
        if self.network.is_empty() {
            return;
        }
        // The oldest mail is the likeliest.
        let bound = if self.draw(3) == 0 { self.network.len() } else { 1 };
        let place = self.draw(bound);
        let mail = self.network.remove(place);
        match self.draw(20) {
            0 => {}
            1 => {
                self.network.push(mail.clone());
                self.deliver(mail);
            }
            _ => self.deliver(mail),
        }
    }

    fn deliver(&mut self, mail: Mail) {
        match mail {
            Mail::Request { to, from, body, entries } => {
                let node = to.0 as usize;
                let epoch = match body {
                    BackupRequest::Seal { epoch }
                    | BackupRequest::Open { epoch, .. }
                    | BackupRequest::Ship { epoch, .. } => epoch,
                };
                let steps_max = if self.draw(50) == 0 { self.draw(4) } else { usize::MAX };
                let Some(answer) = self.perform(node, &body, &entries, steps_max) else {
                    self.restart(node);
                    return;
                };
                // A node that follows a higher epoch leads no more.
                if self.members[node].disk.promised >= epoch && self.members[node].epoch < epoch {
                    self.members[node].step_down();
                }
                self.network.push(Mail::Answer { to: from, from: to, body: answer });
            }
            Mail::Answer { to, from, body } => {
                let node = to.0 as usize;
                let event = PromotionEvent::Answer { node: from, answer: body.clone() };
                self.promote(node, event);
                let copies: Vec<CopyId> = self.members[node].shippers.keys().copied().collect();
                for copy in copies.into_iter().filter(|copy| copy.node == from) {
                    self.ship(node, copy, ShipperEvent::Answer(body.clone()));
                }
            }
            Mail::Put(put) => {
                if put.expected == self.revision {
                    self.revision.0 += 1;
                    self.changes += usize::from(self.record.is_serving);
                    self.record = put.record;
                    self.end_lost_promises();
                }
            }
        }
    }

    fn tick(&mut self) {
        for node in 0..self.members.len() {
            self.tell_shippers(node, &ShipperEvent::Clock);
        }
    }

    fn disconnect(&mut self, node: usize) {
        let copies: Vec<CopyId> = self.members[node].shippers.keys().copied().collect();
        if !copies.is_empty() {
            let copy = copies[self.draw(copies.len())];
            self.ship(node, copy, ShipperEvent::Disconnected);
        }
    }

    fn tell_shippers(&mut self, node: usize, event: &ShipperEvent) {
        let copies: Vec<CopyId> = self.members[node].shippers.keys().copied().collect();
        for copy in copies {
            self.ship(node, copy, event.clone());
        }
    }

    fn ship(&mut self, node: usize, copy: CopyId, event: ShipperEvent) {
        let now = self.now;
        let member = &mut self.members[node];
        let Some(shipper) = member.shippers.get_mut(&copy) else { return };
        let actions = shipper.on(event, &Sizes, now);
        for action in actions {
            let member = &self.members[node];
            let (epoch, generation, to) = (member.epoch, copy.generation, copy.node);
            let (end, history) = (member.disk.held.end, &member.disk.history);
            match action {
                ShipperAction::Open { from } => {
                    let history = history.slice(from, end);
                    let body = BackupRequest::Open { epoch, generation, from, end, history };
                    let entries = EntryMap::new();
                    self.network.push(Mail::Request { to, from: member.id, body, entries });
                }
                ShipperAction::Ship { from, to: upto, watermark } => {
                    let entries: EntryMap =
                        member.entries.range(from..upto).map(|(p, e)| (*p, *e)).collect();
                    assert_eq!(entries.len() as u64, upto.0 - from.0);
                    let history = history.slice(from, upto);
                    let to_end = upto;
                    let body = BackupRequest::Ship {
                        epoch,
                        generation,
                        from,
                        to: to_end,
                        history,
                        watermark,
                    };
                    self.network.push(Mail::Request { to, from: member.id, body, entries });
                }
                ShipperAction::Matched(end) => {
                    self.promote(node, PromotionEvent::Matched { copy, end });
                    self.lead(node, SetEvent::Matched { copy, end });
                }
                ShipperAction::Deposed(_) => self.members[node].step_down(),
                ShipperAction::Silent(_)
                | ShipperAction::OtherGeneration(_)
                | ShipperAction::WakeAt(_) => {}
            }
        }
    }

    fn start_shipper(&mut self, node: usize, copy: CopyId, from: LogPosition) {
        let now = self.now;
        let member = &mut self.members[node];
        let end = member.disk.held.end;
        let shipper = Shipper::new(copy, member.epoch, from, end, LIMITS, now);
        member.shippers.insert(copy, shipper);
        self.ship(node, copy, ShipperEvent::Clock);
    }

    fn propose(&mut self, node: usize) {
        let set = self.some_set(node);
        self.lead(node, SetEvent::Propose { set, min_insync: 2 });
    }

    fn lead(&mut self, node: usize, event: SetEvent) {
        let Role::Leader(lead) = &mut self.members[node].role else { return };
        for action in lead.on(event) {
            match action {
                SetAction::Put(put) => self.network.push(Mail::Put(put)),
                SetAction::Ship { copy, from } => self.start_shipper(node, copy, from),
                SetAction::Stop(copy) => {
                    self.members[node].shippers.remove(&copy);
                }
                SetAction::Watermark(watermark) => {
                    let member = &mut self.members[node];
                    let by = (member.epoch, member.id);
                    let from = member.shown;
                    self.promises.acknowledge(by, &member.entries, from, watermark);
                    member.shown = watermark;
                    self.end_lost_promises();
                    self.tell_shippers(node, &ShipperEvent::Watermark(watermark));
                }
                SetAction::Deposed(_) => self.members[node].step_down(),
                SetAction::Rejected(_) => {}
            }
        }
    }

    fn promote(&mut self, node: usize, event: PromotionEvent) {
        let Role::Candidate(promotion) = &mut self.members[node].role else { return };
        let actions = promotion.on(event);
        self.act_on_promotion(node, actions);
    }

    fn act_on_promotion(&mut self, node: usize, actions: Vec<PromotionAction>) {
        let from = self.members[node].id;
        for action in actions {
            match action {
                PromotionAction::Seal { node: to, epoch } => {
                    let body = BackupRequest::Seal { epoch };
                    self.network.push(Mail::Request { to, from, body, entries: EntryMap::new() });
                }
                PromotionAction::Adopt { source, prefix, history } => {
                    self.adopt(node, source, prefix, &history);
                }
                PromotionAction::Ship { copy, from } => self.start_shipper(node, copy, from),
                PromotionAction::Stop(copy) => {
                    self.members[node].shippers.remove(&copy);
                }
                PromotionAction::Rejected(_) => {}
                PromotionAction::Put(put) => self.network.push(Mail::Put(put)),
                PromotionAction::Serve(lead) => {
                    let member = &mut self.members[node];
                    let open = lead.record().open.from;
                    let (by, end) = ((member.epoch, member.id), lead.watermark());
                    self.promises.acknowledge(by, &member.entries, open, end);
                    member.shown = end;
                    member.role = Role::Leader(lead);
                    self.tell_shippers(node, &ShipperEvent::Watermark(end));
                }
                PromotionAction::Deposed(_) => self.members[node].step_down(),
            }
        }
    }

    /// Opens the own copy with the prefix and fetches what it lacks, if the source still has it.
    fn adopt(&mut self, node: usize, source: CopyId, prefix: HeldRange, history: &EpochHistory) {
        let member = &self.members[node];
        let (epoch, generation) = (member.epoch, member.disk.generation);
        let HeldRange { from, end } = prefix;
        let open = BackupRequest::Open { epoch, generation, from, end, history: history.clone() };
        let source = &self.members[source.node.0 as usize].entries;
        let entries: EntryMap = source.range(from..end).map(|(p, e)| (*p, *e)).collect();
        let is_there = |p: u64| {
            let position = LogPosition(p);
            entries.get(&position).map(|entry| entry.0) == history.epoch_at(position)
        };
        if !(from.0..end.0).all(is_there) {
            self.promote(node, PromotionEvent::SourceLost);
            return;
        }
        self.perform(node, &open, &EntryMap::new(), usize::MAX);
        let start = self.members[node].disk.held.end;
        let watermark = LogPosition(0);
        let history = history.slice(start, end);
        let ship =
            BackupRequest::Ship { epoch, generation, from: start, to: end, history, watermark };
        self.perform(node, &ship, &entries, usize::MAX);
        assert_eq!(self.members[node].disk.held.end, end);
        self.promote(node, PromotionEvent::Adopted);
    }

    /// A node reads the record.
    fn read(&mut self, node: usize) {
        let (revision, record) = (self.revision, self.record.clone());
        let member = &mut self.members[node];
        let is_elected = record.leader == member.id && !record.is_serving;
        if is_elected && record.epoch > member.disk.promised {
            member.step_down();
            member.epoch = record.epoch;
            let (promotion, actions) = Promotion::new(member.id, revision, record);
            member.role = Role::Candidate(Box::new(promotion));
            self.act_on_promotion(node, actions);
        } else {
            let event = PromotionEvent::Read { revision, record: record.clone() };
            self.promote(node, event);
            self.lead(node, SetEvent::Read { revision, record });
        }
    }

    fn elect(&mut self, node: usize) {
        self.revision.0 += 1;
        self.record.epoch.0 += 1;
        self.record.leader = self.members[node].id;
        self.record.is_serving = false;
    }

    /// A process ends and starts again.
    fn restart(&mut self, node: usize) {
        let syncs = self.syncs == SyncsWhen::BeforeAnswer;
        let member = &mut self.members[node];
        member.step_down();
        if syncs {
            member.unsynced.clear();
        }
        member.copy = BackupCopy::new(member.disk.clone(), syncs);
    }

    /// A machine loses power: what was not synced is gone.
    fn cut_power(&mut self, node: usize) {
        self.incarnations += 1;
        let member = &mut self.members[node];
        if let Some(first) = member.unsynced.first().copied() {
            member.cut(first);
        }
        if self.syncs == SyncsWhen::Later {
            self.losses += 1;
            member.disk.generation = Incarnation(self.incarnations);
            member.disk.joined = None;
        }
        self.restart(node);
        self.end_lost_promises();
    }

    fn end_lost_promises(&mut self) {
        let generations = self.members.iter().map(|member| (member.id, member.disk.generation));
        self.promises.end_where_all_is_lost(&self.record, &generations.collect());
    }

    /// Without further faults a new record is acknowledged.
    pub(super) fn heal(&mut self) {
        self.network.clear();
        let acknowledged = self.promises.acknowledged_total;
        self.records = 0;
        for _ in 0..60 {
            for node in 0..self.members.len() {
                self.read(node);
            }
            let node = self.record.leader.0 as usize;
            let current = self.members[node].epoch == self.record.epoch;
            let set = CopySet::new((0..self.members.len()).map(|n| self.copy_of(n)));
            let whole = self.record.open.set.iter().all(|copy| set.contains(copy));
            match &self.members[node].role {
                Role::Leader(_) if current && whole => self.append(node),
                Role::Leader(lead) if current && !lead.is_changing() => {
                    self.lead(node, SetEvent::Propose { set, min_insync: 2 });
                }
                Role::Leader(_) if current => self.lead(node, SetEvent::Unavailable),
                Role::Candidate(_) if current => {
                    self.promote(node, PromotionEvent::Place { set, min_insync: 2 });
                    self.promote(node, PromotionEvent::Hurry);
                    self.promote(node, PromotionEvent::Retry);
                }
                _ => {
                    let full = self.record.open.set.iter().find(|copy| set.contains(*copy));
                    let chosen = full.or_else(|| self.record.open.set.iter().next());
                    self.elect(chosen.expect("a set has copies").node.0 as usize);
                }
            }
            for _ in 0..6 {
                self.now += Duration::from_secs(3);
                self.tick();
                for mail in std::mem::take(&mut self.network) {
                    self.deliver_whole(mail);
                }
                self.check();
            }
            if self.promises.acknowledged_total > acknowledged && self.records > 0 {
                return;
            }
        }
        panic!("the cluster does not serve again: {:?}", self.record);
    }

    /// Delivers without a crash.
    fn deliver_whole(&mut self, mail: Mail) {
        if let Mail::Request { to, from, body, entries } = mail {
            let node = to.0 as usize;
            let answer = self.perform(node, &body, &entries, usize::MAX);
            let body = answer.expect("every step is performed");
            self.network.push(Mail::Answer { to: from, from: to, body });
        } else {
            self.deliver(mail);
        }
    }
}

impl Member {
    fn step_down(&mut self) {
        self.role = Role::Backup;
        self.shippers.clear();
    }

    fn cut(&mut self, to: LogPosition) {
        self.entries.retain(|position, _| *position < to);
        self.unsynced.retain(|position| *position < to);
        self.disk.history.truncate(to);
        let held = &mut self.disk.held;
        if to < held.end {
            (held.from, held.end) = (held.from.min(to), to);
        }
    }
}
