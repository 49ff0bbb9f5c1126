//! A job that resumes from a checkpoint: its state there, and the cycles that it does not repeat.

use super::cuts::slice_of;
use super::key_reads::KeyReads;
use super::ledger::RecordedCycles;
use super::plan::{Plan, StagePlan, Work};
use super::read_retry::{ReadRetry, RetriedRows};
use super::slice_slot::{SavedAccess, SavedSlice, SliceSlot};
use crate::block::TIME_COLUMN;
use crate::operator::MEMBERS_SEPARATOR;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tidemill_checkpoints::{Checkpoints, Manifest, SavedSource};
use tidemill_env::sync::atomic::AtomicUsize;
use tidemill_state::{SavedRows, structure};
use tidemill_types::{
    Cycle, Micros, SliceId, SliceKey, StageIx,
    job::{Delivery, Recovery},
};
use tidemill_wire::ledger::{Cut, StageNote};

/// The point that earlier lives of the job reached.
#[derive(Debug, Default)]
pub(crate) struct ResumePoint {
    /// Everything up to the end of this cycle.
    pub(crate) cycle: Cycle,
    /// Its recorded time.
    pub(crate) time: Micros,
    /// Where the source slices were.
    sources: BTreeMap<SliceKey, SavedSource>,
    /// The watermarks of stages.
    watermarks: BTreeMap<StageIx, Micros>,
    /// The last cycle with rows, by stage of the sink.
    sinks: BTreeMap<StageIx, Cycle>,
    /// The last cycle of which a dead letter was handed to its sink, or a later one.
    pub(crate) letters: Cycle,
    /// Stages that will process nothing more.
    ended: BTreeSet<StageIx>,
}

impl ResumePoint {
    /// The resume point of a checkpoint, for a job whose plan it fits: every saved state belongs to
    /// a stage that does the same, and it knows all sources. Stages without state may be new, gone,
    /// or different.
    ///
    /// # Errors
    /// It does not fit; the message names the difference.
    pub(crate) fn new(plan: &Plan, manifest: &Manifest) -> Result<Self, String> {
        if !manifest.coordinated && plan.delivery != Delivery::AtMostOnce {
            return Err(UNCOORDINATED.to_owned());
        }
        let Manifest { cycle, time, letters, .. } = *manifest;
        let mut before = Self { cycle, time, letters, ..Self::default() };
        for saved in &manifest.sources {
            let stage = stage_named(plan, &saved.name, |work| matches!(work, Work::Source { .. }))?;
            before.sources.insert(SliceKey::new(stage, saved.slice), saved.clone());
        }
        for saved in &manifest.stages {
            let keeps_something = saved.slices.iter().any(|runs| !runs.is_empty());
            let stage = match stage_of(plan, &saved.name) {
                Some(stage) => stage,
                None if keeps_something => return Err(missing_stage(plan, &saved.name)),
                None => continue,
            };
            before.watermarks.insert(stage, saved.watermark);
            if keeps_something {
                fits(&plan[stage], (saved.slices.len(), &saved.does))?;
            }
        }
        // One that is new holds nothing yet, and one that is gone is missed by nobody.
        for saved in &manifest.sinks {
            if let Ok(stage) = stage_named(plan, &saved.name, |work| matches!(work, Work::Sink)) {
                before.sinks.insert(stage, saved.last);
            }
        }
        for (id, stage) in plan.indexed() {
            let is_in_it = |slice| before.sources.contains_key(&SliceKey::new(id, SliceId(slice)));
            // Slices that a source got since begin at their start.
            if matches!(stage.work, Work::Source { .. }) && !(0..stage.began_with).all(is_in_it) {
                return Err(format!("source `{}` is not in it, or had fewer slices", stage.name));
            }
        }
        before.find_ended(plan);
        Ok(before)
    }

    /// Notes the stages that will process nothing more.
    fn find_ended(&mut self, plan: &Plan) {
        let mut last = vec![Cycle::NONE; plan.stages.len()];
        for (id, stage) in plan.indexed() {
            let is_source = matches!(stage.work, Work::Source { .. });
            let has_ended = |slice| self.source_has_ended(SliceKey::new(id, SliceId(slice)));
            if is_source && !(0..stage.slices).all(has_ended) {
                last[id.index()] = Cycle(u64::MAX);
            }
        }
        let last = plan.downstream(last);
        self.ended = plan.ids().filter(|stage| last[stage.index()] <= self.cycle).collect();
    }

