//! Sources that come in their own time, partitions, and what each delivery mode leaves out.

use super::*;
use crate::block::{Block, Payload, rows_schema};
use crate::operator::{
    Context, CycleInput, DeadLetter, Operator, OperatorError, OperatorFactory, Output, SliceState,
};
use crate::partition::Partition;
use crate::rows::RowsPool;
use crate::sink::{Sink, SinkError};
use crate::source::{Position, Read, ReadRequest, Source, SourceError, SourceFactory};
use arrow_schema::SchemaRef;
use std::sync::{Condvar, Mutex, mpsc};
use tidemill_types::{
    ByteSize, Micros, SliceId, Span,
    job::{CycleSpec, Delivery},
};

/// Records that a test sends, one a read; they end when the sender is dropped.
struct Fed {
    slices: Mutex<Vec<Option<mpsc::Receiver<u8>>>>,
}

struct FedSlice {
    from: mpsc::Receiver<u8>,
    pool: Arc<RowsPool>,
    count: u64,
}

fn fed(slices: usize) -> (Vec<mpsc::Sender<u8>>, Arc<Fed>) {
    let (to, from): (Vec<_>, Vec<_>) = (0..slices).map(|_| mpsc::channel()).unzip();
    let slices = Mutex::new(from.into_iter().map(Some).collect());
    (to, Arc::new(Fed { slices }))
}

impl SourceFactory for Fed {
    fn schema(&self) -> SchemaRef {
        rows_schema()
    }
    fn slices(&self) -> u32 {
        self.slices.lock().expect("held briefly").len() as u32
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let from = self.slices.lock().expect("held briefly")[slice.index()].take();
        let from = from.ok_or_else(|| SourceError::new("opened twice"))?;
        Ok(Box::new(FedSlice { from, pool: RowsPool::new(8), count: 0 }))
    }
    fn live(&self) -> bool {
        true
    }
}

impl Source for FedSlice {
    fn read(&mut self, _: &ReadRequest, _: &mut Vec<DeadLetter>) -> Result<Read, SourceError> {
        match self.from.try_recv() {
            Ok(byte) => {
                let mut rows = self.pool.take();
                rows.push(&[byte]);
                self.count += 1;
                Ok(Read::Rows { payload: Payload::Rows(rows), bytes: 1 })
            }
            Err(mpsc::TryRecvError::Empty) => Ok(Read::Idle { until: None }),
            Err(mpsc::TryRecvError::Disconnected) => Ok(Read::End),
        }
    }
    fn position(&self) -> Position {
        Position(self.count)
    }
    fn watermark(&self) -> Micros {
        Micros(self.count as i64)
    }
}

/// Writes each record behind the number of the slice that got it.
struct Name;

impl OperatorFactory for Name {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![rows_schema()]
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Self)
    }
    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
}

impl Operator for Name {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        for slice in context.slices.clone().map(SliceId) {
            for block in input.port(0) {
                let Payload::Rows(rows) = &block.payload else { continue };
                block.rows_of(slice).for_each(|row| {
                    output.push(&[slice.0 as u8, rows.get(row)[0]]);
                });
            }
        }
        Ok(())
    }
}

/// Sends what is written on; waits at a gate first, if there is one.
struct Tell {
    to: mpsc::Sender<Vec<u8>>,
    gate: Option<Arc<(Mutex<bool>, Condvar)>>,
}

impl Sink for Tell {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }
    fn write(&mut self, _: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        if let Some(gate) = &self.gate {
            let open = gate.0.lock().expect("held briefly");
            drop(gate.1.wait_while(open, |open| !*open).expect("held briefly"));
        }
        for block in blocks {
            let Payload::Rows(rows) = &block.payload else { continue };
            rows.iter().for_each(|row| drop(self.to.send(row.to_vec())));
        }
        Ok(())
    }
    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        Ok(())
    }
    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// source → stage of four slices → sink
