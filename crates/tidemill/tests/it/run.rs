//! Jobs that run: results, summaries, dead letters, the same bytes every time.

use crate::house::{House, examples, flights};
use std::path::Path;

const JOB: &str = "
name: delays
sources:
  flights:
    file: {path: flights.csv, format: csv}
    time: {field: ts, lateness: 1h}
stages:
  late:
    from: flights
    where: delay > 15
  by_carrier:
    from: late
    key: [carrier]
    window: {tumbling: 1d}
    aggregate: {n: count(*), worst: max(delay)}
  top:
    from: by_carrier
    top: {k: 2, by: n, per: [window_start]}
sinks:
  out: {from: top, file: {path: out.ndjson, format: json}}
";

fn house() -> House {
    let house = House::new();
    house.write("job.yaml", JOB);
    house.write("flights.csv", &flights(3_000));
    house
}

#[test]
fn a_job_runs_to_its_end_and_shows_its_results() {
    let house = house();
    let ran = house.run(&["run", "job.yaml"]).ends_with(0);
    let out = house.read("out.ndjson");
    let rows: Vec<serde_json::Value> =
        out.lines().map(|line| serde_json::from_str(line).expect("a row is JSON")).collect();
    // 3,000 minutes touch four days, each with three carriers, of which two are kept.
    assert_eq!(rows.len() % 2, 0, "{out}");
    let total: u64 = rows.iter().map(|row| row["n"].as_u64().expect("a count")).sum();
    assert!((1..2_040).contains(&total), "{total}");
    assert!(rows.iter().all(|row| row["worst"] == 49), "{out}");
    let (stdout, stderr) = (ran.stdout(), ran.stderr());
    assert!(stdout.contains("out (out.ndjson)"), "{stdout}");
    assert!(stdout.contains("window_start") && stdout.contains("worst"), "{stdout}");
    assert!(!stdout.contains("__time"), "{stdout}");
    assert!(stderr.contains("job `delays` is done: 3,000 records"), "{stderr}");
    assert!(stderr.contains("next:"), "{stderr}");
}

#[test]
fn the_summary_is_json_for_scripts() {
    let house = house();
    let summary = house.run(&["run", "job.yaml", "--json"]).ends_with(0).summary();
    assert_eq!(summary["type"], "summary");
    assert_eq!(summary["end"], "done");
    assert_eq!(summary["records"], 3_000);
    assert_eq!(summary["dead_letters"], 0);
    let rows = house.read("out.ndjson").lines().count();
    assert_eq!(summary["sinks"][0]["rows"], rows);
}

#[test]
fn the_same_bytes_whatever_the_threads() {
    let house = house();
    let mut outputs = Vec::new();
    for threads in ["1", "2", "5", "2"] {
        house.run(&["run", "job.yaml", "--quiet", "--threads", threads]).ends_with(0);
        outputs.push(house.read("out.ndjson"));
    }
    assert!(!outputs[0].is_empty());
    assert!(outputs.iter().all(|it| *it == outputs[0]));
}

#[test]
fn values_are_set_from_the_command_line() {
    let house = house();
    let set = ["--set", "sinks.out.file.path=other.csv", "--set", "sinks.out.file.format=csv"];
    let arguments: Vec<&str> = ["run", "job.yaml", "-q"].into_iter().chain(set).collect();
    let ran = house.run(&arguments).ends_with(0);
    assert_eq!((ran.stdout(), ran.stderr()), (String::new(), String::new()));
    let header = house.read("other.csv");
    assert_eq!(header.lines().next(), Some("carrier,window_start,window_end,n,worst"));
}

#[test]
fn results_on_standard_output_stand_alone() {
    let house = house();
    let job = JOB.replace("file: {path: out.ndjson, format: json}", "stdout: {}");
    house.write("job.yaml", &job);
    for more in [&[][..], &["--json"][..]] {
        let arguments: Vec<&str> = ["run", "job.yaml"].iter().chain(more).copied().collect();
        let ran = house.run(&arguments).ends_with(0);
        let stdout = ran.stdout();
        assert!(!stdout.is_empty());
        for line in stdout.lines() {
            let row: serde_json::Value = serde_json::from_str(line).expect("only rows");
            assert!(row["carrier"].is_string(), "{line}");
        }
        assert!(!ran.stderr().is_empty());
    }
}

