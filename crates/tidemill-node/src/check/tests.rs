//! Jobs that must be refused before anything is opened, each with the message it must give.

use super::*;
use crate::descriptor::parse;

/// A good job whose stages and sinks the cases replace.
fn job(stages: &str, sinks: &str) -> String {
    format!(
        "name: j\nsources:\n  a: {{file: {{path: a.csv, format: csv}}, time: {{field: t}}}}\n  \
         b: {{file: {{path: b.csv, format: csv}}}}\nstages:\n{stages}\nsinks:\n{sinks}\n"
    )
}

const SINK: &str = "  out: {from: s, blackhole: {}}";

fn problems(text: &str) -> Vec<String> {
    let descriptor = parse(text, "j").expect("a job that can be read");
    let found = check(&descriptor.spec, &Registry::default());
    found.into_iter().map(|it| descriptor.locate(it).to_string()).collect()
}

#[track_caller]
fn refuses(text: &str, expected: &[&str]) {
    let found = problems(text);
    let first_lines: Vec<&str> =
        found.iter().map(|it| it.lines().next().expect("a line")).collect();
    assert_eq!(first_lines, expected, "{text}");
}

#[test]
fn takes_every_legal_stage() {
    for stage in [
        "{from: a, where: x > 1}",
        "{from: [a, b]}",
        "{from: a, partition: random}",
        "{from: a, key: [x], partition: key}",
        "{from: a, flat_map: {unnest: xs, as: x}, where: x > 1, select: {x: x}}",
        "{from: a, select: {x: x}, key: [x], window: {tumbling: 1d}, aggregate: {n: count(*)}, late: l}",
        "{from: a, window: {global: {}}, aggregate: {n: count(*)}}",
        "{from: a, top: {k: 3, by: x}}",
        "{from: a, dedup: {on: [x], within: 1h}, partition: key}",
        "{join: {left: a, table: b, on: [x]}, where: y > 1}",
        "{join: {left: a, right: b, on: [x], within: 1h}}",
    ] {
        let found = problems(&job(&format!("  s: {stage}"), SINK));
        assert!(found.is_empty(), "{stage}: {found:?}");
    }
}

#[test]
fn refuses_a_job_that_no_command_could_name() {
    let named = |name: &str| job("  s: {from: a, where: x > 1}", SINK).replace("name: j", name);
    refuses(
        &named("name: -x"),
        &["j:1:7: error: the name `-x` begins with `-`, expected a letter, a digit or `_` first"],
    );
    refuses(
        &named("name: --help"),
        &[
            "j:1:7: error: the name `--help` begins with `-`, expected a letter, a digit or `_` first",
        ],
    );
    for good in ["name: x-", "name: _-x", "name: 1-2"] {
        refuses(&named(good), &[]);
    }
}