fn graph(factory: Arc<dyn SourceFactory>, partition: Partition, sink: Tell) -> JobGraph {
    let mut graph = JobGraph::new("live");
    graph.workers = 2;
    graph.cycle = CycleSpec { time: Span(2_000), ..CycleSpec::default() };
    let source = graph.add("source", StageKind::Source { factory, preload: false });
    let stage = graph.add("stage", StageKind::Operator { factory: Arc::new(Name), slices: 4 });
    let out = graph.add("out", StageKind::Sink { sink: Box::new(sink) });
    graph.link(source, stage, partition);
    graph.link(stage, out, Partition::One);
    graph
}

fn run(graph: JobGraph) -> JobHandle {
    start(graph, &World::real(), &RunOptions::default()).expect("it starts")
}

/// What comes out of a job with this partition for the records 0 to 99.
fn through(partition: Partition) -> Vec<Vec<u8>> {
    let (mut senders, source) = fed(1);
    let (to, from) = mpsc::channel();
    let handle = run(graph(source, partition, Tell { to, gate: None }));
    (0..100).for_each(|byte| senders[0].send(byte).expect("the job reads"));
    senders.clear();
    handle.wait().expect("it ends well");
    drop(handle);
    from.iter().collect()
}

#[test]
fn each_partition_brings_records_to_its_slices() {
    let one = through(Partition::One);
    assert!(one.len() == 100 && one.iter().all(|row| row[0] == 0));
    let all = through(Partition::All);
    assert_eq!(all.len(), 400);
    for slice in 0..4 {
        let mine = all.iter().filter(|row| row[0] == slice).map(|row| row[1]);
        assert_eq!(mine.collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    }
    let mut random = through(Partition::Random);
    assert!((0..4).all(|slice| random.iter().any(|row| row[0] == slice)));
    random.sort_by_key(|row| row[1]);
    assert_eq!(random.iter().map(|row| row[1]).collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
    let mut key = through(Partition::Key(vec![0]));
    key.sort_by_key(|row| row[1]);
    assert!(key.len() == 100 && (0..4).all(|slice| key.iter().any(|row| row[0] == slice)));
    assert_eq!(through(Partition::Local).len(), 100);
}

#[test]
fn a_record_of_a_live_source_comes_out_although_others_are_silent() {
    let (senders, source) = fed(3);
    let (to, from) = mpsc::channel();
    let handle = run(graph(source, Partition::One, Tell { to, gate: None }));
    for byte in 0..5 {
        senders[usize::from(byte) % 2].send(byte).expect("the job reads");
        assert_eq!(from.recv().expect("it comes out"), [0, byte]);
    }
    handle.stop();
    let progress = handle.wait().expect("it stops well");
    assert_eq!(progress.sources[0].records, 5);
}

/// A job whose cycles are an hour long, once it has read what its first slice gives.
fn in_a_long_cycle(source: Arc<dyn SourceFactory>, to: mpsc::Sender<Vec<u8>>) -> JobHandle {
    let mut graph = graph(source, Partition::One, Tell { to, gate: None });
    graph.cycle =
        CycleSpec { time: Span(3_600_000_000), bytes: ByteSize(u64::MAX), records: u64::MAX };
    let handle = run(graph);
    while handle.progress().sources[0].records < 5 {
        World::real().clock.sleep_micros(100);
    }
    handle
}

#[test]
fn a_job_that_is_stopped_does_not_wait_until_the_time_of_its_cycle_is_up() {
    let (senders, source) = fed(2);
    (0..5).for_each(|byte| senders[0].send(byte).expect("it is not dropped"));
    let (to, from) = mpsc::channel();
    let handle = in_a_long_cycle(source, to);
    handle.stop();
    handle.wait().expect("it stops well");
    drop(handle);
    assert_eq!(from.iter().collect::<Vec<_>>(), (0..5).map(|it| vec![0, it]).collect::<Vec<_>>());
}

/// A source of one slice that always has a record.
struct Endless;

struct EndlessSlice {
    pool: Arc<RowsPool>,
    count: u64,
}

impl SourceFactory for Endless {
    fn schema(&self) -> SchemaRef {
        rows_schema()
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(EndlessSlice { pool: RowsPool::new(8), count: 0 }))
    }
    fn live(&self) -> bool {
        true
    }
}

impl Source for EndlessSlice {
    fn read(&mut self, _: &ReadRequest, _: &mut Vec<DeadLetter>) -> Result<Read, SourceError> {
        let mut rows = self.pool.take();
        rows.push(&[1]);
        self.count += 1;
        Ok(Read::Rows { payload: Payload::Rows(rows), bytes: 1 })
    }
    fn position(&self) -> Position {
        Position(self.count)
    }
    fn watermark(&self) -> Micros {
        Micros::MIN
    }
}

#[test]
fn a_job_that_is_stopped_does_not_wait_until_there_is_nothing_to_read() {
    let (to, from) = mpsc::channel();
    let handle = in_a_long_cycle(Arc::new(Endless), to);
    handle.stop();
    let read = handle.wait().expect("it stops well").sources[0].records;
    drop(handle);
    assert_eq!(from.iter().count() as u64, read);
}

#[test]
fn a_job_without_data_has_no_cycles_but_a_heartbeat() {
    let (_senders, source) = fed(1);
    let (to, _from) = mpsc::channel();
    let handle = run(graph(source, Partition::One, Tell { to, gate: None }));
    while handle.progress().cycle_cut == Cycle::NONE {
        std::thread::yield_now();
    }
    assert_eq!(handle.progress().cycle_cut, Cycle(1), "one heartbeat says that it is idle");
    handle.stop();
    handle.wait().expect("it stops well");
}

/// Writes how far event time was before each record.
struct Before;

impl OperatorFactory for Before {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![rows_schema()]
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Self)
    }
    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
    fn wants_time(&self) -> bool {
        true
    }
}

