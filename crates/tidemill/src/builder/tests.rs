//! A job in code is the same job as in a file, and runs.

mod generated;
mod resume;
mod state;
mod threads;
mod wrong;

use super::*;
use arrow_array::{cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema};
use tidemill_types::job::{Format, JoinKind, MetaSpec, PartitionSpec, StartSpec};

#[test]
fn code_and_yaml_say_the_same() {
    let yaml = "
name: delays
cycle: 5ms
slices: 8
parallelism: 2
sources:
  flights:
    file: {path: flights.csv, format: csv, schema: {dep_delay: int64}}
    time: {field: time_hour, lateness: 1h}
  airports:
    file: {path: airports.csv, format: csv}
  weather:
    kafka:
      brokers: k:9092,l:9092
      topic: weather
      format: json
      schema: {wind: double}
      start: latest
      until: latest
      isolation: uncommitted
      meta: {timestamp: at}
    time: {field: at, lateness: 10s}
stages:
  late:
    from: flights
    where: dep_delay > 15
    select: {carrier: carrier, delay: dep_delay}
  by_carrier:
    from: late
    key: [carrier]
    window: {sliding: {size: 1d, every: 1h}}
    aggregate: {n: count(*), mean: avg(delay)}
    late: too_late
    slices: 4
  hundred:
    from: late
    key: [carrier]
    window: {count: {size: 100, every: 100}}
    aggregate: {n: count(*)}
    ttl: 1h
  top:
    from: by_carrier
    top: {k: 10, by: mean, ascending: true, per: [window_start]}
  placed:
    join: {left: flights, table: airports, on: [origin = code], kind: left}
  once:
    from: [placed]
    dedup: {on: [carrier], within: 1h}
    partition: key
sinks:
  out: {from: [top], file: {path: out.ndjson, format: json}}
  all: {from: [once], stdout: {format: csv}}
  none: {from: [too_late], blackhole: {}}
  topic: {from: [late], kafka: {brokers: 'k:9092', topic: late, key: [carrier], create: true}}
";
    let job = Job::new("delays")
        .cycle("5ms")
        .slices(8)
        .threads(2)
        .source(
            "flights",
            File::csv("flights.csv").column("dep_delay", "int64").event_time("time_hour", "1h"),
        )
        .source("airports", File::csv("airports.csv"))
        .source(
            "weather",
            Kafka::new("k:9092,l:9092", "weather", Format::Json)
                .column("wind", "double")
                .start(StartSpec::Latest)
                .until_latest()
                .uncommitted()
                .meta(MetaSpec { timestamp: Some("at".to_owned()), ..MetaSpec::default() })
                .event_time("at", "10s"),
        )
        .stage(
            "late",
            from("flights")
                .filter("dep_delay > 15")
                .select([("carrier", "carrier"), ("delay", "dep_delay")]),
        )
        .stage(
            "by_carrier",
            from("late")
                .key(["carrier"])
                .sliding("1d", "1h")
                .aggregate([("n", "count(*)"), ("mean", "avg(delay)")])
                .late("too_late")
                .slices(4),
        )
        .stage(
            "hundred",
            from("late").key(["carrier"]).count(100, 100).aggregate([("n", "count(*)")]).ttl("1h"),
        )
        .stage("top", from("by_carrier").top(10, "mean").ascending().per(["window_start"]))
        .stage(
            "placed",
            join_table("flights", "airports").on(["origin = code"]).kind(JoinKind::Left),
        )
        .stage(
            "once",
            from(["placed"]).dedup(["carrier"]).within("1h").partition(PartitionSpec::Key),
        )
        .sink("out", from("top").to_file("out.ndjson", Format::Json))
        .sink("all", from("once").to_stdout(Format::Csv))
        .sink("none", from("too_late").to_blackhole())
        .sink("topic", from(["late"]).to_kafka("k:9092", "late", ["carrier"]));
    let parsed = tidemill_node::descriptor::parse(yaml, "job.yaml").expect("a good job").spec;
    assert_eq!(*job.spec(), parsed);
}

