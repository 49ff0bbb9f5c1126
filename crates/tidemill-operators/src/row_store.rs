//! Rows that a slice holds, each in a slot, without copying each row when it comes.
//!
//! ```text
//! slots    0:(p4,17)  1:(p5,0)  2:free  3:(p5,1)
//! pieces   p4 ── a batch as it came, shared with the other slices    p5 ── rows copied together
//! ```
//!
//! - A slot keeps its number while it is held; only [`RowStore::tidy`] moves rows between pieces.
//! - Memory follows the rows held: a piece without held rows is dropped, and when pieces are many
//!   or mostly unheld rows, their held rows are copied together. Each row is copied a number of
//!   times that grows with the logarithm of the rows held.

use crate::row_picker::interleaved;
use arrow_array::RecordBatch;
use std::collections::VecDeque;
use tidemill_flow::OperatorError;
use tidemill_state::{prefetch, structure::sampled};

mod codec;
pub(crate) mod table;
#[cfg(test)]
mod tests;

pub(crate) use codec::RowCodec;

/// Most pieces before some are copied together.
const PIECES_MAX: usize = 32;
/// The fewest newest pieces that are copied together.
const PIECES_MERGED: usize = 16;
/// Unheld rows that a slice may keep alive for each held row, and besides.
const UNHELD_PER_HELD: usize = 16;
const UNHELD_ROWS: usize = 8_192;

/// The number of a piece; numbers only grow.
pub(crate) type PieceId = u64;

#[derive(Debug)]
struct BatchPiece {
    batch: RecordBatch,
    held: usize,
    /// Slots that were put here; some may have been freed or moved since.
    slots: Vec<u32>,
}

#[derive(Debug)]
struct StoredRow<T> {
    piece: PieceId,
    row: u32,
    /// None if the slot is free.
    data: Option<T>,
}

/// The rows of a slice, each with some data of its holder.
#[derive(Debug)]
pub(crate) struct RowStore<T> {
    pieces: VecDeque<BatchPiece>,
    /// The number of the first piece.
    first: PieceId,
    slots: Vec<StoredRow<T>>,
    free: Vec<u32>,
}

impl<T> Default for RowStore<T> {
    fn default() -> Self {
        Self { pieces: VecDeque::new(), first: 0, slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> RowStore<T> {
    /// Adds a batch before rows of it are stored.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> PieceId {
        self.pieces.push_back(BatchPiece { batch: batch.clone(), held: 0, slots: Vec::new() });
        self.first + self.pieces.len() as u64 - 1
    }

    /// Holds a row; gives its slot.
    pub(crate) fn insert(&mut self, piece: PieceId, row: usize, data: T) -> u32 {
        let entry = StoredRow { piece, row: number(row), data: Some(data) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                number(self.slots.len() - 1)
            }
        };
        let piece = self.piece_mut(piece);
        piece.held += 1;
        piece.slots.push(slot);
        slot
    }

    /// Holds a row in a slot after all others, as a checkpoint has it; those between are free.
    pub(crate) fn restore(&mut self, slot: u32, piece: PieceId, row: usize, data: T) {
        while self.slots.len() <= slot as usize {
            self.free.push(number(self.slots.len()));
            self.slots.push(StoredRow { piece, row: 0, data: None });
        }
        self.free.pop();
        self.slots[slot as usize] = StoredRow { piece, row: number(row), data: Some(data) };
        let piece = self.piece_mut(piece);
        piece.held += 1;
        piece.slots.push(slot);
    }

    /// Writes the row of a slot, if the slot is in use.
    pub(crate) fn save(&self, slot: u32, codec: &RowCodec, out: &mut Vec<u8>) {
        let (piece, row) = self.place(slot);
        codec.save(self.batch(piece), row as usize, out);
    }

    /// The data of a slot, if the slot is in use.
    pub(crate) fn get(&self, slot: u32) -> Option<&T> {
        self.slots.get(slot as usize)?.data.as_ref()
    }

    /// Asks for a slot that will be looked at.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch(&self.slots, slot as usize);
    }

    /// Holds another row in a slot.
    pub(crate) fn replace(&mut self, slot: u32, piece: PieceId, row: usize) {
        let old = self.slots[slot as usize].piece;
        self.piece_mut(old).held -= 1;
        let entry = &mut self.slots[slot as usize];
        (entry.piece, entry.row) = (piece, number(row));
        let piece = self.piece_mut(piece);
        piece.held += 1;
        piece.slots.push(slot);
    }

    /// Lets go of a row; gives its data.
    pub(crate) fn remove(&mut self, slot: u32) -> T {
        let data = self.slots[slot as usize].data.take().expect("only held slots are removed");
        let piece = self.slots[slot as usize].piece;
        self.piece_mut(piece).held -= 1;
        self.free.push(slot);
        data
    }

