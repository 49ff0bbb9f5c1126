//! Starting a job, and holding it: [`start`] and [`JobHandle`].

use crate::error::{AskError, JobError, StartError};
use crate::graph::{JobGraph, StageKind};
use crate::progress::{CheckpointProgress, Progress, SinkProgress, SourceProgress, StageProgress};
use crate::runtime::{
    checkpoint, commit, connect, growth,
    job::Job,
    layout::Layout,
    panic_guard::{self, BlamedPanic},
    panic_message,
    peer::{self, Peer, Peers},
    plan::{Plan, Work},
    readers, slice_slot,
    worker::{self, WorkerQueue},
};
use open::OpenedJob;
pub use open::has_begun;
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, OnceLock, Weak},
};
use tidemill_checkpoints::{Backend, CheckpointInfo, Manifest};
use tidemill_env::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use tidemill_env::{Connection, DiskLock, Thread, World};
use tidemill_types::{
    CheckpointNumber, Cycle, LayoutVersion, LinkIx, ProcessIx,
    job::{CompressionSpec, Every, Recovery},
    limits::WORKERS_MAX,
};

mod open;
mod snapshots;

/// Options of a run of a job.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The folder of the job's ledger. Without one the job keeps no ledger and cannot resume.
    pub data: Option<PathBuf>,
    /// Bytes of a file of the ledger from which on the next one is begun, if a checkpoint was
    /// completed meanwhile. Default: 64 KiB.
    pub ledger_file_bytes: Option<u64>,
    /// The processes that run the job together. Default: this one alone.
    pub processes: Processes,
    /// Go on where an earlier run with the same folder stopped. Needs `data`.
    pub resume: bool,
    /// A number for the beginning of a job that does not resume. [`crate::is_of_life`] then tells
    /// whether a crash came before or after the ledger of the life before was replaced.
    pub life: Option<u64>,
    /// Save the state of the job now and then, so that one that resumes need not begin at the start
    /// of its input. Needs `data`, and the delivery `exactly-once` or `at-most-once`. Default: never.
    pub checkpoint: Option<CheckpointTo>,
}

/// When the state of a job is saved, and where.
#[derive(Clone)]
pub struct CheckpointTo {
    /// When the next checkpoint is made.
    pub every: Every,
    /// Holds the checkpoints of this job and nothing else.
    pub backend: Arc<dyn Backend>,
    /// A job that resumes goes on from the checkpoint of this number. Default: from the newest.
    pub from: Option<CheckpointNumber>,
    /// When a job that resumes reads its state back.
    pub recovery: Recovery,
}

impl std::fmt::Debug for CheckpointTo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckpointTo")
            .field("every", &self.every)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// The processes of a job. All are given the same graph; each runs its own stages.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    /// The number of this process, from 0. Sources and sinks run in process 0.
    pub me: ProcessIx,
    /// Where the processes listen, by number. Empty: the job has this process alone.
    pub addresses: Vec<String>,
    /// By stage of the graph: the process that runs it. Stages past the end run in process 0.
    pub of_stage: Vec<ProcessIx>,
}

/// A running job. Dropping the handle stops the job without waiting for it.
pub struct JobHandle {
    job: Arc<Job>,
    threads: Mutex<Vec<Box<dyn Thread>>>,
    /// Held by the one thread that waits for the job; other threads wait for the lock.
    waits: Mutex<()>,
    /// The final progress, once a thread has waited for the end.
    ended: OnceLock<Progress>,
    /// The lock of the data folder. The threads of the job hold it, each to its end.
    lock: Option<Weak<dyn DiskLock>>,
}

/// Starts a job.
///
/// # Errors
/// The graph cannot run, or something could not be opened. Nothing has been read then.
pub fn start(
    graph: JobGraph,
    world: &World,
    options: &RunOptions,
) -> Result<JobHandle, StartError> {
    panic_guard::open_guarded(|| begin(graph, world, options))
}

