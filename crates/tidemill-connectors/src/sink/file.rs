//! A file as a sink.
//!
//! ```text
//! write(c) ─▶ rows held ─▶ commit(c) ─▶ appended to the file, then a mark to the journal
//!                                       every second and at the end: file synced, journal synced
//! ```
//!
//! - Exactly once: `open` cuts the file to the length that its marks prove, so that rows of a cycle are in it
//!   wholly or not at all. A killed process loses no committed cycle; a power cut loses those of
//!   the last second (see [`FileSink::with_sync_every`]), which the ledger then plays again.
//! - Nothing is deleted because its journal is missing or the file is shorter than it says: that is
//!   an error.
//! - A disk without room leaves nothing half done: a commit is asked for again, and goes on where
//!   the last attempt ended.
//! - Arrow and Parquet files are written beside their name and take it when the job ends.

use super::append_file::AppendFile;
use super::columnar::ColumnarSink;
use super::encode::RowEncoder;
use super::marks::{Committed, Marks, folder};
use super::{PendingRows, disk_error, sink_error, write_probe};
use crate::error::{ConnectorError, ConnectorErrorKind};
use arrow_schema::SchemaRef;
use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::World;
use tidemill_flow::{Block, ErrorKind, Sink, SinkError};
use tidemill_types::{Cycle, Span, job::Format};

/// Default interval between syncs of a file.
const SYNC_EVERY: Span = Span(1_000_000);

/// Writes rows to a file.
pub struct FileSink {
    world: World,
    path: PathBuf,
    encoder: RowEncoder,
    marks: Marks,
    file: Option<AppendFile>,
    pending: PendingRows,
    /// The checksum of appended bytes without a mark, for which there was no room.
    unmarked: Option<u32>,
    committed: Cycle,
    sync_every: Span,
    synced_at_us: u64,
    dirty: bool,
}

impl FileSink {
    /// A sink that writes rows of `schema` to a file, synced every second and at the end. Folders
    /// that are missing are made when it is opened.
    ///
    /// # Errors
    /// The file cannot be written, or the format cannot hold the columns.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any sink")]
    pub fn new(
        world: &World,
        path: impl AsRef<Path>,
        format: Format,
        schema: SchemaRef,
    ) -> Result<Box<dyn Sink>, ConnectorError> {
        Self::with_sync_every(world, path, format, schema, SYNC_EVERY)
    }

    /// Like [`Self::new`], but the file is synced with the first commit that comes `sync_every`
    /// after the sync before: zero syncs every commit. Later commits survive the end of
    /// the process, but not a power cut.
    ///
    /// # Errors
    /// The file cannot be written, or the format cannot hold the columns.
    pub fn with_sync_every(
        world: &World,
        path: impl AsRef<Path>,
        format: Format,
        schema: SchemaRef,
        sync_every: Span,
    ) -> Result<Box<dyn Sink>, ConnectorError> {
        let path = path.as_ref();
        check_path(world, path)?;
        if let Format::Arrow | Format::Parquet = format {
            return Ok(Box::new(ColumnarSink::new(world, path, format, &schema)?));
        }
        let encoder = RowEncoder::new(path, format, schema)?;
        Ok(Box::new(Self {
            world: world.clone(),
            path: path.to_owned(),
            marks: Marks::beside(Arc::clone(&world.disk), path, encoder.rows()),
            encoder,
            file: None,
            pending: PendingRows::default(),
            unmarked: None,
            committed: Cycle::NONE,
            sync_every,
            synced_at_us: 0,
            dirty: false,
        }))
    }

    /// Cuts the file to its committed length and begins a journal that says so.
    fn begin(&mut self, held: Committed) -> io::Result<()> {
        let Committed { cycle, length, synced, .. } = held;
        let disk = &self.world.disk;
        disk.create_dir_all(folder(&self.path))?;
        if length == 0 {
            // The journal first: at no moment does it speak of bytes that are not there.
            self.marks.replace(cycle, 0)?;
            self.file = Some(AppendFile::begin(disk, &self.path)?);
            disk.sync_dir(folder(&self.path))?;
        } else {
            let mut file = disk.open_append(&self.path)?;
            file.truncate(length)?;
            // An earlier process may have failed to sync them.
            disk.open_random_access(&self.path)?.rewrite(synced, length)?;
            file.sync()?;
            self.marks.replace(cycle, length)?;
            self.file = Some(AppendFile::of(disk, &self.path, file, length));
        }
        (self.unmarked, self.committed, self.dirty) = (None, cycle, false);
        self.pending = PendingRows::default();
        self.synced_at_us = self.world.clock.monotonic_micros();
        Ok(())
    }

