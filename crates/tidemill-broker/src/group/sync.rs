//! From joined to stable: the leader's assignment is stored and handed out.

use super::{
    event::{EventCause, GroupEvent},
    machine::{ConsumerGroup, Decision, GroupState, StoreId, Storing},
    member::{SyncAnswer, Ticket},
};
use bytes::Bytes;
use std::collections::BTreeMap;
use tidemill_wire::kafka::ErrorCode;

/// A request for an assignment, as the machine needs it.
#[derive(Clone, Debug)]
pub(crate) struct Sync {
    pub(crate) ticket: Ticket,
    pub(crate) member_id: String,
    pub(crate) instance: Option<String>,
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    /// By member; from the leader.
    pub(crate) assignments: BTreeMap<String, Bytes>,
}

impl ConsumerGroup {
    /// A member asks for its assignment. The leader's request carries all assignments.
    pub(crate) fn sync(&mut self, now_ms: u64, sync: Sync) {
        let ticket = sync.ticket;
        if let Err(error) = self.try_sync(now_ms, sync) {
            self.decide(Decision::Synced(ticket, SyncAnswer::refused(error)));
        }
        self.go_on(now_ms);
    }

    fn try_sync(&mut self, now_ms: u64, sync: Sync) -> Result<(), ErrorCode> {
        let id = sync.member_id;
        self.check_generation(&id, sync.instance.as_deref(), sync.generation)?;
        let differs = |said: &Option<String>, ours: &Option<String>| said.is_some() && said != ours;
        if differs(&sync.protocol_type, &self.protocol_type)
            || differs(&sync.protocol, &self.protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match self.state {
            GroupState::Empty | GroupState::Dead => return Err(ErrorCode::UnknownMemberId),
            GroupState::Preparing(_) => return Err(ErrorCode::RebalanceInProgress),
            GroupState::Stable => {
                self.mark_synced(&id);
                let answer = self.assigned(&id);
                self.decide(Decision::Synced(sync.ticket, answer));
                self.heard_of(&id, now_ms);
            }
            GroupState::Completing => {
                let is_leader = self.leader.as_ref() == Some(&id);
                let bytes: usize = sync.assignments.values().map(Bytes::len).sum();
                if is_leader && self.bytes + bytes > self.rules.bytes_max {
                    return Err(ErrorCode::InvalidRequest);
                }
                self.mark_synced(&id);
                let member = self.members.get_mut(&id).ok_or(ErrorCode::UnknownMemberId)?;
                if let Some(earlier) = member.sync.replace(sync.ticket) {
                    let answer = SyncAnswer::refused(ErrorCode::RebalanceInProgress);
                    self.decide(Decision::Synced(earlier, answer));
                }
                if is_leader && self.storing.is_none() {
                    self.assign(sync.assignments);
                }
            }
        }
        Ok(())
    }

    /// Stores the leader's assignments. They take effect once they are stored.
    fn assign(&mut self, mut assignments: BTreeMap<String, Bytes>) {
        assignments.retain(|id, _| self.members.contains_key(id));
        let mut record = self.record();
        for member in &mut record.members {
            member.assignment =
                assignments.get(&member.id).map(|it| it.to_vec()).unwrap_or_default();
        }
        let id = self.store(record);
        self.storing = Some(Storing { id, assignments });
    }

    /// The outcome of [`Decision::Store`].
    pub(crate) fn stored(&mut self, now_ms: u64, id: StoreId, is_stored: bool) {
        if let Some((member, leader)) = self.replacing.remove(&id) {
            self.came_back(now_ms, &member, &leader, is_stored);
        }
        // If the group has gone on meanwhile, it waits for another one or for none.
        if let Some(storing) = self.storing.take_if(|it| it.id == id) {
            if is_stored {
                self.hand_out(now_ms, storing.assignments);
            } else {
                self.refuse_syncs(ErrorCode::CoordinatorNotAvailable);
                self.prepare(now_ms, EventCause::NotStored);
            }
        }
        self.go_on(now_ms);
    }

    fn hand_out(&mut self, now_ms: u64, mut assignments: BTreeMap<String, Bytes>) {
        self.state = GroupState::Stable;
        self.tell_log(GroupEvent::Stable);
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let Some(mut member) = self.take_out(&id) else { continue };
            member.assignment = assignments.remove(&id).unwrap_or_default();
            let waits = member.sync.take();
            self.put_back(member);
            if let Some(ticket) = waits {
                let answer = self.assigned(&id);
                self.decide(Decision::Synced(ticket, answer));
                self.heard_of(&id, now_ms);
            }
        }
    }

    /// Clears all assignments and refuses the members that wait for one.
    pub(super) fn refuse_syncs(&mut self, error: ErrorCode) {
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let Some(mut member) = self.take_out(&id) else { continue };
            member.assignment = Bytes::new();
            let waits = member.sync.take();
            self.put_back(member);
            if let Some(ticket) = waits {
                self.decide(Decision::Synced(ticket, SyncAnswer::refused(error)));
            }
        }
    }

    /// The former self of a static member that came back waited here.
    pub(super) fn fence_sync(&mut self, ticket: Ticket) {
        let answer = SyncAnswer::refused(ErrorCode::FencedInstanceId);
        self.decide(Decision::Synced(ticket, answer));
    }

    fn mark_synced(&mut self, id: &str) {
        if let Some(member) = self.members.get_mut(id) {
            member.synced = true;
        }
    }

    fn assigned(&self, id: &str) -> SyncAnswer {
        let assignment = self.members.get(id).map(|it| it.assignment.clone());
        SyncAnswer {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: assignment.unwrap_or_default(),
        }
    }
}
