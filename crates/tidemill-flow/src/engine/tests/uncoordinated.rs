//! Jobs that do nothing twice: each slice is saved by itself, and what came after that is lost.

use super::checkpoints::{kill, options, wait_for_checkpoints};
use super::lives::AtTheEnd;
use super::*;
use std::sync::atomic::AtomicBool;
use tidemill_state::{State, Structure};
use tidemill_types::job::{Delivery, Every};

/// Numbers that a test adds to, and that stay: a stream.
#[derive(Clone, Default)]
pub(super) struct Stream {
    numbers: Arc<Mutex<Vec<i64>>>,
    is_closed: Arc<AtomicBool>,
    was_read: Arc<AtomicBool>,
}

struct StreamSlice {
    stream: Stream,
    next: usize,
    watermark: Micros,
}

impl Stream {
    pub(super) fn of(numbers: impl IntoIterator<Item = i64>) -> Self {
        let stream = Self::default();
        stream.add(numbers);
        stream
    }
    pub(super) fn add(&self, numbers: impl IntoIterator<Item = i64>) {
        self.numbers.lock().expect("held briefly").extend(numbers);
    }
    pub(super) fn numbers(&self) -> Vec<i64> {
        self.numbers.lock().expect("held briefly").clone()
    }
    /// Whether a source has come to its end since it was asked last.
    pub(super) fn was_read(&self) -> bool {
        self.was_read.swap(false, Ordering::SeqCst)
    }
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
    }
}

impl SourceFactory for Stream {
    fn schema(&self) -> SchemaRef {
        schema(&["key", "number"])
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(StreamSlice { stream: self.clone(), next: 0, watermark: Micros::MIN }))
    }
    fn live(&self) -> bool {
        true
    }
}

impl Source for StreamSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        _: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let is_closed = self.stream.is_closed.load(Ordering::SeqCst);
        let numbers = self.stream.numbers.lock().expect("held briefly");
        // A replay reads each cycle as it was cut.
        let until = request.until.map_or(usize::MAX, |until| until.0 as usize);
        let end = numbers.len().min(self.next + request.records.min(100)).min(until);
        let numbers = numbers[self.next..end].to_vec();
        if numbers.is_empty() {
            self.stream.was_read.store(true, Ordering::SeqCst);
            return Ok(if is_closed { Read::End } else { Read::Idle { until: None } });
        }
        self.next = end;
        self.watermark =
            numbers.iter().copied().map(Micros).max().max(Some(self.watermark)).expect("one");
        let bytes = numbers.len() * 8;
        let keys = numbers.iter().map(|number| number % 97).collect();
        let payload = Payload::Arrow(batch(&["key", "number"], vec![keys, numbers]));
        Ok(Read::Rows { payload, bytes })
    }
    fn position(&self) -> Position {
        Position(self.next as u64)
    }
    fn seek(&mut self, to: Position, watermark: Micros) -> Result<(), SourceError> {
        (self.next, self.watermark) = (to.0 as usize, watermark);
        Ok(())
    }
    fn watermark(&self) -> Micros {
        self.watermark
    }
}

/// Writes each number, and how many its key has had; it must see none twice.
pub(super) struct Seen;

/// The numbers, and how many there are of each key.
#[derive(Default)]
struct SeenState {
    numbers: Map<i64, ()>,
    counts: Map<i64, i64>,
}

impl State for SeenState {
    fn structures(&mut self) -> Vec<&mut dyn Structure> {
        vec![&mut self.numbers, &mut self.counts]
    }
}

impl OperatorFactory for Seen {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![schema(&["number", "seen"])]
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Self)
    }
    fn state(&self, _: SliceId) -> SliceState {
        Box::new(SeenState::default())
    }
}

impl Operator for Seen {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let (mut numbers, mut seen) = (Vec::new(), Vec::new());
        for slice in context.slices.clone().map(SliceId) {
            for block in input.port(0) {
                let rows = block.batch();
                let key = rows.column(0).as_primitive::<Int64Type>();
                let number = rows.column(1).as_primitive::<Int64Type>();
                block.rows_of(slice).for_each(|row| {
                    let state: &mut SeenState = context.state(slice);
                    let before = state.numbers.set(number.value(row), ());
                    assert!(before.is_none(), "{} comes twice", number.value(row));
                    let count = state.counts.get_or_default(key.value(row));
                    *count += 1;
                    numbers.push(number.value(row));
                    seen.push(*count);
                });
            }
        }
        output.emit(batch(&["number", "seen"], vec![numbers, seen]));
        Ok(())
    }
}

/// Sums of windows of ten, by the watermark.
pub(super) struct Tens;

impl OperatorFactory for Tens {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![schema(&["window", "sum"])]
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Self)
    }
    fn state(&self, _: SliceId) -> SliceState {
        Box::new(Map::<i64, i64>::default())
    }
    fn wants_time(&self) -> bool {
        true
    }
}

