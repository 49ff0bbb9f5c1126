//! Single rows of a slice, read from where they are without the rest of it.
//!
//! ```text
//! run      ┌ entries ────────────────────────────────────────────┐
//! parts    │ 32 KiB │ 32 KiB │ 32 KiB │ …     each under a key of its own
//! index    ▲    ▲    ▲    ▲    ▲    ▲         in memory: the key and place of an entry now and then,
//!                                             and the form that was told before it
//! ```
//!
//! A row is looked for in the newest run first. It costs one read of two parts at most for each run
//! that is looked at.

use super::{CheckpointError, Checkpoints, Looker, Run};
use crate::delta::{Entries, Form, Reader};
use crate::structure::ReadRows;
use crate::{Backend, SavedError};

/// Bytes from one entry that the index knows to the next, at least.
const SPACING: usize = 8 << 10;
/// Bytes of a key that the index knows: those of a row of a structure.
const KEY_BYTES: usize = 5;

impl Checkpoints {
    /// From now on what is put of a node can be read back row by row ([`Looker::rows_of`]) at little
    /// cost.
    pub fn read_by_row(&mut self, node: u32) {
        self.by_row.insert(node);
    }
}

/// Where entries of a run begin.
#[derive(Debug)]
pub(super) struct RowIndex {
    /// In ascending order.
    places: Vec<Indexed>,
    /// Forms that were told before them, one after the other.
    forms: Vec<(Vec<u8>, usize)>,
    /// Where the last entry ends.
    end: u64,
}

/// An entry that the index knows.
#[derive(Debug)]
struct Indexed {
    /// The first bytes of its key.
    key: [u8; KEY_BYTES],
    /// Where it begins.
    at: u64,
    /// The number of the form that was told last, from 1; 0: none was.
    form: u32,
}

/// Entries of a run, from the beginning of one to that of another: a few kilobytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    pub(super) start: u64,
    pub(super) end: u64,
    form: Option<Form<'a>>,
}

impl Around<'_> {
    /// What is said of a key there, of which these are the bytes: nothing, or its value, or that it is
    /// deleted.
    ///
    /// # Errors
    /// They are no entries.
    pub(super) fn find<'a>(
        &'a self,
        bytes: &'a [u8],
        key: &[u8],
    ) -> Result<Option<Option<&'a [u8]>>, SavedError> {
        let mut entries = Entries::new(Reader::new(bytes), self.form);
        while !entries.rest().is_empty() {
            let (found, value) = entries.next()?;
            if !found.iter().lt(key.iter().copied()) {
                return Ok(found.iter().eq(key.iter().copied()).then_some(value));
            }
        }
        Ok(None)
    }
}

/// The first bytes of a key, which sort as the keys do.
fn begins_with(key: impl Iterator<Item = u8>) -> [u8; KEY_BYTES] {
    let mut first = [0; KEY_BYTES];
    first.iter_mut().zip(key).for_each(|(to, byte)| *to = byte);
    first
}

impl RowIndex {
    /// That of a run.
    ///
    /// # Errors
    /// It is none.
    pub(super) fn of(run: &[u8]) -> Result<Self, SavedError> {
        let mut from = Reader::new(run);
        for _ in 0..from.u32()? {
            from.sized()?;
        }
        let mut index = Self { places: Vec::new(), forms: Vec::new(), end: run.len() as u64 };
        let mut next = 0;
        let count = from.u32()?;
        let mut entries = Entries::new(from, None);
        for _ in 0..count {
            let (at, form) = (run.len() - entries.rest().len(), entries.form());
            let (key, _) = entries.next()?;
            if at >= next {
                let last = index.forms.last().map(|(before, bytes)| (&before[..], *bytes));
                if let Some((before, bytes)) = form.filter(|_| form != last) {
                    index.forms.push((before.to_vec(), bytes));
                }
                let form = index.forms.len() as u32;
                index.places.push(Indexed { key: begins_with(key.iter()), at: at as u64, form });
                next = at + SPACING;
            }
        }
        entries.end()?;
        Ok(index)
    }

    /// Where the entry of a key is, if it is there.
    pub(super) fn around(&self, key: &[u8]) -> Option<Around<'_>> {
        let first = begins_with(key.iter().copied());
        let after = self.places.partition_point(|it| it.key <= first);
        let from = self.places.get(after.checked_sub(1)?)?;
        let form = (from.form as usize).checked_sub(1).map(|nth| {
            let (before, bytes) = &self.forms[nth];
            (&before[..], *bytes)
        });
        let end = self.places.get(after).map_or(self.end, |it| it.at);
        Some(Around { start: from.at, end, form })
    }
}

/// The rows of a slice, each as the newest checkpoint has it when it is asked for.
pub struct RowsOf {
    looker: Looker,
    stage: String,
    slice: u32,
}

impl RowsOf {
    pub(super) fn new(looker: Looker, stage: &str, slice: u32) -> Self {
        Self { looker, stage: stage.to_owned(), slice }
    }

    /// What a run says of a key: nothing, or its value, or that it is deleted.
    fn find(&self, run: &Run, key: &[u8]) -> Result<Option<Option<Vec<u8>>>, CheckpointError> {
        let index = self.looker.index_of(run)?;
        let Some(around) = index.around(key) else { return Ok(None) };
        let bytes = run.range(&*self.looker.backend, around.start, around.end)?;
        let failed = |error| CheckpointError::Saved { number: run.checkpoint, error };
        let found = around.find(&bytes, key).map_err(failed)?;
        Ok(found.map(|value| value.map(<[u8]>::to_vec)))
    }
}

impl ReadRows for RowsOf {
    fn read(&self, key: &[u8]) -> Result<Vec<u8>, CheckpointError> {
        let pinned = self.looker.pin(None)?;
        let manifest = pinned.manifest();
        for run in pinned.chain(&self.stage, self.slice).iter().rev() {
            if let Some(value) = self.find(run, key)? {
                return value.ok_or_else(|| self.missing(manifest.number));
            }
        }
        Err(self.missing(manifest.number))
    }
}

impl RowsOf {
    fn missing(&self, number: u64) -> CheckpointError {
        let Self { stage, slice, .. } = self;
        let error = SavedError::new(format!("a row of slice {slice} of `{stage}` is not there"));
        CheckpointError::Saved { number, error }
    }
}

impl Run {
    /// Some bytes of it.
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
