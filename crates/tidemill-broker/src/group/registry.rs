//! All groups of the node: the shell around [`machine`](super::machine) and
//! [`offsets`](super::offsets).
//!
//! Each group has a lock of its own. A call takes it, asks the machine, hands changes to the store,
//! and lets go. Requests that must wait do so on a channel. The store's notifications take the same
//! lock, so a thread that holds one never waits for the store.
//!
//! Time is the node's running time: it stands still while the node does not run, and no clock that
//! jumps can end a session or make an offset old.

mod commits;
mod members;
mod recovery;
mod removal;
#[cfg(test)]
mod tests;
mod timers;

use super::{
    event::GroupEvent,
    machine::{ConsumerGroup, Decision, Rules, StoreId},
    member::{JoinAnswer, SyncAnswer, Ticket},
    offsets::GroupOffsets,
};
use crate::{
    settings::GroupSettings,
    store::{MetadataStore, StoreBatch, StoreError, StoreTable},
};
pub(crate) use commits::{NewOffset, RequestSender};
pub(crate) use members::{Joining, Syncing};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};
use tidemill_env::{Random, World};
use tidemill_wire::kafka::ErrorCode;
use timers::Alarms;
use tokio::sync::{Notify, oneshot};

/// Bytes of a group's id: the most that every version of the protocol can carry.
const ID_BYTES_MAX: usize = i16::MAX as usize;
/// Bytes of a group without members, its id aside, which is there twice.
const GROUP_BYTES: usize = 1_024;
/// The bound of all groups together, in multiples of the bound of one.
const ALL_FACTOR: usize = 64;

/// All groups.
pub(crate) struct GroupRegistry {
    world: World,
    store: Arc<MetadataStore>,
    settings: GroupSettings,
    cells: RwLock<BTreeMap<String, Arc<GroupCell>>>,
    alarms: Alarms,
    /// For ids of members.
    random: Mutex<Random>,
    /// Offsets of all groups.
    offset_count: AtomicUsize,
    /// Bytes of all groups and their members.
    bytes: AtomicUsize,
    /// The node's running time before this start, in milliseconds.
    ran_before_ms: u64,
    began_us: u64,
}

/// A group with its waiting requests.
struct GroupCell {
    id: String,
    inner: Mutex<CellState>,
    /// The store has something of this group, or has not.
    settled: Notify,
}

struct CellState {
    group: ConsumerGroup,
    offsets: GroupOffsets,
    joins: BTreeMap<Ticket, oneshot::Sender<JoinAnswer>>,
    syncs: BTreeMap<Ticket, oneshot::Sender<SyncAnswer>>,
    next_number: u64,
    /// Keys of offsets that the store was given and has not answered for.
    writing: BTreeMap<u64, OffsetWrite>,
    /// Its part of [`GroupRegistry::offset_count`].
    counted: usize,
    /// Its part of [`GroupRegistry::bytes`].
    counted_bytes: usize,
    /// When the alarm is set for.
    alarm_ms: u64,
    /// It was deleted: a caller with this cell looks the group up again.
    is_gone: bool,
}

/// Offsets on their way to the store.
struct OffsetWrite {
    /// Of a transaction.
    producer_id: Option<i64>,
    keys: Vec<(StoreTable, Vec<u8>)>,
}

/// A group in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupListing {
    pub(crate) id: String,
    pub(crate) protocol_type: String,
    pub(crate) state: &'static str,
}

/// A group with its members.
#[derive(Clone, Debug)]
pub(crate) struct GroupDescription {
    pub(crate) state: &'static str,
    pub(crate) protocol_type: String,
    /// Empty unless the group is stable; so are the metadata of its members.
    pub(crate) protocol: String,
    pub(crate) members: Vec<super::member::Member>,
}

/// Bytes of a group without members.
fn group_bytes(id: &str) -> usize {
    2 * id.len() + GROUP_BYTES
}

/// The store's error, as clients are told: all may try again.
fn code_of(error: &StoreError) -> ErrorCode {
    match error {
        StoreError::TooLarge { .. } => ErrorCode::InvalidCommitOffsetSize,
        _ => ErrorCode::CoordinatorNotAvailable,
    }
}

