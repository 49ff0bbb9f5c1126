//! The lives of a job, from its first start to its end: it is killed, and goes on.
//!
//! ```text
//! main     open ─ start ─ check the resume point ─ wait ─ check the outcome ─▶ next life
//! fate     events at their moments
//! asker    requests at theirs
//! ```
//!
//! A process that was killed keeps its threads here, and nothing else: its disks refuse all that it
//! does, so that nobody can tell; they end when they notice.

use crate::{
    damage::{self, CHECKPOINTS},
    fault::{Failures, Faults, PlantedFault},
    job::SimJob,
    journal_sink::CycleRows,
    ledger,
    life_plan::{Event, JobRequest, LifePlan},
    outputs, second_process,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
};
use tidemill_env::{
    Disk, FaultCounts, Random, SimDisk, SimPace, SimWorld, Thread, World,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};
use tidemill_flow::{JobHandle, StartError, engine::start};
use tidemill_types::{CheckpointNumber, Cycle};

mod origin;

/// Lives with misfortune; the one after them has none.
const LIVES_MAX: u64 = 7;
/// The disk with ledger and output, and that with the checkpoints.
const OUTPUT: usize = 0;
const STATE: usize = 1;
/// The folder of the job's ledger.
pub(crate) const FOLDER: &str = "/job";

/// The output of the lives, and counts of their events.
#[derive(Clone, Debug, Default)]
pub(crate) struct LivesOutcome {
    /// The rows of each sink.
    pub(crate) outputs: Vec<CycleRows>,
    /// All files of the ledger, those counted that were removed behind a checkpoint.
    pub(crate) ledger: BTreeMap<PathBuf, Vec<u8>>,
    pub(crate) lives: u64,
    /// Lives that went on from a checkpoint.
    pub(crate) went_on: u64,
    /// New lives that began with a checkpoint.
    pub(crate) begun: u64,
    pub(crate) checkpoints: u64,
    /// Lives that said that a checkpoint could not be written.
    pub(crate) told: u64,
    pub(crate) rescaled: u64,
    /// Evicted keys that were read back.
    pub(crate) revived: u64,
    /// Keys that were read while the rest of their slice was not.
    pub(crate) read_alone: u64,
    pub(crate) failed: Failures,
    /// The last new life began after this cycle, and has no rows up to there.
    pub(crate) after: Cycle,
    /// A bit turned, and the job said that it cannot go on.
    pub(crate) is_damaged: bool,
    /// The plan and the outcome of each life, in words.
    pub(crate) story: String,
}

/// Facts that must still hold in the next life.
#[derive(Default)]
struct KnownState {
    /// A checkpoint of this cycle was complete.
    cycle: Cycle,
    /// Those that were kept, by their number.
    kept: BTreeMap<CheckpointNumber, Cycle>,
    /// The one of them with which this life of the job began anew: it is of the life before, and can be
    /// begun with once more, but may not be gone on from once the ledger is cut behind it.
    earlier: Option<CheckpointNumber>,
    rescaled: u64,
    /// A new life was to begin from this checkpoint, and perhaps has not.
    begins: Option<(CheckpointNumber, Cycle)>,
    /// A bit has turned: the job may say that it cannot go on, and must not go on wrongly.
    damaged: bool,
    /// Something that must not be.
    wrong: Option<String>,
}

