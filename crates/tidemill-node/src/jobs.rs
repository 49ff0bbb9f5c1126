//! Jobs of a node that serves: submitted, watched, cancelled, and started again with the node.
//!
//! ```text
//! submit ─▶ parse, plan ─▶ folder: job.json (wanted: running) ─▶ engine ─▶ a thread waits for
//! node starts ─▶ folders that want to run ─▶ a thread each: plan ─▶ engine, resuming ─▶ its end
//!                                              └─ something is away: it tries again ─┘
//! ```
//!
//! A job is known by its name, and its folder is `jobs/NAME` in the node's data folder.
//!
//! Invariants: a job that was accepted is on the disk before the answer; a job that stops with its
//! node, or that waits for something that is away, is wanted still; a folder that cannot be read is
//! reported and left as it is.

mod checkpoints;
mod completion;
mod deletion;
mod error;
mod folder;
mod notes;
mod restart;
mod retries;
mod shutdown;
mod states;
mod status;
mod submission;

pub use error::JobsError;
pub(crate) use states::Bounded;
pub use states::StateOf;
pub use status::{JobView, Status};
pub use submission::Submission;

use crate::checkpoint::open_checkpoints;
use crate::{
    Registry, check,
    descriptor::{self, Descriptor},
    diagnostic::{Problem, Refused},
    plan::{PlanOptions, Planned, plan},
    streams::Streams,
};
use folder::{Begins, Folder, JobRecord};
use notes::PutOff;
use retries::JobRetries;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Condvar, Mutex, PoisonError},
};
use tidemill_env::{Thread, World};
use tidemill_flow::{JobHandle, Progress, RunOptions, StartError, engine};
use tidemill_types::job::Delivery;

#[cfg(test)]
mod tests;

/// Most jobs that a node keeps, ended ones counted.
const JOBS_MAX: usize = 1_000;

struct JobEntry {
    record: JobRecord,
    /// The doubts about it when it was last started.
    warnings: Vec<String>,
    handle: Option<Arc<JobHandle>>,
    /// Waits for the job's end.
    watcher: Option<Box<dyn Thread>>,
    cancelled: bool,
    /// It is started once the missing server is there.
    waiting: Option<JobRetries>,
    last: Option<Progress>,
}

/// A job that runs.
struct StartedJob {
    handle: JobHandle,
    warnings: Vec<String>,
}

/// A job that is not among the others, as something failed.
type NotEntered = Box<(JobRecord, JobsError)>;

#[derive(Default)]
struct JobTable {
    jobs: BTreeMap<String, JobEntry>,
    stopping: bool,
    /// When it is stopping: how long jobs are waited for.
    until_us: u64,
}

/// All jobs of a node.
pub struct Jobs {
    world: World,
    streams: Streams,
    folder: PathBuf,
    state: Mutex<JobTable>,
    /// A job that waits is to wait no more, or one has ended.
    bell: Condvar,
    /// Held while a status is noted and until others see it, so that the last note is the newest.
    notes: Mutex<()>,
    put_off: Mutex<PutOff>,
    /// By job: the checkpoints of one that does not run are open once, for the holder of the turn.
    turns: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Jobs({})", self.folder.display())
    }
}

impl Jobs {
    /// The jobs in a node's data folder; those that are wanted are started side by side. One for
    /// which something is away waits for that; one that cannot be started for another reason is
    /// failed with it. The others run. What was being deleted is. Jobs that take longer to start than
    /// a second or two are not waited for.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn open(world: &World, streams: Streams, data: &Path) -> Result<Arc<Self>, JobsError> {
        let folder = data.join("jobs");
        let at = |error| JobsError::Disk { path: folder.clone(), error };
        world.disk.create_dir_all(&folder).map_err(at)?;
        let found = world.disk.list(&folder).map_err(at)?;
        let jobs = Arc::new(Self {
            world: world.clone(),
            streams,
            folder: folder.clone(),
            state: Mutex::default(),
            bell: Condvar::new(),
            notes: Mutex::default(),
            put_off: Mutex::default(),
            turns: Mutex::default(),
        });
        for path in found {
            let folder = Folder::at(world, &path);
            // What a submission had begun to write may hold a password.
            let _none = folder.remove_begun();
            match folder.read() {
                Ok(Some(record)) => jobs.take_up(record),
                Ok(None) => jobs.go_on_deleting(&path),
                Err(error) => {
                    let error = JobsError::unread(&path, error);
                    tracing::error!(%error, "a job's folder cannot be read");
                }
            }
        }
        jobs.wait_for_first_tries();
        Ok(jobs)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, JobTable> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn folder_of(&self, name: &str) -> Folder {
        Folder::at(&self.world, &self.folder.join(name))
    }

