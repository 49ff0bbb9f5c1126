//! A reader of committed records against a model: nothing of an open or an aborted transaction, all
//! of a committed one, the same again in a replay, and no question without need.

use super::*;
use crate::{AbortedTransaction, StreamGroup, Transactions};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tidemill_log::OnData;
use tidemill_types::{Offset, ProducerId};
use tidemill_wire::records::Origin;

/// A node with one streamlet, and what it knows of its transactions.
#[derive(Default)]
struct Model {
    streamlet: Mutex<Option<Arc<Streamlet>>>,
    /// By producer: the first offset, and the values.
    open: Mutex<BTreeMap<i64, (i64, Vec<i64>)>>,
    /// Producer, first offset, offset of the marker.
    aborted: Mutex<Vec<(i64, i64, i64)>>,
    waiting: Mutex<Vec<(i64, OnData)>>,
    asked: AtomicUsize,
}

struct Facts(Arc<Model>);

impl StreamNode for Facts {
    fn transactions(&self, streamlet: &Arc<Streamlet>) -> Option<Arc<dyn Transactions>> {
        *self.0.streamlet.lock().unwrap() = Some(Arc::clone(streamlet));
        Some(Arc::new(Self(Arc::clone(&self.0))))
    }

    fn group(&self, group: &str, _: &Arc<Stream>) -> Arc<dyn StreamGroup> {
        panic!("no group is asked for, not {group} either");
    }
}

impl Model {
    fn stable(&self) -> i64 {
        let end = self.streamlet.lock().unwrap().as_ref().map_or(0, |it| it.high_watermark());
        self.open.lock().unwrap().values().map(|(first, _)| *first).min().unwrap_or(end)
    }

    /// Something was appended, or a transaction ended: whoever waits is told if it may read, or if
    /// a record came that it may not read yet.
    fn ring(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock().unwrap());
        waiting.into_iter().for_each(|(_, notice)| notice());
    }
}

impl Transactions for Facts {
    fn end_offset(&self) -> Result<i64, String> {
        Ok(self.0.stable())
    }

    fn aborted(&self, from: i64, to: i64) -> Vec<AbortedTransaction> {
        self.0.asked.fetch_add(1, Ordering::SeqCst);
        let aborted = self.0.aborted.lock().unwrap();
        let within = aborted.iter().filter(|(_, first, marker)| *first < to && *marker >= from);
        // The order is not promised.
        let found = within.rev().map(|(producer_id, first_offset, _)| AbortedTransaction {
            producer: ProducerId(*producer_id),
            first: Offset(*first_offset),
        });
        found.collect()
    }

    fn on_readable(&self, offset: i64, notice: OnData) -> Box<dyn Send> {
        if self.0.stable() > offset {
            notice();
        } else {
            self.0.waiting.lock().unwrap().push((offset, notice));
        }
        Box::new(())
    }
}

/// What a producer does.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Plain(u8),
    Send(i64, u8),
    End(i64, bool),
}

pub(super) fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        (1u8..4).prop_map(Act::Plain),
        (0i64..3, 1u8..4).prop_map(|(producer, count)| Act::Send(producer, count)),
        (0i64..3, any::<bool>()).prop_map(|(producer, commit)| Act::End(producer, commit)),
    ];
    prop::collection::vec(act, 0..40)
}

/// A stream, and the values a reader of committed records sees, with their offsets.
pub(super) struct Played {
    streamlet: Arc<Streamlet>,
    model: Arc<Model>,
    committed: BTreeMap<i64, i64>,
    next: i64,
}

impl Played {
    pub(super) fn new(log: &Log) -> Self {
        let streamlet = log.create("s", StreamSpec::default()).unwrap().streamlet(0).unwrap();
        Self { streamlet, model: Arc::default(), committed: BTreeMap::new(), next: 0 }
    }

    pub(super) fn node(&self) -> Arc<dyn StreamNode> {
        *self.model.streamlet.lock().unwrap() = Some(Arc::clone(&self.streamlet));
        Arc::new(Facts(Arc::clone(&self.model)))
    }

    fn append(&self, chunk: &[u8]) -> i64 {
        let append = self.streamlet.append(chunk, AppendOptions::default()).unwrap();
        let offset = append.base_offset;
        append.wait().unwrap();
        offset
    }

