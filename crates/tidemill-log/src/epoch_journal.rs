//! The file in which leader epochs and truncations are durable: one for all streamlets of a log.
//!
//! ```text
//! magic (8 bytes) │ record │ record │ …
//! record: stream 16 │ streamlet 4 │ kind 4 │ epoch 4 │ offset 8 │ segment epoch 8 │ CRC-32C 4
//! ```
//!
//! Records are only appended; the file is written anew, without those that say nothing any more,
//! when the log is opened. A record is durable before anything that depends on it is done: before
//! the first append of an epoch, and before the first byte of a truncation is removed.
//!
//! Invariants: an incomplete last record was never acted upon; damage is reported and never taken
//! for an absence; after a failed write or sync the file gets no more records until the log is
//! opened again.

use crate::{
    disk_reserve::DiskReserve, epochs::EpochHistory, error::LogError, ids::StreamId, log_core::at,
    report::Finding,
};
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};
use tidemill_env::{Disk, DiskFile};
use tidemill_types::{LeaderEpoch, Offset, SegmentEpoch, StreamletIx};
use tidemill_wire::chunk::crc32c;

#[cfg(test)]
mod tests;

const FILE: &str = "epochs";
const MAGIC: [u8; 8] = *b"TMepoc\0\x01";
const RECORD_BYTES: usize = 48;
/// The file is written anew if it has this many records, and more than twice those it needs.
const REWRITE_MIN: usize = 4096;

/// A streamlet of any stream.
pub(crate) type StreamletKey = (StreamId, StreamletIx);

/// Sets the checksums of all records right.
#[cfg(any(test, fuzzing))]
pub(crate) fn seal(bytes: &mut [u8]) {
    let Some(records) = bytes.get_mut(MAGIC.len()..) else { return };
    for record in records.chunks_exact_mut(RECORD_BYTES) {
        let crc = crc32c(&record[..RECORD_BYTES - 4]);
        record[RECORD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// The part of a record that its kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EpochChange {
    /// An epoch begins at this offset.
    Begins(LeaderEpoch, Offset),
    /// A leader of this epoch is known; no earlier one is followed.
    Observed(LeaderEpoch),
    /// Records from this offset on are gone, in all segments whose epoch is lower.
    Truncated(Truncation),
}

/// A truncation: chunks from `end` on do not count in segments made before `before`. Of no segment
/// if that is 0: epochs that begin there have no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Truncation {
    pub(crate) end: Offset,
    pub(crate) before: SegmentEpoch,
}

impl Truncation {
    /// Epochs that begin at `end` or after it have no records.
    pub(crate) fn of_epochs(end: Offset) -> Self {
        Self { end, before: SegmentEpoch(0) }
    }

    fn is_of_segments(&self) -> bool {
        self.before > SegmentEpoch(0)
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EpochRecord {
    pub(crate) stream: StreamId,
    pub(crate) streamlet: StreamletIx,
    pub(crate) change: EpochChange,
}

impl EpochRecord {
    fn encode(&self) -> [u8; RECORD_BYTES] {
        let (kind, epoch, offset, segment) = match self.change {
            EpochChange::Begins(epoch, start) => (0u32, epoch.0, start.0, 0),
            EpochChange::Observed(epoch) => (1, epoch.0, 0, 0),
            EpochChange::Truncated(it) => (2, 0, it.end.0, it.before.0),
        };
        let mut out = [0; RECORD_BYTES];
        out[..16].copy_from_slice(&self.stream.0);
        out[16..20].copy_from_slice(&self.streamlet.0.to_le_bytes());
        out[20..24].copy_from_slice(&kind.to_le_bytes());
        out[24..28].copy_from_slice(&epoch.to_le_bytes());
        out[28..36].copy_from_slice(&offset.to_le_bytes());
        out[36..44].copy_from_slice(&segment.to_le_bytes());
        let crc = crc32c(&out[..RECORD_BYTES - 4]);
        out[RECORD_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; RECORD_BYTES] = bytes.try_into().ok()?;
        let four = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes);
        let eight = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes);
        if crc32c(&bytes[..RECORD_BYTES - 4]) != four(RECORD_BYTES - 4).ok()? {
            return None;
        }
        let epoch = LeaderEpoch(four(24).ok()?.cast_signed());
        let offset = Offset(eight(28).ok()?.cast_signed());
        let change = match four(20).ok()? {
            0 => EpochChange::Begins(epoch, offset),
            1 => EpochChange::Observed(epoch),
            2 => {
                let before = SegmentEpoch(eight(36).ok()?);
                EpochChange::Truncated(Truncation { end: offset, before })
            }
            _ => return None,
        };
        let stream = StreamId(bytes[..16].try_into().ok()?);
        Some(Self { stream, streamlet: StreamletIx(four(16).ok()?), change })
    }
}

/// The records of one streamlet, applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamletEpochs {
    pub(crate) history: EpochHistory,
    /// Those of segments that may still be there, in the order in which they were made.
    pub(crate) truncations: Vec<Truncation>,
}

