//! Every setting can be said in each of the three ways, in their order, and says what is possible.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

/// For each setting, a value that is not its default; and one that is refused.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("data", "/var/lib/tidemill", ""),
    ("node-id", "7", "-1"),
    ("cluster-id", "q1pXk0mBT7Wc3nRzVw5uYg", "a b"),
    ("threads", "3", "0"),
    ("log-level", "debug", "loud"),
    ("log-format", "json", "xml"),
    ("kafka-listen", "127.0.0.1:0", "9092"),
    ("kafka-advertised", "broker.example.org:9092", "broker.example.org"),
    ("http-listen", "[::1]:80", "localhost"),
    ("http-hosts", "tidemill,metrics.example.org", "a b"),
    ("insecure", "true", "yes"),
    ("cluster-listen", "127.0.0.1:7088", "7088"),
    ("cluster-advertised", "node-1.example.org:7088", "node-1"),
    ("cluster-key-file", "/etc/tidemill/cluster.key", ""),
    ("join", "10.0.0.1:7088,[::1]:7188,node-3:7088", "10.0.0.1:7088,10.0.0.1:7088"),
    ("coordinator", "etcd:http://10.0.0.1:2379,https://10.0.0.2:2379", "etcd:10.0.0.1"),
    ("etcd-ca-file", "/etc/tidemill/etcd-ca.pem", ""),
    ("node-lease", "10s", "100ms"),
    ("rack", "zone-a", "a b"),
    ("fsync", "10ms", "sometimes"),
    ("auto-create", "false", "0"),
    ("streamlets", "16", "0"),
    ("active-groups", "4", "65"),
    ("segment-bytes", "64MiB", "1KiB"),
    ("max-chunk-bytes", "4MiB", "2GiB"),
    ("retention-time", "none", "0s"),
    ("retention-bytes", "10GiB", "-1"),
    ("memory", "1GiB", "much"),
    ("read-ahead", "1MiB", "1B"),
    ("recycled", "0B", "-1"),
    ("group-segments", "8", "0"),
    ("sync-threads", "4", "0"),
    ("sync-together", "0", "-1"),
    ("retention-every", "1m", "1us"),
    ("streamlets-max", "1000", "0"),
    ("connections", "100", "0"),
    ("request-bytes", "1MiB", "3GiB"),
    ("requests-bytes", "64MiB", "1KiB"),
    ("in-flight", "5", "0"),
    ("fetch-bytes", "1MiB", "1B"),
    ("fetch-sessions", "0", "-1"),
    ("transfer-time", "5s", "1ms"),
    ("idle-time", "1m", "1500us"),
    ("check-records", "false", "maybe"),
    ("inflated-bytes", "1MiB", "1B"),
    ("journal", "map", "paper"),
    ("answers-bytes", "64MiB", "1KiB"),
    ("group-initial-delay", "0us", "2d"),
    ("group-session-min", "1s", "0s"),
    ("group-session-max", "1h", "0s"),
    ("group-members", "10", "0"),
    ("group-bytes", "1MiB", "2GiB"),
    ("groups", "10", "0"),
    ("offsets", "10", "0"),
    ("offset-metadata-bytes", "10", "-1"),
    ("offsets-retention", "1d", "1ms"),
    ("producers", "10", "0"),
    ("producer-idle-time", "1h", "1ms"),
    ("transactional-ids", "10", "0"),
    ("transaction-time-max", "1h", "30d"),
    ("transactional-id-idle-time", "1d", "1ms"),
    ("http-connections", "100", "0"),
    ("http-body-bytes", "1MiB", "1B"),
    ("http-bodies-bytes", "64MiB", "1B"),
    ("http-transfer-time", "5s", "1ms"),
    ("http-idle-time", "5s", "never"),
];

fn said<'a>(said: &'a BTreeMap<String, String>) -> impl Fn(&str) -> Option<String> + 'a {
    move |name| said.get(name).cloned()
}

fn one(name: impl Into<String>, value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(name.into(), value.to_owned())])
}

fn texts(of: &ServeSettings) -> Vec<String> {
    settings().map(|it| (it.get)(of)).collect()
}

