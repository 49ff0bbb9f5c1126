//! Reading single rows of a slice without loading the slice.
//!
//! ```text
//! run      ┌ entries ────────────────────────────────────────────┐
//! parts    │ 32 KiB │ 32 KiB │ 32 KiB │ …     each under a key of its own
//! index    ▲    ▲    ▲    ▲    ▲    ▲         in memory: the key and place of an entry now and then,
//!                                             and the form that was told before it
//! ```
//!
//! A row is looked up in the newest run first. Each run costs one read of at most two parts.

use super::{CheckpointError, CheckpointReader, Checkpoints, RunRef};
use crate::Backend;
use tidemill_state::SavedError;
use tidemill_state::delta::{ByteReader, RowForm, RunEntries};
use tidemill_state::structure::{ReadError, ReadRows};
use tidemill_types::{CheckpointNumber, SliceId, StageIx};

/// The least bytes between two indexed entries.
const SPACING: usize = 8 << 10;
/// The bytes of a key in the index: those of a row of a structure.
const KEY_BYTES: usize = 5;

impl Checkpoints {
    /// Indexes the rows of all later runs of a stage, so that [`CheckpointReader::rows_of`] reads
    /// them at little cost.
    pub fn read_by_row(&mut self, stage: StageIx) {
        self.by_row.insert(stage);
    }
}

/// An index of the entries of a run.
#[derive(Debug)]
pub(super) struct RowIndex {
    /// In ascending order.
    places: Vec<IndexedEntry>,
    /// The forms in force at the indexed entries.
    forms: Vec<(Vec<u8>, usize)>,
    /// The end of the last entry.
    end: u64,
}

/// An indexed entry.
#[derive(Debug)]
struct IndexedEntry {
    /// The first bytes of its key.
    key: [u8; KEY_BYTES],
    /// Its position.
    at: u64,
    /// The number of the form in force, from 1; 0 if there is none.
    form: u32,
}

/// A range of entries of a run, some kilobytes long.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryRange<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    form: Option<RowForm<'a>>,
}

impl EntryRange<'_> {
    /// Looks a key up in the bytes of the range: `None` if it is absent, `Some(None)` if it is
    /// deleted there.
    ///
    /// # Errors
    /// The bytes are no entries.
    pub(super) fn find<'a>(
        &'a self,
        bytes: &'a [u8],
        key: &[u8],
    ) -> Result<Option<Option<&'a [u8]>>, SavedError> {
        let mut entries = RunEntries::new(ByteReader::new(bytes), self.form);
        while !entries.rest().is_empty() {
            let (found, value) = entries.next_entry()?;
            if !found.iter().lt(key.iter().copied()) {
                return Ok(found.iter().eq(key.iter().copied()).then_some(value));
            }
        }
        Ok(None)
    }
}

/// The first bytes of a key. They sort as the keys do.
fn begins_with(key: impl Iterator<Item = u8>) -> [u8; KEY_BYTES] {
    let mut first = [0; KEY_BYTES];
    first.iter_mut().zip(key).for_each(|(to, byte)| *to = byte);
    first
}

impl RowIndex {
    /// Makes the index of a run.
    ///
    /// # Errors
    /// The bytes are no run.
    pub(super) fn of(run: &[u8]) -> Result<Self, SavedError> {
        let mut from = ByteReader::new(run);
        for _ in 0..from.u32()? {
            from.sized()?;
        }
        let mut index = Self { places: Vec::new(), forms: Vec::new(), end: run.len() as u64 };
        let mut next = 0;
        let count = from.u32()?;
        let mut entries = RunEntries::new(from, None);
        for _ in 0..count {
            let (at, form) = (run.len() - entries.rest().len(), entries.form());
            let (key, _) = entries.next_entry()?;
            if at >= next {
                let last = index.forms.last().map(|(before, bytes)| (&before[..], *bytes));
                if let Some((before, bytes)) = form.filter(|_| form != last) {
                    index.forms.push((before.to_vec(), bytes));
                }
                let form = index.forms.len() as u32;
                index.places.push(IndexedEntry {
                    key: begins_with(key.iter()),
                    at: at as u64,
                    form,
                });
                next = at + SPACING;
            }
        }
        entries.end()?;
        Ok(index)
    }

    /// The range that holds a key, if the run has it.
    pub(super) fn around(&self, key: &[u8]) -> Option<EntryRange<'_>> {
        let first = begins_with(key.iter().copied());
        let after = self.places.partition_point(|it| it.key <= first);
        let from = self.places.get(after.checked_sub(1)?)?;
        let form = (from.form as usize).checked_sub(1).map(|nth| {
            let (before, bytes) = &self.forms[nth];
            (&before[..], *bytes)
        });
        let end = self.places.get(after).map_or(self.end, |it| it.at);
        Some(EntryRange { start: from.at, end, form })
    }
}

/// A reader of single rows of a slice, from the newest checkpoint at the time of each call.
pub struct RowReader {
    looker: CheckpointReader,
    stage: String,
    slice: SliceId,
}

impl RowReader {
    pub(super) fn new(looker: CheckpointReader, stage: &str, slice: SliceId) -> Self {
        Self { looker, stage: stage.to_owned(), slice }
    }

    /// Looks a key up in a run: `None` if it is absent, `Some(None)` if it is deleted there.
    fn find(&self, run: &RunRef, key: &[u8]) -> Result<Option<Option<Vec<u8>>>, CheckpointError> {
        let index = self.looker.index_of(run)?;
        let Some(around) = index.around(key) else { return Ok(None) };
        let bytes = run.range(&*self.looker.backend, around.start, around.end)?;
        let failed = |error| CheckpointError::Saved { number: run.checkpoint, error };
        let found = around.find(&bytes, key).map_err(failed)?;
        Ok(found.map(|value| value.map(<[u8]>::to_vec)))
    }
}

impl ReadRows for RowReader {
    fn read(&self, key: &[u8]) -> Result<Vec<u8>, ReadError> {
        Ok(self.read_row(key)?)
    }
}

impl RowReader {
    /// As [`ReadRows::read`], with the error of the checkpoint.
    pub(super) fn read_row(&self, key: &[u8]) -> Result<Vec<u8>, CheckpointError> {
        let pinned = self.looker.pin(None)?;
        let manifest = pinned.manifest();
        for run in pinned.chain(&self.stage, self.slice).iter().rev() {
            if let Some(value) = self.find(run, key)? {
                return value.ok_or_else(|| self.missing(manifest.number));
            }
        }
        Err(self.missing(manifest.number))
    }

    fn missing(&self, number: CheckpointNumber) -> CheckpointError {
        let Self { stage, slice, .. } = self;
        let error = SavedError::new(format!("a row of slice {slice} of `{stage}` is not there"));
        CheckpointError::Saved { number, error }
    }
}

impl RunRef {
    /// Reads a range of its bytes.
    pub(super) fn range(
        &self,
        backend: &dyn Backend,
        start: u64,
        end: u64,
    ) -> Result<Vec<u8>, CheckpointError> {
        let part_bytes = u64::from(self.part_bytes.max(1));
        let mut bytes = Vec::with_capacity((end - start) as usize);
        for part in start / part_bytes..end.div_ceil(part_bytes) {
            let found = self.part(backend, part)?;
            let of_part = |at: u64| at.saturating_sub(part * part_bytes) as usize;
            let place = of_part(start)..of_part(end).min(found.len());
            bytes.extend_from_slice(found.get(place).unwrap_or_default());
        }
        Ok(bytes)
    }
}
