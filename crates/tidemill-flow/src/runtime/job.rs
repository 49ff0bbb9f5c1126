//! A running job: the values that its lanes, workers and I/O threads share.

use super::blocks::BlockPool;
use super::checkpoint::{Checkpointer, uncoordinated::Uncoordinated};
use super::commit::Committer;
use super::growth::{GrowthMonitor, SourceSlices};
use super::inbox::{CycleEnd, Parcel};
use super::lane::{After, Core, Lane};
use super::layout::Layout;
use super::pacer::Pacer;
use super::peer::Peers;
use super::plan::Plan;
use super::readers::Readers;
use super::snapshots::Snapshots;
use super::worker::WorkerQueue;
use crate::error::JobError;
use crate::operator::DeadLetter;
use crate::progress::CheckpointProgress;
use crate::retry::Stalls;
use std::sync::Arc;
use tidemill_env::World;
use tidemill_env::sync::{
    Mutex, PoisonError, RwLock,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use tidemill_types::{Cycle, LayoutVersion, LinkIx, Micros, StageIx};

/// Cycles that may be under way between the sources and the sinks.
pub(crate) const CYCLES_IN_FLIGHT_MAX: u64 = 64;
/// Dead letters that may wait for their sink; sources wait beyond that.
const DEAD_LETTERS_HELD_MAX: usize = 100_000;
/// The same of simulated jobs, which are small.
const DEAD_LETTERS_HELD_MAX_SIMULATED: usize = 5;

/// The values that all parts of a running job share.
pub(crate) struct Job {
    pub(crate) plan: Plan,
    pub(crate) world: World,
    pub(crate) workers: RwLock<Vec<Arc<WorkerQueue>>>,
    pub(crate) layouts: RwLock<Vec<Arc<Layout>>>,
    pub(crate) pacer: Mutex<Pacer>,
    pub(crate) blocks: BlockPool,
    pub(crate) committer: Committer,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) checkpoints: Mutex<CheckpointProgress>,
    pub(crate) snapshots: Snapshots,
    pub(crate) peers: Peers,
    /// The last cycle that every sink has committed.
    pub(crate) committed: AtomicU64,
    /// Source lanes that wait for a commit.
    pub(crate) commit_waiters: Mutex<Vec<Arc<Lane>>>,
    pub(crate) letters: Mutex<Vec<(StageIx, DeadLetter)>>,
    pub(crate) dead_letters: AtomicU64,
    /// The last cycle of which letters were handed to their sink.
    pub(crate) letters_last: AtomicU64,
    /// The last of which they are durable there, as far as a checkpoint has asked.
    pub(crate) letters_durable: AtomicU64,
    pub(crate) shed: AtomicU64,
    /// Lanes handed over, by stage, on the way to the next layout.
    pub(crate) handed_over: Mutex<Vec<HandOver>>,
    /// Source slices of this process.
    pub(crate) sources: SourceSlices,
    pub(crate) growth: GrowthMonitor,
    pub(crate) readers: Arc<Readers>,
    /// By stage: slices that will never run again.
    pub(crate) slices_done: Vec<AtomicU64>,
    /// The parts that wait, with their reasons.
    pub(crate) stalls: Stalls,
    pub(crate) failure: Mutex<Option<JobError>>,
    /// The job is over: every thread ends.
    pub(crate) over: AtomicBool,
    pub(crate) finished: AtomicBool,
}

/// Lanes of one stage that have reached the end of a layout.
pub(crate) struct HandOver {
    pub(crate) stage: StageIx,
    pub(crate) layout: LayoutVersion,
    pub(crate) lanes: Vec<(Arc<Lane>, Core)>,
}

impl Job {
    /// The layout of this version.
    ///
    /// # Panics
    /// Panics if it was retired: a lane of it still ran, which cannot be.
    pub(crate) fn layout(&self, version: LayoutVersion) -> Arc<Layout> {
        let layouts = self.layouts.read().expect("no panic while held");
        let found = layouts.iter().find(|layout| layout.version == version);
        Arc::clone(found.expect("a layout lives as long as its lanes"))
    }

    /// Queues a lane if it has something to do.
    pub(crate) fn wake_lane(&self, lane: &Arc<Lane>) {
        let mut state = lane.state.lock().expect("no panic while held");
        if state.scheduled {
            state.woken = true;
        } else if state.has_work() {
            state.scheduled = true;
            let next = state.next();
            drop(state);
            self.queue(lane, next);
        }
    }

    fn queue(&self, lane: &Arc<Lane>, next: Cycle) {
        let workers = self.workers.read().expect("no panic while held");
        workers[lane.worker.index() % workers.len()].push(next, Arc::clone(lane));
    }

