//! The window, epochs and wrap-around, and a comparison with a model that remembers everything.

use super::*;
use proptest::prelude::*;

fn chunk(epoch: i16, first: i32, count: i32) -> Sequenced {
    let last = sequence_after(first, count - 1);
    Sequenced { producer_id: 7, epoch, first, last, timestamp_ms: 1, transactional: false }
}

/// Checks a chunk and, if it is new, takes it at the next offsets.
fn send(producers: &mut Producers, next: &mut i64, chunk: Sequenced) -> Result<i64, SequenceError> {
    match producers.check(&chunk, false)? {
        SequenceDecision::Repeated(taken) => Ok(taken.base_offset),
        SequenceDecision::Append => {
            let count = i64::from(chunk.last.wrapping_sub(chunk.first) & i32::MAX) + 1;
            let base = *next;
            *next += count;
            producers.take(&chunk, (base, *next - 1), 0);
            Ok(base)
        }
    }
}

#[test]
fn r1_r2_each_of_the_last_five_is_recognized_and_the_sixth_is_out_of_order() {
    let (mut producers, mut next) = (Producers::default(), 100);
    let sent: Vec<i64> =
        (0..7).map(|at| send(&mut producers, &mut next, chunk(0, at * 3, 3)).unwrap()).collect();
    for at in 2..7 {
        let again = send(&mut producers, &mut next, chunk(0, at * 3, 3));
        assert_eq!(again, Ok(sent[at as usize]), "chunk {at} has its old offset");
    }
    for at in 0..2 {
        let again = send(&mut producers, &mut next, chunk(0, at * 3, 3));
        assert!(matches!(again, Err(SequenceError::OutOfOrder { expected: 21, .. })));
    }
    assert_eq!(next, 121, "nothing was appended twice");
}

#[test]
fn a_chunk_that_overlaps_what_was_taken_is_no_repetition() {
    let (mut producers, mut next) = (Producers::default(), 0);
    send(&mut producers, &mut next, chunk(0, 0, 4)).unwrap();
    for (first, count) in [(0, 3), (0, 5), (1, 3), (3, 1), (5, 1)] {
        let outcome = send(&mut producers, &mut next, chunk(0, first, count));
        let expected = SequenceError::OutOfOrder { producer_id: 7, expected: 4, found: first };
        assert_eq!(outcome, Err(expected));
    }
}

#[test]
fn numbers_go_on_at_zero_after_the_last() {
    let (mut producers, mut next) = (Producers::default(), 0);
    send(&mut producers, &mut next, chunk(0, i32::MAX - 1, 2)).unwrap();
    assert_eq!(send(&mut producers, &mut next, chunk(0, 0, 5)), Ok(2));
    let (mut producers, mut next) = (Producers::default(), 0);
    let across = chunk(0, i32::MAX - 1, 5);
    assert_eq!(across.last, 2);
    send(&mut producers, &mut next, across).unwrap();
    assert_eq!(send(&mut producers, &mut next, across), Ok(0), "repeated");
    assert_eq!(send(&mut producers, &mut next, chunk(0, 3, 1)), Ok(5));
}

#[test]
fn an_epoch_begins_at_zero_and_ends_those_before() {
    let (mut producers, mut next) = (Producers::default(), 0);
    send(&mut producers, &mut next, chunk(3, 9, 1)).unwrap();
    let outcome = send(&mut producers, &mut next, chunk(4, 10, 1));
    assert!(matches!(outcome, Err(SequenceError::OutOfOrder { expected: 0, found: 10, .. })));
    assert_eq!(send(&mut producers, &mut next, chunk(4, 0, 1)), Ok(1));
    let outcome = send(&mut producers, &mut next, chunk(3, 9, 1));
    assert_eq!(outcome, Err(SequenceError::OldEpoch { producer_id: 7, epoch: 3, current: 4 }));
}

#[test]
fn k2_the_end_of_a_transaction_ends_the_epochs_before_its_own() {
    let (mut producers, mut next) = (Producers::default(), 0);
    send(&mut producers, &mut next, chunk(3, 0, 2)).unwrap();
    producers.end(ProducerIdentity { id: 7, epoch: 4 }, 0);
    let late = send(&mut producers, &mut next, chunk(3, 2, 1));
    assert!(matches!(late, Err(SequenceError::OldEpoch { .. })));
    assert_eq!(send(&mut producers, &mut next, chunk(4, 0, 1)), Ok(2));
}

