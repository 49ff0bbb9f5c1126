//! A stream as a sink: rows become records, and each chunk names its cycle.
//!
//! ```text
//! commit(c): rows of each cycle up to c ─▶ chunks by streamlet ─▶ append all ─▶ wait till durable
//!                                           │ first record's header `tidemill`:
//!                                           └ run, cycle, part, and the cycle that was held before
//! ```
//!
//! A job that resumes reads the headers of its own chunks, from the offsets that it noted last,
//! and so knows the committed rows: all cycles up to the last one held are whole, and of later ones
//! each streamlet has a first part, which the replay leaves out. As a replay makes the same rows in
//! the same parts, a reader sees every row once. The notes are only where to begin looking.
//!
//! Invariant: where a chunk ends depends on the rows alone, not on the clock (`rows`).

use super::note::Written;
use super::rows::{CHUNK_BYTES, CycleRows, EncodedRow, UncommittedRows, chunk_rows};
use crate::error::{ConnectorError, ConnectorErrorKind};
use crate::notes::Notes;
use arrow_schema::SchemaRef;
use std::{
    io,
    path::Path,
    sync::{Arc, Condvar, Mutex, PoisonError},
};
use tidemill_env::{World, has_no_room};
use tidemill_flow::{Block, Sink, SinkError};
use tidemill_log::{
    AppendError, AppendOptions, Log, LogError, ReadCursor, ReadLimit, Stream, StreamSpec,
    Streamlet, is_stream_name,
};
use tidemill_types::{Cycle, job::StreamSinkSpec};
use tidemill_wire::{
    chunk::ChunkHead,
    records::{ChunkBuilder, Compression, Header, Records},
};

#[cfg(test)]
mod tests;

/// The header that says which cycle a chunk is of.
const MARK: &[u8] = b"tidemill";
/// Offsets are noted anew after so many chunks, when no part of a cycle is beyond them: that many are looked at when a job resumes.
const CHUNKS_TO_NOTE: u64 = 1_024;

/// The header that a sink puts into each chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    run: u64,
    cycle: Cycle,
    part: u32,
    held: Cycle,
}

impl Mark {
    fn bytes(self) -> [u8; 28] {
        let mut bytes = [0; 28];
        bytes[..8].copy_from_slice(&self.run.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cycle.0.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.part.to_be_bytes());
        bytes[20..].copy_from_slice(&self.held.0.to_be_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; 28] = bytes.try_into().ok()?;
        let number = |at: usize| bytes[at..at + 8].try_into().map(u64::from_be_bytes);
        Some(Self {
            run: number(0).ok()?,
            cycle: Cycle(number(8).ok()?),
            part: u32::from_be_bytes(bytes[16..20].try_into().ok()?),
            held: Cycle(number(20).ok()?),
        })
    }

    /// The mark of a chunk, if it has one.
    fn of(chunk: &[u8]) -> Option<Self> {
        let head = ChunkHead::read(chunk).ok()?;
        let plain = &chunk[tidemill_wire::chunk::CHUNK_HEAD_BYTES..head.bytes];
        let first = Records::new(&head, plain).next()?.ok()?;
        Self::read(first.headers.into_iter().find(|it| it.key == MARK)?.value?)
    }
}

/// Writes rows to a stream of this process's log.
pub struct StreamSink {
    world: World,
    log: Arc<Log>,
    spec: StreamSinkSpec,
    /// Once it is open.
    stream: Option<Arc<Stream>>,
    rows: UncommittedRows,
    notes: Option<Notes<Written>>,
    run: u64,
    held: Cycle,
    /// By streamlet: the last part that is there of a cycle after the one held. An earlier life has
    /// written it, or a commit that failed then.
    ///
    /// Its length is the number of streamlets that rows are divided among. A stream may get more of
    /// them: a cycle of which a part is there is divided as it was, and the others are written to from
    /// the next note on, which says so to a later life.
    there: Vec<Option<(Cycle, u32)>>,
    chunks_since_note: u64,
    builder: ChunkBuilder,
}

