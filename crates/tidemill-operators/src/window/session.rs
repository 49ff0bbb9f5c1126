//! Session windows: a key's records that lie closer together than the gap are one window.
//!
//! A record opens a window from its time to its time and the gap; windows of a key that touch are
//! one. It runs from the first record to the last and the gap. A record is late if its own window
//! has closed and it touches none that is open.
//!
//! ```text
//! key ─▶ its sessions, and when it is due: no later than any of them ends
//! queue of (due, key) ─ time goes on ─▶ keys that are due are looked at, and no others
//! ```
//!
//! The sessions of a key lie apart, in the order of time: a record touches none but its neighbours,
//! and those that have ended are the first. Results and saved sessions are in the order in which
//! sessions were opened.
//!
//! Keys without a session are forgotten when they are half of all: the memory of a slice follows its
//! open sessions, not its history.

use super::{Emitter, Late, Prepared, Windowed, state_table};
use crate::aggregate::Cells;
use crate::groups::{BlockKeys, Groups, KeyPlan};
use crate::lane::TAKEN_AT_ONCE;
use crate::timer_queue::TimerQueue;
use smallvec::SmallVec;
use std::{borrow::Cow, ops::Range, sync::Arc};
use tidemill_flow::{
    Block, Context, CycleInput, Operator, OperatorError, OperatorFactory, Output, SliceState,
    StateAt, StateTable, TakeRows,
};
use tidemill_state::{
    ByteReader, Delta, DirtyRows, ENTRIES_AHEAD, SavedError, State, Structure, prefetch, row_of,
    structure::sampled,
};
use tidemill_types::{SliceId, Span};

#[cfg(test)]
mod tests;

/// Keys without a session are kept while there are no more keys than this.
const KEYS_KEPT: usize = 1_024;

/// An open session of a key.
#[derive(Clone, Copy, Debug)]
struct Session {
    first: i64,
    last: i64,
    /// Its accumulators.
    cell: u32,
    /// Number in the order of opening, to keep results in that order.
    number: u64,
}

/// A key's sessions.
#[derive(Debug)]
struct OpenSession {
    /// In the order of time, each at least the gap behind the one before. Most keys have one.
    sessions: SmallVec<[Session; 1]>,
    /// None of them ends before this; the queue has it.
    due: i64,
}

/// Sessions of one slice.
struct Sessions {
    keys: Groups,
    /// By key.
    open: Vec<OpenSession>,
    cells: Cells,
    free: Vec<u32>,
    opened: u64,
    /// Keys with a session.
    live: usize,
    /// The times at which keys are due. An entry that differs from its key's own is of the past.
    due: TimerQueue<u32>,
    noted: DirtyRows,
}

#[derive(Clone)]
struct SessionFactory {
    plan: Arc<Windowed>,
    gap: i64,
}

struct SessionLane {
    factory: SessionFactory,
    emitter: Emitter,
    /// Rows of a slice in a block.
    rows: Vec<u32>,
    /// The keys of some of them, and the accumulators of their sessions.
    keys: Vec<u32>,
    cells: Vec<u32>,
    late: Vec<u32>,
    merges: Vec<(u32, u32)>,
}

/// Windows that end after a silence of `gap` microseconds.
pub(super) fn session(plan: Arc<Windowed>, gap: i64) -> Arc<dyn OperatorFactory> {
    Arc::new(SessionFactory { plan, gap })
}

impl OperatorFactory for SessionFactory {
    fn outputs(&self) -> Vec<arrow_schema::SchemaRef> {
        vec![Arc::clone(&self.plan.output), Arc::clone(&self.plan.input)]
    }

    fn operator(&self) -> Box<dyn Operator> {
        Box::new(SessionLane {
            emitter: Emitter::new(&self.plan, 0),
            factory: self.clone(),
            rows: Vec::new(),
            keys: Vec::new(),
            cells: Vec::new(),
            late: Vec::new(),
            merges: Vec::new(),
        })
    }

    fn state(&self, _: SliceId) -> SliceState {
        Box::new(Sessions::new(&self.plan, self.gap))
    }

    fn does(&self) -> String {
        format!("{} in sessions of {}", self.plan.does(), Span(self.gap))
    }

    fn wants_time(&self) -> bool {
        true
    }

    fn tables(&self) -> Vec<StateTable> {
        vec![state_table::table(&self.plan)]
    }

