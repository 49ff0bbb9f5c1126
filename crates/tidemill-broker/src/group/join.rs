//! Joining a group.

use super::{
    event::EventCause,
    machine::{ConsumerGroup, Decision, GroupState},
    member::{JoinAnswer, Member, Ticket, protocols_bytes},
    subscription::same_protocols,
};
use bytes::Bytes;
use std::collections::BTreeSet;
use tidemill_wire::kafka::ErrorCode;

/// A new member does not know its id before the next generation, so it cannot say that it lives.
/// After this long it is taken for gone; it asks again if it is not.
const NEW_MEMBER_MS: u64 = 300_000;

/// A request to join, as the machine needs it.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub(crate) ticket: Ticket,
    /// Empty if it has none yet.
    pub(crate) member_id: String,
    /// An id that nobody has, for a member that has none.
    pub(crate) fresh_id: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) protocol_type: String,
    /// Best first.
    pub(crate) protocols: Vec<(String, Bytes)>,
    pub(crate) session_ms: u64,
    pub(crate) rebalance_ms: u64,
    /// A member without an id is told one, and has to ask again with it. (KIP-394.)
    pub(crate) needs_known_id: bool,
    /// It understands that it need not assign. (KIP-814.)
    pub(crate) may_skip: bool,
}

impl ConsumerGroup {
    /// Somebody wants to be in the next generation. The answer may come at once or much later.
    pub(crate) fn join(&mut self, now_ms: u64, mut join: Join) {
        let mut seen = BTreeSet::new();
        join.protocols.retain(|(name, _)| seen.insert(name.clone()));
        let (ticket, member_id) = (join.ticket, join.member_id.clone());
        let refused = if !self.has_room(&join) {
            self.forget(now_ms, &member_id);
            Err((ErrorCode::GroupMaxSizeReached, String::new()))
        } else if self.state == GroupState::Dead {
            Err((ErrorCode::CoordinatorNotAvailable, member_id))
        } else if !self.is_compatible(&join) {
            Err((ErrorCode::InconsistentGroupProtocol, member_id))
        } else if member_id.is_empty() {
            self.join_without_id(now_ms, join)
        } else {
            self.join_with_id(now_ms, join).map_err(|error| (error, member_id))
        };
        if let Err((error, id)) = refused {
            self.decide(Decision::Joined(ticket, JoinAnswer::refused(error, id)));
        }
        self.go_on(now_ms);
    }

    /// True if the group has room for this member. A member keeps its place, unless the group
    /// filled up while it had not joined the next generation.
    fn has_room(&self, join: &Join) -> bool {
        let max = self.rules.members_max;
        let current = self.current_member(join);
        let bytes = self.bytes - current.map_or(0, Member::bytes);
        if bytes + protocols_bytes(&join.protocols) > self.rules.bytes_max {
            return false;
        }
        match &self.state {
            GroupState::Empty | GroupState::Dead => true,
            GroupState::Preparing(_) => {
                current.is_some_and(|it| it.join.is_some()) || self.joining < max
            }
            GroupState::Completing | GroupState::Stable => {
                current.is_some() || self.members.len() < max
            }
        }
    }

    /// The member whose place a request would take: the static one of its instance id, else the one
    /// of its member id.
    fn current_member(&self, join: &Join) -> Option<&Member> {
        match &join.instance {
            Some(instance) => self.instances.get(instance).and_then(|id| self.members.get(id)),
            None => self.members.get(&join.member_id),
        }
    }

    /// True if a member with these protocols can be in one group with the others. The member whose
    /// place it takes has no say: alone in its group, a member may come back with other protocols.
    fn is_compatible(&self, join: &Join) -> bool {
        let current = self.current_member(join);
        let others = self.members.len() - usize::from(current.is_some());
        if others == 0 {
            return !join.protocol_type.is_empty() && !join.protocols.is_empty();
        }
        let all_know = |name: &str| {
            let by_current = current.is_some_and(|it| it.knows(name));
            self.known.get(name).map_or(0, |it| it - usize::from(by_current)) == others
        };
        self.protocol_type() == Some(join.protocol_type.as_str())
            && join.protocols.iter().any(|(name, _)| all_know(name))
    }

