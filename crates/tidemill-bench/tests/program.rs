//! The program from the outside: its report, exit codes, and a second process of its own.

use std::process::{Command, Output, Stdio};

const IDLE: [&str; 5] = ["idle", "--slices", "4", "--seconds", "0.1"];

fn bench(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill-bench"));
    command.args(arguments);
    command
}

fn run(arguments: &[&str]) -> Output {
    bench(arguments).output().expect("the program can be run")
}

#[test]
fn a_workload_reports_in_one_line_of_json() {
    let ran = run(&[&IDLE[..], &["--json"]].concat());
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert_eq!(report["workload"], "idle");
    assert!(report["core_share"].as_f64().is_some_and(|it| it >= 0.0), "{report}");
}

#[test]
fn a_relay_over_tcp_starts_its_middle_process_and_counts_allocations() {
    let tcp = ["relay", "--exchange", "tcp", "--seconds", "0.2", "--warmup", "0.1", "--json"];
    let ran = run(&tcp);
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let report: serde_json::Value = serde_json::from_slice(&ran.stdout).expect("JSON");
    assert!(report["items"].as_u64().is_some_and(|it| it > 0), "{report}");
    assert!(report["allocations_per_million_items"].is_number(), "{report}");
}

#[test]
fn wrong_arguments_are_refused() {
    let ran = run(&["juggle"]);
    assert_eq!(ran.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&ran.stderr).contains("juggle"));
}

#[test]
#[cfg(target_os = "linux")]
fn a_report_lost_on_a_full_disk_is_a_failure() {
    for arguments in [&IDLE[..], &["--help"], &["--version"]] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
        let ran = bench(arguments).stdout(full).output().expect("the program can be run");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(1), "{arguments:?}: {said}");
        assert_eq!(said.matches("error: standard output: ").count(), 1, "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_of_a_report_may_go_away() {
    let mut child = bench(&IDLE).stdout(Stdio::piped()).spawn().expect("it runs");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("an end").code(), Some(0));
}
