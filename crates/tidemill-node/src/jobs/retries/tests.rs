//! A job for which something is away waits, and is started, cancelled or failed.

use super::*;
use crate::jobs::{Folder, Submission, tests::Node};
use std::{fs, net::TcpListener};
use tempfile::TempDir;
use tidemill_env::World;
use tidemill_types::job::Delivery;

/// A wanted job, as an earlier life of the node has left it.
fn wanted(folder: &TempDir, text: &str) {
    let record = JobRecord {
        name: "far".to_owned(),
        status: Status::Running,
        delivery: Delivery::default(),
        submitted_us: 1,
        file: "job.yaml".to_owned(),
        text: text.to_owned(),
        set: Vec::new(),
        base_dir: Some(folder.path().to_owned()),
        threads: None,
        begins: None,
        before: None,
    };
    Folder::at(&World::real(), &folder.path().join("jobs/far")).write(&record).unwrap();
}

/// An address where nobody listens.
fn nobody() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

fn job(source: &str, sink: &str, more: &str) -> String {
    format!(
        "name: far\nsources: {{in: {{{source}}}}}\nsinks: {{out: {{from: in, {sink}}}}}\n{more}"
    )
}

const FILE: &str = "file: {path: in.csv, format: csv}";
const NOWHERE: &str = "blackhole: {}";

fn waits_for(view: &JobView, at: &str) -> bool {
    matches!(&view.status, Status::Waiting(why) if why.contains(at))
}

#[test]
fn rests_grow_from_a_second_to_a_minute() {
    let seconds: Vec<u64> = (1..=9).map(|it| rest_us(it) / 1_000_000).collect();
    assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 60, 60]);
    assert_eq!((rest_us(0), rest_us(u32::MAX)), (0, 60_000_000));
}

#[test]
fn what_is_away_is_waited_for_in_every_life_until_the_job_is_cancelled() {
    let at = nobody();
    let kafka = format!("kafka: {{brokers: \"{at}\", topic: t, format: text}}");
    let topic = format!("kafka: {{brokers: \"{at}\", topic: t, format: json}}");
    let table = format!("postgres: {{url: \"postgres://u@{at}/d\", table: t}}");
    for text in [job(&kafka, NOWHERE, ""), job(FILE, &topic, ""), job(FILE, &table, "")] {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("in.csv"), "a\n1\n").unwrap();
        wanted(&folder, &text);
        for _ in 0..2 {
            let node = Node::open(&folder);
            let view = node.wait("far", |it| waits_for(it, &at));
            assert!(view.next_try_us > Some(view.submitted_us));
            node.stop();
        }
        let node = Node::open(&folder);
        let again = node.jobs.submit(Submission { text: text.clone(), ..Default::default() });
        assert!(matches!(again, Err(JobsError::Waiting(_))), "{again:?}");
        let view = node.jobs.cancel("far").unwrap();
        assert_eq!((&view.status, view.next_try_us), (&Status::Cancelled, None));
        node.stop();
        let node = Node::open(&folder);
        assert_eq!(node.jobs.get("far").unwrap().status, Status::Cancelled);
        let error = node.jobs.submit(Submission { text, ..Default::default() });
        assert!(error.is_err(), "a submission is refused at once");
        node.jobs.delete("far").unwrap();
        node.stop();
        assert!(!folder.path().join("jobs/far").exists());
    }
}

#[test]
fn a_server_of_checkpoints_that_is_away_is_waited_for_and_a_bad_job_is_not() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("in.csv"), "a\n1\n").unwrap();
    let at = nobody();
    let more =
        format!("checkpoint: {{every: 1s, backend: {{redis: {{url: \"redis://{at}\"}}}}}}\n");
    wanted(&folder, &job(FILE, NOWHERE, &more));
    let node = Node::open(&folder);
    node.wait("far", |it| waits_for(it, &at));
    node.jobs.cancel("far").unwrap();
    let refused = node.jobs.delete("far").expect_err("what it keeps there cannot be deleted");
    assert!(refused.to_string().contains(&at), "{refused}");
    assert!(node.jobs.get("far").is_ok(), "and nothing was");
    node.stop();

    // One thing that is away does not hide what is wrong.
    let kafka = format!("kafka: {{brokers: \"{at}\", topic: t, format: text}}");
    let bad = format!(
        "name: far\nsources: {{in: {{{kafka}}}, it: {{file: {{path: none, format: text}}}}}}\nsinks: {{out: {{from: [in, it], blackhole: {{}}}}}}\n"
    );
    wanted(&folder, &bad);
    let node = Node::open(&folder);
    let failed = |it: &JobView| matches!(&it.status, Status::Failed(why) if why.contains("none"));
    node.wait("far", failed);
    node.stop();
}

/// A server that takes connections and says nothing holds the jobs up that need it, and nobody else.
#[test]
fn a_node_answers_while_the_servers_of_its_jobs_say_nothing() {
    let folder = TempDir::new().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap();
    let kafka = format!("kafka: {{brokers: \"{at}\", topic: t, format: text}}");
    wanted(&folder, &job(&kafka, NOWHERE, ""));
    let world = World::real();
    let began_us = world.clock.monotonic_micros();
    let node = Node::open(&folder);
    let took_us = world.clock.monotonic_micros() - began_us;
    let view = node.jobs.get("far").unwrap();
    let Status::Waiting(why) = &view.status else { panic!("{view:?} after {took_us} us") };
    assert!(why.contains("being started"), "it answered before the broker was given up: {why}");
    assert_eq!(node.jobs.cancel("far").unwrap().status, Status::Cancelled);
    node.stop();
    drop(silent);
}
