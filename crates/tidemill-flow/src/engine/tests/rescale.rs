//! The number of threads changes; the output does not.

use super::*;
use std::sync::mpsc;

#[test]
fn threads_change_while_the_job_runs_and_the_output_does_not() {
    let setup = Setup { count: 400_000, ..SETUP };
    let undisturbed = run(&setup);
    let sink = Collect::default();
    let handle = start(graph(&setup, &sink), &World::real(), &RunOptions::default());
    let handle = handle.expect("it starts");
    let mut changes = 0;
    for workers in [1, 3, 2, 16, 1, 4].into_iter().cycle() {
        let before = handle.progress().cycle_committed;
        while handle.progress().cycle_committed.0 < before.0 + 5 && !handle.is_over() {
            std::thread::yield_now();
        }
        if handle.is_over() {
            break;
        }
        changes += u32::from(handle.rescale(workers).is_ok());
    }
    handle.wait().expect("it ends well");
    assert!(changes >= 3, "only {changes} changes: the job is too short to show anything");
    assert_eq!(rows(&sink), undisturbed);
}

/// Numbers, of which one cycle's are held up when they have been read.
struct Held {
    numbers: Numbers,
    cycle: Cycle,
    is_read: mpsc::Sender<()>,
    go_on: Mutex<Option<mpsc::Receiver<()>>>,
}

struct HeldSlice {
    numbers: Box<dyn Source>,
    cycle: Cycle,
    is_read: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
}

impl SourceFactory for Held {
    fn schema(&self) -> SchemaRef {
        self.numbers.schema()
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let go_on = self.go_on.lock().expect("held briefly").take();
        let go_on = go_on.ok_or_else(|| SourceError::new("opened twice"))?;
        let (numbers, is_read) = (self.numbers.open(slice)?, self.is_read.clone());
        Ok(Box::new(HeldSlice { numbers, cycle: self.cycle, is_read, go_on }))
    }
}

impl Source for HeldSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let read = self.numbers.read(request, letters);
        if request.cycle == self.cycle {
            self.is_read.send(()).expect("the test waits for it");
            self.go_on.recv().expect("the test goes on");
        }
        read
    }
    fn position(&self) -> Position {
        self.numbers.position()
    }
    fn watermark(&self) -> Micros {
        self.numbers.watermark()
    }
}

/// The layout ends between the read of a cycle and its beginning: what was read is kept for the
/// next layout, in which a replay finds the source at the cycle's end already.
#[test]
fn a_replay_whose_threads_change_puts_each_record_into_its_cycle() {
    let setup = Setup { count: 10_000, ..SETUP };
    // One read a cycle.
    let graph = |sink: &Collect| {
        let mut graph = graph(&setup, sink);
        graph.cycle.records = 500;
        graph
    };
    let folder = tempfile::tempdir().expect("a folder");
    let options = |resume| {
        let data = Some(folder.path().into());
        RunOptions { data, resume, ..RunOptions::default() }
    };
    let sink = Collect::default();
    let handle = start(graph(&sink), &World::real(), &options(false)).expect("it starts");
    handle.wait().expect("it ends well");
    let undisturbed = rows(&sink);

    for cycle in [1, 2, 7, 20].map(Cycle) {
        // A sink that has lost everything: all of it is replayed.
        let sink = Collect::default();
        let (is_read, read) = mpsc::channel();
        let (go, go_on) = mpsc::channel();
        let numbers = Numbers { count: setup.count, keys: 97, live: false };
        let go_on = Mutex::new(Some(go_on));
        let held = Arc::new(Held { numbers, cycle, is_read, go_on });
        let mut graph = graph(&sink);
        graph.stages[0].kind = StageKind::Source { factory: held, preload: false };
        let handle = start(graph, &World::real(), &options(true)).expect("it starts");
        read.recv().expect("it is read");
        assert_eq!(handle.rescale(3), Ok(cycle), "the cycle has not begun");
        go.send(()).expect("it waits");
        handle.wait().expect("it ends well");
        assert!(rows(&sink) == undisturbed, "threads changed at cycle {cycle}");
    }
}

/// Numbers that come late: the first read brings nothing, and is held up.
struct Late {
    numbers: Numbers,
    is_read: mpsc::Sender<()>,
    go_on: Mutex<Option<mpsc::Receiver<()>>>,
}

struct LateSlice {
    numbers: Box<dyn Source>,
    is_read: mpsc::Sender<()>,
    go_on: Option<mpsc::Receiver<()>>,
}

impl SourceFactory for Late {
    fn schema(&self) -> SchemaRef {
        self.numbers.schema()
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        let go_on = self.go_on.lock().expect("held briefly").take();
        let (numbers, is_read) = (self.numbers.open(slice)?, self.is_read.clone());
        Ok(Box::new(LateSlice { numbers, is_read, go_on }))
    }
    fn live(&self) -> bool {
        true
    }
}

impl Source for LateSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let Some(go_on) = self.go_on.take() else {
            return self.numbers.read(request, letters);
        };
        self.is_read.send(()).expect("the test waits for it");
        go_on.recv().expect("the test goes on");
        Ok(Read::Idle { until: None })
    }
    fn position(&self) -> Position {
        self.numbers.position()
    }
    fn watermark(&self) -> Micros {
        self.numbers.watermark()
    }
}

/// A source that has been silent for a second is about to end a cycle without records, and the layout
/// ends before that: all that it has comes still.
#[test]
fn a_silent_source_whose_threads_change_has_not_ended() {
    let setup = Setup { count: 3_000, ..SETUP };
    let sim = World::simulated(1);
    let sink = Collect::default();
    let (is_read, read) = mpsc::channel();
    let (go, go_on) = mpsc::channel();
    let numbers = Numbers { count: setup.count, keys: 97, live: true };
    let factory = Arc::new(Late { numbers, is_read, go_on: Mutex::new(Some(go_on)) });
    let mut graph = graph(&setup, &sink);
    graph.stages[0].kind = StageKind::Source { factory, preload: false };
    let handle = start(graph, &sim.world, &RunOptions::default()).expect("it starts");
    read.recv().expect("it is read");
    sim.clock.advance(2_000_000);
    assert_eq!(handle.rescale(3), Ok(Cycle(1)), "no cycle has begun");
    go.send(()).expect("it waits");
    while !handle.is_over() {
        sim.clock.advance(1_000);
        std::thread::yield_now();
    }
    assert!(handle.wait().expect("it ends well").finished);
    assert_eq!(by_key(&rows(&sink)), expected(setup.count));
}
