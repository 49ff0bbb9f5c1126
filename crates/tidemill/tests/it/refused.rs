//! Jobs and arguments that are refused: exit code 2, the place, and nothing written.

use crate::house::{House, flights};

const JOB: &str = "\
name: delays
sources:
  flights:
    file: {path: flights.csv, format: csv}
stages:
  late:
    from: flights
    where: delay > 15
sinks:
  out: {from: late, file: {path: out.ndjson, format: json}}
";

#[test]
fn bad_jobs_are_refused_before_anything_starts() {
    for (from, to, expected) in [
        ("where: delay > 15", "where: dely > 15", "job.yaml:8:12: error: "),
        ("where: delay > 15", "where: delay > 15 +", "job.yaml:8:"),
        ("where: delay > 15", "where: delay", "job.yaml:8:12: error: "),
        ("where: delay > 15", "where: carrier > 15 and nosuch(delay)", "job.yaml:8:"),
        ("where:", "wher:", "job.yaml:8:5: error: unknown field `wher`, expected one of `from`,"),
        (
            "from: flights",
            "from: flight",
            "job.yaml:7:11: error: there is no source or stage `flight`",
        ),
        ("path: flights.csv", "path: flight.csv", "job.yaml:4:18: error: "),
        (
            "from: flights",
            "from: late",
            "job.yaml:7:11: error: stages read each other in a loop: late -> late",
        ),
        (
            "where: delay > 15",
            "key: [carier]\n    window: {global: {}}\n    aggregate: {n: count(*)}",
            "job.yaml:8:11: error: unknown column `carier`",
        ),
        (
            "where: delay > 15",
            "window: {tumbling: 1d}\n    aggregate: {n: count(*)}",
            "job.yaml:8:13: error: it needs event time, which `flights` does not have",
        ),
        (
            "where: delay > 15",
            "window: {global: {}}\n    aggregate: {n: count(dely)}",
            "job.yaml:9:",
        ),
    ] {
        let house = House::new();
        house.write("flights.csv", &flights(10));
        assert!(JOB.contains(from), "{from}");
        house.write("job.yaml", &JOB.replacen(from, to, 1));
        for command in ["run", "validate"] {
            let ran = house.run(&[command, "job.yaml"]).ends_with(2);
            let stderr = ran.stderr();
            assert!(stderr.starts_with(expected), "{to}:\n{stderr}");
            assert!(stderr.contains('^'), "the line is shown: {stderr}");
            assert!(!house.path("out.ndjson").exists(), "{to}");
        }
    }
}

#[test]
fn a_job_with_streams_is_valid_and_does_not_run_without_a_log() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    let job = JOB.replacen("file: {path: out.ndjson, format: json}", "stream: results", 1);
    house.write("job.yaml", &job);
    let stderr = house.run(&["run", "job.yaml"]).ends_with(2).stderr();
    let expected = "job.yaml:10:29: error: a stream is in a node's log, and there is none here";
    assert!(stderr.starts_with(expected), "{stderr}");
    assert!(stderr.contains('^'), "the line is shown: {stderr}");
    let stdout = house.run(&["validate", "job.yaml"]).ends_with(0).stdout();
    assert!(stdout.contains("not checked, for want of a node: the streams"), "{stdout}");
}

/// Nothing has to be opened to know it.
#[test]
fn a_sink_with_which_the_job_could_not_go_on_is_found_by_validate() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    let lossy = format!("{JOB}delivery: at-most-once\ncheckpoint: {{every: 1s}}\n");
    for format in ["parquet", "arrow"] {
        house.write("job.yaml", &lossy.replace("format: json", &format!("format: {format}")));
        for line in [&["validate", "job.yaml"][..], &["run", "job.yaml", "--data", "data"]] {
            let stderr = house.run(line).ends_with(2).stderr();
            let expected = "job.yaml:10:54: error: what it writes is whole only at its end";
            assert!(stderr.starts_with(expected), "{stderr}");
        }
    }
    let letters = "{from: dead_letter, file: {path: bad.parquet, format: parquet}}";
    house.write("job.yaml", &lossy.replace("sinks:", &format!("sinks:\n  bad: {letters}")));
    let stderr = house.run(&["validate", "job.yaml"]).ends_with(2).stderr();
    assert!(stderr.starts_with("job.yaml:10:62: error: what it writes"), "{stderr}");
    // Each of the three alone is good.
    for (from, to) in [("delivery: at-most-once\n", ""), ("checkpoint: {every: 1s}\n", "")] {
        house
            .write("job.yaml", &lossy.replace("format: json", "format: parquet").replace(from, to));
        house.run(&["validate", "job.yaml"]).ends_with(0);
    }
    house.write("job.yaml", &lossy);
    house.run(&["validate", "job.yaml"]).ends_with(0);
    assert!(!house.path("data").exists());
}

