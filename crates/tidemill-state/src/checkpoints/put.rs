//! How what changed in a slice comes into the batch that is written next.
//!
//! ```text
//! Delta ── sorted ──▶ batch │ head, key, a part of the run │ head, key, the next part │ …
//! ```
//!
//! A run is written once: entry by entry, in the order of its keys, to where the backend takes it
//! from. Runs with an index are the exception, as that is made from all of one.
//!
//! Invariants:
//!
//! - A delta that cannot be a run is refused before anything of it is in the batch.
//! - What is in the batch stays there until it was written.

use super::{
    CheckpointError, Checkpoints, Run, keys, looker,
    manifest::{FINE_PART_BYTES, PART_BYTES},
    rows::RowIndex,
};
use crate::delta::{self, Prefix, TakeRun};
use crate::{Batch, Delta, SavedError};
use std::{collections::BTreeSet, ops::Range};

/// Bytes of changes that are kept for each byte of what they change, before they are merged.
const CHANGES_PER_STATE: u64 = 2;
/// Bytes of the two lengths of an entry.
const LENGTHS_BYTES: usize = 8;
/// Bytes of what stands before the value of a row that has the form of one before it.
const WORD_BYTES: usize = 4;
/// Key and value of most entries together are no longer, in bytes.
const SHORT_BYTES: usize = 128;
/// Checkpoints that the runs of a slice come from, at most.
pub(super) const GENERATIONS_MAX: usize = 8;

impl Checkpoints {
    /// Puts what changed in a slice since the last checkpoint, or some of it: a run, which is written
    /// by [`Self::flush_if_long`], [`Self::flush`] or [`Self::complete`]. Those of one slice in one
    /// checkpoint have no key in common. The delta is empty then; gives back the bytes of the run.
    ///
    /// # Errors
    /// It is too much for a run; nothing is put then.
    ///
    /// # Panics
    /// Panics if no checkpoint was begun.
    pub fn put_changes(
        &mut self,
        (node, slice): (u32, u32),
        changes: &mut Delta,
    ) -> Result<u64, SavedError> {
        let number = self.begun.expect("a checkpoint was begun");
        let may_have_forms = self.may_have_forms(node);
        let run_bytes = changes.run_bytes(may_have_forms)?;
        if changes.clears_all() {
            self.supersede((node, slice), number);
        } else {
            self.merge_if_long((node, slice), number);
        }
        if self.by_row.contains(&node) || self.by_key.contains_key(&node) {
            let mut run = std::mem::take(&mut self.run);
            run.clear();
            run.reserve(run_bytes);
            changes.write_run(may_have_forms, &mut self.order, &mut run);
            self.add((node, slice), number, &run);
            self.run = run;
        } else {
            let run = self.named_next((node, slice), number, (run_bytes, PART_BYTES, 0));
            let mut parts = Parts::new(&mut self.batch, run);
            changes.write_run(may_have_forms, &mut self.order, &mut parts);
        }
        Ok(run_bytes as u64)
    }

    /// As [`Self::put_changes`], of a run.
    #[cfg(test)]
    pub(crate) fn put(&mut self, of: (u32, u32), run: &[u8]) -> Result<(), CheckpointError> {
        let number = self.begun.expect("a checkpoint was begun");
        self.merge_if_long(of, number);
        self.add(of, number, run);
        self.flush_if_long()
    }