#[test]
fn refuses_parts_that_do_not_go_together() {
    let legal = "expected any of `flat_map`, `where`, `select`, then at most one of `window` + \
        `aggregate` (with or without `key`), `top`, `dedup`, `operator`; or `join`, then `where`, \
        `select`";
    for (stage, expected) in [
        ("{from: a, top: {k: 1, by: x}, dedup: {on: [x]}}", format!("j:6:36: error: `top` and `dedup` do not go together in one stage, {legal}")),
        ("{from: a}", format!("j:6:3: error: the stage does nothing, {legal}")),
        ("{where: x > 1}", "j:6:3: error: the stage reads nothing, expected `from` or `join`".to_owned()),
        ("{from: a, key: [x]}", "j:6:16: error: `key` decides nothing in this stage, expected `window` + `aggregate`, `operator` or `partition: key` with it".to_owned()),
        ("{from: a, window: {tumbling: 1d}}", "j:6:16: error: `window` gathers nothing, expected `aggregate` with it".to_owned()),
        ("{from: a, aggregate: {n: count(*)}}", "j:6:16: error: `aggregate` has no window, expected `window` with it; `window: {global: {}}` gives one result at the end".to_owned()),
        ("{from: a, window: {tumbling: 0s}, aggregate: {n: count(*)}}", "j:6:35: error: it is zero, expected a time such as `1h`".to_owned()),
        ("{from: a, window: {sliding: {size: 3652425d, every: 5m}}, aggregate: {n: count(*)}}", "j:6:58: error: each record would belong to more than a million windows, expected a longer time".to_owned()),
        ("{from: a, window: {count: {size: 0}}, aggregate: {n: count(*)}}", "j:6:39: error: it is zero, expected a number of records".to_owned()),
        ("{from: a, window: {global: {}}, aggregate: {n: count(*)}, late: l}", "j:6:64: error: nothing comes late in this stage, expected a `tumbling`, `sliding` or `session` window".to_owned()),
        ("{from: a, top: {k: 0, by: x}}", "j:6:25: error: it is zero, expected a number of rows".to_owned()),
        ("{from: a, partition: key}", "j:6:27: error: the stage has no `key` to part by, expected `key: [...]` with it".to_owned()),
        ("{from: a, dedup: {on: [x]}, partition: random}", "j:6:45: error: rows of one key would meet in several slices, expected one of `key`, `one`, or none".to_owned()),
        ("{from: a, join: {left: a, table: b, on: [x]}}", "j:6:7: error: `from` and `join` do not go together, expected the inputs in `join.left` and `join.right`".to_owned()),
        ("{join: {left: a, right: b, on: [x]}}", "j:6:7: error: a join of two streams has no time limit, expected `within`, such as `within: 1h`".to_owned()),
        ("{join: {left: a, on: [x]}}", "j:6:7: error: the join has no right side, expected `right` or `table`".to_owned()),
        ("{from: a, operator: mine}", "j:6:26: error: no operator `mine` is registered by the program".to_owned()),
        ("{from: a, where: x, slices: 0}", "j:6:34: error: it is 0, expected a number from 1 to 65536".to_owned()),
    ] {
        refuses(&job(&format!("  s: {stage}"), SINK), &[&expected]);
    }
}

#[test]
fn refuses_names_that_lead_nowhere() {
    refuses(
        &job("  s: {from: aa, where: x}", SINK),
        &[
            "j:6:13: error: there is no source or stage `aa`, expected one of `a`, `b`, `s`, did you mean `a`?",
        ],
    );
    refuses(
        &job("  late: {from: [a, lat], where: x}", "  out: {from: late, blackhole: {}}"),
        &[
            "j:6:20: error: there is no source or stage `lat`, expected one of `a`, `b`, `late`, did you mean `late`?",
        ],
    );
    refuses(
        &job("  s: {from: a, where: x}", "  out: {from: dead_leter, blackhole: {}}"),
        &[
            "j:8:15: error: there is no source or stage `dead_leter`, expected one of `a`, `b`, `s`, `dead_letter`, did you mean `dead_letter`?",
        ],
    );
}

#[test]
fn refuses_loops_and_names_them() {
    refuses(
        &job(
            "  p: {from: r, where: x}\n  q: {from: [a, p], where: x}\n  r: {from: q, where: x}",
            "  out: {from: q, blackhole: {}}",
        ),
        &[
            "j:6:13: error: stages read each other in a loop: p -> r -> q -> p, expected a way from sources to sinks",
        ],
    );
    refuses(
        &job("  s: {from: s, where: x}", SINK),
        &[
            "j:6:13: error: stages read each other in a loop: s -> s, expected a way from sources to sinks",
        ],
    );
}

#[test]
fn refuses_bad_and_double_names() {
    refuses(
        &job("  a: {from: b, where: x}", "  out: {from: a, blackhole: {}}"),
        &["j:6:3: error: the name `a` is taken by `sources.a`, expected a name of its own"],
    );
    refuses(
        &job("  a b: {from: a, where: x}", "  out: {from: a b, blackhole: {}}"),
        &[
            "j:6:3: error: `a b` cannot be a name, expected letters, digits, `-` and `_`, up to 128 of them",
        ],
    );
}

