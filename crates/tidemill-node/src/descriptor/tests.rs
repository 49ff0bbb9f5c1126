//! Job texts that must be read, and texts that must be refused with exactly this message.

use super::*;
use tidemill_types::job::{CompressionSpec, Delivery, Format, WindowSpec};
use tidemill_types::{ByteSize, Span};

const JOB: &str = "\
name: delays
delivery: exactly-once
cycle: 10ms
sources:
  flights:
    file: {path: data/flights.ndjson, format: json}
    time: {field: time_hour, lateness: 1h}
stages:
  late:
    from: flights
    where: dep_delay > 15
    select: {carrier: carrier, delay: dep_delay, one: 1, half: 0.50}
  by_carrier:
    from: [late]
    key: [carrier]
    window: {tumbling: 1d}
    aggregate: {n: count(*), mean: avg(delay)}
sinks:
  out: {from: by_carrier, file: {path: out.ndjson, format: json}}
";

fn refused(text: &str) -> String {
    parse(text, "job.yaml").expect_err("a text that must be refused").to_string()
}

#[test]
fn reads_the_grammar() {
    let spec = parse(JOB, "job.yaml").expect("a good job").spec;
    assert_eq!(spec.name, "delays");
    assert_eq!(spec.delivery, Delivery::ExactlyOnce);
    assert_eq!(spec.cycle.time, Span(10_000));
    assert_eq!(spec.cycle.bytes, ByteSize(4 << 20));
    let select = spec.stages["late"].select.as_ref().expect("a select");
    assert_eq!(select["one"], "1", "a number is text as it was written");
    assert_eq!(select["half"], "0.50");
    assert_eq!(spec.stages["by_carrier"].from, ["late"]);
    let day = WindowSpec::Tumbling(Span(86_400_000_000));
    assert_eq!(spec.stages["by_carrier"].window, Some(day));
    assert!(spec.sinks["out"].file.is_some());
}

#[test]
fn json_and_yaml_say_the_same() {
    let spec = parse(JOB, "job.yaml").expect("a good job").spec;
    let json = serde_json::to_string_pretty(&spec).expect("a spec is JSON");
    let again = parse(&json, "job.json").expect("the same job as JSON").spec;
    assert_eq!(spec, again);
    let tabs = json.replace("  ", "\t");
    assert_eq!(spec, parse(&tabs, "job.json").expect("JSON with tabs").spec);
}

#[test]
fn words_of_older_yaml_are_names() {
    let text =
        "name: y\nsources: {}\nsinks: {}\nstages: {a: {dedup: {on: [no]}}}\ncompression: off";
    let spec = parse(text, "j").expect("a job").spec;
    assert_eq!(spec.name, "y");
    assert_eq!(spec.stages["a"].dedup.as_ref().expect("a dedup").on, ["no"]);
    assert_eq!(spec.compression, CompressionSpec::Off);
}

#[test]
fn an_alias_of_a_number_looks_as_the_number() {
    let text = JOB
        .replace(
            "one: 1, half: 0.50",
            "one: &one 1, half: &half 0.50, again: *half, yes: &yes true",
        )
        .replace("[late]\n", "[late]\n    where: *yes\n    select: {one: *one, half: *half}\n");
    let spec = parse(&text, "job.yaml").expect("a job").spec;
    let columns = |stage: &str| {
        let select = spec.stages[stage].select.as_ref().expect("columns");
        select.iter().map(|(name, it)| format!("{name}={it}")).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        columns("late"),
        "carrier=carrier delay=dep_delay one=1 half=0.50 again=0.50 yes=true"
    );
    assert_eq!(columns("by_carrier"), "one=1 half=0.50");
    assert_eq!(spec.stages["by_carrier"].filter.as_deref(), Some("true"));
    let wrong = text.replace("cycle: 10ms", "cycle: &ten 10ms\nslices: *ten");
    assert!(refused(&wrong).contains("job.yaml:4:9: error:"), "{}", refused(&wrong));
}

