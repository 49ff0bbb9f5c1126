//! The chunks of one streamlet, in order: one that is being filled, those that are full, those that
//! are under way.
//!
//! ```text
//! append ─▶ open ─ close ─▶ closed ─ next ─▶ in flight ─ answered ─▶ finished
//!                             ▲──────── again ───────┘
//! ```
//!
//! No clock, no lock and no socket here: facts come in, decisions go out.
//!
//! Invariants: chunks are sent in the order of their serials; a chunk that is sent again is under
//! way alone, so that a log that remembers as many chunks as may be under way recognizes it
//! (KIP-98); sequence numbers under one identity have no gap; a chunk that may be in the log keeps
//! its stamp until the log says that it is not there.

use super::{
    Delivered, NewRecord, ProduceError,
    answer_policy::{AnswerDecision, ChunkFacts},
    chunk::{DeliveryCallback, FinishedChunk, ProducerChunk, Stamp},
    identity::ProducerIdentity,
};
use bytes::Bytes;
use std::collections::VecDeque;
use tidemill_wire::records::{ChunkBuilder, Compression, RecordRefused};

#[cfg(test)]
mod tests;

/// The producer's options that a queue uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueRules {
    pub(super) idempotent: bool,
    pub(super) compression: Compression,
    pub(super) linger_us: u64,
    pub(super) batch_bytes: usize,
    /// Chunks of a streamlet that may be under way at once.
    pub(super) in_flight: usize,
    pub(super) delivery_timeout_us: u64,
}

/// A chunk that takes records.
struct OpenChunk {
    builder: ChunkBuilder,
    dones: Vec<(u32, DeliveryCallback)>,
    born_us: u64,
    base_timestamp_ms: i64,
    reserved: usize,
}

/// The moment at which the next chunk can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// After the next record or answer.
    Idle,
    /// At this moment.
    At(u64),
    /// Now.
    Ready,
}

/// The outcome of an append to the open chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// It did; as the first of its chunk, or not.
    Yes { first: bool },
    /// There is no room for it in the producer's buffer.
    NoRoom,
}

/// The reason that no chunk is given out to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotNow {
    /// Nothing is ready.
    NotReady,
    /// The next chunk is longer than the room in the request.
    TooLong,
    /// Another producer id than this one is needed.
    NeedsIdentity(Option<ProducerIdentity>),
}

/// See the module.
pub(super) struct ChunkQueue {
    rules: QueueRules,
    open: Option<OpenChunk>,
    closed: VecDeque<ProducerChunk>,
    in_flight: VecDeque<ProducerChunk>,
    next_serial: u64,
    identity: Option<ProducerIdentity>,
    next_sequence: i32,
    /// A number was given out that the log may not have. Chunks without a number get one of another
    /// identity, once the outcome of all with a number is known.
    gap: bool,
    /// The log refuses this identity: another one follows once no chunk is under way.
    renew: bool,
    failures: u32,
    not_before_us: u64,
    last_obstacle: Option<String>,
    /// When the sender is due to look at this queue; its entry in the schedule.
    pub(super) due_us: Option<u64>,
}

impl ChunkQueue {
    pub(super) fn new(rules: QueueRules) -> Self {
        Self {
            rules,
            open: None,
            closed: VecDeque::new(),
            in_flight: VecDeque::new(),
            next_serial: 0,
            identity: None,
            next_sequence: 0,
            gap: false,
            renew: false,
            failures: 0,
            not_before_us: 0,
            last_obstacle: None,
            due_us: None,
        }
    }

    /// True if no chunk is being filled.
    pub(super) fn is_between_chunks(&self) -> bool {
        self.open.as_ref().is_none_or(|open| open.builder.is_empty())
    }

    /// True if the record would begin a chunk.
    pub(super) fn would_begin(&self, record: &NewRecord<'_>) -> bool {
        let fits = |open: &OpenChunk| {
            open.builder.len_bytes() + record.bytes_most() <= self.rules.batch_bytes
        };
        self.is_between_chunks() || !self.open.as_ref().is_some_and(fits)
    }

    /// Puts a record into the open chunk, or into a new one if it does not fit. `take_room` takes
    /// bytes of the buffer, if there are as many.
    pub(super) fn append(
        &mut self,
        record: &NewRecord<'_>,
        timestamp_ms: i64,
        done: &mut Option<DeliveryCallback>,
        now_us: impl FnOnce() -> u64,
        take_room: impl FnOnce(usize) -> bool,
    ) -> Result<Appended, RecordRefused> {
        let most = record.bytes_most();
        if let Some(open) = &self.open {
            let fits = open.builder.len_bytes() + most <= self.rules.batch_bytes;
            let close_in_time = timestamp_ms.abs_diff(open.base_timestamp_ms) <= i64::MAX as u64;
            if !(open.builder.is_empty() || fits && close_in_time) {
                self.close();
            }
        }
        let compression = self.rules.compression;
        let open = self.open.get_or_insert_with(|| OpenChunk::new(compression));
        let wanted = open.builder.len_bytes() + most;
        if wanted > open.reserved {
            let steps = wanted.next_multiple_of(STEP_BYTES).min(self.rules.batch_bytes);
            let more = steps.max(wanted) - open.reserved;
            if !take_room(more) {
                return Ok(Appended::NoRoom);
            }
            open.reserved += more;
        }
        let first = open.builder.is_empty();
        if first {
            open.born_us = now_us();
            open.base_timestamp_ms = timestamp_ms;
        }
        let headers = record.headers.iter().copied();
        let place = open.builder.append(timestamp_ms, record.key, record.value, headers)?;
        open.dones.extend(done.take().map(|done| (place.unsigned_abs(), done)));
        if open.builder.len_bytes() + RECORD_BYTES_LEAST > self.rules.batch_bytes {
            self.close();
        }
        Ok(Appended::Yes { first })
    }

