//! Runs seeds: `cargo run -p tidemill-sim -- --seeds 0..5000`, or one with its trace.

use clap::Parser;
use std::process::ExitCode;

/// Runs whole jobs under seeds, and says which went wrong.
#[derive(Debug, Parser)]
#[cfg_attr(not(debug_assertions), expect(dead_code, reason = "there is nothing to run then"))]
struct Arguments {
    /// Seeds, such as `0..5000`.
    #[arg(long, default_value = "0..1000", value_parser = range)]
    seeds: (u64, u64),
    /// One seed alone.
    #[arg(long)]
    seed: Option<u64>,
    /// Every point at which another thread could go on.
    #[arg(long)]
    trace: bool,
    /// Every seed is run twice, and must go the same way.
    #[arg(long)]
    twice: bool,
    /// Jobs that do nothing twice, and may lose records.
    #[arg(long)]
    at_most_once: bool,
    /// Jobs that keep no ledger, and may repeat records.
    #[arg(long, conflicts_with = "at_most_once")]
    at_least_once: bool,
    /// Jobs in whose files bits turn between their lives.
    #[arg(long, conflicts_with_all = ["at_most_once", "at_least_once"])]
    damaged: bool,
    /// Seeds that run at the same time.
    #[arg(long, default_value_t = 2)]
    jobs: u64,
    /// Ends after this number of failures.
    #[arg(long, default_value_t = 5)]
    wrong_max: usize,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let (from, to) = text.split_once("..").ok_or("two numbers with `..` between them")?;
    let number = |text: &str| text.parse().map_err(|error| format!("`{text}`: {error}"));
    Ok((number(from)?, number(to)?))
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(debug_assertions)]
    return runner::run(&arguments);
    #[cfg(not(debug_assertions))]
    {
        let _ = arguments;
        eprintln!(
            "simulations need debug assertions: build with `--profile sim`, or without `--release`"
        );
        ExitCode::from(2)
    }
}

#[cfg(debug_assertions)]
mod runner {
    //! The seeds, several at a time.

    use super::Arguments;
    use std::{
        process::ExitCode,
        sync::{
            Arc, Mutex, PoisonError,
            atomic::{AtomicU64, Ordering},
        },
    };
    use tidemill_env::World;
    use tidemill_sim::{Failures, SeedFailure, SeedOutcome};

    /// A kind of jobs.
    #[derive(Clone, Copy)]
    struct JobKind {
        /// Its command-line flag.
        flag: &'static str,
        run: fn(u64, bool) -> Result<SeedOutcome, SeedFailure>,
    }

    const EXACTLY_ONCE: JobKind = JobKind { flag: "", run: tidemill_sim::run };
    const AT_MOST_ONCE: JobKind =
        JobKind { flag: " --at-most-once", run: tidemill_sim::run_at_most_once };
    const AT_LEAST_ONCE: JobKind =
        JobKind { flag: " --at-least-once", run: tidemill_sim::run_at_least_once };
    const DAMAGED: JobKind = JobKind { flag: " --damaged", run: tidemill_sim::run_damaged };

    #[derive(Default)]
    struct Totals {
        seeds: u64,
        lives: u64,
        went_on: u64,
        begun: u64,
        checkpoints: u64,
        told: u64,
        rescaled: u64,
        grown: u64,
        revived: u64,
        read_alone: u64,
        failed: Failures,
        of_bytes: u64,
        lost: u64,
        repeated: u64,
        damaged: u64,
        points: u64,
        wrong: Vec<u64>,
    }

    impl Totals {
        fn add(&mut self, of: &SeedOutcome) {
            self.seeds += 1;
            self.lives += of.lives;
            self.went_on += of.went_on;
            self.begun += of.begun;
            self.checkpoints += of.checkpoints;
            self.told += of.told;
            self.rescaled += of.rescaled;
            self.grown += of.grown;
            self.revived += of.revived;
            self.read_alone += of.read_alone;
            self.failed.add(&of.failed);
            self.of_bytes += of.of_bytes;
            self.lost += of.lost;
            self.repeated += of.repeated;
            self.damaged += of.damaged;
            self.points += of.points;
        }
    }

