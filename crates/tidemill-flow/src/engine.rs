//! Starting a job, and holding it: [`start`] and [`JobHandle`].

use crate::error::{JobError, StartError};
use crate::graph::{JobGraph, NodeKind};
use crate::progress::{Progress, SinkProgress, SourceProgress, StageProgress};
use crate::runtime::{
    blocks::BlockPool,
    commit::{self, CommitThread, Committer},
    connect,
    followed::Followed,
    hand_over,
    job::Job,
    lane::Core,
    layout::Layout,
    ledger::{Ledger, Owner, Recorded},
    pacer::Pacer,
    panic_message,
    peer::{self, Peer, Peers},
    plan::{Parts, Plan, Work},
    sink_lane::{SharedSink, SinkLane},
    source_lane::SourceLane,
    stage_lane::StageLane,
    worker::{self, WorkerQueue},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};
use tidemill_env::{Connection, Thread, World};
use tidemill_types::{
    Cycle, Micros, SliceId,
    job::{CompressionSpec, Delivery},
    limits::WORKERS_MAX,
};

/// How a job is run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// The folder of the job's ledger. Without one the job keeps no ledger and cannot resume.
    pub data: Option<PathBuf>,
    /// The processes that run the job together. Default: this one alone.
    pub processes: Processes,
    /// Go on where an earlier run with the same folder stopped. Needs `data`.
    pub resume: bool,
}

/// The processes of a job. All are given the same graph; each runs its own nodes.
#[derive(Clone, Debug, Default)]
pub struct Processes {
    /// The number of this process, from 0. Sources and sinks run in process 0.
    pub me: usize,
    /// Where the processes listen, by number. Empty: the job has this process alone.
    pub addresses: Vec<String>,
    /// By node of the graph: the process that runs it. Nodes past the end run in process 0.
    pub of_node: Vec<usize>,
}

/// A running job. Dropping the handle stops the job without waiting for it.
pub struct JobHandle {
    job: Arc<Job>,
    threads: Mutex<Vec<Box<dyn Thread>>>,
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
    let workers = graph.workers.clamp(1, WORKERS_MAX);
    if !graph.nodes.iter().any(|node| matches!(node.kind, NodeKind::Sink { .. })) {
        return Err(crate::graph::GraphError::NoSink.into());
    }
    let compression = graph.compression;
    let (plan, parts) = Plan::new(graph, &options.processes)?;
    let (ledger, recorded) = open_ledger(&plan, world, options)?;
    let opened = Opened::new(&plan, parts, &recorded)?;
    let connected = connect::all(world, &options.processes, &plan.name)?;
    let peers = Peers::new(connected.iter().map(|it| it.as_ref().map(|it| it.0.clone())).collect());
    let (job, thread) = build(plan, world, &opened, (ledger, &recorded), peers);
    let thread = CommitThread { dead_letter: opened.dead_letter, ..thread };
    let cores = Cores { sources: opened.sources, sinks: opened.sinks };
    let layout = Arc::new(Layout::new(&job.plan, 1, Cycle::FIRST, workers));
    job.layouts.write().expect("no panic while held").push(Arc::clone(&layout));
    let handle = JobHandle { job: Arc::clone(&job), threads: Mutex::new(Vec::new()) };
    handle.add_workers(workers);
    for (peer, connection) in connected.into_iter().flatten() {
        handle.add_peer(peer, connection, compression);
    }
    open_lanes(&job, &layout, cores);
    let committing = Arc::clone(&job);
    handle.spawn("commit", move || commit::run(&committing, thread));
    Ok(handle)
}

fn open_ledger(
    plan: &Plan,
    world: &World,
    options: &RunOptions,
) -> Result<(Option<Ledger>, Recorded), StartError> {
    let Some(folder) = options.data.as_ref().filter(|_| plan.delivery == Delivery::ExactlyOnce)
    else {
        return Ok((None, Recorded::default()));
    };
    let sources = plan.nodes.iter().filter(|node| matches!(node.work, Work::Source { .. }));
    let owner = Owner {
        job: plan.name.clone(),
        seed: plan.seed,
        sources: sources.map(|node| (node.name.clone(), node.slices)).collect(),
    };
    let opened = Ledger::open(&*world.disk, folder, &owner, options.resume);
    let (ledger, recorded) = opened.map_err(|(path, message)| StartError::Ledger {
        path: path.display().to_string(),
        message,
    })?;
    Ok((Some(ledger), recorded))
}