#[test]
fn bad_records_become_dead_letters_and_the_job_goes_on() {
    let house = house();
    let mut text = flights(100);
    text.push_str("AA,not a number,1000000000000\n");
    text.push_str(&flights(100).replacen("carrier,delay,ts\n", "", 1));
    house.write("flights.csv", &text);
    let job = JOB.replace("format: csv}", "format: csv, schema: {delay: int64, ts: int64}}");
    house.write("job.yaml", &job);
    let arguments = ["run", "job.yaml", "--json", "--data", "data"];
    let summary = house.run(&arguments).ends_with(0).summary();
    assert_eq!(summary["dead_letters"], 1, "{summary}");
    assert_eq!(summary["records"], 200, "{summary}");
    let reason = &summary["dead_letter_reasons"][0];
    let position = reason["position"].as_str().expect("a position");
    assert!(position.contains("102"), "the line in the file: {reason}");
    let letters = house.read("data/dead-letter.ndjson");
    assert_eq!(letters.lines().count(), 1);
    assert!(letters.contains("not a number"), "{letters}");

    let sink = "sinks:\n  bad: {from: dead_letter, file: {path: bad.ndjson, format: json}}";
    house.write("job.yaml", &job.replace("sinks:", sink));
    let ran = house.run(&["run", "job.yaml"]).ends_with(0);
    assert_eq!(house.read("bad.ndjson").lines().count(), 1);
    assert!(ran.stderr().contains("dead letters"), "{}", ran.stderr());
}

#[test]
fn a_state_that_reaches_its_budget_ends_the_job() {
    let house = house();
    let job =
        JOB.replace("{tumbling: 1d}", "{tumbling: 1000d}").replace("[carrier]", "[carrier, ts]");
    house.write("job.yaml", &format!("{job}state: {{budget: 64KiB}}\n"));
    let stderr = house.run(&["run", "job.yaml"]).ends_with(1).stderr();
    assert!(stderr.contains("by_carrier") && stderr.contains("its budget is 64KiB"), "{stderr}");
    house.run(&["run", "job.yaml", "--set", "state.budget=64MiB"]).ends_with(0);
}

#[test]
fn a_job_without_a_ledger_does_not_resume() {
    let house = house();
    let job = house.read("job.yaml").replace("name:", "delivery: at-least-once\nname:");
    house.write("job.yaml", &job);
    let ran = house.run(&["run", "job.yaml", "--data", "data", "--resume"]).ends_with(2);
    assert!(ran.stderr().contains("a job without a ledger cannot resume"), "{}", ran.stderr());
    assert!(ran.stderr().contains("job.yaml:"), "{}", ran.stderr());
}

#[test]
fn a_folder_without_an_earlier_run_is_warned_of_if_a_file_is_replaced() {
    let house = house();
    let resume = |folder| {
        let ran = house.run(&["run", "job.yaml", "--data", folder, "--resume"]).ends_with(0);
        ran.stderr().contains("holds no earlier run to resume")
    };
    assert!(!resume("data"), "there is nothing to be replaced");
    assert!(!resume("data"), "it goes on");
    let out = house.read("out.ndjson");
    house.write("flights.csv", &flights(30));
    assert!(resume("dada"));
    assert_ne!(house.read("out.ndjson"), out, "of the new input");
}

#[test]
fn a_folder_of_another_job_is_not_taken() {
    let house = house();
    house.run(&["run", "job.yaml", "--data", "data"]).ends_with(0);
    house.write("other.yaml", &JOB.replace("name: delays", "name: other").replace("out.", "more."));
    let ran = house.run(&["run", "other.yaml", "--data", "data"]).ends_with(2);
    assert!(ran.stderr().contains("belongs to job `delays`"), "{}", ran.stderr());
    assert!(ran.stderr().contains("use another --data folder"), "{}", ran.stderr());
    assert!(!house.path("more.ndjson").exists());
    house.run(&["run", "job.yaml", "--data", "data", "--resume"]).ends_with(0);
    house.run(&["run", "job.yaml", "--data", "data"]).ends_with(0);
}

