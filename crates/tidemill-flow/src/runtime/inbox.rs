//! The inbox of a lane: its unprocessed input, by cycle.
//!
//! ```text
//!            input 0     input 1     …        an input is one upstream lane of one link
//! cycle c    blocks      blocks               complete: every input sent its end of c
//! cycle c+1  blocks      (missing)
//! ```
//!
//! - A cycle is complete when every input has sent its end, or had ended before.
//! - Inputs are ordered by link, then by upstream lane, which is the order of upstream slices:
//!   joined in that order, blocks are in the one order that every run has.
//! - A second end of the same cycle from the same input is refused: each cycle is applied once.

use crate::block::Block;
use std::{collections::VecDeque, sync::Arc};
use tidemill_types::{Cycle, Micros};

#[cfg(test)]
mod tests;

/// A block and the bytes that it counts on its link, for this lane.
pub(crate) type Parcel = (Arc<Block>, u64);

/// The end of a cycle, as an upstream lane sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CycleEnd {
    /// The cycle that ends.
    pub(crate) cycle: Cycle,
    /// Its recorded time.
    pub(crate) time: Micros,
    /// The upstream's watermark as of its end.
    pub(crate) watermark: Micros,
    /// No more comes from this input.
    pub(crate) ended: bool,
}

/// The input of one cycle.
#[derive(Debug, Default)]
pub(crate) struct CycleSlot {
    /// By input.
    pub(crate) parcels: Vec<Vec<Parcel>>,
    /// By input: the watermark as of the end of the cycle.
    pub(crate) watermarks: Vec<Micros>,
    /// By input: true if it ended with this cycle or before.
    pub(crate) ended: Vec<bool>,
    /// The recorded time of the cycle.
    pub(crate) time: Micros,
    arrived: Vec<bool>,
}

/// The unprocessed input of a lane.
#[derive(Debug)]
pub(crate) struct Inbox {
    next: Cycle,
    inputs: usize,
    ended_with: Vec<Option<Cycle>>,
    slots: VecDeque<CycleSlot>,
    spare: Vec<CycleSlot>,
}

/// A sender broke the rules of a link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InboxError {
    /// The cycle was ended before, by this input.
    #[error("input {input} sent cycle {cycle} twice")]
    Duplicate { input: usize, cycle: Cycle },
    /// The input said that it had ended, and then sent more.
    #[error("input {input} sent cycle {cycle} after its end")]
    AfterEnd { input: usize, cycle: Cycle },
}

impl Inbox {
    /// An inbox of `inputs` inputs whose first cycle is `next`.
    pub(crate) fn new(inputs: usize, next: Cycle) -> Self {
        let ended_with = vec![None; inputs];
        Self { next, inputs, ended_with, slots: VecDeque::new(), spare: Vec::new() }
    }

    /// The cycle to be processed next.
    pub(crate) fn next(&self) -> Cycle {
        self.next
    }

    /// Notes that an input had ended before the first cycle of this inbox.
    pub(crate) fn ended_before(&mut self, input: usize) {
        self.ended_with[input] = Some(Cycle(self.next.0 - 1));
    }

    /// By input: the cycle with which it ended.
    pub(crate) fn ended_with(&self) -> &[Option<Cycle>] {
        &self.ended_with
    }

    fn slot(&mut self, cycle: Cycle) -> &mut CycleSlot {
        let index = (cycle.0 - self.next.0) as usize;
        while self.slots.len() <= index {
            let mut slot = self.spare.pop().unwrap_or_default();
            slot.reset(self.inputs);
            self.slots.push_back(slot);
        }
        &mut self.slots[index]
    }

    /// Takes the blocks and the end of one cycle of one input. A cycle that was processed before
    /// is dropped (the duplicate filter of ChronoStream III-B) and its blocks stay in `parcels`.
    pub(crate) fn receive(
        &mut self,
        input: usize,
        end: CycleEnd,
        parcels: &mut Vec<Parcel>,
    ) -> Result<(), InboxError> {
        if end.cycle < self.next {
            return Ok(());
        }
        if self.ended_with[input].is_some_and(|last| last < end.cycle) {
            return Err(InboxError::AfterEnd { input, cycle: end.cycle });
        }
        debug_assert!(
            self.ended_with[input].is_none_or(|last| last >= end.cycle),
            "an input that has ended sends nothing"
        );
        let slot = self.slot(end.cycle);
        if std::mem::replace(&mut slot.arrived[input], true) {
            return Err(InboxError::Duplicate { input, cycle: end.cycle });
        }
        slot.parcels[input].append(parcels);
        slot.watermarks[input] = end.watermark;
        slot.time = slot.time.max(end.time);
        if end.ended {
            self.ended_with[input] = Some(end.cycle);
        }
        Ok(())
    }

    /// Returns true if the next cycle can be processed.
    pub(crate) fn is_ready(&self) -> bool {
        let gone = |input: usize| self.ended_with[input].is_some_and(|last| last < self.next);
        match self.slots.front() {
            Some(slot) => {
                let complete = (0..self.inputs).all(|input| slot.arrived[input] || gone(input));
                complete && slot.arrived.contains(&true)
            }
            None => false,
        }
    }

    /// Takes the next cycle out.
    ///
    /// # Panics
    /// Panics unless [`Self::is_ready`].
    pub(crate) fn begin(&mut self) -> (Cycle, CycleSlot) {
        assert!(self.is_ready(), "a cycle is begun when it is complete");
        let mut slot = self.slots.pop_front().expect("a ready inbox has a slot");
        let cycle = self.next;
        debug_assert_eq!(slot.parcels.len(), self.inputs, "a slot has a place for each input");
        for input in 0..self.inputs {
            slot.ended[input] = self.ended_with[input].is_some_and(|last| last <= cycle);
            if self.ended_with[input].is_some_and(|last| last < cycle) {
                slot.watermarks[input] = Micros::MAX;
            }
        }
        self.next = cycle.next();
        (cycle, slot)
    }

    /// Gives an emptied slot back, so that its memory is used again.
    pub(crate) fn recycle(&mut self, slot: CycleSlot) {
        if self.spare.len() < 8 {
            self.spare.push(slot);
        }
    }
}

impl CycleSlot {
    fn reset(&mut self, inputs: usize) {
        self.parcels.iter_mut().for_each(Vec::clear);
        self.parcels.resize_with(inputs, Vec::new);
        self.watermarks.clear();
        self.watermarks.resize(inputs, Micros::MIN);
        self.ended.clear();
        self.ended.resize(inputs, false);
        self.arrived.clear();
        self.arrived.resize(inputs, false);
        self.time = Micros(0);
    }
}
