//! Stamped rows against a model: what changed in an interval, as it was at its end.

use super::*;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Rows that each say how often they changed.
#[derive(Default)]
struct Counters {
    counts: Vec<u64>,
    stamps: Vec<u64>,
    /// Every second of the rows that are saved is in memory.
    is_half: bool,
    are_alike: bool,
}

impl StampedRows for Counters {
    fn rows(&self) -> usize {
        self.counts.len()
    }

    fn are_alike(&self) -> bool {
        self.are_alike
    }

    fn stamp(&mut self, row: usize) -> &mut u64 {
        &mut self.stamps[row]
    }

    fn write(&self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.counts[row].to_le_bytes());
    }

    fn number(&self, row: usize) -> usize {
        if self.is_half { 2 * row + 1 } else { row }
    }
}

impl Counters {
    fn change(&mut self, stamped: &mut DirtyStamps, rows: &[u32]) {
        let count = rows.iter().map(|row| *row as usize + 1).max().unwrap_or(0);
        if count > self.counts.len() {
            self.counts.resize(count, 0);
            self.stamps.resize(count, 0);
        }
        stamped.change_all(rows, self);
        rows.iter().for_each(|row| self.counts[*row as usize] += 1);
    }
}

fn written(delta: &mut Delta) -> BTreeMap<u32, u64> {
    let (mut run, mut rows) = (Vec::new(), BTreeMap::new());
    delta.finish(&mut run).unwrap();
    crate::delta::visit_entries(&[run], &mut |key, value| {
        let row = u32::from_be_bytes(key.try_into().unwrap());
        let before = rows.insert(row, u64::from_le_bytes(value.try_into().unwrap()));
        assert_eq!(before, None, "row {row} is written once");
        Ok(())
    })
    .unwrap();
    rows
}

/// Rows that change together, and how many are written out behind them.
type Step = (Vec<u32>, usize);

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let rows = prop_oneof![
        prop::collection::vec(0_u32..20_000, 0..200),
        prop::collection::vec(0_u32..200, 0..300)
    ];
    prop::collection::vec((rows, 0_usize..200), 0..most)
}

proptest! {
    #[test]
    fn what_changed_in_an_interval_or_all_is_written_as_it_was_at_its_end(
        intervals in prop::collection::vec((steps(6), any::<bool>()), 1..6),
        are_alike in any::<bool>(),
    ) {
        let mut counters = Counters { are_alike, ..Counters::default() };
        let mut stamped = DirtyStamps::default();
        stamped.track();
        let mut due: Option<BTreeMap<u32, u64>> = None;
        let (mut changed, mut delta) = (BTreeSet::new(), Delta::default());
        for (steps, are_all_asked_for) in intervals {
            let (mut is_all, mut have_most) = (due.is_none(), false);
            for (rows, most) in &steps {
                counters.change(&mut stamped, rows);
                changed.extend(rows.iter().copied());
                // While a checkpoint is made, it is not seen that most have changed.
                let is_most = 3 * changed.len() >= 2 * counters.counts.len();
                have_most |= are_alike && is_all && is_most && !changed.is_empty();
                is_all = is_all || stamped.drain(&mut delta, *most, &mut counters);
            }
            // Before the next checkpoint begins this one is written out.
            while !is_all {
                is_all = stamped.drain(&mut delta, 7, &mut counters);
            }
            if let Some(due) = due.take() {
                prop_assert_eq!(written(&mut delta), due);
            }
            let rows = counters.counts.len();
            let all = 0..rows as u32;
            if have_most {
                changed = all.clone().collect();
            }
            prop_assert_eq!(stamped.changed(rows), ChangeCount { changed: changed.len(), rows });
            let now = |row: u32| (row, counters.counts[row as usize]);
            due = Some(if are_all_asked_for {
                stamped.freeze_all(rows);
                all.map(now).collect()
            } else {
                stamped.freeze(rows);
                changed.iter().copied().map(now).collect()
            });
            changed.clear();
        }
        prop_assert!(stamped.drain(&mut delta, usize::MAX, &mut counters));
        prop_assert_eq!(written(&mut delta), due.unwrap());
    }
}

proptest! {
    #[test]
    fn rows_that_another_holder_takes_over_are_written_once(
        before in prop::collection::vec(steps(4), 1..4),
        behind in steps(4),
        after in prop::collection::vec(steps(4), 0..3),
        left in 0_usize..300,
    ) {
        let mut counters = Counters { is_half: true, ..Counters::default() };
        let mut stamped = DirtyStamps::default();
        stamped.track();
        let (mut changed, mut delta): (Vec<u32>, _) = (Vec::new(), Delta::default());
        let mut due: Option<BTreeMap<u32, u64>> = None;
        let last = before.len() - 1;
        for (nth, steps) in before.into_iter().chain([behind]).chain(after).enumerate() {
            let mut is_all = due.is_none();
            for (rows, most) in steps {
                // By their numbers where they are saved.
                let row_of = |row: &u32| if counters.is_half { *row } else { 2 * *row + 1 };
                let rows: Vec<u32> = rows.iter().map(row_of).collect();
                counters.change(&mut stamped, &rows);
                changed.extend(rows.iter().map(|row| counters.number(*row as usize) as u32));
                is_all = is_all || stamped.drain(&mut delta, most, &mut counters);
            }
            if nth == last {
                // In the middle of a checkpoint, or behind it.
                is_all = is_all || stamped.drain(&mut delta, left, &mut counters);
                let mut whole = Counters::default();
                let rows = 2 * counters.counts.len();
                (whole.counts, whole.stamps) = (vec![0; rows], vec![0; rows]);
                let numbers = (0..counters.counts.len()).map(|row| counters.number(row));
                let moved: Vec<_> = numbers.zip(counters.stamps.iter().copied()).collect();
                let counts = moved.iter().zip(&counters.counts);
                counts.for_each(|((row, _), count)| whole.counts[*row] = *count);
                let mut taken_over = DirtyStamps::default();
                taken_over.track();
                taken_over.take_over(stamped, moved.into_iter(), &mut whole);
                (counters, stamped) = (whole, taken_over);
                is_all = is_all || stamped.drain(&mut delta, 5, &mut counters);
            }
            while !is_all {
                is_all = stamped.drain(&mut delta, 7, &mut counters);
            }
            if let Some(due) = due.take() {
                prop_assert_eq!(written(&mut delta), due);
            }
            stamped.freeze(counters.counts.len());
            let row_of = |number: u32| if counters.is_half { number / 2 } else { number };
            let now = |number: u32| (number, counters.counts[row_of(number) as usize]);
            due = Some(changed.drain(..).map(now).collect());
        }
        prop_assert!(stamped.drain(&mut delta, usize::MAX, &mut counters));
        prop_assert_eq!(written(&mut delta), due.unwrap());
    }
}

#[test]
fn rows_of_holders_that_note_nothing_are_not_stamped() {
    let (mut counters, mut stamped) = (Counters::default(), DirtyStamps::default());
    counters.change(&mut stamped, &[1, 40, 1]);
    assert_eq!(counters.stamps, [0; 41]);
    assert_eq!(stamped.memory(), 0);
}

#[test]
#[should_panic(expected = "a checkpoint begins when the one before is written out")]
fn no_row_of_a_checkpoint_is_forgotten_by_the_next() {
    let (mut counters, mut stamped) = (Counters::default(), DirtyStamps::default());
    stamped.track();
    counters.change(&mut stamped, &[1]);
    stamped.freeze(2);
    stamped.freeze(2);
}
