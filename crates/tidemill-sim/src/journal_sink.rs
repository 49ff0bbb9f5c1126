//! A sink of a simulated job: a journal of cycles on the simulated disk, as a file sink keeps one.
//!
//! It may fail as a database or a broker does: a failed commit may have taken effect wholly or in
//! part, a sync that fails for good may lose rows that were not durable, and after a sync that
//! returns false committed rows are in the process alone.
//!
//! Invariant: a cycle and its rows are one record, so each record names its cycle.

use crate::fault::{CallEffect, FaultySink, SinkCall, SinkFailure};
use arrow_array::RecordBatch;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{DiskFile, World, has_no_room};
use tidemill_flow::{Block, Sink, SinkError};
use tidemill_types::Cycle;
use tidemill_wire::journal;

/// The rows of a cycle, as text.
pub(crate) type CycleRows = Vec<(u64, String)>;

/// A sink's memory of its output in an earlier life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SinkMemory {
    /// Its last cycle, as a file does.
    #[default]
    Whole,
    /// Nothing, though it is there (the standard output): some of it is written again.
    None,
    /// Nothing is there: it is whole only at its end.
    BeginsAnew,
}

pub(crate) struct JournalSink {
    memory: SinkMemory,
    world: World,
    path: PathBuf,
    /// Every commit is durable, not those alone that a checkpoint asks for.
    syncs: bool,
    file: Option<Box<dyn DiskFile>>,
    /// Its length, without the tail of a write on a full disk.
    length: u64,
    /// True if the tail of a failed attempt stands behind that length.
    is_torn: bool,
    /// The durable part of the length.
    durable: u64,
    written: CycleRows,
    /// The last cycle that was written, and the last that was committed.
    last: (Cycle, Cycle),
    /// Its planted fault, if there is one.
    fault: Option<FaultySink>,
}

impl JournalSink {
    pub(crate) fn new(world: &World, path: PathBuf, syncs: bool, memory: SinkMemory) -> Self {
        Self {
            memory,
            world: world.clone(),
            path,
            syncs,
            file: None,
            length: 0,
            is_torn: false,
            durable: 0,
            written: Vec::new(),
            last: (Cycle::NONE, Cycle::NONE),
            fault: None,
        }
    }

    /// The sink with a planted fault.
    pub(crate) fn failing(self, fault: Option<FaultySink>) -> Self {
        Self { fault, ..self }
    }

    /// The failure of this call, if it is to fail.
    fn fails(&self, call: SinkCall, cycle: Option<Cycle>) -> Option<SinkFailure> {
        let fault = self.fault.as_ref()?;
        if matches!(call, SinkCall::Commit | SinkCall::Sync | SinkCall::Close) {
            fault.must_count(call, cycle);
        }
        fault.fails(call)
    }

    /// The result of such a call.
    fn end<T>(
        &self,
        failure: Option<SinkFailure>,
        cycle: Option<Cycle>,
        done: T,
    ) -> Result<T, SinkError> {
        match (&self.fault, failure) {
            (Some(fault), Some(failure)) => Err(fault.error(&failure, cycle)),
            _ => Ok(done),
        }
    }