    fn rows(
        &self,
        _: usize,
        at: StateAt<'_>,
        take: &mut TakeRows<'_>,
    ) -> Result<(), OperatorError> {
        let state: &Sessions = at.of();
        let mut showing = state_table::WindowRows::new(&self.plan, take);
        for (key, open) in state.open.iter().enumerate() {
            for it in as_opened(&open.sessions).iter() {
                let bounds = (it.first, it.last.saturating_add(self.gap));
                let row = showing.row((&state.keys, key), &state.cells, &[it.cell], bounds)?;
                if row.is_break() {
                    return Ok(());
                }
            }
        }
        showing.finish()
    }
}

impl Sessions {
    fn new(plan: &Windowed, gap: i64) -> Self {
        Self {
            keys: Groups::new(&plan.keys),
            open: Vec::new(),
            cells: Cells::new(&plan.aggregates),
            free: Vec::new(),
            opened: 0,
            live: 0,
            due: TimerQueue::new(gap),
            noted: DirtyRows::default(),
        }
    }

    /// The sessions of a key are about to change.
    #[inline]
    fn change(&mut self, key: usize) {
        let Self { keys, open, cells, noted, .. } = self;
        noted.change(key, |out| write_key((keys, open, cells), key, out));
    }

    /// Forgets keys without a session, if they are many. The others have new numbers then, in the
    /// same order; results go by the numbers of sessions.
    fn forget(&mut self, plan: &KeyPlan) {
        if self.live > 0 && self.open.len() <= KEYS_KEPT.max(self.live * 2) {
            return;
        }
        let Self { keys, open, cells, noted, .. } = &mut *self;
        noted.clear(&mut |key, out| write_key((keys, open, cells), key, out));
        let before = std::mem::replace(&mut self.keys, Groups::new(plan));
        let open = std::mem::take(&mut self.open).into_iter().enumerate();
        for (key, open) in open.filter(|(_, it)| !it.sessions.is_empty()) {
            self.keys.moved(&before, key);
            self.noted.change(self.open.len(), |_| false);
            self.open.push(open);
        }
        self.due.clear();
        self.open.iter().zip(0..).for_each(|(it, key)| self.due.push(it.due, key));
    }

    /// Returns true if a record belongs to an open session.
    fn joins(&self, keys: &BlockKeys, hashes: &[u64], row: usize, (time, gap): (i64, i64)) -> bool {
        let open = self.keys.find(keys, hashes, row).and_then(|key| self.open.get(key as usize));
        open.is_some_and(|open| !touched(&open.sessions, time, gap).is_empty())
    }

    /// The accumulators of the session of a record; sessions that it joins go to `merges`.
    fn cell(&mut self, key: usize, time: i64, gap: i64, merges: &mut Vec<(u32, u32)>) -> u32 {
        if self.open.len() <= key {
            self.open
                .resize_with(key + 1, || OpenSession { sessions: SmallVec::new(), due: i64::MAX });
        }
        let OpenSession { sessions, due } = &mut self.open[key];
        let touched = touched(sessions, time, gap);
        if touched.is_empty() {
            let cell = self.free.pop().unwrap_or_else(|| {
                self.cells.resize(self.cells.groups() + 1);
                self.cells.groups() as u32 - 1
            });
            self.opened += 1;
            self.live += usize::from(sessions.is_empty());
            let opened = Session { first: time, last: time, cell, number: self.opened };
            sessions.insert(touched.start, opened);
            let end = time.saturating_add(gap);
            if end < *due {
                *due = end;
                self.due.push(end, key as u32);
            }
            return cell;
        }
        let mut joined = sessions[touched.start];
        for other in sessions.drain(touched.start + 1..touched.end) {
            // The one that was opened first takes the others.
            let (to, from) =
                if other.number < joined.number { (other, joined) } else { (joined, other) };
            merges.push((to.cell, from.cell));
            let (first, last) = (to.first.min(from.first), to.last.max(from.last));
            joined = Session { first, last, ..to };
        }
        joined.first = joined.first.min(time);
        joined.last = joined.last.max(time);
        sessions[touched.start] = joined;
        joined.cell
    }

