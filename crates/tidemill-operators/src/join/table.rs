//! Stream with table: each left row meets the last row of its key.
//!
//! - In a cycle the table's rows apply before the stream's rows.
//! - The table is what port 1 wrote last for each key; it never forgets a key.

use super::Codecs;
use super::pairs::{Pairs, Shape};
use crate::held::{Held, RowCodec, shown};
use crate::keys::{KeyCodec, Keys};
use crate::lane::{Lane, Part, Picked, picked_rows, row_at};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use hashbrown::HashTable;
use std::sync::Arc;
use tidemill_flow::{
    Block, Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState,
    StateAt, StateTable, TakeRows,
};
use tidemill_state::{Delta, Noted, Reader, SavedError, State, Structure, put_bytes, row_of};
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
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(Table {
            keys: HashTable::new(),
            held: Held::default(),
            codec: self.shape.right_codec(),
            noted: Noted::default(),
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
        vec![StateTable::only(shown::shown_schema(keys, held, Vec::new()))]
    }

    fn rows(
        &self,
        _: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        let table: &Table = at.of();
        let slots: Vec<u32> = table.held.slots().map(|(slot, _)| slot).collect();
        let [_, right] = self.sides.make();
        let beside = |_, slots: &[u32], _: &RecordBatch| {
            let keys = slots.iter().map(|slot| Some(&*table.held.data(*slot).bytes));
            Ok((right.columns(keys)?, Vec::new()))
        };
        shown::rows(&table.held, &slots, &self.tables().remove(0).schema, beside, take)
    }
}

/// The table's rows of one slice.
struct Table {
    /// The hash of each key, and the slot of its row.
    keys: HashTable<(u64, u32)>,
    held: Held<Key>,
    codec: Arc<RowCodec>,
    noted: Noted,
    /// Slots and rows that were restored.
    restored: Vec<(u32, Key, Vec<u8>)>,
}

struct Key {
    hash: u64,
    bytes: Box<[u8]>,
}

/// Writes the row of a slot with its key.
fn write_slot((held, codec): (&Held<Key>, &RowCodec), slot: usize, out: &mut Vec<u8>) -> bool {
    let Some(key) = held.get(slot as u32) else { return false };
    out.extend_from_slice(&key.hash.to_le_bytes());
    put_bytes(out, &key.bytes);
    held.save(slot as u32, codec, out);
    true
}

impl State for Table {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![self]
    }
}

impl Structure for Table {
    fn memory(&self) -> usize {
        self.keys.allocation_size() + self.held.memory(|key| key.bytes.len()) + self.noted.memory()
    }

    fn track(&mut self) {
        self.noted.track();
    }

    fn freeze(&mut self) {
        self.noted.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let Self { held, codec, noted, .. } = self;
        noted.drain(delta, most, &mut |slot, out| write_slot((held, codec), slot, out))
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let (slot, mut from) = (row_of(key)? as u32, Reader::new(value));
        let key = Key { hash: from.u64()?, bytes: from.sized()?.into() };
        self.keys.insert_unique(key.hash, (key.hash, slot), |(hash, _)| *hash);
        self.restored.push((slot, key, from.rest().to_vec()));
        Ok(())
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        let restored = std::mem::take(&mut self.restored).into_iter();
        let (keys, rows): (Vec<_>, Vec<_>) =
            restored.map(|(slot, key, row)| ((slot, key), row)).unzip();
        if rows.is_empty() {
            return Ok(());
        }
        let piece = self.held.add(&self.codec.read(&rows)?);
        for (row, (slot, key)) in keys.into_iter().enumerate() {
            self.held.restore(slot, piece, row, key);
        }
        Ok(())
    }
}

impl Table {
    /// Takes rows of the table. A row with a null key meets nobody and is left out.
    fn apply(&mut self, part: Part, picked: &Picked<'_>, keys: &Keys, kept: &RecordBatch) {
        let piece = self.held.add(kept);
        for number in part.rows().filter(|number| !keys.has_null(*number)) {
            let (hash, key) = (keys.hash(number), keys.bytes(number));
            match self.find(hash, key) {
                Some(slot) => {
                    self.change(slot);
                    self.held.replace(slot, piece, picked.row(number));
                }
                None => {
                    let data = Key { hash, bytes: key.into() };
                    let slot = self.held.insert(piece, picked.row(number), data);
                    // No row of a table goes, so a new one has a slot that none had.
                    self.noted.change(slot as usize, |_| false);
                    self.keys.insert_unique(hash, (hash, slot), |(hash, _)| *hash);
                }
            }
        }
    }

    /// The row of a slot is about to change.
    fn change(&mut self, slot: u32) {
        let Self { held, codec, noted, .. } = self;
        noted.change(slot as usize, |out| write_slot((held, codec), slot as usize, out));
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is_it = |(it, slot): &(u64, u32)| *it == hash && *self.held.data(*slot).bytes == *key;
        self.keys.find(hash, is_it).map(|(_, slot)| *slot)
    }
}

struct TableOperator {
    codecs: [KeyCodec; 2],
    lanes: [Lane; 2],
    pairs: Pairs,
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
                let picked = Picked::new(block, &slices);
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
            inputs.push((Picked { batch, rows }, keys, kept));
        }
        for (slice, parts) in self.lanes[1].slices() {
            let table: &mut Table = context.state(slice);
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
            let table: &mut Table = context.state(slice);
            self.pairs.next_slice(slice);
            for part in parts {
                let (batch, keys) = &read[part.block];
                let rows = picked_rows(&blocks[part.block], &slices);
                for number in part.rows() {
                    let found = if keys.has_null(number) {
                        None
                    } else {
                        table.find(keys.hash(number), keys.bytes(number))
                    };
                    match found {
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
