//! More bad records than may wait for their sink: sources wait for those that can go, and for no
//! others.

use super::*;

/// A job that waits for ever is told from one that is slow, in microseconds.
const PATIENCE_US: u64 = 120_000_000;

/// Every read brings nothing but so many bad records, and fills a cycle.
struct AllBad {
    reads: u64,
    letters: u64,
    slices: u32,
}

struct AllBadSlice {
    done: u64,
    reads: u64,
    letters: u64,
}

impl SourceFactory for AllBad {
    fn schema(&self) -> SchemaRef {
        schema(&["key", "number"])
    }
    fn slices(&self) -> u32 {
        self.slices
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(AllBadSlice { done: 0, reads: self.reads, letters: self.letters }))
    }
}

impl Source for AllBadSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        letters: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        if self.done == self.reads {
            return Ok(Read::End);
        }
        self.done += 1;
        letters.extend((0..self.letters).map(|_| DeadLetter {
            stage: String::new(),
            cycle: Cycle::NONE,
            slice: SliceId(0),
            position: String::new(),
            reason: "it is bad".to_owned(),
            record: Vec::new(),
        }));
        let payload = Payload::Arrow(batch(&["key", "number"], vec![Vec::new(), Vec::new()]));
        Ok(Read::Rows { payload, bytes: request.bytes })
    }
    fn position(&self) -> Position {
        Position(self.done)
    }
    fn watermark(&self) -> Micros {
        Micros::MIN
    }
}

/// Counts letters; slower than they come.
#[derive(Clone, Default)]
struct Count(Arc<Mutex<usize>>);

impl Sink for Count {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }
    fn write(&mut self, _: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let rows: usize = blocks.iter().map(|it| it.len()).sum();
        *self.0.lock().expect("held briefly") += rows;
        Ok(())
    }
    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        Ok(())
    }
    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

fn ends_with(slices: u32, data: Option<&Path>) -> usize {
    let (sink, count) = (Collect::default(), Count::default());
    let mut graph = graph(&SETUP, &sink);
    let factory = Arc::new(AllBad { reads: 3, letters: 60_000, slices });
    graph.stages[0].kind = StageKind::Source { factory, preload: false };
    graph.dead_letter = Some(Box::new(count.clone()));
    let options = RunOptions { data: data.map(Path::to_owned), ..RunOptions::default() };
    let handle = start(graph, &World::real(), &options).expect("it starts");
    let world = World::real();
    let until_us = world.clock.monotonic_micros() + PATIENCE_US;
    while !handle.is_over() {
        let now_us = world.clock.monotonic_micros();
        assert!(now_us < until_us, "it waits for ever: {:?}", handle.progress());
        std::thread::yield_now();
    }
    handle.wait().expect("it ends well");
    *count.0.lock().expect("held briefly")
}

#[test]
fn a_job_with_nothing_but_bad_records_comes_to_its_end() {
    for slices in [1, 2, 4] {
        let folder = tempfile::tempdir().expect("a folder");
        let all = slices as usize * 3 * 60_000;
        assert_eq!(ends_with(slices, None), all, "{slices} slices");
        assert_eq!(ends_with(slices, Some(folder.path())), all, "{slices} slices, with a ledger");
    }
}
