//! One group: its members, its generation, and its timers.
//!
//! ```text
//!            join                   all joined, or time is up          the leader assigned, stored
//!  Empty ──────────▶ Preparing ──────────────────▶ Completing ───────────────────▶ Stable
//!    ▲                 │   ▲                           │                              │
//!    └─ nobody joined ─┘   └────── join, leave, a session ended, the leader joins ────┘
//! ```
//!
//! The classic group protocol as Kafka's coordinator speaks it, with the ids of KIP-394, the static
//! members of KIP-345 and the skipped assignment of KIP-814. Cooperative rebalancing (KIP-429) is a
//! matter of clients: it needs nothing here.
//!
//! Facts come in as arguments, and commands go out as [`Decision`]s, which the shell takes after
//! each call. Nothing here reads a clock, waits, or takes a lock.
//!
//! Invariants:
//!
//! - Each ticket is answered once.
//! - A member has an assignment only of its group's generation, and only after it is stored.
//! - A request from outside this generation changes nothing. (K7.)
//! - Without events, but for time, a group becomes stable or empty.

use super::{
    event::GroupEvent,
    member::{JoinAnswer, Member, NEW_MEMBER_BYTES, SyncAnswer, Ticket},
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use tidemill_wire::{
    groups::{GROUP_VERSION, GroupRecord, subscribed_topics},
    kafka::ErrorCode,
};

/// The protocol type of groups whose members read topics.
pub(super) const CONSUMER: &str = "consumer";

/// Bounds and times that hold for every group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Members at most.
    pub(crate) members_max: usize,
    /// Bytes of all members at most.
    pub(crate) bytes_max: usize,
    /// The time that the first members wait for others.
    pub(crate) initial_delay_ms: u64,
}

/// A command to the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Answer this request to join.
    Joined(Ticket, JoinAnswer),
    /// Answer this request for an assignment.
    Synced(Ticket, SyncAnswer),
    /// Store this and call [`ConsumerGroup::stored`].
    Store(StoreId, GroupRecord),
}

/// One wish to store the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoreId(pub(crate) u64);

/// Where a group is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum GroupState {
    /// Nobody is in it.
    Empty,
    /// Members have to join again.
    Preparing(Preparing),
    /// All have joined; the leader has to assign.
    Completing,
    /// Each member has its assignment.
    Stable,
    /// It is being deleted.
    Dead,
}

/// The time limit for joining.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Preparing {
    pub(super) until_ms: u64,
    /// The rest of the time that the first members of an empty group wait for others.
    pub(super) initial_rest_ms: Option<u64>,
    /// A member came since `until_ms` was set.
    pub(super) grew: bool,
}

/// The assignment that is being stored.
#[derive(Debug)]
pub(super) struct Storing {
    pub(super) id: StoreId,
    pub(super) assignments: BTreeMap<String, Bytes>,
}

/// A group.
#[derive(Debug)]
pub(crate) struct ConsumerGroup {
    pub(super) rules: Rules,
    pub(super) state: GroupState,
    pub(super) generation: i32,
    pub(super) protocol_type: Option<String>,
    pub(super) protocol: Option<String>,
    pub(super) leader: Option<String>,
    /// Since when it is empty.
    pub(super) since_ms: u64,
    pub(super) members: BTreeMap<String, Member>,
    /// Static members: their own id, and the one they were given.
    pub(super) instances: BTreeMap<String, String>,
    /// Ids that were given to members that have yet to join with them, and until when. (KIP-394.)
    pub(super) promised: BTreeMap<String, u64>,
    /// The count of members that know each protocol.
    pub(super) known: BTreeMap<String, usize>,
    /// The count of members that wait for the next generation.
    pub(super) joining: usize,
    /// Bytes of all members.
    pub(super) bytes: usize,
    /// Until when all members must have asked for their assignments.
    pub(super) sync_until_ms: Option<u64>,
    pub(super) storing: Option<Storing>,
    /// Static members that came back under a new id, which is being stored; and the leader before.
    pub(super) replacing: BTreeMap<StoreId, (String, String)>,
    pub(super) next_number: u64,
    next_store: u64,
    /// Nothing is due before this.
    pub(super) alarm_ms: u64,
    decisions: Vec<Decision>,
    notices: Vec<GroupEvent>,
}

