//! A sliding window: values with a time, of which old ones are evicted.

use super::columns::{ColumnKind, ColumnValue, TakeRow, kind_of, show};
use super::slab::Slab;
use super::{Plain, Structure};
use crate::delta::{Delta, SavedError};
use std::collections::BTreeMap;
use tidemill_types::Micros;

/// The memory of an entry of the order: its key and number, in tree nodes that are three quarters
/// full.
const ENTRY_BYTES: usize = 32;

/// Values in the order of their time, and of their arrival for equal times.
#[derive(Debug)]
pub struct Window<T> {
    /// The values, each with its time and its number of arrival.
    values: Slab<(i64, u64, T)>,
    order: BTreeMap<(i64, u64), u32>,
    came: u64,
}

impl<T> Default for Window<T> {
    fn default() -> Self {
        Self { values: Slab::default(), order: BTreeMap::new(), came: 0 }
    }
}

impl<T: Plain> Window<T> {
    /// Adds a value.
    pub fn push(&mut self, time: Micros, value: T) {
        let number = self.values.insert((time.0, self.came, value));
        self.order.insert((time.0, self.came), number);
        self.came += 1;
    }

    /// Removes the first value, if its time is before `end`.
    pub fn pop_before(&mut self, end: Micros) -> Option<(Micros, T)> {
        let first = self.order.first_entry().filter(|it| it.key().0 < end.0)?;
        let (time, _, value) = self.values.remove(first.remove())?;
        Some((Micros(time), value))
    }

    /// Removes all values whose time is before `end`.
    pub fn evict(&mut self, end: Micros) {
        while self.pop_before(end).is_some() {}
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

    /// All values with their times, in order.
    pub fn iter(&self) -> impl Iterator<Item = (Micros, &T)> {
        let value =
            |number: &u32| self.values.get(*number).map(|(time, _, it)| (Micros(*time), it));
        self.order.values().filter_map(value)
    }
}

impl<T: Plain> Structure for Window<T> {
    fn memory(&self) -> usize {
        self.values.memory() + self.order.len() * ENTRY_BYTES
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
        let values = self.values.iter();
        self.order = values.map(|(number, (time, came, _))| ((*time, *came), number)).collect();
        self.came = super::after(self.order.keys().map(|(_, came)| *came).max())?;
        Ok(())
    }

    fn columns(&self) -> Vec<(&'static str, ColumnKind)> {
        vec![("time", ColumnKind::Time), ("value", kind_of::<T>())]
    }

    fn show(&self, take: &mut TakeRow<'_>) {
        let row = |(time, value): (_, &T)| vec![ColumnValue::Time(time), show(value)];
        // Who has seen enough ends it.
        let _ended = self.iter().try_for_each(|it| take(row(it)));
    }
}