fn begin(graph: JobGraph, world: &World, options: &RunOptions) -> Result<JobHandle, StartError> {
    let workers = graph.workers.clamp(1, WORKERS_MAX);
    if !graph.stages.iter().any(|stage| matches!(stage.kind, StageKind::Sink { .. })) {
        return Err(crate::graph::GraphError::NoSink.into());
    }
    let compression = graph.compression;
    let (plan, parts) = Plan::new(graph, &options.processes)?;
    let mut opened = OpenedJob::new(&plan, parts, world, options, workers)?;
    let connected = connect::all(world, &options.processes, &plan.name)?;
    let peers = Peers::new(connected.iter().map(|it| it.as_ref().map(|it| it.0.clone())).collect());
    let (job, thread) = open::build(plan, world, options, &mut opened, peers);
    let layout =
        Arc::new(Layout::new(&job.plan, LayoutVersion(1), opened.before.cycle.next(), workers));
    job.layouts.write().expect("no panic while held").push(Arc::clone(&layout));
    let lock = opened.lock.take().map(Arc::<dyn DiskLock>::from);
    let handle = JobHandle {
        job: Arc::clone(&job),
        threads: Mutex::new(Vec::new()),
        waits: Mutex::new(()),
        ended: OnceLock::new(),
        lock: lock.as_ref().map(Arc::downgrade),
    };
    let started = || {
        handle.add_workers(workers)?;
        for (peer, connection) in connected.into_iter().flatten() {
            handle.add_peer(peer, connection, compression)?;
        }
        let checkpoints = opened.checkpoints.take().zip(options.checkpoint.as_ref());
        let saved = std::mem::take(&mut opened.saved);
        open::lanes(&job, &layout, opened);
        let committing = Arc::clone(&job);
        handle.spawn("commit", move || commit::run(&committing, thread))?;
        if growth::is_to_be_watched(&job) {
            let growing = Arc::clone(&job);
            handle.spawn("growth", move || growth::run(&growing))?;
        }
        let Some((checkpoints, to)) = checkpoints else { return Ok(()) };
        if to.recovery != Recovery::Eager && !saved.is_empty() {
            for _ in 0..readers::count(workers) {
                let readers = Arc::clone(&job.readers);
                handle.spawn("restore", move || readers.run())?;
            }
        }
        if to.recovery == Recovery::Prefetch && !saved.is_empty() {
            let restoring = Arc::clone(&job);
            handle.spawn("restore", move || slice_slot::prefetch(&saved, &restoring.over))?;
        }
        job.checkpointer.found(&checkpoints);
        let (checkpointing, every) = (Arc::clone(&job), to.every);
        handle.spawn("checkpoint", move || checkpoint::run(&checkpointing, checkpoints, &every))
    };
    let no_threads = |error| StartError::Unavailable { message: no_threads(&error) };
    if let Err(error) = panic_guard::open_guarded(|| started().map_err(no_threads)) {
        // Those that there are end, and let go of what they have open.
        job.end();
        let _ended = handle.wait();
        return Err(error);
    }
    Ok(handle)
}

fn no_threads(error: &io::Error) -> String {
    format!("the operating system has no more threads for this process: {error}")
}