/// Writes the events of a group to the node's log.
fn log(id: &str, group: &mut ConsumerGroup) {
    let (generation, members) = (group.generation(), group.members().count());
    for notice in group.take_notices() {
        match notice {
            GroupEvent::Rebalances(why) => {
                tracing::info!(group = id, generation, members, %why, "a group rebalances");
            }
            GroupEvent::Gone(member, why) => {
                tracing::info!(group = id, member, %why, "a member of a group is gone");
            }
            GroupEvent::Stable => {
                tracing::info!(group = id, generation, members, "a group is stable")
            }
            GroupEvent::Empty => tracing::info!(group = id, generation, "a group is empty"),
        }
    }
}

impl GroupCell {
    fn new(id: &str, group: ConsumerGroup, offsets: GroupOffsets) -> Arc<Self> {
        Arc::new(Self {
            id: id.to_owned(),
            inner: Mutex::new(CellState {
                group,
                offsets,
                joins: BTreeMap::new(),
                syncs: BTreeMap::new(),
                next_number: 0,
                writing: BTreeMap::new(),
                counted: 0,
                counted_bytes: 0,
                alarm_ms: u64::MAX,
                is_gone: false,
            }),
            settled: Notify::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, CellState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CellState {
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

impl GroupRegistry {
    /// Milliseconds of the node's running time.
    pub(crate) fn now_ms(&self) -> u64 {
        let passed_us = self.world.clock.monotonic_micros().saturating_sub(self.began_us);
        self.ran_before_ms + passed_us / 1000
    }

    fn rules(settings: &GroupSettings) -> Rules {
        Rules {
            members_max: settings.members,
            bytes_max: usize::try_from(settings.group_bytes.0).unwrap_or(usize::MAX),
            initial_delay_ms: settings.initial_delay_ms,
        }
    }

    pub(crate) fn settings(&self) -> &GroupSettings {
        &self.settings
    }

    fn cell(&self, id: &str) -> Option<Arc<GroupCell>> {
        self.cells.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    fn all(&self) -> Vec<Arc<GroupCell>> {
        self.cells.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// The group of an id, made if it is not there. None: there are too many.
    fn cell_or_new(&self, id: &str) -> Option<Arc<GroupCell>> {
        if let Some(cell) = self.cell(id) {
            return Some(cell);
        }
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = cells.get(id) {
            return Some(Arc::clone(cell));
        }
        if cells.len() >= self.settings.groups || !self.has_room(group_bytes(id)) {
            return None;
        }
        let group = ConsumerGroup::new(Self::rules(&self.settings), self.now_ms());
        let cell = GroupCell::new(id, group, GroupOffsets::default());
        cells.insert(id.to_owned(), Arc::clone(&cell));
        Some(cell)
    }

    /// Calls `act` with a group, then carries out the machine's decisions. None: there is no such
    /// group.
    fn with<T>(
        self: &Arc<Self>,
        id: &str,
        act: impl FnOnce(&Arc<GroupCell>, &mut CellState, u64) -> T,
    ) -> Option<T> {
        loop {
            let cell = self.cell(id)?;
            let mut inner = cell.lock();
            if !inner.is_gone {
                return Some(self.act(&cell, &mut inner, act));
            }
        }
    }

    /// The same, with a group that is made if it is not there. None: there are too many.
    fn with_new<T>(
        self: &Arc<Self>,
        id: &str,
        act: impl FnOnce(&Arc<GroupCell>, &mut CellState, u64) -> T,
    ) -> Option<T> {
        loop {
            let cell = self.cell_or_new(id)?;
            let mut inner = cell.lock();
            if !inner.is_gone {
                return Some(self.act(&cell, &mut inner, act));
            }
        }
    }

    fn act<T>(
        self: &Arc<Self>,
        cell: &Arc<GroupCell>,
        inner: &mut CellState,
        act: impl FnOnce(&Arc<GroupCell>, &mut CellState, u64) -> T,
    ) -> T {
        let now_ms = self.now_ms();
        let outcome = act(cell, inner, now_ms);
        self.settle(cell, inner, now_ms);
        outcome
    }

    /// Carries out the machine's decisions.
    fn settle(self: &Arc<Self>, cell: &Arc<GroupCell>, inner: &mut CellState, now_ms: u64) {
        loop {
            let decisions = inner.group.take_decisions();
            if decisions.is_empty() {
                break;
            }
            for decision in decisions {
                match decision {
                    Decision::Joined(ticket, answer) => {
                        if let Some(waits) = inner.joins.remove(&ticket) {
                            let _gone = waits.send(answer);
                        }
                    }
                    Decision::Synced(ticket, answer) => {
                        if let Some(waits) = inner.syncs.remove(&ticket) {
                            let _gone = waits.send(answer);
                        }
                    }
                    Decision::Store(id, record) => {
                        let mut batch = StoreBatch::default();
                        batch.put(StoreTable::Groups, cell.id.as_str(), record.encode());
                        let (groups, of) = (Arc::clone(self), Arc::clone(cell));
                        let notice = move |outcome: Result<(), StoreError>| {
                            groups.stored(&of, id, outcome);
                        };
                        if let Err(error) = self.store.commit_then(batch, Box::new(notice)) {
                            tracing::warn!(group = cell.id, %error, "a group is not stored");
                            inner.group.stored(now_ms, id, false);
                        }
                    }
                }
            }
        }
        log(&cell.id, &mut inner.group);
        let at_ms = inner.group.alarm_ms();
        if at_ms < inner.alarm_ms {
            inner.alarm_ms = at_ms;
            self.alarms.set(at_ms, &cell.id);
        }
        self.weigh(cell, inner);
    }

    /// Counts the bytes of a group after it changed.
    fn weigh(&self, cell: &GroupCell, inner: &mut CellState) {
        let bytes = if inner.is_gone { 0 } else { group_bytes(&cell.id) + inner.group.bytes() };
        if bytes != inner.counted_bytes {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
            self.bytes.fetch_sub(inner.counted_bytes, Ordering::Relaxed);
            inner.counted_bytes = bytes;
        }
    }

    /// True if all groups together may grow by this many bytes.
    fn has_room(&self, more: usize) -> bool {
        let one = usize::try_from(self.settings.group_bytes.0).unwrap_or(usize::MAX);
        let all = self.bytes.load(Ordering::Relaxed).saturating_add(more);
        more == 0 || all <= one.saturating_mul(ALL_FACTOR)
    }

    fn stored(
        self: &Arc<Self>,
        cell: &Arc<GroupCell>,
        id: StoreId,
        outcome: Result<(), StoreError>,
    ) {
        if let Err(error) = &outcome {
            tracing::warn!(group = cell.id, %error, "a group is not stored");
        }
        let mut inner = cell.lock();
        let store = |_: &Arc<GroupCell>, inner: &mut CellState, now_ms| {
            inner.group.stored(now_ms, id, outcome.is_ok());
        };
        self.act(cell, &mut inner, store);
    }

    /// Counts the offsets of a group after they changed.
    fn count(&self, inner: &mut CellState) {
        let size = inner.offsets.size();
        self.offset_count.fetch_add(size, Ordering::Relaxed);
        self.offset_count.fetch_sub(inner.counted, Ordering::Relaxed);
        inner.counted = size;
    }

    /// Looks at a group's offsets. None: it is not there.
    pub(crate) fn offsets<T>(&self, id: &str, look: impl FnOnce(&GroupOffsets) -> T) -> Option<T> {
        let cell = self.cell(id)?;
        let inner = cell.lock();
        Some(look(&inner.offsets))
    }

    /// All groups, by their ids.
    pub(crate) fn list(&self) -> Vec<GroupListing> {
        let listed = |cell: Arc<GroupCell>| {
            let inner = cell.lock();
            (!inner.is_gone).then(|| GroupListing {
                id: cell.id.clone(),
                protocol_type: inner.group.protocol_type().unwrap_or_default().to_owned(),
                state: inner.group.state_name(),
            })
        };
        self.all().into_iter().filter_map(listed).collect()
    }

    /// A group with its members.
    pub(crate) fn describe(&self, id: &str) -> Option<GroupDescription> {
        let cell = self.cell(id)?;
        let inner = cell.lock();
        let group = &inner.group;
        let is_stable = *group.state() == super::machine::GroupState::Stable;
        let protocol = group.protocol().filter(|_| is_stable).unwrap_or_default().to_owned();
        (!inner.is_gone).then(|| GroupDescription {
            state: group.state_name(),
            protocol_type: group.protocol_type().unwrap_or_default().to_owned(),
            members: group.members().cloned().collect(),
            protocol,
        })
    }
}
