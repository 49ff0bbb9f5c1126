//! Order, sequence numbers and time, with no socket in sight.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_types::{ProducerEpoch, ProducerId};
use tidemill_wire::chunk::ChunkHead;

const ONE: ProducerIdentity = ProducerIdentity { id: ProducerId(1), epoch: ProducerEpoch(0) };
const TWO: ProducerIdentity = ProducerIdentity { id: ProducerId(2), epoch: ProducerEpoch(0) };

fn rules() -> QueueRules {
    QueueRules {
        idempotent: true,
        compression: Compression::NONE,
        linger_us: 5_000,
        batch_bytes: 200,
        in_flight: 5,
        delivery_timeout_us: 1_000_000,
    }
}

fn record(value: &[u8]) -> NewRecord<'_> {
    NewRecord { value: Some(value), ..NewRecord::default() }
}

fn append(queue: &mut ChunkQueue, value: &[u8], now_us: u64) -> Appended {
    queue.append(&record(value), 1, &mut None, || now_us, |_| true).unwrap()
}

fn head(bytes: &[u8]) -> ChunkHead {
    ChunkHead::check(bytes).unwrap()
}

fn nobody() -> Delivered {
    Delivered { streamlet: 0, offset: None, append_time_ms: None }
}

fn answer(
    queue: &mut ChunkQueue,
    serial: u64,
    answer_policy: AnswerDecision,
) -> Option<FinishedChunk> {
    queue.answered(serial, answer_policy, nobody(), ProduceError::Closed, |_| 0)
}

const AGAIN: AnswerDecision = AnswerDecision::Again { refresh: false };

#[test]
fn a_chunk_lingers_unless_it_is_full() {
    let mut queue = ChunkQueue::new(rules());
    assert_eq!(queue.readiness(0), Readiness::Idle);
    assert_eq!(append(&mut queue, b"a", 100), Appended::Yes { first: true });
    assert_eq!(append(&mut queue, b"b", 200), Appended::Yes { first: false });
    assert_eq!(queue.readiness(100), Readiness::At(5_100));
    assert_eq!(queue.readiness(5_100), Readiness::Ready);
    while !queue.has_closed() {
        append(&mut queue, &[0; 20], 300);
    }
    assert_eq!(queue.readiness(300), Readiness::Ready, "a closed chunk waits for nobody");
    let (serial, bytes) = queue.next(300, Some(ONE), usize::MAX).unwrap();
    assert_eq!(serial, 0);
    assert!(bytes.len() <= 200);
    assert_eq!((head(&bytes).producer_id, head(&bytes).base_sequence), (1, 0));
}

#[test]
fn a_long_record_is_a_chunk_of_its_own() {
    let mut queue = ChunkQueue::new(rules());
    append(&mut queue, b"a", 0);
    assert_eq!(append(&mut queue, &[7; 1000], 0), Appended::Yes { first: true });
    let counts: Vec<i32> = (0..2)
        .map(|_| head(&queue.next(0, Some(ONE), usize::MAX).unwrap().1).record_count)
        .collect();
    assert_eq!(counts, [1, 1]);
    assert_eq!(queue.next(0, Some(ONE), usize::MAX), Err(NotNow::NotReady));
}

#[test]
fn without_room_nothing_is_taken() {
    let mut queue = ChunkQueue::new(rules());
    let mut done: Option<DeliveryCallback> = Some(Box::new(|_| ()));
    let outcome = queue.append(&record(b"a"), 1, &mut done, || 0, |_| false);
    assert_eq!(outcome, Ok(Appended::NoRoom));
    assert!(done.is_some() && !queue.is_moving() && queue.is_between_chunks());
}

#[test]
fn timestamps_too_far_apart_share_no_chunk() {
    let mut queue = ChunkQueue::new(rules());
    for timestamp_ms in [i64::MIN, i64::MAX] {
        let appended = queue.append(&record(b"a"), timestamp_ms, &mut None, || 0, |_| true);
        assert_eq!(appended, Ok(Appended::Yes { first: true }));
    }
    assert_eq!(queue.serials(), (0, 2));
}

fn three_chunks() -> ChunkQueue {
    let mut queue = ChunkQueue::new(rules());
    for value in [b"a", b"b", b"c"] {
        append(&mut queue, value, 0);
        queue.close();
    }
    queue
}

