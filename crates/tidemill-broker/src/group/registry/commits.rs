//! Offsets: committed, held by transactions, let go.
//!
//! Each change is handed to the store under the group's lock, and is made in memory by the store's
//! notification. Both happen in the same order, so memory equals the store.

use super::{CellState, GroupCell, GroupRegistry, ID_BYTES_MAX, OffsetWrite, code_of};
use crate::group::machine::GroupState;
use crate::{
    group::offsets::{TopicPartition, key},
    store::{StoreBatch, StoreError, StoreTable},
};
use std::sync::{Arc, atomic::Ordering};
use tidemill_wire::{
    groups::{OFFSET_VERSION, OffsetRecord},
    kafka::ErrorCode,
};
use tokio::sync::oneshot;

/// The sender of a request, by its own account.
#[derive(Clone, Debug)]
pub(crate) struct RequestSender {
    pub(crate) group: String,
    /// Empty if it is no member.
    pub(crate) member_id: String,
    pub(crate) instance: Option<String>,
    /// -1 if it is no member.
    pub(crate) generation: i32,
}

/// An offset to be committed.
#[derive(Clone, Debug)]
pub(crate) struct NewOffset {
    pub(crate) offset: i64,
    /// -1 if not known.
    pub(crate) leader_epoch: i32,
    pub(crate) topic_id: [u8; 16],
    pub(crate) metadata: String,
}

/// The answer of the store, as its waiter takes it.
pub(super) type StoreReceipt = oneshot::Receiver<Result<(), StoreError>>;