impl StreamletEpochs {
    pub(crate) fn apply(&mut self, change: EpochChange) {
        match change {
            // A record that says nothing new changes nothing.
            EpochChange::Begins(epoch, start) => _ = self.history.begin(epoch, start),
            EpochChange::Observed(epoch) => _ = self.history.observe(epoch),
            EpochChange::Truncated(truncation) => {
                self.history.truncate(truncation.end);
                if truncation.is_of_segments() {
                    self.truncations.push(truncation);
                }
            }
        }
    }

    /// The log begins at `start`, and its oldest segment has this epoch: what is about older ones
    /// is forgotten.
    pub(crate) fn forget_below(&mut self, start: Offset, oldest: Option<SegmentEpoch>) {
        self.history.forget_below(start);
        self.truncations.retain(|it| oldest.is_some_and(|oldest| oldest < it.before));
    }

    /// The fewest records that make these again.
    pub(crate) fn records(&self, (stream, streamlet): StreamletKey) -> Vec<EpochRecord> {
        if *self == Self::default() {
            return Vec::new();
        }
        let record = |change| EpochRecord { stream, streamlet, change };
        let truncations = self.truncations.iter().copied();
        let erased = Truncation::of_epochs(Offset(0));
        let all = truncations.chain([erased]).map(EpochChange::Truncated);
        let starts = self.history.starts().iter();
        let starts = starts.map(|it| EpochChange::Begins(it.epoch, it.start));
        let highest = EpochChange::Observed(self.history.highest());
        all.chain(starts).chain([highest]).map(record).collect()
    }
}

/// The contents of the file when the log is opened.
#[derive(Debug, Default)]
pub(crate) struct EpochTable {
    by_streamlet: BTreeMap<StreamletKey, StreamletEpochs>,
    records: usize,
    /// Some of it cannot be read: any epoch may have been used.
    pub(crate) is_damaged: bool,
    /// The file has bytes behind its last record, or lacks its head.
    is_torn: bool,
}

impl EpochTable {
    /// Reads the file. One that is not there is empty.
    pub(crate) fn read(
        disk: &dyn Disk,
        folder: &Path,
        findings: &mut Vec<Finding>,
    ) -> Result<Self, LogError> {
        let path = folder.join(FILE);
        let bytes = match disk.read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(at(&path)(error)),
        };
        let table = Self::parse(&bytes, &path, findings);
        if table.is_damaged {
            // The operator may want to look at it: the file is written anew.
            let copy = folder.join(format!("{FILE}.old"));
            let keep = || -> io::Result<()> {
                let mut file = disk.create(&copy)?;
                file.append(&bytes)?;
                file.sync()
            };
            keep().map_err(at(&copy))?;
        }
        Ok(table)
    }

    fn parse(bytes: &[u8], path: &Path, findings: &mut Vec<Finding>) -> Self {
        let mut table = Self::default();
        let Some(records) = bytes.strip_prefix(&MAGIC) else {
            // A file shorter than its head was never synced.
            table.is_torn = true;
            table.is_damaged = bytes.len() >= MAGIC.len();
            if table.is_damaged {
                findings.push(Finding::Damaged { path: path.to_owned(), position: 0 });
            }
            return table;
        };
        let decoded: Vec<_> = records.chunks(RECORD_BYTES).map(EpochRecord::decode).collect();
        let good = decoded.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        table.is_torn = good * RECORD_BYTES < records.len();
        for (index, record) in decoded.into_iter().take(good).enumerate() {
            let Some(record) = record else {
                let position = (MAGIC.len() + index * RECORD_BYTES) as u64;
                findings.push(Finding::Damaged { path: path.to_owned(), position });
                table.is_damaged = true;
                continue;
            };
            table.records += 1;
            let key = (record.stream, record.streamlet);
            table.by_streamlet.entry(key).or_default().apply(record.change);
        }
        table
    }

    /// Takes the epochs of a streamlet out.
    pub(crate) fn take(&mut self, key: StreamletKey) -> StreamletEpochs {
        self.by_streamlet.remove(&key).unwrap_or_default()
    }
}

