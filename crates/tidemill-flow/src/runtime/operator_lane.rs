//! A lane of an operator: takes a whole cycle, runs the operator, sends its output.

use super::budget::LaneMemory;
use super::checkpoint::uncoordinated::DueSlices;
use super::checkpoint_writer::{CheckpointWriter, FrozenSlice, write_quota};
use super::expiry::Eviction;
use super::inbox::{CycleEnd, CycleSlot};
use super::job::Job;
use super::lane::{After, Lane};
use super::lane_output::{LaneOutput, LaneWriter, RowOwner};
use super::plan::Work;
use super::slice_slot::SliceSlot;
use crate::block::{Block, Payload};
use crate::error::{JobError, PartError};
use crate::operator::{Context, CycleInput, DeadLetter, Emitted, Operator, Output, RecordPlace};
use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};
use tidemill_env::sync::atomic::Ordering;
use tidemill_state::structure;
use tidemill_types::{Cycle, LinkIx, Micros, SliceId, Span, StageIx};

/// The pause of a lane without a cycle between two writes for a checkpoint, in microseconds.
const WRITES_AGAIN_US: u64 = 1_000;

/// The last cycle of a job's earlier life, whose output is not written again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SkipLimit {
    pub(crate) cycle: Cycle,
    pub(crate) time: Micros,
}

/// The core of a lane of an operator.
pub(crate) struct OperatorLane {
    pub(crate) operator: Box<dyn Operator>,
    /// By slice of the lane.
    pub(crate) states: Vec<SliceSlot>,
    pub(crate) watermark: Micros,
    wants_time: bool,
    links: LaneOutput,
    input: CycleInput,
    output: Output,
    letters: Vec<DeadLetter>,
    writing: Option<CheckpointWriter>,
    /// Which keys leave memory, if any do.
    eviction: Option<Eviction>,
    /// Which slices are saved by themselves, and when.
    due: Option<DueSlices>,
    /// The states are older than this cycle; windows that time closed up to it were written before.
    skip: Option<SkipLimit>,
    watermarks: Vec<Micros>,
    ended: Vec<bool>,
    /// Bytes to release, by link.
    freed: Vec<(LinkIx, u64)>,
    memory: LaneMemory,
}

impl OperatorLane {
    pub(crate) fn new(
        job: &Job,
        stage: StageIx,
        operator: Box<dyn Operator>,
        mut states: Vec<SliceSlot>,
        wants_time: bool,
        watermark: Micros,
    ) -> Self {
        let buffer = usize::try_from(job.plan.buffer.bytes.0).unwrap_or(usize::MAX);
        let alone = job.checkpointer.uncoordinated.as_ref();
        let due = alone.map(|alone| DueSlices::new(alone, states.len(), job.now_us()));
        let ttl = job.plan[stage].ttl;
        let eviction = ttl.map(|ttl| Eviction::new(ttl, states.len(), job.now_us()));
        let memory = LaneMemory::new(&job.plan.budget, stage, &mut states);
        Self {
            operator,
            states,
            watermark,
            wants_time,
            links: LaneOutput::default(),
            input: CycleInput::default(),
            output: Output::new(buffer)
                .limited(job.plan.buffer.output)
                .by_slice(job.plan.is_read_by_slice(stage)),
            letters: Vec::new(),
            writing: None,
            eviction,
            due,
            skip: None,
            watermarks: Vec::new(),
            ended: Vec::new(),
            freed: Vec::new(),
            memory,
        }
    }

    /// Skips output up to a cycle that an earlier life of the job reached.
    pub(crate) fn skip_until(mut self, skip: SkipLimit) -> Self {
        // Without event time nothing becomes of a state by itself.
        self.skip = Some(skip).filter(|_| self.wants_time && self.watermark > Micros::MIN);
        self
    }