impl GroupRegistry {
    /// Commits offsets; when this resolves they are durable.
    ///
    /// # Errors
    /// None of them is committed.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        sender: &RequestSender,
        offsets: Vec<(TopicPartition, NewOffset)>,
    ) -> Result<(), ErrorCode> {
        let waits = self.begin_write(sender, offsets, None)?;
        done(waits).await.map_err(|error| code_of(&error))
    }

    /// As [`Self::commit`], for a thread that may block.
    ///
    /// # Errors
    /// None of them is committed.
    pub(crate) fn commit_blocking(
        self: &Arc<Self>,
        sender: &RequestSender,
        offsets: Vec<(TopicPartition, NewOffset)>,
    ) -> Result<(), ErrorCode> {
        let Some(waits) = self.begin_write(sender, offsets, None)? else { return Ok(()) };
        let outcome = waits.blocking_recv().unwrap_or(Err(StoreError::Closed));
        outcome.map_err(|error| code_of(&error))
    }

    /// Holds offsets for a producer's open transaction; when this resolves that is durable. The
    /// caller knows that this producer may send them, in this transaction. (KIP-98, KIP-447.)
    ///
    /// # Errors
    /// None of them is held.
    pub(crate) async fn stage(
        self: &Arc<Self>,
        sender: &RequestSender,
        producer_id: i64,
        offsets: Vec<(TopicPartition, NewOffset)>,
    ) -> Result<(), ErrorCode> {
        let waits = self.begin_write(sender, offsets, Some(producer_id))?;
        done(waits).await.map_err(|error| code_of(&error))
    }

    /// Hands offsets to the store. None: there is nothing to wait for.
    pub(super) fn begin_write(
        self: &Arc<Self>,
        sender: &RequestSender,
        offsets: Vec<(TopicPartition, NewOffset)>,
        producer_id: Option<i64>,
    ) -> Result<Option<StoreReceipt>, ErrorCode> {
        if sender.group.len() > ID_BYTES_MAX {
            return Err(ErrorCode::InvalidGroupId);
        }
        let write = |cell: &Arc<GroupCell>, inner: &mut CellState, now_ms| {
            let (id, instance) = (&sender.member_id, sender.instance.as_deref());
            let generation = sender.generation;
            inner.group.may_commit(now_ms, id, instance, generation, producer_id.is_some())?;
            if offsets.is_empty() {
                return Ok(None);
            }
            let total = self.offset_count.load(Ordering::Relaxed) + offsets.len();
            let known =
                |(place, _): &(TopicPartition, NewOffset)| inner.offsets.get(place).is_some();
            let held = |id: i64| {
                let held = inner.offsets.pending().get(&id);
                move |(place, _): &(TopicPartition, NewOffset)| {
                    held.is_some_and(|it| it.contains_key(place))
                }
            };
            let max = self.settings.offsets;
            let fits = total <= max
                || match producer_id {
                    None => offsets.iter().all(known),
                    // Beside those whose place they take. Without a bound each producer could
                    // hold all of them once more.
                    Some(_) if total <= max.saturating_mul(2) && offsets.iter().all(known) => true,
                    Some(id) => offsets.iter().all(held(id)),
                };
            if !fits {
                return Err(ErrorCode::InvalidCommitOffsetSize);
            }
            let record = |new: NewOffset| OffsetRecord {
                version: OFFSET_VERSION,
                offset: new.offset,
                leader_epoch: new.leader_epoch,
                topic_id: new.topic_id,
                since_ms: now_ms,
                metadata: new.metadata,
            };
            let offsets: Vec<(TopicPartition, OffsetRecord)> =
                offsets.into_iter().map(|(place, new)| (place, record(new))).collect();
            self.write(cell, inner, offsets, producer_id).map_err(|error| code_of(&error)).map(Some)
        };
        // Whoever is no member makes a group by committing to it; a member's group is there.
        let missing = || Err(ErrorCode::InvalidCommitOffsetSize);
        if sender.generation < 0 {
            self.with_new(&sender.group, write).unwrap_or_else(missing)
        } else {
            self.with(&sender.group, write).unwrap_or(Err(ErrorCode::IllegalGeneration))
        }
    }

    fn write(
        self: &Arc<Self>,
        cell: &Arc<GroupCell>,
        inner: &mut CellState,
        offsets: Vec<(TopicPartition, OffsetRecord)>,
        producer_id: Option<i64>,
    ) -> Result<StoreReceipt, StoreError> {
        let mut batch = StoreBatch::default();
        let mut keys = Vec::with_capacity(offsets.len());
        for (place, record) in &offsets {
            let key = key(&cell.id, place);
            let (table, key) = match producer_id {
                None => (StoreTable::Offsets, key.encode()),
                Some(id) => (StoreTable::PendingOffsets, key.encode_pending(id)),
            };
            batch.put(table, key.as_slice(), record.encode());
            keys.push((table, key));
        }
        let apply = move |inner: &mut CellState| {
            for (place, record) in offsets {
                match producer_id {
                    None => inner.offsets.commit(place, record),
                    Some(id) => inner.offsets.stage(id, place, record),
                }
            }
        };
        self.change(cell, inner, batch, OffsetWrite { producer_id, keys }, apply)
    }

    /// Hands a change of offsets to the store, and makes it in memory when it is stored.
    pub(super) fn change(
        self: &Arc<Self>,
        cell: &Arc<GroupCell>,
        inner: &mut CellState,
        batch: StoreBatch,
        writing: OffsetWrite,
        apply: impl FnOnce(&mut CellState) + Send + 'static,
    ) -> Result<StoreReceipt, StoreError> {
        let (done, waits) = oneshot::channel();
        let number = inner.number();
        let (groups, of) = (Arc::clone(self), Arc::clone(cell));
        let notice = move |outcome: Result<(), StoreError>| {
            let mut inner = of.lock();
            inner.writing.remove(&number);
            match &outcome {
                Ok(()) => apply(&mut inner),
                Err(error) => tracing::warn!(group = of.id, %error, "offsets are not stored"),
            }
            groups.count(&mut inner);
            drop(inner);
            of.settled.notify_waiters();
            let _nobody_waits = done.send(outcome);
        };
        self.store.commit_then(batch, Box::new(notice))?;
        inner.writing.insert(number, writing);
        Ok(waits)
    }

    /// The marker of a transaction's end, for the offsets it holds in a group: they count as
    /// committed, or are dropped. Durable when this resolves. Doing it again does nothing.
    ///
    /// # Errors
    /// Nothing happened, and it is to be tried again; or, with [`StoreError::Failed`], nobody knows.
    pub(crate) async fn end_transaction(
        self: &Arc<Self>,
        group: &str,
        producer_id: i64,
        commit: bool,
    ) -> Result<(), StoreError> {
        loop {
            let Some(cell) = self.cell(group) else { return Ok(()) };
            // Before the look: what settles after it is noticed.
            let settled = cell.settled.notified();
            let waits = {
                let mut inner = cell.lock();
                let end = |cell: &Arc<GroupCell>, inner: &mut CellState, _| {
                    self.end(cell, inner, producer_id, commit)
                };
                self.act(&cell, &mut inner, end)?
            };
            match waits {
                PendingEnd::Nothing => return Ok(()),
                PendingEnd::Written(waits) => return done(Some(waits)).await,
                PendingEnd::Unsettled => settled.await,
            }
        }
    }

    fn end(
        self: &Arc<Self>,
        cell: &Arc<GroupCell>,
        inner: &mut CellState,
        producer_id: i64,
        commit: bool,
    ) -> Result<PendingEnd, StoreError> {
        // A group that is being deleted holds them no more, or all of them still: its store says.
        if *inner.group.state() == GroupState::Dead && !inner.is_gone {
            return Ok(PendingEnd::Unsettled);
        }
        // Whether these are held is not known before the store has answered.
        if inner.writing.values().any(|it| it.producer_id == Some(producer_id)) {
            return Ok(PendingEnd::Unsettled);
        }
        let held = inner.offsets.pending_of(producer_id);
        if held.is_empty() {
            return Ok(PendingEnd::Nothing);
        }
        let mut batch = StoreBatch::default();
        let mut keys = Vec::new();
        for (place, record) in &held {
            let key = key(&cell.id, place);
            batch.delete(StoreTable::PendingOffsets, key.encode_pending(producer_id));
            if commit {
                batch.put(StoreTable::Offsets, key.encode(), record.encode());
                keys.push((StoreTable::Offsets, key.encode()));
            }
        }
        let apply = move |inner: &mut CellState| inner.offsets.end(producer_id, commit);
        let writing = OffsetWrite { producer_id: Some(producer_id), keys };
        self.change(cell, inner, batch, writing, apply).map(PendingEnd::Written)
    }

    /// Producers whose transactions hold offsets, with the groups they hold them for.
    pub(crate) fn held(&self) -> Vec<(i64, String)> {
        let mut held = Vec::new();
        for cell in self.all() {
            let inner = cell.lock();
            held.extend(inner.offsets.pending().keys().map(|it| (*it, cell.id.clone())));
        }
        held.sort();
        held
    }
}

/// The outcome of a transaction's end in one group.
enum PendingEnd {
    /// It holds nothing here.
    Nothing,
    Written(StoreReceipt),
    /// Something of it is being stored.
    Unsettled,
}

/// Waits for the store.
pub(super) async fn done(waits: Option<StoreReceipt>) -> Result<(), StoreError> {
    match waits {
        None => Ok(()),
        Some(waits) => waits.await.unwrap_or(Err(StoreError::Closed)),
    }
}