impl ConsumerGroup {
    /// A group without members.
    pub(crate) fn new(rules: Rules, now_ms: u64) -> Self {
        Self {
            rules,
            state: GroupState::Empty,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            since_ms: now_ms,
            members: BTreeMap::new(),
            instances: BTreeMap::new(),
            promised: BTreeMap::new(),
            known: BTreeMap::new(),
            joining: 0,
            bytes: 0,
            sync_until_ms: None,
            storing: None,
            replacing: BTreeMap::new(),
            next_number: 0,
            next_store: 0,
            alarm_ms: u64::MAX,
            decisions: Vec::new(),
            notices: Vec::new(),
        }
    }

    /// A group as it was stored; sessions of its members begin now.
    pub(crate) fn restored(rules: Rules, record: GroupRecord, now_ms: u64) -> Self {
        let mut group = Self::new(rules, now_ms);
        group.generation = record.generation;
        group.protocol_type = record.protocol_type;
        group.protocol = record.protocol;
        group.leader = record.leader;
        group.since_ms = record.since_ms;
        for record in record.members {
            let member = Member::restored(record, group.next_number, now_ms);
            group.insert(member);
        }
        if !group.members.is_empty() {
            group.state = GroupState::Stable;
            group.ensure_leader();
        }
        group
    }

    /// Takes the commands since the last call.
    pub(crate) fn take_decisions(&mut self) -> Vec<Decision> {
        std::mem::take(&mut self.decisions)
    }

    /// Takes the events since the last call.
    pub(crate) fn take_notices(&mut self) -> Vec<GroupEvent> {
        std::mem::take(&mut self.notices)
    }

    /// When [`ConsumerGroup::tick`] is to be called next, at the latest; it may turn out to be too early.
    pub(crate) fn alarm_ms(&self) -> u64 {
        self.alarm_ms
    }

    pub(crate) fn state(&self) -> &GroupState {
        &self.state
    }