    /// Runs the next cycle.
    ///
    /// # Errors
    /// The operator's, or its panic, with the place where it stood.
    pub(crate) fn run(&mut self, job: &Arc<Job>, lane: &Arc<Lane>) -> Result<After, JobError> {
        let (is_past, is_ready, next) = {
            let mut state = lane.state.lock().expect("no panic while held");
            state.snapshot_wanted = false;
            (state.is_past(), state.inbox.is_ready(), state.next())
        };
        if let Some(skip) = self.skip.take() {
            self.skip_time(job, lane, skip)?;
        }
        self.show(job, lane, Cycle(next.0 - 1));
        if is_past {
            // The next layout needs the slices: that does not wait for room.
            self.write_out(job, lane, usize::MAX);
            self.leave(job);
            return Ok(After::HandOver);
        }
        if !is_ready {
            self.write_out(job, lane, write_quota(0));
            self.evict(lane);
            return Ok(self.after(job));
        }
        if !job.has_credit(lane) {
            return Ok(After::Wait);
        }
        let (cycle, mut slot) = lane.state.lock().expect("no panic while held").inbox.begin();
        let start_us = job.now_us();
        let rows = self.take_input(job, lane, &mut slot);
        let ended = slot.ended.iter().all(|ended| *ended);
        let time = slot.time;
        let before = self.watermark;
        let is_idle = self.advance(ended);
        if !self.input.is_empty() || self.wants_time || ended {
            self.read_ahead(job, lane);
            self.call(job, lane, (cycle, time, before))?;
            let memory = self.memory.count(&mut self.states, || job.now_us());
            memory.map_err(|message| job.error_at(lane.stage, cycle, message))?;
        }
        let held_back = match &job.plan[lane.stage].work {
            Work::Operator { factory } => factory.holds_back(),
            _ => Span(0),
        };
        // Who is idle holds nothing back.
        let watermark = if is_idle { Micros::MAX } else { self.watermark.minus(held_back) };
        debug_assert!(before <= self.watermark, "the watermark of a lane never falls");
        if job.checkpointer.is_at(cycle) {
            // Before others go on: once all sinks have committed the cycle, it may be complete.
            job.checkpointer.stage(lane.stage, self.watermark);
        }
        self.send(job, lane, CycleEnd { cycle, time, watermark, ended })?;
        if job.checkpointer.is_whole_at(cycle) {
            self.freeze((0..self.states.len()).collect(), job);
        }
        self.save_due(job, lane);
        self.show(job, lane, cycle);
        if self.writing.is_some() {
            self.write_out(job, lane, if ended { usize::MAX } else { write_quota(rows) });
        }
        self.evict(lane);
        job.wake_lanes_behind(lane);
        self.free(job, lane, slot);
        let count = &job.plan[lane.stage].count;
        count.busy_us.fetch_add(job.now_us() - start_us, Ordering::Relaxed);
        count.cycle.fetch_max(cycle.0, Ordering::Relaxed);
        if ended {
            self.leave(job);
        }
        Ok(if ended { After::Done } else { self.after(job) })
    }

    /// Starts reading the slices with input on several threads, unless the operator asks for single
    /// keys itself.
    fn read_ahead(&self, job: &Job, lane: &Lane) {
        let Work::Operator { factory } = &job.plan[lane.stage].work else { return };
        let left = job.checkpointer.slices_left.load(Ordering::Relaxed);
        if left == 0 || factory.hash_of_entry().is_some() {
            return;
        }
        for (held, slice) in self.states.iter().zip(lane.slices.clone()) {
            let has_rows = |block: &Arc<Block>| !block.rows_of(SliceId(slice)).is_empty();
            if self.input.ports.iter().flatten().any(has_rows) {
                held.read_ahead(false);
            }
        }
    }

    /// Advances the watermark with the slowest input that is not idle. If all are idle, it stands
    /// still, so that later records are not late. Returns true if all are idle.
    fn advance(&mut self, ended: bool) -> bool {
        let lowest = self.watermarks.iter().copied().min().unwrap_or(Micros::MAX);
        let is_idle = lowest == Micros::MAX && !ended;
        if !is_idle {
            self.watermark = self.watermark.max(lowest);
        }
        for (watermark, ended) in self.watermarks.iter_mut().zip(&self.ended) {
            if *watermark == Micros::MAX && !ended {
                *watermark = self.watermark;
            }
        }
        is_idle
    }

