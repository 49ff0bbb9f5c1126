//! The broker's periodic work: transactions that take too long, ends that are not written yet, and
//! snapshots of producers.

use crate::{
    Broker,
    partition::{Partition, Snapshot},
    server::asked,
    store::{StoreBatch, StoreError},
};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;

/// The interval between two rounds.
const EVERY: Duration = Duration::from_millis(250);
/// Rounds between two searches for entries to forget.
const PRUNE_ROUNDS: u32 = 240;
/// Rounds between those that look how far groups have read.
const PROGRESS_ROUNDS: u32 = 8;
/// Snapshots that are stored together.
const TOGETHER: usize = 64;
/// Attempts to store the state of records that are about to be deleted, each after a pause.
const KEEP_TRIES: u32 = 200;
const KEEP_PAUSE: Duration = Duration::from_millis(5);

/// Tends a broker until it is told to stop.
pub(crate) async fn run(broker: Arc<Broker>, mut stopped: watch::Receiver<bool>) {
    broker.transactions.drop_orphans(&broker.groups).await;
    let mut round = 0u32;
    loop {
        tokio::select! {
            biased;
            () = asked(&mut stopped) => return,
            () = tokio::time::sleep(EVERY), if round > 0 => {}
            () = std::future::ready(()), if round == 0 => {}
        }
        broker.transactions.tend(&broker).await;
        snapshots(&broker).await;
        round = round.wrapping_add(1).max(1);
        if round.is_multiple_of(PROGRESS_ROUNDS) {
            progress(&broker);
        }
        if round.is_multiple_of(PRUNE_ROUNDS) {
            partitions(&broker).iter().for_each(|it| it.prune());
        }
    }
}

/// Tells the log the progress of the groups that retention goes by.
pub(crate) fn progress(broker: &Broker) {
    broker.topics.known().iter().for_each(|it| it.tell_progress(&broker.groups));
}

fn partitions(broker: &Broker) -> Vec<Arc<Partition>> {
    broker.topics.known().iter().flat_map(|it| it.known_partitions()).collect()
}

/// Stores the snapshots that are due.
pub(crate) async fn snapshots(broker: &Broker) {
    store(broker, partitions(broker)).await;
}

/// Stores the snapshots of these partitions that are due. False: it failed.
async fn store(broker: &Broker, partitions: Vec<Arc<Partition>>) -> bool {
    let mut due = KeepRound::default();
    let mut all_stored = true;
    for partition in partitions {
        due.all.extend(partition.snapshot(false));
        if due.all.len() >= TOGETHER {
            let batch = due.batch();
            all_stored &= due.stored(broker.store.commit(batch).await);
        }
    }
    let batch = due.batch();
    if !batch.is_empty() {
        all_stored &= due.stored(broker.store.commit(batch).await);
    }
    all_stored
}

/// Waits until the store covers the records below these offsets, which are about to be deleted. The
/// wait is short, as they may be deleted to make room.
pub(crate) async fn keep(broker: &Broker, mut lacking: Vec<(Arc<Partition>, i64)>) {
    for _ in 0..KEEP_TRIES {
        let due = lacking.iter().map(|(partition, _)| Arc::clone(partition)).collect();
        let stored = store(broker, due).await;
        lacking.retain(|(partition, before)| !partition.is_kept(*before));
        if lacking.is_empty() || !stored {
            return;
        }
        // They are not visible yet, or somebody else stores them.
        tokio::time::sleep(KEEP_PAUSE).await;
    }
    let count = lacking.len();
    tracing::warn!(count, "records are deleted before what they say of producers is stored");
}

/// Stores snapshots of all partitions that are known, before the node stops. Blocks.
pub(crate) fn last_snapshots(broker: &Broker) {
    let mut due = KeepRound::default();
    for partition in partitions(broker) {
        due.all.extend(partition.snapshot(true));
        if due.all.len() >= TOGETHER {
            let batch = due.batch();
            due.stored(broker.store.commit_blocking(batch));
        }
    }
    let batch = due.batch();
    if !batch.is_empty() {
        due.stored(broker.store.commit_blocking(batch));
    }
}

/// Snapshots that are stored together.
#[derive(Default)]
struct KeepRound {
    all: Vec<Snapshot>,
}

impl KeepRound {
    fn batch(&mut self) -> StoreBatch {
        let mut batch = StoreBatch::default();
        self.all.iter_mut().for_each(|it| batch.append(std::mem::take(&mut it.batch)));
        batch
    }

    /// True if all are stored.
    fn stored(&mut self, outcome: Result<(), StoreError>) -> bool {
        let all = std::mem::take(&mut self.all);
        let is_stored = outcome.is_ok();
        match outcome {
            Ok(()) => all.into_iter().for_each(Snapshot::stored),
            // A restart reads more of the log; nothing else depends on them.
            Err(error) => tracing::warn!(%error, "snapshots of producers are not stored"),
        }
        is_stored
    }
}
