//! Single rows of a slice, read from where they are without the rest of it.
//!
//! ```text
//! run      ┌ entries ────────────────────────────────────────────┐
//! parts    │ 32 KiB │ 32 KiB │ 32 KiB │ …     each under a key of its own
//! index    ▲    ▲    ▲    ▲    ▲    ▲         in memory: the key and place of an entry now and then
//! ```
//!
//! A row is looked for in the newest run first. It costs one read of two parts at most for each run
//! that is looked at.

use super::{CheckpointError, Checkpoints, Looker, Run};
use crate::delta::{self, Reader};
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
    /// The first bytes of a key, and where its entry begins, in ascending order.
    places: Vec<([u8; KEY_BYTES], u64)>,
    /// Where the last entry ends.
    end: u64,
}

/// The first bytes of a key, which sort as the keys do.
fn begins_with(key: &[u8]) -> [u8; KEY_BYTES] {
    let mut first = [0; KEY_BYTES];
    let count = key.len().min(KEY_BYTES);
    first[..count].copy_from_slice(&key[..count]);
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
        let mut index = Self { places: Vec::new(), end: run.len() as u64 };
        let mut next = 0;
        for _ in 0..from.u32()? {
            let at = run.len() - from.rest().len();
            let (key, _) = delta::entry(&mut from)?;
            if at >= next {
                index.places.push((begins_with(key), at as u64));
                next = at + SPACING;
            }
        }
        from.end()?;
        Ok(index)
    }

    /// Where the entry of a key is, if it is there: a few kilobytes, from the beginning of an entry
    /// to that of another.
    pub(super) fn around(&self, key: &[u8]) -> Option<(u64, u64)> {
        let first = begins_with(key);
        let after = self.places.partition_point(|(it, _)| *it <= first);
        let (_, start) = self.places.get(after.checked_sub(1)?)?;
        let end = self.places.get(after).map_or(self.end, |(_, at)| *at);
        Some((*start, end))
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
        let Some((start, end)) = index.around(key) else { return Ok(None) };
        let bytes = run.range(&*self.looker.backend, start, end)?;
        let failed = |error| CheckpointError::Saved { number: run.checkpoint, error };
        let mut from = Reader::new(&bytes);
        while !from.rest().is_empty() {
            let (found, value) = delta::entry(&mut from).map_err(failed)?;
            if found >= key {
                return Ok((found == key).then(|| value.map(<[u8]>::to_vec)));
            }
        }
        Ok(None)
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