    /// Removes the member of this id. Its pending requests are refused.
    fn forget(&mut self, now_ms: u64, id: &str) {
        self.promised.remove(id);
        if self.members.contains_key(id) {
            self.remove(now_ms, id, EventCause::NoRoom);
        }
    }

    fn join_without_id(&mut self, now_ms: u64, join: Join) -> Result<(), (ErrorCode, String)> {
        let known = join.instance.as_ref().and_then(|it| self.instances.get(it)).cloned();
        if let Some(old_id) = known {
            self.come_back(now_ms, &old_id, join);
            return Ok(());
        }
        let id = join.fresh_id.clone();
        if join.instance.is_none() && join.needs_known_id {
            if self.promised.len() >= self.rules.members_max {
                return Err((ErrorCode::GroupMaxSizeReached, String::new()));
            }
            let until_ms = now_ms.saturating_add(join.session_ms);
            self.promised.insert(id.clone(), until_ms);
            self.ring_at(until_ms);
            return Err((ErrorCode::MemberIdRequired, id));
        }
        self.add(now_ms, id, join);
        Ok(())
    }

    fn join_with_id(&mut self, now_ms: u64, join: Join) -> Result<(), ErrorCode> {
        let id = join.member_id.clone();
        if self.promised.contains_key(&id) {
            if join.instance.is_some() {
                // Static members are never promised an id: it has somebody else's.
                return Err(ErrorCode::UnknownMemberId);
            }
            self.promised.remove(&id);
            self.add(now_ms, id, join);
            return Ok(());
        }
        self.check_member(&id, join.instance.as_deref())?;
        let member = self.members.get(&id).ok_or(ErrorCode::UnknownMemberId)?;
        let is_leader = self.leader.as_ref() == Some(&id);
        let as_before = member.protocols == join.protocols
            && self.protocol_type() == Some(join.protocol_type.as_str());
        match self.state {
            GroupState::Preparing(_) => self.update(now_ms, &id, join),
            // Its last answer may have been lost, or it only asks what there is.
            GroupState::Completing if as_before => self.tell(now_ms, &join, &id),
            GroupState::Stable if as_before && !is_leader => self.tell(now_ms, &join, &id),
            // A leader that joins again has seen something that the others have not.
            GroupState::Completing | GroupState::Stable => self.update(now_ms, &id, join),
            GroupState::Empty | GroupState::Dead => return Err(ErrorCode::UnknownMemberId),
        }
        Ok(())
    }