/// A life that goes on.
struct Life {
    sim: SimWorld,
    state_disk: SimDisk,
    /// The operations refused before this life, by the disk with ledger and output and by that with
    /// the checkpoints.
    refused_before: [FaultCounts; 2],
    handle: Mutex<Option<Arc<JobHandle>>>,
    known: Arc<Mutex<KnownState>>,
    planted: PlantedFault,
    is_dead: AtomicBool,
    is_over: AtomicBool,
    was_stopped: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Life {
    fn handle(&self) -> Option<Arc<JobHandle>> {
        lock(&self.handle).clone()
    }

    /// The operations that a disk has refused in this life. A fault that did not strike excuses
    /// nothing.
    fn refused(&self, disk: usize) -> FaultCounts {
        let now = [&*self.sim.disk, &self.state_disk][disk].refused();
        let before = self.refused_before[disk];
        FaultCounts {
            changes: now.changes - before.changes,
            reads: now.reads - before.reads,
            full: now.full - before.full,
        }
    }

    /// Returns true if the disk with ledger and output has failed. A full disk does not count: a
    /// running job waits for it.
    fn output_failed(&self) -> bool {
        self.refused(OUTPUT).changes > 0 || self.refused(OUTPUT).reads > 0
    }

    /// Returns true if that disk was full.
    fn output_was_full(&self) -> bool {
        self.refused(OUTPUT).full > 0
    }

    /// Returns true if a state could not be read.
    fn reading_failed(&self) -> bool {
        self.refused(STATE).reads > 0
    }

    /// Returns true if the disk with the checkpoints has refused anything.
    fn state_failed(&self) -> bool {
        self.refused(STATE) != FaultCounts::default()
    }

    /// The job said that it cannot go on: so it should once a bit has turned.
    fn says(&self, ended: &mut LivesOutcome, why: String) -> Result<bool, String> {
        ended.is_damaged = lock(&self.known).damaged;
        if ended.is_damaged { Ok(true) } else { Err(why) }
    }

    fn die(&self, of_power: bool) {
        if let Some(handle) = self.handle() {
            self.note_progress(&handle);
        }
        // Before the disks, so that whoever is refused something knows why.
        self.is_dead.store(true, Ordering::SeqCst);
        for disk in [&*self.sim.disk, &self.state_disk] {
            if of_power { disk.power_cut() } else { disk.kill() }
        }
        if let Some(handle) = self.handle() {
            handle.stop();
        }
    }

    /// Notes how far the checkpoints are.
    fn note_progress(&self, handle: &JobHandle) {
        let progress = handle.progress().checkpoints;
        let mut known = lock(&self.known);
        known.cycle = known.cycle.max(progress.cycle);
    }

    /// Applies the events of its plan.
    fn apply_events(&self, events: &[(u64, Event)]) {
        let mut passed = 0;
        for (at, event) in events {
            self.sim.world.clock.sleep_micros(at - passed);
            passed = *at;
            if self.is_over.load(Ordering::SeqCst) || self.is_dead.load(Ordering::SeqCst) {
                return;
            }
            let (disk, state) = (&self.sim.disk, &self.state_disk);
            match *event {
                Event::Kill => self.die(false),
                Event::PowerCut => self.die(true),
                Event::Stop => {
                    self.was_stopped.store(true, Ordering::SeqCst);
                    if let Some(handle) = self.handle() {
                        handle.stop();
                    }
                }
                Event::Fails(after) => disk.fail_after(after),
                Event::SyncFails(after) => disk.fail_sync_after(after),
                Event::ReadsFail(after, count) => disk.fail_reads_after(after, count),
                Event::Full(left) => disk.set_capacity(disk.used() + left),
                Event::Room => disk.set_capacity(u64::MAX),
                Event::StateFails(after) => state.fail_after(after),
                Event::StateSyncFails(after) => state.fail_sync_after(after),
                Event::StateReadsFail(after, count) => state.fail_reads_after(after, count),
                Event::StateFull(left) => state.set_capacity(state.used() + left),
                Event::StateRoom => state.set_capacity(u64::MAX),
                Event::Jump(micros) => self.sim.clock.jump_wall(micros),
            }
        }
    }

    /// Makes the requests of its plan.
    fn make_requests(&self, job: &SimJob, requests: &[(u64, JobRequest)]) {
        let mut passed = 0;
        for (at, request) in requests {
            self.sim.world.clock.sleep_micros(at - passed);
            passed = *at;
            let Some(handle) = self.handle() else { continue };
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            match *request {
                JobRequest::Rescale(workers) => {
                    let done = handle.rescale(workers).is_ok();
                    lock(&self.known).rescaled += u64::from(done);
                }
                JobRequest::Keep => {
                    if let Ok(info) = handle.keep_checkpoint("kept") {
                        lock(&self.known).kept.insert(info.number, info.cycle);
                    }
                }
                JobRequest::Delete => {
                    // From now on nobody knows, whatever the answer is.
                    let first = lock(&self.known).kept.pop_first();
                    if let Some((number, _)) = first {
                        drop(handle.delete_checkpoint(number));
                    }
                }
                JobRequest::Second if job.begins_anew() => {}
                JobRequest::Second => {
                    let refused = second_process::is_refused(job, &self.sim.process());
                    let gone = self.is_dead.load(Ordering::SeqCst) || handle.is_over();
                    if !gone && self.refused(OUTPUT) == FaultCounts::default() {
                        let wrong = &mut lock(&self.known).wrong;
                        *wrong = wrong.take().or(refused.err());
                    }
                }
            }
        }
    }

    fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&Self) + Send + 'static,
    ) -> Box<dyn Thread> {
        let life = Arc::clone(self);
        self.sim.world.spawn.spawn(name, Box::new(move || body(&life)))
    }
}

