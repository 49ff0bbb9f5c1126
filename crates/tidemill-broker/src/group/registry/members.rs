//! Requests of members.

use super::{CellState, GroupCell, GroupRegistry, ID_BYTES_MAX, RequestSender};
use crate::group::{
    join::Join,
    machine::GroupState,
    member::{JoinAnswer, NEW_MEMBER_BYTES, SyncAnswer, Ticket, protocols_bytes},
    sync::Sync,
};
use bytes::Bytes;
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};
use tidemill_wire::kafka::ErrorCode;
use tokio::sync::oneshot;

/// Characters of a client's name in the ids of its members.
const CLIENT_ID_CHARS: usize = 255;

/// A request to join.
#[derive(Clone, Debug)]
pub(crate) struct Joining {
    pub(crate) group: String,
    pub(crate) member_id: String,
    pub(crate) instance: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) protocol_type: String,
    pub(crate) protocols: Vec<(String, Bytes)>,
    pub(crate) session_ms: i32,
    pub(crate) rebalance_ms: i32,
    pub(crate) needs_known_id: bool,
    pub(crate) may_skip: bool,
}

/// A request for an assignment.
#[derive(Clone, Debug)]
pub(crate) struct Syncing {
    pub(crate) sender: RequestSender,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignments: BTreeMap<String, Bytes>,
}

/// Memory of a name or an id beside its bytes.
const TEXT_BYTES: usize = 64;

impl Joining {
    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let ids = [&self.group, &self.member_id, &self.client_id, &self.protocol_type];
        let instance = self.instance.as_ref().map_or(0, String::len);
        let ids: usize = ids.iter().map(|it| it.len() + TEXT_BYTES).sum();
        ids + instance + protocols_bytes(&self.protocols)
    }
}

impl Syncing {
    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let one = |(id, bytes): (&String, &Bytes)| id.len() + bytes.len() + 2 * TEXT_BYTES;
        self.sender.group.len()
            + self.sender.member_id.len()
            + self.assignments.iter().map(one).sum::<usize>()
    }
}

/// Checks that a group of this id may have members.
fn check_id(group: &str) -> Result<(), ErrorCode> {
    let is_one = !group.is_empty() && group.len() <= ID_BYTES_MAX;
    if is_one { Ok(()) } else { Err(ErrorCode::InvalidGroupId) }
}

impl GroupRegistry {
    /// Waits until the next generation begins, or not at all.
    pub(crate) async fn join(self: &Arc<Self>, joining: Joining) -> JoinAnswer {
        let member_id = joining.member_id.clone();
        match self.begin_join(joining) {
            Ok(answer) => answer.await.unwrap_or_else(|_| {
                JoinAnswer::refused(ErrorCode::CoordinatorNotAvailable, member_id)
            }),
            Err(error) => JoinAnswer::refused(error, member_id),
        }
    }

    /// Joins; the answer comes when there is one.
    pub(super) fn begin_join(
        self: &Arc<Self>,
        joining: Joining,
    ) -> Result<oneshot::Receiver<JoinAnswer>, ErrorCode> {
        check_id(&joining.group)?;
        let session_ms = u64::try_from(joining.session_ms).unwrap_or(0);
        if !(self.settings.session_ms_min..=self.settings.session_ms_max).contains(&session_ms) {
            return Err(ErrorCode::InvalidSessionTimeout);
        }
        let is_unknown = joining.member_id.is_empty();
        let name = joining.instance.as_ref().unwrap_or(&joining.client_id);
        let fresh_id = if is_unknown { self.fresh_id(name) } else { String::new() };
        let mut join = Join {
            ticket: Ticket(0),
            member_id: joining.member_id,
            fresh_id,
            instance: joining.instance,
            client_id: joining.client_id,
            client_host: joining.client_host,
            protocol_type: joining.protocol_type,
            protocols: joining.protocols,
            session_ms,
            rebalance_ms: u64::try_from(joining.rebalance_ms).unwrap_or(0),
            needs_known_id: joining.needs_known_id,
            may_skip: joining.may_skip,
        };
        let (answer, waits) = oneshot::channel();
        let instance = join.instance.as_ref().map_or(0, String::len);
        let bytes = protocols_bytes(&join.protocols) + join.client_id.len() + instance;
        let join = |_: &Arc<GroupCell>, inner: &mut CellState, now_ms| {
            // Who is in it, and asks as before, may stay.
            let more = match inner.group.member_bytes(&join.member_id) {
                0 => bytes + NEW_MEMBER_BYTES,
                before => bytes.saturating_sub(before),
            };
            if !self.has_room(more) {
                let refused = JoinAnswer::refused(ErrorCode::GroupMaxSizeReached, String::new());
                let _gone = answer.send(refused);
                return;
            }
            join.ticket = Ticket(inner.number());
            inner.joins.insert(join.ticket, answer);
            inner.group.join(now_ms, join);
        };
        if is_unknown {
            self.with_new(&joining.group, join).ok_or(ErrorCode::GroupMaxSizeReached)?;
        } else {
            self.with(&joining.group, join).ok_or(ErrorCode::UnknownMemberId)?;
        }
        Ok(waits)
    }

