//! Keys and the times at which they are due: a queue by time, in steps.
//!
//! ```text
//! far:  step ─▶ (time, key), in no order       each is put behind the others of its step
//! near: the step that time has come to, as a heap
//! ```
//!
//! One heap of all would be looked at in a dozen places for each that comes or leaves, most of them in
//! no cache; a step is taken out of the queue as it is once time has passed it.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
};

/// Steps in the time that most entries of a queue wait.
const STEPS: i64 = 64;
/// The shortest step, in microseconds: each costs some memory by itself.
const STEP_MIN: i64 = 1_000;

/// Keys, or other entries, by the time at which they are due.
#[derive(Debug)]
pub(crate) struct TimerQueue<T> {
    /// Microseconds of a step.
    step: i64,
    /// The step that time has come to: all up to it are near.
    reached: i64,
    near: BinaryHeap<Reverse<(i64, T)>>,
    far: BTreeMap<i64, Vec<(i64, T)>>,
    /// Of all in `far`.
    count: usize,
}

impl<T: Copy + Ord> TimerQueue<T> {
    /// A queue of entries that are due within about `wait` microseconds.
    pub(crate) const fn new(wait: i64) -> Self {
        Self {
            step: if wait / STEPS > STEP_MIN { wait / STEPS } else { STEP_MIN },
            reached: i64::MIN,
            near: BinaryHeap::new(),
            far: BTreeMap::new(),
            count: 0,
        }
    }

    /// Bytes of memory, about.
    pub(crate) fn memory(&self) -> usize {
        let far = self.far.len() * size_of::<Vec<(i64, T)>>();
        far + (self.near.capacity() + self.count) * size_of::<(i64, T)>()
    }

    /// The number of entries.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.near.len() + self.count
    }

    pub(crate) fn clear(&mut self) {
        self.near.clear();
        self.far.clear();
        (self.reached, self.count) = (i64::MIN, 0);
    }

    pub(crate) fn push(&mut self, time: i64, it: T) {
        let step = time.div_euclid(self.step);
        if step <= self.reached {
            self.near.push(Reverse((time, it)));
        } else {
            self.far.entry(step).or_default().push((time, it));
            self.count += 1;
        }
    }

    /// Removes all timers that are due by `now`, in any order.
    pub(crate) fn take(&mut self, now: i64, taken: &mut Vec<(i64, T)>) {
        let reached = now.div_euclid(self.step);
        while let Some(step) = self.far.first_entry()
            && *step.key() <= reached
        {
            let is_over = *step.key() < reached;
            let mut step = step.remove();
            self.count -= step.len();
            if is_over {
                taken.append(&mut step);
            } else {
                self.near.extend(step.into_iter().map(Reverse));
            }
        }
        self.reached = self.reached.max(reached);
        while let Some(Reverse(first)) = self.near.peek()
            && first.0 <= now
        {
            taken.push(*first);
            self.near.pop();
        }
        if self.near.len() * 4 < self.near.capacity() {
            self.near.shrink_to(self.near.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Some come for times that are past, and some for those of other keys.
        #[test]
        fn each_is_taken_once_its_time_has_come(
            gap in 1..300_000_i64,
            cycles in prop::collection::vec((prop::collection::vec(-5_000..5_000_i64, 0..40), 0..400_i64), 1..30),
        ) {
            let (mut due, mut model) = (TimerQueue::new(gap), Vec::new());
            let (mut now, mut key) = (-3_000, 0);
            for (times, on) in cycles {
                for time in times {
                    due.push(time, key);
                    model.push((time, key));
                    key += 1;
                }
                now += on;
                let mut taken = Vec::new();
                due.take(now, &mut taken);
                taken.sort_unstable();
                let mut expected: Vec<_> = model.extract_if(.., |(time, _)| *time <= now).collect();
                expected.sort_unstable();
                prop_assert_eq!(taken, expected);
                prop_assert_eq!(due.len(), model.len());
            }
            let mut rest = Vec::new();
            due.take(i64::MAX, &mut rest);
            prop_assert_eq!(rest.len(), model.len());
        }
    }
}