impl Operator for Tens {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        let (mut windows, mut sums) = (Vec::new(), Vec::new());
        let watermark = context.watermark.0;
        for slice in context.slices.clone().map(SliceId) {
            let state: &mut Map<i64, i64> = context.state(slice);
            for block in input.port(0) {
                let rows = block.batch();
                let number = rows.column(1).as_primitive::<Int64Type>();
                block.rows_of(slice).for_each(|row| {
                    *state.get_or_default(number.value(row) / 10) += number.value(row);
                });
            }
            let over = state.iter().filter(|(window, _)| (*window + 1) * 10 <= watermark);
            let mut over: Vec<(i64, i64)> = over.map(|(window, sum)| (*window, *sum)).collect();
            over.sort_unstable();
            for (window, sum) in over {
                state.delete(&window);
                windows.push(window);
                sums.push(sum);
            }
        }
        output.emit(batch(&["window", "sum"], vec![windows, sums]));
        Ok(())
    }
}

pub(super) fn stage(
    stream: &Stream,
    factory: Arc<dyn OperatorFactory>,
    sink: &Collect,
) -> JobGraph {
    let mut graph = JobGraph::new("alone");
    (graph.workers, graph.delivery, graph.cycle.records) = (2, Delivery::AtMostOnce, 100);
    graph.cycle.time = Span(200);
    let factory_of = Arc::new(stream.clone());
    let source = graph.add("numbers", StageKind::Source { factory: factory_of, preload: false });
    let stage = graph.add("stage", StageKind::Operator { factory, slices: 16 });
    let out = graph.add("out", StageKind::Sink { sink: Box::new(sink.clone()) });
    graph.link(source, stage, Partition::Key(vec![0]));
    graph.link(stage, out, Partition::One);
    graph
}

fn with(options: &RunOptions, every: Every) -> RunOptions {
    let to = options.checkpoint.clone().map(|to| CheckpointTo { every, ..to });
    RunOptions { checkpoint: to, ..options.clone() }
}

fn numbers(sink: &Collect) -> Vec<i64> {
    rows(sink).into_iter().map(|(_, number, _)| number).collect()
}

pub(super) fn wait_for_rows(handle: &JobHandle, sink: &Collect, count: usize) {
    let from_us = handle.job.now_us();
    while rows(sink).len() < count {
        assert!(!handle.is_over(), "{:?}", handle.wait());
        let waited_us = handle.job.now_us() - from_us;
        assert!(waited_us < 60_000_000, "{} rows of {count}", rows(sink).len());
        std::thread::yield_now();
    }
}

fn wait_for_position(handle: &JobHandle, position: i64) {
    while handle.progress().sources[0].position < position as u64 {
        assert!(!handle.is_over(), "{:?}", handle.wait());
        std::thread::yield_now();
    }
}

/// However often it is killed: no number counts twice, in a state or in the output, and what is lost
/// was under way when it was killed, or came after its slice was saved.
#[test]
fn nothing_is_done_twice() {
    for every in [Span(500).into(), Every::Bounds { time: None, records: Some(50) }] {
        let folder = tempfile::tempdir().expect("a folder");
        let (stream, sink) = (Stream::default(), Collect::default());
        let options = with(&options(&World::real(), folder.path(), Span(500)), every);
        let (mut went_on, mut next) = (0, 0);
        for life in 0_u64.. {
            let graph = stage(&stream, Arc::new(Seen), &sink);
            let handle = start(graph, &World::real(), &options).expect("it starts");
            let from = handle.progress().checkpoints.cycle;
            went_on += u32::from(from > Cycle::NONE);
            while handle.progress().checkpoints.completed < 1 + life % 3 {
                stream.add(next..next + 1_000);
                next += 1_000;
                wait_for_position(&handle, next);
            }
            if life == 6 {
                stream.close();
                handle.wait().expect("it ends well");
                break;
            }
            kill(&handle);
        }
        assert!(went_on > 3, "it went on {went_on} times");
        let all = numbers(&sink);
        assert!(all.iter().collect::<BTreeSet<_>>().len() == all.len(), "rows are written once");
        let of_key = rows(&sink).into_iter().map(|(_, number, seen)| (number % 97, seen));
        let in_state: i64 = of_key.collect::<BTreeMap<_, _>>().into_values().sum();
        let next = usize::try_from(next).expect("small");
        assert!(all.len() > next / 2, "{} of {next}", all.len());
        assert!(in_state > all.len() as i64 / 4, "{in_state} of {} are in the state", all.len());
    }
}