#[test]
fn near_names_are_offered() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    house.write("job.yaml", &JOB.replace("delay > 15", "dely > 15"));
    let stderr = house.run(&["run", "job.yaml"]).ends_with(2).stderr();
    assert!(stderr.contains("did you mean `delay`?"), "{stderr}");
    let output = house.run(&["run", "job.yaml", "--json"]).ends_with(2).summary();
    assert_eq!(output["type"], "refused");
    assert_eq!(output["errors"][0]["line"], 8);
    assert_eq!(output["errors"][0]["nearest"], "delay");
}

#[test]
fn bad_arguments_are_refused() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    house.write("job.yaml", JOB);
    let stderr = |arguments: &[&str]| house.run(arguments).ends_with(2).stderr();
    assert!(
        stderr(&["run", "nothere.yaml"]).contains("nothere.yaml: error: there is no such file")
    );
    assert!(stderr(&["run"]).contains("Usage"));
    assert!(stderr(&["rum", "job.yaml"]).contains("run"));
    assert!(stderr(&["run", "job.yaml", "--threads", "0"]).contains("--threads"));
    assert!(stderr(&["run", "job.yaml", "--resume"]).contains("--data"));
    let message = stderr(&["run", "job.yaml", "--set", "stages.lat.where=x"]);
    assert!(message.contains("did you mean `late`?"), "{message}");
    house.write("binary.yaml", "\u{0}\u{1}");
    assert!(stderr(&["run", "binary.yaml"]).contains("binary.yaml:"));
    assert!(!house.path("out.ndjson").exists());
}

/// A node that the environment names is one to ask if nothing else is said, and no contradiction.
#[test]
fn a_folder_is_asked_whatever_node_the_environment_names() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    house.write("job.yaml", JOB);
    for line in [
        &["checkpoint", "list", "job.yaml", "--data", "none"][..],
        &["state", "query", "job.yaml", "late", "select 1 from state", "--data", "none"],
    ] {
        let ran = house.tidemill(line).env("TIDEMILL_HTTP", "127.0.0.1:1").output();
        let ran = ran.expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(2), "{said}");
        assert!(said.contains("no job with a ledger or checkpoints ran there"), "{said}");
        let both = house.tidemill(line).args(["--http", "127.0.0.1:1"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&both.stderr).into_owned();
        assert!(both.status.code() == Some(2) && said.contains("cannot be used with"), "{said}");
    }
    let ran = house.tidemill(&["job", "list"]).env("TIDEMILL_HTTP", "127.0.0.1:1").output();
    let said = String::from_utf8_lossy(&ran.expect("it runs").stderr).into_owned();
    assert!(said.contains("127.0.0.1:1"), "{said}");
}

#[test]
fn what_is_to_be_logged_is_refused_if_it_cannot_be_read() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    house.write("job.yaml", JOB);
    let logs = |line: &[&str], log: &str| {
        let ran = house.tidemill(line).env("TIDEMILL_LOG", log).output().expect("it runs");
        (ran.status.code(), String::from_utf8_lossy(&ran.stderr).into_owned())
    };
    for line in [&["run", "job.yaml"][..], &["serve", "--data", "node", "--http-listen", "nowhere"]]
    {
        let (code, said) = logs(line, "debg");
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("TIDEMILL_LOG: error: `debg` is no level"), "{said}");
        assert!(said.contains("did you mean `debug`?"), "{said}");
    }
    assert!(!house.path("out.ndjson").exists() && !house.path("node").exists());
    let (_, said) = logs(&["serve", "--http-listen", "nowhere"], "debg");
    assert!(said.contains("--http-listen: error:"), "what else is wrong is said too: {said}");
    // A level for one part is no silence of the others.
    let warned = JOB.replace("format: csv}", "format: csv}\n    time: {field: carrier}");
    house.write("job.yaml", &warned);
    let (code, said) = logs(&["run", "job.yaml"], "tidemill_flow=debug");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("WARN tidemill::cli::load"), "{said}");
}

