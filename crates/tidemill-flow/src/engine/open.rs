//! Everything that a job has is opened before anything of it runs.

use super::RunOptions;
use crate::error::{ErrorKind, StartError};
use crate::progress::CheckpointProgress;
use crate::retry::{RetryPolicy, Stalls};
use crate::runtime::{
    blocks::BlockPool,
    checked_source::CheckedSource,
    checkpoint::{Checkpointer, uncoordinated::Uncoordinated},
    commit::{CommitThread, Committer},
    commit_followers::CommitFollowers,
    cuts::slice_of,
    growth::{GrowthMonitor, SourceSlices},
    hand_over,
    job::Job,
    lane::Core,
    layout::Layout,
    ledger::{Ledger, LedgerError, Opening, Owner, RecordedCycles, has_ledger},
    operator_lane::{OperatorLane, SkipLimit},
    pacer::Pacer,
    panic_guard,
    peer::Peers,
    plan::{GraphParts, Plan, Work},
    read_retry::ReadRetry,
    restore::{self, ResumePoint},
    sink_lane::{SharedSink, SinkLane},
    slice_slot::{self, RestoreError, SavedSlice, SliceSlot},
    snapshots::Snapshots,
    source_lane::SourceLane,
};
use crate::sink::Sink;
use crate::source::{Position, Source};
use std::{collections::BTreeMap, io, path::Path, sync::Arc};
use tidemill_checkpoints::Checkpoints;
use tidemill_env::sync::{
    Mutex, RwLock,
    atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
};
use tidemill_env::{Disk, DiskLock, World, has_no_room};
use tidemill_types::{
    Cycle, SliceId, SliceKey, StageIx,
    job::{Delivery, Recovery},
};
use tidemill_wire::ledger::Cut;

mod origin;
mod sinks;

use origin::ResumeFrom;

/// The file that stands for the lock of a data folder.
const LOCK_FILE: &str = "lock";

fn open_ledger(
    plan: &Plan,
    world: &World,
    options: &RunOptions,
    opening: Opening,
) -> Result<(Option<Ledger>, RecordedCycles), StartError> {
    let keeps = plan.delivery.goes_on(options.checkpoint.is_some());
    let Some(folder) = options.data.as_ref() else { return Ok((None, RecordedCycles::default())) };
    if !keeps {
        // It writes from the start what a ledger would have left out.
        Ledger::remove(&world.disk, folder, &plan.name).map_err(unopened)?;
        return Ok((None, RecordedCycles::default()));
    }
    let sources = plan.stages.iter().filter(|stage| matches!(stage.work, Work::Source { .. }));
    let owner = Owner {
        job: plan.name.clone(),
        seed: plan.seed,
        sources: sources.map(|stage| (stage.name.clone(), stage.began_with)).collect(),
    };
    let opened = Ledger::open(&world.disk, folder, &owner, opening);
    let (mut ledger, recorded) = opened.map_err(unopened)?;
    if let Some(bytes) = options.ledger_file_bytes {
        ledger.begin_next_at(bytes);
    }
    let is_source = |cut: &Cut| {
        let stage = plan.stages.get(slice_of(cut).stage.index());
        stage.is_some_and(|stage| matches!(stage.work, Work::Source { .. }))
    };
    if !recorded.cuts.iter().all(|(_, cut)| is_source(cut)) {
        let message = "its sources have other places in the job now: add them in the order that \
                       they had, before all stages";
        let path = folder.join("ledger").display().to_string();
        return Err(StartError::Ledger { path, message: message.to_owned() });
    }
    Ok((Some(ledger), recorded))
}

/// The error of a ledger, or of the notes beside it, that could not be opened.
fn unopened(LedgerError { path, message, kind }: LedgerError) -> StartError {
    let path = path.display().to_string();
    match kind {
        ErrorKind::Retry => {
            StartError::Unavailable { message: format!("ledger {path}: {message}") }
        }
        _ => StartError::Ledger { path, message },
    }
}

/// Returns true if a job has begun in a data folder, even one killed before it read anything.
#[must_use]
pub fn has_begun(disk: &dyn Disk, folder: &Path) -> bool {
    disk.exists(&folder.join(LOCK_FILE)).unwrap_or(false) || has_ledger(disk, folder)
}

