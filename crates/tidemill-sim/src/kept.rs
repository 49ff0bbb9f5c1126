//! A sink of a simulated job: a journal of cycles on the simulated disk, as a file sink keeps one.
//!
//! Invariant: a cycle and its rows are one record, so that what is there says which cycle it is.

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
pub(crate) type Rows = Vec<(u64, String)>;

/// What a sink knows of what it wrote in an earlier life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Its last cycle, as a file does.
    #[default]
    Whole,
    /// Nothing, though it is there (the standard output): some of it is written again.
    None,
    /// Nothing is there: it is whole only at its end.
    BeginsAnew,
}

pub(crate) struct Kept {
    memory: Memory,
    world: World,
    path: PathBuf,
    /// Every commit is durable, not those alone that a checkpoint asks for.
    syncs: bool,
    file: Option<Box<dyn DiskFile>>,
    /// Its length, without what a write that found no room has left.
    length: u64,
    written: Rows,
}

impl Kept {
    pub(crate) fn new(world: &World, path: PathBuf, syncs: bool, memory: Memory) -> Self {
        let world = world.clone();
        Self { memory, world, path, syncs, file: None, length: 0, written: Vec::new() }
    }

    /// Appends all bytes, or none.
    fn append(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        let length = self.length;
        let file = self.file()?;
        if let Err(error) = file.append(bytes) {
            file.truncate(length).map_err(failed)?;
            return Err(failed(error));
        }
        self.length += bytes.len() as u64;
        Ok(())
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

/// What a journal of cycles says, and its bytes without a torn tail.
pub(crate) fn read(bytes: &[u8]) -> Result<(Rows, usize), SinkError> {
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

/// What a sink has that wrote some cycles again.
///
/// # Errors
/// It wrote one differently.
pub(crate) fn once(rows: Rows) -> Result<Rows, String> {
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
    SinkError { passes: has_no_room(&error), ..SinkError::new(error.to_string()) }
}

impl Sink for Kept {
    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        let goes_on = resume && self.memory != Memory::BeginsAnew;
        let is_there = goes_on && self.world.disk.exists(&self.path).map_err(failed)?;
        let bytes = match is_there {
            true => self.world.disk.read(&self.path).map_err(failed)?,
            false => Vec::new(),
        };
        let (rows, length) = read(&bytes)?;
        // Written anew: what a failed sync gave up would be lost for ever else.
        self.file = Some(self.put(&bytes[..length]).map_err(failed)?);
        self.length = length as u64;
        match self.memory {
            Memory::Whole => Ok(Cycle(rows.last().map_or(0, |(cycle, _)| *cycle))),
            Memory::None | Memory::BeginsAnew => Ok(Cycle::NONE),
        }
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let mut lines = String::new();
        for block in blocks {
            lines.push_str(&text(&block.batch())?);
        }
        if !lines.is_empty() {
            self.written.push((cycle.0, lines));
        }
        Ok(())
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        let due = self.written.partition_point(|(it, _)| *it <= cycle.0);
        let mut bytes = Vec::new();
        for (cycle, text) in &self.written[..due] {
            journal::append(&mut bytes, &[&cycle.to_le_bytes(), text.as_bytes()].concat());
        }
        if bytes.is_empty() {
            return Ok(());
        }
        self.append(&bytes)?;
        self.written.drain(..due);
        if self.syncs { self.file()?.sync().map_err(failed) } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<bool, SinkError> {
        self.file()?.sync().map_err(failed)?;
        Ok(true)
    }

    fn forgets(&self) -> bool {
        self.memory == Memory::None
    }

    fn begins_anew(&self) -> bool {
        self.memory == Memory::BeginsAnew
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.file()?.sync().map_err(failed)
    }
}
