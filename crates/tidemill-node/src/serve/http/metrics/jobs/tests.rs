//! What is shown of jobs, and what is left out where there are many.

use super::{super::tests::samples, *};
use prometheus_client::registry::Registry;
use tidemill_types::{Cycle, job::Delivery};

fn job(name: &str, status: Status, stages: usize) -> JobView {
    let stage = |number| StageProgress {
        name: format!("stage{number}"),
        rows_side: 2,
        state_bytes: 512,
        ..StageProgress::default()
    };
    let progress = Progress {
        cycle_committed: Cycle(4),
        sources: vec![SourceProgress { name: "in".into(), records: 7, ..Default::default() }],
        stages: (0..stages).map(stage).collect(),
        sinks: vec![SinkProgress { name: "out".into(), rows: 5 }],
        dead_letters: 1,
        ..Progress::default()
    };
    JobView {
        name: name.into(),
        status,
        delivery: Delivery::default(),
        submitted_us: 0,
        next_try_us: None,
        warnings: Vec::new(),
        progress: Some(progress),
    }
}

fn shown(all: &[JobView]) -> std::collections::BTreeMap<String, f64> {
    let mut page = Page(Registry::with_prefix("tidemill"));
    jobs(&mut page, all, 10_000_000);
    samples(&page)
}

#[test]
fn a_job_is_shown_with_its_parts() {
    let mut running = job("sales", Status::Running, 1);
    let none = JobView { progress: None, ..job("old", Status::Failed("it broke".into()), 0) };
    let before = shown(&[running.clone(), none.clone()]);
    for (series, value) in [
        ("job_status{job=\"sales\",status=\"running\"}", 1.0),
        ("job_status{job=\"sales\",status=\"failed\"}", 0.0),
        ("job_status{job=\"old\",status=\"failed\"}", 1.0),
        ("job_cycle_committed{job=\"sales\"}", 4.0),
        ("job_stalled{job=\"sales\"}", 0.0),
        ("job_dead_letters_total{job=\"sales\"}", 1.0),
        ("job_source_records_total{job=\"sales\",source=\"in\"}", 7.0),
        ("job_stage_late_rows_total{job=\"sales\",stage=\"stage0\"}", 2.0),
        ("job_stage_state_bytes{job=\"sales\",stage=\"stage0\"}", 512.0),
        ("job_sink_rows_total{job=\"sales\",sink=\"out\"}", 5.0),
        ("job_left_out", 0.0),
    ] {
        assert_eq!(before.get(&format!("tidemill_{series}")), Some(&value), "{series}\n{before:?}");
    }
    let age = "tidemill_job_checkpoint_age_seconds{job=\"sales\"}";
    assert!(!before.contains_key(age), "there is none yet");
    assert!(!before.contains_key("tidemill_job_cycle_cut{job=\"old\"}"));
    let made = &mut running.progress.as_mut().unwrap().checkpoints;
    (made.made_us, made.took_us) = (Some(7_500_000), 250_000);
    let after = shown(&[running.clone()]);
    assert_eq!(after[age], 2.5);
    assert_eq!(after["tidemill_job_checkpoint_seconds{job=\"sales\"}"], 0.25);
    running.progress.as_mut().unwrap().stalled = Some(Default::default());
    assert_eq!(shown(&[running.clone()])["tidemill_job_stalled{job=\"sales\"}"], 1.0);
    running.progress.as_mut().unwrap().checkpoints.made_us = Some(11_000_000);
    assert_eq!(shown(&[running])[age], 0.0, "the clock was set back");
}

#[test]
fn of_a_job_that_has_ended_there_is_what_it_has_counted() {
    let mut ended = job("sales", Status::Cancelled, 1);
    ended.progress.as_mut().unwrap().checkpoints.made_us = Some(7_500_000);
    let page = shown(&[ended, job("others", Status::Running, 1)]);
    let of_it = page.keys().filter(|it| it.contains("job=\"sales\"") && !it.contains("status"));
    assert!(of_it.clone().all(|it| it.contains("_total{")), "{page:?}");
    assert!(of_it.count() > 5, "{page:?}");
    assert!(page.contains_key("tidemill_job_workers{job=\"others\"}"));
}

#[test]
fn where_there_are_many_running_jobs_come_first_and_the_rest_is_counted() {
    let ended = (0..20).map(|it| job(&format!("a{it}"), Status::Finished, 300));
    let all: Vec<_> = ended.chain([job("z", Status::Running, 300)]).collect();
    let page = shown(&all);
    let statuses = page.keys().filter(|it| it.starts_with("tidemill_job_status{")).count();
    assert_eq!(statuses, all.len() * Status::NAMES.len(), "the status of each is shown");
    let (ended, running) = (samples_of(&all[0]), samples_of(&all[20]));
    assert!(ended < running);
    let shown = (SERIES_MAX - running) / ended;
    assert_eq!(page.len() - statuses - 1, running + shown * ended);
    assert_eq!(page["tidemill_job_left_out"], (20 - shown) as f64);
    assert!(page.contains_key("tidemill_job_cycle_cut{job=\"z\"}"));
}

fn samples_of(job: &JobView) -> usize {
    super::samples(job, job.progress.as_ref().unwrap())
}
