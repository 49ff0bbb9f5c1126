//! Stream with stream: pairs of equal key whose times are at most `within` apart.
//!
//! - In a cycle each left row meets the right rows stored so far, in order of arrival; then each
//!   right row meets the left rows held, those of this cycle too. So each pair is found once, by
//!   whichever came later. A key's rows are kept in order of time, so that a row looks at those only
//!   that are near enough, however many the key has.
//! - A row is held until the other side's watermark says that no partner can still come. Then an
//!   unmatched left row comes out (kind `left`), in order of time and arrival. A late row meets
//!   the rows still held.

use super::pairs::{Pairs, Shape};
use super::{Codecs, Side as Port};
use crate::keys::{KeyCodec, Keys};
use crate::lane::{PickedRows, PortParts, TAKEN_AT_ONCE, Times};
use crate::row_store::{PieceId, RowCodec, RowStore, table};
use crate::timer_queue::TimerQueue;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, TimestampMicrosecondArray};
use arrow_schema::{DataType, Field, SchemaRef};
use group::KeyGroups;
use std::{ops::Range, sync::Arc};
use tidemill_flow::{
    Block, Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState,
    StateAt, StateTable, TakeRows,
};
use tidemill_state::{
    ByteReader, Delta, DirtyRows, KEYS_AHEAD, KeyTable, SavedError, State, Structure, put_bytes,
    row_of,
};
use tidemill_types::job::JoinKind;
use tidemill_types::{Micros, SliceId, Span};

mod group;
#[cfg(test)]
mod tests;

/// The column that says whether a left row has met a partner, in queries.
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
            lanes: Default::default(),
            meeting: Meeting {
                within: self.within.0,
                pairs: Pairs::new(self.shape.clone()),
                groups: Vec::new(),
                met: Vec::new(),
            },
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        let side = |codec| StreamSide {
            held: RowStore::default(),
            by_time: TimerQueue::new(self.within.0),
            arrived: 0,
            codec,
            noted: DirtyRows::default(),
            restored: Vec::new(),
        };
        let codecs = [self.shape.left_codec(), self.shape.right_codec()];
        Box::new(SliceRows { groups: KeyGroups::default(), sides: codecs.map(side) })
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
        let left = table::shown_schema(Vec::new(), left, vec![table::event_time(), matched()]);
        let right = table::shown_schema(keys, right, vec![table::event_time()]);
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
        let (held, keys) = (&rows.sides[table].held, &rows.groups.keys);
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
                let keys = right.columns(waiting().map(|it| it.key(keys)))?;
                return Ok((keys, vec![times]));
            }
            let matched: BooleanArray = waiting().map(|it| Some(it.matched)).collect();
            Ok((Vec::new(), vec![times, Arc::new(matched)]))
        };
        table::rows(held, &slots, &self.tables().swap_remove(table).schema, beside, take)
    }
}

/// The rows of both sides that a slice holds.
struct SliceRows {
    groups: KeyGroups,
    sides: [StreamSide; 2],
}

/// The rows of one side.
struct StreamSide {
    held: RowStore<WaitingRow>,
    /// Time, number of arrival and slot of every row.
    by_time: TimerQueue<(u64, u32)>,
    arrived: u64,
    codec: Arc<RowCodec>,
    noted: DirtyRows,
    /// Slots and rows that were restored.
    restored: Vec<(u32, WaitingRow, Vec<u8>)>,
}

/// A row that waits for partners.
struct WaitingRow {
    time: i64,
    /// Its number in the order of arrival.
    arrival: u64,
    /// That of its key. None if it can equal no other: a column of it is null.
    group: Option<u32>,
    matched: bool,
}

impl WaitingRow {
    fn key<'a>(&self, keys: &'a KeyTable) -> Option<&'a [u8]> {
        self.group.map(|group| keys.key(group as usize))
    }
}

/// A block of one port, in one cycle.
struct PortBlock<'a> {
    picked: PickedRows<'a>,
    keys: Keys,
    /// The stored columns.
    kept: RecordBatch,
}

struct StreamOperator {
    codecs: [KeyCodec; 2],
    lanes: [PortParts; 2],
    meeting: Meeting,
}