#[test]
fn a_run_that_is_refused_leaves_the_one_before_it() {
    let house = house();
    house.run(&["run", "job.yaml", "--data", "data"]).ends_with(0);
    let before = house.contents();
    assert!(before.contains_key(Path::new("data/ledger")), "{:?}", before.keys());
    assert!(before.contains_key(Path::new("out.ndjson")), "{:?}", before.keys());
    house.write("flights.csv", &flights(30));
    // Nobody may write there, and nobody listens there.
    let file = "file: {path: /proc/no/such/more.ndjson, format: FORMAT}";
    let database = "postgres: {url: 'postgresql://u@127.0.0.1:1/db', table: t}";
    for (from, sink, says) in [
        ("late", file.replace("FORMAT", "json"), "more.ndjson` cannot be written"),
        ("late", file.replace("FORMAT", "parquet"), "more.ndjson` cannot be written"),
        ("late", database.to_owned(), "127.0.0.1:1"),
        ("dead_letter", file.replace("FORMAT", "json"), "more.ndjson` cannot be written"),
    ] {
        let job = format!("{}  more: {{from: {from}, {sink}}}\n", house.read("job.yaml"));
        house.write("more.yaml", &job);
        let ran = house.run(&["run", "more.yaml", "--data", "data"]).ends_with(2);
        assert!(ran.stderr().contains(says), "{}", ran.stderr());
        let mut after = house.contents();
        after.remove(Path::new("more.yaml"));
        after.insert("flights.csv".into(), before[Path::new("flights.csv")].clone());
        assert!(after == before, "{job}: {:?}", after.keys());
    }
    house.write("flights.csv", &String::from_utf8_lossy(&before[Path::new("flights.csv")]));
    house.run(&["run", "job.yaml", "--data", "data", "--resume"]).ends_with(0);
    assert_eq!(house.read("out.ndjson").as_bytes(), before[Path::new("out.ndjson")]);
}

#[test]
fn a_dead_letter_of_a_stage_says_the_stage() {
    let house = house();
    let job =
        JOB.replace("    where: delay > 15", "    select: {carrier: carrier, delay: 10 / delay}");
    house.write("job.yaml", &job);
    let ran = house.run(&["run", "job.yaml"]).ends_with(0);
    assert!(ran.stderr().contains("       late, slice "), "{}", ran.stderr());
    let summary = house.run(&["run", "job.yaml", "--json"]).ends_with(0).summary();
    assert_eq!(summary["dead_letter_reasons"][0]["stage"], "late", "{summary}");
}

#[test]
fn times_that_are_no_times_are_warned_of() {
    let house = house();
    house.write("job.yaml", &JOB.replace("field: ts", "field: carrier"));
    for command in ["validate", "run"] {
        let stderr = house.run(&[command, "job.yaml"]).ends_with(0).stderr();
        assert!(stderr.contains("records would all be dead letters"), "{stderr}");
    }
}