#[test]
fn columns_and_names_may_be_made_by_the_program() {
    let columns: Vec<String> = ["a", "b"].map(str::to_owned).to_vec();
    let made = from(vec!["one".to_owned(), "two".to_owned()])
        .select(columns.iter().map(|it| (it.as_str(), format!("{it} + 1"))))
        .key(&columns)
        .global()
        .aggregate(columns.iter().map(|it| (format!("sum_{it}"), format!("sum({it})"))));
    let written = from(["one", "two"])
        .select([("a", "a + 1"), ("b", "b + 1")])
        .key(["a", "b"])
        .global()
        .aggregate([("sum_a", "sum(a)"), ("sum_b", "sum(b)")]);
    assert_eq!(made.spec, written.spec);
    let name = "one".to_owned();
    assert_eq!(from(&name).dedup(columns).spec, from(name).dedup(["a", "b"]).spec);
}

#[test]
fn mistakes_are_reported_when_the_job_starts() {
    let (sink, _) = collected();
    let job = Job::new("j")
        .source("a", File::csv("a.csv").event_time("t", "1 hour"))
        .stage("s", from("a").tumbling("soon").per(["x"]))
        .stage("s", from("a").filter("x"))
        .sink("out", from("s").to(sink));
    let text = job.run().expect_err("mistakes").to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "job `j`: sources.a.time.lateness: error: `1 hour` is not a duration: write a number \
             and a unit, such as `10ms`, `5s`, `1h`, `1d`",
            "job `j`: stages.s.window: error: `soon` is not a duration: write a number and a \
             unit, such as `10ms`, `5s`, `1h`, `1d`",
            "job `j`: stages.s: error: `per` is called without `top` before it",
            "job `j`: stages.s: error: the name `s` is given twice",
        ]
    );
}

#[test]
fn what_would_be_lost_without_a_word_is_reported() {
    let sums = [("n", "count(*)"), ("n", "sum(x)")];
    let job = Job::new("j")
        .source("a", File::csv("a.csv"))
        .stage("s", from("a").key(["k"]).global().aggregate(sums))
        .stage("t", from("a").select([("x", "x"), ("y", "1"), ("x", "y")]))
        .sink("some", from("a").filter("delay > 15").to_file("some.ndjson", Format::Json))
        .sink("late", from("s").within("soon").to_blackhole());
    let text = job.run().expect_err("mistakes").to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "job `j`: stages.s.aggregate.n: error: the name `n` is given twice",
            "job `j`: stages.t.select.x: error: the name `x` is given twice",
            "job `j`: sinks.some: error: a sink writes what it reads as it is: add a stage that \
             does the rest, and let the sink read that",
            "job `j`: sinks.late.within: error: `soon` is not a duration: write a number and a \
             unit, such as `10ms`, `5s`, `1h`, `1d`",
            "job `j`: sinks.late: error: `within` is called without a join or `dedup` before it",
        ]
    );
}

