//! What is deleted is gone, whatever becomes of the node meanwhile.

use super::*;
use crate::{
    jobs::{Status, Submission},
    streams::Streams,
};
use std::path::PathBuf;
use tidemill_env::{SimWorld, World};
use tidemill_types::CheckpointNumber;
use tidemill_types::job::Delivery;

const JOB: &str = "
name: old
sources: {lines: {file: {path: /in.ndjson, format: text}}}
sinks: {out: {from: lines, blackhole: {}}}
";

fn open(sim: &SimWorld) -> (Arc<Jobs>, Streams) {
    let world = World { disk: sim.process().disk, ..World::real() };
    let streams = Streams::open(&world, Path::new("/data"), false).unwrap();
    (Jobs::open(&world, streams.clone(), Path::new("/data")).unwrap(), streams)
}

fn record(name: &str, status: Status) -> JobRecord {
    JobRecord {
        name: name.to_owned(),
        status,
        delivery: Delivery::default(),
        submitted_us: 1,
        file: "job.yaml".to_owned(),
        text: JOB.to_owned(),
        set: Vec::new(),
        base_dir: None,
        threads: None,
        begins: None,
        before: None,
    }
}

/// A job that has ended, with all that one has.
fn ended(sim: &SimWorld) {
    let world = World { disk: sim.process().disk, ..World::real() };
    let folder = Folder::at(&world, Path::new("/data/jobs/old"));
    folder.write(&record("old", Status::Finished)).unwrap();
    let disk = &*world.disk;
    disk.create_dir_all(Path::new("/data/jobs/old/checkpoints/deep")).unwrap();
    for name in ["ledger", "dead-letter.ndjson", "checkpoints/a", "checkpoints/deep/b"] {
        let path = folder.path().join(name);
        let mut file = disk.create(&path).unwrap();
        file.append(b"bytes").unwrap();
        file.sync().unwrap();
        disk.sync_dir(path.parent().unwrap()).unwrap();
    }
}

fn left(sim: &SimWorld) -> Vec<PathBuf> {
    sim.process().disk.list(Path::new("/data/jobs")).unwrap()
}

#[test]
fn a_job_that_was_being_deleted_is_there_or_gone_after_a_power_cut_at_any_operation() {
    for operations in 0.. {
        let sim = World::simulated(operations);
        ended(&sim);
        let (jobs, streams) = open(&sim);
        sim.disk.fail_after(operations);
        let deleted = jobs.delete("old");
        let was_there = jobs.get("old").is_ok();
        sim.disk.power_cut();
        drop((jobs, streams));

        let (jobs, streams) = open(&sim);
        match jobs.get("old") {
            // As it was, all of it.
            Ok(view) => {
                assert_eq!(view.status, Status::Finished);
                assert!(deleted.is_err(), "operation {operations}: it came back");
                let disk = sim.process().disk;
                assert!(disk.exists(Path::new("/data/jobs/old/checkpoints/deep/b")).unwrap());
                jobs.delete("old").unwrap();
            }
            Err(error) => assert!(matches!(error, JobsError::Unknown(_)), "{error}"),
        }
        assert_eq!(left(&sim), Vec::<PathBuf>::new(), "operation {operations}");
        let again = jobs.delete("old");
        assert!(matches!(again, Err(JobsError::Unknown(_))), "operation {operations}: {again:?}");
        jobs.close();
        streams.close();
        if deleted.is_ok() {
            assert!(!was_there && operations > 8, "each operation failed once");
            break;
        }
    }
}

#[test]
fn what_is_left_of_a_deletion_is_none_of_a_new_job_of_that_name() {
    let sim = World::simulated(1);
    ended(&sim);
    let (jobs, streams) = open(&sim);
    sim.disk.put("/in.ndjson", b"a line\n");
    let world = World { disk: sim.process().disk, ..World::real() };
    let folder = Folder::at(&world, Path::new("/data/jobs/old"));
    folder.begin_deletion().unwrap();
    jobs.state().jobs.remove("old");
    let text = JOB.to_owned();
    let submission = Submission { text, file: "job.yaml".into(), ..Default::default() };
    jobs.submit(submission).unwrap();
    assert!(!world.disk.exists(Path::new("/data/jobs/old/checkpoints/deep/b")).unwrap());
    assert!(!folder.is_deleted().unwrap());
    jobs.close();
    streams.close();
}

