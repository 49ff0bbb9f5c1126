//! What each request comes to in each phase; and the whole protocol under delayed and repeated
//! requests.

use super::*;
use proptest::prelude::*;

const NOW: i64 = 1000;
const SPARE: i64 = 900;

fn part(index: u32) -> TransactionPartition {
    TransactionPartition { stream: [1; 16], index }
}

fn producer(id: i64, epoch: i16) -> ProducerIdentity {
    ProducerIdentity { id, epoch }
}

fn asked(expected: Option<ProducerIdentity>) -> InitRequest {
    InitRequest { expected, timeout_ms: 60_000, spare_id: SPARE, now_ms: NOW }
}

/// What an init of `current` becomes, and its producer.
fn initialized(current: Option<&Transaction>, expected: Option<ProducerIdentity>) -> Transaction {
    match init(current, &asked(expected)).unwrap() {
        InitOutcome::Become(next) => next,
        other => panic!("{other:?}"),
    }
}

/// A producer with this epoch and no transaction.
fn empty(epoch: i16) -> Transaction {
    let mut transaction = Transaction::new(&InitRequest { spare_id: 7, ..asked(None) });
    transaction.producer.epoch = epoch;
    transaction
}

fn ongoing(epoch: i16, protocol: Protocol) -> Transaction {
    empty(epoch).add(producer(7, epoch), &[part(0)], None, protocol, NOW).unwrap().unwrap()
}

fn end(producer: ProducerIdentity, commit: bool, protocol: Protocol) -> EndRequest {
    EndRequest { producer, commit, protocol, spare_id: SPARE, now_ms: NOW }
}

fn ended(current: &Transaction, asked: EndRequest) -> Transaction {
    match current.end(&asked).unwrap() {
        EndOutcome::Become(next) => next,
        EndOutcome::Done(done) => panic!("{done:?}"),
    }
}

#[test]
fn an_init_that_is_repeated_with_another_timeout_changes_the_timeout_alone() {
    let before = empty(3);
    let next = initialized(Some(&before), Some(producer(7, 3)));
    let again = InitRequest { timeout_ms: 5_000, ..asked(Some(producer(7, 3))) };
    let expected = Transaction { timeout_ms: 5_000, ..next.clone() };
    assert_eq!(init(Some(&next), &again), Ok(InitOutcome::Become(expected.clone())));
    assert_eq!(init(Some(&expected), &again), Ok(InitOutcome::Repeated(producer(7, 4))));
}

#[test]
fn a_new_id_gets_a_producer_and_each_init_a_newer_epoch() {
    let first = initialized(None, None);
    assert_eq!((first.producer, first.phase), (producer(SPARE, 0), Phase::Empty));
    let second = initialized(Some(&first), None);
    assert_eq!(second.producer, producer(SPARE, 1));
    let add = second.add(producer(SPARE, 0), &[part(0)], None, Protocol::One, NOW);
    assert_eq!(add, Err(TransactionError::Fenced));
    let add = second.add(producer(6, 1), &[part(0)], None, Protocol::One, NOW);
    assert_eq!(add, Err(TransactionError::UnknownProducer));
}

#[test]
fn an_init_aborts_what_is_open_and_shuts_its_producer_out() {
    let open = ongoing(4, Protocol::One);
    let InitOutcome::AbortFirst(aborting) = init(Some(&open), &asked(None)).unwrap() else {
        panic!("a transaction was open");
    };
    assert_eq!((aborting.phase, aborting.producer.epoch), (Phase::PrepareAbort, 5));
    assert_eq!(aborting.partitions, open.partitions, "these need markers");
    assert_eq!(init(Some(&aborting), &asked(None)), Err(TransactionError::Busy));
    let late = aborting.end(&end(producer(7, 4), true, Protocol::One));
    assert_eq!(late, Err(TransactionError::Fenced));
    assert_eq!(initialized(Some(&aborting.completed()), None).producer.epoch, 6);
}

