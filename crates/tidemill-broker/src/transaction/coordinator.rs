//! The coordinator: all transactional ids, the decisions about them, and their execution.
//!
//! ```text
//! request ─▶ gate ─▶ decision (`state`) ─▶ store ─▶ it counts ─▶ answer
//!                                                     └ prepared ─▶ markers ─▶ durable ─▶ ended
//! ```
//!
//! A decision counts when it is stored. The end of a transaction is carried out in any case: by the
//! request for it, by [`Coordinator::tend`] if the client went away, and by the next start if the
//! node dies (R10). The completion is stored later, along with something else: until then the store
//! has the transaction as prepared, and carrying it out once more changes nothing.
//!
//! Invariants:
//!
//! - Everything that an answer depends on is in the store (R7).
//! - The next transaction of an id begins when all markers of the one before are durable.
//! - A request that is dropped half way leaves the store and the memory the same.

mod markers;
mod room;
mod upkeep;

use super::{
    entry::{MarkerTarget, TransactionEntry},
    state::{
        EndOutcome, EndRequest, InitOutcome, InitRequest, ProducerIdentity, Protocol, Transaction,
        TransactionError, init, wants_id,
    },
};
use crate::{
    Broker,
    group::{
        offsets::TopicPartition,
        registry::{GroupRegistry, NewOffset, RequestSender},
    },
    partition::{TransactionFate, TransactionMark},
    producer::ids::ProducerIds,
    settings::TransactionLimits,
    store::{MetadataStore, StoreBatch, StoreError, StoreTable},
};
use markers::{mark_group, mark_partition};
use std::{
    collections::BTreeMap,
    ops::ControlFlow,
    sync::{Arc, PoisonError, RwLock, atomic::AtomicUsize},
    time::Duration,
};
use tidemill_env::World;
use tidemill_wire::{
    kafka::ErrorCode,
    transactions::{TransactionPartition, TransactionPhase as Phase, TransactionRecord},
};
use tokio::sync::{OwnedMutexGuard, oneshot};

/// The longest wait of a request for a transaction to end.
const PATIENCE_MS: u64 = 5_000;
/// As above, for requests that others wait behind.
const SHORT_PATIENCE_MS: u64 = 500;
/// Groups in one transaction.
const GROUPS_MAX: usize = 1_000;

/// Why a request to the coordinator is not done.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The protocol says so.
    #[error(transparent)]
    Refused(#[from] TransactionError),
    /// It cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A bound is reached.
    #[error("there are {0} already")]
    TooMany(&'static str),
}

/// The sender of a request, and its protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionSender {
    pub(crate) producer: ProducerIdentity,
    pub(crate) protocol: Protocol,
    /// Its connection: a later one has a larger number.
    pub(crate) connection: u64,
}

/// All transactional ids.
pub(crate) struct Coordinator {
    world: World,
    store: Arc<MetadataStore>,
    pub(crate) limits: TransactionLimits,
    pub(crate) ids: ProducerIds,
    all: RwLock<BTreeMap<String, Arc<TransactionEntry>>>,
    /// Memory of all entries, rounded up.
    bytes: AtomicUsize,
}

