//! A history that is lived through is the one that is replayed, from any snapshot on.

use super::*;
use crate::partition::open_transactions::AbortedRange;
use bytes::Bytes;
use proptest::prelude::*;
use tidemill_wire::{
    chunk::{LeaderEpoch, stamp},
    records::{ChunkBuilder, Compression, Headers, Marker, Origin, control_marker},
};

const NOW: u64 = 5000;

/// A producer's chunk with so many records.
fn chunk(producer_id: i64, epoch: i16, first: i32, count: i32, transactional: bool) -> Vec<u8> {
    let mut builder = ChunkBuilder::new(Compression::NONE);
    builder.set_origin(Origin {
        producer_id,
        producer_epoch: epoch,
        base_sequence: first,
        is_transactional: transactional,
    });
    for _ in 0..count {
        builder.append(7, None, Some(b"v"), Headers::NONE).unwrap();
    }
    builder.finish().unwrap()
}

/// A log of chunks, without a disk.
#[derive(Default)]
struct Chunks {
    all: Vec<Bytes>,
    next: i64,
}

impl Chunks {
    fn push(&mut self, mut chunk: Vec<u8>) -> (i64, i64) {
        stamp(&mut chunk, self.next, LeaderEpoch(0));
        let head = ChunkHead::read(&chunk).unwrap();
        self.next = head.last_offset() + 1;
        self.all.push(Bytes::from(chunk));
        (head.base_offset, head.last_offset())
    }
}

fn replayed(mut history: History, chunks: &[Bytes], upto: i64) -> History {
    chunks.iter().for_each(|it| history.replay(it, NOW));
    history.pass(upto);
    history
}

fn same(a: &History, b: &History) -> Result<(), TestCaseError> {
    prop_assert_eq!(a.producers().list(), b.producers().list());
    prop_assert_eq!(a.stable(), b.stable());
    Ok(())
}

/// As it would come out of the store.
fn stored(history: &History) -> History {
    let aborted: Vec<AbortedRange> = history.stable().aborted_since(0).to_vec();
    History::restore(history.records(NOW), &history.ended_ids(), aborted, NOW)
}

#[derive(Clone, Debug)]
enum Act {
    Send { id: i64, count: i32, transactional: bool },
    Repeat { id: i64 },
    End { id: i64, bump: bool, commit: bool },
    Plain,
    Snapshot,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        6 => (0i64..4, 1i32..4, any::<bool>())
            .prop_map(|(id, count, transactional)| Act::Send { id, count, transactional }),
        2 => (0i64..4).prop_map(|id| Act::Repeat { id }),
        3 => (0i64..4, any::<bool>(), any::<bool>())
            .prop_map(|(id, bump, commit)| Act::End { id, bump, commit }),
        1 => Just(Act::Plain),
        1 => Just(Act::Snapshot),
    ];
    prop::collection::vec(act, 1..60)
}

proptest! {
    #[test]
    fn what_is_replayed_is_what_was_lived_through(acts in acts()) {
        let mut live = History::default();
        let mut log = Chunks::default();
        let mut snapshot = (0, History::default());
        for act in acts {
            match act {
                Act::Send { id, count, transactional } => {
                    let known = live.producers().get(id);
                    let (epoch, last) = known.map_or((0, -1), |it| (it.epoch, it.last_sequence()));
                    let bytes = chunk(id, epoch, last + 1, count, transactional);
                    let sequenced = Sequenced::of(&ChunkHead::read(&bytes).unwrap()).unwrap();
                    match live.check(&sequenced, false) {
                        Ok(ChunkStep::Append { begins }) => {
                            let was = live.stable().open().any(|it| it.0.0 == id);
                            prop_assert_eq!(begins, transactional && !was);
                            let offsets = log.push(bytes);
                            live.took(&sequenced, offsets, NOW);
                        }
                        Ok(ChunkStep::Repeated(taken)) => panic!("{taken:?}"),
                        Err(error) => {
                            let expected = HistoryError::NotTransactional { producer_id: id };
                            prop_assert_eq!(error, expected);
                        }
                    }
                }
                Act::Repeat { id } => {
                    let Some(known) = live.producers().get(id) else { continue };
                    for taken in &known.taken {
                        let again = Sequenced {
                            producer_id: id,
                            epoch: known.epoch,
                            first: taken.first,
                            last: taken.last,
                            timestamp_ms: 7,
                            transactional: true,
                        };
                        prop_assert_eq!(live.check(&again, false), Ok(ChunkStep::Repeated(*taken)));
                    }
                }
                Act::End { id, bump, commit } => {
                    let epoch = live.producers().get(id).map_or(0, |it| it.epoch) + i16::from(bump);
                    let marker = log.push(control_marker(&Marker { producer_id: id, producer_epoch: epoch, is_commit: commit, coordinator_epoch: 0, timestamp_ms: 9 })).0;
                    let ended = ProducerIdentity { id, epoch };
                    live.ended(ended, commit, Offset(marker), NOW);
                    prop_assert!(!live.needs_marker(ended), "it has what it needs");
                }
                Act::Plain => {
                    let mut builder = ChunkBuilder::new(Compression::NONE);
                    builder.append(7, None, None, Headers::NONE).unwrap();
                    log.push(builder.finish().unwrap());
                }
                Act::Snapshot => {
                    live.pass(log.next);
                    snapshot = (log.all.len(), stored(&live));
                }
            }
        }
        live.pass(log.next);
        same(&live, &replayed(History::default(), &log.all, log.next))?;
        same(&live, &replayed(snapshot.1, &log.all[snapshot.0..], log.next))?;
    }
}

#[test]
fn r1_a_repeated_chunk_is_recognized_after_a_restart() {
    let (mut live, mut log) = (History::default(), Chunks::default());
    for first in 0..7 {
        let bytes = chunk(1, 0, first, 1, false);
        let sequenced = Sequenced::of(&ChunkHead::read(&bytes).unwrap()).unwrap();
        let offsets = log.push(bytes);
        live.took(&sequenced, offsets, NOW);
    }
    let again = replayed(stored(&live), &[], log.next);
    for first in 2..7 {
        let bytes = chunk(1, 0, first, 1, false);
        let sequenced = Sequenced::of(&ChunkHead::read(&bytes).unwrap()).unwrap();
        let Ok(ChunkStep::Repeated(taken)) = again.check(&sequenced, false) else {
            panic!("{first}")
        };
        assert_eq!(taken.base_offset, i64::from(first));
    }
}

#[test]
fn a_plain_chunk_of_a_producer_with_an_open_transaction_is_refused() {
    let mut live = History::default();
    let bytes = chunk(1, 0, 0, 1, true);
    let sequenced = Sequenced::of(&ChunkHead::read(&bytes).unwrap()).unwrap();
    live.took(&sequenced, (0, 0), NOW);
    let plain = Sequenced { first: 1, last: 1, transactional: false, ..sequenced };
    let error = HistoryError::NotTransactional { producer_id: 1 };
    assert_eq!(live.check(&plain, false), Err(error));
    live.ended(ProducerIdentity { id: 1, epoch: 0 }, true, Offset(1), NOW);
    assert_eq!(live.check(&plain, false), Ok(ChunkStep::Append { begins: false }));
}