/// A slice is saved for its own records, and not for those of others.
#[test]
fn slices_are_saved_by_their_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let every = Every::Bounds { time: None, records: Some(1_000) };
    let options = with(&options(&World::real(), folder.path(), Span(500)), every);
    // One key of 97 has nearly all of them.
    let (stream, sink) =
        (Stream::of((0..97).chain((1..5_000).map(|it| it * 97))), Collect::default());
    let graph = stage(&stream, Arc::new(Seen), &sink);
    let handle = start(graph, &World::real(), &options).expect("it starts");
    wait_for_checkpoints(&handle, 1);
    wait_for_rows(&handle, &sink, 5_096);
    let saved = handle.checkpoints();
    let slices = &saved.last().expect("one is complete").1.stages[0].slices;
    assert_eq!(slices.iter().filter(|runs| !runs.is_empty()).count(), 1, "{slices:?}");
    kill(&handle);
}

/// A job without records to read is saved too, and a checkpoint of it can be kept.
#[test]
fn what_came_before_a_silence_is_saved_in_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&World::real(), folder.path(), Span(50_000));
    let (stream, sink) = (Stream::of(0..1_000), Collect::default());
    let start_it = || {
        let graph = stage(&stream, Arc::new(Seen), &sink);
        start(graph, &World::real(), &options).expect("it starts")
    };
    let handle = start_it();
    wait_for_rows(&handle, &sink, 1_000);
    // That of the last row: it may be saved before anybody looks, and then no later one is.
    let last = Cycle(rows(&sink).last().expect("rows").0);
    while handle.progress().checkpoints.cycle < last {
        assert!(!handle.is_over());
        std::thread::yield_now();
    }
    kill(&handle);
    let handle = start_it();
    let kept = handle.keep_checkpoint("quiet").expect("it is made, though nothing comes");
    assert!(kept.cycle >= last);
    stream.add([97_000]);
    stream.close();
    handle.wait().expect("it ends well");
    let last = rows(&sink).into_iter().last().expect("rows");
    // Its key had eleven of those before.
    assert_eq!((last.1, last.2), (97_000, 12), "its state was read back");
}

/// A job that is stopped saves all that it has: nothing is lost, however seldom it is saved.
#[test]
fn a_job_that_is_stopped_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&World::real(), folder.path(), Span(3_600_000_000));
    let (stream, sink) = (Stream::of(0..10_000), Collect::default());
    let start_it = || {
        let graph = stage(&stream, Arc::new(Seen), &sink);
        start(graph, &World::real(), &options).expect("it starts")
    };
    for life in 0..3 {
        let handle = start_it();
        wait_for_rows(&handle, &sink, 1_000 + life * 3_000);
        handle.stop();
        let progress = handle.wait().expect("it stops well");
        assert_eq!(progress.checkpoints.completed, 1, "{progress:?}");
    }
    stream.close();
    start_it().wait().expect("it ends well");
    assert_eq!(numbers(&sink).len(), 10_000);
    let of_key = rows(&sink).into_iter().map(|(_, number, seen)| (number % 97, seen));
    let in_state: i64 = of_key.collect::<BTreeMap<_, _>>().into_values().sum();
    assert_eq!(in_state, 10_000, "and nothing of the states");
}

/// Slices that were saved one by one are no beginning for a job that counts everything once.
#[test]
fn an_exactly_once_job_begins_with_slices_that_were_saved_together() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&World::real(), folder.path(), Span(500));
    let (stream, sink) = (Stream::of(0..10_000), Collect::default());
    let start_it = |delivery| {
        let mut graph = stage(&stream, Arc::new(Seen), &sink);
        graph.delivery = delivery;
        start(graph, &World::real(), &options)
    };
    let handle = start_it(Delivery::AtMostOnce).expect("it starts");
    wait_for_checkpoints(&handle, 1);
    kill(&handle);
    let error = start_it(Delivery::ExactlyOnce).err().expect("refused").to_string();
    assert!(error.contains("was saved by itself") && error.contains("undo that change"), "{error}");
    let handle = start_it(Delivery::AtMostOnce).expect("it starts");
    handle.stop();
    handle.wait().expect("it stops well");
    let handle = start_it(Delivery::ExactlyOnce).expect("it starts");
    assert!(handle.progress().checkpoints.cycle > Cycle::NONE);
    wait_for_checkpoints(&handle, 1);
    kill(&handle);
    // And back: nothing is done again from here on.
    let handle = start_it(Delivery::AtMostOnce).expect("it starts");
    stream.close();
    handle.wait().expect("it ends well");
    let all = numbers(&sink);
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "rows are written once");
}

