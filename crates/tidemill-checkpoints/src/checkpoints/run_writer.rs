//! Writing the changes of a slice as a run into the current batch.
//!
//! ```text
//! Delta ── sorted ──▶ batch │ head, key, a part of the run │ head, key, the next part │ …
//! ```
//!
//! A run is written once, entry by entry and in key order, into the memory that the backend writes
//! from. Runs with an index are first made as a whole, because the index is made from all of it.
//!
//! Invariants:
//!
//! - A delta that cannot be a run is refused before any of it is in the batch.
//! - The batch keeps its content until a commit succeeds.

use super::{
    CheckpointError, Checkpoints, RunRef, key_index,
    manifest::{FINE_PART_BYTES, PART_BYTES},
    reader,
    row_index::RowIndex,
};
use crate::WriteBatch;
use std::{collections::BTreeSet, ops::Range};
use tidemill_state::delta::{self, Prefix, RunSink};
use tidemill_state::{Delta, SavedError};
use tidemill_types::{CheckpointNumber, SliceKey, StageIx};

/// The bytes of changes per byte of the first run, at which runs are merged.
const CHANGES_PER_STATE: u64 = 2;
/// The bytes of the two lengths of an entry.
const LENGTHS_BYTES: usize = 8;
/// The bytes before the value of a row that has a form.
const WORD_BYTES: usize = 4;
/// The bytes that most entries do not exceed, key and value together.
const SHORT_BYTES: usize = 128;
/// The most checkpoints that the runs of a slice come from.
pub(super) const GENERATIONS_MAX: usize = 8;

impl Checkpoints {
    /// Adds a run with changes of a slice to the batch, and returns its length in bytes; the delta
    /// is empty then. [`Self::flush_if_long`], [`Self::flush`] or [`Self::complete`] writes the
    /// batch. A slice may have several runs in a checkpoint, with no key in common.
    ///
    /// # Errors
    /// The changes are too large for a run. Nothing is added then.
    ///
    /// # Panics
    /// Panics if no checkpoint was begun.
    pub fn put_changes(&mut self, slice: SliceKey, changes: &mut Delta) -> Result<u64, SavedError> {
        let stage = slice.stage;
        let number = self.begun.expect("a checkpoint was begun");
        let may_have_forms = self.may_have_forms(stage);
        let run_bytes = changes.run_bytes(may_have_forms)?;
        if changes.clears_all() {
            self.supersede(slice, number);
        } else {
            self.merge_if_long(slice, number);
        }
        if self.by_row.contains(&stage) || self.by_key.contains_key(&stage) {
            let mut run = std::mem::take(&mut self.run);
            run.clear();
            run.reserve(run_bytes);
            changes.write_run(may_have_forms, &mut self.order, &mut run);
            assert_eq!(run.len(), run_bytes, "a delta writes the run that it announced");
            self.add(slice, number, &run);
            self.run = run;
        } else {
            let run = self.named_next(slice, number, (run_bytes, PART_BYTES, 0));
            let mut parts = RunParts::new(&mut self.batch, run);
            changes.write_run(may_have_forms, &mut self.order, &mut parts);
            parts.finish();
        }
        Ok(run_bytes as u64)
    }

    /// As [`Self::put_changes`], of a run.
    #[cfg(test)]
    pub(crate) fn put(&mut self, of: SliceKey, run: &[u8]) -> Result<(), CheckpointError> {
        let number = self.begun.expect("a checkpoint was begun");
        self.merge_if_long(of, number);
        self.add(of, number, run);
        self.flush_if_long()
    }

