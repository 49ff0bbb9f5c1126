//! A source gets more slices: while the job runs, and while it does not.

use super::checkpoints::{kill, options, wait_for_checkpoints};
use super::*;
use crate::runtime::growth;
use crate::source::GrowingSource;
use std::sync::atomic::{AtomicBool, AtomicU32};

/// Records of a slice.
const COUNT: i64 = 3_000;
const SLICES: u32 = 2;

/// A stream: numbers of its own in each slice, and nothing after them.
#[derive(Clone)]
struct Stream {
    there: Arc<AtomicU32>,
    /// Those that are read.
    known: Arc<AtomicU32>,
    /// It cannot be asked.
    is_away: Arc<AtomicBool>,
}

impl Stream {
    fn new() -> Self {
        let of = |slices| Arc::new(AtomicU32::new(slices));
        Self { there: of(SLICES), known: of(SLICES), is_away: Arc::default() }
    }

    /// As a job finds it that starts.
    fn found(&self) -> Arc<Self> {
        self.known.store(self.there.load(Ordering::SeqCst), Ordering::SeqCst);
        Arc::new(self.clone())
    }
}

impl SourceFactory for Stream {
    fn schema(&self) -> SchemaRef {
        schema(&["slice", "number"])
    }
    fn slices(&self) -> u32 {
        self.known.load(Ordering::SeqCst)
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(StreamSlice { slice: i64::from(slice.0), next: 0 }))
    }
    fn live(&self) -> bool {
        true
    }
    fn growth(&self) -> Option<&dyn GrowingSource> {
        Some(self)
    }
}

impl GrowingSource for Stream {
    fn began_with(&self) -> u32 {
        SLICES
    }
    fn grow(&self) -> Result<u32, SourceError> {
        if self.is_away.load(Ordering::SeqCst) {
            return Err(SourceError::new("it does not answer"));
        }
        self.found();
        Ok(self.slices())
    }
}

struct StreamSlice {
    slice: i64,
    next: i64,
}

impl Source for StreamSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        _: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let until = request.until.map_or(COUNT, |until| until.0 as i64);
        let end = (self.next + 7).min(until);
        if self.next == end {
            return Ok(Read::Idle { until: None });
        }
        let numbers: Vec<i64> = (self.next..end).collect();
        self.next = end;
        let slices = vec![self.slice; numbers.len()];
        let bytes = numbers.len() * 8;
        let payload = Payload::Arrow(batch(&["slice", "number"], vec![slices, numbers]));
        Ok(Read::Rows { payload, bytes })
    }
    fn position(&self) -> Position {
        Position(self.next as u64)
    }
    fn watermark(&self) -> Micros {
        Micros(self.next)
    }
}

/// Writes each number of a slice, in one with how far event time was.
const SEEN: Plain = Plain {
    columns: ["number", "watermark"],
    does: |context, input, output| {
        for slice in context.slices.clone().map(SliceId) {
            let mut numbers = Vec::new();
            for block in input.port(0) {
                let rows = block.batch();
                let of = |column| rows.column(column).as_primitive::<Int64Type>();
                let number = |row| of(0).value(row) * COUNT + of(1).value(row);
                block.rows_of(slice).for_each(|row| numbers.push(number(row)));
            }
            let watermarks = vec![context.watermark.0; numbers.len()];
            output.emit(batch(&SEEN.columns, vec![numbers, watermarks]));
        }
    },
};

/// What the two sinks hold.
#[derive(Clone, Default)]
struct Sinks {
    seen: Collect,
    sums: Collect,
}

impl Sinks {
    fn rows(&self) -> [Vec<(u64, i64, i64)>; 2] {
        [rows(&self.seen), rows(&self.sums)]
    }

    fn have(&self, slices: u32) -> bool {
        let all = u64::from(slices) * COUNT as u64;
        self.rows().iter().all(|rows| rows.len() as u64 >= all)
    }

    /// Each record of so many slices was counted once.
    fn check(&self, slices: u32) {
        let [mut seen, sums] = self.rows();
        seen.sort_by_key(|(_, number, _)| *number);
        let numbers: Vec<i64> = seen.into_iter().map(|(_, number, _)| number).collect();
        assert!(numbers == (0..i64::from(slices) * COUNT).collect::<Vec<_>>());
        let sums = by_key(&sums);
        assert_eq!(sums.len(), slices as usize);
        for sums in sums.values() {
            let expected = (0..COUNT).scan(0, |sum, number| {
                *sum += number;
                Some(*sum)
            });
            assert!(sums.iter().copied().eq(expected));
        }
    }
}

fn job(stream: &Stream, sinks: &Sinks) -> JobGraph {
    let mut graph = JobGraph::new("grown");
    graph.workers = 2;
    graph.cycle.time = Span(500);
    graph.cycle.records = 20;
    let source = graph.add("s", StageKind::Source { factory: stream.found(), preload: false });
    // As many slices as the source had when the job began.
    let seen = graph.add("seen", StageKind::Operator { factory: Arc::new(SEEN), slices: 0 });
    let factory = Arc::new(RunningSum { poison: None });
    let sums = graph.add("sums", StageKind::Operator { factory, slices: 5 });
    let sink = |it: &Collect| StageKind::Sink { sink: Box::new(it.clone()) };
    let out = graph.add("out", sink(&sinks.seen));
    let out_sums = graph.add("out_sums", sink(&sinks.sums));
    graph.link(source, seen, Partition::Local);
    graph.link(source, sums, Partition::Key(vec![0]));
    graph.link(seen, out, Partition::One);
    graph.link(sums, out_sums, Partition::One);
    graph
}