/// The rule by which rows meet those of the other side.
struct Meeting {
    within: i64,
    pairs: Pairs,
    /// The groups of some rows.
    groups: Vec<Option<u32>>,
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
            self.meeting.pairs.next_slice(slice);
            for (side, blocks) in ports.iter().enumerate() {
                for part in self.lanes[side].of(slice) {
                    let (block, end) = (&blocks[part.block], part.rows().end);
                    block.keys.look_ahead(&rows.groups.keys, part.rows());
                    let piece = rows.sides[side].held.add(&block.kept);
                    for first in part.rows().step_by(TAKEN_AT_ONCE) {
                        let some = first..end.min(first + TAKEN_AT_ONCE);
                        rows.find(block, (some.clone(), end), &mut self.meeting.groups);
                        self.meeting.take(rows, side, (block, piece, some), output)?;
                    }
                }
            }
            rows.let_go(self.meeting.within, limits, &mut self.meeting.pairs, output)?;
        }
        self.meeting.pairs.write(output)
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
            let picked = PickedRows::new(block, &context.slices);
            let keys = self.codecs[port as usize].read(block, &picked)?;
            let kept = match port {
                Port::Left => picked.batch.clone(),
                Port::Right => self.meeting.pairs.shape().right_part(&picked.batch)?,
            };
            Ok(PortBlock { picked, keys, kept })
        };
        blocks.iter().map(read).collect()
    }
}

impl Meeting {
    /// Takes rows of one side, whose groups were found: each meets the rows of the other side, then
    /// waits.
    fn take(
        &mut self,
        rows: &mut SliceRows,
        side: usize,
        (block, piece, some): (&PortBlock<'_>, PieceId, Range<usize>),
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let times = Times::of(&block.picked.batch);
        let SliceRows { groups, sides } = rows;
        for (nth, number) in some.enumerate() {
            if let Some(Some(ahead)) = self.groups.get(nth + KEYS_AHEAD) {
                groups.prefetch_rows(*ahead, sides, side);
            }
            let row = block.picked.row(number);
            let (time, group) = (times.at(row), self.groups[nth]);
            let own = &mut sides[side];
            let arrival = own.arrived;
            let slot =
                own.held.insert(piece, row, WaitingRow { time, arrival, group, matched: false });
            // The slot may have been another row's when a checkpoint began.
            own.noted.change(slot as usize, |_| false);
            own.by_time.push(time, (arrival, slot));
            own.arrived += 1;
            let Some(group) = group else { continue };
            let others = &sides[1 - side].held;
            groups.near((group, 1 - side), others, (time, self.within), &mut self.met);
            for (_, other) in self.met.drain(..) {
                meet((&groups.keys, sides), side, (slot, other), time, &mut self.pairs);
                if self.pairs.is_full() {
                    self.pairs.write(output)?;
                }
            }
            groups.insert((group, side), &sides[side].held, slot);
        }
        Ok(())
    }
}

impl SliceRows {
    /// The groups of some rows' keys, in order. [`Keys::look_ahead`] came before the first.
    fn find(
        &mut self,
        block: &PortBlock<'_>,
        (some, end): (Range<usize>, usize),
        found: &mut Vec<Option<u32>>,
    ) {
        found.clear();
        found.extend(some.map(|number| {
            block.keys.look_further(&self.groups.keys, number, end);
            if block.keys.has_null(number) {
                return None;
            }
            let group = self.groups.of(block.keys.bytes(number), block.keys.hash(number));
            self.groups.prefetch(group);
            Some(group)
        }));
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
        let mut past = Vec::new();
        for (side, limit) in limits.into_iter().enumerate() {
            let Self { groups, sides } = self;
            let own = &mut sides[side];
            // The latest time from which nothing comes that is near enough.
            let last = match limit {
                Micros::MAX => Some(i64::MAX),
                limit => limit.0.checked_sub(within).and_then(|first| first.checked_sub(1)),
            };
            past.clear();
            last.into_iter().for_each(|last| own.by_time.take(last, &mut past));
            past.sort_unstable();
            for (nth, (time, (_, slot))) in past.iter().copied().enumerate() {
                if let Some((_, (_, ahead))) = past.get(nth + KEYS_AHEAD) {
                    own.held.prefetch(*ahead);
                }
                if side == 0 && unmatched_come_out && !own.held.data(slot).matched {
                    pairs.left.pick_held(&own.held, slot);
                    pairs.right_nulls()?;
                    pairs.time(time);
                    if pairs.is_full() {
                        pairs.write(output)?;
                    }
                }
                own.change(&groups.keys, slot);
                if let Some(group) = own.held.remove(slot).group {
                    groups.remove((group, side), slot);
                }
            }
            own.held.tidy()?;
        }
        self.groups.forget(&mut self.sides);
        Ok(())
    }
}

/// Writes the row of a slot with all that is known of it.
fn write_slot(
    (keys, held, codec): (&KeyTable, &RowStore<WaitingRow>, &RowCodec),
    slot: usize,
    out: &mut Vec<u8>,
) -> bool {
    let Some(waiting) = held.get(slot as u32) else { return false };
    let hash = waiting.group.map_or(0, |group| keys.hash(group as usize));
    for number in [hash, waiting.time as u64, waiting.arrival] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&[u8::from(waiting.matched), u8::from(waiting.group.is_some())]);
    put_bytes(out, waiting.key(keys).unwrap_or_default());
    held.save(slot as u32, codec, out);
    true
}