    /// Resumes after the last cycle of the ledger and repeats none of it: the rows that sinks hold
    /// come from there at the latest.
    ///
    /// # Errors
    /// There is event time, and the ledger does not say how far it was in those cycles, as they are of
    /// another delivery: windows would be written again.
    pub(crate) fn skip(&mut self, plan: &Plan, recorded: &RecordedCycles) -> Result<(), String> {
        // Cycle by cycle, as the stages did: who is idle in one holds nothing back in that, and may
        // be far behind in the next; event time does not go back.
        let mut watermarks: Vec<_> = plan.ids().map(|it| self.watermark(it)).collect();
        let first = recorded.cuts.partition_point(|(cycle, _)| *cycle <= self.cycle);
        let is_marked = |(cycle, cut): &(Cycle, Cut)| {
            recorded.watermarks.contains_key(&(*cycle, slice_of(cut)))
                || !has_event_time(&plan[slice_of(cut).stage])
        };
        if let Some((cycle, _)) = recorded.cuts[first..].iter().find(|it| !is_marked(it)) {
            return Err(format!(
                "what came after cycle {} was done under the delivery `exactly-once`, and would be \
                 lost and in part be written again under `at-most-once`, from cycle {cycle} on: \
                 resume the job with the delivery that it had, or begin anew, with a checkpoint or \
                 without",
                self.cycle
            ));
        }
        for cuts in recorded.cuts[first..].chunk_by(|a, b| a.0 == b.0) {
            for (cycle, cut) in cuts {
                let slice = slice_of(cut);
                let before = self.sources.get(&slice).map(|it| it.watermark);
                let said = recorded.watermarks.get(&(*cycle, slice)).copied();
                let saved = SavedSource {
                    name: plan[slice.stage].name.clone(),
                    slice: SliceId(cut.slice),
                    position: cut.position,
                    watermark: said.or(before).unwrap_or(Micros::MIN),
                    ended: cut.ended,
                    idle: cut.idle,
                };
                self.sources.insert(slice, saved);
            }
            let of_source = |(id, stage): (StageIx, &StagePlan)| {
                let slices =
                    (0..stage.slices).map(|slice| self.source(SliceKey::new(id, SliceId(slice))));
                let ended = slices.clone().all(|it| it.is_some_and(|it| it.ended));
                let of_slice = |it: Option<&SavedSource>| match it {
                    Some(saved) if saved.ended || saved.idle => Micros::MAX,
                    Some(saved) => saved.watermark,
                    // It was not there yet.
                    None => Micros::MAX,
                };
                (slices.map(of_slice).min().unwrap_or(Micros::MIN), ended)
            };
            plan.advance(plan.indexed().map(of_source).collect(), &mut watermarks);
        }
        if recorded.last() > self.cycle {
            (self.cycle, self.time) = (recorded.last(), recorded.last_time());
        }
        self.find_ended(plan);
        self.watermarks = plan.ids().zip(watermarks).collect();
        Ok(())
    }

    /// The resume point of a job that began with the checkpoint of a cycle: its sinks hold nothing
    /// from before.
    pub(crate) fn since(mut self, began: Cycle) -> Self {
        self.sinks.retain(|_, last| *last > began);
        if self.letters <= began {
            self.letters = Cycle::NONE;
        }
        self
    }

    /// The stage processes nothing more.
    pub(crate) fn has_ended(&self, stage: StageIx) -> bool {
        self.ended.contains(&stage)
    }

    /// Nothing comes from a source slice any more.
    pub(crate) fn source_has_ended(&self, slice: SliceKey) -> bool {
        self.source(slice).is_some_and(|saved| saved.ended)
    }

    /// A source slice as it was; none if it is at its start.
    pub(crate) fn source(&self, slice: SliceKey) -> Option<&SavedSource> {
        self.sources.get(&slice)
    }

    /// The source slices that have ended.
    pub(crate) fn ended_sources(&self) -> super::checkpoint::EndedSources {
        let ended = self.sources.iter().filter(|(_, saved)| saved.ended);
        ended.map(|(key, saved)| (*key, (self.cycle, saved.clone()))).collect()
    }

    /// The last cycle of which a sink had rows: it holds that, or lacks something.
    pub(crate) fn sink(&self, stage: StageIx) -> Cycle {
        self.sinks.get(&stage).copied().unwrap_or(Cycle::NONE)
    }

