//! Plans: how stages become nodes and links, and what only a look at the files can refuse.

use super::*;
use crate::descriptor::parse;
use std::fmt::Write;

/// A folder with two small files of flights and one of airports.
struct House(tempfile::TempDir);

impl House {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).expect("a file");
        };
        write("flights.csv", "carrier,delay,ts\nAA,20,1000000000000\nDL,5,1000000060000\n");
        write("more.csv", "carrier,delay,ts\nUA,7,1000000000000\n");
        write("ratios.csv", "carrier,delay,ts\nUA,7.5,1000000000000\n");
        write("codes.csv", "code,name\nAA,American\n");
        Self(folder)
    }

    fn plan(&self, stages: &str, sinks: &str) -> Result<Planned, String> {
        let text = format!(
            "name: j\nsources:\n  \
             flights: {{file: {{path: flights.csv, format: csv}}, time: {{field: ts}}}}\n  \
             more: {{file: {{path: more.csv, format: csv}}, time: {{field: ts}}}}\n  \
             ratios: {{file: {{path: ratios.csv, format: csv}}, time: {{field: ts}}}}\n  \
             codes: {{file: {{path: codes.csv, format: csv}}}}\nstages:\n{stages}\nsinks:\n{sinks}\n"
        );
        let descriptor = parse(&text, "j").expect("a job that can be read");
        let options =
            PlanOptions { base_dir: self.0.path().to_path_buf(), ..PlanOptions::default() };
        plan(&descriptor, &options, &World::real(), &Registry::default())
            .map_err(|refused| refused.to_string())
    }

    #[track_caller]
    fn refuses(&self, stage: &str, expected: &str) {
        let refused = self.plan(&format!("  s: {stage}"), SINK).expect_err("a bad stage");
        let first = refused.lines().next().expect("a line");
        assert!(first.starts_with(expected), "{stage}\n{refused}\n{expected}");
        assert_eq!(refused.matches("error:").count(), 1, "{refused}");
    }
}

const SINK: &str = "  out: {from: s, blackhole: {}}";

/// Nodes and links as text.
fn draw(planned: &Planned) -> String {
    let mut text = String::new();
    for (id, node) in planned.graph.stages.iter().enumerate() {
        let kind = match &node.kind {
            StageKind::Source { preload, .. } => format!("source preload={preload}"),
            StageKind::Operator { slices, .. } => format!("stage {slices}"),
            StageKind::Sink { .. } => "sink".to_owned(),
        };
        write!(text, "{} {kind}", node.name).expect("a string takes all");
        for link in planned.graph.links.iter().filter(|link| link.to == StageIx::at(id)) {
            let from = &planned.graph[link.from].name;
            write!(text, " <{} {from}.{} {:?}", link.port, link.output, link.partition)
                .expect("a string takes all");
        }
        text.push('\n');
    }
    text
}

#[test]
fn a_stage_of_several_parts_is_several_nodes() {
    let house = House::new();
    let stages = "  \
        day:\n    from: [flights, more]\n    where: delay > 0\n    \
        select: {delay: delay, carrier: carrier}\n    key: [carrier]\n    \
        window: {tumbling: 1d}\n    aggregate: {n: count(*)}\n    late: too_late\n  \
        top: {from: day, top: {k: 1, by: n, per: [window_start]}}\n  \
        named:\n    join: {left: top, table: codes, on: [carrier = code]}\n    where: n > 0\n  \
        spread: {from: named, partition: random, slices: 3}";
    let sinks = "  out: {from: [spread], blackhole: {}}\n  late: {from: too_late, blackhole: {}}";
    let planned = house.plan(stages, sinks).expect("a good job");
    let drawn = draw(&planned);
    let lines: Vec<&str> = drawn.lines().collect();
    assert_eq!(
        lines,
        [
            "flights source preload=false",
            "more source preload=false",
            "ratios source preload=false",
            "codes source preload=true",
            "day.select stage 0 <0 flights.0 Local <0 more.0 Local",
            "day stage 64 <0 day.select.0 Key([1])",
            "top stage 64 <0 day.0 Key([1])",
            "named.join stage 64 <0 top.0 Key([0]) <1 codes.0 Key([0])",
            "named stage 0 <0 named.join.0 Local",
            "spread stage 3 <0 named.0 Random",
            "out sink <0 spread.0 One",
            "late sink <0 day.1 One",
        ],
        "{drawn}"
    );
}

