//! The lane of a sink: hands the rows of each cycle over, then has the cycle committed.

use super::commit::call_sink;
use super::job::Job;
use super::lane::{After, Lane};
use crate::block::Block;
use crate::error::JobError;
use crate::sink::Sink;
use std::sync::Arc;
use tidemill_env::sync::{Mutex, atomic::Ordering};
use tidemill_types::{Cycle, LinkIx};

/// A sink, shared by the lane that writes and the thread that commits.
pub(crate) type SharedSink = Arc<Mutex<Box<dyn Sink>>>;

/// The core of the lane of a sink.
pub(crate) struct SinkLane {
    pub(crate) sink: SharedSink,
    /// The last cycle that the sink held when it was opened: cycles up to it are left out.
    pub(crate) held: Cycle,
    /// The last cycle of this life.
    last: Cycle,
    blocks: Vec<Arc<Block>>,
    /// Bytes to release, by link.
    freed: Vec<(LinkIx, u64)>,
}

impl SinkLane {
    pub(crate) fn new(sink: SharedSink, held: Cycle) -> Self {
        Self { sink, held, last: Cycle::NONE, blocks: Vec::new(), freed: Vec::new() }
    }

    /// Writes the next cycle.
    ///
    /// # Errors
    /// The sink's.
    pub(crate) fn run(&mut self, job: &Arc<Job>, lane: &Arc<Lane>) -> Result<After, JobError> {
        let (cycle, mut slot) = {
            let mut state = lane.state.lock().expect("no panic while held");
            if state.is_past() {
                return Ok(After::HandOver);
            }
            state.inbox.begin()
        };
        let start_us = job.now_us();
        let layout = job.layout(lane.layout);
        let stage = &job.plan[lane.stage];
        self.freed.clear();
        for link in &stage.links_in {
            let mut bytes = 0;
            for input in layout.inputs_of(&job.plan, *link) {
                for (block, share) in slot.parcels[input].drain(..) {
                    bytes += share;
                    self.blocks.push(block);
                }
            }
            self.freed.push((*link, bytes));
        }
        let ended = slot.ended.iter().all(|ended| *ended);
        let rows: usize = self.blocks.iter().map(|block| block.len()).sum();
        if rows > 0 {
            stage.count.last_rows.store(cycle.0, Ordering::Release);
        }
        if job.checkpointer.is_at(cycle) {
            let last = Cycle(stage.count.last_rows.load(Ordering::Acquire));
            job.checkpointer.sink(lane.stage, last);
        }
        // What it holds already is not counted as written once more.
        let mut written = 0;
        debug_assert!(cycle > self.last, "a sink gets its cycles in order: {cycle}");
        self.last = cycle;
        if cycle > self.held {
            written = rows as u64;
            let mut sink = self.sink.lock().expect("a panic of a sink ends the job");
            call_sink(|| sink.write(cycle, &self.blocks))
                .map_err(|error| job.error_at(lane.stage, cycle, error))?;
        }
        self.blocks.drain(..).for_each(|block| job.blocks.give_back(block));
        lane.state.lock().expect("no panic while held").inbox.recycle(slot);
        self.freed.iter().for_each(|(link, bytes)| job.release(*link, *bytes));
        stage.count.busy_us.fetch_add(job.now_us() - start_us, Ordering::Relaxed);
        job.committer.written(job, lane.stage, (cycle, written), ended)?;
        Ok(if ended { After::Done } else { After::Ready })
    }
}
