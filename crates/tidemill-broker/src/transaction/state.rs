//! A transactional id: its producer, its transaction, and the possible next steps (KIP-98, KIP-360,
//! KIP-890).
//!
//! ```text
//!            init            add              end               markers durable
//! (nothing) ─────▶ Empty ─────────▶ Ongoing ─────▶ PrepareCommit ────────────▶ CompleteCommit
//!                    ▲                 │   └─ end ▶ PrepareAbort ─────────────▶ CompleteAbort
//!                    │                 └ timeout, init ──▲                          │
//!                    └───────────── init ──────────────────────────── add ▶ Ongoing ┘
//! ```
//!
//! Facts in, decisions out: nothing here reads a clock, a store or a partition. A new state counts
//! when it is stored. A *prepared* state is final: its transaction ends so, and no other way.
//!
//! An *epoch* tells instances of a producer from each other. Producers of protocol 2 also get a new
//! one at each end of a transaction, so that whatever is late of an earlier transaction is refused.
//! Epochs run out at 32,766: then the producer gets another id. (32,767 is for markers alone.)
//!
//! Invariants:
//!
//! - Epochs of a producer id never go back, and a request with an older one changes nothing.
//! - A repeated request gets the former answer: `last_epoch` and `previous_id` recognise it (K3,
//!   K4: they are those of the end or the init that the producer itself asked for, or of a
//!   transaction that was given up, and nobody's when it was fenced).

use std::collections::BTreeSet;
use tidemill_wire::transactions::{
    TRANSACTION_VERSION, TransactionPartition, TransactionPhase as Phase, TransactionRecord,
};

#[cfg(test)]
mod tests;

/// No producer id.
pub(crate) const NO_ID: i64 = -1;
/// No epoch.
pub(crate) const NO_EPOCH: i16 = -1;
/// The last epoch that a producer can have.
const EPOCH_MAX: i16 = i16::MAX - 1;

/// Which transaction protocol a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Partitions are added by request, the epoch stays.
    One,
    /// Partitions are added by producing to them, each end makes a new epoch. (KIP-890.)
    Two,
}

/// A producer, as a request or an answer names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProducerIdentity {
    pub(crate) id: i64,
    pub(crate) epoch: i16,
}

/// A transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Transaction {
    pub(crate) phase: Phase,
    pub(crate) producer: ProducerIdentity,
    /// The epoch before, if the producer itself asked for a newer one; else [`NO_EPOCH`].
    pub(crate) last_epoch: i16,
    /// The producer id before, if its epochs ran out; else [`NO_ID`].
    pub(crate) previous_id: i64,
    /// The producer id after this transaction, if epochs run out with it; else [`NO_ID`].
    pub(crate) next_id: i64,
    pub(crate) timeout_ms: i32,
    pub(crate) protocol: Protocol,
    /// By the wall clock, in milliseconds since 1970; for people to read. Of the last transaction,
    /// also when that has ended; -1 if its producer has begun none.
    pub(crate) began_ms: i64,
    pub(crate) changed_ms: i64,
    pub(crate) partitions: BTreeSet<TransactionPartition>,
    pub(crate) groups: BTreeSet<String>,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TransactionError {
    /// The transactional id is not known, or has another producer.
    #[error("the producer id is not the one of this transactional id")]
    UnknownProducer,
    /// There is a newer instance of the producer, or its transaction took too long and it cannot
    /// go on.
    #[error("a newer instance of the producer has taken over, or its transaction timed out")]
    Fenced,
    /// The transaction before is being ended; try again.
    #[error("the transaction before is still being ended")]
    Busy,
    /// There is nothing to be ended so.
    #[error("the transaction cannot be ended so: it is {0:?}")]
    Phase(Phase),
    /// It is to be committed, and was aborted.
    #[error("the transaction was aborted")]
    Aborted,
    /// The partition or group is not in the producer's transaction.
    #[error("not part of an ongoing transaction")]
    NotAdded,
}

/// A request for a producer id and epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InitRequest {
    /// The producer's former id and epoch, if it wants to go on (KIP-360).
    pub(crate) expected: Option<ProducerIdentity>,
    pub(crate) timeout_ms: i32,
    /// An id that nobody has; used if [`wants_id`] says so.
    pub(crate) spare_id: i64,
    pub(crate) now_ms: i64,
}