/// Everything from the first start to the end.
pub(crate) fn all(
    sim: &SimWorld,
    job: &Arc<SimJob>,
    pace: &SimPace,
    (random, faults): (&mut Random, &mut Faults),
    damages: bool,
) -> Result<LivesOutcome, String> {
    let state_disk = SimDisk::new(random.next());
    let known = Arc::new(Mutex::new(KnownState::default()));
    let mut ended = LivesOutcome::default();
    let mut story = String::new();
    sim.disk.keep_removed();
    sim.disk.create_dir_all(Path::new("/out")).map_err(|it| it.to_string())?;
    sim.disk.sync_dir(Path::new("/")).map_err(|it| it.to_string())?;
    loop {
        let is_last = ended.lives == LIVES_MAX;
        let fate = LifePlan::of(random, faults, (job, pace), is_last);
        ended.lives += 1;
        let from_us = sim.world.clock.monotonic_micros();
        let became = one(sim, &state_disk, job, &fate, &known, &mut ended);
        story.push_str(&format!(
            "\n  life {}, from {from_us} us: {fate:?}: {became:?}",
            ended.lives
        ));
        let is_done = became.map_err(|why| format!("{why}{story}"))?;
        if is_done {
            break;
        }
        if damages && random.below(2) == 0 {
            let done = damage::flip(&sim.disk, &state_disk, random, job.is_live());
            lock(&known).damaged |= done.is_some();
            story.push_str(&done.map(|it| format!("\n  {it}")).unwrap_or_default());
        }
        if is_last {
            return Err("the last life, to which nothing happened, did not end the job".to_owned());
        }
    }
    // What did not fail any more is read from here.
    sim.disk.fail_reads_after(u64::MAX, 0);
    ended.story = story;
    if job.begins_anew() {
        ended.outputs = outputs::of_lives(&sim.world, job, ended.lives)?;
        return Ok(ended);
    }
    if ended.is_damaged {
        return Ok(ended);
    }
    ended.rescaled = lock(&known).rescaled;
    ended.ledger = sim.disk.removed();
    for path in sim.disk.list(Path::new(FOLDER)).map_err(|it| it.to_string())? {
        let bytes = sim.disk.read(&path).map_err(|it| it.to_string())?;
        ended.ledger.insert(path, bytes);
    }
    ended.ledger.retain(|path, _| path.starts_with(FOLDER));
    // Of a ledger that was replaced parts are still there.
    if !lock(&known).damaged && ended.after == Cycle::NONE {
        ledger::check(job.feeds(), &ended.ledger).map_err(|why| format!("{why}{}", ended.story))?;
    }
    ended.outputs = outputs::of(&sim.world, job)?;
    Ok(ended)
}

/// Runs one life; returns true if the job has come to its end.
fn one(
    sim: &SimWorld,
    state_disk: &SimDisk,
    job: &Arc<SimJob>,
    fate: &LifePlan,
    known: &Arc<Mutex<KnownState>>,
    ended: &mut LivesOutcome,
) -> Result<bool, String> {
    for disk in [&*sim.disk, state_disk] {
        disk.set_capacity(u64::MAX);
        disk.fail_after(u64::MAX);
        disk.fail_sync_after(u64::MAX);
        disk.fail_reads_after(u64::MAX, 0);
    }
    let world = sim.process();
    let state_world = World { disk: Arc::new(state_disk.process()), ..world.clone() };
    let life = Arc::new(Life {
        sim: sim.clone(),
        state_disk: state_disk.clone(),
        handle: Mutex::new(None),
        refused_before: [sim.disk.refused(), state_disk.refused()],
        known: Arc::clone(known),
        planted: PlantedFault::new(fate.fault),
        is_dead: AtomicBool::new(false),
        is_over: AtomicBool::new(false),
        was_stopped: AtomicBool::new(false),
    });
    let events = fate.events.clone();
    let events_thread = life.spawn("fate", move |life| life.apply_events(&events));
    let outcome = live(&life, &world, &state_world, job, fate, ended);
    life.is_over.store(true, Ordering::SeqCst);
    events_thread.join();
    life.planted.count(&mut ended.failed);
    let is_done = outcome?;
    if let Some(wrong) = life.planted.wrong() {
        return Err(wrong);
    }
    if !is_done && !life.is_dead.load(Ordering::SeqCst) {
        life.die(fate.ends_dark);
    }
    Ok(is_done)
}