impl StreamSink {
    /// A sink that writes rows of `schema`. The stream is made when the job starts, if it is not
    /// there. With `notes`, a file of the job's folder, a resumed job leaves out rows that are there
    /// already.
    ///
    /// # Errors
    /// The name or the format (not `json` or `text`) is impossible, or a key column is not there.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any sink")]
    pub fn new(
        world: &World,
        log: &Arc<Log>,
        spec: &StreamSinkSpec,
        schema: SchemaRef,
        notes: Option<&Path>,
    ) -> Result<Box<dyn Sink>, ConnectorError> {
        let rows = Self::checked(spec, &schema)?;
        Ok(Box::new(Self {
            world: world.clone(),
            log: Arc::clone(log),
            spec: spec.clone(),
            stream: None,
            there: Vec::new(),
            rows,
            notes: notes.map(|path| Notes::new(world, path)),
            run: 0,
            held: Cycle::NONE,
            chunks_since_note: 0,
            builder: ChunkBuilder::new(Compression::NONE),
        }))
    }

    /// Checks that such a sink is possible for rows of `schema`, without opening anything.
    ///
    /// # Errors
    /// As those of [`Self::new`].
    pub fn check(spec: &StreamSinkSpec, schema: &SchemaRef) -> Result<(), ConnectorError> {
        Self::checked(spec, schema).map(|_| ())
    }

    fn checked(
        spec: &StreamSinkSpec,
        schema: &SchemaRef,
    ) -> Result<UncommittedRows, ConnectorError> {
        let name = &spec.name;
        let refused = |message: String| ConnectorError {
            kind: ConnectorErrorKind::Unwritable,
            message: format!("stream `{name}`: {message}"),
        };
        if !is_stream_name(name) {
            return Err(refused("a name has 1 to 249 of a-z A-Z 0-9 . _ -".to_owned()));
        }
        let subject = format!("stream `{name}`");
        UncommittedRows::new((&subject, name), spec.format, &spec.key, schema)
    }

    fn failed(&self, error: impl std::fmt::Display) -> SinkError {
        SinkError::new(format!("stream `{}` cannot be written: {error}", self.spec.name))
    }

    /// Of a disk: without room it passes.
    fn failed_by_disk(&self, error: io::Error) -> SinkError {
        let is_full = has_no_room(&error);
        self.failed(error).retry_if(is_full)
    }

    fn streamlets(&self) -> Vec<Arc<Streamlet>> {
        self.stream.as_ref().map_or_else(Vec::new, |it| it.streamlets())
    }

    /// The stream; made, if it is not there.
    fn find_or_make(&self) -> Result<Arc<Stream>, LogError> {
        let name = &self.spec.name;
        if let Some(stream) = self.log.get(name) {
            return Ok(stream);
        }
        match self.log.create(name, self.to_be_made()) {
            Err(LogError::Exists(_)) => {
                self.log.get(name).ok_or_else(|| LogError::Unknown(name.clone()))
            }
            other => other,
        }
    }

    fn to_be_made(&self) -> StreamSpec {
        StreamSpec { streamlets: self.spec.streamlets, ..self.log.options().defaults.clone() }
    }

    /// Notes where the next life begins to look, when no part of a cycle is beyond that.
    fn note(&mut self) -> Result<(), SinkError> {
        let offsets: Vec<i64> = self.streamlets().iter().map(|it| it.end_offset()).collect();
        let count = offsets.len();
        if let Some(notes) = &self.notes {
            let stream = self.stream.as_ref().map(|it| it.id().to_string());
            let note = Written { run: self.run, held: self.held.0, offsets, stream };
            notes.write(&note).map_err(|error| self.failed_by_disk(error))?;
        }
        self.there = vec![None; count];
        self.chunks_since_note = 0;
        Ok(())
    }