    /// True if there are chunks to be sent, or under way.
    pub(super) fn is_moving(&self) -> bool {
        self.has_closed() || !self.in_flight.is_empty()
    }

    /// True if there are closed chunks.
    pub(super) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// The number of chunks closed so far.
    pub(super) fn closed_serial(&self) -> u64 {
        self.next_serial
    }

    /// Closes the open chunk. True if it had a record.
    pub(super) fn close(&mut self) -> bool {
        let Some(open) = &mut self.open else { return false };
        let records = open.builder.record_count().unsigned_abs();
        let Some(content) = open.builder.finish() else { return false };
        let mut chunk = ProducerChunk::new(content, records, self.next_serial, open.born_us);
        self.next_serial += 1;
        chunk.reserved = std::mem::take(&mut open.reserved);
        chunk.dones = std::mem::take(&mut open.dones);
        self.closed.push_back(chunk);
        true
    }

    /// Takes the memory of a finished chunk for the next one.
    pub(super) fn give_memory(&mut self, memory: Vec<u8>) {
        if let Some(open) = &mut self.open {
            open.builder.give_back(memory);
        }
    }

    /// Frees the memory of the open chunk, if it has no records.
    pub(super) fn rest(&mut self) {
        if self.is_between_chunks() && self.open.as_ref().is_none_or(|it| it.reserved == 0) {
            self.open = None;
        }
    }

    /// True if the next chunk waits until none is under way.
    fn must_be_alone(&self) -> bool {
        let again = |it: &ProducerChunk| it.attempts > 0;
        self.renew
            || self.gap
            || self.closed.front().is_some_and(again)
            || self.in_flight.iter().any(|it| it.attempts > 1)
    }

    /// The moment at which the next chunk can be sent.
    pub(super) fn readiness(&self, now_us: u64) -> Readiness {
        let open = self.open.as_ref().filter(|it| !it.builder.is_empty());
        if self.closed.is_empty() && open.is_none()
            || self.in_flight.len() >= self.rules.in_flight
            || !self.in_flight.is_empty() && self.must_be_alone()
        {
            return Readiness::Idle;
        }
        let lingers_until_us = match open {
            Some(open) if self.closed.is_empty() => {
                open.born_us.saturating_add(self.rules.linger_us)
            }
            _ => 0,
        };
        let at_us = self.not_before_us.max(lingers_until_us);
        if at_us > now_us { Readiness::At(at_us) } else { Readiness::Ready }
    }

    /// The next chunk to be sent, with its serial. `current` is the identity that the producer has
    /// at the moment.
    pub(super) fn next(
        &mut self,
        now_us: u64,
        current: Option<ProducerIdentity>,
        bytes_max: usize,
    ) -> Result<(u64, Bytes), NotNow> {
        if self.readiness(now_us) != Readiness::Ready {
            return Err(NotNow::NotReady);
        }
        if self.rules.idempotent {
            self.take_identity(current)?;
        }
        if self.closed.is_empty() {
            self.close();
        }
        if self.closed.front().is_some_and(|it| it.len() > bytes_max) {
            return Err(NotNow::TooLong);
        }
        let Some(mut chunk) = self.closed.pop_front() else { return Err(NotNow::NotReady) };
        if let (Some(identity), None) = (self.identity, chunk.stamp) {
            chunk.stamp(Stamp { identity, base_sequence: self.next_sequence });
            self.next_sequence = after(self.next_sequence, chunk.records);
        }
        chunk.attempts += 1;
        let sent = (chunk.serial, chunk.bytes());
        self.in_flight.push_back(chunk);
        Ok(sent)
    }

    fn take_identity(&mut self, current: Option<ProducerIdentity>) -> Result<(), NotNow> {
        // To be known by a log that has it, a chunk is sent again as it was.
        let may_be_there = self.closed.front().is_some_and(|it| it.stamp.is_some());
        if self.identity.is_some() && !self.renew && (!self.gap || may_be_there) {
            return Ok(());
        }
        if current.is_none() || current == self.identity {
            return Err(NotNow::NeedsIdentity(self.identity));
        }
        (self.gap, self.renew) = (false, false);
        self.identity = current;
        self.next_sequence = 0;
        for chunk in &mut self.closed {
            // To a log, these are other chunks than those that it does not have.
            chunk.stamp = None;
            chunk.attempts = 0;
        }
        Ok(())
    }