#[test]
fn refuses_sinks_that_cannot_be() {
    let stage = "  s: {from: a, where: x}";
    refuses(
        &job(stage, "  out: {from: s}"),
        &[
            "j:8:3: error: the sink `out` writes nowhere, expected one of `file: {path: ..., format: ...}`, `stream: ...`, `kafka: {brokers: ..., topic: ...}`, `postgres: {url: ..., table: ...}`, `stdout: {}`, `blackhole: {}`",
        ],
    );
    refuses(
        &job(stage, "  out: {from: s, stdout: {}, stream: x, blackhole: {}}"),
        &[
            "j:8:3: error: the sink `out` has several kinds: stdout, stream, blackhole, expected exactly one",
        ],
    );
    refuses(
        &job(stage, "  out: {from: s, file: {path: a.csv, format: csv}}"),
        &["j:8:31: error: `a.csv` is the file of the source `a` too"],
    );
}

#[test]
fn refuses_a_group_in_another_cluster() {
    let kafka = "{brokers: b, topic: t, format: text, start: {group: g}}";
    refuses(
        &format!(
            "name: j\nsources:\n  a: {{kafka: {kafka}}}\nsinks:\n  out: {{from: a, blackhole: {{}}}}\n"
        ),
        &[
            "j:3:58: error: a topic of another cluster cannot start from a consumer group, expected `earliest`, `latest` or a time",
        ],
    );
}

#[test]
fn refuses_a_time_that_no_transaction_can_have() {
    let kafka = "{brokers: b, topic: t, transaction_timeout: 10ms}";
    refuses(
        &format!(
            "name: j\nsources:\n  a: {{file: {{path: a.csv, format: csv}}}}\nsinks:\n  out: {{from: a, kafka: {kafka}}}\n"
        ),
        &["j:5:69: error: 10ms is no time for a transaction, expected from 1s to 20d"],
    );
}

#[test]
fn order_puts_readers_after_what_they_read() {
    let text = job(
        "  z: {from: y, where: x}\n  y: {from: late, where: x}\n  w: {from: a, window: {tumbling: 1h}, aggregate: {n: count(*)}, late: late}",
        "  out: {from: z, blackhole: {}}",
    );
    let descriptor = parse(&text, "j").expect("a job");
    assert_eq!(order(&descriptor.spec), ["w", "y", "z"]);
}

#[test]
fn a_source_read_only_as_a_table_is_not_streamed() {
    let text = job("  s: {join: {left: a, table: b, on: [x]}}", SINK);
    let descriptor = parse(&text, "j").expect("a job");
    assert_eq!(streamed(&descriptor.spec), ["a"]);
    assert_eq!(reached(&descriptor.spec), ["a", "b"]);
    let unread = parse(&job("  s: {from: b, where: x}", "  out: {from: a, blackhole: {}}"), "j");
    assert_eq!(reached(&unread.expect("a job").spec), ["a"]);
    assert_eq!(sources_of(&descriptor.spec, "s"), ["a", "b"]);
    let long: String = (0..600)
        .map(|n| {
            format!(
                "  s{n}: {{from: {}, where: x}}\n",
                if n == 0 { "a".to_owned() } else { format!("s{}", n - 1) }
            )
        })
        .collect();
    let descriptor = parse(&job(&long, "  out: {from: s599, blackhole: {}}"), "j").expect("a job");
    assert_eq!(order(&descriptor.spec).len(), 600);
    assert_eq!(sources_of(&descriptor.spec, "s599"), ["a"]);
}

/// A job with this backend of checkpoints.
fn backed(backend: &str) -> String {
    format!("checkpoint: {{backend: {{{backend}}}}}\n{}", job("  s: {from: a, where: x > 1}", SINK))
}

#[test]
fn checkpoints_come_as_the_delivery_lets_them() {
    let with = |delivery: &str, every: &str| {
        let rest = job("  s: {from: a, where: x > 1}", SINK);
        problems(&format!("delivery: {delivery}\ncheckpoint: {{every: {every}}}\n{rest}"))
    };
    for every in ["5s", "auto", "{time: 5s}"] {
        assert_eq!(with("exactly-once", every), Vec::<String>::new(), "{every}");
    }
    for every in ["5s", "auto", "{records: 10}", "{time: 5s, records: 10}"] {
        assert_eq!(with("at-most-once", every), Vec::<String>::new(), "{every}");
    }
    for (delivery, every) in [
        ("exactly-once", "{records: 10}"),
        ("at-most-once", "{records: 0}"),
        ("at-most-once", "0s"),
    ] {
        let found = with(delivery, every);
        assert!(found.len() == 1 && found[0].contains("2 | checkpoint: {every"), "{found:?}");
    }
    let found = with("at-least-once", "5s");
    assert!(found.len() == 1 && found[0].contains("has no checkpoints"), "{found:?}");
}