#[test]
fn stages_over_one_input_share_their_windows() {
    let house = House::new();
    let stages = |more: &str| {
        format!(
            "  minute: {{from: flights, key: [carrier], window: {{tumbling: 1m}}, \
             aggregate: {{n: count(*)}}, late: tardy{more}}}\n  \
             hour: {{from: flights, key: [carrier], window: {{sliding: {{size: 1h, every: 1m}}}}, \
             aggregate: {{n: count(*), mean: avg(delay)}}}}\n  \
             top: {{from: hour, top: {{k: 1, by: mean, per: [window_start]}}}}\n  \
             day: {{from: flights, key: [carrier], window: {{tumbling: 1d}}, \
             aggregate: {{n: count(*)}}}}"
        )
    };
    let sinks = "  out: {from: [minute, day], blackhole: {}}\n  late: {from: tardy, blackhole: {}}\n  \
                 best: {from: top, blackhole: {}}";
    let drawn = |more: &str| draw(&house.plan(&stages(more), sinks).expect("a good job"));
    // A day of minutes would be much more than a day.
    let shared = drawn("");
    let lines = [
        "hour+minute stage 64 <0 flights.0 Key([0])",
        "top stage 64 <0 hour+minute.0 Key([1])",
        "day stage 64 <0 flights.0 Key([0])",
        "out sink <0 hour+minute.2 One <0 day.0 One",
        "late sink <0 hour+minute.3 One",
    ];
    for line in lines {
        assert!(shared.lines().any(|it| it == line), "{line}\n{shared}");
    }
    let settings = ", slices: 3";
    for apart in [drawn(settings), drawn(", where: delay > 0"), drawn(", partition: one")] {
        assert!(apart.contains("\nhour stage 64") && apart.contains("\nminute stage"), "{apart}");
    }
    // What is wrong with one of them is said of that one, once.
    let wrong = stages("").replace("avg(delay)", "avg(dealy)");
    let refused = house.plan(&wrong, sinks).expect_err("a bad stage");
    assert_eq!(refused.matches("error:").count(), 1, "{refused}");
    assert!(refused.contains("did you mean `delay`"), "{refused}");
}

#[test]
fn a_union_is_no_node() {
    let house = House::new();
    let planned = house.plan("  s: {from: [flights, more]}", SINK).expect("a good job");
    let drawn = draw(&planned);
    assert!(drawn.contains("out sink <0 flights.0 One <0 more.0 One"), "{drawn}");
    assert!(!drawn.contains("stage"), "{drawn}");
}

#[test]
fn one_slice_where_all_rows_must_meet() {
    let house = House::new();
    let all = "{from: flights, window: {global: {}}, aggregate: {n: count(*)}}";
    let one = "{from: flights, key: [carrier], window: {global: {}}, aggregate: {n: count(*)}, partition: one}";
    for stage in [all, one] {
        let planned = house.plan(&format!("  s: {stage}"), SINK).expect("a good job");
        let drawn = draw(&planned);
        assert!(drawn.contains("s stage 1 <0 flights.0 One"), "{drawn}");
    }
}

#[test]
fn settings_reach_the_graph() {
    let house = House::new();
    let text = "name: j\nslices: 5\nparallelism: 3\ncycle: 2ms\nsources:\n  \
        flights: {file: {path: flights.csv, format: csv}}\nsinks:\n  \
        out: {from: flights, file: {path: out.csv, format: csv}}\n";
    let descriptor = parse(text, "j").expect("a job");
    let options = PlanOptions {
        base_dir: house.0.path().to_path_buf(),
        preview_rows: 3,
        ..PlanOptions::default()
    };
    let planned =
        plan(&descriptor, &options, &World::real(), &Registry::default()).expect("a good job");
    assert_eq!(planned.graph.workers, 3);
    assert_eq!(planned.graph.cycle.time.0, 2_000);
    assert_eq!(planned.previews.len(), 1);
    assert_eq!(planned.previews[0].columns, ["carrier", "delay", "ts"]);
    assert!(planned.graph.dead_letter.is_some(), "dead letters are kept for the summary");
    assert!(!house.0.path().join("out.csv").exists(), "nothing is written by a plan");
    let options = PlanOptions { threads: Some(7), ..options };
    let planned =
        plan(&descriptor, &options, &World::real(), &Registry::default()).expect("a good job");
    assert_eq!(planned.graph.workers, 7);
}

