//! Stream with stream: pairs of equal key whose times are at most `within` apart.
//!
//! - In a cycle each left row meets the right rows held so far, in order of arrival; then each
//!   right row meets the left rows held, those of this cycle too. So each pair is found once, by
//!   whichever came later. A key's rows are kept in order of time, so that a row looks at those only
//!   that are near enough, however many the key has.
//! - A row is held until the other side's watermark says that no partner can still come. Then an
//!   unmatched left row comes out (kind `left`), in order of time and arrival. A late row meets
//!   what is still held.

use super::pairs::{Pairs, Shape};
use super::{Codecs, Side as Port};
use crate::held::{Held, RowCodec, shown};
use crate::keys::{KeyCodec, Keys};
use crate::lane::{Lane, Part, Picked, Times};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, SchemaRef};
use group::{Group, forget, group_of, near, place};
use hashbrown::HashTable;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use tidemill_flow::{
    Block, Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState,
    StateAt, StateTable, TakeRows,
};
use tidemill_state::{Delta, Noted, Reader, SavedError, State, Structure, put_bytes, row_of};
use tidemill_types::job::JoinKind;
use tidemill_types::{Micros, SliceId, Span};

mod group;
#[cfg(test)]
mod tests;

/// Whether a left row has met a partner, where people see it.
const MATCHED_COLUMN: &str = "__matched";

pub(super) struct StreamJoin {
    pub(super) shape: Shape,
    pub(super) sides: Codecs,
    pub(super) within: Span,
}

impl OperatorFactory for StreamJoin {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![Arc::clone(&self.shape.schema)]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(StreamOperator {
            codecs: self.sides.make(),
            within: self.within.0,
            lanes: Default::default(),
            pairs: Pairs::new(self.shape.clone()),
            met: Vec::new(),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        let side = |codec| Side {
            held: Held::default(),
            by_time: BinaryHeap::new(),
            arrived: 0,
            codec,
            noted: Noted::default(),
            restored: Vec::new(),
        };
        let codecs = [self.shape.left_codec(), self.shape.right_codec()];
        Box::new(SliceRows { groups: HashTable::new(), sides: codecs.map(side) })
    }

    fn does(&self) -> String {
        format!("{} within {}", self.shape.does(&self.sides), self.within)
    }

    fn cannot_save(&self) -> Option<String> {
        self.shape.left_codec().cannot_save().or_else(|| self.shape.right_codec().cannot_save())
    }

    fn wants_time(&self) -> bool {
        true
    }

    fn holds_back(&self) -> Span {
        // An unmatched left row waits so long for its partner.
        if self.shape.kind == JoinKind::Left { self.within } else { Span(0) }
    }

    fn tables(&self) -> Vec<StateTable> {
        let (left, right) = self.shape.schema.fields().split_at(self.shape.left_columns);
        let matched = || Arc::new(Field::new(MATCHED_COLUMN, DataType::Boolean, false));
        let keys = self.sides.key_fields(&self.shape.schema);
        let left = shown::shown_schema(Vec::new(), left, vec![shown::event_time(), matched()]);
        let right = shown::shown_schema(keys, right, vec![shown::event_time()]);
        let table = |(name, schema): (&str, _)| StateTable { name: name.to_owned(), schema };
        [("left_rows", left), ("right_rows", right)].into_iter().map(table).collect()
    }

    fn rows(
        &self,
        table: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        let rows: &SliceRows = at.of();
        let held = &rows.sides[table].held;
        let mut slots: Vec<(u64, u32)> =
            held.slots().map(|(slot, it)| (it.arrival, slot)).collect();
        slots.sort_unstable();
        let slots: Vec<u32> = slots.into_iter().map(|(_, slot)| slot).collect();
        let [_, right] = self.sides.make();
        let beside = |_, slots: &[u32], _: &RecordBatch| {
            let waiting = || slots.iter().map(|slot| held.data(*slot));
            let times = TimestampMicrosecondArray::from_iter_values(waiting().map(|it| it.time));
            let times: ArrayRef = Arc::new(times.with_timezone("UTC"));
            if table == 1 {
                let keys = right.columns(waiting().map(|it| it.key.as_deref()))?;
                return Ok((keys, vec![times]));
            }
            let matched: BooleanArray = waiting().map(|it| Some(it.matched)).collect();
            Ok((Vec::new(), vec![times, Arc::new(matched)]))
        };
        shown::rows(held, &slots, &self.tables().swap_remove(table).schema, beside, take)
    }
}

/// Groups from which the memory of all is estimated.
const GROUPS_LOOKED_AT: usize = 8;

/// What a slice holds.
struct SliceRows {
    groups: HashTable<Group>,
    sides: [Side; 2],
}

/// The rows of one side.
struct Side {
    held: Held<Waiting>,
    /// Time, number of arrival and slot of every row, the earliest first.
    by_time: BinaryHeap<Reverse<(i64, u64, u32)>>,
    arrived: u64,
    codec: Arc<RowCodec>,
    noted: Noted,
    /// Slots and rows that were restored.
    restored: Vec<(u32, Waiting, Vec<u8>)>,
}

/// A row that waits for partners.
struct Waiting {
    hash: u64,
    time: i64,
    /// Its number in the order of arrival.
    arrival: u64,
    matched: bool,
    /// None if it can equal no other: a column of it is null.
    key: Option<Arc<[u8]>>,
}

/// A block of one port, in one cycle.
struct PortBlock<'a> {
    picked: Picked<'a>,
    keys: Keys,
    /// The columns that are held.
    kept: RecordBatch,
}

