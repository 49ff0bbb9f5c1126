//! The oldest goes first, and every dropped record is counted.

use super::*;
use crate::rows::Rows;

fn rows(first: u8, count: usize) -> Payload {
    let mut rows = Rows::default();
    (0..count).for_each(|_| rows.push(&[first]));
    Payload::Rows(rows)
}

fn first_byte(read: Option<Read>) -> Option<u8> {
    match read? {
        Read::Rows { payload: Payload::Rows(rows), .. } => Some(rows.get(0)[0]),
        _ => None,
    }
}

#[test]
fn the_oldest_is_dropped_and_counted() {
    let mut shed = Shed::default();
    assert_eq!(shed.keep(rows(1, 3), 40, 100), 0);
    assert_eq!(shed.keep(rows(2, 5), 40, 100), 0);
    assert_eq!(shed.keep(rows(3, 7), 40, 100), 3);
    assert_eq!(shed.keep(rows(4, 1), 90, 100), 12);
    assert_eq!(first_byte(shed.next()), Some(4));
    assert!(shed.next().is_none());
    shed.ended = true;
    assert!(matches!(shed.next(), Some(Read::End)));
}

#[test]
fn a_buffer_larger_than_the_bound_is_dropped_itself() {
    let mut shed = Shed::default();
    assert_eq!(shed.keep(rows(1, 9), 101, 100), 9);
    assert!(shed.next().is_none());
}