#[test]
fn what_is_sent_again_goes_before_what_comes_after_and_under_its_number() {
    let mut queue = three_chunks();
    let first = queue.next(0, Some(ONE), usize::MAX).unwrap();
    let second = queue.next(0, Some(ONE), usize::MAX).unwrap();
    assert!(answer(&mut queue, first.0, AGAIN).is_none());
    assert_eq!(queue.readiness(0), Readiness::Idle, "one is under way yet");
    let facts = queue.facts(second.0).unwrap();
    assert_eq!(facts, ChunkFacts { stamped: true, first: false });
    assert!(answer(&mut queue, second.0, AGAIN).is_none());
    for sequence in 0..3 {
        let (serial, bytes) = queue.next(0, Some(ONE), usize::MAX).unwrap();
        assert_eq!(head(&bytes).base_sequence, sequence);
        if sequence < 2 {
            assert_eq!(queue.readiness(0), Readiness::Idle, "alone");
        }
        assert!(answer(&mut queue, serial, AnswerDecision::Delivered).is_some());
    }
}

#[test]
fn a_new_identity_begins_anew_once_nothing_is_under_way() {
    let mut queue = three_chunks();
    let sent: Vec<u64> = (0..3).map(|_| queue.next(0, Some(ONE), usize::MAX).unwrap().0).collect();
    assert!(answer(&mut queue, sent[0], AnswerDecision::Delivered).is_some());
    assert!(answer(&mut queue, sent[1], AnswerDecision::NewIdentity).is_none());
    assert_eq!(queue.next(0, Some(TWO), usize::MAX), Err(NotNow::NotReady));
    assert!(answer(&mut queue, sent[2], AGAIN).is_none());
    let needs = Err(NotNow::NeedsIdentity(Some(ONE)));
    assert_eq!(queue.next(0, Some(ONE), usize::MAX), needs, "not the same again");
    assert_eq!(queue.next(0, None, usize::MAX), needs);
    for sequence in 0..2 {
        let head = head(&queue.next(0, Some(TWO), usize::MAX).unwrap().1);
        assert_eq!((head.producer_id, head.base_sequence), (2, sequence));
    }
}

#[test]
fn what_waits_too_long_is_given_up_and_leaves_no_gap() {
    let mut queue = three_chunks();
    let (serial, _) = queue.next(0, Some(ONE), usize::MAX).unwrap();
    assert!(answer(&mut queue, serial, AGAIN).is_none());
    append(&mut queue, b"d", 900_000);
    let timed_out = |last: &str, _| {
        assert_eq!(last, ProduceError::Closed.to_string());
        ProduceError::Closed
    };
    assert!(queue.expire(999_999, timed_out).is_empty());
    let expired = queue.expire(1_000_000, timed_out);
    let serials: Vec<u64> = expired.iter().map(|it| it.chunk.serial).collect();
    assert_eq!(serials, [0, 1, 2]);
    assert_eq!(
        queue.next(1_000_000, Some(ONE), usize::MAX),
        Err(NotNow::NeedsIdentity(Some(ONE))),
        "a number was given out that the log may or may not have"
    );
    let head = head(&queue.next(1_000_000, Some(TWO), usize::MAX).unwrap().1);
    assert_eq!((head.producer_id, head.base_sequence), (2, 0));
}

#[test]
fn sequence_numbers_go_round() {
    assert_eq!(after(5, 3), 8);
    assert_eq!(after(i32::MAX, 1), 0);
    assert_eq!(after(i32::MAX - 2, 10), 7);
}

#[test]
fn a_chunk_that_is_longer_than_the_room_waits() {
    let mut queue = three_chunks();
    assert_eq!(queue.next(0, Some(ONE), 10), Err(NotNow::TooLong));
    assert!(queue.next(0, Some(ONE), 100).is_ok());
}

#[test]
fn what_may_be_in_the_log_keeps_its_number_when_one_before_it_is_given_up() {
    for is_there in [true, false] {
        let mut queue = ChunkQueue::new(rules());
        for (value, born_us) in [(b"a", 0), (b"b", 500_000), (b"c", 500_000)] {
            append(&mut queue, value, born_us);
            queue.close();
        }
        let first = queue.next(500_000, Some(ONE), usize::MAX).unwrap();
        let second = queue.next(500_000, Some(ONE), usize::MAX).unwrap();
        // Both are written, or none, and no answer comes.
        assert!(answer(&mut queue, first.0, AGAIN).is_none());
        assert!(answer(&mut queue, second.0, AGAIN).is_none());
        assert_eq!(queue.expire(1_000_000, |_, _| ProduceError::Closed).len(), 1);
        let again = queue.next(1_000_000, Some(TWO), usize::MAX).unwrap();
        assert_eq!(again, second, "as it was");
        assert_eq!(queue.next(1_000_000, Some(TWO), usize::MAX), Err(NotNow::NotReady), "alone");
        let mut left = vec![];
        if is_there {
            assert!(answer(&mut queue, again.0, AnswerDecision::Known).is_some());
        } else {
            assert!(queue.facts(again.0).unwrap().first);
            assert!(answer(&mut queue, again.0, AnswerDecision::NewIdentity).is_none());
            left.push(b'b');
        }
        left.push(b'c');
        let needs = Err(NotNow::NeedsIdentity(Some(ONE)));
        assert_eq!(queue.next(1_000_000, Some(ONE), usize::MAX), needs);
        for (sequence, value) in (0..).zip(left) {
            let (serial, bytes) = queue.next(1_000_000, Some(TWO), usize::MAX).unwrap();
            let head = head(&bytes);
            assert_eq!((head.producer_id, head.base_sequence), (2, sequence));
            assert_eq!(bytes[bytes.len() - 2], value);
            assert!(answer(&mut queue, serial, AnswerDecision::Delivered).is_some());
        }
    }
}

