//! Rows on their way to a stream: encoded when they come, records when their cycle is committed.
//!
//! ```text
//! blocks ─▶ value, key, time of each row ─▶ by streamlet: the key's, or the cycle's ─▶ chunks
//! ```
//!
//! Invariant: which rows a chunk has depends on the rows alone, not on the clock.

use crate::error::{ConnectorError, ConnectorErrorKind, arrow_reason, nearest, with_hint};
use crate::layout::plain_batch;
use crate::sink::{
    cell::Cell,
    encode::{RowEncoder, json_options},
};
use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_schema::SchemaRef;
use std::{ops::Range, path::Path, sync::Arc};
use tidemill_flow::{Block, TIME_COLUMN};
use tidemill_types::{Cycle, Micros, job::Format};
use tidemill_wire::{
    partitioner::streamlet_of,
    records::{ChunkBuilder, Header, RecordRefused},
};

/// Keys and values of a chunk, in bytes; one record may be longer.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;
/// Records of a chunk.
const CHUNK_RECORDS: usize = 4_096;

/// One row on its way.
pub(crate) struct EncodedRow {
    pub(crate) key: Option<Range<usize>>,
    pub(crate) value: Range<usize>,
    pub(crate) timestamp_ms: Option<i64>,
}

/// Rows of a cycle that is not committed.
pub(crate) struct CycleRows {
    pub(crate) cycle: Cycle,
    pub(crate) bytes: Vec<u8>,
    pub(crate) rows: Vec<EncodedRow>,
}

/// Rows of all cycles that are not committed.
pub(crate) struct UncommittedRows {
    encoder: RowEncoder,
    key: Vec<usize>,
    pending: Vec<CycleRows>,
}

impl UncommittedRows {
    /// Rows of `schema` for the stream `name`, with the values of these columns as keys. `subject`
    /// is the stream as messages name it.
    ///
    /// # Errors
    /// The format is not `json` or `text`, or a key column is not there.
    pub(crate) fn new(
        (subject, name): (&str, &str),
        format: Format,
        key: &[String],
        schema: &SchemaRef,
    ) -> Result<Self, ConnectorError> {
        let refused = |message: String| ConnectorError {
            kind: ConnectorErrorKind::Unwritable,
            message: format!("{subject}: {message}"),
        };
        if !matches!(format, Format::Json | Format::Text) {
            return Err(refused("its format must be json or text".to_owned()));
        }
        let column = |wanted: &String| {
            schema.index_of(wanted).map_err(|_| {
                let names = schema.fields().iter().map(|it| it.name().as_str());
                let names: Vec<&str> = names.filter(|it| *it != TIME_COLUMN).collect();
                let near = nearest(wanted, names.iter().copied());
                let refusal = format!("there is no column `{wanted}` for its `key`");
                let refusal = with_hint(refusal, wanted, near.as_deref());
                refused(format!("{refusal} The rows have: {}", names.join(", ")))
            })
        };
        let key = key.iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let encoder = RowEncoder::new(Path::new(name), format, Arc::clone(schema))?;
        Ok(Self { encoder, key, pending: Vec::new() })
    }

    /// Takes the rows of a cycle.
    ///
    /// # Errors
    /// A row cannot be encoded; in words.
    pub(crate) fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), String> {
        let mut pending = CycleRows { cycle, bytes: Vec::new(), rows: Vec::new() };
        for block in blocks.iter().filter(|block| !block.is_empty()) {
            let batch = block.batch();
            let start = pending.bytes.len();
            self.encoder
                .blocks(std::slice::from_ref(block), &mut pending.bytes)
                .map_err(arrow_reason)?;
            let times = times(&batch);
            let keys = keys(&batch, &self.key).map_err(arrow_reason)?;
            let ends: Vec<usize> = memchr::memchr_iter(b'\n', &pending.bytes[start..]).collect();
            debug_assert_eq!(ends.len(), batch.num_rows(), "a row is a line");
            let mut from = start;
            for (row, end) in ends.into_iter().enumerate() {
                let value = from..start + end;
                from = start + end + 1;
                let key = keys.as_ref().map(|keys| {
                    let at = pending.bytes.len();
                    pending.bytes.extend_from_slice(keys.get(row).map_or(&[][..], Vec::as_slice));
                    at..pending.bytes.len()
                });
                let timestamp_ms = times.as_ref().and_then(|it| it.get(row).copied());
                pending.rows.push(EncodedRow { key, value, timestamp_ms });
            }
        }
        self.pending.push(pending);
        Ok(())
    }

    /// The rows of the cycles up to this one.
    pub(crate) fn up_to(&self, cycle: Cycle) -> &[CycleRows] {
        &self.pending[..self.pending.partition_point(|it| it.cycle <= cycle)]
    }

    /// Puts taken rows back.
    pub(crate) fn put_back(&mut self, taken: Vec<CycleRows>) {
        self.pending.splice(..0, taken);
    }

    /// Takes them out.
    pub(crate) fn take(&mut self, cycle: Cycle) -> Vec<CycleRows> {
        let count = self.up_to(cycle).len();
        self.pending.drain(..count).collect()
    }
}