#[test]
fn what_is_logged_to_a_file_has_no_colours() {
    let house = house();
    let mut run = house.tidemill(&["run", "job.yaml"]);
    let ran = run.env("TIDEMILL_LOG", "trace").output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert!(said.contains("DEBUG") || said.contains("TRACE"), "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
}

#[test]
fn a_table_is_joined_whole_before_the_stream_begins() {
    let house = house();
    house.write("names.csv", "code,name\nAA,American\nDL,Delta\n");
    house.write(
        "job.yaml",
        "
name: named
sources:
  flights: {file: {path: flights.csv, format: csv}}
  names: {file: {path: names.csv, format: csv}}
stages:
  counted: {from: flights, key: [carrier], window: {global: {}}, aggregate: {n: count(*)}}
  named:
    join: {left: counted, table: names, on: [carrier = code], kind: left}
    select: {carrier: carrier, name: name, n: n}
  sorted: {from: named, top: {k: 9, by: carrier, ascending: true}}
sinks:
  out: {from: sorted, file: {path: out.csv, format: csv}}
",
    );
    house.run(&["run", "job.yaml", "-q"]).ends_with(0);
    let out = house.read("out.csv");
    assert_eq!(out, "carrier,name,n\nAA,American,1000\nDL,Delta,1000\nUA,,1000\n");
}

#[test]
fn validate_shows_the_graph_and_starts_nothing() {
    let house = house();
    let ran = house.run(&["validate", "job.yaml"]).ends_with(0);
    let stdout = ran.stdout();
    assert!(stdout.contains("job `delays` can run"), "{stdout}");
    assert!(stdout.contains("by_carrier (64 slices) <- late by key"), "{stdout}");
    assert!(!house.path("out.ndjson").exists());
    let valid = house.run(&["validate", "job.yaml", "--json"]).ends_with(0).summary();
    assert_eq!(valid["type"], "valid");
    assert_eq!(valid["stages"][0]["columns"]["carrier"], "Utf8");
}

#[test]
fn validate_needs_no_node_for_streams_and_says_what_it_left_out() {
    let house = House::new();
    let job = "name: j\nsources: {in: {stream: orders, format: json, schema: {n: bigint}}}\n\
               stages: {s: {from: in, where: n > 1}}\nsinks: {out: {from: s, stream: big}}\n";
    house.write("job.yaml", job);
    let stdout = house.run(&["validate", "job.yaml"]).ends_with(0).stdout();
    let line = "not checked, for want of a node: that the stream `orders` is there, with these \
                columns\n";
    assert!(stdout.ends_with(line), "{stdout}");
    let valid = house.run(&["validate", "job.yaml", "--json"]).ends_with(0).summary();
    assert_eq!(valid["unchecked"], "that the stream `orders` is there, with these columns");
    house.write("job.yaml", &job.replace("n > 1", "n >"));
    house.run(&["validate", "job.yaml"]).ends_with(2);
    house.write("job.yaml", job);
    let stderr = house.run(&["run", "job.yaml"]).ends_with(2).stderr();
    assert!(stderr.contains("node's log"), "{stderr}");
}

#[test]
fn the_schema_is_printed() {
    let house = House::new();
    let schema = house.run(&["job", "schema"]).ends_with(0).stdout();
    let schema: serde_json::Value = serde_json::from_str(&schema).expect("the schema is JSON");
    assert_eq!(schema["title"], "Tidemill job");
}

#[test]
fn every_example_job_can_be_read() {
    let mut count = 0;
    for entry in std::fs::read_dir(examples()).expect("the examples") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|it| it == "yaml") {
            let text = std::fs::read_to_string(&path).expect("a job file");
            let name = path.display().to_string();
            let descriptor = tidemill_node::descriptor::parse(&text, &name)
                .unwrap_or_else(|error| panic!("{error}"));
            let problems =
                tidemill_node::check::check(&descriptor.spec, &tidemill_node::Registry::default());
            assert!(problems.is_empty(), "{name}: {problems:?}");
            count += 1;
        }
    }
    assert!(count > 0);
}

#[test]
fn the_example_of_a_node_can_be_validated_without_one() {
    let house = House::new();
    let job = examples().join("spending.yaml").display().to_string();
    let stdout = house.run(&["validate", &job]).ends_with(0).stdout();
    assert!(stdout.contains("job `spending` can run"), "{stdout}");
    assert!(stdout.contains("not checked, for want of a node"), "{stdout}");
}

#[test]
fn the_example_with_checkpoints_runs_and_resumes() {
    let house = House::new();
    let job = examples().join("checkpoints.yaml");
    house.write("checkpoints.yaml", &std::fs::read_to_string(job).expect("a job file"));
    let flight = |n: usize| {
        let (ts, delay) = (1_357_035_300_000 + n * 600_000, n % 50);
        format!("{{\"ts\":{ts},\"carrier\":\"UA\",\"dep_delay\":{delay}}}\n")
    };
    house.write("flights.ndjson", &(0..1_000).map(flight).collect::<String>());
    let here = ["--set", "sources.flights.file.path=flights.ndjson", "--set"];
    let here = [&here[..], &["sinks.out.file.path=out.ndjson"]].concat();
    let said = house.run(&[&["validate", "checkpoints.yaml"], &here[..]].concat());
    assert!(said.ends_with(0).stdout().contains("worst_tenth Float64"));
    let run = [&["run", "checkpoints.yaml", "--data", "data"], &here[..]].concat();
    house.run(&run).ends_with(0);
    let out = house.read("out.ndjson");
    // A day of a flight every ten minutes.
    let whole = r#""window_end":"2013-01-03T00:00:00Z","flights":144,"late":"#;
    assert!(out.contains(whole), "{out}");
    house.run(&[&run[..], &["--resume"]].concat()).ends_with(0);
    assert_eq!(house.read("out.ndjson"), out);
}

