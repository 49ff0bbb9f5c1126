//! What a Kafka partition is beyond a streamlet: the checks of a broker, and its producers.

use crate::{
    api::Context, fetch_answer::Aborted, intake, record_time, refusal::Refusal, topic::Live,
};
use bytes::Bytes;
use std::sync::{Arc, atomic::Ordering};
use tidemill_log::{Append, AppendHow, Interest, OnData, OnDurable, ReadError, Streamlet};
use tidemill_wire::kafka::{ErrorCode, KafkaString};

/// A partition: a streamlet, and what the broker knows of its producers.
pub(crate) struct Partition {
    pub(crate) streamlet: Arc<Streamlet>,
    /// What its topic knows now.
    pub(crate) live: Arc<Live>,
}

/// What an append came to.
pub(crate) enum Appended {
    /// It has its offsets, and its records the time of the append in milliseconds, if that is
    /// what its topic gives them.
    New(Append, Option<i64>),
}

/// A reader that waits; it is forgotten when this is dropped.
pub(crate) struct Readable {
    _log: Option<Interest>,
}

impl Appended {
    pub(crate) fn base_offset(&self) -> i64 {
        match self {
            Self::New(append, _) => append.base_offset,
        }
    }

    /// The timestamp that the records got from the broker, in milliseconds; -1 if none.
    pub(crate) fn append_time_ms(&self) -> i64 {
        match self {
            Self::New(_, time_ms) => time_ms.unwrap_or(-1),
        }
    }

    /// Calls back when it counts.
    pub(crate) fn on_durable(self, notice: OnDurable) {
        match self {
            Self::New(append, _) => append.on_durable(notice),
        }
    }
}

impl Partition {
    pub(crate) fn new(streamlet: Arc<Streamlet>, live: Arc<Live>) -> Self {
        Self { streamlet, live }
    }

    /// Checks a chunk that a client sent and appends it.
    pub(crate) fn append(
        &self,
        context: &Context<'_>,
        chunk: &Bytes,
        _transactional: Option<&KafkaString>,
    ) -> Result<Appended, Refusal> {
        let taken = intake::take(context.broker, &self.live, chunk, context.version())?;
        let (head, chunk) = (&taken.head, &taken.chunk);
        let lane = u64::try_from(head.producer_id).unwrap_or(context.caller.id);
        let counts = &context.broker.counts;
        counts.produced_bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
        let records = u64::try_from(head.record_count).unwrap_or(0);
        counts.produced_records.fetch_add(records, Ordering::Relaxed);
        let how = AppendHow { lane, leader_epoch: 0 };
        let append = self.streamlet.append_checked(head, chunk, how)?;
        Ok(Appended::New(append, taken.append_time_ms))
    }

    /// The offset after the last that readers of committed records may see: that of the first
    /// record of the oldest open transaction, or the high watermark. (KIP-98.)
    pub(crate) fn last_stable_offset(&self) -> i64 {
        self.streamlet.high_watermark()
    }

    /// Calls back once when there may be something to read at `offset`: an acknowledged record, or
    /// one below the last stable offset. May call at once. Dropping what is returned forgets it.
    pub(crate) fn on_readable(&self, offset: i64, _committed: bool, notice: OnData) -> Readable {
        Readable { _log: Some(self.streamlet.on_data(offset, notice)) }
    }

    /// Aborted transactions with records from `from` up to, not including, `to`.
    pub(crate) fn aborted(&self, _from: i64, _to: i64) -> Vec<Aborted> {
        Vec::new()
    }

    /// The first record, by offset, with this time or a later one, in milliseconds, below `end`:
    /// its offset and its time; -1 and -1 if there is none.
    pub(crate) fn offset_for_time(
        &self,
        timestamp_ms: i64,
        end: i64,
    ) -> Result<(i64, i64), ErrorCode> {
        self.said(record_time::first_from(&self.streamlet, timestamp_ms, end))
    }

    /// The first record with the largest time below `end`: its offset and its time; -1 and -1 if
    /// there are no records. (KIP-734.)
    pub(crate) fn max_timestamp(&self, end: i64) -> Result<(i64, i64), ErrorCode> {
        self.said(record_time::latest(&self.streamlet, end))
    }

    fn said(&self, found: Result<Option<(i64, i64)>, ReadError>) -> Result<(i64, i64), ErrorCode> {
        found.map(|it| it.unwrap_or((-1, -1))).map_err(|error| {
            tracing::error!(topic = self.streamlet.stream_name(), %error, "no record for a time");
            if matches!(error, ReadError::Corrupt { .. }) {
                ErrorCode::CorruptMessage
            } else {
                ErrorCode::KafkaStorageError
            }
        })
    }
}