    /// Writes what was put, if it is as much as a backend takes at once with profit.
    ///
    /// # Errors
    /// The backend's. What was put is kept, and written when this is tried again, or with what is put
    /// next. Who puts more before it is written holds all of it in memory.
    pub fn flush_if_long(&mut self) -> Result<(), CheckpointError> {
        if self.batch.bytes() < PART_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes what was put.
    ///
    /// # Errors
    /// As [`Self::flush_if_long`].
    pub fn flush(&mut self) -> Result<(), CheckpointError> {
        Ok(self.backend.commit(&mut self.batch)?)
    }

    /// Whether entries of a node's runs may have forms: none is read by its place alone.
    fn may_have_forms(&self, node: u32) -> bool {
        !self.by_key.contains_key(&node)
    }

    /// What was written of a slice for earlier checkpoints does not count any more.
    fn supersede(&mut self, of: (u32, u32), number: u64) {
        if let Some(chain) = self.chains.get_mut(&of) {
            self.unnamed.extend(chain.extract_if(.., |run| run.checkpoint != number));
        }
    }

    /// Merges the runs of a slice, before the first of a checkpoint is put, if they are many.
    fn merge_if_long(&mut self, (node, slice): (u32, u32), number: u64) {
        let chain = self.chains.get(&(node, slice)).map_or(&[][..], Vec::as_slice);
        if !is_long(chain, number) {
            return;
        }
        // What cannot be read now is not lost: the chain is longer, and it is tried again.
        let may_have_forms = self.may_have_forms(node);
        let merged = self.named(chain).read().ok().and_then(|it| {
            let runs = it.get();
            if may_have_forms { delta::merge(&runs) } else { delta::merge_plain(&runs) }.ok()
        });
        if let Some(merged) = merged {
            let merged_away = self.chains.remove(&(node, slice)).unwrap_or_default();
            self.unnamed.extend(merged_away);
            self.add((node, slice), number, &merged);
        }
    }

    /// Puts a run that is there as a whole.
    fn add(&mut self, (node, slice): (u32, u32), checkpoint: u64, run: &[u8]) {
        let is_by_row = self.by_row.contains(&node);
        let hash_of = self.by_key.get(&node);
        let part = if is_by_row || hash_of.is_some() { FINE_PART_BYTES } else { PART_BYTES };
        // What cannot be read says so when somebody needs it.
        let index = hash_of.and_then(|hash_of| keys::index_of(run, &**hash_of).ok().flatten());
        let index = index.unwrap_or_default();
        let sizes = (run.len(), part, index.len());
        let named = self.named_next((node, slice), checkpoint, sizes);
        if is_by_row && let Ok(index) = RowIndex::of(run) {
            looker::lock(&self.shared).index(named, index);
        }
        for (nth, bytes) in (0..).zip(run.chunks(part).chain(index.chunks(PART_BYTES))) {
            self.batch.put(&named.key(nth), bytes);
        }
    }

    /// The next run of a slice: of so many bytes, in parts of so many, with so many of an index.
    fn named_next(
        &mut self,
        (node, slice): (u32, u32),
        checkpoint: u64,
        (bytes, part_bytes, index_bytes): (usize, usize, usize),
    ) -> Run {
        let chain = self.chains.entry((node, slice)).or_default();
        let nth = chain.iter().filter(|it| it.checkpoint == checkpoint).count() as u32;
        let (bytes, index_bytes) = (bytes as u64, index_bytes as u64);
        let part_bytes = part_bytes as u32;
        let run = Run { checkpoint, node, slice, nth, bytes, part_bytes, index_bytes };
        chain.push(run);
        run
    }
}

/// A run on its way into a batch: its parts, each under a key of its own.
struct Parts<'a> {
    batch: &'a mut Batch,
    run: Run,
    /// The next part.
    nth: u64,
    /// Bytes of the run behind this part.
    left: usize,
    /// What is left of the room of this part.
    room: Range<usize>,
}

impl<'a> Parts<'a> {
    fn new(batch: &'a mut Batch, run: Run) -> Self {
        Self { batch, run, nth: 0, left: run.bytes as usize, room: 0..0 }
    }

    /// Puts what ends in another part.
    #[cold]
    fn put_across(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.room.is_empty() {
                let part = self.left.min(self.run.part_bytes as usize);
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

impl TakeRun for Parts<'_> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        if bytes.len() > self.room.len() {
            return self.put_across(bytes);
        }
        let end = self.room.start + bytes.len();
        self.batch.bytes_mut()[self.room.start..end].copy_from_slice(bytes);
        self.room.start = end;
    }

    /// Most entries are short: as many bytes are copied for each of them as for the longest of these,
    /// and what is too much is written over by the next. So nothing is called, and nothing decided.
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

    /// As an entry that has no form.
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

/// Whether the runs of a slice are to be merged before more is put for a checkpoint: once in each.
fn is_long(chain: &[Run], checkpoint: u64) -> bool {
    let Some(first) = chain.first() else { return false };
    if chain.iter().any(|run| run.checkpoint == checkpoint) {
        return false;
    }
    let generations: BTreeSet<u64> = chain.iter().map(|run| run.checkpoint).collect();
    let of_first = |run: &&Run| run.checkpoint == first.checkpoint;
    let state: u64 = chain.iter().filter(of_first).map(|run| run.bytes).sum();
    let changes = chain.iter().map(|run| run.bytes).sum::<u64>() - state;
    generations.len() >= GENERATIONS_MAX || changes > state * CHANGES_PER_STATE
}

#[cfg(test)]
mod tests;
