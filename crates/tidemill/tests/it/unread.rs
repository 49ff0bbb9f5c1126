//! Who reads what the program says may go away, and folders may have any name.

use crate::house::House;
use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Read},
    os::unix::ffi::OsStrExt,
    process::Stdio,
};

const JOB: &str = "
name: some
sources:
  in: {file: {path: in.csv, format: csv}}
sinks:
  out: {from: in, file: {path: out.parquet, format: parquet}}
";

fn house() -> House {
    let house = House::new();
    house.write("job.yaml", JOB);
    house.write("in.csv", "k,v\n1,a\n2,b\n");
    house
}

/// What the program ends with, if nobody reads one of its outputs.
fn ends_unread(house: &House, arguments: &[&str], stdout: bool) -> Option<i32> {
    let (out, err) = match stdout {
        true => (Stdio::piped(), Stdio::null()),
        false => (Stdio::null(), Stdio::piped()),
    };
    let mut command = house.tidemill(arguments);
    let mut child = command.stdout(out).stderr(err).spawn().expect("the binary can be run");
    drop((child.stdout.take(), child.stderr.take()));
    child.wait().expect("an end").code()
}

#[test]
fn a_job_is_done_though_nobody_reads_what_is_said_of_it() {
    let house = house();
    assert_eq!(ends_unread(&house, &["run", "job.yaml"], false), Some(0));
    let mut whole = Vec::new();
    let mut file = std::fs::File::open(house.path("out.parquet")).expect("the file is whole");
    file.read_to_end(&mut whole).expect("it can be read");
    assert!(whole.ends_with(b"PAR1"));
}

#[test]
fn a_refusal_has_its_code_though_nobody_reads_it() {
    let house = house();
    house.write("bad.yaml", "name: 7\nsink: {}\n");
    for arguments in [&["validate", "bad.yaml"][..], &["run", "bad.yaml"], &["job", "submit", "no"]]
    {
        assert_eq!(ends_unread(&house, arguments, false), Some(2), "{arguments:?}");
    }
    for arguments in [&["validate", "bad.yaml", "--json"][..], &["run", "bad.yaml", "--json"]] {
        assert_eq!(ends_unread(&house, arguments, true), Some(2), "{arguments:?}");
    }
}

#[test]
fn a_job_in_a_folder_whose_name_is_no_text_runs_and_is_not_given_to_a_node() {
    let house = House::new();
    let folder = house.path("").join(OsStr::from_bytes(b"odd-\xff"));
    std::fs::create_dir(&folder).expect("a folder can be made");
    std::fs::write(folder.join("job.yaml"), JOB).expect("a file can be written");
    std::fs::write(folder.join("in.csv"), "k,v\n1,a\n").expect("a file can be written");
    let run = |arguments: &[&str]| {
        let mut command = house.tidemill(arguments);
        command.current_dir(&folder).output().expect("the binary can be run")
    };
    let submitted = run(&["job", "submit", "job.yaml"]);
    let said = String::from_utf8_lossy(&submitted.stderr);
    assert_eq!(submitted.status.code(), Some(2), "{said}");
    assert!(said.contains("not UTF-8") && said.contains("odd-"), "{said}");
    let ran = run(&["run", "job.yaml", "--data", "."]);
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// What the program ends with and says, if its standard output is on a full disk.
#[cfg(target_os = "linux")]
fn ends_on_a_full_disk(house: &House, arguments: &[&str]) -> (Option<i32>, String) {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
    let ran = house.tidemill(arguments).stdout(full).output().expect("the binary can be run");
    (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
}

#[test]
#[cfg(target_os = "linux")]
fn what_is_lost_on_a_full_disk_is_a_failure() {
    let house = house();
    for arguments in [
        &["run", "job.yaml", "--json"][..],
        &["run", "job.yaml"],
        &["validate", "job.yaml"],
        &["job", "schema"],
        &["--help"],
        &["run", "--help"],
        &["--version"],
    ] {
        let (code, said) = ends_on_a_full_disk(&house, arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(said.contains("error: standard output: "), "{arguments:?}: {said}");
        assert_eq!(said.matches("error:").count(), 1, "{arguments:?}: {said}");
        assert!(!said.contains("next:"), "{arguments:?}: {said}");
    }
    // What was refused keeps its code, and a job that shows nothing loses nothing.
    house.write("bad.yaml", "name: 7\nsink: {}\n");
    assert_eq!(ends_on_a_full_disk(&house, &["run", "bad.yaml", "--json"]).0, Some(2));
    assert_eq!(ends_on_a_full_disk(&house, &["run", "job.yaml", "-q"]), (Some(0), String::new()));
    assert_eq!(ends_on_a_full_disk(&house, &["run", "job.yaml", "--preview", "0"]).0, Some(0));
}

#[test]
fn a_reader_of_the_summary_or_of_help_may_go_away() {
    let house = house();
    for arguments in [&["run", "job.yaml", "--json"][..], &["run", "job.yaml"], &["--help"]] {
        assert_eq!(ends_unread(&house, arguments, true), Some(0), "{arguments:?}");
    }
}

/// No row comes that could be refused: the program has to look.
#[test]
fn a_live_job_ends_when_its_reader_has_gone_though_nothing_comes() {
    let house = house();
    let lossy = "delivery: at-least-once\n";
    let fill = JOB.replace("file: {path: out.parquet, format: parquet}", "stream: {name: s}");
    house.write("fill.yaml", &format!("{lossy}{fill}"));
    house.run(&["run", "fill.yaml", "--data", "data", "-q"]).ends_with(0);
    let live = "name: live\nsources: {in: {stream: s, format: json}}\nsinks: {out: {from: in, stdout: {}}}\n";
    house.write("live.yaml", &format!("{lossy}{live}"));
    for more in [&[][..], &["--json"], &["-q"]] {
        let line = [&["run", "live.yaml", "--data", "data"], more].concat();
        let mut command = house.tidemill(&line);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
        let mut rows = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let two: Vec<String> = rows.by_ref().take(2).map(|row| row.expect("text")).collect();
        assert!(two.iter().all(|row| row.starts_with("{\"k\":")), "{two:?}");
        drop(rows);
        let ended = child.wait_with_output().expect("an end");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(0), "{said}");
        assert!(!said.contains("stopped") && !said.contains("next:"), "{said}");
        assert_eq!(said.contains("reads standard output any more"), more.is_empty(), "{said}");
    }
}

/// The other file of a job that ends by itself is whole, whoever reads the rows beside it.
#[test]
fn a_job_that_ends_by_itself_is_not_cut_short_by_its_reader() {
    let house = house();
    let rows: String = (0..200_000).map(|n| format!("{n},a\n")).collect();
    house.write("in.csv", &format!("k,v\n{rows}"));
    let few = "  few: {from: first, stdout: {}}\n";
    let job = JOB.replace("parquet", "csv");
    let job = job.replace("sinks:", "stages: {first: {from: in, where: k < 1}}\nsinks:");
    house.write("job.yaml", &format!("{job}{few}"));
    let mut command = house.tidemill(&["run", "job.yaml", "-q", "--threads", "1"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it runs");
    let mut row = String::new();
    BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut row).expect("a row");
    assert_eq!(child.wait().expect("an end").code(), Some(0));
    assert_eq!(house.read("out.csv").lines().count(), 200_001);
}
