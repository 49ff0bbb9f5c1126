//! One direction of a connection: bytes in their order, each piece with the moment of its arrival.
//!
//! ```text
//! writer ─▶ waiting (no way) ─▶ in flight (arrives later) ─▶ arrived ─▶ reader
//!           └──────────── held: counts against the buffer ────────────┘
//! ```
//!
//! Invariants: pieces neither overtake each other nor change, and those that wait for a way are
//! behind all others. Nothing here knows a clock, a host or a lock.

use std::collections::VecDeque;

/// The content of a segment.
#[derive(Debug)]
pub(super) enum Payload {
    Bytes(Vec<u8>),
    /// The writer's end is closed.
    End,
    /// The connection is broken.
    Reset,
}

#[derive(Debug)]
struct NetSegment {
    payload: Payload,
    /// None: it has no way yet.
    arrival_us: Option<u64>,
}

/// The result of reading a pipe.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Bytes(usize),
    End,
    Reset,
    /// Nothing has arrived. Something will at that moment, if it is known.
    Nothing(Option<u64>),
}

#[derive(Debug, Default)]
pub(super) struct BytePipe {
    segments: VecDeque<NetSegment>,
    /// Bytes read so far of the first segment.
    taken_bytes: usize,
    /// Bytes that fill the buffer.
    held_bytes: usize,
    /// Those of them that were read, and that the writer is not told of.
    unacknowledged_bytes: usize,
    last_arrival_us: u64,
    /// The moment from which on the writer has heard nothing of bytes it sent.
    pub(super) stalled_since_us: Option<u64>,
}

impl BytePipe {
    /// Adds a segment that arrives at this moment, or after the one before it.
    pub(super) fn push(&mut self, payload: Payload, arrival_us: Option<u64>) {
        let is_behind_waiting = self.segments.back().is_some_and(|it| it.arrival_us.is_none());
        let arrival_us = arrival_us.filter(|_| !is_behind_waiting);
        if let Payload::Bytes(bytes) = &payload {
            self.held_bytes += bytes.len();
        }
        let arrival_us = arrival_us.map(|it| it.max(self.last_arrival_us));
        self.last_arrival_us = arrival_us.unwrap_or(self.last_arrival_us);
        self.segments.push_back(NetSegment { payload, arrival_us });
    }

    /// Reads bytes that have arrived. Their room is free again, or with the acknowledgement.
    pub(super) fn read(&mut self, into: &mut [u8], now_us: u64, acknowledges: bool) -> Arrival {
        let mut filled = 0;
        while filled < into.len() {
            let Some(first) = self.segments.front() else { break };
            if first.arrival_us.is_none_or(|it| it > now_us) {
                break;
            }
            let bytes = match &first.payload {
                Payload::Bytes(bytes) => bytes,
                Payload::End if filled == 0 => return Arrival::End,
                Payload::Reset if filled == 0 => return Arrival::Reset,
                Payload::End | Payload::Reset => break,
            };
            let left = &bytes[self.taken_bytes..];
            let count = left.len().min(into.len() - filled);
            into[filled..filled + count].copy_from_slice(&left[..count]);
            filled += count;
            self.taken_bytes += count;
            if self.taken_bytes == bytes.len() {
                self.taken_bytes = 0;
                self.segments.pop_front();
            }
        }
        if filled == 0 {
            return Arrival::Nothing(self.segments.front().and_then(|it| it.arrival_us));
        }
        if acknowledges {
            self.held_bytes -= filled;
        } else {
            self.unacknowledged_bytes += filled;
        }
        Arrival::Bytes(filled)
    }

    /// The bytes that may still be sent with a buffer of this size.
    pub(super) fn room(&self, buffer_bytes: usize) -> usize {
        buffer_bytes.saturating_sub(self.held_bytes)
    }

    /// The acknowledgements that were withheld arrive.
    pub(super) fn acknowledge(&mut self) {
        self.held_bytes -= std::mem::take(&mut self.unacknowledged_bytes);
        self.stalled_since_us = None;
    }

    /// The arrival of a reset.
    pub(super) fn reset_us(&self) -> Option<u64> {
        let is_reset = |it: &&NetSegment| matches!(it.payload, Payload::Reset);
        self.segments.iter().rev().find(is_reset).and_then(|it| it.arrival_us)
    }

    /// True if bytes have arrived that nobody has read.
    pub(super) fn has_arrived(&self, now_us: u64) -> bool {
        let first = self.segments.front();
        first.is_some_and(|it| {
            matches!(it.payload, Payload::Bytes(_)) && it.arrival_us.is_some_and(|at| at <= now_us)
        })
    }

    /// The next arrival of bytes that are in flight.
    pub(super) fn in_flight_us(&self, now_us: u64) -> Option<u64> {
        let bytes = self.segments.iter().filter(|it| matches!(it.payload, Payload::Bytes(_)));
        bytes.filter_map(|it| it.arrival_us).find(|it| *it > now_us)
    }

    /// The way is cut: what is in flight waits. A reset is not sent again.
    pub(super) fn stall(&mut self, now_us: u64) {
        let is_flying = |it: &NetSegment| it.arrival_us.is_none_or(|at| at > now_us);
        self.segments.retain(|it| !(is_flying(it) && matches!(it.payload, Payload::Reset)));
        for segment in self.segments.iter_mut().filter(|it| is_flying(it)) {
            segment.arrival_us = None;
        }
        self.last_arrival_us = self.last_arrival_us.min(now_us);
    }

    /// There is a way again: what waits arrives from this moment on.
    pub(super) fn resume(&mut self, arrival_us: u64) {
        let arrival_us = arrival_us.max(self.last_arrival_us);
        for segment in self.segments.iter_mut().filter(|it| it.arrival_us.is_none()) {
            segment.arrival_us = Some(arrival_us);
            self.last_arrival_us = arrival_us;
        }
    }

    /// True if bytes wait for a way.
    pub(super) fn has_waiting(&self) -> bool {
        self.segments.back().is_some_and(|it| it.arrival_us.is_none())
    }

    /// Loses what waits for a way.
    pub(super) fn lose_waiting(&mut self) {
        self.lose(|arrival_us| arrival_us.is_none());
    }

    /// Loses what has not arrived.
    pub(super) fn lose_unarrived(&mut self, now_us: u64) {
        self.lose(|arrival_us| arrival_us.is_none_or(|it| it > now_us));
    }

    /// Loses what has arrived and was not read.
    pub(super) fn lose_arrived(&mut self, now_us: u64) {
        self.lose(|arrival_us| arrival_us.is_some_and(|it| it <= now_us));
    }

    fn lose(&mut self, is_lost: impl Fn(Option<u64>) -> bool) {
        let first_is_lost = self.segments.front().is_some_and(|it| is_lost(it.arrival_us));
        let mut lost_bytes = 0;
        self.segments.retain(|it| {
            let lost = is_lost(it.arrival_us);
            if let (true, Payload::Bytes(bytes)) = (lost, &it.payload) {
                lost_bytes += bytes.len();
            }
            !lost
        });
        if first_is_lost {
            lost_bytes -= std::mem::take(&mut self.taken_bytes);
        }
        self.held_bytes -= lost_bytes;
    }
}

#[cfg(test)]
mod tests;
