//! Seeds, and that a seed is enough to run them again.

use super::*;

/// Seeds that each of the three tests runs that kill jobs with ledgers.
const SEEDS: u64 = 65;
/// Those of other jobs.
const FEWER: u64 = 25;

/// What the seeds of a test must have come to: what does not happen shows nothing.
#[derive(Default)]
struct Seen {
    failed: Failures,
    of_bytes: u64,
}

impl Seen {
    fn add(&mut self, outcome: &SeedOutcome) {
        self.failed.add(&outcome.failed);
        self.of_bytes += outcome.of_bytes;
    }

    /// Each kind of fault and of records so often at least.
    fn has_all(&self, least: u64) {
        self.has_all_but_state(least);
        assert!(self.failed.over_budget >= least, "{}", self.failed);
    }

    /// The same of jobs that keep no state.
    fn has_all_but_state(&self, least: u64) {
        let Failures { sinks, sinks_for_now, stages, stages_panicked, sources, .. } = self.failed;
        let all = [sinks, sinks_for_now, stages, stages_panicked, sources, self.of_bytes];
        assert!(all.iter().all(|it| *it >= least), "{}; {}", self.failed, self.of_bytes);
    }
}

fn agree(seeds: std::ops::Range<u64>) {
    let (mut went_on, mut told, mut rescaled, mut revived, mut grown) = (0, 0, 0, 0, 0);
    let mut seen = Seen::default();
    for seed in seeds {
        let outcome = run(seed, false).unwrap_or_else(|wrong| {
            panic!("seed {seed}: {}\n{}\n{}", wrong.message, wrong.job, wrong.trace.join("\n"))
        });
        went_on += outcome.went_on;
        told += outcome.told;
        rescaled += outcome.rescaled;
        revived += outcome.revived;
        grown += outcome.grown;
        seen.add(&outcome);
    }
    seen.has_all(2);
    assert!(went_on > 10 && told > 10 && rescaled > 50, "{went_on} {told} {rescaled}");
    assert!(revived > 10 && grown > 3, "{revived} {grown}");
}

#[test]
fn row_2_row_40_whatever_happens_to_a_job_its_output_is_that_of_an_undisturbed_run() {
    agree(0..SEEDS);
}

#[test]
fn f5_row_6_row_24_slow_threads_and_disks_and_changes_of_threads_do_not_show() {
    agree(SEEDS..2 * SEEDS);
}

#[test]
fn row_2_row_40_a_job_that_may_lose_counts_nothing_twice() {
    let (mut went_on, mut lost, mut rescaled) = (0, 0, 0);
    let mut seen = Seen::default();
    for seed in 0..SEEDS {
        let outcome = run_at_most_once(seed, false).unwrap_or_else(|wrong| {
            panic!("seed {seed}: {}\n{}\n{}", wrong.message, wrong.job, wrong.trace.join("\n"))
        });
        went_on += outcome.went_on;
        lost += outcome.lost;
        rescaled += outcome.rescaled;
        seen.add(&outcome);
    }
    seen.has_all(2);
    assert!(went_on > 10 && lost > 100 && rescaled > 50, "{went_on} {lost} {rescaled}");
}

#[test]
fn row_2_row_40_a_job_without_a_ledger_loses_nothing() {
    let (mut lives, mut repeated) = (0, 0);
    let mut seen = Seen::default();
    for seed in 0..FEWER {
        let outcome = run_at_least_once(seed, false).unwrap_or_else(|wrong| {
            panic!(
                "seed {seed}: {}
{}
{}",
                wrong.message,
                wrong.job,
                wrong.trace.join(
                    "
"
                )
            )
        });
        lives += outcome.lives;
        repeated += outcome.repeated;
        seen.add(&outcome);
    }
    seen.has_all_but_state(1);
    assert!(lives > 2 * FEWER && repeated > 100, "{lives} {repeated}");
}

#[test]
fn row_20_what_is_damaged_is_told_or_does_no_harm() {
    let mut damaged = 0;
    for seed in 0..FEWER {
        let outcome = run_damaged(seed, false).unwrap_or_else(|wrong| {
            panic!("seed {seed}: {}\n{}\n{}", wrong.message, wrong.job, wrong.trace.join("\n"))
        });
        damaged += outcome.damaged;
    }
    assert!(damaged > 5, "{damaged}");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let hash = |seed| run(seed, false).map(|it| (it.hash, it.points, it.micros)).ok();
    for seed in 1_000..1_012 {
        let first = hash(seed);
        assert!(first.is_some(), "seed {seed}");
        assert_eq!(first, hash(seed), "seed {seed}");
    }
}
