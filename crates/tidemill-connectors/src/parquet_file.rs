//! Parquet: row groups in order, each read column by column.
//!
//! Timestamps in the old form INT96 count days and nanoseconds. In nanoseconds since 1970 those after
//! 2262 would become others, so they are read in microseconds.

use crate::batch_source::Batches;
use crate::error::{FETCH_AGAIN, arrow_reason, parquet_reason};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{
            ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
            ParquetRecordBatchReaderBuilder,
        },
        parquet_to_arrow_schema_by_columns,
    },
    basic::{Compression, Type as PhysicalType},
    errors::ParquetError,
    file::{
        metadata::ParquetMetaDataReader,
        reader::{ChunkReader, Length},
    },
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

/// The name of a way of packing that is not read, whatever this program is built with.
fn unread(packed: Compression) -> Option<&'static str> {
    match packed {
        Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_) => None,
        Compression::GZIP(_) => Some("GZIP"),
        Compression::LZO => Some("LZO"),
        Compression::BROTLI(_) => Some("BROTLI"),
        Compression::LZ4 | Compression::LZ4_RAW => Some("LZ4"),
    }
}

/// The path of the first column whose type Arrow has none for; none if that is not why a file cannot
/// be read.
fn column_without_type(pieces: &Pieces) -> Option<String> {
    let find = || {
        let metadata = ParquetMetaDataReader::new().parse_and_finish(pieces).ok()?;
        let schema = metadata.file_metadata().schema_descr();
        let fails = |index: &usize| {
            let mask = ProjectionMask::leaves(schema, [*index]);
            parquet_to_arrow_schema_by_columns(schema, mask, None).is_err()
        };
        let index = (0..schema.num_columns()).find(fails)?;
        Some(schema.column(index).path().parts().join("."))
    };
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(find)).ok().flatten()
}

/// The schema with microseconds for columns of INT96; none without such columns.
fn without_nanos_of_days(found: &ArrowReaderMetadata) -> Option<SchemaRef> {
    let columns = found.metadata().file_metadata().schema_descr().columns();
    let mut is_old = columns.iter().map(|it| it.physical_type() == PhysicalType::INT96);
    if !is_old.clone().any(|it| it) {
        return None;
    }
    let schema = found.schema();
    let fields: Fields = schema.fields().iter().map(|it| in_micros(it, &mut is_old)).collect();
    Some(Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))
}