/// The outcome of an init.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InitOutcome {
    /// This is the answer already.
    Repeated(ProducerIdentity),
    /// Store this; its producer is the answer.
    Become(Transaction),
    /// A transaction is open: store this, end it, and ask again.
    AbortFirst(Transaction),
}

/// A request to end a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndRequest {
    pub(crate) producer: ProducerIdentity,
    pub(crate) commit: bool,
    pub(crate) protocol: Protocol,
    /// As for [`InitRequest`].
    pub(crate) spare_id: i64,
    pub(crate) now_ms: i64,
}

/// The outcome of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndOutcome {
    /// It has ended so; the producer goes on with this.
    Done(ProducerIdentity),
    /// Store this, and end it.
    Become(Transaction),
}

/// True if an init or an end may need a new producer id.
pub(crate) fn wants_id(current: Option<&Transaction>) -> bool {
    current.is_none_or(|it| it.producer.epoch >= EPOCH_MAX)
}

/// Decides an init of an id that may be known.
pub(crate) fn init(
    current: Option<&Transaction>,
    asked: &InitRequest,
) -> Result<InitOutcome, TransactionError> {
    let Some(current) = current else {
        return Ok(InitOutcome::Become(Transaction::new(asked)));
    };
    let had = current.successor();
    let previous = ProducerIdentity { id: current.previous_id, epoch: current.last_epoch };
    let before = ProducerIdentity { id: had.id, epoch: current.last_epoch };
    let repeats = current.last_epoch != NO_EPOCH
        && asked.expected.is_some_and(|it| it == before || (it == previous && had.epoch == 0));
    match current.phase {
        _ if asked.expected.is_some_and(|it| it != had) && !repeats => {
            Err(TransactionError::Fenced)
        }
        Phase::PrepareCommit | Phase::PrepareAbort => Err(TransactionError::Busy),
        Phase::Ongoing if repeats => Err(TransactionError::Fenced),
        // It says itself who it is: it asks again, and is answered with the next epoch.
        Phase::Ongoing if asked.expected.is_some() => {
            Ok(InitOutcome::AbortFirst(current.given_up(asked.now_ms)))
        }
        Phase::Ongoing => Ok(InitOutcome::AbortFirst(current.fenced(asked.now_ms))),
        Phase::Empty | Phase::CompleteCommit | Phase::CompleteAbort if repeats => {
            if asked.timeout_ms == current.timeout_ms {
                return Ok(InitOutcome::Repeated(had));
            }
            // Its producer is the same, and its next transaction may take another time.
            Ok(InitOutcome::Become(Transaction {
                timeout_ms: asked.timeout_ms,
                changed_ms: asked.now_ms,
                ..current.clone()
            }))
        }
        Phase::Empty | Phase::CompleteCommit | Phase::CompleteAbort => {
            let mut next = Transaction {
                phase: Phase::Empty,
                timeout_ms: asked.timeout_ms,
                began_ms: -1,
                changed_ms: asked.now_ms,
                ..current.clone()
            };
            next.last_epoch = asked.expected.map_or(NO_EPOCH, |it| it.epoch);
            if had.epoch >= EPOCH_MAX {
                next.previous_id = had.id;
                next.producer = ProducerIdentity { id: asked.spare_id, epoch: 0 };
            } else {
                next.previous_id = NO_ID;
                next.producer.epoch += 1;
            }
            Ok(InitOutcome::Become(next))
        }
    }
}

impl Transaction {
    fn new(asked: &InitRequest) -> Self {
        Self {
            phase: Phase::Empty,
            producer: ProducerIdentity { id: asked.spare_id, epoch: 0 },
            last_epoch: NO_EPOCH,
            previous_id: NO_ID,
            next_id: NO_ID,
            timeout_ms: asked.timeout_ms,
            protocol: Protocol::One,
            began_ms: -1,
            changed_ms: asked.now_ms,
            partitions: BTreeSet::new(),
            groups: BTreeSet::new(),
        }
    }

    /// Checks that the sender is the current producer.
    fn known(&self, producer: ProducerIdentity) -> Result<(), TransactionError> {
        let current = self.successor();
        if producer.id != current.id {
            Err(TransactionError::UnknownProducer)
        } else if producer.epoch != current.epoch {
            Err(TransactionError::Fenced)
        } else {
            Ok(())
        }
    }

