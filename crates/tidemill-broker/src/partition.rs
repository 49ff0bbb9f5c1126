//! The broker's part of a Kafka partition, on top of a streamlet: checks, producers, and
//! transactions.
//!
//! ```text
//! chunk ─▶ intake ─▶ of no producer ───────────────────────────────────▶ streamlet
//!                 └▶ of a producer ─▶ ledger: new? repeated? in order? ──▶ streamlet, taken down
//! marker ───────────────────────────▶ ledger: the transaction's end ─────▶ streamlet, taken down
//! ```
//!
//! Read in this order: `leadership`, `open_transactions`, `history` (both plain and synchronous),
//! `producer_ledger`, `readers`, `recovery`, `snapshot`.
//!
//! Invariants:
//!
//! - A chunk of an idempotent producer is in the log once, however often it is repeated.
//! - Chunks of a transaction are appended only while its coordinator has the partition in it.
//! - The last stable offset never goes back, not over a restart either (R9).
//! - Chunks of no producer take no lock here.

use crate::{
    api::Context,
    chunk_check::{CheckedChunk, InflateRoom, TooLittle},
    producer::state::Sequenced,
    record_time::{self, TimeError},
    refusal::RequestRefusal,
    settings::ProducerLimits,
    store::MetadataStore,
    topic::Live,
    transaction::coordinator::Coordinator,
    transaction::state::ProducerIdentity,
};
use bytes::Bytes;
use producer_ledger::{LedgerGuard, ProducerLedger};
use std::sync::{
    Arc, Mutex, Weak,
    atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
};
use tidemill_env::World;
use tidemill_log::{Append, AppendError, AppendOptions, OnDurable, ReadError, Streamlet};
use tidemill_types::{Offset, ProducerId};
use tidemill_wire::{
    chunk::ChunkHead,
    kafka::{ErrorCode, KafkaString},
    records::{Marker, control_marker},
    transactions::TransactionPartition,
};

pub(crate) mod history;
mod leadership;
pub(crate) mod open_transactions;
mod producer_ledger;
mod readers;
mod recovery;
mod snapshot;

pub(crate) use readers::Readable;
pub(crate) use recovery::{LoadError, forget_stored};
pub(crate) use snapshot::Snapshot;

/// The first version of produce requests whose partitions are added to the transaction by them.
pub(crate) const ADDS_FROM_VERSION: i16 = 12;

/// [`Partition::first_unstable`] before it is known.
const UNKNOWN: i64 = i64::MIN;

/// The parts of the broker that partitions use.
pub(crate) struct PartitionContext {
    pub(crate) world: World,
    pub(crate) store: Arc<MetadataStore>,
    pub(crate) transactions: Arc<Coordinator>,
    pub(crate) limits: ProducerLimits,
}

/// A partition: a streamlet, with the broker's state of its producers.
pub(crate) struct Partition {
    pub(crate) streamlet: Arc<Streamlet>,
    /// The live settings of its topic.
    pub(crate) live: Arc<Live>,
    pub(crate) place: TransactionPartition,
    me: Weak<Partition>,
    shared: Arc<PartitionContext>,
    ledger: Mutex<ProducerLedger>,
    /// A marker became visible; see [`producer_ledger`].
    due: AtomicBool,
    /// The first offset of a transaction whose end is not visible; [`i64::MAX`] if there is none,
    /// [`UNKNOWN`] until the history is known. Set before the record there is visible.
    first_unstable: AtomicI64,
    /// Since the last image of the history: see [`snapshot`].
    far_bytes: AtomicU64,
    far_chunks: AtomicU64,
    has_image: AtomicBool,
    /// A snapshot is on its way to the store.
    storing: AtomicBool,
    /// The store has all that was below this offset, or the log did not tell of it any more when
    /// the node started.
    kept_upto: AtomicI64,
    /// The start of the log that an image was made for.
    imaged_start: AtomicI64,
}

/// The outcome of an append.
pub(crate) enum Appended {
    /// The chunk was appended. If the topic stamps its records, the time of the append in
    /// milliseconds.
    New(Append, Option<i64>),
    /// It was here already, at these offsets.
    Repeated {
        /// Of the partition.
        streamlet: Arc<Streamlet>,
        /// Offset of its first record.
        base_offset: i64,
        /// Offset of its last record.
        last_offset: i64,
    },
}