    fn say(kind: JobKind, seed: u64, wrong: &SeedFailure) {
        println!("seed {seed} is wrong: {}", wrong.message);
        println!("  {}", wrong.job);
        println!("  cargo run -p tidemill-sim -- --seed {seed}{} --trace", kind.flag);
    }

    fn check(seed: u64, twice: bool, kind: JobKind) -> Result<SeedOutcome, SeedFailure> {
        let outcome = (kind.run)(seed, false)?;
        if twice {
            let again = (kind.run)(seed, false)?;
            if again.hash != outcome.hash {
                let (job, trace) = (again.job, again.trace);
                let message = "a second run went another way".to_owned();
                return Err(SeedFailure { message, job, trace });
            }
        }
        Ok(outcome)
    }

    fn one(seed: u64, trace: bool, kind: JobKind) -> ExitCode {
        match (kind.run)(seed, trace) {
            Ok(outcome) => {
                outcome.trace.iter().filter(|_| trace).for_each(|line| println!("{line}"));
                let trace = Vec::new();
                println!("seed {seed} is right: {:?}", SeedOutcome { trace, ..outcome });
                ExitCode::SUCCESS
            }
            Err(wrong) => {
                wrong.trace.iter().for_each(|line| println!("{line}"));
                say(kind, seed, &wrong);
                ExitCode::FAILURE
            }
        }
    }

    pub(super) fn run(arguments: &Arguments) -> ExitCode {
        let kinds = [
            (arguments.at_most_once, AT_MOST_ONCE),
            (arguments.at_least_once, AT_LEAST_ONCE),
            (arguments.damaged, DAMAGED),
        ];
        let wanted = kinds.into_iter().find(|(is_wanted, _)| *is_wanted);
        let kind = wanted.map_or(EXACTLY_ONCE, |(_, kind)| kind);
        if let Some(seed) = arguments.seed {
            return one(seed, arguments.trace, kind);
        }
        let (from, to) = arguments.seeds;
        let next = Arc::new(AtomicU64::new(from));
        let sum = Arc::new(Mutex::new(Totals::default()));
        let world = World::real();
        let started_us = world.clock.monotonic_micros();
        let (twice, wrong_max) = (arguments.twice, arguments.wrong_max);
        let threads = (0..arguments.jobs.max(1)).map(|name| {
            let (next, sum) = (Arc::clone(&next), Arc::clone(&sum));
            let work = move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let lock = || sum.lock().unwrap_or_else(PoisonError::into_inner);
                    if seed >= to || lock().wrong.len() >= wrong_max {
                        return;
                    }
                    match check(seed, twice, kind) {
                        Ok(outcome) => {
                            let mut sum = lock();
                            sum.add(&outcome);
                            if sum.seeds % 500 == 0 {
                                println!("{} seeds", sum.seeds);
                            }
                        }
                        Err(wrong) => {
                            say(kind, seed, &wrong);
                            lock().wrong.push(seed);
                        }
                    }
                }
            };
            world.spawn.spawn(&format!("seeds{name}"), Box::new(work))
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|it| it.join());
        let sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        let took_s = (world.clock.monotonic_micros() - started_us) / 1_000_000;
        println!(
            "{} seeds in {took_s} s: {} lives, {} of which went on from a checkpoint and {} began anew \
             with one; {} checkpoints, \
             {} lives that told of a failed one; {} changes of threads; {} sources that got slices; {} keys that came back, and {} \
             that were read alone; \
             lives with {}; {} jobs with byte records; \
             {} records lost, {} repeated; {} jobs that told of damage; {} points",
            sum.seeds,
            sum.lives,
            sum.went_on,
            sum.begun,
            sum.checkpoints,
            sum.told,
            sum.rescaled,
            sum.grown,
            sum.revived,
            sum.read_alone,
            sum.failed,
            sum.of_bytes,
            sum.lost,
            sum.repeated,
            sum.damaged,
            sum.points
        );
        if sum.wrong.is_empty() {
            return ExitCode::SUCCESS;
        }
        println!("wrong: {:?}", sum.wrong);
        ExitCode::FAILURE
    }
}
