//! Stream with table: each left row meets the last row of its key.
//!
//! - In a cycle the table's rows apply before the stream's rows.
//! - The table holds the last row of port 1 for each key; it never forgets a key.

use super::Codecs;
use super::pairs::{Pairs, Shape};
use crate::keys::{KeyCodec, Keys};
use crate::lane::{BlockPart, PickedRows, PortParts, TAKEN_AT_ONCE, picked_rows, row_at};
use crate::row_store::{RowCodec, RowStore, table};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use std::{ops::Range, sync::Arc};
use tidemill_flow::{
    Block, Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState,
    StateAt, StateTable, TakeRows,
};
use tidemill_state::{
    ByteReader, Delta, DirtyRows, KeyTable, SavedError, State, Structure, put_bytes, row_of,
};
use tidemill_types::SliceId;
use tidemill_types::job::JoinKind;

pub(super) struct TableJoin {
    pub(super) shape: Shape,
    pub(super) sides: Codecs,
}

impl OperatorFactory for TableJoin {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![Arc::clone(&self.shape.schema)]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(TableOperator {
            codecs: self.sides.make(),
            lanes: Default::default(),
            pairs: Pairs::new(self.shape.clone()),
            found: Vec::new(),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(JoinTable {
            keys: KeyTable::new(),
            held: RowStore::default(),
            codec: self.shape.right_codec(),
            noted: DirtyRows::default(),
            restored: Vec::new(),
        })
    }

    fn does(&self) -> String {
        format!("{} with the last row of each key of a table", self.shape.does(&self.sides))
    }

    fn cannot_save(&self) -> Option<String> {
        self.shape.right_codec().cannot_save()
    }

    fn tables(&self) -> Vec<StateTable> {
        let keys = self.sides.key_fields(&self.shape.schema);
        let held = &self.shape.schema.fields()[self.shape.left_columns..];
        vec![StateTable::only(table::shown_schema(keys, held, Vec::new()))]
    }

    fn rows(
        &self,
        _: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        let table: &JoinTable = at.of();
        let slots: Vec<u32> = table.held.slots().map(|(slot, _)| slot).collect();
        let [_, right] = self.sides.make();
        let beside = |_, slots: &[u32], _: &RecordBatch| {
            let keys = slots.iter().map(|slot| Some(table.keys.key(*slot as usize)));
            Ok((right.columns(keys)?, Vec::new()))
        };
        table::rows(&table.held, &slots, &self.tables().remove(0).schema, beside, take)
    }
}

/// The table's rows of one slice.
struct JoinTable {
    /// The number of a key is the slot of its row: none goes.
    keys: KeyTable,
    held: RowStore<()>,
    codec: Arc<RowCodec>,
    noted: DirtyRows,
    /// Rows that were restored, in the order of their slots.
    restored: Vec<Vec<u8>>,
}

/// Writes the row of a slot with its key.
fn write_slot(
    (keys, held, codec): (&KeyTable, &RowStore<()>, &RowCodec),
    slot: usize,
    out: &mut Vec<u8>,
) -> bool {
    if held.get(slot as u32).is_none() {
        return false;
    }
    out.extend_from_slice(&keys.hash(slot).to_le_bytes());
    put_bytes(out, keys.key(slot));
    held.save(slot as u32, codec, out);
    true
}

impl State for JoinTable {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![self]
    }
}

impl Structure for JoinTable {
    fn memory(&self) -> usize {
        self.keys.memory() + self.held.memory(|()| 0) + self.noted.memory()
    }

    fn track(&mut self) {
        self.noted.track();
    }

    fn freeze(&mut self) {
        self.noted.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let Self { keys, held, codec, noted, .. } = self;
        noted.drain(delta, most, &mut |slot, out| write_slot((keys, held, codec), slot, out))
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let (slot, mut from) = (row_of(key)?, ByteReader::new(value));
        if slot != self.keys.len() {
            return Err(not_each_once());
        }
        let hash = from.u64()?;
        self.keys.push(from.sized()?, hash);
        self.restored.push(from.rest().to_vec());
        Ok(())
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        let rows = std::mem::take(&mut self.restored);
        if rows.is_empty() {
            return Ok(());
        }
        let piece = self.held.add(&self.codec.read(&rows)?);
        (0..rows.len()).for_each(|row| self.held.restore(row as u32, piece, row, ()));
        if self.keys.index(None) { Ok(()) } else { Err(not_each_once()) }
    }
}

#[cold]
fn not_each_once() -> SavedError {
    SavedError::new("a key of the saved table is missing, or is there twice")
}