/// A transaction's end, for one partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TransactionMark {
    /// Whose, and the epoch from which on chunks are taken.
    pub(crate) producer: ProducerIdentity,
    pub(crate) commit: bool,
    /// The node may have written it before it was started again: write it only if it is missing.
    pub(crate) again: bool,
}

/// The state, at its coordinator, of a transaction that is open in a partition whose history was
/// just read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransactionFate {
    /// It goes on, or its coordinator is about to end it.
    Open,
    /// It ended, and its marker was lost.
    Ended {
        /// The marker's epoch; that of the chunks, if none.
        epoch: Option<i16>,
        /// True for a commit, false for an abort.
        commit: bool,
    },
}

impl Appended {
    pub(crate) fn base_offset(&self) -> i64 {
        match self {
            Self::New(append, _) => append.base_offset,
            Self::Repeated { base_offset, .. } => *base_offset,
        }
    }

    /// The timestamp that the records got from the broker, in milliseconds; -1 if none.
    pub(crate) fn append_time_ms(&self) -> i64 {
        match self {
            Self::New(_, time_ms) => time_ms.unwrap_or(-1),
            Self::Repeated { .. } => -1,
        }
    }

    /// Calls back when it counts.
    pub(crate) fn on_durable(self, notice: OnDurable) {
        match self {
            Self::New(append, _) => append.on_durable(notice),
            // The first one may still be on its way to the disk.
            Self::Repeated { streamlet, last_offset, .. } => {
                streamlet.on_visible(last_offset, notice);
            }
        }
    }
}

impl Partition {
    pub(crate) fn new(
        streamlet: Arc<Streamlet>,
        live: Arc<Live>,
        stream: [u8; 16],
        shared: Arc<PartitionContext>,
    ) -> Arc<Self> {
        let place = TransactionPartition { stream, index: streamlet.index() };
        // Of an empty streamlet nothing can be stored that counts.
        let is_new = streamlet.end_offset() == 0;
        let start = streamlet.start_offset();
        let mut ledger = ProducerLedger::default();
        if is_new {
            ledger.history = Some(history::History::default());
        }
        Arc::new_cyclic(|me| Self {
            streamlet,
            live,
            place,
            me: Weak::clone(me),
            shared,
            ledger: Mutex::new(ledger),
            due: AtomicBool::new(false),
            first_unstable: AtomicI64::new(if is_new { i64::MAX } else { UNKNOWN }),
            far_bytes: AtomicU64::new(0),
            far_chunks: AtomicU64::new(0),
            has_image: AtomicBool::new(false),
            storing: AtomicBool::new(false),
            kept_upto: AtomicI64::new(start),
            imaged_start: AtomicI64::new(start),
        })
    }

    fn now_ms(&self) -> u64 {
        self.shared.world.clock.monotonic_micros() / 1000
    }

