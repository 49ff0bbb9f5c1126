//! The coordinator's timers: timeouts, unfinished ends, and unused ids.

use super::Coordinator;
use crate::{
    Broker,
    producer::state::signed,
    store::{StoreBatch, StoreError, StoreTable},
    transaction::{entry::TransactionEntry, state::Transaction},
};
use std::sync::{Arc, PoisonError};
use tidemill_wire::transactions::TransactionPhase as Phase;
use tokio::sync::OwnedMutexGuard;

impl Coordinator {
    /// Runs the timers: aborts transactions that are open too long, continues ends under way,
    /// stores finished ends, and forgets ids that were not used for long.
    pub(crate) async fn tend(self: &Arc<Self>, broker: &Arc<Broker>) {
        let now_ms = self.now_ms();
        let mut late = Vec::new();
        let mut ended = Vec::new();
        let entries = self.entries();
        self.recount(&entries);
        let idle_since_ms = self.idle_since_ms(&entries, signed(now_ms));
        for entry in entries {
            self.drive(broker, &entry);
            let (is_late, is_unsaved, is_idle) = {
                let held = entry.held();
                let is_idle = held.is_at_rest() && held.used_ms <= idle_since_ms;
                (held.deadline_ms.is_some_and(|it| it <= now_ms), held.unsaved, is_idle)
            };
            let is_nothing = entry.held().transaction.is_none();
            if !(is_late || is_unsaved || is_idle || is_nothing) {
                continue;
            }
            // Somebody is changing it: next time.
            let Ok(gate) = Arc::clone(&entry.gate).try_lock_owned() else { continue };
            let Some(current) = entry.held().transaction.clone() else {
                self.discard(&entry);
                continue;
            };
            if is_late && current.phase == Phase::Ongoing {
                let id = &entry.id;
                tracing::info!(
                    id,
                    producer_id = current.producer.id,
                    "a transaction took too long"
                );
                let next = current.timed_out(self.wall_ms());
                late.push((
                    Arc::clone(&entry),
                    self.put(&entry, gate, next, StoreBatch::default()),
                ));
            } else if is_idle {
                self.forget(&entry, gate);
            } else if entry.held().unsaved {
                ended.push((entry, current, gate));
            }
        }
        self.save(ended).await;
        for (entry, put) in late {
            match put.await {
                Ok(()) => self.drive(broker, &entry),
                Err(error) => tracing::warn!(id = entry.id, %error, "it could not be aborted"),
            }
        }
    }

    /// Ids that are at rest and were last used then, or before, are forgotten: those that were idle
    /// for as long as they may be; and if there are nearly as many as there may be, the idlest of
    /// those that rest for longer than any transaction is open, so that there is room for new ones.
    fn idle_since_ms(&self, entries: &[Arc<TransactionEntry>], now_ms: i64) -> i64 {
        let limits = &self.limits;
        let since_ms = now_ms.saturating_sub(signed(limits.idle_ms));
        let few = limits.ids.saturating_sub((limits.ids / 16).max(1));
        let many = entries.len().saturating_sub(few);
        if many == 0 {
            return since_ms;
        }
        let rested_ms = now_ms.saturating_sub(i64::from(limits.timeout_ms_max));
        let used_ms = |entry: &Arc<TransactionEntry>| {
            let held = entry.held();
            (held.is_at_rest() && held.used_ms <= rested_ms).then_some(held.used_ms)
        };
        let mut rest: Vec<i64> = entries.iter().filter_map(used_ms).collect();
        rest.sort_unstable();
        let last = rest.get(many - 1).or(rest.last());
        last.map_or(since_ms, |it| since_ms.max(*it))
    }

    /// Stores that transactions have ended.
    async fn save(&self, ended: Vec<(Arc<TransactionEntry>, Transaction, OwnedMutexGuard<()>)>) {
        let mut batch = StoreBatch::default();
        for (entry, transaction, _) in &ended {
            batch.put(StoreTable::Transactions, entry.id.as_bytes(), transaction.record().encode());
        }
        if batch.is_empty() {
            return;
        }
        match self.store.commit(batch).await {
            Ok(()) => ended.iter().for_each(|(entry, ..)| entry.held().unsaved = false),
            Err(error) => tracing::warn!(%error, "ends of transactions are not stored yet"),
        }
    }

    /// Stores that transactions have ended, before the node stops. Blocks.
    pub(crate) fn close(&self) {
        let mut batch = StoreBatch::default();
        for entry in self.entries() {
            let held = entry.held();
            if let Some(transaction) = held.transaction.as_ref().filter(|_| held.unsaved) {
                batch.put(
                    StoreTable::Transactions,
                    entry.id.as_bytes(),
                    transaction.record().encode(),
                );
            }
        }
        if !batch.is_empty()
            && let Err(error) = self.store.commit_blocking(batch)
        {
            tracing::warn!(%error, "ends of transactions are not stored: the next start sees to them");
        }
    }

    /// Takes an id out that never came to anything, as it could not be stored. Its gate is held.
    fn discard(&self, entry: &Arc<TransactionEntry>) {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        all.remove(&entry.id);
        entry.held().is_gone = true;
    }

    /// Takes an id out that nobody used for long.
    fn forget(self: &Arc<Self>, entry: &Arc<TransactionEntry>, gate: OwnedMutexGuard<()>) {
        let mut batch = StoreBatch::default();
        batch.delete(StoreTable::Transactions, entry.id.as_bytes());
        let (me, entry) = (Arc::clone(self), Arc::clone(entry));
        let forgotten = move |outcome: Result<(), StoreError>| {
            if outcome.is_ok() {
                let mut all = me.all.write().unwrap_or_else(PoisonError::into_inner);
                all.remove(&entry.id);
                drop(all);
                let mut held = entry.held();
                held.is_gone = true;
                held.transaction = None;
            }
            drop(gate);
        };
        // If it is refused it is tried again.
        let _refused = self.store.commit_then(batch, Box::new(forgotten));
    }
}