/// Sources and sinks, opened before anything starts.
struct Opened {
    sources: Vec<(usize, SourceLane)>,
    sinks: Vec<(usize, SharedSink, Cycle)>,
    dead_letter: Option<Box<dyn crate::sink::Sink>>,
    dead_letter_held: Cycle,
}

struct Cores {
    sources: Vec<(usize, SourceLane)>,
    sinks: Vec<(usize, SharedSink, Cycle)>,
}

impl Opened {
    fn new(plan: &Plan, parts: Parts, recorded: &Recorded) -> Result<Self, StartError> {
        let open_error =
            |name: &str, message: String| StartError::Open { name: name.to_owned(), message };
        let mut sources = Vec::new();
        for (id, node) in plan.nodes.iter().enumerate().filter(|(id, _)| plan.is_here(*id)) {
            let Work::Source { factory, preload } = &node.work else { continue };
            for slice in 0..node.slices {
                let source =
                    factory.open(slice).map_err(|error| open_error(&node.name, error.message))?;
                let replay = recorded.of(id, slice);
                sources.push((id, SourceLane::new(source, factory.live(), *preload, replay)));
            }
        }
        let mut sinks: Vec<(usize, SharedSink, Cycle)> = Vec::new();
        let ledger_last = recorded.times.last().map_or(Cycle::NONE, |(cycle, _)| *cycle);
        // Before the first cycle is in the ledger no sink has committed any: what a sink holds then
        // is of an earlier job, and a crash came before it was replaced.
        let resume = ledger_last > Cycle::NONE;
        for (id, sink) in parts.sinks.into_iter().enumerate() {
            let Some(mut sink) = sink.filter(|_| plan.is_here(id)) else { continue };
            let name = &plan.nodes[id].name;
            let held = sink.open(resume).map_err(|error| open_error(name, error.message))?;
            if held > ledger_last {
                let message = format!(
                    "it holds cycle {held}, but the ledger ends at {ledger_last}: they do not \
                     belong together"
                );
                return Err(open_error(name, message));
            }
            sinks.push((id, Arc::new(Mutex::new(sink)), held));
        }
        let (mut dead_letter, mut dead_letter_held) = (parts.dead_letter, Cycle::NONE);
        if let Some(sink) = &mut dead_letter {
            let opened = sink.open(resume);
            dead_letter_held = opened.map_err(|error| open_error("dead_letter", error.message))?;
        }
        Ok(Self { sources, sinks, dead_letter, dead_letter_held })
    }
}

fn build(
    plan: Plan,
    world: &World,
    opened: &Opened,
    (ledger, recorded): (Option<Ledger>, &Recorded),
    peers: Peers,
) -> (Arc<Job>, CommitThread) {
    let preloading = plan.nodes.iter().filter_map(|node| match node.work {
        Work::Source { preload: true, .. } => Some(node.slices as usize),
        _ => None,
    });
    let mut pacer = Pacer::new(preloading.sum());
    pacer.replay(recorded.times.iter().copied());
    let slices: Vec<(u32, u32)> = plan
        .nodes
        .iter()
        .enumerate()
        .filter(|(id, node)| plan.is_here(*id) && matches!(node.work, Work::Source { .. }))
        .flat_map(|(id, node)| (0..node.slices).map(move |slice| (id as u32, slice)))
        .collect();
    let sinks = opened.sinks.iter().map(|(node, sink, held)| (*node, Arc::clone(sink), *held));
    let sinks = sinks.collect();
    let followed = plan.nodes.iter().enumerate().filter_map(|(id, node)| match &node.work {
        Work::Source { factory, .. } => Some((id as u32, Arc::clone(factory))),
        _ => None,
    });
    let recorded_last = recorded.times.last().map_or(Cycle::NONE, |(cycle, _)| *cycle);
    let followed = Followed::new(followed, recorded_last);
    let job = Job {
        sources: slices.len(),
        committer: Committer::new(slices, sinks, ledger.is_some(), followed),
        slices_done: plan.nodes.iter().map(|_| AtomicU64::new(0)).collect(),
        plan,
        world: world.clone(),
        workers: RwLock::new(Vec::new()),
        layouts: RwLock::new(Vec::new()),
        pacer: Mutex::new(pacer),
        blocks: BlockPool::new(),
        peers,
        committed: AtomicU64::new(0),
        commit_waiters: Mutex::new(Vec::new()),
        letters: Mutex::new(Vec::new()),
        dead_letters: AtomicU64::new(0),
        shed: AtomicU64::new(0),
        handed_over: Mutex::new(Vec::new()),
        failure: Mutex::new(None),
        over: AtomicBool::new(false),
        finished: AtomicBool::new(false),
    };
    let thread =
        CommitThread { ledger, dead_letter: None, dead_letter_held: opened.dead_letter_held };
    let job = Arc::new(job);
    for (_, sink, _) in &opened.sinks {
        let job = Arc::downgrade(&job);
        let stop_asked = move || job.upgrade().is_none_or(|job| job.is_to_stop());
        if let Ok(mut sink) = sink.lock() {
            sink.stop_by(Arc::new(stop_asked));
        }
    }
    (job, thread)
}