impl JoinTable {
    /// Takes rows of the table. A row with a null key meets nobody and is left out.
    fn apply(&mut self, part: BlockPart, picked: &PickedRows<'_>, keys: &Keys, kept: &RecordBatch) {
        let piece = self.held.add(kept);
        keys.look_ahead(&self.keys, part.rows());
        for number in part.rows() {
            keys.look_further(&self.keys, number, part.rows().end);
            if keys.has_null(number) {
                continue;
            }
            let known = self.keys.len();
            let slot = self.keys.find_or_add(keys.bytes(number), keys.hash(number));
            if (slot as usize) < known {
                self.change(slot);
                self.held.replace(slot, piece, picked.row(number));
            } else {
                let inserted = self.held.insert(piece, picked.row(number), ());
                debug_assert_eq!(inserted, slot, "no row of a table goes");
                // So a new one has a slot that none had.
                self.noted.change(slot as usize, |_| false);
            }
        }
    }

    /// The row of a slot is about to change.
    fn change(&mut self, slot: u32) {
        let Self { keys, held, codec, noted, .. } = self;
        noted.change(slot as usize, |out| write_slot((keys, held, codec), slot as usize, out));
    }

    /// The slots of some rows' keys, in order. [`Keys::look_ahead`] came before the first.
    fn find(&self, keys: &Keys, (some, end): (Range<usize>, usize), found: &mut Vec<Option<u32>>) {
        found.clear();
        found.extend(some.map(|number| {
            keys.look_further(&self.keys, number, end);
            if keys.has_null(number) {
                return None;
            }
            let slot = self.keys.find(keys.bytes(number), keys.hash(number))?;
            self.held.prefetch(slot);
            Some(slot)
        }));
    }
}

struct TableOperator {
    codecs: [KeyCodec; 2],
    lanes: [PortParts; 2],
    pairs: Pairs,
    /// The slots that rows meet.
    found: Vec<Option<u32>>,
}

impl Operator for TableOperator {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let slices = context.slices.clone();
        let ports = [input.port(0), input.port(1)];
        for (lane, blocks) in self.lanes.iter_mut().zip(ports) {
            lane.read(blocks, &slices);
        }
        let read = |port: usize| {
            let read = |block: &Arc<Block>| {
                let picked = PickedRows::new(block, &slices);
                let keys = self.codecs[port].read(block, &picked)?;
                Ok((picked.batch, keys))
            };
            ports[port].iter().map(read).collect::<Result<Vec<_>, OperatorError>>()
        };
        let (left, right) = (read(0)?, read(1)?);
        self.apply(context, ports[1], right)?;
        self.look_up(context, ports[0], left, output)
    }
}

impl TableOperator {
    fn apply(
        &self,
        context: &mut Context<'_>,
        blocks: &[Arc<Block>],
        read: Vec<(RecordBatch, Keys)>,
    ) -> Result<(), OperatorError> {
        let slices = context.slices.clone();
        let mut inputs = Vec::with_capacity(read.len());
        for (block, (batch, keys)) in blocks.iter().zip(read) {
            let kept = self.pairs.shape().right_part(&batch)?;
            let rows = picked_rows(block, &slices);
            inputs.push((PickedRows { batch, rows }, keys, kept));
        }
        for (slice, parts) in self.lanes[1].slices() {
            let table: &mut JoinTable = context.state(slice);
            for part in parts {
                let (picked, keys, kept) = &inputs[part.block];
                table.apply(*part, picked, keys, kept);
            }
            table.held.tidy()?;
        }
        Ok(())
    }

    fn look_up(
        &mut self,
        context: &mut Context<'_>,
        blocks: &[Arc<Block>],
        read: Vec<(RecordBatch, Keys)>,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let slices = context.slices.clone();
        let keep_unmatched = self.pairs.shape().kind == JoinKind::Left;
        let mut sources = vec![None; read.len()];
        for (slice, parts) in self.lanes[0].slices() {
            let table: &mut JoinTable = context.state(slice);
            self.pairs.next_slice(slice);
            for part in parts {
                let (batch, keys) = &read[part.block];
                let rows = picked_rows(&blocks[part.block], &slices);
                keys.look_ahead(&table.keys, part.rows());
                for number in part.rows() {
                    let nth = (number - part.first) % TAKEN_AT_ONCE;
                    if nth == 0 {
                        let end = part.rows().end;
                        let some = number..end.min(number + TAKEN_AT_ONCE);
                        table.find(keys, (some, end), &mut self.found);
                    }
                    match self.found[nth] {
                        Some(slot) => self.pairs.right_held(&table.held, slot),
                        None if keep_unmatched => self.pairs.right_nulls()?,
                        None => continue,
                    }
                    let left = &mut self.pairs.left;
                    let source = *sources[part.block].get_or_insert_with(|| left.source(batch));
                    left.pick(source, row_at(rows, number));
                    if self.pairs.is_full() {
                        self.pairs.write(output)?;
                        sources.fill(None);
                    }
                }
            }
        }
        self.pairs.write(output)
    }
}