#[test]
fn what_is_said_twice_is_reported() {
    let nothing =
        |_: &SchemaRef| -> Result<Arc<dyn OperatorFactory>, String> { Err("none".into()) };
    let job = Job::new("j")
        .operator("f", nothing)
        .operator("f", nothing)
        .source("a", File::csv("a.csv"))
        .stage("s", from("a").select([("x", "x")]).key(["x"]).select([("y", "y")]).key(["y"]))
        .stage("w", from("a").tumbling("1h").session("1m").aggregate([("n", "count(*)")]))
        .stage("t", from("a").top(1, "x").per(["x"]).per(["y"]).operator("f").operator("f"))
        .stage("j", join("a", "a").on(["x"]).within("1h").on(["y"]).within("2h"))
        .sink("out", from("s").to_blackhole());
    let text = job.run().expect_err("mistakes").to_string();
    let twice = |place: &str, call: &str| {
        format!(
            "job `j`: {place}: error: `{call}` is called twice: what comes after it is another stage"
        )
    };
    let wanted = [
        "job `j`: operators.f: error: the name `f` is given twice".to_owned(),
        twice("stages.s", "select"),
        twice("stages.s", "key"),
        "job `j`: stages.w: error: `session` is a second window: a stage has one".to_owned(),
        twice("stages.t", "per"),
        twice("stages.t", "operator"),
        twice("stages.j", "on"),
        twice("stages.j", "within"),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
}

#[test]
fn a_source_has_one_event_time() {
    let columns = ["ts", "at"].map(|it| Field::new(it, DataType::Int64, false));
    let schema: SchemaRef = Arc::new(Schema::new(columns.to_vec()));
    let made = || Generated::new(Arc::clone(&schema), std::iter::empty);
    let topic = || Kafka::new("k:9092", "t", Format::Json);
    let job = Job::new("j")
        .source("a", File::csv("a.csv").event_time("ts", "1h").event_time("at", "1h"))
        .source("b", topic().event_time("ts", "1h").event_time("ts", "5s"))
        .source("c", made().event_time("ts", "1h").event_time("at", "5s"))
        .sink("out", from(["a", "b", "c"]).to_blackhole());
    let text = job.run().expect_err("mistakes").to_string();
    let twice = |source: &str, before: &str, after: &str| {
        format!(
            "job `j`: sources.{source}.time: error: `event_time` is called twice, with {before} and \
             {after}: a source has one"
        )
    };
    let wanted = [
        twice("a", "(`ts`, `1h`)", "(`at`, `1h`)"),
        twice("b", "(`ts`, `1h`)", "(`ts`, `5s`)"),
        twice("c", "(`ts`, `1h`)", "(`at`, `5s`)"),
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), wanted);
    let (sink, _) = collected();
    let same = made().event_time("ts", "60m").event_time("ts", "1h");
    Job::new("j").source("a", same).sink("out", from("a").to(sink)).run().expect("it runs");
}

#[test]
fn records_pass_all_filters_of_a_stage() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("in.csv"), "n\n1\n2\n3\n4\n").expect("a file");
    let (sink, rows) = collected();
    let stage = from("in").filter("n = 1 or n > 2").filter("n < 4");
    Job::new("both")
        .base_dir(folder.path())
        .source("in", File::csv("in.csv"))
        .stage("some", stage)
        .sink("out", from("some").to(sink))
        .run()
        .expect("runs");
    let numbers = rows.read(|row| row.i64("n")).expect("a column");
    assert_eq!(numbers, [Some(1), Some(3)]);
}

#[test]
fn runs_and_collects() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows: String = (0..1_000).map(|n| format!("{},{}\n", n % 7, n)).collect();
    std::fs::write(folder.path().join("in.csv"), format!("k,v\n{rows}")).expect("a file");
    let (sink, collected) = collected();
    let job = Job::new("sums")
        .base_dir(folder.path())
        .threads(2)
        .source("in", File::csv("in.csv"))
        .stage("sum", from("in").key(["k"]).global().aggregate([("s", "sum(v)")]))
        .stage("sorted", from("sum").top(100, "k").ascending())
        .sink("out", from("sorted").to(sink));
    let progress = job.run().expect("runs");
    assert!(progress.finished);
    assert_eq!(progress.sources[0].records, 1_000);
    assert_eq!(collected.rows(), 7);
    let mut sums = Vec::new();
    for batch in collected.batches() {
        let column = batch.column_by_name("s").expect("the sum").clone();
        let column = column.as_primitive::<Int64Type>().clone();
        sums.extend((0..column.len()).map(|row| column.value(row)));
    }
    let expected: Vec<i64> = (0..7).map(|k| (0..1_000).filter(|n| n % 7 == k).sum()).collect();
    assert_eq!(sums, expected);
}
