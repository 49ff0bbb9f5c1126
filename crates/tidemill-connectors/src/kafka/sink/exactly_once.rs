//! Each row once: a transaction for each commit, with the cycle in it.
//!
//! ```text
//! commit(c): │ chunks of the rows up to c ─▶ partitions │
//!            │ offset c of the group ────▶ coordinator  │ ─▶ end     all or nothing
//!
//! open, and after any failure:  take the transactional id over ─▶ read the group's offset: held
//! ```
//!
//! # Why each row is there once
//!
//! A *run* of a job is all of its lives from a start to the next start without `--resume`. It draws
//! a number, which is noted in the job's folder before anything is written, and has a transactional
//! id and a group of that number to itself. The group has one offset: the last cycle of the last
//! transaction that was committed, and in its metadata the *life* that wrote it, a number that each
//! process draws.
//!
//! 1. Rows and offset are in one transaction, so a reader of committed records sees the rows of the
//!    cycles up to *c*, once the offset is *c*, and else none of those after the offset before.
//! 2. Taking the id over (`InitProducerId`) returns after every transaction that was begun under the
//!    id has ended, and no chunk or end sent under an earlier epoch counts any more. The offset read
//!    after it, with those of undecided transactions waited for, is therefore the committed cycle.
//! 3. So a failure in a commit, whatever it was, leaves one question, and it has that answer: if the
//!    offset is *c* the rows are there, else none of them is, and all are sent again.
//! 4. A process that was thought dead and is not may take the id over as well; but before it writes
//!    it finds the life of another process in the metadata, and gives up. A life begins with a
//!    transaction that writes itself there. If that one counts, nobody took the id over between the
//!    offset that it repeats and itself.
//! 5. Cuts of cycles are in the ledger before a commit, and a replay makes the same rows again:
//!    a crash does not change the rows that are sent.
//!
//! | a process is killed | the next one finds | and does |
//! | --- | --- | --- |
//! | before its run is noted | no run, or the one before | begins one |
//! | before its first transaction has ended | no offset, and that none was written | holds nothing |
//! | before it has noted that one was written | offset 0, or the one before | holds that |
//! | in the transaction of *c*, before its end has come | the offset before; the open transaction is aborted | sends the rows of *c* again |
//! | after its end has come, told or not | *c*, once all of it has ended | leaves the rows of *c* out |
//! | while an end is made up for that a broker has missed | as if it had not been missed | as above |
//!
//! The last line has a table of its own, where ids are taken over (`tidemill-client`,
//! `transactions`), with the remaining case.
//!
//! The cluster forgets an offset that was not written for long (`offsets.retention.minutes`, 7 days
//! by default, for a group without members). A job that has no rows for long writes it again now and
//! then. One that ended at the end of a cycle has noted where it was; one that was killed, and is
//! resumed after that time, is refused.
//!
//! Invariant: nothing is written under an id whose offset was not read since it was taken over.

use crate::notes::{Notes, not_noted, not_read};
use crate::stream::rows::{CHUNK_BYTES, CycleRows, EncodedRow, chunk_rows};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, io, path::Path, time::Duration};
use tidemill_client::{
    Admin, AdminError, Client, Transactions,
    transactions::{OffsetMark, is_passing},
};
use tidemill_env::World;
use tidemill_flow::{ErrorKind, RetryPolicy, SinkError};
use tidemill_types::{Cycle, job::KafkaSinkSpec};
use tidemill_wire::{
    kafka::ErrorCode,
    records::{ChunkBuilder, Compression},
};

/// After so long without rows the offset is written again, in microseconds.
const RENEW_US: u64 = 3600 * 1_000_000;

/// The note of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Run {
    run: u64,
    /// The topic's id.
    topic: String,
    /// True once the group's offset was written.
    begun: bool,
    /// The committed cycle, if the job ended in good order.
    ended: Option<u64>,
}

/// See the module.
pub(super) struct ExactlyOnce {
    world: World,
    client: Client,
    admin: Admin,
    topic: String,
    /// Of the job and the sink.
    name: String,
    notes: Notes<Run>,
    run: Run,
    life: u64,
    /// The cluster aborts a transaction that is open for longer.
    timeout: Duration,
    transactions: Transactions,
    held: Cycle,
    /// When that was written last, on the monotonic clock.
    written_us: u64,
    /// Bytes of rows in a chunk at most; less once the topic has taken no such chunk.
    chunk_bytes: usize,
    patience: RetryPolicy,
}