#[test]
fn a_marker_of_the_same_epoch_leaves_the_numbers_as_they_are() {
    let (mut producers, mut next) = (Producers::default(), 0);
    send(&mut producers, &mut next, chunk(3, 0, 2)).unwrap();
    producers.end(ProducerIdentity { id: 7, epoch: 3 }, 0);
    assert_eq!(send(&mut producers, &mut next, chunk(3, 0, 2)), Ok(0), "still recognized");
    assert_eq!(send(&mut producers, &mut next, chunk(3, 2, 1)), Ok(2));
}

#[test]
fn a_producer_that_is_not_known_may_begin_anywhere_unless_its_epoch_is_new_each_time() {
    let producers = Producers::default();
    assert_eq!(producers.check(&chunk(0, 55, 1), false), Ok(SequenceDecision::Append));
    assert_eq!(producers.check(&chunk(0, 0, 1), true), Ok(SequenceDecision::Append));
    assert!(producers.check(&chunk(0, 55, 1), true).is_err());
}

#[test]
fn the_idle_go_first_and_those_with_a_transaction_never() {
    let mut producers = Producers::default();
    for id in 0..100 {
        let one = Sequenced { producer_id: id, ..chunk(0, 0, 1) };
        producers.take(&one, (id, id), 1000 + id as u64);
    }
    let mut open = producers.get(0).unwrap().clone();
    open.open = Some(0);
    producers.put(0, open);
    producers.bound(100);
    assert_eq!(producers.len(), 100);
    producers.bound(50);
    assert!(producers.len() <= 50 && producers.len() > 40);
    assert!(producers.get(0).is_some(), "it has a transaction");
    assert!(producers.get(1).is_none() && producers.get(99).is_some());
    producers.expire(1099);
    let left: Vec<i64> = producers.list().iter().map(|(id, _)| *id).collect();
    assert_eq!(left, [0, 99]);
}

/// What a model that remembers all chunks ever taken would say.
#[derive(Default)]
struct Model {
    epoch: Option<i16>,
    taken: Vec<TakenChunk>,
}

impl Model {
    fn send(&mut self, chunk: Sequenced, next: &mut i64) -> Result<i64, ()> {
        if self.epoch.is_some_and(|it| chunk.epoch < it) {
            return Err(());
        }
        if self.epoch != Some(chunk.epoch) {
            if self.epoch.is_some() && chunk.first != 0 {
                return Err(());
            }
        } else {
            let known = self.taken.iter().rev().take(WINDOW);
            let mut same = known.filter(|it| (it.first, it.last) == (chunk.first, chunk.last));
            if let Some(same) = same.next() {
                return Ok(same.base_offset);
            }
            let last = self.taken.last().map_or(-1, |it| i64::from(it.last));
            if i64::from(chunk.first) != (last + 1) % (1 << 31) {
                return Err(());
            }
        }
        if self.epoch != Some(chunk.epoch) {
            self.taken.clear();
            self.epoch = Some(chunk.epoch);
        }
        let count = (i64::from(chunk.last) - i64::from(chunk.first)).rem_euclid(1 << 31) + 1;
        let (base_offset, last_offset) = (*next, *next + count - 1);
        *next += count;
        self.taken.push(TakenChunk {
            first: chunk.first,
            last: chunk.last,
            base_offset,
            last_offset,
        });
        Ok(base_offset)
    }
}

proptest! {
    #[test]
    fn it_says_what_a_model_says_that_remembers_everything(
        start in prop_oneof![Just(0), Just(i32::MAX - 6)],
        steps in prop::collection::vec((0i16..3, -8i32..3, 1i32..4), 1..60),
    ) {
        let (mut producers, mut next) = (Producers::default(), 0);
        let (mut model, mut model_next) = (Model::default(), 0);
        let mut at = start;
        for (epoch, back, count) in steps {
            let first = if back == -8 { 0 } else { at.wrapping_add(back) & i32::MAX };
            let one = chunk(epoch, first, count);
            let said = send(&mut producers, &mut next, one);
            prop_assert_eq!(said.map_err(|_| ()), model.send(one, &mut model_next));
            prop_assert_eq!(next, model_next);
            let producer = producers.get(7).unwrap();
            prop_assert!(producer.taken.len() <= WINDOW);
            if producer.last_sequence() >= 0 {
                at = sequence_after(producer.last_sequence(), 1);
            }
        }
    }
}