#[test]
fn kip_360_a_producer_goes_on_with_the_next_epoch_unless_another_has_come() {
    let had = empty(4);
    let next = initialized(Some(&had), Some(producer(7, 4)));
    assert_eq!((next.producer, next.last_epoch), (producer(7, 5), 4));
    let again = init(Some(&next), &asked(Some(producer(7, 4))));
    assert_eq!(again, Ok(InitOutcome::Repeated(producer(7, 5))), "its answer was lost");
    let other = initialized(Some(&next), None);
    for epoch in [4, 5] {
        let late = init(Some(&other), &asked(Some(producer(7, epoch))));
        assert_eq!(late, Err(TransactionError::Fenced));
    }
    // A zombie cannot abort the transaction of whoever came after it.
    let open = ongoing(6, Protocol::Two);
    let late = init(Some(&open), &asked(Some(producer(7, 5))));
    assert_eq!(late, Err(TransactionError::Fenced));
}

#[test]
fn protocol_1_ends_with_the_same_epoch_and_answers_a_repetition() {
    for commit in [true, false] {
        let prepared =
            ended(&ongoing(4, Protocol::One), end(producer(7, 4), commit, Protocol::One));
        assert_eq!(prepared.prepared_commit(), Some(commit));
        assert_eq!(prepared.successor(), producer(7, 4));
        let again = prepared.end(&end(producer(7, 4), commit, Protocol::One));
        assert_eq!(again, Err(TransactionError::Busy));
        let other = prepared.end(&end(producer(7, 4), !commit, Protocol::One));
        assert_eq!(other, Err(TransactionError::Phase(prepared.phase)));
        let done = prepared.completed();
        let again = done.end(&end(producer(7, 4), commit, Protocol::One));
        assert_eq!(again, Ok(EndOutcome::Done(producer(7, 4))));
        let other = done.end(&end(producer(7, 4), !commit, Protocol::One));
        assert_eq!(other, Err(TransactionError::Phase(done.phase)));
    }
}

#[test]
fn k1_protocol_2_refuses_a_late_end_of_the_transaction_before() {
    let commit = end(producer(7, 4), true, Protocol::Two);
    let prepared = ended(&ongoing(4, Protocol::Two), commit);
    assert_eq!(prepared.producer, producer(7, 5), "so are its markers");
    assert_eq!(prepared.end(&commit), Err(TransactionError::Busy));
    let done = prepared.completed();
    assert_eq!(done.end(&commit), Ok(EndOutcome::Done(producer(7, 5))), "its answer was lost");
    let next = done.add(producer(7, 5), &[part(1)], None, Protocol::Two, NOW).unwrap().unwrap();
    assert_eq!(next.partitions.len(), 1);
    for commit in [true, false] {
        let late = next.end(&end(producer(7, 4), commit, Protocol::Two));
        assert_eq!(late, Err(TransactionError::Fenced));
    }
}

#[test]
fn k2_protocol_2_refuses_what_is_late_of_the_transaction_before() {
    let abort = end(producer(7, 4), false, Protocol::Two);
    let prepared = ended(&ongoing(4, Protocol::Two), abort);
    for state in [&prepared, &prepared.completed()] {
        let add = state.add(producer(7, 4), &[part(0)], None, Protocol::Two, NOW);
        assert_eq!(add, Err(TransactionError::Fenced));
        assert_eq!(state.verify(producer(7, 4), &part(0)), Err(TransactionError::Fenced));
    }
    let next = prepared.add(producer(7, 5), &[part(0)], None, Protocol::Two, NOW);
    assert_eq!(next, Err(TransactionError::Busy), "the next one waits");
}

#[test]
fn k2_protocol_1_takes_nothing_that_was_not_added() {
    let open = ongoing(4, Protocol::One);
    assert_eq!(open.verify(producer(7, 4), &part(0)), Ok(()));
    assert_eq!(open.verify(producer(7, 4), &part(1)), Err(TransactionError::NotAdded));
    let prepared = ended(&open, end(producer(7, 4), false, Protocol::One));
    assert_eq!(prepared.verify(producer(7, 4), &part(0)), Err(TransactionError::Busy));
    let done = prepared.completed();
    assert_eq!(done.verify(producer(7, 4), &part(0)), Err(TransactionError::NotAdded));
}

#[test]
fn k3_what_is_late_of_a_transaction_that_another_instance_ended_is_fenced() {
    for protocol in [Protocol::One, Protocol::Two] {
        let aborting = ongoing(4, protocol).fenced(NOW);
        for state in [&aborting, &aborting.completed()] {
            for commit in [true, false] {
                let late = state.end(&end(producer(7, 4), commit, protocol));
                assert_eq!(late, Err(TransactionError::Fenced), "{protocol:?} {:?}", state.phase);
            }
            let late = state.add(producer(7, 4), &[part(0)], None, protocol, NOW);
            assert_eq!(late, Err(TransactionError::Fenced));
            let late = init(Some(state), &asked(Some(producer(7, 4))));
            assert_eq!(late, Err(TransactionError::Fenced));
        }
    }
}