fn of_file(text: &str) -> Result<ServeSettings, String> {
    let given = Given { flag: &|_| None, variable: &|_| None, file: Some(("node.yaml", text)) };
    resolve(given).map_err(|error| error.to_string())
}

#[test]
fn names_are_unique_and_every_setting_has_an_example_and_a_group() {
    let names: BTreeSet<&str> = settings().map(|it| it.name).collect();
    assert_eq!(names.len(), settings().count());
    let examples: BTreeSet<&str> = EXAMPLES.iter().map(|it| it.0).collect();
    assert_eq!(names, examples);
    assert!(!names.contains(FLAG), "the file cannot name a file");
    for setting in settings() {
        assert!(setting.about.ends_with('.') || setting.about.ends_with("`."), "{}", setting.name);
    }
}

#[test]
fn what_is_written_reads_as_the_same() {
    let mut changed = ServeSettings::default();
    let before = texts(&changed);
    for setting in settings() {
        (setting.set)(&mut changed, &setting.default()).unwrap();
    }
    assert_eq!(texts(&changed), before);
}

#[test]
fn each_setting_is_a_flag_over_a_variable_over_a_key_over_a_default() {
    for (name, example, refused) in EXAMPLES {
        let setting = settings().find(|it| it.name == *name).unwrap();
        let default = setting.default();
        assert_ne!(*example, default, "{name}");
        let (none, flag) = (BTreeMap::new(), one(*name, example));
        let variable = one(setting.variable(), example);
        let file = |value: &str| format!("{}: '{value}'\n", setting.key());
        let resolved = |flag: &_, variable: &_, file: &str| {
            let given =
                Given { flag: &said(flag), variable: &said(variable), file: Some(("f", file)) };
            resolve(given).map(|it| (setting.get)(&it))
        };
        assert_eq!(resolved(&none, &none, "").unwrap(), default);
        assert_eq!(resolved(&none, &none, &file(example)).unwrap(), *example);
        assert_eq!(resolved(&none, &variable, &file(&default)).unwrap(), *example, "{name}");
        let away = one(setting.variable(), &default);
        assert_eq!(resolved(&flag, &away, &file(&default)).unwrap(), *example, "{name}");
        // What is overruled is read all the same: a mistake is not hidden.
        for error in [
            resolved(&one(*name, refused), &none, ""),
            resolved(&flag, &one(setting.variable(), refused), ""),
            resolved(&flag, &variable, &file(refused)),
        ] {
            assert_eq!(error.unwrap_err().0.len(), 1, "{name}");
        }
    }
}

#[test]
fn one_setting_changes_nothing_but_itself() {
    let before = texts(&ServeSettings::default());
    for (name, example, _) in EXAMPLES {
        let flag = one(*name, example);
        let given = Given { flag: &said(&flag), variable: &|_| None, file: None };
        let after = texts(&resolve(given).unwrap());
        let changed = before.iter().zip(&after).filter(|(before, after)| before != after);
        assert_eq!(changed.count(), 1, "{name}");
    }
}

#[test]
fn a_body_that_never_fits_is_refused_where_it_is_asked_for() {
    let resolved = |flag: &BTreeMap<_, _>, variable: &BTreeMap<_, _>, file: &str| {
        let given = Given { flag: &said(flag), variable: &said(variable), file: Some(("f", file)) };
        resolve(given).map(|it| it.http.body_bytes_max()).map_err(|it| it.to_string())
    };
    let none = BTreeMap::new();
    let name = "http-body-bytes";
    let why = "error: a body of 65MiB never fits into 256MiB for all bodies, expected at most a \
               quarter of `http-bodies-bytes`";
    let variable = one("TIDEMILL_HTTP_BODY_BYTES", "65MiB");
    let file = "http_body_bytes: 65MiB\n";
    for (refused, source) in [
        (resolved(&one(name, "65MiB"), &variable, file), "--http-body-bytes: "),
        (resolved(&none, &variable, file), "TIDEMILL_HTTP_BODY_BYTES: "),
        (resolved(&none, &none, file), "f: http_body_bytes: "),
    ] {
        assert_eq!(refused, Err(format!("{source}{why}")));
    }
    assert_eq!(resolved(&one(name, "64MiB"), &none, ""), Ok(64 << 20));
    let more = one("http-bodies-bytes", "260MiB");
    assert_eq!(resolved(&more, &variable, ""), Ok(65 << 20));
    // Nobody asked for the default.
    assert_eq!(resolved(&one("http-bodies-bytes", "32MiB"), &none, ""), Ok(8 << 20));
}