    /// Locks the ledger with its history, which is read now if it was not needed before.
    fn open(&self) -> Result<LedgerGuard<'_>, LoadError> {
        let mut opened = self.hold();
        if opened.ledger().history.is_none() {
            self.load(opened.ledger())?;
            self.reconcile(&mut opened);
            opened.publish();
        }
        Ok(opened)
    }

    /// Ends transactions that the log has open and their coordinator does not.
    fn reconcile(&self, opened: &mut LedgerGuard<'_>) {
        let open: Vec<(ProducerId, Offset)> = opened.history().stable().open().collect();
        for (ProducerId(producer_id), Offset(first)) in open {
            let known = opened.history().producers().get(producer_id).map_or(0, |it| it.epoch);
            let TransactionFate::Ended { epoch, commit } = self
                .shared
                .transactions
                .fate(ProducerIdentity { id: producer_id, epoch: known }, &self.place)
            else {
                continue;
            };
            let (topic, partition) = (self.streamlet.stream_name(), self.place.index);
            tracing::warn!(
                topic,
                partition,
                producer_id,
                first,
                commit,
                "a transaction was open in the log that has ended: its marker is written again"
            );
            let epoch = epoch.unwrap_or(known).max(known);
            let mark = TransactionMark {
                producer: ProducerIdentity { id: producer_id, epoch },
                commit,
                again: true,
            };
            match self.mark(opened, mark) {
                Ok(append) => {
                    let me = Weak::clone(&self.me);
                    append.on_durable(Box::new(move |_| {
                        if let Some(partition) = me.upgrade() {
                            partition.landed();
                        }
                    }));
                }
                Err(error) => tracing::error!(topic, partition, %error, "it could not be written"),
            }
        }
    }

    /// Appends a chunk that a client sent, if it is new.
    pub(crate) fn append(
        &self,
        context: &Context<'_>,
        mut checked: CheckedChunk,
        transactional: Option<&KafkaString>,
    ) -> Result<Appended, RequestRefusal> {
        let append_time_ms = checked.stamp(context.broker, &self.live);
        let (head, bytes) = (&checked.head, checked.chunk.len());
        let chunk = ChunkBytes { bytes: checked.chunk, is_whole: checked.is_whole };
        if head.is_transactional() && transactional.is_none() {
            let why = "records of a transaction without a transactional id";
            return Err(RequestRefusal::with(ErrorCode::TransactionalIdAuthorizationFailed, &why));
        }
        let append = match Sequenced::of(head) {
            Some(sequenced) => {
                let asked =
                    SequencedRequest { version: context.version(), transactional, sequenced };
                match self.append_sequenced(&asked, head, chunk)? {
                    Appended::New(append, _) => append,
                    repeated => return Ok(repeated),
                }
            }
            None if head.is_transactional() => {
                let why = "a transaction's records have a producer";
                return Err(RequestRefusal::with(ErrorCode::InvalidRecord, &why));
            }
            None => self.append_chunk(head, chunk, context.caller.id)?,
        };
        let counts = &context.broker.counts;
        counts.produced_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        let records = u64::try_from(head.record_count).unwrap_or(0);
        counts.produced_records.fetch_add(records, Ordering::Relaxed);
        Ok(Appended::New(append, append_time_ms))
    }

    fn append_chunk(
        &self,
        head: &ChunkHead,
        chunk: ChunkBytes,
        lane: u64,
    ) -> Result<Append, AppendError> {
        let (bytes, how) = (chunk.bytes.len(), AppendOptions { order_key: lane });
        let append = if chunk.is_whole {
            self.streamlet.append_owned(head, chunk.bytes, how)?
        } else {
            self.streamlet.append_checked(head, &chunk.bytes, how)?
        };
        self.advance(bytes);
        Ok(append)
    }

    /// Appends a chunk of an idempotent producer, if it is new.
    fn append_sequenced(
        &self,
        asked: &SequencedRequest<'_>,
        head: &ChunkHead,
        chunk: ChunkBytes,
    ) -> Result<Appended, RequestRefusal> {
        let SequencedRequest { version, transactional, sequenced } = asked;
        let adds = sequenced.transactional && *version >= ADDS_FROM_VERSION;
        let mut opened = self.open().map_err(|error| self.unknown(&error))?;
        let begins = match opened.history().check(sequenced, adds)? {
            history::ChunkStep::Repeated(taken) => {
                return Ok(Appended::Repeated {
                    streamlet: Arc::clone(&self.streamlet),
                    base_offset: taken.base_offset,
                    last_offset: taken.last_offset,
                });
            }
            history::ChunkStep::Append { begins } => begins,
        };
        if begins {
            let transactional_id = transactional.map_or("", KafkaString::as_str);
            let producer = sequenced.producer();
            // Under the ledger's lock: its end cannot be written here between this and the append.
            let verified = self.shared.transactions.verify(transactional_id, producer, &self.place);
            verified.map_err(|error| error.of_produce(*version))?;
            // From here on: before a reader sees a record that may not be committed.
            self.first_unstable.fetch_min(self.streamlet.end_offset(), Ordering::SeqCst);
        }
        let lane = u64::try_from(sequenced.producer_id).unwrap_or(0);
        let append = match self.append_chunk(head, chunk, lane) {
            Ok(append) => append,
            Err(error) => {
                opened.publish();
                return Err(error.into());
            }
        };
        let (offsets, now_ms) = ((append.base_offset, append.last_offset), self.now_ms());
        let history = opened.history();
        history.took(sequenced, offsets, now_ms);
        history.bound(self.shared.limits.producers);
        if begins {
            opened.publish();
        }
        Ok(Appended::New(append, None))
    }

    /// Writes the end of a transaction. `notice` is called when it is durable, or at once if it
    /// was here already.
    pub(crate) fn end_transaction(
        &self,
        mark: TransactionMark,
        notice: OnDurable,
    ) -> Result<(), AppendError> {
        let mut opened = self.open().map_err(|error| {
            tracing::warn!(%error, topic = self.streamlet.stream_name(), "producers not known");
            AppendError::Failed(Arc::from(error.to_string()))
        })?;
        if mark.again && !opened.history().needs_marker(mark.producer) {
            drop(opened);
            notice(Ok(()));
            return Ok(());
        }
        let append = self.mark(&mut opened, mark)?;
        drop(opened);
        let me = Weak::clone(&self.me);
        append.on_durable(Box::new(move |outcome| {
            if let Some(partition) = me.upgrade() {
                partition.landed();
            }
            notice(outcome);
        }));
        Ok(())
    }

    fn mark(
        &self,
        opened: &mut LedgerGuard<'_>,
        mark: TransactionMark,
    ) -> Result<Append, AppendError> {
        let TransactionMark { producer, commit, .. } = mark;
        let time_ms = self.shared.world.clock.wall_micros() / 1000;
        let chunk = control_marker(&Marker {
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            is_commit: commit,
            coordinator_epoch: 0,
            timestamp_ms: time_ms,
        });
        let head = ChunkHead::read(&chunk)?;
        let lane = u64::try_from(producer.id).unwrap_or(0);
        let chunk = ChunkBytes { bytes: chunk.into(), is_whole: false };
        let append = self.append_chunk(&head, chunk, lane)?;
        let now_ms = self.now_ms();
        opened.history().ended(producer, commit, Offset(append.base_offset), now_ms);
        opened.publish();
        Ok(append)
    }

    /// Calls with the producers that are known.
    pub(crate) fn with_history<T>(
        &self,
        look: impl FnOnce(&history::History) -> T,
    ) -> Result<T, ErrorCode> {
        let mut opened = self.open().map_err(|error| self.unknown(&error).code)?;
        Ok(look(opened.history()))
    }

    /// The history cannot be read.
    fn unknown(&self, error: &LoadError) -> RequestRefusal {
        let (topic, partition) = (self.streamlet.stream_name(), self.place.index);
        tracing::error!(topic, partition, %error, "producers of a partition are not known");
        RequestRefusal::with(ErrorCode::KafkaStorageError, error)
    }

    /// The first record, by offset, with this time or a later one, in milliseconds, below `end`:
    /// its offset and its time; -1 and -1 if there is none.
    pub(crate) fn offset_for_time(&self, timestamp_ms: i64, end: i64, room: InflateRoom) -> Timed {
        self.said(record_time::first_from(&self.streamlet, timestamp_ms, end, room))
    }

    /// The first record with the largest time below `end`: its offset and its time; -1 and -1 if
    /// there are no records. (KIP-734.)
    pub(crate) fn max_timestamp(&self, end: i64, room: InflateRoom) -> Timed {
        self.said(record_time::latest(&self.streamlet, end, room))
    }

    /// The error of a reader at an offset. Data missing in the middle count as damage: the error
    /// stays, so a retriable code would make clients ask for ever.
    pub(crate) fn unread(&self, error: &ReadError, from: i64) -> ErrorCode {
        match error {
            ReadError::OutOfRange { .. } => return ErrorCode::OffsetOutOfRange,
            // They went while they were looked for.
            ReadError::Missing { .. } if from < self.streamlet.start_offset() => {
                return ErrorCode::OffsetOutOfRange;
            }
            _ => tracing::error!(%error, "data cannot be served"),
        }
        match error {
            ReadError::Disk { .. } => ErrorCode::KafkaStorageError,
            _ => ErrorCode::CorruptMessage,
        }
    }

    fn said(&self, found: Result<Option<(i64, i64)>, TimeError>) -> Timed {
        match found {
            Ok(found) => Ok(Ok(found.unwrap_or((-1, -1)))),
            Err(TimeError::TooLittle(it)) => Err(it),
            Err(TimeError::Read(error)) => {
                let topic = self.streamlet.stream_name();
                tracing::error!(topic, %error, "no record for a time");
                Ok(Err(match error {
                    ReadError::Corrupt { .. } => ErrorCode::CorruptMessage,
                    _ => ErrorCode::KafkaStorageError,
                }))
            }
        }
    }
}

/// The offset and the time of a record, in milliseconds, if there was room to look.
pub(crate) type Timed = Result<Result<(i64, i64), ErrorCode>, TooLittle>;

/// A chunk that is about to be appended.
struct ChunkBytes {
    bytes: Bytes,
    /// As [`CheckedChunk::is_whole`].
    is_whole: bool,
}

/// A chunk of a producer, as it was sent.
struct SequencedRequest<'a> {
    version: i16,
    transactional: Option<&'a KafkaString>,
    sequenced: Sequenced,
}
