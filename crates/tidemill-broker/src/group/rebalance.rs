//! The rebalance: members join the next generation within a time limit, and absent ones go.

use super::{
    event::{EventCause, GroupEvent},
    machine::{ConsumerGroup, Decision, GroupState, Preparing},
    member::{JoinAnswer, Member, SyncAnswer},
};
use std::collections::BTreeMap;
use tidemill_wire::kafka::ErrorCode;

/// The shortest pause between two looks at absent static members.
const STATIC_WAIT_MS_MIN: u64 = 1_000;

impl ConsumerGroup {
    /// All members have to join again, if they do not have to already.
    pub(super) fn prepare(&mut self, now_ms: u64, why: EventCause) {
        match self.state {
            GroupState::Preparing(_) | GroupState::Dead => return,
            GroupState::Completing => self.refuse_syncs(ErrorCode::RebalanceInProgress),
            GroupState::Empty | GroupState::Stable => {}
        }
        self.tell_log(GroupEvent::Rebalances(why));
        self.sync_until_ms = None;
        self.storing = None;
        let rebalance_ms = self.rebalance_ms();
        let initial = self.state == GroupState::Empty;
        let wait_ms = if initial { self.rules.initial_delay_ms } else { rebalance_ms };
        let until_ms = now_ms.saturating_add(wait_ms);
        self.state = GroupState::Preparing(Preparing {
            until_ms,
            initial_rest_ms: initial.then(|| rebalance_ms.saturating_sub(wait_ms)),
            grew: false,
        });
        self.ring_at(until_ms);
    }

    /// Begins the next generation if nobody else is waited for.
    pub(super) fn go_on(&mut self, now_ms: u64) {
        let GroupState::Preparing(preparing) = &self.state else { return };
        let all = self.joining == self.members.len() && self.promised.is_empty();
        let waits = match preparing.initial_rest_ms {
            None => !all,
            Some(_) => self.rules.initial_delay_ms > 0,
        };
        if !waits {
            self.begin(now_ms);
        }
    }