impl Operator for Before {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        assert_eq!(context.watermarks.len(), 1);
        let all_ended = context.all_ended();
        assert!(all_ended || context.watermarks[0] <= context.watermark);
        for _ in input.port(0) {
            output.push(&context.watermark_before.0.to_be_bytes());
        }
        Ok(())
    }
}

/// While nothing comes event time stands still: what comes then is not late.
#[test]
fn a_silence_makes_nothing_late() {
    let (senders, source) = fed(2);
    let (to, from) = mpsc::channel();
    let mut graph = graph(source, Partition::One, Tell { to, gate: None });
    graph.stages[1].kind = StageKind::Operator { factory: Arc::new(Before), slices: 2 };
    let handle = run(graph);
    let before = || {
        let row = from.recv_timeout(std::time::Duration::from_secs(60)).expect("it comes out");
        let row: [u8; 8] = row.try_into().expect("a watermark");
        i64::from_be_bytes(row)
    };
    let silence = || {
        let cut = handle.progress().cycle_cut;
        while handle.progress().cycle_cut == cut {
            std::thread::yield_now();
        }
    };
    // Both fall idle before anything came, and again after they had something.
    silence();
    senders[0].send(0).expect("the job reads");
    // Where a slice stands that has read nothing, if it was asked a little later and was idle later.
    assert!(before() <= 0);
    senders[1].send(0).expect("the job reads");
    assert!(before() <= 1);
    silence();
    // One is idle: the other alone decides.
    for count in 2..6 {
        senders[0].send(0).expect("the job reads");
        assert!(before() < count, "what comes is not late");
    }
    senders[1].send(0).expect("the job reads");
    assert!((1..=5).contains(&before()), "it went on without the other");
    handle.stop();
    handle.wait().expect("it stops well");
}

