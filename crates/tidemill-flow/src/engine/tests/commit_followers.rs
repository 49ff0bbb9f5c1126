//! What a source that follows is told: nothing of which some sink, or the dead letters, lack a row.

use super::*;
use crate::source::CommitFollower;
use std::{
    sync::{Condvar, Mutex, MutexGuard},
    time::Duration,
};
use tidemill_types::job::Delivery;

/// Records of the source; each tenth comes with a bad one.
const COUNT: u64 = 80;
/// How long a sink that is slow gives others time to tell too early.
const SLOW: Duration = Duration::from_millis(40);
/// A job that stands still is told from one that is slow.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is known on the outside.
#[derive(Default)]
struct Outside {
    /// Rows that are where they stay: of two sinks, and of the dead letters.
    rows: [u64; 3],
    /// The cycle that the second sink commits, or has committed.
    begun: u64,
    /// What the source was told.
    told: u64,
    /// What it was told too early.
    early: Vec<String>,
}

#[derive(Clone, Default)]
struct Watch(Arc<(Mutex<Outside>, Condvar)>);

impl Watch {
    fn outside(&self) -> MutexGuard<'_, Outside> {
        self.0.0.lock().expect("no panic while held")
    }

    fn change(&self, change: impl FnOnce(&mut Outside)) {
        change(&mut self.outside());
        self.0.1.notify_all();
    }

    /// Waits as long as it is so, and not for ever.
    fn wait(&self, time: Duration, is_so: impl Fn(&Outside) -> bool) {
        let waited = self.0.1.wait_timeout_while(self.outside(), time, |it| is_so(it));
        drop(waited.expect("no panic while held"));
    }
}

struct Follows {
    numbers: Numbers,
    watch: Watch,
}

impl SourceFactory for Follows {
    fn schema(&self) -> SchemaRef {
        self.numbers.schema()
    }
    fn open(&self, slice: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(WithBad(self.numbers.open(slice)?)))
    }
    fn follower(&self) -> Option<&dyn CommitFollower> {
        Some(self)
    }
}

impl CommitFollower for Follows {
    fn committed(&self, _: SliceId, Position(told): Position) {
        self.watch.change(|it| {
            let should = [told, told, told / 10];
            if it.rows.iter().zip(should).any(|(rows, should)| *rows < should) {
                it.early.push(format!("{told} was told, and there are {:?}", it.rows));
            }
            it.told = told;
        });
    }
}

/// With a bad record behind each tenth.
struct WithBad(Box<dyn Source>);

impl Source for WithBad {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        let Position(from) = self.0.position();
        let read = self.0.read(request, letters)?;
        let Position(to) = self.0.position();
        letters.extend((from + 1..=to).filter(|it| it % 10 == 0).map(|it| DeadLetter {
            stage: String::new(),
            cycle: request.cycle,
            slice: SliceId(0),
            position: it.to_string(),
            reason: "it is bad".to_owned(),
            record: Vec::new(),
        }));
        Ok(read)
    }
    fn position(&self) -> Position {
        self.0.position()
    }
    fn watermark(&self) -> Micros {
        self.0.watermark()
    }
}

/// How a sink commits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    AtOnce,
    /// Not before the slow one has begun to.
    BesideSlow,
    /// Slowly: others are done long before.
    Slow,
}

struct Watched {
    nth: usize,
    pace: Pace,
    watch: Watch,
    written: Vec<(Cycle, u64)>,
}

impl Sink for Watched {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }
    fn write(&mut self, cycle: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        self.written.push((cycle, blocks.iter().map(|it| it.len() as u64).sum()));
        Ok(())
    }
    fn commit(&mut self, cycle: Cycle) -> Result<(), SinkError> {
        let due = self.written.partition_point(|(it, _)| *it <= cycle);
        let rows: u64 = self.written.drain(..due).map(|(_, rows)| rows).sum();
        match self.pace {
            Pace::AtOnce => {}
            Pace::BesideSlow => self.watch.wait(PATIENCE, |it| it.begun < cycle.0),
            Pace::Slow => {
                self.watch.change(|it| it.begun = cycle.0);
                self.watch.wait(SLOW, |it| it.told < it.rows[self.nth] + rows);
            }
        }
        self.watch.change(|it| it.rows[self.nth] += rows);
        Ok(())
    }
    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// What a job with two sinks of these paces tells its source.
fn outside(paces: [Pace; 2], delivery: Delivery, data: Option<&Path>) -> Outside {
    let watch = Watch::default();
    let sink = |nth, pace| -> Box<dyn Sink> {
        Box::new(Watched { nth, pace, watch: watch.clone(), written: Vec::new() })
    };
    let mut graph = JobGraph::new("told");
    (graph.workers, graph.delivery) = (3, delivery);
    graph.cycle.records = 10;
    let numbers = Numbers { count: COUNT as i64, keys: 7, live: false };
    let factory = Arc::new(Follows { numbers, watch: watch.clone() });
    let source = graph.add("numbers", StageKind::Source { factory, preload: false });
    for (nth, pace) in paces.into_iter().enumerate() {
        let out = graph.add(format!("out {nth}"), StageKind::Sink { sink: sink(nth, pace) });
        graph.link(source, out, Partition::One);
    }
    graph.dead_letter = Some(sink(2, Pace::AtOnce));
    let options = RunOptions { data: data.map(Path::to_owned), ..RunOptions::default() };
    let handle = start(graph, &World::real(), &options).expect("it starts");
    assert!(handle.wait().expect("it ends well").finished);
    std::mem::take(&mut *watch.outside())
}

fn is_right(outside: &Outside) {
    assert!(outside.early.is_empty(), "{:?}", outside.early);
    assert_eq!((outside.told, outside.rows), (COUNT, [COUNT, COUNT, COUNT / 10]));
}

#[test]
fn a_source_is_told_of_nothing_that_a_slower_sink_lacks() {
    is_right(&outside([Pace::BesideSlow, Pace::Slow], Delivery::AtLeastOnce, None));
}

#[test]
fn a_source_is_told_of_nothing_whose_dead_letters_are_not_there() {
    let paces = [Pace::AtOnce, Pace::AtOnce];
    is_right(&outside(paces, Delivery::AtLeastOnce, None));
    let folder = tempfile::tempdir().expect("a folder");
    is_right(&outside(paces, Delivery::ExactlyOnce, Some(folder.path())));
}
