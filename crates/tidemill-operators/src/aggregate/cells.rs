//! The accumulators of many groups: one run of words a group, so that a group is one cache line
//! or two, whatever number of aggregates look at it.
//!
//! ```text
//! group 0: [count][n mean m2][seen min][seen max]   group 1: [count]…      and side stores
//! ```
//!
//! If changes are noted, a word more says when the group changed last; it is saved nowhere.
//!
//! Rows are taken accumulator by accumulator: each loop is over one type, without a branch on it.

use super::results::{ResultBuilder, Results};
use super::sides::SideColumn;
use super::words::{
    add_float, add_int, add_moment, add_wide, halves, is_higher, is_less, is_lower, is_more,
    merge_words, put_float, put_int, put_ordered, put_wide, read_words,
};
use super::{Accumulator, AccumulatorKind, Aggregates, ArgColumn, NumberKind, ResultKind};
use crate::groups::with_room;
use tidemill_state::{ByteReader, SavedError, prefetch};
use zerocopy::IntoBytes as _;

/// Most groups have no more words.
const SHORT_WORDS: usize = 8;

/// Accumulators by group.
#[derive(Debug, Default)]
pub(crate) struct Cells {
    words: Vec<u64>,
    /// Words of a group that its accumulators have.
    held: usize,
    /// Words of a group.
    stride: usize,
    sides: Vec<SideColumn>,
    groups: usize,
}

/// The arguments of one block.
pub(crate) type Columns = Vec<ArgColumn>;

/// The input of a step: arguments and event times by row of the block.
#[derive(Clone, Copy)]
pub(crate) struct Taken<'a> {
    pub(crate) arguments: &'a Columns,
    pub(crate) times: Option<&'a [i64]>,
}