    /// Writes the batch, if it is large enough for a commit to be efficient.
    ///
    /// # Errors
    /// An error of the backend. The batch keeps its content and is written with the next attempt;
    /// until then it grows in memory with every run that is added.
    pub fn flush_if_long(&mut self) -> Result<(), CheckpointError> {
        if self.batch.bytes() < PART_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes the batch.
    ///
    /// # Errors
    /// As [`Self::flush_if_long`].
    pub fn flush(&mut self) -> Result<(), CheckpointError> {
        Ok(self.backend.commit(&mut self.batch)?)
    }

    /// Returns true if the runs of a stage may have forms: their entries are not read one by one.
    fn may_have_forms(&self, stage: StageIx) -> bool {
        !self.by_key.contains_key(&stage)
    }

    /// Drops the runs of a slice that earlier checkpoints wrote.
    fn supersede(&mut self, of: SliceKey, number: CheckpointNumber) {
        if let Some(chain) = self.chains.get_mut(&of) {
            self.unnamed.extend(chain.extract_if(.., |run| run.checkpoint != number));
        }
    }

    /// Merges the runs of a slice, before the first run of a checkpoint, if they are many.
    fn merge_if_long(&mut self, slice: SliceKey, number: CheckpointNumber) {
        let chain = self.chains.get(&slice).map_or(&[][..], Vec::as_slice);
        if !is_long(chain, number) {
            return;
        }
        // What cannot be read now is not lost: the chain is longer, and it is tried again.
        let may_have_forms = self.may_have_forms(slice.stage);
        let merged = self.named(chain).read().ok().and_then(|it| {
            let runs = it.get();
            if may_have_forms { delta::merge(&runs) } else { delta::merge_plain(&runs) }.ok()
        });
        if let Some(merged) = merged {
            let merged_away = self.chains.remove(&slice).unwrap_or_default();
            self.unnamed.extend(merged_away);
            self.add(slice, number, &merged);
        }
    }

    /// Adds a whole run to the batch.
    fn add(&mut self, slice: SliceKey, checkpoint: CheckpointNumber, run: &[u8]) {
        let is_by_row = self.by_row.contains(&slice.stage);
        let hash_of = self.by_key.get(&slice.stage);
        let part = if is_by_row || hash_of.is_some() { FINE_PART_BYTES } else { PART_BYTES };
        // What cannot be read says so when somebody needs it.
        let index = hash_of.and_then(|hash_of| key_index::index_of(run, &**hash_of).ok().flatten());
        let index = index.unwrap_or_default();
        let sizes = (run.len(), part, index.len());
        let named = self.named_next(slice, checkpoint, sizes);
        if is_by_row && let Ok(index) = RowIndex::of(run) {
            reader::lock(&self.shared).index(named, index);
        }
        for (nth, bytes) in (0..).zip(run.chunks(part).chain(index.chunks(PART_BYTES))) {
            self.batch.put(&named.key(nth), bytes);
        }
    }

    /// Names the next run of a slice: its length, that of its parts and that of its index, in
    /// bytes.
    fn named_next(
        &mut self,
        slice: SliceKey,
        checkpoint: CheckpointNumber,
        (bytes, part_bytes, index_bytes): (usize, usize, usize),
    ) -> RunRef {
        let chain = self.chains.entry(slice).or_default();
        let nth = chain.iter().filter(|it| it.checkpoint == checkpoint).count() as u32;
        let (bytes, index_bytes) = (bytes as u64, index_bytes as u64);
        let part_bytes = part_bytes as u32;
        let SliceKey { stage, slice } = slice;
        let run = RunRef { checkpoint, stage, slice, nth, bytes, part_bytes, index_bytes };
        chain.push(run);
        run
    }
}

/// A run that is written into a batch, each part under its own key.
struct RunParts<'a> {
    batch: &'a mut WriteBatch,
    run: RunRef,
    /// The next part.
    nth: u64,
    /// The bytes of the run behind this part.
    left: usize,
    /// The free range of this part in the batch.
    room: Range<usize>,
}

impl<'a> RunParts<'a> {
    fn new(batch: &'a mut WriteBatch, run: RunRef) -> Self {
        Self { batch, run, nth: 0, left: run.bytes as usize, room: 0..0 }
    }