    fn add(&mut self, now_ms: u64, id: String, join: Join) {
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type);
        }
        if let GroupState::Preparing(preparing) = &mut self.state {
            preparing.grew = true;
        }
        let member = Member {
            id,
            instance: join.instance,
            client_id: join.client_id,
            client_host: join.client_host,
            session_ms: join.session_ms,
            rebalance_ms: join.rebalance_ms,
            protocols: join.protocols,
            assignment: Bytes::new(),
            number: 0,
            join: Some(join.ticket),
            may_skip: join.may_skip,
            sync: None,
            synced: false,
            is_new: true,
            deadline_ms: now_ms.saturating_add(NEW_MEMBER_MS),
        };
        self.insert(member);
        self.prepare(now_ms, EventCause::Joined);
    }

    /// A member joins again, and all others have to.
    fn update(&mut self, now_ms: u64, id: &str, join: Join) {
        self.rejoin(id, join);
        self.prepare(now_ms, EventCause::JoinedAgain);
    }

    /// Lets a member wait for the next generation.
    fn rejoin(&mut self, id: &str, join: Join) {
        let Some(mut member) = self.take_out(id) else { return };
        if let Some(earlier) = member.join.replace(join.ticket) {
            // It asked twice: only the newest of its requests is still waited for.
            let answer = JoinAnswer::refused(ErrorCode::RebalanceInProgress, id);
            self.decide(Decision::Joined(earlier, answer));
        }
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type);
        }
        member.may_skip = join.may_skip;
        member.client_id = join.client_id;
        member.client_host = join.client_host;
        member.protocols = join.protocols;
        member.session_ms = join.session_ms;
        member.rebalance_ms = join.rebalance_ms;
        self.put_back(member);
    }

    /// A static member comes back without its id: it was restarted. It takes its former place under
    /// a new id, and its former self is fenced. (KIP-345.)
    ///
    /// The generation stays only if the leader would assign the same again. Else all members join
    /// again: the leader has assigned by the former subscription. (Apache Kafka compares the chosen
    /// protocol alone: KAFKA-12759.)
    fn come_back(&mut self, now_ms: u64, old_id: &str, join: Join) {
        let old_leader = self.leader.clone().unwrap_or_default();
        let Some(mut member) = self.take_out(old_id) else { return };
        let protocol_type = join.protocol_type.as_str();
        let is_unchanged = self.protocol_type() == Some(protocol_type)
            && same_protocols(protocol_type, &member.protocols, &join.protocols);
        if let Some(ticket) = member.join.take() {
            let answer = JoinAnswer::refused(ErrorCode::FencedInstanceId, old_id);
            self.decide(Decision::Joined(ticket, answer));
        }
        if let Some(ticket) = member.sync.take() {
            self.fence_sync(ticket);
        }
        let (id, may_skip) = (join.fresh_id.clone(), join.may_skip);
        member.id.clone_from(&id);
        member.is_new = false;
        self.put_back(member);
        if old_leader == old_id {
            self.leader = Some(id.clone());
        }
        self.rejoin(&id, join);
        self.heard_of(&id, now_ms);
        match self.state {
            GroupState::Stable if is_unchanged && self.vote() == self.protocol => {
                // What it is assigned does not change, so nobody else need notice. An answer
                // before the new id is stored would fence it if the node fell.
                let leader = if may_skip { id.clone() } else { old_leader };
                let store = self.store(self.record());
                self.replacing.insert(store, (id, leader));
            }
            GroupState::Stable | GroupState::Completing => {
                self.prepare(now_ms, EventCause::CameBack)
            }
            GroupState::Preparing(_) | GroupState::Empty | GroupState::Dead => {}
        }
    }

    /// The id of a static member that came back is stored, or not.
    pub(super) fn came_back(&mut self, now_ms: u64, id: &str, leader: &str, stored: bool) {
        // A rebalance that began meanwhile has answered it, or will.
        if self.state != GroupState::Stable {
            return;
        }
        let Some(mut member) = self.take_out(id) else { return };
        let ticket = member.join.take();
        let may_skip = member.may_skip;
        self.put_back(member);
        let Some(ticket) = ticket else { return };
        let answer = if stored {
            // One that may not skip is told the leader of before: if it is that one itself, it
            // does not recognize its new id, and assigns nothing.
            let mut answer = self.current(id);
            if !may_skip {
                answer.leader = leader.to_owned();
                answer.members.clear();
            }
            answer.skip_assignment = may_skip && answer.leader == id;
            answer
        } else {
            JoinAnswer::refused(ErrorCode::CoordinatorNotAvailable, "")
        };
        self.decide(Decision::Joined(ticket, answer));
        self.heard_of(id, now_ms);
    }

    /// Tells a member the current generation.
    fn tell(&mut self, now_ms: u64, join: &Join, id: &str) {
        if let Some(member) = self.members.get_mut(id) {
            // Times are the member's own affair: no assignment depends on them.
            member.session_ms = join.session_ms;
            member.rebalance_ms = join.rebalance_ms;
        }
        let answer = self.current(id);
        self.decide(Decision::Joined(join.ticket, answer));
        self.heard_of(id, now_ms);
    }

    /// The current generation, as a member is told.
    pub(super) fn current(&self, id: &str) -> JoinAnswer {
        let leader = self.leader.clone().unwrap_or_default();
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let mut members: Vec<&Member> = Vec::new();
        if leader == id {
            members = self.members.values().collect();
            members.sort_by_key(|it| it.number);
        }
        let told = |it: &Member| (it.id.clone(), it.instance.clone(), it.metadata(protocol));
        JoinAnswer {
            error: ErrorCode::None,
            member_id: id.to_owned(),
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            skip_assignment: false,
            members: members.into_iter().map(told).collect(),
            leader,
        }
    }
}