/// The error of a sink whose cluster refuses a request.
fn admin_error(error: AdminError) -> SinkError {
    let is_retry = is_passing(&error);
    SinkError::new(error.to_string()).retry_if(is_retry).with_source(error)
}

/// A name that a cluster takes for a transactional id and a group.
fn id_of(name: &str, run: u64) -> String {
    format!("tidemill-{name}-{run:016x}")
}

impl ExactlyOnce {
    pub(super) fn new(
        world: &World,
        client: &Client,
        spec: &KafkaSinkSpec,
        name: &str,
        notes: &Path,
    ) -> Self {
        let now = world.clock.wall_micros().unsigned_abs();
        let life = world.random(now ^ u64::from(u32::MAX)).next();
        let timeout = spec.transaction_timeout.duration();
        Self {
            world: world.clone(),
            client: client.clone(),
            admin: client.admin(),
            topic: spec.topic.clone(),
            name: name.to_owned(),
            notes: Notes::new(world, notes),
            run: Run { run: 0, topic: String::new(), begun: false, ended: None },
            life,
            timeout,
            transactions: client.transactions("", timeout),
            held: Cycle::NONE,
            written_us: 0,
            chunk_bytes: CHUNK_BYTES,
            patience: RetryPolicy::new(world),
        }
    }

    pub(super) fn retry_with(&mut self, patience: RetryPolicy) {
        self.patience = patience;
    }

    /// Begins a run, or continues the noted one. Returns the last committed cycle.
    pub(super) fn open(&mut self, resume: bool, topic: &str) -> Result<Cycle, SinkError> {
        let noted = self.notes.read();
        match noted {
            Ok(Some(run)) if resume => {
                if run.topic != topic {
                    let message = "it is not the topic that the job wrote before, but another one \
                                   of that name; start the job anew";
                    return Err(SinkError::of_kind(ErrorKind::Invalid, message));
                }
                self.run = run;
            }
            Err(error) if resume => return Err(not_read(&error)),
            noted => {
                // What an earlier run left open would hold up readers until it times out.
                if let Ok(Some(run)) = noted {
                    let id = self.id(run.run);
                    let mut earlier = self.client.transactions(&id, self.timeout);
                    if earlier.take_over(&self.topic, &id).is_ok() {
                        drop(self.admin.delete_group(&id));
                    }
                }
                let now = self.world.clock.wall_micros().unsigned_abs();
                let run = self.world.random(now).next();
                self.run = Run { run, topic: topic.to_owned(), begun: false, ended: None };
                self.note().map_err(|error| not_noted(&error))?;
            }
        }
        let transactions = self.client.transactions(&self.id(self.run.run), self.timeout);
        self.transactions = transactions.only_to(&self.run.topic);
        self.persist(|it| it.begin())?;
        self.written_us = self.world.clock.monotonic_micros();
        self.run = Run { begun: true, ended: None, ..self.run.clone() };
        self.note().map_err(|error| not_noted(&error))?;
        Ok(self.held)
    }

    fn id(&self, run: u64) -> String {
        id_of(&self.name, run)
    }

    fn note(&self) -> io::Result<()> {
        self.notes.write(&self.run)
    }

