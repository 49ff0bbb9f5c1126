//! The first record of each key.
//!
//! - A key is known from the record that passed until `within` after its time (for ever without
//!   `within`). A record whose time is at or past that end passes, and the key is known anew.
//! - A key whose end the watermark of an earlier cycle has reached is forgotten: only a late
//!   record could tell, and it passes. When memory is given back does not show.
//! - Nulls are equal to nulls, as in SQL's `DISTINCT`.

use crate::keys::{KeyCodec, Keys, UnknownColumn, columns};
use crate::lane::{PickedRows, PortParts, Times, failed};
use crate::row_picker::RowPicker;
use crate::row_store::table::event_time;
use arrow_array::{RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};
use std::sync::Arc;
use tidemill_flow::{
    Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState, StateAt,
    StateTable, TIME_COLUMN, TakeRows, partition::check_key_type,
};
use tidemill_state::{ENTRIES_AHEAD, KEYS_AHEAD, Map, SLOTS_AHEAD, State, Structure, prefetch};
use tidemill_types::{Micros, SliceId, Span, job::DedupSpec};

#[cfg(test)]
mod tests;

/// Keys known before the first look for those that can be forgotten.
const SWEPT_FROM: usize = 256;

/// Keys that are shown together.
const SHOWN_AT_ONCE: usize = 8_192;
/// From when on a key is new again; null: never. Where people see it.
const UNTIL_COLUMN: &str = "__known_until";

/// Why records cannot be deduplicated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DedupError {
    /// `on` names no column.
    #[error("`on` is empty: name the columns that make two records the same")]
    NoColumns,
    /// `on` names something else.
    #[error("in `on`: {0}")]
    Unknown(#[from] UnknownColumn),
    /// A column cannot be a key.
    #[error("in `on`: the column `{name}` of type {data_type} cannot be a key")]
    KeyType {
        /// The column.
        name: String,
        /// Its type.
        data_type: DataType,
    },
    /// `within` is not a length of time.
    #[error("`within` is {0}, but must be more than nothing")]
    Within(Span),
    /// `within` without event time.
    #[error("`within` needs event time: give the source a `time`")]
    NoTime,
}

/// An operator that passes the first record of each key, in the order of the input. Its input must
/// be partitioned by the key (or by some of its columns).
///
/// # Errors
/// The columns or the span do not fit the input.
pub fn dedup(input: &SchemaRef, spec: &DedupSpec) -> Result<Arc<dyn OperatorFactory>, DedupError> {
    if spec.on.is_empty() {
        return Err(DedupError::NoColumns);
    }
    let columns = columns(input, &spec.on)?;
    let types: Vec<DataType> =
        columns.iter().map(|it| input.field(*it).data_type().clone()).collect();
    for (name, data_type) in spec.on.iter().zip(&types) {
        if check_key_type(data_type).is_err() {
            let (name, data_type) = (name.clone(), data_type.clone());
            return Err(DedupError::KeyType { name, data_type });
        }
    }
    if let Some(within) = spec.within {
        if within.0 <= 0 {
            return Err(DedupError::Within(within));
        }
        if input.index_of(TIME_COLUMN).is_err() {
            return Err(DedupError::NoTime);
        }
    }
    Ok(Arc::new(Dedup { schema: Arc::clone(input), columns, types, within: spec.within }))
}

struct Dedup {
    schema: SchemaRef,
    columns: Vec<usize>,
    types: Vec<DataType>,
    within: Option<Span>,
}

impl Dedup {
    fn codec(&self) -> Result<KeyCodec, ArrowError> {
        KeyCodec::new(self.columns.clone(), self.types.clone())
    }
}