    fn send(&mut self, producer: Option<i64>, count: u8) {
        let mut builder = ChunkBuilder::new(Compression::NONE);
        if let Some(producer_id) = producer {
            let base_sequence = 0;
            builder.set_origin(Origin {
                producer_id,
                producer_epoch: 0,
                base_sequence,
                is_transactional: true,
            });
        }
        let values: Vec<i64> = (0..i64::from(count)).map(|it| self.next + it).collect();
        self.next += i64::from(count);
        for value in &values {
            let text = format!(r#"{{"n":{value}}}"#);
            let none: [Header<'_>; 0] = [];
            builder.append(5, None, Some(text.as_bytes()), none.into_iter()).unwrap();
        }
        let chunk = builder.finish().unwrap();
        let mut open = self.model.open.lock().unwrap();
        if let Some(producer) = producer {
            // Before a reader can see the record.
            let end = self.streamlet.end_offset();
            open.entry(producer).or_insert((end, Vec::new()));
        }
        drop(open);
        let base = self.append(&chunk);
        match producer {
            None => {
                self.committed.extend(values.iter().enumerate().map(|(i, n)| (base + i as i64, *n)))
            }
            Some(producer) => {
                let mut open = self.model.open.lock().unwrap();
                let sent = &mut open.get_mut(&producer).unwrap().1;
                sent.extend((0..i64::from(count)).flat_map(|it| [base + it, values[it as usize]]));
            }
        }
        self.model.ring();
    }

    fn end(&mut self, producer: i64, commit: bool) {
        if !self.model.open.lock().unwrap().contains_key(&producer) {
            return;
        }
        let marker = self.append(&control_marker(&Marker {
            producer_id: producer,
            producer_epoch: 0,
            is_commit: commit,
            coordinator_epoch: 0,
            timestamp_ms: 5,
        }));
        let (first, sent) = self.model.open.lock().unwrap().remove(&producer).unwrap();
        if commit {
            self.committed.extend(sent.chunks(2).map(|it| (it[0], it[1])));
        } else {
            self.model.aborted.lock().unwrap().push((producer, first, marker));
        }
        self.model.ring();
    }

    pub(super) fn act(&mut self, act: &Act) {
        match act {
            Act::Plain(count) => self.send(None, *count),
            Act::Send(producer, count) => self.send(Some(*producer), *count),
            Act::End(producer, commit) => self.end(*producer, *commit),
        }
    }

    /// What may be read now.
    fn visible(&self) -> Vec<i64> {
        self.committed.range(..self.model.stable()).map(|(_, value)| *value).collect()
    }
}

pub(super) fn live() -> RecordSourceSpec {
    let schema = Named::from([("n".to_owned(), "bigint".to_owned())]);
    RecordSourceSpec { until: UntilSpec::Never, schema, ..spec(Format::Json) }
}

/// Reads until there is nothing: rows, and the position after each read.
pub(super) fn drain(
    slice: &mut dyn Source,
    bytes: usize,
    records: usize,
) -> (Vec<i64>, Vec<(u64, usize)>) {
    let (mut rows, mut cuts, mut letters) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let asked = ReadRequest { bytes, ..request(records, None) };
        match slice.read(&asked, &mut letters).unwrap() {
            Read::Rows { payload: Payload::Arrow(batch), .. } => {
                rows.extend(numbers(&[batch]));
                cuts.push((slice.position().0, rows.len()));
            }
            Read::Idle { .. } | Read::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(letters.is_empty());
    (rows, cuts)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn a_job_sees_what_a_consumer_of_committed_records_sees(
        acts in acts(), bytes in 1usize..400, records in 1usize..9, pause in 1usize..6,
    ) {
        let sim = World::simulated(1);
        let log = log(&sim);
        let mut played = Played::new(&log);
        let node = played.node();
        let source = RecordSource::of_stream(&sim.world, &log, Some(&node), "s", live()).unwrap();
        let mut slice = source.open(SliceId(0)).unwrap();
        let (mut rows, mut cuts) = (Vec::new(), Vec::new());
        for (at, act) in acts.iter().enumerate() {
            played.act(act);
            if at % pause == 0 {
                let (more, ends) = drain(&mut *slice, bytes, records);
                cuts.extend(ends.iter().map(|(at, count)| (*at, rows.len() + count)));
                rows.extend(more);
                prop_assert_eq!(&rows, &played.visible());
            }
        }
        let (more, _) = drain(&mut *slice, bytes, records);
        rows.extend(more);
        prop_assert_eq!(&rows, &played.visible());

        // Another reader, that reads all of it at once, up to where it may now.
        let until = RecordSourceSpec { until: UntilSpec::Latest, ..live() };
        let bounded = RecordSource::of_stream(&sim.world, &log, Some(&node), "s", until).unwrap();
        let (at_once, _) = drain(&mut *bounded.open(SliceId(0)).unwrap(), 1 << 20, 1 << 20);
        prop_assert_eq!(&at_once, &rows);

        // A replay stops where the ledger says, and has the same rows there.
        let mut again = source.open(SliceId(0)).unwrap();
        let (mut replayed, mut letters) = (Vec::new(), Vec::new());
        for (until, count) in cuts {
            while again.position().0 < until {
                match again.read(&request(1 << 20, Some(until as i64)), &mut letters).unwrap() {
                    Read::Rows { payload: Payload::Arrow(it), .. } => replayed.extend(numbers(&[it])),
                    other => panic!("{other:?}"),
                }
            }
            prop_assert_eq!(again.position(), Position(until));
            prop_assert_eq!(&replayed[..], &rows[..count]);
        }
    }
}

#[test]
fn a_source_that_waits_for_a_transaction_is_woken_by_its_end() {
    for commit in [true, false] {
        let sim = World::simulated(1);
        let log = log(&sim);
        let mut played = Played::new(&log);
        let node = played.node();
        let source = RecordSource::of_stream(&sim.world, &log, Some(&node), "s", live()).unwrap();
        let mut slice = source.open(SliceId(0)).unwrap();
        let woken = wakes(&mut *slice);
        let mut letters = Vec::new();
        let mut idle = |slice: &mut dyn Source| {
            for _ in 0..3 {
                let read = slice.read(&request(10, None), &mut letters).unwrap();
                assert!(matches!(read, Read::Idle { until: Some(u64::MAX) }), "{read:?}");
            }
        };
        idle(&mut *slice);
        assert_eq!(played.model.waiting.lock().unwrap().len(), 1, "one wish, however often asked");
        played.send(Some(1), 2);
        assert_eq!(woken.load(Ordering::SeqCst), 1, "a record came");
        idle(&mut *slice);
        played.send(None, 1);
        idle(&mut *slice);
        let before = woken.load(Ordering::SeqCst);
        played.end(1, commit);
        assert_eq!(woken.load(Ordering::SeqCst), before + 1);
        let (rows, _) = drain(&mut *slice, 1 << 20, 100);
        assert_eq!(rows, if commit { vec![0, 1, 2] } else { vec![2] });
    }
}

#[test]
fn without_transactions_nothing_is_asked_and_uncommitted_reads_all() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let mut played = Played::new(&log);
    let node = played.node();
    played.send(None, 3);
    let source = RecordSource::of_stream(&sim.world, &log, Some(&node), "s", live()).unwrap();
    let (rows, _) = drain(&mut *source.open(SliceId(0)).unwrap(), 1 << 20, 100);
    assert_eq!((rows.len(), played.model.asked.load(Ordering::SeqCst)), (3, 0));
    played.send(Some(1), 2);
    played.send(Some(2), 2);
    played.end(1, false);
    let all = RecordSourceSpec { isolation: Isolation::Uncommitted, ..live() };
    let source = RecordSource::of_stream(&sim.world, &log, Some(&node), "s", all).unwrap();
    let (rows, _) = drain(&mut *source.open(SliceId(0)).unwrap(), 1 << 20, 100);
    assert_eq!(rows, [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(played.model.asked.load(Ordering::SeqCst), 0);
}

#[test]
fn the_latest_is_before_the_first_open_transaction() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let mut played = Played::new(&log);
    let node = played.node();
    played.send(None, 3);
    played.send(Some(1), 2);
    played.send(None, 1);
    let open = |start, until| {
        let spec = RecordSourceSpec { start, until, ..live() };
        RecordSource::of_stream(&sim.world, &log, Some(&node), "s", spec).unwrap()
    };
    let bounded = open(StartSpec::Earliest, UntilSpec::Latest);
    assert_eq!(bounded.total(), Some(3));
    let mut slice = bounded.open(SliceId(0)).unwrap();
    let (batches, _) = read_all(&mut *slice, 10);
    assert_eq!(numbers(&batches), [0, 1, 2], "it does not wait");
    assert_eq!(
        open(StartSpec::Latest, UntilSpec::Never).open(SliceId(0)).unwrap().position(),
        Position(3)
    );
    played.end(1, true);
    let (batches, _) = read_all(&mut *bounded.open(SliceId(0)).unwrap(), 10);
    assert_eq!(numbers(&batches), [0, 1, 2], "nor does its end move");
}

#[test]
fn what_was_read_and_is_gone_is_an_error_and_no_wait() {
    let sim = World::simulated(1);
    let log = log(&sim);
    let mut played = Played::new(&log);
    let node = played.node();
    played.send(None, 2);
    let source = RecordSource::of_stream(&sim.world, &log, Some(&node), "s", live()).unwrap();
    let mut slice = source.open(SliceId(0)).unwrap();
    let mut letters = Vec::new();
    let read = slice.read(&request(10, Some(2)), &mut letters).unwrap();
    assert!(matches!(read, Read::Rows { .. }), "{read:?}");
    let error = slice.read(&request(10, Some(5)), &mut letters).expect_err("there is no more");
    assert!(error.message.contains("up to offset 5"), "{error}");
}
