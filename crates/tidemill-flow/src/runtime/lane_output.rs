//! The way out of a lane: rows are routed to slices, gathered, and delivered with the cycle's end.
//!
//! A lane writes to lanes of its own layout only: a cycle has the same layout everywhere. A link
//! does not know whether its other end is local: [`Job::deliver`] does.

use super::inbox::{CycleEnd, Parcel};
use super::job::Job;
use super::lane::Lane;
use super::layout::Layout;
use super::plan::{Work, rows_of};
use crate::block::{Block, Payload};
use crate::partition::{Partition, Router};
use crate::slice_runs::SliceRuns;
use std::sync::Arc;
use tidemill_env::sync::atomic::Ordering;
use tidemill_types::{LinkIx, SliceId};

/// Gathers the output of one lane in a cycle. Its memory is reused from cycle to cycle.
#[derive(Default)]
pub(crate) struct LaneOutput {
    pending: Vec<LinkBuffer>,
    router: Router,
    /// The end of the last cycle that was sent.
    last: Option<CycleEnd>,
}

/// The blocks for one link in this cycle.
struct LinkBuffer {
    link: LinkIx,
    /// Rows that were routed at random: a row goes where its number says, however a source that is
    /// read again puts its rows into blocks.
    rows: u64,
    /// By lane that reads.
    parcels: Vec<Vec<Parcel>>,
}

/// The slices of the rows of one batch of output.
#[derive(Clone, Copy)]
pub(crate) enum RowOwner<'a> {
    /// Of this one; of a lane that does not tell its slices apart, the first of them.
    One(SliceId),
    /// Of several; the lane's first, and which rows are whose.
    Runs(SliceId, &'a SliceRuns),
}

/// The writer: a lane, in its layout, in a cycle with this seed.
#[derive(Clone, Copy)]
pub(crate) struct LaneWriter<'a> {
    pub(crate) job: &'a Job,
    pub(crate) layout: &'a Layout,
    pub(crate) lane: &'a Lane,
    pub(crate) seed: u64,
}

impl LaneOutput {
    /// Routes one payload over all links of an output.
    ///
    /// # Errors
    /// A key column cannot be a key; the planner checks that before a job starts.
    pub(crate) fn send(
        &mut self,
        writer: LaneWriter<'_>,
        output: usize,
        of: RowOwner<'_>,
        payload: Payload,
    ) -> Result<(), String> {
        let stage = &writer.job.plan[writer.lane.stage];
        let is_side = match &stage.work {
            Work::Operator { factory } => factory.is_side(output),
            Work::Source { .. } | Work::Sink => output > 0,
        };
        let counter = if is_side { &stage.count.rows_side } else { &stage.count.rows_out };
        counter.fetch_add(rows_of(&payload), Ordering::Relaxed);
        match stage.links_out.get(output).map_or(&[][..], Vec::as_slice) {
            [] => Ok(()),
            [link] => self.send_over(writer, *link, of, payload),
            links => {
                let batch = Block::whole(payload, SliceId(0)).batch();
                links.iter().try_for_each(|link| {
                    self.send_over(writer, *link, of, Payload::Arrow(batch.clone()))
                })
            }
        }
    }