    /// Facts about a chunk that is under way.
    pub(super) fn facts(&self, serial: u64) -> Option<ChunkFacts> {
        let chunk = self.in_flight.iter().find(|it| it.serial == serial)?;
        let waiting = self.closed.iter().filter(|it| it.stamp.is_some());
        let first = self.in_flight.iter().chain(waiting).all(|it| it.serial >= serial);
        Some(ChunkFacts { stamped: chunk.stamp.is_some(), first })
    }

    /// Takes the answer about a chunk under way: the decision, the log's data of a chunk that
    /// counts, and the reason if it does not.
    pub(super) fn answered(
        &mut self,
        serial: u64,
        answer_policy: AnswerDecision,
        delivered: Delivered,
        error: ProduceError,
        rest_until_us: impl FnOnce(u32) -> u64,
    ) -> Option<FinishedChunk> {
        let index = self.in_flight.iter().position(|it| it.serial == serial)?;
        let chunk = self.in_flight.remove(index)?;
        match answer_policy {
            AnswerDecision::Delivered | AnswerDecision::Known => {
                self.failures = 0;
                self.not_before_us = 0;
                self.last_obstacle = None;
                Some(FinishedChunk { chunk, outcome: Ok(delivered) })
            }
            AnswerDecision::Failed => {
                // If its numbers are not in the log, those behind it will not fit.
                self.gap |= chunk.stamp.is_some();
                Some(FinishedChunk { chunk, outcome: Err(error) })
            }
            AnswerDecision::Again { .. } | AnswerDecision::NewIdentity => {
                self.renew |= answer_policy == AnswerDecision::NewIdentity;
                // Those that were under way together fail together: that is one failure.
                if index == 0 {
                    self.failures = self.failures.saturating_add(1);
                    self.not_before_us = rest_until_us(self.failures);
                }
                self.last_obstacle = Some(error.to_string());
                let place = self.closed.partition_point(|it| it.serial < serial);
                self.closed.insert(place, chunk);
                None
            }
        }
    }

    /// Notes an obstacle to sending.
    pub(super) fn note_obstacle(&mut self, obstacle: impl ToString) {
        self.last_obstacle = Some(obstacle.to_string());
    }

    /// The last obstacle since chunks were delivered.
    pub(super) fn last_obstacle(&self) -> Option<String> {
        self.last_obstacle.clone()
    }

    /// Takes out chunks that have waited for too long, and are not under way.
    pub(super) fn expire(
        &mut self,
        now_us: u64,
        timed_out: impl Fn(&str, u64) -> ProduceError,
    ) -> Vec<FinishedChunk> {
        let Some(dead_us) = now_us.checked_sub(self.rules.delivery_timeout_us) else {
            return Vec::new();
        };
        if self.open.as_ref().is_some_and(|it| it.born_us <= dead_us) {
            self.close();
        }
        let mut expired = Vec::new();
        while self.closed.front().is_some_and(|it| it.born_us <= dead_us) {
            let Some(chunk) = self.closed.pop_front() else { break };
            self.gap |= chunk.stamp.is_some();
            let last = self.last_obstacle.as_deref().unwrap_or("it had no turn");
            let outcome = Err(timed_out(last, now_us.saturating_sub(chunk.born_us)));
            expired.push(FinishedChunk { chunk, outcome });
        }
        expired
    }

    /// Takes out everything, because the producer ends.
    pub(super) fn drain_all(&mut self) -> Vec<ProducerChunk> {
        self.close();
        self.in_flight.drain(..).chain(self.closed.drain(..)).collect()
    }

    /// The first serial that is not finished, and the one that the next new chunk will get; they
    /// are the same when nothing waits.
    pub(super) fn serials(&self) -> (u64, u64) {
        let end = self.next_serial + u64::from(!self.is_between_chunks());
        let waiting = self.in_flight.iter().chain(&self.closed).map(|it| it.serial);
        (waiting.min().unwrap_or(self.next_serial).min(end), end)
    }
}

/// Bytes by which the room of an open chunk grows.
const STEP_BYTES: usize = 16 << 10;
/// A chunk with less room than this is full.
const RECORD_BYTES_LEAST: usize = 32;

impl OpenChunk {
    fn new(compression: Compression) -> Self {
        Self {
            builder: ChunkBuilder::new(compression),
            dones: Vec::new(),
            born_us: 0,
            base_timestamp_ms: 0,
            reserved: 0,
        }
    }
}

/// The sequence number `records` later: the highest one is followed by 0.
fn after(sequence: i32, records: u32) -> i32 {
    let sum = i64::from(sequence) + i64::from(records);
    (sum & i64::from(i32::MAX)) as i32
}