#[test]
fn refuses_unions_of_different_columns() {
    let house = House::new();
    house.refuses(
        "{from: [flights, codes], where: delay > 1}",
        "j:8:23: error: `flights` and `codes` differ: `codes` has no column `carrier`, expected",
    );
    house.refuses(
        "{from: [flights, ratios], where: delay > 1}",
        "j:8:23: error: `flights` and `ratios` differ: the column `delay` is Int64 in one and \
         Float64 in the other, expected the same columns with the same types",
    );
}

#[test]
fn says_of_an_empty_file_that_its_columns_are_not_known() {
    let house = House::new();
    std::fs::write(house.0.path().join("none.json"), "").expect("a file");
    let plan = |source: &str, stage: &str| {
        let text = format!(
            "name: j\nsources:\n  \
             none: {{file: {{path: none.json, format: json{source}}}, time: {{field: at}}}}\n\
             stages:\n  s: {stage}\n  t: {{from: s, where: other = 1}}\n\
             sinks:\n  out: {{from: t, blackhole: {{}}}}\n"
        );
        let descriptor = parse(&text, "j").expect("a job that can be read");
        let base_dir = house.0.path().to_path_buf();
        let options = PlanOptions { base_dir, ..PlanOptions::default() };
        plan(&descriptor, &options, &World::real(), &Registry::default())
            .map_err(|refused| refused.to_string())
    };
    for stage in [
        "{from: none, where: n > 1}",
        "{from: none, key: [n], window: {global: {}}, aggregate: {c: count(*)}}",
        "{from: none, select: {n: 1}}",
    ] {
        let refused = plan("", stage).expect_err("columns that nobody knows");
        assert_eq!(refused.matches("error:").count(), 1, "{refused}");
        assert_eq!(
            refused.lines().next().expect("a line"),
            "j:3:23: error: `none.json` is empty, so its columns are not known, expected a file \
             with a record, or `schema` with the columns and their types",
        );
    }
    plan("", "{from: none, select: {other: 1}}").expect("no column is needed");
    let schema = ", schema: {n: bigint, other: bigint}";
    plan(schema, "{from: none, where: n > 1}").expect("the columns are known");
    let refused = plan(schema, "{from: none, where: m > 1}").expect_err("no column");
    assert!(refused.contains("unknown column `m`"), "{refused}");
}

#[test]
fn refuses_columns_that_are_not_there() {
    let house = House::new();
    let window = "window: {global: {}}, aggregate: {n: count(*)}";
    house.refuses(
        &format!("{{from: flights, key: [delay, carier], {window}}}"),
        "j:8:35: error: unknown column `carier`, expected one of `carrier`, `delay`, `ts`, did \
         you mean `carrier`?",
    );
    house.refuses(
        "{from: flights, where: dely > 1}",
        "j:8:29: error: unknown column `dely`, expected one of",
    );
    house.refuses(
        "{from: flights, select: {a: carrier, b: dely + 1}}",
        "j:8:46: error: unknown column `dely`",
    );
    house.refuses("{from: flights, top: {k: 1, by: dely}}", "j:8:38: error: unknown column");
    house.refuses(
        "{from: flights, top: {k: 1, by: delay, per: [carier]}}",
        "j:8:51: error: unknown column",
    );
    house.refuses("{from: flights, dedup: {on: [carier]}}", "j:8:35: error: unknown column");
    house.refuses(
        "{join: {left: flights, table: codes, on: [carrier = cod]}}",
        "j:8:58: error: `codes` has no column `cod`",
    );
    house.refuses(
        "{from: flights, window: {global: {}}, aggregate: {n: count(*), m: avg(dely)}}",
        "j:8:",
    );
}

#[test]
fn refuses_windows_in_time_without_time() {
    let house = House::new();
    house.refuses(
        "{from: codes, window: {tumbling: 1d}, aggregate: {n: count(*)}}",
        "j:8:28: error: it needs event time, which `codes` does not have, expected `time: \
         {field: ...}` on the source",
    );
    house.refuses(
        "{join: {left: flights, right: codes, on: [carrier = code], within: 1h}}",
        "j:8:36: error: it needs event time, which `codes` does not have",
    );
    house.refuses(
        "{from: codes, dedup: {on: [code], within: 1h}}",
        "j:8:48: error: it needs event time, which `codes` does not have",
    );
}

#[test]
fn refuses_a_table_that_is_a_stream_too() {
    let house = House::new();
    house.refuses(
        "{join: {left: flights, table: flights, on: [carrier]}}",
        "j:8:36: error: the table `flights` reads the source `flights`, which is a stream \
         elsewhere and cannot be read to its end first",
    );
}