impl OperatorFactory for Dedup {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![Arc::clone(&self.schema)]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(DedupOperator {
            codec: self.codec().expect("every type that can be a key can be compared"),
            within: self.within,
            lane: PortParts::default(),
            gather: RowPicker::default(),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(KnownKeys { keys: Map::default(), swept_at: SWEPT_FROM })
    }

    fn does(&self) -> String {
        let name = |column: &usize| self.schema.field(*column).name().as_str();
        let columns: Vec<&str> = self.columns.iter().map(name).collect();
        let types: Vec<String> = self.types.iter().map(DataType::to_string).collect();
        let within = self.within.map(|it| format!(" within {it}")).unwrap_or_default();
        format!("the first by columns {columns:?} ({}){within}", types.join(", "))
    }

    fn tables(&self) -> Vec<StateTable> {
        let mut fields: Vec<FieldRef> =
            self.columns.iter().map(|it| Arc::clone(&self.schema.fields()[*it])).collect();
        fields.push(Arc::new(event_time().as_ref().clone().with_name(UNTIL_COLUMN)));
        vec![StateTable::only(Arc::new(Schema::new(fields)))]
    }

    fn rows(
        &self,
        _: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        let low = at.watermark;
        let known: &KnownKeys = at.of();
        let (codec, schema) = (self.codec().map_err(failed)?, self.tables().remove(0).schema);
        let is_known = |end: i64| end == Micros::MAX.0 || end > low.0;
        let mut entries = known.keys.iter().filter(|(_, end)| is_known(**end)).peekable();
        while entries.peek().is_some() {
            let some: Vec<_> = entries.by_ref().take(SHOWN_AT_ONCE).collect();
            let mut columns = codec.columns(some.iter().map(|(key, _)| Some(&***key)))?;
            let until = some.iter().map(|(_, end)| (**end != Micros::MAX.0).then_some(**end));
            let until: TimestampMicrosecondArray = until.collect();
            columns.push(Arc::new(until.with_timezone("UTC")));
            let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(failed)?;
            if take(batch).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// The keys that a slice knows.
struct KnownKeys {
    /// By key as bytes: from when on it is new again.
    keys: Map<Box<[u8]>, i64>,
    /// The number of keys at which forgotten ones give their memory back.
    swept_at: usize,
}

impl KnownKeys {
    /// Returns true if a record passes; its key is then known until `end`.
    fn passes(&mut self, key: &[u8], time: i64, end: Micros, low: Micros) -> bool {
        let Some(known) = self.keys.get(key) else {
            self.keys.set(key.into(), end.0);
            return true;
        };
        let is_new = *known != Micros::MAX.0 && (time >= *known || *known <= low.0);
        if is_new && let Some(known) = self.keys.get_mut(key) {
            *known = end.0;
        }
        is_new
    }

    /// Prefetches the slots of the keys after this one and before `end`.
    fn look_ahead(&self, keys: &Keys, number: usize, end: usize) {
        let ahead = |by: usize| (number + by < end).then(|| keys.bytes(number + by));
        if let Some(key) = ahead(SLOTS_AHEAD) {
            self.keys.prefetch(key);
        }
        if let Some(key) = ahead(ENTRIES_AHEAD) {
            self.keys.prefetch_entry(key);
        }
        if let Some(likely) = ahead(KEYS_AHEAD).and_then(|key| self.keys.likely(key)) {
            prefetch(likely, 0);
        }
    }

    /// Gives back the memory of forgotten keys, when that is worth looking at all of them.
    fn sweep(&mut self, low: Micros) {
        if self.keys.len() >= self.swept_at {
            self.keys.retain(|_, end| *end == Micros::MAX.0 || *end > low.0);
            self.swept_at = (self.keys.len() * 2).max(SWEPT_FROM);
        }
    }
}

impl State for KnownKeys {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![&mut self.keys]
    }
}

struct DedupOperator {
    codec: KeyCodec,
    within: Option<Span>,
    lane: PortParts,
    gather: RowPicker,
}

impl Operator for DedupOperator {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let blocks = input.port(0);
        let (slices, low) = (context.slices.clone(), context.watermark_before);
        self.lane.read(blocks, &slices);
        let picked: Vec<_> = blocks.iter().map(|block| PickedRows::new(block, &slices)).collect();
        let mut keys = Vec::with_capacity(blocks.len());
        for (block, picked) in blocks.iter().zip(&picked) {
            keys.push(self.codec.read(block, picked)?);
            self.gather.source(&picked.batch);
        }
        let times: Vec<_> = picked.iter().map(|picked| Times::of(&picked.batch)).collect();
        for (slice, parts) in self.lane.slices() {
            let known: &mut KnownKeys = context.state(slice);
            self.gather.next_slice(slice);
            for part in parts {
                let (picked, keys) = (&picked[part.block], &keys[part.block]);
                for number in part.rows() {
                    known.look_ahead(keys, number, part.rows().end);
                    let row = picked.row(number);
                    let time = times[part.block].at(row);
                    let end = self.within.map_or(Micros::MAX, |within| end_of(time, within));
                    if known.passes(keys.bytes(number), time, end, low) {
                        self.gather.pick(part.block, row);
                    }
                }
            }
            if self.within.is_some() {
                known.sweep(low);
            }
        }
        if let Some(batch) = self.gather.finish()? {
            output.emit_runs(0, batch, self.gather.runs());
        }
        Ok(())
    }
}

/// When a key is new again; never `MAX`, which means for ever.
fn end_of(time: i64, within: Span) -> Micros {
    Micros(time.saturating_add(within.0).min(Micros::MAX.0 - 1))
}
