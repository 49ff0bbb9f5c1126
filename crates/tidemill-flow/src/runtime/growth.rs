//! Sources that get more slices while the job runs, such as a topic that gets more partitions.
//!
//! ```text
//! thread    source.grow(): 4 slices are 6, noted ──▶ layout with 6 lanes, from a cycle nobody has begun
//! ledger    … c: cuts of 4 │ c+1: cuts of 6 …
//! replay    c and before: lanes 4 and 5 cut where they begin, and hold no event time back
//! ```
//!
//! Nothing stops: it is a change of layout, as when the number of threads changes. Stages that read
//! the source stay laid out by the slices that it had when the job began
//! ([`began_with`](crate::GrowingSource::began_with)), so rows of recorded cycles come in the order that they had.
//!
//! Invariant: a slice has cut nothing in a cycle that was begun before it was there, in no life.

use super::checked_source::CheckedSource;
use super::hand_over;
use super::job::Job;
use super::lane::Core;
use super::plan::Work;
use super::source_lane::SourceLane;
use crate::source::{Source, SourceFactory};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tidemill_env::sync::{Condvar, Mutex, PoisonError, RwLock};
use tidemill_types::{Cycle, SliceId, SliceKey, StageIx};

/// The interval between two requests to sources.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The same in simulated jobs, which are short.
const ASK_EVERY_SIMULATED: Duration = Duration::from_millis(5);

/// The source slices of a process, by the first cycle that each cuts.
#[derive(Debug)]
pub(crate) struct SourceSlices(RwLock<Vec<Cycle>>);

impl SourceSlices {
    /// `count` slices that are there from the first cycle on.
    pub(crate) fn new(count: usize) -> Self {
        Self(RwLock::new(vec![Cycle::NONE; count]))
    }

    /// The number of slices.
    pub(crate) fn count(&self) -> usize {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The number of slices that cut this cycle, or had ended before it.
    pub(crate) fn count_in(&self, cycle: Cycle) -> usize {
        let first = self.0.read().unwrap_or_else(PoisonError::into_inner);
        first.partition_point(|it| *it <= cycle)
    }

    /// One more, from a cycle on that is behind those of all others.
    fn add(&self, from: Cycle) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).push(from);
    }
}

/// Lets the thread sleep, and end.
pub(crate) struct GrowthMonitor {
    /// Cycles up to this one are recorded: nothing is added to them.
    recorded: Cycle,
    over: Mutex<()>,
    wakeup: Condvar,
}

impl GrowthMonitor {
    /// Of a job whose ledger has cycles up to this one.
    pub(crate) fn after(recorded: Cycle) -> Self {
        Self { recorded, over: Mutex::new(()), wakeup: Condvar::new() }
    }

    /// The job is over.
    pub(crate) fn wake(&self) {
        drop(self.over.lock().unwrap_or_else(PoisonError::into_inner));
        self.wakeup.notify_all();
    }

    fn sleep(&self, job: &Job) {
        let held = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let every = if tidemill_env::is_simulated() { ASK_EVERY_SIMULATED } else { ASK_EVERY };
        if !job.is_over() {
            drop(self.wakeup.wait_timeout(held, every));
        }
    }
}

/// A source that may get more slices, and its stage.
type Growing = (StageIx, Arc<dyn SourceFactory>);

/// Returns true if a source of the job may get more slices while it runs. A job of several
/// processes learns of new slices only at its start: each process would have to know them in the
/// same cycle.
pub(crate) fn is_to_be_watched(job: &Job) -> bool {
    job.peers.is_empty() && !growing(job).is_empty()
}

fn growing(job: &Job) -> Vec<Growing> {
    let of = |(id, stage): (StageIx, &super::plan::StagePlan)| match &stage.work {
        Work::Source { factory, .. } if stage.grows => Some((id, Arc::clone(factory))),
        _ => None,
    };
    job.plan.indexed().filter_map(of).collect()
}

/// The thread: asks the sources until the job is over.
pub(crate) fn run(job: &Arc<Job>) {
    let mut told: Option<String> = None;
    loop {
        job.growth.sleep(job);
        if job.is_to_stop() {
            return;
        }
        let failed = ask_all(job).err();
        // It says so once: what keeps a source from being asked is there for a while.
        if let Some(why) = failed.as_ref().filter(|why| told.as_ref() != Some(why)) {
            tracing::warn!(job = job.plan.name, "new slices of a source are not read yet: {why}");
        }
        told = failed;
    }
}

/// Asks all sources for new slices; returns the reason if one of them fails.
pub(crate) fn ask_all(job: &Arc<Job>) -> Result<(), String> {
    let asked: Vec<_> =
        growing(job).into_iter().map(|(stage, factory)| ask(job, stage, &*factory)).collect();
    asked.into_iter().collect()
}

/// Asks a source for new slices; they are read from the next cycle on.
fn ask(job: &Arc<Job>, stage: StageIx, factory: &dyn SourceFactory) -> Result<(), String> {
    if job.pacer.lock().expect("no panic while held").begun() < job.growth.recorded {
        return Ok(());
    }
    let Some(growth) = factory.growth() else { return Ok(()) };
    let slices = growth.grow().map_err(|error| error.to_string())?;
    let known = job.newest_layout().source_slices(stage);
    if slices <= known {
        return Ok(());
    }
    let added = || (known..slices).map(SliceId);
    let opened: Result<Vec<_>, _> = added().map(|slice| factory.open(slice)).collect();
    let opened = opened.map_err(|error| error.to_string())?;
    let cores = opened.into_iter().zip(added()).map(|(it, slice)| begin(factory, slice, it));
    let mut cores: Vec<SourceLane> = cores.collect();
    let changed = job.change_layout(|old, from| {
        for slice in added() {
            job.committer.add_slice(SliceKey::new(stage, slice), Cycle(from.0 - 1));
            job.sources.add(from);
        }
        let new = old.after(&job.plan, from, old.workers, |it| match it == stage {
            true => slices,
            false => old.source_slices(it),
        });
        // Before anybody else sees it: a layout whose lanes are all closed may be dropped.
        for (lane, core) in new.lanes_of(stage)[known as usize..].iter().zip(cores.drain(..)) {
            hand_over::seat(lane, Core::Source(Box::new(core)));
        }
        new
    });
    // It is asked again.
    let Some((from, layout)) = changed else { return Ok(()) };
    layout.lanes_of(stage)[known as usize..].iter().for_each(|lane| job.wake_lane(lane));
    let (name, job) = (&job.plan[stage].name, &job.plan.name);
    tracing::info!(
        job,
        source = name,
        slices,
        cycle = from.0,
        "it has more slices, which are read"
    );
    Ok(())
}

fn begin(factory: &dyn SourceFactory, slice: SliceId, source: Box<dyn Source>) -> SourceLane {
    let told = factory.begins_at(slice).0;
    let source = CheckedSource::new(source, factory.schema());
    SourceLane::new(slice, source, factory.live(), false, VecDeque::new(), false, told)
}