    /// The time to join is over, or all have.
    fn begin(&mut self, now_ms: u64) {
        let gone = |it: &&Member| it.join.is_none() && it.instance.is_none();
        let gone: Vec<String> =
            self.members.values().filter(gone).map(|it| it.id.clone()).collect();
        for id in gone {
            self.take_out(&id);
            self.tell_log(GroupEvent::Gone(id, EventCause::DidNotJoin));
        }
        if self.joining == 0 && !self.members.is_empty() {
            // Only static members that have not come back: until one does, or their sessions end.
            let wait_ms = self.rebalance_ms().max(STATIC_WAIT_MS_MIN);
            let until_ms = now_ms.saturating_add(wait_ms);
            self.state =
                GroupState::Preparing(Preparing { until_ms, initial_rest_ms: None, grew: false });
            self.ring_at(until_ms);
            return;
        }
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        if self.members.is_empty() {
            self.become_empty(now_ms);
            return;
        }
        self.elect();
        self.protocol = self.vote();
        self.state = GroupState::Completing;
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.current(&id);
            let Some(mut member) = self.take_out(&id) else { continue };
            if let Some(ticket) = member.join.take() {
                self.decide(Decision::Joined(ticket, answer));
            }
            member.is_new = false;
            member.synced = false;
            self.put_back(member);
            self.heard_of(&id, now_ms);
        }
        let until_ms = now_ms.saturating_add(self.rebalance_ms());
        self.sync_until_ms = Some(until_ms);
        self.ring_at(until_ms);
    }

    fn become_empty(&mut self, now_ms: u64) {
        self.state = GroupState::Empty;
        self.tell_log(GroupEvent::Empty);
        self.protocol = None;
        self.leader = None;
        self.since_ms = now_ms;
        self.sync_until_ms = None;
        let record = self.record();
        self.store(record);
    }

    /// The leader is a member that has joined, the one before if it has.
    fn elect(&mut self) {
        let joined = |id: &String| self.members.get(id).is_some_and(|it| it.join.is_some());
        if !self.leader.as_ref().is_some_and(joined) {
            let joined = self.members.values().filter(|it| it.join.is_some());
            self.leader = joined.min_by_key(|it| it.number).map(|it| it.id.clone());
        }
    }

    /// The protocol that most members prefer of those that all know; the one that was voted for
    /// first, if several are. None: there are no members.
    pub(super) fn vote(&self) -> Option<String> {
        let all = self.members.len();
        let mut members: Vec<_> = self.members.values().collect();
        members.sort_by_key(|it| it.number);
        let mut votes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for (order, member) in members.into_iter().enumerate() {
            let known = |(name, _): &&(String, _)| self.known.get(name) == Some(&all);
            if let Some((name, _)) = member.protocols.iter().find(known) {
                let (count, _) = votes.entry(name).or_insert((0, order));
                *count += 1;
            }
        }
        let most =
            votes.into_iter().max_by_key(|(_, (count, first))| (*count, std::cmp::Reverse(*first)));
        most.map(|(name, _)| name.to_owned())
    }

    /// Removes a member. Its pending requests are answered with `UNKNOWN_MEMBER_ID`.
    pub(super) fn remove(&mut self, now_ms: u64, id: &str, why: EventCause) {
        let Some(member) = self.take_out(id) else { return };
        self.tell_log(GroupEvent::Gone(id.to_owned(), why));
        if let Some(ticket) = member.join {
            let answer = JoinAnswer::refused(ErrorCode::UnknownMemberId, "");
            self.decide(Decision::Joined(ticket, answer));
        }
        if let Some(ticket) = member.sync {
            let answer = SyncAnswer::refused(ErrorCode::UnknownMemberId);
            self.decide(Decision::Synced(ticket, answer));
        }
        self.ensure_leader();
        if matches!(self.state, GroupState::Stable | GroupState::Completing) {
            self.prepare(now_ms, EventCause::MemberGone);
        }
        self.go_on(now_ms);
    }

    /// A member says that it goes. With an empty id an administrator says so of a static one.
    pub(crate) fn leave(
        &mut self,
        now_ms: u64,
        id: &str,
        instance: Option<&str>,
    ) -> Result<(), ErrorCode> {
        if self.state == GroupState::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if id.is_empty() {
            let id = instance.and_then(|it| self.instances.get(it)).cloned();
            let id = id.ok_or(ErrorCode::UnknownMemberId)?;
            self.remove(now_ms, &id, EventCause::Left);
        } else if self.promised.remove(id).is_some() {
            self.go_on(now_ms);
        } else {
            self.check_member(id, instance)?;
            self.remove(now_ms, id, EventCause::Left);
        }
        Ok(())
    }

    /// Runs the timers: ends sessions, waits to join and waits for assignments.
    pub(crate) fn tick(&mut self, now_ms: u64) {
        if self.alarm_ms > now_ms {
            return;
        }
        self.promised.retain(|_, until_ms| *until_ms > now_ms);
        self.end_sessions(now_ms);
        if self.sync_until_ms.is_some_and(|it| it <= now_ms) {
            self.end_syncs(now_ms);
        }
        if let GroupState::Preparing(preparing) = &mut self.state
            && preparing.until_ms <= now_ms
        {
            let rest_ms = preparing.initial_rest_ms.unwrap_or(0);
            if std::mem::take(&mut preparing.grew) && rest_ms > 0 {
                let wait_ms = self.rules.initial_delay_ms.min(rest_ms);
                preparing.until_ms = now_ms.saturating_add(wait_ms);
                preparing.initial_rest_ms = Some(rest_ms - wait_ms);
            } else {
                self.begin(now_ms);
            }
        }
        self.go_on(now_ms);
        self.set_alarm();
    }

    fn end_sessions(&mut self, now_ms: u64) {
        let over = self.members.values().filter(|it| it.deadline_ms <= now_ms);
        let over: Vec<String> = over.map(|it| it.id.clone()).collect();
        for id in over {
            // One that goes may have been the last that was waited for: then the others were just told
            // the next generation.
            let still = self.members.get(&id).filter(|it| it.deadline_ms <= now_ms);
            let Some(member) = still else { continue };
            // Whoever waits for us need not say that it lives. A new one may be gone since long.
            if !member.is_new && (member.join.is_some() || member.sync.is_some()) {
                self.heard_of(&id, now_ms);
            } else {
                self.remove(now_ms, &id, EventCause::SessionEnded);
            }
        }
    }

    /// Members that did not ask for their assignment in time go.
    fn end_syncs(&mut self, now_ms: u64) {
        self.sync_until_ms = None;
        let late = self.members.values().filter(|it| !it.synced);
        let late: Vec<String> = late.map(|it| it.id.clone()).collect();
        if late.is_empty() || !matches!(self.state, GroupState::Completing | GroupState::Stable) {
            return;
        }
        self.prepare(now_ms, EventCause::DidNotSync);
        late.iter().for_each(|id| self.remove(now_ms, id, EventCause::DidNotSync));
    }

    /// Finds out when the next thing is due.
    fn set_alarm(&mut self) {
        let sessions = self.members.values().map(|it| it.deadline_ms);
        let promised = self.promised.values().copied();
        let preparing = match &self.state {
            GroupState::Preparing(preparing) => Some(preparing.until_ms),
            _ => None,
        };
        let all = sessions.chain(promised).chain(preparing).chain(self.sync_until_ms);
        self.alarm_ms = all.min().unwrap_or(u64::MAX);
    }
}