#[test]
fn every_refusal_of_a_run_is_an_object_for_scripts() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    let counted = "key: [carrier]\n    window: {global: {}}\n    aggregate: {n: count(*)}";
    let job = JOB.replace("where: delay > 15", counted);
    house.write("job.yaml", &format!("{job}checkpoint: {{every: 1s}}\n"));
    house.write("other.yaml", &JOB.replace("name: delays", "name: other"));
    house.run(&["run", "job.yaml", "--data", "data"]).ends_with(0);
    let whole = "sinks.out.file={path: out.parquet, format: parquet}";
    for (arguments, says) in [
        (&["job.yaml", "--data", "/proc/x"][..], "/proc/x"),
        (&["job.yaml", "--set", "sinks.out.file.path=/proc/x/y"], "cannot be written"),
        (&["other.yaml", "--data", "data"], "belongs to job `delays`"),
        (&["job.yaml", "--data", "data", "--checkpoint", "9999"], "9999"),
        (&["job.yaml", "--data", "data", "--resume", "--set", "slices=3"], "slices"),
        (&["job.yaml", "--data", "new", "--set", "delivery=at-most-once", "--set", whole], "whole"),
    ] {
        let ran = house.run(&[&["run"], arguments, &["--json"]].concat()).ends_with(2);
        assert_eq!(ran.stderr(), "", "{arguments:?}");
        let refused = ran.summary();
        assert_eq!(refused["type"], "refused", "{arguments:?}: {refused}");
        let error = &refused["errors"][0];
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains(says), "{arguments:?}: {message}");
        assert!(error["file"].as_str().is_some_and(|it| it.ends_with(".yaml")), "{refused}");
    }
}

#[test]
fn a_job_that_is_refused_leaves_no_folder_that_it_made() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    let backend = |name: &str| format!("checkpoint={{every: 1s, backend: {{{name}: {{}}}}}}");
    let (indexed, files) = (backend("indexed"), backend("files"));
    house.write("job.yaml", &JOB.replace("path: out.ndjson", "path: /proc/x/y"));
    for more in [&[][..], &["--set", &indexed], &["--set", &files], &["--resume"]] {
        for data in ["new", "new/in/new", "./new"] {
            let line = [&["run", "job.yaml", "--data", data], more].concat();
            let stderr = house.run(&line).ends_with(2).stderr();
            assert!(stderr.contains("/proc/x/y"), "{line:?}: {stderr}");
            assert!(!house.path("new").exists(), "{line:?}: {:?}", house.contents());
        }
    }
    // What was there stays, and so does what somebody put there.
    for folder in ["old", "old/in"] {
        std::fs::create_dir(house.path(folder)).expect("a folder can be made");
    }
    house.run(&["run", "job.yaml", "--data", "old/in"]).ends_with(2);
    house.run(&["run", "job.yaml", "--data", "old/new"]).ends_with(2);
    assert!(house.path("old/in").exists() && !house.path("old/new").exists());
    house.write("job.yaml", JOB);
    house.run(&["run", "job.yaml", "--data", "new"]).ends_with(0);
    let before = house.contents();
    let line = ["run", "job.yaml", "--data", "new", "--checkpoint", "7", "--set", &indexed];
    house.run(&line).ends_with(2);
    let after = house.contents();
    assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)));
}