impl Cells {
    pub(crate) fn new(plan: &Aggregates) -> Self {
        let side = |it: &Accumulator| is_side(it.kept).then(|| SideColumn::new(it.kept));
        Self {
            words: Vec::new(),
            held: plan.words,
            stride: plan.words,
            sides: plan.accumulators.iter().filter_map(side).collect(),
            groups: 0,
        }
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// About how many bytes of memory they take.
    pub(crate) fn memory(&self) -> usize {
        let sides = self.sides.iter().map(SideColumn::memory).sum::<usize>();
        self.words.capacity() * size_of::<u64>() + sides
    }

    /// Returns true if all groups have the same length when saved.
    pub(crate) fn are_alike(&self) -> bool {
        self.sides.is_empty()
    }

    /// Groups have a stamp from now on; there is none yet.
    pub(crate) fn stamp(&mut self) {
        debug_assert_eq!(self.groups, 0, "no group is without a stamp");
        self.stride = self.held + 1;
    }

    /// When a group changed last, if there are stamps.
    #[inline]
    pub(crate) fn stamp_of(&mut self, group: usize) -> &mut u64 {
        &mut self.words[group * self.stride + self.held]
    }

    /// Makes room for groups up to `groups`; new ones are empty.
    pub(crate) fn resize(&mut self, groups: usize) {
        if groups != self.groups {
            self.words.resize(groups * self.stride, 0);
            self.sides.iter_mut().for_each(|side| side.resize(groups));
            self.groups = groups;
        }
    }

    /// About so many groups are taken back, or fewer.
    pub(crate) fn expect(&mut self, groups: usize) {
        self.words.reserve_exact(with_room(groups) * self.stride);
    }

    /// All groups were taken back: room for others is given up.
    pub(crate) fn restored(&mut self) {
        self.words.shrink_to(with_room(self.groups) * self.stride);
    }

    /// Prefetches the cells of a group that is about to change.
    #[inline]
    pub(crate) fn prefetch(&self, group: u32) {
        let place = group as usize * self.stride;
        prefetch(&self.words, place);
        prefetch(&self.words, place + self.stride.saturating_sub(1));
    }

    /// Writes the accumulators of a group, for a checkpoint.
    #[inline]
    pub(crate) fn save(&self, group: usize, out: &mut Vec<u8>) {
        let with_more = &self.words[group * self.stride..];
        let words = &with_more[..self.held];
        if cfg!(target_endian = "little") {
            match with_more.first_chunk::<SHORT_WORDS>() {
                // Constant lengths: nothing is called for them.
                Some(with_more) if self.held <= SHORT_WORDS => {
                    let end = out.len() + size_of_val(words);
                    out.extend_from_slice(with_more.as_bytes());
                    out.truncate(end);
                }
                _ => out.extend_from_slice(words.as_bytes()),
            }
        } else {
            words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
        self.sides.iter().for_each(|side| side.save(group, out));
    }

    /// Restores the accumulators of a group, for which there is room.
    pub(crate) fn restore(
        &mut self,
        group: usize,
        from: &mut ByteReader<'_>,
    ) -> Result<(), SavedError> {
        let words = &mut self.words[group * self.stride..][..self.held];
        let saved = from.bytes(size_of_val(words))?;
        for (word, bytes) in words.iter_mut().zip(saved.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        self.sides.iter_mut().try_for_each(|side| side.restore(group, from))
    }

    /// Copies of these groups, in this order, and no room for more.
    ///
    /// # Errors
    /// The saved bytes cannot be restored: an error of the engine.
    pub(crate) fn copied(&self, plan: &Aggregates, groups: &[u32]) -> Result<Self, SavedError> {
        let (mut copies, mut saved) = (Self::new(plan), Vec::new());
        copies.words.reserve_exact(groups.len() * self.stride);
        copies.resize(groups.len());
        for (copy, group) in groups.iter().enumerate() {
            saved.clear();
            self.save(*group as usize, &mut saved);
            copies.restore(copy, &mut ByteReader::new(&saved))?;
        }
        Ok(copies)
    }

    /// Empties all groups and forgets them, and has no stamps; memory is kept.
    pub(crate) fn reset(&mut self) {
        self.resize(0);
        self.stride = self.held;
    }

    /// Empties one group.
    pub(crate) fn clear(&mut self, group: usize) {
        self.words[group * self.stride..][..self.held].fill(0);
        self.sides.iter_mut().for_each(|side| side.clear(group));
    }

    /// Takes rows: `rows[i]` of the arguments belongs to `groups[i]`. Of many, no more than
    /// [`TAKEN_AT_ONCE`](crate::lane::TAKEN_AT_ONCE), and their groups are prefetched ([`Self::prefetch`]).
    pub(crate) fn update(
        &mut self,
        plan: &Aggregates,
        taken: Taken<'_>,
        rows: &[u32],
        groups: &[u32],
    ) {
        for it in &plan.accumulators {
            if it.kept == AccumulatorKind::Rows {
                for group in groups {
                    self.words[*group as usize * self.stride + it.place] += 1;
                }
                continue;
            }
            let argument = &taken.arguments[it.argument];
            match argument.nulls() {
                None => self.update_one(it, (argument, taken.times), rows.iter().zip(groups)),
                Some(nulls) => {
                    let there = |(row, _): &(&u32, &u32)| nulls.is_valid(**row as usize);
                    let pairs = rows.iter().zip(groups).filter(there);
                    self.update_one(it, (argument, taken.times), pairs);
                }
            }
        }
    }

    fn update_one<'a>(
        &mut self,
        it: &Accumulator,
        (argument, times): (&ArgColumn, Option<&[i64]>),
        pairs: impl Iterator<Item = (&'a u32, &'a u32)>,
    ) {
        if is_side(it.kept) {
            let side = &mut self.sides[it.place];
            pairs.for_each(|(row, group)| {
                let time = times.map_or(0, |times| times[*row as usize]);
                side.update(*group as usize, argument, (*row as usize, time));
            });
            return;
        }
        let (words, stride, place) = (&mut self.words[..], self.stride, it.place);
        let at = |group: &u32| *group as usize * stride + place;
        match (it.kept, argument) {
            (AccumulatorKind::Values, _) => pairs.for_each(|(_, group)| words[at(group)] += 1),
            (AccumulatorKind::Sum(NumberKind::Int), ArgColumn::Int(values)) => {
                let values = values.values();
                pairs.for_each(|(row, group)| {
                    add_int(&mut words[at(group)..], values[*row as usize]);
                });
            }
            (AccumulatorKind::Sum(NumberKind::Wide), ArgColumn::Wide(values)) => {
                let values = values.values();
                pairs.for_each(|(row, group)| {
                    add_wide(&mut words[at(group)..], values[*row as usize]);
                });
            }
            (kept @ (AccumulatorKind::First(_) | AccumulatorKind::Last(_)), argument) => {
                for (row, group) in pairs {
                    let row = *row as usize;
                    let time = times.map_or(0, |times| times[row]);
                    let to = &mut words[at(group)..];
                    match argument {
                        ArgColumn::Wide(values) => {
                            put_ordered(kept, to, 1, (halves(values.value(row)), time));
                        }
                        _ => put_ordered(kept, to, 1, ([argument.bits(row)], time)),
                    }
                }
            }
            (kept, ArgColumn::Int(values)) => {
                let values = values.values();
                match kept {
                    AccumulatorKind::Moments => pairs.for_each(|(row, group)| {
                        add_moment(&mut words[at(group)..], values[*row as usize] as f64);
                    }),
                    AccumulatorKind::Min(_) => pairs.for_each(|(row, group)| {
                        put_int(&mut words[at(group)..], values[*row as usize], is_less);
                    }),
                    _ => pairs.for_each(|(row, group)| {
                        put_int(&mut words[at(group)..], values[*row as usize], is_more);
                    }),
                }
            }
            (kept, ArgColumn::Float(values)) => {
                let values = values.values();
                match kept {
                    AccumulatorKind::Moments => pairs.for_each(|(row, group)| {
                        add_moment(&mut words[at(group)..], values[*row as usize]);
                    }),
                    AccumulatorKind::Sum(_) => pairs.for_each(|(row, group)| {
                        add_float(&mut words[at(group)..], 1, values[*row as usize]);
                    }),
                    AccumulatorKind::Min(_) => pairs.for_each(|(row, group)| {
                        put_float(&mut words[at(group)..], values[*row as usize], is_lower);
                    }),
                    _ => pairs.for_each(|(row, group)| {
                        put_float(&mut words[at(group)..], values[*row as usize], is_higher);
                    }),
                }
            }
            (kept, ArgColumn::Wide(values)) => {
                let values = values.values();
                match kept {
                    AccumulatorKind::Min(_) => pairs.for_each(|(row, group)| {
                        put_wide(&mut words[at(group)..], values[*row as usize], is_less);
                    }),
                    _ => pairs.for_each(|(row, group)| {
                        put_wide(&mut words[at(group)..], values[*row as usize], is_more);
                    }),
                }
            }
            (_, ArgColumn::Text(_)) => unreachable!("text is kept in side stores"),
        }
    }

    /// Adds group `from` of `other`, which came later, to group `to`.
    pub(crate) fn merge(&mut self, plan: &Aggregates, to: usize, other: &Self, from: usize) {
        let source = &other.words[from * other.stride..][..other.held];
        let target = &mut self.words[to * self.stride..][..self.held];
        for it in &plan.accumulators {
            if is_side(it.kept) {
                self.sides[it.place].merge(to, &other.sides[it.place], from);
            } else {
                merge_words(it.kept, &mut target[it.place..], &source[it.place..]);
            }
        }
    }

    /// Adds group `from` to group `to`, and empties it.
    pub(crate) fn merge_within(&mut self, plan: &Aggregates, to: usize, from: usize) {
        self.add_words(plan, to, from);
        for it in plan.accumulators.iter().filter(|it| is_side(it.kept)) {
            self.sides[it.place].merge_within(to, from);
        }
        self.clear(from);
    }

    /// Adds group `from` to group `to`, and leaves it as it is.
    pub(crate) fn add_within(&mut self, plan: &Aggregates, to: usize, from: usize) {
        self.add_words(plan, to, from);
        if self.sides.is_empty() {
            return;
        }
        let mut copy = Self::new(plan);
        copy.resize(1);
        for it in plan.accumulators.iter().filter(|it| is_side(it.kept)) {
            copy.sides[it.place].merge(0, &self.sides[it.place], from);
            self.sides[it.place].merge(to, &copy.sides[it.place], 0);
        }
    }

    fn add_words(&mut self, plan: &Aggregates, to: usize, from: usize) {
        let place = |group: usize| group * self.stride..group * self.stride + self.held;
        let two = self.words.get_disjoint_mut([place(to), place(from)]);
        let [target, source] = two.expect("two groups that are there");
        for it in plan.accumulators.iter().filter(|it| !is_side(it.kept)) {
            merge_words(it.kept, &mut target[it.place..], &source[it.place..]);
        }
    }

    /// Results of these groups, in this order, to the columns of a lane.
    pub(crate) fn read(
        &mut self,
        plan: &Aggregates,
        groups: impl Iterator<Item = usize> + Clone,
        out: &mut Results,
    ) {
        for (column, to) in plan.results.iter().zip(&mut out.columns) {
            let it = &plan.accumulators[column.accumulator];
            if is_side(it.kept) {
                read_side(&mut self.sides[it.place], column.reading, groups.clone(), to);
            } else {
                let words = |group: usize| &self.words[group * self.stride + it.place..];
                read_words(column.reading, groups.clone().map(words), to);
            }
        }
    }
}

fn read_side(
    side: &mut SideColumn,
    reading: ResultKind,
    groups: impl Iterator<Item = usize>,
    to: &mut ResultBuilder,
) {
    match (to, reading) {
        (ResultBuilder::Int(to), _) => groups.for_each(|group| to.push(side.count(group))),
        (ResultBuilder::Text(to), _) => groups.for_each(|group| to.append_option(side.text(group))),
        (ResultBuilder::Float(to), ResultKind::Quantile(q)) => {
            groups.for_each(|group| to.push_option(side.quantile(group, q)));
        }
        (ResultBuilder::Float(to), _) => groups.for_each(|_| to.push_option(None)),
        (ResultBuilder::Wide(_), _) => unreachable!("wide numbers are kept in words"),
    }
}

fn is_side(kept: AccumulatorKind) -> bool {
    kept.words().is_none()
}
