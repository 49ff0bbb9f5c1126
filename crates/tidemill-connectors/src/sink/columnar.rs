//! A file that is whole only at its end: Arrow IPC and Parquet.
//!
//! The blocks of a cycle depend on the number of threads, and the file must not: rows are put into batches
//! of one size first.
//!
//! Rows go to `PATH.partial`, which takes the name `PATH` when the sink is closed. A job that is
//! started again begins such a file anew: it holds no cycle until it is whole.

use super::append_file::AppendFile;
use super::marks::{folder, with_suffix};
use super::{canonical_rows, parquet_times};
use super::{disk_error, shown, shown_schema, sink_error, try_columns, write_probe};
use crate::error::{ConnectorError, arrow_reason};
use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::coalesce::BatchCoalescer;
use parquet::{arrow::ArrowWriter, basic::Compression, file::properties::WriterProperties};
use std::{
    collections::VecDeque,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{World, has_no_room};
use tidemill_flow::{Block, Sink, SinkError};
use tidemill_types::{Cycle, job::Format};

/// Rows and bytes of a row group, whichever come first; a writer of Parquet holds them in memory. A
/// group ends behind the rows that reach the bound.
const GROUP_ROWS: usize = 128 * 1_024;
const GROUP_BYTES: usize = 64 << 20;
/// Rows of a batch; the last of a cycle has fewer.
const BATCH_ROWS: usize = 8_192;
/// Bytes that are gathered before they are written.
const WRITE_BYTES: usize = 256 << 10;

/// Bytes on their way to a file. They are written when the writer that makes them has returned, as
/// that could not go on after an error.
struct FileBytes {
    file: AppendFile,
    buffer: Vec<u8>,
}

impl FileBytes {
    /// Writes all that were gathered, if they are so many.
    fn write_out(&mut self, at_least: usize) -> io::Result<()> {
        if self.buffer.len() >= at_least {
            self.file.append(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

impl Write for FileBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

enum FormatWriter<W: Write + Send> {
    Arrow(FileWriter<W>),
    Parquet(ArrowWriter<W>),
}

impl<W: Write + Send> FormatWriter<W> {
    /// For rows of this schema; Parquet has some types as others, which it has a name for.
    fn new(format: Format, out: W, schema: &SchemaRef) -> Result<Self, ArrowError> {
        if format == Format::Arrow {
            return Ok(Self::Arrow(FileWriter::try_new(out, schema)?));
        }
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(GROUP_ROWS))
            .set_max_row_group_bytes(Some(GROUP_BYTES))
            .build();
        let writer = ArrowWriter::try_new(out, parquet_times::schema(schema), Some(properties))?;
        Ok(Self::Parquet(writer))
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        match self {
            Self::Arrow(writer) => writer.write(&canonical_rows::rows(batch)?),
            Self::Parquet(writer) => Ok(writer.write(&parquet_times::rows(batch)?)?),
        }
    }

    fn out(&mut self) -> &mut W {
        match self {
            Self::Arrow(writer) => writer.get_mut(),
            Self::Parquet(writer) => writer.inner_mut(),
        }
    }

    fn finish(self) -> Result<W, ArrowError> {
        match self {
            Self::Arrow(mut writer) => {
                writer.finish()?;
                writer.into_inner()
            }
            Self::Parquet(writer) => Ok(writer.into_inner()?),
        }
    }
}

/// Writes rows to a file that is whole at its end.
pub(super) struct ColumnarSink {
    world: World,
    path: PathBuf,
    partial: PathBuf,
    format: Format,
    schema: SchemaRef,
    writer: Option<FormatWriter<FileBytes>>,
    /// The end of it, made and not all written.
    ending: Option<FileBytes>,
    pending: VecDeque<(Cycle, RecordBatch)>,
    /// Rows of one cycle, which are put into batches of one size.
    gathered: BatchCoalescer,
}

impl ColumnarSink {
    pub(super) fn new(
        world: &World,
        path: &Path,
        format: Format,
        schema: &SchemaRef,
    ) -> Result<Self, ConnectorError> {
        let schema = shown_schema(schema);
        // Tried now, so that a column that the format cannot hold is refused before the job runs.
        let trial = |row: &RecordBatch| {
            let mut writer = FormatWriter::new(format, io::sink(), &row.schema())?;
            writer.write(row)?;
            writer.finish().map(drop)
        };
        try_columns(&schema, trial)
            .map_err(|error| ConnectorError::unwritable(path, arrow_reason(error)))?;
        Ok(Self {
            world: world.clone(),
            path: path.to_owned(),
            partial: with_suffix(path, ".partial"),
            format,
            gathered: BatchCoalescer::new(Arc::clone(&schema), BATCH_ROWS),
            schema,
            writer: None,
            ending: None,
            pending: VecDeque::new(),
        })
    }

    fn begin(&mut self) -> Result<(), ArrowError> {
        let disk = &self.world.disk;
        disk.create_dir_all(folder(&self.path))?;
        let file = AppendFile::begin(disk, &self.partial)?;
        let out = FileBytes { file, buffer: Vec::new() };
        self.writer = Some(FormatWriter::new(self.format, out, &self.schema)?);
        self.pending.clear();
        self.gathered = BatchCoalescer::new(Arc::clone(&self.schema), BATCH_ROWS);
        Ok(())
    }

    fn failed(&self, error: ArrowError) -> SinkError {
        let passes = matches!(&error, ArrowError::IoError(_, error) if has_no_room(error));
        sink_error(&self.path, arrow_reason(error)).retry_if(passes)
    }

    fn write_up_to(&mut self, cycle: Cycle) -> Result<(), ArrowError> {
        let Some(writer) = &mut self.writer else {
            return Err(ArrowError::IoError("not open".into(), io::Error::other("not open")));
        };
        // What there was no room for comes first.
        writer.out().write_out(WRITE_BYTES)?;
        loop {
            while let Some(batch) = self.gathered.next_completed_batch() {
                writer.write(&batch)?;
                writer.out().write_out(WRITE_BYTES)?;
            }
            let Some((of, batch)) = self.pending.pop_front_if(|(it, _)| *it <= cycle) else {
                return Ok(());
            };
            self.gathered.push_batch(batch)?;
            if self.pending.front().is_none_or(|(next, _)| *next != of) {
                self.gathered.finish_buffered_batch()?;
            }
        }
    }

    fn end(&mut self) -> Result<(), ArrowError> {
        if let Some(writer) = self.writer.take() {
            self.ending = Some(writer.finish()?);
        }
        let Some(out) = &mut self.ending else { return Ok(()) };
        out.write_out(1)?;
        out.file.sync()?;
        let disk = &self.world.disk;
        if disk.exists(&self.partial)? {
            disk.rename(&self.partial, &self.path)?;
        }
        disk.sync_dir(folder(&self.path))?;
        self.ending = None;
        Ok(())
    }
}

impl Sink for ColumnarSink {
    /// An existing file is replaced by name at the end, whatever its rights.
    fn check(&mut self) -> Result<(), SinkError> {
        let checked = write_probe::check(&*self.world.disk, &self.partial);
        checked.map_err(|error| disk_error(&self.path, error))
    }

    fn open(&mut self, _resume: bool) -> Result<Cycle, SinkError> {
        self.begin().map_err(|error| self.failed(error))?;
        Ok(Cycle::NONE)
    }

    fn begins_anew(&self) -> bool {
        true
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        for block in blocks.iter().filter(|block| !block.is_empty()) {
            let batch = block.batch();
            let shown = batch.project(&shown(batch.schema_ref()));
            let batch = shown.and_then(|it| it.with_schema(Arc::clone(&self.schema)));
            let batch = batch.map_err(|error| sink_error(&self.path, arrow_reason(error)))?;
            self.pending.push_back((cycle, batch));
        }
        Ok(())
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        self.write_up_to(cycle).map_err(|error| self.failed(error))
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.end().map_err(|error| self.failed(error))
    }
}
