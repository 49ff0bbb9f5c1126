//! A lane of a source: one source slice. It reads, and cuts what it reads into cycles.
//!
//! ```text
//! may begin? ── permit ── credit ── commits ──▶ read … read ──▶ cut: ledger, end of cycle ──▶ …
//! ```
//!
//! - A source that is read as fast as it can be ends a cycle by size alone: the cut depends on its
//!   content only, so repeated runs have the same cycles. A live source ends it by time too.
//! - In a replay the ledger decides the cut.

use super::checked_source::CheckedSource;
use super::coalescer::Coalescer;
use super::inbox::CycleEnd;
use super::job::Job;
use super::lane::{After, Lane};
use super::lane_output::{LaneOutput, LaneWriter, RowOwner};
use super::pacer::Permit;
use super::shedding::{ShedBuffer, ShedRead, SourceCursor};
use crate::error::JobError;
use crate::operator::DeadLetter;
use crate::source::{Position, Read, ReadRequest};
use std::{collections::VecDeque, sync::Arc};
use tidemill_checkpoints::SavedSource;
use tidemill_env::sync::atomic::Ordering;
use tidemill_types::{Cycle, LayoutVersion, Micros, SliceId, job::Delivery};
use tidemill_wire::ledger::Cut;

/// The interval of reads of a source without data, unless it names a time, in microseconds.
const POLL_US: u64 = 1_000;
/// A source without data for this long no longer holds event time back.
const IDLE_AFTER_US: u64 = 1_000_000;

/// The core of a lane of a source.
pub(crate) struct SourceLane {
    slice: SliceId,
    source: CheckedSource,
    live: bool,
    preload: bool,
    /// Ends of cycles that are replayed.
    replay: VecDeque<(Cycle, Cut)>,
    open: Option<OpenCycle>,
    output: LaneOutput,
    letters: Vec<DeadLetter>,
    shed: ShedBuffer,
    /// Of the cycle that is open.
    small: Coalescer,
    last_row_us: u64,
    last_cut_us: u64,
    idle: bool,
    /// The layout whose lane the source wakes.
    wakes: Option<LayoutVersion>,
    /// The position in the job's progress.
    reported: u64,
}

/// A cycle that has been begun and not cut.
#[derive(Clone, Copy, Debug)]
struct OpenCycle {
    time: Micros,
    bytes: u64,
    records: u64,
}

/// The step after one read.
enum ReadStep {
    Read,
    Cut { ended: bool },
    Leave(After),
}

impl SourceLane {
    pub(crate) fn new(
        slice: SliceId,
        source: CheckedSource,
        live: bool,
        preload: bool,
        replay: VecDeque<(Cycle, Cut)>,
        idle: bool,
        reported: u64,
    ) -> Self {
        Self {
            slice,
            source,
            live,
            preload,
            replay,
            open: None,
            output: LaneOutput::default(),
            letters: Vec::new(),
            shed: ShedBuffer::default(),
            small: Coalescer::default(),
            last_row_us: 0,
            last_cut_us: 0,
            idle,
            wakes: None,
            reported,
        }
    }

    /// The slice of the source.
    pub(crate) fn slice(&self) -> SliceId {
        self.slice
    }

    /// Reads until the cycle is cut, or there is nothing to read.
    ///
    /// # Errors
    /// The source's.
    pub(crate) fn run(&mut self, job: &Arc<Job>, lane: &Arc<Lane>) -> Result<After, JobError> {
        if self.wakes != Some(lane.layout) {
            self.wakes = Some(lane.layout);
            let (job, lane) = (Arc::downgrade(job), Arc::downgrade(lane));
            self.source.wake_by(Arc::new(move || {
                if let (Some(job), Some(lane)) = (job.upgrade(), lane.upgrade()) {
                    job.wake_lane(&lane);
                }
            }));
        }
        let cycle = lane.state.lock().expect("no panic while held").source_next;
        let start_us = job.now_us();
        let after = self.run_cycle(job, lane, cycle)?;
        let count = &job.plan[lane.stage].count;
        count.busy_us.fetch_add(job.now_us() - start_us, Ordering::Relaxed);
        Ok(after)
    }

