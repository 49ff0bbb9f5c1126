//! Some hundreds of seeds, and that a seed is enough to run them again.

use super::*;

#[test]
fn row_2_row_40_whatever_happens_to_a_job_its_output_is_that_of_an_undisturbed_run() {
    let (mut went_on, mut told, mut rescaled) = (0, 0, 0);
    for seed in 0..100 {
        let outcome = run(seed, false).unwrap_or_else(|wrong| {
            panic!("seed {seed}: {}\n{}\n{}", wrong.message, wrong.job, wrong.trace.join("\n"))
        });
        went_on += outcome.went_on;
        told += outcome.told;
        rescaled += outcome.rescaled;
    }
    assert!(went_on > 50 && told > 5 && rescaled > 20, "{went_on} {told} {rescaled}");
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let hash = |seed| run(seed, false).map(|it| (it.hash, it.points, it.micros)).ok();
    for seed in 1_000..1_010 {
        assert_eq!(hash(seed), hash(seed), "seed {seed}");
    }
}