#[test]
fn reports_every_problem_but_none_twice() {
    let house = House::new();
    let stages = "  a: {from: flights, where: dely > 1}\n  b: {from: a, where: x}\n  \
        c: {from: flights, where: nothere = 1}";
    let sinks = "  one: {from: b, blackhole: {}}\n  two: {from: c, blackhole: {}}";
    let refused = house.plan(stages, sinks).expect_err("two bad stages");
    let places: Vec<&str> =
        refused.lines().filter(|line| line.contains("error:")).map(|line| &line[..6]).collect();
    assert_eq!(places, ["j:8:29", "j:10:2"], "{refused}");
}

#[test]
fn the_registry_brings_sources_sinks_and_operators() {
    let house = House::new();
    let planned = house.plan("  s: {from: flights, where: delay > 1}", SINK).expect("a good job");
    let StageKind::Source { factory, .. } = &planned.graph.stages[0].kind else {
        panic!("a source")
    };
    let StageKind::Operator { factory: operator, .. } = &planned.graph.stages[4].kind else {
        panic!("a stage")
    };
    let mut registry = Registry::default();
    registry.add_source("mine", factory.clone());
    let operator = operator.clone();
    registry.add_operator(
        "keep",
        Arc::new(move |schema: &SchemaRef| match schema.fields().len() {
            4 => Ok(operator.clone()),
            count => Err(format!("it takes 4 columns, not {count}")),
        }),
    );
    let text = "name: j\nsources: {mine: {}}\nstages:\n  s: {from: mine, operator: keep}\n  \
        t: {from: mine, select: {a: delay}, operator: keep}\nsinks: {out: {from: s, blackhole: {}}}";
    let descriptor = parse(text, "j").expect("a job");
    let refused = plan(&descriptor, &PlanOptions::default(), &World::real(), &registry)
        .expect_err("the second use does not fit")
        .to_string();
    assert!(refused.starts_with("j:5:49: error: it takes 4 columns, not "), "{refused}");
    assert_eq!(refused.matches("error:").count(), 1, "{refused}");
}

/// The one line that a job with these sinks, and a data folder `data`, is refused with.
#[track_caller]
fn refusal(house: &House, source: &str, sinks: &str) -> String {
    let text = format!(
        "name: j\nsources:\n  f: {{file: {{path: {source}, format: csv}}}}\nsinks:\n{sinks}"
    );
    let descriptor = parse(&text, "j").expect("a job that can be read");
    let base_dir = house.0.path().to_path_buf();
    let data = Some(base_dir.join("data"));
    let (node, job_file) = (Some(base_dir.join("node")), Some(base_dir.join("j.yaml")));
    let options = PlanOptions { base_dir, job_file, data, node, ..PlanOptions::default() };
    let planned = plan(&descriptor, &options, &World::real(), &Registry::default());
    let refused = planned.map(|_| ()).expect_err("a file of two").to_string();
    assert_eq!(refused.matches("error:").count(), 1, "{refused}");
    refused.lines().next().expect("a line").to_owned()
}

#[test]
fn a_sink_writes_into_no_file_of_another_by_whatever_path() {
    let house = House::new();
    let at = |name: &str| house.0.path().join(name);
    std::os::unix::fs::symlink("flights.csv", at("soft.csv")).expect("a link");
    std::fs::hard_link(at("flights.csv"), at("hard.csv")).expect("a link");
    let whole = at("flights.csv").display().to_string();
    for path in ["./flights.csv", "none/../flights.csv", "soft.csv", "hard.csv", &whole] {
        let sinks = format!("  o: {{from: f, file: {{path: {path}, format: csv}}}}\n");
        let refused = refusal(&house, "flights.csv", &sinks);
        let expected = format!("error: `{path}` is the file of the source `f` too");
        assert!(refused.starts_with("j:5:29: ") && refused.ends_with(&expected), "{refused}");
    }
    let two = |a: &str, b: &str, format: &str| {
        let sink = |name: &str, path: &str| {
            format!("  {name}: {{from: f, file: {{path: {path}, format: {format}}}}}\n")
        };
        refusal(&house, "flights.csv", &(sink("a", a) + &sink("b", b)))
    };
    let refused = two("x.csv", "./x.csv", "csv");
    assert!(refused.ends_with("`./x.csv` is the file of the sink `a` too"), "{refused}");
    for (a, b, format) in [
        ("q.csv", "q.csv.tidemill", "csv"),
        ("q.csv.tidemill", "new/../q.csv", "json"),
        ("q.arrow", "q.arrow.partial", "arrow"),
    ] {
        let refused = two(a, b, format);
        assert!(refused.contains("the sink `a`"), "{refused}");
    }
    for (source, path) in [("more.csv", "more"), ("codes.csv", "codes")] {
        let marks = at(&format!("{path}.tidemill"));
        std::fs::rename(at(source), marks).expect("renamed");
        let sinks = format!("  o: {{from: f, file: {{path: {path}, format: csv}}}}\n");
        let refused = refusal(&house, &format!("{path}.tidemill"), &sinks);
        assert!(refused.ends_with("is the file of the source `f`"), "{refused}");
    }
}