    /// Ends the run.
    ///
    /// # Panics
    /// Panics if the delta wrote fewer bytes than it announced, which is an error of the engine: the
    /// manifest names the length. Writing more panics too, as there is no part for them.
    fn finish(self) {
        let missing = self.left + self.room.len();
        assert_eq!(missing, 0, "a delta writes the run that it announced");
    }

    /// Writes bytes that cross the end of a part.
    #[cold]
    fn put_across(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.room.is_empty() {
                let part = self.left.min(self.run.part_bytes as usize);
                assert!(part > 0, "a delta writes the run that it announced");
                let room = self.batch.put_room(&self.run.key(self.nth), part);
                self.room = room.expect("a part is no longer than any value");
                self.left -= part;
                self.nth += 1;
            }
            let (fits, rest) = bytes.split_at(bytes.len().min(self.room.len()));
            self.put(fits);
            bytes = rest;
        }
    }
}

impl RunSink for RunParts<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > self.room.len() {
            return self.put_across(bytes);
        }
        let end = self.room.start + bytes.len();
        self.batch.bytes_mut()[self.room.start..end].copy_from_slice(bytes);
        self.room.start = end;
    }

    /// Most entries are short. A copy of constant length needs neither a call nor a branch; its
    /// excess is overwritten by the next entry.
    #[inline]
    fn put_entry(&mut self, lengths: [u8; 8], prefix: &Prefix, with_more: &[u8], count: usize) {
        const PREFIX: usize = size_of::<u128>();
        let prefix_bytes = prefix.bytes.len();
        let to = self.batch.bytes_mut()[self.room.clone()].first_chunk_mut();
        let from = with_more.first_chunk::<SHORT_BYTES>();
        if let (Some(to), Some(from)) = (to, from)
            && prefix_bytes <= PREFIX
            && count <= SHORT_BYTES
        {
            let to: &mut [u8; LENGTHS_BYTES + PREFIX + SHORT_BYTES] = to;
            let behind = LENGTHS_BYTES + prefix_bytes;
            to[..LENGTHS_BYTES].copy_from_slice(&lengths);
            to[LENGTHS_BYTES..LENGTHS_BYTES + PREFIX].copy_from_slice(&prefix.head_bytes());
            to[behind..behind + SHORT_BYTES].copy_from_slice(from);
            self.room.start += behind + count;
            return;
        }
        self.put_pieces(&[&lengths, &prefix.bytes, &with_more[..count]]);
    }

    /// As [`Self::put_entry`].
    #[inline]
    fn put_row(&mut self, word: [u8; 4], with_more: &[u8], count: usize) {
        let to = self.batch.bytes_mut()[self.room.clone()].first_chunk_mut();
        let from = with_more.first_chunk::<SHORT_BYTES>();
        if let (Some(to), Some(from)) = (to, from)
            && count <= SHORT_BYTES
        {
            let to: &mut [u8; WORD_BYTES + SHORT_BYTES] = to;
            to[..WORD_BYTES].copy_from_slice(&word);
            to[WORD_BYTES..].copy_from_slice(from);
            self.room.start += WORD_BYTES + count;
            return;
        }
        self.put_pieces(&[&word, &with_more[..count]]);
    }
}

/// Returns true if the runs of a slice are merged before the next one is added: at most once in a
/// checkpoint.
fn is_long(chain: &[RunRef], checkpoint: CheckpointNumber) -> bool {
    let Some(first) = chain.first() else { return false };
    if chain.iter().any(|run| run.checkpoint == checkpoint) {
        return false;
    }
    let generations: BTreeSet<CheckpointNumber> = chain.iter().map(|run| run.checkpoint).collect();
    let of_first = |run: &&RunRef| run.checkpoint == first.checkpoint;
    let state: u64 = chain.iter().filter(of_first).map(|run| run.bytes).sum();
    let changes = chain.iter().map(|run| run.bytes).sum::<u64>() - state;
    generations.len() >= GENERATIONS_MAX || changes > state * CHANGES_PER_STATE
}

#[cfg(test)]
mod tests;