/// Takes a data folder for this job, until the last of its threads ends.
fn lock(world: &World, folder: &Path) -> Result<Box<dyn DiskLock>, StartError> {
    let path = folder.join(LOCK_FILE);
    let taken = world.disk.create_dir_all(folder).and_then(|()| world.disk.lock(&path));
    taken.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => StartError::InUse { folder: folder.to_owned() },
        _ if has_no_room(&error) => {
            StartError::Unavailable { message: format!("{}: {error}", path.display()) }
        }
        _ => open_error(&path.display().to_string(), error.to_string()),
    })
}

/// Everything that a job has, opened before anything starts.
pub(super) struct OpenedJob {
    /// Of the data folder.
    pub(super) lock: Option<Box<dyn DiskLock>>,
    ledger: Option<Ledger>,
    recorded: RecordedCycles,
    /// The point that earlier lives reached.
    pub(super) before: ResumePoint,
    /// The cycle of the checkpoint that the job goes on from.
    from: Cycle,
    /// No cycle of the ledger is repeated.
    skips: bool,
    pub(super) checkpoints: Option<Checkpoints>,
    sources: Vec<(StageIx, SourceLane)>,
    /// By stage.
    states: BTreeMap<StageIx, Vec<SliceSlot>>,
    /// The slices that are still to be read back.
    pub(super) saved: Vec<Arc<SavedSlice>>,
    slices_left: Arc<AtomicUsize>,
    running: Arc<ReadRetry>,
    sinks: Vec<(StageIx, SharedSink, Cycle)>,
    dead_letter: Option<Box<dyn Sink>>,
    dead_letter_held: Cycle,
}

fn open_error(name: &str, message: String) -> StartError {
    StartError::Open { name: name.to_owned(), message }
}

/// The error of a slice whose state could not be read back.
fn unread_error(name: &str, error: &RestoreError) -> StartError {
    match error.of_backend.clone().map(StartError::from) {
        Some(away @ StartError::Unavailable { .. }) => away,
        _ => open_error(name, error.to_string()),
    }
}

impl OpenedJob {
    pub(super) fn new(
        plan: &Plan,
        mut parts: GraphParts,
        world: &World,
        options: &RunOptions,
        workers: usize,
    ) -> Result<Self, StartError> {
        if plan.delivery == Delivery::AtMostOnce && options.checkpoint.is_some() {
            sinks::go_on(plan, &parts)?;
        }
        // What another job has open is not touched.
        let lock = options.data.as_deref().map(|folder| lock(world, folder)).transpose()?;
        // All that can be refused is, before the ledger and the sinks begin anew: a job that cannot
        // be started leaves what the one before it left.
        let mut from = origin::open_checkpoints(plan, options)?;
        let opening = origin::opening(plan, from.as_ref(), options)?;
        let mut opened = Self {
            lock,
            ledger: None,
            recorded: RecordedCycles::default(),
            before: ResumePoint::default(),
            from: Cycle::NONE,
            skips: plan.delivery == Delivery::AtMostOnce,
            checkpoints: None,
            sources: Vec::new(),
            states: BTreeMap::new(),
            saved: Vec::new(),
            slices_left: Arc::new(AtomicUsize::new(0)),
            running: Arc::default(),
            sinks: Vec::new(),
            dead_letter: None,
            dead_letter_held: Cycle::NONE,
        };
        let mut sources = Some(open_sources(plan)?);
        if let Opening::Anew(beginning) = opening {
            // What the new ledger will hold is known.
            opened.recorded = RecordedCycles::of_new(beginning);
            let sources = sources.take().unwrap_or_default();
            opened.find_origin(plan, from.take(), sources, options)?;
            opened.find_states(plan, world, options, workers)?;
        }
        sinks::check(plan, &mut parts)?;
        (opened.ledger, opened.recorded) = open_ledger(plan, world, options, opening)?;
        begin_sources(plan)?;
        opened.open_sinks(plan, parts)?;
        if let Some(sources) = sources {
            opened.find_origin(plan, from, sources, options)?;
            opened.find_states(plan, world, options, workers)?;
        }
        opened.check_stages(plan, world, options)?;
        if let Some(checkpoints) = &mut opened.checkpoints {
            checkpoints.confirm().map_err(origin::refused)?;
        }
        Ok(opened)
    }