    /// Checks that the rows of this sink have the form of those in the file.
    fn goes_on(&self, held: &Committed) -> Result<(), SinkError> {
        let now = self.encoder.rows();
        match &held.rows {
            Some(before) if held.length > 0 && *before != now => {
                let message = format!(
                    "`{}` has {before}, and the job writes {now} now: name another file, give the \
                     sink another name, or start the job anew",
                    self.path.display()
                );
                Err(SinkError::of_kind(ErrorKind::Invalid, message))
            }
            _ => Ok(()),
        }
    }

    /// Appends the first `count` bytes that wait, which are those of the cycles up to this one.
    fn append(&mut self, cycle: Cycle, count: usize) -> io::Result<()> {
        self.mark()?;
        let Some(file) = &mut self.file else { return Err(io::Error::other("it is not open")) };
        let mut headed = Vec::new();
        if file.length() == 0 {
            self.encoder.header(&mut headed);
        }
        let rows = &self.pending.bytes[..count];
        let bytes = if headed.is_empty() {
            rows
        } else {
            headed.extend_from_slice(rows);
            &headed
        };
        if !bytes.is_empty() {
            self.unmarked = Some(file.append(bytes)?);
            self.dirty = true;
        }
        self.pending.release(cycle, count);
        self.committed = cycle;
        self.mark()
    }

    /// Marks the last append.
    fn mark(&mut self) -> io::Result<()> {
        if let Some((checksum, file)) = self.unmarked.zip(self.file.as_ref()) {
            self.marks.add(self.committed, file.length(), checksum)?;
            self.unmarked = None;
        }
        Ok(())
    }

    fn try_commit(&mut self, cycle: Cycle) -> io::Result<()> {
        let count = self.pending.ready(cycle);
        if count > 0 {
            self.append(cycle, count)?;
        } else {
            self.mark()?;
            // No row: nothing to mark. A replay of such cycles writes nothing again.
            self.pending.release(cycle, 0);
            self.committed = cycle;
        }
        let waited = self.world.clock.monotonic_micros().saturating_sub(self.synced_at_us);
        if i128::from(waited) >= i128::from(self.sync_every.0) { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.mark()?;
        if let Some(file) = self.file.as_mut().filter(|_| self.dirty) {
            file.sync()?;
            self.marks.add_synced(self.committed, file.length())?;
            self.dirty = false;
        }
        self.synced_at_us = self.world.clock.monotonic_micros();
        Ok(())
    }

    fn try_close(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        if file.length() == 0 {
            self.append(self.committed, 0)?;
        }
        self.sync()?;
        let length = self.file.as_ref().map_or(0, AppendFile::length);
        self.marks.replace(self.committed, length)?;
        self.file = None;
        Ok(())
    }
}

/// Checks that a file of this name is possible.
fn check_path(world: &World, path: &Path) -> Result<(), ConnectorError> {
    if path.file_name().is_none() {
        return Err(ConnectorError::unwritable(path, "it names no file"));
    }
    match world.disk.open_read(path) {
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
            Err(ConnectorError::unwritable(path, "it is a folder"))
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            let message = "it is a pipe or a device, from which nothing can be taken back; \
                           `stdout` and `blackhole` are sinks of their own";
            Err(ConnectorError::unwritable(path, message))
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let message = format!("`{}` is no folder", folder(path).display());
            let message = format!("`{}` cannot be written: {message}", path.display());
            Err(ConnectorError { kind: ConnectorErrorKind::Unwritable, message })
        }
        _ => Ok(()),
    }
}

/// The error of a journal that cannot be read, or that contradicts the file.
fn unread_marks(error: ConnectorError) -> SinkError {
    let kind = match error.kind {
        ConnectorErrorKind::Unwritable => ErrorKind::Corrupt,
        _ => ErrorKind::Failed,
    };
    SinkError::of_kind(kind, error.message)
}

impl Sink for FileSink {
    fn check(&mut self) -> Result<(), SinkError> {
        let checked = write_probe::check(&*self.world.disk, &self.path);
        checked.map_err(|error| disk_error(&self.path, error))
    }

    fn open(&mut self, resume: bool) -> Result<Cycle, SinkError> {
        let held = match resume {
            true => self.marks.committed(&self.path).map_err(unread_marks)?,
            false => None,
        };
        let held = held.unwrap_or_default();
        self.goes_on(&held)?;
        let cycle = held.cycle;
        self.begin(held).map_err(|error| disk_error(&self.path, error))?;
        Ok(cycle)
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let outcome = self.encoder.blocks(blocks, &mut self.pending.bytes);
        outcome.map_err(|error| sink_error(&self.path, error))?;
        self.pending.end(cycle);
        Ok(())
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        self.try_commit(cycle).map_err(|error| disk_error(&self.path, error))
    }

    fn sync(&mut self) -> Result<bool, SinkError> {
        Self::sync(self).map_err(|error| disk_error(&self.path, error))?;
        Ok(true)
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.try_close().map_err(|error| disk_error(&self.path, error))
    }
}
