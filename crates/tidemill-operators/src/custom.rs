//! Operators written in Rust by the program that runs the job.
//!
//! ```
//! # use tidemill_operators::custom::{self, state::Map};
//! # use arrow_schema::{DataType, Field, Schema};
//! # use std::sync::Arc;
//! let words = Arc::new(Schema::new(vec![
//!     Field::new("word", DataType::Utf8, false),
//!     Field::new("n", DataType::Int64, false),
//! ]));
//! let count = custom::keyed_record(
//!     words,
//!     Map::<String, i64>::default,
//!     |counts, record, emit, _| {
//!         let word = record.str("word")?.unwrap_or_default();
//!         let n = counts.get_or_default(word.to_owned());
//!         *n += 1;
//!         emit.row(|row| {
//!             row.put(word).put(*n);
//!         })
//!     },
//! );
//! # let _ = count;
//! ```
//!
//! | call | sees | keeps |
//! | --- | --- | --- |
//! | [`per_record_bytes`] | one byte record | nothing |
//! | [`filter_bytes`] | one byte record, which it keeps or drops | nothing |
//! | [`per_record`] | one record | nothing |
//! | [`per_batch`] | the rows of a lane, as columns | nothing |
//! | [`keyed_record`] | one record | a state for each slice |
//! | [`keyed`] | a slice's rows of a cycle | a state for each slice |
//!
//! The output of a function must follow from its record, its state and [`CycleInfo`] alone: no
//! clock, no randomness but the cycle's, no order of a hash map (that of a [`state::Map`] is the same
//! on every run). A state belongs to a slice, so it sees all records of the keys of that slice; it is
//! made of the structures of [`state`], which checkpoints save. A job goes on from one if the state
//! still has a type of the same name: give a type whose fields change another name.
//! `tidemill state` shows each structure as a table: texts, numbers, truth values and [`Micros`] as
//! themselves, all other keys and values as JSON.
//! An error or a panic fails the job, naming stage, slice and cycle, and the record if one is processed.

mod batch;
mod bytes;
mod emit;
mod keyed;
mod record;
mod state_tables;

#[cfg(test)]
mod tests;

pub use batch::{PerBatch, per_batch};
pub use bytes::{FilterBytes, PerRecordBytes, filter_bytes, per_record_bytes};
pub use emit::{Emit, EmitValue, RowWriter};
pub use keyed::{Keyed, KeyedRecord, SliceInput, SliceRows, keyed, keyed_record, per_record};
pub use record::{Record, read_records};
pub use tidemill_state::structure as state;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;
use tidemill_flow::{Context, TIME_COLUMN, partition::hash_number};
use tidemill_types::{Cycle, Micros, SliceId};

/// The cycle in which a function is called: its only clock and its only randomness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleInfo {
    /// The number of the cycle.
    pub cycle: Cycle,
    /// The slice.
    pub slice: SliceId,
    /// The recorded time of the cycle.
    pub cycle_time: Micros,
    /// A seed of this cycle and slice, the same on every replay.
    pub seed: u64,
    /// Event time as of the end of this cycle.
    pub watermark: Micros,
    /// True if the input ends with this cycle.
    pub ended: bool,
}

impl CycleInfo {
    pub(crate) fn new(context: &Context<'_>, slice: SliceId) -> Self {
        Self {
            cycle: context.cycle,
            slice,
            cycle_time: context.cycle_time,
            seed: hash_number(context.seed ^ hash_number(u64::from(slice.0))),
            watermark: context.watermark,
            ended: context.all_ended(),
        }
    }

    /// The `nth` random number of this cycle and slice.
    #[must_use]
    pub fn random(&self, nth: u64) -> u64 {
        hash_number(self.seed ^ hash_number(nth))
    }
}

/// A schema with the hidden event time, which an operator writes if windows are to follow it.
/// A row that does not say its time has that of the record it was made from, in functions that see one
/// record. All others say it for each row: in [`keyed`], `on_cycle` and `on_end` with
/// [`RowWriter::time`], in [`per_batch`] in the column itself.
#[must_use]
pub fn with_time(schema: &Schema) -> SchemaRef {
    let mut fields = schema.fields().to_vec();
    if schema.index_of(TIME_COLUMN).is_err() {
        fields.push(Arc::new(Field::new(TIME_COLUMN, utc_type(), true)));
    }
    Arc::new(Schema::new(fields))
}

/// The type of all times.
fn utc_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}
