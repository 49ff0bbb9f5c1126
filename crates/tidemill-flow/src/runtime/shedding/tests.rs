//! The oldest goes first, every dropped record is counted, and what is kept was not read yet.

use super::*;
use crate::rows::Rows;
use tidemill_types::{Cycle, SliceId};

fn letter() -> DeadLetter {
    let (stage, position, reason) = Default::default();
    DeadLetter { stage, cycle: Cycle(1), slice: SliceId(0), position, reason, record: Vec::new() }
}

/// So many rows of `first`, and as many bad ones as are said; the source was at `first` before.
fn kept(first: u8, (rows, bad): (usize, usize), bytes: usize) -> ShedRead {
    let mut payload = Rows::default();
    (0..rows).for_each(|_| payload.push(&[first]));
    let before = (Position(u64::from(first)), Micros(i64::from(first)));
    let letters = (0..bad).map(|_| letter()).collect();
    ShedRead { before, payload: Payload::Rows(payload), bytes, letters }
}

fn first_byte(kept: Option<ShedRead>) -> Option<u8> {
    match kept?.payload {
        Payload::Rows(rows) => Some(rows.get(0)[0]),
        Payload::Arrow(_) => None,
    }
}

#[test]
fn the_oldest_is_dropped_and_counted() {
    let mut shed = ShedBuffer::default();
    assert_eq!(shed.keep(kept(1, (3, 0), 40), 100), 0);
    assert_eq!(shed.keep(kept(2, (5, 2), 40), 100), 0);
    assert_eq!(shed.keep(kept(3, (7, 1), 40), 100), 3);
    assert_eq!(shed.keep(kept(4, (1, 0), 90), 100), 5 + 2 + 7 + 1);
    assert_eq!(first_byte(shed.next()), Some(4));
    assert!(shed.next().is_none());
}

#[test]
fn a_buffer_larger_than_the_bound_is_dropped_itself() {
    let mut shed = ShedBuffer::default();
    assert_eq!(shed.keep(kept(1, (9, 0), 101), 100), 9);
    assert!(shed.next().is_none());
}

#[test]
fn the_source_stands_before_what_is_kept() {
    let mut shed = ShedBuffer::default();
    assert_eq!(shed.cursor(), None);
    for first in 1..=3 {
        shed.keep(kept(first, (1, 0), 40), 80);
    }
    assert_eq!(shed.cursor(), Some((Position(2), Micros(2))), "what was dropped was read");
    let taken = shed.next().expect("one is kept");
    assert_eq!(shed.cursor(), Some((Position(3), Micros(3))));
    shed.put_back(taken);
    assert_eq!(first_byte(shed.next()), Some(2), "it is the oldest still");
    assert_eq!(first_byte(shed.next()), Some(3));
    assert_eq!((shed.cursor(), shed.bytes), (None, 0));
}