impl CycleRows {
    /// The rows by streamlet, of so many.
    pub(crate) fn by_streamlet(&self, count: u32) -> Vec<Vec<&EncodedRow>> {
        let mut by_streamlet: Vec<Vec<&EncodedRow>> = vec![Vec::new(); count as usize];
        for row in &self.rows {
            let streamlet = match &row.key {
                Some(key) => streamlet_of(&self.bytes[key.clone()], count),
                None => (self.cycle.0 % u64::from(count)) as u32,
            };
            by_streamlet[streamlet as usize].push(row);
        }
        by_streamlet
    }

    /// Makes a chunk of rows, of which the first has these headers.
    ///
    /// # Errors
    /// A row is too long for a record.
    pub(crate) fn chunk(
        &self,
        builder: &mut ChunkBuilder,
        rows: &[&EncodedRow],
        marks: &[Header<'_>],
        now_ms: i64,
    ) -> Result<Option<Vec<u8>>, RecordRefused> {
        for (index, row) in rows.iter().enumerate() {
            let key = row.key.clone().map(|it| &self.bytes[it]);
            let value = Some(&self.bytes[row.value.clone()]);
            let headers = if index == 0 { marks } else { &[] };
            let timestamp_ms = row.timestamp_ms.unwrap_or(now_ms);
            builder.append(timestamp_ms, key, value, headers.iter().copied())?;
        }
        Ok(builder.finish())
    }
}

/// The number of these rows that fill one chunk.
pub(crate) fn chunk_rows(rows: &[&EncodedRow], most: usize) -> usize {
    let mut bytes = 0;
    let fits = rows.iter().take(CHUNK_RECORDS).take_while(|row| {
        bytes += row.value.len() + row.key.as_ref().map_or(0, ExactSizeIterator::len);
        bytes <= most
    });
    fits.count().max(1)
}

/// Times of the rows, in milliseconds.
fn times(batch: &RecordBatch) -> Option<Vec<i64>> {
    let times = batch.column_by_name(TIME_COLUMN)?;
    let times = times.as_primitive_opt::<TimestampMicrosecondType>()?;
    Some(times.values().iter().map(|it| Micros(*it).record_timestamp_ms()).collect())
}

/// Keys of rows: a column's text, or a JSON list of several.
fn keys(
    batch: &RecordBatch,
    columns: &[usize],
) -> Result<Option<Vec<Vec<u8>>>, arrow_schema::ArrowError> {
    if columns.is_empty() {
        return Ok(None);
    }
    let batch = plain_batch(&batch.project(columns)?)?;
    let (schema, options) = (batch.schema(), json_options());
    let cells = batch.columns().iter().zip(schema.fields());
    let cells = cells.map(|(column, field)| Cell::or_json(column, field, &options));
    let cells = cells.collect::<Result<Vec<_>, _>>()?;
    let text = |cell: &Cell<'_>, row: usize| {
        let mut text = Vec::new();
        if !cell.is_null(row) {
            cell.write(row, &mut text)?;
        }
        Ok::<_, arrow_schema::ArrowError>(text)
    };
    let key = |row: usize| match cells.as_slice() {
        [one] => text(one, row),
        several => {
            let texts = several.iter().map(|it| text(it, row)).collect::<Result<Vec<_>, _>>()?;
            let texts = texts.iter().map(|it| String::from_utf8_lossy(it).into());
            Ok(serde_json::Value::Array(texts.collect()).to_string().into_bytes())
        }
    };
    (0..batch.num_rows()).map(key).collect::<Result<_, _>>().map(Some)
}