#[test]
fn a_file_is_named_as_it_is_found_from_here() {
    let house = house();
    std::fs::create_dir(house.path("jobs")).expect("a folder can be made");
    let job = JOB.replace("flights.csv", "../flights.csv").replace("out.ndjson", "../out.ndjson");
    house.write("jobs/job.yaml", &job);
    let ran = house.run(&["run", "jobs/job.yaml"]).ends_with(0);
    assert!(ran.stderr().contains("rows    jobs/../out.ndjson\n"), "{}", ran.stderr());
    assert!(ran.stdout().contains("out (jobs/../out.ndjson)"), "{}", ran.stdout());
}

#[test]
fn a_sink_with_the_name_of_its_stage_is_a_part_of_its_own() {
    let house = House::new();
    house.write("flights.csv", &format!("{}not a row\n", flights(60)));
    let job = "
name: minutes
delivery: exactly-once
checkpoint: {every: 100ms}
sources:
  flights: {file: {path: flights.csv, format: csv, schema: {delay: int}}, time: {field: ts}}
stages:
  minutes: {from: flights, key: [carrier], window: {tumbling: 1m}, aggregate: {n: count(*)}}
sinks:
  minutes: {from: minutes, file: {path: minutes.csv, format: csv}}
  flights: {from: flights, file: {path: flights.ndjson, format: json}}
  dead_letter: {from: dead_letter, file: {path: bad.ndjson, format: json}}
";
    house.write("job.yaml", job);
    let shown = house.run(&["validate", "job.yaml"]).ends_with(0).stdout();
    assert!(shown.contains("sink   minutes <- minutes"), "{shown}");
    let ran = house.run(&["run", "job.yaml", "--data", "data", "--json"]).ends_with(0);
    let summary = ran.summary();
    assert_eq!(summary["sinks"][0]["name"], "minutes");
    assert_eq!(summary["sinks"][0]["rows"], 60);
    assert_eq!(house.read("minutes.csv").lines().count(), 61);
    assert_eq!(house.read("flights.ndjson").lines().count(), 60);
    let bad = house.read("bad.ndjson");
    assert_eq!(bad.lines().count(), 1);
    assert!(bad.contains("\"stage\":\"flights\""), "{bad}");
    // The state of the stage is that of the stage, and the job goes on with both.
    let asked = ["state", "tables", "job.yaml", "--data", "data"];
    let listed = house.run(&asked).ends_with(0).stdout();
    assert!(listed.contains("minutes"), "{listed}");
    house.run(&["run", "job.yaml", "--data", "data", "--resume", "-q"]).ends_with(0);
    assert_eq!(house.read("minutes.csv").lines().count(), 61);
}

#[test]
fn streams_are_written_and_read_in_both_spellings() {
    let house = House::new();
    house.write("flights.csv", &flights(20));
    for (number, sink, source) in [
        (0, "stream: s, format: json, key: [carrier]", "stream: s, format: json"),
        (
            1,
            "stream: {name: s, format: json, key: [carrier]}",
            "stream: {name: s, format: json, start: earliest}",
        ),
    ] {
        let data = format!("data-{number}");
        let write = format!(
            "name: w\ndelivery: at-least-once\nsources:\n  a: {{file: {{path: flights.csv, format: csv}}}}\nsinks:\n  s: {{from: a, {sink}}}\n"
        );
        house.write("write.yaml", &write);
        house.run(&["run", "write.yaml", "--data", &data, "-q"]).ends_with(0);
        let schema = "until: latest, schema: {carrier: text, delay: int, ts: bigint}";
        let read = format!(
            "name: r\ndelivery: at-least-once\nsources:\n  s: {{{source}, {schema}}}\nsinks:\n  s: {{from: s, \
             file: {{path: out.csv, format: csv}}}}\n"
        );
        house.write("read.yaml", &read);
        house.run(&["run", "read.yaml", "--data", &data, "-q"]).ends_with(0);
        assert_eq!(house.read("out.csv").lines().count(), 21, "{read}");
    }
}