#[test]
fn takes_backends_on_servers() {
    for backend in [
        "redis: {url: redis://localhost}",
        "redis: {url: 'rediss://user:word@host:1/2', prefix: a:b, timeout: 5s}",
        "object_store: {url: s3://bucket}",
        "object_store: {url: s3://bucket/a/b, endpoint: 'http://host:1', region: x, allow_http: true, virtual_hosted: true}",
        "hbase: {url: 'http://host:8080'}",
        "hbase: {url: 'https://host', table: space:table}",
    ] {
        assert_eq!(problems(&backed(backend)), Vec::<String>::new(), "{backend}");
    }
}

#[test]
fn refuses_addresses_of_other_servers_without_their_passwords() {
    for (backend, path) in [
        ("redis: {url: 'http://user:word@host'}", "redis.url"),
        ("redis: {url: redis://host, prefix: ''}", "redis.prefix"),
        ("redis: {url: redis://host, timeout: 0s}", "redis.timeout"),
        ("object_store: {url: 'gs://bucket'}", "object_store.url"),
        ("object_store: {url: 'file:///tmp'}", "object_store.url"),
        ("object_store: {url: s3://bucket, endpoint: host}", "object_store.endpoint"),
        ("hbase: {url: 'host:8080'}", "hbase.url"),
        ("hbase: {url: 'http://host', table: 'a/b'}", "hbase.table"),
    ] {
        let found = problems(&backed(backend));
        assert_eq!(found.len(), 1, "{backend}: {found:?}");
        assert!(
            found[0].contains("cannot be taken") && !found[0].contains("user:word@host`"),
            "{found:?}"
        );
        assert!(found[0].contains(path.split('.').next_back().unwrap()), "{found:?}");
    }
}

#[test]
fn parts_of_csv_are_of_csv_files() {
    let with = |file: &str| {
        let text = job("  s: {from: a, where: x > 1}", SINK);
        text.replace("{path: b.csv, format: csv}", &format!("{{path: b, {file}}}"))
    };
    for good in ["format: csv, header: false, delimiter: \";\"", "format: csv, delimiter: \"\\t\""]
    {
        assert_eq!(problems(&with(good)), [""; 0], "{good}");
    }
    let refused = |file: &str| problems(&with(file)).join(" ");
    assert!(refused("format: json, header: true").contains("`header` belongs to the format `csv`"));
    assert!(refused("format: text, delimiter: \",\"").contains("`delimiter` belongs to"));
    assert!(refused("format: csv, delimiter: \"é\"").contains("cannot stand between fields"));
    assert!(refused("format: csv, delimiter: '\"'").contains("cannot stand between fields"));
}

#[test]
fn a_job_over_a_stream_without_a_checkpoint_is_told_what_it_will_miss() {
    let advised = |source: &str, more: &str| {
        let text = format!(
            "name: j\n{more}sources:\n  s: {{{source}}}\nsinks:\n  o: {{from: s, blackhole: {{}}}}\n"
        );
        let descriptor = parse(&text, "j").expect("a job that can be read");
        assert!(check(&descriptor.spec, &Registry::default()).is_empty(), "{text}");
        advice(&descriptor.spec)
    };
    let stream = "stream: orders, format: json";
    let kafka = "kafka: {brokers: \"h:1\", topic: t, format: json}";
    for source in [stream, kafka] {
        let said = advised(source, "");
        assert_eq!(said.len(), 1);
        assert!(
            said[0].contains("without a `checkpoint` the job reads `s` from where it first began")
        );
    }
    for (source, more) in [
        (stream, "checkpoint: {every: 1m}\n"),
        (stream, "delivery: at-least-once\n"),
        ("stream: orders, format: json, until: latest", ""),
        ("file: {path: a.csv, format: csv}", ""),
    ] {
        assert_eq!(advised(source, more), Vec::<String>::new(), "{source} {more}");
    }
}