    /// Queues a lane again after it ran, if it has more to do.
    pub(crate) fn settle(&self, lane: &Arc<Lane>, after: After) {
        let mut state = lane.state.lock().expect("no panic while held");
        let woken = std::mem::take(&mut state.woken);
        let again = match after {
            After::Ready | After::ReadyOrAt(_) => state.runs_again(),
            After::Wait | After::At(_) => woken && state.runs_again(),
            After::HandOver | After::Done => {
                state.open = false;
                false
            }
        };
        state.scheduled = again;
        let next = state.next();
        drop(state);
        if again {
            self.queue(lane, next);
        } else if let After::At(due_us) | After::ReadyOrAt(due_us) = after {
            let workers = self.workers.read().expect("no panic while held");
            workers[lane.worker.index() % workers.len()].push_timer(due_us, Arc::clone(lane));
        }
    }

    /// Delivers the blocks and the end of a cycle from an upstream lane.
    ///
    /// # Errors
    /// The upstream broke the rules of a link.
    pub(crate) fn deliver(
        &self,
        link: LinkIx,
        lane: &Arc<Lane>,
        input: usize,
        end: CycleEnd,
        parcels: &mut Vec<Parcel>,
    ) -> Result<(), String> {
        let bytes: u64 = parcels.iter().map(|(_, bytes)| bytes).sum();
        if bytes > 0 {
            self.plan[link].credit.add(bytes);
        }
        if !self.plan.is_here(lane.stage) {
            return self.peers.send(self, (link, lane, input), end, parcels);
        }
        let mut state = lane.state.lock().expect("no panic while held");
        state.inbox.receive(input, end, parcels).map_err(|error| error.to_string())?;
        parcels.clear();
        if state.scheduled || !state.is_ready() {
            return Ok(());
        }
        state.scheduled = true;
        let next = state.next();
        drop(state);
        self.queue(lane, next);
        Ok(())
    }

    /// Takes processed bytes off a link, and wakes the lanes that waited for that.
    pub(crate) fn release(&self, link: LinkIx, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if !self.plan.is_here(self.plan[link].from) {
            self.peers.credit(self, link, bytes);
        }
        for waiter in self.plan[link].credit.release(bytes) {
            self.wake_lane(&waiter);
        }
    }

    /// Returns true if `lane` has credit for its next cycle; else it is woken once there is some.
    ///
    /// A lane that is behind another lane of its stage may always go on: the readers wait for its
    /// cycle and can drain nothing before it comes. Otherwise a lane that ran ahead could use up
    /// the credit of the link and block the one that all readers wait for.
    pub(crate) fn has_credit(&self, lane: &Arc<Lane>) -> bool {
        let links = self.plan[lane.stage].links_out.iter().flatten();
        let mut closed = links
            .map(|link| &self.plan[*link].credit)
            .filter(|credit| !credit.may_begin(|| Arc::clone(lane)));
        closed.next().is_none() || self.is_behind_its_stage(lane)
    }

    fn is_behind_its_stage(&self, lane: &Lane) -> bool {
        let next_of = |lane: &Lane| lane.state.lock().expect("no panic while held").next();
        let mine = next_of(lane);
        let is_ahead = |layout: &Arc<Layout>| {
            layout.lanes_of(lane.stage).iter().any(|other| next_of(other) > mine)
        };
        if self.plan[lane.stage].grows {
            // A slice that was added has a lane in the later layout alone, and readers there wait for
            // those that have yet to come to it.
            let layouts = self.layouts.read().expect("no panic while held");
            return layouts.iter().filter(|it| it.version >= lane.layout).any(is_ahead);
        }
        is_ahead(&self.layout(lane.layout))
    }

    /// Wakes the other lanes of the same stage if a link is closed: a lane that found it closed may
    /// go on now that `lane` is ahead of it. No reader could wake it, as the link drains only once
    /// its cycle has come.
    pub(crate) fn wake_lanes_behind(&self, lane: &Lane) {
        let mut links = self.plan[lane.stage].links_out.iter().flatten();
        if links.all(|link| self.plan[*link].credit.is_open()) {
            return;
        }
        let layout = self.layout(lane.layout);
        for other in layout.lanes_of(lane.stage).iter().filter(|it| it.index != lane.index) {
            self.wake_lane(other);
        }
    }

