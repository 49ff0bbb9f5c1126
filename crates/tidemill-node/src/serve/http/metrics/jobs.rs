//! Figures of jobs, of their sources, stages and sinks.

use super::{
    Page,
    series::{Figure, Labels, SERIES_MAX, counter, gauge},
};
use crate::jobs::{JobView, Status};
use std::collections::BTreeSet;
use tidemill_flow::{CheckpointProgress, Progress, SinkProgress, SourceProgress, StageProgress};

#[cfg(test)]
mod tests;

/// A sample for each status, 1 for the one that the job has.
const STATUS: &[Figure<bool>] =
    &[gauge("job_status", "1 for the status that the job has, 0 for the others", |it| {
        f64::from(*it)
    })];

const JOB: &[Figure<Progress>] = &[
    gauge("job_workers", "Worker threads", |it| it.workers as f64),
    gauge("job_cycle_cut", "The last cycle that all sources have cut", |it| it.cycle_cut.0 as f64),
    gauge("job_cycle_committed", "The last cycle that all sinks have committed", |it| {
        it.cycle_committed.0 as f64
    }),
    gauge("job_stalled", "1 while a part of the job waits, as for room on a disk", |it| {
        f64::from(it.stalled.is_some())
    }),
    counter("job_dead_letters", "Records that could not be processed", |it| it.dead_letters as f64),
    counter("job_shed_records", "Records dropped under overload", |it| it.shed as f64),
    counter("job_checkpoints", "Checkpoints that were completed", |it| {
        it.checkpoints.completed as f64
    }),
    counter(
        "job_checkpoint_failures",
        "Times that something of a checkpoint could not be written, and was tried again",
        |it| it.checkpoints.failures as f64,
    ),
];

/// Of a job that has a checkpoint.
const CHECKPOINT: &[Figure<Newest>] = &[
    gauge("job_checkpoint_age_seconds", "How long ago the newest checkpoint was made", |it| {
        it.age_us as f64 / 1e6
    }),
    gauge("job_checkpoint_cycle", "The cycle of the newest checkpoint", |it| {
        it.checkpoints.cycle.0 as f64
    }),
    gauge("job_checkpoint_bytes", "Bytes of changes in the newest checkpoint", |it| {
        it.checkpoints.bytes as f64
    }),
    gauge("job_checkpoint_seconds", "How long making the newest checkpoint took", |it| {
        it.checkpoints.took_us as f64 / 1e6
    }),
];

const SOURCE: &[Figure<SourceProgress>] = &[
    counter("job_source_records", "Records read", |it| it.records as f64),
    counter("job_source_bytes", "Bytes of input read", |it| it.bytes as f64),
    gauge("job_source_lag_cycles", "Cycles cut and not yet committed by the sinks", |it| {
        it.lag_cycles as f64
    }),
];

const STAGE: &[Figure<StageProgress>] = &[
    counter("job_stage_input_rows", "Rows taken", |it| it.rows_in as f64),
    counter("job_stage_output_rows", "Rows written", |it| it.rows_out as f64),
    counter("job_stage_late_rows", "Rows written to side outputs, such as late ones", |it| {
        it.rows_side as f64
    }),
    counter("job_stage_busy_seconds", "Time that the stage worked, over all threads", |it| {
        it.busy_us as f64 / 1e6
    }),
    gauge("job_stage_state_bytes", "About how much memory the state takes", |it| {
        it.state_bytes as f64
    }),
    gauge("job_stage_expired_keys", "Keys of the state that are not in memory", |it| {
        it.expired_keys as f64
    }),
    gauge("job_stage_waiting_bytes", "Bytes that wait for the stage", |it| it.waiting_bytes as f64),
];

const SINK: &[Figure<SinkProgress>] =
    &[counter("job_sink_rows", "Rows written and committed", |it| it.rows as f64)];

struct Newest {
    checkpoints: CheckpointProgress,
    age_us: i64,
}

/// The number of samples of a job, its status aside.
fn samples(job: &JobView, progress: &Progress) -> usize {
    let runs = job.status == Status::Running;
    let checkpoints = progress.checkpoints.made_us.map_or(0, |_| count(CHECKPOINT, runs));
    count(JOB, runs)
        + checkpoints
        + progress.sources.len() * count(SOURCE, runs)
        + progress.stages.len() * count(STAGE, runs)
        + progress.sinks.len() * count(SINK, runs)
}

fn count<T>(figures: &[Figure<T>], runs: bool) -> usize {
    figures.iter().filter(|it| runs || it.counts()).count()
}

/// The figures of all jobs; those of the running ones come first where not all fit. Of one that has
/// ended there are its counters: it has no workers, no state, and its checkpoint may be as old as
/// it likes.
pub(super) fn jobs(page: &mut Page, jobs: &[JobView], now_us: i64) {
    let of_job = |job: &JobView| vec![("job", job.name.clone())];
    let part = |job: &JobView, kind: &'static str, name: &str| -> Labels {
        vec![("job", job.name.clone()), (kind, name.to_owned())]
    };
    let status = |job: &JobView, name: &str| (part(job, "status", name), job.status.name() == name);
    let of = |job| Status::NAMES.iter().map(move |name| status(job, name));
    page.series(STATUS, &jobs.iter().flat_map(of).collect::<Vec<_>>());

    let running = jobs.iter().filter(|job| job.status == Status::Running);
    let running: BTreeSet<&str> = running.map(|job| job.name.as_str()).collect();
    let runs =
        |labels: &Labels| labels.first().is_some_and(|(_, job)| running.contains(job.as_str()));
    let known = jobs.iter().filter_map(|job| Some((job, job.progress.as_ref()?)));
    let (first, then): (Vec<_>, Vec<_>) = known.partition(|(job, _)| job.status == Status::Running);
    let (mut shown, mut left_out, mut room) = (Vec::new(), 0, SERIES_MAX);
    for (job, progress) in first.into_iter().chain(then) {
        match room.checked_sub(samples(job, progress)) {
            Some(rest) => {
                room = rest;
                shown.push((job, progress));
            }
            None => left_out += 1,
        }
    }
    page.gauge(
        "job_left_out",
        "Jobs whose figures but for their status are not on this page, as it has so many",
        f64::from(left_out),
    );
    let all: Vec<_> = shown.iter().map(|(job, progress)| (of_job(job), *progress)).collect();
    page.series_of(JOB, &all, runs);
    let newest = |(job, progress): &(&JobView, &Progress)| {
        // A clock may be set back.
        let age_us = now_us.saturating_sub(progress.checkpoints.made_us?).max(0);
        Some((of_job(job), Newest { checkpoints: progress.checkpoints.clone(), age_us }))
    };
    page.series_of(CHECKPOINT, &shown.iter().filter_map(newest).collect::<Vec<_>>(), runs);
    let (mut sources, mut stages, mut sinks) = (Vec::new(), Vec::new(), Vec::new());
    for (job, progress) in shown {
        sources.extend(progress.sources.iter().map(|it| (part(job, "source", &it.name), it)));
        stages.extend(progress.stages.iter().map(|it| (part(job, "stage", &it.name), it)));
        sinks.extend(progress.sinks.iter().map(|it| (part(job, "sink", &it.name), it)));
    }
    page.series_of(SOURCE, &sources, runs);
    page.series_of(STAGE, &stages, runs);
    page.series_of(SINK, &sinks, runs);
}