struct StreamOperator {
    codecs: [KeyCodec; 2],
    within: i64,
    lanes: [Lane; 2],
    pairs: Pairs,
    /// The numbers of arrival and slots of the rows that one row meets.
    met: Vec<(u64, u32)>,
}

impl Operator for StreamOperator {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let ports = [
            self.port(Port::Left, input.port(0), context)?,
            self.port(Port::Right, input.port(1), context)?,
        ];
        let ended = |port: usize| context.ended.get(port).copied().unwrap_or(true);
        let watermark = |port: usize| context.watermarks.get(port).copied().unwrap_or(Micros::MAX);
        let limit = |port: usize| if ended(port) { Micros::MAX } else { watermark(port) };
        // A row's partners come from the other side.
        let limits = [limit(1), limit(0)];
        for slice in context.slices.clone().map(SliceId) {
            let rows: &mut SliceRows = context.state(slice);
            self.pairs.next_slice(slice);
            for (side, blocks) in ports.iter().enumerate() {
                for part in self.lanes[side].of(slice) {
                    let block = &blocks[part.block];
                    let within = self.within;
                    rows.take(
                        (side, block, *part),
                        within,
                        &mut self.met,
                        &mut self.pairs,
                        output,
                    )?;
                }
            }
            rows.let_go(self.within, limits, &mut self.pairs, output)?;
        }
        self.pairs.write(output)
    }
}

impl StreamOperator {
    fn port<'a>(
        &mut self,
        port: Port,
        blocks: &'a [Arc<Block>],
        context: &Context<'_>,
    ) -> Result<Vec<PortBlock<'a>>, OperatorError> {
        self.lanes[port as usize].read(blocks, &context.slices);
        let read = |block: &'a Arc<Block>| {
            let picked = Picked::new(block, &context.slices);
            let keys = self.codecs[port as usize].read(block, &picked)?;
            let kept = match port {
                Port::Left => picked.batch.clone(),
                Port::Right => self.pairs.shape().right_part(&picked.batch)?,
            };
            Ok(PortBlock { picked, keys, kept })
        };
        blocks.iter().map(read).collect()
    }
}