    /// As it is told in answers.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.state {
            GroupState::Empty => "Empty",
            GroupState::Preparing(_) => "PreparingRebalance",
            GroupState::Completing => "CompletingRebalance",
            GroupState::Stable => "Stable",
            GroupState::Dead => "Dead",
        }
    }

    pub(crate) fn generation(&self) -> i32 {
        self.generation
    }

    pub(crate) fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    pub(crate) fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    /// Since when it is empty.
    pub(crate) fn since_ms(&self) -> u64 {
        self.since_ms
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// Bytes of its members, and of the ids promised to future ones.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.promised.len() * NEW_MEMBER_BYTES
    }

    /// Bytes of one member; 0 if it is none.
    pub(crate) fn member_bytes(&self, id: &str) -> usize {
        self.members.get(id).map_or(0, Member::bytes)
    }

    /// Bytes of the members' assignments.
    pub(crate) fn assigned_bytes(&self) -> usize {
        self.members.values().map(|it| it.assignment.len()).sum()
    }

    /// Nobody is in it, and nobody was promised that it may be.
    pub(crate) fn is_unused(&self) -> bool {
        self.state == GroupState::Empty && self.promised.is_empty()
    }

    /// True if its members are consumers, whose metadata name the topics they read.
    pub(crate) fn is_of_consumers(&self) -> bool {
        self.protocol_type() == Some(CONSUMER)
    }

    /// Topics that members read; none if that is not known, as before they agreed on a protocol, or
    /// of a member whose words nobody can read.
    pub(crate) fn subscribed(&self) -> Option<BTreeSet<String>> {
        let protocol = self.protocol.as_ref()?;
        let metadata = self.members.values().map(|it| it.metadata(protocol));
        let each = metadata.map(|it| subscribed_topics(&it)).collect::<Option<Vec<_>>>()?;
        Some(each.into_iter().flatten().collect())
    }

    /// It is about to be deleted: nobody gets in.
    pub(crate) fn kill(&mut self) {
        self.state = GroupState::Dead;
    }

    /// It was not deleted after all.
    pub(crate) fn revive(&mut self) {
        self.state = GroupState::Empty;
    }

    pub(super) fn decide(&mut self, decision: Decision) {
        self.decisions.push(decision);
    }

    pub(super) fn tell_log(&mut self, notice: GroupEvent) {
        self.notices.push(notice);
    }

    /// Lets the alarm ring at this time at the latest.
    pub(super) fn ring_at(&mut self, at_ms: u64) {
        self.alarm_ms = self.alarm_ms.min(at_ms);
    }

    /// Asks the shell to store the group as it is.
    pub(super) fn store(&mut self, record: GroupRecord) -> StoreId {
        self.next_store += 1;
        let id = StoreId(self.next_store);
        self.decide(Decision::Store(id, record));
        id
    }

    pub(crate) fn record(&self) -> GroupRecord {
        let mut members: Vec<&Member> = self.members.values().collect();
        members.sort_by_key(|it| it.number);
        GroupRecord {
            version: GROUP_VERSION,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            since_ms: self.since_ms,
            members: members.into_iter().map(Member::record).collect(),
        }
    }

    /// Takes a member in.
    pub(super) fn insert(&mut self, mut member: Member) {
        member.number = self.next_number;
        self.next_number += 1;
        self.ring_at(member.deadline_ms);
        self.put_back(member);
        self.ensure_leader();
    }

    /// Puts a member where it was.
    pub(super) fn put_back(&mut self, member: Member) {
        for (name, _) in &member.protocols {
            *self.known.entry(name.clone()).or_default() += 1;
        }
        self.joining += usize::from(member.join.is_some());
        self.bytes += member.bytes();
        if let Some(instance) = &member.instance {
            self.instances.insert(instance.clone(), member.id.clone());
        }
        self.members.insert(member.id.clone(), member);
    }

    /// Takes a member out, to change it or for good.
    pub(super) fn take_out(&mut self, id: &str) -> Option<Member> {
        let member = self.members.remove(id)?;
        for (name, _) in &member.protocols {
            if let Some(count) = self.known.get_mut(name) {
                *count -= 1;
            }
        }
        self.known.retain(|_, count| *count > 0);
        self.joining -= usize::from(member.join.is_some());
        self.bytes -= member.bytes();
        if let Some(instance) = &member.instance {
            self.instances.remove(instance);
        }
        Some(member)
    }

    /// The leader is a member, as long as there are any: else the one that came first.
    pub(super) fn ensure_leader(&mut self) {
        let known = self.leader.as_ref().is_some_and(|it| self.members.contains_key(it));
        if !known {
            let first = self.members.values().min_by_key(|it| it.number);
            self.leader = first.map(|it| it.id.clone());
        }
    }

    /// Longest time that a member wants for joining again.
    pub(super) fn rebalance_ms(&self) -> u64 {
        self.members.values().map(|it| it.rebalance_ms).max().unwrap_or(0)
    }

    /// Checks that a member id and instance id belong to one member of this group.
    pub(super) fn check_member(&self, id: &str, instance: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance {
            match self.instances.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(current) if current != id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// The same, and in this generation.
    pub(super) fn check_generation(
        &self,
        id: &str,
        instance: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        if self.state == GroupState::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        self.check_member(id, instance)?;
        if generation == self.generation { Ok(()) } else { Err(ErrorCode::IllegalGeneration) }
    }

    /// A member was heard of: its session begins anew.
    pub(super) fn heard_of(&mut self, id: &str, now_ms: u64) {
        if let Some(member) = self.members.get_mut(id) {
            member.deadline_ms = now_ms.saturating_add(member.session_ms);
            let deadline_ms = member.deadline_ms;
            self.ring_at(deadline_ms);
        }
    }

    /// A member says that it lives.
    pub(crate) fn heartbeat(
        &mut self,
        now_ms: u64,
        id: &str,
        instance: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        self.check_generation(id, instance, generation)?;
        self.heard_of(id, now_ms);
        match self.state {
            GroupState::Preparing(_) => Err(ErrorCode::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    /// Checks whether this sender may commit offsets. A generation below zero comes from outside
    /// the group, which must then be empty. A transaction may leave out the member. (KIP-447.)
    pub(crate) fn may_commit(
        &mut self,
        now_ms: u64,
        id: &str,
        instance: Option<&str>,
        generation: i32,
        transactional: bool,
    ) -> Result<(), ErrorCode> {
        if self.state == GroupState::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if generation < 0 {
            let is_nobody = id.is_empty() && instance.is_none();
            if self.state == GroupState::Empty || (is_nobody && transactional) {
                return Ok(());
            }
            if is_nobody {
                return Err(ErrorCode::UnknownMemberId);
            }
        }
        self.check_generation(id, instance, generation)?;
        if self.state == GroupState::Completing && !transactional {
            return Err(ErrorCode::RebalanceInProgress);
        }
        self.heard_of(id, now_ms);
        Ok(())
    }
}