fn until(handle: &JobHandle, is: impl Fn() -> bool) {
    while !is() {
        assert!(!handle.is_over(), "{:?}", handle.wait());
        std::thread::yield_now();
    }
}

/// Asks the source until it is read by so many slices.
fn ask_until(handle: &JobHandle, slices: u32) {
    until(handle, || {
        growth::ask_all(&handle.job).expect("it answers");
        handle.job.newest_layout().source_slices(StageIx(0)) == slices
    });
}

/// Goes on with the job from its ledger or its checkpoint.
fn go_on(folder: &Path, stream: &Stream, sinks: &Sinks) -> JobHandle {
    let options =
        RunOptions { data: Some(folder.join("job")), resume: true, ..RunOptions::default() };
    start(job(stream, sinks), &World::real(), &options).expect("it starts")
}

/// A sink that has lost everything gets the same rows in the same cycles again.
fn check_replay(folder: &Path, stream: &Stream, sinks: &Sinks, slices: u32) {
    sinks.check(slices);
    let again = Sinks::default();
    let handle = go_on(folder, stream, &again);
    until(&handle, || again.have(slices));
    kill(&handle);
    assert!(again.rows() == sinks.rows());
}

#[test]
fn slices_that_come_while_the_job_runs_are_read_and_replayed() {
    for cycle in [1, 20, 90] {
        let folder = tempfile::tempdir().expect("a folder");
        let (stream, sinks) = (Stream::new(), Sinks::default());
        let handle = go_on(folder.path(), &stream, &sinks);
        until(&handle, || handle.progress().cycle_committed.0 >= cycle);
        for slices in [3, 6] {
            stream.there.store(slices, Ordering::SeqCst);
            // It asks by itself too.
            ask_until(&handle, slices);
            let at = handle.progress().cycle_committed.0;
            until(&handle, || handle.progress().cycle_committed.0 > at + 3);
        }
        assert_eq!(handle.job.plan.stages[1].slices, SLICES);
        // What is not read yet is read by the next life.
        kill(&handle);
        let handle = go_on(folder.path(), &stream, &sinks);
        assert_eq!(handle.job.plan.stages[1].slices, SLICES);
        until(&handle, || sinks.have(6));
        kill(&handle);
        check_replay(folder.path(), &stream, &sinks, 6);
    }
}

/// Recorded cycles have what they had, though slices come while they are replayed.
#[test]
fn slices_that_come_in_a_replay_are_read_after_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (stream, sinks) = (Stream::new(), Sinks::default());
    let handle = go_on(folder.path(), &stream, &sinks);
    until(&handle, || sinks.have(SLICES));
    kill(&handle);
    let again = Sinks::default();
    let handle = go_on(folder.path(), &stream, &again);
    stream.there.store(3, Ordering::SeqCst);
    ask_until(&handle, 3);
    until(&handle, || again.have(3));
    kill(&handle);
    again.check(3);
    for (before, again) in sinks.rows().iter().zip(again.rows()) {
        let last = before.last().expect("it has rows").0;
        assert!(again.iter().filter(|(cycle, ..)| *cycle <= last).eq(before));
    }
}

#[test]
fn slices_that_came_while_the_job_was_away_are_read_and_replayed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (stream, sinks) = (Stream::new(), Sinks::default());
    for slices in [2, 3, 5] {
        stream.there.store(slices, Ordering::SeqCst);
        let handle = go_on(folder.path(), &stream, &sinks);
        let (at, ahead) = (handle.progress().cycle_committed.0, if slices == 5 { 0 } else { 30 });
        until(&handle, || handle.progress().cycle_committed.0 > at + ahead);
        kill(&handle);
    }
    let handle = go_on(folder.path(), &stream, &sinks);
    until(&handle, || sinks.have(5));
    kill(&handle);
    check_replay(folder.path(), &stream, &sinks, 5);
}

#[test]
fn a_checkpoint_has_the_slices_of_its_cycle() {
    let folder = tempfile::tempdir().expect("a folder");
    let (stream, sinks) = (Stream::new(), Sinks::default());
    let mut came = 0;
    for life in 0_u32.. {
        let options = options(&World::real(), folder.path(), Span(700));
        let handle = start(job(&stream, &sinks), &World::real(), &options).expect("it starts");
        wait_for_checkpoints(&handle, 1);
        if came < 4 {
            came += 1;
            stream.there.store(SLICES + came, Ordering::SeqCst);
            if life % 2 == 0 {
                ask_until(&handle, SLICES + came);
            }
            wait_for_checkpoints(&handle, 2);
        } else if sinks.have(SLICES + came) {
            kill(&handle);
            break;
        }
        kill(&handle);
        assert_eq!(handle.wait().expect("it did not fail").dead_letters, 0);
    }
    sinks.check(SLICES + came);
}

#[test]
fn a_source_that_cannot_be_asked_is_asked_again() {
    let (stream, sinks) = (Stream::new(), Sinks::default());
    let handle = start(job(&stream, &sinks), &World::real(), &RunOptions::default());
    let handle = handle.expect("it starts");
    until(&handle, || sinks.have(SLICES));
    stream.is_away.store(true, Ordering::SeqCst);
    stream.there.store(3, Ordering::SeqCst);
    let error = growth::ask_all(&handle.job).expect_err("it is away");
    assert_eq!(error, "it does not answer");
    stream.is_away.store(false, Ordering::SeqCst);
    // Its own thread asks.
    until(&handle, || sinks.have(3));
    handle.stop();
    handle.wait().expect("it ends well");
    sinks.check(3);
}
