//! Backpressure, as Neptune 4.6 shows it: source A → stage B → stage C, whose speed varies.
//!
//! ```text
//!  A ──link──▶ B ──link──▶ C ──▶ sink
//!    4 cycles    4 cycles  └ processes a cycle for each permit that the test gives
//! ```
//!
//! Where the paper lets C sleep, the test gives permits: so it can say to the record how far A may
//! be ahead. What is sent ahead is bounded by the credits of the links and by nothing else.

use super::*;
use crate::block::{Block, Payload, rows_schema};
use crate::operator::{
    Context, CycleInput, DeadLetter, Operator, OperatorError, OperatorFactory, Output, SliceState,
};
use crate::partition::Partition;
use crate::rows::RowsPool;
use crate::sink::{Sink, SinkError};
use crate::source::{Position, Read, ReadRequest, Source, SourceError, SourceFactory};
use arrow_schema::SchemaRef;
use std::sync::{Condvar, Mutex};
use tidemill_types::{Micros, SliceId};

/// Records of one cycle.
const CYCLE_RECORDS: u64 = 50;
const RECORD_BYTES: usize = 100;
/// What the records of a cycle count on a link: their bytes and Arrow's offsets.
const CYCLE_BYTES: u64 = CYCLE_RECORDS * RECORD_BYTES as u64 + (CYCLE_RECORDS + 1) * 4;
/// Cycles that fill a link.
const LINK_CYCLES: u64 = 4;
const CYCLES: u64 = 120;

/// Numbered records, as fast as they are read.
struct Numbered;

struct NumberedSlice {
    next: u64,
    pool: Arc<RowsPool>,
}

impl SourceFactory for Numbered {
    fn schema(&self) -> SchemaRef {
        rows_schema()
    }
    fn open(&self, _: SliceId) -> Result<Box<dyn Source>, SourceError> {
        Ok(Box::new(NumberedSlice { next: 0, pool: RowsPool::new(8) }))
    }
}

impl Source for NumberedSlice {
    fn read(
        &mut self,
        request: &ReadRequest,
        _: &mut Vec<DeadLetter>,
    ) -> Result<Read, SourceError> {
        if self.next == CYCLES * CYCLE_RECORDS {
            return Ok(Read::End);
        }
        let mut rows = self.pool.take();
        let mut record = [0; RECORD_BYTES];
        for _ in 0..request.records {
            record[..8].copy_from_slice(&self.next.to_le_bytes());
            rows.push(&record);
            self.next += 1;
        }
        Ok(Read::Rows { bytes: request.records * RECORD_BYTES, payload: Payload::Rows(rows) })
    }
    fn position(&self) -> Position {
        Position(self.next)
    }
    fn watermark(&self) -> Micros {
        Micros::MIN
    }
}

/// How many cycles a stage may still process.
#[derive(Clone, Default)]
struct Permits(Arc<(Mutex<u64>, Condvar)>);

impl Permits {
    fn give(&self, cycles: u64) {
        *self.0.0.lock().expect("held briefly") += cycles;
        self.0.1.notify_all();
    }
    fn take(&self) {
        let left = self.0.0.lock().expect("held briefly");
        *self.0.1.wait_while(left, |left| *left == 0).expect("held briefly") -= 1;
    }
}

/// Passes records on; with permits, one cycle for each.
struct Relay {
    permits: Option<Permits>,
}

impl OperatorFactory for Relay {
    fn outputs(&self) -> Vec<SchemaRef> {
        vec![rows_schema()]
    }
    fn operator(&self) -> Box<dyn Operator> {
        Box::new(Self { permits: self.permits.clone() })
    }
    fn state(&self, _: SliceId) -> SliceState {
        Box::new(())
    }
}

impl Operator for Relay {
    fn cycle(
        &mut self,
        _: &mut Context<'_>,
        input: &CycleInput,
        output: &mut Output,
    ) -> Result<(), OperatorError> {
        if let Some(permits) = self.permits.as_ref().filter(|_| !input.is_empty()) {
            permits.take();
        }
        for block in input.port(0) {
            let Payload::Rows(rows) = &block.payload else { continue };
            rows.iter().for_each(|row| output.push(row));
        }
        Ok(())
    }
}

/// The numbers of the records that came out.
#[derive(Clone, Default)]
struct Numbers(Arc<Mutex<Vec<u64>>>);