    fn run_cycle(
        &mut self,
        job: &Arc<Job>,
        lane: &Arc<Lane>,
        cycle: Cycle,
    ) -> Result<After, JobError> {
        if self.open.is_none() {
            if lane.state.lock().expect("no panic while held").is_past() {
                return Ok(After::HandOver);
            }
            let permit = job.pacer.lock().expect("no panic while held").permit(cycle, self.preload);
            let is_recorded = self.replay.front().is_some_and(|(it, _)| *it == cycle);
            match permit {
                Permit::Stop => return Ok(After::Done),
                Permit::Hold => return Ok(After::Wait),
                // A recorded cycle ends where it ended, whoever would have it end at once now.
                Permit::Empty if !is_recorded => return self.cut(job, lane, cycle, false),
                Permit::Empty | Permit::Read => {}
            }
            if let Some(after) = self.wait_for_room(job, lane, cycle)? {
                return Ok(after);
            }
        }
        loop {
            match self.step(job, lane, cycle)? {
                ReadStep::Read => {}
                ReadStep::Cut { ended } => return self.cut(job, lane, cycle, ended),
                ReadStep::Leave(after) => return Ok(after),
            }
        }
    }

    /// Waits for credit on every link, and for the limit of cycles under way. Under `at-most-once`
    /// a live source sheds records that it cannot send.
    fn wait_for_room(
        &mut self,
        job: &Arc<Job>,
        lane: &Arc<Lane>,
        cycle: Cycle,
    ) -> Result<Option<After>, JobError> {
        if job.has_credit(lane) && job.may_begin(cycle, lane) {
            return Ok(None);
        }
        if !self.live || job.plan.delivery != Delivery::AtMostOnce {
            return Ok(Some(After::Wait));
        }
        let request = self.request(job, cycle, None);
        let before = self.source_cursor();
        let mut letters = Vec::new();
        let read = self.source.read(&request, &mut letters);
        match read.map_err(|error| job.error_at(lane.stage, cycle, error))? {
            Read::Rows { payload, bytes } => {
                let kept = ShedRead { before, payload, bytes, letters };
                let dropped = self.shed.keep(kept, job.plan.buffer.high_watermark.0);
                job.shed.fetch_add(dropped, Ordering::Relaxed);
            }
            Read::Idle { .. } => {}
            Read::End => self.shed.ended = true,
        }
        Ok(Some(After::At(job.now_us() + POLL_US)))
    }

    /// Begins the cycle if it has not begun, unless it belongs to the next layout: a change of
    /// layout picks its first cycle under the pacer's lock too.
    fn begin(&mut self, job: &Job, lane: &Lane, cycle: Cycle) -> Result<OpenCycle, After> {
        if let Some(open) = self.open {
            return Ok(open);
        }
        let wall = job.wall();
        let mut pacer = job.pacer.lock().expect("no panic while held");
        if lane.state.lock().expect("no panic while held").is_past() {
            return Err(After::HandOver);
        }
        // The job may have been stopped since this cycle was permitted, and have ended without it.
        if pacer.stop_after().is_some_and(|last| cycle > last) {
            return Err(After::Done);
        }
        let open = OpenCycle { time: pacer.begin(cycle, wall), bytes: 0, records: 0 };
        self.open = Some(open);
        Ok(open)
    }

    /// The request for the rest of the cycle, at most a buffer.
    fn request(&self, job: &Job, cycle: Cycle, until: Option<Position>) -> ReadRequest {
        let bounds = &job.plan.cycle;
        let (bytes, records) = self.open.map_or((0, 0), |open| (open.bytes, open.records));
        let rest = bounds.bytes.0.saturating_sub(bytes).min(job.plan.buffer.bytes.0).max(1);
        let rest_records = bounds.records.saturating_sub(records).max(1);
        ReadRequest {
            cycle,
            bytes: usize::try_from(rest).unwrap_or(usize::MAX),
            records: usize::try_from(rest_records).unwrap_or(usize::MAX),
            until,
        }
    }

    /// Where the source stands.
    fn source_cursor(&self) -> SourceCursor {
        (self.source.position(), self.source.watermark())
    }

    /// The position before all records that are in no cycle yet: a cycle ends there.
    fn cursor(&self) -> SourceCursor {
        self.shed.cursor().unwrap_or_else(|| self.source_cursor())
    }