/// A source that has nothing at once, in a process that is older than a second: it is not idle, and
/// what it brings then is not late.
#[test]
fn a_slice_that_was_just_asked_is_not_idle() {
    let sim = World::simulated(1);
    sim.clock.advance(10_000_000);
    let (senders, source) = fed(2);
    let (to, from) = mpsc::channel();
    let mut graph = graph(source, Partition::One, Tell { to, gate: None });
    graph.stages[1].kind = StageKind::Operator { factory: Arc::new(Before), slices: 2 };
    senders[0].send(0).expect("the job reads");
    let handle = start(graph, &sim.world, &RunOptions::default()).expect("it starts");
    let before = || {
        let row = from.recv_timeout(std::time::Duration::from_secs(60)).expect("it comes out");
        i64::from_be_bytes(row.try_into().expect("a watermark"))
    };
    assert_eq!(before(), i64::MIN);
    senders[1].send(0).expect("the job reads");
    // The time of a cycle, and by far not a second.
    sim.clock.advance(100_000);
    assert_eq!(before(), 0, "as far as it was itself; the other slice is at 1");
    handle.stop();
    handle.wait().expect("it stops well");
}

/// A source that never has anything, and says so for ever.
struct Silent;

impl SourceFactory for Silent {
    fn schema(&self) -> SchemaRef {
        rows_schema()
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(Self))
    }
    fn live(&self) -> bool {
        true
    }
}

impl Source for Silent {
    fn read(&mut self, _: &ReadRequest, _: &mut Vec<DeadLetter>) -> Result<Read, SourceError> {
        Ok(Read::Idle { until: Some(u64::MAX) })
    }
    fn position(&self) -> Position {
        Position(0)
    }
    fn watermark(&self) -> Micros {
        Micros::MIN
    }
}

#[test]
fn a_source_that_wants_to_be_left_alone_has_a_heartbeat_too() {
    let (to, _from) = mpsc::channel();
    let handle = run(graph(Arc::new(Silent), Partition::One, Tell { to, gate: None }));
    while handle.progress().cycle_cut == Cycle::NONE {
        std::thread::yield_now();
    }
    handle.stop();
    handle.wait().expect("it stops well");
}

#[test]
fn an_overloaded_at_most_once_job_sheds_the_oldest_and_counts_them() {
    let (mut senders, source) = fed(1);
    let (to, from) = mpsc::channel();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let mut graph = graph(source, Partition::One, Tell { to, gate: Some(Arc::clone(&gate)) });
    graph.delivery = Delivery::AtMostOnce;
    graph.workers = 3;
    graph.cycle.records = 1;
    // Ten records fit into what waits.
    graph.buffer.high_watermark.0 = 10;
    graph.buffer.low_watermark.0 = 5;
    let handle = run(graph);
    for byte in 0..200 {
        senders[0].send(byte).expect("the job reads");
    }
    while handle.progress().shed == 0 {
        std::thread::yield_now();
    }
    *gate.0.lock().expect("held briefly") = true;
    gate.1.notify_all();
    senders.clear();
    let progress = handle.wait().expect("it ends well");
    drop(handle);
    let out: Vec<u8> = from.iter().map(|row| row[1]).collect();
    assert_eq!(out.len() as u64 + progress.shed, 200, "each came out or was counted");
    assert!(out.windows(2).all(|pair| pair[0] < pair[1]), "what is left is in order");
    assert_eq!(out.last(), Some(&199), "the newest was kept");
}

#[test]
fn an_overloaded_job_that_may_not_lose_waits_instead() {
    let (mut senders, source) = fed(1);
    let (to, from) = mpsc::channel();
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let mut graph = graph(source, Partition::One, Tell { to, gate: Some(Arc::clone(&gate)) });
    graph.delivery = Delivery::AtLeastOnce;
    graph.workers = 3;
    graph.buffer.high_watermark.0 = 10;
    graph.buffer.low_watermark.0 = 5;
    let handle = run(graph);
    (0..200).for_each(|byte| senders[0].send(byte).expect("the job reads"));
    senders.clear();
    *gate.0.lock().expect("held briefly") = true;
    gate.1.notify_all();
    let progress = handle.wait().expect("it ends well");
    drop(handle);
    assert_eq!(progress.shed, 0);
    let out: Vec<u8> = from.iter().map(|row| row[1]).collect();
    assert_eq!(out, (0..200).collect::<Vec<u8>>());
}
