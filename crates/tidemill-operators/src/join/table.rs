//! Stream with table: each left row meets the last row of its key.
//!
//! - In a cycle the table's rows apply before the stream's rows.
//! - The table is what port 1 wrote last for each key; it never forgets a key.

use super::Codecs;
use super::pairs::{Pairs, Shape};
use crate::held::Held;
use crate::keys::{KeyCodec, Keys};
use crate::lane::{Lane, Part, Picked, picked_rows, row_at};
use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use hashbrown::{HashTable, hash_table::Entry};
use std::sync::Arc;
use tidemill_flow::{
    Block, Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState,
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
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(Table::default())
    }
}

/// The table's rows of one slice.
#[derive(Default)]
struct Table {
    keys: HashTable<Row>,
    held: Held<()>,
}

struct Row {
    hash: u64,
    key: Box<[u8]>,
    slot: u32,
}

impl Table {
    /// Takes rows of the table. A row with a null key meets nobody and is left out.
    fn apply(&mut self, part: Part, picked: &Picked<'_>, keys: &Keys, kept: &RecordBatch) {
        let piece = self.held.add(kept);
        for number in part.rows().filter(|number| !keys.has_null(*number)) {
            let (hash, key) = (keys.hash(number), keys.bytes(number));
            let same = |row: &Row| row.hash == hash && *row.key == *key;
            match self.keys.entry(hash, same, |row| row.hash) {
                Entry::Occupied(known) => {
                    self.held.replace(known.get().slot, piece, picked.row(number));
                }
                Entry::Vacant(free) => {
                    let slot = self.held.insert(piece, picked.row(number), ());
                    free.insert(Row { hash, key: key.into(), slot });
                }
            }
        }
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        self.keys.find(hash, |row| row.hash == hash && *row.key == *key).map(|row| row.slot)
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
            self.pairs.next_slice();
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