/// From its start to its end.
fn live(
    life: &Arc<Life>,
    world: &World,
    state_world: &World,
    job: &Arc<SimJob>,
    fate: &LifePlan,
    ended: &mut LivesOutcome,
) -> Result<bool, String> {
    let is_dead = || life.is_dead.load(Ordering::SeqCst);
    let origin = origin::of(&mut lock(&life.known), job, fate);
    let options = match origin::options(state_world, job, fate, origin) {
        Ok(options) => options,
        Err(_) if is_dead() || life.state_failed() => return Ok(false),
        Err(error) => {
            return life.says(ended, format!("the checkpoints cannot be opened: {error}"));
        }
    };
    let graph = job.graph(world, ended.lives, fate.workers, &life.planted);
    let handle = match start(graph, world, &options) {
        Ok(_) if life.planted.has_failed_at_start() => {
            return Err("something failed at the start, and the job runs".to_owned());
        }
        Ok(handle) => Arc::new(handle),
        Err(error) if life.planted.is_told_at_start(&error) => return Ok(false),
        Err(_) if is_dead() || life.state_failed() || life.output_failed() => return Ok(false),
        Err(StartError::Unavailable { .. }) if life.output_was_full() => return Ok(false),
        // It says so, and nothing is lost: without a number it would begin at its start.
        Err(error) if origin.is_kept() && error.to_string().contains("lacks rows") => {
            return match lock(&life.known).damaged {
                true => Ok(false),
                false => Err(format!("it cannot go on from {origin:?}: {error}")),
            };
        }
        Err(error) => return life.says(ended, format!("it does not start: {error}")),
    };
    *lock(&life.handle) = Some(Arc::clone(&handle));
    if is_dead() || life.was_stopped.load(Ordering::SeqCst) {
        handle.stop();
    }
    if !job.begins_anew() {
        origin::went_on(life, job, &handle, origin, ended)?;
    }
    let (asked, requests) = (Arc::clone(job), fate.requests.clone());
    let asker = life.spawn("asker", move |life| life.make_requests(&asked, &requests));
    let outcome = handle.wait();
    life.is_over.store(true, Ordering::SeqCst);
    asker.join();
    if let Some(wrong) = lock(&life.known).wrong.take() {
        return Err(wrong);
    }
    life.note_progress(&handle);
    let progress = handle.progress();
    ended.checkpoints += progress.checkpoints.completed;
    ended.revived += progress.stages.iter().map(|it| it.revived_keys).sum::<u64>();
    ended.read_alone += progress.stages.iter().map(|it| it.read_keys).sum::<u64>();
    ended.told += u64::from(progress.checkpoints.failure.is_some());
    *lock(&life.handle) = None;
    match outcome {
        Err(error) if life.planted.is_told(&error) => Ok(false),
        Ok(_) if life.planted.has_failed() && !is_dead() => {
            Err("something failed for good, and nothing was told of it".to_owned())
        }
        Ok(progress) if life.planted.is_over_budget(&progress) => {
            Err("its states took more than they may, and nothing was told of it".to_owned())
        }
        Err(error) if error.panicked => Err(format!("it panicked: {error}")),
        _ if is_dead() => Ok(false),
        Err(_) if life.output_failed() || life.reading_failed() => Ok(false),
        // It gave up what it could not write, as it was to stop.
        Err(_) if life.output_was_full() && life.was_stopped.load(Ordering::SeqCst) => Ok(false),
        Err(error) => life.says(ended, format!("it failed: {error}")),
        Ok(_) if life.was_stopped.load(Ordering::SeqCst) => Ok(false),
        Ok(progress) if progress.finished => Ok(true),
        Ok(_) => Err("it ended, and is not finished".to_owned()),
    }
}
