//! Blocks: the rows on a link, and the slices they belong to.
//!
//! ```text
//! block ┬ payload ── arrow record batch, or byte records in Arrow's binary layout
//!       └ routing ── rows in order of their slice:  order [4 0 2 | 1 | 3]   starts [0 3 4 5]
//! ```
//!
//! - Inside a process a block moves by reference; nothing in it changes once it is sent.
//! - Rows are never copied to route them: a slice reads its rows through `order`.
//! - Within a slice, rows keep the order in which the upstream sent them.

use crate::rows::Rows;
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::{
    ops::Range,
    sync::{Arc, LazyLock},
};
use tidemill_types::SliceId;

pub use tidemill_types::TIME_COLUMN;

/// The column of byte records.
pub const VALUE_COLUMN: &str = "value";

/// Schema of byte records: one binary column, [`VALUE_COLUMN`].
pub fn rows_schema() -> SchemaRef {
    static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
        Arc::new(Schema::new(vec![Field::new(VALUE_COLUMN, DataType::Binary, false)]))
    });
    Arc::clone(&SCHEMA)
}

/// The rows of a block.
#[derive(Debug)]
pub enum Payload {
    /// Columns.
    Arrow(RecordBatch),
    /// Byte records from a pool; the layout is that of an Arrow binary column.
    Rows(Rows),
}

/// Rows by slice.
#[derive(Debug, Default)]
pub struct Routing {
    /// Row numbers, sorted by slice; within a slice ascending.
    pub order: Vec<u32>,
    /// `order[starts[s]..starts[s + 1]]` are the rows of slice `s`; one entry more than slices.
    pub starts: Vec<u32>,
    /// The key hash of each row, by row number; empty if rows were not routed by key.
    pub hashes: Vec<u64>,
}

/// Rows that travel together, in the order of their upstream slices.
#[derive(Debug)]
pub struct Block {
    /// The rows.
    pub payload: Payload,
    /// The slice of each row; none if all belong to [`Self::slice`].
    pub routing: Option<Routing>,
    /// The slice that all rows belong to when there is no routing.
    pub slice: SliceId,
}

/// The rows of one slice in one block.
#[derive(Clone, Copy, Debug)]
pub enum Selection<'a> {
    /// Every row.
    All(usize),
    /// These row numbers.
    Rows(&'a [u32]),
}

impl Block {
    /// The [`Self::slice`] of a block whose rows belong to every slice.
    pub const EVERY: SliceId = SliceId(u32::MAX);

    /// A block whose rows all belong to one slice.
    #[must_use]
    pub fn whole(payload: Payload, slice: SliceId) -> Self {
        Self { payload, routing: None, slice }
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match &self.payload {
            Payload::Arrow(batch) => batch.num_rows(),
            Payload::Rows(rows) => rows.len(),
        }
    }

    /// Returns true if the block has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Memory that the block's rows take, in bytes, as links count it.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let routing = self.routing.as_ref().map_or(0, |r| r.order.len() * 4 + r.hashes.len() * 8);
        routing
            + match &self.payload {
                Payload::Arrow(batch) => batch.get_array_memory_size(),
                Payload::Rows(rows) => rows.bytes(),
            }
    }

    /// The rows as columns. Byte records are copied into one binary column.
    #[must_use]
    pub fn batch(&self) -> RecordBatch {
        match &self.payload {
            Payload::Arrow(batch) => batch.clone(),
            Payload::Rows(rows) => rows.to_batch(),
        }
    }

    /// The rows of `slice`.
    #[must_use]
    pub fn rows_of(&self, slice: SliceId) -> Selection<'_> {
        match &self.routing {
            Some(routing) => {
                let start = routing.starts[slice.index()] as usize;
                let end = routing.starts[slice.index() + 1] as usize;
                Selection::Rows(&routing.order[start..end])
            }
            None if self.slice == slice || self.slice == Self::EVERY => Selection::All(self.len()),
            None => Selection::Rows(&[]),
        }
    }

    /// The number of rows that belong to the slices of `lane`.
    #[must_use]
    pub fn count_in(&self, lane: &Range<u32>) -> usize {
        match &self.routing {
            Some(r) => (r.starts[lane.end as usize] - r.starts[lane.start as usize]) as usize,
            None if lane.contains(&self.slice.0) || self.slice == Self::EVERY => self.len(),
            None => 0,
        }
    }
}

impl Selection<'_> {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::All(count) => *count,
            Self::Rows(rows) => rows.len(),
        }
    }

    /// Returns true if no row is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `each` with every selected row number, in order.
    pub fn for_each(&self, mut each: impl FnMut(usize)) {
        match self {
            Self::All(count) => (0..*count).for_each(each),
            Self::Rows(rows) => rows.iter().for_each(|row| each(*row as usize)),
        }
    }
}