    /// Takes the sessions that have ended by `now` out, by their end and number.
    fn ended(&mut self, now: i64, gap: i64) -> Vec<(i64, usize, Session)> {
        let end_of = |it: &Session| it.last.saturating_add(gap);
        let (mut ended, mut taken) = (Vec::<(i64, usize, Session)>::new(), Vec::new());
        self.due.take(now, &mut taken);
        for (nth, (due, key)) in taken.iter().copied().enumerate() {
            if let Some((_, ahead)) = taken.get(nth + ENTRIES_AHEAD) {
                prefetch(&self.open, *ahead as usize);
            }
            let key = key as usize;
            if self.open[key].due != due {
                continue;
            }
            let count = self.open[key].sessions.partition_point(|it| end_of(it) <= now);
            if count > 0 {
                self.change(key);
            }
            let open = &mut self.open[key];
            ended.extend(open.sessions.drain(..count).map(|it| (end_of(&it), key, it)));
            open.due = open.sessions.first().map_or(i64::MAX, end_of);
            match open.sessions.is_empty() {
                true => self.live -= 1,
                false => self.due.push(open.due, key as u32),
            }
        }
        ended.sort_unstable_by_key(|(end, _, it)| (*end, it.number));
        ended
    }
}

/// The sessions of a key that a record of this time belongs to; if there are none, the place of one of
/// its own.
fn touched(sessions: &[Session], time: i64, gap: i64) -> Range<usize> {
    let start = sessions.partition_point(|it| time - it.last >= gap);
    let count = sessions[start..].iter().take_while(|it| it.first - time < gap).count();
    start..start + count
}

/// The sessions of a key in the order in which they were opened.
fn as_opened(sessions: &[Session]) -> Cow<'_, [Session]> {
    if sessions.is_sorted_by_key(|it| it.number) {
        return Cow::Borrowed(sessions);
    }
    let mut sessions = sessions.to_vec();
    sessions.sort_unstable_by_key(|it| it.number);
    Cow::Owned(sessions)
}

/// Writes a key with its sessions and their accumulators.
fn write_key(
    (keys, open, cells): (&Groups, &[OpenSession], &Cells),
    key: usize,
    out: &mut Vec<u8>,
) -> bool {
    // A key that has just come has no sessions yet, nor had it any.
    let Some(OpenSession { sessions, .. }) = open.get(key) else { return false };
    keys.save(key, out);
    out.extend_from_slice(&(sessions.len() as u32).to_le_bytes());
    for it in as_opened(sessions).iter() {
        for number in [it.first as u64, it.last as u64, it.number] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        cells.save(it.cell as usize, out);
    }
    true
}

impl State for Sessions {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![self]
    }
}

impl Structure for Sessions {
    fn memory(&self) -> usize {
        let of = |key: usize| match &self.open[key].sessions {
            sessions if sessions.spilled() => sessions.capacity() * size_of::<Session>(),
            _ => 0,
        };
        self.keys.memory()
            + self.open.capacity() * size_of::<OpenSession>()
            + sampled(self.open.len(), of)
            + self.cells.memory()
            + self.free.capacity() * size_of::<u32>()
            + self.due.memory()
            + self.noted.memory()
    }

    fn track(&mut self) {
        self.noted.track();
    }

    fn freeze(&mut self) {
        self.noted.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let Self { keys, open, cells, noted, .. } = self;
        noted.drain(delta, most, &mut |key, out| write_key((keys, open, cells), key, out))
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let (key, mut from) = (row_of(key)?, ByteReader::new(value));
        self.keys.restore(key, &mut from)?;
        let (mut sessions, mut due) = (SmallVec::<[Session; 1]>::new(), i64::MAX);
        for _ in 0..from.u32()? {
            let (first, last, number) = (from.i64()?, from.i64()?, from.u64()?);
            let cell = self.cells.groups();
            self.cells.resize(cell + 1);
            self.cells.restore(cell, &mut from)?;
            sessions.push(Session { first, last, cell: cell as u32, number });
            self.opened = self.opened.max(number);
            // It is looked at when the first of them may have ended.
            due = due.min(last);
        }
        sessions.sort_unstable_by_key(|it| it.first);
        if !sessions.is_empty() {
            self.live += 1;
            self.due.push(due, key as u32);
        }
        self.open.push(OpenSession { sessions, due });
        from.end()
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        self.keys.restored()
    }
}