impl Coordinator {
    /// The coordinator as the store has it. Transactions that are prepared are carried out by
    /// [`Self::tend`].
    ///
    /// # Errors
    /// The store cannot be read, or has records of a newer node.
    pub(crate) fn open(
        world: &World,
        store: &Arc<MetadataStore>,
        limits: TransactionLimits,
    ) -> Result<Arc<Self>, StoreError> {
        let now_ms = world.clock.monotonic_micros() / 1000;
        let wall_ms = world.clock.wall_micros() / 1000;
        let mut all = BTreeMap::new();
        let mut unreadable = None;
        store.scan(StoreTable::Transactions, &[], |key, value| {
            let id = std::str::from_utf8(key);
            match (id, TransactionRecord::decode(value)) {
                (Ok(id), Ok(record)) => {
                    let entry =
                        TransactionEntry::stored(id, Transaction::from(record), now_ms, wall_ms);
                    all.insert(id.to_owned(), entry);
                    ControlFlow::Continue(())
                }
                _ => {
                    unreadable = Some(String::from_utf8_lossy(key).into_owned());
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(id) = unreadable {
            tracing::error!(id, "a transactional id that this node cannot read");
            return Err(store.unreadable(StoreTable::Transactions));
        }
        Ok(Arc::new(Self {
            world: world.clone(),
            store: Arc::clone(store),
            limits,
            ids: ProducerIds::new(world, store),
            all: RwLock::new(all),
            bytes: AtomicUsize::new(0),
        }))
    }

    fn now_ms(&self) -> u64 {
        self.world.clock.monotonic_micros() / 1000
    }

    fn wall_ms(&self) -> i64 {
        self.world.clock.wall_micros() / 1000
    }

    pub(super) fn get(&self, id: &str) -> Option<Arc<TransactionEntry>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()
    }

    fn entry(&self, id: &str) -> Result<Arc<TransactionEntry>, Failure> {
        self.get(id).ok_or(Failure::Refused(TransactionError::UnknownProducer))
    }

    fn entry_or_new(&self, id: &str) -> Result<Arc<TransactionEntry>, Failure> {
        if let Some(entry) = self.get(id) {
            return Ok(entry);
        }
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(id) {
            if all.len() >= self.limits.ids {
                return Err(Failure::TooMany("transactional ids"));
            }
            self.grow(room::id_bytes(id))?;
        }
        Ok(Arc::clone(
            all.entry(id.to_owned()).or_insert_with(|| TransactionEntry::new(id, self.now_ms())),
        ))
    }

    /// All of them, by id.
    pub(super) fn entries(&self) -> Vec<Arc<TransactionEntry>> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    /// Hands a decision to the store; once it is there it counts. Whether the future is waited for
    /// or not, the gate stays shut until then.
    fn put(
        self: &Arc<Self>,
        entry: &Arc<TransactionEntry>,
        gate: OwnedMutexGuard<()>,
        next: Transaction,
        mut batch: StoreBatch,
    ) -> impl Future<Output = Result<(), StoreError>> + use<> {
        batch.put(StoreTable::Transactions, entry.id.as_bytes(), next.record().encode());
        let (done, waits) = oneshot::channel();
        let (me, entry) = (Arc::clone(self), Arc::clone(entry));
        let notice = move |outcome: Result<(), StoreError>| {
            if outcome.is_ok() {
                entry.apply(next, me.now_ms());
            }
            drop(gate);
            let _gone = done.send(outcome);
        };
        let refused = self.store.commit_then(batch, Box::new(notice));
        async move {
            refused?;
            waits.await.unwrap_or(Err(StoreError::Closed))
        }
    }

    /// A producer for a transactional id. An open transaction of the last producer is aborted
    /// first.
    pub(crate) async fn init(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        id: &str,
        expected: Option<ProducerIdentity>,
        timeout_ms: i32,
    ) -> Result<ProducerIdentity, Failure> {
        let mut waited = false;
        loop {
            let entry = self.entry_or_new(id)?;
            let gate = Arc::clone(&entry.gate).lock_owned().await;
            let (current, is_gone) = {
                let held = entry.held();
                (held.transaction.clone(), held.is_gone)
            };
            if is_gone {
                continue;
            }
            let spare_id = if wants_id(current.as_ref()) { self.ids.take().await? } else { -1 };
            let asked = InitRequest { expected, timeout_ms, spare_id, now_ms: self.wall_ms() };
            match init(current.as_ref(), &asked) {
                Ok(InitOutcome::Repeated(producer)) => return Ok(producer),
                Ok(InitOutcome::Become(next)) => {
                    let producer = next.producer;
                    self.put(&entry, gate, next, StoreBatch::default()).await?;
                    return Ok(producer);
                }
                Ok(InitOutcome::AbortFirst(next)) if !waited => {
                    self.end_it(broker, &entry, gate, next).await?;
                }
                Err(TransactionError::Busy) if !waited => drop(gate),
                Ok(InitOutcome::AbortFirst(_)) => return Err(TransactionError::Busy.into()),
                Err(error) => return Err(error.into()),
            }
            waited = true;
            if !wait(entry.ended(), PATIENCE_MS).await {
                return Err(TransactionError::Busy.into());
            }
        }
    }

    /// Adds partitions or a group to the transaction of a producer, which begins with them if none
    /// is open.
    pub(crate) async fn add(
        self: &Arc<Self>,
        id: &str,
        asker: TransactionSender,
        partitions: &[TransactionPartition],
        group: Option<&str>,
    ) -> Result<(), Failure> {
        let TransactionSender { producer, protocol, .. } = asker;
        let entry = self.entry(id)?;
        if partitions.is_empty() && group.is_none() {
            return Ok(());
        }
        let mut waited = false;
        loop {
            let all_in = {
                let held = entry.held();
                let current = held.transaction.as_ref();
                let mut in_it = partitions.iter().map(|it| current.map(|t| t.verify(producer, it)));
                in_it.all(|it| it == Some(Ok(())))
                    && group.is_none_or(|group| {
                        current.is_some_and(|it| it.verify_group(producer, group).is_ok())
                    })
            };
            if all_in {
                return Ok(());
            }
            let gate = Arc::clone(&entry.gate).lock_owned().await;
            let decision = {
                let mut held = entry.held();
                let current = held.transaction.as_ref();
                let current = current.ok_or(TransactionError::UnknownProducer)?;
                if group.is_some() && current.groups.len() >= GROUPS_MAX {
                    return Err(Failure::TooMany("groups in the transaction"));
                }
                let decision = current.add(producer, partitions, group, protocol, self.wall_ms());
                if decision.is_ok() && protocol == Protocol::One {
                    held.added_over(asker.connection);
                }
                decision
            };
            match decision {
                Ok(None) => return Ok(()),
                Ok(Some(next)) => {
                    self.grow(room::added_bytes(partitions, group))?;
                    self.put(&entry, gate, next, StoreBatch::default()).await?;
                    return Ok(());
                }
                Err(TransactionError::Busy) if !waited => {
                    waited = true;
                    drop(gate);
                    if !wait(entry.ended(), SHORT_PATIENCE_MS).await {
                        return Err(TransactionError::Busy.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends a producer's transaction. Returns the id and epoch that the producer uses next.
    pub(crate) async fn end(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        id: &str,
        asker: TransactionSender,
        commit: bool,
    ) -> Result<ProducerIdentity, Failure> {
        let TransactionSender { producer, protocol, .. } = asker;
        let entry = self.entry(id)?;
        let mut waited = false;
        loop {
            let gate = Arc::clone(&entry.gate).lock_owned().await;
            let current = entry.held().transaction.clone();
            let current = current.ok_or(TransactionError::UnknownProducer)?;
            let spare_id = if wants_id(Some(&current)) { self.ids.take().await? } else { -1 };
            let asked = EndRequest { producer, commit, protocol, spare_id, now_ms: self.wall_ms() };
            match current.end(&asked) {
                Ok(EndOutcome::Done(successor)) => return Ok(successor),
                Ok(EndOutcome::Become(next)) => {
                    if protocol == Protocol::One {
                        entry.held().check_end(asker.connection)?;
                    }
                    let successor = next.successor();
                    self.end_it(broker, &entry, gate, next).await?;
                    // Decided and stored: it will be so, even if it takes longer than this.
                    wait(entry.ended(), PATIENCE_MS).await;
                    return Ok(successor);
                }
                Err(TransactionError::Busy) if !waited => {
                    waited = true;
                    drop(gate);
                    if !wait(entry.ended(), PATIENCE_MS).await {
                        return Err(TransactionError::Busy.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Stores that a transaction is to be ended, and begins to carry it out.
    async fn end_it(
        self: &Arc<Self>,
        broker: &Arc<Broker>,
        entry: &Arc<TransactionEntry>,
        gate: OwnedMutexGuard<()>,
        next: Transaction,
    ) -> Result<(), StoreError> {
        self.put(entry, gate, next, StoreBatch::default()).await?;
        self.drive(broker, entry);
        Ok(())
    }

    /// Writes the markers that a prepared transaction still needs.
    pub(super) fn drive(self: &Arc<Self>, broker: &Broker, entry: &Arc<TransactionEntry>) {
        let (mark, places) = {
            let mut held = entry.held();
            let Some(transaction) = &held.transaction else { return };
            let Some(commit) = transaction.prepared_commit() else { return };
            let mark =
                TransactionMark { producer: transaction.producer, commit, again: held.again };
            let places: Vec<_> = held.left.difference(&held.in_flight).cloned().collect();
            held.in_flight.extend(places.iter().cloned());
            (mark, places)
        };
        for place in places {
            match &place {
                MarkerTarget::Partition(partition) => {
                    let Some(partition) = broker.partition_at(partition) else {
                        // Its topic was deleted: it needs none.
                        entry.marked(&place, true);
                        continue;
                    };
                    mark_partition(entry, &partition, mark, place);
                }
                MarkerTarget::Group(group) => {
                    mark_group(entry, &broker.groups, mark, group.clone())
                }
            }
        }
    }

    /// Checks that a producer may write to a partition now, as part of its transaction.
    pub(crate) fn verify(
        &self,
        id: &str,
        producer: ProducerIdentity,
        partition: &TransactionPartition,
    ) -> Result<(), TransactionError> {
        let entry = self.get(id).ok_or(TransactionError::UnknownProducer)?;
        let held = entry.held();
        let current = held.transaction.as_ref().ok_or(TransactionError::UnknownProducer)?;
        current.verify(producer, partition)
    }

    /// Holds offsets of a group for a producer's transaction, of which the group must be part. The
    /// transaction does not end meanwhile: else they might be held for the next one.
    ///
    /// # Errors
    /// First those of the transaction, then those of the group.
    pub(crate) async fn stage(
        &self,
        groups: &Arc<GroupRegistry>,
        id: &str,
        producer: ProducerIdentity,
        sender: &RequestSender,
        offsets: Vec<(TopicPartition, NewOffset)>,
    ) -> Result<Result<(), ErrorCode>, Failure> {
        let entry = self.entry(id)?;
        let _gate = Arc::clone(&entry.gate).lock_owned().await;
        let verified = {
            let held = entry.held();
            let current = held.transaction.as_ref().ok_or(TransactionError::UnknownProducer)?;
            current.verify_group(producer, &sender.group)
        };
        verified?;
        Ok(groups.stage(sender, producer.id, offsets).await)
    }

    /// True if a producer's transaction holds offsets of a group, or may hold some.
    fn holds(&self, producer_id: i64, group: &str) -> bool {
        self.entries().iter().any(|entry| {
            let held = entry.held();
            let is_its = |it: &&Transaction| it.producer.id == producer_id;
            held.transaction.as_ref().filter(is_its).is_some_and(|it| it.groups.contains(group))
        })
    }

    /// Drops offsets that no transaction holds any more. There are none unless the store was put
    /// together from two.
    pub(crate) async fn drop_orphans(&self, groups: &Arc<GroupRegistry>) {
        for (producer_id, group) in groups.held() {
            if self.holds(producer_id, &group) {
                continue;
            }
            tracing::warn!(
                producer_id,
                group,
                "offsets of a transaction that is not known: dropped"
            );
            if let Err(error) = groups.end_transaction(&group, producer_id, false).await {
                tracing::warn!(producer_id, group, %error, "they could not be dropped");
            }
        }
    }

    /// The fate of a transaction that a partition has open with this producer.
    pub(crate) fn fate(
        &self,
        producer: ProducerIdentity,
        place: &TransactionPartition,
    ) -> TransactionFate {
        for entry in self.entries() {
            let held = entry.held();
            let Some(it) = &held.transaction else { continue };
            if it.producer.id != producer.id && it.previous_id != producer.id {
                continue;
            }
            let epoch = (it.producer.id == producer.id).then_some(it.producer.epoch);
            return match it.phase {
                Phase::Ongoing | Phase::PrepareCommit | Phase::PrepareAbort
                    if it.partitions.contains(place) =>
                {
                    TransactionFate::Open
                }
                Phase::CompleteCommit if it.ended_with(producer) => {
                    TransactionFate::Ended { epoch, commit: true }
                }
                _ => TransactionFate::Ended { epoch, commit: false },
            };
        }
        TransactionFate::Ended { epoch: None, commit: false }
    }
}

/// True if it came in time.
async fn wait(ended: oneshot::Receiver<()>, patience_ms: u64) -> bool {
    tokio::time::timeout(Duration::from_millis(patience_ms), ended).await.is_ok()
}

#[cfg(test)]
impl Coordinator {
    /// Puts the producer of an id at an epoch.
    pub(crate) async fn set_epoch(self: &Arc<Self>, id: &str, epoch: i16) {
        let entry = self.entry(id).unwrap();
        let gate = Arc::clone(&entry.gate).lock_owned().await;
        let mut next = entry.held().transaction.clone().unwrap();
        next.producer.epoch = epoch;
        self.put(&entry, gate, next, StoreBatch::default()).await.unwrap();
    }
}
