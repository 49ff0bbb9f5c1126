//! A seed: the lives of its job, an undisturbed run, and whether they agree.

use crate::{
    fault::{Failures, Faults, PlantedFault},
    job::SimJob,
    journal_sink::CycleRows,
    life::{self, FOLDER, LivesOutcome},
    outputs,
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};
use tidemill_env::{Disk, Random, SimFailure, SimPace, SimReport, SimWorld, Simulation};
use tidemill_flow::{RunOptions, engine::start};

/// A job that takes more points than this goes round in circles. One that sheds looks at each of its
/// live sources every millisecond, also while a disk is full for a minute.
const POINTS_MAX: u64 = 20_000_000;

/// The outcome of a seed.
#[derive(Clone, Debug)]
pub struct SeedOutcome {
    /// Of all decisions and of the output: the same whenever the seed is run.
    pub hash: u64,
    /// Moments at which another thread could go on.
    pub points: u64,
    /// Simulated time, in microseconds.
    pub micros: u64,
    /// Starts of the job.
    pub lives: u64,
    /// Lives that resumed from a checkpoint.
    pub went_on: u64,
    /// New lives that began with a checkpoint.
    pub begun: u64,
    /// Completed checkpoints.
    pub checkpoints: u64,
    /// Lives that reported a checkpoint that could not be written.
    pub told: u64,
    /// Changes of the number of threads.
    pub rescaled: u64,
    /// Sources that got slices while the job ran.
    pub grown: u64,
    /// Evicted keys that were read back.
    pub revived: u64,
    /// Keys that were read while the rest of their slice was not.
    pub read_alone: u64,
    /// Lives in which a planted fault of a part of the job struck.
    pub failed: Failures,
    /// One if some of its records are bytes.
    pub of_bytes: u64,
    /// Records that are not in the output of a job that may lose some.
    pub lost: u64,
    /// Rows of a job that may repeat some, beside those that it must have.
    pub repeated: u64,
    /// One if a bit turned and the job said so.
    pub damaged: u64,
    /// Cycles of which a sink has rows.
    pub cycles: u64,
    /// The job in words.
    pub job: String,
    /// The last points, or all.
    pub trace: Vec<String>,
}

/// The failure of a seed.
#[derive(Clone, Debug)]
pub struct SeedFailure {
    /// In words.
    pub message: String,
    /// The job in words.
    pub job: String,
    /// The last points before, or all.
    pub trace: Vec<String>,
}

/// Runs a seed.
///
/// # Errors
/// An invariant did not hold.
pub fn run(seed: u64, keeps_trace: bool) -> Result<SeedOutcome, SeedFailure> {
    agrees(seed, lived(seed, keeps_trace, SimJob::of, false)?)
}

/// Runs a seed with a job in whose files bits turn between its lives: it says that it cannot go on, or
/// its output is that of an undisturbed run.
///
/// # Errors
/// It is not; or something else that must always hold did not.
pub fn run_damaged(seed: u64, keeps_trace: bool) -> Result<SeedOutcome, SeedFailure> {
    let lived = lived(seed, keeps_trace, SimJob::of, true)?;
    match lived.ended.is_damaged {
        true => Ok(SeedOutcome {
            damaged: 1,
            ..outcome(&lived.job, &lived.ended, lived.ran, lived.words)
        }),
        false => agrees(seed, lived),
    }
}

/// Compares the output of the lives of a job with that of an undisturbed run.
fn agrees(seed: u64, lived: FinishedLives) -> Result<SeedOutcome, SeedFailure> {
    let FinishedLives { job, ended, ran, words } = lived;
    let wrong = |message, trace| SeedFailure { message, job: words.clone(), trace };
    let (alone, ledger) = (Arc::clone(&job), ended.ledger.clone());
    let (undisturbed, _) =
        simulate(Simulation::new(seed), move |sim| undisturbed(sim, &alone, &ledger))
            .map_err(|failed| wrong(format!("undisturbed: {}", failed.message), failed.trace))?;
    let mut undisturbed =
        undisturbed.map_err(|message| wrong(format!("undisturbed: {message}"), Vec::new()))?;
    undisturbed.iter_mut().for_each(|rows| rows.retain(|(cycle, _)| *cycle > ended.after.0));
    let all = ended.outputs.iter().zip(&undisturbed).enumerate();
    if let Some((sink, (is, should))) = all.into_iter().find(|(_, (is, should))| is != should) {
        let what = difference(sink, is, should);
        return Err(wrong(format!("{what}{}", ended.story), ran.trace));
    }
    Ok(outcome(&job, &ended, ran, words))
}

/// Runs a seed with a job that does nothing twice: it may lose records, and must not count one
/// twice, in a row or in a state, nor write a window twice.
///
/// # Errors
/// It did; or something else that must always hold did not.
pub fn run_at_most_once(seed: u64, keeps_trace: bool) -> Result<SeedOutcome, SeedFailure> {
    let FinishedLives { job, ended, ran, words } =
        lived(seed, keeps_trace, SimJob::that_may_lose, false)?;
    let lost = job.lost(&ended.outputs).and_then(|lost| match lost {
        // Nothing happened to it, and what a bounded source has is not shed.
        1.. if ended.lives == 1 && !job.is_live() => Err(format!("{lost} records are not there")),
        _ => Ok(lost),
    });
    match lost {
        Ok(lost) => Ok(SeedOutcome { lost, ..outcome(&job, &ended, ran, words) }),
        Err(why) => {
            let message = format!("{why}{}", ended.story);
            Err(SeedFailure { message, job: words, trace: ran.trace })
        }
    }
}

