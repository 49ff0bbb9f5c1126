//! One value.

use super::columns::{ColumnKind, TakeRow, kind_of, show};
use super::dirty_rows::DirtyRows;
use super::{Plain, Structure, beside, read_plain, write_own};
use crate::delta::{Delta, SavedError};

/// A single value, written out whole when it has changed.
#[derive(Debug, Default)]
pub struct Value<T> {
    value: T,
    noted: DirtyRows,
}

impl<T: Plain> Value<T> {
    /// Starts with this value.
    pub fn new(value: T) -> Self {
        Self { value, noted: DirtyRows::default() }
    }

    /// The value.
    pub fn get(&self) -> &T {
        &self.value
    }

    /// The value, to be changed.
    pub fn get_mut(&mut self) -> &mut T {
        let value = &self.value;
        self.noted.change(0, |out| {
            write_own(value, 0, out);
            true
        });
        &mut self.value
    }

    /// Sets the value and returns the old one.
    pub fn set(&mut self, value: T) -> T {
        std::mem::replace(self.get_mut(), value)
    }
}

impl<T: Plain> Structure for Value<T> {
    fn memory(&self) -> usize {
        size_of::<T>() + beside(&self.value) + self.noted.memory()
    }

    fn track(&mut self) {
        self.noted.track();
    }

    fn freeze(&mut self) {
        self.noted.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let value = &self.value;
        self.noted.drain(delta, most, &mut |_, out| {
            write_own(value, 0, out);
            true
        })
    }

    fn restore(&mut self, _: &[u8], value: &[u8]) -> Result<(), SavedError> {
        self.value = read_plain(value)?;
        Ok(())
    }

    fn columns(&self) -> Vec<(&'static str, ColumnKind)> {
        vec![("value", kind_of::<T>())]
    }

    fn show(&self, take: &mut TakeRow<'_>) {
        // There is no second row.
        let _ended = take(vec![show(&self.value)]);
    }
}