#[test]
fn k3_a_commit_after_a_timeout_is_refused_and_a_producer_of_protocol_2_goes_on() {
    let aborting = ongoing(4, Protocol::One).timed_out(NOW);
    assert_eq!(aborting, ongoing(4, Protocol::One).fenced(NOW), "protocol 1 is shut out");

    let aborting = ongoing(4, Protocol::Two).timed_out(NOW);
    let (commit, abort) =
        (end(producer(7, 4), true, Protocol::Two), end(producer(7, 4), false, Protocol::Two));
    assert_eq!(aborting.end(&abort), Err(TransactionError::Busy), "until the markers are there");
    let aborted = Transaction::from(aborting.record()).completed();
    for state in [&aborting, &aborted] {
        assert_eq!(state.end(&commit), Err(TransactionError::Aborted));
        let late = state.add(producer(7, 4), &[part(0)], None, Protocol::Two, NOW);
        assert_eq!(late, Err(TransactionError::Fenced), "nothing more of that transaction");
        assert_eq!(state.verify(producer(7, 4), &part(0)), Err(TransactionError::Fenced));
    }
    assert_eq!(aborted.end(&abort), Ok(EndOutcome::Done(producer(7, 5))));
    let went_on = init(Some(&aborted), &asked(Some(producer(7, 4))));
    assert_eq!(went_on, Ok(InitOutcome::Repeated(producer(7, 5))));
    let next = aborted.add(producer(7, 5), &[part(1)], None, Protocol::Two, NOW);
    let next = next.unwrap().unwrap();
    for late in [commit, abort] {
        assert_eq!(next.end(&late), Err(TransactionError::Fenced), "of the one before");
    }
    // The last epoch is for markers alone: who has it begins anew.
    let last = ongoing(i16::MAX - 1, Protocol::Two);
    assert_eq!(last.timed_out(NOW), last.fenced(NOW));
}

#[test]
fn a_producer_that_goes_on_in_the_middle_of_a_transaction_gives_it_up() {
    for protocol in [Protocol::One, Protocol::Two] {
        let open = ongoing(4, protocol);
        let expected = Some(producer(7, 4));
        let Ok(InitOutcome::AbortFirst(aborting)) = init(Some(&open), &asked(expected)) else {
            panic!("it is aborted first");
        };
        assert_eq!(init(Some(&aborting), &asked(expected)), Err(TransactionError::Busy));
        let aborted = Transaction::from(aborting.record()).completed();
        let went_on = init(Some(&aborted), &asked(expected));
        assert_eq!(went_on, Ok(InitOutcome::Repeated(producer(7, 5))));
        // Another instance in between shuts it out.
        let other = initialized(Some(&aborted), None);
        assert_eq!(init(Some(&other), &asked(expected)), Err(TransactionError::Fenced));
    }
}

#[test]
fn k4_an_end_with_the_last_epoch_goes_on_with_another_id() {
    let last = i16::MAX - 1;
    let commit = end(producer(7, last), true, Protocol::Two);
    let open = ongoing(last, Protocol::Two);
    assert!(wants_id(Some(&open)));
    let prepared = ended(&open, commit);
    assert_eq!(prepared.producer, producer(7, i16::MAX), "of the markers");
    assert_eq!(prepared.successor(), producer(SPARE, 0));
    assert_eq!(prepared.end(&commit), Err(TransactionError::Busy));
    let next = prepared.add(producer(SPARE, 0), &[part(0)], None, Protocol::Two, NOW);
    assert_eq!(next, Err(TransactionError::Busy), "known, and not yet");
    // The node dies before the answer; the record is all that is left.
    let done = Transaction::from(prepared.record()).completed();
    let done = Transaction::from(done.record());
    assert_eq!((done.producer, done.previous_id), (producer(SPARE, 0), 7));
    assert_eq!(done.end(&commit), Ok(EndOutcome::Done(producer(SPARE, 0))), "repeated");
    let open = done.add(producer(SPARE, 0), &[part(0)], None, Protocol::Two, NOW);
    let open = open.unwrap().unwrap();
    assert_eq!(open.end(&commit), Err(TransactionError::UnknownProducer), "and now it is late");
}

