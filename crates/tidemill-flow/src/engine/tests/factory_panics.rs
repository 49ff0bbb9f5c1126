//! What a program is asked while its job is opened panics: the job is refused with whose panic it was,
//! and nothing of it is left open.

use super::checkpoints::{kill, killed_after, options};
use super::seek::Sought;
use super::*;

/// A source, a stage and a sink, of which one call panics.
#[derive(Clone, Copy)]
struct Panics(&'static str);

impl Panics {
    fn called(self, call: &str) {
        assert!(self.0 != call, "in {call}");
    }
}

const NUMBERS: Numbers = Numbers { count: 5_000, keys: 97, live: false };

impl SourceFactory for Panics {
    fn schema(&self) -> SchemaRef {
        self.called("schema");
        NUMBERS.schema()
    }
    fn slices(&self) -> u32 {
        self.called("slices");
        1
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        self.called("open");
        NUMBERS.open(slice)
    }
    fn begin(&self) -> Result<(), SourceError> {
        self.called("begin");
        Ok(())
    }
    fn live(&self) -> bool {
        self.called("live");
        false
    }
    fn reads(&self) -> String {
        self.called("reads");
        String::new()
    }
    fn begins_at(&self, _: SliceId) -> Position {
        self.called("begins_at");
        Position(0)
    }
}

/// As the sum, but its structures may not be told.
struct Untold(Panics);

impl tidemill_state::State for Untold {
    fn structures(&mut self) -> Vec<&mut dyn tidemill_state::Structure> {
        self.0.called("structures");
        Vec::new()
    }
}

impl OperatorFactory for Panics {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![schema(&["key", "sum"])]
    }
    fn operator(&self) -> Box<dyn Operator> {
        self.called("operator");
        Box::new(RunningSumLane { poison: None })
    }
    fn state(&self, _: SliceId) -> SliceState {
        self.called("state");
        Box::new(Untold(*self))
    }
    fn wants_time(&self) -> bool {
        self.called("wants_time");
        false
    }
}

impl Sink for Panics {
    fn check(&mut self) -> Result<(), SinkError> {
        self.called("check");
        Ok(())
    }
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        self.called("open");
        Ok(Cycle::NONE)
    }
    fn has_begun(&self) -> Cycle {
        self.called("has_begun");
        Cycle::NONE
    }
    fn write(&mut self, _: Cycle, _: &[Arc<Block>]) -> Result<(), SinkError> {
        Ok(())
    }
    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        Ok(())
    }
    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn source(call: &'static str) -> StageKind {
    StageKind::Source { factory: Arc::new(Panics(call)), preload: false }
}

fn stage(call: &'static str) -> StageKind {
    StageKind::Operator { factory: Arc::new(Panics(call)), slices: 16 }
}

fn sink(call: &'static str) -> StageKind {
    StageKind::Sink { sink: Box::new(Panics(call)) }
}

#[test]
fn what_panics_while_a_job_is_opened_is_named_and_leaves_its_folder_free() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = Some(folder.path().to_owned());
    let options = RunOptions { data, ..RunOptions::default() };
    let refused = |stage: usize, kind: StageKind| {
        let mut graph = graph(&SETUP, &Collect::default());
        graph.stages[stage].kind = kind;
        let refused = start(graph, &World::real(), &options).err().expect("it is refused");
        refused.to_string()
    };
    for call in ["schema", "slices", "begin", "live", "reads"] {
        assert_eq!(refused(0, source(call)), format!("`numbers`: it panicked: in {call}"));
    }
    for call in ["open", "begins_at"] {
        assert_eq!(refused(0, source(call)), format!("`numbers`: slice 0 panicked: in {call}"));
    }
    for call in ["operator", "wants_time"] {
        assert_eq!(refused(1, stage(call)), format!("`first`: it panicked: in {call}"));
    }
    for call in ["state", "structures"] {
        assert_eq!(refused(1, stage(call)), format!("`first`: slice 0 panicked: in {call}"));
    }
    for call in ["check", "open", "has_begun"] {
        assert_eq!(refused(3, sink(call)), format!("`out`: it panicked: in {call}"));
    }
    let sink = Collect::default();
    let handle = start(graph(&SETUP, &sink), &World::real(), &options).expect("it starts");
    handle.wait().expect("it ends well");
    assert_eq!(by_key(&rows(&sink)), expected(SETUP.count));
}

#[test]
fn what_panics_on_its_way_to_a_checkpoint_is_named() {
    /// As the sum, but its states cannot be made.
    struct Stateless;
    impl OperatorFactory for Stateless {
        fn outputs(&self) -> Vec<SchemaRef> {
            RunningSum { poison: None }.outputs()
        }
        fn operator(&self) -> Box<dyn Operator> {
            RunningSum { poison: None }.operator()
        }
        fn state(&self, _: SliceId) -> SliceState {
            panic!("there is none")
        }
        fn cannot_save(&self) -> Option<String> {
            None
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (world, sink) = (World::real(), Collect::default());
    let setup = Setup { count: i64::MAX, ..SETUP };
    let options = options(&world, folder.path(), Span(1_000));
    drop(killed_after(1, graph(&setup, &sink), &options));
    let refused = |stage: usize, kind: StageKind| {
        let mut graph = graph(&setup, &sink);
        graph.stages[stage].kind = kind;
        start(graph, &world, &options).err().expect("it is refused").to_string()
    };
    let numbers = Numbers { count: setup.count, keys: 97, live: false };
    let factory = Sought::new(numbers, |_, _| panic!("it is not there"));
    let source = StageKind::Source { factory, preload: false };
    assert_eq!(refused(0, source), "`numbers`: slice 0 panicked: it is not there");
    let error = refused(1, StageKind::Operator { factory: Arc::new(Stateless), slices: 16 });
    assert!(error.starts_with("`first`: the state of slice "), "{error}");
    assert!(error.ends_with(": it panicked: there is none"), "{error}");
    let handle = start(graph(&setup, &sink), &world, &options).expect("it goes on");
    kill(&handle);
}

#[test]
fn a_stage_that_panics_as_threads_change_fails_its_job() {
    /// Makes so many operators, and no more.
    struct Few(AtomicU64);
    impl OperatorFactory for Few {
        fn outputs(&self) -> Vec<SchemaRef> {
            vec![schema(&["key", "sum"])]
        }
        fn operator(&self) -> Box<dyn Operator> {
            let left = self.0.fetch_sub(1, Ordering::SeqCst);
            assert!(left > 0, "no more of them");
            Box::new(RunningSumLane { poison: None })
        }
        fn state(&self, _: SliceId) -> SliceState {
            Box::new(Map::<i64, i64>::default())
        }
    }
    let mut graph = graph(&Setup { count: i64::MAX, ..SETUP }, &Collect::default());
    let factory = Arc::new(Few(AtomicU64::new(2)));
    graph.stages[1].kind = StageKind::Operator { factory, slices: 16 };
    let handle = start(graph, &World::real(), &RunOptions::default()).expect("it starts");
    handle.rescale(3).expect("it changes");
    let error = handle.wait().expect_err("it fails");
    assert_eq!((error.part.as_str(), error.panicked), ("first", true), "{error}");
    assert_eq!(error.message, "no more of them");
}