impl SliceRows {
    /// Takes rows of one side: each meets the rows of the other side, then waits.
    fn take(
        &mut self,
        (side, block, part): (usize, &PortBlock<'_>, Part),
        within: i64,
        met: &mut Vec<(u64, u32)>,
        pairs: &mut Pairs,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let times = Times::of(&block.picked.batch);
        let piece = self.sides[side].held.add(&block.kept);
        for number in part.rows() {
            let row = block.picked.row(number);
            let (hash, time) = (block.keys.hash(number), times.at(row));
            let joins = !block.keys.has_null(number);
            let key = joins.then(|| block.keys.bytes(number));
            let mut group = key.map(|key| group_of(&mut self.groups, hash, key));
            let own = &mut self.sides[side];
            let key = group.as_ref().map(|group| Arc::clone(&group.key));
            let arrival = own.arrived;
            let waiting = Waiting { hash, time, arrival, matched: false, key };
            let slot = own.held.insert(piece, row, waiting);
            // The slot may have been another row's when a checkpoint began.
            own.noted.change(slot as usize, |_| false);
            own.by_time.push(Reverse((time, arrival, slot)));
            own.arrived += 1;
            let Some(group) = &mut group else { continue };
            near(&group.slots[1 - side], &self.sides[1 - side].held, (time, within), met);
            for (_, other) in met.drain(..) {
                meet(&mut self.sides, side, (slot, other), time, pairs);
                if pairs.is_full() {
                    pairs.write(output)?;
                }
            }
            let held = &self.sides[side].held;
            let before = |other: &u32| place(held, *other) < (time, arrival);
            let at = group.slots[side].partition_point(before);
            group.slots[side].insert(at, slot);
        }
        Ok(())
    }

    /// Lets go of the rows that can meet no partner any more.
    fn let_go(
        &mut self,
        within: i64,
        limits: [Micros; 2],
        pairs: &mut Pairs,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let unmatched_come_out = pairs.shape().kind == JoinKind::Left;
        for (side, limit) in limits.into_iter().enumerate() {
            let own = &mut self.sides[side];
            let past = |time: i64| limit == Micros::MAX || time.saturating_add(within) < limit.0;
            let mut any = false;
            while own.by_time.peek().is_some_and(|Reverse((time, ..))| past(*time)) {
                let Some(Reverse((time, _, slot))) = own.by_time.pop() else { break };
                any = true;
                if side == 0 && unmatched_come_out && !own.held.data(slot).matched {
                    pairs.left.pick_held(&own.held, slot);
                    pairs.right_nulls()?;
                    pairs.time(time);
                    if pairs.is_full() {
                        pairs.write(output)?;
                    }
                }
                own.change(slot);
                let waiting = own.held.remove(slot);
                if waiting.key.is_some() {
                    forget(&mut self.groups, waiting.hash, side, slot);
                }
            }
            own.held.tidy()?;
            if any && own.by_time.len() * 4 < own.by_time.capacity() {
                own.by_time.shrink_to(own.by_time.len() * 2);
            }
        }
        if self.groups.is_empty() {
            self.groups = HashTable::new();
        }
        Ok(())
    }
}

/// Writes the row of a slot with all that is known of it.
fn write_slot((held, codec): (&Held<Waiting>, &RowCodec), slot: usize, out: &mut Vec<u8>) -> bool {
    let Some(waiting) = held.get(slot as u32) else { return false };
    for number in [waiting.hash, waiting.time as u64, waiting.arrival] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&[u8::from(waiting.matched), u8::from(waiting.key.is_some())]);
    put_bytes(out, waiting.key.as_deref().unwrap_or_default());
    held.save(slot as u32, codec, out);
    true
}

impl Side {
    /// The row of a slot is about to change or to go.
    fn change(&mut self, slot: u32) {
        let Self { held, codec, noted, .. } = self;
        noted.change(slot as usize, |out| write_slot((held, codec), slot as usize, out));
    }
}