impl JobHandle {
    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (job, part) = (Arc::clone(&self.job), name.to_owned());
        let lock = self.lock.as_ref().and_then(Weak::upgrade);
        // What the user brings is guarded where it is called. Should the engine itself panic, the
        // job fails; it must not hang.
        let guarded = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
                let cycle = Cycle(job.committed.load(Ordering::Acquire));
                let part = panic.downcast_ref::<BlamedPanic>().map_or(&part, |blamed| &blamed.name);
                let mut error = job.error_of(part, cycle, panic_message(&*panic));
                error.panicked = true;
                job.fail(error);
            }
            drop(lock);
        };
        let name = format!("{}-{name}", self.job.plan.name);
        let thread = self.job.world.spawn.try_spawn(&name, Box::new(guarded))?;
        self.threads.lock().expect("no panic while held").push(thread);
        Ok(())
    }

    fn add_workers(&self, count: usize) -> io::Result<()> {
        let mut workers = self.job.workers.write().expect("no panic while held");
        while workers.len() < count {
            let queue = Arc::new(WorkerQueue::default());
            let (job, of) = (Arc::clone(&self.job), Arc::clone(&queue));
            self.spawn(&format!("w{}", workers.len()), move || worker::work(&job, &of))?;
            workers.push(queue);
        }
        Ok(())
    }

    fn add_peer(
        &self,
        peer: Arc<Peer>,
        connection: Connection,
        compression: CompressionSpec,
    ) -> io::Result<()> {
        let (reader, writer) = peer::split(&peer, connection);
        let (job, reading) = (Arc::clone(&self.job), Arc::clone(&peer));
        self.spawn("read", move || peer::read_loop(&job, &reading, reader))?;
        let job = Arc::clone(&self.job);
        self.spawn("write", move || peer::write_loop(&job, &peer, writer, compression))
    }

    /// Changes the number of worker threads as of a cycle that no source has begun, and returns
    /// that cycle. Nothing stops: earlier cycles drain on the old lanes.
    ///
    /// # Errors
    /// Another change is still under way, the number is out of bounds, or the job has ended; the message
    /// says which.
    pub fn rescale(&self, workers: usize) -> Result<Cycle, String> {
        if workers == 0 || workers > WORKERS_MAX {
            return Err(format!("the number of threads must be from 1 to {WORKERS_MAX}"));
        }
        let job = &self.job;
        if !job.peers.is_empty() {
            return Err("a job of several processes keeps its threads".to_owned());
        }
        if job.is_over() {
            return Err("the job has ended".to_owned());
        }
        self.add_workers(workers).map_err(|error| no_threads(&error))?;
        let changed = job.change_layout(|old, from| {
            old.after(&job.plan, from, workers, |stage| old.source_slices(stage))
        });
        let under_way = || "the last change of threads is still under way".to_owned();
        changed.map(|(from, _)| from).ok_or_else(under_way)
    }

    /// Makes a checkpoint now, and keeps it until it is deleted. Its name may be empty. Returns
    /// once it is complete.
    ///
    /// # Errors
    /// The job makes no checkpoints, or ended first; or the name is too long.
    pub fn keep_checkpoint(&self, name: &str) -> Result<CheckpointInfo, AskError> {
        self.job.checkpointer.keep(name)
    }

    /// Deletes a checkpoint that is kept; a checkpoint under way is completed first.
    ///
    /// # Errors
    /// There is none of this number, or it is the newest and is not kept; or the backend's.
    pub fn delete_checkpoint(&self, number: CheckpointNumber) -> Result<(), AskError> {
        self.job.checkpointer.delete(number)
    }

    /// The complete checkpoints of the job, the oldest first.
    #[must_use]
    pub fn checkpoints(&self) -> Vec<(CheckpointInfo, Arc<Manifest>)> {
        let complete = &self.job.checkpointer.complete;
        complete.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The damaged checkpoints of the job: the number and the fault of each.
    #[must_use]
    pub fn damaged_checkpoints(&self) -> Vec<(CheckpointNumber, String)> {
        let damaged = &self.job.checkpointer.damaged;
        damaged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops the job cleanly after the cycles that were begun. Windows stay open. A job that saves
    /// each slice by itself (`at-most-once`) first saves all of them, for three seconds at most.
    pub fn stop(&self) {
        if let Some(alone) = &self.job.checkpointer.uncoordinated {
            alone.stop(self.job.now_us());
            self.job.checkpointer.wake();
            self.job.committer.wake();
            return;
        }
        self.job.pacer.lock().expect("no panic while held").stop();
        self.job.wake_sources();
        self.job.committer.wake();
    }

    /// Returns true once the job has ended, well or not.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.job.is_over()
    }

    /// Waits for the end of the job, and of all its threads. Any number of threads may wait. Then
    /// the data folder is free and the state is gone from memory, though the handle is kept; a
    /// pinned checkpoint still holds the folder.
    ///
    /// # Errors
    /// The job failed; the error says where.
    pub fn wait(&self) -> Result<Progress, JobError> {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let threads = std::mem::take(&mut *self.threads.lock().expect("no panic while held"));
            if threads.is_empty() {
                break;
            }
            // A change of threads may add some meanwhile.
            threads.into_iter().for_each(|thread| thread.join());
        }
        // What is let go of counts no more.
        let progress = self.ended.get_or_init(|| self.progress_now()).clone();
        self.job.let_go();
        drop(waits);
        match self.job.failure.lock().expect("no panic while held").clone() {
            Some(error) => Err(error),
            None => Ok(progress),
        }
    }

    /// The progress of the job; after [`Self::wait`], the final one.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.ended.get().cloned().unwrap_or_else(|| self.progress_now())
    }

    fn progress_now(&self) -> Progress {
        let job = &self.job;
        let cut = job.committer.cut.load(Ordering::Acquire);
        let committed = job.committed.load(Ordering::Acquire);
        let mut progress = Progress {
            cycle_cut: Cycle(cut),
            cycle_committed: Cycle(committed),
            dead_letters: job.dead_letters.load(Ordering::Relaxed),
            shed: job.shed.load(Ordering::Relaxed),
            stalled: job
                .stalls
                .first()
                .or_else(|| job.silent_sink())
                .or_else(|| job.blocked_source()),
            checkpoints: CheckpointProgress {
                slices_left: job.checkpointer.slices_left.load(Ordering::Relaxed),
                made_us: job.checkpointer.newest_us(),
                ..job.checkpoints.lock().expect("no panic while held").clone()
            },
            finished: job.finished.load(Ordering::Acquire),
            ..Progress::default()
        };
        if let Some(layout) = job.layouts.read().expect("no panic while held").last() {
            progress.workers = layout.workers;
        }
        for (id, stage) in job.plan.indexed() {
            let count = &stage.count;
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            match &stage.work {
                Work::Source { factory, .. } => progress.sources.push(SourceProgress {
                    name: stage.name.clone(),
                    records: read(&count.rows_in),
                    bytes: read(&count.bytes_in),
                    position: read(&count.position),
                    total: factory.total(),
                    lag_cycles: read(&count.cycle).saturating_sub(committed),
                    ended: read(&count.slices_ended) >= u64::from(stage.slices),
                }),
                Work::Operator { .. } => progress.stages.push(StageProgress {
                    name: stage.name.clone(),
                    slices: stage.slices,
                    rows_in: read(&count.rows_in),
                    rows_out: read(&count.rows_out),
                    rows_side: read(&count.rows_side),
                    busy_us: read(&count.busy_us),
                    state_bytes: job.plan.budget.of(id),
                    expired_keys: read(&count.expiry.expired),
                    revived_keys: read(&count.expiry.revived),
                    read_keys: read(&count.read_keys),
                    waiting_bytes: self.waiting_bytes(&stage.links_in),
                    cycle: Cycle(read(&count.cycle)),
                }),
                Work::Sink => progress
                    .sinks
                    .push(SinkProgress { name: stage.name.clone(), rows: read(&count.rows_out) }),
            }
        }
        // A stopped job is over too, but not finished.
        progress.finished &= progress.sources.iter().all(|source| source.ended);
        progress
    }

    fn waiting_bytes(&self, links: &[LinkIx]) -> u64 {
        links.iter().map(|link| self.job.plan[*link].credit.waiting_bytes()).sum()
    }
}

impl Drop for JobHandle {
    fn drop(&mut self) {
        self.job.end();
    }
}

#[cfg(test)]
mod backpressure_tests;
#[cfg(test)]
mod live_tests;
#[cfg(test)]
mod tests;