    /// Finds the point to resume from, and seeks the sources there.
    fn find_origin(
        &mut self,
        plan: &Plan,
        from: Option<(Checkpoints, ResumeFrom)>,
        mut sources: Vec<(StageIx, OpenSource)>,
        options: &RunOptions,
    ) -> Result<(), StartError> {
        if let Some((checkpoints, from)) = from {
            self.go_on(plan, checkpoints, from)?;
        }
        self.begins_where_the_ledger_does(options)?;
        self.from = self.before.cycle;
        let has_cycles = self.recorded.last() > self.recorded.began;
        if self.skips && has_cycles && self.before.cycle == Cycle::NONE {
            // It may have been killed before the first, or its backend be another one.
            tracing::warn!(job = plan.name, "there is no checkpoint: the states begin empty");
        }
        if self.skips {
            self.before.skip(plan, &self.recorded).map_err(|message| {
                let folder = options.data.as_deref().unwrap_or_else(|| "".as_ref());
                StartError::Ledger { path: folder.join("ledger").display().to_string(), message }
            })?;
        }
        for (stage, source) in &mut sources {
            self.seek(plan, *stage, source)?;
        }
        self.sources = self.source_lanes(plan, sources);
        Ok(())
    }

    /// Opens the states of all stages, as of that point.
    fn find_states(
        &mut self,
        plan: &Plan,
        world: &World,
        options: &RunOptions,
        workers: usize,
    ) -> Result<(), StartError> {
        let recovery = options.checkpoint.as_ref().map(|to| to.recovery);
        for id in plan.ids().filter(|id| plan.is_here(*id)) {
            if let (Some(checkpoints), Some(recovery)) = (&mut self.checkpoints, recovery) {
                restore::index_saves(plan, id, checkpoints, recovery);
            }
            let Self { checkpoints, before, saved, slices_left, running, .. } = self;
            let states = restore::slice_slots(
                plan,
                id,
                checkpoints.as_ref(),
                before,
                saved,
                slices_left,
                running,
            );
            self.states.insert(id, states);
        }
        if recovery == Some(Recovery::Eager) {
            let saved = Arc::new(std::mem::take(&mut self.saved));
            slice_slot::load_all(world, &saved, workers)
                .map_err(|(stage, error)| unread_error(&plan[stage].name, &error))?;
        }
        Ok(())
    }

    /// Seeks a source slice to its position in the checkpoint.
    fn seek(&self, plan: &Plan, stage: StageIx, source: &mut OpenSource) -> Result<(), StartError> {
        match self.before.source(SliceKey::new(stage, source.slice)).filter(|saved| !saved.ended) {
            Some(saved) => {
                let (name, to) = (&plan[stage].name, Position(saved.position));
                let seek = || source.source.seek(to, saved.watermark);
                let sought = panic_guard::call_blaming(name, Some(source.slice), seek);
                sought.map_err(|error| StartError::of_part(name, error))
            }
            None => Ok(()),
        }
    }

    /// Lanes of the slices that have not ended.
    fn source_lanes(
        &self,
        plan: &Plan,
        sources: Vec<(StageIx, OpenSource)>,
    ) -> Vec<(StageIx, SourceLane)> {
        let goes_on = sources.into_iter().filter(|(stage, source)| {
            !self.before.source_has_ended(SliceKey::new(*stage, source.slice))
        });
        let lane = |(stage, OpenSource { slice, source }): (StageIx, OpenSource)| {
            let Work::Source { factory, preload } = &plan[stage].work else {
                unreachable!("only sources are opened as such");
            };
            // Of cycles that were recorded before it was there.
            let first = Cut {
                source: stage.0,
                slice: slice.0,
                position: factory.begins_at(slice).0,
                ended: false,
                idle: true,
            };
            let replay = self.recorded.of(first, self.before.cycle);
            let saved = self.before.source(SliceKey::new(stage, slice));
            let idle = saved.is_some_and(|saved| saved.idle);
            let told = saved.map_or(factory.begins_at(slice).0, |saved| saved.position);
            let source = CheckedSource::new(source, factory.schema());
            (stage, SourceLane::new(slice, source, factory.live(), *preload, replay, idle, told))
        };
        goes_on.map(lane).collect()
    }
}