/// The file, open for records.
pub(crate) struct EpochJournal {
    path: PathBuf,
    file: Option<Box<dyn DiskFile>>,
    /// An earlier write failed: what the file ends with is not known.
    is_broken: bool,
}

impl EpochJournal {
    /// The journal of a log that is being opened. `new` are the records that the file lacks, and
    /// `all` makes every record that is needed. They are durable when this returns.
    pub(crate) fn open(
        (disk, reserve): (&dyn Disk, &DiskReserve),
        folder: &Path,
        table: &EpochTable,
        new: &[EpochRecord],
        all: impl Fn() -> Vec<EpochRecord>,
    ) -> Result<Self, LogError> {
        let path = folder.join(FILE);
        let mut journal = Self { path: path.clone(), file: None, is_broken: false };
        let count = table.records + new.len();
        let mut anew = table.is_torn || table.is_damaged;
        anew |= count > REWRITE_MIN && count > 2 * all().len();
        let write = || {
            // A second attempt finds what is left of the first.
            match std::mem::replace(&mut anew, true) {
                true => journal.rewrite(disk, folder, &all()),
                false => journal.write(disk, new),
            }
        };
        reserve.with_room(disk, write).map_err(at(&path))?;
        Ok(Self { path, file: None, is_broken: false })
    }

    /// Appends records; they are durable when this returns.
    pub(crate) fn append(
        &mut self,
        disk: &dyn Disk,
        records: &[EpochRecord],
    ) -> Result<(), LogError> {
        self.write(disk, records).map_err(at(&self.path))
    }

    fn write(&mut self, disk: &dyn Disk, records: &[EpochRecord]) -> io::Result<()> {
        if records.is_empty() {
            return Ok(());
        }
        if self.is_broken {
            return Err(io::Error::other("an earlier write to it failed: restart the node"));
        }
        self.is_broken = true;
        let file = match &mut self.file {
            Some(file) => file,
            None if disk.exists(&self.path)? => self.file.insert(disk.open_append(&self.path)?),
            None => self.file.insert(disk.create(&self.path)?),
        };
        let is_new = file.length()? == 0;
        let mut bytes = Vec::with_capacity(MAGIC.len() + records.len() * RECORD_BYTES);
        if is_new {
            bytes.extend_from_slice(&MAGIC);
        }
        bytes.extend(records.iter().flat_map(EpochRecord::encode));
        file.append(&bytes)?;
        file.sync()?;
        if is_new {
            disk.sync_dir(self.path.parent().unwrap_or(Path::new("")))?;
        }
        self.is_broken = false;
        Ok(())
    }

    /// Writes the file anew, in one step.
    fn rewrite(&self, disk: &dyn Disk, folder: &Path, records: &[EpochRecord]) -> io::Result<()> {
        let new = folder.join(format!("{FILE}.new"));
        let mut bytes = MAGIC.to_vec();
        bytes.extend(records.iter().flat_map(EpochRecord::encode));
        let mut file = disk.create(&new)?;
        file.append(&bytes)?;
        file.sync()?;
        drop(file);
        disk.rename(&new, &self.path)?;
        disk.sync_dir(folder)
    }
}