#[test]
fn refuses_with_place_expectation_and_nearest_name() {
    let base = |from: &str, to: &str| {
        assert!(JOB.contains(from), "the test's own text");
        JOB.replacen(from, to, 1)
    };
    let cases: &[(String, &str)] = &[
        (
            base("    where:", "    wher:"),
            "job.yaml:11:5: error: unknown field `wher`, expected one of `from`, `flat_map`, \
             `where`, `select`, `key`, `window`, `aggregate`, `top`, `join`, `dedup`, `partition`, \
             `late`, `ttl`, `slices`, `operator`, did you mean `where`?\n  \
             11 |     wher: dep_delay > 15\n     |     ^",
        ),
        (
            base("exactly-once", "exactly_once"),
            "job.yaml:2:11: error: unknown value `exactly_once`, expected one of `exactly-once`, \
             `at-least-once`, `at-most-once`, did you mean `exactly-once`?\n  \
             2 | delivery: exactly_once\n    |           ^",
        ),
        (
            base("{tumbling: 1d}", "{tumblin: 1d}"),
            "job.yaml:16:14: error: unknown value `tumblin`, expected one of `tumbling`, \
             `sliding`, `session`, `count`, `global`, did you mean `tumbling`?\n  \
             16 |     window: {tumblin: 1d}\n     |              ^",
        ),
        (
            base("{tumbling: 1d}", "{tumbling: 1 fortnight}"),
            "job.yaml:16:24: error: `1 fortnight` is not a duration: write a number and a unit, \
             such as `10ms`, `5s`, `1h`, `1d`\n  \
             16 |     window: {tumbling: 1 fortnight}\n     |                        ^",
        ),
        (
            base("{tumbling: 1d}", "tumbling"),
            "job.yaml:16:13: error: `tumbling` needs a value, expected `{tumbling: ...}`\n  \
             16 |     window: tumbling\n     |             ^",
        ),
        (
            base("{tumbling: 1d}", "{tumbling: 1d, global: {}}"),
            "job.yaml:16:13: error: found 2 choices: tumbling, global, expected exactly one of \
             `tumbling`, `sliding`, `session`, `count`, `global`\n  \
             16 |     window: {tumbling: 1d, global: {}}\n     |             ^",
        ),
        (
            base("cycle: 10ms", "cycle: 10"),
            "job.yaml:3:8: error: found the number `10`, expected a duration such as `10ms`, or a \
             table of `time`, `bytes` and `records`\n  3 | cycle: 10\n    |        ^",
        ),
        (
            base("    from: flights\n    where", "    from: 5\n    where"),
            "job.yaml:10:11: error: found the number `5`, expected the name of a source or stage, or \
             a list of names; a number in quotes\n  \
             10 |     from: 5\n     |           ^",
        ),
        (
            base("format: json}", "format: csv, delimiter: 7}"),
            "job.yaml:6:63: error: found the number `7`, expected a character; a digit in quotes\n  \
             6 |     file: {path: data/flights.ndjson, format: csv, delimiter: 7}\n    |                                                               ^",
        ),
        (
            base("cycle: 10ms", "checkpoint: {every: {}}"),
            "job.yaml:3:21: error: it has neither `time` nor `records`: write `10s`, `auto`, or a \
             table with one of them\n  3 | checkpoint: {every: {}}\n    |                     ^",
        ),
        (
            base("    key: [carrier]", "    key: carrier"),
            "job.yaml:15:10: error: found `carrier`, expected a list\n  \
             15 |     key: carrier\n     |          ^",
        ),
        (
            base("name: delays\n", ""),
            "job.yaml:1:1: error: the field `name` is missing\n  \
             1 | delivery: exactly-once\n    | ^",
        ),
        (
            base("path: data/flights.ndjson, ", ""),
            "job.yaml:6:5: error: the field `path` is missing\n  \
             6 |     file: {format: json}\n    |     ^",
        ),
        (
            base("format: json}", "format: jsn}"),
            "job.yaml:6:47: error: unknown value `jsn`, expected one of `json`, `csv`, `text`, \
             `influx`, `arrow`, `parquet`, did you mean `json`?\n  \
             6 |     file: {path: data/flights.ndjson, format: jsn}\n    |                                               ^",
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(text), *expected);
    }
}