/// A column, whose leaves are the next of all leaves.
fn in_micros(field: &FieldRef, is_old: &mut impl Iterator<Item = bool>) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(|it| in_micros(it, is_old)).collect())
        }
        DataType::List(element) => DataType::List(in_micros(element, is_old)),
        DataType::LargeList(element) => DataType::LargeList(in_micros(element, is_old)),
        DataType::FixedSizeList(element, length) => {
            DataType::FixedSizeList(in_micros(element, is_old), *length)
        }
        DataType::Map(entries, sorted) => DataType::Map(in_micros(entries, is_old), *sorted),
        other => match (is_old.next(), other) {
            (Some(true), DataType::Timestamp(_, zone)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            _ => other.clone(),
        },
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
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
        let load = || {
            let found = ArrowReaderMetadata::load(&pieces, ArrowReaderOptions::new())?;
            let Some(schema) = without_nanos_of_days(&found) else { return Ok(found) };
            let options = ArrowReaderOptions::new().with_schema(schema);
            ArrowReaderMetadata::try_new(Arc::clone(found.metadata()), options)
        };
        let metadata = std::panic::catch_unwind(std::panic::AssertUnwindSafe(load))
            .map_err(|_| format!("its footer does not read; {FETCH_AGAIN}"))?
            .map_err(|error| match column_without_type(&pieces) {
                Some(column) => format!(
                    "its column `{column}` has a type that is not read: {}; write the file again \
                     without it, or with another type",
                    parquet_reason(error)
                ),
                None => format!(
                    "{}; the file is not Parquet as its `format` says, or damaged, or not all there",
                    parquet_reason(error)
                ),
            })?;
        let groups = metadata.metadata().row_groups().iter();
        for column in groups.flat_map(|group| group.columns()) {
            if let Some(codec) = unread(column.compression()) {
                return Err(format!(
                    "its column `{}` is packed by {codec}; by Snappy, ZSTD or not at all is read: \
                     write the file again with one of these",
                    column.column_path().parts().join(".")
                ));
            }
        }
        Ok(Self { pieces, metadata, group: 0, reader: None })
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        Arc::clone(self.metadata.schema())
    }

    /// Records of the file.
    pub(crate) fn records(&self) -> u64 {
        u64::try_from(self.metadata.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// Reads the row group from this record on.
    fn read_group(&self, from: usize) -> Result<ParquetRecordBatchReader, ParquetError> {
        let (pieces, metadata) = (self.pieces.clone(), self.metadata.clone());
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(pieces, metadata)
            .with_row_groups(vec![self.group])
            .with_batch_size(BATCH_RECORDS);
        match from {
            0 => builder.build(),
            from => builder.with_offset(from).build(),
        }
    }

    /// Records of the row group, as the footer says.
    fn group_records(&self) -> Result<u64, String> {
        let records = self.metadata.metadata().row_group(self.group).num_rows();
        u64::try_from(records)
            .map_err(|_| self.of_group(format!("it has {records} records; {FETCH_AGAIN}")))
    }

    /// A message about pages of the row group, with the first column that has such.
    fn of_pages(&self, message: impl std::fmt::Display) -> String {
        let find = || {
            let schema = self.metadata.parquet_schema();
            let fails = |index: &usize| {
                let mask = ProjectionMask::leaves(schema, [*index]);
                let (pieces, metadata) = (self.pieces.clone(), self.metadata.clone());
                let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(pieces, metadata)
                    .with_row_groups(vec![self.group])
                    .with_projection(mask)
                    .build();
                reader.map_or(true, |mut batches| batches.any(|it| it.is_err()))
            };
            let index = (0..schema.num_columns()).find(fails)?;
            Some(schema.column(index).path().parts().join("."))
        };
        match std::panic::catch_unwind(std::panic::AssertUnwindSafe(find)).ok().flatten() {
            Some(column) => self.of_group(format!("column `{column}`: {message}; {FETCH_AGAIN}")),
            None => self.of_group(format!("{message}; {FETCH_AGAIN}")),
        }
    }

    /// A message with the row group that it is about.
    fn of_group(&self, message: impl std::fmt::Display) -> String {
        let groups = self.metadata.metadata().num_row_groups();
        format!("row group {} of {groups}: {message}", self.group)
    }
}

impl Batches for ParquetBatches {
    fn next(&mut self) -> Result<Option<RecordBatch>, String> {
        let groups = self.metadata.metadata().num_row_groups();
        while self.group < groups {
            if self.reader.is_none() {
                self.reader =
                    Some(self.read_group(0).map_err(|error| self.of_pages(parquet_reason(error)))?);
            }
            let next = self.reader.as_mut().and_then(Iterator::next);
            match next {
                Some(batch) => {
                    return batch.map(Some).map_err(|error| self.of_pages(arrow_reason(error)));
                }
                None => (self.reader, self.group) = (None, self.group + 1),
            }
        }
        Ok(None)
    }

    fn skip(&mut self, records: u64) -> Result<u64, String> {
        let mut left = records;
        while left > 0 && self.group < self.metadata.metadata().num_row_groups() {
            let group = self.group_records()?;
            if group > left {
                // A group is cut into batches from its start, wherever reading begins.
                let from = left - left % BATCH_RECORDS as u64;
                let start = usize::try_from(from).map_err(|error| self.of_group(error))?;
                let reader = self.read_group(start);
                self.reader = Some(reader.map_err(|error| self.of_pages(parquet_reason(error)))?);
                left -= from;
                break;
            }
            (self.group, left) = (self.group + 1, left - group);
        }
        Ok(records - left)
    }
}
