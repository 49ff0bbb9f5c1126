//! Removal of groups and offsets: by request, by age, and with their topic.

use super::{CellState, GroupCell, GroupRegistry, OffsetWrite, code_of, commits::done};
use crate::{
    group::{
        machine::GroupState,
        offsets::{TopicPartition, key},
    },
    store::{StoreBatch, StoreError, StoreTable},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError},
};
use tidemill_log::StreamId;
use tidemill_wire::{groups::OffsetRecord, kafka::ErrorCode};

use super::commits::StoreReceipt;

impl GroupRegistry {
    /// Deletes a group without members, with its offsets.
    pub(crate) async fn delete(self: &Arc<Self>, id: &str) -> Result<(), ErrorCode> {
        let delete = |cell: &Arc<GroupCell>, inner: &mut CellState, _| match inner.group.state() {
            GroupState::Dead => Err(ErrorCode::GroupIdNotFound),
            GroupState::Empty => self.remove(cell, inner).map_err(|error| code_of(&error)),
            _ => Err(ErrorCode::NonEmptyGroup),
        };
        let waits = self.with(id, delete).unwrap_or(Err(ErrorCode::GroupIdNotFound))?;
        done(Some(waits)).await.map_err(|error| code_of(&error))
    }

    fn remove(
        self: &Arc<Self>,
        cell: &Arc<GroupCell>,
        inner: &mut CellState,
    ) -> Result<StoreReceipt, StoreError> {
        let mut batch = StoreBatch::default();
        batch.delete(StoreTable::Groups, cell.id.as_str());
        for (place, _) in inner.offsets.all() {
            batch.delete(StoreTable::Offsets, key(&cell.id, place).encode());
        }
        for (producer_id, held) in inner.offsets.pending() {
            for place in held.keys() {
                let key = key(&cell.id, place).encode_pending(*producer_id);
                batch.delete(StoreTable::PendingOffsets, key);
            }
        }
        // What the store was given before comes before this, but is not in memory yet.
        for (table, key) in inner.writing.values().flat_map(|it| &it.keys) {
            batch.delete(*table, key.as_slice());
        }
        let (done, waits) = tokio::sync::oneshot::channel();
        let (groups, of) = (Arc::clone(self), Arc::clone(cell));
        let notice = move |outcome: Result<(), StoreError>| {
            groups.removed(&of, outcome.is_ok());
            let _nobody_waits = done.send(outcome);
        };
        self.store.commit_then(batch, Box::new(notice))?;
        inner.group.kill();
        Ok(waits)
    }

    fn removed(&self, cell: &Arc<GroupCell>, is_removed: bool) {
        let mut inner = cell.lock();
        if !is_removed {
            inner.group.revive();
            drop(inner);
            cell.settled.notify_waiters();
            return;
        }
        inner.is_gone = true;
        inner.offsets = crate::group::offsets::GroupOffsets::default();
        self.count(&mut inner);
        self.weigh(cell, &mut inner);
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        if cells.get(&cell.id).is_some_and(|it| Arc::ptr_eq(it, cell)) {
            cells.remove(&cell.id);
        }
        drop(cells);
        drop(inner);
        cell.settled.notify_waiters();
    }

    /// Deletes offsets of a group: one answer for each place, or an error for all. While consumers
    /// read a topic its offsets stay.
    pub(crate) async fn delete_offsets(
        self: &Arc<Self>,
        id: &str,
        places: Vec<TopicPartition>,
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        let delete = |cell: &Arc<GroupCell>, inner: &mut CellState, _| {
            let group = &inner.group;
            let subscribed = match group.state() {
                GroupState::Dead => return Err(ErrorCode::GroupIdNotFound),
                GroupState::Empty => Some(Default::default()),
                _ if group.is_of_consumers() => group.subscribed(),
                _ => return Err(ErrorCode::NonEmptyGroup),
            };
            let code = |place: &TopicPartition| {
                let is_read = subscribed.as_ref().is_none_or(|it| it.contains(&place.0));
                if is_read { ErrorCode::GroupSubscribedToTopic } else { ErrorCode::None }
            };
            let codes: Vec<ErrorCode> = places.iter().map(code).collect();
            let gone = places.into_iter().zip(&codes).filter(|(_, it)| **it == ErrorCode::None);
            let gone: Vec<TopicPartition> = gone.map(|(place, _)| place).collect();
            if gone.is_empty() {
                return Ok((None, codes));
            }
            let waits = self.forget(cell, inner, gone).map_err(|error| code_of(&error))?;
            Ok((Some(waits), codes))
        };
        let begun = self.with(id, delete).unwrap_or(Err(ErrorCode::GroupIdNotFound));
        let (waits, codes) = begun?;
        done(waits).await.map_err(|error| code_of(&error))?;
        Ok(codes)
    }