#[test]
fn refuses_numbers_that_are_too_large_for_what_they_are() {
    let first = |text: String| refused(&text).lines().next().expect("a line").to_owned();
    let set = |line: &str| first(JOB.replacen("cycle: 10ms", line, 1));
    let whole = |max: &str| format!("expected a whole number from 0 to {max}");
    for (line, says) in [
        (
            "slices: 1700000000000",
            format!("found the number `1700000000000`, {}", whole("4294967295")),
        ),
        ("slices: -1", format!("found the number `-1`, {}", whole("4294967295"))),
        ("slices: 1.50", format!("found the number `1.50`, {}", whole("4294967295"))),
        ("slices: 1e30", format!("found the number `1e30`, {}", whole("4294967295"))),
        (
            "parallelism: 18446744073709551616",
            format!("found the number `18446744073709551616`, {}", whole("18446744073709551615")),
        ),
        (
            "buffer: {bytes: 99999999999GiB}",
            "`99999999999GiB` is too large: at most 18446744073709551615 bytes".to_owned(),
        ),
        ("buffer: {bytes: GiB}", "`GiB` is not a size: write a number and a unit".to_owned()),
    ] {
        let said = set(line);
        assert!(said.contains(&format!("error: {says}")), "{line}: {said}");
    }
}

#[test]
fn refuses_a_name_that_stands_twice() {
    let first = |text: &str| refused(text).lines().next().expect("a line").to_owned();
    assert_eq!(
        first(&JOB.replace("cycle: 10ms", "name: again")),
        "job.yaml:3:1: error: the name `name` stands twice in one table"
    );
    let within = first(&JOB.replace("format: json}\n", "format: json, path: x}\n"));
    assert!(within.ends_with("error: the name `path` stands twice in one table"), "{within}");
    assert!(first("{? [a] : 1, ? [a] : 2}").contains("error: "));
}

#[test]
fn refuses_what_is_no_yaml() {
    for (text, place) in [
        ("name: [1, 2", "job.yaml:"),
        ("name: a\nname: b\nsources: {}\nsinks: {}", "job.yaml:2:1:"),
        ("- a\n- b", "job.yaml:1:1: error: found a list, expected a table of fields"),
        ("", "job.yaml:"),
        ("name: 'unclosed", "job.yaml:"),
        ("a: *nothing", "job.yaml:1:"),
    ] {
        let message = refused(text);
        assert!(message.starts_with(place), "{text:?}: {message}");
    }
}

/// YAML takes a file of data for one long text.
#[test]
fn a_file_of_data_is_refused_with_an_excerpt() {
    let data = "id,naïve\n1,a\n2,b\n".repeat(100_000);
    let said = refused(&data);
    assert!(said.contains("found `id,naïve") && said.contains("…`"), "{:.300}", said);
    assert!(said.contains("expected a table of fields"), "{:.300}", said);
    assert!(said.len() < 500, "{} bytes", said.len());
    let long = "x".repeat(100_000);
    for job in [
        format!("name: j\n{long}: 1\n"),
        JOB.replace("exactly-once", &long),
        JOB.replace("{tumbling: 1d}", &long),
        JOB.replace("tumbling", &long),
        JOB.replace("10ms", &long),
    ] {
        let said = refused(&job);
        assert!(said.len() < 2_000, "{} bytes: {:.300}", said.len(), said);
    }
}

