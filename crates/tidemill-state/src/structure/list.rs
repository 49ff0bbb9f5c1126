//! A list: values by position.

use super::columns::{ColumnKind, ColumnValue, TakeRow, kind_of, show};
use super::dirty_rows::{DirtyRows, row_of};
use super::{Plain, Structure, beside, read_plain, sampled, write_own};
use crate::delta::{Delta, SavedError};

/// A list that grows at its end.
#[derive(Debug)]
pub struct List<T> {
    values: Vec<T>,
    noted: DirtyRows,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { values: Vec::new(), noted: DirtyRows::default() }
    }
}

fn write_value<T: Plain>(values: &[T], at: usize, out: &mut Vec<u8>) -> bool {
    values.get(at).inspect(|value| write_own(*value, at, out)).is_some()
}

impl<T: Plain> List<T> {
    /// Adds a value at the end.
    pub fn push(&mut self, value: T) {
        self.noted.change(self.values.len(), |_| false);
        self.values.push(value);
    }

    /// The value at a position.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&T> {
        self.values.get(at)
    }

    /// The value at a position, to be changed.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let values = &self.values;
        if at < values.len() {
            self.noted.change(at, |out| write_value(values, at, out));
        }
        self.values.get_mut(at)
    }

    /// Sets the value at a position and returns the old one. Does nothing past the end.
    pub fn set(&mut self, at: usize, value: T) -> Option<T> {
        self.get_mut(at).map(|held| std::mem::replace(held, value))
    }

    /// Removes the last value.
    pub fn pop(&mut self) -> Option<T> {
        let (values, at) = (&self.values, self.values.len().checked_sub(1)?);
        self.noted.change(at, |out| write_value(values, at, out));
        self.values.pop()
    }

    /// The count of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns true if there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        let values = &self.values;
        self.noted.clear(&mut |at, out| write_value(values, at, out));
        self.values.clear();
    }

    /// All values, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter()
    }
}

impl<T: Plain> Structure for List<T> {
    fn memory(&self) -> usize {
        self.values.capacity() * size_of::<T>()
            + sampled(self.values.len(), |at| beside(&self.values[at]))
            + self.noted.memory()
    }

    fn track(&mut self) {
        self.noted.track();
    }

    fn freeze(&mut self) {
        self.noted.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let values = &self.values;
        self.noted.drain(delta, most, &mut |at, out| write_value(values, at, out))
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        if row_of(key)? != self.values.len() {
            return Err(SavedError::new("a value of a saved list is missing"));
        }
        self.values.push(read_plain(value)?);
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