    fn forget(
        self: &Arc<Self>,
        cell: &Arc<GroupCell>,
        inner: &mut CellState,
        places: Vec<TopicPartition>,
    ) -> Result<StoreReceipt, StoreError> {
        let mut batch = StoreBatch::default();
        for place in &places {
            batch.delete(StoreTable::Offsets, key(&cell.id, place).encode());
        }
        let apply = move |inner: &mut CellState| {
            places.iter().for_each(|it| inner.offsets.delete(it));
        };
        let writing = OffsetWrite { producer_id: None, keys: Vec::new() };
        self.change(cell, inner, batch, writing, apply)
    }

    /// Deletes the offsets of deleted topics, soon. A later topic of the same name has another id,
    /// so it never sees those offsets and keeps its own.
    pub(crate) fn forget_topics(self: &Arc<Self>, topics: &BTreeMap<&str, StreamId>) {
        let is_gone = |(place, record): &(&TopicPartition, &OffsetRecord)| {
            topics.get(place.0.as_str()).is_some_and(|it| it.0 == record.topic_id)
        };
        for cell in self.all() {
            let mut inner = cell.lock();
            let gone = inner.offsets.all().filter(is_gone).map(|(place, _)| place.clone());
            let gone: Vec<TopicPartition> = gone.collect();
            if !gone.is_empty()
                && let Err(error) = self.forget(&cell, &mut inner, gone)
            {
                tracing::warn!(group = cell.id, %error, "offsets of deleted topics stay");
            }
        }
    }

    /// Deletes old entries: offsets of groups that were empty for the retention time, offsets of
    /// that age in groups that never had members, and groups with neither members nor offsets.
    pub(crate) fn sweep(self: &Arc<Self>) {
        let now_ms = self.now_ms();
        let mut batch = StoreBatch::default();
        super::recovery::put_running_ms(&mut batch, now_ms);
        let noted = self.store.commit_then(batch, Box::new(|_| {}));
        if let Err(error) = noted {
            tracing::warn!(%error, "offsets that are too old stay");
            return;
        }
        for cell in self.all() {
            let mut inner = cell.lock();
            // What is being written is younger than it looks.
            if inner.is_gone || !inner.group.is_unused() || !inner.writing.is_empty() {
                continue;
            }
            let outcome = if inner.offsets.is_empty() {
                self.remove(&cell, &mut inner).map(drop)
            } else {
                self.expire(&cell, &mut inner, now_ms)
            };
            if let Err(error) = outcome {
                tracing::warn!(group = cell.id, %error, "what is too old stays");
            }
        }
    }

    fn expire(
        self: &Arc<Self>,
        cell: &Arc<GroupCell>,
        inner: &mut CellState,
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let Some(before_ms) = now_ms.checked_sub(self.settings.offsets_retention_ms) else {
            return Ok(());
        };
        if inner.group.protocol_type().is_some() && inner.group.since_ms() >= before_ms {
            return Ok(());
        }
        let old = inner.offsets.older_than(before_ms);
        if !old.is_empty() {
            tracing::info!(group = cell.id, count = old.len(), "offsets are too old and go");
            self.forget(cell, inner, old)?;
        }
        Ok(())
    }
}