/// A queue, and a log that takes chunks by Kafka's rules, loses answers and refuses now and then.
struct Trial {
    queue: ChunkQueue,
    log: Vec<u32>,
    /// By producer: the number that must come next, and the last five numbers.
    known: BTreeMap<i64, (i32, Vec<i32>)>,
    current: i64,
    under_way: VecDeque<(u64, Bytes)>,
    appended: u32,
    delivered: Vec<u32>,
}

impl Trial {
    fn run(steps: Vec<u8>) -> Self {
        let mut trial = Self {
            queue: ChunkQueue::new(rules()),
            log: Vec::new(),
            known: BTreeMap::new(),
            current: 1,
            under_way: VecDeque::new(),
            appended: 0,
            delivered: Vec::new(),
        };
        steps.into_iter().for_each(|it| trial.go(it));
        let mut turns = 0;
        while trial.queue.is_moving() {
            trial.go(3);
            trial.go(9);
            turns += 1;
            assert!(turns < 10_000, "it comes to an end");
        }
        trial
    }

    fn go(&mut self, step: u8) {
        match step {
            0..3 => {
                append(&mut self.queue, &self.appended.to_be_bytes(), self.appended.into());
                self.queue.close();
                self.appended += 1;
            }
            3..6 => {
                let identity =
                    ProducerIdentity { id: ProducerId(self.current), epoch: ProducerEpoch(0) };
                match self.queue.next(0, Some(identity), usize::MAX) {
                    Ok(sent) => self.under_way.push_back(sent),
                    Err(NotNow::NeedsIdentity(_)) => self.current += 1,
                    Err(_) => {}
                }
            }
            // The oldest that waits is given up.
            10.. => {
                let Some(first) = self.queue.closed.front() else { return };
                let now_us = first.born_us + rules().delivery_timeout_us;
                self.queue.expire(now_us, |_, _| ProduceError::Closed);
            }
            _ => {
                let Some((serial, bytes)) = self.under_way.pop_front() else { return };
                let code = self.take(step, &bytes);
                let facts = self.queue.facts(serial).unwrap();
                let answer_policy =
                    code.map_or(AGAIN, |it| super::super::answer_policy::of_code(it, facts));
                if answer(&mut self.queue, serial, answer_policy).is_some() {
                    self.delivered.push(value(&bytes));
                }
            }
        }
    }

    /// What the log says. 6: it does not come through. 7: it does, and the answer does not.
    fn take(&mut self, step: u8, bytes: &[u8]) -> Option<tidemill_wire::kafka::ErrorCode> {
        let head = head(bytes);
        let number = head.base_sequence;
        let state = self.known.entry(head.producer_id).or_default();
        if step == 6 {
            None
        } else if state.1.contains(&number) {
            Some(tidemill_wire::kafka::ErrorCode::DuplicateSequenceNumber)
        } else if number != state.0 {
            Some(tidemill_wire::kafka::ErrorCode::OutOfOrderSequenceNumber)
        } else {
            self.log.push(value(bytes));
            state.0 += 1;
            state.1.push(number);
            if state.1.len() > 5 {
                state.1.remove(0);
            }
            (step != 7).then_some(tidemill_wire::kafka::ErrorCode::None)
        }
    }
}

/// The value of the one record in a chunk.
fn value(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[bytes.len() - 5..bytes.len() - 1].try_into().unwrap())
}

proptest! {
    /// Everything is there once, in order, whatever happens.
    #[test]
    fn every_chunk_is_there_once_and_in_order(steps in proptest::collection::vec(0u8..10, 1..200)) {
        let trial = Trial::run(steps);
        let expected: Vec<u32> = (0..trial.appended).collect();
        prop_assert_eq!(&trial.log, &expected);
        prop_assert_eq!(trial.delivered.len(), expected.len());
    }

    /// What was given up may be there or not; nothing is there twice, and what counts is there.
    #[test]
    fn no_chunk_is_there_twice_when_others_are_given_up(
        steps in proptest::collection::vec(0u8..12, 1..200),
    ) {
        let Trial { log, delivered, .. } = Trial::run(steps);
        prop_assert!(log.is_sorted_by(|a, b| a < b), "{:?}", log);
        prop_assert!(delivered.iter().all(|it| log.contains(it)), "{:?} of {:?}", delivered, log);
    }
}
