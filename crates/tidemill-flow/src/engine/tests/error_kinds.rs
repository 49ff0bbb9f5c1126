//! The engine repeats calls whose error says so, and hands every other kind to the job's error.

use super::*;
use crate::error::ErrorKind;
use crate::operator::{Operator, OperatorError};

/// Numbers whose slices cannot be opened, or read.
struct Refuses {
    numbers: Numbers,
    opens: bool,
    kind: ErrorKind,
}

struct RefusesReads(Box<dyn Source>, ErrorKind);

impl SourceFactory for Refuses {
    fn schema(&self) -> SchemaRef {
        self.numbers.schema()
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        match self.opens {
            true => Ok(Box::new(RefusesReads(self.numbers.open(slice)?, self.kind))),
            false => Err(SourceError::of_kind(self.kind, "it is not opened")),
        }
    }
}

impl Source for RefusesReads {
    fn read(&mut self, _: &ReadRequest, _: &mut Vec<DeadLetter>) -> Result<Read, SourceError> {
        Err(SourceError::of_kind(self.1, "it is not read"))
    }
    fn position(&self) -> Position {
        self.0.position()
    }
    fn watermark(&self) -> Micros {
        self.0.watermark()
    }
}

/// An operator or a sink that fails with this kind.
struct Fails(ErrorKind);

impl OperatorFactory for Fails {
    fn outputs(&self) -> Vec<SchemaRef> {
        RunningSum { poison: None }.outputs()
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Self(self.0))
    }
    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
}

impl Operator for Fails {
    fn cycle(
        &mut self,
        _: &mut Context<'_>,
        _: &CycleInput,
        _: &mut Output,
    ) -> Result<(), OperatorError> {
        Err(OperatorError::of_kind(self.0, "it fails").with_source(std::fmt::Error))
    }
}

impl Sink for Fails {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }
    fn write(&mut self, _: Cycle, _: &[Arc<Block>]) -> Result<(), SinkError> {
        Ok(())
    }
    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        // A call that may succeed later is repeated, and fails for good then.
        let kind = std::mem::replace(&mut self.0, ErrorKind::Corrupt);
        Err(SinkError::of_kind(kind, "it is not committed"))
    }
    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

const KINDS: [ErrorKind; 4] =
    [ErrorKind::Retry, ErrorKind::Invalid, ErrorKind::Corrupt, ErrorKind::Failed];

/// The kind and part of the error of a job with this stage in the place of another.
fn failed_with(stage: usize, kind: StageKind) -> (ErrorKind, String) {
    let mut graph = graph(&SETUP, &Collect::default());
    graph.stages[stage].kind = kind;
    let handle = start(graph, &World::real(), &RunOptions::default()).expect("it starts");
    let error = handle.wait().expect_err("it fails");
    assert!(!error.panicked, "{error}");
    (error.kind, error.part)
}

fn source(opens: bool, kind: ErrorKind) -> StageKind {
    let numbers = Numbers { count: 10, keys: 3, live: false };
    StageKind::Source { factory: Arc::new(Refuses { numbers, opens, kind }), preload: false }
}

#[test]
fn a_source_that_may_open_later_keeps_the_job_from_starting_now() {
    for kind in KINDS {
        let mut graph = graph(&SETUP, &Collect::default());
        graph.stages[0].kind = source(false, kind);
        let refused = start(graph, &World::real(), &RunOptions::default());
        let Err(refused) = refused else { panic!("it starts without its source") };
        assert_eq!(refused.to_string(), "`numbers`: it is not opened");
        let is_unavailable = matches!(refused, StartError::Unavailable { .. });
        assert_eq!(is_unavailable, kind == ErrorKind::Retry, "{refused:?}");
    }
}

#[test]
fn a_read_and_a_cycle_are_never_repeated() {
    for kind in KINDS {
        assert_eq!(failed_with(0, source(true, kind)), (kind, "numbers".to_owned()));
        let operator = StageKind::Operator { factory: Arc::new(Fails(kind)), slices: 16 };
        assert_eq!(failed_with(1, operator), (kind, "first".to_owned()));
    }
}

#[test]
fn a_commit_is_repeated_if_it_may_succeed_later() {
    for kind in KINDS {
        let expected = if kind == ErrorKind::Retry { ErrorKind::Corrupt } else { kind };
        let sink = StageKind::Sink { sink: Box::new(Fails(kind)) };
        assert_eq!(failed_with(3, sink), (expected, "out".to_owned()));
    }
}

#[test]
fn an_error_has_the_one_underneath_as_its_source() {
    let error = SinkError::retry("it is away").with_source(std::fmt::Error);
    let source = std::error::Error::source(&error).map(ToString::to_string);
    assert_eq!((error.is_retry(), source), (true, Some(std::fmt::Error.to_string())));
    assert!(!SinkError::new("no").retry_if(false).is_retry());
}