impl SessionLane {
    /// Takes the rows of a slice.
    fn take_slice(
        &mut self,
        state: &mut Sessions,
        slice: SliceId,
        (block, prepared): (&Block, &Prepared),
        before: i64,
    ) {
        let (hashes, gap) = (prepared.hashes(block), self.factory.gap);
        let is_late = |row: u32| prepared.time(row as usize).saturating_add(gap) <= before;
        let mut rows = std::mem::take(&mut self.rows);
        rows.clear();
        block.rows_of(slice).for_each(|row| rows.push(row as u32));
        state.keys.look_ahead(hashes, &rows);
        let mut from = 0;
        while let Some(first) = rows.get(from).copied() {
            let some = rows[from..].iter().take(TAKEN_AT_ONCE);
            let on_time = some.take_while(|row| !is_late(**row)).count();
            let time = (prepared.time(first as usize), gap);
            if on_time > 0 || state.joins(&prepared.keys, hashes, first as usize, time) {
                let some = from..from + on_time.max(1);
                from = some.end;
                self.take(state, (&rows, some), (hashes, prepared));
            } else {
                self.late.push(first);
                from += 1;
            }
        }
        self.rows = rows;
    }

    /// Takes `some` of these rows, none of which is late.
    fn take(
        &mut self,
        state: &mut Sessions,
        (rows, some): (&[u32], Range<usize>),
        (hashes, prepared): (&[u64], &Prepared),
    ) {
        let mut keys = std::mem::take(&mut self.keys);
        let open = &state.open;
        let looked_up = ((&prepared.keys, hashes), (rows, some.clone()));
        let coming = |key| prefetch(open, key as usize);
        state.keys.resolve(looked_up.0, looked_up.1, &mut keys, coming);
        let rows = &rows[some];
        let mut from = 0;
        for (nth, (row, key)) in rows.iter().zip(&keys).enumerate() {
            let (time, key) = (prepared.time(*row as usize), *key as usize);
            state.change(key);
            let cell = state.cell(key, time, self.factory.gap, &mut self.merges);
            state.cells.prefetch(cell);
            self.cells.push(cell);
            if !self.merges.is_empty() {
                self.apply(state, prepared, &rows[from..=nth]);
                from = nth + 1;
            }
        }
        self.apply(state, prepared, &rows[from..]);
        self.keys = keys;
    }

    /// Takes rows into their sessions, then joins sessions that the last has bridged.
    fn apply(&mut self, state: &mut Sessions, prepared: &Prepared, rows: &[u32]) {
        let plan = &self.factory.plan.aggregates;
        state.cells.update(plan, prepared.taken(), rows, &self.cells);
        self.cells.clear();
        for (to, from) in self.merges.drain(..) {
            state.cells.merge_within(plan, to as usize, from as usize);
            state.free.push(from);
        }
    }

    /// Puts out the sessions of a slice that have ended.
    fn close(
        &mut self,
        state: &mut Sessions,
        now: i64,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let (gap, plan) = (self.factory.gap, Arc::clone(&self.factory.plan));
        let ended = state.ended(now, gap);
        for (nth, (end, key, session)) in ended.iter().enumerate() {
            if let Some((_, key, session)) = ended.get(nth + ENTRIES_AHEAD) {
                state.keys.prefetch(*key);
                state.cells.prefetch(session.cell);
            }
            let cell = session.cell as usize;
            state.keys.write(std::iter::once(*key), &mut self.emitter.keys);
            let results = &mut self.emitter.results;
            state.cells.read(&plan.aggregates, std::iter::once(cell), results);
            self.emitter.bounds(1, (session.first, *end), end - 1);
            state.cells.clear(cell);
            state.free.push(session.cell);
            self.emitter.flush_if_full(&plan, output)?;
        }
        if !ended.is_empty() {
            state.forget(&plan.keys);
        }
        Ok(())
    }
}

impl Operator for SessionLane {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let (before, now) = (context.watermark_before.0, context.watermark.0);
        let (blocks, prepared) = self.factory.plan.prepare_all(input.port(0), context)?;
        let blocks = &*blocks;
        let mut late = Late::default();
        for slice in context.slices.clone().map(SliceId) {
            let state: &mut Sessions = context.state(slice);
            for (nth, (block, prepared)) in blocks.iter().zip(&prepared).enumerate() {
                self.take_slice(state, slice, (block, prepared), before);
                late.add(slice, nth, &mut self.late);
            }
            self.emitter.begin(slice);
            self.close(state, now, output)?;
        }
        self.emitter.flush(&self.factory.plan, output)?;
        late.put_out(&prepared, 1, output)
    }
}