#[test]
fn refuses_bombs() {
    let deep = format!("name: {}", "[".repeat(10_000));
    assert!(refused(&deep).contains("error:"));
    let message = refused(&format!("name: {}{}", "[".repeat(50), "]".repeat(50)));
    assert!(message.contains("error: lists and tables are nested more than 32 deep"), "{message}");
    let wide = format!("name: [{}]", "1,".repeat(200_000));
    let message = refused(&wide);
    assert!(message.contains("error: the job is too large: at most 100000 values"), "{message}");
    let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let refs = vec![format!("*a{}", n - 1); 10].join(", ");
        laughs.push_str(&format!("a{n}: &a{n} [{refs}]\n"));
    }
    let message = refused(&laughs);
    assert!(message.contains("error: the job is too large: at most 100000 values"), "{message}");
    let message = refused(&format!("{JOB}---\n{JOB}"));
    assert!(message.contains("error: a job is one YAML document"), "{message}");
    let long = "#".repeat(5 << 20);
    let message = refused(&long);
    assert_eq!(
        message,
        "job.yaml: error: the job file is too long, expected at most 4194304 bytes"
    );
}

#[test]
fn sets_values_by_path() {
    let with = |settings: &[&str]| parse_with(JOB, "job.yaml", settings);
    let spec = with(&["sources.flights.file.path=x.csv", "parallelism=3", "slices=7"])
        .expect("good settings")
        .spec;
    assert_eq!(spec.sources["flights"].file.as_ref().expect("a file").path, "x.csv");
    assert_eq!((spec.parallelism, spec.slices), (Some(3), 7));
    let spec = with(&["stages.by_carrier.key.0=origin"]).expect("a list entry").spec;
    assert_eq!(spec.stages["by_carrier"].key.as_deref(), Some(&["origin".to_owned()][..]));
    let spec = with(&["stages.late.where=a = b"]).expect("a value with =").spec;
    assert_eq!(spec.stages["late"].filter.as_deref(), Some("a = b"));

    let refused = |setting: &str| with(&[setting]).expect_err("a bad setting").to_string();
    assert_eq!(
        refused("sources.flight.file.path=x"),
        "--set: sources.flight: error: `--set sources.flight.file.path`: there is no `flight`, \
         expected `flights`, did you mean `flights`?"
    );
    assert!(refused("slices").contains("has no `=`"));
    assert!(refused("stages..where=1").contains("is not a path"));
    let message = refused("slice=1");
    assert!(message.contains("unknown field `slice`"), "{message}");
    assert!(message.contains("did you mean `slices`?"), "{message}");
    assert!(refused("name.x=1").contains("expected a table"), "{}", refused("name.x=1"));
}

#[test]
fn problems_found_later_know_their_place() {
    let descriptor = parse(JOB, "job.yaml").expect("a good job");
    let at = |problem: Problem| {
        let place = descriptor.locate(problem).place.expect("a place");
        (place.line, place.column)
    };
    assert_eq!(at(Problem::new(["stages", "late", "where"], "")), (11, 12));
    assert_eq!(at(Problem::new(["stages", "late"], "").at_name()), (9, 3));
    assert_eq!(at(Problem::new(["stages", "by_carrier", "from", "0"], "")), (14, 12));
    assert_eq!(at(Problem::new(["stages", "by_carrier", "late"], "")), (13, 3));
    let within = Some(TextPlace { line: 1, column: 13 });
    let problem = Problem::new(["stages", "late", "where"], "");
    assert_eq!(at(Problem { within, ..problem }), (11, 24));
}

#[test]
fn places_within_quoted_text() {
    let text = |scalar: &str| {
        format!("name: a\nsources: {{}}\nsinks: {{}}\nstages:\n  s:\n    where: {scalar}\n")
    };
    for (scalar, expected) in [
        ("'a b'", 15),
        ("\"a b\"", 15),
        ("a b", 14),
        ("\"\\x61 b\"", 12),
        ("|\n      a b", 9),
        ("|\n      c\n      a b", 9),
    ] {
        let descriptor = parse(&text(scalar), "j").expect("a job");
        let problem = Problem::new(["stages", "s", "where"], "");
        let lines = scalar.lines().count().saturating_sub(1).max(1);
        let line = u32::try_from(lines).expect("few lines");
        let within = Some(TextPlace { line, column: 3 });
        let place = descriptor.locate(Problem { within, ..problem }).place.expect("a place");
        assert_eq!(place.column, expected, "{scalar}");
    }
}