    /// An id for a member, which no member has: 128 bits are random.
    fn fresh_id(&self, name: &str) -> String {
        let name: String = name.chars().take(CLIENT_ID_CHARS).collect();
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{name}-{:016x}{:016x}", random.next(), random.next())
    }

    /// Waits until the leader has assigned.
    pub(crate) async fn sync(self: &Arc<Self>, syncing: Syncing) -> SyncAnswer {
        match self.begin_sync(syncing) {
            Ok(answer) => answer
                .await
                .unwrap_or_else(|_| SyncAnswer::refused(ErrorCode::CoordinatorNotAvailable)),
            Err(error) => SyncAnswer::refused(error),
        }
    }

    /// Asks for an assignment; the answer comes when there is one.
    pub(super) fn begin_sync(
        self: &Arc<Self>,
        syncing: Syncing,
    ) -> Result<oneshot::Receiver<SyncAnswer>, ErrorCode> {
        let sender = syncing.sender;
        check_id(&sender.group)?;
        let (answer, waits) = oneshot::channel();
        let bytes: usize = syncing.assignments.values().map(Bytes::len).sum();
        let sync = |_: &Arc<GroupCell>, inner: &mut CellState, now_ms| {
            let before = if bytes > 0 { inner.group.assigned_bytes() } else { 0 };
            if !self.has_room(bytes.saturating_sub(before)) {
                let _gone = answer.send(SyncAnswer::refused(ErrorCode::CoordinatorNotAvailable));
                return;
            }
            let ticket = Ticket(inner.number());
            inner.syncs.insert(ticket, answer);
            let sync = Sync {
                ticket,
                member_id: sender.member_id,
                instance: sender.instance,
                generation: sender.generation,
                protocol_type: syncing.protocol_type,
                protocol: syncing.protocol,
                assignments: syncing.assignments,
            };
            inner.group.sync(now_ms, sync);
        };
        self.with(&sender.group, sync).ok_or(ErrorCode::UnknownMemberId)?;
        Ok(waits)
    }

    /// A member says that it lives.
    pub(crate) fn heartbeat(self: &Arc<Self>, sender: &RequestSender) -> Result<(), ErrorCode> {
        check_id(&sender.group)?;
        let beat = |_: &Arc<GroupCell>, inner: &mut CellState, now_ms| {
            let instance = sender.instance.as_deref();
            inner.group.heartbeat(now_ms, &sender.member_id, instance, sender.generation)
        };
        self.with(&sender.group, beat).unwrap_or(Err(ErrorCode::UnknownMemberId))
    }

    /// Members say that they go, each by its id, or an administrator says so of a static one by
    /// its own. One answer for each; an error if there can be none.
    pub(crate) fn leave(
        self: &Arc<Self>,
        group: &str,
        members: &[(String, Option<String>)],
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        check_id(group)?;
        let leave = |_: &Arc<GroupCell>, inner: &mut CellState, now_ms| {
            if *inner.group.state() == GroupState::Dead {
                return Err(ErrorCode::CoordinatorNotAvailable);
            }
            let mut leave = |(id, instance): &(String, Option<String>)| {
                let left = inner.group.leave(now_ms, id, instance.as_deref());
                left.err().unwrap_or(ErrorCode::None)
            };
            Ok(members.iter().map(&mut leave).collect())
        };
        let nobody = || Ok(vec![ErrorCode::UnknownMemberId; members.len()]);
        self.with(group, leave).unwrap_or_else(nobody)
    }
}
