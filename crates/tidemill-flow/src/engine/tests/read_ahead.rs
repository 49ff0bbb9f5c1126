//! Under `at-most-once` a source that may not begin a cycle reads on. What it read ahead is in no
//! cycle yet: a cycle that ends meanwhile ends before it, in position and in event time.

use super::checkpoints::options;
use super::server::Gate;
use super::uncoordinated::{Stream, Tens, stage};
use super::*;
use tidemill_types::job::Delivery;

/// [`Tens`] that wait before each cycle, but for the lane of the first slice: its thread is the source's.
struct Waiting(Arc<Gate>);

impl OperatorFactory for Waiting {
    fn outputs(&self) -> Vec<SchemaRef> {
        Tens.outputs()
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Self(Arc::clone(&self.0)))
    }
    fn state(&self, slice: SliceId) -> SliceState {
        Tens.state(slice)
    }
    fn wants_time(&self) -> bool {
        true
    }
}

impl Operator for Waiting {
    fn cycle(
        &mut self,
        context: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        if context.slices.start > 0 {
            self.0.pass();
        }
        Tens.cycle(context, input, output)
    }
}

/// The sums of windows that a job writes whose source is not ahead of anything.
fn undisturbed(stream: &Stream) -> Vec<(i64, i64)> {
    let sink = Collect::default();
    let mut graph = stage(stream, Arc::new(Tens), &sink);
    graph.delivery = Delivery::ExactlyOnce;
    let handle = start(graph, &World::real(), &RunOptions::default()).expect("it starts");
    handle.wait().expect("it ends well");
    sums(&sink)
}

fn sums(sink: &Collect) -> Vec<(i64, i64)> {
    let mut sums: Vec<_> = rows(sink).iter().map(|(_, window, sum)| (*window, *sum)).collect();
    sums.sort_unstable();
    sums
}

/// A stage that lags holds no cycle back that was begun, so the source is far ahead when the job
/// stops; the next life reads that, and event time was not ahead of it.
#[test]
fn what_was_read_ahead_is_in_no_cycle_that_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let options = options(&World::real(), folder.path(), Span(3_600_000_000));
    // No cycle ends where a window does, and they are more than may be under way.
    let (stream, sink) = (Stream::of(5..20_005), Collect::default());
    let gate = Gate::new(false);
    let start_it = || {
        let graph = stage(&stream, Arc::new(Waiting(Arc::clone(&gate))), &sink);
        start(graph, &World::real(), &options).expect("it starts")
    };
    stream.was_read();
    let handle = start_it();
    while !stream.was_read() {
        assert!(!handle.is_over(), "{:?}", handle.wait());
        std::thread::yield_now();
    }
    assert!(handle.progress().sources[0].position < 19_000, "the rest waits");
    handle.stop();
    gate.set(true);
    let progress = handle.wait().expect("it stops well");
    assert_eq!((progress.shed, progress.checkpoints.completed), (0, 1), "{progress:?}");
    stream.close();
    start_it().wait().expect("it ends well");
    assert_eq!(sums(&sink), undisturbed(&stream));
}
