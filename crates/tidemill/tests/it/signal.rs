//! Ctrl-C stops a running job at the end of a cycle.

use crate::house::House;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

const JOB: &str = "
name: long
cycle: {records: 1000}
sources:
  in: {file: {path: in.csv, format: csv}}
stages:
  kept: {from: in, where: k >= 0, select: {k: k, text: v}}
sinks:
  out: {from: kept, file: {path: out.csv, format: csv}}
";

#[test]
fn ctrl_c_stops_at_the_end_of_a_cycle() {
    let house = House::new();
    let lines = "1,some text of a record that takes a while to be read\n".repeat(20_000);
    let mut text = "k,v\n".to_owned();
    (0..100).for_each(|_| text.push_str(&lines));
    house.write("in.csv", &text);
    house.write("job.yaml", JOB);
    let mut child = house
        .tidemill(&["run", "job.yaml", "--json", "--threads", "1"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary can be run");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    // The first object comes while the job runs.
    let first = lines.next().expect("a line").expect("text");
    assert!(first.contains("\"progress\""), "the input is too short for this machine: {first}");
    kill_process(Pid::from_child(&child), Signal::INT).expect("the process is there");
    let last = lines.map(|line| line.expect("text")).last().expect("a summary");
    let status = child.wait().expect("an end");
    assert_eq!(status.code(), Some(130), "{last}");
    let summary: serde_json::Value = serde_json::from_str(&last).expect("the summary is JSON");
    assert_eq!(summary["end"], "stopped");
    let rows = summary["sinks"][0]["rows"].as_u64().expect("a count");
    assert!(rows > 0 && rows < 2_000_000, "{summary}");
    // What is in the file are whole rows, exactly those that were committed.
    let out = house.read("out.csv");
    assert_eq!(out.lines().count() as u64, rows + 1);
    assert!(out.ends_with('\n'));
}