/// A slice of a source, at its start.
struct OpenSource {
    slice: SliceId,
    source: Box<dyn Source>,
}

fn open_sources(plan: &Plan) -> Result<Vec<(StageIx, OpenSource)>, StartError> {
    let mut sources = Vec::new();
    for (id, stage) in plan.indexed().filter(|(id, _)| plan.is_here(*id)) {
        let Work::Source { factory, .. } = &stage.work else { continue };
        for slice in (0..stage.slices).map(SliceId) {
            let source =
                factory.open(slice).map_err(|error| StartError::of_part(&stage.name, error))?;
            sources.push((id, OpenSource { slice, source }));
        }
    }
    Ok(sources)
}

/// Lets the sources note their beginning. It comes after the ledger: a ledger with cycles of an
/// earlier life beside notes of this one would be taken for theirs.
fn begin_sources(plan: &Plan) -> Result<(), StartError> {
    for (_, stage) in plan.indexed().filter(|(id, _)| plan.is_here(*id)) {
        if let Work::Source { factory, .. } = &stage.work {
            factory.begin().map_err(|error| StartError::of_part(&stage.name, error))?;
        }
    }
    Ok(())
}

pub(super) fn build(
    plan: Plan,
    world: &World,
    options: &RunOptions,
    opened: &mut OpenedJob,
    peers: Peers,
) -> (Arc<Job>, CommitThread) {
    let (before, recorded) = (&opened.before, &opened.recorded);
    let preloads = |stage: StageIx| matches!(plan[stage].work, Work::Source { preload: true, .. });
    let mut pacer = Pacer::new(opened.sources.iter().filter(|(stage, _)| preloads(*stage)).count());
    if before.cycle > Cycle::NONE {
        pacer.go_on_after(before.cycle, before.time);
    }
    pacer.replay(recorded.times.iter().copied().filter(|(cycle, _)| *cycle > before.cycle));
    let slices: Vec<SliceKey> = plan
        .indexed()
        .filter(|(id, stage)| plan.is_here(*id) && matches!(stage.work, Work::Source { .. }))
        .flat_map(|(id, stage)| {
            (0..stage.slices).map(move |slice| SliceKey::new(id, SliceId(slice)))
        })
        .collect();
    let sinks = opened.sinks.iter().map(|(stage, sink, held)| (*stage, Arc::clone(sink), *held));
    let sinks = sinks.collect();
    let followed = plan.indexed().filter_map(|(id, stage)| match &stage.work {
        Work::Source { factory, .. } => Some((id, Arc::clone(factory))),
        _ => None,
    });
    let followed = CommitFollowers::new(followed, recorded.last());
    let begins_anew = |sink: &SharedSink| !sink.lock().is_ok_and(|sink| !sink.begins_anew());
    let has_floor = opened.skips || !opened.sinks.iter().any(|(_, sink, _)| begins_anew(sink));
    let alone = options.checkpoint.as_ref().filter(|_| opened.skips);
    let alone = alone.map(|to| Uncoordinated::new(&to.every));
    let job = Job {
        sources: SourceSlices::new(slices.len()),
        growth: GrowthMonitor::after(recorded.last()),
        readers: Arc::clone(&opened.running.readers),
        committer: Committer::new(
            slices,
            sinks,
            (opened.ledger.is_some(), opened.skips),
            followed,
            before,
        ),
        checkpointer: Checkpointer::new(
            before.ended_sources(),
            (opened.checkpoints.is_some(), has_floor),
            alone,
            &opened.slices_left,
        ),
        snapshots: Snapshots::default(),
        checkpoints: Mutex::new(CheckpointProgress { cycle: opened.from, ..Default::default() }),
        slices_done: plan.stages.iter().map(|_| AtomicU64::new(0)).collect(),
        plan,
        world: world.clone(),
        workers: RwLock::new(Vec::new()),
        layouts: RwLock::new(Vec::new()),
        pacer: Mutex::new(pacer),
        blocks: BlockPool::new(),
        peers,
        committed: AtomicU64::new(before.cycle.0),
        commit_waiters: Mutex::new(Vec::new()),
        letters: Mutex::new(Vec::new()),
        dead_letters: AtomicU64::new(0),
        letters_last: AtomicU64::new(before.letters.0),
        letters_durable: AtomicU64::new(before.letters.0),
        shed: AtomicU64::new(0),
        handed_over: Mutex::new(Vec::new()),
        stalls: Stalls::default(),
        failure: Mutex::new(None),
        over: AtomicBool::new(false),
        finished: AtomicBool::new(false),
    };
    let thread = CommitThread {
        ledger: opened.ledger.take(),
        dead_letter: opened.dead_letter.take(),
        dead_letter_held: opened.dead_letter_held,
    };
    let job = Arc::new(job);
    opened.running.set(&job);
    for (stage, sink, _) in &opened.sinks {
        if let Ok(mut sink) = sink.lock() {
            sink.retry_with(RetryPolicy::of(&job, &job.plan[*stage].name));
        }
    }
    (job, thread)
}

