//! A queue: first in, first out.

use super::columns::{ColumnKind, ColumnValue, TakeRow, kind_of, show};
use super::slab::Slab;
use super::{Plain, Structure};
use crate::delta::{Delta, SavedError};
use std::collections::VecDeque;

/// A queue.
#[derive(Debug)]
pub struct Queue<T> {
    /// The values, each with its number of arrival.
    values: Slab<(u64, T)>,
    order: VecDeque<u32>,
    came: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { values: Slab::default(), order: VecDeque::new(), came: 0 }
    }
}

impl<T: Plain> Queue<T> {
    /// Adds a value at the end.
    pub fn push(&mut self, value: T) {
        self.order.push_back(self.values.insert((self.came, value)));
        self.came += 1;
    }

    /// Removes the first value.
    pub fn pop(&mut self) -> Option<T> {
        let number = self.order.pop_front()?;
        self.values.remove(number).map(|(_, value)| value)
    }

    /// The first value.
    #[must_use]
    pub fn first(&self) -> Option<&T> {
        self.values.get(*self.order.front()?).map(|(_, value)| value)
    }

    /// The last value.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.values.get(*self.order.back()?).map(|(_, value)| value)
    }

    /// The count of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.values.clear();
        self.order.clear();
    }

    /// All values, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.order.iter().filter_map(|it| self.values.get(*it).map(|(_, value)| value))
    }
}

impl<T: Plain> Structure for Queue<T> {
    fn memory(&self) -> usize {
        self.values.memory() + self.order.capacity() * size_of::<u32>()
    }

    fn track(&mut self) {
        self.values.track();
    }

    fn freeze(&mut self) {
        self.values.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        self.values.drain(delta, most)
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        self.values.restore(key, value)
    }

    fn restored(&mut self) -> Result<(), SavedError> {
        let mut order: Vec<(u64, u32)> =
            self.values.iter().map(|(number, (came, _))| (*came, number)).collect();
        order.sort_unstable();
        self.came = super::after(order.last().map(|(came, _)| *came))?;
        self.order = order.into_iter().map(|(_, number)| number).collect();
        Ok(())
    }

    fn columns(&self) -> Vec<(&'static str, ColumnKind)> {
        vec![("position", ColumnKind::UInt), ("value", kind_of::<T>())]
    }

    fn show(&self, take: &mut TakeRow<'_>) {
        let row = |(at, value): (usize, &T)| vec![ColumnValue::UInt(at as u64), show(value)];
        // Who has seen enough ends it.
        let _ended = self.iter().enumerate().try_for_each(|it| take(row(it)));
    }
}