impl StreamSide {
    /// The row of a slot is about to change or to go.
    fn change(&mut self, keys: &KeyTable, slot: u32) {
        let Self { held, codec, noted, .. } = self;
        noted.change(slot as usize, |out| write_slot((keys, held, codec), slot as usize, out));
    }

    fn memory(&self) -> usize {
        self.held.memory(|_| 0) + self.by_time.memory() + self.noted.memory()
    }

    fn drain(&mut self, keys: &KeyTable, delta: &mut Delta, most: usize) -> bool {
        let Self { held, codec, noted, .. } = self;
        noted.drain(delta, most, &mut |slot, out| write_slot((keys, held, codec), slot, out))
    }

    fn restore(
        &mut self,
        groups: &mut KeyGroups,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), SavedError> {
        let mut from = ByteReader::new(value);
        let (hash, time, arrival) = (from.u64()?, from.i64()?, from.u64()?);
        let (matched, joins) = (from.bytes(1)? == [1], from.bytes(1)? == [1]);
        let bytes = from.sized()?;
        let group = joins.then(|| groups.of(bytes, hash));
        let waiting = WaitingRow { time, arrival, group, matched };
        self.restored.push((row_of(key)? as u32, waiting, from.rest().to_vec()));
        Ok(())
    }

    /// All rows were restored: gives them back by time and arrival.
    fn restored(&mut self) -> Result<Vec<(i64, u64, u32)>, SavedError> {
        let restored = std::mem::take(&mut self.restored).into_iter();
        let (rows, bytes): (Vec<_>, Vec<_>) =
            restored.map(|(slot, waiting, row)| ((slot, waiting), row)).unzip();
        if bytes.is_empty() {
            return Ok(Vec::new());
        }
        let piece = self.held.add(&self.codec.read(&bytes)?);
        let mut order = Vec::with_capacity(rows.len());
        for (row, (slot, waiting)) in rows.into_iter().enumerate() {
            let (time, arrival) = (waiting.time, waiting.arrival);
            self.by_time.push(time, (arrival, slot));
            self.arrived = self.arrived.max(arrival + 1);
            self.held.restore(slot, piece, row, waiting);
            order.push((time, arrival, slot));
        }
        order.sort_unstable();
        Ok(order)
    }
}

/// Both sides; the groups of their rows follow from them.
impl Structure for SliceRows {
    fn memory(&self) -> usize {
        self.groups.memory() + self.sides.iter().map(StreamSide::memory).sum::<usize>()
    }

    fn track(&mut self) {
        self.sides.iter_mut().for_each(|side| side.noted.track());
    }

    fn freeze(&mut self) {
        self.sides.iter_mut().for_each(|side| side.noted.freeze());
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let Self { groups, sides } = self;
        let end = delta.len().saturating_add(most);
        (0..).zip(sides).all(|(nth, side): (u8, _)| {
            let most = end.saturating_sub(delta.len());
            delta.within(&[nth], |delta| side.drain(&groups.keys, delta, most))
        })
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let Self { groups, sides } = self;
        let (side, slot) = key.split_first().ok_or_else(|| SavedError::new("no side"))?;
        let side = sides.get_mut(usize::from(*side));
        let side = side.ok_or_else(|| SavedError::new("a join has two sides"))?;
        side.restore(groups, slot, value)
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        let Self { groups, sides } = self;
        for (nth, side) in sides.iter_mut().enumerate() {
            for (_, _, slot) in side.restored()? {
                if let Some(group) = side.held.data(slot).group {
                    groups.insert((group, nth), &side.held, slot);
                }
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
    (keys, sides): (&KeyTable, &mut [StreamSide; 2]),
    side: usize,
    (slot, other): (u32, u32),
    time: i64,
    pairs: &mut Pairs,
) {
    let other_time = sides[1 - side].held.data(other).time;
    let (left, right) = if side == 0 { (slot, other) } else { (other, slot) };
    if !sides[0].held.data(left).matched {
        sides[0].change(keys, left);
        sides[0].held.data_mut(left).matched = true;
    }
    pairs.left.pick_held(&sides[0].held, left);
    pairs.right_held(&sides[1].held, right);
    pairs.time(time.max(other_time));
}