    /// Tries again and again, with rests, until it is done or cannot be.
    fn persist<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, SinkError>,
    ) -> Result<T, SinkError> {
        loop {
            match attempt(self) {
                Ok(done) => {
                    self.patience.succeeded();
                    return Ok(done);
                }
                Err(error) if !error.is_retry() => return Err(error),
                Err(error) => {
                    let topic = &self.topic;
                    self.patience.report(format_args!("topic `{topic}`: {error}"));
                    if self.patience.gives_up() {
                        return Err(SinkError::new(RetryPolicy::give_up_message(error)));
                    }
                    self.patience.pause();
                }
            }
        }
    }

    /// Takes the id over and reads the committed cycle. If either fails, the id belongs to another process.
    fn take_over(&mut self) -> Result<Option<(Cycle, String)>, SinkError> {
        let group = self.id(self.run.run);
        let offsets = self.transactions.take_over(&self.topic, &group).map_err(admin_error)?;
        let mark = offsets.get(&self.topic).and_then(|it| it.get(&0));
        Ok(mark.map(|it| (Cycle(it.offset.unsigned_abs()), it.metadata.clone())))
    }

    /// Begins a life.
    fn begin(&mut self) -> Result<(), SinkError> {
        self.held = match (self.take_over()?, self.run.ended) {
            (Some((held, _)), _) => held,
            (None, Some(ended)) => Cycle(ended),
            (None, None) if !self.run.begun => Cycle::NONE,
            (None, None) => {
                let message = "the cluster has forgotten how far the job was \
                               (`offsets.retention.minutes`); start the job anew";
                return Err(SinkError::new(message));
            }
        };
        let mark = self.mark(self.held);
        self.transactions.commit(&self.topic, BTreeMap::new(), &mark).map_err(admin_error)
    }

    fn mark(&self, held: Cycle) -> OffsetMark {
        OffsetMark {
            group: self.id(self.run.run),
            stream: self.topic.clone(),
            streamlet: 0,
            offset: held.0.cast_signed(),
            metadata: self.life_text(),
        }
    }

    fn life_text(&self) -> String {
        format!("life {:016x}", self.life)
    }

    /// Commits the rows; returns when they are there.
    pub(super) fn commit(
        &mut self,
        cycle: Cycle,
        ready: &[CycleRows],
        partitions: u32,
    ) -> Result<(), SinkError> {
        let silent_us = self.world.clock.monotonic_micros().saturating_sub(self.written_us);
        // Cycles without rows leave nothing to be seen, and are made again after a crash.
        let cycle = match ready.iter().any(|it| !it.rows.is_empty()) {
            true => cycle,
            false if silent_us >= RENEW_US => self.held,
            false => return Ok(()),
        };
        self.persist(|it| it.try_commit(cycle, ready, partitions))?;
        self.held = cycle;
        self.written_us = self.world.clock.monotonic_micros();
        Ok(())
    }

    fn try_commit(
        &mut self,
        cycle: Cycle,
        ready: &[CycleRows],
        partitions: u32,
    ) -> Result<(), SinkError> {
        if !self.transactions.is_ready() {
            match self.take_over()? {
                Some((_, life)) if life != self.life_text() => {
                    let message = "another process has resumed this job and writes in its place";
                    return Err(SinkError::new(message));
                }
                Some((held, _)) if held == self.held => {}
                Some((held, _)) if held == cycle => return Ok(()),
                found => {
                    let found = found.map_or("nothing".to_owned(), |it| format!("cycle {}", it.0));
                    let message = format!(
                        "the cluster says that {found} is there, and it was cycle {}",
                        self.held
                    );
                    return Err(SinkError::new(message));
                }
            }
        }
        let now_ms = self.world.clock.wall_micros().div_euclid(1000);
        let most = self.chunk_bytes;
        let chunks = chunks(ready, partitions, now_ms, most).map_err(SinkError::new)?;
        let mark = self.mark(cycle);
        match self.transactions.commit(&self.topic, chunks, &mark) {
            // As Kafka's own producer does with a batch; a row that is too long stays so.
            Err(error) if error.code() == Some(ErrorCode::MessageTooLarge) && most > 1 => {
                self.chunk_bytes = most / 4;
                Err(SinkError::retry(format!("{error}; it is tried with smaller ones")))
            }
            outcome => outcome.map_err(admin_error),
        }
    }

    /// Notes the committed cycle, in case the cluster forgets it.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.run.ended = Some(self.held.0);
        self.note()
    }
}

/// The rows as chunks by partition.
pub(super) fn chunks(
    ready: &[CycleRows],
    partitions: u32,
    now_ms: i64,
    chunk_bytes: usize,
) -> Result<BTreeMap<i32, Vec<Vec<u8>>>, String> {
    let mut chunks: BTreeMap<i32, Vec<Vec<u8>>> = BTreeMap::new();
    let mut builder = ChunkBuilder::new(Compression::NONE);
    for pending in ready {
        for (partition, rows) in (0..).zip(pending.by_streamlet(partitions)) {
            let mut rows: &[&EncodedRow] = &rows;
            while !rows.is_empty() {
                let fits = chunk_rows(rows, chunk_bytes);
                let made = pending.chunk(&mut builder, &rows[..fits], &[], now_ms);
                let made = made.map_err(|error| error.to_string())?;
                chunks.entry(partition).or_default().extend(made);
                rows = &rows[fits..];
            }
        }
    }
    Ok(chunks)
}