impl Sink for Numbers {
    fn open(&mut self, _: bool) -> Result<Cycle, SinkError> {
        Ok(Cycle::NONE)
    }
    fn write(&mut self, _: Cycle, blocks: &[Arc<Block>]) -> Result<(), SinkError> {
        let mut numbers = self.0.lock().expect("held briefly");
        for block in blocks {
            let Payload::Rows(rows) = &block.payload else { continue };
            let number = |row: &[u8]| u64::from_le_bytes(*row.first_chunk().expect("100 bytes"));
            numbers.extend(rows.iter().map(number));
        }
        Ok(())
    }
    fn commit(&mut self, _: Cycle) -> Result<(), SinkError> {
        Ok(())
    }
    fn close(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

struct Running {
    handle: JobHandle,
    permits: Permits,
    numbers: Numbers,
}

/// The job of the drawing: links close at `LINK_CYCLES` and open at `low_bytes`. Each stage has a
/// thread of its own, as C holds its thread while it waits.
fn run(low_bytes: u64) -> Running {
    let (permits, numbers) = (Permits::default(), Numbers::default());
    let mut graph = JobGraph::new("backpressure");
    graph.workers = 4;
    graph.cycle.records = CYCLE_RECORDS;
    graph.buffer.high_watermark.0 = LINK_CYCLES * CYCLE_BYTES;
    graph.buffer.low_watermark.0 = low_bytes;
    let a = graph.add("a", StageKind::Source { factory: Arc::new(Numbered), preload: false });
    let fast = Arc::new(Relay { permits: None });
    let b = graph.add("b", StageKind::Operator { factory: fast, slices: 1 });
    let slow = Arc::new(Relay { permits: Some(permits.clone()) });
    let c = graph.add("c", StageKind::Operator { factory: slow, slices: 1 });
    let out = graph.add("out", StageKind::Sink { sink: Box::new(numbers.clone()) });
    graph.link(a, b, Partition::One);
    graph.link(b, c, Partition::One);
    graph.link(c, out, Partition::One);
    let handle = start(graph, &World::real(), &RunOptions::default()).expect("it starts");
    Running { handle, permits, numbers }
}

impl Running {
    /// What waits is at most the high watermark and one cycle of the writer, at any moment.
    fn look(&self) -> Progress {
        let progress = self.handle.progress();
        for stage in &progress.stages {
            let (name, waiting) = (&stage.name, stage.waiting_bytes);
            assert!(waiting < (LINK_CYCLES + 1) * CYCLE_BYTES, "{waiting} bytes wait for {name}");
        }
        progress
    }

    /// Waits until it holds, then looks many times more whether it still does.
    fn settles(&self, holds: impl Fn(&Progress) -> bool) {
        while !holds(&self.look()) {
            assert!(!self.handle.is_over(), "the job goes on: {:?}", self.look());
            std::thread::yield_now();
        }
        for _ in 0..200 {
            let progress = self.look();
            assert!(holds(&progress), "{progress:?}");
            std::thread::yield_now();
        }
    }

    fn ends_with_every_record(self) {
        let progress = self.handle.wait().expect("it ends well");
        assert_eq!(progress.sources[0].records, CYCLES * CYCLE_RECORDS);
        assert!(progress.finished && progress.shed == 0);
        assert!(progress.stages.iter().all(|stage| stage.waiting_bytes == 0), "{progress:?}");
        let numbers = self.numbers.0.lock().expect("held briefly");
        assert!(numbers.iter().copied().eq(0..CYCLES * CYCLE_RECORDS), "each once, in order");
    }
}

/// Links that open as soon as there is room hold exactly `LINK_CYCLES` when C stands still.
const PROMPT: u64 = LINK_CYCLES * CYCLE_BYTES - 1;

#[test]
fn a_stage_that_stands_still_stops_the_source_within_the_credit() {
    let running = run(PROMPT);
    running.settles(|progress| {
        progress.sources[0].records == 2 * LINK_CYCLES * CYCLE_RECORDS
            && progress.stages.iter().all(|it| it.waiting_bytes == LINK_CYCLES * CYCLE_BYTES)
    });
    assert!(running.numbers.0.lock().expect("held briefly").is_empty());
    running.permits.give(CYCLES);
    running.ends_with_every_record();
}

#[test]
fn the_source_keeps_the_pace_of_a_stage_whose_speed_varies() {
    let running = run(PROMPT);
    let mut given = 0;
    // Slow and fast in turn, as the sleep of 0 to 3 ms in the paper.
    for cycles in [1, 2, 4, 8, 16, 8, 4, 2, 1, 1, 5, 25, 5, 1] {
        running.permits.give(cycles);
        given += cycles;
        // For each cycle that C takes, A reads one more: neither fewer nor more.
        let records = (given + 2 * LINK_CYCLES) * CYCLE_RECORDS;
        running.settles(|progress| {
            progress.stages[1].rows_out == given * CYCLE_RECORDS
                && progress.sources[0].records == records
        });
    }
    running.permits.give(CYCLES - given);
    running.ends_with_every_record();
}

#[test]
fn a_link_that_is_full_stays_closed_down_to_the_low_watermark() {
    let running = run(CYCLE_BYTES);
    // C stands still in its first cycle; whatever B has taken, it may send no more than a link.
    running.settles(|progress| progress.stages[1].waiting_bytes == LINK_CYCLES * CYCLE_BYTES);
    for taken in 1..LINK_CYCLES - 1 {
        running.permits.give(1);
        let waiting = (LINK_CYCLES - taken) * CYCLE_BYTES;
        running.settles(|progress| progress.stages[1].waiting_bytes == waiting);
        assert_eq!(running.look().stages[0].rows_out, LINK_CYCLES * CYCLE_RECORDS);
    }
    running.permits.give(1);
    running.settles(|progress| progress.stages[0].rows_out > LINK_CYCLES * CYCLE_RECORDS);
    running.permits.give(CYCLES);
    running.ends_with_every_record();
}