#[test]
fn what_is_wrong_with_a_question_is_json_for_scripts() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    let counted = "key: [carrier]\n    window: {global: {}}\n    aggregate: {n: count(*)}";
    let job = JOB.replace("where: delay > 15", counted);
    house.write("job.yaml", &format!("{job}checkpoint: {{every: 1s}}\n"));
    house.run(&["run", "job.yaml", "--data", "data"]).ends_with(0);
    let data = ["--data", "data"];
    let query = |sql| [&["state", "query", "job.yaml", "late", sql], &data[..]].concat();
    let nowhere = ["--http", "127.0.0.1:1"];
    for (line, code) in [
        (vec!["checkpoint", "list", "job.yaml", "--data", "none"], 2),
        ([&["checkpoint", "inspect", "job.yaml", "77"], &data[..]].concat(), 2),
        (query("SELECT n FROM state"), 2),
        ([&["state", "tables", "no.yaml"], &data[..]].concat(), 2),
        ([&["job", "list"], &nowhere[..]].concat(), 1),
        ([&["checkpoint", "list", "j"], &nowhere[..]].concat(), 1),
        ([&["state", "tables", "j"], &nowhere[..]].concat(), 1),
    ] {
        let said = house.run(&line).ends_with(code);
        let (stdout, stderr) = (said.stdout(), said.stderr());
        assert!(stdout.is_empty() && stderr.contains("error: "), "{line:?}: {stderr}");
        let told = house.run(&[&line[..], &["--json"]].concat()).ends_with(code);
        assert_eq!(told.stderr(), "", "{line:?}");
        let told = told.summary();
        if told["type"] == "refused" {
            continue;
        }
        let message = told["error"].as_str().expect("a message");
        assert!(stderr.contains(message), "{line:?}: {stderr}{message}");
    }
}

#[test]
fn bench_says_in_one_line_where_the_benchmarks_are() {
    let house = House::new();
    for arguments in
        [&["bench"][..], &["bench", "relay", "--message-bytes", "100"], &["bench", "--help"]]
    {
        let ran = house.run(arguments).ends_with(2);
        let said = ran.stderr();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("cargo build --release -p tidemill-bench"), "{said}");
    }
    let ran = house.run(&["bench", "relay", "--message-bytes", "100"]);
    assert!(
        ran.stderr().contains("`tidemill-bench relay --message-bytes 100`"),
        "{}",
        ran.stderr()
    );
}

#[test]
fn unseen_characters_are_named_by_code_point() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    for (from, to, expected) in [
        ("where: delay", "where: del\u{430}y", "U+0430 (Cyrillic letter) as character 4"),
        (
            "where: delay > 15",
            "top: {k: 1, by: d\u{435}lay}",
            "U+0435 (Cyrillic letter) as character 2",
        ),
        (
            "where: delay > 15",
            "dedup: {on: [\"del\u{200b}ay\"]}",
            "U+200B (zero width space) as character 4",
        ),
        (
            "where: delay > 15",
            "select: {x: \"r\u{43e}und(delay)\"}",
            "U+043E (Cyrillic letter) as character 2",
        ),
        ("    from: flights", "    fr\u{43e}m: flights", "U+043E (Cyrillic letter) as character 3"),
        ("from: flights", "from: \"flights\u{a0}\"", "U+00A0 (no-break space) as character 8"),
        ("from: late,", "from: \"l\u{200f}ate\",", "U+200F (right-to-left mark) as character 2"),
        ("format: csv", "format: \"cs\u{2060}v\"", "U+2060 (word joiner) as character 3"),
        (
            "format: csv}",
            "format: csv, schema: {dela\u{443}: int}}",
            "U+0443 (Cyrillic letter) as character 5",
        ),
        (
            "format: csv}",
            "format: csv, schema: {delay: \"b\u{456}gint\"}}",
            "U+0456 (Cyrillic letter) as character 2",
        ),
    ] {
        let job = JOB.replacen(from, to, 1);
        assert_ne!(job, JOB, "{from}");
        house.write("job.yaml", &job);
        let ran = house.run(&["validate", "job.yaml"]).ends_with(2);
        assert!(ran.stderr().contains(expected), "{to}: {}", ran.stderr());
    }
    // The name in the file has it, and the job is right.
    house.write("flights.csv", "carrier,del\u{200b}ay,ts\nAA,20,1\n");
    house.write("job.yaml", JOB);
    let ran = house.run(&["validate", "job.yaml"]).ends_with(2);
    let said = ran.stderr();
    assert!(said.contains("did you mean `del\u{200b}ay`? (the name has U+200B"), "{said}");
}

#[test]
fn compression_is_warned_of() {
    let house = House::new();
    house.write("flights.csv", &flights(10));
    house.write("job.yaml", &format!("compression: always\n{JOB}"));
    for command in ["validate", "run"] {
        let ran = house.run(&[command, "job.yaml"]).ends_with(0);
        assert!(
            ran.stderr().contains("`compression` has no effect"),
            "{command}: {}",
            ran.stderr()
        );
    }
}
