//! Values by number; the lowest free number is used first, so that numbers follow from the values
//! that are there, and not from those that were.

use super::noted::{Noted, row_of};
use super::{Plain, Structure, beside, read_plain, sampled, write_plain};
use crate::delta::{Delta, SavedError};
use std::{cmp::Reverse, collections::BinaryHeap};

/// Values, each under a number while it is there.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: BinaryHeap<Reverse<u32>>,
    noted: Noted,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: BinaryHeap::new(), noted: Noted::default() }
    }
}

impl<T: Plain> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let number = self.free.pop().map_or(self.slots.len() as u32, |Reverse(number)| number);
        let slot = number as usize;
        self.noted.change(slot, |_| false);
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(value);
        number
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let slot = number as usize;
        let slots = &self.slots;
        slots.get(slot)?.as_ref()?;
        self.noted.change(slot, |out| write_slot(slots, slot, out));
        self.free.push(Reverse(number));
        self.slots[slot].take()
    }

    /// For how many values there is room.
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.slots.get(number as usize)?.as_ref()
    }

    /// A value that is about to change.
    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let (slot, slots) = (number as usize, &self.slots);
        self.noted.change(slot, |out| write_slot(slots, slot, out));
        self.slots.get_mut(slot)?.as_mut()
    }

    pub(super) fn clear(&mut self) {
        let slots = &self.slots;
        self.noted.clear(&mut |slot, out| write_slot(slots, slot, out));
        self.slots.clear();
        self.free.clear();
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(number, slot)| slot.as_ref().map(|value| (number as u32, value)))
    }
}

fn write_slot<T: Plain>(slots: &[Option<T>], slot: usize, out: &mut Vec<u8>) -> bool {
    let value = slots.get(slot).and_then(Option::as_ref);
    value.inspect(|value| write_plain(*value, out)).is_some()
}

impl<T: Plain> Structure for Slab<T> {
    fn memory(&self) -> usize {
        let of = |slot: usize| self.slots[slot].as_ref().map_or(0, beside);
        self.slots.capacity() * size_of::<Option<T>>()
            + sampled(self.slots.len(), of)
            + self.free.capacity() * size_of::<u32>()
            + self.noted.memory()
    }

    fn track(&mut self) {
        self.noted.track();
    }

    fn freeze(&mut self) {
        self.noted.freeze();
    }

    fn drain(&mut self, delta: &mut Delta, most: usize) -> bool {
        let slots = &self.slots;
        self.noted.drain(delta, most, &mut |slot, out| write_slot(slots, slot, out))
    }

    fn restore(&mut self, key: &[u8], value: &[u8]) -> Result<(), SavedError> {
        let slot = row_of(key)?;
        for free in self.slots.len()..slot {
            self.slots.push(None);
            self.free.push(Reverse(free as u32));
        }
        self.slots.push(Some(read_plain(value)?));
        Ok(())
    }
}
