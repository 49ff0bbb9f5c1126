//! Rows in the order of their slices.

use super::{
    KeyTypeError, NULL_HASH, check_key_type, combine, hash_bytes, hash_column, hash_columns_into,
    hash_number, slice_of,
};
use crate::block::{Payload, Routing};
use crate::slice_runs::SliceRuns;
use std::ops::Range;

/// Routes blocks, and keeps its memory. The routing given as `used` is written over.
#[derive(Debug, Default)]
pub struct Router {
    /// By row.
    slices_of_rows: Vec<u32>,
    /// By slice: where its next row goes.
    next: Vec<u32>,
    hashes: Vec<u64>,
}

impl Router {
    /// Routes the rows of a block by key.
    ///
    /// # Errors
    /// A column cannot be a key.
    pub fn by_key(
        &mut self,
        payload: &Payload,
        columns: &[usize],
        slices: u32,
        mut used: Routing,
    ) -> Result<Routing, KeyTypeError> {
        match payload {
            Payload::Arrow(batch) => hash_columns_into(batch, columns, &mut used.hashes)?,
            Payload::Rows(rows) => {
                used.hashes.clear();
                used.hashes.extend(rows.iter().map(hash_bytes));
            }
        }
        self.slices_of_rows.clear();
        self.slices_of_rows.extend(used.hashes.iter().map(|hash| slice_of(*hash, slices)));
        Ok(self.sort(slices, used))
    }

    /// Routes each row by all that it holds, in a way that `seed` decides. Columns whose type cannot
    /// be a key do not count.
    #[must_use]
    pub fn by_content(
        &mut self,
        payload: &Payload,
        slices: u32,
        seed: u64,
        mut used: Routing,
    ) -> Routing {
        self.hashes.clear();
        match payload {
            Payload::Arrow(batch) => {
                self.hashes.resize(batch.num_rows(), NULL_HASH);
                for column in batch.columns() {
                    if check_key_type(column.data_type()).is_ok() {
                        hash_column(column, false, &mut self.hashes)
                            .expect("a type that was checked");
                    }
                }
            }
            // As a column of them: of what a stage passes on some may come as one, and some not.
            Payload::Rows(rows) => self.hashes.extend(rows.iter().map(|record| {
                let mut hash = NULL_HASH;
                combine(false, &mut hash, hash_bytes(record));
                hash
            })),
        }
        self.slices_of_rows.clear();
        let slice = |hash: &u64| slice_of(hash_number(*hash ^ seed), slices);
        self.slices_of_rows.extend(self.hashes.iter().map(slice));
        used.hashes.clear();
        self.sort(slices, used)
    }

    /// Routes rows round the slices by their numbers; the one with number 0 goes to a slice that
    /// `seed` decides.
    #[must_use]
    pub fn at_random(
        &mut self,
        rows: Range<u64>,
        slices: u32,
        seed: u64,
        mut used: Routing,
    ) -> Routing {
        let first = slice_of(hash_number(seed), slices);
        let slice = |row| ((row + u64::from(first)) % u64::from(slices)) as u32;
        self.slices_of_rows.clear();
        self.slices_of_rows.extend(rows.map(slice));
        used.hashes.clear();
        self.sort(slices, used)
    }

    /// Routes rows as `runs` say.
    pub(crate) fn by_runs(
        &mut self,
        runs: &SliceRuns,
        rows: usize,
        slices: u32,
        mut used: Routing,
    ) -> Routing {
        used.hashes.clear();
        if runs.each(rows).map(|(slice, _)| slice.0 % slices).is_sorted() {
            // As nearly always: the rows stand in order.
            used.order.clear();
            used.order.extend(0..rows as u32);
            used.starts.clear();
            for (slice, rows) in runs.each(rows) {
                used.starts.resize((slice.0 % slices) as usize + 1, rows.start as u32);
            }
            used.starts.resize(slices as usize + 1, rows as u32);
            return used;
        }
        self.slices_of_rows.clear();
        for (slice, rows) in runs.each(rows) {
            self.slices_of_rows.extend(std::iter::repeat_n(slice.0 % slices, rows.len()));
        }
        self.sort(slices, used)
    }

    /// Sorts rows by slice, by counting; the order within a slice stays.
    fn sort(&mut self, slices: u32, mut routing: Routing) -> Routing {
        let starts = &mut routing.starts;
        starts.clear();
        starts.resize(slices as usize + 1, 0);
        for slice in &self.slices_of_rows {
            starts[*slice as usize + 1] += 1;
        }
        for s in 1..starts.len() {
            starts[s] += starts[s - 1];
        }
        self.next.clear();
        self.next.extend_from_slice(starts);
        routing.order.clear();
        routing.order.resize(self.slices_of_rows.len(), 0);
        for (row, slice) in self.slices_of_rows.iter().enumerate() {
            let at = &mut self.next[*slice as usize];
            routing.order[*at as usize] = row as u32;
            *at += 1;
        }
        routing
    }
}