impl Structure for Side {
    fn memory(&self) -> usize {
        self.held.memory(|_| 0)
            + self.by_time.capacity() * size_of::<Reverse<(i64, u64, u32)>>()
            + self.noted.memory()
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
        let mut from = Reader::new(value);
        let (hash, time, arrival) = (from.u64()?, from.i64()?, from.u64()?);
        let (matched, joins) = (from.bytes(1)? == [1], from.bytes(1)? == [1]);
        let bytes = from.sized()?;
        let waiting = Waiting { hash, time, arrival, matched, key: joins.then(|| bytes.into()) };
        self.restored.push((row_of(key)? as u32, waiting, from.rest().to_vec()));
        Ok(())
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        let restored = std::mem::take(&mut self.restored).into_iter();
        let (rows, bytes): (Vec<_>, Vec<_>) =
            restored.map(|(slot, waiting, row)| ((slot, waiting), row)).unzip();
        if bytes.is_empty() {
            return Ok(());
        }
        let piece = self.held.add(&self.codec.read(&bytes)?);
        for (row, (slot, waiting)) in rows.into_iter().enumerate() {
            self.by_time.push(Reverse((waiting.time, waiting.arrival, slot)));
            self.arrived = self.arrived.max(waiting.arrival + 1);
            self.held.restore(slot, piece, row, waiting);
        }
        Ok(())
    }
}

/// Both sides; the groups of their rows follow from them.
impl Structure for SliceRows {
    fn memory(&self) -> usize {
        // As the first of them, which are any.
        let of = |group: &Group| {
            let slots = group.slots.iter().map(VecDeque::capacity).sum::<usize>();
            group.key.len() + slots * size_of::<u32>()
        };
        let some = self.groups.len().min(GROUPS_LOOKED_AT);
        let theirs = self.groups.iter().take(some).map(of).sum::<usize>();
        self.groups.allocation_size()
            + theirs * self.groups.len() / some.max(1)
            + self.sides.iter().map(Structure::memory).sum::<usize>()
    }

    fn track(&mut self) {
        self.sides.iter_mut().for_each(Structure::track);
    }

    fn freeze(&mut self) {
        self.sides.iter_mut().for_each(Structure::freeze);
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let end = delta.len().saturating_add(most);
        (0..).zip(&mut self.sides).all(|(nth, side): (u8, _)| {
            let most = end.saturating_sub(delta.len());
            delta.within(&[nth], |delta| side.drain(delta, most))
        })
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let (side, slot) = key.split_first().ok_or_else(|| SavedError::new("no side"))?;
        let side = self.sides.get_mut(usize::from(*side));
        side.ok_or_else(|| SavedError::new("a join has two sides"))?.restore(slot, value)
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        for (nth, side) in self.sides.iter_mut().enumerate() {
            side.restored()?;
            let mut rows: Vec<(i64, u64, u32)> = side.by_time.iter().map(|it| it.0).collect();
            rows.sort_unstable();
            for (_, _, slot) in rows {
                let waiting = side.held.data_mut(slot);
                let Some(key) = waiting.key.take() else { continue };
                let group = group_of(&mut self.groups, waiting.hash, &key);
                group.slots[nth].push_back(slot);
                waiting.key = Some(Arc::clone(&group.key));
            }
        }
        Ok(())
    }
}

impl State for SliceRows {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![self]
    }
}

/// Writes the pair of a row and one of the other side.
fn meet(
    sides: &mut [Side; 2],
    side: usize,
    (slot, other): (u32, u32),
    time: i64,
    pairs: &mut Pairs,
) {
    let other_time = sides[1 - side].held.data(other).time;
    let (left, right) = if side == 0 { (slot, other) } else { (other, slot) };
    if !sides[0].held.data(left).matched {
        sides[0].change(left);
        sides[0].held.data_mut(left).matched = true;
    }
    pairs.left.pick_held(&sides[0].held, left);
    pairs.right_held(&sides[1].held, right);
    pairs.time(time.max(other_time));
}