#[test]
fn k4_an_init_with_the_last_epoch_goes_on_with_another_id() {
    let had = empty(i16::MAX - 1);
    assert!(wants_id(Some(&had)) && !wants_id(Some(&empty(i16::MAX - 2))));
    let expected = Some(producer(7, i16::MAX - 1));
    let next = Transaction::from(initialized(Some(&had), expected).record());
    assert_eq!((next.producer, next.previous_id), (producer(SPARE, 0), 7));
    let again = init(Some(&next), &asked(expected));
    assert_eq!(again, Ok(InitOutcome::Repeated(producer(SPARE, 0))), "its answer was lost");
    // One that was fenced with the last epoch is not let in again.
    let fenced = ongoing(i16::MAX - 1, Protocol::Two).fenced(NOW).completed();
    assert_eq!(fenced.producer.epoch, i16::MAX);
    assert_eq!(init(Some(&fenced), &asked(expected)), Err(TransactionError::Fenced));
    assert_eq!(initialized(Some(&fenced), None).producer, producer(SPARE, 0));
}

#[test]
fn k8_an_abort_of_nothing_is_clean() {
    let none = empty(4);
    let abort = end(producer(7, 4), false, Protocol::Two);
    for state in [none.clone(), ended(&ongoing(4, Protocol::Two), abort).completed()] {
        let producer = state.producer;
        let next = ended(&state, end(producer, false, Protocol::Two));
        assert_eq!(next.phase, Phase::CompleteAbort, "no markers are needed");
        assert_eq!(next.producer.epoch, producer.epoch + 1);
        let again = next.end(&end(producer, false, Protocol::Two));
        assert_eq!(again, Ok(EndOutcome::Done(next.producer)), "its answer was lost");
    }
    let commit = none.end(&end(producer(7, 4), true, Protocol::Two));
    assert_eq!(commit, Err(TransactionError::Phase(Phase::Empty)));
}

#[test]
fn protocol_1_refuses_the_end_of_what_never_began_and_repeats_that_of_what_did() {
    let none = empty(4);
    for commit in [true, false] {
        let asked = end(producer(7, 4), commit, Protocol::One);
        assert_eq!(none.end(&asked), Err(TransactionError::Phase(Phase::Empty)));
        // The node may have been started again before its answer was missed.
        let done = ended(&ongoing(4, Protocol::One), asked).completed();
        let done = Transaction::from(done.record());
        assert_eq!(done.end(&asked), Ok(EndOutcome::Done(producer(7, 4))), "its answer was lost");
        // The producer has come anew since: what is late is not its own.
        let anew = initialized(Some(&done), None);
        assert_eq!(anew.end(&asked), Err(TransactionError::Fenced));
    }
}

#[test]
fn what_is_added_twice_is_stored_once() {
    let open = ongoing(4, Protocol::One);
    let producer = producer(7, 4);
    assert_eq!(open.add(producer, &[part(0)], None, Protocol::One, NOW), Ok(None));
    let more = open.add(producer, &[part(0)], Some("g"), Protocol::One, NOW + 5).unwrap().unwrap();
    assert_eq!(more.began_ms, NOW, "it began with the first");
    assert_eq!(more.verify_group(producer, "g"), Ok(()));
    assert_eq!(open.verify_group(producer, "g"), Err(TransactionError::NotAdded));
}

/// A request on its way, and of which transaction of which instance it is.
#[derive(Clone, Copy, Debug)]
enum Request {
    Add(ProducerIdentity),
    End(ProducerIdentity, bool),
}

#[derive(Clone, Debug)]
enum Act {
    /// The client adds something.
    Add,
    /// The client ends its transaction.
    End(bool),
    /// The client gives up and comes again.
    Init { expects: bool },
    /// Something that was sent before comes once more, much later.
    Late(usize),
    /// Markers are durable.
    Complete,
    /// It took too long.
    Timeout,
    /// The node starts again with what is stored.
    Restart,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => Just(Act::Add),
        4 => any::<bool>().prop_map(Act::End),
        1 => any::<bool>().prop_map(|expects| Act::Init { expects }),
        4 => any::<usize>().prop_map(Act::Late),
        4 => Just(Act::Complete),
        1 => Just(Act::Timeout),
        1 => Just(Act::Restart),
    ];
    prop::collection::vec(act, 1..120)
}