/// Gives every lane its core. Stages and source slices that have ended get none.
pub(super) fn lanes(job: &Arc<Job>, layout: &Layout, mut opened: OpenedJob) {
    let before = &opened.before;
    for lane in layout.lanes.iter().flatten() {
        hand_over::had_ended(job, layout, lane, |slice| match &job.plan[slice.stage].work {
            Work::Source { .. } => before.source_has_ended(slice),
            _ => before.has_ended(slice.stage),
        });
    }
    for (id, stage) in job.plan.indexed() {
        let Work::Operator { factory } = &stage.work else { continue };
        if before.has_ended(id) {
            job.slices_done[id.index()].store(u64::from(stage.slices), Ordering::Release);
            continue;
        }
        let mut states = opened.states.remove(&id).unwrap_or_default().into_iter();
        for lane in layout.lanes_of(id).iter().filter(|_| job.plan.is_here(id)) {
            let states = states.by_ref().take(lane.slices.len()).collect();
            let (operator, wants_time) = (factory.operator(), factory.wants_time());
            let watermark = before.watermark(id);
            let mut core = OperatorLane::new(job, id, operator, states, wants_time, watermark);
            if opened.skips && before.cycle > Cycle::NONE {
                core = core.skip_until(SkipLimit { cycle: before.cycle, time: before.time });
            }
            hand_over::open(job, lane, Core::Operator(Box::new(core)));
        }
    }
    for (stage, sink, held) in opened.sinks {
        let last = before.sink(stage);
        job.plan[stage].count.last_rows.store(last.0, Ordering::Release);
        if before.has_ended(stage) {
            job.slices_done[stage.index()].store(1, Ordering::Release);
            continue;
        }
        let lane = &layout.lanes_of(stage)[0];
        hand_over::open(job, lane, Core::Sink(SinkLane::new(sink, held)));
    }
    for (id, stage) in job.plan.indexed() {
        let Work::Source { factory, .. } = &stage.work else { continue };
        let went = |slice: SliceId| {
            let saved = before.source(SliceKey::new(id, slice))?;
            Some(saved.position.wrapping_sub(factory.begins_at(slice).0))
        };
        let went = (0..stage.slices).map(SliceId).filter_map(went).fold(0, u64::wrapping_add);
        stage.count.position.store(went, Ordering::Relaxed);
    }
    for SliceKey { stage, .. } in before.ended_sources().into_keys() {
        job.slices_done[stage.index()].fetch_add(1, Ordering::AcqRel);
        let count = &job.plan[stage].count;
        count.slices_ended.fetch_add(1, Ordering::Relaxed);
    }
    for (stage, source) in opened.sources {
        let lane = &layout.lanes_of(stage)[source.slice().index()];
        hand_over::open(job, lane, Core::Source(Box::new(source)));
    }
}