#[test]
fn no_file_of_the_job_itself_is_a_sinks_or_a_source() {
    let house = House::new();
    for path in [
        "data/ledger",
        "data/ledger-00000000000000000007",
        "data/ledger.stages",
        "./data/job.json",
        "data/source-f.json",
        "data/sink-o.json",
        "data/checkpoints/keys/1",
    ] {
        let sinks = format!("  o: {{from: f, file: {{path: {path}, format: csv}}}}\n");
        let refused = refusal(&house, "flights.csv", &sinks);
        let expected = format!("error: `{path}` is a file of the job itself too");
        assert!(refused.ends_with(&expected), "{refused}");
    }
    for path in [
        "node/log/meta",
        "node/log/orders/0/x",
        "node/jobs/other/ledger",
        "node/broker.redb",
        "./node/cluster.json",
    ] {
        let sinks = format!("  o: {{from: f, file: {{path: {path}, format: csv}}}}\n");
        let refused = refusal(&house, "flights.csv", &sinks);
        let expected = format!("error: `{path}` is a file of the node itself too");
        assert!(refused.ends_with(&expected), "{refused}");
    }
    let of_stage = |data: &str, path: &str| {
        let text = format!(
            "name: j\nsources: {{f: {{file: {{path: flights.csv, format: csv}}}}}}\n\
             sinks: {{o: {{from: f, file: {{path: {path}, format: csv}}}}}}"
        );
        let descriptor = parse(&text, "j").expect("a job that can be read");
        let base_dir = house.0.path().to_path_buf();
        let (data, node) = (Some(base_dir.join(data)), Some(base_dir.join("node")));
        let options = PlanOptions { base_dir, data, node, ..PlanOptions::default() };
        let planned = plan(&descriptor, &options, &World::real(), &Registry::default());
        planned.map(|_| ()).map_err(|it| it.to_string())
    };
    for job in ["mine", "victim"] {
        std::fs::create_dir_all(house.0.path().join("node/jobs").join(job)).expect("a folder");
    }
    std::os::unix::fs::symlink("../victim", house.0.path().join("node/jobs/mine/link"))
        .expect("a link");
    for path in ["../victim/job.json", "../newjob/job.json", "link/job.json", "../job.json"] {
        let refused = of_stage("node/jobs/mine", &format!("node/jobs/mine/{path}"));
        let refused = refused.expect_err("a file of another job");
        assert!(refused.contains("a file of the node itself too"), "{path}: {refused}");
    }
    for path in ["out.csv", "sub/out.csv", "../mine/out.csv", "../../../out.csv"] {
        assert_eq!(of_stage("node/jobs/mine", &format!("node/jobs/mine/{path}")), Ok(()), "{path}");
    }
    let sinks = "  o: {from: f, file: {path: none/../j.yaml, format: csv}}\n";
    let refused = refusal(&house, "flights.csv", sinks);
    assert!(refused.ends_with("error: `none/../j.yaml` is the job file too"), "{refused}");
    let letters = "data/none/../dead-letter.ndjson";
    let sinks = format!("  o: {{from: f, file: {{path: {letters}, format: json}}}}\n");
    let refused = refusal(&house, "flights.csv", &sinks);
    assert!(refused.ends_with("is the file of the job's dead letters too"), "{refused}");
    std::fs::create_dir(house.0.path().join("data")).expect("a folder");
    std::fs::write(house.0.path().join("data/dead-letter.ndjson"), "x\n1\n").expect("a file");
    let refused = refusal(&house, "./data/dead-letter.ndjson", "  o: {from: f, blackhole: {}}\n");
    assert!(refused.contains("is the file of the job's dead letters, expected"), "{refused}");
}