    /// As [`Self::known`], for requests that must wait until the transaction before has ended.
    fn admit(&self, producer: ProducerIdentity) -> Result<(), TransactionError> {
        self.known(producer)?;
        match self.phase {
            Phase::PrepareCommit | Phase::PrepareAbort => Err(TransactionError::Busy),
            _ => Ok(()),
        }
    }

    /// Adds partitions and groups to the transaction, or begins one with them. None: all are in it.
    pub(crate) fn add(
        &self,
        producer: ProducerIdentity,
        partitions: &[TransactionPartition],
        group: Option<&str>,
        protocol: Protocol,
        now_ms: i64,
    ) -> Result<Option<Self>, TransactionError> {
        self.admit(producer)?;
        let has_group = group.is_none_or(|it| self.groups.contains(it));
        let ongoing = self.phase == Phase::Ongoing;
        if ongoing && has_group && partitions.iter().all(|it| self.partitions.contains(it)) {
            return Ok(None);
        }
        let mut next = self.clone();
        next.phase = Phase::Ongoing;
        next.protocol = protocol;
        // Nobody repeats what was before this.
        next.last_epoch = NO_EPOCH;
        next.changed_ms = now_ms;
        if !ongoing {
            next.began_ms = now_ms;
        }
        next.partitions.extend(partitions);
        next.groups.extend(group.map(str::to_owned));
        Ok(Some(next))
    }

    /// Checks that a producer may write to a partition now, as part of its transaction.
    pub(crate) fn verify(
        &self,
        producer: ProducerIdentity,
        partition: &TransactionPartition,
    ) -> Result<(), TransactionError> {
        self.admit(producer)?;
        let added = self.phase == Phase::Ongoing && self.partitions.contains(partition);
        if added { Ok(()) } else { Err(TransactionError::NotAdded) }
    }

    /// Checks that a producer may stage offsets of a group now.
    pub(crate) fn verify_group(
        &self,
        producer: ProducerIdentity,
        group: &str,
    ) -> Result<(), TransactionError> {
        self.admit(producer)?;
        let added = self.phase == Phase::Ongoing && self.groups.contains(group);
        if added { Ok(()) } else { Err(TransactionError::NotAdded) }
    }

    /// Decides how a producer's transaction ends.
    pub(crate) fn end(&self, asked: &EndRequest) -> Result<EndOutcome, TransactionError> {
        let EndRequest { producer, commit, protocol, .. } = *asked;
        let two = protocol == Protocol::Two;
        let is_prepared = matches!(self.phase, Phase::PrepareCommit | Phase::PrepareAbort);
        let is_complete = matches!(self.phase, Phase::CompleteCommit | Phase::CompleteAbort);
        let same_id = producer.id == self.producer.id
            || (producer.id == self.previous_id && self.producer.epoch == 0);
        let repeats = two
            && (is_prepared || is_complete)
            && same_id
            && self.last_epoch != NO_EPOCH
            && producer.epoch == self.last_epoch;
        if !repeats {
            self.known(producer)?;
        }
        let so = match self.phase {
            Phase::PrepareCommit | Phase::CompleteCommit => commit,
            Phase::PrepareAbort | Phase::CompleteAbort => !commit,
            // None of this producer has ended, so that this repeats nothing.
            Phase::Empty => false,
            Phase::Ongoing => return Ok(EndOutcome::Become(self.prepared(asked))),
        };
        match (is_prepared, two && !repeats) {
            // The one before is being ended, and this is the next one's.
            (true, true) => Err(TransactionError::Busy),
            (true, false) if so => Err(TransactionError::Busy),
            // An abort of a transaction without anything in it: its producer wants the next epoch.
            (false, true) if !commit => {
                let next = self.prepared(asked).completed();
                Ok(EndOutcome::Become(Self { began_ms: asked.now_ms, ..next }))
            }
            (false, false) if so => Ok(EndOutcome::Done(self.producer)),
            // It took too long: its producer can abort it, too, and goes on.
            (_, false) if commit && two => Err(TransactionError::Aborted),
            _ => Err(TransactionError::Phase(self.phase)),
        }
    }