    /// The watermark of a stage.
    pub(crate) fn watermark(&self, stage: StageIx) -> Micros {
        self.watermarks.get(&stage).copied().unwrap_or(Micros::MIN)
    }
}

fn has_event_time(stage: &StagePlan) -> bool {
    let Work::Source { factory, .. } = &stage.work else { return false };
    factory.schema().index_of(TIME_COLUMN).is_ok()
}

const UNCOORDINATED: &str = "each of its slices was saved by itself, under the delivery \
                             `at-most-once`, so that what is counted once needs one that was kept, or \
                             that of a job that was stopped";

/// Why a state has no stage: it is gone, or shares its stage with others than it did.
fn missing_stage(plan: &Plan, saved: &str) -> String {
    let was: Vec<&str> = saved.split(MEMBERS_SEPARATOR).collect();
    let is_member = |it: &&StagePlan| {
        matches!(it.work, Work::Operator { .. })
            && it.name.split(MEMBERS_SEPARATOR).any(|it| was.contains(&it))
    };
    let now: Vec<String> =
        plan.stages.iter().filter(is_member).map(|it| format!("`{}`", it.name)).collect();
    match now.as_slice() {
        [] => format!("the job has no stage `{saved}` any more"),
        now => format!(
            "the stages that share windows are others now: {} instead of `{saved}`",
            now.join(", ")
        ),
    }
}

/// The stage of a stage.
pub(crate) fn stage_of(plan: &Plan, name: &str) -> Option<StageIx> {
    stage_named(plan, name, |work| matches!(work, Work::Operator { .. })).ok()
}

/// Checks that a source is read as it was, or that a stage does the same in the same number of
/// slices, so that a saved state fits it.
fn fits(found: &StagePlan, (slices, did): (usize, &str)) -> Result<(), String> {
    let name = &found.name;
    let factory = match &found.work {
        Work::Operator { factory } => factory,
        Work::Source { factory, .. } if factory.reads() != did => {
            let reads = factory.reads();
            return Err(format!("source `{name}` is read otherwise now: {reads}; it was: {did}"));
        }
        _ => return Ok(()),
    };
    if found.slices as usize != slices {
        return Err(format!("stage `{name}` has {} slices now, and had {slices}", found.slices));
    }
    let does = factory.does();
    if does != did {
        return Err(format!("stage `{name}` does something else now: {does}; it did: {did}"));
    }
    Ok(())
}

/// The notes of sources that describe their reading, and of stages that keep a state.
pub(crate) fn stage_notes(plan: &Plan) -> Vec<StageNote> {
    let note = |stage: &StagePlan| {
        let does = match &stage.work {
            Work::Source { factory, .. } => Some(factory.reads()).filter(|it| !it.is_empty()),
            Work::Operator { factory } => {
                let keeps_something = !factory.state(SliceId(0)).structures().is_empty();
                keeps_something.then(|| factory.does())
            }
            _ => None,
        };
        does.map(|does| StageNote { name: stage.name.clone(), slices: stage.slices, does })
    };
    plan.stages.iter().filter_map(note).collect()
}

/// Checks that cycles can be repeated: sources and stages match their notes. There may be new ones.
/// With a checkpoint stages may be gone, as it has a state of none of them.
///
/// # Errors
/// The difference.
pub(crate) fn check_notes(
    plan: &Plan,
    noted: &[StageNote],
    has_checkpoint: bool,
) -> Result<(), String> {
    noted.iter().try_for_each(|was| {
        let is_it = |stage: &&StagePlan| {
            stage.name == was.name
                && matches!(stage.work, Work::Source { .. } | Work::Operator { .. })
        };
        match plan.stages.iter().find(is_it) {
            Some(stage) => fits(stage, (was.slices as usize, &was.does)),
            None if has_checkpoint => Ok(()),
            None => Err(missing_stage(plan, &was.name)),
        }
    })
}