    /// Takes a job of an earlier life, and has it started if it is wanted.
    fn take_up(self: &Arc<Self>, record: JobRecord) {
        let name = record.name.clone();
        let entered = match record.status.is_wanted() {
            true => self.enter_waiting(record),
            false => return drop(self.state().jobs.insert(name, JobEntry::new(record))),
        };
        if let Err(not) = entered {
            let (mut record, error) = *not;
            tracing::error!(job = name, %error, "a job could not be started again");
            record.status = Status::Failed(error.to_string());
            self.keep(&record);
            self.state().jobs.insert(name, JobEntry::new(record));
        }
    }

    fn parse(record: &JobRecord) -> Result<Descriptor, JobsError> {
        descriptor::parse_with(&record.text, &record.file, &record.set).map_err(JobsError::Refused)
    }

    /// Plans a job and starts it.
    fn start(&self, record: &JobRecord) -> Result<StartedJob, JobsError> {
        let descriptor = Self::parse(record)?;
        let folder = self.folder.join(&record.name);
        let begins = self.begins(record)?;
        let resume = begins.resume && descriptor.spec.goes_on();
        let options = PlanOptions {
            base_dir: record.base_dir.clone().unwrap_or_else(|| folder.clone()),
            job_file: record.job_file(),
            data: Some(folder.clone()),
            node: self.folder.parent().map(Path::to_path_buf),
            preview_rows: 0,
            threads: record.threads,
            resume,
            from_checkpoint: begins.from.is_some(),
            streams: Some(self.streams.clone()),
        };
        let writes_here = descriptor.spec.sinks.iter().find(|(_, it)| it.stdout.is_some());
        if let Some((name, _)) = writes_here {
            let message = "a node has no standard output that anybody reads";
            let problem = Problem::new(["sinks", name.as_str(), "stdout"], message);
            let problem = problem.expected("`file`, `stream`, `kafka`, `postgres` or `blackhole`");
            return Err(JobsError::Refused(Refused(vec![descriptor.locate(problem)])));
        }
        if let Some(problem) = restart::refused(&descriptor.spec) {
            return Err(JobsError::Refused(Refused(vec![descriptor.locate(problem)])));
        }
        let planned = plan(&descriptor, &options, &self.world, &Registry::default());
        let Planned { graph, warnings, .. } = planned.map_err(JobsError::Refused)?;
        let mut all = check::advice(&descriptor.spec);
        all.extend(warnings);
        let checkpoint =
            open_checkpoints(&descriptor.spec, Some(&folder), begins.from, &self.world);
        let start = |checkpoint| {
            let (data, life) = (Some(folder), Some(begins.life));
            let run = RunOptions { data, resume, life, checkpoint, ..RunOptions::default() };
            engine::start(graph, &self.world, &run)
        };
        let started = checkpoint.and_then(start);
        let warned = |handle| {
            for warning in &all {
                tracing::warn!(job = descriptor.spec.name, "{warning}");
            }
            StartedJob { handle, warnings: all }
        };
        started.map(warned).map_err(|error| {
            let message = format!("{}: {error}", descriptor.file);
            match error {
                StartError::Unavailable { .. } => JobsError::Away(message),
                _ => JobsError::Start(message),
            }
        })
    }

    /// The way a job begins. If a crash left it unknown whether the job had begun, it goes on if its
    /// ledger is there.
    fn begins(&self, record: &JobRecord) -> Result<Begins, JobsError> {
        let Some(begins) = record.begins else { return Ok(Begins::RESUMED) };
        Ok(if self.has_begun_anew(&record.name, begins)? { Begins::RESUMED } else { begins })
    }

    /// True if the ledger is that of the life that begins.
    fn has_begun_anew(&self, name: &str, begins: Begins) -> Result<bool, JobsError> {
        let folder = self.folder.join(name);
        let is_there = !begins.resume
            && tidemill_flow::is_of_life(&*self.world.disk, &folder, begins.life)
                .map_err(|error| JobsError::Disk { path: folder, error })?;
        Ok(is_there)
    }