    /// Appends all bytes, or none.
    fn append(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let (length, is_torn) = (self.length, self.is_torn);
        let file = self.file()?;
        if is_torn {
            file.truncate(length).map_err(failed)?;
        }
        self.is_torn = false;
        let file = self.file()?;
        if let Err(error) = file.append(bytes) {
            file.truncate(length).map_err(failed)?;
            return Err(failed(error));
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn make_durable(&mut self) -> Result<(), SinkError> {
        // What was held back; nothing of others.
        let due = self.written.partition_point(|(it, _)| *it <= self.last.1.0);
        let bytes = records(&self.written[..due]);
        if !bytes.is_empty() {
            self.append(&bytes)?;
            self.written.drain(..due);
        }
        self.file()?.sync().map_err(failed)?;
        self.durable = self.length;
        Ok(())
    }

    /// Makes the file durable, or fails in that.
    fn settle(&mut self, failure: Option<&SinkFailure>) -> Result<(), SinkError> {
        match failure {
            Some(SinkFailure {
                done: CallEffect::Nothing | CallEffect::Part,
                passes: true,
                ..
            }) => Ok(()),
            // Nobody was told that it is there for good, and it is not.
            Some(SinkFailure {
                done: CallEffect::Nothing | CallEffect::Part,
                passes: false,
                ..
            }) => {
                let durable = self.durable;
                self.file()?.truncate(durable).map_err(failed)
            }
            Some(SinkFailure { done: CallEffect::All, .. }) | None => self.make_durable(),
        }
    }

    fn file(&mut self) -> Result<&mut Box<dyn DiskFile>, SinkError> {
        self.file.as_mut().ok_or_else(|| SinkError::new("it is not open"))
    }

    fn put(&mut self, bytes: &[u8]) -> std::io::Result<Box<dyn DiskFile>> {
        let (disk, new) = (&self.world.disk, self.path.with_extension("new"));
        let mut file = disk.create(&new)?;
        file.append(bytes)?;
        file.sync()?;
        disk.rename(&new, &self.path)?;
        disk.sync_dir(self.path.parent().unwrap_or(Path::new("/")))?;
        Ok(file)
    }
}

/// Cycles as a journal has them.
fn records(rows: &[(u64, String)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (cycle, text) in rows {
        journal::append(&mut bytes, &[&cycle.to_le_bytes(), text.as_bytes()].concat());
    }
    bytes
}

/// The cycles of a journal, and its length without a torn tail.
pub(crate) fn read(bytes: &[u8]) -> Result<(CycleRows, usize), SinkError> {
    let (records, length, error) = journal::read(bytes);
    if let Some(error) = error.filter(|error| !error.is_torn_tail()) {
        return Err(SinkError::new(error.to_string()));
    }
    let row = |record: &&[u8]| {
        let (cycle, text) =
            record.split_first_chunk().ok_or_else(|| SinkError::new("too short"))?;
        Ok((u64::from_le_bytes(*cycle), String::from_utf8_lossy(text).into_owned()))
    };
    Ok((records.iter().map(row).collect::<Result<_, SinkError>>()?, length))
}

/// The rows of a sink that wrote some cycles again, each cycle once.
///
/// # Errors
/// It wrote one differently.
pub(crate) fn once(rows: CycleRows) -> Result<CycleRows, String> {
    let mut once = BTreeMap::new();
    for (cycle, text) in rows {
        let first: &mut String = once.entry(cycle).or_insert_with(|| text.clone());
        if *first != text {
            return Err(format!("cycle {cycle} was written as\n{first}and as\n{text}"));
        }
    }
    Ok(once.into_iter().collect())
}

/// Rows as lines.
pub(crate) fn text(batch: &RecordBatch) -> Result<String, SinkError> {
    let options = FormatOptions::default();
    let columns = batch.columns().iter().map(|it| ArrayFormatter::try_new(it, &options));
    let columns: Vec<_> =
        columns.collect::<Result<_, _>>().map_err(|error| SinkError::new(error.to_string()))?;
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        for column in &columns {
            text.push_str(&column.value(row).to_string());
            text.push(' ');
        }
        text.push('\n');
    }
    Ok(text)
}

fn failed(error: std::io::Error) -> SinkError {
    SinkError::new(error.to_string()).retry_if(has_no_room(&error))
}

impl Sink for JournalSink {
    fn check(&mut self) -> Result<(), SinkError> {
        let failure = self.fails(SinkCall::Check, None);
        self.end(failure, None, ())
    }

    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        let failure = self.fails(SinkCall::Open, None);
        if failure.as_ref().is_some_and(|it| it.done == CallEffect::Nothing) {
            return self.end(failure, None, Cycle::NONE);
        }
        let goes_on = resume && self.memory != SinkMemory::BeginsAnew;
        let is_there = goes_on && self.world.disk.exists(&self.path).map_err(failed)?;
        let bytes = match is_there {
            true => self.world.disk.read(&self.path).map_err(failed)?,
            false => Vec::new(),
        };
        let (rows, length) = read(&bytes)?;
        // Written anew: what a failed sync gave up would be lost for ever else.
        self.file = Some(self.put(&bytes[..length]).map_err(failed)?);
        (self.length, self.durable) = (length as u64, length as u64);
        let held = match self.memory {
            SinkMemory::Whole => Cycle(rows.last().map_or(0, |(cycle, _)| *cycle)),
            SinkMemory::None | SinkMemory::BeginsAnew => Cycle::NONE,
        };
        self.last = (held, held);
        self.end(failure, None, held)
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let last = std::mem::replace(&mut self.last.0, cycle);
        if cycle <= last {
            return Err(SinkError::new(format!("cycle {cycle} is written after {last}")));
        }
        let failure = self.fails(SinkCall::Write, Some(cycle));
        let blocks = match failure.as_ref().map(|it| it.done) {
            Some(CallEffect::Nothing) => &[],
            Some(CallEffect::Part) => &blocks[..blocks.len() / 2],
            Some(CallEffect::All) | None => blocks,
        };
        let mut lines = String::new();
        for block in blocks {
            lines.push_str(&text(&block.batch())?);
        }
        if !lines.is_empty() {
            self.written.push((cycle.0, lines));
        }
        self.end(failure, Some(cycle), ())
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        if cycle <= self.last.1 {
            let last = self.last.1;
            return Err(SinkError::new(format!("cycle {cycle} is committed after {last}")));
        }
        if !self.syncs && self.fault.as_ref().is_some_and(FaultySink::holds_back) {
            self.last.1 = cycle;
            return Ok(());
        }
        let failure = self.fails(SinkCall::Commit, Some(cycle));
        let due = self.written.partition_point(|(it, _)| *it <= cycle.0);
        let whole = match failure.as_ref().map(|it| it.done) {
            Some(CallEffect::Nothing) => 0,
            Some(CallEffect::Part) => due / 2,
            Some(CallEffect::All) | None => due,
        };
        let is_torn = failure.as_ref().is_some_and(|it| it.done == CallEffect::Part) && whole < due;
        let bytes = records(&self.written[..whole]);
        let torn = records(&self.written[whole..whole + usize::from(is_torn)]);
        if !bytes.is_empty() {
            self.append(&bytes)?;
            self.written.drain(..whole);
        }
        if self.syncs && self.length > self.durable {
            self.make_durable()?;
        }
        if is_torn && !self.is_torn {
            self.is_torn = true;
            self.file()?.append(&torn[..torn.len() / 2]).map_err(failed)?;
        }
        if failure.is_none() {
            self.last.1 = cycle;
        }
        self.end(failure, Some(cycle), ())
    }

    fn sync(&mut self) -> Result<bool, SinkError> {
        let failure = self.fails(SinkCall::Sync, None);
        match (&self.fault, &failure) {
            (Some(fault), Some(failure)) if failure.is_later => {
                fault.is_later();
                return Ok(false);
            }
            _ => self.settle(failure.as_ref())?,
        }
        self.end(failure, None, true)
    }

    fn forgets(&self) -> bool {
        self.memory == SinkMemory::None
    }

    fn begins_anew(&self) -> bool {
        self.memory == SinkMemory::BeginsAnew
    }

    fn close(&mut self) -> Result<(), SinkError> {
        let failure = self.fails(SinkCall::Close, None);
        self.settle(failure.as_ref())?;
        self.end(failure, None, ())
    }
}
