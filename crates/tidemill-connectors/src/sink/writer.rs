//! A sink that writes rows to a stream of bytes, such as standard output. Written rows cannot
//! be taken back or marked: a job that resumes writes all its rows there again.

use super::PendingRows;
use super::encode::RowEncoder;
use crate::error::ConnectorError;
use arrow_schema::SchemaRef;
use std::{
    io::{self, Write},
    path::Path,
    sync::Arc,
};
use tidemill_flow::{Block, Sink, SinkError};
use tidemill_types::{Cycle, job::Format};

/// Writes rows to standard output.
#[derive(Debug)]
pub struct StdoutSink;

impl StdoutSink {
    /// A sink that writes rows of `schema` as `json`, `csv` or `text`.
    ///
    /// # Errors
    /// The format is none of these.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any sink")]
    pub fn new(format: Format, schema: SchemaRef) -> Result<Box<dyn Sink>, ConnectorError> {
        WriterSink::new("standard output", Box::new(io::stdout()), format, schema)
    }
}

/// Writes rows to any stream of bytes.
pub struct WriterSink {
    name: String,
    writer: Box<dyn Write + Send>,
    encoder: RowEncoder,
    pending: PendingRows,
    begun: bool,
}

impl WriterSink {
    /// A sink that writes rows of `schema` to `writer`; `name` is for messages.
    ///
    /// # Errors
    /// The format is not `json`, `csv` or `text`.
    #[expect(clippy::new_ret_no_self, reason = "the engine takes any sink")]
    pub fn new(
        name: &str,
        writer: Box<dyn Write + Send>,
        format: Format,
        schema: SchemaRef,
    ) -> Result<Box<dyn Sink>, ConnectorError> {
        let encoder = RowEncoder::new(Path::new(name), format, schema)?;
        let (name, pending) = (name.to_owned(), PendingRows::default());
        Ok(Box::new(Self { name, writer, encoder, pending, begun: false }))
    }

    fn put(&mut self, count: usize) -> io::Result<()> {
        if !self.begun {
            let mut header = Vec::new();
            self.encoder.header(&mut header);
            self.writer.write_all(&header)?;
            self.begun = true;
        }
        self.writer.write_all(&self.pending.bytes[..count])?;
        self.writer.flush()
    }

    fn failed(&self, error: impl std::fmt::Display) -> SinkError {
        SinkError::new(format!("{} cannot be written: {error}", self.name))
    }
}

impl Sink for WriterSink {
    fn open(&mut self, _resume: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }

    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let outcome = self.encoder.blocks(blocks, &mut self.pending.bytes);
        outcome.map_err(|error| self.failed(error))?;
        self.pending.end(cycle);
        Ok(())
    }

    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        let count = self.pending.ready(cycle);
        if count > 0 {
            self.put(count).map_err(|error| self.failed(error))?;
        }
        self.pending.release(cycle, count);
        Ok(())
    }

    fn forgets(&self) -> bool {
        true
    }

    fn close(&mut self) -> Result<(), SinkError> {
        self.put(0).map_err(|error| self.failed(error))
    }
}