#[test]
fn names_that_lead_elsewhere_and_jobs_that_are_wanted_are_refused() {
    let sim = World::simulated(1);
    ended(&sim);
    let (jobs, streams) = open(&sim);
    sim.disk.put(
        "/data/old/deleted.json",
        &serde_json::to_vec(&record("old", Status::Finished)).unwrap(),
    );
    for name in ["../old", "/data/old", "", "none", "old/."] {
        let error = jobs.delete(name).expect_err(name);
        assert!(matches!(error, JobsError::Unknown(_)), "{name}: {error}");
    }
    assert!(sim.process().disk.exists(Path::new("/data/old/deleted.json")).unwrap());
    // Nobody listens there, so it waits whenever it has been tried.
    let text =
        JOB.replace("file: {path: /in.ndjson,", "kafka: {brokers: \"127.0.0.1:1\", topic: t,");
    let waits = JobRecord { text, ..record("waits", Status::Running) };
    assert!(jobs.enter_waiting(waits).is_ok());
    let error = jobs.delete("waits").expect_err("it is wanted");
    assert!(error.to_string().contains("`tidemill job cancel waits`"), "{error}");
    jobs.close();
    streams.close();
}

/// It may be wanted still, or keep something on a server: nobody but its owner knows.
#[test]
fn of_a_job_that_cannot_be_read_it_is_said_what_to_do() {
    let sim = World::simulated(3);
    ended(&sim);
    let disk = sim.process().disk;
    let file = Path::new("/data/jobs/old/job.json");
    let good = disk.read(file).unwrap();
    for bytes in [&b"{"[..], &good[..good.len() / 2], &[b"x", &good[1..]].concat()] {
        disk.create(file).unwrap().append(bytes).unwrap();
        let (jobs, streams) = open(&sim);
        assert!(jobs.list().is_empty());
        let deleted = jobs.delete("old").unwrap_err();
        let again = Submission { text: JOB.to_owned(), ..Submission::default() };
        let submitted = jobs.submit(again).unwrap_err();
        for error in [deleted, submitted] {
            assert!(matches!(error, JobsError::Damaged { .. }), "{error:?}");
            let said = error.to_string();
            assert!(said.contains("job.json") && said.contains("remove the folder"), "{said}");
        }
        assert!(matches!(jobs.delete("older"), Err(JobsError::Unknown(_))));
        assert_eq!(disk.read(file).unwrap(), bytes, "nothing is changed");
        jobs.close();
        streams.close();
    }
}

/// Nobody was told of a job, so nobody would delete what is left of it.
#[test]
fn a_job_that_is_refused_leaves_no_folder_and_takes_none() {
    let sim = World::simulated(4);
    let disk = sim.process().disk;
    disk.create(Path::new("/in.ndjson")).unwrap();
    let (jobs, streams) = open(&sim);
    let text = format!("{JOB}checkpoint: {{every: 1s}}\n");
    // Its checkpoints are opened to see that there is none of this number.
    let of = Submission { text, from: Some(CheckpointNumber(9)), ..Submission::default() };
    let submit = || jobs.submit(of.clone());
    let error = submit().unwrap_err().to_string();
    assert!(error.contains("no checkpoint 9"), "{error}");
    assert_eq!(left(&sim), Vec::<PathBuf>::new());
    // A folder that was there is somebody's.
    let folder = Path::new("/data/jobs/old");
    disk.create_dir_all(folder).unwrap();
    disk.create(&folder.join("notes.txt")).unwrap().append(b"mine").unwrap();
    submit().unwrap_err();
    assert_eq!(disk.read(&folder.join("notes.txt")).unwrap(), b"mine");
    assert!(!disk.exists(&folder.join("job.json")).unwrap());
    jobs.close();
    streams.close();
}