#[test]
fn a_stream_starts_at_a_place_a_time_or_a_group() {
    use tidemill_types::{Micros, job::StartSpec};
    let job = |start: &str| {
        format!(
            "name: j\nsources: {{s: {{stream: a, format: text, start: {start}}}}}\nsinks: {{}}\n"
        )
    };
    let starts = [
        ("earliest", StartSpec::Earliest),
        ("1500", StartSpec::Time(Micros(1_500_000))),
        ("{group: billing}", StartSpec::Group("billing".to_owned())),
    ];
    for (text, expected) in starts {
        let spec = parse(&job(text), "job.yaml").expect("a start").spec;
        assert_eq!(spec.sources["s"].start, Some(expected.clone()));
        let written = serde_json::to_string(&expected).expect("a start is written");
        assert_eq!(serde_json::from_str::<StartSpec>(&written).expect("and read"), expected);
    }
    let message = refused(&job("{grp: billing}"));
    assert!(
        message.contains("job.yaml:2:48: error: unknown field `grp`, expected `group`"),
        "{message}"
    );
    assert!(refused(&job("soon")).contains("`{group: NAME}`"));
}

proptest::proptest! {
    /// The same is done by the target `job` in `fuzz/`, with texts that a fuzzer chooses.
    #[test]
    fn row_34_any_change_of_a_job_is_a_job_or_is_refused_with_a_place(
        changes in proptest::collection::vec(
            (proptest::prelude::any::<usize>(), 0..9usize, "[ -~\n\t\u{e9}\u{2028}]{0,6}"), 1..6,
        ),
    ) {
        let mut text: Vec<char> = JOB.chars().collect();
        for (at, gone, new) in changes {
            let at = at % (text.len() + 1);
            let end = (at + gone).min(text.len());
            text.splice(at..end, new.chars());
        }
        let text: String = text.into_iter().collect();
        match parse(&text, "job.yaml") {
            Ok(job) => {
                for problem in crate::check::check(&job.spec, &crate::Registry::default()) {
                    proptest::prop_assert!(!job.locate(problem).to_string().is_empty());
                }
            }
            Err(refused) => proptest::prop_assert!(!refused.0.is_empty()),
        }
    }
}

/// The settings of a job with one source and one sink.
fn spec_of(source: &str, sink: &str) -> JobSpec {
    let text = format!("name: j\nsources:\n  s: {source}\nsinks:\n  o: {sink}\n");
    parse(&text, "j").unwrap_or_else(|error| panic!("{text}{error}")).spec
}