    /// Runs the operator on time alone and drops the output, such as closed windows: an earlier
    /// life wrote it.
    fn skip_time(&mut self, job: &Job, lane: &Lane, skip: SkipLimit) -> Result<(), JobError> {
        let ports = job.plan[lane.stage].ports;
        (self.watermarks, self.ended) = (vec![self.watermark; ports], vec![false; ports]);
        self.input.ports.resize_with(ports, Vec::new);
        self.call(job, lane, (skip.cycle, skip.time, Micros::MIN))?;
        self.output.emitted.clear();
        Ok(())
    }

    /// Slices that are due are saved, if the backend takes them now.
    fn save_due(&mut self, job: &Job, lane: &Lane) {
        let (Some(alone), Some(due)) = (&job.checkpointer.uncoordinated, &mut self.due) else {
            return;
        };
        due.count(alone, &lane.slices, &self.input);
        if self.writing.is_some() {
            return;
        }
        if let Some(eviction) = &mut self.eviction {
            // Those that are not saved now let keys go all the same.
            let (now_us, states) = (job.now_us(), self.states.iter_mut().enumerate());
            for (slice, held) in states.filter(|(slice, _)| due.is_quiet(alone, *slice)) {
                eviction.begin(slice, held, now_us);
            }
        }
        let slices = due.which(alone, self.states.len(), job.now_us());
        if !slices.is_empty() && job.checkpointer.enter(slices.len()) {
            self.freeze(slices, job);
        }
    }

    /// The lane ends, or its slices go to others.
    fn leave(&mut self, job: &Job) {
        if let (Some(alone), Some(due)) = (&job.checkpointer.uncoordinated, &mut self.due) {
            due.leave(alone);
        }
    }

    /// Offers the slices as they are now to a snapshot.
    #[inline]
    fn show(&mut self, job: &Job, lane: &Lane, cycle: Cycle) {
        job.snapshots.answer(job, lane, (cycle, self.watermark), &mut self.states);
    }

    /// The checkpoint under way has these slices as they are now.
    fn freeze(&mut self, slices: Vec<usize>, job: &Job) {
        let now_us = job.now_us();
        let mut frozen = VecDeque::with_capacity(slices.len());
        for slice in &slices {
            let held = &mut self.states[*slice];
            if let Some(eviction) = &mut self.eviction {
                eviction.begin(*slice, held, now_us);
            }
            let is_all = held.here().is_some_and(|state| structure::freeze(&mut **state));
            frozen.push_back(FrozenSlice { nth: *slice, is_all });
        }
        if let (Some(alone), Some(due)) = (&job.checkpointer.uncoordinated, &mut self.due) {
            due.saved(alone, &slices, self.states.len(), now_us);
        }
        self.writing = Some(CheckpointWriter::new(frozen));
    }

    /// The next step of the lane. Without a cycle it goes on writing out frozen slices now and
    /// then, so that the lanes that feed it run first.
    fn after(&self, job: &Job) -> After {
        match self.writing.is_some() || self.eviction.as_ref().is_some_and(Eviction::is_under_way) {
            true => After::ReadyOrAt(job.now_us() + WRITES_AGAIN_US),
            false => After::Ready,
        }
    }

    /// Evicts some idle keys.
    fn evict(&mut self, lane: &Lane) {
        let Some(eviction) = self.eviction.as_mut().filter(|it| it.is_under_way()) else { return };
        eviction.evict(&mut self.states);
        let goes_on = self.writing.is_some() || eviction.is_under_way();
        lane.state.lock().expect("no panic while held").writing = goes_on;
    }

    /// Writes out some of the frozen slices.
    fn write_out(&mut self, job: &Job, lane: &Lane, most: usize) {
        let Some(writing) = &mut self.writing else { return };
        let is_done = writing.write_out(&mut self.states, (job, lane), most);
        if is_done {
            self.writing = None;
        }
        lane.state.lock().expect("no panic while held").writing = !is_done;
    }