#[test]
fn compression_is_accepted_with_a_warning() {
    let advised = |compression: &str| {
        let text = format!("{compression}{}", job("  s: {from: a, where: x > 1}", SINK));
        let descriptor = parse(&text, "j").expect("a job that can be read");
        assert!(check(&descriptor.spec, &Registry::default()).is_empty(), "{text}");
        advice(&descriptor.spec)
    };
    for given in ["always", "selective", "{selective: 0.3}", "{selective: 0}"] {
        let said = advised(&format!("compression: {given}\n"));
        assert_eq!(said.len(), 1, "{given}: {said:?}");
        assert!(said[0].starts_with("`compression` has no effect"), "{said:?}");
    }
    for none in ["", "compression: off\n"] {
        assert_eq!(advised(none), Vec::<String>::new(), "{none}");
    }
}

#[test]
fn a_sink_may_have_the_name_that_it_reads() {
    let stage = "  s: {from: a, select: {x: x}, key: [x], window: {tumbling: 1d}, aggregate: {n: count(*)}, late: l}";
    for sinks in [
        "  s: {from: s, blackhole: {}}",
        "  s: {from: [s, s], blackhole: {}}",
        "  a: {from: a, blackhole: {}}\n  b: {from: b, blackhole: {}}",
        "  l: {from: l, blackhole: {}}\n  s: {from: s, blackhole: {}}",
        "  s: {from: s, blackhole: {}}\n  dead_letter: {from: dead_letter, blackhole: {}}",
    ] {
        refuses(&job(stage, sinks), &[]);
    }
    let taken = |line: usize, name: &str, by: &str| {
        format!(
            "j:{line}:3: error: the name `{name}` is taken by `{by}`, expected a name of its own, or \
             that of the stage or source it writes"
        )
    };
    refuses(&job(stage, "  a: {from: s, blackhole: {}}"), &[&taken(8, "a", "sources.a")]);
    refuses(&job(stage, "  l: {from: s, blackhole: {}}"), &[&taken(8, "l", "stages.s.late")]);
    refuses(
        &job(stage, "  dead_letter: {from: s, blackhole: {}}"),
        &["j:8:3: error: `dead_letter` is the name of the bad records"],
    );
}

#[test]
fn a_job_that_reads_what_it_writes_is_told() {
    let advised = |sources: &str, sinks: &str| {
        let text = format!(
            "name: j\ncheckpoint: {{every: 1m}}\nsources:\n  {sources}\nstages:\n  \
             x: {{from: a, where: n > 1}}\nsinks:\n  {sinks}\n"
        );
        let descriptor = parse(&text, "j").expect("a job that can be read");
        let problems = check(&descriptor.spec, &Registry::default());
        assert!(problems.is_empty(), "{text}{problems:?}");
        advice(&descriptor.spec)
    };
    let stream = "a: {stream: orders, format: json}";
    let topic = "a: {kafka: {brokers: \"h:1,i:2\", topic: t, format: json}}";
    for (sources, sinks) in [
        (stream, "o: {from: a, stream: orders}"),
        (stream, "o: {from: x, stream: {name: orders, streamlets: 4}}"),
        (stream, "o: {from: dead_letter, stream: orders}"),
        (topic, "o: {from: x, kafka: {brokers: \"i:2\", topic: t}}"),
        (topic, "o: {from: dead_letter, kafka: {brokers: \"h:1\", topic: t}}"),
    ] {
        let said = advised(sources, sinks);
        assert_eq!(said.len(), 1, "{sources} {sinks}");
        assert!(said[0].contains("the sink `o` writes where the source `a` reads"), "{said:?}");
    }
    for (sources, sinks) in [
        (stream, "o: {from: x, stream: others}"),
        ("a: {stream: orders, format: json, until: latest}", "o: {from: x, stream: orders}"),
        (
            "a: {stream: orders, format: json}\n  b: {stream: more, format: json}",
            "o: {from: x, stream: more}\n  p: {from: b, blackhole: {}}",
        ),
        (topic, "o: {from: x, kafka: {brokers: \"other:1\", topic: t}}"),
        (topic, "o: {from: x, stream: t}"),
    ] {
        assert_eq!(advised(sources, sinks), Vec::<String>::new(), "{sources} {sinks}");
    }
}
