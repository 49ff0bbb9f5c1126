//! Hand-over of slices from the lanes of one layout to those of the next, stage by stage.
//!
//! A lane of the old layout is handed over when its next cycle belongs to the new one. When all
//! old lanes of a stage are there, their slices are dealt out to the new lanes, which then open
//! and run whatever has queued up for them. Other stages need not be there yet.

use super::checkpoint::uncoordinated::Uncoordinated;
use super::job::{HandOver, Job};
use super::lane::{Core, Lane};
use super::layout::Layout;
use super::operator_lane::OperatorLane;
use super::plan::Work;
use super::slice_slot::SliceSlot;
use std::sync::Arc;
use tidemill_env::sync::atomic::Ordering;
use tidemill_types::{LayoutVersion, Micros, ProcessIx, SliceId, SliceKey, StageIx};

/// Takes the core of a lane that has reached the end of its layout.
pub(crate) fn take(job: &Arc<Job>, lane: &Arc<Lane>, core: Core) {
    let mut waiting = job.handed_over.lock().expect("no panic while held");
    let index = waiting.iter().position(|it| (it.stage, it.layout) == (lane.stage, lane.layout));
    let index = index.unwrap_or_else(|| {
        waiting.push(HandOver { stage: lane.stage, layout: lane.layout, lanes: Vec::new() });
        waiting.len() - 1
    });
    waiting[index].lanes.push((Arc::clone(lane), core));
    let old = job.layout(lane.layout);
    let stage = &job.plan[lane.stage];
    let is_source = matches!(stage.work, Work::Source { .. });
    // Source slices are independent: each moves by itself. Those that ended stay where they are.
    if !is_source && waiting[index].lanes.len() < old.lanes_of(lane.stage).len() {
        return;
    }
    let mut all = waiting.swap_remove(index);
    drop(waiting);
    let new = job.layout_after(lane.layout);
    all.lanes.sort_by_key(|(lane, _)| lane.index);
    if is_source {
        for (lane, core) in all.lanes {
            open(job, &new.lanes_of(lane.stage)[lane.index.index()], core);
        }
    } else {
        deal(job, &new, all);
    }
}

/// Deals the slices of a stage out to the lanes of the new layout.
fn deal(job: &Arc<Job>, new: &Layout, all: HandOver) {
    let mut watermark = Micros::MAX;
    let mut states: Vec<SliceSlot> = Vec::new();
    // What an input said about its end holds in the new layout too.
    let old = job.layout(all.layout);
    debug_assert!(old.version < new.version, "slices go to a later layout");
    debug_assert_eq!(
        all.lanes.len(),
        old.lanes_of(all.stage).len(),
        "every lane of the old layout is handed over"
    );
    carry_ends(job, &old, new, all.stage, &all.lanes[0].0);
    for (_, core) in all.lanes {
        match core {
            Core::Operator(core) => {
                watermark = watermark.min(core.watermark);
                states.extend(core.states);
            }
            other => return open(job, &new.lanes_of(all.stage)[0], other),
        }
    }
    let Work::Operator { factory } = &job.plan[all.stage].work else {
        unreachable!("only stages have lanes with states");
    };
    let count: usize = new.lanes_of(all.stage).iter().map(|lane| lane.slices.len()).sum();
    debug_assert_eq!(states.len(), count, "both layouts have the same slices of a stage");
    let mut states = states.into_iter();
    for lane in new.lanes_of(all.stage) {
        let mine: Vec<SliceSlot> = states.by_ref().take(lane.slices.len()).collect();
        assert_eq!(mine.len(), lane.slices.len(), "no slice is lost on the way");
        let (operator, wants_time) = (factory.operator(), factory.wants_time());
        let core = OperatorLane::new(job, all.stage, operator, mine, wants_time, watermark);
        open(job, lane, Core::Operator(Box::new(core)));
    }
}