/// A backend that hangs does not keep a job from stopping.
#[test]
fn a_job_that_cannot_be_saved_stops_all_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = options(&World::real(), folder.path(), Span(3_600_000_000));
    let gate = server::Gate::new(false);
    let to = options.checkpoint.as_mut().expect("it is set");
    to.backend = gate.before(&to.backend);
    let (stream, sink) = (Stream::of(0..1_000), Collect::default());
    let graph = stage(&stream, Arc::new(Seen), &sink);
    let handle = start(graph, &World::real(), &options).expect("it starts");
    wait_for_rows(&handle, &sink, 1_000);
    handle.stop();
    while !handle.is_over() {
        std::thread::yield_now();
    }
    gate.set(true);
    handle.wait().expect("it stops well");
    assert_eq!(handle.progress().checkpoints.completed, 0);
}

/// Also where all slices are saved together, and nothing is saved while nothing comes.
#[test]
fn a_checkpoint_of_a_quiet_job_can_be_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&World::real(), folder.path(), Span(3_600_000_000));
    let (stream, sink) = (Stream::of(0..1_000), Collect::default());
    let mut graph = stage(&stream, Arc::new(Seen), &sink);
    graph.delivery = Delivery::ExactlyOnce;
    let handle = start(graph, &World::real(), &options).expect("it starts");
    wait_for_rows(&handle, &sink, 1_000);
    let kept = handle.keep_checkpoint("quiet").expect("it is made");
    assert!(kept.cycle > Cycle::NONE && kept.bytes > 0, "{kept:?}");
    kill(&handle);
}

/// A window that was written after its slice was saved is not written again.
#[test]
fn a_window_that_was_written_is_not_written_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let every = Every::Bounds { time: None, records: Some(1_000_000) };
    let options = with(&options(&World::real(), folder.path(), Span(500)), every);
    let (stream, sink) = (Stream::of([0, 97, 3]), Collect::default());
    let start_it = || {
        let graph = stage(&stream, Arc::new(Tens), &sink);
        start(graph, &World::real(), &options).expect("it starts")
    };
    let handle = start_it();
    // 97 closes the windows before it: that of 0 and 3 is written.
    wait_for_rows(&handle, &sink, 2);
    stream.add([98, 194]);
    handle.keep_checkpoint("with the window of 97").expect("it is made");
    stream.add([300]);
    wait_for_rows(&handle, &sink, 5);
    kill(&handle);
    let written = rows(&sink);
    let handle = start_it();
    stream.add([400, 500]);
    stream.close();
    handle.wait().expect("it ends well");
    let after = rows(&sink)[written.len()..].to_vec();
    assert!(after.iter().all(|(_, window, _)| *window >= 30), "{after:?} after {written:?}");
    assert!(after.iter().any(|(_, window, _)| *window == 40), "{after:?}");
}

#[test]
fn a_sink_that_begins_anew_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = AtTheEnd::default();
    let mut graph = stage(&Stream::default(), Arc::new(Seen), &Collect::default());
    graph.stages[2].kind = StageKind::Sink { sink: Box::new(sink) };
    let options = options(&World::real(), folder.path(), Span(500));
    let error = start(graph, &World::real(), &options).err().expect("refused").to_string();
    assert!(error.contains("`out`") && error.contains("whole only at its end"), "{error}");
    assert!(!folder.path().join("job").exists(), "the ledger of a job that is refused stays");
}

/// A backend that hangs holds up no record, is asked less often, and has all in the end.
#[test]
fn a_backend_that_is_slow_is_asked_less_often() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = with(&options(&World::real(), folder.path(), Span(500)), Every::Auto);
    let gate = server::Gate::new(true);
    let to = options.checkpoint.as_mut().expect("it is set");
    to.backend = gate.before(&to.backend);
    let (stream, sink) = (Stream::of(0..1_000), Collect::default());
    let graph = stage(&stream, Arc::new(Seen), &sink);
    let handle = start(graph, &World::real(), &options).expect("it starts");
    let mut next = 1_000;
    let mut add_more = || {
        stream.add(next..next + 10);
        next += 10;
        wait_for_position(&handle, next);
    };
    while handle.progress().checkpoints.completed < 3 {
        add_more();
    }
    let before = handle.progress().checkpoints;
    assert!(before.every_us > 0, "{before:?}");
    gate.set(false);
    // Many times what fits into a cycle, until the time of several checkpoints is over.
    let start_us = handle.job.now_us();
    while handle.job.now_us() < start_us + 2 * before.every_us {
        add_more();
    }
    let during = handle.progress().checkpoints.completed;
    assert!(during <= before.completed + 2, "the backend hangs");
    gate.set(true);
    wait_for_checkpoints(&handle, during + 1);
    let after = handle.progress().checkpoints;
    assert!(after.every_us > before.every_us, "{after:?} after {before:?}");
    kill(&handle);
    let graph = stage(&stream, Arc::new(Seen), &sink);
    let handle = start(graph, &World::real(), &options).expect("it starts");
    stream.close();
    handle.wait().expect("it ends well");
    assert_eq!(numbers(&sink).len(), usize::try_from(next).expect("small"));
}