    /// As [`Self::send`], of all rows of a block that came in: by reference over links whose other
    /// end reads it as it is.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub(crate) fn pass(
        &mut self,
        writer: LaneWriter<'_>,
        output: usize,
        slice: SliceId,
        block: Arc<Block>,
    ) -> Result<(), String> {
        let stage = &writer.job.plan[writer.lane.stage];
        let links = stage.links_out.get(output).map_or(&[][..], Vec::as_slice);
        let reads_it_so = |link: &LinkIx| {
            let plan = &writer.job.plan[*link];
            let slices = writer.job.plan[plan.to].slices;
            block.routing.is_none() && plan.partition.whole(slice, slices) == Some(block.slice)
        };
        if !links.iter().all(reads_it_so) {
            let payload = Payload::Arrow(block.batch());
            return self.send(writer, output, RowOwner::One(slice), payload);
        }
        stage.count.rows_out.fetch_add(block.len() as u64, Ordering::Relaxed);
        for link in links {
            self.gather(writer, *link, &block);
        }
        writer.job.blocks.give_back(block);
        Ok(())
    }

    fn send_over(
        &mut self,
        writer: LaneWriter<'_>,
        link: LinkIx,
        of: RowOwner<'_>,
        payload: Payload,
    ) -> Result<(), String> {
        let plan = &writer.job.plan[link];
        let slices = writer.job.plan[plan.to].slices;
        let slice = match of {
            RowOwner::Runs(_, runs) if plan.partition == Partition::Local && slices > 1 => {
                let used = writer.job.blocks.take_routing();
                let rows = rows_of(&payload) as usize;
                let routing = self.router.by_runs(runs, rows, slices, used);
                let block = writer.job.blocks.take(payload, Some(routing), SliceId(0));
                self.gather(writer, link, &block);
                return Ok(());
            }
            RowOwner::One(slice) | RowOwner::Runs(slice, _) => slice,
        };
        if let Some(to) = plan.partition.whole(slice, slices) {
            let block = writer.job.blocks.take(payload, None, to);
            self.gather(writer, link, &block);
            return Ok(());
        }
        let used = writer.job.blocks.take_routing();
        let routing = match &plan.partition {
            Partition::Key(columns) => {
                let routing = self.router.by_key(&payload, columns, slices, used);
                routing.map_err(|error| error.to_string())?
            }
            _ => {
                let from = &writer.job.plan[writer.lane.stage];
                if from.slices == 1 || matches!(from.work, Work::Source { .. }) {
                    let seed = writer.seed ^ u64::from(slice.0);
                    let lanes = writer.layout.lanes_of(plan.to).len();
                    let gathered = buffer_of(&mut self.pending, link, lanes);
                    let from = gathered.rows;
                    gathered.rows += rows_of(&payload);
                    self.router.at_random(from..gathered.rows, slices, seed, used)
                } else {
                    // How rows of several slices are put into batches depends on the lanes, and
                    // where a row goes must not.
                    self.router.by_content(&payload, slices, writer.seed, used)
                }
            }
        };
        let block = writer.job.blocks.take(payload, Some(routing), SliceId(0));
        self.gather(writer, link, &block);
        Ok(())
    }

    fn gather(&mut self, writer: LaneWriter<'_>, link: LinkIx, block: &Arc<Block>) {
        let lanes = writer.layout.lanes_of(writer.job.plan[link].to);
        let pending = &mut buffer_of(&mut self.pending, link, lanes.len()).parcels;
        let (rows, bytes) = (block.len() as u64, block.bytes() as u64);
        for lane in lanes {
            let count = block.count_in(&lane.slices) as u64;
            if count > 0 {
                let share = if count == rows { bytes } else { bytes * count / rows };
                pending[lane.index.index()].push((Arc::clone(block), share));
            }
        }
    }

    /// Ends the cycle on all links of the stage: everything gathered is delivered.
    ///
    /// # Errors
    /// A sender broke the rules of a link: an error of the engine.
    pub(crate) fn end(&mut self, writer: LaneWriter<'_>, end: CycleEnd) -> Result<(), String> {
        let job = writer.job;
        debug_assert!(
            self.last.is_none_or(|last| last.cycle.next() == end.cycle && !last.ended),
            "a lane ends its cycles in order, and none after its last: {:?}, then {end:?}",
            self.last
        );
        self.last = Some(end);
        for link in job.plan[writer.lane.stage].links_out.iter().flatten() {
            let lanes = writer.layout.lanes_of(job.plan[*link].to);
            let LinkBuffer { rows, parcels, .. } = buffer_of(&mut self.pending, *link, lanes.len());
            *rows = 0;
            let input = writer.layout.first_input_of(*link) + writer.lane.index.index();
            for lane in lanes {
                job.deliver(*link, lane, input, end, &mut parcels[lane.index.index()])?;
            }
        }
        Ok(())
    }
}

fn buffer_of(pending: &mut Vec<LinkBuffer>, link: LinkIx, lanes: usize) -> &mut LinkBuffer {
    let index = match pending.iter().position(|it| it.link == link) {
        Some(index) => index,
        None => {
            pending.push(LinkBuffer { link, rows: 0, parcels: Vec::new() });
            pending.len() - 1
        }
    };
    let found = &mut pending[index];
    if found.parcels.len() < lanes {
        found.parcels.resize_with(lanes, Vec::new);
    }
    found
}