    /// Checks that the stream is the one that an earlier life wrote to.
    fn is_that_of(&self, note: &Written) -> Result<(), SinkError> {
        let Some(before) = &note.stream else { return Ok(()) };
        let now = self.log.get(&self.spec.name).map(|it| it.id().to_string());
        let why = match now {
            Some(now) if now == *before => return Ok(()),
            Some(_) => "it is not the stream that the job wrote to before, but another one",
            None => "it is not there any more, and the rows of earlier cycles are gone with it",
        };
        Err(self.failed(format_args!("{why}; start the job anew")))
    }

    /// Finds the rows of an earlier life: reads all chunks since the note.
    fn look(&mut self, note: &Written) -> Result<(), SinkError> {
        self.held = Cycle(note.held);
        let mut last = vec![None; self.there.len()];
        for streamlet in self.streamlets().into_iter().take(last.len()) {
            let index = streamlet.index() as usize;
            let noted = note.offsets.get(index).copied().unwrap_or(0);
            let mut offset = noted.max(streamlet.start_offset());
            let mut cursor = ReadCursor::default();
            loop {
                let read = streamlet.read(&mut cursor, offset, ReadLimit::default());
                let read = read.map_err(|error| self.failed(error))?;
                if read.chunks.is_empty() {
                    break;
                }
                offset = read.next_offset;
                let marks = read.chunks.iter().filter_map(|it| Mark::of(it));
                for mark in marks.filter(|it| it.run == self.run) {
                    self.held = self.held.max(mark.held);
                    last[index] = last[index].max(Some((mark.cycle, mark.part)));
                }
            }
        }
        let held = self.held;
        self.there = last.into_iter().map(|it| it.filter(|(cycle, _)| *cycle > held)).collect();
        Ok(())
    }

    /// Cuts the rows of a cycle into chunks and appends those that are not there.
    fn append(&mut self, pending: &CycleRows, waits: &Arc<Waits>) -> Result<(), SinkError> {
        let streamlets = self.streamlets();
        let count = u32::try_from(self.there.len()).unwrap_or(1).max(1);
        let by_streamlet = pending.by_streamlet(count);
        let now_ms = self.world.clock.wall_micros().div_euclid(1000);
        for (streamlet, rows) in streamlets.iter().zip(by_streamlet) {
            let mut rows = &rows[..];
            let mut part = 0;
            while !rows.is_empty() {
                let fits = chunk_rows(rows, CHUNK_BYTES);
                let place = Some((pending.cycle, part));
                if self.there[streamlet.index() as usize] < place {
                    let mark = Mark { run: self.run, cycle: pending.cycle, part, held: self.held };
                    self.append_chunk(streamlet, (pending, &rows[..fits]), mark, now_ms, waits)?;
                    self.there[streamlet.index() as usize] = place;
                }
                (rows, part) = (&rows[fits..], part + 1);
            }
        }
        Ok(())
    }

    fn append_chunk(
        &mut self,
        streamlet: &Arc<Streamlet>,
        (pending, rows): (&CycleRows, &[&EncodedRow]),
        mark: Mark,
        now_ms: i64,
        waits: &Arc<Waits>,
    ) -> Result<(), SinkError> {
        let mark = mark.bytes();
        let marks = [Header { key: MARK, value: Some(&mark) }];
        let marks = if self.notes.is_some() { &marks[..] } else { &[] };
        let chunk = pending.chunk(&mut self.builder, rows, marks, now_ms);
        let Some(chunk) = chunk.map_err(|error| self.failed(error))? else { return Ok(()) };
        // One lane: the chunks of a job keep their order.
        let how = AppendOptions { order_key: self.run };
        let append = streamlet.append(&chunk, how).map_err(|error| match error {
            AppendError::TooLarge { .. } => {
                let name = &self.spec.name;
                self.failed(format_args!(
                    "{error}: raise it (`tidemill stream alter {name} --max-message-bytes SIZE`), \
                     then resume the job"
                ))
            }
            error @ (AppendError::Full(_) | AppendError::NotLeader { .. }) => {
                self.failed(error).retry_if(true)
            }
            error => self.failed(error),
        })?;
        waits.begin();
        let waits = Arc::clone(waits);
        append.on_durable(Box::new(move |outcome| waits.end(outcome)));
        self.builder.give_back(chunk);
        self.chunks_since_note += 1;
        Ok(())
    }
}