    /// Notes that a job has begun. Of one that has begun anew its ledger says so, where that fails. One
    /// that goes on would go on from the same checkpoint once more: it is stopped.
    fn note_begun(
        &self,
        record: &mut JobRecord,
        started: StartedJob,
    ) -> Result<StartedJob, JobsError> {
        record.before = None;
        match record.begins.take() {
            None => Ok(started),
            Some(begins) if !begins.resume => {
                self.keep(record);
                Ok(started)
            }
            Some(_) => {
                let folder = self.folder_of(&record.name);
                let Err(error) = folder.write(record) else { return Ok(started) };
                started.handle.stop();
                let _ended = started.handle.wait();
                Err(JobsError::NotNoted { path: folder.path().to_owned(), error })
            }
        }
    }

    /// A thread that starts a job or reads its checkpoints locks this first.
    fn turn(&self, name: &str) -> Arc<Mutex<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that nobody has or waits for: anybody may ask for jobs that never were.
        turns.retain(|_, it| Arc::strong_count(it) > 1);
        Arc::clone(turns.entry(name.to_owned()).or_default())
    }

    /// Puts a started job among the others, and has its end waited for. Without a thread for that it
    /// is stopped again.
    fn enter(self: &Arc<Self>, record: JobRecord, started: StartedJob) -> Result<(), NotEntered> {
        let StartedJob { handle, warnings } = started;
        let (name, handle) = (record.name.clone(), Arc::new(handle));
        let (jobs, waited, of) = (Arc::clone(self), Arc::clone(&handle), name.clone());
        let mut state = self.state();
        let watch = Box::new(move || jobs.ended(&of, waited));
        match self.world.spawn.try_spawn("job", watch) {
            Ok(watcher) => {
                let (handle, watcher) = (Some(handle), Some(watcher));
                let entry = JobEntry { handle, watcher, warnings, ..JobEntry::new(record) };
                state.jobs.insert(name, entry);
                Ok(())
            }
            Err(error) => {
                drop(state);
                handle.stop();
                let _ended = handle.wait();
                Err(Box::new((record, JobsError::Thread(error))))
            }
        }
    }

    /// Takes a job and starts it. It is on the disk when this returns.
    ///
    /// # Errors
    /// The job is refused, one of its name runs, or it cannot be started.
    pub fn submit(self: &Arc<Self>, submission: Submission) -> Result<JobView, JobsError> {
        self.submit_with(submission, None)
    }

    /// The note of a submission.
    fn record_of(&self, submission: Submission) -> Result<JobRecord, JobsError> {
        let Submission { text, file, set, base_dir, .. } = submission;
        let mut record = JobRecord {
            name: String::new(),
            status: Status::Running,
            delivery: Delivery::default(),
            submitted_us: self.world.clock.wall_micros(),
            file,
            text,
            set,
            base_dir,
            threads: None,
            begins: None,
            before: None,
        };
        let spec = Self::parse(&record)?.spec;
        (record.name, record.delivery) = (spec.name, spec.delivery);
        Ok(record)
    }

    fn submit_with(
        self: &Arc<Self>,
        submission: Submission,
        threads: Option<usize>,
    ) -> Result<JobView, JobsError> {
        let (resume, from) = (submission.resume, submission.from);
        let mut record = self.record_of(submission)?;
        record.threads = threads;
        let turn = self.turn(&record.name);
        let _mine = turn.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let state = self.state();
            if state.stopping {
                return Err(JobsError::Stopping);
            }
            match state.jobs.get(&record.name) {
                Some(entry) if entry.waiting.is_some() => {
                    return Err(JobsError::Waiting(record.name));
                }
                Some(entry) if !entry.has_ended() => {
                    return Err(JobsError::Running(record.name));
                }
                None if state.jobs.len() >= JOBS_MAX => return Err(JobsError::TooMany),
                _ => {}
            }
        }
        let folder = self.folder_of(&record.name);
        let disk = |error| JobsError::Disk { path: folder.path().to_owned(), error };
        if folder.is_deleted().map_err(disk)? {
            self.finish_deletion(&record.name)?;
        }
        let was_there = self.world.disk.exists(folder.path()).map_err(disk)?;
        let before = self.known_before(&folder, &record.name);
        let before = before.map_err(|error| JobsError::unread(folder.path(), error))?;
        record.before = before.clone().map(|it| Box::new(JobRecord { before: None, ..it }));
        let life = self.world.random(record.submitted_us.cast_unsigned()).next();
        record.begins = Some(Begins { resume, from, life });
        if let Err(error) = folder.write(&record) {
            // It may have been put off, or half of this may be there.
            if let Some(before) = &before {
                self.keep(before);
            }
            return Err(disk(error));
        }
        let name = record.name.clone();
        let is_new = !was_there && !Self::keeps_elsewhere(&record);
        let started = self.start(&record).and_then(|it| self.note_begun(&mut record, it));
        match started.and_then(|it| self.enter(record, it).map_err(|not| not.1)) {
            Ok(()) => self.get(&name),
            Err(error) => {
                // What was there before the attempt is there after it.
                let undone = match before {
                    Some(before) => {
                        self.keep(&before);
                        Ok(())
                    }
                    None if is_new => folder.undo(),
                    None => folder.remove(),
                };
                if let Err(undone) = undone {
                    tracing::error!(job = name, error = %undone, "a refused job stays");
                }
                Err(error)
            }
        }
    }

    /// All jobs, by name.
    #[must_use]
    pub fn list(&self) -> Vec<JobView> {
        self.state().jobs.values().map(JobEntry::view).collect()
    }

    /// One job.
    ///
    /// # Errors
    /// There is none of that name.
    pub fn get(&self, name: &str) -> Result<JobView, JobsError> {
        let state = self.state();
        let entry = state.jobs.get(name).ok_or_else(|| JobsError::Unknown(name.to_owned()))?;
        Ok(entry.view())
    }

    /// Stops a job for good, at the end of the cycles that were begun, or with the node if that ends
    /// before. Returns when it has been told; its status changes when it has ended.
    ///
    /// # Errors
    /// There is no such job, or it has ended.
    pub fn cancel(&self, name: &str) -> Result<JobView, JobsError> {
        let _noting = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        let unknown = || JobsError::Unknown(name.to_owned());
        let entry = state.jobs.get_mut(name).ok_or_else(unknown)?;
        if entry.waiting.is_some() {
            let view = entry.give_up(Status::Cancelled);
            let record = entry.record.clone();
            drop(state);
            self.bell.notify_all();
            self.keep(&record);
            return Ok(view);
        }
        let handle = entry.handle.clone().ok_or_else(|| JobsError::Ended(name.to_owned()))?;
        entry.cancelled = true;
        handle.stop();
        let (record, view) = (entry.noted(), entry.view());
        drop(state);
        // Its end may never be noted: the node may end before.
        self.keep(&record);
        Ok(view)
    }

    /// Gives a job another number of worker threads, now and when it is started again.
    ///
    /// # Errors
    /// There is no such job, it has ended, or its threads cannot be changed now.
    pub fn rescale(&self, name: &str, threads: usize) -> Result<JobView, JobsError> {
        let _noting = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.state();
        let unknown = || JobsError::Unknown(name.to_owned());
        let entry = state.jobs.get_mut(name).ok_or_else(unknown)?;
        let handle = entry.handle.clone().ok_or_else(|| JobsError::Ended(name.to_owned()))?;
        handle.rescale(threads).map_err(JobsError::Rescale)?;
        entry.record.threads = Some(threads);
        let (record, view) = (entry.noted(), entry.view());
        drop(state);
        self.keep(&record);
        Ok(view)
    }
}

impl JobEntry {
    /// One that does not run.
    fn new(record: JobRecord) -> Self {
        let (handle, watcher, waiting, last) = (None, None, None, None);
        let warnings = Vec::new();
        Self { record, warnings, handle, watcher, cancelled: false, waiting, last }
    }

    /// The note of a running job, for the next life of the node.
    fn noted(&self) -> JobRecord {
        let mut record = self.record.clone();
        if self.cancelled {
            record.status = Status::Cancelled;
        }
        record
    }

    fn has_ended(&self) -> bool {
        self.handle.is_none() && self.waiting.is_none()
    }

    fn view(&self) -> JobView {
        let now = self.handle.as_ref().map(|it| it.progress());
        JobView {
            name: self.record.name.clone(),
            status: self.record.status.clone(),
            delivery: self.record.delivery,
            submitted_us: self.record.submitted_us,
            next_try_us: self.waiting.as_ref().map(|it| it.next_try_us),
            warnings: self.warnings.clone(),
            progress: now.or_else(|| self.last.clone()),
        }
    }
}