    /// Reads for a cycle, waiting records first.
    fn read(
        &mut self,
        job: &Job,
        lane: &Lane,
        cycle: Cycle,
        until: Option<Position>,
    ) -> Result<Read, JobError> {
        let read = match self.shed.next() {
            Some(ShedRead { payload, bytes, letters, .. }) => {
                self.letters = letters;
                Read::Rows { payload, bytes }
            }
            None if self.shed.ended => Read::End,
            None => {
                let request = self.request(job, cycle, until);
                let read = self.source.read(&request, &mut self.letters);
                read.map_err(|error| job.error_at(lane.stage, cycle, error))?
            }
        };
        for letter in &mut self.letters {
            (letter.cycle, letter.slice) = (cycle, SliceId(lane.slices.start));
        }
        job.add_letters(lane.stage, &mut self.letters);
        Ok(read)
    }

    fn step(
        &mut self,
        job: &Arc<Job>,
        lane: &Arc<Lane>,
        cycle: Cycle,
    ) -> Result<ReadStep, JobError> {
        let recorded = self.replay.front().filter(|(it, _)| *it == cycle).map(|(_, cut)| *cut);
        // What was read and is kept belongs before the cut, though the source is there already.
        if let Some(cut) = recorded
            && self.shed.is_empty()
            && self.source.position() >= Position(cut.position)
        {
            self.idle = cut.idle;
            return Ok(ReadStep::Cut { ended: cut.ended });
        }
        let until = recorded.map(|cut| Position(cut.position));
        let before = self.cursor();
        if self.last_row_us == 0 {
            // From when it is asked first: a source that has yet to ask others is not idle.
            self.last_row_us = job.now_us().max(1);
        }
        let read = self.read(job, lane, cycle, until)?;
        let now_us = job.now_us();
        match read {
            Read::Rows { payload, bytes } => {
                let mut open = match self.begin(job, lane, cycle) {
                    Ok(open) => open,
                    Err(after) => {
                        // Its bad records were told, as those of this cycle.
                        let letters = Vec::new();
                        self.shed.put_back(ShedRead { before, payload, bytes, letters });
                        return Ok(ReadStep::Leave(after));
                    }
                };
                let rows = super::plan::rows_of(&payload);
                open.bytes += bytes as u64;
                open.records += rows;
                self.open = Some(open);
                (self.last_row_us, self.idle) = (now_us, false);
                self.take(job, lane, payload, bytes, cycle)?;
                Ok(self.after_rows(job, (cycle, open), now_us, until.is_some()))
            }
            Read::End => Ok(ReadStep::Cut { ended: true }),
            // A recorded cycle ends where it ended, however long its records take to come.
            Read::Idle { until: due } if until.is_some() => {
                Ok(ReadStep::Leave(After::At(due.unwrap_or(now_us + POLL_US).max(now_us + 1))))
            }
            Read::Idle { until: due } => Ok(self.after_nothing(job, cycle, now_us, due)),
        }
    }

    fn take(
        &mut self,
        job: &Job,
        lane: &Lane,
        payload: crate::block::Payload,
        bytes: usize,
        cycle: Cycle,
    ) -> Result<(), JobError> {
        let rows = super::plan::rows_of(&payload);
        let count = &job.plan[lane.stage].count;
        count.rows_in.fetch_add(rows, Ordering::Relaxed);
        count.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
        if rows == 0 {
            return Ok(());
        }
        let failed = |message| job.error_at(lane.stage, cycle, message);
        for payload in self.small.take(payload).map_err(|error| failed(error.to_string()))? {
            let layout = job.layout(lane.layout);
            let writer = LaneWriter { job, layout: &layout, lane, seed: job.seed_of(cycle) };
            self.output
                .send(writer, 0, RowOwner::One(SliceId(lane.slices.start)), payload)
                .map_err(failed)?;
        }
        Ok(())
    }

    fn after_rows(
        &self,
        job: &Job,
        (cycle, open): (Cycle, OpenCycle),
        now_us: u64,
        replaying: bool,
    ) -> ReadStep {
        let bounds = &job.plan.cycle;
        let full = open.bytes >= bounds.bytes.0 || open.records >= bounds.records;
        // Cycles of what is bounded are as long whenever somebody waits for their end, so that its
        // output is the same.
        let wanted = || job.pacer.lock().expect("no panic while held").is_wanted(cycle);
        let late = self.live && (now_us >= self.due_us(job) || wanted());
        if !replaying && (full || late) { ReadStep::Cut { ended: false } } else { ReadStep::Read }
    }