    /// Moves the blocks of a cycle into the operator's input; returns the number of their rows.
    fn take_input(&mut self, job: &Job, lane: &Lane, slot: &mut CycleSlot) -> usize {
        let stage = &job.plan[lane.stage];
        let layout = job.layout(lane.layout);
        self.input.ports.resize_with(stage.ports, Vec::new);
        self.watermarks.clear();
        self.watermarks.resize(stage.ports, Micros::MAX);
        self.ended.clear();
        self.ended.resize(stage.ports, true);
        self.freed.clear();
        let mut rows = 0;
        for link in &stage.links_in {
            let port = job.plan[*link].port;
            let mut bytes = 0;
            for input in layout.inputs_of(&job.plan, *link) {
                for (block, share) in slot.parcels[input].drain(..) {
                    bytes += share;
                    rows += block.count_in(&lane.slices);
                    self.input.ports[port].push(block);
                }
                self.watermarks[port] = self.watermarks[port].min(slot.watermarks[input]);
                self.ended[port] &= slot.ended[input];
            }
            self.freed.push((*link, bytes));
        }
        stage.count.rows_in.fetch_add(rows as u64, Ordering::Relaxed);
        rows
    }

    fn call(
        &mut self,
        job: &Job,
        lane: &Lane,
        (cycle, time, before): (Cycle, Micros, Micros),
    ) -> Result<(), JobError> {
        let mut context = Context {
            cycle,
            cycle_time: time,
            seed: job.seed_of(cycle),
            watermarks: &self.watermarks,
            watermark: self.watermark,
            watermark_before: before,
            ended: &self.ended,
            slices: lane.slices.clone(),
            states: &mut self.states,
            place: RecordPlace::default(),
            letters: &mut self.letters,
        };
        self.output.begin(SliceId(lane.slices.start));
        let operator = &mut self.operator;
        let (input, output) = (&self.input, &mut self.output);
        // A panic of user code fails this job and nothing else; what it left behind is dropped.
        let result = catch_unwind(AssertUnwindSafe(|| {
            let result = operator.cycle(&mut context, input, output);
            output.flush_rows();
            result
        }));
        let place = context.place;
        let (error, panicked) = match result {
            Ok(Ok(())) => {
                job.add_letters(lane.stage, &mut self.letters);
                return Ok(());
            }
            Ok(Err(error)) => (PartError::from(error), false),
            Err(panic) => {
                let (message, panicked) = super::unwound(&*panic);
                (message.into(), panicked)
            }
        };
        let error = job.error_at(lane.stage, cycle, error);
        Err(JobError { slice: place.slice, row: place.row, panicked, ..error })
    }

    fn send(&mut self, job: &Job, lane: &Lane, end: CycleEnd) -> Result<(), JobError> {
        let layout = job.layout(lane.layout);
        let seed = job.seed_of(end.cycle);
        let writer = LaneWriter { job, layout: &layout, lane, seed };
        let sent = self
            .output
            .emitted
            .drain(..)
            .try_for_each(|(port, slice, emitted)| match emitted {
                Emitted::Rows(payload) => {
                    self.links.send(writer, port, RowOwner::One(slice), payload)
                }
                Emitted::Runs(batch, runs) => self.links.send(
                    writer,
                    port,
                    RowOwner::Runs(slice, &runs),
                    Payload::Arrow(batch),
                ),
                Emitted::Block(block) => self.links.pass(writer, port, slice, block),
            })
            .and_then(|()| self.links.end(writer, end));
        sent.map_err(|message| job.error_at(lane.stage, end.cycle, message))
    }

    fn free(&mut self, job: &Job, lane: &Lane, slot: CycleSlot) {
        for block in self.input.ports.iter_mut().flat_map(|port| port.drain(..)) {
            job.blocks.give_back(block);
        }
        lane.state.lock().expect("no panic while held").inbox.recycle(slot);
        for (link, bytes) in &self.freed {
            job.release(*link, *bytes);
        }
    }
}