    /// Where the row of a slot is.
    pub(crate) fn place(&self, slot: u32) -> (PieceId, u32) {
        let slot = &self.slots[slot as usize];
        (slot.piece, slot.row)
    }

    /// The data of a slot.
    pub(crate) fn data(&self, slot: u32) -> &T {
        self.slots[slot as usize].data.as_ref().expect("only held slots are read")
    }

    /// The data of a slot.
    pub(crate) fn data_mut(&mut self, slot: u32) -> &mut T {
        self.slots[slot as usize].data.as_mut().expect("only held slots are read")
    }

    /// The rows of a piece.
    pub(crate) fn batch(&self, piece: PieceId) -> &RecordBatch {
        &self.pieces[(piece - self.first) as usize].batch
    }

    /// The slots in use, with their data.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (u32, &T)> {
        let held = |(slot, it): (usize, &'_ StoredRow<T>)| it.data.as_ref().map(|_| number(slot));
        let slots = self.slots.iter().enumerate();
        slots.filter_map(held).map(|slot| (slot, self.data(slot)))
    }

    /// The approximate memory in bytes, including the data of slots as `beside` says.
    /// A piece that slices share is shared out among them by the rows that they hold.
    pub(crate) fn memory(&self, beside: impl Fn(&T) -> usize) -> usize {
        let of_piece = |piece: &BatchPiece| {
            let rows = piece.batch.num_rows().max(1);
            let share = piece.batch.get_array_memory_size() as u128 * piece.held as u128;
            (share / rows as u128) as usize + piece.slots.capacity() * size_of::<u32>()
        };
        let of_slot = |slot: usize| self.slots[slot].data.as_ref().map_or(0, &beside);
        self.pieces.iter().map(of_piece).sum::<usize>()
            + self.slots.capacity() * size_of::<StoredRow<T>>()
            + self.free.capacity() * size_of::<u32>()
            + sampled(self.slots.len(), of_slot)
    }

    /// The number of stored rows.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn piece_mut(&mut self, piece: PieceId) -> &mut BatchPiece {
        &mut self.pieces[(piece - self.first) as usize]
    }

    /// Gives memory back that holds no rows, and copies rows together where that saves memory.
    /// Called once a cycle, when no piece waits for rows.
    pub(crate) fn tidy(&mut self) -> Result<(), OperatorError> {
        while self.pieces.front().is_some_and(|piece| piece.held == 0) {
            self.pieces.pop_front();
            self.first += 1;
        }
        while self.pieces.back().is_some_and(|piece| piece.held == 0) {
            self.pieces.pop_back();
        }
        let held: usize = self.pieces.iter().map(|piece| piece.held).sum();
        let rows: usize = self.pieces.iter().map(|piece| piece.batch.num_rows()).sum();
        if held == 0 {
            self.slots = Vec::new();
            self.free = Vec::new();
        } else if rows.saturating_sub(held) > held * UNHELD_PER_HELD + UNHELD_ROWS {
            self.merge(0)?;
        } else if self.pieces.len() > PIECES_MAX {
            self.merge(self.merge_start())?;
        }
        Ok(())
    }

    /// The newest pieces, and older ones while they are not larger than their successors.
    fn merge_start(&self) -> usize {
        let mut start = self.pieces.len() - PIECES_MERGED;
        let mut held: usize = self.pieces.range(start..).map(|piece| piece.held).sum();
        while start > 0 && self.pieces[start - 1].held <= held {
            start -= 1;
            held += self.pieces[start].held;
        }
        start
    }

    /// Merges the stored rows of the pieces from `start` on into one piece.
    fn merge(&mut self, start: usize) -> Result<(), OperatorError> {
        let old: Vec<BatchPiece> = self.pieces.drain(start..).collect();
        let base = self.first + start as u64;
        let mut picks = Vec::new();
        let mut moved = Vec::new();
        for (nth, piece) in old.iter().enumerate() {
            for slot in &piece.slots {
                let entry = &mut self.slots[*slot as usize];
                // A slot that was freed, or moved on, or met before (it is then past the old ones).
                if entry.data.is_none() || entry.piece != base + nth as u64 {
                    continue;
                }
                picks.push((nth, entry.row as usize));
                entry.piece = base + old.len() as u64;
                entry.row = number(moved.len());
                moved.push(*slot);
            }
        }
        for slot in &moved {
            self.slots[*slot as usize].piece = base;
        }
        let batches: Vec<&RecordBatch> = old.iter().map(|piece| &piece.batch).collect();
        let batch = interleaved(&batches, &picks)?;
        self.pieces.push_back(BatchPiece { batch, held: moved.len(), slots: moved });
        Ok(())
    }
}

fn number(row: usize) -> u32 {
    u32::try_from(row).expect("a slice holds fewer than 4 billion rows")
}
