//! Event time of a job that does nothing twice: it goes on where it was.

use super::*;
use crate::runtime::{ledger::RecordedCycles, plan::Plan, restore::ResumePoint};
use tidemill_wire::ledger::Cut;

/// What a source slice says at the end of a cycle: its watermark, whether it is idle, whether it
/// has ended. None: it ended before.
type Says = Option<(i64, bool, bool)>;

struct TwoSlices;

impl SourceFactory for TwoSlices {
    fn schema(&self) -> SchemaRef {
        schema(&["key", "number"])
    }
    fn slices(&self) -> u32 {
        2
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Err(SourceError::new("nobody reads it"))
    }
}

/// Sums that hold event time back by three.
struct Late;

impl OperatorFactory for Late {
    fn outputs(&self) -> Vec<SchemaRef> {
        RunningSum { poison: None }.outputs()
    }
    fn operator(&self) -> Box<dyn Operator> {
        RunningSum { poison: None }.operator()
    }
    fn state(&self, slice: SliceId) -> SliceState {
        RunningSum { poison: None }.state(slice)
    }
    fn holds_back(&self) -> Span {
        Span(3)
    }
}

/// Event time at the stage, and at the sink behind it, after cycles that a ledger has.
fn after(cycles: &[[Says; 2]]) -> (Micros, Micros) {
    let mut graph = JobGraph::new("resumed");
    let source = StageKind::Source { factory: Arc::new(TwoSlices), preload: false };
    let source = graph.add("numbers", source);
    let late = graph.add("late", StageKind::Operator { factory: Arc::new(Late), slices: 4 });
    let out = graph.add("out", StageKind::Sink { sink: Box::new(Collect::default()) });
    graph.link(source, late, Partition::Key(vec![0]));
    graph.link(late, out, Partition::One);
    let (plan, _) = Plan::new(graph, &Processes::default()).expect("a graph");
    let mut recorded = RecordedCycles::default();
    for (nth, says) in cycles.iter().enumerate() {
        let cycle = Cycle(nth as u64 + 1);
        recorded.times.push((cycle, Micros(0)));
        for (slice, says) in (0..).zip(says) {
            let Some((watermark, idle, ended)) = *says else { continue };
            let cut = Cut { source: 0, slice, position: cycle.0, ended, idle };
            recorded.cuts.push((cycle, cut));
            let slice = SliceKey::new(StageIx(0), SliceId(slice));
            recorded.watermarks.insert((cycle, slice), Micros(watermark));
        }
    }
    let mut before = ResumePoint::default();
    before.skip(&plan, &recorded).expect("the ledger says how far event time was");
    assert_eq!(before.cycle, Cycle(cycles.len() as u64));
    (before.watermark(StageIx(1)), before.watermark(StageIx(2)))
}

#[test]
fn event_time_of_a_resumed_job_does_not_go_back() {
    let (at, idle, ended) =
        (|at| Some((at, false, false)), |at| Some((at, true, false)), |at| Some((at, false, true)));
    assert_eq!(after(&[[at(20), at(10)]]), (Micros(10), Micros(7)));
    assert_eq!(after(&[[at(20), idle(10)]]), (Micros(20), Micros(17)));
    // One that wakes up behind the others takes nothing back that was said without it.
    assert_eq!(after(&[[at(20), idle(10)], [at(20), at(11)]]), (Micros(20), Micros(17)));
    assert_eq!(after(&[[at(20), idle(10)], [at(30), at(25)]]), (Micros(25), Micros(22)));
    // While all are idle it stands still.
    assert_eq!(after(&[[at(20), at(10)], [idle(20), idle(10)]]), (Micros(10), Micros(7)));
    assert_eq!(after(&[[idle(20), idle(10)]]), (Micros::MIN, Micros::MIN));
    // One that has ended is waited for no more, and all of them end everything.
    assert_eq!(after(&[[at(20), ended(10)], [at(30), None]]), (Micros(30), Micros(27)));
    let (stage, sink) = after(&[[at(20), ended(10)], [ended(30), None]]);
    assert!(stage == Micros::MAX && sink >= Micros::MAX.minus(Span(3)), "{stage:?} {sink:?}");
}