    fn prepared(&self, asked: &EndRequest) -> Self {
        let mut next = self.clone();
        next.phase = if asked.commit { Phase::PrepareCommit } else { Phase::PrepareAbort };
        next.protocol = asked.protocol;
        next.changed_ms = asked.now_ms;
        if asked.protocol == Protocol::Two {
            next.last_epoch = self.producer.epoch;
            if self.producer.epoch >= EPOCH_MAX {
                next.next_id = asked.spare_id;
            }
            next.producer.epoch = self.producer.epoch.saturating_add(1);
        }
        next
    }

    /// The transaction is to be aborted, as it took too long. A producer of protocol 2 may learn
    /// that when it aborts it itself, or asks to go on, and does go on (KIP-890), if it has an epoch
    /// left; others are shut out.
    pub(crate) fn timed_out(&self, now_ms: i64) -> Self {
        match self.protocol {
            Protocol::One => self.fenced(now_ms),
            Protocol::Two => self.given_up(now_ms),
        }
    }

    /// The transaction is to be aborted, and its producer goes on, if it has an epoch left.
    fn given_up(&self, now_ms: i64) -> Self {
        let mut next = self.fenced(now_ms);
        if self.producer.epoch < EPOCH_MAX {
            next.last_epoch = self.producer.epoch;
        }
        next
    }

    /// The transaction is to be aborted and its producer shut out: another instance has come.
    pub(crate) fn fenced(&self, now_ms: i64) -> Self {
        let mut next = self.clone();
        next.phase = Phase::PrepareAbort;
        next.producer.epoch = self.producer.epoch.saturating_add(1);
        next.last_epoch = NO_EPOCH;
        next.changed_ms = now_ms;
        next
    }

    /// All markers are durable.
    pub(crate) fn completed(&self) -> Self {
        let mut next = self.clone();
        next.phase = match self.phase {
            Phase::PrepareCommit => Phase::CompleteCommit,
            Phase::PrepareAbort => Phase::CompleteAbort,
            other => other,
        };
        next.partitions.clear();
        next.groups.clear();
        if self.next_id != NO_ID {
            next.previous_id = self.producer.id;
            next.producer = self.successor();
            next.next_id = NO_ID;
        }
        next
    }

    /// The producer's id and epoch after this transaction.
    pub(crate) fn successor(&self) -> ProducerIdentity {
        match self.next_id {
            NO_ID => self.producer,
            id => ProducerIdentity { id, epoch: 0 },
        }
    }

    /// True if the transaction that ended last was this producer's.
    pub(crate) fn ended_with(&self, producer: ProducerIdentity) -> bool {
        match self.protocol {
            Protocol::One => self.producer == producer,
            Protocol::Two => self.last_epoch == producer.epoch,
        }
    }

    /// True if commit markers are on their way, false if abort markers are. None: no markers are.
    pub(crate) fn prepared_commit(&self) -> Option<bool> {
        match self.phase {
            Phase::PrepareCommit => Some(true),
            Phase::PrepareAbort => Some(false),
            _ => None,
        }
    }

    /// As it is stored.
    pub(crate) fn record(&self) -> TransactionRecord {
        TransactionRecord {
            version: TRANSACTION_VERSION,
            phase: self.phase,
            producer_id: self.producer.id,
            epoch: self.producer.epoch,
            last_epoch: self.last_epoch,
            previous_id: self.previous_id,
            next_id: self.next_id,
            timeout_ms: self.timeout_ms,
            protocol: if self.protocol == Protocol::Two { 2 } else { 1 },
            began_ms: self.began_ms,
            changed_ms: self.changed_ms,
            partitions: self.partitions.iter().copied().collect(),
            groups: self.groups.iter().cloned().collect(),
        }
    }
}

impl From<TransactionRecord> for Transaction {
    fn from(record: TransactionRecord) -> Self {
        Self {
            phase: record.phase,
            producer: ProducerIdentity { id: record.producer_id, epoch: record.epoch },
            last_epoch: record.last_epoch,
            previous_id: record.previous_id,
            next_id: record.next_id,
            timeout_ms: record.timeout_ms,
            protocol: if record.protocol == 2 { Protocol::Two } else { Protocol::One },
            began_ms: record.began_ms,
            changed_ms: record.changed_ms,
            partitions: record.partitions.into_iter().collect(),
            groups: record.groups.into_iter().collect(),
        }
    }
}