#[test]
fn a_mistake_in_the_file_is_shown_with_its_place_and_the_nearest_key() {
    let text = "data: d\nkafka_lisen: 127.0.0.1:9\nstreamlets: many\nfsync: [always]\n";
    let error = of_file(text).unwrap_err();
    assert!(error.contains("node.yaml:2:1: error: unknown setting `kafka_lisen`"), "{error}");
    assert!(error.contains("did you mean `kafka_listen`?"), "{error}");
    assert!(error.contains("node.yaml:3:13: error: `many` is not a whole number"), "{error}");
    assert!(error.contains("node.yaml:4:8: error: a list stands here"), "{error}");
    assert!(error.contains("  2 | kafka_lisen"), "{error}");
}

#[test]
fn a_file_is_lines_of_keys_and_values() {
    let settings = of_file("# mine\nstreamlets: 4\nauto_create: false\nmemory: 1GiB\n").unwrap();
    assert_eq!(settings.broker.partitions, 4);
    assert!(!settings.broker.auto_create);
    assert_eq!(settings.log.memory_bytes, ByteSize(1 << 30));
    assert!(of_file("").is_ok() && of_file("# nothing\n").is_ok());
    for (text, want) in [
        ("- data\n", "a list stands here"),
        ("data: a\ndata: b\n", "node.yaml:2:1: error:"),
        ("data: [\n", "node.yaml:"),
        ("data:\n", "nothing stands here"),
    ] {
        let error = of_file(text).unwrap_err();
        assert!(error.contains(want), "{text}: {error}");
    }
    assert!(of_file(&"a".repeat(5 << 20)).unwrap_err().contains("too long"));
}

#[test]
fn the_documentation_has_the_table() {
    let page = include_str!("../../../../../docs/serve.md");
    let table = markdown();
    assert!(page.contains(&table), "docs/serve.md must hold this, word for word:\n\n{table}");
}

#[test]
fn a_misspelt_variable_is_known_and_those_of_others_are_left_alone() {
    let meant = |name: &str| misspelt_variable(name);
    assert_eq!(meant("TIDEMILL_HTTP_LISTNE").as_deref(), Some("TIDEMILL_HTTP_LISTEN"));
    assert_eq!(meant("TIDEMILL_DATE").as_deref(), Some("TIDEMILL_DATA"));
    assert_eq!(meant("TIDEMILL_CONFG").as_deref(), Some("TIDEMILL_CONFIG"));
    let others = ["DATASETS", "BIN", "VENV", "SERVE", "PORT", "SERVICE_HOST", "HTTP", "BOOTSTRAP"];
    for name in others.into_iter().chain(["LOG", "CONFIG", "PORT_9092_TCP_ADDR"]) {
        assert_eq!(meant(&format!("TIDEMILL_{name}")), None, "{name}");
    }
    for setting in settings() {
        assert_eq!(meant(&setting.variable()), None, "{}", setting.variable());
    }
    assert_eq!(meant("HTTP_LISTNE"), None);
}

/// Whoever exports a variable for a script must not move a node's data with it.
#[test]
fn scripts_and_settings_have_no_variable_in_common() {
    let scripts = [
        include_str!("../../../../../examples/fetch-data.sh"),
        include_str!("../../../../../tests/oracle/run.sh"),
        include_str!("../../../../../tests/suite.sh"),
        include_str!("../../../../../Makefile"),
    ];
    let is_part = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let words = |text: &'static str| text.split(move |it| !is_part(it));
    let used: Vec<&str> = scripts.into_iter().flat_map(words).collect();
    assert!(used.contains(&"TIDEMILL_DATASETS") && used.contains(&"TIDEMILL_BIN"));
    for setting in settings() {
        assert!(!used.contains(&setting.variable().as_str()), "{}", setting.variable());
    }
}