/// Marks the inputs of the new inboxes whose upstream had ended in the old layout. An upstream
/// stage that has ended never hands over: its new lanes send nothing.
fn carry_ends(job: &Job, old: &Layout, new: &Layout, stage: StageIx, old_lane: &Lane) {
    let state = old_lane.state.lock().expect("no panic while held");
    let ended_with = state.inbox.ended_with().to_vec();
    drop(state);
    for link in &job.plan[stage].links_in {
        let old_inputs = old.inputs_of(&job.plan, *link);
        let from = job.plan[*link].from;
        let is_source = matches!(job.plan[from].work, Work::Source { .. });
        let whole_stage_ended = ended_with[old_inputs.clone()].iter().all(Option::is_some);
        for (nth, input) in new.inputs_of(&job.plan, *link).enumerate() {
            let ended = if is_source {
                // A slice that was added is in the new layout alone.
                old_inputs.clone().nth(nth).is_some_and(|it| ended_with[it].is_some())
            } else {
                whole_stage_ended
            };
            if ended {
                for lane in new.lanes_of(stage) {
                    let mut state = lane.state.lock().expect("no panic while held");
                    state.inbox.ended_before(input);
                }
            }
        }
    }
}

/// Marks the inputs of a lane's inbox that had ended before its first cycle.
pub(crate) fn had_ended(
    job: &Job,
    layout: &Layout,
    lane: &Lane,
    has_ended: impl Fn(SliceKey) -> bool,
) {
    for link in &job.plan[lane.stage].links_in {
        let from = job.plan[*link].from;
        for (input, upstream) in layout.inputs_of(&job.plan, *link).zip(layout.lanes_of(from)) {
            let slice = SliceKey::new(from, SliceId(upstream.slices.start));
            if has_ended(slice) {
                let mut state = lane.state.lock().expect("no panic while held");
                state.inbox.ended_before(input);
            }
        }
    }
}

/// Gives a lane its core; it runs from now on.
pub(crate) fn open(job: &Arc<Job>, lane: &Arc<Lane>, core: Core) {
    seat(lane, core);
    job.wake_lane(lane);
}

/// Gives a lane its core; it runs once it is poked.
pub(crate) fn seat(lane: &Lane, core: Core) {
    *lane.core.lock().expect("a panic while held ends the job") = Some(core);
    lane.state.lock().expect("no panic while held").open = true;
}

impl Job {
    /// The layout that follows the one of this version.
    pub(crate) fn layout_after(&self, version: LayoutVersion) -> Arc<Layout> {
        let layouts = self.layouts.read().expect("no panic while held");
        let next = layouts.iter().filter(|layout| layout.version > version);
        let next = next.min_by_key(|layout| layout.version);
        Arc::clone(next.expect("a lane is handed over only to a next layout"))
    }

    /// A lane will never run again. Its slices are done.
    pub(crate) fn lane_done(&self, lane: &Lane) {
        let done = &self.slices_done[lane.stage.index()];
        let count = lane.slices.len() as u64;
        let before = done.fetch_add(count, Ordering::AcqRel);
        if before + count >= u64::from(self.plan[lane.stage].slices) {
            self.committer.wake();
        }
    }

    /// Returns true if the job is complete: all stages are done, or it was stopped and all begun
    /// cycles are committed.
    ///
    /// A process without sources and sinks cannot know: process 0 tells it.
    pub(crate) fn is_drained(&self) -> bool {
        if self.plan.process != ProcessIx(0) {
            return false;
        }
        let mut here = self.plan.ids().filter(|stage| self.plan.is_here(*stage));
        let all_done = here.all(|stage| {
            let done = self.slices_done[stage.index()].load(Ordering::Acquire);
            done >= u64::from(self.plan[stage].slices)
        });
        let committed = self.committed.load(Ordering::Acquire);
        let stop_after = self.pacer.lock().expect("no panic while held").stop_after();
        let is_left = self.checkpointer.uncoordinated.as_ref().is_none_or(Uncoordinated::is_left);
        let stopped = is_left && stop_after.is_some_and(|last| committed >= last.0);
        (all_done && committed >= self.committer.cut.load(Ordering::Acquire)) || stopped
    }
}
