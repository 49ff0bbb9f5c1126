//! Jobs that begin anew and are refused: what an earlier life left is as it was.

use super::checkpoints::{kill, options};
use super::lives::contents;
use super::seek::Sought;
use super::*;

/// A sink that cannot be opened, and says so when it is asked whether it could.
struct Refuses {
    passes: bool,
}

impl Sink for Refuses {
    fn check(&mut self) -> Result<(), SinkError> {
        let error = SinkError::new("nobody listens there");
        Err(error.retry_if(self.passes))
    }
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        unreachable!("it said that it cannot be opened");
    }
    fn write(&mut self, _: Cycle, _: &[Arc<Block>]) -> Result<(), SinkError> {
        unreachable!("it is not open");
    }
    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        unreachable!("it is not open");
    }
    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Numbers whose source notes where they begin, and may not be opened.
struct Noted {
    numbers: Numbers,
    notes: Arc<Mutex<Vec<&'static str>>>,
    opens: bool,
}

impl SourceFactory for Noted {
    fn schema(&self) -> SchemaRef {
        self.numbers.schema()
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        self.notes.lock().expect("held briefly").push("opened");
        if self.opens { self.numbers.open(slice) } else { Err(SourceError::new("it is gone")) }
    }
    fn begin(&self) -> Result<(), SourceError> {
        self.notes.lock().expect("held briefly").push("begun");
        Ok(())
    }
}

/// The job of `graph`; its source takes notes.
fn noted(sink: &Collect, opens: bool) -> (JobGraph, Arc<Mutex<Vec<&'static str>>>) {
    let mut graph = graph(&SETUP, sink);
    let notes = Arc::<Mutex<Vec<_>>>::default();
    let numbers = Numbers { count: SETUP.count, keys: 97, live: false };
    let factory = Arc::new(Noted { numbers, notes: Arc::clone(&notes), opens });
    graph.stages[0].kind = StageKind::Source { factory, preload: false };
    (graph, notes)
}

/// Adds a sink after all others.
fn and_to(mut graph: JobGraph, sink: impl Sink + 'static) -> JobGraph {
    let second = graph.stages.iter().position(|it| it.name == "second").expect("it is there");
    let out = graph.add("more", StageKind::Sink { sink: Box::new(sink) });
    graph.link(StageIx::at(second), out, Partition::One);
    graph
}

#[test]
fn a_job_that_begins_anew_and_is_refused_leaves_all_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = |resume| RunOptions {
        data: Some(folder.path().to_owned()),
        resume,
        ..RunOptions::default()
    };
    let world = World::real();
    let sink = Collect::default();
    let (first, notes) = noted(&sink, true);
    let handle = start(first, &world, &options(false)).expect("it starts");
    handle.wait().expect("it ends well");
    assert_eq!(*notes.lock().expect("held briefly"), ["opened", "begun"]);
    let (files, written) = (contents(folder.path()), rows(&sink));
    assert!(!written.is_empty());

    let refused = |graph: JobGraph, resume: bool| {
        let error = start(graph, &world, &options(resume)).err().expect("refused");
        assert_eq!(contents(folder.path()), files, "{error}");
        assert_eq!(rows(&sink), written, "{error}");
        error
    };
    let says =
        |error: &StartError, text: &str| assert!(error.to_string().contains(text), "{error}");
    for resume in [false, true] {
        for passes in [false, true] {
            let (graph, notes) = noted(&sink, true);
            let error = refused(and_to(graph, Refuses { passes }), resume);
            assert_eq!(matches!(error, StartError::Unavailable { .. }), passes, "{error}");
            says(&error, "more");
            says(&error, "nobody listens there");
            assert!(!notes.lock().expect("held briefly").contains(&"begun"));
        }
        let (mut graph, notes) = noted(&sink, true);
        graph.dead_letter = Some(Box::new(Refuses { passes: false }));
        says(&refused(graph, resume), "dead_letter");
        assert!(!notes.lock().expect("held briefly").contains(&"begun"));
        let (graph, notes) = noted(&sink, false);
        says(&refused(graph, resume), "it is gone");
        assert_eq!(*notes.lock().expect("held briefly"), ["opened"]);
    }
    // The earlier life can be gone on with: it had ended.
    let handle = start(graph(&SETUP, &sink), &world, &options(true)).expect("it starts");
    assert!(handle.wait().expect("it ends well").finished);
    assert_eq!(rows(&sink), written);
}

#[test]
fn a_checkpoint_that_cannot_be_begun_with_leaves_all_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let (world, sink) = (World::real(), Collect::default());
    let setup = Setup { count: 400_000, ..SETUP };
    let undisturbed = run(&setup);
    let resuming = options(&world, folder.path(), Span(1_000));
    let handle = start(graph(&setup, &sink), &world, &resuming).expect("it starts");
    let kept = handle.keep_checkpoint("kept").expect("it is made");
    kill(&handle);
    drop(handle);
    let of_job = folder.path().join("job");
    let (files, written) = (contents(&of_job), rows(&sink));
    let to = resuming.checkpoint.clone().expect("it has some");
    let checkpoint = Some(CheckpointTo { from: Some(kept.number), ..to });
    let anew = RunOptions { resume: false, checkpoint, ..resuming.clone() };
    let mut lost = graph(&setup, &sink);
    let numbers = Numbers { count: setup.count, keys: 97, live: false };
    let factory = Sought::new(numbers, |_, _| Err(SourceError::new("it is not there any more")));
    lost.stages[0].kind = StageKind::Source { factory, preload: false };
    let error = start(lost, &world, &anew).err().expect("refused").to_string();
    assert!(error.contains("it is not there any more"), "{error}");
    assert!(contents(&of_job) == files && rows(&sink) == written);
    let handle = start(graph(&setup, &sink), &world, &resuming).expect("it starts");
    handle.wait().expect("it ends well");
    assert!(rows(&sink) == undisturbed);
}
