//! Parquet: row groups in order, each read column by column.

use crate::batch_source::Batches;
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::{
        ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
        ParquetRecordBatchReaderBuilder,
    },
    errors::ParquetError,
    file::reader::{ChunkReader, Length},
};
use std::{
    io::{self, BufReader, Read},
    sync::Arc,
};
use tidemill_env::DiskRead;

/// Records of a batch.
const BATCH_RECORDS: usize = 8_192;

/// A file as the reader of Parquet wants it.
#[derive(Clone)]
struct Pieces {
    file: Arc<dyn DiskRead>,
    size: u64,
}

/// A place in a file.
struct Cursor {
    file: Arc<dyn DiskRead>,
    offset: u64,
}

impl Read for Cursor {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read_at(self.offset, into)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl Length for Pieces {
    fn len(&self) -> u64 {
        self.size
    }
}

impl ChunkReader for Pieces {
    type T = BufReader<Cursor>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        Ok(BufReader::new(Cursor { file: Arc::clone(&self.file), offset: start }))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        // A damaged file may ask for anything.
        if start.checked_add(length as u64).is_none_or(|end| end > self.size) {
            let message = format!("bytes {start} to {start} + {length} are past the end");
            return Err(ParquetError::General(message));
        }
        let mut bytes = vec![0; length];
        let read = self
            .file
            .read_full_at(start, &mut bytes)
            .map_err(|error| ParquetError::External(Box::new(error)))?;
        if read < length {
            return Err(ParquetError::General("the file became shorter".to_owned()));
        }
        Ok(bytes.into())
    }
}

/// A file's row groups, in order.
pub(crate) struct ParquetBatches {
    pieces: Pieces,
    metadata: ArrowReaderMetadata,
    /// The row group being read, from 0.
    group: usize,
    reader: Option<ParquetRecordBatchReader>,
}

impl ParquetBatches {
    /// Opens a file of this length.
    ///
    /// # Errors
    /// It is no Parquet.
    pub(crate) fn open(file: Arc<dyn DiskRead>, size: u64) -> Result<Self, String> {
        let pieces = Pieces { file, size };
        let load = || ArrowReaderMetadata::load(&pieces, ArrowReaderOptions::new());
        let metadata = std::panic::catch_unwind(std::panic::AssertUnwindSafe(load))
            .map_err(|_| "its footer is damaged".to_owned())?
            .map_err(|error| error.to_string())?;
        Ok(Self { pieces, metadata, group: 0, reader: None })
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(self.metadata.schema())
    }

    /// Records of the file.
    pub(crate) fn records(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    fn read_group(&self) -> Result<ParquetRecordBatchReader, ParquetError> {
        let (pieces, metadata) = (self.pieces.clone(), self.metadata.clone());
        ParquetRecordBatchReaderBuilder::new_with_metadata(pieces, metadata)
            .with_row_groups(vec![self.group])
            .with_batch_size(BATCH_RECORDS)
            .build()
    }
}

impl Batches for ParquetBatches {
    fn next(&mut self) -> Result<Option<RecordBatch>, String> {
        let groups = self.metadata.metadata().num_row_groups();
        while self.group < groups {
            let at = |error: String| format!("row group {} of {groups}: {error}", self.group);
            if self.reader.is_none() {
                self.reader = Some(self.read_group().map_err(|error| at(error.to_string()))?);
            }
            let next = self.reader.as_mut().and_then(Iterator::next);
            match next {
                Some(batch) => return batch.map(Some).map_err(|error| at(error.to_string())),
                None => (self.reader, self.group) = (None, self.group + 1),
            }
        }
        Ok(None)
    }
}
