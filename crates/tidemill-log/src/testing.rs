//! Chunks for tests, and a segment with one.

use crate::{AppendOptions, Log, LogOptions, StreamSpec, Streamlet, segment::Segment};
use std::{path::Path, sync::Arc};
use tidemill_env::World;
use tidemill_wire::chunk::crc32c;

/// A log without sync threads, its one streamlet, and the segment there with a chunk that no sync
/// has covered.
pub(crate) fn unsynced(world: &World) -> (Log, Arc<Streamlet>, Arc<Segment>) {
    let options = LogOptions { sync_threads: 0, ..LogOptions::default() };
    let log = Log::open(world, Path::new("/log"), options).unwrap();
    let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
    streamlet.append(&batch(1), AppendOptions::default()).unwrap().on_durable(Box::new(|_| ()));
    let segment = Arc::clone(streamlet.segments().values().next().unwrap());
    (log, streamlet, segment)
}

/// A chunk to be made.
#[derive(Clone, Debug)]
pub(crate) struct Batch {
    pub(crate) records: i32,
    pub(crate) producer: i64,
    pub(crate) epoch: i16,
    pub(crate) sequence: i32,
    pub(crate) timestamp_ms: i64,
    /// Stands in the first record; the others are empty.
    pub(crate) value: Vec<u8>,
}

impl Batch {
    pub(crate) fn of(records: i32) -> Self {
        Self { records, producer: -1, epoch: -1, sequence: -1, timestamp_ms: 0, value: Vec::new() }
    }

    /// The bytes. The records are only as long as they must be: the log does not look at them.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 61];
        bytes.extend_from_slice(&vec![0; self.records as usize * 7]);
        bytes.extend_from_slice(&self.value);
        let length = (bytes.len() - 12) as i32;
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[12..16].copy_from_slice(&(-1i32).to_be_bytes());
        bytes[16] = 2;
        bytes[23..27].copy_from_slice(&(self.records - 1).to_be_bytes());
        bytes[27..35].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes[35..43].copy_from_slice(&self.timestamp_ms.to_be_bytes());
        bytes[43..51].copy_from_slice(&self.producer.to_be_bytes());
        bytes[51..53].copy_from_slice(&self.epoch.to_be_bytes());
        bytes[53..57].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[57..61].copy_from_slice(&self.records.to_be_bytes());
        let crc = crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        bytes
    }
}

/// A chunk with `records` records of no producer.
pub(crate) fn batch(records: i32) -> Vec<u8> {
    Batch::of(records).bytes()
}

/// A chunk with one record that holds these bytes.
pub(crate) fn batch_with(value: &[u8]) -> Vec<u8> {
    Batch { value: value.to_vec(), ..Batch::of(1) }.bytes()
}

/// The value that [`batch_with`] put into a chunk.
pub(crate) fn value(chunk: &[u8]) -> &[u8] {
    &chunk[68..]
}