/// Appends that are not durable yet.
#[derive(Default)]
struct Waits {
    state: Mutex<(usize, Option<AppendError>)>,
    bell: Condvar,
}

impl Waits {
    fn begin(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
    }

    fn end(&self, outcome: Result<(), AppendError>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 -= 1;
        if let Err(error) = outcome {
            state.1.get_or_insert(error);
        }
        drop(state);
        self.bell.notify_all();
    }

    fn all(&self) -> Result<(), AppendError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.bell.wait_while(state, |it| it.0 > 0);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.1.take().map_or(Ok(()), Err)
    }
}

impl Sink for StreamSink {
    /// The check does not cover room on the disk for a new stream.
    fn check(&mut self) -> Result<(), SinkError> {
        if self.log.get(&self.spec.name).is_some() {
            return Ok(());
        }
        match self.log.can_create(&self.spec.name, &self.to_be_made()) {
            Ok(()) | Err(LogError::Exists(_)) => Ok(()),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        let note = match &self.notes {
            Some(notes) if resume => notes.read().map_err(|error| self.failed(error))?,
            _ => None,
        };
        note.iter().try_for_each(|note| self.is_that_of(note))?;
        let stream = self.find_or_make().map_err(|error| {
            let passes = matches!(&error, LogError::Disk { error, .. } if has_no_room(error));
            self.failed(error).retry_if(passes)
        })?;
        self.there = vec![None; stream.streamlets().len()];
        self.stream = Some(stream);
        match note {
            Some(note) => {
                self.run = note.run;
                self.there.truncate(note.offsets.len());
                self.look(&note)?;
            }
            None => {
                // What an earlier job wrote stays: a stream is added to.
                let now = self.world.clock.wall_micros().unsigned_abs();
                self.run = self.world.random(now).next();
            }
        }
        if self.there.iter().all(Option::is_none) {
            self.note()?;
        }
        Ok(self.held)
    }

    fn has_begun(&self) -> Cycle {
        let begun = self.there.iter().flatten().map(|(cycle, _)| *cycle);
        begun.max().unwrap_or(Cycle::NONE)
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        self.rows.write(cycle, blocks).map_err(|error| self.failed(error))
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        let ready = self.rows.take(cycle);
        let waits = Arc::new(Waits::default());
        let appended = ready.iter().try_for_each(|pending| self.append(pending, &waits));
        // Also of an attempt that found no room: what is there is not written again.
        waits.all().map_err(|error| self.failed(error))?;
        if let Err(error) = appended {
            self.rows.put_back(ready);
            return Err(error);
        }
        self.held = cycle;
        // One commit of the earlier run may have been of more cycles than this one.
        for there in &mut self.there {
            *there = there.filter(|(last, _)| *last > cycle);
        }
        if self.chunks_since_note >= CHUNKS_TO_NOTE && self.there.iter().all(Option::is_none) {
            self.note()?;
        }
        Ok(())
    }

    /// Notes that all commits are whole, which the chunks alone do not show for the last one. Not while chunks of later cycles are there, of an earlier life or of a commit that
    /// failed: the next one must find them.
    fn sync(&mut self) -> Result<bool, SinkError> {
        let is_sure = self.there.iter().all(Option::is_none);
        if is_sure {
            self.note()?;
        }
        Ok(is_sure)
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.sync().map(|_| ())
    }
}