    /// Decides the step after a read without records: the cycle ends when its time is up or others
    /// are ahead.
    fn after_nothing(
        &mut self,
        job: &Job,
        cycle: Cycle,
        now_us: u64,
        due: Option<u64>,
    ) -> ReadStep {
        let behind = job.pacer.lock().expect("no panic while held").is_behind(cycle);
        let wait = due.unwrap_or(now_us + POLL_US).max(now_us + 1);
        let idle = now_us.saturating_sub(self.last_row_us) >= IDLE_AFTER_US;
        let cut_us = self.due_us(job);
        match self.open {
            Some(_) if behind || now_us >= cut_us => ReadStep::Cut { ended: false },
            Some(_) => ReadStep::Leave(After::At(cut_us)),
            None if behind || (idle && !self.idle) => {
                // The heartbeat: once idle, say so, so that nobody waits for this source's time. It is
                // until rows come, also where an earlier life had said so.
                self.idle |= idle;
                ReadStep::Cut { ended: false }
            }
            None => {
                // However long the source wants to be left alone, the heartbeat comes in time.
                let heartbeat_us =
                    if self.idle { u64::MAX } else { self.last_row_us + IDLE_AFTER_US };
                ReadStep::Leave(After::At(wait.min(heartbeat_us).max(cut_us)))
            }
        }
    }

    /// When the cycle's time is up. A cycle lasts from the last cut, so records that come after a
    /// silence are not held back, and a steady stream is read once a cycle.
    fn due_us(&self, job: &Job) -> u64 {
        self.last_cut_us + job.plan.cycle.time.duration().as_micros() as u64
    }

    /// Ends the cycle: its cut goes to the ledger, its end to all readers.
    fn cut(
        &mut self,
        job: &Arc<Job>,
        lane: &Arc<Lane>,
        cycle: Cycle,
        ended: bool,
    ) -> Result<After, JobError> {
        let time = match self.begin(job, lane, cycle) {
            Ok(open) => open.time,
            Err(after) => {
                self.shed.ended |= ended;
                return Ok(after);
            }
        };
        self.open = None;
        self.last_cut_us = job.now_us();
        if self.replay.front().is_some_and(|(it, _)| *it == cycle) {
            self.replay.pop_front();
        }
        let (position, watermark) = self.cursor();
        debug_assert!(
            position.0 >= self.reported,
            "a source slice never goes back: from {} to {position:?}",
            self.reported
        );
        let count = &job.plan[lane.stage].count;
        // Of all slices together, so that what this one goes on is added.
        let went = position.0.wrapping_sub(std::mem::replace(&mut self.reported, position.0));
        count.position.fetch_add(went, Ordering::Relaxed);
        count.cycle.fetch_max(cycle.0, Ordering::Relaxed);
        // The ledger entry of a cycle is under way before anyone can act on the cycle's end.
        let cut = Cut {
            source: lane.stage.0,
            slice: lane.slices.start,
            position: position.0,
            ended,
            idle: self.idle,
        };
        job.committer.cut((cycle, time), cut, watermark);
        if ended || job.checkpointer.is_at(cycle) {
            let saved = SavedSource {
                name: job.plan[lane.stage].name.clone(),
                slice: SliceId(lane.slices.start),
                position: position.0,
                watermark,
                ended,
                idle: self.idle,
            };
            job.checkpointer.source(lane.stage, (cycle, time), saved);
        }
        let watermark = match (ended, self.idle) {
            (true, _) | (false, true) => Micros::MAX,
            (false, false) => watermark,
        };
        let layout = job.layout(lane.layout);
        let writer = || LaneWriter { job, layout: &layout, lane, seed: job.seed_of(cycle) };
        let failed = |message| job.error_at(lane.stage, cycle, message);
        if let Some(rest) = self.small.rest().map_err(|error| failed(error.to_string()))? {
            self.output
                .send(writer(), 0, RowOwner::One(SliceId(lane.slices.start)), rest)
                .map_err(failed)?;
        }
        self.output.end(writer(), CycleEnd { cycle, time, watermark, ended }).map_err(failed)?;
        lane.state.lock().expect("no panic while held").source_next = cycle.next();
        let mut pacer = job.pacer.lock().expect("no panic while held");
        let first = pacer.end(cycle);
        let released = ended && self.preload && pacer.preload_ended(cycle);
        drop(pacer);
        if ended {
            count.slices_ended.fetch_add(1, Ordering::Relaxed);
        }
        // Others look at who is ahead: those that are held back, and slices of this source that
        // wait for credit and have now fallen behind.
        if (first && job.sources.count() > 1) || layout.lanes_of(lane.stage).len() > 1 || released {
            job.wake_sources();
        }
        Ok(if ended { After::Done } else { After::Ready })
    }
}
