//! Values by number. The lowest free number is used first, so numbers follow from the present
//! values and not from earlier ones.

mod eviction;

use super::dirty_rows::{DirtyRows, row_of};
use super::{Expiry, Plain, SavedRows, Structure, beside, read_plain, sampled, write_own};
use crate::delta::{Delta, SavedError};
use crate::prefetch;
use eviction::EvictedValues;
use std::{cmp::Reverse, collections::BinaryHeap, ops::ControlFlow};

/// Values, each with a number as long as it exists.
#[derive(Debug)]
pub(super) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: BinaryHeap<Reverse<u32>>,
    noted: DirtyRows,
    /// The evicted values, if values may leave memory. Their slots are empty and not free.
    away: Option<Box<EvictedValues<T>>>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: BinaryHeap::new(), noted: DirtyRows::default(), away: None }
    }
}

impl<T: Plain> Slab<T> {
    pub(super) fn insert(&mut self, value: T) -> u32 {
        let number = self.free.pop().map_or(self.slots.len() as u32, |Reverse(number)| number);
        let slot = number as usize;
        self.changes(slot);
        self.noted.change(slot, |_| false);
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(value);
        number
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let slot = number as usize;
        self.take_back(number);
        let slots = &self.slots;
        slots.get(slot)?.as_ref()?;
        self.noted.change(slot, |out| write_slot(slots, slot, out));
        self.free.push(Reverse(number));
        self.slots[slot].take()
    }

    /// The count of values that fit without growing.
    pub(super) fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> Option<&T> {
        match (self.slots.get(number as usize)?, &self.away) {
            (value, None) => value.as_ref(),
            (None, Some(away)) => away.get(number),
            (value, Some(away)) => {
                away.expiry.uses(number as usize);
                value.as_ref()
            }
        }
    }

    /// Prefetches a value.
    #[inline]
    pub(super) fn prefetch(&self, number: u32) {
        prefetch(&self.slots, number as usize);
    }

    /// A value, if it is in memory. This does not count as a use.
    #[inline]
    pub(super) fn in_memory(&self, number: u32) -> Option<&T> {
        self.slots.get(number as usize)?.as_ref()
    }

    /// A value, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        let slot = number as usize;
        self.take_back(number);
        self.changes(slot);
        let slots = &self.slots;
        self.noted.change(slot, |out| write_slot(slots, slot, out));
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Returns true if the value exists and satisfies `is`. An evicted value is read back only if
    /// its hash fits.
    #[inline]
    pub(super) fn is(&self, number: u32, hash: u64, is: impl FnOnce(&T) -> bool) -> bool {
        match (self.slots.get(number as usize), &self.away) {
            (Some(Some(value)), _) => is(value),
            (_, Some(away)) if away.hash(number) == Some(hash) => away.get(number).is_some_and(is),
            _ => false,
        }
    }

    /// The hash of a value, in memory or evicted.
    pub(super) fn hash(&self, number: u32, hash_of: impl FnOnce(&T) -> u64) -> u64 {
        match (self.slots.get(number as usize), &self.away) {
            (Some(Some(value)), _) => hash_of(value),
            (_, Some(away)) => away.hash(number).unwrap_or(0),
            _ => 0,
        }
    }

    /// The numbers of all values.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        let is_there = |number: &u32| {
            let is_away = || self.away.as_ref().is_some_and(|away| away.has(*number));
            self.slots[*number as usize].is_some() || is_away()
        };
        (0..self.slots.len() as u32).filter(is_there)
    }

    fn changes(&mut self, slot: usize) {
        if let Some(away) = &mut self.away {
            away.expiry.changes(slot);
        }
    }

    #[inline]
    fn take_back(&mut self, number: u32) {
        if let Some(away) = &mut self.away
            && let Some(slot @ None) = self.slots.get_mut(number as usize)
        {
            *slot = away.take(number);
        }
    }

    pub(super) fn clear(&mut self) {
        let slots = &self.slots;
        self.noted.clear(&mut |slot, out| write_slot(slots, slot, out));
        self.slots.clear();
        self.free.clear();
        self.away.iter_mut().for_each(|away| away.clear());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(number, slot)| {
            let away = || self.away.as_ref()?.get(number as u32);
            slot.as_ref().or_else(away).map(|value| (number as u32, value))
        })
    }

    /// Hands all values to `look`, for a snapshot. Evicted values stay evicted.
    pub(super) fn show(&self, look: &mut dyn FnMut(&T) -> ControlFlow<()>) {
        let one = |(number, slot): (usize, &Option<T>)| match (slot, &self.away) {
            (Some(value), _) => look(value),
            (None, Some(away)) => {
                away.show(number as u32, &mut *look).unwrap_or(ControlFlow::Continue(()))
            }
            (None, None) => ControlFlow::Continue(()),
        };
        // Who has seen enough ends it.
        let _ended = self.slots.iter().enumerate().try_for_each(one);
    }

    /// Lets values leave memory from now on.
    pub(super) fn expires(&mut self, saved: SavedRows) {
        self.away = Some(Box::new(EvictedValues::new(Expiry::new(saved))));
    }

    pub(super) fn begin_expiry(&mut self) {
        if let Some(away) = &mut self.away {
            away.expiry.begin(self.slots.len(), &self.noted);
        }
    }

    /// Evicts at most `most` of the selected values, keeping their hashes, and subtracts their
    /// number from `most`. Returns true once all have left.
    pub(super) fn expire(&mut self, most: &mut usize, hash_of: impl Fn(&T) -> u64) -> bool {
        let Self { slots, away: Some(away), .. } = self else { return true };
        while *most > 0 {
            let Some(slot) = away.expiry.next_to_leave() else { return true };
            *most -= 1;
            match slots.get_mut(slot).and_then(Option::take) {
                Some(value) => away.leave(slot as u32, hash_of(&value)),
                None => away.leave_again(slot as u32),
            }
        }
        false
    }

    /// Restores a value, into memory if there is room, else as evicted.
    pub(super) fn restore_with(
        &mut self,
        (key, value): (&[u8], &[u8]),
        hash_of: impl FnOnce(&T) -> u64,
    ) -> Result<(), SavedError> {
        let stays = self.away.as_mut().is_none_or(|away| away.expiry.restores(value.len()));
        self.restore(key, value)?;
        if let (false, Some(away)) = (stays, &mut self.away) {
            let slot = self.slots.len() - 1;
            if let Some(value) = self.slots[slot].take() {
                away.leave(slot as u32, hash_of(&value));
            }
        }
        Ok(())
    }
}

fn write_slot<T: Plain>(slots: &[Option<T>], slot: usize, out: &mut Vec<u8>) -> bool {
    let value = slots.get(slot).and_then(Option::as_ref);
    value.inspect(|value| write_own(*value, slot, out)).is_some()
}

impl<T: Plain> Structure for Slab<T> {
    fn memory(&self) -> usize {
        let of = |slot: usize| self.slots[slot].as_ref().map_or(0, beside);
        self.slots.capacity() * size_of::<Option<T>>()
            + sampled(self.slots.len(), of)
            + self.free.capacity() * size_of::<u32>()
            + self.noted.memory()
            + self.away.as_ref().map_or(0, |away| away.memory())
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