proptest! {
    /// With protocol 2 the epoch names the transaction. So nothing late may change anything, and
    /// what a client is told of its transaction is what became of it.
    #[test]
    fn k1_k2_k3_nothing_late_counts_and_every_answer_is_true(
        acts in acts(), first_epoch in prop_oneof![Just(0i16), Just(i16::MAX - 4)],
    ) {
        let mut state = empty(first_epoch);
        let mut client = Some(state.producer);
        // Transactions that were decided: whose, and how.
        let mut decided: Vec<(ProducerIdentity, bool)> = Vec::new();
        let mut sent: Vec<Request> = Vec::new();
        let mut seen: Vec<ProducerIdentity> = vec![state.producer];
        for (spare, act) in (SPARE + 1..).zip(acts) {
            let before = state.clone();
            let (request, late) = match act {
                Act::Add => (client.map(Request::Add), false),
                Act::End(commit) => (client.map(|it| Request::End(it, commit)), false),
                Act::Late(which) => (sent.get(which % sent.len().max(1)).copied(), true),
                Act::Complete => {
                    if state.prepared_commit().is_some() {
                        state = state.completed();
                    }
                    (None, false)
                }
                Act::Timeout => {
                    if state.phase == Phase::Ongoing {
                        decided.push((state.producer, false));
                        state = state.timed_out(NOW);
                    }
                    (None, false)
                }
                Act::Restart => {
                    state = Transaction::from(TransactionRecord::decode(&state.record().encode()).unwrap());
                    prop_assert_eq!(&state, &before);
                    (None, false)
                }
                Act::Init { expects } => {
                    let expected = client.filter(|_| expects);
                    match init(Some(&state), &InitRequest { spare_id: spare, ..asked(expected) }) {
                        Ok(InitOutcome::Become(next)) => {
                            prop_assert!(!seen.contains(&next.producer), "never given twice");
                            seen.push(next.producer);
                            client = Some(next.producer);
                            state = next;
                        }
                        Ok(InitOutcome::Repeated(same)) => client = Some(same),
                        Ok(InitOutcome::AbortFirst(next)) => {
                            decided.push((state.producer, false));
                            state = next;
                        }
                        Err(TransactionError::Fenced) => client = None,
                        Err(TransactionError::Busy) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                    (None, false)
                }
            };
            let Some(request) = request else { continue };
            sent.push(request);
            match request {
                Request::Add(producer) => {
                    match state.add(producer, &[part(0)], None, Protocol::Two, NOW) {
                        Ok(next) => {
                            prop_assert_eq!(producer, state.successor(), "not of an earlier one");
                            state = next.unwrap_or(state);
                        }
                        Err(TransactionError::Busy) => {}
                        Err(_) if late => {}
                        Err(_) => client = None,
                    }
                }
                Request::End(producer, commit) => {
                    let asked = EndRequest { spare_id: spare, ..end(producer, commit, Protocol::Two) };
                    match state.end(&asked) {
                        Ok(EndOutcome::Become(next)) => {
                            prop_assert_eq!(producer, state.producer, "not of an earlier one");
                            prop_assert!(!decided.iter().any(|it| it.0 == producer), "decided once");
                            decided.push((producer, commit));
                            let successor = next.successor();
                            prop_assert!(!seen.contains(&successor), "never given twice");
                            seen.push(successor);
                            state = next;
                            if client == Some(producer) {
                                client = Some(successor);
                            }
                        }
                        Ok(EndOutcome::Done(successor)) => {
                            prop_assert!(decided.contains(&(producer, commit)), "a true answer");
                            prop_assert_eq!(successor, state.producer);
                        }
                        Err(error) => {
                            prop_assert_eq!(&state, &before);
                            let own = decided.iter().find(|it| it.0 == producer);
                            let other_way = TransactionError::Phase(state.phase);
                            if let (Some((_, how)), true) =
                                (own, error == other_way || error == TransactionError::Aborted)
                            {
                                prop_assert_ne!(*how, commit, "it was ended the other way");
                            }
                            if !late && error == TransactionError::Fenced {
                                client = None;
                            }
                        }
                    }
                }
            }
        }
    }
}