fn open_lanes(job: &Arc<Job>, layout: &Layout, cores: Cores) {
    for (id, node) in job.plan.nodes.iter().enumerate() {
        let Work::Stage { factory } = &node.work else { continue };
        for lane in layout.lanes[id].iter().filter(|_| job.plan.is_here(id)) {
            let states = lane.slices.clone().map(|slice| factory.state(SliceId(slice))).collect();
            let wants_time = factory.wants_time();
            let operator = factory.operator();
            let core = StageLane::new(job, operator, states, wants_time, Micros::MIN);
            hand_over::open(job, lane, Core::Stage(core));
        }
    }
    for (node, sink, held) in cores.sinks {
        let lane = &layout.lanes[node][0];
        hand_over::open(job, lane, Core::Sink(SinkLane::new(sink, held)));
    }
    let mut next_slice = vec![0; job.plan.nodes.len()];
    for (node, source) in cores.sources {
        let lane = &layout.lanes[node][next_slice[node]];
        next_slice[node] += 1;
        hand_over::open(job, lane, Core::Source(source));
    }
}

impl JobHandle {
    fn spawn(&self, name: &str, body: impl FnOnce() + Send + 'static) {
        let (job, part) = (Arc::clone(&self.job), name.to_owned());
        // What the user brings is guarded where it is called. Should the engine itself panic, the
        // job fails; it must not hang.
        let guarded = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(body)) {
                let cycle = Cycle(job.committed.load(Ordering::Acquire));
                let mut error = job.error_of(&part, cycle, panic_message(&*panic));
                error.panicked = true;
                job.fail(error);
            }
        };
        let name = format!("{}-{name}", self.job.plan.name);
        let thread = self.job.world.spawn.spawn(&name, Box::new(guarded));
        self.threads.lock().expect("no panic while held").push(thread);
    }

    fn add_workers(&self, count: usize) {
        let mut workers = self.job.workers.write().expect("no panic while held");
        while workers.len() < count {
            let queue = Arc::new(WorkerQueue::default());
            workers.push(Arc::clone(&queue));
            let job = Arc::clone(&self.job);
            self.spawn(&format!("w{}", workers.len() - 1), move || worker::work(&job, &queue));
        }
    }

    fn add_peer(&self, peer: Arc<Peer>, connection: Connection, compression: CompressionSpec) {
        let (reader, writer) = peer::split(&peer, connection);
        let (job, reading) = (Arc::clone(&self.job), Arc::clone(&peer));
        self.spawn("read", move || peer::read_loop(&job, &reading, reader));
        let job = Arc::clone(&self.job);
        self.spawn("write", move || peer::write_loop(&job, &peer, writer, compression));
    }

    /// Changes the number of worker threads as of a cycle that no source has begun. Nothing
    /// stops: earlier cycles drain on the old threads' lanes. Gives back that cycle.
    ///
    /// # Errors
    /// Another change is still under way, or the number is out of bounds; the message says which.
    pub fn rescale(&self, workers: usize) -> Result<Cycle, String> {
        if workers == 0 || workers > WORKERS_MAX {
            return Err(format!("the number of threads must be from 1 to {WORKERS_MAX}"));
        }
        let job = &self.job;
        if !job.peers.is_empty() {
            return Err("a job of several processes keeps its threads".to_owned());
        }
        self.add_workers(workers);
        let mut layouts = job.layouts.write().expect("no panic while held");
        if layouts.len() > 1 {
            let idle = |layout: &Layout| {
                layout
                    .lanes
                    .iter()
                    .flatten()
                    .all(|lane| !lane.state.lock().expect("no panic while held").open)
            };
            let last = layouts.len() - 1;
            if !layouts[..last].iter().all(|layout| idle(layout)) {
                return Err("the last change of threads is still under way".to_owned());
            }
            layouts.drain(..last);
        }
        // No source can begin a cycle between this look and the new layout: beginning takes the
        // pacer's lock, and looks for a newer layout with it held.
        let pacer = job.pacer.lock().expect("no panic while held");
        let from = pacer.begun().next();
        let old = Arc::clone(&layouts[0]);
        let layout = Layout::new(&job.plan, old.version + 1, from, workers);
        layouts.push(Arc::new(layout));
        for lane in old.lanes.iter().flatten() {
            lane.state.lock().expect("no panic while held").until = Some(from);
        }
        drop(pacer);
        drop(layouts);
        old.lanes.iter().flatten().for_each(|lane| job.poke(lane));
        Ok(from)
    }

    /// Asks the job to stop cleanly after the cycles that were begun. Windows stay open.
    pub fn stop(&self) {
        self.job.pacer.lock().expect("no panic while held").stop();
        self.job.poke_sources();
        self.job.committer.wake();
    }

    /// Whether the job has ended, well or not.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.job.over.load(Ordering::Acquire)
    }

    /// Waits for the end of the job.
    ///
    /// # Errors
    /// The job failed; the error says where.
    pub fn wait(&self) -> Result<Progress, JobError> {
        let threads = std::mem::take(&mut *self.threads.lock().expect("no panic while held"));
        threads.into_iter().for_each(|thread| thread.join());
        match self.job.failure.lock().expect("no panic while held").clone() {
            Some(error) => Err(error),
            None => Ok(self.progress()),
        }
    }

    /// How far the job is.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let job = &self.job;
        let cut = job.committer.cut.load(Ordering::Acquire);
        let committed = job.committed.load(Ordering::Acquire);
        let mut progress = Progress {
            cycle_cut: Cycle(cut),
            cycle_committed: Cycle(committed),
            dead_letters: job.dead_letters.load(Ordering::Relaxed),
            shed: job.shed.load(Ordering::Relaxed),
            finished: job.finished.load(Ordering::Acquire),
            ..Progress::default()
        };
        if let Some(layout) = job.layouts.read().expect("no panic while held").last() {
            progress.workers = layout.workers;
        }
        for node in &job.plan.nodes {
            let count = &node.count;
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            match &node.work {
                Work::Source { factory, .. } => progress.sources.push(SourceProgress {
                    name: node.name.clone(),
                    records: read(&count.rows_in),
                    bytes: read(&count.bytes_in),
                    position: read(&count.position),
                    total: factory.total(),
                    lag_cycles: read(&count.cycle).saturating_sub(committed),
                    ended: read(&count.slices_ended) >= u64::from(node.slices),
                }),
                Work::Stage { .. } => progress.stages.push(StageProgress {
                    name: node.name.clone(),
                    slices: node.slices,
                    rows_in: read(&count.rows_in),
                    rows_out: read(&count.rows_out),
                    rows_side: read(&count.rows_side),
                    busy_us: read(&count.busy_us),
                    waiting_bytes: self.waiting_bytes(&node.links_in),
                    cycle: Cycle(read(&count.cycle)),
                }),
                Work::Sink => progress
                    .sinks
                    .push(SinkProgress { name: node.name.clone(), rows: read(&count.rows_in) }),
            }
        }
        // A stopped job is over too, but not finished.
        progress.finished &= progress.sources.iter().all(|source| source.ended);
        progress
    }

    fn waiting_bytes(&self, links: &[usize]) -> u64 {
        links.iter().map(|link| self.job.plan.links[*link].credit.waiting_bytes()).sum()
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