/// Checks that no sink that `holds` rows of repeated cycles reads a stateful stage that was not
/// there then: the sink would leave out the rows of that stage.
///
/// # Errors
/// There is such a sink: which, and the stage.
pub(crate) fn check_feeds(
    plan: &Plan,
    (was, now): (&[StageNote], &[StageNote]),
    holds: impl Fn(StageIx) -> bool,
) -> Result<(), String> {
    let is_new = |it: &&StageNote| was.iter().all(|was| was.name != it.name);
    for new in now.iter().filter(is_new) {
        let Some(new_stage) = stage_of(plan, &new.name) else { continue };
        let mut fed: Vec<bool> = plan.ids().map(|id| id == new_stage).collect();
        for stage in plan.order() {
            fed[stage.index()] |=
                plan[stage].links_in.iter().any(|link| fed[plan[*link].from.index()]);
        }
        if let Some(sink) = plan.ids().find(|it| fed[it.index()] && holds(*it)) {
            let (sink, stage) = (&plan[sink].name, &new.name);
            return Err(format!(
                "sink `{sink}`, which holds rows of that, would get rows of stage `{stage}`, which \
                 is new: give such a stage a sink of its own"
            ));
        }
    }
    Ok(())
}

fn stage_named(
    plan: &Plan,
    name: &str,
    is_kind: impl Fn(&Work) -> bool,
) -> Result<StageIx, String> {
    let found = plan.stages.iter().position(|stage| stage.name == name && is_kind(&stage.work));
    let found = found.map(StageIx::at);
    found.ok_or_else(|| format!("the job has no `{name}` any more"))
}

/// Where the keys of a slice are that leave memory, if they do.
fn saved_rows(
    plan: &Plan,
    checkpoints: &Checkpoints,
    slice: SliceKey,
    running: &Arc<ReadRetry>,
) -> Option<SavedRows> {
    let of = &plan[slice.stage];
    of.ttl?;
    let stages = plan.stages.iter().filter(|it| matches!(it.work, Work::Operator { .. }));
    let slices = stages.map(|it| u64::from(it.slices)).sum();
    let rows = checkpoints.looker().rows_of(&of.name, slice.slice);
    let rows = RetriedRows { stage: slice.stage, rows, running: Arc::clone(running) };
    let most = plan.budget.restored_bytes_max(slices);
    Some(SavedRows::new(Arc::new(rows), Arc::clone(&of.count.expiry), most))
}

/// Makes future saves of a stage readable as its job needs them: row by row if keys leave memory,
/// and key by key if the job resumes before all is read and its operator asks so.
pub(crate) fn index_saves(
    plan: &Plan,
    stage: StageIx,
    checkpoints: &mut Checkpoints,
    recovery: Recovery,
) {
    let of = &plan[stage];
    let Work::Operator { factory } = &of.work else { return };
    if of.ttl.is_some() {
        checkpoints.read_by_row(stage);
    } else if recovery != Recovery::Eager
        && let Some(hash_of) = factory.hash_of_entry()
    {
        checkpoints.read_by_key(stage, hash_of);
    }
}

/// The states of a stage's slices, from a checkpoint if there is one. They track their changes if
/// the job makes checkpoints. Slices still to be read are added to `saved`.
pub(crate) fn slice_slots(
    plan: &Plan,
    stage: StageIx,
    checkpoints: Option<&Checkpoints>,
    before: &ResumePoint,
    saved: &mut Vec<Arc<SavedSlice>>,
    left: &Arc<AtomicUsize>,
    running: &Arc<ReadRetry>,
) -> Vec<SliceSlot> {
    let Work::Operator { factory } = &plan[stage].work else { return Vec::new() };
    let goes_on = before.cycle > Cycle::NONE && !before.has_ended(stage);
    let state = |slice| {
        let rows = checkpoints
            .and_then(|it| saved_rows(plan, it, SliceKey::new(stage, SliceId(slice)), running));
        let of = &plan[stage];
        let runs = checkpoints
            .filter(|_| goes_on)
            .map(|it| it.runs_of(SliceKey::new(stage, SliceId(slice))));
        if let Some(runs) = runs.filter(|runs| !runs.is_empty()) {
            let reading = checkpoints.filter(|it| it.reads_by_key(stage));
            let looker = reading.map(Checkpoints::looker);
            let by_key = looker.map(|looker| {
                KeyReads::new(looker, &of.name, SliceId(slice), &runs, &of.count.read_keys)
            });
            let one = Arc::new(SavedSlice::new(
                SliceKey::new(stage, SliceId(slice)),
                factory,
                (runs, SavedAccess { rows, by_key }),
                left,
                running,
            ));
            saved.push(Arc::clone(&one));
            return SliceSlot::Saved(one);
        }
        let mut state = factory.state(SliceId(slice));
        if checkpoints.is_some() {
            structure::track(&mut *state);
        }
        rows.iter().for_each(|rows| structure::expires(&mut *state, rows));
        SliceSlot::Resident(state)
    };
    (0..plan[stage].slices).map(state).collect()
}