#[test]
fn streams_and_topics_are_read_in_both_spellings() {
    let sink = "{from: s, blackhole: {}}";
    let parts = "format: json, schema: {a: int}, sample: 7, start: latest, until: latest, \
                 isolation: uncommitted, meta: {key: k}";
    let beside = spec_of(&format!("{{stream: x, {parts}, time: {{field: t}}}}"), sink);
    let within = spec_of(&format!("{{stream: {{name: x, {parts}}}, time: {{field: t}}}}"), sink);
    assert_eq!(beside, within);
    assert_eq!(within.sources["s"].stream.as_deref(), Some("x"));
    let topic = "brokers: \"h:1\", topic: x";
    let beside = spec_of(&format!("{{kafka: {{{topic}}}, {parts}}}"), sink);
    assert_eq!(beside, spec_of(&format!("{{kafka: {{{topic}, {parts}}}}}"), sink));
    let mixed = format!("{{format: json, kafka: {{{topic}, start: latest}}, sample: 7}}");
    let mixed = spec_of(&mixed, sink).sources["s"].kafka.clone().expect("a topic");
    assert_eq!((mixed.format, mixed.sample), (Format::Json, Some(7)));

    let source = "{stream: x, format: json}";
    let parts = "format: csv, key: [a], streamlets: 4";
    let beside = spec_of(source, &format!("{{from: s, stream: out, {parts}}}"));
    let within = spec_of(source, &format!("{{from: s, stream: {{name: out, {parts}}}}}"));
    assert_eq!(beside, within);
    let plain = spec_of(source, "{from: s, stream: out}");
    assert_eq!(plain, spec_of(source, "{from: s, stream: out, format: json}"));
    let parts = "format: text, key: [a], create: true, partitions: 3, transaction_timeout: 5s";
    let beside = spec_of(source, &format!("{{from: s, kafka: {{{topic}}}, {parts}}}"));
    assert_eq!(beside, spec_of(source, &format!("{{from: s, kafka: {{{topic}, {parts}}}}}")));
    // As JSON, and with a part that is set from outside.
    let json = r#"{"name": "j", "sources": {"s": {"stream": {"name": "x", "format": "json"}}},
        "sinks": {"o": {"from": "s", "stream": "out", "format": "csv"}}}"#;
    let json = parse(json, "j").expect("JSON").spec;
    assert_eq!(json, spec_of(source, "{from: s, stream: {name: out, format: csv}}"));
    let text =
        "name: j\nsources: {s: {stream: x, format: json}}\nsinks: {o: {from: s, stream: out}}";
    let set = parse_with(text, "j", &["sinks.o.format=csv"]).expect("a part that is set");
    assert_eq!(set.spec, json);
}

#[test]
fn a_part_in_the_wrong_spelling_is_shown_where_it_is_written() {
    for (source, sink, expected) in [
        (
            "{stream: {name: x, format: json}, format: csv}",
            "{from: s, blackhole: {}}",
            "j:3:40: error: `format` is given twice: beside `stream` and in it, expected one of them",
        ),
        (
            "{stream: {format: json}}",
            "{from: s, blackhole: {}}",
            "j:3:7: error: the field `name` is missing, expected `stream: NAME`, or `stream: {name: NAME, ...}`",
        ),
        (
            "{stream: {name: x, fromat: json}}",
            "{from: s, blackhole: {}}",
            "j:3:25: error: unknown field `fromat`, expected one of `name`, `format`, `schema`, `sample`, \
             `start`, `until`, `isolation`, `meta`, did you mean `format`?",
        ),
        (
            "{stream: {name: x, format: jsno}}",
            "{from: s, blackhole: {}}",
            "j:3:33: error: unknown value `jsno`, expected one of `json`, `csv`, `text`, `influx`, `arrow`, \
             `parquet`, did you mean `json`?",
        ),
        (
            "{kafka: {brokers: b, topic: x}, format: jsno}",
            "{from: s, blackhole: {}}",
            "j:3:46: error: unknown value `jsno`, expected one of `json`, `csv`, `text`, `influx`, `arrow`, \
             `parquet`, did you mean `json`?",
        ),
        (
            "{stream: x, format: json}",
            "{from: s, stream: {name: o, key: [a]}, key: [b]}",
            "j:5:34: error: `key` is given twice: beside `stream` and in it, expected one of them",
        ),
        (
            "{stream: x, format: json}",
            "{from: s, stream: o, partitions: 3}",
            "j:5:27: error: `partitions` is no part of a sink's `stream`, expected `format`, `key`, `streamlets`",
        ),
        (
            "{stream: x, format: json}",
            "{from: s, file: {path: o}, format: csv}",
            "j:5:33: error: `format` stands beside a `stream` or a `kafka`, and this sink has neither, \
             expected `format` in the table of the sink's kind, such as `file: {format: ...}`",
        ),
        (
            "{stream: x, format: json}",
            "{from: s, stream: o, streamlets: many}",
            "j:5:39: error: found `many`, expected a whole number from 0 to 4294967295",
        ),
    ] {
        let text = format!("name: j\nsources:\n  s: {source}\nsinks:\n  o: {sink}\n");
        let refused = parse(&text, "j").expect_err("it is refused").to_string();
        assert_eq!(refused.lines().next(), Some(expected), "{text}");
    }
}