    /// Returns true if `cycle` may begin by the limits of cycles under way and of dead letters;
    /// else `lane` is woken once the sinks have caught up.
    ///
    /// A cycle that another slice has begun may always begin, whatever the number of letters: they
    /// are written once their cycle is committed, and for that every slice must have cut it.
    pub(crate) fn may_begin(&self, cycle: Cycle, lane: &Arc<Lane>) -> bool {
        let is_begun = || cycle <= self.pacer.lock().expect("no panic while held").begun();
        let within = || cycle.0 <= self.committed.load(Ordering::Acquire) + CYCLES_IN_FLIGHT_MAX;
        let may = || within() && (self.letters_fit() || is_begun());
        if may() {
            return true;
        }
        let mut waiters = self.commit_waiters.lock().expect("no panic while held");
        if may() {
            return true;
        }
        if !waiters.contains(lane) {
            waiters.push(Arc::clone(lane));
        }
        false
    }

    fn letters_fit(&self) -> bool {
        let most = match tidemill_env::is_simulated() {
            true => DEAD_LETTERS_HELD_MAX_SIMULATED,
            false => DEAD_LETTERS_HELD_MAX,
        };
        self.dead_letters.load(Ordering::Relaxed) == 0
            || self.letters.lock().expect("no panic while held").len() < most
    }

    /// Wakes the lanes that wait for the sinks to catch up, or for room for dead letters.
    pub(crate) fn wake_waiters(&self) {
        let mut waiters = self.commit_waiters.lock().expect("no panic while held");
        let woken = std::mem::take(&mut *waiters);
        drop(waiters);
        woken.iter().for_each(|lane| self.wake_lane(lane));
    }

    /// Every sink has committed up to `cycle`.
    pub(crate) fn commit_reached(&self, cycle: Cycle) {
        let before = self.committed.fetch_max(cycle.0, Ordering::SeqCst);
        if before < cycle.0 {
            self.pacer.lock().expect("no panic while held").forget(cycle);
            self.wake_waiters();
            self.checkpointer.committed(cycle);
        }
    }

    /// Notes dead letters of a stage.
    pub(crate) fn add_letters(&self, stage: StageIx, new: &mut Vec<DeadLetter>) {
        if new.is_empty() {
            return;
        }
        self.dead_letters.fetch_add(new.len() as u64, Ordering::Relaxed);
        let mut letters = self.letters.lock().expect("no panic while held");
        for mut letter in new.drain(..) {
            letter.stage.clone_from(&self.plan[stage].name);
            letters.push((stage, letter));
        }
    }

    /// Fails the job. The first failure is reported.
    pub(crate) fn fail(&self, error: JobError) {
        let mut failure = self.failure.lock().expect("no panic while held");
        failure.get_or_insert(error);
        drop(failure);
        self.end();
    }

    /// Ends every thread of the job.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        for worker in self.workers.read().expect("no panic while held").iter() {
            worker.wake();
        }
        self.committer.wake();
        self.checkpointer.wake();
        self.growth.wake();
        self.readers.close();
        self.peers.close(self.finished.load(Ordering::Acquire));
    }

    /// Drops the states and sources of its lanes, and closes its checkpoints and its folder. Called
    /// when no thread of the job is left.
    pub(crate) fn let_go(&self) {
        let layouts = self.layouts.read().unwrap_or_else(PoisonError::into_inner).clone();
        for lane in layouts.iter().flat_map(|layout| layout.lanes.iter().flatten()) {
            drop(lane.core.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        self.handed_over.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.checkpointer.let_go();
    }

    /// Returns true once the job has ended, well or not.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Returns true once the job is to stop, or has ended.
    pub(crate) fn is_to_stop(&self) -> bool {
        let alone = self.checkpointer.uncoordinated.as_ref();
        self.is_over()
            || alone.is_some_and(Uncoordinated::is_to_stop)
            || self.pacer.lock().expect("no panic while held").stop_after().is_some()
    }

    /// Wakes every source lane: a fact that sources depend on has changed.
    pub(crate) fn wake_sources(&self) {
        let layouts = self.layouts.read().expect("no panic while held").clone();
        for layout in layouts {
            for lane in layout.lanes.iter().flatten() {
                if lane.state.lock().expect("no panic while held").is_source {
                    self.wake_lane(lane);
                }
            }
        }
    }

    /// The recorded seed of a cycle.
    pub(crate) fn seed_of(&self, cycle: Cycle) -> u64 {
        crate::partition::hash_number(self.plan.seed ^ cycle.0)
    }

    /// The time on the monotonic clock, in microseconds.
    pub(crate) fn now_us(&self) -> u64 {
        self.world.clock.monotonic_micros()
    }

    /// The time on the wall clock.
    pub(crate) fn wall(&self) -> Micros {
        Micros(self.world.clock.wall_micros())
    }
}