/// Runs a seed with a job that keeps no ledger, and whose sources are told how far its sinks are: it
/// may repeat records, and must not lose one.
///
/// # Errors
/// It did; or something else that must always hold did not.
pub fn run_at_least_once(seed: u64, keeps_trace: bool) -> Result<SeedOutcome, SeedFailure> {
    let FinishedLives { job, ended, ran, words } =
        lived(seed, keeps_trace, SimJob::that_may_repeat, false)?;
    match job.repeated(&ended.outputs) {
        Ok(repeated) => Ok(SeedOutcome { repeated, ..outcome(&job, &ended, ran, words) }),
        Err(why) => {
            let message = format!("{why}{}", ended.story);
            Err(SeedFailure { message, job: words, trace: ran.trace })
        }
    }
}

/// The lives of a job that came to its end.
struct FinishedLives {
    job: Arc<SimJob>,
    ended: LivesOutcome,
    ran: SimReport,
    /// The job in words.
    words: String,
}

fn lived(
    seed: u64,
    keeps_trace: bool,
    job: impl FnOnce(&mut Random) -> SimJob,
    damages: bool,
) -> Result<FinishedLives, SeedFailure> {
    let mut random = Random::new(Random::new(seed).next() ^ 0x0074_6964_656d_696c);
    let mut pace = SimPace::of(&mut random);
    pace.points_max = POINTS_MAX;
    let job = Arc::new(job(&mut random));
    let words = format!("{}; {pace:?}", job.describe());
    let wrong = |message, trace| SeedFailure { message, job: words.clone(), trace };
    let lived = Arc::clone(&job);
    let simulation = Simulation { seed, pace, keeps_trace };
    let mut faults = Faults::new(seed);
    let (ended, ran) = simulate(simulation, move |sim| {
        life::all(sim, &lived, &pace, (&mut random, &mut faults), damages)
    })
    .map_err(|failed| wrong(failed.message, failed.trace))?;
    let ended = ended.map_err(|message| wrong(message, ran.trace.clone()))?;
    if let Some(name) = ran.panicked.first() {
        return Err(wrong(format!("the thread {name} panicked"), ran.trace));
    }
    Ok(FinishedLives { job, ended, ran, words })
}

fn outcome(job: &SimJob, ended: &LivesOutcome, ran: SimReport, words: String) -> SeedOutcome {
    let rows = ended.outputs.iter().flatten();
    let bytes = rows.clone().flat_map(|(cycle, text)| {
        cycle.to_le_bytes().into_iter().chain(text.bytes()).collect::<Vec<_>>()
    });
    let hash = bytes.fold(ran.hash, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(11)
    });
    SeedOutcome {
        hash,
        points: ran.points,
        micros: ran.micros,
        lives: ended.lives,
        went_on: ended.went_on,
        begun: ended.begun,
        checkpoints: ended.checkpoints,
        told: ended.told,
        rescaled: ended.rescaled,
        grown: job.grown(),
        revived: ended.revived,
        read_alone: ended.read_alone,
        failed: ended.failed,
        of_bytes: u64::from(job.has_bytes()),
        lost: 0,
        repeated: 0,
        damaged: 0,
        cycles: rows.count() as u64,
        job: words,
        trace: ran.trace,
    }
}

/// A simulation whose code comes to a result.
fn simulate<T: Send + 'static>(
    simulation: Simulation,
    body: impl FnOnce(&SimWorld) -> Result<T, String> + Send + 'static,
) -> Result<(Result<T, String>, SimReport), SimFailure> {
    let (result, ran) = simulation.run(body)?;
    Ok((result.unwrap_or_else(|| Err("it panicked".to_owned())), ran))
}

/// The rows of the sinks after an undisturbed run on one thread: of a job with a live source, after
/// a replay of this ledger.
fn undisturbed(
    sim: &SimWorld,
    job: &SimJob,
    ledger: &BTreeMap<PathBuf, Vec<u8>>,
) -> Result<Vec<CycleRows>, String> {
    let failed = |error: std::io::Error| error.to_string();
    for folder in ["/out", FOLDER] {
        sim.disk.create_dir_all(Path::new(folder)).map_err(failed)?;
    }
    let options = match job.is_live() {
        true => {
            ledger.iter().for_each(|(path, bytes)| sim.disk.put(path, bytes));
            RunOptions { data: Some(FOLDER.into()), resume: true, ..RunOptions::default() }
        }
        false => RunOptions::default(),
    };
    let handle = start(job.graph(&sim.world, 0, 1, &PlantedFault::default()), &sim.world, &options);
    let progress = handle.map_err(|it| it.to_string())?.wait().map_err(|it| it.to_string())?;
    // A replay reads what the ledger says, and both would lack what the ledger lacks.
    let read: Vec<u64> = progress.sources.iter().map(|it| it.records).collect();
    let should: Vec<u64> = job.feeds().iter().map(|it| it.records().count() as u64).collect();
    match read == should {
        true => outputs::of(&sim.world, job),
        false => Err(format!("its sources have {should:?} records, and {read:?} were read")),
    }
}

/// Describes the first difference of two outputs.
fn difference(sink: usize, is: &CycleRows, should: &CycleRows) -> String {
    let same = is.iter().zip(should).take_while(|(is, should)| is == should).count();
    let show = |rows: &CycleRows| {
        let cut = |text: &str| text.chars().take(200).collect::<String>();
        rows.get(same)
            .map_or("nothing".to_owned(), |(cycle, text)| format!("{cycle}: {}", cut(text)))
    };
    format!(
        "sink {sink} has {} cycles and should have {}; after {same} the next is\n  {}\nand should be\n  {}",
        is.len(),
        should.len(),
        show(is),
        show(should)
    )
}
